//! Exports the queue of each leaf as a discipline of the kernel.

use super::ExportedClass;
use super::writer::Writer;
use std::fmt::Write as _;
use weir_core::packet::FlowKey;
use weir_core::parameter::{Params, Value};
use weir_core::queue::{Limit, QueuePlan};
use weir_core::units::{Bytes, Quantity, Rate};

/// Writes the queues below their classes.
pub(super) fn write(writer: &mut Writer<'_>, classes: &[ExportedClass]) {
    let link = &writer.policy.link;
    let leaves: Vec<(String, QueuePlan)> = classes
        .iter()
        .filter(|class| class.leaf)
        .filter_map(|class| {
            let leaf = writer.policy.leaf(&class.name)?;
            Some((class.name.clone(), link.queues.get(leaf.index())?.clone()))
        })
        .collect();
    for (name, plan) in leaves {
        let class =
            classes.iter().find(|class| class.name == name).expect("the name is one of these");
        let queue = discipline(&name, &plan, writer);
        let device = writer.device;
        writer.command(format!("qdisc add dev {device} parent {} {queue}", class.id));
        if plan.dropper == "gred" {
            for queue in virtual_commands(&name, &plan.params, writer) {
                writer.command(format!("qdisc change dev {device} parent {} {queue}", class.id));
            }
        }
    }
}

fn discipline(name: &str, plan: &QueuePlan, writer: &mut Writer<'_>) -> String {
    let params = &plan.params;
    match plan.dropper {
        "head" if let Limit::Packets(packets) = plan.limit() => {
            format!("pfifo_head_drop limit {packets}")
        }
        "fq-codel" => fq_codel(name, plan, writer),
        "isolate" => isolate(name, plan, writer),
        "cake" => cake(name, plan, writer),
        "sfq" => sfq(name, plan, writer),
        "codel" => keys("codel", params, CODEL) + &ecn(params, false),
        "pie" => {
            let bytes = if params.flag("bytes").unwrap_or(true) { " bytemode" } else { "" };
            keys("pie", params, PIE) + &ecn(params, false) + bytes
        }
        "fq-pie" => {
            lose_hash(name, plan, writer);
            let bytes = if params.flag("bytes") == Some(true) { " bytemode" } else { "" };
            keys("fq_pie", params, FQ_PIE) + &ecn(params, false) + bytes
        }
        "choke" => choke(name, plan, writer),
        "fq" => fq(name, plan, writer),
        "gred" => gred(name, plan, writer),
        "sfb" => {
            if params.flag("ecn") == Some(false) {
                writer.lose(format!("`ecn` of class `{name}`"), "the kernel's queue marks");
            }
            keys("sfb", params, SFB)
        }
        "dualpi2" => dualpi2(name, params, writer),
        dropper => {
            if dropper != "tail" {
                let why =
                    "the kernel's dropper differs: a queue with the same limit is used instead";
                writer.lose(format!("dropper `{dropper}` of class `{name}`"), why);
            }
            match plan.limit() {
                Limit::Packets(packets) => format!("pfifo limit {packets}"),
                Limit::Bytes(bytes) => format!("bfifo limit {}", bytes.get()),
            }
        }
    }
}

fn fq_codel(name: &str, plan: &QueuePlan, writer: &mut Writer<'_>) -> String {
    let params = &plan.params;
    lose_hash(name, plan, writer);
    if params.choice("rules") == Some("rfc8290") {
        writer.lose(format!("`rules` of class `{name}`"), "the kernel has its own");
    }
    let least = Bytes::new(FQ_CODEL_QUANTUM_MIN);
    if params.bytes("quantum").is_some_and(|quantum| quantum < least) {
        writer.lose(format!("quantum of class `{name}`"), "the kernel raises it to 256 B");
    }
    keys("fq_codel", params, FQ_CODEL) + &ecn(params, true)
}

