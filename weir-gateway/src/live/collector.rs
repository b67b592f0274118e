//! The thread that asks the link for all viewers.

use super::Shared;
use super::past::STEP_MS;
use super::series::rounded;
use super::tally::{Between, Tally, WayBetween};
use super::tree::Tree;
use crate::json::{Mark, Now, Sample};
use crate::source::link;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_control::client::call_on;
use weir_control::protocol::{Answer, Query, Request, Right, Since, Sort};
use weir_host::wait::realtime_ns;
use weir_link::events::time;
use weir_link::status::Status;

/// The collector; it ends when this is dropped.
pub struct Collector {
    shared: Arc<Shared>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    /// Starts the thread that polls the link.
    pub fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        let (own, is_over) = (Arc::clone(&shared), Arc::clone(&ends));
        let work = move || Work::new(own).run(&is_over);
        let thread = std::thread::Builder::new().name("collector".to_owned()).spawn(work)?;
        Ok(Self { shared, ends, thread: Some(thread) })
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // A reader wakes the thread.
        let reader = self.shared.feed.read(None);
        if let Some(thread) = self.thread.take() {
            // One that panicked has told so.
            let _ended = thread.join();
        }
        drop(reader);
    }
}

/// The state of the collector.
struct Work {
    shared: Arc<Shared>,
    /// The connection to the link, while there is one.
    link: Option<UnixStream>,
    tree: Arc<Tree>,
    /// The last counts, the oldest first; they reach back a little over a second.
    tallies: VecDeque<Tally>,
    /// The counts at the last frame, with delays.
    framed: Option<Tally>,
    /// The delays of the last second, of which samples tell.
    delays: Option<Between>,
    /// The last event that was read.
    event: Option<String>,
    /// Whether events were read: those that the first look finds are past.
    has_read: bool,
    /// When the classes were chosen, where there are too many.
    chosen: Instant,
    clock: Clock,
}

/// The wall clock when the link's ports were opened, in milliseconds since 1970.
#[derive(Default)]
struct Clock(Option<f64>);

impl Clock {
    /// Returns the instant of the counts of a status that came at `now_ms`. By the wall clock alone
    /// it would be later by as long as the answer took, and counts of a second not a second apart.
    fn read(&mut self, status: &Status, now_ms: f64) -> f64 {
        let uptime_ms = status.uptime_ns as f64 / 1e6;
        let opened = now_ms - status.age_ns as f64 / 1e6 - uptime_ms;
        // The answer that took shortest is right, unless the clock was set or another process
        // counts.
        let known = self.0.filter(|known| (opened - known).abs() < SET_MS);
        let opened = known.map_or(opened, |known| known.min(opened));
        self.0 = Some(opened);
        opened + uptime_ms
    }
}

