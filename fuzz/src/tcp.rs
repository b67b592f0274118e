//! Target `tcp`: an endpoint of TCP gets any segments, near to plausible ones, at any times.

use crate::draw::Draw;
use weir_core::units::{Duration, Instant};
use weir_tcp::{
    AccEcn, Config, Congestion, Ecn, EcnMode, Endpoint, Flags, Options, Profile, SackBlock,
    SackBlocks, Segment, SeqNumber, Timestamps,
};

/// Reads the input as a configuration and calls of an endpoint.
///
/// # Panics
/// If the endpoint does, if it emits without end, or if its counts contradict each other.
pub fn tcp(input: &[u8]) {
    let mut draw = Draw::new(input);
    let config = config(&mut draw);
    let initial = SeqNumber(draw.wide(0, u64::from(u32::MAX)) as u32);
    let mut now = Instant::ZERO;
    let mut endpoint = if draw.one_in(2) {
        Endpoint::connect(&config, now, initial)
    } else {
        Endpoint::listen(&config, initial)
    };
    // The segment that the endpoint sent last: drawn segments are near to its numbers.
    let mut last = Segment::default();
    while !draw.is_done() {
        match draw.byte() % 12 {
            0 => now = now.after(Duration::from_nanos(draw.wide(1, 1 << 40))),
            1 => now = now.max(endpoint.next_wake().unwrap_or(now)),
            2 => drop(endpoint.write(draw.wide(1, 1 << 24))),
            3 => drop(endpoint.read(draw.wide(1, 1 << 24))),
            4 if draw.one_in(8) => endpoint.close(),
            5 if draw.one_in(8) => endpoint.write_forever(),
            6 if draw.one_in(32) => endpoint.abort(),
            7 => endpoint.set_options(Options { no_delay: draw.one_in(2), cork: draw.one_in(4) }),
            8 => endpoint.departed(draw.wide(0, 1 << 20) as u32),
            _ => endpoint.receive(now, &segment(&mut draw, &last)),
        }
        endpoint.wake(now);
        let mut emitted = 0;
        while let Some(segment) = endpoint.emit(now) {
            last = segment;
            emitted += 1;
            assert!(segment.header_len() <= 60, "a header has room for 40 bytes of options");
            assert!(emitted < EMITTED_MAX, "the endpoint emits without end");
        }
        check(&endpoint);
    }
}

fn check(endpoint: &Endpoint) {
    let info = endpoint.tcp_info();
    assert!(info.sacked + info.lost <= info.unacked, "{info:?}");
    assert!(info.retrans <= info.unacked, "{info:?}");
    assert!(info.snd_cwnd > 0, "{info:?}");
}

fn config(draw: &mut Draw<'_>) -> Config {
    let mut config = Profile::ALL[draw.index(Profile::ALL.len())].config();
    config.congestion = [
        Congestion::None,
        Congestion::Reno,
        Congestion::Cubic,
        Congestion::Bbr,
        Congestion::Dctcp,
        Congestion::Prague,
    ][draw.index(6)];
    config.ecn =
        [EcnMode::Off, EcnMode::Active, EcnMode::Accurate, EcnMode::AccuratePassive][draw.index(4)];
    config.limits.burst = draw.wide(1, 64) as u32;
    config.limits.pacing = draw.one_in(4);
    config.recovery.rack &= !draw.one_in(4);
    config
}

/// Draws a segment whose numbers are near to those of `last`, which the endpoint sent.
fn segment(draw: &mut Draw<'_>, last: &Segment) -> Segment {
    let near = |number: SeqNumber, draw: &mut Draw<'_>| match draw.byte() % 4 {
        0 | 1 => number,
        2 => number.at(draw.wide(0, 1 << 20)),
        _ => number.at(draw.wide(0, u64::from(u32::MAX)).wrapping_neg()),
    };
    let sent = last.seq.at(last.sequence_len());
    let mut sack = SackBlocks::new();
    for _ in 0..draw.index(5) {
        let start = near(last.seq, draw);
        sack.push(SackBlock { start, end: start.at(draw.wide(0, 1 << 16)) });
    }
    let mut flags = Flags(draw.byte().into());
    if draw.one_in(2) {
        flags = Flags::ACK.with(Flags::SYN, last.flags.has(Flags::SYN));
    }
    let stamps =
        Timestamps { value: draw.wide(0, 1 << 32) as u32, echo: draw.wide(0, 1 << 32) as u32 };
    Segment {
        seq: near(last.ack, draw),
        ack: near(sent, draw),
        flags,
        window: draw.wide(0, 0xffff) as u16,
        length: draw.wide(0, 1 << 17) as u32,
        mss: draw.wide(0, 0xffff) as u16,
        mss_option: draw.one_in(2).then_some(draw.wide(0, 0xffff) as u16),
        window_scale: draw.one_in(2).then_some(draw.byte()),
        sack_permitted: !draw.one_in(4),
        timestamps: draw.one_in(2).then_some(stamps),
        sack,
        ecn: [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][draw.index(4)],
        acc_ecn: draw.one_in(3).then_some(AccEcn {
            ect0: draw.wide(0, 0xff_ffff) as u32,
            ce: draw.wide(0, 0xff_ffff) as u32,
            ect1: draw.wide(0, 0xff_ffff) as u32,
            fields: draw.byte() % 4,
            ect1_first: draw.one_in(2),
        }),
        again: None,
    }
}

/// The largest window of the smallest segments, and retransmissions of all.
const EMITTED_MAX: u32 = 60_000_000;