/// The kernel's limit is that of each band, where it has bands.
fn fq(name: &str, plan: &QueuePlan, writer: &mut Writer<'_>) -> String {
    let params = &plan.params;
    lose_hash(name, plan, writer);
    let has_bands = params.choice("bands") == Some("tos");
    let limit = match has_bands {
        true => params.number("band_limit").unwrap_or(10_000),
        false => u64::from(packets_of(plan.limit())),
    };
    let has_all = match plan.limit() {
        Limit::Packets(all) => u64::from(all) >= limit.saturating_mul(BANDS),
        Limit::Bytes(_) => false,
    };
    if has_bands && !has_all {
        let why = "the kernel holds each band to `band_limit`, and the queue to no limit";
        writer.lose(format!("limit of class `{name}`"), why);
    }
    let mut text = keys(&format!("fq limit {limit}"), params, FQ);
    let rate = |key| params.rate(key).map(|rate| rate.bits_per_second());
    if let Some(rate) = rate("maxrate") {
        let low = rate_low(params);
        let _ = write!(text, " maxrate {rate}bit low_rate_threshold {low}bit");
    }
    if let Some(late) = params.duration("ce_threshold") {
        let _ = write!(text, " ce_threshold {}us", late.as_nanos() / 1000);
    }
    if let Some(flows) = params.number("flows") {
        if !flows.is_power_of_two() {
            writer.lose(format!("flows of class `{name}`"), "the kernel takes a mask of hashes");
        }
        let _ = write!(text, " orphan_mask {}", flows.next_power_of_two() - 1);
    }
    if has_bands {
        let weight = |key, default| params.number(key).unwrap_or(default);
        let (low, usual) = (weight("weight0", 9 << 16), weight("weight1", 3 << 16));
        let _ = write!(
            text,
            " bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1 weights {low} {usual} {}",
            weight("weight2", 1 << 16)
        );
    } else {
        let why = "since Linux 6.7 its `fq` has three, by the priority of packets";
        writer.lose(format!("the single band of class `{name}`"), why);
    }
    text
}

fn packets_of(limit: Limit) -> u32 {
    match limit {
        Limit::Packets(packets) => packets,
        Limit::Bytes(bytes) => (bytes.get() / TYPICAL).clamp(1, u32::MAX.into()) as u32,
    }
}

fn rate_low(params: &Params) -> u64 {
    params.rate("low_rate_threshold").map_or(550_000, |rate| rate.bits_per_second())
}

fn lose_hash(name: &str, plan: &QueuePlan, writer: &mut Writer<'_>) {
    if plan.flow_key() != FlowKey::Connection {
        let why = "the kernel's queue separates connections, not hosts";
        writer.lose(format!("hash of class `{name}`"), why);
    }
}

/// tc computes weight and pause from a burst and a bandwidth.
fn choke(name: &str, plan: &QueuePlan, writer: &mut Writer<'_>) -> String {
    let params = &plan.params;
    let number = |key, default| params.number(key).unwrap_or(default);
    let (min, weight) = (number("min", 83), number("weight", 64));
    let usual = Rate::new(writer.rate())
        .map_or(1, |rate| rate.transmit_time(Bytes::new(1000)).as_nanos() << weight.max(1).ilog2());
    let pause = params.duration("halves").map_or(usual, |time| time.as_nanos());
    let found = crate::import::tc_burst_of(weight, min as f64, pause);
    let (burst, bandwidth) = found.unwrap_or_else(|| {
        let why = "tc computes it from a burst, and none gives this one";
        writer.lose(format!("`weight` of class `{name}`"), why);
        (min + 1, writer.rate())
    });
    let bandwidth = at_most(bandwidth, name, writer);
    let marks = if params.flag("ecn") == Some(true) { " ecn" } else { "" };
    keys("choke", params, CHOKE) + &format!(" burst {burst} bandwidth {bandwidth}bit{marks}")
}

/// Writes the setup of a `gred`. The kernel holds each virtual queue to its limit, so the import
/// takes the leaf's to be the sum of them.
fn gred(name: &str, plan: &QueuePlan, writer: &mut Writer<'_>) -> String {
    let params = &plan.params;
    let why = "the kernel's `tc_index` chooses the queue, which a filter of the egress hook sets";
    writer.lose(format!("`by` of class `{name}`"), why);
    let usual = params.number("default").unwrap_or(1);
    let grio = if params.flag("grio") == Some(true) { " grio" } else { "" };
    let there = virtual_queues(params);
    let count = there.last().map_or(0, |queue| queue.number as u64).max(usual) + 1;
    let all = match plan.limit() {
        Limit::Packets(packets) => u64::from(packets) * FRAME,
        Limit::Bytes(bytes) => bytes.get(),
    };
    let most = there.iter().map(|queue| queue.limit).max().unwrap_or(0);
    let limit = all.div_ceil(count).max(most);
    if most > all.div_ceil(count) {
        let why = "it is less than the kernel lets the longest virtual queue have";
        writer.lose(format!("limit of class `{name}`"), why);
    }
    format!("gred setup vqs {count} default {usual}{grio} limit {limit}")
}

/// A virtual queue of a `gred` that has thresholds, in bytes.
struct VirtualQueue {
    number: usize,
    min: u64,
    max: u64,
    limit: u64,
}