impl Work {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            link: None,
            tree: Arc::default(),
            tallies: VecDeque::new(),
            framed: None,
            delays: None,
            event: None,
            has_read: false,
            chosen: Instant::now(),
            clock: Clock::default(),
        }
    }

    fn run(&mut self, ends: &AtomicBool) {
        let mut due = Instant::now();
        let mut frame_due = due;
        while !ends.load(Ordering::Relaxed) {
            let now = Instant::now();
            let is_frame = now + SLACK >= frame_due;
            if is_frame {
                // One that comes late is followed by one in time.
                let next = frame_due + Duration::from_millis(STEP_MS.into());
                frame_due = if next > now { next } else { now + FRAME };
            }
            if let Err(why) = self.poll(is_frame) {
                self.lose(&why);
            }
            if self.shared.feed.is_read() {
                due = (due + SAMPLE).max(Instant::now());
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            } else {
                let patience = frame_due.saturating_duration_since(Instant::now());
                self.shared.feed.wait_for_reader(patience.max(PATIENCE_MIN));
                due = Instant::now();
            }
        }
    }

    /// Polls the link, and sends viewers what is new.
    fn poll(&mut self, is_frame: bool) -> Result<(), String> {
        let is_read = self.shared.feed.is_read();
        if !is_frame && !is_read {
            return Ok(());
        }
        let is_part = self.tree.ways.iter().any(|way| way.shown.left_out > 0);
        let sort = is_part.then_some(Sort::Rate);
        let query = Query { limit: Some(CLASSES_MAX), bins: is_frame, sort, ..Query::default() };
        let Answer::Status(status) = self.ask(&Request::Status(query))? else {
            return Err("the link gave no status".to_owned());
        };
        self.shared.past().find();
        let tally = self.tally(&status, is_frame);
        self.shared.past().kept = tally.kept;
        if is_frame {
            self.add_frame(&tally);
        }
        self.send(tally, is_read);
        self.read_events()
    }

    fn ask(&mut self, request: &Request) -> Result<Answer, String> {
        let link = match self.link.take() {
            Some(link) => link,
            None => link(self.shared.contact.as_ref(), Right::Read)?,
        };
        match call_on(&link, request)? {
            Answer::Error(why) => Err(why),
            answer => {
                self.link = Some(link);
                Ok(answer)
            }
        }
    }

    /// Notes that the link does not answer. All counts begin anew with the next that does.
    fn lose(&mut self, why: &str) {
        (self.link, self.framed, self.delays) = (None, None, None);
        self.tallies.clear();
        if self.shared.past().lose(why) {
            self.shared.feed.put_event("gone", json!({ "text": why }).to_string());
        }
    }

    /// Returns the counts of a status, by the classes that are shown, and shows others if those
    /// changed.
    fn tally(&mut self, status: &Status, has_bins: bool) -> Tally {
        let now_ms = realtime_ns() as f64 / 1e6;
        let is_stale = self.chosen.elapsed() >= CHOICE && !self.tree.has_all_of(status);
        if !self.tree.fits(status) || is_stale {
            self.chosen = Instant::now();
            let tree = Tree::of(status);
            if tree != *self.tree {
                self.tree = Arc::new(tree);
                self.shared.past().show(&self.tree);
                self.shared.feed.put_about();
            }
        }
        Tally::of(status, &self.tree, self.clock.read(status, now_ms), has_bins)
    }

    /// Keeps what happened in the last second.
    fn add_frame(&mut self, now: &Tally) {
        let before = self.framed.replace(now.clone());
        let between = before.and_then(|before| {
            let seconds = before.seconds_to(now)?;
            Some(before.to(now, seconds))
        });
        if let Some(between) = &between {
            self.shared.past().add(&now.tree, between);
        }
        self.delays = between;
    }

    /// Sends viewers the events of the second before now.
    fn send(&mut self, now: Tally, is_read: bool) {
        let is_old = |one: &Tally| one.seconds_to(&now).is_none_or(|seconds| seconds > WINDOW);
        while self.tallies.front().is_some_and(is_old) {
            self.tallies.pop_front();
        }
        if let Some((first, seconds)) =
            self.tallies.front().filter(|_| is_read).and_then(|it| Some((it, it.seconds_to(&now)?)))
        {
            let between = first.to(&now, seconds);
            self.shared.feed.put_samples(samples(&now, &between, self.delays.as_ref()));
        }
        self.tallies.push_back(now);
        self.tallies.truncate(TALLIES_MAX);
    }

    /// Reads what happened since the last look.
    fn read_events(&mut self) -> Result<(), String> {
        let since = Since { after: self.event.clone(), follow: false };
        let Answer::Events(news) = self.ask(&Request::Events(since))? else {
            return Err("the link gave no events".to_owned());
        };
        let is_past = !std::mem::replace(&mut self.has_read, true);
        for event in &news.events {
            let text = |key: &str| event.get(key).and_then(Value::as_str).map(str::to_owned);
            self.event = text("id").or(self.event.take());
            if let Some(mark) = mark(event) {
                self.shared.past().mark(mark);
            }
            if !is_past {
                self.shared.feed.put_event("event", Value::Object(event.clone()).to_string());
            }
        }
        Ok(())
    }
}

