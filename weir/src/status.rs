//! `weir status`: shows the counters of a running link.

mod circuits;
pub mod hosts;
mod left_out;
mod plot;
mod sessions;
mod watch;

use crate::kind::Kind;
use crate::output::{Exit, Format, Output};
use crate::picture::{Files, picture_file};
use crate::{Run, input, whole_file};
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_control::client;
use weir_control::places::{self, Found, Places, State};
use weir_control::printable::printable;
use weir_control::protocol::{CLASSES_DEFAULT, CLASSES_MAX, Query, Sort};
use weir_core::packet::Unread;
use weir_core::units::Rate;
use weir_link::status::{
    ClassStatus, FaultStatus, LaneStatus, PolicyStatus, PortStatus, Processes, Status as LinkStatus,
};
use weir_policy::deployment;
use weir_policy::table::{Table, millis};

/// Shows the counters of a running link; without a name, which links run.
///
/// They are those of ports and classes, with delays and drops.
///
/// Counters and means are since the start, other rates of the last second; docs/status.md describes
/// each.
#[derive(clap::Args)]
#[command(override_usage = "weir status [OPTIONS] [NAME|--control <SOCKET>]")]
pub struct Status {
    /// The name of the deployment, not its file.
    name: Option<String>,
    /// The control socket, instead of the one found by the name.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Show the last second, reservations or circuits, again and again, until Ctrl-C or the link
    /// ends: on a terminal in place, in a pipe one after the other. With `--format json` a line is
    /// a whole status.
    #[arg(long, group = "repeated")]
    watch: bool,
    /// Look at the link for a while and draw what each class sent, what waited and was dropped, and
    /// how long packets took, as .svg, .png or .html, by the name; then show it as it is.
    #[arg(long, value_name = "FILE.svg|png|html", group = "repeated",
        conflicts_with_all = ["reservations", "circuits"], value_parser = picture_file())]
    plot: Option<PathBuf>,
    /// With --plot: for how long; Ctrl-C ends it earlier, with what was seen [default: 10s].
    #[arg(long = "for", value_name = "TIME", value_parser = interval, requires = "plot")]
    length: Option<Duration>,
    /// Show reservations by RSVP instead: sessions, who reserved what, and how long each lives
    /// without a refresh.
    #[arg(long, conflicts_with_all = ["class", "top", "sort"])]
    reservations: bool,
    /// Show circuits that come and go instead: how many are shaped, which are not and why, and
    /// hosts that no circuit has.
    #[arg(long, conflicts_with_all = ["class", "top", "sort", "reservations"])]
    circuits: bool,
    /// The time between two of them, or between two points [default: 1s, with --plot 250ms].
    #[arg(long, value_name = "TIME", value_parser = interval, requires = "repeated")]
    interval: Option<Duration>,
    #[command(flatten)]
    classes: Classes,
}

/// Which classes to show.
#[derive(clap::Args)]
struct Classes {
    /// Only classes with such a name: `*` stands for any characters, `?` for one.
    #[arg(long, value_name = "PATTERN")]
    class: Option<String>,
    /// Of each direction show only the N largest classes by the key of `--sort`.
    #[arg(long, value_name = "N", conflicts_with = "limit")]
    top: Option<u32>,
    /// The key by which classes are sorted, the largest first: bytes sent (rate), p99 (delay),
    /// frames dropped and lost (drops), all since the start, bytes that wait (backlog), or the
    /// first three in the last seconds (recent-rate, recent-delay, recent-drops).
    #[arg(long, value_name = "KEY", value_parser = sort_key)]
    sort: Option<Sort>,
    /// At most so many classes, those that sent most in the last second unless there is a `--sort`;
    /// or sessions or circuits [default: 1000].
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Below each class in which hosts take turns, the N hosts that sent most: what each sent, what
    /// waits and was dropped, and its delay in the queue.
    #[arg(long, value_name = "N")]
    hosts: Option<u32>,
}

fn sort_key(word: &str) -> Result<Sort, String> {
    let found = Sort::ALL.into_iter().find(|(name, _)| *name == word);
    let words: Vec<_> = Sort::ALL.iter().map(|(name, _)| *name).collect();
    found.map(|(_, sort)| sort).ok_or_else(|| format!("use one of {}", words.join(", ")))
}

/// Parses the time between two looks at a link.
pub fn interval(text: &str) -> Result<Duration, String> {
    weir_cli::time::within(text, &(INTERVAL_MIN..=INTERVAL_MAX))
}

