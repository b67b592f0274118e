//! Compares the reference CBQ with ns-2: ns-2's own tests, and others of the family from a file.
//!
//! Historic runs are ns-2's network with ns-2's clock. Sound ones offer the same arrivals to `cbq`
//! on a link of the same rate. The unit is a share of the link.

mod network;
mod scenario;
mod sound;
#[cfg(test)]
mod tests;

use super::{Experiment, Own};
use crate::claims::{Era, Kind, Measured, Plot, Run, Setup};
use crate::rows::{Row, Rows};
use network::Sent;
use scenario::{Claim, Claimed, Scenario};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "ns2-cbq",
    summary: "the reference CBQ: ns-2's own tests (`weir lab run ns2`), others with --file",
    measure: Some(measure),
    own: Some(Own { takes_file: true, ..Own::simulated(run_file) }),
};

fn measure(run: &Run<'_>) -> Result<Measured, String> {
    let text = run.text("scenario.toml")?;
    let scenario = scenario::parse(text.as_bytes(), "scenario.toml", &run.sheet.id)?;
    let sent = match run.era {
        Era::Historic => network::run(&scenario)?,
        Era::Sound => sound::run(&scenario)?,
    };
    let mut measured = figures(&scenario, &sent);
    let title = format!("{}: {}", run.sheet.id, run.sheet.title);
    let plot = Plot::new(Kind::Steps, &title, "time in s", "share of the link");
    let plot = (0..scenario.sources.len()).fold(plot, |plot, flow| {
        plot.with_values(flow_name(flow), &shares(&scenario, &sent, flow))
    });
    measured.plot(plot).setup = Some(setup(&scenario));
    if run.era == Era::Sound {
        sound::judge_by_shares(&scenario, &sent, &mut measured)?;
    }
    Ok(measured)
}

/// Computes the figures of claims: shares per second, and from `count_from` on the share and the
/// bursts.
fn figures(scenario: &Scenario, sent: &[Sent]) -> Measured {
    let mut measured = Measured::default();
    let from = scenario.count_from;
    let late: Vec<Sent> = sent.iter().filter(|sent| sent.at >= from).copied().collect();
    for flow in 0..scenario.sources.len() {
        let name = flow_name(flow);
        measured.series(&name, shares(scenario, sent, flow));
        let packets = late.iter().filter(|sent| sent.flow == flow).count() as f64;
        let mean = share(scenario, flow, packets) / (scenario.seconds as f64 - from);
        let bursts = bursts(&late, flow);
        measured
            .figure(format!("{name}.share"), mean, "")
            .figure(format!("{name}.longest_burst"), longest(&bursts) as f64, "packets")
            .figure(format!("{name}.usual_burst"), usual(bursts) as f64, "packets");
    }
    measured
}

fn flow_name(flow: usize) -> String {
    format!("flow {}", flow + 1)
}

fn setup(scenario: &Scenario) -> Setup {
    let rate = scenario.tree.rate();
    let mut setup = Setup::default();
    for (flow, source) in scenario.sources.iter().enumerate() {
        let spacing = source.interval * 1e3;
        let label = format!("{} B every {spacing} ms; 10 Mbit/s, 5 ms", source.size);
        setup = setup.edge(&flow_name(flow), "router", &label);
    }
    setup = setup.edge("router", "sink", &format!("{rate}, cbq-ref"));
    for (_, spec) in scenario.tree.classes() {
        let parent = spec.parent.map(|parent| scenario.tree.class(parent).name.as_str());
        let share = sound::share_of(spec).map_or_else(String::new, |share| share.to_string());
        setup = setup.class(&spec.name, parent, share);
    }
    setup
}

/// Runs another scenario of the family, from a file.
fn run_file(found: &mut Rows<'_>) -> Result<(), String> {
    let file = found.options.file.as_ref().ok_or("name a scenario with --file")?;
    let shown = file.display().to_string();
    let bytes = std::fs::read(file).map_err(|error| format!("{shown}: {error}"))?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let rows = rows(&bytes, &shown, &stem)?;
    found.extend(rows.into_iter().filter(|row| found.options.wants(&row.subject)));
    Ok(())
}

