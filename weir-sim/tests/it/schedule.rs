//! A schedule gives the instants and lengths that a source offers to a link in a run.

use std::io;
use std::path::Path;
use weir_core::units::Instant;
use weir_sim::schedule::Schedule;
use weir_sim::watch::{Fate, Watch};
use weir_sim::{read, run_watched};

/// A source with these keys offers to a fast link what its schedule says, and nothing else.
fn check(keys: &str) {
    let text = format!(
        "duration = \"2 s\"\nseed = 7\n[policy]\nlink = {{ rate = \"10 Gbit/s\", scheduler = \
         \"fifo\" }}\nclass.all = {{ default = true }}\n\
         [[source]]\nname = \"it\"\n{keys}\n"
    );
    let none = |_: &Path| -> io::Result<Vec<u8>> { Err(io::ErrorKind::NotFound.into()) };
    let outcome = read::parse(text.as_bytes(), "schedule", &none);
    let scenario = outcome.plan.unwrap_or_else(|| panic!("{keys}: {:?}", outcome.findings));
    let mut offered = Vec::new();
    let mut tell = |fate: &Fate<'_>| offered.push((fate.arrived, fate.length));
    let watch = Watch { packets: Some(&mut tell), ..Watch::default() };
    run_watched(&scenario, watch, &mut |_| {}).expect("it runs");
    let Schedule::Packets(packets) = Schedule::new(scenario.seed, &scenario.sources[0]) else {
        panic!("{keys}: it sends packets");
    };
    let end = Instant::ZERO.after(scenario.duration);
    let scheduled = packets.map(|sending| (sending.at, sending.length));
    let scheduled: Vec<_> = scheduled.take_while(|sending| sending.0 < end).collect();
    // What has not left the link when the run ends is not told.
    let last = scheduled.len() - offered.len();
    assert!(last <= 2 && offered.len() > 30, "{keys}: {last} of {}", scheduled.len());
    assert_eq!(offered, scheduled[..offered.len()], "{keys}");
}

#[test]
fn a_schedule_is_what_a_run_offers() {
    check("kind = \"cbr\"\nrate = \"3 Mbit/s\"\nsize = \"999 B\"\njitter = \"40 %\"");
    check("kind = \"cbr\"\ninterval = \"1 ms\"\npayload = \"160 B\"\nstart = \"300 ms\"");
    check("kind = \"poisson\"\nrate = \"3 Mbit/s\"\nsize = \"200 B\"");
    let on_off = "on = \"30 ms\"\noff = \"20 ms\"\ndistribution = \"pareto\"";
    check(&format!("kind = \"on-off\"\nrate = \"9 Mbit/s\"\nsize = \"200 B\"\n{on_off}"));
    check("kind = \"voip\"");
    check("kind = \"video\"");
    check("kind = \"nttcp\"\nlength = \"8192 B\"");
    check("kind = \"probe\"");
}

/// The transfers of a TCP source are those that it completes in a run.
#[test]
fn transfers_are_those_of_a_run() {
    const SECONDS: u64 = 20;
    let text = format!(
        "duration = \"{SECONDS} s\"\nseed = 7\n[policy]\nlink = {{ rate = \"1 Gbit/s\", scheduler \
         = \"fifo\" }}\nclass.all = {{ default = true }}\n[[source]]\nname = \"it\"\nkind = \
         \"ftp\"\nfiles = 5\nfile = \"200 KB\"\nfile_shape = 1.5\npause = \"100 ms\"\n"
    );
    let none = |_: &Path| -> io::Result<Vec<u8>> { Err(io::ErrorKind::NotFound.into()) };
    let outcome = read::parse(text.as_bytes(), "schedule", &none);
    let scenario = outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.findings));
    let report = run_watched(&scenario, Watch::default(), &mut |_| {}).expect("it runs");
    let Schedule::Transfers(transfers) = Schedule::new(scenario.seed, &scenario.sources[0]) else {
        panic!("it transfers");
    };
    let sizes: Vec<_> = transfers.filter_map(|turn| turn.bytes).collect();
    let scheduled: u64 = sizes.iter().map(|bytes| bytes.get()).sum();
    let received = report.sources[0].goodput_bps * SECONDS / 8;
    assert_eq!(sizes.len(), 5);
    // The report rounds the rate down.
    assert!((received..=received + SECONDS).contains(&scheduled), "{scheduled}, not {received}");
}
