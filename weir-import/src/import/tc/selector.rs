//! Reads the keys of a `u32` filter, and finds the header fields that they compare `[linux]`.
//!
//! The kernel compares words of 32 bits at offsets from the network header, whatever the packet
//! holds there. So a key becomes a condition for each protocol that the filter accepts, by the
//! layout of that protocol's header. Invariant: what no field of Weir expresses is reported.

use super::super::conditions::with_tos;
use super::super::sketch::{Key, quoted};
use super::super::words::{Word, Words, bad_value};
use super::conditions::masked_prefix;
use super::draft::EthernetType;
use super::tables::From;
use super::units::base0;
use super::{Reading, short};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_core::classify::{FlagTest, LengthRange};
use weir_core::packet::MacAddress;

/// One word that the kernel compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Compared {
    /// Bytes from the network header, a multiple of four.
    offset: i64,
    value: u32,
    mask: u32,
    /// Whether the offset counts from the header behind that of IP.
    behind: bool,
}

/// The keys of a filter.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    words: Vec<Compared>,
    /// Whether a key names the header behind the IP header.
    behind: bool,
    /// The firewall's mark and its mask.
    pub mark: Option<(u32, u32)>,
}

/// The translation of a selector.
#[derive(Debug, Default)]
pub(super) struct Lowered {
    pub rules: Vec<Vec<Key>>,
    /// How the rules differ from the filter.
    pub notes: Vec<String>,
    /// Why there is no rule.
    pub lost: Option<String>,
}

/// The header of one protocol under the keys.
struct Header {
    keys: Vec<Key>,
    tos: (u8, u8),
    note: Option<&'static str>,
    /// Ports and lengths, each in one of several ranges.
    ranges: Vec<(&'static str, Vec<String>)>,
}

impl Header {
    /// Returns the rules: one for each combination of ranges.
    fn rules(&self) -> Vec<Vec<Key>> {
        let mut all = vec![self.keys.clone()];
        for (key, ranges) in &self.ranges {
            let with = |keys: &Vec<Key>, range: &String| {
                let own = std::iter::once((*key, quoted(range)));
                keys.iter().cloned().chain(own).collect()
            };
            all = all
                .iter()
                .flat_map(|keys| ranges.iter().map(move |range| with(keys, range)))
                .collect();
        }
        all.iter().flat_map(|keys| with_tos(keys, self.tos.0, self.tos.1)).collect()
    }
}

/// Why a header has no rule.
enum No {
    /// No packet of the protocol has these bytes.
    Packet,
    /// No condition tests these bytes.
    Condition(String),
}

impl Selector {
    /// Reads `ip FIELD VALUE [MASK]`, `ip6 ...`, `tcp|udp|icmp FIELD VALUE MASK`, or `u8|u16|u32
    /// VALUE MASK at N`; returns none after an error.
    pub(super) fn read(&mut self, words: &mut Words, reading: &mut Reading) -> Option<()> {
        let mut layer = words.need("`ip`, `ip6`, `u32`, `u16` or `u8`", reading)?;
        if let Some(full) = short(&layer.text, &LAYERS) {
            full.clone_into(&mut layer.text);
        }
        let raw = |bytes| Field { offset: None, bytes, behind: false };
        let field = match layer.text.as_str() {
            "u8" => raw(1),
            "u16" => raw(2),
            "u32" => raw(4),
            "mark" => {
                let value = words.value(A_NUMBER, |text| base0(text, u32::MAX), reading)?;
                let mask = words.value(A_MASK, |text| mask(text, u32::MAX), reading)?;
                self.mark = Some((value, mask));
                return Some(());
            }
            "ip" | "ip6" => return self.ip(layer.text == "ip6", words, reading),
            "tcp" | "udp" | "icmp" => {
                let table = if layer.text == "icmp" { ICMP } else { PORTS };
                let field = named(&words.need("a field of the header", reading)?, table, reading)?;
                Field { behind: true, ..field }
            }
            "ether" => {
                let field = named(&words.need("`src` or `dst`", reading)?, ETHER, reading)?;
                let station = |text: &str| text.parse::<MacAddress>().ok();
                let station = words.value("an address of Ethernet", station, reading)?;
                for (at, byte) in (field.offset.unwrap_or(0)..).zip(station.0) {
                    self.compare(at, 1, (byte.into(), 0xff))?;
                }
                return Some(());
            }
            other => {
                let known = ["ip", "ip6", "tcp", "udp", "icmp", "u8", "u16", "u32", "mark"];
                reading.unknown((other, layer.span), "layer of u32", &known);
                return None;
            }
        };
        self.value(&layer, field, words, reading)
    }

