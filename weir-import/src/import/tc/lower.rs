//! Converts the state of a device to a policy.

use super::super::Options;
use super::super::lines::{LineId, Reading};
use super::super::sketch::{
    Class as SketchClass, Key, Sketch, inline, quoted, rate_value, show_rate,
};
use super::chains::{Chains, Targets};
use super::disciplines::{ClassOptions, Curve, Discipline, Overhead, duration, packet_limit};
use super::filters::Filter;
use super::units::kernel_burst;
use super::{Class, Device, Handle, Qdisc};
use std::collections::BTreeMap;
use weir_core::link::{Coding, Framing};
use weir_core::units::Rate;

type Names = BTreeMap<Handle, String>;
/// The classes with a discipline of classes below: its major number, and its default.
type Inner = BTreeMap<usize, (u16, Option<u16>)>;

/// A device, and the policy that it becomes.
struct Lowering<'n> {
    device: Device,
    names: &'n Names,
    sketch: Sketch,
    /// The discipline with the classes.
    discipline: Discipline,
    /// The major number of its classes.
    root: u16,
    /// Where the root is written.
    line: LineId,
    /// The classes with a discipline of classes below: its major number, and its default.
    inner: Inner,
    /// The rate of the device, where the options have it.
    speed: Option<u64>,
}

/// Returns the policy of a device; none if its root discipline has no counterpart in Weir.
pub(super) fn device(
    mut device: Device,
    names: &Names,
    options: &Options,
    reading: &mut Reading,
) -> Option<Sketch> {
    let Some(root) = device.qdiscs.iter().position(|one| one.parent.is_none()) else {
        for filter in &device.filters {
            reading.lost(filter.line, "the device has no root discipline");
        }
        return None;
    };
    let root = device.qdiscs.remove(root);
    let mut sketch = Sketch::new(&device.name.text, device.name.span);
    let (discipline, handle) = scheduler(&root, &mut device, &mut sketch, reading);
    set_overhead(&device, (&root.kind, &discipline), &mut sketch);
    if discipline.follows_arrivals {
        sketch.link.push(("follows_arrivals", "true".to_owned()));
    }
    let below = device.qdiscs.iter().filter(|one| one.kind.follows_arrivals);
    for one in below {
        let note = "`autorate-ingress` below a class is left out: only the link follows arrivals";
        reading.approximated(one.line, note);
    }
    let (inner, speed) = (BTreeMap::new(), options.rate.map(|rate| rate.bits_per_second()));
    let (line, root_of) = (root.line, handle);
    let mut lowering =
        Lowering { device, names, sketch, discipline, root: root_of, line, inner, speed };
    let direct = add_classes(&mut lowering, reading);
    let Lowering { device, mut sketch, .. } = lowering;
    let derived = match sketch.rate {
        0 => link_rate(&device.classes, handle),
        rate => rate,
    };
    let limits = sketch.rate > 0 || is_limited(&device.classes, handle);
    sketch.rate = match options.rate {
        Some(rate) if !limits => rate.bits_per_second(),
        _ => derived,
    };
    sketch.rate_or(options, root.line, reading);
    let other = |rate: &Rate| limits && rate.bits_per_second() != derived;
    if let Some(at) = direct {
        give_direct(&mut sketch, (at, derived), options, reading);
    } else if options.rate.as_ref().is_some_and(other) {
        let own = show_rate(derived);
        reading.noted(root.line, format!("the file's own rate of {own} stays, not `--rate`"));
    }
    Some(sketch)
}

/// Gives the class of packets that HTB sends past its classes the rest of the link; where the file
/// does not know the link, as much again as the classes have.
fn give_direct(
    sketch: &mut Sketch,
    (at, derived): (usize, u64),
    options: &Options,
    reading: &mut Reading,
) {
    let others = sketch.classes.iter().enumerate().filter(|(index, _)| *index != at);
    let top = others.filter(|(_, class)| class.parent.is_none());
    let needed = top.filter_map(|(_, class)| class.rate).fold(0, u64::saturating_add);
    sketch.rate = match options.rate {
        Some(rate) => rate.bits_per_second().max(derived),
        None if derived > 0 => derived.saturating_mul(2),
        None => sketch.rate,
    };
    let rate = sketch.rate.saturating_sub(needed.max(derived)).max(sketch.rate / 100).max(1);
    sketch.classes[at].rate = Some(rate);
    let note = format!(
        "the kernel sends packets that no class takes at once, past all classes and at the \
         device's rate: here they go to an added class `{}` with {} of a link of {}; give the \
         device's rate with `--rate`",
        sketch.classes[at].name,
        show_rate(rate),
        show_rate(sketch.rate)
    );
    reading.approximated(sketch.classes[at].line, note);
}