/// Returns the virtual queues that are there, by their numbers.
fn virtual_queues(params: &Params) -> Vec<VirtualQueue> {
    let bytes = |name: &str, number: usize| match params.value(&format!("{name}_{number}")) {
        Some(Value::Quantity(Quantity::Bytes(bytes))) => Some(bytes.get()),
        _ => None,
    };
    let is_written = (0..8).any(|queue| bytes("max", queue).is_some());
    let of = |number: usize| {
        let usual = GRED_DEFAULTS.iter().find(|row| !is_written && row.0 == number);
        let max = bytes("max", number).or(usual.map(|row| row.1))?;
        let min = bytes("min", number).unwrap_or(max / 3);
        let limit = bytes("limit", number).unwrap_or(4 * max);
        Some(VirtualQueue { number, min, max, limit })
    };
    (0..8).filter_map(of).collect()
}

/// Writes each virtual queue of a `gred`. tc computes weight and pause from a burst and a
/// bandwidth, and all queues have one `pkttime`.
fn virtual_commands(name: &str, params: &Params, writer: &mut Writer<'_>) -> Vec<String> {
    // The kernel refuses a queue that tc writes without the flags of the setup.
    let set = ["ecn", "harddrop"].into_iter().filter(|flag| params.flag(flag) == Some(true));
    let flags: String = set.map(|flag| format!(" {flag}")).collect();
    let usual = Rate::new(writer.rate())
        .map_or(1, |rate| rate.transmit_time(Bytes::new(PACKET)).as_nanos());
    let time = params.duration("pkttime").map_or(usual, |time| time.as_nanos());
    let bandwidth = at_most(crate::import::tc_bandwidth_of(time), name, writer);
    let mut command = |queue: VirtualQueue| {
        let VirtualQueue { number: at, min, max, limit } = queue;
        let written = |name: &str| params.value(&format!("{name}_{at}"));
        let number = |name: &str, default: u64| match written(name) {
            Some(Value::Quantity(Quantity::Number(value))) => value,
            _ => default,
        };
        let part = match written("pmax") {
            Some(Value::Quantity(Quantity::Share(share))) => f64::from(share.ppb()) / 1e9,
            _ => 0.02,
        };
        let (weight, prio) = (number("weight", 64), number("prio", at as u64));
        let found = crate::import::tc_burst_of(weight, min as f64 / PACKET as f64, 1);
        if found.is_none() {
            let why = "tc computes it from a burst, and none gives this one";
            writer.lose(format!("`weight_{at}` of class `{name}`"), why);
        }
        let burst = found.map_or(min.div_ceil(PACKET) + 1, |row| row.0);
        format!(
            "gred vq {at} limit {limit} min {min} max {max} avpkt {PACKET} burst {burst} \
             probability {part:.6} bandwidth {bandwidth}bit prio {prio}{flags}"
        )
    };
    virtual_queues(params).into_iter().map(&mut command).collect()
}

/// Holds a bandwidth to the largest that tc reads here.
fn at_most(bandwidth: u64, name: &str, writer: &mut Writer<'_>) -> u64 {
    if bandwidth > BANDWIDTH_MAX {
        let why = "tc computes it from a bandwidth of at most 34 Gbit/s";
        writer.lose(format!("the pause of the average of class `{name}`"), why);
    }
    bandwidth.min(BANDWIDTH_MAX)
}

fn dualpi2(name: &str, params: &Params, writer: &mut Writer<'_>) -> String {
    for (key, is_lost, why) in [
        ("rules", params.choice("rules") != Some("linux"), "the kernel has its own"),
        ("ramp", params.duration("ramp").is_some(), "the kernel has a step only"),
        ("nqb", params.flag("nqb") == Some(true), "a filter of the kernel's would choose them"),
    ] {
        if is_lost {
            writer.lose(format!("`{key}` of class `{name}`"), why);
        }
    }
    let gain = |key, default| params.number(key).unwrap_or(default) as f64 / 256.0;
    let ect = if params.choice("identifier") == Some("ect") { "any_ect" } else { "l4s_ect" };
    let marks = params.choice("overload") == Some("mark");
    let overload = if marks { "overflow" } else { "drop_on_overload" };
    let mut text = keys("dualpi2", params, DUALPI2);
    let (alpha, beta) = (gain("alpha", 41), gain("beta", 819));
    // Eight decimals hold any 256th: tc cuts what is below one off.
    let _ = write!(text, " alpha {alpha} beta {beta} {ect} {overload}");
    let micros = params.duration("step").map_or(1000, |step| step.as_nanos() / 1000);
    let most = params.number("step_packets");
    // tc takes a bare number for microseconds.
    let step = most.map_or_else(|| format!("{micros}us"), |most| format!("{most}p"));
    let _ = write!(text, " step_thresh {step}");
    if let Some(floor) = params.number("step_floor") {
        writer.lose(format!("`step_floor` of class `{name}`"), "the kernel counts at arrival");
        let _ = write!(text, " min_qlen_step {floor}");
    }
    text + if params.flag("early") == Some(true) { " drop_enqueue" } else { "" }
}