    /// Reads `FIELD VALUE [MASK]` of an IP header.
    fn ip(&mut self, six: bool, words: &mut Words, reading: &mut Reading) -> Option<()> {
        let field = words.need("a field of the header", reading)?;
        let flags = FLAGS.iter().find(|row| !six && row.0 == field.text);
        if let Some(&(_, value, mask)) = flags {
            return self.push(&field, Compared { offset: 4, value, mask, behind: false }, reading);
        }
        match (field.text.as_str(), six) {
            ("src", _) | ("dst", _) => self.address(&field, six, words, reading),
            ("priority", true) => {
                let value = words.value("a byte", |text| base0(text, 0xff), reading)?;
                let mask = words.value(A_MASK, |text| mask(text, 0xff), reading)?;
                let (value, mask) = (value << 20, mask << 20);
                self.push(&field, Compared { offset: 0, value, mask, behind: false }, reading)
            }
            ("flowlabel", true) => {
                let value = words.value("a label", |text| base0(text, 0xf_ffff), reading)?;
                let mask = words.value(A_MASK, |text| mask(text, 0xf_ffff), reading)?;
                self.push(&field, Compared { offset: 0, value, mask, behind: false }, reading)
            }
            _ => {
                let known = named(&field, if six { IP6 } else { IP }, reading)?;
                self.value(&field, known, words, reading)
            }
        }
    }

    fn address(
        &mut self,
        field: &Word,
        six: bool,
        words: &mut Words,
        reading: &mut Reading,
    ) -> Option<()> {
        let at = words.clone().take();
        let prefix = words.value("an address with or without /LENGTH", masked_prefix, reading)?;
        let source = field.text == "src";
        let offset = match (six, source) {
            (false, true) => 12,
            (false, false) => 16,
            (true, true) => 8,
            (true, false) => 24,
        };
        let Some((address, length)) = prefix else { return Some(()) };
        let (bits, wide) = match address {
            IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, false),
            IpAddr::V6(address) => (u128::from(address), true),
        };
        if wide != six {
            let word = at.as_ref().unwrap_or(field);
            bad_value(word, if six { "an IPv6 address" } else { "an IPv4 address" }, reading);
            return None;
        }
        for word in 0..4 {
            let below = length.saturating_sub(word * 32).min(32);
            let mask = u32::MAX.checked_shl(32 - below).unwrap_or(0);
            let value = (bits >> (96 - word * 32)) as u32 & mask;
            let offset = offset + i64::from(word) * 4;
            if mask > 0 {
                self.push(field, Compared { offset, value, mask, behind: false }, reading)?;
            }
        }
        Some(())
    }

    /// Reads `VALUE MASK [at OFFSET]`.
    fn value(
        &mut self,
        at: &Word,
        field: Field,
        words: &mut Words,
        reading: &mut Reading,
    ) -> Option<()> {
        let limit = u32::MAX >> (32 - 8 * field.bytes);
        let value = words.value(A_NUMBER, |text| base0(text, limit), reading)?;
        let mask = words.value(A_MASK, |text| mask(text, limit), reading)?;
        let (mut offset, mut behind) = (field.offset.unwrap_or(0), field.behind);
        if field.offset.is_none() && words.accept("at") {
            (offset, behind) = words.value("an offset", place, reading)?;
        }
        self.behind |= behind;
        let place = offset.rem_euclid(4);
        // tc looks only whether a word of 16 bits begins its 32 bits.
        let shift = match field.bytes {
            1 => 24 - 8 * place,
            2 if place == 0 => 16,
            4 if place != 0 => {
                bad_value(at, "a key at a multiple of four", reading);
                return None;
            }
            _ => 0,
        };
        let offset = offset - place;
        let (value, mask) = ((value & mask) << shift, mask << shift);
        self.push(at, Compared { offset, value, mask, behind }, reading)
    }

