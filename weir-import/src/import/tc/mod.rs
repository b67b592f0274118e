//! Imports `tc`: lines and batches of `qdisc`, `class` and `filter` commands, what `tc ... show`
//! prints, and what the kernel dumps [linux, algorithms §11.3].
//!
//! All become one model, a tree a device (`kernel` writes a dump as commands, `shown` what tc
//! prints); then the tree becomes a policy. Filters keep their `prio`; the kernel gives one without
//! it a smaller one than all before.

mod actions;
mod basic;
mod cake;
mod chains;
mod commands;
mod conditions;
mod disciplines;
mod draft;
mod dualpi2;
mod ets;
mod filters;
mod fq;
pub mod kernel;
mod lower;
mod multiqueue;
mod selector;
mod shown;
mod shown_queues;
mod tables;

pub(super) mod queues;
pub(super) mod units;

pub(super) use commands::Command;

use super::lines::{LineId, Reading};
use super::sketch::Sketch;
use super::words::{Word, Words, decimal, number};
use super::{Language, Options};
use disciplines::{ClassOptions, Discipline};
use filters::{Attached, Filter, Sort};
use std::collections::{BTreeMap, BTreeSet};
use weir_policy::codes;
use weir_policy::finding::Span;

pub(super) const LANGUAGE: Language = Language {
    name: "tc",
    summary: "lines of tc, a `tc -batch` file, or what `tc show` prints",
    read,
};

/// A major and a minor number.
type Handle = (u16, u16);

/// The state of a device.
struct Device {
    name: Word,
    /// Whether its packets begin with an IP header, not with one of Ethernet.
    bare: bool,
    qdiscs: Vec<Qdisc>,
    classes: Vec<Class>,
    /// The filters as attached, and those that they become.
    attached: Vec<Attached>,
    filters: Vec<Filter>,
    /// The filters that were ever attached.
    made: u64,
    /// The properties that the filters of each parent class and priority share.
    sorts: BTreeMap<(Option<Handle>, u32), Sort>,
    /// The texts that filters of one kind may not repeat, by parent and priority.
    uniques: BTreeSet<(Option<Handle>, u32, String)>,
    tables: tables::Tables,
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
    let unnamed = options.device.as_deref().unwrap_or(UNNAMED);
    let commands = commands::commands(text, unnamed, reading);
    given(commands, options, reading)
}

/// Imports commands, also those that stand for another tool's file.
pub(super) fn given(
    commands: Vec<Command>,
    options: &Options,
    reading: &mut Reading,
) -> Vec<Sketch> {
    let mut devices: Vec<Device> = Vec::new();
    let mut names = BTreeMap::new();
    for command in commands {
        let line = command.line;
        let mut words = Words::new(command.words);
        if words.accept("#class") {
            let (id, name) = (words.take(), words.take());
            let id = id.and_then(|id| units::handle(&id.text));
            names.extend(id.zip(name.map(|name| name.text)));
            continue;
        }
        if words.accept("#device") {
            let found = words.take().and_then(|device| find_or_add(&mut devices, device));
            let bare = words.peek() == Some("no");
            found.into_iter().for_each(|device| device.bare = bare);
            continue;
        }
        if words.accept("#batch") {
            reading.lost(line, "a batch in another file is not read");
            continue;
        }
        if queue_length(&words, &mut devices) {
            continue;
        }
        let mut words = percents(words, options, line, reading);
        tc(&mut words, line, &mut devices, reading);
    }
    let mut sketches = Vec::new();
    for mut device in devices {
        device.filters = tables::lowered(&mut device, reading);
        let queues = multiqueue::queues(device, reading).into_iter();
        sketches.extend(queues.filter_map(|one| lower::device(one, &names, options, reading)));
    }
    sketches
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
    let Some(object) = words.need("`qdisc`, `class` or `filter`", reading) else { return };
    let Some(kind) = short(&object.text, &OBJECTS) else {
        return reading.unknown((&object.text, object.span), "object of tc", &OBJECTS);
    };
    if words.peek().is_none() {
        return reading.noted(line, "only shows");
    }
    let Some(action) = words.need("an action such as `add`", reading) else { return };
    let act = match short(&action.text, &ACTIONS) {
        Some("show" | "list" | "lst" | "get") => return reading.noted(line, "only shows"),
        Some(act) => act,
        None => return reading.unknown((&action.text, action.span), "action", &ACTIONS),
    };
    // The device may stand anywhere before the kind.
    let Some(device) = take_device(words, reading) else { return };
    let at = devices.iter().position(|one| one.name.text == device.text);
    if act == "delete" && at.is_none() {
        reading.why_empty = Some("the file only deletes what shapes an interface");
        reading.way_out = Some(SETS_UP);
        return reading.noted(line, ALREADY_GONE);
    }
    let Some(device) = find_or_add(devices, device) else {
        return reading.lost(line, format!("the file has more than {DEVICES_MAX} devices"));
    };
    let act = match act {
        "add" => Act::Add,
        "delete" => Act::Delete,
        "change" => Act::Change,
        _ => Act::Replace,
    };
    let done = match kind {
        "qdisc" => qdisc(words, (line, act), device, reading),
        "class" => class(words, (line, act), device, reading),
        _ => filters::read(words, (line, act), device, reading),
    };
    // Every `None` has left a finding or a lost line.
    let _: Option<()> = done;
}

