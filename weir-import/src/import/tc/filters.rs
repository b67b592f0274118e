//! The filters of a device: where each is attached, which come first, and what changes or deletes
//! them [linux, algorithms §11.3].

use super::super::lines::{LineId, Reading};
use super::super::sketch::Key;
use super::super::words::{Words, bad_value};
use super::draft::{Accepts, Draft, Mark};
use super::selector::Selector;
use super::tables::{Links, Node};
use super::{Act, Device, Handle, OBJECTS_MAX, conditions};
use weir_policy::codes;

/// A filter with the rules for its packets.
pub(super) struct Filter {
    /// `None` for the root.
    pub parent: Option<Handle>,
    pub line: LineId,
    /// The smaller is tried first.
    pub rank: u64,
    pub target: Handle,
    /// The rules that it becomes.
    pub rules: Vec<Vec<Key>>,
}

/// A filter as it is attached.
pub(super) struct Attached {
    /// The class whose packets it sorts, or another discipline; `None` for the root.
    pub place: Option<Handle>,
    pub prio: u32,
    /// The place of a `u32` filter in its table.
    pub node: Option<Node>,
    order: u64,
    draft: Draft,
}

impl Attached {
    pub(super) fn line(&self) -> LineId {
        self.draft.line
    }

    pub(super) fn target(&self) -> Option<Handle> {
        self.draft.target
    }

    pub(super) fn links(&self) -> Links {
        self.draft.links
    }

    pub(super) fn selector(&self) -> Selector {
        self.draft.selector.clone().unwrap_or_default()
    }

    /// Returns the filter with its rules; `selector` has the keys of a `u32` filter with those on
    /// the way to it.
    pub(super) fn lower(
        &self,
        selector: Option<Selector>,
        reading: &mut Reading,
    ) -> Option<Filter> {
        let mut draft = self.draft.clone();
        if let Some(selector) = selector {
            draft.mark = selector.mark.map(|(value, mask)| Mark { value, mask });
            draft.selector = Some(selector);
        }
        let (line, parent) = (draft.line, draft.parent);
        let Some(target) = draft.target else {
            reading.lost(line, "it names no class with `flowid` or `classid`");
            return None;
        };
        let rank = (u64::from(self.prio) << 32) | self.order;
        let rules = draft.rules(reading)?;
        Some(Filter { parent, line, rank, target, rules })
    }
}

/// The properties that all filters of one priority share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sort {
    kind: String,
    accepts: Accepts,
    /// The mask of `fw` filters.
    mask: Option<u32>,
}

/// Reads `[parent H] [protocol P] [prio N] [handle H] KIND CONDITIONS [flowid H] [police ...]`.
pub(super) fn read(
    words: &mut Words,
    (line, act): (LineId, Act),
    device: &mut Device,
    reading: &mut Reading,
) -> Option<()> {
    let mut draft = Draft::new(line);
    let kind = conditions::head(words, &mut draft, reading)?;
    let place = place(draft.parent, device);
    if act == Act::Delete {
        let node = draft.handle.as_ref().map(|word| word.text.clone());
        let prio = draft.prio.filter(|prio| *prio > 0);
        device.delete(place, prio, node.as_deref());
        reading.noted(line, super::ALREADY_GONE);
        return Some(());
    }
    let Some(kind) = kind else {
        let span = words.span();
        let message = "the kind of filter is missing";
        reading.error(&codes::INCOMPLETE, span, message, "write a kind such as `u32`");
        return None;
    };
    if device.attached.len() >= OBJECTS_MAX * 16 || device.sorts.len() >= OBJECTS_MAX * 16 {
        reading.lost(line, "the device has too many filters");
        return None;
    }
    draft.kind.clone_from(&kind.text);
    let read = conditions::conditions(&kind, words, &mut draft, reading);
    // Also a filter that is lost has its priority.
    let prio = priority(&draft, place, device, reading)?;
    read?;
    if kind.text == "flow" {
        return flow_keys(draft, device, reading);
    }
    let node = match kind.text.as_str() {
        "u32" => Some(node(&draft, (place, prio), device, reading)?),
        _ => None,
    };
    if kind.text == "u32" && (draft.links.divisor.is_some() || draft.is_empty()) {
        return Some(());
    }
    // A filter without a handle is another one; `unique` finds those of `fw` that are not.
    let named = draft.kind == "matchall" || draft.handle.is_some();
    let searched = named && !(draft.kind == "fw" && act == Act::Add);
    if searched && let Some(known) = device.known(place, prio, &draft, node) {
        return change(known, draft, act, reading);
    }
    if act == Act::Change {
        reading.lost(line, "the kernel refuses it: there is no such filter to change");
        return None;
    }
    unique(&draft, (place, prio), device, reading)?;
    device.made += 1;
    let order = device.made;
    device.attached.push(Attached { place, prio, node, order, draft });
    Some(())
}

