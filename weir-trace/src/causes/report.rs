//! Causes as sentences and tables.

use super::{Causes, DropGroup, Story, Turns};
use crate::explain::Parts;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use weir_core::sched::Regulation;
use weir_policy::table::{Table, megabits, millis};

impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} packets in {:.3} s\n", self.packets, self.seconds)?;
        write!(f, "{}", self.classes)?;
        if !self.stories.is_empty() {
            f.write_str("\n")?;
        }
        for stories in alike(&self.stories) {
            write!(f, "\n{}", Alike(&stories))?;
        }
        if !self.loans.is_empty() {
            write!(f, "\n\nwho borrowed, in Mbit/s:\n{}", self.loan_table())?;
        }
        if !self.drops.is_empty() {
            write!(f, "\n\nwhat was dropped:\n{}", self.drop_table())?;
        }
        for (cause, frames) in &self.lost {
            write!(f, "\n{frames} frames were lost outside the link: {cause}")?;
        }
        Ok(())
    }
}

impl Causes {
    /// A row for each pair of classes, a column for each bin of time.
    fn loan_table(&self) -> Table {
        let bin = |from: f64| (from / self.bin_s).round() as usize;
        let bins = self.loans.iter().map(|loan| bin(loan.from_s) + 1).max().unwrap_or(0);
        let mut pairs: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for loan in &self.loans {
            let pair = format!("{} from {}", loan.borrower, loan.lender);
            pairs.entry(pair).or_insert_with(|| vec![0; bins])[bin(loan.from_s)] += loan.bytes;
        }
        let head = (0..bins).map(|at| format!("{:.3} s", at as f64 * self.bin_s));
        let mut table = Table::new(std::iter::once("class from lender".to_owned()).chain(head));
        for (pair, bytes) in pairs {
            let rate = |&bytes: &u64| megabits(bytes as f64 * 8.0 / self.bin_s);
            table.row(std::iter::once(pair).chain(bytes.iter().map(rate)));
        }
        table
    }

    fn drop_table(&self) -> Table {
        let head = ["class", "reason", "packets", "from s", "to s", "queued", "limit", "by"];
        let mut table = Table::new(head).words(&[1, 5, 6, 7]);
        for row in &self.drops {
            let (fewest, most) = row.queued;
            let queued =
                if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
            table.row([
                row.class.clone(),
                row.reason.to_owned(),
                row.packets.to_string(),
                format!("{:.3}", row.between_s.0),
                format!("{:.3}", row.between_s.1),
                queued,
                row.limit.clone(),
                row.by(),
            ]);
        }
        table
    }
}

impl DropGroup {
    /// Returns the dropper or meter that dropped the packets, and the number that it decided by.
    fn by(&self) -> String {
        let by = self.meter.as_ref().unwrap_or(&self.dropper);
        match self.reading {
            Some((what, least, most)) => format!("{by}; {what} {least} to {most}"),
            None => by.clone(),
        }
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Alike(&[self]).fmt(f)
    }
}

/// A part of the delay, in ms.
type Part = fn(&Story) -> f64;

/// Packets of one class that waited about as long for the same reasons, at least one.
struct Alike<'a>(&'a [&'a Story]);

/// Returns the stories in groups that are alike, by the first of each.
fn alike(stories: &[Story]) -> Vec<Vec<&Story>> {
    let mut groups: Vec<Vec<&Story>> = Vec::new();
    for story in stories {
        match groups.iter_mut().find(|group| story.is_like(group[0])) {
            Some(group) => group.push(story),
            None => groups.push(vec![story]),
        }
    }
    groups
}

impl fmt::Display for Alike<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stories = self.0;
        let Story { class, number, offered_s, dropped, lender, .. } = stories[0];
        let bytes = self.range(|story| story.bytes.into(), |bytes| format!("{bytes}"));
        match stories.len() {
            1 => {
                write!(f, "{class}'s packet {number} ({bytes} B, offered at {offered_s:.6} s)")?;
            }
            count => {
                let numbers = self.range(|story| story.number as f64, |number| format!("{number}"));
                let offered = self.range(|story| story.offered_s, |at| format!("{at:.3}"));
                write!(
                    f,
                    "{count} packets of {class} (numbers {numbers}, {bytes} B, offered at \
                     {offered} s)"
                )?;
            }
        }
        let waited = self.time(|story| story.total_ms);
        match dropped {
            Some(reason) if stories.len() == 1 => {
                write!(f, " was dropped ({reason}) after {waited}")?;
            }
            Some(reason) => write!(f, " were dropped ({reason}) after {waited}")?,
            None => write!(f, " waited {waited}")?,
        }
        let parts = self.clauses();
        if !parts.is_empty() {
            write!(f, ": {}", parts.join(", "))?;
        }
        f.write_str(".")?;
        let others: BTreeSet<&String> = stories.iter().flat_map(|row| row.others.keys()).collect();
        if !others.is_empty() {
            let other = |&other: &&String| {
                let sent = |story: &Story| story.others.get(other).copied().unwrap_or_default();
                format!("{other} {}", self.turns(sent))
            };
            let others: Vec<String> = others.iter().map(other).collect();
            write!(f, " Meanwhile others sent: {}.", others.join(", "))?;
        }
        if let Some(lender) = lender {
            write!(f, " `{lender}` lent for {}.", if stories.len() == 1 { "it" } else { "them" })?;
        }
        self.write_rates(f)?;
        self.write_host(f)
    }
}

