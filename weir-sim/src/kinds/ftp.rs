//! `ftp`: files over TCP or QUIC, one after another, each on a connection of its own.
//!
//! All files have one size, or sizes of Pareto's second distribution. The mean of 200 KB is the one
//! that the mix of `[nieminen]` is simulated with. Invariant: as [`Web`](super::Web)'s, of files.

use super::web::{OBJECT_MAX, SHAPES, bytes};
use super::{Context, Kind, Part, Turn, Turns, Work, carried, transport};
use crate::random::Random;
use crate::read::keys::{CARRIER, COUNT, PERIOD, SourceKind, TCP};
use crate::read::source::{Distribution, amount, bounded, fraction, read_or};
use crate::scenario::Period;
use std::sync::Arc;
use weir_core::units::Bytes;
use weir_policy::keys::{Key, SIZE, TIME, Values, key};

/// A sequence of files.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ftp {
    /// How many; without it, without end.
    pub files: Option<u64>,
    /// The mean bytes of a file, and the shape of their distribution if they vary.
    pub file: (u64, Option<f64>),
    /// From a file to the next.
    pub pause: Period,
}

impl Work for Ftp {
    fn keyword(&self) -> &'static str {
        KEYWORD
    }

    fn start(&self) -> Box<dyn Turns> {
        Box::new(Files { plan: *self, left: self.files })
    }
}

#[derive(Debug)]
struct Files {
    plan: Ftp,
    left: Option<u64>,
}

impl Turns for Files {
    fn next(&mut self, random: &mut Random) -> Option<Turn> {
        if self.left == Some(0) {
            return None;
        }
        self.left = self.left.map(|left| left - 1);
        let bytes = match self.plan.file {
            (mean, Some(shape)) => bytes((mean, shape), random),
            (all, None) => Bytes::new(all),
        };
        let pause = (self.left != Some(0)).then(|| self.plan.pause.draw(random));
        Some(Turn { bytes: Some(bytes), pause })
    }
}

fn read(context: &mut Context<'_, '_>) -> Option<Vec<Part>> {
    let work = files(context).map(|ftp| Arc::new(ftp) as Arc<dyn Work>);
    carried(context, work)
}

fn files(context: &mut Context<'_, '_>) -> Option<Ftp> {
    let Context { table, report, .. } = context;
    let files = table.written("files", report);
    let file = amount(table, "file", OBJECT_MAX, report);
    let file_shape = read_or(table.field("file_shape"), None, report, |node, report| {
        fraction(node, SHAPES, report).map(Some)
    });
    let distribution = Distribution::read(table, report);
    let mean = table.value_by("pause", report, bounded);
    let pause = distribution.zip(mean).and_then(|(distribution, mean)| distribution.of(mean));
    Some(Ftp { files: files?, file: (file?, file_shape?), pause: pause? })
}

pub(super) const KIND: Kind = Kind { source: SOURCE, carrier: transport, read };
const SOURCE: SourceKind = SourceKind {
    keyword: KEYWORD,
    summary: "Files over TCP or QUIC, one after another.",
    keys: &[KEYS, PERIOD, TCP, CARRIER],
};
const KEYS: &[Key] = &[
    key("files", COUNT, "without end", "How many files."),
    key("file", SIZE, "200 KB", "The size of a file; the mean, with `file_shape`."),
    key("file_shape", Values::Fraction, "", "Of the Pareto distribution of sizes."),
    key("pause", TIME, "1 s", "The mean pause after a file."),
];
const KEYWORD: &str = "ftp";
