//! Both engines give equal results: a link alone and the same link in a network.

use std::path::Path;
use weir_core::classify::{Classifier, FragmentPolicy};
use weir_core::ids::LeafId;
use weir_core::link::LinkPlan;
use weir_core::parameter::Params;
use weir_core::sched::{ClassSpec, Tree};
use weir_core::units::{Bytes, Duration, Rate, Share};
use weir_sim::network::Disturbance;
use weir_sim::network::plan::{
    Driver, Ends, Network, NetworkLink, Node, NodeId, OutletId, OutletPlan, Queueing,
};
use weir_sim::scenario::Traffic;
use weir_sim::{Report, Scenario, read};

/// The examples without TCP sources.
fn examples() -> Vec<Scenario> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/sim");
    let mut paths: Vec<_> = folder
        .read_dir()
        .expect("the examples are in the repository")
        .map(|entry| entry.expect("it can be listed").path())
        .collect();
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let bytes = std::fs::read(path).expect("it can be read");
        let name = path.display().to_string();
        let outcome = read::parse(&bytes, &name, &|path| std::fs::read(path));
        outcome.plan.expect("the examples are sound")
    };
    let open_loop = |scenario: &Scenario| {
        let listens = |traffic: &Traffic| matches!(traffic, Traffic::Tcp(_));
        scenario.network.is_none()
            && !scenario.sources.iter().any(|source| listens(&source.traffic))
    };
    let mut scenarios: Vec<_> = paths.iter().map(read).filter(open_loop).collect();
    // What they show is seen in a few seconds; the change of a plan in 11 s.
    for scenario in &mut scenarios {
        scenario.duration = scenario.duration.min(Duration::from_secs(11));
    }
    scenarios
}

/// A queue without traffic.
fn plain() -> Queueing {
    let class = ClassSpec { name: "all".into(), parent: None, params: Params::new() };
    let rate = Rate::new(1_000_000).expect("not zero");
    let tree = Tree::new(rate, Bytes::new(1514), Params::new(), vec![class]).expect("a tree");
    Queueing {
        link: LinkPlan::new("fifo", tree),
        classifier: Classifier::new(Vec::new(), LeafId(0), FragmentPolicy::EachAlone),
    }
}

/// Returns the scenario with its link between two hosts of a network.
fn in_a_network(scenario: &Scenario, tick: Option<Duration>) -> Scenario {
    let node = |name: &str| Node { name: name.to_owned(), router: false, cpu: None };
    let outlet = |queueing, delay, tick| OutletPlan {
        queueing,
        interfaces: Vec::new(),
        behind: None,
        control: None,
        reflectors: Vec::new(),
        delay,
        loss: Share::default(),
        jitter: Duration::ZERO,
        driver: Driver::Line,
        tick,
    };
    let back = outlet(Some(Box::new(plain())), Duration::ZERO, None);
    let link = NetworkLink {
        name: "link".to_owned(),
        ends: [NodeId(0), NodeId(1)],
        mtu: 65_535,
        outlets: [outlet(None, scenario.delay, tick), back],
    };
    let nodes = vec![node("from"), node("to")];
    let (main, policies) = (OutletId(0), vec![OutletId(0)]);
    let network = Network {
        nodes,
        links: vec![link],
        main,
        policies,
        taps: Vec::new(),
        signalling: None,
        disturbance: Disturbance::default(),
    };
    let mut scenario = Scenario { network: Some(Box::new(network)), ..scenario.clone() };
    let ends = Ends { from: NodeId(0), to: NodeId(1) };
    scenario.sources.iter_mut().for_each(|source| source.ends = Some(ends));
    scenario
}

fn run(scenario: &Scenario) -> Report {
    let report = weir_sim::run(scenario, &mut |_| {}).expect("it is sound");
    assert!(report.conservation.holds, "{report}");
    report
}

fn check(scenario: &Scenario, tick: Option<Duration>) {
    let (one, other) = (run(scenario), run(&in_a_network(scenario, tick)));
    assert_eq!(one.link, other.link, "{}", scenario.name);
    assert_eq!(one.changes, other.changes, "{}", scenario.name);
    for (one, other) in one.classes.iter().zip(&other.classes) {
        assert_eq!(one, other, "{}", scenario.name);
    }
    for (one, other) in one.sources.iter().zip(&other.sources) {
        assert_eq!(one, other, "{}", scenario.name);
    }
}

#[test]
fn a_link_gives_equal_results_in_a_network_and_alone() {
    let scenarios = examples();
    assert!(scenarios.len() >= 3);
    for scenario in &scenarios {
        check(scenario, None);
    }
}

#[test]
fn a_driver_that_takes_a_packet_when_the_line_is_free_changes_nothing() {
    // With a tick of a nanosecond the start routine of the drivers has the line's part.
    for scenario in &examples() {
        check(scenario, Some(Duration::from_nanos(1)));
    }
}
