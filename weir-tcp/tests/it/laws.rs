//! Laws on random paths: every byte arrives once and in order, nothing is acknowledged that did not
//! arrive, the flight stays within the windows, no connection hangs, one seed is one run.
//!
//! `WEIR_LAWS` is the number of paths, by default 100; `WEIR_SEED` the first seed in hexadecimal.

use crate::path::{CLIENT, Path, SERVER};
use weir_core::random::Random;
use weir_core::units::{Bytes, Duration};
use weir_tcp::{Config, Congestion, EcnMode, Endpoint, Profile, State};

fn number(name: &str, radix: u32) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(u64::from_str_radix(&text, radix).expect("the variable is a number"))
}

fn seeds() -> impl Iterator<Item = u64> {
    let first = number("WEIR_SEED", 16).unwrap_or(0);
    (0..number("WEIR_LAWS", 10).unwrap_or(100)).map(move |number| first.wrapping_add(number))
}

fn config(random: &mut Random) -> Config {
    let mut config = Profile::ALL[random.below(4) as usize].config();
    let congestions = [
        Congestion::None,
        Congestion::Reno,
        Congestion::Cubic,
        Congestion::Bbr,
        Congestion::Dctcp,
        Congestion::Prague,
    ];
    config.congestion = congestions[random.below(6) as usize];
    let modes = [EcnMode::Off, EcnMode::Passive, EcnMode::Active, EcnMode::Accurate];
    config.ecn = modes[random.below(4) as usize];
    config.sack &= random.below(4) > 0;
    config.timestamps &= random.below(3) > 0;
    config.recovery.rack &= random.below(3) > 0;
    config.recovery.prr &= random.below(3) > 0;
    config.nagle = random.below(2) > 0;
    config.limits.pacing = random.below(4) == 0;
    config.limits.burst = 1 + random.below(3) * 8;
    if random.below(3) == 0 {
        config.buffers.receive = Bytes::new(2000 + u64::from(random.below(20_000)));
        config.buffers.autotuning = false;
    }
    config
}

/// Returns a path that the seed makes, with its transfer.
fn path(seed: u64) -> (Path, u64) {
    let mut random = Random::new(seed, 1);
    let configs = [config(&mut random), config(&mut random)];
    let delay = Duration::from_micros(u64::from(random.below(50_000)));
    let mut path = Path::between([&configs[0], &configs[1]], delay);
    path.random = Random::new(seed, 2);
    let of_1000 = |share: u32| u64::from(share) * (1 << 32) / 1000;
    for side in [CLIENT, SERVER] {
        let direction = &mut path.directions[side];
        direction.loss = of_1000([0, 1, 10, 50, 150][random.below(5) as usize]);
        direction.duplication = of_1000(random.below(3) * 20);
        direction.marking = of_1000(random.below(3) * 20);
        direction.reordering = of_1000(random.below(3) * 50);
        direction.extra = Duration::from_millis(u64::from(random.below(60)));
        if random.below(2) == 0 {
            direction.nanos_per_byte = u64::from(1 + random.below(10_000));
            direction.queue = u64::from(3_000 + random.below(200_000));
        }
    }
    if random.below(3) == 0 {
        path.reads = Some(u64::from(random.below(3000)) + 1);
    }
    (path, u64::from(1 + random.below(300_000)))
}

#[test]
fn every_byte_arrives_once_and_no_connection_hangs() {
    let (mut whole, mut all) = (0, 0);
    for seed in seeds() {
        let (mut path, bytes) = path(seed);
        path.records = false;
        let outcome = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            transfer_with_checks(&mut path, bytes);
        }));
        assert!(outcome.is_ok(), "seed {seed:x} fails");
        all += 1;
        whole += u64::from(path.received[SERVER] == bytes);
    }
    println!("{whole} of {all} transfers came whole");
    assert!(whole * 100 >= all * 95, "{whole} of {all}");
}

/// Transfers, and checks the laws at each step.
fn transfer_with_checks(path: &mut Path, bytes: u64) {
    let (mut left, mut steps) = (bytes, 0u64);
    loop {
        left -= path.ends[CLIENT].write(left);
        if left == 0 && path.ends[CLIENT].state() > State::SynSent {
            path.ends[CLIENT].close();
        }
        if path.ends[SERVER].is_finished() {
            path.ends[SERVER].close();
        }
        path.settle();
        check(path);
        steps += 1;
        let readable = path.ends[SERVER].readable() > 0;
        let over = !path.step(weir_core::units::Instant::MAX) && !readable;
        if over || steps > 2_000_000 {
            break;
        }
    }
    // A handshake or a close may be given up when most segments are lost, but no data may hang.
    let given_up = path.ends.iter().any(|end| end.report().timeouts > 10);
    assert!(
        path.received[SERVER] == bytes || given_up || path.ends[CLIENT].acknowledged() == 0,
        "{} of {bytes} after {steps} steps: {:?}",
        path.received[SERVER],
        path.ends
    );
}

fn check(path: &Path) {
    let [client, server] = &path.ends;
    let arrived = path.received[SERVER] + server.readable();
    assert!(client.acknowledged() <= arrived + 2, "acknowledged what did not arrive");
    for end in &path.ends {
        let info = end.tcp_info();
        assert!(info.sacked + info.lost <= info.unacked, "{info:?}");
        assert!(info.retrans <= info.unacked, "{info:?}");
    }
}

#[test]
fn one_seed_is_one_run() {
    for seed in 0..10 {
        let run = || {
            let (mut path, bytes) = path(seed);
            path.ends[CLIENT].write(bytes);
            path.run(Duration::from_secs(5));
            path.sent
        };
        assert_eq!(run(), run(), "seed {seed}");
    }
}

#[test]
fn the_flight_stays_within_the_receivers_window() {
    for seed in seeds().take(100) {
        let (mut path, bytes) = path(seed);
        path.ends[CLIENT].write(bytes);
        path.run(Duration::from_secs(3));
        let mut scale = 0;
        let mut edge = 0i64;
        let base = i64::from(u32::MAX - 20_000);
        for sent in &path.sent {
            let segment = &sent.segment;
            if sent.side == SERVER {
                if let Some(shift) = segment.window_scale {
                    scale = shift;
                }
                let syn = segment.flags.has(weir_tcp::Flags::SYN);
                let shift = if syn { 0 } else { scale };
                let ack = segment.ack.position(weir_tcp::SeqNumber(base as u32), 1 << 20);
                let ack = ack.unwrap_or(0) as i64;
                edge = edge.max(ack + (i64::from(segment.window) << shift));
            } else if segment.length > 0 {
                let seq = segment.seq.position(weir_tcp::SeqNumber(base as u32), 1 << 20);
                let end = seq.unwrap_or(0) as i64 + i64::from(segment.length);
                assert!(end <= edge, "seed {seed:x}: {end} > {edge}");
            }
        }
    }
}

#[test]
fn an_endpoint_is_small() {
    let size = core::mem::size_of::<Endpoint>();
    println!("an endpoint has {size} bytes");
    assert!(size <= 1500, "{size}");
}
