//! Compares an exported policy in the kernel with Weir's simulation of it: the three-level tree of
//! `weir-lab/src/tree.rs`, set up by the lines of `weir export tc`, class by class.
//!
//! Packets are at least 400 µs apart; from that spacing on the kernel is exact (`htb_kernel`).

use super::{Experiment, Own};
use crate::rows::{Options, Row, Rows};
use crate::tree::{CASES, Sharing};
use weir_bench::rig;
use weir_import::export::{self, Filters};
use weir_testbed::RIGHT;

/// The entry of this experiment in the registry.
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

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    for (mbit, ip) in LINKS {
        for case in CASES {
            let subject = format!("{mbit} Mbit/s {ip} B, {}", case.name);
            rows.measure(&subject, |options| {
                let sharing = Sharing::new("htb", mbit * 1_000_000, ip, case)?;
                measure(&subject, &sharing, options)
            })?;
        }
    }
    Ok(())
}

fn measure(subject: &str, sharing: &Sharing, options: &Options) -> Result<Vec<Row>, String> {
    let export = export::to_tc(&sharing.policy, RIGHT, Filters::U32)?;
    let lines: Vec<_> = export.lines.into_iter().filter(|line| !line.starts_with('#')).collect();
    let measured = rig::run_kernel(&sharing.setup(options.duration), &lines);
    let measured = sharing.rates(&measured.map_err(|why| why.to_string())?);
    let row = |(port, expected): (u16, f64)| {
        let name = sharing.leaf_of(port);
        let subject = format!("{subject}: {name}, kernel to simulation");
        Row::rate(subject, measured.get(&port).copied().unwrap_or(0.0), expected, LIMIT)
    };
    Ok(sharing.simulate()?.into_iter().map(row).collect())
}
