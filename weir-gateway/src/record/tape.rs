//! A record, read once for each direction.
//!
//! Invariants: at most [`SERIES_MAX`] series are kept, each of at most [`CELLS_MAX`] numbers of a
//! kind; a record in a file is not held in memory, but for the packets of its directions
//! ([`ARRIVALS_MAX`](weir_trace::load::ARRIVALS_MAX) of each).

use super::shown;
use crate::http::Fault;
use crate::json::{
    Direction, Fork as ForkShown, ForkQuery, Heat, HeatQuery, History, HistoryQuery, Knob,
    KnobsQuery, Mark, Packets, PacketsQuery, Predict, Prediction, Promises, PromisesQuery,
    SettingChange, SpanQuery,
};
use crate::live::settings;
use crate::promises;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_core::units::{Duration, Instant};
use weir_policy::knobs;
use weir_trace::causes::{self, Ask as AskPackets, Within};
use weir_trace::fork::{Ask, Recorded, fork};
use weir_trace::load::{Edit, Event, Fork, RecordHead, Stage, head};
use weir_trace::series::{CELLS_MAX, Series, Window, wall_ms};

/// A record as a source of the page: see the module.
pub struct Tape {
    bytes: Bytes,
    head: RecordHead,
    /// Each direction that was read, or why it cannot be.
    ways: Mutex<BTreeMap<String, Result<Arc<Recorded>, String>>>,
    series: Mutex<VecDeque<(String, Window, Arc<Series>)>>,
}

/// Where the record is.
enum Bytes {
    File(PathBuf),
    Memory(Arc<[u8]>),
}

impl Bytes {
    fn open(&self) -> Result<Box<dyn Read>, String> {
        Ok(match self {
            Self::File(path) => {
                let file = File::open(path);
                let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
                Box::new(BufReader::with_capacity(PART, file))
            }
            Self::Memory(bytes) => Box::new(Cursor::new(Arc::clone(bytes))),
        })
    }
}

