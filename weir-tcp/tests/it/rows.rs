//! Rows for single rules: one transfer over a simple path each, and what is expected of it.

use crate::path::{CLIENT, Path, SERVER};
use weir_core::units::{Bytes, Duration};
use weir_tcp::{Config, Congestion, InitialWindow, SlowStart};

fn millis(time: Duration) -> u64 {
    time.as_nanos() / 1_000_000
}

/// A configuration without timestamps, whose segments are of 1460 bytes.
fn plain() -> Config {
    Config { timestamps: false, ..Config::linux() }
}

/// Sends segments over a path of 20 ms there and back; returns how many left, and how long it took.
fn took(config: &Config, segments: u64, lost: &[u64]) -> (usize, u64) {
    let mut path = Path::new(config, Duration::from_millis(10)).open();
    path.directions[CLIENT].lost = lost.to_vec();
    let time = path.transfer(segments * 1460);
    let count = path.sent.iter().filter(|sent| sent.segment.length > 0).count();
    (count, millis(time))
}

#[test]
fn flights_of_a_new_connection_double() {
    let mut path = Path::new(&plain(), Duration::from_millis(10)).open();
    path.transfer(40_000);
    let flights = path.flights();
    let counts: Vec<usize> = flights.values().map(Vec::len).collect();
    assert_eq!(counts, [10, 18]);
    let lengths: Vec<u32> = flights.into_values().flatten().collect();
    assert!(lengths[..27].iter().all(|length| *length == 1460), "{lengths:?}");
}

#[test]
fn a_connection_may_begin_with_less_and_grow_by_acknowledgements() {
    let rows = [
        (InitialWindow::Bytes(Bytes::new(2048)), SlowStart::Acks, &[2, 4, 8][..]),
        (InitialWindow::Segments(4), SlowStart::Bytes { limit: None }, &[4, 8, 16]),
    ];
    for (initial_window, slow_start, expected) in rows {
        let congestion = Congestion::Reno;
        let config = Config { initial_window, slow_start, congestion, ..plain() };
        let mut path = Path::new(&config, Duration::from_millis(10)).open();
        path.transfer(60_000);
        let counts: Vec<usize> = path.flights().values().map(Vec::len).collect();
        assert_eq!(counts[..3], *expected, "{counts:?}");
    }
}

#[test]
fn selective_acknowledgements_repair_a_flight_in_one_round_trip() {
    let (whole, sound) = took(&plain(), 40, &[]);
    assert_eq!(whole, 40);
    for lost in [&[13][..], &[13, 14, 15], &[10, 12, 14, 16, 18], &[10, 11, 24]] {
        let (sent, time) = took(&plain(), 40, lost);
        assert_eq!(sent, 40 + lost.len(), "{lost:?}");
        assert!(time <= sound + 45, "{lost:?}: {time}, {sound}");
    }
}

/// A receiver holds acknowledgements back while many gaps are open, but none whose blocks would
/// never be told otherwise.
#[test]
fn thinned_acknowledgements_hide_no_block() {
    let mut path = Path::new(&plain(), Duration::from_millis(20)).open();
    path.directions[CLIENT].nanos_per_byte = 80;
    let lost: Vec<u64> = (90..160).step_by(2).collect();
    path.directions[CLIENT].lost.clone_from(&lost);
    path.transfer(400 * 1460);
    let sent = path.sent.iter().filter(|sent| sent.segment.length > 0).count();
    assert_eq!(sent, 400 + lost.len());
}

#[test]
fn a_lost_tail_is_probed_for() {
    let (_, sound) = took(&plain(), 40, &[]);
    let (sent, probed) = took(&plain(), 40, &[37, 38, 39]);
    assert_eq!(sent, 43);
    assert!(probed < sound + 160, "{probed}, {sound}");
    let (sent, alone) = took(&plain(), 40, &[39]);
    assert_eq!(sent, 41);
    assert!(alone < sound + 300, "{alone}, {sound}");
}