/// Returns the series and the claims of another scenario of the family; all its errors if it has
/// any.
fn rows(bytes: &[u8], file: &str, name: &str) -> Result<Vec<Row>, String> {
    let scenario = scenario::parse(bytes, file, name)?;
    let sent = network::run(&scenario)?;
    let mut rows = series(&scenario, &sent);
    rows.extend(scenario.claims.iter().map(|claim| claim.hold(&scenario, &sent)));
    Ok(rows)
}

/// Counts the packets of a flow in each second.
fn packets(scenario: &Scenario, sent: &[Sent], flow: usize) -> Vec<u64> {
    let mut packets = vec![0; scenario.seconds];
    for sent in sent.iter().filter(|sent| sent.flow == flow) {
        packets[sent.at as usize] += 1;
    }
    packets
}

/// Returns the share of a flow in each second.
fn shares(scenario: &Scenario, sent: &[Sent], flow: usize) -> Vec<f64> {
    let packets = packets(scenario, sent, flow).into_iter();
    packets.map(|packets| share(scenario, flow, packets as f64)).collect()
}

/// Returns the part of the link that `packets` of a flow are, in one second.
fn share(scenario: &Scenario, flow: usize, packets: f64) -> f64 {
    let bytes = packets * f64::from(scenario.sources[flow].size);
    bytes * 8.0 / scenario.tree.rate().bits_per_second() as f64
}

/// Makes rows with the packets of each second: two rows a flow, without a claim.
fn series(scenario: &Scenario, sent: &[Sent]) -> Vec<Row> {
    let rows = |flow| {
        let shares = shares(scenario, sent, flow).into_iter().map(|share| format!("{share:.4}"));
        let counts = packets(scenario, sent, flow).iter().map(u64::to_string).collect::<Vec<_>>();
        let subject = format!("{} flow {}", scenario.name, flow + 1);
        let shares = shares.collect::<Vec<_>>().join(" ");
        [
            Row::shown(format!("{subject}, share per second"), shares),
            Row::shown(format!("{subject}, packets per second"), counts.join(" ")),
        ]
    };
    (0..scenario.sources.len()).flat_map(rows).collect()
}

impl Claim {
    fn hold(&self, scenario: &Scenario, sent: &[Sent]) -> Row {
        let from = format!("{} flow {} from {} s", scenario.name, self.flow + 1, self.from);
        let late: Vec<Sent> = sent.iter().filter(|sent| sent.at >= self.from).copied().collect();
        match self.claimed {
            Claimed::Share(expected) => {
                let packets = late.iter().filter(|sent| sent.flow == self.flow).count();
                let seconds = scenario.seconds as f64 - self.from;
                let measured = share(scenario, self.flow, packets as f64) / seconds;
                let texts = (format!("{measured:.4}"), format!("{expected:.4}"));
                Row::off(from, texts, (measured - expected).abs(), self.within)
            }
            Claimed::LongestBurst(expected) => {
                let longest = longest(&bursts(&late, self.flow));
                self.packets(format!("{from}, longest burst"), longest, expected)
            }
            Claimed::UsualBurst(expected) => {
                let usual = usual(bursts(&late, self.flow));
                self.packets(format!("{from}, usual burst"), usual, expected)
            }
        }
    }

    fn packets(&self, subject: String, measured: u64, expected: u64) -> Row {
        let texts = (format!("{measured} packets"), format!("{expected} packets"));
        Row::off(subject, texts, measured.abs_diff(expected) as f64, self.within)
    }
}

/// Returns the packets of each burst of a flow: no other flow's packet in between, and the line
/// never idle.
fn bursts(sent: &[Sent], flow: usize) -> Vec<u64> {
    let mut bursts = Vec::new();
    let mut last: Option<&Sent> = None;
    for sent in sent {
        let goes_on = last.is_some_and(|last| last.flow == flow && last.finished >= sent.at);
        match bursts.last_mut() {
            Some(burst) if goes_on && sent.flow == flow => *burst += 1,
            _ if sent.flow == flow => bursts.push(1),
            _ => {}
        }
        last = Some(sent);
    }
    bursts
}

fn longest(bursts: &[u64]) -> u64 {
    bursts.iter().max().copied().unwrap_or(0)
}

/// Returns the median of the bursts.
fn usual(mut bursts: Vec<u64>) -> u64 {
    bursts.sort_unstable();
    bursts.get(bursts.len() / 2).copied().unwrap_or(0)
}
