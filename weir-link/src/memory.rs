//! The memory that `weir up` needs at most for a deployment, before it is started.
//!
//! Pools, rings and the links themselves are computed by the code that makes them: the formula of
//! [`crate::bridge`], each kind of port, and a link that is built once and dropped. What grows with
//! traffic, and what is needed for a while (reading the files, a status), are upper estimates; the
//! parts say which these are, since the tables of isolated flows at their fullest may outweigh all
//! else. Invariant: no part is smaller than what the running link takes for it.

use std::path::Path;

use serde::Serialize;
use weir_core::account::HISTOGRAMS_MAX;
use weir_core::link::LinkPlan;
use weir_core::queue::QueuePlan;
use weir_policy::deployment::{Deployment, Direction};

use crate::bridge::{BridgeConfig, pool_frames};
use crate::change::history::{ENTRIES_MAX, TEXTS_MAX};
use crate::change::join::Rehearsal;
use crate::deploy;
use crate::lane::Lane;
use crate::pool::FramePool;
use crate::recorder::history::History;
use weir_host::ethtool;
use weir_host::pages::bytes_in_use;

/// The memory that a deployment needs at most, by purpose.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Forecast {
    /// Each part, the largest first.
    pub parts: Vec<Part>,
}

/// The memory for one purpose.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Part {
    /// The purpose, in words.
    pub name: &'static str,
    /// The most bytes that are needed for it.
    pub bytes: u64,
    /// Whether they are taken only as traffic, changes or readers come.
    pub later: bool,
}

impl Part {
    /// A part that is taken from the start on.
    fn first(name: &'static str, bytes: u64) -> Self {
        Self { name, bytes, later: false }
    }

    /// A part that traffic, changes or readers take.
    fn later(name: &'static str, bytes: u64) -> Self {
        Self { name, bytes, later: true }
    }
}

impl Forecast {
    /// The sum, in bytes.
    pub fn total(&self) -> u64 {
        sum(self.parts.iter())
    }

    /// The sum of what is taken from the start on, in bytes.
    pub fn at_start(&self) -> u64 {
        sum(self.parts.iter().filter(|part| !part.later))
    }
}

fn sum<'p>(parts: impl Iterator<Item = &'p Part>) -> u64 {
    parts.fold(0, |sum, part| sum.saturating_add(part.bytes))
}

/// Returns the MTU of an interface of this thread's network namespace, or the usual one while there
/// is none of this name.
pub fn mtu_now(interface: &str) -> usize {
    ethtool::mtu(interface).unwrap_or(MTU_USUAL)
}

/// Returns what a deployment needs at most, where its interfaces have these MTUs. Builds its links
/// for a moment; what they take is counted by the program's allocator,
/// [`weir_host::pages::LargePages`] (with another one it is estimated).
pub fn forecast(deployment: &Deployment, mtu: impl Fn(&str) -> usize) -> Forecast {
    let deployment = &deployment.clone().with_places();
    let configs = deploy::bridges(deployment).unwrap_or_default();
    let (mut pools, mut rings) = (0, 0);
    for config in &configs {
        let room = config.room(&mtu);
        pools += pool(config, room.slot_len, room.held_max);
        rings += room.ring_bytes as u64;
    }
    let loops = configs.len() as u64;
    drop(configs);
    let ways = &deployment.directions;
    let classes = |way: &Direction| way.policy.link.tree.classes().len() as u64;
    let leaves: u64 = ways.iter().map(|way| way.policy.link.tree.leaf_count() as u64).sum();
    let mut files: Vec<(&Path, u64)> = Vec::new();
    for way in ways {
        if !files.iter().any(|known| known.0 == way.path) {
            files.push((&way.path, classes(way)));
        }
    }
    let read: u64 = files.iter().map(|(_, classes)| classes * READ_BYTES).sum();
    let queued: u64 = ways.iter().map(|way| queued(&way.policy.link, way.pool)).sum();
    let ring = deployment.service.ring.map_or(0, |ring| ring.get());
    let page = deployment.web.map_or((0, 0), |_| page(ring, leaves));
    let built = built(deployment);
    let left = (2 * (built + read)).min(CHANGES_LEFT_MAX);
    let mut parts = vec![
        Part::first("forwarder", PROGRAM_BYTES),
        Part::first("keeper", KEEPER_BYTES),
        Part::first("frame pools", pools),
        Part::first("rings of the ports", rings),
        Part::first("classes", built),
        Part::later("classes that join", rehearsals(deployment)),
        Part::later("queued packets", queued),
        Part::later("queues of flows", ways.iter().map(flows).sum()),
        Part::first("reading the files", read),
        Part::later("texts of changes", texts(&files)),
        Part::later("left by changes", left),
        Part::later("status for a reader", leaves * STATUS_BYTES),
        Part::first("rates and delays", ways.iter().map(windows).sum()),
        Part::later("counts of classes", leaves * COUNTS_BYTES),
        Part::later("record kept by `ring`", History::bytes_for(ring, loops)),
        Part::first("page (`web`)", page.0),
        Part::later("replay of `ring` by the page", page.1),
    ];
    parts.retain(|part| part.bytes > 0);
    parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    Forecast { parts }
}

