//! The switches of weight and dropper on a `weir up` that runs, between private networks: where
//! only the dropper changes, as `weir set` does it; where the weight changes, too, as `weir reload`
//! does it. The simulation of the same changes is beside it.
//!
//! Figures are those of the simulated switches, of the link and, behind `simulated.`, of the
//! simulation. `rates` and `delays` are series of each phase and queue, as percentages of the
//! simulated; `switch.most` is the longest switch in ms.

use super::switches::{LEFT_OUT, Phase, count};
use super::{NAMES, Row};
use crate::claims::{Measured, Run};
use crate::experiments::papers_live;
use crate::program;
use std::thread;
use std::time::{Duration, Instant};
use weir_bench::rig;
use weir_control::client;
use weir_control::protocol::{Answer, Request, Setting, Terms};
use weir_host::precedence::set_realtime;
use weir_link::status::{ClassStatus, Status};
use weir_sim::scenario::{Scenario, Source};
use weir_sim::{Fate, Host, Watch};
use weir_testbed::Scene;
use weir_traffic::{ReceivePlan, Receiver, SendPlan, Sender};

/// A phase of the link that runs, with how long it was counted, in s.
type Counted = (Phase, f64);

/// Measures the phases live; [`rig::prepare`] must be called before.
pub(super) fn measure(
    run: &Run<'_>,
    rows: &[Row],
    seconds: f64,
    measured: &mut Measured,
) -> Result<(), String> {
    let first = rows.first().ok_or("no phase")?;
    let mut changes = String::new();
    for (number, row) in rows.iter().enumerate().skip(1) {
        let at = format!("{} ms", number as f64 * seconds * 1e3);
        changes += &filled(run, "change.toml", row, &[("at", &at)])?;
    }
    let duration = format!("{} ms", rows.len() as f64 * seconds * 1e3);
    let [weight, one, three] = first.queues();
    let values = [
        ("duration", duration.as_str()),
        ("changes", &changes),
        ("weight", &weight),
        ("queue1", &one),
        ("queue3", &three),
    ];
    let scenario = run.scenario("scenario.toml", &values)?;
    let host = papers_live::calibration()?.host;
    let simulated = simulate(&scenario, (rows.len(), seconds), &host)?;
    let policies = rows.iter().map(|row| filled(run, "policy.toml", row, &[]));
    let policies = policies.collect::<Result<Vec<_>, _>>()?;
    let steps = Steps { rows, policies: &policies, seconds };
    let (live, switch_ms) = steps.run(&scenario.sources)?;
    let mut table = Vec::new();
    let (mut rates, mut delays) = (Vec::new(), Vec::new());
    for ((row, (phase, counted)), simulated) in rows.iter().zip(&live).zip(&simulated) {
        let name = format!("simulated.{}", row.name);
        let beside = simulated.figures(&name, seconds * (1.0 - LEFT_OUT), measured);
        let values = phase.figures(&row.name, *counted, measured);
        let mut cells = vec![row.name.clone()];
        for (value, beside) in values.iter().zip(&beside) {
            cells.push(format!("{:.1} / {:.1}", value[0], value[1]));
            cells.push(format!("{:.1} / {:.1}", beside[0], beside[1]));
        }
        let part = |what: usize, queue: usize| 100.0 * values[what][queue] / beside[what][queue];
        rates.extend([part(0, 0), part(0, 1)]);
        delays.extend([part(1, 0), part(1, 1)]);
        table.push(cells);
    }
    measured.series("rates", rates).series("delays", delays);
    measured.figure("switch.most", switch_ms, "ms");
    measured.table(&format!("{}: {}", run.sheet.id, run.sheet.title), &COLUMNS, table);
    Ok(())
}

/// Returns a file of the sheet with the weight and the queues of a phase.
fn filled(run: &Run<'_>, file: &str, row: &Row, others: &[(&str, &str)]) -> Result<String, String> {
    let [weight, one, three] = row.queues();
    let values = [("weight", weight.as_str()), ("queue1", &one), ("queue3", &three)];
    run.filled(file, &[&values, others].concat())
}

fn simulate(
    scenario: &Scenario,
    (count_of, seconds): (usize, f64),
    host: &Host,
) -> Result<Vec<Phase>, String> {
    let mut scenario = scenario.clone();
    host.apply(&mut scenario);
    let mut phases = vec![Phase::default(); count_of];
    let mut tell = |fate: &Fate<'_>| count(&mut phases, seconds, fate);
    let watch = Watch { packets: Some(&mut tell), ..Watch::default() };
    weir_sim::run_watched(&scenario, watch, &mut |_| {}).map_err(|error| error.to_string())?;
    for phase in &mut phases {
        for (waited, sent) in phase.waited.iter_mut().zip(phase.sent) {
            *waited += sent * host.port.as_nanos();
        }
    }
    Ok(phases)
}

