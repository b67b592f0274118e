//! Health: signs of life, refused system calls, alarms, and what happens, on its way to the keeper
//! and to clients.

use super::keeper::KeeperLink;
use crate::forward::report::report;
use crate::keeper::messages::Report;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_host::error::SystemError;
use weir_host::sandbox::Denials;
use weir_link::alarm::Alarms;
use weir_link::events::feed::Feed;
use weir_link::events::{self, EVENTS_MAX, Event, EventLog, Kind, Reporter};
use weir_link::status::Board;

/// Signs of life, alarms and events of a forwarder.
pub struct Health {
    /// The name of the deployment.
    name: String,
    boards: Vec<Arc<Board>>,
    /// The looks of each loop at the last sign of life.
    polls: Vec<u64>,
    /// When that was given.
    beaten: Instant,
    interval: Duration,
    events: Events,
    reporter: Reporter,
    denials: Denials,
    /// Events that no keeper has received yet.
    unreported: VecDeque<Event>,
    /// How many events no keeper will receive: too many happened without one.
    forgotten: u64,
}

/// Where events come from, and where clients read them.
pub struct Events {
    /// Where threads put their events.
    pub log: EventLog,
    /// The last events, from which threads of clients read.
    pub feed: Arc<Feed>,
    /// The alarms that are watched.
    pub alarms: Alarms,
}

impl Health {
    /// That of the deployment of this name, whose loops have these boards. Without a sign of life
    /// for the time of the watchdog, the keeper ends this process.
    pub fn new(
        (name, boards): (String, Vec<Arc<Board>>),
        watchdog: Option<Duration>,
        events: Events,
        reporter: Reporter,
    ) -> Self {
        Self {
            name,
            polls: vec![0; boards.len()],
            boards,
            beaten: Instant::now(),
            interval: watchdog.map_or(BEAT_MAX, |time| time / 8).min(BEAT_MAX),
            events,
            reporter,
            denials: Denials::default(),
            unreported: VecDeque::new(),
            forgotten: 0,
        }
    }

    /// Returns the longest time between two calls of [`Health::handle`].
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Reports events, and gives a sign of life if every loop gave one.
    pub fn handle(&mut self, now: Instant, keeper: &KeeperLink) {
        if now.saturating_duration_since(self.beaten) < self.interval {
            return;
        }
        for denial in self.denials.take_new() {
            report(&self.reporter, Kind::CallRefused, &self.name, &denial.to_string());
        }
        self.report_events(keeper);
        let polls: Vec<u64> = self.boards.iter().map(|board| board.polls()).collect();
        if polls.iter().zip(&self.polls).all(|(now, before)| now != before) {
            (self.polls, self.beaten) = (polls, now);
            keeper.send(&Report::Beat);
        }
    }

    /// Watches these alarms from now on.
    pub fn watch(&mut self, alarms: Alarms) {
        let before = std::mem::replace(&mut self.events.alarms, alarms);
        self.events.alarms.go_on_from(before);
    }

    /// Reports that no client is served, for this reason.
    pub fn refuse_clients(&self, error: &SystemError) {
        report(&self.reporter, Kind::ControlRefused, "every client", &error.to_string());
    }

    /// Sends events to the keeper. Without one, the latest events wait for the next.
    fn report_events(&mut self, keeper: &KeeperLink) {
        self.events.alarms.check();
        self.report_new(keeper);
    }

    /// Tells the keeper what threads reported since it was last told, without waiting for the next
    /// sign of life.
    pub fn report_new(&mut self, keeper: &KeeperLink) {
        let mut new = Vec::new();
        self.events.log.take(|event| new.push(event));
        new.into_iter().for_each(|event| self.keep(event));
        self.report_kept(keeper);
    }

    /// As the last thing: also what was left out of late.
    pub fn report_last_events(&mut self, keeper: &KeeperLink) {
        self.report_events(keeper);
        let mut last = Vec::new();
        self.events.log.take_last(|event| last.push(event));
        last.into_iter().for_each(|event| self.keep(event));
        self.report_kept(keeper);
    }

    fn report_kept(&mut self, keeper: &KeeperLink) {
        if keeper.has_keeper() && self.forgotten > 0 {
            let count = std::mem::take(&mut self.forgotten);
            self.unreported.push_front(events::lost(count));
        }
        while keeper.has_keeper()
            && let Some(event) = self.unreported.pop_front()
        {
            if !keeper.send(&Report::Event(Box::new(event.clone()))) {
                // It is slow, or gone: then the next one receives it.
                self.unreported.push_front(event);
                break;
            }
        }
    }

    /// Gives clients an event that the keeper knows.
    pub fn pass_on(&self, event: Event) {
        self.events.feed.push(event);
    }

