//! Exports policies to other tools' configurations, and reports what cannot be expressed there.
//!
//! Invariant: the output reads back, by [`crate::import`], to a policy that exports to it.

pub mod state;
mod tc;
mod tc_filters;
mod tc_queues;
mod writer;

pub use tc::{to_tc, to_tc_on};

use serde::Serialize;

/// The kind of filters to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Filters {
    /// `flower`, which parses headers as Weir does.
    #[default]
    Flower,
    /// `u32`, which reads fixed offsets; available in every kernel.
    U32,
}

/// A part of the policy that the export leaves out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Loss {
    /// A class, a rule or a key.
    pub what: String,
    /// Why it cannot be expressed.
    pub why: String,
}

/// A class of the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ExportedClass {
    /// Its name in the policy.
    pub name: String,
    /// Its handle, such as `1:10`.
    pub id: String,
    /// Whether packets wait in it.
    pub leaf: bool,
    /// Its rate in bit/s, where the discipline has one.
    pub rate: Option<u64>,
    /// Its ceiling in bit/s, where the discipline has one.
    pub ceil: Option<u64>,
}

/// A policy as commands of `tc`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Export {
    /// Lines for `tc -batch`; those that begin with `#` name classes.
    pub lines: Vec<String>,
    /// The classes, parents before their children.
    pub classes: Vec<ExportedClass>,
    /// The parts of the policy that are lost.
    pub lost: Vec<Loss>,
}

impl Export {
    /// Returns a shell script that first deletes the root qdisc of `device`.
    pub fn script(&self, device: &str) -> String {
        let mut text =
            format!("#!/bin/sh -e\ntc qdisc del dev {device} root 2>/dev/null || true\n");
        for line in &self.lines {
            if !line.starts_with('#') {
                text.push_str("tc ");
            }
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    /// Returns the input of `tc -batch`.
    pub fn batch(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }
}