fn mark(event: &Map<String, Value>) -> Option<Mark> {
    let text = |key: &str| event.get(key).and_then(Value::as_str);
    Some(Mark {
        t: time::read_rfc3339(text("time")?)? as f64 / 1e6,
        kind: text("event")?.to_owned(),
        text: text("text").unwrap_or_default().to_owned(),
        level: text("severity").unwrap_or_default().to_owned(),
    })
}

/// Returns the sample of each direction, as JSON.
fn samples(now: &Tally, between: &Between, delays: Option<&Between>) -> Vec<(String, Arc<str>)> {
    let each = now.tree.ways.iter().zip(&between.ways).enumerate();
    each.map(|(index, (way, between_way))| {
        let delays = delays.and_then(|delays| delays.ways.get(index));
        let sample = Sample { kept: now.kept, ..sample(between.t, between_way, delays) };
        let text = serde_json::to_string(&sample).expect("numbers have a form in JSON");
        (way.shown.name.clone(), text.into())
    })
    .collect()
}

fn sample(t: f64, now: &WayBetween, delays: Option<&WayBetween>) -> Sample {
    let class = |(place, class): (usize, &Option<super::tally::ClassBetween>)| -> Option<Now> {
        let class = class.as_ref()?;
        let measured = delays.and_then(|delays| delays.classes.get(place)?.as_ref());
        let delay = |per_mille| {
            let us = measured.and_then(|measured| measured.quantile_us(per_mille));
            us.map(|us| rounded(us, 10.0))
        };
        Some((
            class.sent_bps.round(),
            class.offered_bps.round(),
            class.backlog_bytes,
            delay(500),
            delay(990),
            rounded(class.dropped_pps(), 1e3),
            class.borrowed_bps.round(),
        ))
    };
    let loan = |(borrower, lender, bps): &(usize, Option<usize>, f64)| {
        (*borrower, lender.map_or(-1, |lender| lender as i64), bps.round())
    };
    Sample {
        t,
        classes: now.classes.iter().enumerate().map(class).collect(),
        loans: now.loans.iter().map(loan).collect(),
        kept: None,
        found: (now.found.0.round(), now.found.1.round(), now.found.2.round()),
        varies: now.varies.clone(),
    }
}

/// The most classes that are told of; those that sent most where there are more.
const CLASSES_MAX: u32 = 1000;
/// The time between two samples.
const SAMPLE: Duration = Duration::from_millis(250);
/// Never without a pause.
const PATIENCE_MIN: Duration = Duration::from_millis(20);
const FRAME: Duration = Duration::from_millis(STEP_MS as u64);
/// How much earlier than due a frame may be.
const SLACK: Duration = Duration::from_millis(30);
/// A sample tells of about so many seconds.
const WINDOW: f64 = 1.1;
/// More counts than that window has.
const TALLIES_MAX: usize = 16;
/// How often classes are chosen anew, where there are too many to show all.
const CHOICE: Duration = Duration::from_secs(60);
/// A greater difference in milliseconds means that the clock was set; no answer takes so long.
const SET_MS: f64 = 1000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_an_answer_takes_moves_no_instant() {
        let mut clock = Clock::default();
        // Uptime, age of the counts, when the answer came, and the instant of the counts.
        let rows = [
            (1000, 0, 51_020.0, 51_020.0),
            (2000, 5, 52_006.0, 52_001.0),
            (3000, 0, 53_300.0, 53_001.0),
            // The clock was set, back and forth.
            (4000, 0, 44_002.0, 44_002.0),
            (5000, 0, 55_001.0, 55_001.0),
            // Another process.
            (100, 0, 57_000.0, 57_000.0),
        ];
        for (uptime_ms, age_ms, came, wanted) in rows {
            let (uptime_ns, age_ns) = (uptime_ms * 1_000_000, age_ms * 1_000_000);
            let status = Status { uptime_ns, age_ns, ..Status::default() };
            assert_eq!(clock.read(&status, came), wanted, "{uptime_ms}");
        }
    }
}
