//! The figures of the demo: per class, per side, and whether everything balances.

use super::Failure;
use super::differences::Difference;
use super::later::Later;
use super::live::{LiveRun, Window};
use super::mix::{Class, POLICY, POLICY_PATH, WARMUP};
use super::simulated::WEB_PREFIX;
use super::tcp::WebTransfer;
use serde::Serialize;
use std::time::Duration;
use weir_core::account::Histogram;
use weir_core::ids::LeafId;
use weir_core::sched::Tree;
use weir_link::status::{Amount, ClassStatus, Status};
use weir_policy::Policy;
use weir_policy::fluid::{self, Demand};
use weir_sim::Report;
use weir_sim::report::ClassReport;

/// All results of the demo; the output of `--format json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// The path of the policy in the repository.
    pub policy_path: &'static str,
    /// The text of the policy.
    pub policy: &'static str,
    /// The keyword of the scheduler.
    pub scheduler: &'static str,
    /// The rate of the link in bit/s.
    pub link_bps: f64,
    /// The measured time, in seconds.
    pub measured_s: f64,
    /// The warm-up before it, in seconds.
    pub warmup_s: f64,
    /// The leaves in the order of the policy.
    pub classes: Vec<ClassOutcome>,
    /// The figures of the live link.
    pub live: Side,
    /// The figures of the simulated link.
    pub simulated: Side,
    /// Voice as its receiver measured it, live.
    pub listener: Listener,
    /// How many times other work stalled the live link so long that its line started anew.
    pub stalls: u64,
    /// The steps on the live link after the measurement.
    pub later: Later,
    /// The figures whose live value is far from the simulated one.
    pub differences: Vec<Difference>,
    /// The promises, and whether they held.
    pub checks: Vec<Check>,
}

/// A promise, and whether it was kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Check {
    /// The promise, in words.
    pub what: String,
    /// The measured value, with its unit.
    pub found: String,
    /// The measured value keeps the promise.
    pub held: bool,
}

impl Check {
    pub(super) fn new(what: impl Into<String>, found: impl Into<String>, held: bool) -> Self {
        Self { what: what.into(), found: found.into(), held }
    }
}

/// The figures of one class.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClassOutcome {
    /// The name of the class.
    pub name: String,
    /// Whether its traffic wants more than it can get.
    pub greedy: bool,
    /// The rate that the policy promises it, in bit/s.
    pub promise_bps: f64,
    /// The figures of the live link.
    pub live: Figures,
    /// The figures of the simulated link.
    pub simulated: Figures,
}

/// A class on one side, over the measured time. Rates in bit/s by charged length.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Figures {
    /// Its fluid share: what it wants, or its part of the link.
    pub share_bps: f64,
    /// The rate at which packets arrived.
    pub offered_bps: f64,
    /// The rate at which packets left.
    pub rate_bps: f64,
    /// Packets that arrived.
    pub offered: u64,
    /// Packets that left.
    pub sent: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// The mean delay in Weir.
    pub delay_mean_us: f64,
    /// The median delay in Weir.
    pub delay_p50_us: f64,
    /// 99 of 100 packets were not longer in Weir.
    pub delay_p99_us: f64,
    /// The longest delay in Weir.
    pub delay_max_us: f64,
    /// The fewest packets that waited at any poll of the status; live only.
    pub waiting_min: Option<u64>,
}

/// The figures of a side as a whole.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Side {
    /// The part of the link's rate that was sent.
    pub utilisation: f64,
    /// Whether all packets, bytes and frames are accounted for.
    pub conservation: Conservation,
    /// The transfers of the web class.
    pub web: Transfers,
}

/// Whether all packets, bytes and frames are accounted for, from the first packet to the last.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Conservation {
    /// Whether everything balances: each class in packets and bytes, and live each frame of the
    /// pool.
    pub holds: bool,
    /// The sum of all classes in packets.
    pub packets: Balance,
    /// The sum of all classes in charged bytes; live only.
    pub bytes: Option<Balance>,
    /// The frames of the pool; live only.
    pub frames: Option<Frames>,
}

/// offered = sent + dropped + waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Balance {
    /// Packets or bytes offered.
    pub offered: u64,
    /// Packets or bytes sent.
    pub sent: u64,
    /// Packets or bytes dropped.
    pub dropped: u64,
    /// Packets or bytes that wait at the end.
    pub waiting: u64,
}

