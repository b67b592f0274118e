//! Conditions that few rules have: the priority in a VLAN tag, TCP's flags, the type of an ICMP
//! message and the length of the IP packet.
//!
//! The tables of a classifier do not hold them: a rule that has one is found by its other
//! conditions and then compared in full. In the flow cache's key stands only which of these
//! conditions a packet meets (`key.rs`), so packets of a flow that differ in length alone have few
//! entries. A policy without such a rule pays nothing for them.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::packet::fields::decimal;
use crate::packet::{FieldError, Headers, IcmpType, Pcp, Protocol, TcpFlags};

/// Conditions beside those of the tables; all must hold, and of each list one value. An empty list
/// is no condition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Details {
    /// Priorities in the only or outer VLAN tag.
    pub pcps: Vec<Pcp>,
    /// Flags of TCP.
    pub tcp_flags: Vec<FlagTest>,
    /// Types of ICMP messages, of IPv4 or IPv6 as the rule's protocol says.
    pub icmp: Vec<IcmpTest>,
    /// Lengths of the IP packet.
    pub lengths: Vec<LengthRange>,
}

impl Details {
    /// Returns the conditions as a rule holds them; `None` if there are none.
    pub fn boxed(self) -> Option<Box<Details>> {
        (self != Details::default()).then(|| Box::new(self))
    }

    /// Returns whether the packet satisfies every condition.
    pub fn accepts(&self, headers: &Headers) -> bool {
        let priority = headers.vlan.map(|tag| tag.priority());
        any(&self.pcps, priority, |pcp, found| pcp.code() == found)
            && any(&self.tcp_flags, headers.tcp_flags(), |test, found| test.accepts(found))
            && any(&self.icmp, headers.icmp(), |test, found| test.accepts(found))
            && any(&self.lengths, headers.network_len, |range, found| range.contains(found))
    }

    /// Returns whether a condition tests what no later fragment has.
    pub fn needs_transport(&self) -> bool {
        !self.tcp_flags.is_empty() || !self.icmp.is_empty()
    }

    /// Returns how many combinations of values the lists stand for.
    pub fn combinations(&self) -> usize {
        let lists = [self.pcps.len(), self.tcp_flags.len(), self.icmp.len(), self.lengths.len()];
        lists.iter().fold(1, |product: usize, count| product.saturating_mul(*count.max(&1)))
    }
}

fn any<T, F: Copy>(wanted: &[T], found: Option<F>, accepts: impl Fn(&T, F) -> bool) -> bool {
    wanted.is_empty() || found.is_some_and(|found| wanted.iter().any(|one| accepts(one, found)))
}

/// A condition on TCP's flags: those that the mask selects are set or not set as in the value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FlagTest {
    mask: u8,
    value: u8,
}

impl FlagTest {
    /// The flags that are `value` under `mask`.
    ///
    /// # Errors
    /// If `value` has bits outside `mask`: no segment would satisfy it.
    pub fn new(value: u8, mask: u8) -> Result<FlagTest, FieldError> {
        if value & !mask == 0 {
            return Ok(FlagTest { mask, value });
        }
        Err(FieldError::new(
            "TCP flags",
            &format!("{value:#04x}/{mask:#04x}"),
            "have bits outside their mask, so no segment matches",
            format!("write {:#04x}/{mask:#04x}, or a mask with more bits", value & mask),
        ))
    }

    /// Returns whether these flags satisfy the condition.
    pub fn accepts(self, flags: TcpFlags) -> bool {
        flags.0 & self.mask == self.value
    }

    /// Returns whether all flags that satisfy `inner` satisfy this condition.
    pub fn covers(self, inner: FlagTest) -> bool {
        self.mask & !inner.mask == 0 && inner.value & self.mask == self.value
    }

    /// Returns the flags that must be set.
    pub fn value(self) -> u8 {
        self.value
    }

    /// Returns the flags that are tested.
    pub fn mask(self) -> u8 {
        self.mask
    }
}

impl FromStr for FlagTest {
    type Err = FieldError;

    /// Reads names of flags with commas between; `!` stands before one that must not be set.
    fn from_str(text: &str) -> Result<FlagTest, FieldError> {
        let mut test = FlagTest { mask: 0, value: 0 };
        for word in text.split(',') {
            let name = word.strip_prefix('!').unwrap_or(word);
            let known = TCP_FLAGS.iter().find(|row| row.0.eq_ignore_ascii_case(name));
            let Some((_, flag)) = known.filter(|row| test.mask & row.1 == 0) else {
                return Err(FieldError::new(
                    "TCP flags",
                    text,
                    "are not names of TCP's flags, each once, with commas between",
                    "write for instance syn or ack,!psh; the flags are fin, syn, rst, psh, ack, \
                     urg, ece and cwr",
                ));
            };
            test.mask |= flag;
            test.value |= if name == word { *flag } else { 0 };
        }
        Ok(test)
    }
}

impl fmt::Display for FlagTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tested = TCP_FLAGS.iter().filter(|row| self.mask & row.1 != 0);
        for (place, (name, flag)) in tested.enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let not = if self.value & flag == 0 { "!" } else { "" };
            write!(f, "{comma}{not}{name}")?;
        }
        Ok(())
    }
}

