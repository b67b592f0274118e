//! Every dropper on the same five lines: what a ping waits, how fairly hosts share, and how much of
//! the line is used.

use super::{Experiment, Own};
use crate::parallel;
use crate::rows::{Row, Rows};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use weir_bench::bench::droppers;
use weir_core::units::{Bytes, Duration, Rate};
use weir_show::{Kind, Plot};
use weir_sim::scenario::Scenario;
use weir_sim::{Report, read, run};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "queues",
    summary: "every dropper on five lines: delay of a ping, fairness of hosts, use of the line",
    measure: None,
    own: Some(Own { draws: true, ..Own::simulated(run_all) }),
};

/// A line and who sends over it.
struct Scene {
    name: &'static str,
    about: &'static str,
    mbits: u64,
    /// Source tables; a host is what stands before `-` in a name.
    sources: &'static str,
}

/// The figures of a run.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// The waits of the ping in the queue, half and p99, in ms.
    waits: [f64; 2],
    /// Jain's index of the rates of hosts: 1 if all are equal, 1/n if one of n has all.
    fairness: f64,
    /// The part of the line that was used, in percent.
    used: f64,
}

fn run_all(rows: &mut Rows<'_>) -> Result<(), String> {
    let all = SCENES.iter().flat_map(|scene| droppers::own().map(move |row| (scene, row.keyword)));
    let wanted = |(scene, dropper): &(&Scene, &str)| rows.options.wants(&scene.subject(dropper));
    let asked: Vec<(&Scene, &str)> = all.filter(wanted).collect();
    let cells = parallel::each(&asked, |(scene, dropper)| scene.measure(dropper))?;
    for ((scene, dropper), cell) in asked.iter().zip(&cells) {
        rows.add(Row::shown(scene.subject(dropper), cell.text()));
    }
    for scene in &SCENES {
        let own = asked.iter().zip(&cells).filter(|row| row.0.0.name == scene.name);
        let own: Vec<(&str, Cell)> = own.map(|((_, dropper), cell)| (*dropper, *cell)).collect();
        if !own.is_empty() {
            rows.results.plots.extend(scene.plots(&own));
            rows.results.notes.push(format!("{}: {}", scene.name, scene.about));
        }
    }
    Ok(())
}

impl Scene {
    fn subject(&self, dropper: &str) -> String {
        format!("{}: {dropper}", self.name)
    }

    fn measure(&self, dropper: &str) -> Result<Cell, String> {
        let report = run(&self.scenario(dropper)?, &mut |_| {}).map_err(|why| why.to_string())?;
        let ping = report.source("ping").ok_or("the ping is missing")?;
        let rate = Rate::new(self.mbits * 1_000_000).ok_or("a rate is not zero")?;
        let way = WAY.as_nanos() + rate.transmit_time(Bytes::new(98)).as_nanos();
        let waited = |delay: Duration| delay.as_nanos().saturating_sub(way) as f64 / 1e6;
        Ok(Cell {
            waits: [ping.delay.p50, ping.delay.p99].map(waited),
            fairness: fairness(&report),
            used: report.link.utilisation * 100.0,
        })
    }

    fn scenario(&self, dropper: &str) -> Result<Scenario, String> {
        let text = format!(
            "duration = \"30 s\"\nwarmup = \"5 s\"\ndelay = \"{} ms\"\n[policy.link]\n\
             rate = \"{} Mbit/s\"\nscheduler = \"fifo\"\n[policy.class.all]\ndefault = true\n\
             queue = {{ dropper = \"{dropper}\"{} }}\n{}{PING}",
            WAY.as_nanos() / 1_000_000,
            self.mbits,
            HOSTS.iter().find(|row| row.0 == dropper).map_or("", |row| row.1),
            self.sources
        );
        let files = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
        let outcome = read::parse(text.as_bytes(), "queues.toml", &files);
        let first = outcome.findings.first().map(|finding| finding.message.clone());
        outcome.plan.ok_or_else(|| first.unwrap_or_default())
    }

    /// Draws the figures, a group for each dropper.
    fn plots(&self, cells: &[(&str, Cell)]) -> [Plot; 3] {
        let draw = |what: &str| {
            let title = format!("{}: {what}", self.name);
            Plot::new(Kind::Bars, &title, "", "").named(cells.iter().map(|row| row.0))
        };
        let points = |of: &dyn Fn(&Cell) -> f64| -> Vec<(f64, f64)> {
            cells.iter().enumerate().map(|(at, row)| (at as f64, of(&row.1))).collect()
        };
        [
            draw("the ping waits, ms, p50 and p99")
                .with("p50, or the figure itself", points(&|cell| cell.waits[0]))
                .with("p99", points(&|cell| cell.waits[1])),
            draw("fairness of hosts, Jain's index").with("", points(&|cell| cell.fairness)),
            draw("line used, %").with("", points(&|cell| cell.used)),
        ]
    }
}

