//! Sharing in virtual time: the same tree, arrivals and classes as `sharing-live`, from 1 kbit/s to
//! 100 Gbit/s. Without timer and machine, any error is due to the rules.

use super::{Experiment, Own};
use crate::rows::Rows;
use crate::tree::{CASES, IP_LENGTHS, Sharing};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "sharing-sim",
    summary: "the same tree in virtual time, 1 kbit/s to 100 Gbit/s, against the fluid ideal",
    measure: None,
    own: Some(Own::simulated(run)),
};

/// The limit in percent of the fluid ideal, for every class.
const LIMIT: f64 = 0.5;
/// Links in bit/s, and the lengths of packets without the Ethernet header. A token bucket holds at
/// most one minute's worth of packets, so the slowest link has small ones.
const LINKS: [(u64, [u32; 2]); 8] = [
    (1_000, [200, 400]),
    (100_000, IP_LENGTHS),
    (5_000_000, IP_LENGTHS),
    (30_000_000, IP_LENGTHS),
    (100_000_000, IP_LENGTHS),
    (1_000_000_000, IP_LENGTHS),
    (10_000_000_000, IP_LENGTHS),
    (100_000_000_000, IP_LENGTHS),
];
/// Schedulers with such a tree, and the number of cases in which an excess goes to siblings first,
/// as in the ideal: `htb` divides it by quanta of leaves, `hfsc` as `cbq`.
const SUBJECTS: [(&str, usize); 3] = [("cbq", CASES.len()), ("htb", 1), ("hfsc", CASES.len())];

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    let links = LINKS.into_iter().flat_map(|(bits, lengths)| lengths.map(|ip| (bits, ip)));
    for (bits, ip) in links {
        for (scheduler, cases) in SUBJECTS {
            for case in &CASES[..cases] {
                let subject = format!("{scheduler} {} {ip} B, {}", rate_text(bits), case.name);
                rows.measure(&subject, |_| {
                    let sharing = Sharing::new(scheduler, bits, ip, case)?;
                    let simulated = sharing.simulate()?;
                    let row = sharing.worst(&subject, &sharing.ideal(), &simulated, LIMIT);
                    Ok::<_, String>([row])
                })?;
            }
        }
    }
    Ok(())
}

fn rate_text(bits: u64) -> String {
    let units = [(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s")];
    let fits = units.into_iter().find(|&(unit, _)| bits >= unit);
    fits.map_or_else(|| format!("{bits} bit/s"), |(unit, name)| format!("{} {name}", bits / unit))
}
