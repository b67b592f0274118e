//! The memory of running links beside what `weir check` says that they need at most: deployments of
//! ten kinds, each flooded and changed many times.
//!
//! WEIR_SETS is the number of changes of each; with it the estimate must also not be too high, and
//! a table is printed. Without it some of the kinds are changed a few times. The program's own code
//! is counted only in a release build: that of a debug build is many times larger.

use super::{Test, plan};
use libtest_mimic::Failed;
use serde_json::Value;
use std::fs;
use std::net::IpAddr;
use std::time::Duration;
use weir_control::client;
use weir_control::protocol::{Answer, Request, Setting, Terms};
use weir_host::netns::NetNs;
use weir_link::status::{LaneStatus, Status};
use weir_testbed::rows::Outcome;
use weir_testbed::{Flood, FloodConfig, Host, PortKind, Scene, ScenePlan};

pub const TESTS: &[Test] = &[("a_link_takes_no_more_memory_than_check_says", within_the_estimate)];

pub const OVER_AF_XDP: &[Test] =
    &[("a_link_over_af_xdp_takes_no_more_memory_than_check_says", over_af_xdp)];

/// A kind of deployment.
struct Kind {
    name: &'static str,
    plan: fn() -> ScenePlan,
    /// Whether the short form has it, too.
    is_short: bool,
}

const KINDS: &[Kind] = &[
    Kind::new("3 classes one way", || plan(&classes(2, "drr"))).short(),
    Kind::new("3 classes both ways", || plan(&classes(2, "htb")).both_ways()).short(),
    Kind::new("40 classes, a log", || plan(&classes(39, "htb")).deployment("log = \"link.log\"")),
    Kind::new("500 classes both ways", || plan(&classes(499, "drr")).both_ways()),
    Kind::new("5000 classes", || plan(&classes(4999, "htb"))),
    Kind::new("a list of 200", || plan(&listed(200))),
    Kind::new("flows kept apart", || plan(&isolated()).both_ways()),
    Kind::new("a ring of 8 MB", || plan(&classes(9, "hfsc")).deployment("ring = \"8 MB\"")),
];

const XDP: Kind = Kind::new("10 classes over AF_XDP", || {
    plan(&classes(9, "htb")).both_ways().ports(PortKind::AfXdp)
});

impl Kind {
    const fn new(name: &'static str, plan: fn() -> ScenePlan) -> Self {
        Self { name, plan, is_short: false }
    }

    const fn short(self) -> Self {
        Self { is_short: true, ..self }
    }
}

fn within_the_estimate() -> Outcome {
    KINDS.iter().filter(|kind| kind.is_short || sets().is_some()).try_for_each(check)
}

/// Returns the bytes of the parts of an estimate that this load does not fill.
fn unfilled(said: &Value) -> u64 {
    let parts = said["memory"]["parts"].as_array().into_iter().flatten();
    let is_unfilled = |part: &&Value| part["name"].as_str() == Some(FLOWS_PART);
    parts.filter(is_unfilled).filter_map(|part| part["bytes"].as_u64()).sum()
}

fn over_af_xdp() -> Outcome {
    check(&XDP)
}

/// Returns the number of changes that is asked for.
fn sets() -> Option<u32> {
    std::env::var("WEIR_SETS").ok()?.parse().ok()
}

fn check(kind: &Kind) -> Outcome {
    let scene = (kind.plan)().prepare()?;
    let to = [Host::Server.ip4(), Host::Client.ip4()];
    Case { name: kind.name, scene, to, directions: &[None] }.compare()
}

/// A link between a client and a server, which is not started yet.
pub struct Case {
    pub name: &'static str,
    pub scene: Scene,
    /// Where the client and the server send to.
    pub to: [IpAddr; 2],
    /// The directions whose policies are changed; none is named where they have the same.
    pub directions: &'static [Option<&'static str>],
}

impl Case {
    /// Starts the link, floods it, changes it often, and compares what it takes with what was said.
    pub fn compare(mut self) -> Outcome {
        let said = self.scene.weir_inside(&["check", "link.toml", "--format", "json"])?;
        let said: Value = serde_json::from_str(&said.stdout)?;
        let most = said["memory"]["total_bytes"].as_u64().ok_or_else(|| format!("{said}"))?;
        self.scene.start()?;
        self.flood()?;
        for number in 0..sets().unwrap_or(SETS) {
            self.set(number)?;
        }
        self.flood()?;
        let taken = memory_of(&self.scene)?;
        let part = taken as f64 / (most - unfilled(&said)) as f64;
        let line = format!("{}: {} of at most {} MB", self.name, taken >> 20, most >> 20);
        if sets().is_some() {
            println!("{line}, {part:.2}; {}", said["memory"]["parts"]);
        }
        assert!(taken <= most, "{line}: {}", said["memory"]);
        assert!(sets().is_none() || part >= LEAST, "{line}: {}", said["memory"]);
        self.scene.stop()?;
        Ok(())
    }