/// Where a filter is attached: the root, by whatever name, or another place.
fn place(parent: Option<Handle>, device: &Device) -> Option<Handle> {
    let root = device.qdiscs.iter().find(|one| one.parent.is_none()).map_or(0, |one| one.handle.0);
    parent.filter(|parent| parent.1 > 0 || ![0, root].contains(&parent.0))
}

/// Returns the place of a `u32` filter in its table; makes the table of `divisor`.
fn node(
    draft: &Draft,
    (place, prio): (Option<Handle>, u32),
    device: &mut Device,
    reading: &mut Reading,
) -> Option<Node> {
    let mut named = Node::default();
    if let Some(word) = &draft.handle {
        let Some(found) = Node::parse(&word.text) else {
            bad_value(word, "a handle such as 800::1 or 4:", reading);
            return None;
        };
        named = found;
    }
    let within = draft.links.within.unwrap_or((named.table, named.bucket));
    if let Some(divisor) = draft.links.divisor {
        device.tables.of(place, prio, None);
        device.tables.make(place, named.table, divisor);
        return Some(named);
    }
    let Some(table) = device.tables.of(place, prio, Some(within.0)) else {
        reading.lost(draft.line, "the kernel refuses it: there is no such table");
        return None;
    };
    let number = match draft.is_empty() {
        true => 0,
        false => device.tables.number(place, (table, within.1), named.number),
    };
    Some(Node { table, bucket: within.1, number })
}

/// Changes a filter that is there.
fn change(known: &mut Attached, draft: Draft, act: Act, reading: &mut Reading) -> Option<()> {
    if act == Act::Add {
        reading.lost(draft.line, "the kernel refuses it: there is a filter with this `handle`");
        return None;
    }
    let old = &mut known.draft;
    // [linux] The kernel keeps the keys of a `u32` filter, and takes the class.
    if draft.kind == "u32" || draft.kind == "fw" {
        old.target = draft.target.or(old.target);
        old.police = draft.police.or(old.police.take());
        old.set_dscp = draft.set_dscp.or(old.set_dscp);
        return Some(());
    }
    let target = draft.target.or(old.target);
    *old = Draft { target, ..draft };
    Some(())
}

/// Takes the keys by which an `sfq` tells flows apart.
fn flow_keys(draft: Draft, device: &mut Device, reading: &mut Reading) -> Option<()> {
    let major = draft.parent.map(|parent| parent.0);
    let sfq = |one: &super::Qdisc| one.kind.kind == "sfq" && Some(one.handle.0) == major;
    let Some(qdisc) = device.qdiscs.iter_mut().find(|one| sfq(one)) else {
        reading.lost(draft.line, "Weir has no `flow` filter but for the flows of an `sfq`");
        return None;
    };
    qdisc.kind.queue.extend(draft.keys);
    Some(())
}