    /// Gives clients an event, and keeps it until a keeper has received it.
    pub fn keep(&mut self, event: Event) {
        self.pass_on(event.clone());
        if self.unreported.len() >= EVENTS_MAX
            && let Some(oldest) = self.unreported.pop_front()
        {
            // One that says how many were lost goes on being counted.
            self.forgotten += if oldest.kind == Kind::EventsLost { oldest.count } else { 1 };
        }
        self.unreported.push_back(event);
    }
}

/// The longest time between two signs of life.
const BEAT_MAX: Duration = Duration::from_millis(200);

#[cfg(test)]
pub(super) mod tests {
    use super::super::keeper::tests::{link, received};
    use super::*;
    use weir_host::channel::Channel;
    use weir_link::events::About;
    use weir_policy::deployment;

    /// That of a link without bridges.
    pub fn health(reporter: Reporter, log: EventLog) -> Health {
        let text = "[deployment]\nname = 'd'\nports = { a = 'a0', b = 'b0' }\n";
        let outcome = deployment::parse(text.as_bytes(), "d.toml", &weir_policy::file::none);
        let deployment = outcome.plan.expect("it has no errors");
        let alarms = Alarms::watch(&deployment, &mut [], reporter.clone());
        let events = Events { log, feed: Arc::default(), alarms };
        Health::new(("d".to_owned(), Vec::new()), Some(Duration::from_secs(2)), events, reporter)
    }

    fn event(number: usize) -> Event {
        let detail = number.to_string();
        Event::at(Kind::RsvpDied, 1, About { detail: &detail, ..About::default() })
    }

    /// Returns the reports that the keeper received, in words: `beat`, an event's detail, `lost N`.
    fn words(keeper: &Channel) -> Vec<String> {
        let word = |report| match report {
            Report::Beat => "beat".to_owned(),
            Report::Event(event) if event.kind == Kind::EventsLost => {
                format!("lost {}", event.count)
            }
            Report::Event(event) => event.detail,
            other => format!("{other:?}"),
        };
        received(keeper).into_iter().map(word).collect()
    }

    #[test]
    fn a_sign_of_life_is_given_once_an_interval() {
        let (reporter, log) = events::log();
        let mut health = health(reporter, log);
        let (link, keeper) = link();
        let start = health.beaten;
        assert_eq!(health.interval(), Duration::from_millis(200));
        let rows: [(u64, &[&str]); 6] = [
            (0, &[]),
            (199, &[]),
            (200, &["beat"]),
            (399, &[]),
            (400, &["beat"]),
            (990, &["beat"]),
        ];
        for (millis, expected) in rows {
            health.handle(start + Duration::from_millis(millis), &link);
            assert_eq!(words(&keeper), expected, "at {millis} ms");
        }
    }

    #[test]
    fn a_loop_that_does_not_poll_gives_no_sign_of_life_and_events_are_told_even_so() {
        let (reporter, log) = events::log();
        let mut health = health(reporter.clone(), log);
        health.boards.push(Arc::new(Board::new()));
        health.polls.push(0);
        let (link, keeper) = link();
        report(&reporter, Kind::RsvpDied, "a0", "up");
        health.handle(health.beaten + Duration::from_secs(1), &link);
        assert_eq!(words(&keeper), ["up"]);
    }

    #[test]
    fn events_wait_for_the_next_keeper_and_those_beyond_are_counted() {
        for (count, expected) in [(3, "0 1 2"), (EVENTS_MAX + 3, "lost 3 3")] {
            let (reporter, log) = events::log();
            let mut health = health(reporter, log);
            let (mut lost, keeper) = link();
            drop(keeper);
            assert!(lost.handle(1).is_some(), "its keeper is gone");
            (0..count).for_each(|number| health.keep(event(number)));
            health.report_kept(&lost);
            assert_eq!(health.unreported.len(), count.min(EVENTS_MAX));
            let (next, keeper) = link();
            let mut reported = Vec::new();
            // A channel holds fewer than wait; its reader makes room.
            while health.forgotten > 0 || !health.unreported.is_empty() {
                health.report_kept(&next);
                reported.extend(words(&keeper));
            }
            assert!(reported.join(" ").starts_with(expected), "{:?}", &reported[..3]);
            assert_eq!(reported.len(), count.min(EVENTS_MAX + 1));
            assert_eq!(reported.last(), Some(&(count - 1).to_string()));
        }
    }

    #[test]
    fn what_the_keeper_reported_is_for_clients_alone() {
        let (reporter, log) = events::log();
        let mut health = health(reporter, log);
        let (link, keeper) = link();
        health.pass_on(event(1));
        health.keep(event(2));
        health.report_kept(&link);
        assert_eq!(words(&keeper), ["2"]);
        let feed = &health.events.feed;
        let read = feed.after(feed.start(), 10, Duration::ZERO).events;
        assert_eq!(read.len(), 2);
    }
}
