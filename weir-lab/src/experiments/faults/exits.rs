//! A process of the link dies: what a probe of 1 kHz misses, and what passes afterwards.

use super::canary::{Canary, Pause, without};
use super::link::{self, Service};
use super::row;
use crate::rows::{Options, Row};
use std::thread;
use std::time::Duration;
use weir_host::wait::monotonic_ns;
use weir_testbed::{Found, Gap, signal};

pub(super) const NAME: &str = "exit";

/// Which process dies, and how.
#[derive(Clone, Copy, PartialEq)]
enum Death {
    Forwarder(&'static str),
    Keeper,
    /// Nothing dies: the operator asks for a new forwarder.
    Restart,
}

struct Case {
    name: &'static str,
    service: Service,
    death: Death,
    /// Whether traffic is to pass afterwards.
    passes: bool,
}

const ALWAYS_OPEN: Service = Service { on_exit: "open", restart: "always" };
const NEVER_OPEN: Service = Service { on_exit: "open", restart: "never" };
const NEVER_CLOSED: Service = Service { on_exit: "closed", restart: "never" };
const ALWAYS_CLOSED: Service = Service { on_exit: "closed", restart: "always" };

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "open, kill -9", service: ALWAYS_OPEN, death: Death::Forwarder("KILL"), passes: true },
    Case { name: "open, abort", service: ALWAYS_OPEN, death: Death::Forwarder("ABRT"), passes: true },
    Case { name: "open, keeper killed", service: ALWAYS_OPEN, death: Death::Keeper, passes: true },
    Case { name: "open, no restart, kill -9", service: NEVER_OPEN, death: Death::Forwarder("KILL"), passes: true },
    Case { name: "closed, keeper killed", service: ALWAYS_CLOSED, death: Death::Keeper, passes: true },
    Case { name: "closed, kill -9", service: ALWAYS_CLOSED, death: Death::Forwarder("KILL"), passes: true },
    Case { name: "closed, no restart, kill -9", service: NEVER_CLOSED, death: Death::Forwarder("KILL"), passes: false },
    Case { name: "closed, no restart, abort", service: NEVER_CLOSED, death: Death::Forwarder("ABRT"), passes: false },
    Case { name: "weir restart", service: ALWAYS_OPEN, death: Death::Restart, passes: true },
];

/// The probe's record of one death.
struct Seen {
    probe: Found,
    pauses: Vec<Pause>,
    died_ns: u64,
    end_ns: u64,
}

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(Row)) -> Result<(), String> {
    for case in CASES {
        let subject = format!("{NAME}: {}", case.name);
        if !options.wants(&subject) && options.only.as_deref() != Some(NAME) {
            continue;
        }
        match case.measure() {
            Ok(seen) => case.judge(&subject, &seen, tell),
            Err(why) => tell(row(subject, why, "measured", false)),
        }
    }
    Ok(())
}

impl Case {
    fn measure(&self) -> Result<Seen, String> {
        let link = link::start(self.service)?;
        let canary = Canary::start()?;
        let probe = link::probe(&link)?;
        thread::sleep(BEFORE);
        let died_ns = monotonic_ns();
        match self.death {
            Death::Forwarder(name) => signal(link.forwarder()?, name)?,
            Death::Keeper => link.signal("KILL")?,
            Death::Restart => drop(link.called(&["restart"])?),
        }
        thread::sleep(AFTER);
        let end_ns = monotonic_ns();
        let probe = link::end(probe)?;
        Ok(Seen { probe, pauses: canary.finish()?, died_ns, end_ns })
    }

    fn judge(&self, subject: &str, seen: &Seen, tell: &mut dyn FnMut(Row)) {
        let probe = &seen.probe;
        let twice = format!("{} of {}", probe.repeated, probe.sent);
        tell(row(format!("{subject}: frames twice"), twice, "0", probe.repeated == 0));
        let before = seen.arrived_between(0, seen.died_ns);
        tell(row(format!("{subject}: before"), format!("{before} frames"), "some", before > 0));
        if !self.passes {
            // What was under way at that instant may still come.
            let later = seen.arrived_between(seen.died_ns + UNDER_WAY_NS, seen.end_ns);
            tell(row(format!("{subject}: after"), format!("{later} frames"), "none", later == 0));
            return;
        }
        let late = seen.end_ns - LAST_NS;
        let last = seen.arrived_between(late, seen.end_ns);
        tell(row(format!("{subject}: at the end"), format!("{last} frames"), "some", last > 0));
        let gaps = probe.gaps(GAP_LEAST);
        let ms = |gap: Option<&Gap>| gap.map_or(0.0, |gap| without(gap, &seen.pauses) as f64 / 1e6);
        let longest = gaps.iter().max_by_key(|gap| gap.length_ns);
        if self.death == Death::Restart {
            tell(Row::at_most(format!("{subject}: gap"), ms(longest), HANDED_MS, "ms"));
            return;
        }
        let at_death = gaps.iter().position(|gap| gap.to_ns > seen.died_ns);
        let first = at_death.map(|at| &gaps[at]);
        let after = at_death.map_or(&gaps[..0], |at| &gaps[at + 1..]);
        let second = after.iter().max_by_key(|gap| gap.length_ns);
        tell(Row::at_most(format!("{subject}: gap"), ms(first), MISSED_MS, "ms"));
        tell(Row::at_most(format!("{subject}: gap of the hand-back"), ms(second), HANDED_MS, "ms"));
    }
}

impl Seen {
    /// Returns how many arrived in this time.
    fn arrived_between(&self, from_ns: u64, to_ns: u64) -> usize {
        let arrivals = (0..self.probe.sent).filter_map(|number| self.probe.arrived_ns(number));
        arrivals.filter(|at_ns| (from_ns..to_ns).contains(at_ns)).count()
    }
}

const BEFORE: Duration = Duration::from_millis(800);
const AFTER: Duration = Duration::from_millis(3000);
/// The last part of the measurement, in which traffic passes again.
const LAST_NS: u64 = 500_000_000;
const UNDER_WAY_NS: u64 = 50_000_000;
/// Shorter times without a frame are no gap.
const GAP_LEAST: Duration = Duration::from_millis(5);
/// The longest gap of a probe after a death, and when a new forwarder takes over.
const MISSED_MS: f64 = 1000.0;
const HANDED_MS: f64 = 50.0;