    /// Adds a word; reports one that contradicts an earlier one, which tc refuses.
    fn push(&mut self, at: &Word, one: Compared, reading: &mut Reading) -> Option<()> {
        let one = Compared { value: one.value & one.mask, ..one };
        let added = self.add(one);
        if added.is_none() {
            bad_value(at, "compatible with the keys before it", reading);
        }
        added
    }

    /// Adds a word; none if it contradicts an earlier one.
    fn add(&mut self, one: Compared) -> Option<()> {
        let one = Compared { value: one.value & one.mask, ..one };
        let same = |word: &&mut Compared| (word.offset, word.behind) == (one.offset, one.behind);
        let Some(known) = self.words.iter_mut().find(same) else {
            self.words.push(one);
            return Some(());
        };
        if (known.value ^ one.value) & known.mask & one.mask != 0 {
            return None;
        }
        (known.value, known.mask) = (known.value | one.value, known.mask | one.mask);
        Some(())
    }

    /// Adds a comparison of one, two or four bytes anywhere; none if they cross a word.
    pub(super) fn compare(&mut self, at: i64, bytes: u32, (value, mask): (u32, u32)) -> Option<()> {
        let place = at.rem_euclid(4) as u32;
        let shift = (4_u32.checked_sub(place + bytes)?) * 8;
        let (value, mask) = (value << shift, mask << shift);
        self.add(Compared { offset: at - i64::from(place), value, mask, behind: false })
    }

    /// Returns the value and the mask of the word at `offset`.
    pub(super) fn word(&self, offset: i64) -> (u32, u32) {
        let found = self.words.iter().find(|word| word.offset == offset && !word.behind);
        found.map_or((0, 0), |word| (word.value, word.mask))
    }

    /// Returns whether it has no key.
    pub(super) fn has_none(&self) -> bool {
        self.words.is_empty() && self.mark.is_none() && !self.behind
    }

    /// Returns the keys of both, those of `own` counted from `from`; none if no packet has all.
    pub(super) fn joined(&self, own: &Self, from: From) -> Option<Self> {
        let mut all = self.clone();
        all.mark = own.mark.or(self.mark);
        all.behind = self.behind || own.behind && from.next == 0;
        for word in &own.words {
            let base = from.plain + if word.behind { from.next } else { 0 };
            all.add(Compared { offset: word.offset + base, behind: false, ..*word })?;
        }
        Some(all)
    }

    /// Returns the keys with those of a bucket, which bits of the word at `offset` choose.
    pub(super) fn in_bucket(
        &self,
        (offset, mask): (i64, u32),
        divisor: u32,
        bucket: u8,
    ) -> Option<Self> {
        let mut all = self.clone();
        let shift = mask.trailing_zeros().min(31);
        let covered = (divisor.saturating_sub(1) << shift) & mask;
        let value = u32::from(bucket) << shift;
        if value & !covered != 0 || offset.rem_euclid(4) != 0 {
            return None;
        }
        all.add(Compared { offset, value, mask: covered, behind: false })?;
        Some(all)
    }

    /// Returns whether it compares no byte.
    pub(super) fn is_any(&self) -> bool {
        self.words.iter().all(|word| word.mask == 0)
    }