/// The effect of a command on its object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Add,
    Change,
    Replace,
    Delete,
}

/// Returns the first word of the list that begins with `text`, as tc takes it.
fn short<'l>(text: &str, words: &[&'l str]) -> Option<&'l str> {
    words.iter().find(|word| !text.is_empty() && word.starts_with(text)).copied()
}

/// Returns the device of this name; none if there are too many.
fn find_or_add(devices: &mut Vec<Device>, name: Word) -> Option<&mut Device> {
    let at = devices.iter().position(|one| one.name.text == name.text);
    let at = at.or_else(|| (devices.len() < DEVICES_MAX).then_some(devices.len()))?;
    if at == devices.len() {
        let bare = is_bare(&name.text);
        devices.push(Device::new(name, bare));
    }
    devices.get_mut(at)
}

/// Returns whether a device of this name sends packets without an Ethernet header.
pub(super) fn is_bare(device: &str) -> bool {
    let number = |prefix: &&str| device.strip_prefix(*prefix);
    let digits = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || c == '-');
    BARE.iter().filter_map(number).any(digits)
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

/// Takes `dev NAME` out of the words before the kind.
fn take_device(words: &mut Words, reading: &mut Reading) -> Option<Word> {
    if let Some(device) = words.take_behind("dev") {
        return Some(device);
    }
    let rest = words.rest();
    let end = rest.last().map_or(words.span().end, |word| word.span.end);
    let message = "the line names no device";
    let span = Span { start: end, end };
    reading.error(&codes::INCOMPLETE, span, message, "write `dev` and the name of a device");
    None
}

/// The words between the action and the kind of a discipline or a class.
#[derive(Default)]
struct Place {
    handle: Option<Handle>,
    parent: Option<Handle>,
    at_root: bool,
    stab: disciplines::Overhead,
    /// It belongs to a hook of its own: `ingress`, `clsact` and their filters.
    hook: bool,
}

impl Place {
    fn read(words: &mut Words, reading: &mut Reading) -> Option<Self> {
        let mut place = Place::default();
        loop {
            match words.peek() {
                Some("root") => {
                    words.take();
                    place.at_root = true;
                }
                Some("ingress" | "clsact") => {
                    place.hook = true;
                    return Some(place);
                }
                Some("parent") => {
                    words.take();
                    if words.accept("root") {
                        place.at_root = true;
                        continue;
                    }
                    place.parent = Some(words.value(A_HANDLE, units::handle, reading)?);
                }
                Some("handle" | "classid") => {
                    words.take();
                    let whole = |text: &str| {
                        units::handle(text).or_else(|| units::handle(&format!("{text}:")))
                    };
                    place.handle = Some(words.value(A_HANDLE, whole, reading)?);
                }
                Some("stab") => {
                    words.take();
                    disciplines::stab(words, &mut place.stab, reading)?;
                }
                Some(word) if word.len() >= 3 && "estimator".starts_with(word) => {
                    words.take();
                    words.need("an interval", reading)?;
                    words.need("a time", reading)?;
                }
                _ => return Some(place),
            }
        }
    }
}

/// Reads `[root | parent H] [handle H] [stab ...] KIND OPTIONS`.
fn qdisc(
    words: &mut Words,
    (line, act): (LineId, Act),
    device: &mut Device,
    reading: &mut Reading,
) -> Option<()> {
    let place = Place::read(words, reading)?;
    if place.hook || place.handle.is_some_and(|handle| handle.0 == HOOKS) {
        reading.noted(line, "a hook for other filters, which say what they do");
        return None;
    }
    let parent = place.parent.filter(|_| !place.at_root);
    let known = device.qdiscs.iter().position(|one| one.parent == parent);
    if act == Act::Delete {
        let gone = known.map(|at| device.qdiscs.remove(at));
        gone.into_iter().for_each(|gone| device.forget(&gone));
        reading.noted(line, ALREADY_GONE);
        return Some(());
    }
    if device.qdiscs.len() >= OBJECTS_MAX {
        reading.lost(line, format!("the device has more than {OBJECTS_MAX} of them"));
        return None;
    }
    let kind = words.need("a queueing discipline", reading)?;
    let waiting = device.queue_length;
    let mut discipline = disciplines::read(&kind, words, (line, waiting), reading)?;
    if place.stab != disciplines::Overhead::default() {
        discipline.overhead = place.stab;
    }
    let handle = place.handle.unwrap_or((0, 0));
    let new = Qdisc { handle, parent, line, kind: discipline };
    let Some(at) = known else {
        device.qdiscs.push(new);
        return Some(());
    };
    let same = |old: &Qdisc| old.kind.kind == new.kind.kind;
    let old = &mut device.qdiscs[at];
    if act == Act::Add && parent.is_none() {
        reading.lost(line, "the kernel refuses it: the device has a root discipline already");
        return None;
    }
    if act != Act::Add && same(old) && (place.handle.is_none() || old.handle == handle) {
        if old.kind.has_another_pause(&new.kind) {
            reading.approximated(line, "virtual queues have one `pkttime` here: the last counts");
        }
        old.kind.change(new.kind);
        return Some(());
    }
    let gone = device.qdiscs.remove(at);
    device.forget(&gone);
    device.qdiscs.push(new);
    Some(())
}