#[test]
fn without_sack_each_loss_takes_a_round_trip() {
    let config = Config { sack: false, congestion: Congestion::Reno, ..plain() };
    let (_, sound) = took(&config, 40, &[]);
    let (sent, time) = took(&config, 40, &[13]);
    assert!(sent <= 42 && time <= sound + 60, "{sent} {time} {sound}");
    let (_, slow) = took(&config, 40, &[10, 12, 14]);
    assert!(slow >= sound + 40, "{slow} {sound}");
}

/// Sends 6000 segments over a path of 20 ms there and back, which loses segment 300 and what repairs
/// it before a timeout does; returns how many leave when the acknowledgement of the repair comes.
fn burst_after_a_timeout(config: &Config) -> usize {
    let mut lost = vec![300];
    loop {
        let mut path = Path::new(config, Duration::from_millis(10)).open();
        path.directions[CLIENT].lost.clone_from(&lost);
        path.transfer(6000 * 1460);
        let data = path.sent.iter().filter(|sent| sent.side == CLIENT && sent.segment.length > 0);
        let data: Vec<_> = data.enumerate().collect();
        let seq = data[300].1.segment.seq;
        let repairs = data.iter().filter(|row| row.1.segment.seq == seq).skip(1);
        let (number, last) = *repairs.last().expect("it is sent again");
        // Between a loss and a timeout passes more than ten round trips.
        let before = data[..number].last().map_or(last.at, |row| row.1.at);
        if millis(last.at.since(before)) >= 190 {
            let next = last.at.after(Duration::from_millis(20));
            return data.iter().filter(|row| row.1.at >= last.at && row.1.at <= next).count() - 1;
        }
        lost.push(number as u64);
    }
}

#[test]
fn after_a_timeout_an_acknowledgement_of_old_arrivals_lets_no_burst_leave() {
    let buffers = weir_tcp::BufferPolicy { receive: Bytes::new(4 << 20), ..plain().buffers };
    let without = Config { sack: false, congestion: Congestion::Reno, buffers, ..plain() };
    for congestion in [Congestion::Reno, Congestion::Cubic] {
        let burst = burst_after_a_timeout(&Config { congestion, ..without.clone() });
        assert!((1..=4).contains(&burst), "{congestion:?}: {burst} leave");
    }
}

#[test]
fn a_lost_retransmission_is_sent_again_before_a_timeout() {
    let (_, once) = took(&plain(), 200, &[13]);
    let (_, twice) = took(&plain(), 200, &[13, 28]);
    assert!(twice < once + 150, "{twice} {once}");
}

#[test]
fn a_lost_syn_is_sent_again_after_a_second() {
    let mut path = Path::new(&plain(), Duration::from_millis(10));
    path.directions[CLIENT].loss = u64::MAX;
    path.run(Duration::from_millis(500));
    path.directions[CLIENT].loss = 0;
    let path = path.open();
    assert_eq!(path.now.as_nanos(), 1_020_000_000 + 10_000_000);
}

#[test]
fn a_closed_window_is_probed_and_opens() {
    let config = Config {
        buffers: weir_tcp::BufferPolicy {
            receive: Bytes::new(20_000),
            autotuning: false,
            ..Config::linux().buffers
        },
        ..plain()
    };
    let mut path = Path::new(&config, Duration::from_millis(10)).open();
    path.reads = Some(0);
    path.ends[CLIENT].write(100_000);
    path.run(Duration::from_secs(5));
    assert!(path.ends[CLIENT].tcp_info().backoff > 2, "{:?}", path.ends[CLIENT].tcp_info());
    path.reads = None;
    path.run(Duration::from_secs(10));
    assert_eq!(path.received[SERVER], 100_000);
}

#[test]
fn acknowledgements_are_quick_at_first_and_then_every_second_one() {
    let mut path = Path::new(&plain(), Duration::from_millis(10)).open();
    path.directions[CLIENT].nanos_per_byte = 800;
    path.transfer(200 * 1460);
    let acks = path.pure_acks().count();
    assert!((100..130).contains(&acks), "{acks}");
}

#[test]
fn reordering_is_no_loss() {
    let mut path = Path::new(&plain(), Duration::from_millis(10)).open();
    path.directions[CLIENT].nanos_per_byte = 800;
    path.directions[CLIENT].reordering = 1 << 29;
    path.directions[CLIENT].extra = Duration::from_millis(4);
    path.transfer(2_000_000);
    let report = path.ends[CLIENT].report();
    assert!(report.retransmitted() < 60, "{report:?}");
}

