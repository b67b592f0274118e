//! A `cbq` class alone, with packets of 64 to 9180 bytes, must get its share at every size.
//!
//! The papers' CBQ, configured for another size than packets have, misses by up to 70 % [risso99
//! §6.3, Figure 22].

use super::{Experiment, Own};
use crate::rows::{Row, Rows};
use weir_core::ids::{Handle, LeafId};
use weir_core::link::Packet;
use weir_core::units::{Duration, Instant};
use weir_policy::policy;

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "packet-size",
    summary: "one cbq class of a quarter of the link, 64 to 9180-byte packets: its share",
    measure: None,
    own: Some(Own::simulated(run)),
};

/// The limit in percent of the share.
const LIMIT: f64 = 0.5;
const SIZES: [u32; 4] = [64, 540, 1500, 9180];
const POLICY: &str = r#"
[link]
rate = "2 Mbit/s"
scheduler = "cbq"
overhead = "ip"
mtu = "9180 B"

[class.alone]
rate = "500 kbit/s"
borrow = false
queue = { limit = "20 packets" }
match = [{ proto = "udp" }]

[class.rest]
rate = "1500 kbit/s"
default = true
"#;
/// 500 kbit/s, in bit/s.
const SHARE: f64 = 500e3;
/// Long enough that a packet of 9180 bytes is 0.04 % of the bytes sent.
const SECONDS: u64 = 400;

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    SIZES.into_iter().try_for_each(|size| {
        let subject = format!("{size} B");
        rows.measure(&subject, |_| {
            let rate = rate_alone(size)?;
            Ok::<_, String>([Row::rate(subject.clone(), rate, SHARE, LIMIT)])
        })
    })
}

/// Returns the rate of the class when it is always backlogged, in bit/s.
fn rate_alone(size: u32) -> Result<f64, String> {
    let policy = policy::parse(POLICY, "packet-size.toml").plan.ok_or("the policy is wrong")?;
    let leaf: LeafId = policy.leaf("alone").ok_or("there is no such class")?;
    let mut link = policy.link.build().map_err(|error| error.to_string())?;
    let packet = Packet::new(Handle(0), size + 14);
    let mut now = Instant::ZERO;
    let end = now.after(Duration::from_secs(SECONDS));
    let mut departures = Vec::new();
    let mut bytes = 0u64;
    for _ in 0..10 {
        link.offer(now, leaf, packet);
    }
    loop {
        let next = link.advance(now, &mut departures);
        for departure in departures.drain(..) {
            bytes += departure.charged.get();
            link.offer(now, leaf, packet);
        }
        match next.or(Some(now)).filter(|&next| next <= end) {
            Some(next) => now = next,
            None => return Ok(bytes as f64 * 8.0 / SECONDS as f64),
        }
    }
}
