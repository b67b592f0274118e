//! The tests of policies and deployments, one program: findings, conversions, templates.

mod bounds;
mod circuits;
mod convert;
mod deployment;
mod diff;
mod documents;
mod join;
mod policy;
mod ranges;
#[path = "../../../weir-core/tests/it/common/seeds.rs"]
mod seeds;
mod template;
mod traps;