    /// Returns the rules for packets of `accepted`; none: of every protocol.
    pub(super) fn lower(&self, accepted: Option<EthernetType>) -> Lowered {
        let mut out = Lowered::default();
        if self.is_any() {
            let keys = accepted.map(|one| ("ethertype", quoted(&one.text())));
            out.rules.push(keys.into_iter().collect());
            return out;
        }
        let protocols = accepted.map_or(EthernetType::IP.to_vec(), |one| vec![one]);
        let mut missing = None;
        for protocol in protocols {
            match self.header(protocol) {
                Ok(header) => {
                    out.notes.extend(header.note.map(str::to_owned));
                    out.rules.extend(header.rules());
                }
                Err(No::Packet) => {}
                Err(No::Condition(why)) => missing = Some(why),
            }
        }
        match missing {
            Some(why) if out.rules.is_empty() => out.lost = Some(self.explained(why)),
            None if out.rules.is_empty() && accepted.is_none() => {
                out.lost =
                    Some("it matches no packet of IP, and others only by accident".to_owned());
            }
            None if out.rules.is_empty() => out.notes.push("it matches no packet".to_owned()),
            _ if accepted.is_none() => out.notes.push(OTHERS.to_owned()),
            _ => {}
        }
        out
    }

    fn explained(&self, why: String) -> String {
        let hint = "; without `link` and `offset` the kernel finds no header behind that of IP, \
                    and compares the start of the packet";
        if self.behind { why + hint } else { why }
    }

    /// Returns the conditions on the header of one protocol.
    fn header(&self, protocol: EthernetType) -> Result<Header, No> {
        let mut header = Header { keys: Vec::new(), tos: (0, 0), note: None, ranges: Vec::new() };
        let bytes = self.bytes();
        let (mut rest, mut station): (Vec<(i64, u8, u8)>, Vec<_>) = Default::default();
        for &(at, value, mask) in &bytes {
            match at {
                -14..=-3 => station.push((at, value, mask)),
                -2 | -1 => {
                    let wanted = protocol.0.to_be_bytes()[(at + 2) as usize];
                    agree(wanted, value, mask)?;
                }
                _ => rest.push((at, value, mask)),
            }
        }
        match protocol {
            EthernetType::IPV4 => four(&rest, &mut header)?,
            EthernetType::IPV6 => six(&rest, &mut header)?,
            _ => no_field(&rest)?,
        }
        for (from, key) in [(-14, "dst_mac"), (-8, "src_mac")] {
            stations(&station, from, key, &mut header)?;
        }
        // Behind the header of IP a key at this place tests no length.
        if self.behind && header.ranges.iter().any(|(key, _)| *key == "length") {
            return Err(unread(2));
        }
        let has_address = header.keys.iter().any(|(key, _)| *key == "src" || *key == "dst");
        if !has_address {
            header.keys.insert(0, ("ethertype", quoted(&protocol.text())));
        }
        Ok(header)
    }

    /// Returns each compared byte: its place, its value and its mask, in the order of places.
    fn bytes(&self) -> Vec<(i64, u8, u8)> {
        let of = |word: &Compared| {
            let (values, masks) = (word.value.to_be_bytes(), word.mask.to_be_bytes());
            let offset = word.offset;
            (0..4).map(move |at| (offset + at as i64, values[at], masks[at]))
        };
        let mut all: Vec<_> = self.words.iter().flat_map(of).filter(|row| row.2 != 0).collect();
        all.sort_unstable();
        all
    }
}

/// Joins six bytes from `from` to an address of Ethernet, which must be compared whole.
fn stations(
    rest: &[(i64, u8, u8)],
    from: i64,
    key: &'static str,
    header: &mut Header,
) -> Result<(), No> {
    let own: Vec<_> = rest.iter().filter(|row| (from..from + 6).contains(&row.0)).collect();
    if own.is_empty() {
        return Ok(());
    }
    let bytes: Vec<u8> = own.iter().filter(|row| row.2 == 0xff).map(|row| row.1).collect();
    let Ok(bytes) = <[u8; 6]>::try_from(bytes.as_slice()) else { return Err(unread(from)) };
    header.keys.push((key, quoted(&MacAddress(bytes).to_string())));
    Ok(())
}

/// Checks a byte that every packet of the protocol has.
fn agree(byte: u8, value: u8, mask: u8) -> Result<(), No> {
    if byte & mask == value { Ok(()) } else { Err(No::Packet) }
}