impl Tape {
    /// The record at this path.
    ///
    /// # Errors
    /// When it cannot be read or is no record, or a policy of it has errors.
    pub fn of_file(path: &Path) -> Result<Self, String> {
        Self::new(Bytes::File(path.to_owned()))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The record of these bytes.
    ///
    /// # Errors
    /// As [`Tape::of_file`].
    pub fn of_bytes(bytes: Vec<u8>) -> Result<Self, String> {
        Self::new(Bytes::Memory(bytes.into()))
    }

    fn new(bytes: Bytes) -> Result<Self, String> {
        let head = head(bytes.open()?)?;
        let tape = Self { bytes, head, ways: Mutex::default(), series: Mutex::default() };
        Ok(tape)
    }

    /// Returns what the record says of itself.
    pub fn head(&self) -> &RecordHead {
        &self.head
    }

    /// Returns the time that it covers, in ms since 1970.
    pub fn span(&self) -> (f64, f64) {
        let loads: Vec<_> = self.read_all().collect();
        let start = loads.iter().map(|way| way.load.start).min().unwrap_or(Instant::ZERO);
        let end = loads.iter().map(|way| way.load.end).max().unwrap_or(Instant::ZERO);
        (wall_ms(self.head.epoch_ns, start), wall_ms(self.head.epoch_ns, end.max(start)))
    }

    /// Returns the width of a bin of its history.
    pub fn step_ms(&self) -> u32 {
        u32::try_from(self.step().as_nanos() / 1_000_000).unwrap_or(u32::MAX)
    }

    /// Returns its directions with their classes, by the policy with which each ends.
    pub fn directions(&self) -> Vec<Direction> {
        let direction = |way: &weir_trace::load::RecordWay| {
            let read = self.read(&way.name).ok();
            let last = read.as_ref().and_then(|read| read.load.stages.last());
            shown::direction(way, &last.unwrap_or(&way.stage).policy)
        };
        self.head.directions.iter().map(direction).collect()
    }

    /// The answer to `/view/history`.
    ///
    /// # Errors
    /// When there is no such direction or no packet in it, or too many bins are asked for.
    pub fn history(&self, query: &HistoryQuery) -> Result<History, Fault> {
        let way = self.way(query.direction.as_deref())?;
        let (from, to) = (self.instant(query.from)?, self.instant(query.to)?);
        let whole = self.window(&way);
        let Some(step) = query.step.filter(|&step| step > 0 && step != self.step_ms()) else {
            let series = self.series(&way, whole)?;
            return Ok(self.history_of(&series, (from, to)));
        };
        let from = from.map_or(whole.from, |from| from.max(whole.from));
        let to = to.map_or(whole.to, |to| to.min(whole.to)).max(from);
        let window = Window { from, to, step: Duration::from_millis(step.into()) };
        let series = self.series(&way, window)?;
        Ok(self.history_of(&series, (None, None)))
    }

    /// Returns so many intervals of a direction, from its first packet on.
    ///
    /// # Errors
    /// When there is no such direction or no packet in it, or too many intervals are asked for.
    pub fn from_first(
        &self,
        direction: &str,
        (step, bins): (Duration, usize),
    ) -> Result<History, Fault> {
        let way = self.way(Some(direction))?;
        let first = way.load.arrivals.first().map_or(way.load.start, |arrival| arrival.at);
        // A window is without its beginning.
        let from = first.before(Duration::from_nanos(1));
        let length = Duration::from_nanos(step.as_nanos().saturating_mul(bins as u64));
        let window = Window { from, to: from.after(length).min(way.load.end), step };
        let series = self.series(&way, window)?;
        Ok(self.history_of(&series, (None, None)))
    }

    /// The answer to `/view/heat`.
    ///
    /// # Errors
    /// When there is no such direction or class.
    pub fn heat(&self, query: &HeatQuery) -> Result<Heat, Fault> {
        let way = self.way(query.direction.as_deref())?;
        let (from, to) = (self.instant(query.from)?, self.instant(query.to)?);
        let series = self.series(&way, self.window(&way))?;
        let class = series.class(&query.class).ok_or_else(|| no_class(&way, &query.class))?;
        Ok(series.heat(self.head.epoch_ns, class, series.window.inside(from, to)))
    }

    /// The answer to `/view/events`: changes of the policy, stalls of the run loop, and where the
    /// record ends early.
    ///
    /// # Errors
    /// When a time is none.
    pub fn marks(&self, query: &SpanQuery) -> Result<Vec<Mark>, Fault> {
        let (from, to) = (self.instant(query.from)?, self.instant(query.to)?);
        let from = from.unwrap_or(Instant::ZERO);
        let to = to.unwrap_or(Instant::MAX);
        let mut marks: Vec<(Instant, Mark)> = Vec::new();
        for way in self.read_all() {
            let mut stage: &Stage = &way.load.stages[0];
            for (served, _, event) in &way.load.events {
                let (at, kind, level, text) = match event {
                    Event::Stage(next) => {
                        let before = std::mem::replace(&mut stage, &way.load.stages[*next]);
                        let text = shown::change(&way.direction, before, stage);
                        (stage.at, "policy-changed", "notice", text)
                    }
                    Event::Forfeit(before) => {
                        let text = format!("{}: the run loop stalled", way.direction);
                        ((*before).max(*served), "stall", "warning", text)
                    }
                    // A rate that follows a line changes many times a second.
                    Event::DropOlder { .. } | Event::Rate(..) => continue,
                };
                marks.push((at, shown::mark(wall_ms(self.head.epoch_ns, at), (kind, level), text)));
            }
            if let Some(fault) = &way.load.fault {
                let (at, text) = (way.load.end, format!("{}: {fault}", way.direction));
                let t = wall_ms(self.head.epoch_ns, at);
                marks.push((at, shown::mark(t, ("record-ended", "warning"), text)));
            }
        }
        marks.retain(|(at, _)| (from..=to).contains(at));
        marks.sort_by_key(|row| row.0);
        marks.truncate(MARKS_MAX);
        Ok(marks.into_iter().map(|row| row.1).collect())
    }

    /// The answer to `/view/knobs`: the values that a fork can set.
    ///
    /// # Errors
    /// When there is no such direction.
    pub fn knobs(&self, query: &KnobsQuery) -> Result<Vec<Knob>, Fault> {
        let way = self.way(query.direction.as_deref())?;
        let stage = way.load.stages.last().expect("a load has a first stage");
        let all = knobs::all(&stage.text, &stage.policy).map_err(|why| Fault::new(500, why))?;
        Ok(all.into_iter().map(settings::knob).collect())
    }

    /// The answer to `/view/promises`: those of the last policy.
    ///
    /// # Errors
    /// When there is no such direction.
    pub fn promises(&self, query: &PromisesQuery) -> Result<Promises, Fault> {
        let way = self.way(query.direction.as_deref())?;
        let stage = way.load.stages.last().expect("a load has a first stage");
        Ok(promises::of(&stage.policy))
    }

    /// The answer to `/view/predict`: what a change of the last policy would lead to.
    ///
    /// # Errors
    /// When there is no such direction, or a key is none.
    pub fn predict(&self, predict: &Predict) -> Result<Prediction, Fault> {
        let way = self.way(predict.direction.as_deref())?;
        expect_own(&way, &predict.settings)?;
        let stage = way.load.stages.last().expect("a load has a first stage");
        let fork = Fork { at: stage.at, edits: edits(&predict.settings), driver: None };
        let text = fork.text(stage).map_err(Fault::bad)?;
        let known = stage.check(&stage.text).findings;
        settings::predict_text(&stage.policy, &known, stage.check(&text))
    }

    /// The answer to `/view/packets`: packets that left or were dropped in a time, after such a
    /// delay; with `with_host`, the delay includes that of the run loop.
    ///
    /// # Errors
    /// When there is no such direction or class, or a number is none.
    pub fn packets(&self, query: &PacketsQuery, with_host: bool) -> Result<Packets, Fault> {
        let way = self.way(query.direction.as_deref())?;
        if let Some(class) = query.class.as_ref().filter(|class| !way.load.has_class(class)) {
            return Err(no_class(&way, class));
        }
        let whole = self.window(&way);
        let delay = |micros: Option<f64>| micros.map(|micros| nanos(micros, 1e3)).transpose();
        let within = Within {
            from: self.instant(query.from)?.unwrap_or(whole.from),
            to: self.instant(query.to)?.unwrap_or(whole.to),
            delay_min: Duration::from_nanos(delay(query.delay_min_us)?.unwrap_or(0)),
            delay_max: Duration::from_nanos(delay(query.delay_max_us)?.unwrap_or(u64::MAX)),
            with_host,
        };
        let worst = query.limit.unwrap_or(PACKETS_DEFAULT).min(PACKETS_MAX) as usize;
        let (class, within) = (query.class.clone(), Some(within));
        let ask = AskPackets { class, packet: None, worst, within };
        let found = causes::packets(&way.load, &ask);
        let found = found.map_err(|error| Fault::new(409, error.message))?;
        let epoch_ns = self.head.epoch_ns;
        let left_out = found.matched - found.stories.len() as u64;
        let start = wall_ms(epoch_ns, way.load.start);
        let packet = |story| shown::packet(story, start);
        Ok(Packets {
            packets: found.stories.iter().map(packet).collect(),
            covers: (start, wall_ms(epoch_ns, way.load.end)),
            left_out,
        })
    }

    /// The answer to `/view/fork`.
    ///
    /// # Errors
    /// When there is no such direction or moment, or a setting is none.
    pub fn fork(&self, query: &ForkQuery) -> Result<ForkShown, Fault> {
        let way = self.way(query.direction.as_deref())?;
        let ask = self.ask(&way, query)?;
        let record = self.open()?;
        let forked = fork(&way, record, &ask).map_err(|why| Fault::new(409, why))?;
        Ok(shown::fork(forked.report(&way, &ask, CLASSES_MAX)))
    }

    /// Returns what a query about a fork of a direction means.
    ///
    /// # Errors
    /// When a setting is for another direction, or a number is none.
    pub(super) fn ask(&self, way: &Recorded, query: &ForkQuery) -> Result<Ask, Fault> {
        expect_own(way, &query.settings)?;
        if !(query.seconds > 0.0 && query.seconds <= SECONDS_MAX) {
            return Err(Fault::bad(format!(
                "`seconds` is how long the futures are: above 0, and {SECONDS_MAX} at most"
            )));
        }
        let at = self.instant(Some(query.at))?.unwrap_or(way.load.start);
        // The page knows milliseconds as floats: the first one may be just before the record.
        let is_near = at < way.load.start && way.load.start.since(at) < Duration::from_millis(1);
        Ok(Ask {
            at: if is_near { way.load.start } else { at },
            edits: edits(&query.settings),
            length: Duration::from_nanos((query.seconds * 1e9) as u64),
            step: None,
            driver: query.card.map(shown::driver),
        })
    }

    /// Opens the record.
    ///
    /// # Errors
    /// When its file is gone.
    pub(super) fn open(&self) -> Result<Box<dyn Read>, Fault> {
        self.bytes.open().map_err(|why| Fault::new(500, why))
    }

    /// Returns the direction of this name, or the first that has packets.
    pub(super) fn way(&self, name: Option<&str>) -> Result<Arc<Recorded>, Fault> {
        let names = || self.head.directions.iter().map(|way| way.name.as_str());
        if let Some(name) = name {
            if !names().any(|own| own == name) {
                let names = names().collect::<Vec<_>>().join(", ");
                let text = format!("the record has no such direction; it has {names}");
                return Err(Fault::new(404, text));
            }
            return self.read(name).map_err(|why| Fault::new(409, why));
        }
        let mut why = "the record has no direction".to_owned();
        for name in names() {
            match self.read(name) {
                Ok(way) => return Ok(way),
                Err(error) => why = error,
            }
        }
        Err(Fault::new(409, why))
    }

    fn read_all(&self) -> impl Iterator<Item = Arc<Recorded>> + '_ {
        self.head.directions.iter().filter_map(|way| self.read(&way.name).ok())
    }

