//! A bridge between two hosts whose policies change while it runs.

use std::path::Path;
use std::time::{Duration, Instant};
use weir_bench::rig;
use weir_host::netns::NetNs;
use weir_link::bridge::Bridge;
use weir_link::change::join::{Joins, Rehearsal};
use weir_link::change::{ChangeHandle, Transaction};
use weir_link::deploy;
use weir_link::events::{self, Reporter};
use weir_link::status::{Amount, ClassStatus, LaneStatus, Status};
use weir_policy::deployment::{self, Deployment};
use weir_policy::policy::JoinRequest;
use weir_policy::render;
use weir_testbed::{Flood, FloodConfig, Host, LEFT, RIGHT, RunningBridge, Testbed, until_seen};

/// A bridge in this process, whose policies are changed.
pub(super) struct Scene {
    /// It ends before its networks.
    bridge: RunningBridge,
    /// The networks of client and server.
    pub testbed: Testbed,
    /// The policies in force.
    pub deployment: Deployment,
    handles: Vec<ChangeHandle>,
    rehearsals: Vec<Option<Rehearsal>>,
    reporter: Reporter,
}

/// How long the steps of a change took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Took {
    /// To make all that the new policies need.
    pub prepare: Duration,
    /// From when the loop was asked until it had changed.
    pub force: Duration,
}

/// Reads a deployment whose only direction has this policy; `None` if the policy has errors.
pub(super) fn read(policy: &str) -> Result<Deployment, String> {
    let text = format!(
        "[deployment]\nname = \"changes\"\nports = {{ a = \"{LEFT}\", b = \"{RIGHT}\" }}\n\
         pool = \"{POOL} packets\"\nlag_max = \"2 s\"\nsojourn_max = \"none\"\n\
         [direction.forth]\nfrom = \"a\"\nto = \"b\"\npolicy = \"policy.toml\"\n"
    );
    let read = |_: &Path| Ok(policy.as_bytes().to_vec());
    let outcome = deployment::parse(text.as_bytes(), "changes.toml", &read);
    let why = || render::render(&outcome.findings, &outcome.sources, false);
    outcome.plan.as_ref().cloned().map(Deployment::with_places).ok_or_else(why)
}

/// Writes so many slow classes below the class `all`, each with the packets to one port from
/// [`FIRST`] on.
pub(super) fn slow_classes(count: u32) -> String {
    let class = |number: u32| {
        format!(
            "[class.s{number}]\nparent = \"all\"\nrate = \"100 bit/s\"\nceil = \"7 Mbit/s\"\n\
             prio = 3\nqueue = {{ limit = \"20 packets\" }}\n\
             match = [{{ proto = \"udp\", dport = \"{}\" }}]\n",
            FIRST + number as u16
        )
    };
    (0..count).map(class).collect()
}

impl Scene {
    /// Starts a bridge with this policy.
    pub fn start(policy: &str) -> Result<Self, String> {
        let text = |error: weir_host::error::SystemError| error.to_string();
        let testbed = rig::quiet_testbed().map_err(text)?;
        let deployment = read(policy)?;
        let config = deploy::bridges(&deployment).map_err(text)?.remove(0);
        let mut bridge = testbed.weir.run(|| Bridge::open(config)).map_err(text)?.map_err(text)?;
        let (reporter, _unread) = events::log();
        let handles = vec![bridge.take_changes()];
        let bridge = RunningBridge::run(bridge).map_err(text)?;
        Ok(Self { bridge, testbed, deployment, handles, rehearsals: Vec::new(), reporter })
    }

    /// Returns the networks of client and server.
    pub fn ends(&self) -> [&NetNs; 2] {
        [&self.testbed.client, &self.testbed.server]
    }

    /// Sends so many long datagrams to ports of the server each 10 ms, in turn.
    pub fn flood(&self, ports: Vec<u16>, burst: usize) -> Result<Flood, String> {
        let config = FloodConfig { ports, length: 1000, burst, pause: Duration::from_millis(10) };
        Ok(Flood::between(&self.testbed.client, Host::Server.ip4(), config)?)
    }

