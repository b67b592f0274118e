//! Converts the state of a device to a policy.

use super::super::Options;
use super::super::lines::{LineId, Reading};
use super::super::sketch::{Class as SketchClass, Key, Sketch, inline, quoted, rate_value};
use super::chains::Chains;
use super::disciplines::{ClassOptions, Curve, Discipline, Overhead, duration};
use super::filters::Filter;
use super::{Class, Device, Handle, Qdisc};
use std::collections::BTreeMap;

type Names = BTreeMap<Handle, String>;

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
    let (scheduler, handle) = scheduler(&root, &mut device, &mut sketch, reading);
    set_overhead(&device, &scheduler, &mut sketch);
    add_classes(&scheduler, handle, (&mut device, names), (&mut sketch, root.line), reading);
    sketch.rate = match options.rate {
        Some(rate) => rate.bits_per_second(),
        None if sketch.rate > 0 => sketch.rate,
        None => link_rate(&device.classes, handle),
    };
    sketch.rate_or(options, root.line, reading);
    Some(sketch)
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
    let classful = ["prio", "drr", "htb", "hfsc", "cbq"].contains(&inner.kind.kind.as_str());
    if !classful {
        let queue = inner.kind.queue.clone();
        return (Discipline { queue, ..discipline }, root.handle.0);
    }
    let note = "the link paces each packet at the rate: the bucket is left out";
    reading.approximated(root.line, note);
    let overhead = discipline.overhead;
    (Discipline { overhead, ..inner.kind }, inner.handle.0)
}

fn set_overhead(device: &Device, scheduler: &Discipline, sketch: &mut Sketch) {
    let of_classes = device.classes.iter().map(|class| class.options.overhead);
    let mut all = std::iter::once(scheduler.overhead).chain(of_classes);
    let Some(found) = all.find(|one| *one != Overhead::default()) else { return };
    let mut keys = vec![("bytes", found.bytes.to_string())];
    keys.extend((found.minimum > 0).then(|| ("minimum", found.minimum.to_string())));
    keys.extend(found.cells.then(|| ("cell", "48".to_owned())));
    sketch.link.push(("overhead", inline(&keys)));
}

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

fn add_classes(
    discipline: &Discipline,
    root: u16,
    (device, names): (&mut Device, &Names),
    (sketch, line): (&mut Sketch, LineId),
    reading: &mut Reading,
) {
    sketch.parameters.clone_from(&discipline.parameters);
    match discipline.kind.as_str() {
        "htb" => sketch.scheduler = "htb",
        "hfsc" => sketch.scheduler = "hfsc",
        "cbq" => sketch.scheduler = "cbq",
        "drr" => sketch.scheduler = "drr",
        "prio" => sketch.scheduler = "priq",
        "tbf" => sketch.scheduler = "tbf",
        _ => sketch.scheduler = "fifo",
    }
    let mut ids: Vec<Handle> = Vec::new();
    if discipline.kind == "prio" {
        ids = bands(discipline, root, (device, names), (sketch, line));
    } else if CLASSFUL.contains(&discipline.kind.as_str()) {
        ids = tree(root, (device, names), sketch, reading);
    }
    if ids.is_empty() {
        let mut only = SketchClass::new(name_of((root, 0), names, "all"), None, line);
        only.queue.clone_from(&discipline.queue);
        only.default = true;
        sketch.classes.push(only);
        for filter in &device.filters {
            reading.noted(filter.line, "there is one class only");
        }
        return;
    }
    add_queues(&ids, device, sketch, reading);
    let caught = catch_all(&ids, root, device);
    let default = match caught.filter(|_| discipline.kind == "drr") {
        Some(at) => {
            device.filters.pop();
            sketch.classes[at].default = true;
            at
        }
        None => default_class(discipline, root, &ids, (sketch, names, line), reading),
    };
    add_rules(&ids, default, (device, root), sketch, reading);
}

fn bands(
    discipline: &Discipline,
    root: u16,
    (device, names): (&Device, &Names),
    (sketch, line): (&mut Sketch, LineId),
) -> Vec<Handle> {
    let mut ids: Vec<Handle> = (1..=discipline.bands as u16).map(|band| (root, band)).collect();
    // Where bands have names, an unnamed one is there because the kernel has at least two.
    let named = ids.iter().any(|id| names.contains_key(id));
    let used = |id: &Handle| {
        let ordinary = u64::from(id.1) == discipline.ordinary + 1;
        let target = |filter: &Filter| filter.target.1 == id.1;
        ordinary || names.contains_key(id) || device.filters.iter().any(target)
    };
    ids.retain(|id| !named || used(id));
    for &id in &ids {
        let name = name_of(id, names, &format!("band-{}", id.1));
        let mut class = SketchClass::new(name, None, line);
        let priority = discipline.bands - u64::from(id.1);
        class.leaf_keys.push(("priority", priority.to_string()));
        sketch.classes.push(class);
    }
    ids
}

