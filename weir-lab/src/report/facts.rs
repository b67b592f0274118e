//! The facts of papers with their verdicts, a row each, and the sentence that counts them.

use crate::claims::{Decided, Decision, Era, Evidence, Judged, Outcome, RowKind, Verdict};
use std::collections::BTreeMap;
use std::fmt;

/// How many facts have each verdict, and apart from them the rows of other kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headline {
    /// Facts that hold and tell the historic machine from a sound one.
    pub tell_apart: usize,
    /// Facts that hold, and the sound run has no figure to compare with.
    pub no_counterpart: usize,
    /// Facts that hold in both runs, and so are no evidence of a fault.
    pub in_both: usize,
    /// Facts that hold with any scheduler.
    pub any_scheduler: usize,
    /// Facts that hold under one reading of the source and fail under another.
    pub under_one: usize,
    /// Facts that fail, with a cause.
    pub fails: usize,
    /// Facts that fail, and the cause is not known.
    pub cause_unknown: usize,
    /// Facts of which a row fails without a reason.
    pub unexplained: usize,
    /// Facts that cannot be decided here.
    pub undecidable: usize,
    /// Facts that no row reads yet.
    pub untried: usize,
    /// Of each other kind, how many rows hold, and how many there are.
    pub others: BTreeMap<RowKind, [usize; 2]>,
}

impl Headline {
    /// Counts these facts, and the rows of these outcomes that are no paper's.
    pub fn of<'a>(
        facts: impl IntoIterator<Item = &'a Decided>,
        outcomes: impl IntoIterator<Item = &'a Outcome<'a>>,
    ) -> Self {
        let mut headline = Self::default();
        for decided in facts {
            *match decided.decision {
                Decision::Holds => match decided.evidence() {
                    Some(Evidence::InBoth) => &mut headline.in_both,
                    Some(Evidence::AnyScheduler) => &mut headline.any_scheduler,
                    Some(Evidence::NoCounterpart) => &mut headline.no_counterpart,
                    Some(Evidence::TellsApart) | None => &mut headline.tell_apart,
                },
                Decision::HoldsUnderOne => &mut headline.under_one,
                Decision::Fails => &mut headline.fails,
                Decision::FailsCauseUnknown => &mut headline.cause_unknown,
                Decision::FailsUnexplained => &mut headline.unexplained,
                Decision::Undecidable => &mut headline.undecidable,
                Decision::Untried => &mut headline.untried,
            } += 1;
        }
        for row in outcomes.into_iter().flat_map(|outcome| &outcome.claims) {
            if row.verdict != Verdict::NotReproduced && !row.kind.is_of_a_paper() {
                let [holds, all] = headline.others.entry(row.kind).or_default();
                *holds += usize::from(row.verdict == Verdict::Holds);
                *all += 1;
            }
        }
        headline
    }

    /// Returns the number of facts.
    pub const fn facts(&self) -> usize {
        let open = self.undecidable + self.untried;
        let fail = self.fails + self.cause_unknown + self.unexplained;
        self.hold() + self.under_one + fail + open
    }

    /// Returns the number of facts that hold.
    pub const fn hold(&self) -> usize {
        self.tell_apart + self.no_counterpart + self.in_both + self.any_scheduler
    }
}

impl fmt::Display for Headline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tell_apart, no_counterpart, in_both, any_scheduler, .. } = self;
        let Self { under_one, fails, cause_unknown, undecidable, untried, .. } = self;
        if self.facts() > 0 {
            write!(
                f,
                "Of {} facts of papers {tell_apart} tell the historic machine from a sound one: \
                 they hold in the one run and fail in the other; {no_counterpart} hold and have \
                 nothing to compare with in the sound run, {in_both} hold in both runs, \
                 {any_scheduler} with any scheduler; {under_one} hold under one reading of the \
                 text and fail under another, {fails} fail with a cause that a run shows, \
                 {cause_unknown} fail for an unknown cause, \
                 {undecidable} cannot be decided here, {untried} are not tried yet",
                self.facts()
            )?;
            if self.unexplained > 0 {
                write!(f, ", {} FAIL without a reason", self.unexplained)?;
            }
            f.write_str(if self.others.is_empty() { "" } else { "; apart from them " })?;
        }
        let mut comma = "";
        for (kind, [holds, all]) in &self.others {
            write!(f, "{comma}{holds} of {all} {} hold", kind.plural())?;
            comma = ", ";
        }
        Ok(())
    }
}

/// Describes a fact in a line of text, and below it why it fails.
pub fn fact_line(decided: &Decided) -> String {
    let Decided { paper, fact, decision, .. } = decided;
    let mut text = format!(
        "  {:<22} {paper} {}: {} [{}] {}\n",
        decision.words(),
        fact.id,
        fact.says,
        fact.at,
        readings(decided)
    );
    for reading in &decided.holds_under {
        text += &format!("  {:<22} holds where {reading}\n", "");
    }
    for because in &decided.because {
        text += &format!("  {:<22} {because}\n", "");
    }
    if !decided.shown_by.is_empty() {
        text += &format!("  {:<22} shown by {}\n", "", decided.shown_by.join(", "));
    }
    text
}

/// Says how many rows read a fact, in which sheets, and whether the sound run has it, too.
pub(super) fn readings(decided: &Decided) -> String {
    let rows = &decided.readings;
    if rows.is_empty() {
        return String::new();
    }
    let holds = rows.iter().filter(|row| row.verdict == Verdict::Holds).count();
    let mut sheets: Vec<&str> =
        rows.iter().filter_map(|row| Some(row.row.split_once('/')?.0)).collect();
    sheets.dedup();
    let mut text = format!("{holds} of {} rows of {}", rows.len(), sheets.join(", "));
    if decided.is_check() {
        text += "; of every scheduler: checks the set-up";
    } else if decided.sound_too {
        text += "; in the sound run, too: no evidence of a fault";
    }
    text
}

/// Returns whether a historic row holds in the sound run, too, and so is no evidence of a fault.
pub(super) fn holds_in_both(row: &Judged) -> bool {
    row.era == Era::Historic && row.sound_too == Some(true) && row.verdict == Verdict::Holds
}

/// Says what a row is, and whether it holds in the sound run, too.
pub(super) fn what(row: &Judged) -> String {
    let kind = row.kind.name();
    match holds_in_both(row) {
        true => format!("{kind}; sound run, too: no evidence of a fault"),
        false => kind.to_owned(),
    }
}
