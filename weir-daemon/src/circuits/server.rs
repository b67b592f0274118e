//! The loop: packets of access servers, feeds, the watched file, outcomes at the link, questions of
//! the forwarder, timers.

use super::accounting::Accounting;
use super::feed;
use super::link::{BATCH_MAX, Link, Outcome, Seen};
use super::radius;
use super::table::Table;
use crate::keeper::circuits::{AskCircuits, CircuitsPlan, CircuitsReply, FromCircuits, ToCircuits};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};
use weir_control::circuits::{CIRCUITS_DEFAULT, Circuit, Circuits, Fed, UnknownHost};
use weir_host::channel::Channel;
use weir_host::watch::{self, Waker};
use weir_policy::deployment::{self, CircuitSource};

/// The resources of the process once it has given up every right.
pub struct Prepared {
    /// The settings of the process.
    pub plan: CircuitsPlan,
    /// Where packets of RADIUS arrive.
    pub socket: Option<UdpSocket>,
    /// The forwarder asks by this channel.
    pub questions: Channel,
    /// Wakes the loop for the thread of classes; made before the sandbox forbids descriptors.
    pub waker: Arc<Waker>,
}

/// The state of the loop.
struct Server {
    table: Table,
    link: Link,
    keeper: Channel,
    waker: Arc<Waker>,
    socket: Option<UdpSocket>,
    /// Known once the link has given its texts.
    settings: Option<deployment::Circuits>,
    accounting: Option<Accounting>,
    secret: String,
    /// The contents of the watched file, until they can be followed.
    file: Option<Result<String, String>>,
    faults: Vec<String>,
    /// Whether the keeper knows of trouble; `None` before it was told.
    told: Option<bool>,
    hosts: Vec<UnknownHost>,
    connections: Connections,
    /// When the next sign of life is due, and the next look at what is old or faulty.
    beat_at: Instant,
    tidy_at: Instant,
}

/// The thread's requests for connections, and the connections.
struct Connections {
    wanted: Receiver<()>,
    made: Sender<Result<UnixStream, String>>,
}

/// Runs until the keeper ends.
///
/// # Errors
/// When it cannot begin, the link cannot be used, or the system refuses to wait.
pub fn run(prepared: Prepared, keeper: Channel) -> Result<(), String> {
    let Prepared { plan, socket, questions, waker } = prepared;
    let (ask, wanted) = mpsc::channel();
    let (made, connections) = mpsc::channel::<Result<UnixStream, String>>();
    let own = Arc::clone(&waker);
    let connect = Box::new(move || {
        let gone = "the keeper of the link does not answer";
        ask.send(()).map_err(|_| gone)?;
        own.wake();
        connections.recv_timeout(PATIENCE).map_err(|_| gone)?
    });
    let link = Link::start(connect, Arc::clone(&waker))?;
    let now = Instant::now();
    let mut server = Server {
        table: Table::default(),
        link,
        keeper,
        waker,
        socket,
        settings: None,
        accounting: None,
        secret: plan.secret.map(|secret| secret.0).unwrap_or_default(),
        file: None,
        faults: Vec::new(),
        told: None,
        hosts: Vec::new(),
        connections: Connections { wanted, made },
        beat_at: now,
        tidy_at: now + TIDY_GAP,
    };
    server.work(Some(questions))
}

impl Server {
    fn work(&mut self, mut questions: Option<Channel>) -> Result<(), String> {
        loop {
            let now = Instant::now();
            if !self.hear_keeper(now) {
                return Ok(());
            }
            self.handle_outcomes(now)?;
            self.receive(now);
            // No question follows once the other end is closed.
            questions = questions.filter(|channel| self.reply(now, channel));
            self.tidy(now);
            if !self.link.is_busy && self.settings.is_some() {
                let steps = self.table.take(BATCH_MAX);
                if !steps.is_empty() {
                    self.link.make(steps);
                }
            }
            let own = [self.keeper.as_fd(), self.waker.as_fd()];
            let socket = self.accounting.as_ref().and(self.socket.as_ref()).map(AsFd::as_fd);
            let others = questions.as_ref().map(AsFd::as_fd).into_iter().chain(socket);
            let watched: Vec<_> = own.into_iter().chain(others).collect();
            let patience = self.beat_at.saturating_duration_since(Instant::now());
            watch::readable(&watched, patience).map_err(|error| error.to_string())?;
            self.waker.reset();
        }
    }

