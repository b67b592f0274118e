//! Sharing in virtual time: the same tree, arrivals and classes as `sharing-live`, and `cbq` at
//! other rates too. No timer and no machine: what is off here is off by rule.

use super::{Experiment, Options, Row};
use crate::tree::{CASES, HEADER, IP_LENGTHS, Sharing};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "sharing-sim",
    summary: "the same tree in virtual time, cbq against the fluid ideal",
    live: false,
    run,
};

/// Percent of the fluid ideal, for every class.
const LIMIT: f64 = 0.5;
const MBITS: [u64; 4] = [5, 30, 100, 1000];

fn run(options: &Options, progress: &mut dyn FnMut(&Row)) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for mbit in MBITS {
        for ip in IP_LENGTHS {
            for case in CASES {
                let subject = format!("cbq {mbit} Mbit/s {ip} B, {}", case.name);
                if !options.wants(&subject) {
                    continue;
                }
                let sharing = Sharing::new("cbq", mbit, ip + HEADER, case)?;
                let simulated = sharing.simulate()?;
                let rate = |port: u16| simulated.get(&port).copied().unwrap_or(0.0);
                let row = sharing.worst(subject, &sharing.ideal(case), rate, LIMIT);
                progress(&row);
                rows.push(row);
            }
        }
    }
    Ok(rows)
}