fn isolate(name: &str, plan: &QueuePlan, writer: &mut Writer<'_>) -> String {
    let why = match plan.flow_key() {
        FlowKey::Connection => "flows share a queue of the kernel where their hashes are equal",
        _ => "the kernel's queue separates connections, not hosts; of its queues only `cake` does",
    };
    writer.lose(format!("`isolate` of class `{name}`"), why);
    let least = Bytes::new(FQ_CODEL_QUANTUM_MIN);
    if plan.params.bytes("quantum").is_some_and(|quantum| quantum < least) {
        writer.lose(format!("quantum of class `{name}`"), "the kernel raises it to 256 B");
    }
    keys("fq_codel", &plan.params, FQ_CODEL) + &ecn(&plan.params, true)
}

/// Writes a cake below a class, whose rate it shapes to as well, so the class should have no more.
fn cake(name: &str, plan: &QueuePlan, writer: &mut Writer<'_>) -> String {
    let rate = plan.params.rate("rate").map_or(writer.rate(), |rate| rate.bits_per_second());
    let unlimited = plan.params.flag("unlimited") == Some(true);
    let shaper = match unlimited {
        true => "unlimited".to_owned(),
        false => format!("bandwidth {rate}bit"),
    };
    if !unlimited && rate < writer.rate() {
        let why = "the kernel's cake also holds the class to this rate";
        writer.lose(format!("rate of the queue of class `{name}`"), why);
    }
    format!("cake {shaper}{} raw", cake_words(name, plan, writer))
}

/// Returns the words for tins, flows, times and memory.
pub(super) fn cake_words(name: &str, plan: &QueuePlan, writer: &mut Writer<'_>) -> String {
    let params = &plan.params;
    if params.value("limit").is_some() {
        let why = "the kernel's cake has a limit of memory alone";
        writer.lose(format!("limit of class `{name}`"), why);
    }
    let time = |name, default| params.duration(name).map_or(default, |time| time.as_nanos() / 1000);
    let (target, interval) = (time("target", 5_000), time("interval", 100_000));
    if target != (interval / 20).max(1) {
        let why = "tc sets it to a twentieth of the interval";
        writer.lose(format!("target of class `{name}`"), why);
    }
    let tins = params.choice("tins").unwrap_or("diffserv3");
    let hash = params.choice("hash").unwrap_or("triple-isolate");
    let memory = params.bytes("memory");
    let memory = memory.map_or(String::new(), |bytes| format!(" memlimit {}b", bytes.get()));
    let wash = if params.flag("wash") == Some(true) { "wash" } else { "nowash" };
    let acks = match params.choice("ack_filter") {
        Some("spare") => "ack-filter",
        Some("aggressive") => "ack-filter-aggressive",
        _ => "no-ack-filter",
    };
    format!(" {tins} {hash} rtt {interval}us{memory} {wash} nonat {acks} split-gso")
}

fn sfq(name: &str, plan: &QueuePlan, writer: &mut Writer<'_>) -> String {
    let params = &plan.params;
    lose_hash(name, plan, writer);
    if params.number("divisor").is_some_and(|divisor| !divisor.is_power_of_two()) {
        writer
            .lose(format!("divisor of class `{name}`"), "the kernel refuses all but powers of two");
    }
    let divisor = params.number("divisor").unwrap_or(SFQ_DIVISOR).next_power_of_two();
    let headdrop = if params.flag("headdrop") == Some(true) { " headdrop" } else { "" };
    keys("sfq", params, SFQ) + &format!(" divisor {divisor}{headdrop}")
}

