//! Active probes: echoes of a few hosts behind the modem, asked only where nothing passes that
//! tells.
//!
//! Each reflector is a path with a least round trip of its own. What its answers exceed that by is
//! the time in queues, of both ways together, as for a flow that passes. So a reflector counts as
//! one host in the same quantile ([`crate::quantile`]): with three or more of them, one that lies
//! moves the result only between what others tell. One that is dead tells nothing.
//!
//! Invariant: an answer counts once, and only for an echo that is under way.

use crate::baseline::Baseline;
use crate::quantile::{NONE, QUESTIONS, Sample, WEIGHT_MAX};
use crate::saved::saved;
use alloc::vec::Vec;
use weir_core::units::{Duration, Instant};

/// An echo to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Echo {
    /// The place of its reflector.
    pub reflector: usize,
    /// Its number, which the answer repeats.
    pub number: u16,
}

/// The reflectors of a link.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reflectors {
    paths: Vec<Path>,
    /// When each of the last echoes left, unless it was answered; by the end of its number.
    under_way: Vec<Option<Instant>>,
    /// Which of them have not left yet, as bits.
    asked: u64,
    number: u16,
    /// Counts the intervals since the last echo.
    since: u8,
    /// Whether echoes are sent: there is load, and nothing else tells.
    pub is_wanted: bool,
    /// Whether their answers are what the last interval was measured by.
    pub tell: bool,
}

saved!(Reflectors {
    number, asked, since, is_wanted, tell;
    rows: paths <= REFLECTORS_MAX, under_way <= UNDER_WAY_MAX
});

/// The path to a reflector and back.
#[derive(Clone, Copy, Debug, Default)]
struct Path {
    base: Baseline,
    /// When the last answer came, unless none has.
    at: Option<Instant>,
    trip: u64,
    delay: u64,
}

saved!(Path { base, at, trip, delay });

impl Reflectors {
    /// So many reflectors; at most [`REFLECTORS_MAX`].
    pub fn new(count: usize) -> Self {
        let count = count.min(REFLECTORS_MAX);
        let places = if count == 0 { 0 } else { UNDER_WAY_MAX };
        Self {
            paths: alloc::vec![Path::default(); count],
            under_way: alloc::vec![None; places],
            ..Self::default()
        }
    }

    /// Returns the echo to send at the end of an interval, if there is one.
    pub fn send(&mut self) -> Option<Echo> {
        self.since = self.since.saturating_add(1);
        let pause = REFLECTORS_MAX.checked_div(self.paths.len())?;
        if !self.is_wanted || usize::from(self.since) < pause {
            return None;
        }
        self.since = 0;
        self.number = self.number.wrapping_add(1);
        let (number, reflector) = (self.number, self.reflector(self.number));
        let place = usize::from(number) % UNDER_WAY_MAX;
        self.under_way[place] = None;
        self.asked |= 1 << place;
        Some(Echo { reflector, number })
    }

    /// Notes that an echo with this number left at `at`, after what waited in the link.
    pub fn leave(&mut self, at: Instant, number: u16) {
        let Some(place) = self.place(number) else { return };
        if self.asked & 1 << place != 0 {
            self.asked &= !(1 << place);
            self.under_way[place] = Some(at);
        }
    }

    /// Notes that an answer with this number arrived at `at`.
    pub fn receive(&mut self, at: Instant, number: u16) {
        let Some(place) = self.place(number) else { return };
        let sent = self.under_way[place].take();
        let Some(sent) = sent.filter(|sent| at >= *sent && at.since(*sent) < TRIP_MAX) else {
            return;
        };
        let trip = at.since(sent).as_nanos();
        let reflector = self.reflector(number);
        let path = &mut self.paths[reflector];
        path.delay = path.base.add(at, trip as i64);
        (path.trip, path.at) = (trip, Some(at));
    }

    /// Returns the place of an echo among those under way; earlier ones had it before.
    fn place(&self, number: u16) -> Option<usize> {
        let age = usize::from(self.number.wrapping_sub(number));
        (age < self.under_way.len()).then_some(usize::from(number) % UNDER_WAY_MAX)
    }