impl Cell {
    fn text(&self) -> String {
        let [half, most] = self.waits;
        format!(
            "ping waits p50 {half:.1}, p99 {most:.1} ms; fairness {:.2}; line {:.1} %",
            self.fairness, self.used
        )
    }
}

/// Returns Jain's index of what the hosts received that want as much as they get.
fn fairness(report: &Report) -> f64 {
    let mut hosts: BTreeMap<&str, f64> = BTreeMap::new();
    for source in report.sources.iter().filter(|source| source.name.contains('-')) {
        let host = source.name.split('-').next().unwrap_or_default();
        *hosts.entry(host).or_default() += source.received.bytes as f64;
    }
    let sum: f64 = hosts.values().sum();
    let squares: f64 = hosts.values().map(|rate| rate * rate).sum();
    sum * sum / (squares * hosts.len() as f64).max(1.0)
}

/// How droppers that can are told that the hosts are the senders; all else is their default.
const HOSTS: [(&str, &str); 2] =
    [("isolate", ", isolate = \"flows within srcaddr\""), ("cake", ", hash = \"dual-srchost\"")];
/// From the line to the receiver.
const WAY: Duration = Duration::from_millis(10);
const PING: &str = r#"
[[source]]
name = "ping"
kind = "cbr"
src = "192.168.1.99"
dport = 7
payload = "56 B"
interval = "20 ms"
"#;

/// Makes the tables of TCP sources: the name of a host, its address, and how many flows.
macro_rules! tcp {
    ($($host:literal $flow:literal $address:literal $more:literal,)*) => {
        concat!($(
            "[[source]]\nname = \"", $host, "-", $flow, "\"\nsrc = \"192.168.1.", $address,
            "\"\ndst = \"203.0.113.", $flow, "\"\nsport = ", $address, $flow,
            "\nkind = \"tcp\"\nprofile = \"linux\"\nreturn_delay = \"10 ms\"\n", $more
        ),*)
    };
}

const SCENES: [Scene; 5] = [
    Scene {
        name: "upload",
        about: "10 Mbit/s, one upload by CUBIC.",
        mbits: 10,
        sources: tcp! { "a" "1" "10" "", },
    },
    Scene {
        name: "hosts",
        about: "40 Mbit/s, three hosts with 1, 2 and 8 uploads by CUBIC.",
        mbits: 40,
        sources: tcp! {
            "a" "1" "10" "",
            "b" "1" "11" "", "b" "2" "11" "",
            "c" "1" "12" "", "c" "2" "12" "", "c" "3" "12" "", "c" "4" "12" "",
            "c" "5" "12" "", "c" "6" "12" "", "c" "7" "12" "", "c" "8" "12" "",
        },
    },
    Scene {
        name: "round trips",
        about: "40 Mbit/s, uploads by CUBIC over 20, 50, 100 and 200 ms.",
        mbits: 40,
        sources: concat!(
            tcp! { "a" "1" "10" "", },
            "[[source]]\nname = \"b-1\"\nsrc = \"192.168.1.11\"\nkind = \"tcp\"\nprofile = \
             \"linux\"\nreturn_delay = \"40 ms\"\n[[source]]\nname = \"c-1\"\nsrc = \
             \"192.168.1.12\"\nkind = \"tcp\"\nprofile = \"linux\"\nreturn_delay = \"90 ms\"\n\
             [[source]]\nname = \"d-1\"\nsrc = \"192.168.1.13\"\nkind = \"tcp\"\nprofile = \
             \"linux\"\nreturn_delay = \"190 ms\"\n"
        ),
    },
    Scene {
        name: "flood",
        about: "20 Mbit/s, a host that sends 30 Mbit/s of UDP beside two uploads.",
        mbits: 20,
        sources: concat!(
            tcp! { "a" "1" "10" "", "b" "1" "11" "", },
            "[[source]]\nname = \"c-1\"\nsrc = \"192.168.1.12\"\nkind = \"cbr\"\nrate = \
             \"30 Mbit/s\"\nsize = \"1514 B\"\n"
        ),
    },
    Scene {
        name: "marks",
        about: "40 Mbit/s, an upload by Prague beside one by CUBIC.",
        mbits: 40,
        sources: tcp! { "a" "1" "10" "congestion = \"prague\"\n", "b" "1" "11" "", },
    },
];
