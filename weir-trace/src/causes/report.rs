//! Causes as sentences and tables.

use super::{Causes, DropGroup, Story, Turns};
use std::collections::BTreeMap;
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
        for story in &self.stories {
            write!(f, "\n{story}")?;
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
        let Self { class, number, offered_s, bytes, .. } = self;
        let ended = match self.dropped {
            Some(reason) => format!("was dropped ({reason}) after"),
            None => "waited".to_owned(),
        };
        write!(
            f,
            "{class}'s packet {number} ({bytes} B, offered at {offered_s:.6} s) {ended} {}",
            shown(self.total_ms)
        )?;
        let parts = self.clauses();
        if !parts.is_empty() {
            write!(f, ": {}", parts.join(", "))?;
        }
        f.write_str(".")?;
        if !self.others.is_empty() {
            let other = |(class, turns): (&String, &Turns)| format!("{class} {}", turns.text());
            let others: Vec<String> = self.others.iter().map(other).collect();
            write!(f, " Meanwhile others sent: {}.", others.join(", "))?;
        }
        if let Some(lender) = &self.lender {
            write!(f, " `{lender}` lent for it.")?;
        }
        match (self.host_ms, self.port_ms) {
            (Some(host), Some(port)) => write!(
                f,
                " The run loop handed it out {} late, and the port took it {} after.",
                shown(host),
                shown(port)
            ),
            (Some(host), None) => write!(f, " The run loop handed it out {} late.", shown(host)),
            _ => Ok(()),
        }
    }
}

impl Story {
    /// Each part that is not zero, as a clause.
    fn clauses(&self) -> Vec<String> {
        let parts = &self.parts_ms;
        let own = match self.own.packets {
            0 => "while the line sent the packet before it in its own queue".to_owned(),
            _ => format!("behind {} of its own queue", self.own.text()),
        };
        let rows = [
            (parts.own_leaf, own),
            (parts.line_busy, "first in its queue while the line was busy".to_owned()),
            (parts.tokens, self.rule(Regulation::Tokens)),
            (parts.undertime, self.rule(Regulation::Undertime)),
            (parts.ceiling, self.rule(Regulation::Ceiling)),
            (parts.upper_limit, self.rule(Regulation::UpperLimit)),
            (parts.others, "while others had their turns".to_owned()),
        ];
        let some = rows.into_iter().filter(|row| row.0 > 0.0);
        some.map(|(time, clause)| format!("{} {clause}", shown(time))).collect()
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

impl Turns {
    fn text(&self) -> String {
        let packets = if self.packets == 1 { "packet" } else { "packets" };
        format!("{} {packets} ({} B)", self.packets, self.bytes)
    }
}

fn shown(ms: f64) -> String {
    format!("{} ms", millis(ms * 1e3))
}