    /// Sends more than the link does, each way that it shapes and to several classes in turn, until
    /// frames lie everywhere in the pool.
    fn flood(&self) -> Outcome {
        let Self { scene, to, .. } = self;
        let lanes = scene.status()?.lanes;
        let shaped = lanes.iter().filter(|lane| lane.classes.len() > 1).count();
        let ways = [(&scene.testbed.client, to[0]), (&scene.testbed.server, to[1])];
        let others = (lanes[0].classes.len() as u16 - 1).min(FLOODED_MAX);
        let ports = (FIRST..FIRST + others).chain([Flood::PORT]).collect();
        let config = FloodConfig { length: 1400, ports, ..FloodConfig::default() };
        let start = |(from, to): &(&NetNs, IpAddr)| Flood::between(from, *to, config.clone());
        let _floods = ways[..shaped].iter().map(start).collect::<Result<Vec<_>, _>>()?;
        let waiting = |lane: &LaneStatus| -> u64 {
            lane.classes.iter().map(|class| class.backlog.packets).sum()
        };
        let is_full =
            |status: &Status| status.lanes[..shaped].iter().all(|lane| waiting(lane) >= WAITING);
        scene.await_status("the pools are full", is_full)?;
        Ok(())
    }

    /// Changes the rate of the link.
    fn set(&self, number: u32) -> Outcome {
        let setting = |direction: &Option<&str>| Setting {
            direction: direction.map(str::to_owned),
            key: "link.rate".to_owned(),
            value: format!("{} Mbit/s", 10 + number % 7),
        };
        let settings = self.directions.iter().map(setting).collect();
        let request = Request::Set { settings, terms: Terms::default() };
        match client::call(&self.scene.socket(), &request)? {
            Answer::Changed(changed) if changed.errors == 0 => Ok(()),
            other => Err(format!("{other:?}").into()),
        }
    }
}

/// Returns the bytes that keeper and forwarder take, shared ones by halves.
fn memory_of(scene: &Scene) -> Result<u64, Failed> {
    // What waits for another thread is there, too.
    std::thread::sleep(Duration::from_millis(500));
    let processes = scene.children().into_iter().chain([scene.keeper()?]);
    let mut taken = 0;
    for process in processes {
        let maps = fs::read_to_string(format!("/proc/{process}/smaps"))?;
        let mut is_code = false;
        for line in maps.lines() {
            let mut words = line.split_whitespace();
            let first = words.next().unwrap_or_default();
            if !first.ends_with(':') {
                is_code = words.next_back().is_some_and(|name| name.ends_with("/weir"));
            } else if first == "Pss:" && !(is_code && cfg!(debug_assertions)) {
                taken += words.next().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) << 10;
            }
        }
    }
    Ok(taken)
}

/// Returns a policy of so many classes beside the default one. Each may have what the pool has.
pub fn classes(count: u16, scheduler: &str) -> String {
    let class = |number: u16| {
        let rate = rate(scheduler, "1 kbit/s");
        let limit = if count < 100 { "queue = { limit = \"8000 packets\" }\n" } else { "" };
        let port = FIRST + number;
        format!(
            "[class.c{number}]\n{rate}{limit}match = [{{ proto = \"udp\", dport = \"{port}\" }}]\n"
        )
    };
    begin(scheduler) + &(0..count).map(class).collect::<String>()
}

fn begin(scheduler: &str) -> String {
    let rate = rate(scheduler, "4 Mbit/s");
    format!(
        "[link]\nrate = \"10 Mbit/s\"\nscheduler = \"{scheduler}\"\n\
         [class.rest]\n{rate}default = true\nqueue = {{ limit = \"8000 packets\" }}\n"
    )
}

/// Returns the line of a class's rate, where the scheduler has such a parameter.
fn rate(scheduler: &str, rate: &str) -> String {
    match scheduler {
        "drr" => String::new(),
        _ => format!("rate = \"{rate}\"\n"),
    }
}

/// Returns a policy with a class for each row of a list.
fn listed(rows: u16) -> String {
    let row = |number| format!("{{ id = \"s{number}\", port = \"{}\" }}", FIRST + number);
    let rows = (0..rows).map(row).collect::<Vec<_>>().join(", ");
    begin("htb")
        + &format!(
            "[template.subscriber]\nlist = [{rows}]\nname = \"{{id}}\"\nclass.rate = \"1 kbit/s\"\n\
             class.match = [{{ proto = \"udp\", dport = \"{{port}}\" }}]\n"
        )
}

/// Returns a policy whose default class keeps flows apart.
fn isolated() -> String {
    begin("drr").replace("queue = {", "isolate = \"flows\"\nqueue = {")
}

/// The port of the first class.
const FIRST: u16 = 1024;
/// The most classes that are flooded beside the default one.
const FLOODED_MAX: u16 = 1000;
/// The tables of isolated flows have room for 32 768 of them; the flood has a thousand.
const FLOWS_PART: &str = "queues of flows";
/// Packets that wait in a link whose pool, of 8192 frames, is all but full.
const WAITING: u64 = 7500;
/// Changes without WEIR_SETS.
const SETS: u32 = 20;
/// The least part of the estimate that a link may take: it is above that by at most a third.
const LEAST: f64 = 0.75;
