//! Imports `tc`: scripts and batches of `qdisc`, `class` and `filter` commands [linux, algorithms
//! §11.3].
//!
//! Commands build the kernel's state, a tree a device; then the tree becomes a policy. Filters keep
//! their `prio`; the kernel gives one without it a smaller one than all before.

mod cake;
mod chains;
mod disciplines;
mod filters;
mod lower;
mod selector;
mod shell;

pub(super) mod units;

use super::lines::{LineId, Reading};
use super::sketch::Sketch;
use super::words::{Word, Words, decimal, number};
use super::{Language, Options};
use disciplines::{ClassOptions, Discipline};
use filters::{Filter, Sort};
use std::collections::{BTreeMap, BTreeSet};
use weir_policy::codes;
use weir_policy::reader::suggest;

pub(super) const LANGUAGE: Language =
    Language { name: "tc", summary: "a shell script of tc commands or a `tc -batch` file", read };

/// A major and a minor number.
type Handle = (u16, u16);

/// The state of a device.
struct Device {
    name: Word,
    qdiscs: Vec<Qdisc>,
    classes: Vec<Class>,
    filters: Vec<Filter>,
    /// The properties that the filters of each parent class and priority share.
    sorts: BTreeMap<(Option<Handle>, u32), Sort>,
    /// The texts that filters of one kind may not repeat, by parent and priority.
    uniques: BTreeSet<(Option<Handle>, u32, String)>,
    /// How many packets wait where nothing says otherwise.
    queue_length: u64,
}

struct Qdisc {
    handle: Handle,
    /// `None` for the root.
    parent: Option<Handle>,
    line: LineId,
    kind: Discipline,
}

struct Class {
    id: Handle,
    parent: Handle,
    line: LineId,
    /// The device's queue length when the class was made.
    waiting: u64,
    options: ClassOptions,
}

fn read(text: &str, options: &Options, reading: &mut Reading) -> Vec<Sketch> {
    let mut devices: Vec<Device> = Vec::new();
    let mut names = BTreeMap::new();
    for command in shell::commands(text, reading) {
        let mut words = Words::new(command.words);
        if words.accept("#class") {
            let (id, name) = (words.take(), words.take());
            let id = id.and_then(|id| units::handle(&id.text));
            names.extend(id.zip(name.map(|name| name.text)));
            continue;
        }
        words.accept("sudo");
        if queue_length(&words, &mut devices) {
            continue;
        }
        let is_batch = words.peek().is_some_and(|word| OBJECTS.contains(&word));
        let is_tc = words.peek().is_some_and(|word| word == "tc" || word.ends_with("/tc"));
        if is_tc {
            words.take();
        } else if !is_batch {
            let first = words.peek().unwrap_or_default();
            if suggest(first, &OBJECTS).starts_with("did you mean") {
                let word = words.take().expect("it was peeked at");
                reading.unknown((&word.text, word.span), "object of tc", &OBJECTS);
                continue;
            }
            let note = match first {
                "[" | "[[" | "test" => {
                    "conditions are not evaluated: later commands are read as if they were true"
                }
                "iptables" | "ip6tables" | "nft" => "marks of the firewall are not read",
                _ => "it is not a tc command, and Weir does not run it",
            };
            reading.lost(command.line, note);
            continue;
        }
        let mut words = percents(words, options, command.line, reading);
        tc(&mut words, command.line, &mut devices, reading);
    }
    let lowered =
        devices.into_iter().filter_map(|one| lower::device(one, &names, options, reading));
    lowered.collect()
}

/// Replaces rates in percent of the device's speed.
fn percents(words: Words, options: &Options, line: LineId, reading: &mut Reading) -> Words {
    let speed = options.rate.map_or(SPEED, |rate| rate.bits_per_second());
    let (mut out, mut before) = (Vec::new(), String::new());
    let mut rest = words.clone();
    while let Some(mut word) = rest.take() {
        let percent = word.text.strip_suffix('%').and_then(decimal).filter(|row| row.1.is_empty());
        if let Some((part, _)) = percent.filter(|_| RATES.contains(&before.as_str())) {
            let bits = u128::from(speed) * u128::from(part) / 100_000_000;
            word.text = format!("{bits}bit");
            if options.rate.is_none() {
                let note = "a part of the device's speed, which is taken as 1 Gbit/s: give it \
                            with `--rate`";
                reading.approximated(line, note);
            }
        }
        before.clone_from(&word.text);
        out.push(word);
    }
    if out.is_empty() { words } else { Words::new(out) }
}

