//! The promises of the demo, and whether they held; these decide the exit code.

use super::figures::{Check, ClassOutcome, Figures, Outcome};
use super::later::{Later, Moved};
use super::mix::Class;

/// Returns every check, in the order of the report.
pub(super) fn all(outcome: &Outcome) -> Vec<Check> {
    let mut checks = vec![flood(outcome)];
    checks.extend(voice(outcome));
    checks.extend(delays(outcome));
    let greedy = || outcome.classes.iter().filter(|class| class.greedy);
    checks.extend(greedy().map(|class| share("live", class, &class.live)));
    checks.extend(greedy().map(|class| share("simulated", class, &class.simulated)));
    checks.extend(utilisation(outcome));
    checks.extend(outcome.classes.iter().map(agreement));
    checks.extend(web_delays(outcome));
    checks.push(transfers(outcome));
    checks.extend(conservation(outcome));
    checks.extend(later(&outcome.later));
    checks
}

/// Checks what was done to the live link after the measurement.
fn later(later: &Later) -> Vec<Check> {
    let Later { set, explain, replay } = later;
    let mut checks: Vec<_> = set.classes.iter().map(moved).collect();
    let dropped = format!("{} dropped", set.voice_dropped);
    let what = "voice loses nothing while the rates change, live";
    checks.push(Check::new(what, dropped, set.voice_dropped == 0));
    let (sum, total) = (explain.sum_ms(), explain.total_ms);
    let found = format!("{sum:.6} ms of {total:.6} ms");
    // Parts are whole nanoseconds, shown in milliseconds.
    let is_whole = total > 0.0 && (sum - total).abs() < 1e-7;
    checks.push(Check::new("the parts of the worst voice delay sum to it", found, is_whole));
    let held = replay.identical && replay.departures > 0 && replay.changes == 1;
    let found = match replay.difference.as_str() {
        "" => format!(
            "{} departures, {} drops, {} change",
            replay.departures, replay.drops, replay.changes
        ),
        difference => difference.to_owned(),
    };
    checks.push(Check::new("a record of the change is replayed to the bit", found, held));
    checks
}

fn moved(class: &Moved) -> Check {
    let deviation = class.rate_bps / class.share_bps - 1.0;
    let what = format!("{} is within {} of its new share, live", class.name, percent(MOVED_SLACK));
    Check::new(what, format!("{:+.2} %", deviation * 100.0), deviation.abs() <= MOVED_SLACK)
}

/// Checks that there is an overload, without which the demo shows nothing.
fn flood(outcome: &Outcome) -> Check {
    let offered = outcome.class(Class::Video).live.offered_bps / outcome.link_bps;
    let found = format!("{offered:.2} times");
    Check::new(
        "the flood offers 3 times the link, live",
        found,
        offered >= 3.0 * (1.0 - FLOOD_SLACK),
    )
}

fn voice(outcome: &Outcome) -> Vec<Check> {
    let voice = outcome.class(Class::Voice);
    let mut checks: Vec<_> = [("live", &voice.live), ("simulated", &voice.simulated)]
        .into_iter()
        .map(|(side, figures)| {
            let Figures { offered, sent, dropped, .. } = *figures;
            let found = format!("{sent} sent of {offered} offered, {dropped} dropped");
            // One packet may wait at either end of the measurement.
            let held = sent > 0 && dropped == 0 && offered.abs_diff(sent) <= 1;
            Check::new(format!("voice keeps its rate with no drop, {side}"), found, held)
        })
        .collect();
    let listener = &outcome.listener;
    let found = format!("{} of {} lost", listener.lost, listener.sent);
    let held = listener.sent > 0 && listener.lost == 0;
    checks.push(Check::new("voice loses nothing, as its receiver counts", found, held));
    checks
}

