//! Messages to a service manager: `READY=1`, a status, and that the keeper still runs.
//!
//! Without the variables that a service manager sets (`NOTIFY_SOCKET`, `WATCHDOG_USEC`) nothing is
//! told. systemd-notify(1), sd_notify(3).

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// The service manager that started this process, if one did.
#[derive(Debug)]
pub struct Service {
    interval: Option<Duration>,
    notified: Instant,
}

impl Service {
    /// The service manager of this process.
    pub fn detect() -> Self {
        let mut micros = 0;
        let watched = sd_notify::watchdog_enabled(false, &mut micros);
        // Half of the time, as sd_watchdog_enabled(3) recommends.
        let interval = watched.then(|| Duration::from_micros(micros / 2));
        Self { interval, notified: Instant::now() }
    }

    /// Says that frames pass from now on.
    pub fn ready(&self, status: &str) {
        notify(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// Says in a sentence how it goes.
    pub fn status(&self, status: &str) {
        notify(&[NotifyState::Status(status)]);
    }

    /// Says that the service ends.
    pub fn stopping(&self) {
        notify(&[NotifyState::Stopping]);
    }

    /// Says that the keeper still runs, if that is due.
    pub fn beat(&mut self, now: Instant) {
        if self.interval.is_some_and(|interval| now.duration_since(self.notified) >= interval) {
            self.notified = now;
            notify(&[NotifyState::Watchdog]);
        }
    }

    /// Returns the longest time between two calls of [`Service::beat`], if it must be called.
    pub fn interval(&self) -> Option<Duration> {
        self.interval
    }
}

/// A service manager that does not listen is no reason to stop.
fn notify(states: &[NotifyState<'_>]) {
    let _ignored = sd_notify::notify(false, states);
}