    fn read(&self, name: &str) -> Result<Arc<Recorded>, String> {
        let mut ways = lock(&self.ways);
        if let Some(known) = ways.get(name) {
            return known.clone();
        }
        let read = Recorded::read(|| self.bytes.open(), Some(name)).map(Arc::new);
        ways.insert(name.to_owned(), read.clone());
        read
    }

    /// Returns the width of a bin of the history of all directions.
    fn step(&self) -> Duration {
        let ways: Vec<_> = self.read_all().collect();
        let length = ways.iter().map(|way| way.load.duration()).max().unwrap_or(Duration::ZERO);
        let classes = ways.iter().flat_map(|way| way.load.stages.iter());
        let classes: u64 =
            classes.map(|stage| stage.policy.link.tree.classes().count() as u64).sum();
        Window::step_for(length, BINS_MAX.min(CELLS_MAX / classes.max(1)))
    }

    /// The whole time of a direction; what happens at its first instant is part of it.
    fn window(&self, way: &Recorded) -> Window {
        let from = way.load.start.before(Duration::from_nanos(1));
        Window { from, to: way.load.end, step: self.step() }
    }

    fn series(&self, way: &Recorded, window: Window) -> Result<Arc<Series>, Fault> {
        let mut kept = lock(&self.series);
        let is_it =
            |row: &&(String, Window, Arc<Series>)| row.0 == way.direction && row.1 == window;
        if let Some(known) = kept.iter().find(is_it) {
            return Ok(Arc::clone(&known.2));
        }
        let series = Series::of(&way.load, &way.load.plans(), window, &mut |_| {});
        let series = Arc::new(series.map_err(|why| Fault::new(409, why))?);
        kept.truncate(SERIES_MAX - 1);
        kept.push_front((way.direction.clone(), window, Arc::clone(&series)));
        Ok(series)
    }