/// Returns the bytes of the pool of a bridge.
fn pool(config: &BridgeConfig, slot_len: usize, held_max: usize) -> u64 {
    let frames = pool_frames(held_max, &config.lanes);
    // Each worker of a port has a view of the pool, and the loop one beside its own for it.
    let shares = (0..config.ports.len()).map(|port| config.shares(port)).sum::<usize>();
    let views = if config.has_workers() { 2 * shares } else { 0 };
    (FramePool::bytes_for(frames, slot_len) + views * FramePool::view_bytes_for(frames)) as u64
}

/// Returns what the allocator gives out for the deployment and its links.
fn built(deployment: &Deployment) -> u64 {
    let before = bytes_in_use();
    let copy = deployment.clone();
    let configs = deploy::bridges(deployment).unwrap_or_default();
    let lanes: Vec<Lane> =
        configs.into_iter().flat_map(|config| config.lanes).map(Lane::new).collect();
    let counted = bytes_in_use().saturating_sub(before) as u64;
    drop((copy, lanes));
    if counted > 0 {
        // The allocator's own part of small blocks.
        return counted + counted / 4;
    }
    let classes = |way: &Direction| way.policy.link.tree.classes().len() as u64;
    deployment.directions.iter().map(|way| classes(way) * CLASS_BYTES).sum()
}

/// Returns what it takes to try classes that join, beside the links.
fn rehearsals(deployment: &Deployment) -> u64 {
    let ways = deployment.directions.iter().filter(|way| way.policy.has_places());
    let before = bytes_in_use();
    let made: Vec<_> = ways.clone().map(|way| Rehearsal::of(&way.policy)).collect();
    let counted = bytes_in_use().saturating_sub(before) as u64;
    drop(made);
    if counted > 0 {
        return counted + counted / 4;
    }
    ways.map(|way| way.policy.link.tree.classes().len() as u64 * CLASS_BYTES).sum()
}

/// Returns what the history of changes takes, in the forwarder and in the keeper, and one text more
/// in each while a change is checked.
fn texts(files: &[(&Path, u64)]) -> u64 {
    let length = |(path, _): &(&Path, u64)| std::fs::metadata(path).map_or(0, |file| file.len());
    let one: u64 = files.iter().map(length).sum::<u64>() + DEPLOYMENT_BYTES;
    let kept = (one * ENTRIES_MAX as u64).min(TEXTS_MAX as u64).max(one);
    2 * (kept + one)
}

/// Returns what the packets take that a link holds, beside their frames.
fn queued(plan: &LinkPlan, pool: u32) -> u64 {
    u64::from(plan.packets_max.min(pool)) * PACKET_BYTES
}