/// Reads `OBJECT ACTION dev DEVICE ...`.
fn tc(words: &mut Words, line: LineId, devices: &mut Vec<Device>, reading: &mut Reading) {
    while let Some(option) = words.peek().filter(|word| word.starts_with('-')) {
        let valued = VALUED.contains(&option);
        words.take();
        if valued {
            words.take();
        }
    }
    if words.peek().is_none() {
        return reading.lost(line, "a batch in another file is not read");
    }
    let Some(object) = words.need("`qdisc`, `class` or `filter`", reading) else { return };
    if !OBJECTS.contains(&object.text.as_str()) {
        return reading.unknown((&object.text, object.span), "object of tc", &OBJECTS);
    }
    if words.peek().is_none() {
        return reading.noted(line, "only shows");
    }
    let Some(action) = words.need("an action such as `add`", reading) else { return };
    match action.text.as_str() {
        "show" | "list" | "ls" | "get" => return reading.noted(line, "only shows"),
        "add" | "replace" | "change" | "link" | "del" | "delete" => {}
        other => return reading.unknown((other, action.span), "action", &ACTIONS),
    }
    // `dev` mostly comes first, and is required.
    let Some(device) = take_device(words, reading) else { return };
    let at = devices.iter().position(|one| one.name.text == device.text);
    if action.text.starts_with("del") {
        if object.text == "qdisc"
            && let Some(at) = at.filter(|_| words.accept("root"))
        {
            devices[at].qdiscs.clear();
            devices[at].classes.clear();
            devices[at].filters.clear();
            devices[at].sorts.clear();
            devices[at].uniques.clear();
        }
        if object.text != "qdisc" && at.is_some() {
            return reading.lost(line, "single classes and filters are not deleted");
        }
        return reading.noted(line, "deletes the present discipline; a policy begins without one");
    }
    let Some(device) = find_or_add(devices, device) else {
        return reading.lost(line, format!("the file has more than {DEVICES_MAX} devices"));
    };
    let done = match object.text.as_str() {
        "qdisc" => qdisc(words, line, device, reading),
        "class" => class(words, (line, action.text != "add"), device, reading),
        _ => filters::read(words, line, device, reading),
    };
    // Every `None` has left a finding or a lost line.
    let _: Option<()> = done;
}

/// Returns the device of this name; none if there are too many.
fn find_or_add(devices: &mut Vec<Device>, name: Word) -> Option<&mut Device> {
    let at = devices.iter().position(|one| one.name.text == name.text);
    let at = at.or_else(|| (devices.len() < DEVICES_MAX).then_some(devices.len()))?;
    if at == devices.len() {
        let (qdiscs, classes, filters, sorts, uniques) = Default::default();
        let queue_length = QUEUE_LENGTH;
        devices.push(Device { name, qdiscs, classes, filters, sorts, uniques, queue_length });
    }
    devices.get_mut(at)
}

/// Reads `txqueuelen N` of `ip link set DEVICE ...` or `ifconfig DEVICE ...`; false without it.
fn queue_length(words: &Words, devices: &mut Vec<Device>) -> bool {
    let mut words = words.clone();
    let is_ip = words.accept("ip") || words.accept("/sbin/ip");
    let sets =
        if is_ip { words.accept("link") && words.accept("set") } else { words.accept("ifconfig") };
    if !sets {
        return false;
    }
    words.accept("dev");
    let Some(device) = words.take() else { return false };
    while let Some(word) = words.take() {
        if ["txqueuelen", "qlen"].contains(&word.text.as_str()) {
            let length = words.take().and_then(|word| number(&word.text));
            let device = length.and_then(|_| find_or_add(devices, device));
            let Some((device, length)) = device.zip(length) else { return false };
            device.queue_length = length;
            return true;
        }
    }
    false
}

fn take_device(words: &mut Words, reading: &mut Reading) -> Option<Word> {
    words.value("`dev`", |word| (word == "dev").then_some(()), reading)?;
    words.need("the name of a device", reading)
}

