//! Hash tables of `u32` filters: a filter with `link` hands its packets to a bucket of a table, by
//! bits of the packet; what no filter of the bucket takes goes on behind it [linux].
//!
//! A policy has no tables, so each filter of a bucket becomes a rule with the conditions of all
//! filters on the way and of the bucket.

use super::super::lines::Reading;
use super::super::words::Words;
use super::filters::{Attached, Filter};
use super::selector::Selector;
use super::units::base0;
use super::{Device, Handle};
use std::collections::{BTreeMap, BTreeSet};

/// The tables of a device.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// The buckets of each table that is made by a command, by where its filters are attached.
    made: BTreeMap<(Option<Handle>, u16), u32>,
    /// The table that the kernel makes for a priority.
    roots: BTreeMap<(Option<Handle>, u32), u16>,
    /// The largest number in each bucket of a table.
    numbers: BTreeMap<(Option<Handle>, u16, u8), u16>,
}

/// The place of a filter: a table, a bucket and a number in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Node {
    pub table: u16,
    pub bucket: u8,
    pub number: u16,
}

/// The words of a filter about tables.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Links {
    /// The filter makes a table with as many buckets.
    pub divisor: Option<u32>,
    /// The table and the bucket in which it stands.
    pub within: Option<(u16, u8)>,
    link: Option<u16>,
    /// The mask of the hash, and where its bits are.
    hash: Option<(u32, i64)>,
    moves: Option<Moves>,
}

/// Where the next header is found.
#[derive(Clone, Copy, Debug, Default)]
struct Moves {
    plus: i64,
    /// Place, mask and shift of a length in the packet.
    field: Option<(i64, u32, u32)>,
    eats: bool,
}

/// From where the keys of a filter count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct From {
    pub plain: i64,
    /// For keys with `nexthdr+`.
    pub next: i64,
}

impl Tables {
    /// Returns the table of a priority.
    fn root(&mut self, place: Option<Handle>, prio: u32) -> u16 {
        // [linux] All filters of a discipline share their tables, wherever they are attached.
        let of = |place: Option<Handle>| place.filter(|place| place.1 == 0);
        let used = self.roots.iter().filter(|row| of(row.0.0) == of(place)).map(|row| *row.1);
        let next = used.max().map_or(ROOT, |most| most.saturating_add(1));
        *self.roots.entry((place, prio)).or_insert(next)
    }

    /// Returns the table in which a filter stands, if there is one: that of its priority, or the
    /// one that it names.
    pub(super) fn of(
        &mut self,
        place: Option<Handle>,
        prio: u32,
        named: Option<u16>,
    ) -> Option<u16> {
        let own = self.roots.get(&(place, prio)).copied();
        let Some(named) = named.filter(|table| *table > 0) else {
            return Some(own.unwrap_or_else(|| self.root(place, prio)));
        };
        let made = self.made.contains_key(&(place, named));
        let known = self.roots.iter().any(|row| row.0.0 == place && *row.1 == named);
        if made || known {
            own.unwrap_or_else(|| self.root(place, prio));
            return Some(named);
        }
        if own.is_some() || named < ROOT {
            return None;
        }
        // The kernel has counted tables of which the commands know nothing.
        self.roots.insert((place, prio), named);
        Some(named)
    }

    /// Returns the number of a filter in its bucket: the one that it names, or the next.
    pub(super) fn number(
        &mut self,
        place: Option<Handle>,
        (table, bucket): (u16, u8),
        named: u16,
    ) -> u16 {
        let most = self.numbers.entry((place, table, bucket)).or_insert(NODE_FIRST - 1);
        let number = if named > 0 { named } else { most.saturating_add(1) };
        *most = (*most).max(number);
        number
    }

    pub(super) fn make(&mut self, place: Option<Handle>, table: u16, divisor: u32) {
        self.made.insert((place, table), divisor);
    }

    pub(super) fn forget(&mut self, place: Option<Handle>, prio: u32) {
        self.roots.remove(&(place, prio));
    }
}