fn name_of(id: Handle, names: &Names, otherwise: &str) -> String {
    names.get(&id).cloned().unwrap_or_else(|| otherwise.to_owned())
}

/// Builds the tree; a class whose parent is missing is lost.
fn tree(
    root: u16,
    (device, names): (&mut Device, &Names),
    sketch: &mut Sketch,
    reading: &mut Reading,
) -> Vec<Handle> {
    let mut ids: Vec<Handle> = Vec::new();
    for class in &device.classes {
        // A class directly below the root may name the root by any minor number that no class has.
        let parent = ids.iter().position(|id| *id == class.parent);
        let at_top = class.parent.0 == root && (class.parent.1 == 0 || class.parent == (0, 0));
        if parent.is_none() && !at_top {
            reading.lost(class.line, "its parent is not a class of the root discipline");
            continue;
        }
        let name = name_of(class.id, names, &format!("{:x}-{:x}", class.id.0, class.id.1));
        let mut lowered = SketchClass::new(name, parent, class.line);
        lower_class(&class.options, &mut lowered, reading);
        ids.push(class.id);
        sketch.classes.push(lowered);
    }
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
            class.rate = Some(options.rate.or(options.ceil).unwrap_or(1).max(1));
            class.keys.extend(options.ceil.map(|ceil| ("ceil", rate_value(ceil))));
            let size = |size: u64| quoted(&format!("{} B", size.clamp(1, 1 << 40)));
            class.keys.extend(options.burst.map(|burst| ("burst", size(burst))));
            class.keys.extend(options.cburst.map(|burst| ("cburst", size(burst))));
            class.leaf_keys.extend(options.prio.map(|prio| ("prio", prio.to_string())));
            class.leaf_keys.extend(options.quantum.map(|quantum| ("quantum", size(quantum))));
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
    for qdisc in &device.qdiscs {
        let at = qdisc.parent.and_then(|parent| ids.iter().position(|id| *id == parent));
        let Some(at) = at else {
            reading.lost(qdisc.line, "its parent is not a class of the root discipline");
            continue;
        };
        let classful = ["htb", "hfsc", "cbq", "drr", "prio", "tbf"];
        if classful.contains(&qdisc.kind.kind.as_str()) {
            let why = "a link has one scheduler here: a discipline below a class becomes one queue";
            reading.lost(qdisc.line, why);
            continue;
        }
        sketch.classes[at].queue.clone_from(&qdisc.kind.queue);
    }
}

/// Returns the target of a filter for all packets that is tried last, and removes that filter.
fn catch_all(ids: &[Handle], root: u16, device: &mut Device) -> Option<usize> {
    device.filters.sort_by_key(|filter| filter.rank);
    let last = device.filters.last()?;
    let own = last.parent.is_none_or(|parent| parent == (root, 0));
    let all = matches!(last.rules.as_slice(), [keys] if keys.is_empty());
    ids.iter().position(|id| *id == last.target).filter(|_| own && all)
}

/// Returns the class of packets that no filter takes, added where the kernel has none.
fn default_class(
    discipline: &Discipline,
    root: u16,
    ids: &[Handle],
    (sketch, names, line): (&mut Sketch, &Names, LineId),
    reading: &mut Reading,
) -> usize {
    let parents: Vec<_> = sketch.classes.iter().filter_map(|class| class.parent).collect();
    let minor = match discipline.kind.as_str() {
        "prio" => Some(discipline.ordinary as u16 + 1),
        _ => discipline.default.filter(|minor| *minor > 0),
    };
    let named = minor.and_then(|minor| ids.iter().position(|id| *id == (root, minor)));
    if let Some(at) = named.filter(|at| !parents.contains(at)) {
        sketch.classes[at].default = true;
        return at;
    }
    let (fate, rate) = match discipline.kind.as_str() {
        "htb" => ("sends past all classes", Some(1)),
        "cbq" => ("sends in the root", Some(1)),
        _ => ("drops", None),
    };
    let note = format!(
        "no class without children is the default: packets that no filter takes, which the kernel \
         {fate}, go to an added class with the least rate"
    );
    reading.approximated(line, note);
    let mut class = SketchClass::new(name_of((root, 0), names, "unclassified"), None, line);
    class.rate = rate;
    class.default = true;
    if discipline.kind == "hfsc" {
        class.keys.push(("ls_m2", rate_value(1)));
    }
    sketch.classes.push(class);
    sketch.classes.len() - 1
}

fn add_rules(
    ids: &[Handle],
    default: usize,
    (device, root): (&mut Device, u16),
    sketch: &mut Sketch,
    reading: &mut Reading,
) {
    let parents = sketch.classes.iter().filter_map(|class| class.parent).collect();
    let filters = std::mem::take(&mut device.filters);
    Chains::new(ids, &parents, (default, root)).lower(filters, sketch, reading);
}

const CLASSFUL: [&str; 4] = ["htb", "hfsc", "cbq", "drr"];