/// Names of TCP's flags and their bits [RFC 9293 §3.1], from the lowest.
pub const TCP_FLAGS: [(&str, u8); 8] = [
    ("fin", 0x01),
    ("syn", 0x02),
    ("rst", 0x04),
    ("psh", 0x08),
    ("ack", 0x10),
    ("urg", 0x20),
    ("ece", 0x40),
    ("cwr", 0x80),
];

/// A condition on an ICMP message: its type, and perhaps its code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct IcmpTest {
    /// The type's number.
    pub number: u8,
    /// The code; `None` for any.
    pub code: Option<u8>,
}

impl IcmpTest {
    /// Reads a type, by the name that it has for `protocol` or by its number; `/` and a number
    /// stand before the code.
    ///
    /// # Errors
    /// If the text is neither, or the protocol has no such types.
    pub fn parse(protocol: Protocol, text: &str) -> Result<IcmpTest, FieldError> {
        let (kind, code) = match text.split_once('/') {
            Some((kind, code)) => (kind, Some(code)),
            None => (text, None),
        };
        let byte = |text| decimal(text, u8::MAX.into()).map(|number| number as u8);
        let names = icmp_names(protocol);
        let named = names.iter().find(|row| row.0.eq_ignore_ascii_case(kind)).map(|row| row.1);
        let code = code.map(byte);
        match (named.or_else(|| byte(kind)), code) {
            (Some(number), None) => Ok(IcmpTest { number, code: None }),
            (Some(number), Some(Some(code))) => Ok(IcmpTest { number, code: Some(code) }),
            _ => {
                let known: Vec<&str> = names.iter().map(|row| row.0).collect();
                Err(FieldError::new(
                    "ICMP type",
                    text,
                    "is neither a type that Weir knows nor a number in 0..=255, with a code or not",
                    format!("write {}, or a number such as 3 or 3/4", known.join(", ")),
                ))
            }
        }
    }

    /// Returns whether a message of this type satisfies the condition.
    pub fn accepts(self, found: IcmpType) -> bool {
        self.number == found.number && self.code.is_none_or(|code| code == found.code)
    }

    /// Returns whether every message that satisfies `inner` satisfies this condition.
    pub fn covers(self, inner: IcmpTest) -> bool {
        self.number == inner.number && (self.code.is_none() || self.code == inner.code)
    }
}

impl fmt::Display for IcmpTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            None => write!(f, "{}", self.number),
            Some(code) => write!(f, "{}/{code}", self.number),
        }
    }
}

/// Returns names of types of ICMP messages and their numbers; none for other protocols.
pub fn icmp_names(protocol: Protocol) -> &'static [(&'static str, u8)] {
    match protocol {
        Protocol::ICMP => ICMP_TYPES,
        Protocol::ICMPV6 => ICMPV6_TYPES,
        _ => &[],
    }
}

/// Names of the IANA registry, in short.
const ICMP_TYPES: &[(&str, u8)] = &[
    ("echo-reply", 0),
    ("unreachable", 3),
    ("redirect", 5),
    ("echo-request", 8),
    ("router-advertisement", 9),
    ("router-solicitation", 10),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
];

/// Names of the IANA registry, in short.
const ICMPV6_TYPES: &[(&str, u8)] = &[
    ("unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("listener-query", 130),
    ("listener-report", 131),
    ("listener-done", 132),
    ("router-solicitation", 133),
    ("router-advertisement", 134),
    ("neighbor-solicitation", 135),
    ("neighbor-advertisement", 136),
    ("redirect", 137),
    ("listener-report-v2", 143),
];

/// Lengths of IP packets, from a first to a last one, both included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LengthRange {
    first: u32,
    last: u32,
}

impl LengthRange {
    /// The lengths `first..=last`, in bytes.
    ///
    /// # Errors
    /// If `first` is above `last`, or `last` above [`LENGTH_MAX`].
    pub fn new(first: u32, last: u32) -> Result<LengthRange, FieldError> {
        if first <= last && last <= LENGTH_MAX {
            return Ok(LengthRange { first, last });
        }
        let value = format!("{first}-{last} B");
        if last > LENGTH_MAX {
            let limit =
                "is longer than 65575 bytes, the longest packet whose header has its length";
            let cure = format!("write {}-{LENGTH_MAX} B", first.min(LENGTH_MAX));
            return Err(FieldError::new("length", &value, limit, cure));
        }
        let cure = format!("write {last}-{first} B");
        Err(FieldError::new("length", &value, "begins above its end", cure))
    }

    /// Returns whether the range contains the length.
    pub fn contains(&self, length: u32) -> bool {
        (self.first..=self.last).contains(&length)
    }

    /// Returns whether the range contains all lengths of `inner`.
    pub fn covers(&self, inner: &LengthRange) -> bool {
        self.first <= inner.first && inner.last <= self.last
    }

    /// Returns the smallest length.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Returns the greatest length.
    pub fn last(&self) -> u32 {
        self.last
    }
}

impl FromStr for LengthRange {
    type Err = FieldError;

