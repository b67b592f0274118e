//! Sharing, live: the three-level tree of `weir-lab/src/tree.rs`, one or two leaves idle in turn.
//!
//! `cbq` is compared with the fluid ideal in which siblings share an excess first; `htb` with the
//! result of its own rules for the same arrivals in virtual time.

use super::{Experiment, Own};
use crate::rows::{Options, Row, Rows};
use crate::tree::{CASES, IP_LENGTHS, MBITS, SCHEDULERS, Sharing};
use weir_bench::rig;

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "sharing-live",
    summary: "a three-level tree at 30 and 100 Mbit/s with idle leaves: each class at the receiver",
    measure: None,
    own: Some(Own::live(run)),
};

/// The limit in percent of the expected rate, for every class.
const LIMIT: f64 = 1.0;

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    for (scheduler, mbit, ip) in links() {
        for case in CASES {
            let subject = format!("{scheduler} {mbit} Mbit/s {ip} B, {}", case.name);
            rows.measure(&subject, |options| {
                let sharing = Sharing::new(scheduler, mbit * 1_000_000, ip, case)?;
                worst(&subject, &sharing, options).map(Some)
            })?;
        }
    }
    Ok(())
}

/// Returns every scheduler at every rate with every length.
fn links() -> impl Iterator<Item = (&'static str, u64, u32)> {
    let rates = |scheduler| MBITS.into_iter().map(move |mbit| (scheduler, mbit));
    let links = SCHEDULERS.into_iter().flat_map(rates);
    links.flat_map(|(scheduler, mbit)| IP_LENGTHS.into_iter().map(move |ip| (scheduler, mbit, ip)))
}

/// Measures one case; the class that is furthest off decides.
fn worst(subject: &str, sharing: &Sharing, options: &Options) -> Result<Row, String> {
    let expected = sharing.expected()?;
    let measured = rig::run(&sharing.setup(options.duration)).map_err(|why| why.to_string())?;
    Ok(sharing.worst(subject, &expected, &sharing.rates(&measured), LIMIT))
}
