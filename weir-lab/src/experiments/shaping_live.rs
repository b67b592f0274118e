//! Shaping accuracy, live: one token-bucket class at 5, 30 and 100 Mbit/s with small, medium and
//! full packets, offered more than its rate; the rate at the receiver by length on the wire.
//!
//! Rebuilds the accuracy table of [benita §4], which the paper measured in the kernel.

use super::{Experiment, Own};
use crate::rig::{self, Flow, Setup};
use crate::rows::{Options, Row};
use std::time::Duration;
use weir_core::units::Rate;
use weir_policy::policy;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "shaping-live",
    summary: "one htb class at 5, 30, 100 Mbit/s, 64 to 1500 B packets: the rate at the receiver",
    measure: None,
    own: Some(Own { live: true, takes_file: false, run }),
};

/// The limit in percent of the rate.
const LIMIT: f64 = 0.1;
const RATES_MBIT: [u64; 3] = [5, 30, 100];
const IP_LENGTHS: [u32; 3] = [64, 512, 1500];
/// Bytes that the policy counts beside the IP packet.
const HEADER: u32 = 14;

fn run(options: &Options, progress: &mut dyn FnMut(&Row)) -> Result<Vec<Row>, String> {
    let _first = rig::prepare()?;
    let mut rows = Vec::new();
    for mbit in RATES_MBIT {
        for ip in IP_LENGTHS {
            let subject = format!("{mbit} Mbit/s, {ip} B");
            if options.wants(&subject) {
                rows.push(measure(subject, mbit * 1_000_000, ip + HEADER, options.duration)?);
                progress(&rows[rows.len() - 1]);
            }
        }
    }
    Ok(rows)
}

fn measure(subject: String, bits: u64, frame: u32, duration: Duration) -> Result<Row, String> {
    // The line is ten times as fast, so that the class shapes, not the line. The burst is the
    // default.
    let text = format!(
        "[link]\nrate = \"{} bit/s\"\nscheduler = \"htb\"\n\n\
         [class.all]\nrate = \"{bits} bit/s\"\ndefault = true\n\
         queue = {{ limit = \"1000 packets\" }}\n",
        bits * 10
    );
    let policy = policy::parse(&text, "shaping.toml").plan.ok_or("the policy is wrong")?;
    let offered = Rate::new(bits * OFFERED_PERCENT / 100).ok_or("the rate is zero")?;
    let measured = rig::run(Setup {
        plan: &policy.link,
        classifier: policy.classifier(),
        leaf_names: vec!["all".to_owned()],
        flows: &[Flow { port: rig::FIRST_PORT, rate: offered }],
        frame_length: frame as usize,
        // A full queue of the slowest row takes 2.5 s to build up and to drain.
        warmup: Duration::from_secs(1),
        duration,
    })?;
    Ok(Row::rate(subject, measured.total_rate(frame), bits as f64, LIMIT))
}

/// Enough to keep the queue backlogged although the sender stalls sometimes.
const OFFERED_PERCENT: u64 = 120;