/// Returns the discipline with the classes: the root, or the one below a `tbf`.
fn scheduler(
    root: &Qdisc,
    device: &mut Device,
    sketch: &mut Sketch,
    reading: &mut Reading,
) -> (Discipline, u16) {
    let discipline = root.kind.clone();
    sketch.rate = discipline.rate;
    if discipline.kind != "tbf" {
        return (discipline, root.handle.0);
    }
    let below = |one: &Qdisc| one.parent.is_some_and(|parent| parent.0 == root.handle.0);
    let Some(at) = device.qdiscs.iter().position(below) else { return (discipline, root.handle.0) };
    let inner = device.qdiscs.remove(at);
    let with_classes = ["prio", "ets", "drr", "qfq", "htb", "hfsc", "cbq"];
    let classful = with_classes.contains(&inner.kind.kind.as_str());
    if !classful {
        let queue = queue_below(&inner.kind);
        if inner.kind.kind == "cake" && inner.kind.overhead != Overhead::default() {
            let note = "its overhead is left out: that of the bucket counts";
            reading.approximated(inner.line, note);
        }
        return (Discipline { queue, ..discipline }, root.handle.0);
    }
    let note = "the link paces each packet at the rate: the bucket is left out";
    reading.approximated(root.line, note);
    let overhead = discipline.overhead;
    (Discipline { overhead, ..inner.kind }, inner.handle.0)
}

/// Writes what a packet counts on the line. Weir counts from the frame, and the kernel from what it
/// sends: where that has no Ethernet header, its length is 14 bytes less.
fn set_overhead(
    device: &Device,
    (root, scheduler): (&Discipline, &Discipline),
    sketch: &mut Sketch,
) {
    let of_classes = device.classes.iter().map(|class| class.options.overhead);
    let mut all = [scheduler.overhead, root.overhead].into_iter().chain(of_classes);
    let mut found = all.find(|one| *one != Overhead::default()).unwrap_or_default();
    if device.bare && !root.from_ip {
        found.bytes -= ETHERNET_HEADER;
    }
    if found == Overhead::default() {
        return;
    }
    if let Some(name) = preset(found) {
        sketch.link.push(("overhead", quoted(name)));
        return;
    }
    let mut keys = vec![("bytes", found.bytes.to_string())];
    keys.extend((found.minimum > 0).then(|| ("minimum", found.minimum.to_string())));
    match found.coding {
        Coding::Plain => {}
        Coding::Cells(_) => keys.push(("cell", "48".to_owned())),
        Coding::Ptm => keys.push(("ptm", "true".to_owned())),
    }
    sketch.link.push(("overhead", inline(&keys)));
}

/// Returns the name of this framing, if it is one that says more of the line than its numbers do.
fn preset(overhead: Overhead) -> Option<&'static str> {
    let same = |framing: &Framing| {
        let numbers = (framing.added.into(), framing.minimum.into(), framing.coding);
        numbers == (overhead.bytes, overhead.minimum, overhead.coding)
    };
    let row = Framing::PRESETS.iter().find(|(_, framing)| same(framing));
    row.map(|row| row.0).filter(|name| LINES.contains(name))
}

/// The bytes of an Ethernet header.
const ETHERNET_HEADER: i64 = 14;
/// Presets that say of which kind a line is; `cake` has keywords for it.
const LINES: [&str; 4] = ["docsis", "ptm", "pppoe-ptm", "pppoe-atm"];

/// Returns the largest ceiling of the top classes, or the sum of their rates if that is more.
fn link_rate(classes: &[Class], root: u16) -> u64 {
    let top = classes.iter().filter(|class| class.parent == (root, 0));
    let (mut most, mut sum) = (0, 0_u64);
    for class in top {
        let options = &class.options;
        let share = options.link_share.or(options.real_time).map(|curve| curve.m1.max(curve.m2));
        let rate = options.rate.or(share).unwrap_or(0);
        let limit = options.upper_limit.map(|curve| curve.m2);
        most = most.max(options.ceil.or(limit).unwrap_or(rate));
        sum = sum.saturating_add(rate);
    }
    most.max(sum)
}

