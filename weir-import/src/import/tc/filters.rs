//! Reads filters: `u32`, `flower`, `basic`, `matchall` and `fw` [linux, algorithms §11.3].

use super::super::altq::with_tos;
use super::super::lines::{LineId, Reading};
use super::super::sketch::{Key, inline, quoted, rate_value};
use super::super::words::{Word, Words, bad_value, number};
use super::selector::{Lowered, Selector};
use super::tables::{Links, Node};
use super::units::{base0, handle, kernel_burst, rate, size};
use super::{A_HANDLE, ARRIVING, Act, Device, HOOKS, Handle, OBJECTS_MAX, basic, short};
use std::net::{IpAddr, Ipv4Addr};
use weir_core::packet::MacAddress;
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

/// The conditions of a filter and what becomes of its packets.
#[derive(Clone)]
pub(super) struct Draft {
    pub line: LineId,
    pub accepts: Accepts,
    /// The packets of `protocol`; `accepts` follows `vlan_ethtype` as well.
    outer: Accepts,
    /// The keys of a `u32`.
    selector: Option<Selector>,
    links: Links,
    pub keys: Vec<Key>,
    /// Value and mask of the traffic class.
    pub tos: Option<(u8, u8)>,
    target: Option<Handle>,
    police: Option<String>,
    parent: Option<Handle>,
    prio: Option<u32>,
    /// The number after `handle`, which `fw` compares with the mark.
    handle: Option<Word>,
    mark: Option<Mark>,
    kind: String,
}

/// The comparison of a `fw` filter.
#[derive(Clone, Copy, Debug)]
struct Mark {
    value: u32,
    mask: u32,
}

/// The packets that `protocol` accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Accepts {
    All,
    Type(EthernetType),
    /// Packets with a VLAN tag.
    Tagged,
    /// Packets with a length in place of a type.
    Untyped,
}

/// The number of a protocol behind Ethernet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EthernetType(pub u16);

impl EthernetType {
    pub(super) const IPV4: Self = Self(0x0800);
    pub(super) const IPV6: Self = Self(0x86dd);
    pub(super) const IP: [Self; 2] = [Self::IPV4, Self::IPV6];

    /// Returns it as policies write it.
    pub(super) fn text(self) -> String {
        match self {
            Self::IPV4 => "ipv4".to_owned(),
            Self::IPV6 => "ipv6".to_owned(),
            Self(0x0806) => "arp".to_owned(),
            Self(number) => format!("{number:#06x}"),
        }
    }
}