fn no_field(rest: &[(i64, u8, u8)]) -> Result<(), No> {
    match rest.first() {
        None => Ok(()),
        Some(&(at, _, _)) => Err(unread(at)),
    }
}

fn unread(at: i64) -> No {
    No::Condition(format!("Weir's rules cannot match byte {at} of a packet (`u8 at {at}`)"))
}

/// Reads the compared bytes of an IPv4 header.
fn four(rest: &[(i64, u8, u8)], header: &mut Header) -> Result<(), No> {
    let behind = rest.iter().any(|row| (20..24).contains(&row.0) || row.0 == FLAGS_FOUR);
    for &(at, value, mask) in rest {
        match at {
            0 => {
                agree(0x40, value & 0xf0, mask & 0xf0)?;
                match mask & 0x0f {
                    0 => {}
                    0x0f if behind && value & 0x0f == 5 => {}
                    0x0f if value & 0x0f < 5 => return Err(No::Packet),
                    _ => return Err(unread(at)),
                }
            }
            1 => header.tos = (value, mask),
            6 if behind && value == 0 && mask & 0xc0 == 0 => {}
            7 if behind && value == 0 => {}
            9 => protocol(at, value, mask, header)?,
            2 | 3 | 12..24 | FLAGS_FOUR => {}
            _ => return Err(unread(at)),
        }
    }
    address(rest, (12, 4), "src", header)?;
    address(rest, (16, 4), "dst", header)?;
    transport(rest, 20, header)?;
    lengths(rest, (2, 0), header)?;
    if behind {
        header.note = Some(PORTS_FOUR);
    }
    Ok(())
}

/// Reads the compared bytes of an IPv6 header.
fn six(rest: &[(i64, u8, u8)], header: &mut Header) -> Result<(), No> {
    for &(at, value, mask) in rest {
        match at {
            0 => {
                agree(0x60, value & 0xf0, mask & 0xf0)?;
                header.tos = (header.tos.0 | value << 4, header.tos.1 | mask << 4);
            }
            1 if mask & 0x0f == 0 => {
                header.tos = (header.tos.0 | value >> 4, header.tos.1 | mask >> 4);
            }
            6 => {
                protocol(at, value, mask, header)?;
                header.note = Some(PORTS_SIX);
            }
            4 | 5 | 8..44 | FLAGS_SIX => {}
            _ => return Err(unread(at)),
        }
    }
    address(rest, (8, 16), "src", header)?;
    address(rest, (24, 16), "dst", header)?;
    transport(rest, 40, header)?;
    lengths(rest, (4, 40), header)?;
    if rest.iter().any(|row| row.0 >= 40) {
        header.note = Some(PORTS_SIX);
    }
    Ok(())
}

fn protocol(at: i64, value: u8, mask: u8, header: &mut Header) -> Result<(), No> {
    if mask != 0xff {
        return Err(unread(at));
    }
    header.keys.push(("proto", value.to_string()));
    Ok(())
}

/// Joins `length` bytes from `from` to an address, which must be compared in leading bits only.
fn address(
    rest: &[(i64, u8, u8)],
    (from, length): (i64, u32),
    key: &'static str,
    header: &mut Header,
) -> Result<(), No> {
    let (value, mask) = joined(rest, from, length);
    let unused = 128 - 8 * length;
    let (high, bits) = (mask << unused, mask.count_ones());
    if bits == 0 {
        return Ok(());
    }
    if high.leading_ones() != bits {
        return Err(unread(from));
    }
    let address: IpAddr = match length {
        4 => Ipv4Addr::from(value as u32).into(),
        _ => Ipv6Addr::from(value).into(),
    };
    let first = header.keys.iter().take_while(|(key, _)| *key == "src").count();
    header.keys.insert(first, (key, quoted(&format!("{address}/{bits}"))));
    Ok(())
}

fn joined(rest: &[(i64, u8, u8)], from: i64, length: u32) -> (u128, u128) {
    let (mut value, mut mask) = (0, 0);
    for &(at, byte, covered) in rest {
        let place = at - from;
        if (0..i64::from(length)).contains(&place) {
            let shift = 8 * (length - 1 - place as u32);
            value |= u128::from(byte) << shift;
            mask |= u128::from(covered) << shift;
        }
    }
    (value, mask)
}