/// Whether the top classes limit the link by themselves: each has a ceiling or an upper limit.
fn is_limited(classes: &[Class], root: u16) -> bool {
    let mut top = classes.iter().filter(|class| class.parent == (root, 0)).peekable();
    let limited = |class: &Class| {
        let options = &class.options;
        options.kind == "htb" || options.ceil.is_some() || options.upper_limit.is_some()
    };
    top.peek().is_some() && top.all(limited)
}

/// Adds classes, queues and rules; returns the class of packets that HTB sends past its classes.
fn add_classes(lowering: &mut Lowering<'_>, reading: &mut Reading) -> Option<usize> {
    let kind = lowering.discipline.kind.clone();
    let ids = match kind.as_str() {
        "prio" | "ets" => bands(lowering, reading),
        kind if CLASSFUL.contains(&kind) => tree(lowering, reading),
        _ => Vec::new(),
    };
    let Lowering { device, names, sketch, discipline, root, line, inner, .. } = lowering;
    let (root, line) = (*root, *line);
    sketch.parameters.clone_from(&discipline.parameters);
    if discipline.kind == "hfsc" {
        let keys = ["rules", "limit_credit"];
        sketch.parameters.extend(keys.map(|key| (key, quoted("linux"))));
    }
    if sketch.scheduler != "htb" {
        sketch.scheduler = weir_scheduler(discipline);
    }
    if ids.is_empty() {
        let mut only = SketchClass::new(name_of((root, 0), names, "all"), None, line);
        only.queue.clone_from(&discipline.queue);
        only.default = true;
        sketch.classes.push(only);
        for filter in &device.filters {
            reading.noted(filter.line, "there is one class only");
        }
        return None;
    }
    if discipline.kind == "htb" {
        give_quanta(discipline, sketch);
    }
    add_queues(&ids, device, sketch, reading);
    // The kernel drops packets for a class that does not exist, so these need a class of their own.
    let known = device.filters.iter().all(|one| ids.contains(&one.target));
    let caught = catch_all(&ids, root, device).filter(|_| known);
    let (mut direct, mut default) = (None, None);
    if ["drr", "qfq"].contains(&discipline.kind.as_str())
        && let Some(at) = caught
    {
        device.filters.pop();
        sketch.classes[at].default = true;
        default = Some(at);
    }
    default = default.or_else(|| default_class(discipline, root, (&ids, inner), sketch));
    let past = default.is_none() || device.filters.iter().any(|one| one.target == (root, 0));
    if discipline.kind == "htb" && past {
        let name = name_of((root, 0), names, "direct");
        direct = Some(add_direct(name, (sketch, line), device.queue_length));
        default.is_none().then(|| sketch.classes.last_mut().map(|class| class.default = true));
    }
    let default = default.or(direct);
    let default = default.unwrap_or_else(|| {
        add_unclassified(
            discipline,
            name_of((root, 0), names, "unclassified"),
            sketch,
            line,
            reading,
        )
    });
    let parents = sketch.classes.iter().filter_map(|class| class.parent).collect();
    let by_minor = ["prio", "ets"].contains(&discipline.kind.as_str());
    let inner = inner_defaults(inner, &ids);
    let to = Targets { ids: &ids, parents: &parents, default, direct, root, by_minor, inner };
    let filters = std::mem::take(&mut device.filters);
    Chains::new(to).lower(filters, sketch, reading);
    direct
}

/// Returns Weir's scheduler for a discipline.
fn weir_scheduler(discipline: &Discipline) -> &'static str {
    match discipline.kind.as_str() {
        "htb" => "htb",
        "hfsc" => "hfsc",
        "cbq" => "cbq",
        "drr" => "drr",
        "qfq" => "qfq-plus",
        "prio" => "priq",
        "ets" => "ets",
        "tbf" => "tbf",
        _ => "fifo",
    }
}