/// The frames of the bridge, both directions: all = free + waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Frames {
    /// Frames of the pool.
    pub all: u64,
    /// Frames of the pool that hold nothing.
    pub free: u64,
    /// Frames that wait in classes.
    pub waiting: u64,
    /// Frames that both ports delivered to the classes.
    pub received: u64,
    /// Frames that both ports sent for the classes.
    pub sent: u64,
    /// Frames lost before or behind the classes, counted by the ports.
    pub lost: u64,
}

/// Short transfers that began in the measured time.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Transfers {
    /// Transfers that ended in time.
    pub completed: u64,
    /// Transfers that failed.
    pub failed: u64,
    /// The median duration.
    pub p50_ms: f64,
    /// The longest duration.
    pub max_ms: f64,
}

/// Voice as its receiver measured it: its own clock readings, its own count.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Listener {
    /// Packets that the sender sent in the measured time.
    pub sent: u64,
    /// Packets of these that did not arrive.
    pub lost: u64,
    /// The median delay from application to application.
    pub delay_p50_us: f64,
    /// 99 of 100 packets took no longer.
    pub delay_p99_us: f64,
    /// The longest delay from application to application.
    pub delay_max_us: f64,
}

impl Outcome {
    /// Collects the figures; the checks evaluate them.
    pub(super) fn new(
        policy: &Policy,
        measured: Duration,
        live: &LiveRun,
        report: &Report,
    ) -> Result<Self, Failure> {
        let tree = &policy.link.tree;
        let link_bps = tree.rate().bits_per_second() as f64;
        let live_figures = with_shares(tree, self::live_figures(&live.window));
        let simulated = with_shares(tree, simulated_figures(tree, report));
        let sent: f64 = live_figures.iter().map(|figures| figures.rate_bps).sum();
        let later = Later::of(live, &live_figures)?;
        Ok(Self {
            policy_path: POLICY_PATH,
            policy: POLICY,
            scheduler: policy.link.scheduler,
            link_bps,
            measured_s: measured.as_secs_f64(),
            warmup_s: WARMUP.as_secs_f64(),
            classes: classes(tree, &live_figures, &simulated),
            live: Side {
                utilisation: sent / link_bps,
                conservation: live_conservation(&live.last),
                web: live_transfers(live),
            },
            simulated: Side {
                utilisation: report.link.utilisation,
                conservation: simulated_conservation(report),
                web: simulated_transfers(report),
            },
            listener: listener(live),
            stalls: live.last.stalls,
            later,
            differences: Vec::new(),
            checks: Vec::new(),
        })
    }

    /// Returns the class of this name.
    pub(super) fn class(&self, class: Class) -> &ClassOutcome {
        let found = self.classes.iter().find(|outcome| outcome.name == class.name());
        found.expect("the policy has every class of the mix")
    }

    /// Returns whether every check held.
    pub fn held(&self) -> bool {
        self.checks.iter().all(|check| check.held)
    }
}

fn classes(tree: &Tree, live: &[Figures], simulated: &[Figures]) -> Vec<ClassOutcome> {
    let class = |(leaf, spec): (LeafId, &weir_core::sched::ClassSpec)| ClassOutcome {
        name: spec.name.clone(),
        greedy: is_greedy(&spec.name),
        promise_bps: spec.params.rate("rate").map_or(0.0, |rate| rate.bits_per_second() as f64),
        live: live[leaf.index()],
        simulated: simulated[leaf.index()],
    };
    tree.leaves().map(class).collect()
}

pub(super) fn is_greedy(name: &str) -> bool {
    Class::ALL.iter().any(|class| class.name() == name && class.is_greedy())
}

/// Adds the fluid shares: a class that is not greedy wants what it offered.
pub(super) fn with_shares(tree: &Tree, mut figures: Vec<Figures>) -> Vec<Figures> {
    let demand = |(leaf, spec): (LeafId, &weir_core::sched::ClassSpec)| {
        if is_greedy(&spec.name) {
            Demand::Greedy
        } else {
            Demand::Rate(figures[leaf.index()].offered_bps)
        }
    };
    let demands: Vec<_> = tree.leaves().map(demand).collect();
    let shares = fluid::shares(tree, &demands);
    for (leaf, _) in tree.leaves() {
        figures[leaf.index()].share_bps = shares[tree.class_of(leaf).index()];
    }
    figures
}

