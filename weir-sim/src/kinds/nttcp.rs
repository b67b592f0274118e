//! `nttcp`: datagrams of one length as fast as the sender's interface takes them, without end.
//!
//! As the generator that `[quadros]` used; its payload of 1450 bytes is the default.

use super::ttcp::datagrams;
use super::{Context, Kind, Part, plain};
use crate::scenario::Traffic;
use std::sync::Arc;

fn read(context: &mut Context<'_, '_>) -> Option<Vec<Part>> {
    let buffers = match context.table.field("buffers") {
        Some(node) => Some(node.number(1, BUFFERS_MAX, context.report)?),
        None => None,
    };
    let plan = datagrams(context, KEYWORD, LENGTH)?;
    let plan = super::Datagrams { count: buffers, ..plan };
    Some(Part::only(Traffic::Scripted(Arc::new(plan))))
}

pub(super) const KIND: Kind = Kind { keyword: KEYWORD, carrier: plain, read };
const KEYWORD: &str = "nttcp";
const BUFFERS_MAX: u64 = u32::MAX as u64;
const LENGTH: u64 = 1450;