impl Device {
    fn known(
        &mut self,
        place: Option<Handle>,
        prio: u32,
        draft: &Draft,
        node: Option<Node>,
    ) -> Option<&mut Attached> {
        let handle = draft.handle.as_ref().map(|word| word.text.as_str());
        let fw = |one: &Attached| draft.kind == "fw" && one.draft.marks() == draft.marks();
        let named = |one: &Attached| {
            let other = one.draft.handle.as_ref().map(|word| word.text.as_str());
            handle.is_some() && other == handle
        };
        let numbered = draft.kind == "matchall";
        self.attached.iter_mut().find(|one| {
            let same = one.place == place && one.prio == prio && one.draft.kind == draft.kind;
            let it = match node {
                Some(node) => one.node == Some(node),
                None => fw(one) || named(one) || numbered,
            };
            same && it && (draft.kind != "fw" || draft.mark.is_some())
        })
    }

    /// Removes filters of a place: all, those of a priority, or one of them.
    fn delete(&mut self, place: Option<Handle>, prio: Option<u32>, handle: Option<&str>) {
        let node = handle.and_then(Node::parse);
        let matches = |one: &Attached| {
            let named =
                one.draft.handle.as_ref().is_some_and(|word| Some(word.text.as_str()) == handle);
            let it = handle.is_none() || named || node.is_some() && one.node == node;
            one.place == place && prio.is_none_or(|prio| prio == one.prio) && it
        };
        self.remove_filters(matches);
        if handle.is_none() {
            self.sorts.retain(|key, _| key.0 != place || prio.is_some_and(|prio| prio != key.1));
        }
    }

    /// Removes filters, and what was remembered of them.
    pub(super) fn remove_filters(&mut self, matches: impl Fn(&Attached) -> bool) {
        let (gone, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.attached).into_iter().partition(matches);
        self.attached = rest;
        for one in gone {
            if let Some(tests) = one.draft.tests() {
                self.uniques.remove(&(one.place, one.prio, tests));
            }
            if self.attached.iter().all(|other| (other.place, other.prio) != (one.place, one.prio))
            {
                self.sorts.remove(&(one.place, one.prio));
                self.tables.forget(one.place, one.prio);
            }
        }
    }
}

/// Returns the priority of a filter, as written or as the kernel gives one; none if the kernel
/// refuses the filter.
fn priority(
    draft: &Draft,
    place: Option<Handle>,
    device: &mut Device,
    reading: &mut Reading,
) -> Option<u32> {
    let mark = draft.mark.filter(|_| draft.kind == "fw");
    let mask = mark.map(|mark| mark.mask);
    let sort = Sort { kind: draft.kind.clone(), accepts: draft.outer, mask };
    let prio = draft.prio.filter(|prio| *prio > 0).unwrap_or_else(|| {
        // [algorithms §11.3] Below the smallest in the upper half; those in the lower half precede.
        let upper = (place, PRIO_AUTO)..=(place, u32::MAX);
        let least = device.sorts.range(upper).next();
        least.map_or(PRIO_FIRST, |(key, _)| key.1.saturating_sub(1))
    });
    let known = device.sorts.entry((place, prio)).or_insert_with(|| sort.clone());
    if *known != sort {
        let why = "the kernel refuses it: an earlier filter with this `prio` has another kind, \
                   another `protocol` or, for `fw`, another mask";
        reading.lost(draft.line, why);
        return None;
    }
    Some(prio)
}

/// Reports a filter that the kernel refuses since an earlier one of this priority tests the same.
fn unique(
    draft: &Draft,
    (place, prio): (Option<Handle>, u32),
    device: &mut Device,
    reading: &mut Reading,
) -> Option<()> {
    let Some(tests) = draft.tests() else { return Some(()) };
    if device.uniques.insert((place, prio, tests)) {
        return Some(());
    }
    let why = "the kernel refuses it: an earlier filter with this `prio` tests the same";
    reading.lost(draft.line, why);
    None
}

/// The priority that the kernel gives to the first filter without one, and the least that it looks
/// at for the next.
const PRIO_FIRST: u32 = 0xc000;
const PRIO_AUTO: u32 = 0x8000;
