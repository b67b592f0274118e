//! The reference CBQ against ns-2: the tests that ns-2 ships, and others of the family from a file.
//!
//! The scenarios are the files in `weir-lab/scenarios/ns2/`; what ns-2 sends in each second stands
//! in `published.txt` beside them. The unit is a share of the link.

mod network;
mod scenario;
#[cfg(test)]
mod tests;

use super::{Experiment, Options, Row};
use network::Sent;
use scenario::{Claim, Scenario, That};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "ns2-cbq",
    summary: "the reference CBQ against ns-2's tests, to the packet; others with --file",
    live: false,
    run,
};

fn run(options: &Options, progress: &mut dyn FnMut(&Row)) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let mut keep = |more: Vec<Row>| {
        for row in more.into_iter().filter(|row| options.wants(&row.subject)) {
            progress(&row);
            rows.push(row);
        }
    };
    if let Some(file) = &options.file {
        let shown = file.display().to_string();
        let bytes = std::fs::read(file).map_err(|error| format!("{shown}: {error}"))?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let scenario = scenario::parse(&bytes, &shown, &stem)?;
        let sent = network::run(&scenario)?;
        keep(series(&scenario, &sent));
        keep(claims(&scenario, &sent));
        return Ok(rows);
    }
    let published = published();
    for (name, text) in FILES {
        let scenario = scenario::parse(text.as_bytes(), &format!("{name}.toml"), name)?;
        let sent = network::run(&scenario)?;
        let known: Vec<&Published> = published.iter().filter(|row| row.test == *name).collect();
        if known.is_empty() {
            keep(series(&scenario, &sent));
        }
        keep(known.into_iter().map(|row| row.compare(&scenario, &sent)).collect());
        keep(claims(&scenario, &sent));
    }
    Ok(rows)
}

/// Packets of a flow in each second.
fn packets(scenario: &Scenario, sent: &[Sent], flow: usize) -> Vec<u64> {
    let mut packets = vec![0; scenario.seconds];
    for sent in sent.iter().filter(|sent| sent.flow == flow) {
        packets[sent.at as usize] += 1;
    }
    packets
}

/// The part of the link that so many packets of a flow are, in one second.
fn share(scenario: &Scenario, flow: usize, packets: f64) -> f64 {
    let bytes = packets * f64::from(scenario.sources[flow].size);
    bytes * 8.0 / scenario.tree.rate().bits_per_second() as f64
}

/// What was sent in each second: two rows a flow, without a claim.
fn series(scenario: &Scenario, sent: &[Sent]) -> Vec<Row> {
    let rows = |flow| {
        let packets = packets(scenario, sent, flow);
        let shares = packets.iter().map(|&packets| share(scenario, flow, packets as f64));
        let shares: Vec<String> = shares.map(|share| format!("{share:.4}")).collect();
        let counts: Vec<String> = packets.iter().map(u64::to_string).collect();
        let subject = format!("{} flow {}", scenario.name, flow + 1);
        [
            Row::shown(format!("{subject}, share per second"), shares.join(" ")),
            Row::shown(format!("{subject}, packets per second"), counts.join(" ")),
        ]
    };
    (0..scenario.sources.len()).flat_map(rows).collect()
}

/// One line of the published rows.
struct Published {
    test: &'static str,
    flow: usize,
    shares: Vec<f64>,
}

fn published() -> Vec<Published> {
    let lines = PUBLISHED.lines().filter(|line| !line.starts_with('#'));
    let line = |line: &'static str| {
        let mut words = line.split(' ');
        let (test, flow) = (words.next()?, words.next()?.parse::<usize>().ok()?.checked_sub(1)?);
        let shares = words.map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Published { test, flow, shares })
    };
    lines.map(|text| line(text).expect("the published rows are well formed")).collect()
}

impl Published {
    /// How many packets the worst second is off.
    fn compare(&self, scenario: &Scenario, sent: &[Sent]) -> Row {
        let counts = packets(scenario, sent, self.flow);
        // A packet is a thousandth of the link or more, so four digits tell how many there are.
        let packet = share(scenario, self.flow, 1.0);
        let published = self.shares.iter().map(|share| (share / packet).round() as u64);
        let off: Vec<u64> =
            published.zip(&counts).map(|(was, count)| was.abs_diff(*count)).collect();
        let seconds = off.len().max(counts.len());
        let same = off.iter().filter(|&&off| off == 0).count();
        let texts = (format!("{same} s as ns-2"), format!("{seconds} s"));
        let worst = off.iter().max().copied().unwrap_or(u64::MAX);
        let mut row = Row::off(
            format!("{} flow {}, packets per second", self.test, self.flow + 1),
            texts,
            worst as f64,
            0.0,
        );
        row.holds &= same == seconds;
        row
    }
}

fn claims(scenario: &Scenario, sent: &[Sent]) -> Vec<Row> {
    scenario.claims.iter().map(|claim| claim.hold(scenario, sent)).collect()
}

impl Claim {
    fn hold(&self, scenario: &Scenario, sent: &[Sent]) -> Row {
        let from = format!("{} flow {} from {} s", scenario.name, self.flow + 1, self.from);
        let late: Vec<Sent> = sent.iter().filter(|sent| sent.at >= self.from).copied().collect();
        match self.that {
            That::Share(expected) => {
                let packets = late.iter().filter(|sent| sent.flow == self.flow).count();
                let seconds = scenario.seconds as f64 - self.from;
                let measured = share(scenario, self.flow, packets as f64) / seconds;
                let texts = (format!("{measured:.4}"), format!("{expected:.4}"));
                Row::off(from, texts, (measured - expected).abs(), self.within)
            }
            That::LongestBurst(expected) => {
                let longest = bursts(&late, self.flow).into_iter().max().unwrap_or(0);
                self.packets(format!("{from}, longest burst"), longest, expected)
            }
            That::UsualBurst(expected) => {
                let mut bursts = bursts(&late, self.flow);
                bursts.sort_unstable();
                let median = bursts.get(bursts.len() / 2).copied().unwrap_or(0);
                self.packets(format!("{from}, usual burst"), median, expected)
            }
        }
    }

    fn packets(&self, subject: String, measured: u64, expected: u64) -> Row {
        let texts = (format!("{measured} packets"), format!("{expected} packets"));
        Row::off(subject, texts, measured.abs_diff(expected) as f64, self.within)
    }
}

/// Packets of each burst of a flow: no other flow's packet between, and the line never idle.
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

macro_rules! files {
    ($($name:literal,)*) => {
        /// The scenarios of ns-2's tests.
        const FILES: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../../scenarios/ns2/", $name, ".toml"))),)*
        ];
    };
}

files! {
    "WRR",
    "PRR",
    "MIN1",
    "MIN3",
    "MIN4",
    "MIN6",
    "AO",
    "TL",
    "FORMAL",
    "TwoAO",
    "TwoAO2",
    "TwoAO3",
    "TwoTL",
    "TwoF",
    "TwoDynamic",
    "TwoDynamic1",
    "TwoDynamic1WRR",
    "MAX1",
    "MAX1-LATE",
    "MAX2",
    "EXTRA1",
    "EXTRA2",
}

const PUBLISHED: &str = include_str!("../../../scenarios/ns2/published.txt");
