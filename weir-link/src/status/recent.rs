//! The last seconds of a link: rates, delays and times, as readers see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Amount, Delays};

/// How long the windows are that [`Recent`] tells of, and how old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Windows {
    /// The length of the window of [`Recent::second`]: about a second; 0 while there is none yet.
    pub second_ns: u64,
    /// That of [`Recent::minute`]: up to 70 s, less while the process is younger.
    pub minute_ns: u64,
    /// That of [`Recent::delay`]: about ten seconds, less while the process is younger.
    pub delay_ns: u64,
    /// The time since the windows ended.
    pub age_ns: u64,
}

impl Windows {
    /// The windows of several loops together: the shortest lengths, the greatest age.
    pub fn with(self, other: Self) -> Self {
        Self {
            second_ns: self.second_ns.min(other.second_ns),
            minute_ns: self.minute_ns.min(other.minute_ns),
            delay_ns: self.delay_ns.min(other.delay_ns),
            age_ns: self.age_ns.max(other.age_ns),
        }
    }
}

/// The rates and delays of a class in the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Recent {
    /// In the last second.
    pub second: Rates,
    /// In the last minute.
    pub minute: Rates,
    /// The delays of the last ten seconds.
    pub delay: Delays,
    /// How many packets these delays are of.
    pub delay_packets: u64,
    /// How far delays vary: their p99 less their p50, in µs.
    pub jitter_us: f64,
    /// The average queue length in the last second, in packets: the sum of the delays of what left
    /// in it, divided by its length (Little's law); `None` where delays are not measured.
    pub queue_packets: Option<f64>,
    /// The part of the last second, 0 to 1, in which packets waited and limits, its own or those of
    /// classes above it, held them back.
    pub overlimit: f64,
}

/// Rates in a window, bytes as the policy charges them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rates {
    /// Packets offered, a second.
    pub offered_pps: f64,
    /// Bits offered, a second.
    pub offered_bps: f64,
    /// Packets sent, a second.
    pub sent_pps: f64,
    /// Bits sent, a second.
    pub sent_bps: f64,
    /// Packets dropped, and frames lost before or behind the link, a second.
    pub lost_pps: f64,
    /// Bits of `sent_bps` that were sent on the account of other classes, a second.
    pub borrowed_bps: f64,
}

/// A class with children, which lends to those below it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct InnerStatus {
    /// The name of the class.
    pub name: String,
    /// The place of its parent in the list of classes with children; `None` directly below the
    /// link.
    pub parent: Option<u32>,
    /// The rate that it gets while all classes want more, in bit/s.
    pub share_bps: Option<f64>,
    /// The most that it may have by its own limits, in bit/s.
    pub ceiling_bps: Option<f64>,
    /// Its parameters, by name, as a policy writes their values.
    pub parameters: Vec<(String, String)>,
    /// The sums over all leaves below it, also those left out.
    pub sums: Sums,
}

/// The sums of leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Sums {
    /// The number of leaves that they are of.
    pub leaves: u64,
    /// Packets sent since the start.
    pub sent: Amount,
    /// Packets dropped, and frames lost before or behind the link, since the start.
    pub lost: u64,
    /// Packets that wait.
    pub backlog: Amount,
    /// Bits sent in the last second, a second.
    pub sent_bps: f64,
    /// Packets dropped and frames lost in the last second, a second.
    pub lost_pps: f64,
    /// Bits that the class, or the link, lent to them in the last second, a second.
    pub lent_bps: f64,
    /// The longest p99 of a leaf in the last ten seconds, in µs; `None` if nothing left in them, or
    /// where delays are not measured.
    pub p99_us: Option<f64>,
}

/// The bytes that a class borrowed from one lender.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Loan {
    /// The lender, the place of a class in the list of those with children; `None` for the link
    /// itself.
    pub lender: Option<u32>,
    /// Bytes since the start.
    pub bytes: u64,
    /// Bits a second in the last second.
    pub recent_bps: f64,
}

/// The policy of a direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PolicyStatus {
    /// Identifies its text: 16 hexadecimal digits. Empty where there is no policy.
    pub identity: String,
    /// How long it has been in force.
    pub age_ns: u64,
    /// The keyword of its scheduler.
    pub scheduler: String,
    /// The rate of the link, in bit/s.
    pub rate_bps: f64,
}

/// How many classes had frames inside, whenever it was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Found {
    /// How often a frame came and none was inside.
    pub none: u64,
    /// Frames that left while one class, their own, had frames inside.
    pub one: u64,
    /// Frames that left while several classes had frames inside.
    pub more: u64,
}