    /// Puts other policies in force.
    pub fn change(&mut self, new: Deployment) -> Result<Took, String> {
        let start = Instant::now();
        let both = (&self.deployment, &new);
        let transaction = Transaction::prepare(both, &[], &self.handles, &self.reporter);
        let transaction = transaction.map_err(|refusal| refusal.to_string())?;
        let prepare = start.elapsed();
        let asked = Instant::now();
        let wake = || self.bridge.wake();
        let made = transaction.put_in_force(&mut self.handles, wake, PATIENCE);
        made.map_err(|refusal| refusal.to_string())?.made.map_err(|_| "the loop hangs")?;
        let force = asked.elapsed();
        self.handles.iter_mut().for_each(ChangeHandle::tidy);
        self.deployment = new;
        Ok(Took { prepare, force })
    }

    /// Lets these classes leave and those of these tables join, as `weir class` does.
    pub fn join(&mut self, remove: &[String], tables: &str) -> Result<(), String> {
        let policy = &self.deployment.directions[0].policy;
        let outcome = policy.seat(&JoinRequest { remove, tables, name: "classes" });
        let why = || render::render(&outcome.findings, &outcome.sources, false);
        let seatings = outcome.plan.as_ref().ok_or_else(why)?;
        let both = (seatings.as_slice(), &[0][..]);
        let joins = Joins::prepare(&self.deployment, both, &mut self.rehearsals, &self.handles)?;
        let at = (&mut self.handles[..], &mut self.rehearsals[..]);
        let made = joins.put_in_force(at, || self.bridge.wake(), PATIENCE);
        made.map_err(|_| "the loop hangs")?;
        let policy = &mut self.deployment.directions[0].policy;
        seatings.iter().for_each(|seating| policy.follow(seating));
        Ok(())
    }

    /// Returns the counts of the shaped direction, all of one instant after this call.
    pub fn counts(&self) -> Result<LaneStatus, String> {
        Ok(self.status()?.lanes.remove(0))
    }

    /// Returns the status at an instant after this call.
    pub fn status(&self) -> Result<Status, String> {
        self.bridge.status().map_err(|why| why.to_string())
    }

    /// Waits until nothing waits in the link.
    pub fn drain(&self) -> Result<(), String> {
        let backlog = |lane| total(&lane, |class| class.backlog).packets;
        let waiting = || self.counts().map(backlog);
        let is_none = |waiting: &Result<u64, String>| !waiting.as_ref().is_ok_and(|it| *it > 0);
        until_seen("no packet waits", waiting, is_none)??;
        Ok(())
    }
}

/// Returns the sum over all classes, removed ones among them.
pub(super) fn total(lane: &LaneStatus, of: impl Fn(&ClassStatus) -> Amount) -> Amount {
    let all = lane.classes.iter().chain(lane.removed.as_deref());
    all.map(of).fold(Amount::default(), |sum, amount| Amount {
        packets: sum.packets + amount.packets,
        bytes: sum.bytes + amount.bytes,
    })
}

/// Returns whether every packet that was offered to a class was sent, dropped or waits.
pub(super) fn is_balanced(class: &ClassStatus) -> bool {
    let dropped = |of: fn(&Amount) -> u64| -> u64 {
        class.dropped.iter().map(|(_, amount)| of(amount)).sum()
    };
    let packets = class.sent.packets + class.backlog.packets + dropped(|amount| amount.packets);
    let bytes = class.sent.bytes + class.backlog.bytes + dropped(|amount| amount.bytes);
    (packets, bytes) == (class.offered.packets, class.offered.bytes)
}

/// Room for what 1 000 full queues hold.
/// The receiver's ports of slow classes begin here.
pub(super) const FIRST: u16 = 10_000;
const POOL: u32 = 60_000;
const PATIENCE: Duration = Duration::from_secs(30);