/// Reads `[root | parent H] [handle H] [stab ...] KIND OPTIONS`.
fn qdisc(
    words: &mut Words,
    line: LineId,
    device: &mut Device,
    reading: &mut Reading,
) -> Option<()> {
    let (mut handle, mut parent) = ((0, 0), None);
    let mut stab = disciplines::Overhead::default();
    loop {
        match words.peek() {
            Some("root") => drop(words.take()),
            Some("ingress" | "clsact") => {
                reading.lost(line, "a policy is for departing packets, not for arriving ones");
                return None;
            }
            Some("parent") => {
                words.take();
                parent = Some(words.value(A_HANDLE, units::handle, reading)?);
            }
            Some("handle") => {
                words.take();
                let at = words.need(A_HANDLE, reading)?;
                if at.text.starts_with("ffff") {
                    continue;
                }
                let text =
                    if at.text.contains(':') { at.text.clone() } else { format!("{}:", at.text) };
                let Some(found) = units::handle(&text) else {
                    super::words::bad_value(&at, A_HANDLE, reading);
                    return None;
                };
                handle = found;
            }
            Some("stab") => {
                words.take();
                disciplines::stab(words, &mut stab, reading)?;
            }
            _ => break,
        }
    }
    if device.qdiscs.len() >= OBJECTS_MAX {
        reading.lost(line, format!("the device has more than {OBJECTS_MAX} of them"));
        return None;
    }
    let kind = words.need("a queueing discipline", reading)?;
    let waiting = device.queue_length;
    let mut discipline = disciplines::read(&kind, words, (line, waiting), reading)?;
    if stab != disciplines::Overhead::default() {
        discipline.overhead = stab;
    }
    device.qdiscs.retain(|other| other.parent != parent);
    device.qdiscs.push(Qdisc { handle, parent, line, kind: discipline });
    Some(())
}

/// Reads `parent H [classid H] KIND OPTIONS`; `again` allows a class that exists.
fn class(
    words: &mut Words,
    (line, again): (LineId, bool),
    device: &mut Device,
    reading: &mut Reading,
) -> Option<()> {
    let (mut parent, mut id) = (None, None);
    loop {
        if words.accept("parent") {
            parent = Some(words.value(A_HANDLE, units::handle, reading)?);
        } else if words.accept("classid") {
            id = Some(words.value(A_HANDLE, units::handle, reading)?);
        } else if words.accept("root") {
            parent = Some((0, 0));
        } else {
            break;
        }
    }
    let kind = words.need("a queueing discipline", reading)?;
    let (Some(mut parent), Some(mut id)) = (parent, id) else {
        let lacks = if parent.is_none() { "parent" } else { "classid" };
        let message = format!("a class needs `parent` and `classid`; `{lacks}` is missing");
        reading.error(&codes::INCOMPLETE, kind.span, message, format!("write `{lacks}`"));
        return None;
    };
    // `:10` is a class of the parent's qdisc.
    let major = [id.0, parent.0].into_iter().find(|major| *major > 0);
    let root = device.qdiscs.iter().find(|one| one.parent.is_none()).map_or(0, |one| one.handle.0);
    let major = major.unwrap_or(root);
    for handle in [&mut parent, &mut id] {
        handle.0 = if handle.0 == 0 { major } else { handle.0 };
    }
    if device.classes.len() >= OBJECTS_MAX {
        reading.lost(line, format!("the device has more than {OBJECTS_MAX} of them"));
        return None;
    }
    let options = disciplines::class_options(&kind, words, line, reading)?;
    let known = device.classes.iter_mut().find(|other| other.id == id);
    if let Some(known) = known {
        if again {
            known.options = options;
            return Some(());
        }
        let message = format!("class {:x}:{:x} is declared twice", id.0, id.1);
        reading.error(&codes::DECLARED_TWICE, kind.span, message, "give one another `classid`");
        return None;
    }
    let waiting = device.queue_length;
    device.classes.push(Class { id, parent, line, waiting, options });
    Some(())
}

const OBJECTS: [&str; 3] = ["qdisc", "class", "filter"];
/// Options of tc with a value.
const VALUED: [&str; 7] = ["-n", "-net", "-netns", "-b", "-batch", "-cf", "-conf"];
const ACTIONS: [&str; 7] = ["add", "replace", "change", "del", "delete", "show", "list"];
const A_HANDLE: &str = "a handle such as 1: or 1:10";
/// Options whose value may be a part of the device's speed.
const RATES: [&str; 8] = ["rate", "ceil", "peakrate", "bandwidth", "m1", "m2", "maxrate", "avrate"];
/// The speed of a device of which nothing is known.
const SPEED: u64 = 1_000_000_000;
/// The queue length of an Ethernet device, in packets.
const QUEUE_LENGTH: u64 = 1000;
/// Bound: devices of a file of tc; further ones are reported as lost.
const DEVICES_MAX: usize = 256;
/// Bound: qdiscs, classes or filters of a device; further ones are reported as lost.
const OBJECTS_MAX: usize = 4096;
