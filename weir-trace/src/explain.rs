//! Why packets waited: per class the parts of their sojourns, the lenders, and the slowest packets.
//!
//! Invariant: whatever the number of packets, it holds sums for each class and the slowest few, and
//! the parts of a class sum to the sojourns of its packets.

use crate::shown::{micros, seconds};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use weir_core::explain::Sojourn;
use weir_core::ids::ClassId;
use weir_core::sched::{Regulation, Tree};
use weir_core::units::{Duration, Instant};
use weir_policy::table::{Table, millis};

/// The parts of sojourns: why packets waited.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ExplainReport {
    /// Every class in the order of declaration, by name; an interior class is the sum of its
    /// leaves.
    pub classes: Vec<ExplainedClass>,
    /// The slowest packets, the slowest first.
    pub slowest: Vec<SlowPacket>,
}

/// The sojourns of one class.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ExplainedClass {
    /// The name of the class.
    pub name: String,
    /// Packets that left or were dropped.
    pub packets: u64,
    /// From offer to leaving or drop.
    pub total: PartReport,
    /// How the total divides into parts.
    pub parts: Parts<PartReport>,
    /// Lenders by name, each with the number of packets that it lent for.
    pub lenders: BTreeMap<String, u64>,
}

/// One part of the sojourns of a class.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PartReport {
    /// The mean over all packets of the class.
    #[serde(rename = "mean_us", serialize_with = "micros")]
    pub mean: Duration,
    /// The longest of one packet.
    #[serde(rename = "max_us", serialize_with = "micros")]
    pub max: Duration,
    /// The part of the whole, 0 to 1.
    pub share: f64,
}

/// The parts of sojourns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Parts<T> {
    /// Behind others of its own leaf.
    pub own_leaf: T,
    /// First in its leaf, while the line was busy.
    pub line_busy: T,
    /// Then, while tokens of its own rate were used up and no class lent.
    pub tokens: T,
    /// Or while its class, and all that might lend to it, were above their share.
    pub undertime: T,
    /// Or while it would have exceeded a ceiling.
    pub ceiling: T,
    /// Or while it would have exceeded an upper-limit curve.
    pub upper_limit: T,
    /// Then, while others had their turns.
    pub others: T,
}

/// One of the slowest packets.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SlowPacket {
    /// When it left or was dropped, from the start.
    #[serde(rename = "at_s", serialize_with = "from_start")]
    pub at: Instant,
    /// The name of its class.
    pub class: String,
    /// From offer to leaving or drop.
    #[serde(rename = "total_us", serialize_with = "micros")]
    pub total: Duration,
    /// How the total divides into parts.
    #[serde(rename = "parts_us", serialize_with = "parts_in_micros")]
    pub parts: Parts<Duration>,
    /// The class that lent for it.
    pub lender: Option<String>,
    /// Why it was dropped, if it was.
    pub dropped: Option<&'static str>,
}

/// Collects sojourns, as a link reports them.
pub struct Explained {
    /// The instant from which times count.
    origin: Instant,
    /// The class whose packets are told of, with those of the classes below it; `None` for all.
    told: Option<String>,
    rows: Vec<Row>,
    places: BTreeMap<String, usize>,
    /// The row of each class of the present tree, and the classes from each leaf up to the top.
    classes: Vec<usize>,
    paths: Vec<Vec<usize>>,
    slowest: Vec<(Sojourn, usize, Option<usize>)>,
    slowest_max: usize,
}

#[derive(Default)]
struct Row {
    name: String,
    packets: u64,
    total: Sum,
    parts: Parts<Sum>,
    lenders: BTreeMap<usize, u64>,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    nanos: u128,
    max: Duration,
}

impl Explained {
    /// Returns an explanation of no packets yet, of a link with this tree; the `slowest` slowest
    /// packets are recorded.
    pub fn new(tree: &Tree, slowest_max: usize) -> Self {
        let mut this = Self {
            origin: Instant::ZERO,
            told: None,
            rows: Vec::new(),
            places: BTreeMap::new(),
            classes: Vec::new(),
            paths: Vec::new(),
            slowest: Vec::new(),
            slowest_max: slowest_max.min(SLOWEST_MAX),
        };
        this.change(tree);
        this
    }

    /// Lets times count from `origin`, and tells only of packets of a class and those below it.
    pub fn about(mut self, origin: Instant, class: Option<&str>) -> Self {
        (self.origin, self.told) = (origin, class.map(str::to_owned));
        self
    }