    /// Reads one length or two with `-` between, and the unit `B` behind.
    fn from_str(text: &str) -> Result<LengthRange, FieldError> {
        let numbers = text.strip_suffix('B').map(|text| text.strip_suffix(' ').unwrap_or(text));
        let number = |text: &str| {
            let digits = (1..=DIGITS_MAX).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| digits)
        };
        let ends = numbers.map(|text| text.split_once('-').unwrap_or((text, text)));
        match ends.map(|(first, last)| (number(first), number(last))) {
            Some((Some(first), Some(last))) => LengthRange::new(first, last),
            _ => Err(FieldError::new(
                "length",
                text,
                "is not a length in bytes or a range of lengths",
                "write for instance 0-100 B, or 1500 B for this one length",
            )),
        }
    }
}

impl fmt::Display for LengthRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{} B", self.first),
            false => write!(f, "{}-{} B", self.first, self.last),
        }
    }
}

/// The longest IP packet whose header has its length: one of IPv6, whose payload has 16 bits.
pub const LENGTH_MAX: u32 = 40 + 65_535;
/// The most digits of a length that is read.
const DIGITS_MAX: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Transport;
    use alloc::string::ToString;

    #[test]
    fn values_are_read_as_they_print() {
        fn check<T: FromStr + ToString>(rows: &[(&str, Option<&str>)]) {
            for (text, wanted) in rows {
                let read = text.parse::<T>().ok().map(|value| value.to_string());
                assert_eq!(read.as_deref(), *wanted, "{text}");
            }
        }
        check::<FlagTest>(&[
            ("syn", Some("syn")),
            ("ack,!psh", Some("!psh,ack")),
            ("SYN,!Ack", Some("syn,!ack")),
            ("", None),
            ("!", None),
            ("syn,", None),
            ("syn,syn", None),
            ("syn,!syn", None),
            ("syn ack", None),
            ("ns", None),
        ]);
        check::<LengthRange>(&[
            ("0-100 B", Some("0-100 B")),
            ("40-40B", Some("40 B")),
            ("1500 B", Some("1500 B")),
            ("0-65575 B", Some("0-65575 B")),
            ("0-65576 B", None),
            ("100-40 B", None),
            ("100", None),
            ("-100 B", None),
            ("+1-100 B", None),
            ("0-100 kB", None),
            ("0-9999999999999 B", None),
            ("B", None),
        ]);
        check::<Pcp>(&[("0", Some("0")), ("7", Some("7")), ("8", None), ("-1", None), ("", None)]);
    }

    #[test]
    fn types_of_messages_have_the_names_of_their_protocol() {
        let rows = [
            (Protocol::ICMP, "echo-request", Some("8")),
            (Protocol::ICMPV6, "echo-request", Some("128")),
            (Protocol::ICMPV6, "Neighbor-Solicitation", Some("135")),
            (Protocol::ICMP, "unreachable/4", Some("3/4")),
            (Protocol::ICMP, "3/4", Some("3/4")),
            (Protocol::ICMP, "255", Some("255")),
            (Protocol::ICMP, "256", None),
            (Protocol::ICMP, "3/", None),
            (Protocol::ICMP, "3/256", None),
            (Protocol::ICMP, "packet-too-big", None),
            (Protocol::UDP, "echo-request", None),
            (Protocol::ICMP, "", None),
        ];
        for (protocol, text, wanted) in rows {
            let read = IcmpTest::parse(protocol, text).ok().map(|test| test.to_string());
            assert_eq!(read.as_deref(), wanted, "{protocol} {text}");
        }
    }

    #[test]
    fn a_flag_test_covers_those_that_demand_the_same_and_more() {
        let rows = [
            ("syn", "syn,!ack", true),
            ("syn", "syn", true),
            ("syn,!ack", "syn", false),
            ("syn", "!syn", false),
            ("!ack", "syn,!ack", true),
        ];
        for (outer, inner, wanted) in rows {
            let read = |text: &str| text.parse::<FlagTest>().expect("rows are flags");
            assert_eq!(read(outer).covers(read(inner)), wanted, "{outer} {inner}");
        }
    }

    #[test]
    fn all_conditions_must_hold_and_of_each_list_one() {
        let details = Details {
            tcp_flags: ["syn", "fin"].map(|text| text.parse().expect("flags")).to_vec(),
            lengths: ["40-60 B"].map(|text| text.parse().expect("a length")).to_vec(),
            ..Details::default()
        };
        let rows = [
            (Some(0x02), Some(40), true),
            (Some(0x11), Some(60), true),
            (Some(0x10), Some(40), false),
            (Some(0x02), Some(61), false),
            (Some(0x02), None, false),
            (None, Some(40), false),
        ];
        for (flags, network_len, wanted) in rows {
            let transport =
                flags.map_or(Transport::Unknown, |flags| Transport::Tcp(TcpFlags(flags)));
            let headers = Headers { transport, network_len, ..Headers::UNKNOWN };
            assert_eq!(details.accepts(&headers), wanted, "{flags:?} {network_len:?}");
        }
        assert_eq!(Details::default().boxed(), None);
    }
}
