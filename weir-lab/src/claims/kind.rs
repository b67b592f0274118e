//! The kinds of a sheet's rows. Papers' results, Weir's goals and a model's figures are counted
//! apart.

use super::sheet::Claim;
use serde::{Deserialize, Serialize};

/// The source on which a claim rests.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub enum RowKind {
    /// A result that a paper states in words; Weir's reading of them makes the bound.
    Statement,
    /// A number of a paper's text or tables.
    Number,
    /// A check of the set-up: it is true of every scheduler.
    Check,
    /// A run that shows why another row fails, or what was tried to find that.
    Cause,
    /// A goal that Weir set for itself.
    Goal,
    /// A figure of a model that was written from `docs/algorithms.md`.
    Model,
    /// A value that ns-2 ships or gives.
    Ns2,
}

impl RowKind {
    /// All kinds, in the order of reports.
    pub const ALL: [RowKind; 7] = [
        RowKind::Statement,
        RowKind::Number,
        RowKind::Check,
        RowKind::Cause,
        RowKind::Goal,
        RowKind::Model,
        RowKind::Ns2,
    ];

    /// Returns its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            RowKind::Statement => "paper's statement",
            RowKind::Number => "paper's number",
            RowKind::Check => "set-up check",
            RowKind::Cause => "cause",
            RowKind::Goal => "Weir's goal",
            RowKind::Model => "model's figure",
            RowKind::Ns2 => "ns-2's value",
        }
    }

    /// Returns what several of them are called where they are counted.
    pub const fn plural(self) -> &'static str {
        match self {
            RowKind::Statement => "papers' statements",
            RowKind::Number => "papers' numbers",
            RowKind::Check => "checks of the set-up",
            RowKind::Cause => "causes",
            RowKind::Goal => "goals of Weir",
            RowKind::Model => "figures of models",
            RowKind::Ns2 => "values of ns-2",
        }
    }

    /// Returns whether a paper states it.
    pub const fn is_of_a_paper(self) -> bool {
        matches!(self, RowKind::Statement | RowKind::Number)
    }

    /// Returns whether such a row can be a reading of a fact.
    pub const fn may_read_a_fact(self) -> bool {
        matches!(self, RowKind::Statement | RowKind::Number | RowKind::Check)
    }

    /// Returns an error if a claim of this kind lacks what it needs, or has what it must not have.
    pub(super) fn check(self, claim: &Claim) -> Option<&'static str> {
        if self.is_of_a_paper() && claim.facts.is_empty() {
            return Some("a paper's statement or number needs `facts`, ids of facts.toml");
        }
        if !self.may_read_a_fact() && !claim.facts.is_empty() {
            return Some("`facts` are those of a paper; this row is of another kind");
        }
        if !self.may_read_a_fact() && claim.reading.is_some() {
            return Some("`reading` is of a row that reads a fact");
        }
        if claim.because.is_some() && self.is_of_a_paper() && claim.shown_by.is_none() {
            return Some("`because` needs `shown_by`, the row whose run shows the cause");
        }
        None
    }
}