fn delays(outcome: &Outcome) -> [Check; 3] {
    let voice = outcome.class(Class::Voice);
    let rows = [
        ("live", voice.live.delay_p99_us),
        ("live, as its receiver measures", outcome.listener.delay_p99_us),
        ("simulated", voice.simulated.delay_p99_us),
    ];
    rows.map(|(side, p99)| {
        let what = format!("voice delay p99 is at most {} ms, {side}", VOICE_P99_US / 1e3);
        Check::new(what, format!("{:.3} ms", p99 / 1e3), p99 > 0.0 && p99 <= VOICE_P99_US)
    })
}

impl Outcome {
    /// Returns whether other work on the machine explains the failures: the link was stalled, or
    /// only live delays failed.
    pub(super) fn is_busy(&self) -> bool {
        !self.held() && (self.stalls > 0 || self.is_late_only_live())
    }

    fn is_late_only_live(&self) -> bool {
        let [live, listener, simulated] = delays(self);
        let late = [live, listener];
        let live = [&late[..], &web_delays(self)].concat();
        let mut others = self.checks.iter().filter(|check| !live.contains(check));
        late.iter().any(|check| !check.held) && simulated.held && others.all(|check| check.held)
    }
}

fn share(side: &str, class: &ClassOutcome, figures: &Figures) -> Check {
    let deviation = figures.rate_bps / figures.share_bps - 1.0;
    let what = format!("{} is within {} of its share, {side}", class.name, percent(SHARE_SLACK));
    Check::new(what, format!("{:+.2} %", deviation * 100.0), deviation.abs() <= SHARE_SLACK)
}

fn utilisation(outcome: &Outcome) -> [Check; 2] {
    [("live", &outcome.live), ("simulated", &outcome.simulated)].map(|(side, totals)| {
        let what = format!("the link is used to {} at least, {side}", percent(UTILISATION_MIN));
        let found = format!("{:.2} %", totals.utilisation * 100.0);
        Check::new(what, found, totals.utilisation >= UTILISATION_MIN)
    })
}

fn agreement(class: &ClassOutcome) -> Check {
    let deviation = class.live.rate_bps / class.simulated.rate_bps - 1.0;
    let what =
        format!("{}: live and simulated rate agree to {}", class.name, percent(AGREEMENT_SLACK));
    let held = deviation.abs() <= AGREEMENT_SLACK;
    Check::new(what, format!("live is {:+.2} % off", deviation * 100.0), held)
}

/// Checks that simulated TCP makes short transfers wait as the kernel's does.
fn web_delays(outcome: &Outcome) -> [Check; 2] {
    let ClassOutcome { live, simulated, .. } = outcome.class(Class::Web);
    let rows = [
        ("mean", live.delay_mean_us, simulated.delay_mean_us, WEB_MEAN_SLACK),
        ("p99", live.delay_p99_us, simulated.delay_p99_us, WEB_P99_SLACK),
    ];
    rows.map(|(figure, live, simulated, slack)| {
        let what = format!("web: the simulated delay's {figure} is within {}", percent(slack));
        let deviation = simulated / live - 1.0;
        let found = format!(
            "{:.1} ms, live {:.1} ms, {:+.0} %",
            simulated / 1e3,
            live / 1e3,
            deviation * 100.0
        );
        Check::new(what, found, deviation.abs() <= slack)
    })
}

fn transfers(outcome: &Outcome) -> Check {
    let web = &outcome.live.web;
    let found = format!("{} completed, {} failed", web.completed, web.failed);
    Check::new("every web transfer is completed, live", found, web.completed > 0 && web.failed == 0)
}

fn conservation(outcome: &Outcome) -> [Check; 2] {
    let live = &outcome.live.conservation;
    let lost = live.frames.map_or(0, |frames| frames.lost);
    let simulated = &outcome.simulated.conservation;
    let verdict = |holds| if holds { "balances" } else { "does not balance" };
    [
        Check::new(
            "every packet, byte and frame is accounted for, live",
            format!("{}, {lost} frames lost in front of or behind the link", verdict(live.holds)),
            live.holds && lost == 0,
        ),
        Check::new(
            "every packet and byte is accounted for, simulated",
            verdict(simulated.holds),
            simulated.holds,
        ),
    ]
}

