//! The soak: a fault every few seconds under changing load, for the whole time. Afterwards nothing
//! is unaccounted for, memory has not grown, no gap lies outside the faults, and the log says of
//! each fault once when it began, when it ended and what it cost.

use super::canary::{Canary, Pause, without};
use super::link::{self, DISK_BYTES, Service, text};
use super::rest::status_value;
use super::row;
use super::told::{self, Pair, Tally, Told};
use crate::rows::{Options, Row};
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};
use weir_host::netlink::Netlink;
use weir_host::wait::monotonic_ns;
use weir_link::status::Status;
use weir_testbed::{Found, Gap, Host, RIGHT, Scene, signal, until};

pub(super) const NAME: &str = "soak";

/// A fault, and what the log is to say of it.
struct Fault {
    name: &'static str,
    inject: fn(&Scene) -> Result<(), String>,
    /// The events that begin and end it.
    pair: Option<Pair>,
    /// An event without an end, and how many of them.
    once: Option<(&'static str, u64)>,
    /// Whether frames may be missing while it lasts.
    stops_traffic: bool,
}

const DOWN: Pair = ("port-down", "port-up");
const STALL: Pair = ("stall", "stall-over");
const GONE: Option<Pair> = Some(("port-gone", "port-back"));

const FAULTS: &[Fault] = &[
    Fault {
        name: "a port is set down and up",
        inject: set_down_and_up,
        pair: Some(DOWN),
        once: None,
        stops_traffic: true,
    },
    Fault {
        name: "the MTU changes and changes back",
        inject: change_mtu,
        pair: None,
        once: Some(("mtu-changed", 2)),
        stops_traffic: true,
    },
    Fault {
        name: "the forwarder is stopped for a moment",
        inject: stall,
        pair: Some(STALL),
        once: None,
        stops_traffic: true,
    },
    Fault {
        name: "control clients hang",
        inject: hang_clients,
        pair: None,
        once: None,
        stops_traffic: false,
    },
    Fault {
        name: "an interface is deleted and made anew",
        inject: delete_and_make,
        pair: GONE,
        once: None,
        stops_traffic: true,
    },
    Fault {
        name: "a port is set down while the disk of the log is full",
        inject: fill_disk,
        pair: Some(DOWN),
        once: None,
        stops_traffic: true,
    },
];

/// Loads in turn: datagrams a second, and the bytes of each. The last is more than the link carries.
const LOADS: [(u32, usize); 4] = [(2000, 200), (12_000, 200), (0, 200), (20_000, 1000)];

/// A time in which a fault may cost frames.
#[derive(Clone, Copy)]
struct Window {
    from_ns: u64,
    to_ns: u64,
}

/// The records of the whole soak.
struct Seen {
    windows: Vec<Window>,
    /// How often each of [`FAULTS`] was.
    injected: [u64; FAULTS.len()],
    /// Resident kB of both processes, in order of time.
    memory: Vec<u64>,
    told: Vec<Told>,
    log: String,
    probe: Found,
    load: Found,
    pauses: Vec<Pause>,
    status: Status,
}

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(Row)) -> Result<(), String> {
    let seen = measure(options.duration)?;
    traffic(&seen, tell);
    balance(&seen.status, tell);
    memory(&seen.memory, tell);
    for (fault, injected) in FAULTS.iter().zip(seen.injected) {
        log(fault, injected, &seen, tell);
    }
    log_file(&seen, tell);
    let refused = told::count(&seen.told, "call-refused");
    let shown = format!("{refused} events");
    tell(row(format!("{NAME}: refused system calls"), shown, "none", refused == 0));
    Ok(())
}

fn measure(duration: Duration) -> Result<Seen, String> {
    let mut link = link::start(Service::default())?;
    let (mut windows, mut memory) = (Vec::new(), Vec::new());
    let mut injected = [0; FAULTS.len()];
    let canary = Canary::start()?;
    let (probe, load) = (link::probe(&link)?, link::load(&link, LOADS[0])?);
    let start = Instant::now();
    let processes = [link.keeper()?, link.forwarder()?];
    let mut turn = 0;
    while start.elapsed() < duration {
        let (per_second, length) = LOADS[turn % LOADS.len()];
        load.change(per_second, length);
        thread::sleep(CALM);
        let resident = processes.map(|process| status_value(process, "VmRSS"));
        memory.push(resident.into_iter().sum::<Result<u64, _>>()?);
        let index = turn % FAULTS.len();
        let fault = &FAULTS[index];
        let from_ns = monotonic_ns();
        (fault.inject)(&link).map_err(|why| format!("{}: {why}", fault.name))?;
        injected[index] += 1;
        if fault.stops_traffic {
            windows.push(Window { from_ns, to_ns: monotonic_ns() + RECOVERY_NS });
        }
        turn += 1;
    }
    load.change(0, 200);
    await_last(&link, &injected);
    let (probe, load) = (link::end(probe)?, link::end(load)?);
    let (pauses, log) = (canary.finish()?, await_written(&link)?);
    let status = link::stop(&mut link)?;
    let told = link::told(&link);
    Ok(Seen { windows, injected, memory, told, log, probe, load, pauses, status })
}