/// Reads what is behind the IP header, which ends at `from`: ports, the type of a message, flags.
fn transport(rest: &[(i64, u8, u8)], from: i64, header: &mut Header) -> Result<(), No> {
    let has = |header: &Header, wanted: &str| {
        header.keys.iter().any(|(key, value)| *key == "proto" && value == wanted)
    };
    let flags = rest.iter().find(|row| row.0 == from + FLAGS_AT);
    if let Some(&(at, value, mask)) = flags {
        let test = FlagTest::new(value & mask, mask).ok().filter(|_| has(header, "6"));
        let test = test.ok_or_else(|| unread(at))?;
        header.keys.push(("tcp_flags", quoted(&test.to_string())));
    }
    if !has(header, "1") && !has(header, "58") {
        return both_ports(rest, from, header);
    }
    let byte = |at: i64| rest.iter().find(|row| row.0 == at);
    let whole = |row: &(i64, u8, u8)| if row.2 == 0xff { Ok(row.1) } else { Err(unread(row.0)) };
    let (kind, code) = (byte(from).map(whole).transpose()?, byte(from + 1).map(whole).transpose()?);
    if let Some(row) = rest.iter().find(|row| row.0 >= from + 2) {
        return Err(unread(row.0));
    }
    match (kind, code) {
        (None, None) => {}
        (Some(kind), None) => header.keys.push(("icmp_type", kind.to_string())),
        (Some(kind), Some(code)) => {
            header.keys.push(("icmp_type", quoted(&format!("{kind}/{code}"))));
        }
        (None, Some(_)) => return Err(unread(from + 1)),
    }
    Ok(())
}

/// Reads the length at `from`, which counts all but `before` bytes of the packet.
fn lengths(
    rest: &[(i64, u8, u8)],
    (from, before): (i64, u32),
    header: &mut Header,
) -> Result<(), No> {
    let (value, mask) = joined(rest, from, 2);
    if mask == 0 {
        return Ok(());
    }
    let ranges = bit_ranges(value as u16, mask as u16).ok_or_else(|| unread(from))?;
    let shown = |&(first, last): &(u16, u16)| {
        LengthRange::new(u32::from(first) + before, u32::from(last) + before)
            .expect("a header has no greater length")
            .to_string()
    };
    header.ranges.push(("length", ranges.iter().map(shown).collect()));
    Ok(())
}

/// Reads both ports, which begin at `from`.
fn both_ports(rest: &[(i64, u8, u8)], from: i64, header: &mut Header) -> Result<(), No> {
    for (from, key) in [(from, "sport"), (from + 2, "dport")] {
        let (value, mask) = joined(rest, from, 2);
        let (value, mask) = (value as u16, mask as u16);
        if mask == 0 {
            continue;
        }
        let portless = |(key, value): &Key| *key == "proto" && !PORTED.contains(&value.as_str());
        if header.keys.iter().any(portless) {
            return Err(unread(from));
        }
        let ranges = bit_ranges(value, mask).ok_or_else(|| unread(from))?;
        let shown = |&(first, last): &(u16, u16)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        header.ranges.push((key, ranges.iter().map(shown).collect()));
    }
    Ok(())
}

/// Returns the numbers with these bits as ranges; none if they are too many.
fn bit_ranges(value: u16, mask: u16) -> Option<Vec<(u16, u16)>> {
    let run = mask.trailing_zeros().min(16);
    let length = if run == 16 { u16::MAX } else { (1 << run) - 1 };
    let free = !mask & !length;
    if free.count_ones() > HOLES_MAX {
        return None;
    }
    // Counts through the free bits above the last run.
    let (mut ranges, mut part) = (Vec::new(), 0_u16);
    loop {
        let first = value & mask | part;
        let last = first | length;
        ranges.push((first, last));
        part = part.wrapping_sub(free) & free;
        if part == 0 {
            return Some(ranges);
        }
    }
}

