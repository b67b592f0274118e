//! The forwarder's way to the authorities in its keeper.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Answer, Ask, Authority, Granted, Refusal, Reply, Request, Wish, misfit};
use crate::sorter::Sorting;
use weir_host::channel::Channel;
use weir_host::error::{Result, SystemError};

/// Brings asks of one port to a [`Desk`](super::Desk), and waits for the answer. Ports of several
/// threads share one channel; they ask in turn.
#[derive(Clone, Debug)]
pub struct Courier {
    line: Arc<Mutex<Line>>,
    /// The number of the port in its deployment.
    port: usize,
}

#[derive(Debug)]
struct Line {
    channel: Channel,
    asked: u64,
    /// How long an answer may take.
    patience: Duration,
    /// After an ask without an answer the next ones fail at once until then, so that a desk that
    /// does not answer delays frames once and not again and again.
    silent_until: Option<Instant>,
    /// The ports of which this desk knows how they sort frames.
    told: BTreeSet<usize>,
}

impl Courier {
    /// A courier to the desk at the other end, for port 0. It waits long for answers, as no frames
    /// wait with it yet.
    pub fn new(channel: Channel) -> Self {
        let (asked, silent_until, told) = (0, None, BTreeSet::new());
        let line = Line { channel, asked, patience: PATIENCE_START, silent_until, told };
        Self { line: Arc::new(Mutex::new(line)), port: 0 }
    }

    /// From now on frames may wait with it, and it waits no longer than they can.
    pub fn hurry(&self) {
        self.line().patience = PATIENCE;
    }

    /// Returns the courier of another port over the same channel.
    pub fn for_port(&self, port: usize) -> Self {
        Self { line: Arc::clone(&self.line), port }
    }

    /// From now on asks go to the desk at the other end of this channel: the one before was of a
    /// keeper that ended.
    pub fn reconnect(&self, channel: Channel) {
        let mut line = self.line();
        (line.channel, line.silent_until) = (channel, None);
        line.told.clear();
    }

    /// Returns what a file contains that a policy names.
    ///
    /// # Errors
    /// As the keeper says, which reads it.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let wish = Wish::Read(path.to_owned());
        let granted = self.bring("", wish, Vec::new()).map_err(|error| error.cause)?;
        match granted.reply {
            Reply::File(contents) => Ok(contents.into_bytes()),
            _ => Err(misfit(&path.display().to_string()).cause),
        }
    }

    /// Returns the authority for a kind of port that sorts frames so; it asks nothing yet.
    pub(crate) fn authority(&self, kind: &str, sorting: Option<Sorting>) -> Box<dyn Authority> {
        Box::new(Distant { courier: self.clone(), kind: kind.to_owned(), sorting })
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a kind of port suits the interface; the error says why not.
    pub(crate) fn suits(&self, kind: &str) -> std::result::Result<(), String> {
        let suits = self.bring(kind, Wish::Suits, Vec::new());
        suits.map(drop).map_err(|error| error.cause.to_string())
    }

    fn bring(&self, kind: &str, wish: Wish, descriptors: Vec<OwnedFd>) -> Result<Granted> {
        self.bring_by(&mut self.line(), kind, wish, descriptors)
    }

    fn bring_by(
        &self,
        line: &mut Line,
        kind: &str,
        wish: Wish,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Granted> {
        let (port, kind) = (self.port, kind.to_owned());
        let number = line.asked + 1;
        line.asked = number;
        let (reply, descriptors) =
            line.bring(&Request { number, port, kind, wish }, descriptors)?;
        Ok(Granted { reply, descriptors })
    }
}

impl Line {
    fn bring(
        &mut self,
        request: &Request,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(Reply, Vec<OwnedFd>)> {
        let start = Instant::now();
        if self.silent_until.is_some_and(|until| start < until) {
            return Err(silent(SILENCE));
        }
        let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        self.channel.send(request, &borrowed)?;
        let mut parcel = Vec::new();
        let patience = match &request.wish {
            // The kernel allocates and pins the whole pool.
            Wish::Ask(Ask::Sockets(_)) => PATIENCE_SOCKETS.max(self.patience),
            // A disk may have to spin up, and a network folder to be mounted.
            Wish::Read(_) => PATIENCE_READ,
            _ => self.patience,
        };
        loop {
            let left = patience.saturating_sub(start.elapsed());
            let Some((answer, descriptors)) = self.channel.receive::<Answer>(left)? else {
                self.silent_until = Some(Instant::now() + SILENCE);
                return Err(silent(patience));
            };
            // The answer to an ask that was given up comes late.
            if answer.number == request.number {
                parcel.extend(descriptors);
                if let Some(outcome) = answer.outcome {
                    return Ok((outcome.map_err(Refusal::into_error)?, parcel));
                }
            }
        }
    }
}

/// An authority at a desk.
struct Distant {
    courier: Courier,
    kind: String,
    /// How the port sorts frames, of which each desk is told once.
    sorting: Option<Sorting>,
}

impl Authority for Distant {
    fn ask(&mut self, ask: Ask, descriptors: Vec<OwnedFd>) -> Result<Granted> {
        let Self { courier, kind, sorting } = self;
        let mut line = courier.line();
        if let Some(sorting) = sorting
            && !line.told.contains(&courier.port)
        {
            let wish = Wish::Sort(Box::new(sorting.clone()));
            courier.bring_by(&mut line, kind, wish, Vec::new())?;
            line.told.insert(courier.port);
        }
        courier.bring_by(&mut line, kind, Wish::Ask(ask), descriptors)
    }

    fn sort_by(&mut self, sorting: Sorting) {
        self.courier.line().told.remove(&self.courier.port);
        self.sorting = Some(sorting);
    }
}

fn silent(patience: Duration) -> SystemError {
    let why = format!("it gave no answer within {} s", patience.as_secs());
    let cause = io::Error::new(io::ErrorKind::TimedOut, why);
    SystemError::new("ask the keeper of this deployment", cause)
}

/// How long an answer may take where AF_XDP sockets are made.
const PATIENCE_SOCKETS: Duration = Duration::from_secs(5);
/// How long it may take to read a file.
const PATIENCE_READ: Duration = Duration::from_secs(30);
/// How long an answer may take while ports are opened first, on a machine that is busy.
const PATIENCE_START: Duration = Duration::from_secs(10);
/// How long an answer may take while frames pass.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long no ask is brought after one without an answer.
const SILENCE: Duration = Duration::from_secs(10);
