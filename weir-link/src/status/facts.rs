//! The facts about a class that readers of a status are told beside its counts.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_core::parameter::Value;
use weir_core::sched::ClassSpec;
use weir_policy::fluid;

use super::recent::{InnerStatus, Sums};

/// The facts about a class beside its counts, as [`InnerStatus`] tells them.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The name of the class.
    pub name: String,
    /// The rate that it gets while all classes want more, in bit/s.
    pub share_bps: Option<f64>,
    /// The most that it may have by its own limits, in bit/s.
    pub ceiling_bps: Option<f64>,
    /// Its parameters, by name; classes of a shape that have the same ones share them.
    pub parameters: Parameters,
}

/// Names of parameters, and their values as a policy writes them.
type Parameters = Arc<[(String, String)]>;

impl Facts {
    /// The facts about a class that gets so much while all want more.
    pub fn of(spec: &ClassSpec, share_bps: Option<f64>) -> Self {
        let limit = Some(fluid::limit(spec)).filter(|limit| limit.is_finite());
        let parameter = |(name, value): &(&str, Value)| ((*name).to_owned(), text(value));
        Self {
            name: spec.name.clone(),
            share_bps,
            ceiling_bps: limit,
            parameters: spec.params.iter().map(parameter).collect(),
        }
    }

    /// Returns what is told of a class with this parent and these sums of the leaves below it.
    pub(super) fn told(&self, parent: Option<u32>, sums: Sums) -> InnerStatus {
        let Self { name, share_bps, ceiling_bps, parameters } = self;
        InnerStatus {
            name: name.clone(),
            parent,
            share_bps: *share_bps,
            ceiling_bps: *ceiling_bps,
            parameters: parameters.to_vec(),
            sums,
        }
    }
}

/// Returns those of the known parameters that equal `own`, which are known from now on.
pub(super) fn shared(known: &mut BTreeSet<Parameters>, own: &Parameters) -> Parameters {
    if let Some(same) = known.get(own) {
        return Arc::clone(same);
    }
    known.insert(Arc::clone(own));
    Arc::clone(own)
}

fn text(value: &Value) -> String {
    match value {
        Value::Quantity(quantity) => quantity.to_string(),
        Value::Flag(flag) => flag.to_string(),
        Value::Choice(word) => (*word).to_owned(),
    }
}
