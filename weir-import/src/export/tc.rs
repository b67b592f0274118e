//! Exports a policy as the kernel's disciplines, by `tc` `[linux]`.
//!
//! A discipline without a rate of its own is put below a `tbf` with the link's rate. Every queue,
//! burst and quantum is written, so that no default of the kernel applies.

use super::tc_filters;
use super::tc_queues;
use super::writer::Writer;
use super::{Export, ExportedClass, Filters};
use std::collections::BTreeSet;
use weir_core::ids::ClassId;
use weir_core::parameter::Params;
use weir_core::sched::ClassSpec;
use weir_core::units::Bytes;
use weir_policy::policy::Policy;

/// Returns the commands for `device`.
///
/// # Errors
/// If the kernel has no discipline for the policy's scheduler; the message lists those it has.
pub fn to_tc(policy: &Policy, device: &str, filters: Filters) -> Result<Export, String> {
    to_tc_on(policy, device, crate::import::is_bare(device), filters)
}

/// As [`to_tc`], for a device that sends packets without an Ethernet header where it is `bare`.
///
/// # Errors
/// As [`to_tc`].
pub fn to_tc_on(
    policy: &Policy,
    device: &str,
    bare: bool,
    filters: Filters,
) -> Result<Export, String> {
    let scheduler = policy.link.scheduler;
    let Some((_, write)) = SCHEDULERS.iter().find(|row| row.0 == scheduler) else {
        let known: Vec<_> = SCHEDULERS.iter().map(|row| row.0).collect();
        return Err(format!(
            "the kernel has no discipline like `{scheduler}`; it has {}",
            weir_policy::reader::list(&known)
        ));
    };
    let count = policy.link.tree.classes().len();
    if count > CLASSES_MAX {
        return Err(format!(
            "{count} classes are more than the {CLASSES_MAX} that a qdisc numbers"
        ));
    }
    let (lines, lost) = Default::default();
    let ids = vec![String::new(); count];
    let mut writer = Writer { policy, device, bare, lines, lost, ids, root: "1:" };
    let classes = write(&mut writer);
    tc_queues::write(&mut writer, &classes);
    tc_filters::write(&mut writer, filters);
    lose_hashes(&mut writer);
    writer.lose_rest();
    Ok(Export { lines: writer.lines, classes, lost: writer.lost })
}

/// Records the classes that stand for queues by hash as lost; the kernel's classes have no hash.
fn lose_hashes(writer: &mut Writer<'_>) {
    let policy = writer.policy;
    let rules = policy.rules.iter().map(|rule| (rule.leaf, rule.spread));
    let all = rules.chain([(policy.default.leaf, policy.default.spread)]);
    let leaves: BTreeSet<_> =
        all.filter(|(_, spread)| spread.is_some()).map(|(leaf, _)| leaf).collect();
    for leaf in leaves {
        let name = policy.leaf_name(leaf);
        let why = format!("the kernel's classes have no hash: all packets go to `{name}`");
        writer.lose(format!("`hash` of the class of `{name}`"), why);
    }
}