    /// Hears what the keeper says, and gives it a sign of life; returns whether it is there.
    fn hear_keeper(&mut self, now: Instant) -> bool {
        while self.connections.wanted.try_recv().is_ok() {
            // If the keeper has ended, this is seen below.
            let _unheard = self.keeper.send(&FromCircuits::Connect, &[]);
        }
        if now >= self.beat_at {
            self.beat_at = now + BEAT_GAP;
            // A keeper that does not receive looks again.
            let _unheard = self.keeper.send(&FromCircuits::Beat, &[]);
            self.tell_trouble();
        }
        loop {
            match self.keeper.receive::<ToCircuits>(Duration::ZERO) {
                Ok(Some((ToCircuits::Connection(made), mut descriptors))) => {
                    let connection = made.and_then(|()| {
                        let none = || "the keeper gives no connection".to_owned();
                        descriptors.pop().map(UnixStream::from).ok_or_else(none)
                    });
                    let _ended = self.connections.made.send(connection);
                }
                Ok(Some((ToCircuits::File(read), _))) => self.file = Some(read),
                Ok(Some((ToCircuits::Begin(_), _))) => {}
                Ok(None) => break,
                Err(_) => return false,
            }
        }
        if self.settings.is_some()
            && let Some(read) = self.file.take()
        {
            self.faults = match read {
                Ok(text) => feed::follow_file(&mut self.table, now, &text),
                // The circuits stay as they were.
                Err(why) => vec![why],
            };
        }
        true
    }

    /// Tells the keeper when trouble with circuits begins, and when it is over.
    fn tell_trouble(&mut self) {
        if self.settings.is_none() {
            return;
        }
        let trouble = self.trouble();
        if self.told != Some(trouble.is_some()) {
            self.told = Some(trouble.is_some());
            let _unheard = self.keeper.send(&FromCircuits::Trouble(trouble), &[]);
        }
    }

    /// Returns the trouble with the source or with circuits, in a line.
    fn trouble(&self) -> Option<String> {
        let of_circuit = |(one, why): (&Circuit, &str)| format!("circuit `{}`: {why}", one.id);
        let mut faults = self.faults.iter().cloned().chain(self.table.faulty().map(of_circuit));
        let first = faults.next()?;
        match faults.count() {
            0 => Some(first),
            more => Some(format!("{first}; and {more} more")),
        }
    }

    /// Handles the outcomes of the thread of classes.
    fn handle_outcomes(&mut self, now: Instant) -> Result<(), String> {
        while let Some(outcome) = self.link.outcome() {
            match outcome {
                Outcome::Seen(seen) => self.see(now, *seen),
                Outcome::Made(made) => {
                    made.iter().for_each(|(step, outcomes)| self.table.answer(step, outcomes));
                }
                Outcome::Hidden(hidden) => {
                    hidden.into_iter().for_each(|(circuit, why)| self.table.hide(&circuit, why));
                }
                Outcome::Hosts(hosts) => self.hosts = hosts,
                Outcome::Failed(why) => return Err(why),
            }
        }
        Ok(())
    }

    fn see(&mut self, now: Instant, seen: Seen) {
        let is_start = self.settings.is_none();
        self.table.set_ways(seen.ways);
        self.table.learn(now, &seen.classes, is_start);
        if let (true, CircuitSource::Radius(settings)) = (is_start, &seen.settings.from) {
            let settings = settings.as_ref().clone();
            self.accounting = Some(Accounting::new(settings, &self.secret, now));
        }
        self.settings = Some(seen.settings);
    }

