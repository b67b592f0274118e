//! `video` over TCP or QUIC: a player that fetches a film in segments and shows it.
//!
//! It asks for one segment after the other, each on a connection of its own: at once until it
//! holds as much as its buffer takes, and then whenever there is room for another. It begins to
//! show when the first is there, and again after a stall when the next is; what it asks for does
//! not depend on the rate that it meets. Invariant: it never holds more than its buffer when it
//! asks.

use super::pictures::Pictures;
use super::{Context, Part, Turn, Turns, Work, carried};
use crate::random::Random;
use crate::script::Playback;
use std::sync::Arc;
use weir_core::units::{Bytes, Duration};

/// A film that is fetched.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Streaming {
    /// The film's pictures.
    pub pictures: Pictures,
    /// Pictures of a segment.
    pub segment: u64,
    /// How much the player holds at most, at least a segment.
    pub buffer: Duration,
}

impl Streaming {
    /// Returns how long a segment is shown.
    fn length(&self) -> Duration {
        Duration::from_nanos(self.segment * SECOND / self.pictures.per_second)
    }
}

impl Work for Streaming {
    fn keyword(&self) -> &'static str {
        KEYWORD
    }

    fn start(&self) -> Box<dyn Turns> {
        let playback = Playback::default();
        Box::new(Viewer { plan: *self, asked: 0, held: None, playback })
    }
}

/// A player at work.
#[derive(Debug)]
struct Viewer {
    plan: Streaming,
    /// Pictures that were requested.
    asked: u64,
    /// How much is left to show when the last pause was over; `None` before the first picture.
    held: Option<Duration>,
    playback: Playback,
}

impl Turns for Viewer {
    fn next(&mut self, random: &mut Random) -> Option<Turn> {
        let pictures = self.asked..self.asked + self.plan.segment;
        self.asked = pictures.end;
        let bytes = pictures.map(|number| self.plan.pictures.bytes(number, random)).sum();
        Some(Turn { bytes: Some(Bytes::new(bytes)), pause: None })
    }

    fn pause(&mut self, _: Turn, took: Duration) -> Option<Duration> {
        let left = match self.held {
            None => {
                self.playback.startup = Some(took);
                Duration::ZERO
            }
            Some(held) => {
                self.playback = stalled(self.playback, took, held);
                minus(held, took)
            }
        };
        let (length, held) = (self.plan.length(), left.plus(self.plan.length()));
        let pause = minus(held.plus(length), self.plan.buffer.max(length));
        self.held = Some(minus(held, pause));
        Some(pause)
    }

    fn playback(&self, ongoing: Option<Duration>) -> Option<Playback> {
        let waited = ongoing.zip(self.held);
        Some(waited.map_or(self.playback, |(took, held)| stalled(self.playback, took, held)))
    }
}

/// Returns a playback after a segment that took so long while so much was left to show.
fn stalled(before: Playback, took: Duration, held: Duration) -> Playback {
    let stall = minus(took, held);
    let (stalls, stalled) = (before.stalls, before.stalled.plus(stall));
    Playback { stalls: stalls + u64::from(stall > Duration::ZERO), stalled, ..before }
}

/// Returns the difference, zero if `other` is longer.
fn minus(time: Duration, other: Duration) -> Duration {
    Duration::from_nanos(time.as_nanos().saturating_sub(other.as_nanos()))
}

/// Reads `segment` and `buffer`, and the keys of the connections.
pub(super) fn read(context: &mut Context<'_, '_>, pictures: Option<Pictures>) -> Option<Vec<Part>> {
    let work = streaming(context, pictures).map(|film| Arc::new(film) as Arc<dyn Work>);
    carried(context, work)
}

fn streaming(context: &mut Context<'_, '_>, pictures: Option<Pictures>) -> Option<Streaming> {
    let Context { table, report, .. } = context;
    let mut time = |key| {
        table.value_by(key, report, |node, report| {
            let cure = "write what the player asks for at once, or holds, such as `4 s`";
            node.within(node.duration(report)?, (TIME_MIN, TIME_MAX), cure, report)
        })
    };
    let (segment, buffer) = (time("segment"), time("buffer"));
    let pictures = pictures?;
    let segment = segment?.as_nanos() * pictures.per_second / SECOND;
    Some(Streaming { pictures, segment: segment.max(1), buffer: buffer? })
}

const KEYWORD: &str = "video";
const TIME_MIN: Duration = Duration::from_millis(100);
const TIME_MAX: Duration = Duration::from_secs(3600);
const SECOND: u64 = 1_000_000_000;
