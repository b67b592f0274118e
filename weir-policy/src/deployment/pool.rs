//! The pool of frames of a direction, whether its policy fits into it, and the receive rings of
//! ports.

use super::Direction;
use super::keys::POOL_MAX;
use crate::codes;
use crate::finding::{Draft, Report, Span};
use crate::keyed::Packets;
use crate::policy::Policy;
use crate::reader::{Node, Table};
use weir_core::ids::LeafId;
use weir_core::queue::Limit;

/// Reads the frames of a pool, or its default.
pub(super) fn read(table: &mut Table<'_>, report: &mut Report) -> Option<u32> {
    let Packets(frames) = table.value("pool", report)?;
    if let Some(node) = table.field("pool") {
        tell_memory(frames, &node, report);
    }
    Some(frames)
}

/// Reports how much memory a large pool takes.
fn tell_memory(frames: u32, node: &Node<'_>, report: &mut Report) {
    if u64::from(frames) * FRAME_BYTES <= TOLD_ABOVE {
        return;
    }
    let message = format!(
        "a pool of {frames} packets takes up to {} of memory with MTU 1500, for each direction \
         that has it",
        memory(frames.into())
    );
    let cure = "lower it, unless the machine has that much to spare";
    report.push(node.draft(&codes::POOL_LARGE, message).cure(cure));
}

/// Returns the memory of so many frames with MTU 1500, rounded up.
fn memory(frames: u64) -> String {
    let bytes = frames * FRAME_BYTES;
    if bytes < 1 << 20 {
        return format!("{} KiB", bytes.div_ceil(1 << 10));
    }
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// Warns of a policy whose queues may hold more than the pool of its direction; `span` is where the
/// pool, or else the policy, is written.
pub(super) fn check(direction: &Direction, span: Span, report: &mut Report) {
    let policy = &direction.policy;
    let limits = limits(policy);
    let sum = limits.iter().fold(0, |sum: u64, class| sum.saturating_add(class.1));
    let held = sum.min(policy.link.packets_max.into());
    let pool = direction.pool;
    if held <= u64::from(pool) {
        return;
    }
    let message = format!(
        "direction `{}`: its queues may hold {held} packets, and its pool {pool}: {}; while the \
         pool is full, frames that arrive are shed (cause `pool`), and each class keeps only its \
         reserve",
        direction.name,
        longest(limits)
    );
    let lower = "lower the limits of queues";
    let cure = if held <= POOL_MAX.into() {
        let memory = memory(held);
        format!("write `pool = \"{held} packets\"` (up to {memory} with MTU 1500), or {lower}")
    } else {
        lower.to_owned()
    };
    report.push(Draft::new(&codes::POOL_TOO_SMALL, span, message).cure(cure));
}

/// Returns the name of each leaf class and the packets that its queues may hold, in the order of
/// the policy.
fn limits(policy: &Policy) -> Vec<(&str, u64)> {
    let mut limits: Vec<(&str, u64)> = Vec::new();
    for (leaf, queue) in policy.link.queues.iter().enumerate() {
        let packets = match queue.limit() {
            Limit::Packets(packets) => packets.into(),
            Limit::Bytes(bytes) => bytes.get() / PACKET_TYPICAL,
        };
        let name = policy.leaf_name(LeafId(leaf as u32));
        match limits.last_mut().filter(|last| last.0 == name) {
            Some(last) => last.1 = last.1.saturating_add(packets),
            None => limits.push((name, packets)),
        }
    }
    limits
}

/// Names the classes with the longest queues.
fn longest(mut limits: Vec<(&str, u64)>) -> String {
    limits.sort_by_key(|(_, packets)| std::cmp::Reverse(*packets));
    let others = limits.len().saturating_sub(NAMES_SHOWN);
    let shown = limits.iter().take(NAMES_SHOWN);
    let mut names: Vec<_> = shown.map(|(name, packets)| format!("`{name}` {packets}")).collect();
    if others > 0 {
        names.push(format!("{others} more"));
    }
    names.join(", ")
}

/// The packet size by which a queue in bytes is converted: the mean of common traffic mixes.
const PACKET_TYPICAL: u64 = 500;
/// The memory of a frame with MTU 1500, where a port is of kind `afxdp`; else it is 1536.
const FRAME_BYTES: u64 = 2048;
/// The memory of a pool that is worth a note.
const TOLD_ABOVE: u64 = 256 << 20;
/// The most classes that a warning names.
const NAMES_SHOWN: usize = 4;
