//! Formats the outcome for people: one table, the balances, the checks.

use super::differences::{Difference, SLACK};
use super::figures::{Balance, ClassOutcome, Conservation, Outcome, Transfers};
use super::later::{FILE, Later, Moved, Replay};
use super::mix::NAME;
use std::fmt;
use weir_policy::table::number_table as table;

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} at {} Mbit/s for {} s after {} s of warm-up; policy {} (`weir demo --policy`)",
            self.scheduler,
            self.link_bps / 1e6,
            self.measured_s,
            self.warmup_s,
            self.policy_path
        )?;
        writeln!(f, "{TRAFFIC}\n{}", table(&HEAD, self.classes.iter().map(cells)))?;
        writeln!(f, "Rates in Mbit/s by frame length, delays in ms, drops in packets.\n")?;
        web(f, "live", &self.live.web)?;
        web(f, "simulated", &self.simulated.web)?;
        let listener = &self.listener;
        writeln!(
            f,
            "voice, as its receiver measures: {} of {} lost, delay p50 {}, p99 {}, max {} ms\n",
            listener.lost,
            listener.sent,
            millis(listener.delay_p50_us),
            millis(listener.delay_p99_us),
            millis(listener.delay_max_us)
        )?;
        differences(f, &self.differences)?;
        conservation(f, "live", &self.live.conservation)?;
        conservation(f, "simulated", &self.simulated.conservation)?;
        writeln!(f)?;
        later(f, &self.later)?;
        for check in &self.checks {
            let verdict = if check.held { "held  " } else { "FAILED" };
            writeln!(f, "{verdict}  {}: {}", check.what, check.found)?;
        }
        let held = self.checks.iter().filter(|check| check.held).count();
        writeln!(f, "\n{held} of {} promises held", self.checks.len())?;
        if self.is_busy() {
            writeln!(f, "{BUSY}")?;
        }
        Ok(())
    }
}

fn cells(class: &ClassOutcome) -> Vec<String> {
    let share = |share: f64| if class.greedy { megabits(share) } else { "-".to_owned() };
    vec![
        class.name.clone(),
        format!("≥ {}", class.promise_bps / 1e6),
        share(class.live.share_bps),
        megabits(class.live.rate_bps),
        megabits(class.simulated.rate_bps),
        millis(class.live.delay_p50_us),
        millis(class.simulated.delay_p50_us),
        millis(class.live.delay_p99_us),
        millis(class.simulated.delay_p99_us),
        class.live.dropped.to_string(),
        class.simulated.dropped.to_string(),
    ]
}

fn web(f: &mut fmt::Formatter<'_>, side: &str, web: &Transfers) -> fmt::Result {
    let Transfers { completed, failed, p50_ms, max_ms } = web;
    writeln!(
        f,
        "web transfers, {side}: {completed} completed, {failed} failed, p50 {p50_ms:.1}, max \
         {max_ms:.1} ms"
    )
}

fn differences(f: &mut fmt::Formatter<'_>, differences: &[Difference]) -> fmt::Result {
    let slack = SLACK * 100.0;
    if differences.is_empty() {
        return writeln!(
            f,
            "No figure differs by more than {slack} % between live and simulated.\n"
        );
    }
    writeln!(f, "Live and simulated differ by more than {slack} % in:")?;
    differences.iter().try_for_each(|difference| writeln!(f, "  {difference}"))?;
    writeln!(f)
}

fn conservation(f: &mut fmt::Formatter<'_>, side: &str, sums: &Conservation) -> fmt::Result {
    let verdict = if sums.holds { "holds" } else { "FAILS" };
    let packets = balance(&sums.packets);
    writeln!(f, "conservation {verdict} for each class, {side}; together {packets} packets")?;
    if let Some(bytes) = &sums.bytes {
        writeln!(f, "  {} bytes", balance(bytes))?;
    }
    if let Some(frames) = &sums.frames {
        let (all, free, waiting) = (frames.all, frames.free, frames.waiting);
        writeln!(
            f,
            "  {all} frames = {free} free + {waiting} waiting; ports received {}, sent {}, lost {}",
            frames.received, frames.sent, frames.lost
        )?;
    }
    Ok(())
}

fn later(f: &mut fmt::Formatter<'_>, later: &Later) -> fmt::Result {
    let Later { set, explain, replay } = later;
    let took = set.took_us as f64 / 1e3;
    writeln!(f, "Then, on the link that runs on, what these commands do:\n\n  {}", set.command)?;
    writeln!(f, "in force {took:.1} ms after the request: {}", set.what)?;
    writeln!(f, "{}\n", table(&LATER_HEAD, set.classes.iter().map(moved)))?;
    let (seconds, mib) = (replay.recorded_s, replay.bytes as f64 / f64::from(1 << 20));
    writeln!(f, "  weir record {NAME} --seconds {seconds} -o {FILE}")?;
    writeln!(f, "{mib:.1} MiB, from a second before that change on; kept in memory here\n")?;
    writeln!(f, "  {}\n{}\n", explain.command, explain.sentence)?;
    let Replay { departures, drops, changes, .. } = replay;
    let same = if replay.identical { "the same again" } else { "DIFFERENT after" };
    writeln!(
        f,
        "  {}\n{same}: {departures} departures and {drops} drops with their times, across \
         {changes} change\n",
        replay.command
    )
}

fn moved(class: &Moved) -> Vec<String> {
    let rates = [class.share_before_bps, class.rate_before_bps, class.share_bps, class.rate_bps];
    std::iter::once(class.name.clone()).chain(rates.map(megabits)).collect()
}

fn balance(sums: &Balance) -> String {
    let Balance { offered, sent, dropped, waiting } = sums;
    format!("{offered} offered = {sent} sent + {dropped} dropped + {waiting} waiting")
}

fn megabits(bits_per_second: f64) -> String {
    format!("{:.3}", bits_per_second / 1e6)
}

fn millis(micros: f64) -> String {
    format!("{:.3}", micros / 1e3)
}

const TRAFFIC: &str = "voice: UDP, 50 packets/s; video: a UDP flood of 60 Mbit/s; web: 40 kB by \
    TCP every 200 ms; bulk: one TCP upload";
const BUSY: &str = "Other work occupied the processor (the simulation is not affected). Run it \
    again when the machine is idle, or as root, which gets priority over other work.";
const LATER_HEAD: [&str; 5] = ["class", "before\nshare", "\nrate", "after\nshare", "\nrate"];
const HEAD: [&str; 11] = [
    "class",
    "promise",
    "share",
    "rate\nlive",
    "\nsim",
    "delay p50\nlive",
    "\nsim",
    "delay p99\nlive",
    "\nsim",
    "drops\nlive",
    "\nsim",
];
