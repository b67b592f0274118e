//! The hosts of a class in a status: the largest, as many as a reader asked for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_core::queue::{HostAccount, HostAccounts};

use super::Amount;

/// The hosts of a class in which hosts take turns. Counts are of the time since the policy came
/// into force, and of what joined the queue: what was lost before is counted for the class alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostsStatus {
    /// Those that sent most bytes, first.
    pub rows: Vec<HostStatus>,
    /// How many hosts the class knows.
    pub known: u32,
    /// All hosts that are not listed, those that are known no more included.
    pub others: HostStatus,
    /// Packets that shared one queue, since more hosts or flows were busy than the class has places
    /// for.
    pub crowded: u64,
}

/// One host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostStatus {
    /// Its address; empty for packets without one, and for several hosts.
    pub address: String,
    /// Packets sent.
    pub sent: Amount,
    /// Packets dropped.
    pub dropped: Amount,
    /// Packets that wait.
    pub backlog: Amount,
    /// The mean delay in the queue of packets that left, in µs.
    pub delay_mean_us: f64,
    /// The longest.
    pub delay_max_us: f64,
}

impl HostsStatus {
    /// At most so many of these hosts.
    pub(super) fn of(accounts: &HostAccounts, most: u32) -> Self {
        let (shown, more) = accounts.hosts.split_at(accounts.hosts.len().min(most as usize));
        let others = more.iter().fold(accounts.others, |sum, host| sum.plus(host));
        Self {
            rows: shown.iter().map(HostStatus::of).collect(),
            known: accounts.known,
            others: HostStatus { address: String::new(), ..HostStatus::of(&others) },
            crowded: accounts.crowded,
        }
    }
}

impl HostStatus {
    fn of(account: &HostAccount) -> Self {
        let address = account.host.address();
        Self {
            address: address.map_or_else(String::new, |address| address.to_string()),
            sent: account.sent.into(),
            dropped: account.dropped.into(),
            backlog: account.backlog.into(),
            delay_mean_us: account.delay_mean.as_nanos() as f64 / 1e3,
            delay_max_us: account.delay_max.as_nanos() as f64 / 1e3,
        }
    }
}
