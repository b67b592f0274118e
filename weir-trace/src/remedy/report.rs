//! Remedies as sentences and tables.

use super::{Judged, Proposal, Remedies, Remedy, Share};
use std::fmt;
use weir_policy::table::{Table, megabits, millis};

impl fmt::Display for Remedies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.conditions.is_empty() {
            return f.write_str(
                "nothing was promised: write `delay` in a class or a `[[promise]]`, or ask with \
                 --promise",
            );
        }
        write!(f, "what was promised:\n{}", self.table())?;
        for remedy in &self.remedies {
            write!(f, "\n\n{remedy}")?;
        }
        if self.broken_left > 0 {
            write!(
                f,
                "\n\nfor {} broken promises more no change was looked for",
                self.broken_left
            )?;
        }
        Ok(())
    }
}

impl Remedies {
    fn table(&self) -> Table {
        let mut table = Table::new(["promise", "from", "measured", "held"]).words(&[1, 3]);
        for row in &self.conditions {
            let held = match row.kept {
                Some(true) => "yes",
                Some(false) => "NO",
                None => "nothing measured",
            };
            table.row([&row.that, row.origin.word(), &row.shown(row.measured), held]);
            if row.kept == Some(false) {
                table.mark(3);
            }
        }
        table
    }
}

impl super::Origin {
    fn word(self) -> &'static str {
        match self {
            Self::Asked => "--promise",
            Self::Promise => "promise",
            Self::Delay => "delay",
            Self::Rate => "guaranteed",
        }
    }
}

impl Judged {
    /// A measured value with its unit.
    fn shown(&self, value: Option<f64>) -> String {
        let Some(value) = value else { return "-".to_owned() };
        let measure = self.that.split(['<', '>']).next().unwrap_or_default().trim();
        match () {
            () if measure.ends_with(".rate") => format!("{} Mbit/s", megabits(value)),
            () if measure.contains(".delay.") && value.is_infinite() => "never left".to_owned(),
            () if measure.contains(".delay.") => format!("{} ms", millis(value * 1e6)),
            () if measure.ends_with(".drops") => format!("{value:.0} packets"),
            () if measure.ends_with(".backlog.max") => format!("{value:.0} B"),
            () => format!("{:.2} %", value * 100.0),
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measured = self.condition.shown(self.condition.measured);
        writeln!(f, "`{}` was broken: {measured}.", self.condition.that)?;
        let Some(best) = self.proposals.first() else {
            let what = match self.is_cut {
                true => "No single change was found before the search reached its bound",
                false => "No single change of the policy would have kept it",
            };
            write!(f, "{what}: ")?;
            return self.effort(f);
        };
        write!(
            f,
            "{} would have kept it: {}. ",
            best.sentence(),
            self.condition.shown(best.measured)
        )?;
        if !best.steady {
            write!(f, "A change that is a little larger would not. ")?;
        }
        if !best.keeps_also.is_empty() {
            write!(f, "It also keeps {}. ", best.keeps_also.join(", "))?;
        }
        write!(f, "`{}` makes it so. ", best.command)?;
        self.effort(f)?;
        write!(f, "\n{}", best.table())?;
        if self.proposals.len() > 1 {
            write!(f, "\n\nother single changes that keep it:\n{}", self.others())?;
        }
        Ok(())
    }
}

impl Remedy {
    fn effort(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} settings were changed one at a time, in {} replays",
            self.settings, self.replays
        )?;
        if self.settings_left > 0 {
            write!(f, "; {} settings more were not", self.settings_left)?;
        }
        f.write_str(". ")?;
        f.write_str("Arrivals are as recorded: senders that react to loss or delay would differ.")
    }

    fn others(&self) -> Table {
        let head = ["setting", "from", "to", "size", "costs a class %"];
        let mut table = Table::new(head).words(&[1, 2]);
        for row in &self.proposals[1..] {
            let harm = format!("{:.1}", row.harm * 100.0);
            let Proposal { setting, from, to, .. } = row;
            table.row([
                setting.clone(),
                from.clone(),
                to.clone(),
                format!("{:.3}", row.size),
                harm,
            ]);
        }
        table
    }
}

impl Proposal {
    /// The change as the beginning of a sentence.
    fn sentence(&self) -> String {
        format!("`{}` of {} instead of {}", self.setting, self.to, self.from)
    }

    /// A row for each class whose figures it changes.
    fn table(&self) -> Table {
        let head = ["class", "Mbit/s", "with it", "p99 ms", "with it", "dropped", "with it"];
        let mut table = Table::new(head);
        for effect in self.effects.iter().filter(|effect| effect.before.offered > 0) {
            let (before, after) = (&effect.before, &effect.after);
            let delay = |share: &Share| match share.delay_p99_s {
                None => "-".to_owned(),
                Some(delay) if delay.is_infinite() => "never".to_owned(),
                Some(delay) => millis(delay * 1e6),
            };
            table.row([
                effect.class.clone(),
                megabits(before.rate_bps),
                megabits(after.rate_bps),
                delay(before),
                delay(after),
                before.dropped.to_string(),
                after.dropped.to_string(),
            ]);
        }
        table
    }
}
