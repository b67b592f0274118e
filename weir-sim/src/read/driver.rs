//! The keys for what lies between a scheduler and the wire of a network's link: `driver` and
//! `tick`.

use super::keys;
use crate::network::plan::{Complete, Driver};
use std::str::FromStr;
use weir_core::units::{Bytes, Duration};
use weir_policy::codes as common;
use weir_policy::finding::Report;
use weir_policy::reader::Node;

/// A driver's model and its switches.
pub(super) fn driver(node: &Node<'_>, report: &mut Report) -> Option<Driver> {
    let mut table = node.table(report)?.named("the driver").with_keys(keys::DRIVERS);
    table.required("model", report)?;
    let driver = match table.word("model", report)? {
        "en" => {
            let drain = table.value("drain", report);
            let start_on_receive = table.value("start_on_receive", report);
            let software = table.value_by("software", report, size);
            let hardware = table.value_by("hardware", report, size);
            Some(Driver::En {
                drain: drain?,
                start_on_receive: start_on_receive?,
                software: software?,
                hardware: hardware?,
            })
        }
        "fxp" => {
            let ring = table.value::<u64>("ring", report);
            let complete = table.one_of("complete", COMPLETES, report);
            Some(Driver::Fxp { complete: complete?, ring: ring? as u32 })
        }
        _ => Some(Driver::Line),
    };
    table.finish(report);
    driver
}

/// A buffer of a driver; of 0 bytes it holds one packet.
fn size(node: &Node<'_>, report: &mut Report) -> Option<Bytes> {
    let bytes = node.bytes(report)?;
    if bytes <= BUFFER_MAX {
        return Some(bytes);
    }
    let message = format!("{bytes} is more than {BUFFER_MAX}");
    let cure = format!("write at most {BUFFER_MAX}");
    report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
    None
}

/// The period of a clock.
pub(super) fn tick(node: &Node<'_>, report: &mut Report) -> Option<Duration> {
    let hertz = node.parsed::<Hertz>(report)?.0;
    Some(Duration::from_nanos(1_000_000_000 / hertz))
}

/// How often a second.
struct Hertz(u64);

impl FromStr for Hertz {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim_end().trim_end_matches("Hz").trim_end().parse();
        let hertz = number.ok().filter(|hertz| (1..=HERTZ_MAX).contains(hertz));
        hertz.map(Hertz).ok_or_else(|| {
            format!("{text:?} is not a frequency of 1 to {HERTZ_MAX} Hz; write one such as 100 Hz")
        })
    }
}

/// The words of `complete`.
const COMPLETES: &[(&str, Complete)] = &[("chain", Complete::Chain), ("packet", Complete::Packet)];
/// No kernel's clock is faster.
const HERTZ_MAX: u64 = 1_000_000;
/// More would be a queue that no dropper sees.
const BUFFER_MAX: Bytes = Bytes::new(64 << 20);
