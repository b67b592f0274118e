//! The results that a paper states: `papers/PAPER/facts.toml`, each sentence with a result, each
//! number and each cause. The list is of the paper's text alone; what Weir measures of it is in the
//! sheets.

use serde::{Deserialize, Serialize};

/// A result that a paper states.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    /// Its name, unique in the paper.
    pub id: String,
    /// Where the paper states it.
    pub at: String,
    /// Words, a number or a cause.
    pub kind: FactKind,
    /// The result, in Weir's words.
    pub says: String,
    /// Its numbers, in the order of the sentence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<f64>,
    /// The unit of the numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

/// The kind of a result that a paper states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FactKind {
    /// A result in words.
    Statement,
    /// A result in numbers.
    Number,
    /// Why, as the paper explains it.
    Cause,
}

/// The file `facts.toml` of a paper.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Facts {
    fact: Vec<Fact>,
}

impl Fact {
    /// Reads the facts of a paper.
    ///
    /// # Errors
    /// When the text is no such list, or a number has no unit or a unit no number.
    pub(super) fn parse_all(text: &str, paper: &str) -> Result<Vec<Self>, String> {
        let place = format!("papers/{paper}/facts.toml");
        let Facts { fact: facts } =
            toml::from_str(text).map_err(|error| format!("{place}: {error}"))?;
        for fact in &facts {
            let has_numbers = fact.kind == FactKind::Number;
            if fact.values.is_empty() == has_numbers || fact.unit.is_some() != has_numbers {
                return Err(format!("{place}: {}: `values` and `unit` go with numbers", fact.id));
            }
        }
        Ok(facts)
    }
}

impl FactKind {
    /// Returns its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Statement => "statement",
            Self::Number => "number",
            Self::Cause => "cause",
        }
    }
}