/// The phases of the link.
struct Steps<'a> {
    rows: &'a [Row],
    /// The policy of each.
    policies: &'a [String],
    seconds: f64,
}

impl Steps<'_> {
    /// Returns what was counted in each phase, and the longest switch in ms.
    fn run(&self, sources: &[Source]) -> weir_testbed::Result<(Vec<Counted>, f64)> {
        let policy = self.policies.first().map_or("", String::as_str);
        let pool = format!("pool = \"{} packets\"", rig::FRAMES_MAX);
        let plan = program::plan_first(policy)?.deployment(&pool);
        let mut link = plan.prepare_in(rig::quiet_testbed()?)?;
        link.start()?;
        let ports = sources.iter().filter_map(|source| source.headers.ports);
        let ports: Vec<u16> = ports.map(|ports| ports.destination).collect();
        let receiver =
            link.testbed.server.run(|| Receiver::start(&ReceivePlan::ports(&ports)))??;
        let duration = Duration::from_secs_f64(self.rows.len() as f64 * self.seconds) + SLACK;
        let plan = SendPlan { duration, ..SendPlan::new(sources.to_vec()) };
        let start = || {
            // As the demo's traffic; an ordinary user goes without.
            drop(set_realtime());
            Sender::start(&plan)
        };
        let sender = link.testbed.client.run(start)??;
        let counted = self.phases(&link);
        sender.stop();
        sender.finish();
        receiver.finish();
        link.stop()?;
        Ok(counted?)
    }

    fn phases(&self, link: &Scene) -> Result<(Vec<Counted>, f64), String> {
        let begun = Instant::now();
        let until = |phase: f64| {
            let end = begun + Duration::from_secs_f64(phase * self.seconds);
            thread::sleep(end.saturating_duration_since(Instant::now()));
        };
        let (mut counted, mut switch_us) = (Vec::new(), 0);
        for (number, row) in self.rows.iter().enumerate() {
            if number > 0 {
                switch_us = switch_us.max(self.switch(link, number)?);
            }
            until(number as f64 + LEFT_OUT);
            // Delays are measured anew from here.
            ask(link, &Request::Mark {})?;
            let before = link.status()?;
            until(number as f64 + 1.0);
            let after = link.status()?;
            let missing = || format!("{}: a queue has no counts", row.name);
            counted.push(window(&before, &after).ok_or_else(missing)?);
        }
        Ok((counted, switch_us as f64 / 1e3))
    }

    /// Switches to a phase; returns how long that took in µs.
    fn switch(&self, link: &Scene, number: usize) -> Result<u64, String> {
        let (row, policy) = (&self.rows[number], &self.policies[number]);
        let terms = Terms { reason: row.name.clone(), ..Terms::default() };
        let request = if row.weight == self.rows[number - 1].weight {
            let [_, one, three] = row.queues();
            let set = |(name, value): (&str, String)| Setting {
                direction: None,
                key: format!("class.{name}.queue"),
                value,
            };
            let settings = NAMES.into_iter().zip([one, three]).map(set).collect();
            Request::Set { settings, terms }
        } else {
            link.write("policy.toml", policy)?;
            Request::Reload { texts: None, terms }
        };
        match ask(link, &request)? {
            Answer::Changed(changed) if changed.number.is_some() => Ok(changed.took_us),
            Answer::Changed(changed) => {
                Err(format!("{}: nothing changes: {}", row.name, changed.text))
            }
            _ => Err("the link gave another answer than asked for".to_owned()),
        }
    }
}

fn ask(link: &Scene, request: &Request) -> Result<Answer, String> {
    match client::call(&link.socket(), request)? {
        Answer::Error(why) => Err(why),
        answer => Ok(answer),
    }
}

/// Returns what the queues did between two looks, and how long that was, in s.
fn window(before: &Status, after: &Status) -> Option<Counted> {
    let mut phase = Phase::default();
    for (queue, name) in NAMES.iter().enumerate() {
        let of = |status: &Status| -> Option<ClassStatus> {
            let classes = &status.lanes.first()?.classes;
            classes.iter().find(|class| class.name == *name).cloned()
        };
        let (before, after) = (of(before)?, of(after)?);
        let dropped =
            |class: &ClassStatus| class.dropped.iter().map(|row| row.1.packets).sum::<u64>();
        phase.sent[queue] = after.sent.packets - before.sent.packets;
        phase.dropped[queue] = dropped(&after) - dropped(&before);
        phase.waited[queue] = (after.delay.mean_us * 1e3 * phase.sent[queue] as f64) as u64;
    }
    Some((phase, (after.uptime_ns - before.uptime_ns) as f64 / 1e9))
}

const SLACK: Duration = Duration::from_millis(300);
const COLUMNS: [&str; 7] = [
    "phase",
    "sent 1/3, packets/s",
    "simulated",
    "delay, ms",
    "simulated",
    "dropped, packets/s",
    "simulated",
];
