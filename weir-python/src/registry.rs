//! Returns the registries' descriptors as rows. Nothing here lists an algorithm or a parameter: a
//! new line in a registry of the core appears in Python automatically.

use serde::Serialize;
use weir_core::parameter::{Kind, Parameter, Scope};
use weir_core::queue::DROPPERS;
use weir_core::sched::{Cost, Promises, SCHEDULERS};

/// The descriptor of a scheduler or a dropper.
#[derive(Serialize)]
pub struct AlgorithmRow {
    keyword: &'static str,
    summary: &'static str,
    parameters: Vec<ParameterRow>,
    sources: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    promises: Option<PromisesRow>,
}

#[derive(Serialize)]
struct ParameterRow {
    name: &'static str,
    scope: &'static str,
    kind: KindRow,
    default: Option<&'static str>,
    summary: &'static str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum KindRow {
    Quantity { dimension: &'static str, example: &'static str },
    Number { min: u64, max: u64 },
    Size { min: u64, max: u64 },
    Flag,
    Choice { words: &'static [&'static str] },
    Limit,
}

#[derive(Serialize)]
struct PromisesRow {
    work_conserving: bool,
    hierarchical: bool,
    cost: &'static str,
}

/// Returns every scheduler, in the order of the registry.
pub fn schedulers() -> Vec<AlgorithmRow> {
    let row = |entry: &weir_core::sched::Entry| {
        let descriptor = entry.descriptor;
        AlgorithmRow {
            keyword: descriptor.keyword,
            summary: descriptor.summary,
            parameters: parameters(descriptor.parameters),
            sources: descriptor.sources,
            promises: Some(promises(descriptor.promises)),
        }
    };
    SCHEDULERS.iter().map(row).collect()
}

/// Returns every dropper, in the order of the registry: the first is the default.
pub fn droppers() -> Vec<AlgorithmRow> {
    let row = |descriptor: &weir_core::queue::DropperDescriptor| AlgorithmRow {
        keyword: descriptor.keyword,
        summary: descriptor.summary,
        parameters: parameters(descriptor.parameters),
        sources: descriptor.sources,
        promises: None,
    };
    DROPPERS.iter().map(row).collect()
}

fn parameters(parameters: &[Parameter]) -> Vec<ParameterRow> {
    let row = |parameter: &Parameter| ParameterRow {
        name: parameter.name,
        scope: match parameter.scope {
            Scope::Link => "link",
            Scope::Class => "class",
            Scope::Leaf => "leaf",
            Scope::Queue => "queue",
            Scope::Meter => "meter",
        },
        kind: kind(parameter.kind),
        default: parameter.default,
        summary: parameter.summary,
    };
    parameters.iter().map(row).collect()
}

fn kind(kind: Kind) -> KindRow {
    match kind {
        Kind::Quantity(dimension) => {
            KindRow::Quantity { dimension: dimension.name(), example: dimension.example() }
        }
        Kind::Number(min, max) => KindRow::Number { min, max },
        Kind::Size(min, max) => KindRow::Size { min, max },
        Kind::Flag => KindRow::Flag,
        Kind::Choice(words) => KindRow::Choice { words },
        Kind::Limit => KindRow::Limit,
    }
}

fn promises(promises: Promises) -> PromisesRow {
    PromisesRow {
        work_conserving: promises.work_conserving,
        hierarchical: promises.hierarchical,
        cost: match promises.cost {
            Cost::Constant => "constant",
            Cost::Logarithmic => "logarithmic",
            Cost::Linear => "linear",
        },
    }
}
