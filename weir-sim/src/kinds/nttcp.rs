//! `nttcp`: datagrams of one length as fast as the sender's interface takes them, without end.
//!
//! As the generator that `[quadros]` used; its payload of 1450 bytes is the default.

use super::ttcp::{BUFFERS, datagrams};
use super::{Context, Kind, Part, plain};
use crate::read::keys::{MTU, SourceKind};
use crate::scenario::Traffic;
use std::sync::Arc;
use weir_policy::keys::{Key, RATE, key};

fn read(context: &mut Context<'_, '_>) -> Option<Vec<Part>> {
    let buffers = context.table.written("buffers", context.report)?;
    let plan = datagrams(context, KEYWORD, LENGTH)?;
    let plan = super::Datagrams { count: buffers, ..plan };
    Some(Part::only(Traffic::Scripted(Arc::new(plan))))
}

pub(super) const KIND: Kind = Kind { source: SOURCE, carrier: plain, read };
const SOURCE: SourceKind =
    SourceKind { keyword: KEYWORD, summary: "The test program, over UDP.", keys: &[BUFFERS, KEYS] };
const KEYS: &[Key] = &[
    key("mtu", MTU, "1500 B", "The largest IP packet."),
    key("rate", RATE, "100 Mbit/s", "Of the sender's interface."),
];
const KEYWORD: &str = "nttcp";
const LENGTH: u64 = 1450;