impl Node {
    /// Parses `800:9:801`, `800::801`, `4:` and `::801`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':').map(|part| match part {
            "" => Some(0),
            _ => u16::from_str_radix(part.strip_prefix("0x").unwrap_or(part), 16).ok(),
        });
        let (table, bucket, number) =
            (parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?);
        let bucket = u8::try_from(bucket).ok()?;
        (parts.next().is_none() && table < 0x1000).then_some(Self { table, bucket, number })
    }
}

impl Links {
    /// Reads a word about tables and its values; false for another word.
    pub(super) fn read(
        &mut self,
        word: &str,
        words: &mut Words,
        reading: &mut Reading,
    ) -> Option<bool> {
        let number = |text: &str| base0(text, u32::MAX);
        match word {
            "divisor" => {
                let fits = |text: &str| number(text).filter(|one| (1..=256).contains(one));
                self.divisor = Some(words.value("a number of buckets up to 256", fits, reading)?);
            }
            "ht" => {
                let node = words.value(A_TABLE, Node::parse, reading)?;
                self.within = Some((node.table, node.bucket));
            }
            "link" => self.link = Some(words.value(A_TABLE, Node::parse, reading)?.table),
            "order" => drop(words.need("a number", reading)?),
            "hashkey" => {
                let mut hash = (u32::MAX, 0);
                loop {
                    if words.accept("mask") {
                        hash.0 = words.value("a mask", hexadecimal, reading)?;
                    } else if words.accept("at") {
                        hash.1 = words.value("an offset", place, reading)?;
                    } else {
                        break;
                    }
                }
                self.hash = Some(hash);
            }
            "offset" => {
                let mut moves = Moves::default();
                loop {
                    if words.accept("plus") {
                        moves.plus = words.value("a number of bytes", place, reading)?;
                    } else if words.accept("at") {
                        moves.field.get_or_insert((0, 0, 0)).0 =
                            words.value("an offset", place, reading)?;
                    } else if words.accept("mask") {
                        moves.field.get_or_insert((0, 0, 0)).1 =
                            words.value("a mask", hexadecimal, reading)?;
                    } else if words.accept("shift") {
                        moves.field.get_or_insert((0, 0, 0)).2 =
                            words.value("a number of bits", number, reading)?;
                    } else if words.accept("eat") {
                        moves.eats = true;
                    } else {
                        break;
                    }
                }
                self.moves = Some(moves);
            }
            _ => return Some(false),
        }
        Some(true)
    }

    /// Returns from where keys count behind this filter; none if it takes a length from the packet
    /// that is not the one of the IP header.
    fn moved(&self, from: From) -> Option<From> {
        let Some(moves) = self.moves else { return Some(from) };
        let length = match moves.field {
            None => 0,
            // The header's length in words: 20 bytes without options.
            Some((0, 0x0f00, 6)) => 20,
            Some(_) => return None,
        };
        let next = (moves.plus + length + 3) / 4 * 4;
        Some(match moves.eats {
            true => From { plain: from.plain + next, next: 0 },
            false => From { plain: from.plain, next },
        })
    }
}

/// The filters of each table, by where they are attached.
type ByTable = BTreeMap<(Option<Handle>, u16), Vec<(Node, usize)>>;

/// One walk through the tables of a priority.
struct Walk<'w> {
    filters: &'w [Attached],
    tables: &'w Tables,
    place: Option<Handle>,
    /// The filters of each table.
    of_table: &'w ByTable,
    seen: BTreeSet<usize>,
    out: Vec<Filter>,
}

/// Where a walk is.
#[derive(Clone, Copy)]
struct At<'s> {
    table: u16,
    path: &'s Selector,
    from: From,
    hash: Option<(u32, i64)>,
    depth: usize,
}

