//! How many packets a second of wall clock the simulator delivers: the scenario of ns-2's `cbq.tcl`.
//!
//! `cargo run --release -p weir-sim --example speed -- [SCHEDULER [MBIT [SECONDS [BYTES]]]]`
//!
//! Three CBR sources with jitter share 50, 30 and 20 % of the link and each send 130 % of their
//! share. The wall clock is read here and nowhere below.

use std::time;
use weir_core::classify::{Classifier, FragmentPolicy, Match, PortRange, Rule};
use weir_core::ids::LeafId;
use weir_core::link::LinkPlan;
use weir_core::packet::{Addresses, Headers, Ports, Protocol};
use weir_core::parameter::Params;
use weir_core::queue::QueuePlan;
use weir_core::sched::{self, ClassSpec, Tree};
use weir_core::units::{Bytes, Duration, Quantity, Rate, Share};
use weir_sim::Scenario;
use weir_sim::scenario::{Jitter, Sizes, Source, Spacing, Traffic};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |index: usize, default: &str| {
        arguments.get(index).map_or(default.to_owned(), String::clone)
    };
    let entry = sched::find(&text(0, "drr")).ok_or("no scheduler has this keyword")?;
    let (megabits, seconds) = (text(1, "100").parse::<u64>()?, text(2, "40").parse::<u64>()?);
    let bytes: u32 = text(3, "500").parse()?;
    let scenario = scenario(entry.descriptor, megabits * 1_000_000, seconds, bytes)?;
    let begin = time::Instant::now();
    let report = weir_sim::run(&scenario, &mut |_| {})?;
    let wall = begin.elapsed().as_secs_f64();
    if !report.conservation.holds {
        return Err("packets were lost from the account".into());
    }
    let delivered: u64 = report.sources.iter().map(|source| source.received.packets).sum();
    print!("weir {} link={megabits}Mb pkt={bytes} simulated={seconds}s ", report.link.scheduler);
    print!("delivered={delivered} wall={wall:.3}s delivered/s={:.0}", delivered as f64 / wall);
    for (index, source) in report.sources.iter().enumerate() {
        let rate = source.received.bits_per_second as f64 / 1e6;
        print!(" class{}={rate:.4}Mb/s", index + 1);
    }
    println!();
    Ok(())
}

fn scenario(
    scheduler: &'static sched::Descriptor,
    rate: u64,
    seconds: u64,
    bytes: u32,
) -> Result<Scenario, Box<dyn std::error::Error>> {
    let class = |(index, percent): (usize, &u64)| ClassSpec {
        name: format!("class{}", index + 1),
        parent: None,
        params: params(scheduler, rate * percent / 100, *percent),
    };
    let classes = SHARES.iter().enumerate().map(class).collect();
    let rate_of = |bits: u64| Rate::new(bits).ok_or("a rate of zero");
    let tree = Tree::new(rate_of(rate)?, Bytes::new(1514), Params::new(), classes)?;
    let mut link = LinkPlan::new(scheduler.keyword, tree);
    let limit = Params::new().with("limit", Quantity::Packets(50));
    link.queues.fill(QueuePlan { params: limit, ..QueuePlan::default() });
    let mut sources = Vec::new();
    for (index, percent) in SHARES.iter().enumerate() {
        let sizes = Sizes::fixed(bytes).ok_or("no frame has this length")?;
        let spacing = Spacing::rate(rate_of(rate * percent * 13 / 1000)?);
        let jitter = Share::from_ppb(500_000_000).ok_or("half is a share")?;
        let traffic = Traffic::Cbr { sizes, spacing, jitter };
        sources.push(Source::new(format!("source{}", index + 1), headers(index), traffic));
    }
    let rules = (0..SHARES.len()).map(|index| {
        let destination_ports = vec![PortRange::single(port(index))];
        Rule::new(Match { destination_ports, ..Match::default() }, LeafId(index as u32))
    });
    Ok(Scenario {
        name: "speed".to_owned(),
        link,
        classifier: Classifier::new(rules.collect(), LeafId(0), FragmentPolicy::EachAlone),
        delay: Duration::from_millis(5),
        duration: Duration::from_secs(seconds),
        warmup: Duration::ZERO,
        seed: 1,
        demands: Vec::new(),
        sources,
        changes: Vec::new(),
        network: None,
        behind: None,
        jitter: Jitter::default(),
    })
}

/// The share, in whichever parameter the scheduler takes it.
fn params(scheduler: &sched::Descriptor, rate: u64, percent: u64) -> Params {
    let mut params = Params::new();
    for parameter in scheduler.parameters {
        match parameter.name {
            "rate" => {
                let rate = Rate::new(rate).expect("a share of a rate is not zero");
                params = params.with("rate", Quantity::Rate(rate));
            }
            "quantum" => {
                params = params.with("quantum", Quantity::Bytes(Bytes::new(percent * 150)));
            }
            _ => {}
        }
    }
    params
}

fn headers(index: usize) -> Headers {
    let [source, destination] = [1, 2].map(|last| std::net::Ipv4Addr::new(10, 0, 0, last));
    let ports = Ports { source: 5000, destination: port(index) };
    Headers::of_flow(Addresses::V4 { source, destination }, Protocol::UDP, ports)
}

fn port(index: usize) -> u16 {
    1000 + index as u16
}

const SHARES: [u64; 3] = [50, 30, 20];
