//! The table: each script as passed, failed with its first difference, or not applicable.
//!
//! Invariant: every script that was found is listed once.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The result of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Everything that it expects was sent, and in time.
    Passed,
    /// Everything was sent in time, but only with ticks of 4 ms.
    PassedCoarsely,
    /// The first difference from the script.
    Failed {
        /// The line of the script.
        line: usize,
        /// The expected and the actual packet or result.
        difference: String,
    },
    /// The model cannot replay it, for this reason.
    NotApplicable(String),
    /// It says the same as another one.
    Same(String),
}

/// A script and what came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The path below the folder of scripts.
    pub path: String,
    /// Whether the goal counts it.
    pub is_counted: bool,
    /// The result of the script.
    pub verdict: Verdict,
}

/// How many of the counted scripts must be applicable.
pub const APPLICABLE_MIN: usize = 45;

/// How many in a hundred of them must pass.
pub const PASSED_PERCENT_MIN: usize = 95;

/// The numbers of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Scripts that the model replayed as expected.
    pub passed: usize,
    /// Scripts from which the model differed.
    pub failed: usize,
    /// Scripts that the model cannot replay.
    pub not_applicable: usize,
    /// Scripts that say the same as others.
    pub same: usize,
}

impl Totals {
    /// Counts the results of scripts.
    pub fn of<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Totals {
        let mut totals = Totals::default();
        for outcome in outcomes {
            match outcome.verdict {
                Verdict::Passed | Verdict::PassedCoarsely => totals.passed += 1,
                Verdict::Failed { .. } => totals.failed += 1,
                Verdict::NotApplicable(_) => totals.not_applicable += 1,
                Verdict::Same(_) => totals.same += 1,
            }
        }
        totals
    }

    /// Returns how many could be replayed.
    pub fn applicable(self) -> usize {
        self.passed + self.failed
    }

    /// Returns whether enough are applicable, and enough of these pass.
    pub fn meet_the_goal(self) -> bool {
        self.applicable() >= APPLICABLE_MIN
            && self.passed * 100 >= self.applicable() * PASSED_PERCENT_MIN
    }
}

/// Returns the table; `sentences` are the known reasons of failures, by the end of the path.
pub fn table(outcomes: &[Outcome], sentences: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let mark = if outcome.is_counted { '*' } else { ' ' };
        let verdict = match &outcome.verdict {
            Verdict::Passed => "passed".to_owned(),
            Verdict::PassedCoarsely => "passed, as on a kernel with ticks of 4 ms".to_owned(),
            Verdict::Failed { line, difference } => format!("FAILED line {line}: {difference}"),
            Verdict::NotApplicable(reason) => format!("not applicable: {reason}"),
            Verdict::Same(other) => format!("the same as {other}"),
        };
        let _ = writeln!(text, "{mark} {}: {verdict}", outcome.path);
        let is_failed = matches!(outcome.verdict, Verdict::Failed { .. });
        if let Some(sentence) = sentence(&outcome.path, sentences).filter(|_| is_failed) {
            let _ = writeln!(text, "    {sentence}");
        }
    }
    text + &summary(outcomes)
}

/// Returns the sentence for a script.
fn sentence<'a>(path: &str, sentences: &[(&str, &'a str)]) -> Option<&'a str> {
    sentences.iter().find(|(end, _)| path.ends_with(end)).map(|(_, sentence)| *sentence)
}

fn summary(outcomes: &[Outcome]) -> String {
    let all = Totals::of(outcomes.iter());
    let counted = Totals::of(outcomes.iter().filter(|outcome| outcome.is_counted));
    let mut text = String::from("\nwhy scripts are not applicable\n");
    for (reason, count) in reasons(outcomes) {
        let _ = writeln!(text, "{count:>5}  {reason}");
    }
    let _ = writeln!(text, "\n             applicable  passed  failed  not applicable  the same");
    for (name, totals) in [("all", all), ("counted (*)", counted)] {
        let Totals { passed, failed, not_applicable, same } = totals;
        let applicable = totals.applicable();
        let _ = writeln!(
            text,
            "{name:<12} {applicable:>10} {passed:>7} {failed:>7} {not_applicable:>15} {same:>9}"
        );
    }
    let verdict = if counted.meet_the_goal() { "met" } else { "MISSED" };
    let _ = writeln!(
        text,
        "goal: at least {APPLICABLE_MIN} counted ones applicable, {PASSED_PERCENT_MIN} % of these \
         pass: {verdict}"
    );
    text
}

/// Returns the reasons without their lines and how often each occurs, the most frequent first.
fn reasons(outcomes: &[Outcome]) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for outcome in outcomes {
        if let Verdict::NotApplicable(reason) = &outcome.verdict {
            *counts.entry(reason.split(" (line").next().unwrap_or(reason)).or_default() += 1;
        }
    }
    let mut counts: Vec<(String, usize)> =
        counts.into_iter().map(|(reason, count)| (reason.to_owned(), count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}