    /// Changes the link's tree; classes of one name are the same class.
    pub fn change(&mut self, tree: &Tree) {
        self.classes = tree.classes().map(|(_, spec)| self.place(&spec.name)).collect();
        let path = |class| tree.path(class).map(|class| self.classes[class.index()]).collect();
        self.paths = tree.leaves().map(|(leaf, _)| path(tree.class_of(leaf))).collect();
    }

    fn place(&mut self, name: &str) -> usize {
        if let Some(&place) = self.places.get(name) {
            return place;
        }
        self.places.insert(name.to_owned(), self.rows.len());
        self.rows.push(Row { name: name.to_owned(), ..Row::default() });
        self.rows.len() - 1
    }

    /// Adds one sojourn to its class and the classes above.
    pub fn add(&mut self, sojourn: &Sojourn) {
        let lender = sojourn.lender.map(|class: ClassId| self.classes[class.index()]);
        let path = &self.paths[sojourn.leaf.index()];
        let parts = Parts::of(sojourn);
        for &row in path {
            let row = &mut self.rows[row];
            row.packets += 1;
            row.total.add(sojourn.total());
            row.parts = row.parts.with(parts, Sum::plus);
            if let Some(lender) = lender {
                *row.lenders.entry(lender).or_default() += 1;
            }
        }
        let class = path[0];
        let is_told = |told: &String| path.iter().any(|&row| self.rows[row].name == *told);
        if self.told.as_ref().is_none_or(is_told) {
            self.keep_if_slow(*sojourn, class, lender);
        }
    }

    /// Among equally slow packets, the first stays.
    fn keep_if_slow(&mut self, sojourn: Sojourn, class: usize, lender: Option<usize>) {
        let total = sojourn.total();
        let is_full = self.slowest.len() >= self.slowest_max;
        if is_full && self.slowest.last().is_none_or(|last| last.0.total() >= total) {
            return;
        }
        let place = self.slowest.partition_point(|row| row.0.total() >= total);
        self.slowest.insert(place, (sojourn, class, lender));
        self.slowest.truncate(self.slowest_max);
    }

    /// Returns the explanation of the sojourns added so far.
    pub fn report(&self) -> ExplainReport {
        let name = |row: usize| self.rows[row].name.clone();
        let lender = |(&row, &packets): (&usize, &u64)| (name(row), packets);
        let class = |row: &Row| ExplainedClass {
            name: row.name.clone(),
            packets: row.packets,
            total: row.part(row.total),
            parts: row.parts.map(|sum| row.part(sum)),
            lenders: row.lenders.iter().map(lender).collect(),
        };
        let slow = |&(sojourn, class, lender): &(Sojourn, usize, Option<usize>)| SlowPacket {
            at: Instant::ZERO.after(sojourn.at.since(self.origin.min(sojourn.at))),
            class: name(class),
            total: sojourn.total(),
            parts: Parts::of(&sojourn),
            lender: lender.map(name),
            dropped: sojourn.dropped.map(|reason| reason.name()),
        };
        ExplainReport {
            classes: self.rows.iter().filter(|row| !row.name.is_empty()).map(class).collect(),
            slowest: self.slowest.iter().map(slow).collect(),
        }
    }
}

impl Row {
    fn part(&self, sum: Sum) -> PartReport {
        let mean = sum.nanos.checked_div(u128::from(self.packets)).unwrap_or(0);
        let whole = self.total.nanos.max(1) as f64;
        let mean = Duration::from_nanos(mean as u64);
        PartReport { mean, max: sum.max, share: sum.nanos as f64 / whole }
    }
}

impl Sum {
    fn add(&mut self, duration: Duration) {
        self.nanos += u128::from(duration.as_nanos());
        self.max = self.max.max(duration);
    }

    fn plus(mut self, duration: Duration) -> Self {
        self.add(duration);
        self
    }
}

impl Parts<Duration> {
    /// How a sojourn divides.
    pub(crate) fn of(sojourn: &Sojourn) -> Self {
        let mut parts = Self {
            own_leaf: sojourn.own_leaf(),
            line_busy: sojourn.line_busy(),
            others: sojourn.others(),
            ..Self::default()
        };
        let regulated = match sojourn.regulation {
            Regulation::Tokens => &mut parts.tokens,
            Regulation::Undertime => &mut parts.undertime,
            Regulation::Ceiling => &mut parts.ceiling,
            Regulation::UpperLimit => &mut parts.upper_limit,
            Regulation::None => &mut parts.others,
        };
        *regulated = regulated.plus(sojourn.regulated());
        parts
    }
}

