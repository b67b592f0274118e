//! Targets of the languages of `weir import`: read any bytes as another tool's configuration.
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

/// Checks the input as OpenWrt's configuration of sqm.
pub fn sqm(input: &[u8]) {
    check("sqm", input);
}

/// Checks the input as a .network file of systemd.
pub fn systemd(input: &[u8]) {
    check("systemd", input);
}

/// Checks the input as an export of RouterOS.
pub fn routeros(input: &[u8]) {
    check("routeros", input);
}

/// Checks the input as a configuration of Cisco IOS.
pub fn mqc(input: &[u8]) {
    check("mqc", input);
}

/// Checks the input as LibreQoS's ShapedDevices.csv, as its network.json, and as one beside a list.
pub fn libreqos(input: &[u8]) {
    check("libreqos", input);
    let network = Some(String::from_utf8_lossy(input).into_owned());
    let list = "1,a,1,b,AP_A,,10.0.0.1,,1,1,5,5,\n";
    read("libreqos", list.as_bytes(), &Options { network, ..Options::default() });
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
    // Whatever it is, it is told without a fault.
    import::known::of(&String::from_utf8_lossy(input));
    read(language, input, &Options::default());
}

fn read(language: &str, input: &[u8], options: &Options) {
    let language = import::find(language).expect("it is a language");
    let outcome = import::read(language, input, "f", options);
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
