//! Throughput under random loss beside the formulas of theory.

use crate::path::{CLIENT, Path, SERVER};
use weir_core::random::Random;
use weir_core::units::{Bytes, Duration};
use weir_tcp::{Config, Congestion};

/// Returns the segments a second of a greedy flow that loses one in `one_in`, at regular intervals
/// as the formulas assume, over a round trip of 50 ms; the receiver acknowledges every segment.
fn rate(congestion: Congestion, one_in: u64, seconds: u64) -> f64 {
    let mut config = Config { congestion, timestamps: false, ..Config::linux() };
    config.acks.delay = None;
    config.cubic.hystart = None;
    config.buffers.receive = Bytes::new(3 << 20);
    let mut path = Path::new(&config, Duration::from_millis(25)).open();
    path.records = false;
    path.random = Random::new(one_in, 7);
    path.directions[CLIENT].loss = (1 << 32) / one_in;
    path.ends[CLIENT].write_forever();
    path.run(Duration::from_secs(seconds / 5));
    let before = path.received[SERVER];
    path.run(Duration::from_secs(seconds));
    (path.received[SERVER] - before) as f64 / 1460.0 / seconds as f64
}

/// One loss in so many segments, and how many seconds are simulated.
const ROWS: [[u64; 2]; 3] = [[100, 500], [1000, 1000], [10_000, 3000]];

/// Returns the rows: on a change the first, and all with `WEIR_LAWS` as `cargo xtask figures laws`
/// has.
fn rows() -> impl Iterator<Item = [u64; 2]> {
    let laws = std::env::var("WEIR_LAWS").ok().and_then(|text| text.parse().ok());
    ROWS.into_iter().take(if laws.unwrap_or(100) >= 10_000 { 3 } else { 1 })
}

/// [mathis97]: 1.22 / (RTT √p). DCTCP answers losses as Reno does [rfc8257 §3.5].
#[test]
fn reno_is_as_fast_as_the_formula_says() {
    for [one_in, seconds] in rows() {
        let expected = 1.22 / (0.05 * (1.0 / one_in as f64).sqrt());
        for congestion in [Congestion::Reno, Congestion::Dctcp] {
            let found = rate(congestion, one_in, seconds);
            println!("{congestion:?}: one in {one_in}: {found:.1}, formula {expected:.1}");
            let is_near = (0.9..1.1).contains(&(found / expected));
            assert!(is_near, "{congestion:?} {one_in}: {found} {expected}");
        }
    }
}

/// [rfc9438 §5.2]: 1.054 (C RTT³ / p³)^¼ / RTT, or Reno's where that is more. Windows of
/// a dozen segments, rounded down to 0.7 of themselves, take a tenth off at one loss in 100.
#[test]
fn cubic_is_as_fast_as_the_formula_says() {
    for [one_in, seconds] in rows() {
        let p = 1.0 / one_in as f64;
        let cubic = (0.4f64 * 3.7 / 1.2).powf(0.25) * (0.05f64 / p).powf(0.75) / 0.05;
        let reno = 1.22 / (0.05 * p.sqrt());
        let expected = cubic.max(reno);
        let found = rate(Congestion::Cubic, one_in, seconds);
        println!("cubic: one in {one_in}: {found:.1}, formula {expected:.1} segments/s");
        assert!((0.85..1.15).contains(&(found / expected)), "{one_in}: {found} {expected}");
    }
}