/// A field: its place, or none if `at` gives it, and its bytes.
#[derive(Clone, Copy)]
struct Field {
    offset: Option<i64>,
    bytes: u32,
    behind: bool,
}

/// Returns the field of this name.
fn named(word: &Word, table: &[(&str, i64, u32)], reading: &mut Reading) -> Option<Field> {
    let row = table.iter().find(|row| row.0 == word.text);
    if row.is_none() {
        let known: Vec<&str> = table.iter().map(|row| row.0).collect();
        reading.unknown((&word.text, word.span), "field of u32", &known);
    }
    row.map(|row| Field { offset: Some(row.1), bytes: row.2, behind: false })
}

/// Parses `N` or `nexthdr+N`; the second says which of them.
fn place(text: &str) -> Option<(i64, bool)> {
    let (digits, behind) = text.strip_prefix("nexthdr+").map_or((text, false), |rest| (rest, true));
    let (digits, sign) = digits.strip_prefix('-').map_or((digits, 1), |rest| (rest, -1));
    let offset = i64::from(base0(digits, 0xffff)?) * sign;
    Some((offset, behind))
}

/// Parses a mask: hexadecimal with or without `0x`.
fn mask(text: &str, max: u32) -> Option<u32> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    u32::from_str_radix(digits, 16).ok().filter(|mask| *mask <= max)
}

/// Layers of keys, in the order in which tc compares a shortened one.
const LAYERS: [&str; 10] = ["u32", "u16", "u8", "ip", "ip6", "udp", "tcp", "icmp", "mark", "ether"];
const A_NUMBER: &str = "a number that fits";
const A_MASK: &str = "a mask such as 0xff";
/// Fields of IPv4: place and bytes.
const IP: &[(&str, i64, u32)] = &[
    ("tos", 1, 1),
    ("dsfield", 1, 1),
    ("precedence", 1, 1),
    ("ihl", 0, 1),
    ("protocol", 9, 1),
    ("sport", 20, 2),
    ("dport", 22, 2),
    ("icmp_type", 20, 1),
    ("icmp_code", 21, 1),
];
const IP6: &[(&str, i64, u32)] = &[
    ("protocol", 6, 1),
    ("sport", 40, 2),
    ("dport", 42, 2),
    ("icmp_type", 40, 1),
    ("icmp_code", 41, 1),
];
/// Fields of the header behind IP, whose place is not known without a hash table.
const PORTS: &[(&str, i64, u32)] = &[("src", 0, 2), ("dst", 2, 2)];
const ICMP: &[(&str, i64, u32)] = &[("type", 0, 1), ("code", 1, 1)];
const ETHER: &[(&str, i64, u32)] = &[("src", -8, 6), ("dst", -14, 6)];
/// Where TCP's flags are behind the IP header, and behind the shortest one of IPv4 and of IPv6.
const FLAGS_AT: i64 = 13;
const FLAGS_FOUR: i64 = 20 + FLAGS_AT;
const FLAGS_SIX: i64 = 40 + FLAGS_AT;
/// Bound: bits of a port without a test, each of which doubles the ranges; with more, the filter is
/// lost.
const HOLES_MAX: u32 = 6;
/// Value and mask of the flags and the offset of a fragment.
const FLAGS: &[(&str, u32, u32)] = &[
    ("nofrag", 0, 0x3fff),
    ("firstfrag", 0x2000, 0x3fff),
    ("df", 0x4000, 0x4000),
    ("mf", 0x2000, 0x2000),
];
/// Protocols with ports: TCP, UDP, DCCP, SCTP and UDP-Lite.
pub(super) const PORTED: [&str; 5] = ["6", "17", "33", "132", "136"];
const PORTS_FOUR: &str = "the kernel compares the bytes behind a header of 20 bytes, also of \
                          fragments, of packets with IP options and of protocols without ports";
const PORTS_SIX: &str = "the kernel compares bytes at a fixed place, also of packets with \
                         extension headers";
pub(super) const OTHERS: &str = "the kernel compares these bytes in packets of every protocol";