/// Returns the status of the link whose socket `find` finds.
pub fn fetch(
    find: impl Fn() -> Result<PathBuf, String>,
    query: &Query,
) -> Result<LinkStatus, String> {
    client::status(&find()?, query)
}

impl Classes {
    /// Returns whether no option chooses classes.
    fn is_default(&self) -> bool {
        let Self { class, top, sort, limit, hosts } = self;
        let numbers = [top, limit, hosts];
        class.is_none() && sort.is_none() && numbers.iter().all(|number| number.is_none())
    }

    /// The largest of each direction with `--top`. Otherwise, where not all fit, those that send.
    fn query(self, format: Format) -> Query {
        let sort = self.sort.or(self.top.map(|_| Sort::Rate));
        let is_long = self.top.is_some_and(|top| top > CLASSES_DEFAULT / 2);
        Query {
            class: self.class,
            sort,
            largest: sort.or(Some(Sort::RecentRate)),
            limit: self.limit.or(is_long.then_some(CLASSES_MAX)),
            per_direction: self.top,
            // Text says of each class how its hosts differ.
            hosts: self.hosts.or((format == Format::Text).then_some(HOSTS_SEEN)),
            ..Query::default()
        }
    }
}

impl Run for Status {
    fn run(self, output: &Output) -> Exit {
        let repeated = self.watch || self.plot.is_some() || self.reservations || self.circuits;
        let is_default = !repeated && self.classes.is_default();
        if self.control.is_none() && self.name.is_none() && is_default {
            return list(output);
        }
        let (lists_hosts, watches) =
            (self.classes.hosts.is_some(), self.watch || self.plot.is_some());
        let query = self.classes.query(if watches { Format::Json } else { output.format });
        let find = || match (&self.control, &self.name) {
            (Some(socket), _) => Ok(socket.clone()),
            (None, Some(name)) => Places::of_process().find(name),
            (None, None) => Err("name the link, or its socket with --control".to_owned()),
        };
        if let Err(error) = query.check() {
            return output.refuse(&error);
        }
        let interval = self.interval.unwrap_or(INTERVAL);
        if self.circuits {
            let look = || circuits::fetch(&find()?, query.limit);
            return match self.watch {
                true => watch::watch(look, |seen| circuits::text(seen), interval, output),
                false => look().map_or_else(
                    |error| output.refuse(&error),
                    |circuits| circuits::show(&circuits, output),
                ),
            };
        }
        if self.reservations {
            let look = || sessions::fetch(&find()?, query.limit);
            return match self.watch {
                true => watch::watch(look, |seen| sessions::text(seen), interval, output),
                false => look().map_or_else(
                    |error| output.refuse(&error),
                    |reservations| sessions::show(&reservations, output),
                ),
            };
        }
        if let Some(path) = &self.plot {
            let drawn = || {
                whole_file::distinct(&[("--plot", &self.plot)], &[])?;
                let looks = plot::Looks {
                    length: self.length.unwrap_or(plot::LENGTH),
                    interval: self.interval.unwrap_or(plot::INTERVAL),
                };
                let files = Files::open(Some(path), None)?;
                plot::plot(find, &query, looks, files, output)
            };
            return match drawn() {
                Ok(status) => show(&status, &query, lists_hosts, output),
                Err(error) => output.refuse(&error),
            };
        }
        if self.watch {
            return watch::watch(|| fetch(find, &query), watch::text, interval, output);
        }
        match fetch(find, &query) {
            Ok(status) => show(&status, &query, lists_hosts, output),
            Err(error) => {
                let name = self.name.unwrap_or_default();
                output.refuse(&of_file(&name).unwrap_or(error))
            }
        }
    }
}

/// Shows a status; a pattern that no class matches is a fault of who wrote it.
fn show(status: &LinkStatus, query: &Query, lists_hosts: bool, output: &Output) -> Exit {
    let is_empty = status.lanes.iter().all(|lane| lane.classes.is_empty());
    let wants_none = query.limit.min(query.per_direction) == Some(0);
    if let Some(pattern) = query.class.as_ref().filter(|_| is_empty && !wants_none) {
        return output.fault(&format!("no class matches `{}`", printable(pattern)));
    }
    match output.format {
        Format::Json => output.json(status),
        Format::Text => output.text(&text(status, lists_hosts)),
    }
    Exit::Clean
}

