//! The first thread of a forwarder: it listens to the keeper, to clients and to the loops.
//!
//! Three parts know what to do, each by itself: the keeper's link ([`keeper`]), requests of clients
//! ([`requests`]) and health ([`health`]). The loop joins them; [`intake`] is what it orders of the
//! bridges.

pub mod health;
pub mod intake;
pub mod keeper;
pub mod requests;

use crate::events::write::Form;
use crate::keeper::messages::Report;
use health::Health;
use intake::IntakeOfAll;
use keeper::{KeeperLink, Order};
use requests::Requests;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use weir_host::error::SystemError;
use weir_host::signals::{Asked, Signals};
use weir_host::wait::realtime_ns;
use weir_host::watch::{self, Waker};
use weir_link::events::Event;
use weir_link::status::Status;

/// The first thread of a forwarder, with its three parts.
pub struct ForwarderLoop {
    /// Commands from the keeper and reports to it.
    pub keeper: KeeperLink,
    /// Requests of clients that only this thread can meet.
    pub requests: Requests,
    /// Signs of life, and what happens.
    pub health: Health,
    /// Whether the bridges take frames.
    pub intake: IntakeOfAll,
    /// Signals to this process.
    pub signals: Signals,
    /// How long a loop that ends sends what it holds.
    pub drain: Duration,
}

impl ForwarderLoop {
    /// Waits for up to a beat and does what the keeper, a signal or a client asks for; returns
    /// whether it goes on.
    pub fn turn(&mut self, waker: &Waker) -> bool {
        self.wait(waker);
        let now = Instant::now();
        for asked in self.signals.take() {
            match asked {
                Asked::Stop(_) => return false,
                Asked::Mark => self.intake.mark(),
                Asked::HangUp => {}
            }
        }
        self.requests.handle(now, &mut self.keeper, &mut self.health);
        while let Some(order) = self.keeper.handle(realtime_ns()) {
            if !self.follow(order) {
                return false;
            }
        }
        if !self.keeper.has_keeper() && self.intake.is_closed() {
            // It was closed for a forwarder that has not begun, and now never will.
            self.intake.set(true);
        }
        self.follow_intake();
        self.health.handle(now, &self.keeper);
        // One that never took frames is of no use without a keeper.
        self.keeper.has_keeper() || self.intake.was_set()
    }

    fn wait(&self, waker: &Waker) {
        let own = [waker.as_fd(), self.signals.as_fd()];
        let watched: Vec<BorrowedFd<'_>> =
            own.into_iter().chain(self.keeper.descriptor()).collect();
        let interval = self.intake.interval().unwrap_or(self.health.interval());
        if watch::readable(&watched, interval).is_err() {
            // Never without a pause.
            std::thread::sleep(interval);
        }
        waker.reset();
    }

    /// Does what the keeper says; returns false if that is to end.
    fn follow(&mut self, order: Order) -> bool {
        match order {
            Order::Intake(is_open) => {
                self.intake.set(is_open);
                self.follow_intake();
            }
            Order::Mark => self.intake.mark(),
            Order::Drain(drain) => {
                self.drain = drain;
                return false;
            }
            Order::Restarted(outcome) => self.requests.restarted(outcome),
            Order::Texts(read) => self.requests.take_texts(read),
            Order::Questions(whom, channel) => self.requests.take_questions(whom, channel),
            // The keeper has written it down.
            Order::Reported(event) => self.health.pass_on(*event),
            Order::Lost(loss) => {
                say(&loss);
                self.requests.lose_keeper();
                self.health.keep(loss);
            }
        }
        true
    }

    /// Says once that every loop has opened or closed its intake.
    fn follow_intake(&mut self) {
        let Some(is_open) = self.intake.followed() else { return };
        if is_open && let Err(error) = self.requests.open_listener() {
            // Traffic matters more than its figures.
            self.health.refuse_clients(&error);
        }
        self.keeper.send(&Report::Intake(is_open));
    }

    /// Reports to the keeper how it ended: with this error, if there was one, and with this status.
    pub fn finish(&mut self, error: Option<&SystemError>, status: Status) {
        self.requests.close_listener();
        self.health.report_last_events(&self.keeper);
        if let Some(error) = error {
            self.keeper.send(&Report::Failed(error.to_string()));
        }
        self.keeper.send(&Report::Ended(Box::new(status)));
    }
}

/// Writes an event to standard error, which this process has from its keeper, unless that would
/// wait for a reader.
fn say(event: &Event) {
    let out = std::io::stderr();
    let mut watched = [PollFd::new(&out, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // What is writable takes a line, if it is a pipe (pipe(7)) or a terminal.
    if poll(&mut watched, Some(&at_once)).is_ok_and(|ready| ready > 0) {
        let _gone = out.lock().write_all(Form::Text.line(event).as_bytes());
    }
}