/// Reads `[parent H] [protocol P] [prio N] [handle H] KIND CONDITIONS [flowid H] [police ...]`.
pub(super) fn read(
    words: &mut Words,
    (line, act): (LineId, Act),
    device: &mut Device,
    reading: &mut Reading,
) -> Option<()> {
    let mut draft = Draft::new(line);
    let kind = head(words, &mut draft, reading)?;
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
    let read = conditions(&kind, words, &mut draft, reading);
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

/// Reads the words before the kind of a filter, and the kind if there is one.
fn head(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<Option<Word>> {
    while let Some(word) = words.take() {
        match word.text.as_str() {
            "parent" if words.accept("root") => {}
            "parent" => draft.parent = Some(words.value(A_HANDLE, handle, reading)?),
            "root" => {}
            "ingress" => draft.parent = Some(INGRESS_HOOK),
            "egress" => draft.parent = Some(EGRESS_HOOK),
            "handle" => draft.handle = Some(words.need("a handle", reading)?),
            "flowid" | "classid" | "match" | "police" | "action" => {
                let message = "the kind of filter is missing";
                let cure = "write a kind such as `u32` before the conditions";
                reading.error(&codes::INCOMPLETE, word.span, message, cure);
                return None;
            }
            text => match short(text, &HEAD) {
                Some("protocol") => {
                    protocol(words, draft, reading)?;
                    draft.outer = draft.accepts;
                }
                Some("preference" | "priority") => {
                    let in_range = |text: &str| base0(text, 0xffff);
                    draft.prio = Some(words.value("a priority up to 65535", in_range, reading)?);
                }
                Some(_) => {
                    words.need("an interval", reading)?;
                    words.need("a time", reading)?;
                }
                None => return of_root(draft, reading).map(|()| Some(word)),
            },
        }
    }
    of_root(draft, reading).map(|()| None)
}

/// Reports a filter of a hook, which chooses no class of the root discipline.
fn of_root(draft: &Draft, reading: &mut Reading) -> Option<()> {
    let Some(hook) = draft.parent.filter(|parent| parent.0 == HOOKS) else { return Some(()) };
    let why = if hook == EGRESS_HOOK { EGRESS } else { ARRIVING };
    reading.lost(draft.line, why);
    None
}

/// Reads the words behind the kind of a filter.
fn conditions(
    kind: &Word,
    words: &mut Words,
    draft: &mut Draft,
    reading: &mut Reading,
) -> Option<()> {
    match kind.text.as_str() {
        "u32" => u32_conditions(words, draft, reading)?,
        "flower" => flower(words, draft, reading)?,
        "basic" => basic::read(words, draft, reading)?,
        "matchall" => tail(words, draft, reading)?,
        "fw" => fw(words, draft, reading)?,
        "flow" => flow(words, draft, reading)?,
        other if OTHER_KINDS.contains(&other) => {
            reading.lost(draft.line, format!("Weir has no `{other}` filter"));
            return None;
        }
        other => {
            reading.unknown((other, kind.span), "kind of filter", &KINDS);
            return None;
        }
    }
    Some(())
}

/// Reads `flow hash keys dst divisor 1024`.
fn flow(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let mut found = None;
    while let Some(word) = words.take() {
        match word.text.as_str() {
            "hash" | "handle" | "baseclass" => {}
            "keys" => found = Some(words.need("keys such as `dst`", reading)?),
            "divisor" | "perturb" => drop(words.need("a number", reading)?),
            _ => return unread(&format!("flow {}", word.text), draft, reading),
        }
    }
    let keys = found.map_or_else(String::new, |word| word.text);
    let Some((_, hash)) = FLOW_KEYS.iter().find(|row| row.0 == keys) else {
        return unread(&format!("flow keys {keys}"), draft, reading);
    };
    draft.set("hash", quoted(hash));
    Some(())
}

impl Draft {
    fn new(line: LineId) -> Self {
        let accepts = Accepts::All;
        let (selector, links, keys, tos, target, police) = Default::default();
        let (parent, prio, handle, mark, kind) = Default::default();
        Self {
            line,
            accepts,
            outer: accepts,
            selector,
            links,
            keys,
            tos,
            target,
            police,
            parent,
            prio,
            handle,
            mark,
            kind,
        }
    }

    /// Returns whether a `u32` has neither keys nor a class: the kernel makes the table alone.
    fn is_empty(&self) -> bool {
        let keys = self.selector.as_ref().is_some_and(|selector| !selector.has_none());
        !keys && self.target.is_none() && self.handle.is_none()
    }

    fn marks(&self) -> Option<(u32, u32)> {
        self.mark.map(|mark| (mark.value, mark.mask))
    }

    /// Returns what no other filter of the priority may test, where the kernel looks.
    fn tests(&self) -> Option<String> {
        let mut keys = self.keys.clone();
        keys.sort_unstable();
        let tos = self.tos.map(|(value, mask)| (value & mask, mask)).filter(|tos| tos.1 > 0);
        match self.kind.as_str() {
            "fw" => Some(format!("{:?}", self.mark.map(|mark| mark.value))),
            "flower" => Some(format!("{keys:?} {tos:?}")),
            "matchall" => Some(String::new()),
            _ => None,
        }
    }

    /// Returns the rules; none if it has no counterpart.
    fn rules(self, reading: &mut Reading) -> Option<Vec<Vec<Key>>> {
        let behind = self.selector.as_ref().is_some_and(|selector| !selector.is_any());
        let why = match self.accepts {
            Accepts::Tagged if behind => "u32 compares bytes of the VLAN tag",
            Accepts::Untyped => "Weir's rules cannot match frames without an ethertype",
            _ => "",
        };
        if !why.is_empty() {
            reading.lost(self.line, why);
            return None;
        }
        if self.accepts == Accepts::Tagged || self.has("vlan") {
            let note = "Weir does not tell tags of 802.1ad from those of 802.1q";
            reading.approximated(self.line, note);
        }
        if matches!(self.accepts, Accepts::Type(EthernetType(0x8847 | 0x8848 | 0x8864))) {
            let note = "where an IP packet follows, Weir's rules see that packet's ethertype";
            reading.approximated(self.line, note);
        }
        if self.kind == "flower" && (self.has("sport") || self.has("dport")) {
            reading.approximated(self.line, FRAGMENTS);
        }
        let empty = self.mark.is_some_and(|mark| mark.value & !mark.mask != 0);
        if empty {
            reading.noted(self.line, "it matches no packet: its mark is outside its mask");
            return Some(Vec::new());
        }
        if self.mark.is_some() {
            reading.approximated(self.line, MARKS);
        }
        let mut rules = match &self.selector {
            Some(selector) => self.lowered(selector, reading)?,
            None => self.parsed(),
        };
        for rule in &mut rules {
            rule.extend(self.tags());
            rule.extend(self.mark.map(Mark::key));
            rule.extend(self.police.clone().map(|police| ("police", police)));
        }
        Some(rules)
    }

    /// Returns the rules of a filter that compares bytes.
    fn lowered(&self, selector: &Selector, reading: &mut Reading) -> Option<Vec<Vec<Key>>> {
        let accepted = match self.accepts {
            Accepts::Type(one) => Some(one),
            _ => None,
        };
        let Lowered { rules, notes, lost } = selector.lower(accepted);
        if let Some(why) = lost {
            reading.lost(self.line, why);
            return None;
        }
        match rules.is_empty() {
            true => notes.into_iter().for_each(|note| reading.noted(self.line, note)),
            false => notes.into_iter().for_each(|note| reading.approximated(self.line, note)),
        }
        Some(rules)
    }

    /// Returns the rules of a filter that parses headers.
    fn parsed(&self) -> Vec<Vec<Key>> {
        let mut keys = self.keys.clone();
        let has_address = keys.iter().any(|(key, _)| *key == "src" || *key == "dst");
        let of_ip = |one: EthernetType| EthernetType::IP.contains(&one);
        if let Accepts::Type(one) = self.accepts
            && !(has_address && of_ip(one))
        {
            keys.insert(0, ("ethertype", quoted(&one.text())));
        }
        match self.tos {
            Some((tos, mask)) if mask > 0 => with_tos(&keys, tos, mask),
            _ => vec![keys],
        }
    }

    /// Returns the condition on VLAN tags that follows from the protocol: the kernel sees the first
    /// ethertype of a frame, and Weir's rules the last.
    fn tags(&self) -> Option<Key> {
        let none = quoted("none");
        let has_vlan = self.has("vlan");
        match self.accepts {
            Accepts::Type(_) if has_vlan => Some(("vlan_inner", none)),
            Accepts::Type(_) => Some(("vlan", none)),
            Accepts::Tagged if !has_vlan => Some(("vlan", quoted("any"))),
            _ => None,
        }
    }

    pub(super) fn has(&self, field: &str) -> bool {
        self.keys.iter().any(|(key, _)| *key == field)
    }

    /// Replaces an earlier value of this field.
    pub(super) fn set(&mut self, key: &'static str, value: String) {
        self.keys.retain(|(other, _)| *other != key);
        self.keys.push((key, value));
    }
}

impl Mark {
    /// Reads `VALUE[/MASK]`, in the bases of C.
    fn parse(text: &str) -> Option<Mark> {
        let (value, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
        let bits = |text: &str| base0(text, u32::MAX);
        Some(Mark { value: bits(value)?, mask: bits(mask)? })
    }

    fn key(self) -> Key {
        let value = match self.mask {
            u32::MAX => self.value.to_string(),
            mask => quoted(&format!("{:#x}/{mask:#x}", self.value)),
        };
        ("mark", value)
    }
}

/// Reads the `handle` and what follows `fw`.
fn fw(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let Some(handle) = draft.handle.clone() else {
        let why = "without `handle` a mark is itself the number of a class: write a filter for \
                   each mark";
        reading.lost(draft.line, why);
        return None;
    };
    let Some(mark) = Mark::parse(&handle.text) else {
        bad_value(&handle, "a mark of 32 bits, with or without /MASK", reading);
        return None;
    };
    if mark.value == 0 {
        reading.lost(draft.line, "the kernel refuses it: `handle` is 0");
        return None;
    }
    draft.mark = Some(mark);
    if words.peek() == Some("indev") {
        return unread("indev", draft, reading);
    }
    tail(words, draft, reading)
}

fn protocol(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let word = words.need("a protocol such as `ip`", reading)?;
    let named = PROTOCOLS.iter().find(|row| row.0.eq_ignore_ascii_case(&word.text));
    let number = || base0(&word.text, 0xffff).map(|number| number as u16);
    let Some(number) = named.map(|row| row.1).or_else(number) else {
        let known = ["ip", "ipv6", "all", "arp", "802.1q", "802_3"];
        reading.unknown((&word.text, word.span), "protocol", &known);
        return None;
    };
    draft.accepts = match number {
        0x0001 => Accepts::Untyped,
        0x0003 => Accepts::All,
        0x8100 | 0x88a8 => Accepts::Tagged,
        number => Accepts::Type(EthernetType(number)),
    };
    Some(())
}

/// Reads what may follow conditions: a target, and a policer.
pub(super) fn tail(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    while words.peek().is_some() {
        tail_word(words, draft, reading)?;
    }
    Some(())
}

/// Reads one of the words that are no condition of its kind, or any word of `u32`.
fn tail_word(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let word = words.take()?;
    let text = short(&word.text, &TAIL).unwrap_or(&word.text);
    match text {
        "match" if draft.kind == "u32" => {
            draft.selector.get_or_insert_default().read(words, reading)?;
        }
        "ht" | "link" | "hashkey" | "offset" | "divisor" | "order" if draft.kind == "u32" => {
            draft.links.read(text, words, reading)?;
        }
        "sample" if draft.kind == "u32" => return unread("sample", draft, reading),
        "flowid" | "classid" => draft.target = Some(words.value(A_HANDLE, target, reading)?),
        "police" if ["flower", "matchall"].contains(&draft.kind.as_str()) => {
            let why = "tc refuses it: behind this kind of filter it reads `action police`";
            reading.lost(draft.line, why);
            return None;
        }
        "police" => police(words, draft, reading)?,
        "action" | "actions" if words.accept("police") => police(words, draft, reading)?,
        "action" | "actions" => {
            let action = words.take().map_or_else(String::new, |word| word.text);
            if !["ok", "pass"].contains(&action.as_str()) {
                reading.lost(draft.line, format!("Weir has no action `{action}` of a filter"));
                return None;
            }
        }
        "skip_hw" | "skip_sw" => {}
        other => {
            let known = ["flowid", "classid", "police", "action"];
            reading.unknown((other, word.span), "word behind conditions", &known);
            return None;
        }
    }
    Some(())
}

/// Parses the handle of a class; a number alone is a minor one, which names no class.
fn target(text: &str) -> Option<Handle> {
    handle(text).or_else(|| Some((0, u16::from_str_radix(text, 16).ok()?)))
}

/// Reads `police rate R burst B [mtu M] [drop | pass | continue | conform-exceed ...]`.
fn police(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let (mut bits, mut depth, mut out) = (0, 0, "drop");
    while let Some(word) = words.peek() {
        match word {
            "rate" => {
                words.take();
                bits = words.value("a rate such as 1mbit", rate, reading)?;
            }
            "burst" | "buffer" | "maxburst" => {
                words.take();
                depth = words.value("a size such as 10k", size, reading)?;
            }
            "mtu" | "minburst" | "mpu" => {
                words.take();
                words.need("a size", reading)?;
            }
            "peakrate" | "avrate" | "overhead" | "linklayer" | "index" => {
                let note = format!("`{word}` of `police` is left out");
                reading.approximated(draft.line, note);
                words.take();
                words.need("a value", reading)?;
            }
            "conform-exceed" => {
                words.take();
                let action = words.need("an action such as `drop`", reading)?;
                let (beyond, within) =
                    action.text.split_once('/').unwrap_or((&action.text, "pass"));
                out = exceed(beyond, draft.line, reading);
                if !["pass", "ok", "pipe"].contains(&within) {
                    let note = format!("packets within the rate pass, and not `{within}`");
                    reading.approximated(draft.line, note);
                }
            }
            action if POLICE_ACTIONS.contains(&action) => {
                out = exceed(action, draft.line, reading);
                words.take();
            }
            _ => break,
        }
    }
    if bits == 0 || depth == 0 {
        reading.approximated(draft.line, "`police` without `rate` and `burst` is left out");
        return Some(());
    }
    let depth = kernel_burst(depth, bits).clamp(1, 1 << 30);
    let depth = quoted(&format!("{depth} B"));
    let keys = [("rate", rate_value(bits)), ("depth", depth), ("out", quoted(out))];
    draft.police = Some(inline(&keys));
    Some(())
}

/// Returns what becomes of a packet beyond the rate.
fn exceed(action: &str, line: LineId, reading: &mut Reading) -> &'static str {
    match action {
        // The same filter takes a packet again that is classified once more, and its policer finds
        // it too long again; after 16 such turns the kernel drops it.
        "drop" | "shot" | "reclassify" => "drop",
        // There is no further action, so the filter has decided.
        "pass" | "ok" | "pipe" => "pass",
        other => {
            let note = format!(
                "packets beyond the rate go to the class too: Weir does not try the next filter, \
                 as `{other}` says"
            );
            reading.approximated(line, note);
            "pass"
        }
    }
}

fn u32_conditions(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    tail(words, draft, reading)?;
    let selector = draft.selector.get_or_insert_default();
    draft.mark = selector.mark.map(|(value, mask)| Mark { value, mask });
    Some(())
}

pub(super) fn unread(field: &str, draft: &Draft, reading: &mut Reading) -> Option<()> {
    let shown: String = field.chars().take(40).collect();
    reading.lost(draft.line, format!("Weir's rules cannot match `{shown}`"));
    None
}

fn address(field: &str, words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let prefix = words.value("an address with or without /LENGTH", masked_prefix, reading)?;
    let key = if field == "src" || field == "src_ip" { "src" } else { "dst" };
    if let Some((network, length)) = prefix {
        draft.set(key, quoted(&format!("{network}/{length}")));
    }
    Some(())
}

/// Parses a prefix and clears the bits beyond its length; an inner `None` means any address.
pub(super) fn masked_prefix(text: &str) -> Option<Option<(IpAddr, u32)>> {
    let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
    let address: IpAddr = match address {
        "any" | "all" | "default" => return Some(None),
        _ => address.parse().ok().or_else(|| short_address(address))?,
    };
    let max: u32 = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        None => max,
        Some(length) => match length.parse::<Ipv4Addr>() {
            Ok(mask) if address.is_ipv4() => {
                let mask = u32::from(mask);
                Some(mask.leading_ones()).filter(|length| *length == mask.count_ones())?
            }
            _ => u32::try_from(number(length)?).ok().filter(|length| *length <= max)?,
        },
    };
    if length == 0 {
        return Some(None);
    }
    let network: IpAddr = match address {
        IpAddr::V4(one) => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            Ipv4Addr::from(u32::from(one) & mask).into()
        }
        IpAddr::V6(one) => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            std::net::Ipv6Addr::from(u128::from(one) & mask).into()
        }
    };
    Some(Some((network, length)))
}