impl Alike<'_> {
    /// Writes how a controller changed the rate of the link meanwhile.
    fn write_rates(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rates = || self.0.iter().filter_map(|story| story.rates);
        let Some(last) = rates().map(|rates| rates.last_bps).min() else { return Ok(()) };
        let least = rates().map(|rates| rates.least_bps).min().unwrap_or(last);
        let changes = rates().map(|rates| rates.changes).max().unwrap_or(1);
        let rate = |bits: u64| megabits(bits as f64);
        match changes {
            1 => write!(f, " Meanwhile a controller set the link's rate to {} Mbit/s.", rate(last)),
            _ => write!(
                f,
                " Meanwhile a controller changed the link's rate {changes} times, to {} Mbit/s at \
                 last and {} at least.",
                rate(last),
                rate(least)
            ),
        }
    }

    /// Writes how late the run loop handed them out and how long the port took, where recorded.
    fn write_host(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let them = if self.0.len() == 1 { "it" } else { "them" };
        if self.0.iter().all(|story| story.host_ms.is_some()) {
            let host = self.time(|story| story.host_ms.unwrap_or_default());
            write!(f, " The run loop handed {them} out {host} late")?;
            if self.0.iter().all(|story| story.port_ms.is_some()) {
                let port = self.time(|story| story.port_ms.unwrap_or_default());
                write!(f, ", and the port took {them} {port} after")?;
            }
            f.write_str(".")?;
        }
        Ok(())
    }

    /// Each part that is not zero, as a clause.
    fn clauses(&self) -> Vec<String> {
        let own = match self.0.iter().all(|story| story.own.packets == 0) {
            true => "while the line sent the packet before it in its own queue".to_owned(),
            false => format!("behind {} of its own queue", self.turns(|story| story.own)),
        };
        let rule = |regulation| self.0[0].rule(regulation);
        let rows: [(Part, String); 7] = [
            (|story| story.parts_ms.own_leaf, own),
            (|story| story.parts_ms.line_busy, "first in its queue while the line was busy".into()),
            (|story| story.parts_ms.tokens, rule(Regulation::Tokens)),
            (|story| story.parts_ms.undertime, rule(Regulation::Undertime)),
            (|story| story.parts_ms.ceiling, rule(Regulation::Ceiling)),
            (|story| story.parts_ms.upper_limit, rule(Regulation::UpperLimit)),
            (|story| story.parts_ms.others, "while others had their turns".into()),
        ];
        let some = rows.into_iter().filter(|row| self.0.iter().any(|story| (row.0)(story) > 0.0));
        some.map(|(time, clause)| format!("{} {clause}", self.time(time))).collect()
    }

    /// Returns the least and the largest of a number in words, or one of both where they are equal.
    fn range(&self, of: impl Fn(&Story) -> f64, text: impl Fn(f64) -> String) -> String {
        let values = || self.0.iter().map(|story| of(story));
        let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
        let (least, most) = (text(least), text(most));
        if least == most { most } else { format!("{least} to {most}") }
    }

    fn time(&self, of: impl Fn(&Story) -> f64) -> String {
        format!("{} ms", self.range(of, |ms| millis(ms * 1e3)))
    }

    fn turns(&self, of: impl Fn(&Story) -> Turns) -> String {
        let packets = self.range(|story| of(story).packets as f64, |packets| format!("{packets}"));
        let bytes = self.range(|story| of(story).bytes as f64, |bytes| format!("{bytes}"));
        let word = if packets == "1" { "packet" } else { "packets" };
        format!("{packets} {word} ({bytes} B)")
    }
}

impl Story {
    /// Whether it is told together with `first`, which waited longer: of its class, for the same
    /// reasons, and at least nine tenths as long.
    fn is_like(&self, first: &Self) -> bool {
        let reasons = |story: &Self| {
            let Parts { own_leaf, line_busy, tokens, undertime, ceiling, upper_limit, others } =
                story.parts_ms;
            [own_leaf, line_busy, tokens, undertime, ceiling, upper_limit, others]
                .map(|part| part * 20.0 > story.total_ms)
        };
        let same = |story: &Self| {
            (story.class.clone(), story.dropped, story.regulated_by.clone(), story.lender.clone())
        };
        let waited = self.total_ms >= first.total_ms * 0.9;
        waited && same(self) == same(first) && reasons(self) == reasons(first)
    }

    fn rule(&self, regulation: Regulation) -> String {
        let class = self.regulated_by.as_ref().map_or(&self.class, |row| &row.0);
        match regulation {
            Regulation::None => String::new(),
            Regulation::Tokens => {
                format!("because `{class}` had used up its tokens and no class lent")
            }
            Regulation::Undertime => {
                format!("because `{class}` was above its share and no class lent")
            }
            Regulation::Ceiling => format!("because of the ceiling of `{class}`"),
            Regulation::UpperLimit => format!("because of the upper limit of `{class}`"),
        }
    }
}