/// Reports the losses of the probe and the load.
fn traffic(seen: &Seen, tell: &mut dyn FnMut(Row)) {
    let Seen { probe, load, windows, pauses, .. } = seen;
    let twice = probe.repeated + load.repeated;
    let sent = probe.sent + load.sent;
    tell(row(format!("{NAME}: frames twice"), format!("{twice} of {sent}"), "0", twice == 0));
    let tried = probe.sent + probe.refused;
    let lost = format!("{} of {tried} lost in the faults", tried - probe.arrived);
    tell(Row::shown(format!("{NAME}: probe of 1 kHz"), lost));
    let overlaps = |gap: &Gap, one: &Window| gap.from_ns < one.to_ns && one.from_ns < gap.to_ns;
    let in_fault = |gap: &Gap| windows.iter().any(|one| overlaps(gap, one));
    let gaps = probe.gaps(GAP_LEAST);
    let outside: Vec<&Gap> = gaps.iter().filter(|gap| !in_fault(gap)).collect();
    let ms = |ns: u64| ns as f64 / 1e6;
    let raw = outside.iter().map(|gap| gap.to_ns - gap.from_ns).max().unwrap_or_default();
    tell(Row::shown(
        format!("{NAME}: longest gap outside the faults, with the system's own pauses"),
        format!("{:.1} ms", ms(raw)),
    ));
    let longest = outside.iter().map(|gap| without(gap, pauses)).max().unwrap_or_default();
    let subject = format!("{NAME}: longest gap outside the faults");
    tell(Row::at_most(subject, ms(longest), GAP_MS, "ms"));
}

/// docs/status.md, "How the counts balance".
fn balance(status: &Status, tell: &mut dyn FnMut(Row)) {
    let classes = || status.lanes.iter().flat_map(|lane| &lane.classes);
    let of = |causes: &[(String, u64)], names: &[&str]| -> u64 {
        let wanted = causes.iter().filter(|(cause, _)| names.contains(&cause.as_str()));
        wanted.map(|(_, frames)| frames).sum()
    };
    let offered: u64 = classes().map(|class| class.offered.packets).sum();
    let accounted: u64 = classes()
        .map(|class| {
            let dropped: u64 = class.dropped.iter().map(|(_, amount)| amount.packets).sum();
            class.sent.packets + dropped + class.backlog.packets
        })
        .sum();
    let shown = format!("{offered} offered, {accounted} accounted for");
    tell(row(format!("{NAME}: conserved in the classes"), shown, "equal", offered == accounted));
    let received: u64 = status.ports.iter().map(|port| port.received).sum();
    let lost: u64 = classes().map(|class| of(&class.lost, &["pool", "stale on arrival"])).sum();
    let kept: u64 = status
        .ports
        .iter()
        .map(|port| of(&port.kept, &["local", "for the host", "reserved", "no way"]))
        .sum();
    let accounted = offered + lost + kept;
    let shown = format!("{received} received, {accounted} accounted for");
    tell(row(format!("{NAME}: conserved at the ports"), shown, "equal", received == accounted));
}

/// The memory of the second half of the time is that of the first.
fn memory(samples: &[u64], tell: &mut dyn FnMut(Row)) {
    let half = samples.len() / 2;
    let most = |part: &[u64]| part.iter().max().copied().unwrap_or_default() as f64;
    let (first, second) = (most(&samples[..half]), most(&samples[half..]));
    let grown = (second - first) / first.max(1.0) * 100.0;
    let subject = format!("{NAME}: growth of resident memory from {:.1} MiB", first / 1024.0);
    tell(Row::at_most(subject, grown, GROWTH_PERCENT, "%"));
}

/// Waits until the log says all of the faults: what came often is told later than the rest.
fn await_last(link: &Scene, injected: &[u64; FAULTS.len()]) {
    let start = Instant::now();
    let is_told = |told: &[Told]| FAULTS.iter().all(|fault| fault.said(told, injected).2);
    while !is_told(&link::told(link)) && start.elapsed() < LAST_ENDS {
        thread::sleep(CALM);
    }
}

