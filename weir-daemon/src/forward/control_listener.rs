//! The control socket of a forwarder. What clients may ask for beside the status goes to the first
//! thread.

use super::policies::Policies;
use super::questions::Questions;
use super::recording::Recorder;
use super::report::report;
use crate::keeper::messages::Report;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;
use weir_control::protocol::{Answer, OWNER_REQUEST_MAX, Request};
use weir_control::server::Server;
use weir_control::service::{Act, Refused, Reply, Service, Tail};
use weir_host::error::SystemError;
use weir_host::watch::Waker;
use weir_link::alarm::Alarms;
use weir_link::change::history::Texts;
use weir_link::events::{Kind, Reporter};
use weir_link::status::Board;

/// A client's request to the first thread, and where the outcome goes.
pub enum ForwarderRequest {
    /// To restart the link from its file.
    Restart(Sender<Result<String, String>>),
    /// To be its keeper from now on, with these descriptors.
    HandOver(Sender<Result<Vec<OwnedFd>, String>>),
    /// To read the file of the deployment again.
    ReadAnew(Sender<Result<Texts, String>>),
    /// To send this report to the keeper, and to confirm that it was sent.
    Report(Box<Report>, Sender<()>),
    /// That these alarms are watched from now on.
    Alarms(Box<Alarms>),
}

/// The thread that takes requests.
#[derive(Clone)]
pub struct FirstThread {
    /// Where requests go.
    pub requests: Sender<ForwarderRequest>,
    /// Wakes it up for them.
    pub waker: Arc<Waker>,
}

impl FirstThread {
    /// Lets it do something; where it has ended, the process ends.
    pub fn send(&self, request: ForwarderRequest) {
        let _ending = self.requests.send(request);
        self.waker.wake();
    }

    /// Has it carry out a request.
    ///
    /// # Errors
    /// When it is refused, or not met in time.
    pub fn ask<T>(
        &self,
        request: fn(Sender<Result<T, String>>) -> ForwarderRequest,
        patience: Duration,
    ) -> Result<T, String> {
        let (reply, outcome) = mpsc::channel();
        let stopping = "the link is stopping";
        self.requests.send(request(reply)).map_err(|_| stopping)?;
        self.waker.wake();
        outcome.recv_timeout(patience).map_err(|_| "the link does not answer in time, or ends")?
    }
}

/// Answers the requests of clients that the server itself cannot answer.
pub struct Handlers {
    pub policies: Arc<Policies>,
    pub recorder: Arc<Recorder>,
    pub questions: Arc<Questions>,
}

/// The control socket. Clients wait in front of it until it is opened: another forwarder may serve
/// the same socket as long as this one takes no frames.
pub enum ControlListener {
    /// With what will answer.
    Closed(UnixListener, Box<Service>),
    /// A server serves clients.
    Open(Server),
    /// Closed for good, because the link ends.
    Gone,
}

impl ControlListener {
    /// Returns one that is closed as yet.
    ///
    /// # Errors
    /// When there are too many descriptors.
    pub fn closed(listener: &OwnedFd, service: Service) -> Result<Self, SystemError> {
        let copy = listener.try_clone();
        let copy = copy.map_err(|cause| SystemError::new(SERVE, cause))?;
        Ok(Self::Closed(copy.into(), Box::new(service)))
    }

    /// Leaves further clients to another forwarder; those that wait for an answer get it.
    pub fn finish(&self) {
        if let Self::Open(server) = self {
            server.finish();
        }
    }

    /// Serves clients from now on; one that is open stays so.
    ///
    /// # Errors
    /// When the system has no descriptor or no thread left.
    pub fn open(&mut self) -> Result<(), SystemError> {
        match std::mem::replace(self, Self::Gone) {
            Self::Closed(listener, service) => {
                let server = Server::on(listener, *service);
                *self = Self::Open(server.map_err(|cause| SystemError::new(SERVE, cause))?);
            }
            other => *self = other,
        }
        Ok(())
    }
}

/// Returns what the server of the control socket is given.
pub fn prepare(
    boards: Vec<Arc<Board>>,
    owner: u32,
    handlers: Handlers,
    first: FirstThread,
    reporter: Reporter,
) -> Service {
    let Handlers { policies, recorder, questions } = handlers;
    let act: Act = Box::new(move |request, peer| match request {
        Request::Restart {} => match first.ask(ForwarderRequest::Restart, RESTART_PATIENCE) {
            Ok(_) => Answer::Done.into(),
            Err(why) => Reply::error(why),
        },
        Request::HandOver {} => match first.ask(ForwarderRequest::HandOver, HAND_OVER_PATIENCE) {
            Ok(descriptors) => Reply { descriptors, ..Answer::Done.into() },
            Err(why) => Reply::error(why),
        },
        Request::Record { for_ms } => follow(recorder.record(for_ms.map(Duration::from_millis))),
        Request::Snapshot { from_ms, to_ms } => follow(recorder.snapshot(*from_ms, *to_ms)),
        Request::Reservations { limit } => match questions.ask(*limit) {
            Ok(reservations) => Answer::Reservations(Box::new(reservations)).into(),
            Err(why) => Reply::error(why),
        },
        Request::Circuits { limit } => match questions.circuits(*limit) {
            Ok(circuits) => Answer::Circuits(Box::new(circuits)).into(),
            Err(why) => Reply::error(why),
        },
        Request::Feed { lines, whole } => match questions.feed(lines, *whole) {
            Ok(fed) => Answer::Fed(fed).into(),
            Err(why) => Reply::error(why),
        },
        Request::Status(_) | Request::Events(_) | Request::Mark {} => {
            Reply::error("the server itself answers this")
        }
        request => policies.meet(request, peer),
    });
    let refused = move |refused: Refused| {
        let client = match refused.uid {
            Some(uid) => format!("user {uid}"),
            None if refused.is_tcp => "a client on TCP".to_owned(),
            None => "an unknown user".to_owned(),
        };
        let detail = format!("{}: {}", refused.cause.name(), refused.text);
        report(&reporter, Kind::ControlRefused, &client, &detail);
    };
    Service {
        act,
        refused: Box::new(refused),
        owner_request_max: OWNER_REQUEST_MAX,
        ..Service::of(boards, owner)
    }
}

/// Returns the answer that is followed by what `tail` writes.
fn follow(tail: Result<Tail, String>) -> Reply {
    match tail {
        Ok(tail) => Reply { tail: Some(tail), ..Answer::Done.into() },
        Err(why) => Reply::error(why),
    }
}

const SERVE: &str = "serve the control socket";
/// A new forwarder reads a policy that may have a million classes.
const RESTART_PATIENCE: Duration = Duration::from_secs(60);
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(2);