/// Parses an address of IPv4 without its last bytes, which tc takes for zero: `10` in `10/8`.
fn short_address(text: &str) -> Option<IpAddr> {
    let mut bytes = [0; 4];
    let parts: Vec<&str> = text.split('.').collect();
    for (byte, part) in bytes.iter_mut().zip(&parts) {
        *byte = part.parse().ok()?;
    }
    (parts.len() <= 4).then(|| Ipv4Addr::from(bytes).into())
}

fn flower(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    while let Some(word) = words.peek().map(str::to_owned) {
        match word.as_str() {
            "ip_proto" => {
                words.take();
                // Numbers are hexadecimal here, and decimal in u32.
                let proto = |text: &str| match hexadecimal(text).filter(|number| *number < 256) {
                    Some(number) => Some(number),
                    None => ip_protocol(text),
                };
                let proto = words.value("a protocol", proto, reading)?;
                draft.set("proto", proto.to_string());
            }
            "src_ip" | "dst_ip" => {
                words.take();
                address(&word, words, draft, reading)?;
            }
            "src_port" | "dst_port" => {
                words.take();
                let range = words.value("a port or two, as in 80-90", port_range, reading)?;
                draft.set(if word == "src_port" { "sport" } else { "dport" }, quoted(&range));
            }
            "ip_tos" => {
                words.take();
                draft.tos = Some(words.value("a byte, or a byte/mask", masked_byte, reading)?);
            }
            "vlan_id" => {
                words.take();
                let id = |text: &str| number(text).filter(|id| *id < 4095);
                let id = words.value("a VLAN up to 4094", id, reading)?;
                draft.set("vlan", id.to_string());
            }
            "vlan_ethtype" => {
                words.take();
                protocol(words, draft, reading)?;
                if !draft.has("vlan") {
                    draft.set("vlan", quoted("any"));
                }
                if draft.accepts == Accepts::Tagged {
                    draft.set("vlan_inner", quoted("any"));
                }
            }
            "src_mac" | "dst_mac" => {
                words.take();
                let station = |text: &str| text.parse::<MacAddress>().ok();
                let masked = words.peek().is_some_and(|text| text.contains('/'));
                if masked {
                    return unread(&format!("{word} with a mask"), draft, reading);
                }
                let station =
                    words.value("an address such as 02:00:5e:10:00:01", station, reading)?;
                let key = if word == "src_mac" { "src_mac" } else { "dst_mac" };
                draft.set(key, quoted(&station.to_string()));
            }
            "indev" | "tcp_flags" | "ip_ttl" | "ip_flags" | "ct_state" | "vlan_prio" | "arp_op"
            | "enc_key_id" => return unread(&word, draft, reading),
            _ => tail_word(words, draft, reading)?,
        }
    }
    Some(())
}

