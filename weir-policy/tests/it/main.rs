//! The tests of policies and deployments, one program: findings, conversions, templates.

mod convert;
mod deployment;
mod diff;
mod documents;
mod join;
mod policy;
mod ranges;
mod template;
mod traps;