fn percent(part: f64) -> String {
    format!("{} %", (part * 1e4).round() / 1e2)
}

const FLOOD_SLACK: f64 = 0.02;
const VOICE_P99_US: f64 = 5_000.0;
const SHARE_SLACK: f64 = 0.02;
const UTILISATION_MIN: f64 = 0.98;
const AGREEMENT_SLACK: f64 = 0.03;
const WEB_MEAN_SLACK: f64 = 0.1;
const WEB_P99_SLACK: f64 = 0.15;
/// The measurement after the change is short.
const MOVED_SLACK: f64 = 0.03;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::figures::{Balance, Conservation, Listener, Side, Transfers};
    use crate::demo::later::{Explain, Replay, Set};
    use weir_trace::explain::Parts;

    fn class(class: Class, rate_bps: f64) -> ClassOutcome {
        let figures = Figures {
            share_bps: rate_bps,
            offered_bps: if class.is_greedy() { 60e6 } else { rate_bps },
            rate_bps,
            offered: 500,
            sent: 500,
            delay_mean_us: 300.0,
            delay_p99_us: 600.0,
            ..Figures::default()
        };
        ClassOutcome {
            name: class.name().to_owned(),
            greedy: class.is_greedy(),
            promise_bps: 1e6,
            live: figures,
            simulated: figures,
        }
    }

    fn side() -> Side {
        let packets = Balance { offered: 9, sent: 4, dropped: 3, waiting: 2 };
        Side {
            utilisation: 0.999,
            conservation: Conservation { holds: true, packets, bytes: None, frames: None },
            web: Transfers { completed: 50, ..Transfers::default() },
        }
    }

    fn later() -> Later {
        let moved = |name: &str, before, after| Moved {
            name: name.to_owned(),
            share_before_bps: before,
            rate_before_bps: before,
            share_bps: after,
            rate_bps: after,
        };
        let parts_ms = Parts { line_busy: 0.6, others: 0.7, ..Parts::default() };
        Later {
            set: Set {
                command: String::new(),
                what: String::new(),
                took_us: 900,
                measured_s: 3.0,
                classes: vec![moved("video", 7.8e6, 10.4e6), moved("bulk", 10.4e6, 7.8e6)],
                voice_dropped: 0,
            },
            explain: Explain {
                command: String::new(),
                sentence: String::new(),
                total_ms: 1.3,
                parts_ms,
            },
            replay: Replay {
                command: String::new(),
                recorded_s: 5.0,
                bytes: 1,
                identical: true,
                departures: 9,
                drops: 3,
                changes: 1,
                difference: String::new(),
            },
        }
    }

    fn sound() -> Outcome {
        let rates = [0.1e6, 7.8e6, 1.7e6, 10.4e6];
        let mut outcome = Outcome {
            policy_path: "",
            policy: "",
            scheduler: "",
            link_bps: 20e6,
            measured_s: 10.0,
            warmup_s: 2.0,
            classes: Class::ALL.iter().zip(rates).map(|(one, rate)| class(*one, rate)).collect(),
            live: side(),
            simulated: side(),
            listener: Listener { sent: 500, delay_p99_us: 700.0, ..Listener::default() },
            stalls: 0,
            later: later(),
            differences: Vec::new(),
            checks: Vec::new(),
        };
        outcome.checks = all(&outcome);
        outcome
    }

    #[test]
    fn a_good_outcome_passes() {
        let outcome = sound();
        assert!(outcome.held(), "{outcome}");
        assert_eq!(outcome.checks.len(), 27);
    }

    /// Changes one value; exactly the checks whose text contains the words fail.
    fn check(spoil: fn(&mut Outcome), words: &str, count: usize) {
        let mut outcome = sound();
        spoil(&mut outcome);
        outcome.checks = all(&outcome);
        let failed: Vec<_> = outcome.checks.iter().filter(|check| !check.held).collect();
        assert_eq!(failed.len(), count, "{words}: {failed:?}");
        assert!(failed.iter().all(|check| check.what.contains(words)), "{words}: {failed:?}");
        assert!(!outcome.held());
    }

    #[test]
    fn each_changed_value_fails_its_check() {
        const VOICE: usize = 0;
        const VIDEO: usize = 1;
        const WEB: usize = 2;
        const BULK: usize = 3;
        check(|o| o.classes[VIDEO].live.offered_bps = 58e6, "flood", 1);
        check(|o| o.classes[VOICE].live.dropped = 1, "no drop, live", 1);
        check(|o| o.classes[VOICE].simulated.sent = 498, "no drop, simulated", 1);
        check(|o| o.listener.lost = 1, "receiver counts", 1);
        check(|o| o.listener.sent = 0, "receiver counts", 1);
        check(|o| o.classes[VOICE].live.delay_p99_us = 5_001.0, "delay p99", 1);
        check(|o| o.classes[VOICE].simulated.delay_p99_us = 0.0, "delay p99", 1);
        check(|o| o.listener.delay_p99_us = 5_001.0, "receiver measures", 1);
        check(|o| o.classes[VIDEO].live.share_bps *= 1.03, "video is within", 1);
        check(|o| o.classes[BULK].simulated.share_bps *= 0.97, "bulk is within", 1);
        check(|o| o.live.utilisation = 0.979, "used to 98 %", 1);
        check(|o| o.classes[2].live.rate_bps *= 1.031, "web: live and simulated", 1);
        check(|o| o.classes[VOICE].live.rate_bps = f64::NAN, "voice: live and simulated", 1);
        check(|o| o.classes[WEB].simulated.delay_mean_us *= 0.89, "delay's mean", 1);
        check(|o| o.classes[WEB].live.delay_p99_us *= 0.86, "delay's p99", 1);
        check(|o| o.live.web.failed = 1, "web transfer", 1);
        check(|o| o.live.web.completed = 0, "web transfer", 1);
        check(|o| o.live.conservation.holds = false, "accounted for, live", 1);
        check(|o| o.simulated.conservation.holds = false, "accounted for, simulated", 1);
        check(|o| o.later.set.classes[0].rate_bps = 7.8e6, "video is within 3 % of its new", 1);
        check(|o| o.later.set.classes[1].rate_bps *= 1.031, "bulk is within 3 % of its new", 1);
        check(|o| o.later.set.voice_dropped = 1, "while the rates change", 1);
        check(|o| o.later.explain.parts_ms.others -= 1e-6, "parts of the worst", 1);
        check(|o| o.later.explain.total_ms = 0.0, "parts of the worst", 1);
        check(|o| o.later.replay.identical = false, "replayed to the bit", 1);
        check(|o| o.later.replay.changes = 0, "replayed to the bit", 1);
    }

    #[test]
    fn a_busy_machine_is_named_only_if_it_explains_the_failures() {
        let hint = |spoil: fn(&mut Outcome)| {
            let mut outcome = sound();
            spoil(&mut outcome);
            outcome.checks = all(&outcome);
            outcome.to_string().contains("when the machine is idle")
        };
        assert!(!hint(|_| {}));
        assert!(hint(|o| o.listener.delay_p99_us = 9e3));
        assert!(!hint(|o| o.classes[0].simulated.delay_p99_us = 9e3));
        assert!(!hint(|o| o.stalls = 2));
        assert!(hint(|o| (o.stalls, o.live.utilisation) = (2, 0.5)));
        assert!(!hint(|o| (o.listener.delay_p99_us, o.live.utilisation) = (9e3, 0.5)));
    }
}
