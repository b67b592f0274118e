//! The cost of a packet, as the papers measured it: throughput by scheduler, packet size and number
//! of classes [algorithms §13.5].
//!
//! Weir's own schedulers are not the papers', and a processor of today is not theirs. Only the
//! shape is compared with the papers: instructions counted under callgrind (`bench/profile.json`,
//! written by `weir bench --profile --write`) beyond those of a FIFO are added to the forwarding
//! time with a FIFO, with a time for each instruction chosen so that one figure of the paper is
//! matched; all other figures follow. Historic runs have the paper's CBQ, whose filter for one
//! destination is found directly by a hash of it [algorithms §11.1], sound ones `cbq` and tables.
//! The paper speaks of a search for each packet's class [risso99 §6.2]; by number of classes both
//! are reckoned, the hash as `pps.N` and a search through a filter of each class as `search.N`.

use super::Experiment;
use crate::claims::{Era, Kind, Measured, Plot, Run, Setup};
use serde::Deserialize;
use weir_bench::bench::profile::{Profile, Row};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cost",
    summary: "cost of a packet by scheduler, size and classes, from counted instructions",
    measure: Some(measure),
    own: None,
};

/// The settings of a sheet.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
enum Model {
    /// Instructions and calls of enqueue and dequeue [nieminen §5, Table II].
    Operations,
    /// Throughput of each scheduler: `bare_us` with a FIFO, `anchor_us` with CBQ. `measured_us` has
    /// what the paper measured of the operations of CBQ and of DBHPD.
    Schedulers { bare_us: f64, anchor_us: f64, frame: f64, measured_us: [f64; 2] },
    /// Packets per second by packet size, with and without CBQ; `table` has the paper's own, CBQ
    /// and FIFO, for what the paper computes from them.
    Sizes {
        fixed_us: f64,
        cell_us: f64,
        anchor_us: f64,
        anchor_ip: u32,
        ips: Vec<u32>,
        table: Vec<[f64; 2]>,
    },
    /// Packets per second by number of classes; the first is the paper's.
    Classes { anchor_us: f64, bare_us: f64 },
}

fn measure(run: &Run<'_>) -> Result<Measured, String> {
    let profile = serde_json::from_str(PROFILE).map_err(|error| error.to_string())?;
    let counts = Counts { profile, era: run.era, cbq: cbq(run.era) };
    let mut measured = Measured::default();
    let title = format!("{}: {}", run.sheet.id, run.sheet.title);
    match run.setting("model")? {
        Model::Operations => operations(&counts, &title, &mut measured),
        Model::Schedulers { bare_us, anchor_us, frame, measured_us: [cbq_us, dbhpd_us] } => {
            // The paper's own times in place of counted instructions.
            let takes = bare_us + (anchor_us - bare_us) * dbhpd_us / cbq_us;
            measured.figure("dbhpd.measured", frame * 8.0 / takes, "Mbit/s");
            let costs = counts.costs(bare_us, anchor_us, FOUR)?;
            schedulers(&counts, &costs, frame, &title, &mut measured)
        }
        Model::Sizes { fixed_us, cell_us, anchor_us, anchor_ip, ips, table } => {
            losses_of(&table, &mut measured);
            let bare = |ip: u32| fixed_us + cell_us * cells(ip);
            let costs = counts.costs(bare(anchor_ip), anchor_us, ONE)?;
            let [fifo, cbq] = sizes(&counts, &costs, bare, &ips, &mut measured)?;
            let x = "length of the IP packet in B";
            let plot = Plot::new(Kind::Lines, &title, x, "packets per second");
            measured.plot(plot.with("fifo", fifo).with(counts.cbq, cbq));
            Ok(())
        }
        Model::Classes { anchor_us, bare_us } => {
            let costs = counts.costs(bare_us, anchor_us, ONE)?;
            classes(&counts, &costs, &title, &mut measured)
        }
    }?;
    let label = format!("Ethernet or ATM, {}", counts.cbq);
    let setup = Setup::default().edge("generator", "router", "as fast as possible");
    measured.setup = Some(setup.edge("router", "sink", &label));
    Ok(measured)
}

/// Returns the CBQ of an era.
const fn cbq(era: Era) -> &'static str {
    match era {
        Era::Historic => "cbq-altq",
        Era::Sound => "cbq",
    }
}

/// The instructions that callgrind counted.
struct Counts {
    profile: Profile,
    era: Era,
    cbq: &'static str,
}

/// The costs of a packet.
struct Costs {
    /// With a FIFO, in µs.
    bare_us: f64,
    /// The time of an instruction of a scheduler, in µs.
    instruction_us: f64,
    /// Instructions of the FIFO, which `bare_us` includes.
    fifo: f64,
}

/// Classes, and how many of them have traffic.
type Case = (usize, usize);

