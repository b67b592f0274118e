//! Targets `altq`, `pf` and `tc`: read any bytes as another tool's configuration.
//!
//! Every finding points into the text; each statement has a fate with a reason; each resulting
//! policy checks; and an export reads back to a fixed point.

use crate::policy::check_findings;
use weir_import::export::{Filters, to_tc};
use weir_import::import::kernel::{self, Interface};
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

/// Checks the input as tc commands, and as what the kernel dumps.
pub fn tc(input: &[u8]) {
    check("tc", input);
    dump(input);
}

/// Reads messages of 64 bytes at most as a dump: whatever they hold, commands come of it, one a
/// line.
fn dump(input: &[u8]) {
    let parts: Vec<Vec<u8>> = input.chunks(64).take(64).map(<[u8]>::to_vec).collect();
    let (qdiscs, classes, filters) = (parts.clone(), parts.clone(), parts);
    let (name, ethernet, mtu, queue_length) = ("eth0".to_owned(), true, 1500, 1000);
    let one = Interface { name, ethernet, mtu, queue_length, qdiscs, classes, filters };
    let text = kernel::commands(&[one]);
    let words = ["#", "ip link", "qdisc add", "class add", "filter add"];
    for line in text.lines() {
        assert!(words.iter().any(|word| line.starts_with(word)), "{line}");
    }
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