/// Adds the class of packets that HTB sends past its classes.
fn add_direct(name: String, (sketch, line): (&mut Sketch, LineId), waiting: u64) -> usize {
    let mut class = SketchClass::new(name, None, line);
    class.rate = Some(1);
    class.queue = packet_limit(waiting);
    sketch.classes.push(class);
    sketch.classes.len() - 1
}

/// Writes the quanta that the kernel computes where Weir would compute others.
fn give_quanta(discipline: &Discipline, sketch: &mut Sketch) {
    let r2q = discipline.parameters.iter().find(|(key, _)| *key == "r2q");
    let r2q = r2q.and_then(|(_, value)| value.parse().ok()).unwrap_or(10_u64).max(1);
    for class in &mut sketch.classes {
        if class.leaf_keys.iter().any(|(key, _)| *key == "quantum") {
            continue;
        }
        let quantum = (class.rate.unwrap_or(0) / 8 / r2q).clamp(1000, 200_000);
        let key = ("quantum", quoted(&format!("{quantum} B")));
        // Weir's default is a packet at least.
        match quantum < PACKET {
            true => class.leaf_keys.push(key),
            false => class.from_rate.1.push(key),
        }
    }
}

fn bands(lowering: &mut Lowering<'_>, reading: &mut Reading) -> Vec<Handle> {
    let Lowering { device, names, sketch, discipline, root, line, speed, .. } = lowering;
    let bands = 1..=discipline.bands as u16;
    let mut ids: Vec<Handle> = bands.map(|band| (*root, band)).collect();
    // Where bands have names, an unnamed one is there because the kernel has at least two.
    let named = ids.iter().any(|id| names.contains_key(id));
    let used = |id: &Handle| {
        let ordinary = u64::from(id.1) == discipline.ordinary + 1;
        let target = |filter: &Filter| filter.target.1 == id.1;
        ordinary || names.contains_key(id) || device.filters.iter().any(target)
    };
    ids.retain(|id| !named || used(id));
    let paced = |id: Handle| {
        let below = |one: &&Qdisc| one.parent == Some(id) && one.kind.kind == "tbf";
        device.qdiscs.iter().find(below).map(|one| one.kind.rate)
    };
    let is_prio = discipline.kind == "prio";
    let any = is_prio && ids.iter().any(|id| paced(*id).is_some());
    if any {
        sketch.scheduler = "htb";
        let note = "a band with a bucket below is a class with a ceiling, so the bands are \
                    priorities of htb";
        reading.approximated(*line, note);
    }
    for &id in &ids {
        let name = name_of(id, names, &format!("band-{}", id.1));
        let mut class = SketchClass::new(name, None, *line);
        if any {
            class.rate = Some(LEAST_RATE);
            let ceil = paced(id).or(*speed).unwrap_or(super::SPEED);
            class.keys.push(("ceil", rate_value(ceil)));
            class.leaf_keys.push(("prio", u64::from(id.1 - 1).min(7).to_string()));
        } else if !is_prio {
            class.leaf_keys.push(super::ets::key(discipline, id.1.into()));
        } else {
            let priority = discipline.bands - u64::from(id.1);
            class.leaf_keys.push(("priority", priority.to_string()));
        }
        sketch.classes.push(class);
    }
    ids
}

fn name_of(id: Handle, names: &Names, otherwise: &str) -> String {
    names.get(&id).cloned().unwrap_or_else(|| otherwise.to_owned())
}