type Write = fn(&mut Writer<'_>) -> Vec<ExportedClass>;

/// The writer for each scheduler.
const SCHEDULERS: &[(&str, Write)] = &[
    ("htb", htb),
    ("hfsc", hfsc),
    ("drr", drr),
    ("qfq-plus", qfq),
    ("priq", priq),
    ("ets", ets),
    ("tbf", single),
    ("fifo", single),
];

/// Returns the handle with a class's minor number: as declared, from 1.
fn handle(major: u16, id: ClassId) -> String {
    format!("{major:x}:{:x}", id.0 + 1)
}

fn htb(writer: &mut Writer<'_>) -> Vec<ExportedClass> {
    let device = writer.device;
    let tree = &writer.policy.link.tree;
    let default = writer.default_class().0 + 1;
    let r2q = tree.params().number("r2q");
    let r2q = r2q.map_or_else(String::new, |r2q| format!(" r2q {r2q}"));
    // tc takes no negative `overhead` of a class.
    let (stab, overhead) = match writer.added() < 0 {
        true => (writer.stab(), String::new()),
        false => (String::new(), writer.overhead()),
    };
    let root = format!("qdisc add dev {device} root handle 1:{stab} htb default {default:x}{r2q}");
    writer.command(root);
    let packet = writer.packet();
    let mut exported = Vec::new();
    for (id, class) in writer.downward_owned() {
        let params = &class.params;
        let own = handle(1, id);
        let parent = class.parent.map_or_else(|| "1:".to_owned(), |parent| handle(1, parent));
        let rate = params.rate("rate").map_or(1, |rate| rate.bits_per_second());
        let ceil = params.rate("ceil").map_or(rate, |ceil| ceil.bits_per_second());
        if rate < RATE_LEAST {
            writer.lose(format!("rate of class `{}`", class.name), "tc has no rate below 8 bit/s");
        }
        let (rate, ceil) = (rate.max(RATE_LEAST), ceil.max(RATE_LEAST));
        // The burst: Weir's default, 4 ms of the rate and a packet.
        let burst = |name: &str, rate: u64| {
            let default = rate / 8 / 250 + 1600;
            crate::import::tc_burst(params.bytes(name).map_or(default, Bytes::get), rate)
        };
        let (burst, cburst) = (burst("burst", rate), burst("cburst", ceil));
        let mut line = format!(
            "class add dev {device} parent {parent} classid {own} htb rate {rate}bit \
             ceil {ceil}bit burst {burst} cburst {cburst}"
        );
        let leaf = writer.policy.link.tree.leaf_of(id).is_some();
        if leaf {
            let prio = params.number("prio").unwrap_or(0);
            let divisor = writer.policy.link.tree.params().number("r2q").unwrap_or(10).max(1);
            let usual = (rate / 8 / divisor).clamp(1000, 200_000).max(packet);
            let quantum = params.bytes("quantum").map_or(usual, Bytes::get);
            line.push_str(&format!(" prio {prio} quantum {quantum}"));
        }
        line.push_str(&overhead);
        writer.named(&own, &class.name);
        writer.command(line);
        let row = writer.exported(id, own);
        exported.push(ExportedClass { rate: Some(rate), ceil: Some(ceil), ..row });
    }
    exported
}

/// The kernel's HFSC has no rate of a link: an added top class has it, unless the policy has one.
fn hfsc(writer: &mut Writer<'_>) -> Vec<ExportedClass> {
    let (device, rate, stab) = (writer.device, writer.rate(), writer.stab());
    let default = writer.default_class().0 + 1;
    let root = format!("qdisc add dev {device} root handle 1:{stab} hfsc default {default:x}");
    writer.command(root);
    let classes = writer.downward_owned();
    let tops: Vec<_> = classes.iter().filter(|(_, class)| class.parent.is_none()).collect();
    let limit = |class: &ClassSpec| class.params.rate("ul_m2").map(|rate| rate.bits_per_second());
    let whole = matches!(tops.as_slice(), [(_, class)] if limit(class) == Some(rate));
    let mut above = "1:".to_owned();
    if !whole {
        above = format!("1:{:x}", CLASSES_MAX + 1);
        writer.named(&above.clone(), "line");
        writer.command(format!(
            "class add dev {device} parent 1: classid {above} hfsc ls m2 {rate}bit ul m2 {rate}bit"
        ));
    }
    let mut exported = Vec::new();
    for (id, class) in classes {
        let own = handle(1, id);
        let parent = class.parent.map_or_else(|| above.clone(), |parent| handle(1, parent));
        let leaf = writer.policy.link.tree.leaf_of(id).is_some();
        let curves = curves(&class.params, leaf, writer.packet());
        writer.named(&own, &class.name);
        writer
            .command(format!("class add dev {device} parent {parent} classid {own} hfsc{curves}"));
        let row = writer.exported(id, own);
        exported.push(row);
    }
    exported
}

/// Returns `rt`, `ls` and `ul`, with the curves that `rate` and `delay` stand for.
fn curves(params: &Params, leaf: bool, packet: u64) -> String {
    let rate = |name: &str| params.rate(name).map(|rate| rate.bits_per_second());
    let own = rate("rate");
    let mut text = String::new();
    let names = [
        ("rt", ["rt_m1", "rt_d", "rt_m2"]),
        ("ls", ["ls_m1", "ls_d", "ls_m2"]),
        ("ul", ["ul_m1", "ul_d", "ul_m2"]),
    ];
    for (kind, [m1, d, m2]) in names {
        let usual = own.filter(|_| kind != "ul");
        let Some(slope) = rate(m2).or(usual).filter(|_| kind != "rt" || leaf) else { continue };
        let mut first = (rate(m1).unwrap_or(0), params.duration(d).map_or(0, |d| d.as_nanos()));
        if kind == "rt"
            && first.1 == 0
            && let Some(delay) = params.duration("delay")
        {
            let bytes = params.bytes("packet").map_or(packet, Bytes::get);
            let delay = delay.as_nanos().max(1);
            let steep = u128::from(bytes) * 8_000_000_000 / u128::from(delay);
            first = (u64::try_from(steep).unwrap_or(u64::MAX), delay);
        }
        text.push_str(&match first {
            (_, 0) => format!(" {kind} m2 {slope}bit"),
            // `tc` counts the first part of a curve in whole microseconds.
            (m1, d) => format!(" {kind} m1 {m1}bit d {}us m2 {slope}bit", d.div_ceil(1000)),
        });
    }
    if text.is_empty() { " ls m2 8bit".to_owned() } else { text }
}

fn drr(writer: &mut Writer<'_>) -> Vec<ExportedClass> {
    let packet = writer.packet();
    flat(writer, "drr", |params| {
        format!("quantum {}", params.bytes("quantum").map_or(packet, Bytes::get))
    })
}

fn qfq(writer: &mut Writer<'_>) -> Vec<ExportedClass> {
    let packet = writer.packet();
    flat(writer, "qfq", |params| {
        let longest = params.bytes("maxpkt").map_or(packet, Bytes::get);
        format!("weight {} maxpkt {longest}", params.number("weight").unwrap_or(1))
    })
}

/// A discipline whose classes have no classes below them, with the options of each.
fn flat(
    writer: &mut Writer<'_>,
    kind: &str,
    options: impl Fn(&Params) -> String,
) -> Vec<ExportedClass> {
    writer.shaper();
    let device = writer.device;
    writer.root = "10:";
    writer.command(format!("qdisc add dev {device} parent 1:1 handle 10: {kind}"));
    let mut exported = Vec::new();
    for (id, class) in writer.downward_owned() {
        let own = handle(0x10, id);
        let options = options(&class.params);
        writer.named(&own, &class.name);
        writer.command(format!("class add dev {device} parent 10: classid {own} {kind} {options}"));
        let row = writer.exported(id, own);
        exported.push(row);
    }
    exported
}

/// Bands in the order of priorities; leaves of one priority, which alternate in Weir, get
/// consecutive bands.
fn priq(writer: &mut Writer<'_>) -> Vec<ExportedClass> {
    let priority = |class: &ClassSpec| class.params.number("priority").unwrap_or(1);
    let mut classes = writer.downward_owned();
    classes.sort_by_key(|(_, class)| std::cmp::Reverse(priority(class)));
    lose_turns(&classes, priority, writer);
    let kind = format!("prio bands {}", classes.len().clamp(2, BANDS_MAX));
    banded(&classes, &kind, writer)
}

/// Strict bands in the order of priorities, and then those that share.
fn ets(writer: &mut Writer<'_>) -> Vec<ExportedClass> {
    let packet = writer.packet();
    let priority = |class: &ClassSpec| class.params.number("priority").unwrap_or(0);
    let mut classes = writer.downward_owned();
    classes.sort_by_key(|(_, class)| std::cmp::Reverse(priority(class)));
    let strict = classes.partition_point(|(_, class)| priority(class) > 0);
    lose_turns(&classes[..strict], priority, writer);
    let bands = classes.len().clamp(1, BANDS_MAX);
    let mut kind = format!("ets bands {bands} strict {}", strict.min(bands));
    let shares = classes[strict..].iter().take(bands.saturating_sub(strict));
    for (at, (_, class)) in shares.enumerate() {
        let quantum = class.params.bytes("quantum").map_or(packet, Bytes::get);
        let word = if at == 0 { " quanta" } else { "" };
        kind.push_str(&format!("{word} {quantum}"));
    }
    banded(&classes, &kind, writer)
}

/// Records the classes that have the priority of the one before them.
fn lose_turns(
    classes: &[(ClassId, ClassSpec)],
    priority: impl Fn(&ClassSpec) -> u64,
    writer: &mut Writer<'_>,
) {
    for pair in classes.windows(2) {
        if priority(&pair[0].1) == priority(&pair[1].1) {
            let why =
                "classes of one priority take turns in Weir; in the kernel the first precedes";
            writer.lose(format!("priority of class `{}`", pair[1].1.name), why);
        }
    }
}

/// A discipline whose classes are bands in this order, below the shaper.
fn banded(
    classes: &[(ClassId, ClassSpec)],
    kind: &str,
    writer: &mut Writer<'_>,
) -> Vec<ExportedClass> {
    writer.shaper();
    writer.root = "10:";
    let device = writer.device;
    let default = writer.default_class();
    let place = classes.iter().position(|(id, _)| *id == default).unwrap_or(0).min(BANDS_MAX - 1);
    let map = vec![place.to_string(); BANDS_MAX].join(" ");
    writer.command(format!("qdisc add dev {device} parent 1:1 handle 10: {kind} priomap {map}"));
    let mut exported = Vec::new();
    for (band, (id, class)) in classes.iter().enumerate() {
        if band >= BANDS_MAX {
            let why = format!("the kernel has {BANDS_MAX} bands; the class shares the last one");
            writer.lose(format!("class `{}`", class.name), why);
        }
        let own = format!("10:{:x}", band.min(BANDS_MAX - 1) + 1);
        writer.named(&own, &class.name);
        let row = writer.exported(*id, own);
        exported.push(row);
    }
    exported
}

/// One queue behind one bucket, or a cake, which shapes by itself.
fn single(writer: &mut Writer<'_>) -> Vec<ExportedClass> {
    if let Some(exported) = cake(writer) {
        return exported;
    }
    let tree = &writer.policy.link.tree;
    let params = tree.params();
    let rate = params.rate("rate").map_or(writer.rate(), |rate| rate.bits_per_second());
    let packet = writer.packet();
    let burst = params.bytes("burst").map_or(rate / 8 / 250 + packet, Bytes::get);
    let peak = params.rate("peakrate").map_or_else(String::new, |peak| {
        let mtu = params.bytes("mtu").map_or(packet, Bytes::get);
        format!(" peakrate {}bit mtu {mtu}", peak.bits_per_second())
    });
    let (device, stab, limit) = (writer.device, writer.stab(), 1000 * packet);
    writer.command(format!(
        "qdisc add dev {device} root handle 1:{stab} tbf rate {rate}bit burst {burst} \
         limit {limit}{peak}"
    ));
    let default = writer.default_class();
    let mut exported = Vec::new();
    for (id, class) in writer.downward_owned() {
        if id != default {
            let why = "there is one queue, that of the default class";
            writer.lose(format!("class `{}`", class.name), why);
            continue;
        }
        writer.named("1:0", &class.name);
        let row = writer.exported(id, "1:1".to_owned());
        exported.push(row);
    }
    exported
}

/// A cake at the root, if it is the only queue and its rate is that of the link.
fn cake(writer: &mut Writer<'_>) -> Option<Vec<ExportedClass>> {
    let policy = writer.policy;
    let link = &policy.link;
    let plan = link.queues.first().filter(|plan| {
        let own = plan.params.rate("rate").is_none_or(|rate| rate == link.tree.rate());
        plan.dropper == "cake" && own && plan.params.flag("unlimited") != Some(true)
    })?;
    if link.scheduler != "fifo" || link.queues.len() > 1 {
        return None;
    }
    let (id, name) = (writer.default_class(), policy.leaf_name(policy.default.leaf).to_owned());
    let words = tc_queues::cake_words(&name, plan, writer);
    let (device, rate, overhead) = (writer.device, writer.rate(), writer.cake_overhead());
    writer.named("1:0", &name);
    let follows = if link.follows_arrivals { " autorate-ingress" } else { "" };
    writer.command(format!(
        "qdisc add dev {device} root handle 1: cake bandwidth {rate}bit{words}{overhead}{follows}"
    ));
    let row = writer.exported(id, "1:0".to_owned());
    Some(vec![ExportedClass { leaf: false, ..row }])
}

/// Minor numbers below this are classes'; the next is that of an added top class.
const CLASSES_MAX: usize = 0xff00;
const BANDS_MAX: usize = 16;
/// tc counts bytes per second.
const RATE_LEAST: u64 = 8;