impl Counts {
    fn row(&self, scheduler: &str, (leaves, active): Case) -> Result<&Row, String> {
        let suits =
            |row: &&Row| row.scheduler == scheduler && (row.leaves, row.active) == (leaves, active);
        self.profile.schedulers.iter().find(suits).ok_or_else(|| {
            format!("no count of {scheduler} with {leaves} classes; run `weir bench --profile`")
        })
    }

    /// Returns the instructions of a packet in this era's CBQ, including the search for its class.
    fn cbq(&self, case: Case) -> Result<f64, String> {
        self.cbq_of(self.era, case)
    }

    fn cbq_of(&self, era: Era, case: Case) -> Result<f64, String> {
        Ok(self.row(cbq(era), case)?.instructions() + self.search(era, case.0)?)
    }

    /// Returns the instructions to find the class of a packet among as many rules as there are
    /// classes.
    fn search(&self, era: Era, classes: usize) -> Result<f64, String> {
        match era {
            // Filters of other destinations are in other buckets.
            Era::Historic => self.classify("linear", 1),
            Era::Sound => self.classify("tuple-space", classes),
        }
    }

    fn classify(&self, classifier: &str, rules: usize) -> Result<f64, String> {
        let mut searches = self.profile.classifiers.iter();
        let search = searches.find(|row| row.classifier == classifier && row.rules == rules);
        let search = search.ok_or_else(|| format!("no count of {classifier}"))?;
        Ok(search.classify.instructions)
    }

    /// Returns costs with an instruction time such that the historic CBQ takes `anchor_us`: one
    /// machine for both eras.
    fn costs(&self, bare_us: f64, anchor_us: f64, case: Case) -> Result<Costs, String> {
        let instructions = match case {
            FOUR => self.row(cbq(Era::Historic), FOUR)?.instructions(),
            _ => self.cbq_of(Era::Historic, case)?,
        };
        let fifo = self.row("fifo", case)?.instructions();
        let instruction_us = (anchor_us - bare_us) / (instructions - fifo);
        Ok(Costs { bare_us, instruction_us, fifo })
    }
}

impl Costs {
    /// Returns the time in µs of a packet for which a scheduler needs `instructions`.
    fn takes(&self, instructions: f64) -> f64 {
        self.bare_us + self.instruction_us * (instructions - self.fifo)
    }
}

fn operations(counts: &Counts, title: &str, measured: &mut Measured) -> Result<(), String> {
    let mut table = Vec::new();
    let mut plot = Plot::new(Kind::Bars, title, "operation", "instructions per packet")
        .named(["enqueue", "dequeue"]);
    let four = [("priq", "priq"), ("cbq", counts.cbq), ("dbhpd", "dbhpd"), ("drr", "drr")];
    let plainest = counts.row("priq", FOUR)?;
    let plainest = plainest.enqueue.instructions + plainest.dequeue.instructions;
    for (name, scheduler) in four {
        let Row { enqueue, dequeue, .. } = counts.row(scheduler, FOUR)?;
        for (side, count) in [("enqueue", enqueue), ("dequeue", dequeue)] {
            let unit = "instructions";
            measured.figure(format!("{name}.{side}"), count.instructions, unit);
            measured.figure(format!("{name}.{side}.calls"), count.calls, "calls");
            let relative = count.instructions / plainest;
            measured.figure(format!("{name}.{side}.relative"), relative, "");
        }
        let sum = enqueue.instructions + dequeue.instructions;
        measured.figure(format!("{name}.sum"), sum, "instructions");
        plot = plot.with(scheduler, vec![(0.0, enqueue.instructions), (1.0, dequeue.instructions)]);
    }
    let four = |row: &&Row| (row.leaves, row.active) == FOUR;
    for row in counts.profile.schedulers.iter().filter(four) {
        let Row { scheduler, enqueue, dequeue, .. } = row;
        let number = |number: f64| format!("{number:.1}");
        let counted = [enqueue.instructions, dequeue.instructions, enqueue.calls, dequeue.calls];
        table.push([vec![scheduler.clone()], counted.map(number).to_vec()].concat());
    }
    let columns = ["scheduler", "enqueue", "dequeue", "enqueue calls", "dequeue calls"];
    let heading = "Instructions and calls per packet, four classes, all busy";
    measured.plot(plot).table(heading, &columns, table);
    Ok(())
}

fn schedulers(
    counts: &Counts,
    costs: &Costs,
    frame: f64,
    title: &str,
    measured: &mut Measured,
) -> Result<(), String> {
    let mut plot = Plot::new(Kind::Bars, title, "scheduler", "Mbit/s").named(["all"]);
    let mut table = Vec::new();
    for (name, scheduler) in [("priq", "priq"), ("cbq", counts.cbq), ("dbhpd", "dbhpd")] {
        let takes = costs.takes(counts.row(scheduler, FOUR)?.instructions());
        let mbit = frame * 8.0 / takes;
        measured.figure(name, mbit, "Mbit/s");
        measured.figure(format!("{name}.relative"), costs.bare_us / takes, "");
        plot = plot.with(scheduler, vec![(0.0, mbit)]);
        table.push(vec![scheduler.to_owned(), format!("{mbit:.2}"), format!("{takes:.2}")]);
    }
    measured.plot(plot).table(title, &["scheduler", "Mbit/s", "µs per frame"], table);
    Ok(())
}