impl Fault {
    /// Returns what the log says of this kind of fault, what it should say, and whether it does.
    fn said(&self, told: &[Told], injected: &[u64; FAULTS.len()]) -> (String, String, bool) {
        let sum = |each: &dyn Fn(&Fault) -> u64| -> u64 {
            FAULTS.iter().zip(injected).map(|(fault, times)| each(fault) * times).sum()
        };
        if let Some(pair) = self.pair {
            let wanted = sum(&|fault| u64::from(fault.pair == self.pair));
            let told = &told::without_short(told, pair, least(pair));
            let tally = told::tally(told, pair);
            let Tally { times, open, stray, uncounted } = tally;
            let shown = format!(
                "{times} ({}), {open} open, {stray} stray, {uncounted} uncounted",
                told::durations(told, pair)
            );
            // An interface that is made anew may be seen before it is set up: it is down then.
            let more = if pair == DOWN { sum(&|fault| u64::from(fault.pair == GONE)) } else { 0 };
            let holds = (wanted..=wanted + more).contains(&times)
                && tally == Tally { times, ..Tally::default() };
            return (shown, format!("{wanted} ended"), holds);
        }
        let Some((kind, _)) = self.once else {
            return (String::new(), String::new(), true);
        };
        let of_kind = |fault: &Fault| fault.once.filter(|(of, _)| *of == kind);
        let wanted = sum(&|fault| of_kind(fault).map_or(0, |(_, each)| each));
        let found = told::count(told, kind);
        (format!("{found} events"), format!("{wanted} events"), found == wanted)
    }
}

/// How long a fault is at least if it was injected. The link stands still for a shorter time also
/// while it takes up an interface that was made anew.
fn least(pair: Pair) -> f64 {
    if pair == STALL { SHORT.as_secs_f64() * 0.75 } else { 0.0 }
}

/// Compares the log with a fault that was injected so often. Faults of one kind share a count.
fn log(fault: &Fault, injected: u64, seen: &Seen, tell: &mut dyn FnMut(Row)) {
    let subject = format!("{NAME}: {}, {injected} times", fault.name);
    let (shown, expected, holds) = fault.said(&seen.told, &seen.injected);
    match expected.as_str() {
        "" => tell(Row::shown(subject, "the link goes on".to_owned())),
        expected => tell(row(subject, shown, expected, holds)),
    }
}

/// Each event on standard output is a line of the file, or counted as missing there.
fn log_file(seen: &Seen, tell: &mut dyn FnMut(Row)) {
    let (shown, holds) = compared(&seen.log, &seen.told);
    tell(row(format!("{NAME}: events in the file"), shown, "all", holds));
}

/// Returns how many events of those told are in the file, and whether all are, or are counted.
fn compared(log: &str, told: &[Told]) -> (String, bool) {
    let lines: Vec<Told> = log.lines().map(Told::read).collect();
    let gaps = lines.iter().filter(|line| line.is("log-gap"));
    let missing: u64 = gaps.clone().filter_map(|line| line.line.get("count")?.as_u64()).sum();
    let written = lines.len() as u64 - gaps.count() as u64;
    let is_event = |told: &&Told| told.line.get("severity").is_some() && !told.is("log-gap");
    let before_end = told.iter().filter(is_event).count() as u64;
    let shown = format!("{written} written, {missing} counted as missing, of {before_end}");
    // The end of the link may be told after the file was read.
    (shown, written > 0 && before_end.abs_diff(written + missing) <= LAST_EVENTS)
}

/// Waits until the file has what was told, and returns it: after a full disk the keeper tries again
/// now and then.
fn await_written(link: &Scene) -> Result<String, String> {
    let start = Instant::now();
    loop {
        let log = log_files(link)?;
        if compared(&log, &link::told(link)).1 || start.elapsed() >= LAST_ENDS {
            return Ok(log);
        }
        thread::sleep(CALM);
    }
}

fn set_down_and_up(link: &Scene) -> Result<(), String> {
    let set = |up| Netlink::open_in(&link.testbed.weir)?.set_up(RIGHT, up);
    until_told(link, DOWN.0, || set(false).map_err(text))?;
    thread::sleep(SHORT);
    until_told(link, DOWN.1, || set(true).map_err(text))
}

/// Does something and waits until the log tells of one more event of this kind: what is over sooner
/// may not have been seen.
fn until_told(
    link: &Scene,
    kind: &str,
    act: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let count = || told::count(&link::told(link), kind);
    let before = count();
    act()?;
    until(kind, || count() > before).map_err(text)
}