/// Builds the tree, with the classes of a discipline of the same kind below those of its class; a
/// class whose parent is missing is lost.
fn tree(lowering: &mut Lowering<'_>, reading: &mut Reading) -> Vec<Handle> {
    let Lowering { device, names, sketch, root, discipline, inner, .. } = lowering;
    let mut ids: Vec<Handle> = Vec::new();
    let mut open: Vec<(u16, Option<usize>)> = vec![(*root, None)];
    let mut at = 0;
    while let Some(&(major, above)) = open.get(at) {
        at += 1;
        for class in device.classes.iter().filter(|class| class.id.0 == major) {
            // A class directly below the root may name the root by any minor number that no class
            // has.
            let parent = ids.iter().position(|id| *id == class.parent);
            let at_top = class.parent.0 == major && class.parent.1 == 0;
            if parent.is_none() && !at_top {
                reading.lost(class.line, LOST_PARENT);
                continue;
            }
            let name = name_of(class.id, names, &format!("{:x}-{:x}", class.id.0, class.id.1));
            let mut lowered = SketchClass::new(name, parent.or(above), class.line);
            lower_class(&class.options, &mut lowered, reading);
            ids.push(class.id);
            sketch.classes.push(lowered);
        }
        let same = |one: &Qdisc| {
            let there = one.parent.is_some_and(|parent| ids.contains(&parent));
            let known = open.iter().any(|row| row.0 == one.handle.0);
            there && !known && one.kind.kind == discipline.kind && one.handle.0 > 0
        };
        let found = device.qdiscs.iter().position(same).filter(|_| open.len() < INNER_MAX);
        if let Some(found) = found {
            let below = device.qdiscs.remove(found);
            let outer = ids.iter().position(|id| Some(*id) == below.parent);
            open.push((below.handle.0, outer));
            let note = "its classes stand below the class, in one tree";
            reading.approximated(below.line, note);
            inner.extend(outer.map(|outer| (outer, (below.handle.0, below.kind.default))));
        }
    }
    let lost = device.classes.iter().filter(|class| open.iter().all(|row| row.0 != class.id.0));
    lost.for_each(|class| reading.lost(class.line, LOST_PARENT));
    drop_interior_curves(sketch, reading);
    ids
}

/// Real-time curves apply only to classes without children.
fn drop_interior_curves(sketch: &mut Sketch, reading: &mut Reading) {
    let parents: Vec<usize> = sketch.classes.iter().filter_map(|class| class.parent).collect();
    for parent in parents {
        let class = &mut sketch.classes[parent];
        let is_curve = |(key, _): &Key| key.starts_with("rt_");
        if class.leaf_keys.iter().any(is_curve) {
            class.leaf_keys.retain(|key| !is_curve(key));
            let note = "its real-time curve is left out: only classes without children have one";
            reading.approximated(class.line, note);
        }
    }
}

fn lower_class(options: &ClassOptions, class: &mut SketchClass, reading: &mut Reading) {
    match options.kind.as_str() {
        "htb" => {
            lower_htb(options, class, reading);
        }
        "hfsc" => {
            let mut push = |names: [&'static str; 3], curve: Option<Curve>, leaf: bool| {
                let keys = curve.into_iter().flat_map(|curve| curve_keys(names, curve));
                if leaf { class.leaf_keys.extend(keys) } else { class.keys.extend(keys) }
            };
            push(["ls_m1", "ls_d", "ls_m2"], options.link_share, false);
            push(["ul_m1", "ul_d", "ul_m2"], options.upper_limit, false);
            push(["rt_m1", "rt_d", "rt_m2"], options.real_time, true);
        }
        "qfq" => {
            let weight = options.weight.unwrap_or(1).to_string();
            class.leaf_keys.push(("weight", weight));
            let longest = options.longest.map(|size| quoted(&format!("{size} B")));
            class.leaf_keys.extend(longest.map(|size| ("maxpkt", size)));
        }
        "drr" => class
            .leaf_keys
            .extend(options.quantum.map(|quantum| ("quantum", quoted(&format!("{quantum} B"))))),
        _ => {
            class.rate = Some(options.rate.unwrap_or(1).max(1));
            if options.bounded {
                class.keys.push(("borrow", "false".to_owned()));
            }
            // The kernel serves 1 first and 8 last, Weir the larger first.
            let priority = options.prio.map(|prio| 8 - prio.clamp(1, 8));
            class.leaf_keys.extend(priority.map(|prio| ("priority", prio.to_string())));
            reading.approximated(
                class.line,
                "class-based queueing in its sound variant, not the kernel's",
            );
        }
    }
}

/// tc writes what the file leaves out: a ceiling, bursts and a quantum that follow from the rate.
fn lower_htb(options: &ClassOptions, class: &mut SketchClass, reading: &mut Reading) {
    let written = options.rate.or(options.ceil).unwrap_or(8).max(8);
    let ceil = options.ceil.unwrap_or(written).max(8);
    if ceil < written {
        let note = "its ceil is below its rate, so the ceil is all that it gets: the rate is \
                    lowered to it";
        reading.approximated(class.line, note);
    }
    class.rate = Some(written.min(ceil));
    let size = |size: u64| quoted(&format!("{} B", size.clamp(1, 1 << 40)));
    let burst = |size: Option<u64>, rate: u64| {
        let usual = options.mtu.unwrap_or(MTU).saturating_add(rate / 8 / 1_000_000_000);
        kernel_burst(size.unwrap_or(usual), rate)
    };
    if options.ceil.is_some() {
        class.keys.push(("ceil", rate_value(ceil)));
    }
    class.keys.push(("burst", size(burst(options.burst, written))));
    class.keys.push(("cburst", size(burst(options.cburst, ceil))));
    class.leaf_keys.extend(options.prio.map(|prio| ("prio", prio.to_string())));
    class.leaf_keys.extend(options.quantum.map(|quantum| ("quantum", size(quantum))));
    class.from_rate.0.push(("ceil", rate_value(ceil)));
}