    /// Receives packets of RADIUS, and answers them.
    fn receive(&mut self, now: Instant) {
        let Some((accounting, socket)) = self.accounting.as_mut().zip(self.socket.as_ref()) else {
            return;
        };
        let mut bytes = [0; radius::LENGTH_MAX];
        for _ in 0..PACKETS_MAX {
            let Ok((length, from)) = socket.recv_from(&mut bytes) else { return };
            if let Some(reply) = accounting.receive(now, (from, &bytes[..length]), &mut self.table)
            {
                // The client asks again if it is lost.
                let _lost = socket.send_to(&reply, from);
            }
        }
        // More waits.
        self.waker.wake();
    }

    /// Replies to a question of the forwarder, if there is one; returns whether more may come.
    fn reply(&mut self, now: Instant, questions: &Channel) -> bool {
        let (number, reply) = match questions.receive(Duration::ZERO) {
            Ok(None) => return true,
            Err(_) => return false,
            Ok(Some((AskCircuits::Describe { number, limit }, _))) => {
                let limit = limit.unwrap_or(CIRCUITS_DEFAULT) as usize;
                (number, CircuitsReply::Described(Box::new(self.describe(now, limit))))
            }
            Ok(Some((AskCircuits::Feed { number, lines, whole }, _))) => {
                (number, CircuitsReply::Fed(self.feed(now, &lines, whole)))
            }
        };
        // A forwarder that has ended misses nothing.
        let _unheard = questions.send(&(number, reply), &[]);
        // One question a turn; another one may wait.
        self.waker.wake();
        true
    }

    fn feed(&mut self, now: Instant, lines: &str, whole: bool) -> Result<Fed, String> {
        match self.settings.as_ref().map(|settings| &settings.from) {
            Some(CircuitSource::Http) => Ok(feed::follow(&mut self.table, now, lines, whole)),
            Some(_) => Err("[deployment.circuits] says where circuits come from; write `from = \
                            \"http\"` to take feeds"
                .to_owned()),
            None => Err("the process of circuits has just begun; try again".to_owned()),
        }
    }

    fn describe(&self, now: Instant, limit: usize) -> Circuits {
        let from = match self.settings.as_ref().map(|settings| &settings.from) {
            Some(CircuitSource::File(path)) => path.display().to_string(),
            Some(CircuitSource::Http) => "http".to_owned(),
            Some(CircuitSource::Radius(_)) => "radius".to_owned(),
            None => String::new(),
        };
        let unknown = self.hosts.iter().filter(|host| !self.table.knows(&host.address));
        Circuits {
            from,
            faults: self.faults.clone(),
            unknown: unknown.cloned().collect(),
            radius: self.accounting.as_ref().map(Accounting::counts),
            ..self.table.describe(now, limit)
        }
    }

    /// Lets old circuits go, and tries faulty ones again.
    fn tidy(&mut self, now: Instant) {
        if now < self.tidy_at {
            return;
        }
        self.tidy_at = now + TIDY_GAP;
        self.table.retry();
        let settings = self.settings.as_ref();
        let is_fed = settings.is_some_and(|it| !matches!(it.from, CircuitSource::File(_)));
        let expire = settings.and_then(|settings| settings.expire).filter(|_| is_fed);
        if let Some(after) = expire {
            self.table.expire(now, Duration::from_nanos(after.as_nanos()));
        }
    }
}

/// Bound: packets of RADIUS that one turn takes; the rest waits in the socket.
const PACKETS_MAX: usize = 256;
/// The time between two signs of life.
const BEAT_GAP: Duration = Duration::from_secs(1);
/// How often circuits are looked at that are old or faulty.
const TIDY_GAP: Duration = Duration::from_secs(10);
/// How long the keeper may take: it does nothing that waits.
const PATIENCE: Duration = Duration::from_secs(5);