pub(super) fn live_figures(window: &Window) -> Vec<Figures> {
    let span = (window.after.uptime_ns - window.before.uptime_ns) as f64 / 1e9;
    let pairs = window.before.lanes[0].classes.iter().zip(&window.after.lanes[0].classes);
    let figures = |((before, after), least): ((&ClassStatus, &ClassStatus), &u64)| {
        let since = |of: fn(&ClassStatus) -> Amount| {
            let (after, before) = (of(after), of(before));
            (after.packets - before.packets, (after.bytes - before.bytes) as f64 * 8.0 / span)
        };
        let (offered, offered_bps) = since(|class| class.offered);
        let (sent, rate_bps) = since(|class| class.sent);
        Figures {
            share_bps: 0.0,
            offered_bps,
            rate_bps,
            offered,
            sent,
            dropped: since(dropped).0,
            delay_mean_us: after.delay.mean_us,
            delay_p50_us: after.delay.p50_us,
            delay_p99_us: after.delay.p99_us,
            delay_max_us: after.delay.max_us,
            waiting_min: Some(*least),
        }
    };
    pairs.zip(&window.waiting_min).map(figures).collect()
}

pub(super) fn dropped(class: &ClassStatus) -> Amount {
    let sum = |sum: Amount, row: &(String, Amount)| Amount {
        packets: sum.packets + row.1.packets,
        bytes: sum.bytes + row.1.bytes,
    };
    class.dropped.iter().fold(Amount::default(), sum)
}

fn simulated_figures(tree: &Tree, report: &Report) -> Vec<Figures> {
    let micros = |delay: weir_core::units::Duration| delay.as_nanos() as f64 / 1e3;
    let figures = |class: &ClassReport| Figures {
        share_bps: 0.0,
        offered_bps: class.offered.bits_per_second as f64,
        rate_bps: class.sent.bits_per_second as f64,
        offered: class.offered.packets,
        sent: class.sent.packets,
        dropped: class.dropped.total.packets,
        delay_mean_us: micros(class.delay.mean),
        delay_p50_us: micros(class.delay.p50),
        delay_p99_us: micros(class.delay.p99),
        delay_max_us: micros(class.delay.max),
        waiting_min: None,
    };
    let of = |name: &str| report.class(name).expect("the report has every class of the tree");
    tree.leaves().map(|(_, spec)| figures(of(&spec.name))).collect()
}

fn live_conservation(last: &Status) -> Conservation {
    let classes = || last.lanes.iter().flat_map(|lane| &lane.classes);
    let (packets, bytes) = (sum(classes(), |a| a.packets), sum(classes(), |a| a.bytes));
    let lost_as = |cause: &str| -> u64 {
        let all = classes().flat_map(|class| &class.lost);
        all.filter(|(name, _)| name == cause).map(|(_, frames)| frames).sum()
    };
    let before = lost_as("pool") + lost_as("stale on arrival");
    let lost: u64 = last.ports.iter().map(|port| port.lost_in + port.lost_out).sum();
    let frames = Frames {
        all: last.frames_max,
        free: last.frames_free,
        waiting: packets.waiting,
        received: last.ports.iter().map(|port| port.received).sum(),
        sent: last.ports.iter().map(|port| port.sent).sum(),
        lost: lost + before,
    };
    let each = classes().all(|class| {
        let one = || std::iter::once(class);
        sum(one(), |a| a.packets).holds() && sum(one(), |a| a.bytes).holds()
    });
    let pool = frames.all == frames.free + frames.waiting;
    let ports = frames.received == packets.offered + before && frames.sent == packets.sent;
    Conservation { holds: each && pool && ports, packets, bytes: Some(bytes), frames: Some(frames) }
}

fn sum<'a>(classes: impl Iterator<Item = &'a ClassStatus>, of: fn(Amount) -> u64) -> Balance {
    classes.fold(Balance::default(), |sum, class| Balance {
        offered: sum.offered + of(class.offered),
        sent: sum.sent + of(class.sent),
        dropped: sum.dropped + of(dropped(class)),
        waiting: sum.waiting + of(class.backlog),
    })
}

impl Balance {
    /// Returns whether it balances.
    pub fn holds(&self) -> bool {
        self.offered == self.sent + self.dropped + self.waiting
    }
}

