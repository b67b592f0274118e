//! `probe`: small packets at even distances, which measure the delay of a class.
//!
//! The report has their delays as it has every source's. A probe needs no key but its name, and
//! adds little load: a frame of 64 bytes every 10 ms is 51 kbit/s.

use super::{Context, Kind, Part, Player, Script, Step, plain};
use crate::random::Random;
use crate::read::keys::SourceKind;
use crate::read::source::{amount, spread};
use crate::scenario::{LENGTH_MAX, Traffic};
use std::sync::Arc;
use weir_core::units::Duration;
use weir_policy::keys::{Key, SIZE, TIME, key};

/// Packets at even distances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The length of each frame.
    pub length: u32,
    /// From one to the next.
    pub interval: Duration,
}

impl Script for Probe {
    fn keyword(&self) -> &'static str {
        KEYWORD
    }

    fn start(&self) -> Box<dyn Player> {
        Box::new(Probing { plan: *self, sent: 0 })
    }
}

#[derive(Debug)]
struct Probing {
    plan: Probe,
    sent: u32,
}

impl Player for Probing {
    fn next(&mut self, _: &mut Random) -> Option<Step> {
        let Probe { length, interval } = self.plan;
        let after = if self.sent == 0 { Duration::ZERO } else { interval };
        let step = Step { after, length, datagram: self.sent };
        self.sent = self.sent.saturating_add(1);
        Some(step)
    }
}

fn read(context: &mut Context<'_, '_>) -> Option<Vec<Part>> {
    let Context { table, report, .. } = context;
    let length = amount(table, "size", u64::from(LENGTH_MAX), report);
    let interval = table.value_by("interval", report, spread);
    let probe = Probe { length: length? as u32, interval: interval? };
    Some(Part::only(Traffic::Scripted(Arc::new(probe))))
}

pub(super) const KIND: Kind = Kind { source: SOURCE, carrier: plain, read };
const SOURCE: SourceKind = SourceKind {
    keyword: KEYWORD,
    summary: "Small packets whose delays show what others meet.",
    keys: &[KEYS],
};
const KEYS: &[Key] = &[
    key("size", SIZE, "64 B", "The length of a frame."),
    key("interval", TIME, "10 ms", "From one packet to the next."),
];
const KEYWORD: &str = "probe";