fn change_mtu(link: &Scene) -> Result<(), String> {
    for mtu in [1400, 1500] {
        let mut netlink = Netlink::open_in(&link.testbed.weir).map_err(text)?;
        until_told(link, "mtu-changed", || netlink.set_mtu(RIGHT, mtu).map_err(text))?;
        thread::sleep(SHORT);
    }
    Ok(())
}

fn stall(link: &Scene) -> Result<(), String> {
    let forwarder = link.forwarder()?;
    signal(forwarder, "STOP")?;
    thread::sleep(SHORT);
    Ok(signal(forwarder, "CONT")?)
}

/// One sends half a request, one reads no answer, one says nothing.
fn hang_clients(link: &Scene) -> Result<(), String> {
    let connect = || UnixStream::connect(link.socket()).map_err(text);
    let (mut half, mut deaf, _silent) = (connect()?, connect()?, connect()?);
    half.write_all(b"{\"call\":").map_err(text)?;
    for _ in 0..200 {
        // Its end may be closed by then.
        drop(deaf.write_all(b"{\"call\":\"status\"}\n"));
    }
    thread::sleep(CALM);
    // Other clients are served meanwhile.
    link.status()?;
    Ok(())
}

fn delete_and_make(link: &Scene) -> Result<(), String> {
    until_told(link, "port-gone", || link.testbed.disconnect(Host::Server).map_err(text))?;
    thread::sleep(SHORT);
    link.testbed.connect(Host::Server).map_err(text)?;
    // The interface is looked for now and then.
    thread::sleep(CALM);
    Ok(())
}

/// Moves the log away and fills the disk, so that there is no room for a new log; something happens
/// meanwhile, and there is room again.
fn fill_disk(link: &Scene) -> Result<(), String> {
    let disk = link::disk(link)?;
    let moved = disk.join(format!("{LOG}-{}", monotonic_ns()));
    fs::rename(disk.join(LOG), moved).map_err(text)?;
    let filler = disk.join("filler");
    // It writes as much as there is room for.
    let mut file = fs::File::create(&filler).map_err(text)?;
    while file.write_all(&[0; 512]).is_ok() {
        let size = file.metadata().map_err(text)?.len();
        assert!(size <= DISK_BYTES as u64, "the disk of the log is small");
    }
    set_down_and_up(link)?;
    thread::sleep(CALM);
    fs::remove_file(&filler).map_err(text)
}

/// Returns the lines of the log, and of those that were moved away.
fn log_files(link: &Scene) -> Result<String, String> {
    let files = fs::read_dir(link::disk(link)?).into_iter().flatten().flatten();
    let logs = files.filter(|file| file.file_name().to_string_lossy().starts_with(LOG));
    Ok(logs.filter_map(|file| fs::read_to_string(file.path()).ok()).collect())
}

const SHORT: Duration = Duration::from_millis(400);
const CALM: Duration = Duration::from_millis(1500);
const LAST_ENDS: Duration = Duration::from_secs(70);
/// After a fault: queues fill again, interfaces are claimed again.
const RECOVERY_NS: u64 = 1_500_000_000;
const GAP_LEAST: Duration = Duration::from_millis(5);
const GAP_MS: f64 = 50.0;
/// The log and what was moved away.
const LOG: &str = "events";
const GROWTH_PERCENT: f64 = 2.0;
const LAST_EVENTS: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_link::status::{Amount, ClassStatus, LaneStatus, PortStatus};

    #[test]
    fn what_is_unaccounted_for_fails() {
        for (sent, received, holds) in
            [(7, 9, [true, true]), (6, 9, [false, true]), (7, 8, [true, false])]
        {
            let class = ClassStatus {
                offered: Amount { packets: 7, ..Amount::default() },
                sent: Amount { packets: sent, ..Amount::default() },
                lost: vec![("pool".to_owned(), 1), ("ring".to_owned(), 5)],
                ..ClassStatus::default()
            };
            let lane = LaneStatus { classes: vec![class], ..LaneStatus::default() };
            let kept = vec![("local".to_owned(), 1), ("no copy".to_owned(), 3)];
            let port = PortStatus { received, kept, ..PortStatus::default() };
            let status = Status { lanes: vec![lane], ports: vec![port], ..Status::default() };
            let mut rows = Vec::new();
            balance(&status, &mut |row| rows.push(row.holds));
            assert_eq!(rows, holds, "sent {sent}, received {received}");
        }
    }

    #[test]
    fn memory_that_grows_fails() {
        for (samples, holds) in
            [(vec![100, 101, 100, 102], true), (vec![100, 100, 101, 110], false)]
        {
            let mut rows = Vec::new();
            memory(&samples, &mut |row| rows.push(row.holds));
            assert_eq!(rows, [holds], "{samples:?}");
        }
    }
}