fn word16(text: &str) -> Option<u16> {
    number(text).and_then(|number| u16::try_from(number).ok())
}

/// Parses a hexadecimal number with or without `0x`.
fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

fn ip_protocol(text: &str) -> Option<u64> {
    let known = [("icmp", 1), ("igmp", 2), ("tcp", 6), ("udp", 17), ("icmpv6", 58), ("sctp", 132)];
    let found = known.iter().find(|row| row.0 == text).map(|row| row.1);
    found.or_else(|| number(text)).filter(|number| *number < 256)
}

/// Parses a byte and its mask as `flower` reads them: tc takes digits for a decimal number where it
/// can, and for a hexadecimal one otherwise; the mask is hexadecimal.
fn masked_byte(text: &str) -> Option<(u8, u8)> {
    let (value, mask) = text.split_once('/').unwrap_or((text, "0xff"));
    let byte = |text: &str| hexadecimal(text).and_then(|number| u8::try_from(number).ok());
    let decimal = number(value).and_then(|number| u8::try_from(number).ok());
    let (value, mask) = (decimal.or_else(|| byte(value))?, byte(mask)?);
    Some((value & mask, mask))
}

fn port_range(text: &str) -> Option<String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (word16(first)?, word16(last)?);
    match first.cmp(&last) {
        std::cmp::Ordering::Less => Some(format!("{first}-{last}")),
        std::cmp::Ordering::Equal => Some(first.to_string()),
        std::cmp::Ordering::Greater => None,
    }
}

