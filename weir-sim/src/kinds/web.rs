//! `web`: a user who loads pages over TCP or QUIC, session after session.
//!
//! A session has pages, a page has objects, each object is a transfer on a connection of its own.
//! The reader waits between objects, pages and sessions. Defaults are those of ns-2's web traffic
//! generator as its example sets it: 10 pages a session, an object a page of 10 segments on average
//! with Pareto's second distribution of shape 1.2, means of 10 ms between objects and 1 s between
//! pages `[ns2, PagePool/WebTraf]`. There objects begin at their times whatever becomes of earlier
//! ones; here one follows the other, as one reader with one connection at a time. Invariant: sizes
//! have the mean that is written, but for what [`OBJECT_MAX`] cuts off.

use super::{Context, Kind, Part, Turn, Turns, Work, carried, connections};
use crate::random::Random;
use crate::read::source::{Distribution, amount, fraction, read_or};
use crate::scenario::Period;
use std::sync::Arc;
use weir_core::units::{Bytes, Duration};

/// The pages that one reader fetches.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Web {
    /// Pages of a session.
    pub pages: u64,
    /// Objects of a page: their mean, and the shape of their distribution if they vary.
    pub objects: (u64, Option<f64>),
    /// The mean bytes of an object, and the shape of their distribution.
    pub object: (u64, f64),
    /// From an object to the next of its page.
    pub object_pause: Period,
    /// From a page to the next.
    pub page_pause: Period,
    /// From a session to the next.
    pub session_pause: Period,
}

impl Work for Web {
    fn keyword(&self) -> &'static str {
        KEYWORD
    }

    fn start(&self) -> Box<dyn Turns> {
        Box::new(Reader { plan: *self, pages: 0, objects: 0 })
    }
}

/// The pages of the session and the objects of the page that are left.
#[derive(Debug)]
struct Reader {
    plan: Web,
    pages: u64,
    objects: u64,
}

impl Turns for Reader {
    fn next(&mut self, random: &mut Random) -> Option<Turn> {
        if self.pages == 0 {
            self.pages = self.plan.pages;
        }
        if self.objects == 0 {
            self.objects = match self.plan.objects {
                (mean, None) => mean,
                // A whole number of at least 1 with this mean, half a step below its real one.
                (mean, Some(shape)) => {
                    let more = random.pareto_second(mean as f64 - 0.5, shape);
                    (more + 1.0).min(OBJECTS_MAX as f64) as u64
                }
            };
        }
        let bytes = bytes(self.plan.object, random);
        self.objects -= 1;
        let pause = if self.objects > 0 {
            self.plan.object_pause
        } else {
            self.pages -= 1;
            if self.pages > 0 { self.plan.page_pause } else { self.plan.session_pause }
        };
        Some(Turn { bytes: Some(bytes), pause: Some(pause.draw(random)) })
    }
}

/// A size of Pareto's second distribution.
pub(super) fn bytes((mean, shape): (u64, f64), random: &mut Random) -> Bytes {
    let drawn = random.pareto_second(mean as f64, shape) + 0.5;
    Bytes::new(drawn.clamp(1.0, OBJECT_MAX as f64) as u64)
}

fn read(context: &mut Context<'_, '_>) -> Option<Vec<Part>> {
    let work = reader(context).map(|web| Arc::new(web) as Arc<dyn Work>);
    carried(context, work)
}

fn reader(context: &mut Context<'_, '_>) -> Option<Web> {
    let Context { table, report, .. } = context;
    let pages = read_or(table.field("pages"), PAGES, report, |node, report| {
        node.number(1, OBJECTS_MAX, report)
    });
    let objects = read_or(table.field("objects"), 1, report, |node, report| {
        node.number(1, OBJECTS_MAX, report)
    });
    let objects_shape = read_or(table.field("objects_shape"), None, report, |node, report| {
        fraction(node, SHAPES, report).map(Some)
    });
    let object = amount(table.field("object"), OBJECT, OBJECT_MAX, report);
    let object_shape = read_or(table.field("object_shape"), SHAPE, report, |node, report| {
        fraction(node, SHAPES, report)
    });
    let distribution = Distribution::read(table, report);
    let mut pause = |key, usual| match table.field(key) {
        Some(node) => distribution?.period(&node, report),
        None => distribution.and_then(|distribution| distribution.of(usual)),
    };
    let object_pause = pause("object_pause", OBJECT_PAUSE);
    let page_pause = pause("page_pause", PAGE_PAUSE);
    let session_pause = pause("session_pause", PAGE_PAUSE);
    Some(Web {
        pages: pages?,
        objects: (objects?, objects_shape?),
        object: (object?, object_shape?),
        object_pause: object_pause?,
        page_pause: page_pause?,
        session_pause: session_pause?,
    })
}

pub(super) const KIND: Kind = Kind { keyword: KEYWORD, carrier: connections, read };
const KEYWORD: &str = "web";
const PAGES: u64 = 10;
/// Ten segments of Ethernet's 1460 bytes.
const OBJECT: u64 = 14_600;
const SHAPE: f64 = 1.2;
const OBJECT_PAUSE: Duration = Duration::from_millis(10);
const PAGE_PAUSE: Duration = Duration::from_secs(1);
/// Above 1, or there is no mean.
pub(super) const SHAPES: (f64, f64) = (1.01, 100.0);
/// The most objects of a page, or pages of a session.
const OBJECTS_MAX: u64 = 10_000;
/// The largest object: an unbounded distribution would now and then draw one that no run finishes.
pub(super) const OBJECT_MAX: u64 = 1 << 30;
