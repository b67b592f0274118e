//! Sharing, live: the three-level tree of `weir-lab/src/tree.rs`, one or two leaves idle in turn.
//!
//! `cbq` is compared with the fluid ideal in which siblings share an excess first; `htb` with the
//! result of its own rules for the same arrivals in virtual time.

use super::{Experiment, Own};
use crate::rows::{Options, Row, Rows};
use crate::tree::{CASES, Case, HEADER, IP_LENGTHS, MBITS, SCHEDULERS, Sharing};
use weir_bench::rig::{self, Setup};

/// See the module.
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
                let sharing = Sharing::new(scheduler, mbit * 1_000_000, ip + HEADER, case)?;
                measure(&subject, &sharing, case, options).map(Some)
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
fn measure(
    subject: &str,
    sharing: &Sharing,
    case: &Case,
    options: &Options,
) -> Result<Row, String> {
    let expected = sharing.expected(case)?;
    let measured = rig::run(Setup {
        plan: &sharing.policy.link,
        classifier: sharing.policy.classifier(),
        leaf_names: sharing.leaf_names(),
        flows: &sharing.flows,
        frame_length: sharing.frame as usize,
        warmup: std::time::Duration::from_secs(1),
        duration: options.duration,
    })?;
    if measured.receiver_lost > 0 {
        let lost = measured.receiver_lost;
        return Err(format!("{subject}: the receiver lost {lost} frames; nothing was measured"));
    }
    let rate = |port: u16| measured.rate(port, sharing.frame);
    Ok(sharing.worst(subject.to_owned(), &expected, rate, LIMIT))
}