impl<T: Copy> Parts<T> {
    pub(crate) fn map<U>(self, each: impl Fn(T) -> U) -> Parts<U> {
        Parts {
            own_leaf: each(self.own_leaf),
            line_busy: each(self.line_busy),
            tokens: each(self.tokens),
            undertime: each(self.undertime),
            ceiling: each(self.ceiling),
            upper_limit: each(self.upper_limit),
            others: each(self.others),
        }
    }

    fn with<U: Copy>(self, other: Parts<U>, each: impl Fn(T, U) -> T) -> Self {
        Self {
            own_leaf: each(self.own_leaf, other.own_leaf),
            line_busy: each(self.line_busy, other.line_busy),
            tokens: each(self.tokens, other.tokens),
            undertime: each(self.undertime, other.undertime),
            ceiling: each(self.ceiling, other.ceiling),
            upper_limit: each(self.upper_limit, other.upper_limit),
            others: each(self.others, other.others),
        }
    }

    /// Each part with its word in tables.
    pub fn named(&self) -> [(&'static str, T); 7] {
        [
            ("own leaf", self.own_leaf),
            ("line busy", self.line_busy),
            (Regulation::Tokens.name(), self.tokens),
            (Regulation::Undertime.name(), self.undertime),
            (Regulation::Ceiling.name(), self.ceiling),
            (Regulation::UpperLimit.name(), self.upper_limit),
            ("others", self.others),
        ]
    }
}

impl ExplainReport {
    /// The class called `name`.
    pub fn class(&self, name: &str) -> Option<&ExplainedClass> {
        self.classes.iter().find(|class| class.name == name)
    }

    /// A row for each class and one for each part that any of its packets had.
    fn class_table(&self) -> Table {
        let head = ["class", "packets", "waited", "mean ms", "max", "share %"];
        let mut table = Table::new(head).words(&[2]);
        for class in &self.classes {
            let mut row = |name: &str, packets: String, word: &str, part: PartReport| {
                let share = format!("{:.1}", part.share * 100.0);
                let cells = [name, &packets, word, &cell(part.mean), &cell(part.max), &share];
                table.row(cells);
            };
            row(&class.name, class.packets.to_string(), "in all", class.total);
            for (word, part) in class.parts.named() {
                if part.max > Duration::ZERO {
                    row("", String::new(), word, part);
                }
            }
        }
        table
    }

    fn lender_table(&self) -> Option<Table> {
        let mut table = Table::new(["class", "lender", "packets"]).words(&[1]);
        for class in &self.classes {
            for (lender, packets) in &class.lenders {
                table.row([&class.name, lender, &packets.to_string()]);
            }
        }
        (!table.is_empty()).then_some(table)
    }

    fn slowest_table(&self) -> Table {
        let mut head = vec!["at s", "class", "total ms"];
        let words = Parts::<()>::default().named().map(|part| part.0);
        let parts: Vec<usize> = (3..3 + words.len()).collect();
        head.extend(words);
        head.extend(["lender", "fate"]);
        let mut table = Table::new(head).words(&[1, 10, 11]).optional(&parts);
        for packet in &self.slowest {
            let at = packet.at.as_nanos();
            let at = format!("{}.{:06}", at / 1_000_000_000, at / 1000 % 1_000_000);
            let mut row = vec![at, packet.class.clone(), cell(packet.total)];
            row.extend(packet.parts.named().map(|part| cell(part.1)));
            row.push(packet.lender.clone().unwrap_or_else(|| "-".to_owned()));
            row.push(
                packet.dropped.map_or("sent".to_owned(), |reason| format!("dropped: {reason}")),
            );
            table.row(row);
        }
        table
    }
}

impl fmt::Display for ExplainReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "why packets waited, whether sent or dropped:\n{}", self.class_table())?;
        if let Some(table) = self.lender_table() {
            write!(f, "\n\nwho lent:\n{table}")?;
        }
        if !self.slowest.is_empty() {
            write!(f, "\n\nthe slowest packets, in ms:\n{}", self.slowest_table())?;
        }
        Ok(())
    }
}

fn cell(duration: Duration) -> String {
    millis(duration.as_nanos() as f64 / 1e3)
}

fn from_start<S: serde::Serializer>(at: &Instant, serializer: S) -> Result<S::Ok, S::Error> {
    seconds(&at.since(Instant::ZERO), serializer)
}

fn parts_in_micros<S: serde::Serializer>(
    parts: &Parts<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    parts.map(|part| part.as_nanos() as f64 / 1e3).serialize(serializer)
}

/// The default number of slowest packets that are shown.
pub const SLOWEST_DEFAULT: usize = 5;
/// Bound: slowest packets that are explained; a request for more gets this many.
pub const SLOWEST_MAX: usize = 1000;