    /// Returns the bins whose ends are in a span.
    fn history_of(
        &self,
        series: &Series,
        (from, to): (Option<Instant>, Option<Instant>),
    ) -> History {
        series.history(self.head.epoch_ns, CLASSES_MAX, series.window.inside(from, to))
    }

    /// Returns a time in ms since 1970 as an instant of the record.
    fn instant(&self, ms: Option<f64>) -> Result<Option<Instant>, Fault> {
        let Some(ms) = ms else { return Ok(None) };
        // Whole milliseconds first: in nanoseconds a float of today is not exact.
        let whole = nanos(ms.floor(), 1.0)?;
        let rest = (ms.fract() * 1e6).round() as u64;
        let nanos = whole.saturating_mul(1_000_000).saturating_add(rest);
        Ok(Some(Instant::from_nanos(nanos.saturating_sub(self.head.epoch_ns))))
    }
}

/// # Errors
/// When a setting is for another direction.
fn expect_own(way: &Recorded, settings: &[SettingChange]) -> Result<(), Fault> {
    let mut named = settings.iter().filter_map(|change| change.direction.as_ref());
    let Some(other) = named.find(|direction| **direction != way.direction) else { return Ok(()) };
    Err(Fault::bad(format!(
        "a fork goes on with one direction, here `{}`, and a setting is for `{other}`; fork that \
         one",
        way.direction
    )))
}

fn edits(settings: &[SettingChange]) -> Vec<Edit> {
    let edit =
        |change: &SettingChange| Edit { key: change.key.clone(), value: change.value.clone() };
    settings.iter().map(edit).collect()
}

/// Returns a number that a request names, times `factor`.
fn nanos(number: f64, factor: f64) -> Result<u64, Fault> {
    let is_sound = number.is_finite() && number >= 0.0;
    is_sound.then_some((number * factor).round() as u64).ok_or_else(|| {
        Fault::bad("a time or a delay of the request is no number, or below 0; write one from 0 on")
    })
}

fn no_class(way: &Recorded, name: &str) -> Fault {
    let name: String = name.chars().take(NAME_SHOWN).collect();
    Fault::new(404, format!("the policy of `{}` has no class `{name}`", way.direction))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes of a record that are read at once.
const PART: usize = 256 << 10;
/// The most bins of time of a history: 15 minutes at a second.
const BINS_MAX: u64 = 900;
/// The most classes of an answer.
pub(super) const CLASSES_MAX: usize = 1000;
/// Bound: series that the page keeps of a record; the one used longest ago goes.
const SERIES_MAX: usize = 6;
/// Bound: marks of an answer of the page; further ones are left out.
const MARKS_MAX: usize = 1024;
/// Packets of an answer, unless it is said, and at most.
const PACKETS_DEFAULT: u32 = 100;
/// Bound: packets of an answer of the page; further ones are left out.
const PACKETS_MAX: u32 = 1000;
const SECONDS_MAX: f64 = 3600.0;
/// The most characters of a name that come back.
const NAME_SHOWN: usize = 100;
