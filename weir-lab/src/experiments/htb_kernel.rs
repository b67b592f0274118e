//! Compares Weir's live link with the kernel's own scheduler of the same name: the three-level tree
//! and the traffic of `weir-lab/src/tree.rs` through both, one after the other, in private
//! networks.
//!
//! With all leaves backlogged both must follow the fluid ideal. Where the kernel does, Weir must
//! follow the kernel; elsewhere the figures are reported. The kernel follows it with packets at
//! least 400 µs apart and all leaves backlogged, and is off by 3 to 10 % at 120 to 140 µs; with
//! one borrower in the right branch it gives that branch less than siblings-first sharing at any
//! spacing.

use super::{Experiment, Own};
use crate::rows::{Options, Row, Rows};
use crate::tree::{CASES, LEAVES, Sharing, tc_lines};
use weir_bench::rig::{self, Measured};
use weir_host::error::SystemError;

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "htb-kernel",
    summary: "the tree of sharing-live through the kernel's HTB and through Weir's, class by class",
    measure: None,
    own: Some(Own::live(run)),
};

/// The limit in percent, between Weir and the kernel and between the kernel and the ideal.
const LIMIT: f64 = 1.0;
/// Rate of the link, length of packets without the Ethernet header, and the number of cases.
const LINKS: [(u64, u32, usize); 4] =
    [(10, 512, CASES.len()), (30, 1500, CASES.len()), (30, 512, 1), (100, 1500, 1)];
/// From this spacing of packets on the kernel is exact with all leaves backlogged: 421 and 404 µs
/// are.
const SPACING_NS: f64 = 400_000.0;

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    for (mbit, ip, cases) in LINKS {
        for case in &CASES[..cases] {
            let subject = format!("{mbit} Mbit/s {ip} B, {}", case.name);
            rows.measure(&subject, |options| {
                let sharing = Sharing::new("htb", mbit * 1_000_000, ip, case)?;
                measure(&subject, &sharing, mbit, options)
            })?;
        }
    }
    Ok(())
}

fn measure(
    subject: &str,
    sharing: &Sharing,
    mbit: u64,
    options: &Options,
) -> Result<Vec<Row>, String> {
    let setup = sharing.setup(options.duration);
    let text = |error: SystemError| error.to_string();
    let kernel = rig::run_kernel(&setup, &tc_lines(mbit)).map_err(text)?;
    let weir = rig::run(&setup).map_err(text)?;
    let spaced = f64::from(sharing.frame) * 8e9 / (mbit as f64 * 1e6) >= SPACING_NS;
    let judged = Judged { subject, spaced, exact: spaced && sharing.flows.len() == LEAVES };
    let ideal = sharing.ideal();
    let total = |measured: &Measured| measured.total_rate(sharing.frame);
    let all = ideal.values().sum();
    let mut rows = judged.rows("total", total(&weir), total(&kernel), all).to_vec();
    let (kernel, weir) = (sharing.rates(&kernel), sharing.rates(&weir));
    for (port, ideal) in ideal {
        rows.extend(judged.rows(sharing.leaf_of(port), weir[&port], kernel[&port], ideal));
    }
    Ok(rows)
}

/// The claims that can be made.
struct Judged<'a> {
    subject: &'a str,
    /// Whether packets are far enough apart for the kernel.
    spaced: bool,
    /// Whether the kernel was exact here.
    exact: bool,
}

impl Judged<'_> {
    /// Makes the rows that compare both with the ideal, and Weir with the kernel.
    fn rows(&self, name: &str, weir: f64, kernel: f64, ideal: f64) -> [Row; 3] {
        let limit = |claimed: bool| if claimed { LIMIT } else { f64::INFINITY };
        let subject = |side: &str| format!("{}: {name}, {side}", self.subject);
        let kernel_row = Row::rate(subject("kernel to ideal"), kernel, ideal, limit(self.exact));
        let own_row = Row::rate(subject("Weir to ideal"), weir, ideal, limit(self.exact));
        let claimed = self.spaced && kernel_row.deviation.abs() <= LIMIT;
        let weir_row = Row::rate(subject("Weir to kernel"), weir, kernel, limit(claimed));
        [kernel_row, own_row, weir_row]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks limits and verdicts of the rows; rates in percent of the ideal.
    fn check(judged: (bool, bool), kernel: f64, weir: f64, expected: [(bool, bool); 3]) {
        let (spaced, exact) = judged;
        let rows = Judged { subject: "x", spaced, exact }.rows("a", weir, kernel, 100.0);
        let real = rows.map(|row| (row.limit.is_finite(), row.holds));
        assert_eq!(real, expected, "{judged:?} {kernel} {weir}");
    }

    #[test]
    fn weir_is_compared_with_a_kernel_that_follows_the_ideal() {
        let (claim, broken, told) = ((true, true), (true, false), (false, true));
        check((true, true), 100.5, 99.8, [claim, claim, claim]);
        check((true, true), 100.5, 98.0, [claim, broken, broken]);
        check((true, true), 103.0, 100.0, [broken, claim, told]);
        check((true, false), 150.0, 100.0, [told, told, told]);
        check((true, false), 100.0, 102.0, [told, told, broken]);
        check((false, false), 100.0, 97.0, [told, told, told]);
    }
}
