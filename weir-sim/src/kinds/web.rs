//! `web`: a user who loads pages over TCP or QUIC, session after session.
//!
//! A session has pages, a page has objects, each object is a transfer on a connection of its own.
//! The reader waits between objects, pages and sessions. Defaults are those of ns-2's web traffic
//! generator as its example sets it: 10 pages a session, an object a page of 10 segments on average
//! with Pareto's second distribution of shape 1.2, means of 10 ms between objects and 1 s between
//! pages `[ns2, PagePool/WebTraf]`. There objects begin at their times whatever becomes of earlier
//! ones; here one follows the other, as one reader with one connection at a time. Invariant: sizes
//! have the mean that is written, but for what [`OBJECT_MAX`] cuts off.

use super::{Context, Kind, Part, Turn, Turns, Work, carried, transport};
use crate::random::Random;
use crate::read::keys::{CARRIER, PERIOD, SourceKind, TCP};
use crate::read::source::{Distribution, amount, bounded, fraction, read_or};
use crate::scenario::Period;
use std::sync::Arc;
use weir_core::units::Bytes;
use weir_policy::keys::{Key, SIZE, TIME, Values, key};

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
    let pages = table.value("pages", report);
    let objects = table.value("objects", report);
    let objects_shape = read_or(table.field("objects_shape"), None, report, |node, report| {
        fraction(node, SHAPES, report).map(Some)
    });
    let object = amount(table, "object", OBJECT_MAX, report);
    let object_shape =
        table.value_by("object_shape", report, |node, report| fraction(node, SHAPES, report));
    let distribution = Distribution::read(table, report);
    let mut pause = |name| {
        let mean = table.value_by(name, report, bounded);
        distribution?.of(mean?)
    };
    let object_pause = pause("object_pause");
    let page_pause = pause("page_pause");
    let session_pause = pause("session_pause");
    Some(Web {
        pages: pages?,
        objects: (objects?, objects_shape?),
        object: (object?, object_shape?),
        object_pause: object_pause?,
        page_pause: page_pause?,
        session_pause: session_pause?,
    })
}

pub(super) const KIND: Kind = Kind { source: SOURCE, carrier: transport, read };
const SOURCE: SourceKind = SourceKind {
    keyword: KEYWORD,
    summary: "A reader of pages over TCP or QUIC.",
    keys: &[KEYS, PERIOD, TCP, CARRIER],
};
const KEYS: &[Key] = &[
    key("pages", EACH, "10", "Pages of a session."),
    key("objects", EACH, "1", "Objects of a page; the mean, with `objects_shape`."),
    key("objects_shape", Values::Fraction, "", "Of the Pareto distribution of objects."),
    // Ten segments of Ethernet's 1460 bytes.
    key("object", SIZE, "14600 B", "The mean size of an object."),
    key("object_shape", Values::Fraction, "1.2", "Of the Pareto distribution of sizes."),
    key("object_pause", TIME, "10 ms", "The mean pause after an object."),
    key("page_pause", TIME, "1 s", "The mean pause after a page."),
    key("session_pause", TIME, "1 s", "The mean pause after a session."),
];
const KEYWORD: &str = "web";
/// How many pages or objects.
const EACH: Values = Values::Number(1, OBJECTS_MAX);
/// Above 1, or there is no mean.
pub(super) const SHAPES: (f64, f64) = (1.01, 100.0);
/// The most objects of a page, or pages of a session.
const OBJECTS_MAX: u64 = 10_000;
/// The largest object: an unbounded distribution would now and then draw one that no run finishes.
pub(super) const OBJECT_MAX: u64 = 1 << 30;
