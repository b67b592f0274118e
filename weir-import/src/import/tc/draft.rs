//! A filter as it is written: its conditions and its target, and the rules of a policy that say the
//! same [linux, algorithms §11.3].

use super::super::conditions::with_tos;
use super::super::lines::{LineId, Reading};
use super::super::sketch::{Key, quoted};
use super::super::words::Word;
use super::Handle;
use super::selector::{Lowered, Selector};
use super::tables::Links;
use super::units::base0;
use weir_core::packet::Dscp;

/// The conditions of a filter and what becomes of its packets.
#[derive(Clone)]
pub(super) struct Draft {
    pub line: LineId,
    pub accepts: Accepts,
    /// The packets of `protocol`; `accepts` follows `vlan_ethtype` as well.
    pub outer: Accepts,
    /// The keys of a `u32`.
    pub selector: Option<Selector>,
    pub links: Links,
    pub keys: Vec<Key>,
    /// Value and mask of the traffic class.
    pub tos: Option<(u8, u8)>,
    pub target: Option<Handle>,
    pub police: Option<String>,
    /// The code point that its packets get.
    pub set_dscp: Option<Dscp>,
    pub parent: Option<Handle>,
    pub prio: Option<u32>,
    /// The number after `handle`, which `fw` compares with the mark.
    pub handle: Option<Word>,
    pub mark: Option<Mark>,
    /// Type and code of a message of ICMP, as far as they were read.
    pub message: (Option<u64>, Option<u64>),
    pub kind: String,
}

/// The comparison of a `fw` filter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub value: u32,
    pub mask: u32,
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

impl Draft {
    pub(super) fn new(line: LineId) -> Self {
        let accepts = Accepts::All;
        let (selector, links, keys, tos, target, police) = Default::default();
        let (parent, prio, handle, mark, message, kind) = Default::default();
        let set_dscp = None;
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
            set_dscp,
            parent,
            prio,
            handle,
            mark,
            message,
            kind,
        }
    }

    /// Returns whether a `u32` has neither keys nor a class: the kernel makes the table alone.
    pub(super) fn is_empty(&self) -> bool {
        let keys = self.selector.as_ref().is_some_and(|selector| !selector.has_none());
        !keys && self.target.is_none() && self.handle.is_none()
    }

    pub(super) fn marks(&self) -> Option<(u32, u32)> {
        self.mark.map(|mark| (mark.value, mark.mask))
    }

    /// Returns what no other filter of the priority may test, where the kernel looks.
    pub(super) fn tests(&self) -> Option<String> {
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
    pub(super) fn rules(self, reading: &mut Reading) -> Option<Vec<Vec<Key>>> {
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
            let dscp = self.set_dscp.map(|dscp| ("set_dscp", quoted(&dscp.to_string())));
            rule.extend(dscp);
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
    pub(super) fn parse(text: &str) -> Option<Mark> {
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

const FRAGMENTS: &str = "the kernel does not find the ports of fragments; Weir sends all fragments \
                         where the first goes";
/// A mark is not in the packet [policy finding W117].
const MARKS: &str = "no packet at a port of `weir up` has a firewall's mark: write the conditions \
                     by which the firewall sets it";