impl Device {
    fn new(name: Word, bare: bool) -> Self {
        let (qdiscs, classes, attached, filters, made) = Default::default();
        let (sorts, uniques, tables) = Default::default();
        let queue_length = QUEUE_LENGTH;
        Self {
            name,
            bare,
            qdiscs,
            classes,
            attached,
            filters,
            made,
            sorts,
            uniques,
            tables,
            queue_length,
        }
    }

    /// Forgets what was attached to a discipline that is gone.
    fn forget(&mut self, gone: &Qdisc) {
        if gone.parent.is_none() {
            let bare = self.bare;
            let queue_length = self.queue_length;
            let name = self.name.clone();
            *self = Self { queue_length, ..Self::new(name, bare) };
            return;
        }
        let major = gone.handle.0;
        self.classes.retain(|class| class.id.0 != major);
        self.remove_filters(|one| one.place.is_some_and(|place| place.0 == major));
    }
}

/// Reads `parent H [classid H] KIND OPTIONS`.
fn class(
    words: &mut Words,
    (line, act): (LineId, Act),
    device: &mut Device,
    reading: &mut Reading,
) -> Option<()> {
    let place = Place::read(words, reading)?;
    let parent = place.parent.filter(|_| !place.at_root).unwrap_or((0, 0));
    if act == Act::Delete {
        let id = place.handle;
        let used = |id: Handle| device.classes.iter().any(|class| class.parent == id);
        if id.is_some_and(used) {
            reading.lost(line, "the kernel refuses it: the class has children");
            return None;
        }
        device.classes.retain(|class| Some(class.id) != id);
        reading.noted(line, ALREADY_GONE);
        return Some(());
    }
    let kind = words.need("a queueing discipline", reading)?;
    let Some(mut id) = place.handle else {
        let message = "a class needs `classid`";
        reading.error(&codes::INCOMPLETE, kind.span, message, "write `classid`");
        return None;
    };
    let mut parent = parent;
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
        if act != Act::Add {
            known.options = options;
            return Some(());
        }
        let message = format!("class {:x}:{:x} is declared twice", id.0, id.1);
        reading.error(&codes::DECLARED_TWICE, kind.span, message, "give one another `classid`");
        return None;
    }
    if act == Act::Change {
        reading.lost(line, "the kernel refuses it: there is no such class to change");
        return None;
    }
    // [linux] HTB looks its parent up when the class is made; one that is not there is the root.
    let above = parent.1 > 0 && !device.classes.iter().any(|other| other.id == parent);
    if above && options.kind == "htb" {
        let note = "its parent is not a class here, so the kernel puts it at the root";
        reading.noted(line, note);
        parent.1 = 0;
    }
    let waiting = device.queue_length;
    device.classes.push(Class { id, parent, line, waiting, options });
    Some(())
}

const OBJECTS: [&str; 3] = ["qdisc", "class", "filter"];
/// The actions, in the order in which tc compares a shortened one with them.
const ACTIONS: [&str; 8] = ["add", "change", "replace", "link", "delete", "show", "list", "get"];
const ALREADY_GONE: &str = "deletes what is there at present; a policy begins without it";
const SETS_UP: &str = "give the commands that set up the shaping; a script often needs an argument \
                       for that, such as `start`";
const ARRIVING: &str = "arriving packets have their own direction, and `police`: write the policy \
                        of the other direction";
/// The major number of `ingress` and `clsact`.
const HOOKS: u16 = 0xffff;
/// The device of shown lines that name none.
const UNNAMED: &str = "device";
/// How devices are called whose packets begin with an IP header.
const BARE: [&str; 14] = [
    "ppp",
    "pppoe",
    "pppoe-wan",
    "tun",
    "wg",
    "sit",
    "gre",
    "ipip",
    "tunl",
    "ip6tnl",
    "vti",
    "xfrm",
    "rmnet",
    "wwan",
];
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