#[test]
fn a_spurious_timeout_is_undone() {
    let mut path = Path::new(&plain(), Duration::from_millis(10)).open();
    path.ends[CLIENT].write(50 * 1460);
    path.run(Duration::from_millis(30));
    // The path becomes slower by half a second.
    for direction in &mut path.directions {
        direction.delay = Duration::from_millis(400);
    }
    path.ends[CLIENT].write(50 * 1460);
    path.run(Duration::from_secs(5));
    assert_eq!(path.received[SERVER], 100 * 1460);
    let report = path.ends[CLIENT].report();
    assert!(report.timeouts > 0 && report.undone > 0, "{report:?}");
}

#[test]
fn the_window_shrinks_after_idleness() {
    let mut path = Path::new(&plain(), Duration::from_millis(10)).open();
    path.ends[CLIENT].write(200 * 1460);
    path.run(Duration::from_secs(1));
    let before = path.ends[CLIENT].tcp_info().snd_cwnd;
    path.run(Duration::from_secs(10));
    path.ends[CLIENT].write(1000);
    path.run(Duration::from_millis(100));
    let after = path.ends[CLIENT].tcp_info().snd_cwnd;
    assert!(before > 50 && after == 10, "{before} {after}");
}

#[test]
fn marks_reduce_the_window_without_loss() {
    for (congestion, ecn) in [
        (Congestion::Reno, weir_tcp::EcnMode::Active),
        (Congestion::Cubic, weir_tcp::EcnMode::Active),
        (Congestion::Dctcp, weir_tcp::EcnMode::Active),
        (Congestion::Prague, weir_tcp::EcnMode::Accurate),
        (Congestion::Cubic, weir_tcp::EcnMode::Accurate),
        (Congestion::Bbr, weir_tcp::EcnMode::Accurate),
    ] {
        let config = Config { congestion, ecn, ..plain() };
        let mut path = Path::new(&config, Duration::from_millis(10)).open();
        path.records = false;
        path.directions[CLIENT].nanos_per_byte = 800;
        path.directions[CLIENT].mark_above = Some(15_000);
        path.ends[CLIENT].write_forever();
        path.run(Duration::from_secs(10));
        let report = path.ends[CLIENT].report();
        assert!(report.marks_echoed > 0, "{congestion:?} {report:?}");
        assert_eq!(path.dropped, 0);
        let share = path.received[SERVER] * 8 / 10;
        assert!(share > 8_000_000, "{congestion:?} {share} bit/s");
    }
}

#[test]
fn greedy_flows_fill_a_line_with_every_controller() {
    for congestion in [Congestion::Reno, Congestion::Cubic, Congestion::Bbr] {
        // BBR is not meant to do without SACK.
        for sack in [true, congestion == Congestion::Bbr] {
            let config = Config { congestion, sack, ..plain() };
            let mut path = Path::new(&config, Duration::from_millis(10)).open();
            path.records = false;
            path.directions[CLIENT].nanos_per_byte = 800;
            path.directions[CLIENT].queue = 30_000;
            path.ends[CLIENT].write_forever();
            path.run(Duration::from_secs(20));
            let share = path.received[SERVER] * 8 / 20;
            let report = path.ends[CLIENT].report();
            assert!(share > 8_500_000, "{congestion:?} {sack} {share} bit/s {report:?}");
        }
    }
}

/// With 255 retries, which stand for no limit, a sender goes on for ever, once in two minutes.
#[test]
fn without_a_limit_no_connection_is_given_up() {
    let mut config = plain();
    (config.retries.syn, config.retries.data) = (u8::MAX, u8::MAX);
    for opens in [false, true] {
        let mut path = Path::new(&config, Duration::from_millis(10));
        if opens {
            path = path.open();
            path.ends[CLIENT].write(1000);
        }
        path.directions[CLIENT].loss = 1 << 32;
        path.run(Duration::from_secs(40 * 3600));
        let before = path.sent.len();
        path.run(Duration::from_secs(1200));
        assert_eq!(path.sent.len() - before, 10, "{opens}: {before} before");
    }
}
