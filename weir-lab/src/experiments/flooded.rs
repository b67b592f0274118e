//! `weir up` between two hosts with a flood of 300 000 frames a second through it, for experiments
//! that put a strain on it.
//!
//! The link is set up as one for such rates: it and the sender each have a processor of their own,
//! and the link goes before all other programs. Invariant: it ends with this, and its folder goes.

use crate::program;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use weir_bench::rig;
use weir_host::netlink::Netlink;
use weir_link::status::Status;
use weir_testbed::{END, Host, RIGHT, Scene};
use weir_traffic::flood::{Flood, FloodPlan};

/// A link that carries a flood of small frames.
pub(super) struct Flooded(pub Scene);

impl Flooded {
    /// Starts it with this many classes; `extra` are lines of the deployment.
    pub fn start(classes: u32, extra: &str) -> Result<Self, String> {
        let plan = program::plan_first(&policy(classes))?;
        let plan = plan.deployment("receive_ring = \"16384 packets\"").deployment(extra);
        let mut scene = plan.prepare_in(rig::quiet_testbed().map_err(text)?)?;
        // Those who look at its page are in its network.
        let network = &scene.testbed.weir;
        network.run(|| Netlink::open()?.set_up("lo", true)).map_err(text)?.map_err(text)?;
        scene.start()?;
        Ok(Self(scene))
    }

    /// Returns the file that has the address of its page, if it has one.
    pub fn page(&self) -> PathBuf {
        self.0.socket().with_extension("token")
    }

    /// Sends frames for so long; returns how many.
    pub fn flood(&self, duration: Duration) -> Result<u64, String> {
        Ok(self.begin_flood(Some(duration), FRAMES_PER_SECOND)?.wait().sent)
    }

    /// Begins to send so many frames a second, for so long or until it is finished.
    pub fn begin_flood(&self, duration: Option<Duration>, rate: u64) -> Result<Flood, String> {
        let to = Host::Server.ip4();
        let plan = FloodPlan { rate: Some(rate), duration, ..FloodPlan::raw(END, to, REST_PORT) };
        let begin = || {
            // The flood's thread takes its processor from this one.
            rig::pin_traffic()?;
            Flood::start(&plan)
        };
        self.0.testbed.client.run(begin).map_err(text)?.map_err(text)
    }

    /// Returns the status once no frame waits any more.
    pub fn settled(&self) -> Result<Status, String> {
        let received = Cell::new(0);
        let is_empty = |status: &Status| {
            // What waits in a ring of the kernel is received between two looks.
            let now = status.ports.iter().map(|port| port.received).sum::<u64>();
            let classes = &status.lanes[0].classes;
            received.replace(now) == now && classes.iter().all(|class| class.backlog.packets == 0)
        };
        // Clients that were just told to stop may still have all places.
        Ok(self.0.await_status("no frame waits", is_empty)?)
    }
}

/// Returns how many frames passed the link.
pub(super) fn passed(status: &Status) -> u64 {
    status.ports.iter().find(|port| port.interface == RIGHT).map_or(0, |port| port.sent)
}

/// Returns the frames that were lost at the ports or in the classes, by place and cause.
pub(super) fn lost(status: &Status) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for port in &status.ports {
        let causes = port.lost_in_by_cause.iter().chain(&port.lost_out_by_cause);
        for (cause, frames) in causes.filter(|(_, frames)| *frames > 0) {
            *sums.entry(format!("{cause} at {}", port.interface)).or_default() += frames;
        }
    }
    for class in status.lanes.iter().flat_map(|lane| &lane.classes) {
        for (cause, amount) in class.dropped.iter().filter(|(_, amount)| amount.packets > 0) {
            *sums.entry(format!("{cause} in {}", class.name)).or_default() += amount.packets;
        }
    }
    sums
}

/// As [`lost`], in words.
pub(super) fn losses(status: &Status) -> String {
    let lost = lost(status);
    if lost.is_empty() {
        return "nowhere in the link".to_owned();
    }
    let words: Vec<_> = lost.iter().map(|(place, frames)| format!("{frames} {place}")).collect();
    words.join(", ")
}

/// A policy of so many classes that never limits.
fn policy(classes: u32) -> String {
    let mut policy = "[link]\nrate = \"40 Gbit/s\"\nscheduler = \"drr\"\n".to_owned();
    for class in 1..classes {
        let port = 10_000 + class;
        let rule = format!("{{ proto = \"udp\", dport = \"{port}\" }}");
        policy += &format!("[class.c{class}]\nmatch = [{rule}]\n");
    }
    policy + "[class.rest]\ndefault = true\nqueue = { limit = \"4000 packets\" }\n"
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

pub const FRAMES_PER_SECOND: u64 = 300_000;
/// A port that no class but the last one names.
const REST_PORT: u16 = 9;