/// Shows which links run, and which sockets are left of others.
fn list(output: &Output) -> Exit {
    let (links, more) = Places::of_process().list();
    let shown = |path: &Path| printable(&path.display().to_string()).into_owned();
    if output.format == Format::Json {
        let link = |link: &Found| {
            json!({
                "name": link.name,
                "user": places::user(link.uid),
                "state": state(link),
                "control": shown(&link.path),
            })
        };
        let links: Vec<_> = links.iter().map(link).collect();
        output.json(&json!({ "links": links, "left_out": more }));
        return Exit::Clean;
    }
    if links.is_empty() {
        output.text("no link runs; start one with `weir up`\n");
        return Exit::Clean;
    }
    let mut table = Table::new(["name", "user", "state", "control"]);
    for link in &links {
        let (user, state) = (places::user(link.uid), state(link).to_owned());
        table.row(vec![link.name.clone(), user, state, shown(&link.path)]);
    }
    output.table(&table);
    if more > 0 {
        output.text(&format!("{more} more are left out\n"));
    }
    Exit::Clean
}

/// Returns the state of a link in words.
fn state(link: &Found) -> &'static str {
    match link.state {
        State::Running if client::is_absent(&link.path) => "unshaped",
        state => state.name(),
    }
}

/// Returns which name to write, if there is a file of a deployment where a name is expected.
fn of_file(path: &str) -> Option<String> {
    let bytes = input::read_named(Path::new(path)).ok()?;
    let kind = Kind::of(&bytes).filter(|kind| *kind == Kind::Deployment);
    kind.map(|_| {
        let plan = deployment::parse(&bytes, path, &input::read_named).plan;
        let name = plan.map_or("NAME".to_owned(), |deployment| deployment.name);
        format!("{path} is the file of a deployment; write its name: `weir status {name}`")
    })
}

/// Formats a status for people, with a table of the hosts of each class if there are any.
pub fn table(status: &LinkStatus) -> String {
    text(status, true)
}

/// As [`table`], with a line on the hosts of each class in place of a table unless `lists_hosts`.
fn text(status: &LinkStatus, lists_hosts: bool) -> String {
    let mut text = String::new();
    let seconds = status.uptime_ns as f64 / 1e9;
    let used = status.frames_max.saturating_sub(status.frames_free);
    let part = |ns: u64| ns as f64 / (status.uptime_ns as f64).max(1.0) * 100.0;
    let _ = writeln!(
        text,
        "up {seconds:.1} s, {:.1} % of it at work, {:.1} % polling, {used} of {} frames in use, {} \
         stalls",
        part(status.busy_ns),
        part(status.polling_ns),
        status.frames_max,
        status.stalls
    );
    if status.age_ns > AGE_MAX_NS {
        let age = age(status.age_ns as f64 / 1e3);
        let _ = writeln!(text, "the run loop has given no newer counts for {age}");
    }
    if let Some(processes) = &status.processes {
        let _ = writeln!(text, "{}", owners(processes));
    }
    for FaultStatus { since, text: fault, .. } in &status.faults {
        let _ = writeln!(text, "fault since {since}: {fault}");
    }
    for port in &status.ports {
        text.push_str(&describe(port));
    }
    for lane in &status.lanes {
        let _ = writeln!(text, "\n{}: {} to {}", lane.name, lane.from, lane.to);
        let _ = writeln!(text, "{}", classes(lane, seconds));
        for class in &lane.classes {
            match &class.hosts {
                Some(hosts) if lists_hosts => text.push_str(&hosts::text(&class.name, hosts)),
                Some(hosts) => text.push_str(&hosts::line(&class.name, hosts)),
                None => {}
            }
        }
        text.push_str(&left_out::text(lane));
        text.push_str(&policy(lane));
        if let Some(ages) = ages(lane) {
            let _ =
                writeln!(text, "after a stall, packets that waited longer than {ages} are dropped");
        }
        for (name, frames) in &lane.unread {
            let cause = Unread::ALL.into_iter().find(|cause| cause.name() == name);
            let what = cause.map_or(name.as_str(), |cause| cause.what());
            let _ = writeln!(text, "unread headers: {frames} (frames that {what})");
        }
    }
    text
}

/// Names the processes of a link, and says what the lack of a keeper means.
fn owners(processes: &Processes) -> String {
    let forwarder = processes.forwarder;
    match processes.keeper {
        Some(keeper) => format!("keeper: process {keeper}; forwarder: process {forwarder}"),
        None => format!(
            "no keeper: a forwarder that dies is not replaced; `weir up` with the deployment takes \
             it over; forwarder: process {forwarder}"
        ),
    }
}

/// Returns a time of microseconds in the unit that suits it.
fn age(micros: f64) -> String {
    if micros < 1e6 { format!("{:.0} ms", micros / 1e3) } else { format!("{:.1} s", micros / 1e6) }
}