/// A parameter of Weir, the word in `tc`, and the default.
type Row = (&'static str, &'static str, &'static str);

fn keys(kind: &str, params: &Params, rows: &[Row]) -> String {
    let mut text = kind.to_owned();
    for (name, word, default) in rows {
        let value = match params.value(name) {
            Some(Value::Quantity(Quantity::Duration(time))) if MILLIS.contains(word) => {
                (time.as_nanos() / 1_000_000).to_string()
            }
            Some(Value::Quantity(Quantity::Share(share))) => {
                format!("{:.6}", f64::from(share.ppb()) / 1e9)
            }
            Some(Value::Quantity(Quantity::Duration(time))) => {
                format!("{}us", time.as_nanos() / 1000)
            }
            Some(Value::Quantity(Quantity::Packets(packets))) => packets.to_string(),
            Some(Value::Quantity(Quantity::Bytes(bytes))) if *name == "limit" => {
                // The kernel counts packets here.
                (bytes.get() / TYPICAL).max(1).to_string()
            }
            Some(Value::Quantity(Quantity::Bytes(bytes))) => bytes.get().to_string(),
            Some(Value::Quantity(Quantity::Number(number))) => number.to_string(),
            _ => (*default).to_owned(),
        };
        text.push_str(&format!(" {word} {value}"));
    }
    text
}

fn ecn(params: &Params, default: bool) -> String {
    if params.flag("ecn").unwrap_or(default) { " ecn".to_owned() } else { " noecn".to_owned() }
}

/// The bands of the kernel's `fq`.
const BANDS: u64 = 3;
const FQ_CODEL_QUANTUM_MIN: u64 = 256;
const FQ_CODEL: &[Row] = &[
    ("limit", "limit", "10240"),
    ("flows", "flows", "1024"),
    ("quantum", "quantum", "1514"),
    ("target", "target", "5000us"),
    ("interval", "interval", "100000us"),
    ("memory", "memory_limit", "32000000"),
];
const SFQ_DIVISOR: u64 = 1024;
const SFQ: &[Row] = &[
    ("limit", "limit", "127"),
    ("depth", "depth", "127"),
    ("flows", "flows", "128"),
    ("quantum", "quantum", "1514"),
];
const CODEL: &[Row] = &[
    ("limit", "limit", "1000"),
    ("target", "target", "5000us"),
    ("interval", "interval", "100000us"),
];
const PIE: &[Row] = &[
    ("limit", "limit", "1000"),
    ("target", "target", "15000us"),
    ("update", "tupdate", "15000us"),
    ("alpha", "alpha", "2"),
    ("beta", "beta", "20"),
];
const FQ_PIE: &[Row] = &[
    ("limit", "limit", "10240"),
    ("flows", "flows", "1024"),
    ("quantum", "quantum", "1514"),
    ("target", "target", "15000us"),
    ("update", "tupdate", "15000us"),
    ("alpha", "alpha", "2"),
    ("beta", "beta", "20"),
    ("ecn_max", "ecn_prob", "10"),
];
const FQ: &[Row] = &[
    ("flow_limit", "flow_limit", "100"),
    ("quantum", "quantum", "3028"),
    ("initial_quantum", "initial_quantum", "15140"),
    ("refill_delay", "refill_delay", "40000us"),
];
const CHOKE: &[Row] = &[
    ("limit", "limit", "1000"),
    ("min", "min", "83"),
    ("max", "max", "250"),
    ("pmax", "probability", "0.02"),
];
const SFB: &[Row] = &[
    ("limit", "limit", "1000"),
    ("max", "max", "25"),
    ("target", "target", "20"),
    ("increment", "increment", "0.0005"),
    ("decrement", "decrement", "0.00005"),
    ("penalty_rate", "penalty_rate", "10"),
    ("penalty_burst", "penalty_burst", "20"),
    ("rehash", "rehash", "600000"),
    ("warmup", "db", "60000"),
];
/// The upper thresholds of a `gred` if none is written.
const GRED_DEFAULTS: [(usize, u64); 3] = [(1, 90_000), (2, 60_000), (3, 30_000)];
/// The bytes of a packet in a limit that counts packets, where the kernel counts bytes.
const FRAME: u64 = 1514;
/// The packet of which a `gred` counts its bursts.
const PACKET: u64 = 1000;
/// The largest rate of 32 bits of bytes in a second.
const BANDWIDTH_MAX: u64 = (u32::MAX as u64) * 8;
/// Words of `sfb` that count in milliseconds.
const MILLIS: [&str; 2] = ["rehash", "db"];
const DUALPI2: &[Row] = &[
    ("limit", "limit", "10000"),
    ("target", "target", "15000us"),
    ("update", "tupdate", "16000us"),
    ("coupling", "coupling_factor", "2"),
    ("protection", "classic_protection", "10"),
];
/// The packet size by which a queue in bytes is converted.
const TYPICAL: u64 = 500;