fn simulated_conservation(report: &Report) -> Conservation {
    let sums = &report.conservation;
    let packets = Balance {
        offered: sums.offered,
        sent: sums.sent,
        dropped: sums.dropped,
        waiting: sums.backlog,
    };
    Conservation { holds: sums.holds && packets.holds(), packets, bytes: None, frames: None }
}

fn live_transfers(live: &LiveRun) -> Transfers {
    let (from, until) = live.window.times;
    let inside = |transfer: &&WebTransfer| (from..until).contains(&transfer.begun);
    let took = live.web.iter().filter(inside).map(|transfer| transfer.took.as_ref().ok());
    transfers(took.map(|took| took.map(Duration::as_secs_f64)))
}

/// Returns the completed transfers of the simulation; it loses none, but the last may not have
/// ended.
fn simulated_transfers(report: &Report) -> Transfers {
    let web = report.sources.iter().filter(|source| source.name.starts_with(WEB_PREFIX));
    let done = web.filter_map(|source| source.tcp.filter(|tcp| tcp.transfers.count > 0));
    transfers(done.map(|tcp| Some(tcp.transfers.max.as_nanos() as f64 / 1e9)))
}

/// Summarises the seconds that each transfer took; `None` if one failed.
fn transfers(took: impl Iterator<Item = Option<f64>>) -> Transfers {
    let (done, failed): (Vec<_>, Vec<_>) = took.partition(Option::is_some);
    let mut millis: Vec<f64> = done.into_iter().flatten().map(|seconds| seconds * 1e3).collect();
    millis.sort_by(f64::total_cmp);
    Transfers {
        completed: millis.len() as u64,
        failed: failed.len() as u64,
        p50_ms: millis.get(millis.len() / 2).copied().unwrap_or(0.0),
        max_ms: millis.last().copied().unwrap_or(0.0),
    }
}

