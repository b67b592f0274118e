//! Compares an exported policy in the kernel with Weir's simulation of it: the three-level tree of
//! `weir-lab/src/tree.rs`, set up by the lines of `weir export tc`, class by class.
//!
//! Packets are at least 400 µs apart; from that spacing on the kernel is exact (`htb_kernel`).

use super::{Experiment, Own};
use crate::rows::{Options, Row, Rows};
use crate::tree::{CASES, Case, HEADER, Sharing};
use std::time::Duration;
use weir_bench::rig::{self, Setup};
use weir_import::export::{self, Filters};
use weir_testbed::RIGHT;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "htb-export",
    summary: "exported policies in the kernel's HTB against Weir's simulation of them",
    measure: None,
    own: Some(Own::live(run)),
};

/// The limit in percent.
const LIMIT: f64 = 2.0;
/// Rate of the link in Mbit/s, and length of packets without the Ethernet header.
const LINKS: [(u64, u32); 2] = [(10, 512), (30, 1500)];
const WARMUP: Duration = Duration::from_secs(1);

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    for (mbit, ip) in LINKS {
        for case in CASES {
            let subject = format!("{mbit} Mbit/s {ip} B, {}", case.name);
            rows.measure(&subject, |options| measure(&subject, (mbit, ip), case, options))?;
        }
    }
    Ok(())
}

fn measure(
    subject: &str,
    (mbit, ip): (u64, u32),
    case: &Case,
    options: &Options,
) -> Result<Vec<Row>, String> {
    let sharing = Sharing::new("htb", mbit * 1_000_000, ip + HEADER, case)?;
    let export = export::to_tc(&sharing.policy, RIGHT, Filters::U32)?;
    let commands = export.lines.into_iter().filter(|line| !line.starts_with('#'));
    let setup = Setup {
        plan: &sharing.policy.link,
        classifier: sharing.policy.classifier(),
        leaf_names: sharing.leaf_names(),
        flows: &sharing.flows,
        frame_length: sharing.frame as usize,
        warmup: WARMUP,
        duration: options.duration,
    };
    let measured = rig::run_kernel(&setup, &commands.collect::<Vec<_>>())?;
    if measured.receiver_lost > 0 {
        let lost = measured.receiver_lost;
        return Err(format!("{subject}: the receiver lost {lost} frames; try again"));
    }
    let simulated = sharing.simulate()?;
    let row = |(index, name): (usize, &String)| {
        let port = rig::FIRST_PORT + index as u16;
        let expected = *simulated.get(&port)?;
        let subject = format!("{subject}: {name}, kernel to simulation");
        Some(Row::rate(subject, measured.rate(port, sharing.frame), expected, LIMIT))
    };
    Ok(sharing.leaf_names().iter().enumerate().filter_map(row).collect())
}