/// Describes a port: what crossed it, what did not, and why.
fn describe(port: &PortStatus) -> String {
    let mut text = format!(
        "port {} ({}, {}): {} frames in, {} out\n",
        port.interface, port.kind, port.state, port.received, port.sent
    );
    let mut line = |what: &str, causes: String| {
        if !causes.is_empty() {
            let _ = writeln!(text, "  {what}: {causes}");
        }
    };
    line("lost on arrival", causes(&port.lost_in_by_cause));
    line("of ring overrun", rings(&port.ring_overruns));
    line("lost on sending", causes(&port.lost_out_by_cause));
    line("not for another port", causes(&port.kept));
    line("workers", if port.workers > 0 { port.workers.to_string() } else { String::new() });
    line(
        "came back",
        if port.rebinds > 0 { format!("{} times", port.rebinds) } else { String::new() },
    );
    text
}

/// Returns how many of the frames that full rings lost were in the ring that classes share, and how
/// many in rings of one class; nothing where there is one ring, or no frame was lost.
fn rings(overruns: &[u64]) -> String {
    let Some((shared, own)) = overruns.split_first().filter(|(_, own)| !own.is_empty()) else {
        return String::new();
    };
    let own = own.iter().fold(0, |sum: u64, lost| sum.saturating_add(*lost));
    if shared.max(&own) == &0 {
        return String::new();
    }
    format!(
        "{shared} in the ring that the default class shares with what cannot be sorted, {own} in \
         rings of one class"
    )
}

/// Returns the causes that occurred, each with its number.
fn causes(all: &[(String, u64)]) -> String {
    let occurred = all.iter().filter(|(_, frames)| *frames > 0);
    occurred.map(|(cause, frames)| format!("{cause} {frames}")).collect::<Vec<_>>().join(", ")
}

fn classes(lane: &LaneStatus, seconds: f64) -> Table {
    let head = [
        "class",
        "offered",
        "sent",
        "mean Mbit/s",
        "now Mbit/s",
        "ECN",
        "DSCP",
        "dropped",
        "waiting",
        "p50 ms",
        "p99 ms",
        "max ms",
    ];
    let mut table = Table::new(head).optional(&[5, 6]);
    for class in &lane.classes {
        table.row(row(class, seconds));
    }
    table
}

fn row(class: &ClassStatus, seconds: f64) -> Vec<String> {
    let by_link = class.dropped.iter().map(|(reason, amount)| (reason.clone(), amount.packets));
    let all: Vec<_> = by_link.chain(class.lost.iter().cloned()).collect();
    let occurred = causes(&all);
    let dropped = if occurred.is_empty() { "0".to_owned() } else { occurred };
    // Without packets there are no delays.
    let sent = class.sent.packets > 0;
    let delay = |micros: f64| if sent { millis(micros) } else { "-".to_owned() };
    vec![
        class.name.clone(),
        class.offered.packets.to_string(),
        class.sent.packets.to_string(),
        format!("{:.3}", class.sent.bytes as f64 * 8.0 / 1e6 / seconds.max(1e-9)),
        class.recent.map_or("-".to_owned(), |now| format!("{:.3}", now.second.sent_bps / 1e6)),
        class.marked_ecn.to_string(),
        class.marked_dscp.to_string(),
        dropped,
        class.backlog.packets.to_string(),
        delay(class.delay.p50_us),
        delay(class.delay.p99_us),
        delay(class.delay.max_us),
    ]
}

/// Describes the policy of a direction and what its scheduler found.
fn policy(lane: &LaneStatus) -> String {
    let mut text = String::new();
    let (none, one, more) = (lane.found.none, lane.found.one, lane.found.more);
    if !lane.policy.identity.is_empty() {
        let PolicyStatus { identity, scheduler, age_ns, .. } = &lane.policy;
        let age = age(*age_ns as f64 / 1e3);
        let _ = writeln!(text, "policy {identity} ({scheduler}), in force for {age}");
        if let Some(varies) = &lane.autorate {
            let rate = Rate::new(varies.rate_bps).unwrap_or(Rate::MIN);
            let _ = writeln!(text, "rate {rate}: {}", varies.text());
        }
    }
    if lane.whole_trains > 0 {
        let (whole, all) = (lane.whole_trains, lane.sums.leaves);
        let _ = writeln!(text, "super-packets pass as one packet in {whole} of {all} classes");
    }
    if none + one + more > 0 {
        let _ = writeln!(
            text,
            "{more} frames left while several classes had packets, {one} while only theirs had; \
             {none} came when nothing waited"
        );
    }
    text
}