const FRAGMENTS: &str = "the kernel does not find the ports of fragments; Weir sends all fragments \
                         where the first goes";
/// The priority that the kernel gives to the first filter without one, and the least that it looks
/// at for the next.
const PRIO_FIRST: u32 = 0xc000;
const PRIO_AUTO: u32 = 0x8000;
const POLICE_ACTIONS: [&str; 7] = ["drop", "shot", "pass", "ok", "continue", "reclassify", "pipe"];
/// Names of protocols behind Ethernet, as tc knows them.
const PROTOCOLS: [(&str, u16); 22] = [
    ("ip", 0x0800),
    ("ipv4", 0x0800),
    ("ipv6", 0x86dd),
    ("all", 0x0003),
    ("arp", 0x0806),
    ("802_3", 0x0001),
    ("802_2", 0x0004),
    ("snap", 0x0005),
    ("802.1q", 0x8100),
    ("802.1ad", 0x88a8),
    ("loop", 0x0060),
    ("x25", 0x0805),
    ("rarp", 0x8035),
    ("atalk", 0x809b),
    ("aarp", 0x80f3),
    ("ipx", 0x8137),
    ("ppp_mp", 0x0008),
    ("ppp_disc", 0x8863),
    ("ppp_ses", 0x8864),
    ("mpls_uc", 0x8847),
    ("mpls_mc", 0x8848),
    ("lldp", 0x88cc),
];
const KINDS: [&str; 5] = ["u32", "flower", "basic", "matchall", "fw"];
/// A mark is not in the packet [policy finding W117].
const MARKS: &str = "no packet at a port of `weir up` has a firewall's mark: write the conditions \
                     by which the firewall sets it";
/// Kinds that Weir does not have, but for the flows of an `sfq`.
const OTHER_KINDS: [&str; 6] = ["route", "rsvp", "tcindex", "bpf", "cgroup", "flow"];
/// Words before the kind that tc takes shortened, in its order.
const HEAD: [&str; 4] = ["preference", "priority", "protocol", "estimator"];
/// Words behind it.
const TAIL: [&str; 14] = [
    "match", "offset", "hashkey", "classid", "flowid", "divisor", "order", "link", "ht", "sample",
    "action", "police", "skip_hw", "skip_sw",
];
/// The keys of a `flow` filter, and the `hash` of a queue.
const FLOW_KEYS: [(&str, &str); 4] = [
    ("dst", "dstaddr"),
    ("src", "srcaddr"),
    ("src,dst", "srcaddr,dstaddr"),
    ("dst,src", "srcaddr,dstaddr"),
];
/// The hooks of `clsact`.
const INGRESS_HOOK: Handle = (HOOKS, 0xfff2);
const EGRESS_HOOK: Handle = (HOOKS, 0xfff3);
const EGRESS: &str = "the hook is passed before the root discipline: it chooses no class there";
