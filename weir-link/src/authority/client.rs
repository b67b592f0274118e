//! The forwarder's way to the authorities in its keeper.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{
    Answer, Authority, PortReply, PortRequest, Refusal, Reply, Request, RequestBody, misfit,
};
use crate::sorter::Sorting;
use weir_host::channel::Channel;
use weir_host::error::{Result, SystemError};

/// Sends requests of one port to an [`AuthorityServer`](super::AuthorityServer), and waits for the
/// answer. Ports of several threads share one channel; they ask in turn.
#[derive(Clone, Debug)]
pub struct AuthorityClient {
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
    /// After a request without an answer the next ones fail at once until then, so that a server
    /// that does not answer delays frames once and not again and again.
    silent_until: Option<Instant>,
    /// The ports of which this server knows how they sort frames.
    reported: BTreeSet<usize>,
}

impl AuthorityClient {
    /// A client to the server at the other end, for port 0. It waits long for answers, as no frames
    /// wait with it yet.
    pub fn new(channel: Channel) -> Self {
        let (asked, silent_until, reported) = (0, None, BTreeSet::new());
        let line = Line { channel, asked, patience: PATIENCE_START, silent_until, reported };
        Self { line: Arc::new(Mutex::new(line)), port: 0 }
    }

    /// From now on frames may wait with it, and it waits no longer than they can.
    pub fn hurry(&self) {
        self.line().patience = PATIENCE;
    }

    /// Returns the client of another port over the same channel.
    pub fn for_port(&self, port: usize) -> Self {
        Self { line: Arc::clone(&self.line), port }
    }

    /// From now on requests go to the server at the other end of this channel: the one before was
    /// of a keeper that ended.
    pub fn reconnect(&self, channel: Channel) {
        let mut line = self.line();
        (line.channel, line.silent_until) = (channel, None);
        line.reported.clear();
    }

    /// Returns what a file contains that a policy names.
    ///
    /// # Errors
    /// As the keeper says, which reads it.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let body = RequestBody::Read(path.to_owned());
        let reply = self.call("", body, Vec::new()).map_err(|error| error.cause)?;
        match reply.reply {
            Reply::File(contents) => Ok(contents.into_bytes()),
            _ => Err(misfit(&path.display().to_string()).cause),
        }
    }

    /// Returns a socket that asks a reflector of the port, by its place in the deployment.
    ///
    /// # Errors
    /// As the keeper says, which opens it.
    pub(crate) fn reflector(&self, place: usize) -> Result<OwnedFd> {
        let mut reply = self.call("", RequestBody::Reflector(place), Vec::new())?;
        reply.descriptors.pop().ok_or_else(|| misfit("a reflector"))
    }

    /// Returns the authority for a kind of port that sorts frames so; it asks nothing yet.
    pub(crate) fn authority(&self, kind: &str, sorting: Option<Sorting>) -> Box<dyn Authority> {
        Box::new(RemoteAuthority { client: self.clone(), kind: kind.to_owned(), sorting })
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a kind of port suits the interface; the error says why not.
    pub(crate) fn suits(&self, kind: &str) -> std::result::Result<(), String> {
        let suits = self.call(kind, RequestBody::Suits, Vec::new());
        suits.map(drop).map_err(|error| error.cause.to_string())
    }

    fn call(&self, kind: &str, body: RequestBody, descriptors: Vec<OwnedFd>) -> Result<PortReply> {
        self.call_on(&mut self.line(), kind, body, descriptors)
    }

    fn call_on(
        &self,
        line: &mut Line,
        kind: &str,
        body: RequestBody,
        descriptors: Vec<OwnedFd>,
    ) -> Result<PortReply> {
        let (port, kind) = (self.port, kind.to_owned());
        let number = line.asked + 1;
        line.asked = number;
        let (reply, descriptors) = line.call(&Request { number, port, kind, body }, descriptors)?;
        Ok(PortReply { reply, descriptors })
    }
}

impl Line {
    fn call(
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
        let patience = match &request.body {
            // The kernel allocates and pins the whole pool.
            RequestBody::Port(PortRequest::Sockets(_)) => PATIENCE_SOCKETS.max(self.patience),
            // A disk may have to spin up, and a network folder to be mounted.
            RequestBody::Read(_) => PATIENCE_READ,
            _ => self.patience,
        };
        loop {
            let left = patience.saturating_sub(start.elapsed());
            let Some((answer, descriptors)) = self.channel.receive::<Answer>(left)? else {
                self.silent_until = Some(Instant::now() + SILENCE);
                return Err(silent(patience));
            };
            // The answer to a request that was given up comes late.
            if answer.number == request.number {
                parcel.extend(descriptors);
                if let Some(outcome) = answer.outcome {
                    return Ok((outcome.map_err(Refusal::into_error)?, parcel));
                }
            }
        }
    }
}

/// An authority behind a server.
struct RemoteAuthority {
    client: AuthorityClient,
    kind: String,
    /// How the port sorts frames, which each server gets once.
    sorting: Option<Sorting>,
}

impl Authority for RemoteAuthority {
    fn ask(&mut self, request: PortRequest, descriptors: Vec<OwnedFd>) -> Result<PortReply> {
        let Self { client, kind, sorting } = self;
        let mut line = client.line();
        if let Some(sorting) = sorting
            && !line.reported.contains(&client.port)
        {
            let body = RequestBody::Sort(Box::new(sorting.clone()));
            client.call_on(&mut line, kind, body, Vec::new())?;
            line.reported.insert(client.port);
        }
        client.call_on(&mut line, kind, RequestBody::Port(request), descriptors)
    }

    fn sort_by(&mut self, sorting: Sorting) {
        self.client.line().reported.remove(&self.client.port);
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
/// How long no request is sent after one without an answer.
const SILENCE: Duration = Duration::from_secs(10);