/// Returns the filters of a device in the order in which they are tried, with their rules.
pub(super) fn lowered(device: &mut Device, reading: &mut Reading) -> Vec<Filter> {
    let filters = std::mem::take(&mut device.attached);
    let mut out: Vec<Filter> = Vec::new();
    let plain = filters.iter().filter(|one| one.node.is_none());
    for one in plain {
        out.extend(one.lower(None, reading));
    }
    let mut of_table = ByTable::new();
    for (index, one) in filters.iter().enumerate() {
        if let Some(node) = one.node {
            of_table.entry((one.place, node.table)).or_default().push((node, index));
        }
    }
    of_table.values_mut().for_each(|nodes| nodes.sort_unstable());
    let (mut seen, mut walked) = (BTreeSet::new(), BTreeSet::new());
    for one in filters.iter().filter(|one| one.node.is_some()) {
        let key = (one.place, one.prio);
        if !walked.insert(key) {
            continue;
        }
        let Some(table) = device.tables.roots.get(&key).copied() else { continue };
        let (tables, place) = (&device.tables, one.place);
        let mut walk = Walk { filters: &filters, tables, place, of_table: &of_table, seen, out };
        let path = Selector::default();
        let at = At { table, path: &path, from: From::default(), hash: None, depth: 0 };
        walk.table(one.prio, at, reading);
        (seen, out) = (walk.seen, walk.out);
    }
    for (at, one) in filters.iter().enumerate() {
        if one.node.is_some() && !seen.contains(&at) {
            reading.lost(one.line(), "no filter leads to its table");
        }
    }
    out.sort_by_key(|one| one.rank >> 32);
    for (at, one) in out.iter_mut().enumerate() {
        one.rank = one.rank >> 32 << 32 | at as u64;
    }
    out
}

impl Walk<'_> {
    fn table(&mut self, prio: u32, at: At<'_>, reading: &mut Reading) {
        let of_table = self.of_table;
        let nodes = of_table.get(&(self.place, at.table)).map_or(&[][..], Vec::as_slice);
        for &(node, index) in nodes {
            if self.out.len() > WALKED_MAX {
                return reading.lost(self.filters[index].line(), "its tables make too many rules");
            }
            self.seen.insert(index);
            self.node(prio, (node, index), at, reading);
        }
    }

    fn node(&mut self, prio: u32, (node, index): (Node, usize), at: At<'_>, reading: &mut Reading) {
        let filters = self.filters;
        let one = &filters[index];
        let divisor = self.tables.made.get(&(self.place, at.table)).copied().unwrap_or(1);
        let nothing = "with the bucket it stands in it matches no packet";
        let bucket = match at.hash {
            Some((mask, offset)) => {
                let offset = at.from.plain + offset;
                at.path.in_bucket((offset, mask), divisor, node.bucket)
            }
            None => (node.bucket == 0).then(|| at.path.clone()),
        };
        let whole = bucket.and_then(|path| path.joined(&one.selector(), at.from));
        let Some(whole) = whole else { return reading.noted(one.line(), nothing) };
        let links = one.links();
        if let Some(table) = links.link {
            match links.moved(at.from) {
                Some(from) if at.depth < DEPTH_MAX => {
                    let depth = at.depth + 1;
                    let at = At { table, path: &whole, from, hash: links.hash, depth };
                    self.table(prio, at, reading);
                }
                Some(_) => reading.lost(one.line(), "too many tables lead to one another"),
                None => reading.lost(one.line(), "`offset` takes a length that is not IPv4's"),
            }
            if one.target().is_none() {
                return;
            }
        }
        let lowered = one.lower(Some(whole), reading);
        self.out.extend(lowered.map(|filter| Filter { rank: u64::from(prio) << 32, ..filter }));
    }
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

fn place(text: &str) -> Option<i64> {
    let (digits, sign) = text.strip_prefix('-').map_or((text, 1), |rest| (rest, -1));
    Some(i64::from(base0(digits, 0xffff)?) * sign)
}

const A_TABLE: &str = "a table such as 4: or 800::";
/// The number that the kernel gives to the first filter of a bucket.
const NODE_FIRST: u16 = 0x800;
/// The first table that the kernel makes.
const ROOT: u16 = 0x800;
/// Bound: tables that lead to one another, as in the kernel (`TC_U32_MAXDEPTH`); deeper ones are
/// lost.
const DEPTH_MAX: usize = 8;
/// Bound: filters on all ways through the tables of a device; further ones are lost.
const WALKED_MAX: usize = 65_536;