/// Returns from which age packets are stale: one, or the range of the classes'.
fn ages(lane: &LaneStatus) -> Option<String> {
    let ages = || lane.classes.iter().filter_map(|class| class.sojourn_max_us);
    let (shortest, longest) = (ages().reduce(f64::min)?, ages().reduce(f64::max)?);
    let (shortest, longest) = (age(shortest), age(longest));
    let same = shortest == longest;
    Some(if same { longest } else { format!("{shortest} to {longest}, by class,") })
}

/// The most hosts of a class that a line on them is made of: those that sent most.
pub const HOSTS_SEEN: u32 = 32;
/// The time between two looks, and its bounds.
pub const INTERVAL: Duration = Duration::from_secs(1);
const INTERVAL_MIN: Duration = Duration::from_millis(100);
const INTERVAL_MAX: Duration = Duration::from_secs(3600);
/// Counts of a run loop that runs are younger, also those of very many classes.
const AGE_MAX_NS: u64 = 3_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_link::status::Sums;

    #[test]
    fn it_names_the_processes_and_says_that_the_keeper_is_gone() {
        let check = |processes, wanted: &str| {
            let text = table(&LinkStatus { processes, ..LinkStatus::default() });
            assert!(text.contains(wanted), "{text}");
            assert!(processes.is_some() || !text.contains("keeper"), "{text}");
        };
        check(None, "up 0.0 s");
        check(
            Some(Processes { keeper: Some(7), forwarder: 8 }),
            "keeper: process 7; forwarder: process 8",
        );
        check(Some(Processes { keeper: None, forwarder: 8 }), "no keeper: a forwarder that dies");
    }

    #[test]
    fn it_says_which_threads_serve_a_port_and_where_trains_pass_whole() {
        let check = |workers, whole_trains, wanted: &[&str]| {
            let port = PortStatus { workers, ..PortStatus::default() };
            let sums = Sums { leaves: 8, ..Sums::default() };
            let lane = LaneStatus { whole_trains, sums, ..LaneStatus::default() };
            let (ports, lanes) = (vec![port], vec![lane]);
            let text = table(&LinkStatus { ports, lanes, ..LinkStatus::default() });
            let lines: Vec<_> = text
                .lines()
                .map(str::trim)
                .filter(|line| line.starts_with("workers") || line.starts_with("super-packets"))
                .collect();
            assert_eq!(lines, wanted, "{text}");
        };
        check(0, 0, &[]);
        check(2, 3, &["workers: 2", "super-packets pass as one packet in 3 of 8 classes"]);
    }

    #[test]
    fn it_says_whose_ring_was_full_and_from_which_age_packets_are_stale() {
        let check = |overruns: &[u64], sojourn_max_us, wanted: &[&str], unwanted: &[&str]| {
            let port = PortStatus { ring_overruns: overruns.to_vec(), ..PortStatus::default() };
            let class = ClassStatus { sojourn_max_us, ..ClassStatus::default() };
            let sums = Sums { leaves: 8, sent_bps: 41e6, ..Sums::default() };
            let classes = vec![class];
            let lane = LaneStatus { classes, left_out: 7, sums, ..LaneStatus::default() };
            let status = LinkStatus {
                ports: vec![port],
                lanes: vec![lane],
                age_ns: 9_000_000_000,
                ..LinkStatus::default()
            };
            let text = table(&status);
            assert!(wanted.iter().all(|part| text.contains(part)), "{text}");
            assert!(!unwanted.iter().any(|part| text.contains(part)), "{text}");
        };
        check(&[5, 2, 1], Some(3.2e6), &["ring overrun: 5 in", ", 3 in", "longer than 3.2 s"], &[]);
        check(&[0, 2], Some(5e4), &["0 in", "2 in", "longer than 50 ms"], &[]);
        check(&[5], None, &["mean Mbit/s", "7 classes are not shown"], &["ring overrun", "longer"]);
        check(&[5], None, &["no newer counts for 9.0 s"], &[]);
        check(&[0, 0], None, &[], &["ring overrun", "longer"]);
        check(&[], None, &["all 8 classes: 0 packets sent, 41.000 Mbit/s now"], &[]);
        // A forwarder that was taken over may say anything.
        let most = format!("{}", u64::MAX);
        check(&[u64::MAX, u64::MAX, u64::MAX], None, &[&most], &[]);
        let status = LinkStatus { frames_free: u64::MAX, ..LinkStatus::default() };
        assert!(table(&status).contains("0 of 0 frames"));
    }
}