/// Adds what the paper computes from its own table: `table.least` and `table.most`, by how much
/// CBQ forwards less than FIFO.
fn losses_of(table: &[[f64; 2]], measured: &mut Measured) {
    let losses = table.iter().map(|[cbq, fifo]| 100.0 * (1.0 - cbq / fifo));
    let (least, most) =
        losses.fold((f64::MAX, f64::MIN), |(least, most), one| (least.min(one), most.max(one)));
    measured.figure("table.least", least, "%").figure("table.most", most, "%");
}

/// Returns packets per second by the length of the IP packet, with a FIFO and with CBQ.
fn sizes(
    counts: &Counts,
    costs: &Costs,
    bare: impl Fn(u32) -> f64,
    ips: &[u32],
    measured: &mut Measured,
) -> Result<[Vec<(f64, f64)>; 2], String> {
    let instructions = counts.cbq(ONE)?;
    let (mut fifo, mut cbq, mut losses) = (Vec::new(), Vec::new(), Vec::new());
    for &ip in ips {
        let without = bare(ip);
        let with = without + costs.instruction_us * (instructions - costs.fifo);
        let loss = (1.0 - without / with) * 100.0;
        measured.figure(format!("fifo.{ip}"), 1e6 / without, "pps");
        measured.figure(format!("cbq.{ip}"), 1e6 / with, "pps");
        fifo.push((f64::from(ip), 1e6 / without));
        cbq.push((f64::from(ip), 1e6 / with));
        losses.push(loss);
    }
    measured.figure("loss.first", losses[0], "%");
    measured.figure("loss.last", losses[losses.len() - 1], "%");
    measured.series("loss", losses);
    Ok([fifo, cbq])
}

fn classes(
    counts: &Counts,
    costs: &Costs,
    title: &str,
    measured: &mut Measured,
) -> Result<(), String> {
    let (mut points, mut searched) = (Vec::new(), Vec::new());
    for row in counts.profile.schedulers.iter().filter(|row| row.scheduler == counts.cbq) {
        if row.active == 1 && row.parts == row.leaves {
            let leaves = row.leaves;
            let instructions = counts.cbq((leaves, 1))?;
            let rate = 1e6 / costs.takes(instructions);
            let with = row.instructions() + counts.classify("linear", leaves)?;
            let with = 1e6 / costs.takes(with);
            measured.figure(format!("pps.{leaves}"), rate, "pps");
            measured.figure(format!("search.{leaves}"), with, "pps");
            measured.figure(format!("instructions.{leaves}"), instructions, "");
            points.push((leaves as f64, rate));
            searched.push((leaves as f64, with));
        }
    }
    for (name, points) in [("pps", &points), ("search", &searched)] {
        if let [Some(first), Some(last)] = [points.first(), points.last()] {
            let fall = 100.0 * (1.0 - last.1 / first.1);
            measured.figure(format!("{name}.fall"), fall, "%");
        }
    }
    // A class with the whole link never borrows, so compare one class whose rate is that of one in
    // a hundred.
    let same = counts.profile.schedulers.iter().find(|row| {
        row.scheduler == counts.cbq && (row.leaves, row.active) == ONE && row.parts > 1
    });
    if let Some(row) = same {
        let instructions = row.instructions() + counts.search(counts.era, 1)?;
        measured.figure("instructions.same", instructions, "");
    }
    let rising = points.windows(2).filter(|pair| pair[1].1 > pair[0].1 * LEVEL).count();
    measured.figure("rises", rising as f64, "");
    let plot = Plot::new(Kind::Lines, title, "classes", "packets per second");
    let paper = [(1, 20513), (5, 20353), (10, 20245), (20, 19871), (50, 18718), (100, 15918)];
    let paper = paper.map(|(x, y)| (f64::from(x), f64::from(y))).to_vec();
    let searches = format!("{}, a search through all filters", counts.cbq);
    let plot = plot.with(counts.cbq, points).with(searches, searched);
    let plot = plot.with("paper: Table 5", paper);
    measured.plot(plot);
    Ok(())
}

/// Returns the ATM cells of an IP packet, with LLC/SNAP and the trailer of AAL5 [algorithms §13.1].
fn cells(ip: u32) -> f64 {
    f64::from((ip + 16).div_ceil(48))
}

const PROFILE: &str = include_str!("../../../bench/profile.json");
/// Four classes, all with traffic.
const FOUR: Case = (4, 4);
/// A single class.
const ONE: Case = (1, 1);
/// A smaller rise is a rounding of floats.
const LEVEL: f64 = 1.000_001;