fn listener(live: &LiveRun) -> Listener {
    let (from, until) = live.window.span;
    let inside = |at: &u64| (from..until).contains(at);
    let sent = live.spoken.iter().filter(|at| inside(at)).count() as u64;
    let (mut delays, mut seen) = (Histogram::new(), vec![false; live.spoken.len()]);
    for heard in live.heard.iter().filter(|heard| inside(&heard.sent_at)) {
        // A duplicate is not counted again; only the sender assigns numbers.
        let Some(first) = seen.get_mut(heard.number as usize) else { continue };
        if !std::mem::replace(first, true) {
            let delay = heard.heard_at.saturating_sub(heard.sent_at);
            delays.record(weir_core::units::Duration::from_nanos(delay));
        }
    }
    let micros = |delay: weir_core::units::Duration| delay.as_nanos() as f64 / 1e3;
    Listener {
        sent,
        lost: sent - delays.count().min(sent),
        delay_p50_us: micros(delays.quantile(500).value),
        delay_p99_us: micros(delays.quantile(990).value),
        delay_max_us: micros(delays.max()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::later::Trial;
    use crate::demo::udp::Heard;
    use std::time::Instant;
    use weir_control::protocol::Changed;
    use weir_link::status::{LaneStatus, PortStatus};

    fn amount(packets: u64, bytes: u64) -> Amount {
        Amount { packets, bytes }
    }

    fn class(offered: Amount, sent: Amount, lost: Amount, backlog: Amount) -> ClassStatus {
        let dropped = vec![("full".to_owned(), lost)];
        ClassStatus { offered, sent, dropped, backlog, ..ClassStatus::default() }
    }

    /// A bridge that balances.
    fn status() -> Status {
        let forth = class(amount(9, 900), amount(4, 500), amount(3, 200), amount(2, 200));
        let back = class(amount(5, 50), amount(5, 50), amount(0, 0), amount(0, 0));
        let lane = |class| LaneStatus { classes: vec![class], ..LaneStatus::default() };
        let port = |received, sent| PortStatus { received, sent, ..PortStatus::default() };
        Status {
            frames_max: 16,
            frames_free: 14,
            ports: vec![port(9, 5), port(5, 4)],
            lanes: vec![lane(forth), lane(back)],
            ..Status::default()
        }
    }

    #[test]
    fn a_missing_packet_byte_or_frame_is_detected() {
        let holds = |spoil: fn(&mut Status)| {
            let mut status = status();
            spoil(&mut status);
            live_conservation(&status).holds
        };
        assert!(holds(|_| {}));
        assert!(!holds(|status| status.lanes[0].classes[0].sent.packets -= 1));
        assert!(!holds(|status| status.lanes[0].classes[0].dropped[0].1.bytes += 1));
        assert!(!holds(|status| status.lanes[1].classes[0].backlog.bytes += 1));
        assert!(!holds(|status| status.frames_free -= 1));
        assert!(!holds(|status| status.ports[0].received += 1));
        assert!(!holds(|status| status.ports[1].sent -= 1));
        // A surplus in one class and a deficit in another do not balance.
        assert!(!holds(|status| {
            status.lanes[0].classes[0].offered.bytes += 1;
            status.lanes[1].classes[0].offered.bytes -= 1;
        }));
    }

    #[test]
    fn frames_lost_at_the_ports_are_reported() {
        let mut status = status();
        status.ports[1].sent -= 1;
        status.ports[1].lost_out = 1;
        let class = &mut status.lanes[0].classes[0];
        let unsent = class.sent.bytes / class.sent.packets;
        class.sent.packets -= 1;
        class.sent.bytes -= unsent;
        class.dropped.push(("not sent".to_owned(), Amount { packets: 1, bytes: unsent }));
        status.ports[0].lost_in = 2;
        let sums = live_conservation(&status);
        assert!(sums.holds);
        assert_eq!(sums.frames.map(|frames| frames.lost), Some(3));
    }

    fn window() -> Window {
        let mut after = status();
        after.uptime_ns = 2_000_000_000;
        after.lanes[0].classes[0].sent = amount(1004, 1_000_500);
        after.lanes[0].classes[0].offered = amount(1009, 1_000_900);
        let now = Instant::now();
        Window {
            before: status(),
            after,
            waiting_min: vec![7],
            span: (1_000, 2_000),
            times: (now, now + Duration::from_secs(1)),
        }
    }

    #[test]
    fn only_events_inside_the_window_count() {
        let figures = live_figures(&window())[0];
        assert_eq!((figures.offered, figures.sent, figures.dropped), (1000, 1000, 0));
        assert_eq!((figures.offered_bps, figures.rate_bps), (4e6, 4e6));
        assert_eq!(figures.waiting_min, Some(7));
    }

    #[test]
    fn the_listener_counts_each_packet_of_the_window_once() {
        let window = window();
        let begun = window.times.0;
        let heard = |number, sent_at, heard_at| Heard { number, sent_at, heard_at };
        let transfer =
            |begun, millis| WebTransfer { begun, took: Ok(Duration::from_millis(millis)) };
        let late = std::io::Error::other("late");
        let trial =
            Trial { changed: Changed::default(), window: self::window(), record: Vec::new() };
        let live = LiveRun {
            trial,
            last: status(),
            spoken: vec![999, 1_000, 1_500, 1_999, 2_000],
            heard: vec![
                heard(0, 999, 5_000),
                heard(1, 1_000, 11_000),
                heard(1, 1_000, 12_000),
                heard(3, 1_999, 21_999),
                heard(9, 1_500, 1_600),
                heard(4, 2_000, 9_000_000),
            ],
            web: vec![
                transfer(begun - Duration::from_secs(1), 900),
                transfer(begun, 50),
                transfer(begun + Duration::from_millis(500), 70),
                WebTransfer { begun, took: Err(late) },
                transfer(window.times.1, 900),
            ],
            record: None,
            window,
        };
        let found = listener(&live);
        assert_eq!((found.sent, found.lost, found.delay_max_us), (3, 1, 20.0));
        let web = live_transfers(&live);
        assert_eq!((web.completed, web.failed, web.p50_ms, web.max_ms), (2, 1, 70.0, 70.0));
    }

    #[test]
    fn greedy_classes_share_the_rest_of_the_link() {
        let policy = crate::demo::policy().expect("the policy of the demo has no error");
        let rates = [0.1e6, 60e6, 1.7e6, 10e6];
        let offered = |offered_bps| Figures { offered_bps, ..Figures::default() };
        let figures = with_shares(&policy.link.tree, rates.map(offered).to_vec());
        for (figures, expected) in figures.iter().zip([0.1e6, 7.8e6, 1.7e6, 10.4e6]) {
            assert!((figures.share_bps - expected).abs() < 1.0, "{figures:?}");
        }
    }
}
