//! Target `checkpoint`: loads a forged checkpoint into a link of any plan, and serves packets if it
//! is accepted.
//!
//! The input is the keyword of a scheduler and a line feed, a plan, and the number of packets that
//! are offered before the checkpoint; then edits of the checkpoint's bytes. It gets a right checksum,
//! so only the checks of its parts can refuse it.

use crate::draw::Draw;
use crate::plan::plan;
use crate::scheduler::named;
use weir_core::ids::Handle;
use weir_core::link::{AnyLink, Arrival, LinkPlan, Packet};
use weir_core::state::{Reader, Writer, forge};
use weir_core::units::{Bytes, Duration, Instant};

/// Loads and plays a checkpoint of the input.
pub fn checkpoint(input: &[u8]) {
    let end = input.iter().position(|&byte| byte == b'\n').unwrap_or(input.len());
    let (keyword, rest) = input.split_at(end);
    let mut draw = Draw::new(rest.get(1..).unwrap_or_default());
    let Some(plan) = plan(&mut draw, named(keyword)) else { return };
    let build = || plan.build().expect("a drawn plan builds");
    let (mut link, mut now) = (build(), Instant::ZERO);
    serve(&mut *link, &plan, &mut draw, &mut now);
    let mut bytes = saved(&*link);
    let is_edited = !draw.is_done();
    while !draw.is_done() {
        edit(&mut bytes, &mut draw);
    }
    forge(&mut bytes);
    let mut again = build();
    let loaded = again.load(&mut Reader::new(&bytes));
    assert!(is_edited || loaded.is_ok(), "what was saved is loaded: {loaded:?}");
    if loaded.is_err() {
        return;
    }
    assert_eq!(saved(&*again), bytes, "what is accepted is understood");
    let forged = Reader::new(&bytes[STATE_AT..]).number().unwrap_or(0);
    now = now.max(Instant::from_nanos(forged));
    let mut more = Draw::new(input).endless();
    serve(&mut *again, &plan, &mut more, &mut now);
}

/// Offers packets, and serves what leaves meanwhile.
fn serve(link: &mut dyn AnyLink, plan: &LinkPlan, draw: &mut Draw<'_>, now: &mut Instant) {
    let gap = plan.tree.rate().transmit_time(Bytes::new(1_000)).as_nanos().clamp(1, 1 << 40);
    let mut out = Vec::new();
    for handle in 0..draw.index(PACKETS_MAX) {
        let leaf = draw.leaf(plan.tree.leaf_count());
        let packet = Packet::new(Handle(handle as u32), draw.wide(0, 65_535) as u32);
        link.serve(&[Arrival { at: *now, leaf, packet }], *now, &mut out);
        *now = now.after(Duration::from_nanos(draw.wide(0, 4 * gap)));
    }
    link.advance(*now, &mut out);
}

fn saved(link: &dyn AnyLink) -> Vec<u8> {
    let mut to = Writer::new();
    link.save(&mut to);
    to.into_bytes()
}

/// Changes a byte of the state, adds one or takes one out.
fn edit(bytes: &mut Vec<u8>, draw: &mut Draw<'_>) {
    let places = bytes.len().saturating_sub(STATE_AT + SUM).max(1);
    let at = STATE_AT + (usize::from(draw.byte()) << 8 | usize::from(draw.byte())) % places;
    match draw.index(4) {
        0 => bytes.insert(at, draw.byte()),
        1 if places > 1 => drop(bytes.remove(at)),
        2 => bytes[at] ^= 1 << draw.index(8),
        _ => bytes[at] = draw.byte(),
    }
}

const PACKETS_MAX: usize = 64;
/// Where the state begins: behind kind, version, length and the plan's hash.
const STATE_AT: usize = 18;
/// The length of the checksum.
const SUM: usize = 8;
