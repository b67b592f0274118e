//! Targets `altq`, `pf` and `tc`: read any bytes as another tool's configuration.
//!
//! Every finding points into the text; each statement has a fate with a reason; each resulting
//! policy checks; and an export reads back to a fixed point.

use crate::policy::check_findings;
use weir_import::export::{Filters, to_tc};
use weir_import::import::{self, Fate, Options};
use weir_policy::policy;

/// Checks the input as an altq.conf.
pub fn altq(input: &[u8]) {
    check("altq", input);
}

/// Checks the input as a pf.conf.
pub fn pf(input: &[u8]) {
    check("pf", input);
}

/// Checks the input as tc commands.
pub fn tc(input: &[u8]) {
    check("tc", input);
}

fn check(language: &str, input: &[u8]) {
    let language = import::find(language).expect("it is a language");
    let outcome = import::read(language, input, "f", &Options::default());
    check_findings(&outcome);
    let Some(import) = &outcome.plan else { return };
    assert!(!import.policies.is_empty(), "without a policy an error says why");
    for line in &import.lines {
        let said = line.fate == Fate::Kept || !line.note.is_empty();
        assert!(said, "{line:?} says how or why");
    }
    for one in &import.policies {
        let checked = policy::parse(&one.policy, "p");
        assert!(!checked.failed(), "{}\n{:#?}", one.policy, checked.findings);
        let Some(plan) = checked.plan else { continue };
        let Ok(export) = to_tc(&plan, "eth0", Filters::Flower) else { continue };
        check_back(&export.batch());
    }
}

fn check_back(batch: &str) {
    let language = import::find("tc").expect("it is a language");
    let back = import::read(language, batch.as_bytes(), "f", &Options::default());
    assert!(!back.failed(), "{batch}\n{:#?}", back.findings);
}
