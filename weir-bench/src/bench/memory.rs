//! The memory of a link: bytes per idle class, and per waiting packet.
//!
//! Each figure is the difference between two links that differ in nothing else, so constant parts
//! of a link do not count. A class is idle after it has been active: every leaf sent a packet
//! first, so the state that its scheduler holds from then on counts. The bytes are those that the
//! program requested from its allocator.

use crate::bench::entries;
use crate::bench::figure::Figure;
use crate::bench::road::{group_of, plan};
use serde::Serialize;
use weir_core::event::Departure;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, LinkPlan, Packet};
use weir_core::sched::{Cost, Entry};
use weir_core::units::{Duration, Instant};
use weir_host::pages::bytes_in_use;

/// Bytes that an idle class may take.
pub const CLASS_BYTES_MAX: f64 = 128.0;
/// Bytes that a waiting packet may take, its own content aside.
pub const PACKET_BYTES_MAX: f64 = 64.0;

/// The memory of one scheduler's link.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The keyword of the scheduler.
    pub scheduler: &'static str,
    /// Bytes per idle class.
    pub class_bytes: f64,
    /// Bytes per waiting packet.
    pub packet_bytes: f64,
    /// Whether neither is above its limit.
    pub holds: bool,
}

/// Measures every scheduler, or those named; with `leaves` more and as many packets more.
///
/// # Errors
/// When no scheduler has one of the keywords, or the program has an allocator that does not count.
pub fn measure(
    only: &[String],
    leaves: usize,
    mut progress: impl FnMut(&Row),
) -> Result<Vec<Row>, String> {
    if bytes_in_use() == 0 {
        return Err("this program's allocator counts nothing".to_owned());
    }
    let mut rows = Vec::new();
    for entry in entries(only)? {
        let row = measure_one(entry, leaves);
        progress(&row);
        rows.push(row);
    }
    Ok(rows)
}

/// The rows as figures.
pub fn figures(rows: &[Row]) -> Vec<Figure> {
    let class = |row: &Row| {
        let what = format!("{}: bytes an idle class", row.scheduler);
        Figure::at_most(what, CLASS_BYTES_MAX, row.class_bytes)
    };
    let packet = |row: &Row| {
        let what = format!("{}: bytes a waiting packet", row.scheduler);
        Figure::at_most(what, PACKET_BYTES_MAX, row.packet_bytes)
    };
    rows.iter().flat_map(|row| [class(row), packet(row)]).collect()
}

fn measure_one(entry: &Entry, more: usize) -> Row {
    // A scheduler that examines every leaf for every packet would take minutes.
    let is_slow = entry.descriptor.promises.cost == Cost::Linear;
    let leaves = if is_slow { more.min(LEAVES_SLOW) } else { more };
    let [few, many] = [FEW, FEW + leaves].map(|leaves| idle(entry, leaves));
    let class_bytes = (many.bytes - few.bytes) as f64 / (many.count - few.count) as f64;
    let [few, many] = [FEW, FEW + more].map(|packets| waiting(entry, packets));
    let packet_bytes = (many.bytes - few.bytes) as f64 / (many.count - few.count) as f64;
    let holds = class_bytes <= CLASS_BYTES_MAX && packet_bytes <= PACKET_BYTES_MAX;
    Row { scheduler: entry.descriptor.keyword, class_bytes, packet_bytes, holds }
}

/// The memory that a link holds for a number of leaves or packets.
struct Kept {
    bytes: usize,
    count: usize,
}

/// Returns a link in which every leaf has sent a packet and no packet waits.
fn idle(entry: &Entry, leaves: usize) -> Kept {
    let plan = plan(entry.descriptor, leaves, group_of(leaves), FEW);
    let mut out = Vec::with_capacity(FEW);
    let before = bytes_in_use();
    let mut link = build(&plan);
    let mut now = Instant::ZERO;
    for first in (0..leaves).step_by(FEW) {
        for leaf in first..leaves.min(first + FEW) {
            link.offer(now, LeafId(leaf as u32), Packet::new(Handle(leaf as u32), LENGTH));
        }
        now = drain(&mut *link, now, &mut out);
    }
    Kept { bytes: bytes_in_use() - before, count: plan.tree.classes().len() }
}

/// Lets all packets leave; returns when the last one left.
fn drain(link: &mut dyn AnyLink, mut now: Instant, out: &mut Vec<Departure>) -> Instant {
    while let Some(next) = link.advance(now, out) {
        now = next;
    }
    assert_eq!(link.backlog(), 0, "all that waits can leave");
    out.clear();
    now.after(Duration::from_micros(1))
}

/// Returns a link of a few leaves in which `packets` packets wait, the most that it allows.
fn waiting(entry: &Entry, packets: usize) -> Kept {
    let plan = plan(entry.descriptor, LEAVES, 0, packets);
    let before = bytes_in_use();
    let mut link = build(&plan);
    for handle in 0..packets {
        let leaf = LeafId((handle % LEAVES) as u32);
        link.offer(Instant::ZERO, leaf, Packet::new(Handle(handle as u32), LENGTH));
    }
    assert_eq!(link.backlog() as usize, packets, "the limits let all wait");
    Kept { bytes: bytes_in_use() - before, count: packets }
}

fn build(plan: &LinkPlan) -> Box<dyn AnyLink> {
    plan.build().unwrap_or_else(|error| panic!("{}: {error}", plan.scheduler))
}

/// Leaves or packets of the smaller link.
const FEW: usize = 128;
/// Leaves among which packets wait.
const LEAVES: usize = 10;
/// More leaves than the few, for a scheduler whose cost grows with them.
const LEAVES_SLOW: usize = 4_000;
/// Bytes of every packet.
const LENGTH: u32 = 64;