fn curve_keys([m1, d, m2]: [&'static str; 3], curve: Curve) -> Vec<Key> {
    let mut keys = Vec::new();
    if curve.d > 0 {
        keys.extend((curve.m1 > 0).then(|| (m1, rate_value(curve.m1))));
        keys.push((d, duration(curve.d)));
    }
    keys.push((m2, rate_value(curve.m2)));
    keys
}

/// Adds the queues below leaves.
fn add_queues(ids: &[Handle], device: &Device, sketch: &mut Sketch, reading: &mut Reading) {
    let parents: Vec<_> = sketch.classes.iter().filter_map(|class| class.parent).collect();
    for (at, id) in ids.iter().enumerate().filter(|(at, _)| !parents.contains(at)) {
        let class = device.classes.iter().find(|class| class.id == *id);
        let waiting = class.map_or(device.queue_length, |class| class.waiting);
        sketch.classes[at].queue = packet_limit(waiting);
    }
    for qdisc in &device.qdiscs {
        let at = qdisc.parent.and_then(|parent| ids.iter().position(|id| *id == parent));
        let Some(at) = at else {
            reading.lost(qdisc.line, "its parent is not a class of the root discipline");
            continue;
        };
        if qdisc.kind.kind == "cake" && qdisc.kind.overhead != Overhead::default() {
            let note = "its overhead below a class is left out: the link has one for all classes, \
                        `overhead`";
            reading.approximated(qdisc.line, note);
        }
        let is_cake = qdisc.kind.kind == "cake" && qdisc.kind.rate > 0;
        let limits = qdisc.kind.kind == "tbf" || is_cake;
        if limits && ["htb", "hfsc"].contains(&sketch.scheduler) {
            let is_htb = sketch.scheduler == "htb";
            let class = &mut sketch.classes[at];
            class.queue = queue_below(&qdisc.kind);
            let (lower, limit): (fn(&mut _, _), _) =
                if is_htb { (lower_to, "ceiling") } else { (limit_to, "upper limit") };
            lower(class, qdisc.kind.rate);
            let what = if is_cake { "rate of the cake" } else { "bucket" };
            let note = format!("the {what} below the class is the {limit} of the class");
            reading.approximated(qdisc.line, note);
            continue;
        }
        let classful = ["htb", "hfsc", "cbq", "drr", "qfq", "prio", "ets", "tbf"];
        if classful.contains(&qdisc.kind.kind.as_str()) {
            let why = "a link has one scheduler here: a discipline below a class becomes one queue";
            reading.lost(qdisc.line, why);
            continue;
        }
        if is_cake {
            reading.approximated(qdisc.line, "its `bandwidth` holds nothing back below a class");
        }
        sketch.classes[at].queue = queue_below(&qdisc.kind);
    }
}

/// Returns the queue of a discipline that is below a class or a bucket: a cake there knows its own
/// rate.
fn queue_below(discipline: &Discipline) -> Vec<Key> {
    let mut queue = discipline.queue.clone();
    if discipline.kind == "cake" && discipline.rate > 0 {
        queue.push(("rate", rate_value(discipline.rate)));
    }
    queue
}

/// Lowers the rate and the ceiling of a class of htb to a rate.
fn lower_to(class: &mut SketchClass, rate: u64) {
    class.rate = class.rate.map(|own| own.min(rate));
    let ceil = class.keys.iter_mut().find(|key| key.0 == "ceil");
    if let Some(ceil) = ceil.filter(|ceil| exceeds(&ceil.1, rate)) {
        ceil.1 = rate_value(rate);
    }
}

/// Limits a class of hfsc to a rate: by an upper limit, and by its real-time curve, which no upper
/// limit holds back.
fn limit_to(class: &mut SketchClass, rate: u64) {
    let limits = ["rt_m1", "rt_m2", "ul_m1", "ul_m2"];
    for key in class.keys.iter_mut().chain(&mut class.leaf_keys) {
        if limits.contains(&key.0) && exceeds(&key.1, rate) {
            key.1 = rate_value(rate);
        }
    }
    let has = |name: &str| class.keys.iter().any(|key| key.0 == name);
    if has("ls_m2") && !has("ul_m2") {
        class.keys.push(("ul_m2", rate_value(rate)));
    }
}

/// Returns whether a key's rate is more than `rate`.
fn exceeds(value: &str, rate: u64) -> bool {
    let own = value.trim_matches('"').parse::<Rate>();
    own.is_ok_and(|own| own.bits_per_second() > rate)
}

/// Returns the target of a filter for all packets that is tried last, and removes that filter.
fn catch_all(ids: &[Handle], root: u16, device: &mut Device) -> Option<usize> {
    device.filters.sort_by_key(|filter| filter.rank);
    let last = device.filters.last()?;
    let own = last.parent.is_none_or(|parent| parent == (root, 0));
    let all = matches!(last.rules.as_slice(), [keys] if keys.is_empty());
    ids.iter().position(|id| *id == last.target).filter(|_| own && all)
}

/// Returns the class of packets that no filter takes, if the discipline has one.
fn default_class(
    discipline: &Discipline,
    root: u16,
    (ids, inner): (&[Handle], &Inner),
    sketch: &mut Sketch,
) -> Option<usize> {
    let minor = match discipline.kind.as_str() {
        "prio" | "ets" => Some(discipline.ordinary as u16 + 1),
        _ => discipline.default.filter(|minor| *minor > 0),
    };
    let mut at = minor.and_then(|minor| ids.iter().position(|id| *id == (root, minor)))?;
    let inner = inner_defaults(inner, ids);
    while let Some(&(_, below)) = inner.get(&at).filter(|row| row.1 != at) {
        at = below;
    }
    let is_parent = sketch.classes.iter().any(|class| class.parent == Some(at));
    let own = is_parent && inner.contains_key(&at);
    sketch.classes[at].default = !is_parent || own;
    (!is_parent || own).then_some(at)
}

/// For each class with a discipline of classes below: its major number, and the class of packets
/// that its filters do not take; that is the class itself where the discipline has no other.
fn inner_defaults(inner: &Inner, ids: &[Handle]) -> BTreeMap<usize, (u16, usize)> {
    let default = |(&outer, &(major, minor)): (&usize, &(u16, Option<u16>))| {
        let id = minor.map(|minor| (major, minor));
        let found = id.and_then(|id| ids.iter().position(|other| *other == id));
        (outer, (major, found.unwrap_or(outer)))
    };
    inner.iter().map(default).collect()
}

/// Adds a class for packets that no filter takes.
fn add_unclassified(
    discipline: &Discipline,
    name: String,
    sketch: &mut Sketch,
    line: LineId,
    reading: &mut Reading,
) -> usize {
    let (fate, rate) = match discipline.kind.as_str() {
        "cbq" => ("sends in the root", Some(1)),
        _ => ("drops", None),
    };
    let note = format!(
        "no class without children is the default: packets that no filter takes, which the kernel \
         {fate}, go to an added class with the least rate"
    );
    reading.approximated(line, note);
    let mut class = SketchClass::new(name, None, line);
    class.rate = rate;
    class.default = true;
    if discipline.kind == "hfsc" {
        class.keys.push(("ls_m2", rate_value(1)));
    }
    sketch.classes.push(class);
    sketch.classes.len() - 1
}

const LOST_PARENT: &str = "its parent is not a class of the root discipline";
/// Bound: disciplines of classes inside one another; further ones are lost.
const INNER_MAX: usize = 256;
/// The rate of a band that has only a ceiling.
const LEAST_RATE: u64 = 1000;
/// The longest packet that Weir may assume.
const PACKET: u64 = 2048;
/// The packet by which tc computes a burst.
const MTU: u64 = 1600;
const CLASSFUL: [&str; 5] = ["htb", "hfsc", "cbq", "drr", "qfq"];