/// Returns what the queues for flows and hosts take that leaves make as these come.
fn flows(way: &Direction) -> u64 {
    let of = |queue: &QueuePlan| {
        let (flows, hosts) = queue.places_of_flows();
        u64::from(flows) * FLOW_BYTES + u64::from(hosts) * HOST_BYTES
    };
    way.policy.link.queues.iter().map(of).fold(0, u64::saturating_add)
}

/// Returns what counts and delays of the last seconds take.
fn windows(way: &Direction) -> u64 {
    let leaves = way.policy.link.tree.leaf_count();
    let delays = if leaves <= HISTOGRAMS_MAX { DELAYS_BYTES } else { 0 };
    leaves as u64 * (IDLE_BYTES + delays)
}

/// Returns what the process of the page takes: for what it shows of a link with so many leaves, and
/// while it replays the ring.
fn page(ring: u64, leaves: u64) -> (u64, u64) {
    let shown = leaves.min(PAGE_CLASSES_MAX);
    let delays = (shown * PAGE_DELAYS_BYTES).min(PAGE_DELAYS_MAX);
    let series = (shown * SERIES_BYTES).min(SERIES_MAX);
    let replay = if ring > 0 { ring.saturating_mul(PAGE_RINGS) + series } else { 0 };
    (PAGE_BYTES + shown * PAGE_CLASS_BYTES + delays, replay)
}

const MTU_USUAL: usize = 1500;
/// The forwarder's program itself, its libraries, stacks and buffers.
const PROGRAM_BYTES: u64 = 30 << 20;
/// The process that keeps the privileges, beside what it reads. Code that both share is counted for
/// each.
const KEEPER_BYTES: u64 = 16 << 20;
/// The process of the page, beside what it knows of classes.
const PAGE_BYTES: u64 = 24 << 20;
/// The most classes that the page shows.
const PAGE_CLASSES_MAX: u64 = 1000;
/// A class in the page: the figures of 15 minutes, and the counts that they are made from.
const PAGE_CLASS_BYTES: u64 = 256 << 10;
/// Its delays in these 15 minutes, and the most that the page keeps of delays.
const PAGE_DELAYS_BYTES: u64 = 1 << 20;
const PAGE_DELAYS_MAX: u64 = 64 << 20;
/// The page takes up to three of the ring's sixteen segments for a moment, which are six times as
/// long where they are not packed. It holds them twice while it reads them; then their packets and
/// what became of each, again for a fork: of packets of 400 bytes 4.4 times as much. Together that
/// is five times the ring.
const PAGE_RINGS: u64 = 6;
/// The series of a class in the replays that the page remembers, and the most of all.
const SERIES_BYTES: u64 = 3 << 20;
const SERIES_MAX: u64 = 128 << 20;
/// A deployment's own text, and the entry of a change beside its texts.
const DEPLOYMENT_BYTES: u64 = 4096;
/// The most memory that changes take while they are made and that allocators keep after them: with
/// 1000 classes and 120 changes up to 15 MB, with 5000 classes and 500 changes up to 60 MB.
const CHANGES_LEFT_MAX: u64 = 64 << 20;
/// Reading a class, once, in the forwarder: its text, the parsed document, findings.
const READ_BYTES: u64 = 4096;
/// A class in a status, and in its text.
const STATUS_BYTES: u64 = 4096;
/// A class in the snapshots for readers, and in the windows that are computed of them, from the
/// start and once it has counted a packet.
const IDLE_BYTES: u64 = 320;
const COUNTS_BYTES: u64 = 1024;
/// Its histograms of delays: in the lane, in two snapshots, in the one before these, and parts of
/// ten seconds.
const DELAYS_BYTES: u64 = 48 << 10;
/// A class in the plan, in the link and in a lane.
const CLASS_BYTES: u64 = 2048;
/// A packet in the link, and an arrival or a departure of it.
const PACKET_BYTES: u64 = 160;
/// The number of a flow, its queue, its CoDel, its host, and its place in the round.
const FLOW_BYTES: u64 = 160;
/// A host, its sums, and its place in the round.
const HOST_BYTES: u64 = 192;
