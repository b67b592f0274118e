//! Runs a flow of this host, and prints what becomes of it.

use crate::output::{Exit, Format, Output};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use weir_host::rsvp::host::{self, Host, HostEvent, HostPlan, HostRequest, Role, State};
use weir_host::signals::StopSignal;

/// The conditions under which it ends by itself.
pub struct Ending {
    /// It ends after this time.
    pub lasts: Option<Duration>,
    /// A receiver: after this time without an answer.
    pub wait: Option<Duration>,
    /// A receiver: with the answer.
    pub test: bool,
}

/// Runs until it ends.
pub fn run(plan: HostPlan, ending: &Ending, output: &Output) -> Exit {
    output.json_by_line();
    match prepare(plan) {
        Ok((host, stop)) => {
            let begun = Instant::now();
            Flow { host, stop, output, begun, waits_since: Some(begun) }.run(ending)
        }
        Err(why) => output.refuse(&why),
    }
}

fn prepare(plan: HostPlan) -> Result<(Host, StopSignal), String> {
    let session = plan.session;
    let is_receiver = matches!(plan.request, HostRequest::Receive(_));
    let role = if is_receiver { Role::Receiver } else { Role::Sender };
    let running = host::list().map_err(|error| error.to_string())?;
    let stop = StopSignal::install().map_err(|error| error.to_string())?;
    let host = Host::open(plan).map_err(|error| error.to_string())?;
    // Of a session a host has one receiver, and one sender at an address and port.
    let senders = host.status().senders;
    let same = |other: &host::HostStatus| {
        (other.destination, other.protocol, other.port)
            == (session.destination, session.protocol, session.port)
            && other.role == role
            && (role == Role::Receiver || other.senders == senders)
    };
    if let Some((_, other)) = running.iter().find(|(_, other)| same(other)) {
        let does = if role == Role::Receiver { "reserves for" } else { "announces" };
        return Err(format!(
            "process {} {does} this flow already; `weir reserve release` ends it",
            other.process
        ));
    }
    Ok((host, stop))
}

struct Flow<'a> {
    host: Host,
    stop: StopSignal,
    output: &'a Output,
    begun: Instant,
    /// When it began to wait for an answer: at first, or when what was reserved ended. `None` while
    /// there is one.
    waits_since: Option<Instant>,
}

impl Flow<'_> {
    fn run(mut self, ending: &Ending) -> Exit {
        let exit = loop {
            let (events, deadline) = self.host.turn();
            for one in &events {
                self.print(one);
            }
            self.waits_since = match self.is_decided() {
                true => None,
                false => self.waits_since.or_else(|| Some(Instant::now())),
            };
            if let Some(exit) = self.over(ending) {
                break exit;
            }
            let wait = ending.wait.zip(self.waits_since);
            let limits = [
                ending.lasts.map(|limit| limit.saturating_sub(self.begun.elapsed())),
                wait.map(|(limit, since)| limit.saturating_sub(since.elapsed())),
            ];
            let left = limits.into_iter().flatten().min().map(|left| {
                let nanos = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
                Host::now().after(weir_core::units::Duration::from_nanos(nanos))
            });
            let deadline = deadline.into_iter().chain(left).min();
            if let Err(error) = self.host.wait(deadline, &[self.stop.as_fd()]) {
                break self.output.refuse(&format!("cannot wait: {error}"));
            }
        };
        self.host.end();
        exit
    }

    /// Returns the exit code once it is to end.
    fn over(&self, ending: &Ending) -> Option<Exit> {
        let (state, elapsed) = (self.host.state(), self.begun.elapsed());
        match state {
            State::Refused { .. } | State::Impossible { .. } => return Some(Exit::Faults),
            State::Accepted { .. } if ending.test => return Some(Exit::Clean),
            _ => {}
        }
        // A sender has done its part even without a reservation.
        let was_asked = ending.wait.is_none() || self.is_decided();
        if self.host.is_released() || self.stop.requested() || self.output.is_closed() {
            return Some(if was_asked { Exit::Clean } else { Exit::Interrupted });
        }
        if ending.lasts.is_some_and(|lasts| elapsed >= lasts) && was_asked {
            return Some(Exit::Clean);
        }
        let waited = self.waits_since.map_or(Duration::ZERO, |since| since.elapsed());
        let gives_up = ending.wait.is_some_and(|wait| waited >= wait)
            || ending.lasts.is_some_and(|lasts| elapsed >= lasts);
        (!was_asked && gives_up).then(|| self.unanswered(waited))
    }

    fn is_decided(&self) -> bool {
        matches!(self.host.state(), State::Accepted { .. } | State::Refused { .. })
    }

    /// Explains why there is no answer.
    fn unanswered(&self, elapsed: Duration) -> Exit {
        let seconds = elapsed.as_secs_f64();
        let what = match (self.host.state(), self.host.failure()) {
            (_, Some(why)) => format!("messages do not leave this host: {why}"),
            (State::Waiting, _) => {
                "nobody announced the flow; run `weir reserve send` on the sender's host, see that \
                 routers on the way forward protocol 46, and wait for 45 s and more: a sender may \
                 announce no sooner again"
                    .to_owned()
            }
            _ => {
                "no router or sender answered; see that firewalls on the way let protocol 46 pass, \
                  and that keys agree"
                    .to_owned()
            }
        };
        self.output.fault(&format!("after {seconds:.1} s {what}"))
    }

    fn print(&self, event: &HostEvent) {
        match self.output.format {
            Format::Json => self.output.json(&event.json()),
            Format::Text => self.output.text(&format!("{event}\n")),
        }
    }
}