    /// Returns the reflector that an echo with this number is for: they take turns.
    fn reflector(&self, number: u16) -> usize {
        usize::from(number) % self.paths.len()
    }

    /// Returns what reflectors told of late; `places` are the values of both ways' delay (two), and
    /// of the round trip.
    pub fn samples(&self, now: Instant, places: [usize; 3]) -> impl Iterator<Item = Sample> {
        let told = move |path: &Path| path.at.is_some_and(|at| now >= at && now.since(at) < RECENT);
        self.paths.iter().enumerate().filter(move |(_, path)| told(path)).map(move |(at, path)| {
            let mut values = [NONE; QUESTIONS];
            let [both, heard, trip] = places;
            (values[both], values[heard], values[trip]) = (path.delay, path.delay, path.trip);
            // No host or peer that passes has one of these numbers by more than chance.
            let name = u32::MAX - at as u32;
            Sample { host: name, peer: name, weight: WEIGHT_MAX / 4, values }
        })
    }

    /// Takes the present for what paths are without a queue.
    pub fn rebase(&mut self, now: Instant) {
        for path in &mut self.paths {
            if path.at.is_some_and(|at| now >= at && now.since(at) < RECENT) {
                path.base.restart(now, path.trip as i64);
            }
        }
    }

    /// Forgets all that was measured: its instants mean nothing any more.
    pub fn forget(&mut self) {
        self.paths.fill(Path::default());
        self.under_way.fill(None);
        self.asked = 0;
    }
}

/// Bound: reflectors of a link; a deployment with more is refused.
pub const REFLECTORS_MAX: usize = 6;
/// With fewer reflectors one that lies could move the rate.
pub const REFLECTORS_MIN: usize = 3;
/// Bound: echoes that are under way; the answer to an older one does not count.
const UNDER_WAY_MAX: usize = 64;
/// A longer round trip is no measurement.
const TRIP_MAX: Duration = Duration::from_secs(3);
/// An answer tells for so long: until the next one of its reflector, which comes every 150 ms.
const RECENT: Duration = Duration::from_millis(175);

// A bit for each; all numbers come round to the same places.
const _: () = assert!(UNDER_WAY_MAX == u64::BITS as usize);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO.after(Duration::from_millis(ms))
    }

    fn wanted(count: usize) -> Reflectors {
        Reflectors { is_wanted: true, ..Reflectors::new(count) }
    }

    #[test]
    fn each_reflector_is_asked_every_six_intervals_in_turn() {
        for count in [REFLECTORS_MIN, REFLECTORS_MAX] {
            let mut reflectors = wanted(count);
            let sent: Vec<_> = (0..60).filter_map(|_| reflectors.send()).collect();
            assert_eq!(sent.len(), 10 * count);
            let turns =
                sent.windows(2).all(|pair| (pair[0].reflector + 1) % count == pair[1].reflector);
            assert!(turns, "{sent:?}");
        }
        assert_eq!(wanted(0).send(), None);
        assert_eq!(Reflectors::new(3).send(), None, "none are sent where something tells");
    }

    #[test]
    fn an_answer_counts_once_and_only_for_an_echo_under_way() {
        let mut reflectors = wanted(REFLECTORS_MAX);
        let echo = reflectors.send().expect("one is due");
        reflectors.receive(at(0), echo.number);
        reflectors.leave(at(0), echo.number);
        reflectors.leave(at(20), echo.number);
        let told = |reflectors: &Reflectors| reflectors.samples(at(40), [0, 4, 3]).count();
        reflectors.receive(at(30), echo.number.wrapping_add(1));
        reflectors.receive(at(30), echo.number.wrapping_sub(64));
        assert_eq!(told(&reflectors), 0, "nothing of this number is under way");
        reflectors.receive(at(40), echo.number);
        reflectors.receive(at(90), echo.number);
        assert_eq!(told(&reflectors), 1);
        assert_eq!(
            reflectors.samples(at(40), [0, 4, 3]).next().map(|one| one.values[3]),
            Some(40_000_000)
        );
        assert_eq!(reflectors.samples(at(400), [0, 4, 3]).count(), 0, "it is too old");
    }
}
