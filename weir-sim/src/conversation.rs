//! A conversation: the requests and responses that two applications exchange on one connection.
//!
//! A plan is a list of [`Exchange`]s. The client opens the connection, waits, and sends a request;
//! the server responds once the request has arrived whole; the client waits for all of the
//! response, and then for the pause before the next exchange, which may be on a connection of its
//! own. Whatever carries the bytes is told nothing of this: it writes what [`Talk::next`] returns,
//! reports what was read, and connects again when [`Talk::reopens`] says so. Invariant: one
//! exchange is under way at a time, so a read never holds bytes of two of them.

use std::sync::Arc;
use weir_core::units::{Duration, Instant};

/// The exchanges of one connection, or of several in turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conversation {
    /// The end that opens the connection and sends the requests.
    pub client: Client,
    /// The film that a player holds at most; 0 if it is none, or asks when a chunk is due.
    pub buffer: Duration,
    /// The exchanges in their order; at least one.
    pub exchanges: Arc<[Exchange]>,
}

/// The end of a source's packets at which the client is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Client {
    /// The packets of the source hold requests, what comes back are responses.
    #[default]
    Source,
    /// The packets of the source hold responses.
    Destination,
}

/// A request and its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Exchange {
    /// From the end of the exchange before it, or from the open connection.
    pub after: Duration,
    /// At least so long after the beginning of the exchange before it, as a player fetches chunks;
    /// with a buffer, how long the chunk is shown.
    pub every: Duration,
    /// Whether the client closes the connection before it, and opens another one after the pause.
    pub connect: bool,
    /// Bytes of the request; without any, the server sends unasked.
    pub up: u64,
    /// For how long the server has the whole request before it responds.
    pub wait: Duration,
    /// Bytes of the response; without any, the exchange ends when the request has arrived.
    pub down: u64,
}

/// The sender or the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Sender,
    Receiver,
}

impl Side {
    /// Returns the other end of the connection.
    pub const fn other(self) -> Self {
        match self {
            Side::Sender => Side::Receiver,
            Side::Receiver => Side::Sender,
        }
    }
}

/// A conversation in progress.
#[derive(Debug)]
pub(crate) struct Talk {
    plan: Conversation,
    /// The number of the present exchange.
    place: usize,
    state: State,
    /// The number of the first exchange on the present connection.
    first: usize,
    /// When the first byte of the present exchange was written.
    began: Instant,
    /// When all that the player has will have been shown.
    shown: Instant,
    /// No exchange begins any more.
    stopped: bool,
}

/// The next thing that an application does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deed {
    /// It writes so many bytes.
    Write(u64),
    /// The client closes the connection.
    Close,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The connection is not open.
    Opening,
    /// The next exchange begins at this instant.
    Pausing(Instant),
    /// So many bytes of the request are still to arrive.
    Asking(u64),
    /// The server responds at this instant.
    Serving(Instant),
    /// So many bytes of the response are still to arrive.
    Responding(u64),
    /// All exchanges have ended; the client closes the connection.
    Over,
    /// The client closes the connection, and opens another one after so much time.
    Leaving(Duration),
    /// It has closed it.
    Reopening(Duration),
    Closed,
}

impl Talk {
    pub fn new(plan: &Conversation) -> Self {
        let plan = plan.clone();
        let (state, zero) = (State::Opening, Instant::ZERO);
        Self { plan, place: 0, state, first: 0, began: zero, shown: zero, stopped: false }
    }

    /// Returns where the client is.
    pub fn client(&self) -> Side {
        match self.plan.client {
            Client::Source => Side::Sender,
            Client::Destination => Side::Receiver,
        }
    }

    /// Whether the connection is still to be opened.
    pub fn is_opening(&self) -> bool {
        self.state == State::Opening
    }

    /// The client knows that the connection is open.
    pub fn open(&mut self, now: Instant) {
        if self.is_opening() {
            let is_first = self.place == 0 && !self.stopped;
            let after = if is_first { self.exchange().after } else { Duration::ZERO };
            self.state = State::Pausing(now.after(after));
        }
    }

    /// Returns after how long another connection is to be opened, if the present one is left.
    pub fn reopens(&self) -> Option<Duration> {
        match self.state {
            State::Leaving(pause) | State::Reopening(pause) if !self.stopped => Some(pause),
            _ => None,
        }
    }

    /// Another connection is opened in place of the present one, or of one that did not come to be.
    pub fn reopen(&mut self) {
        if self.reopens().is_some() {
            self.first = self.place;
        }
        (self.place, self.state) = (self.first, State::Opening);
        if self.stopped {
            self.state = State::Over;
        }
    }

    /// Lets no other exchange begin.
    pub fn stop(&mut self) {
        self.stopped = true;
        match self.state {
            State::Opening | State::Pausing(_) | State::Leaving(_) => self.state = State::Over,
            State::Reopening(_) => self.state = State::Closed,
            _ => {}
        }
    }

    /// Takes the bytes that the application of `side` read; returns how long the exchange took if
    /// they were its last.
    pub fn read(&mut self, now: Instant, side: Side, bytes: u64) -> Option<Duration> {
        let exchange = self.exchange();
        let (left, by_server) = match self.state {
            State::Asking(left) => (left, true),
            State::Responding(left) => (left, false),
            _ => return None,
        };
        if bytes == 0 || by_server == (side == self.client()) {
            return None;
        }
        assert!(bytes <= left, "nothing is sent before its exchange begins");
        match (left - bytes, by_server) {
            (0, true) if exchange.down > 0 => self.state = State::Serving(now.after(exchange.wait)),
            (0, _) => return Some(self.end(now)),
            (rest, true) => self.state = State::Asking(rest),
            (rest, false) => self.state = State::Responding(rest),
        }
        None
    }

    /// Returns what the application of `side` does at `now`, until there is nothing.
    pub fn next(&mut self, now: Instant, side: Side) -> Option<Deed> {
        self.due(side).filter(|due| *due <= now)?;
        let Exchange { up, down, .. } = self.exchange();
        match self.state {
            State::Pausing(_) if up > 0 => {
                (self.state, self.began) = (State::Asking(up), now);
                Some(Deed::Write(up))
            }
            State::Pausing(_) | State::Serving(_) => {
                if up == 0 {
                    self.began = now;
                }
                self.state = State::Responding(down);
                Some(Deed::Write(down))
            }
            State::Over => {
                self.state = State::Closed;
                Some(Deed::Close)
            }
            State::Leaving(pause) => {
                self.state = State::Reopening(pause);
                Some(Deed::Close)
            }
            _ => None,
        }
    }

    /// Returns when the application of `side` does something unasked.
    pub fn due(&self, side: Side) -> Option<Instant> {
        let is_client = side == self.client();
        match self.state {
            State::Pausing(at) if is_client == (self.exchange().up > 0) => Some(at),
            State::Serving(at) if !is_client => Some(at),
            State::Over | State::Leaving(_) if is_client => Some(Instant::ZERO),
            _ => None,
        }
    }

    fn exchange(&self) -> Exchange {
        self.plan.exchanges.get(self.place).copied().unwrap_or_default()
    }

    /// Returns when a chunk is due: when there is room for it, if the player has a buffer.
    fn chunk_due(&self, next: &Exchange) -> Instant {
        let buffer = self.plan.buffer;
        match buffer > Duration::ZERO && next.every > Duration::ZERO {
            true => self.shown.after(next.every).before(buffer),
            false => self.began.after(next.every),
        }
    }

    fn end(&mut self, now: Instant) -> Duration {
        let length = self.exchange().every;
        if length > Duration::ZERO {
            // After a stall, or at the start, it is shown from now on.
            self.shown = self.shown.max(now).after(length);
        }
        self.place += 1;
        let next = self.plan.exchanges.get(self.place).filter(|_| !self.stopped);
        self.state = next.map_or(State::Over, |next| {
            let at = now.after(next.after).max(self.chunk_due(next));
            if next.connect { State::Leaving(at.since(now)) } else { State::Pausing(at) }
        });
        now.since(self.began)
    }
}

/// Bound: exchanges of one conversation; a scenario with more is refused.
pub const EXCHANGES_MAX: usize = 1 << 16;
/// The most bytes of a request or a response.
pub const AMOUNT_MAX: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a conversation over a wire that takes 10 ms each way; returns who wrote what at which
    /// millisecond, and in brackets when an exchange ended.
    fn play(client: Client, exchanges: &[(u64, u64, u64, u64)]) -> String {
        let millis = Duration::from_millis;
        let rows = exchanges.iter().map(|&(after, up, wait, down)| Exchange {
            after: millis(after),
            up,
            wait: millis(wait),
            down,
            ..Exchange::default()
        });
        let (buffer, exchanges) = (Duration::ZERO, rows.collect());
        let mut talk = Talk::new(&Conversation { client, buffer, exchanges });
        let mut flying: Vec<(u64, Side, u64)> = Vec::new();
        let mut told = Vec::new();
        talk.open(Instant::ZERO);
        for ms in 0..1000 {
            let now = Instant::ZERO.after(millis(ms));
            for &(_, side, bytes) in flying.iter().filter(|packet| packet.0 == ms) {
                if let Some(took) = talk.read(now, side, bytes) {
                    told.push(format!("({})", took.as_nanos() / 1_000_000));
                }
            }
            for side in [Side::Sender, Side::Receiver] {
                while let Some(deed) = talk.next(now, side) {
                    let name = if side == Side::Sender { "s" } else { "r" };
                    match deed {
                        Deed::Close => told.push(format!("{name}.@{ms}")),
                        Deed::Write(bytes) => {
                            // In two parts, of which the first comes earlier.
                            flying.push((ms + 9, side.other(), bytes / 2));
                            flying.push((ms + 10, side.other(), bytes - bytes / 2));
                            told.push(format!("{name}{bytes}@{ms}"));
                        }
                    }
                }
            }
        }
        told.join(" ")
    }

    #[test]
    fn each_side_speaks_when_the_other_has_been_heard() {
        let rows: &[(&[_], &str, &str)] = &[
            (&[(0, 5, 0, 9)], "s5@0 r9@10 (20) s.@20", "r5@0 s9@10 (20) r.@20"),
            (
                &[(7, 5, 3, 9), (100, 1, 0, 1)],
                "s5@7 r9@20 (23) s1@130 r1@140 (20) s.@150",
                "r5@7 s9@20 (23) r1@130 s1@140 (20) r.@150",
            ),
            // A server that speaks first, and uploads without a response.
            (
                &[(1, 0, 0, 4), (2, 6, 0, 0), (3, 0, 0, 8)],
                "r4@1 (10) s6@13 (10) r8@26 (10) s.@36",
                "s4@1 (10) r6@13 (10) s8@26 (10) r.@36",
            ),
        ];
        for (exchanges, from_source, from_destination) in rows {
            assert_eq!(play(Client::Source, exchanges), *from_source);
            assert_eq!(play(Client::Destination, exchanges), *from_destination);
        }
    }

    /// Ends exchanges that take so many milliseconds each; returns when each began.
    fn begun(exchanges: &[Exchange], buffer: u64, took: &[u64]) -> String {
        let buffer = Duration::from_millis(buffer);
        let plan = Conversation { client: Client::Source, buffer, exchanges: exchanges.into() };
        let (mut talk, mut now) = (Talk::new(&plan), Instant::ZERO);
        let mut told = String::new();
        talk.open(now);
        for took in took.iter().cycle().take(exchanges.len()) {
            if let Some(pause) = talk.reopens() {
                assert_eq!(talk.next(now, Side::Sender), Some(Deed::Close));
                now = now.after(pause);
                talk.reopen();
                talk.open(now);
                told += "c";
            }
            now = talk.due(Side::Sender).expect("the client goes on");
            told += &format!("{} ", now.as_nanos() / 1_000_000);
            assert_eq!(talk.next(now, Side::Sender), Some(Deed::Write(1)));
            now = now.after(Duration::from_millis(*took));
            talk.read(now, Side::Receiver, 1);
        }
        told
    }

    #[test]
    fn a_player_keeps_its_period_and_a_reader_its_pause() {
        let millis = Duration::from_millis;
        let next = Exchange { up: 1, ..Exchange::default() };
        let player = [Exchange { every: millis(100), ..next }; 3];
        assert_eq!(begun(&player, 0, &[30]), "0 100 200 ");
        assert_eq!(begun(&player, 0, &[130]), "0 130 260 ");
        let reader = [Exchange { after: millis(50), connect: true, ..next }; 3];
        assert_eq!(begun(&[&[next][..], &reader[1..]].concat(), 0, &[30]), "0 c80 c160 ");
    }

    #[test]
    fn a_player_with_a_buffer_asks_as_there_is_room() {
        let chunk = Exchange { up: 1, every: Duration::from_millis(100), ..Exchange::default() };
        // It shows the first from 30 ms on, and holds 300 ms at most.
        assert_eq!(begun(&[chunk; 6], 300, &[30]), "0 30 60 130 230 330 ");
        // A late chunk makes room for two.
        assert_eq!(
            begun(&[chunk; 7], 300, &[30, 30, 30, 180, 20, 20, 20]),
            "0 30 60 130 310 330 430 "
        );
        // A slow line: it stalls, and asks at once.
        assert_eq!(begun(&[chunk; 3], 300, &[150]), "0 150 300 ");
    }

    #[test]
    fn a_stop_ends_it_after_the_exchange_under_way() {
        let exchanges: Arc<[Exchange]> =
            [Exchange { up: 1, down: 1, ..Exchange::default() }; 3].into();
        let (client, buffer) = (Client::Source, Duration::ZERO);
        let plan = Conversation { client, buffer, exchanges };
        let (now, client, server) = (Instant::ZERO, Side::Sender, Side::Receiver);
        let mut talk = Talk::new(&plan);
        talk.open(now);
        assert_eq!(talk.next(now, client), Some(Deed::Write(1)));
        talk.stop();
        talk.read(now, server, 1);
        assert_eq!(talk.next(now, server), Some(Deed::Write(1)));
        assert_eq!(talk.read(now, client, 1), Some(Duration::ZERO));
        assert_eq!([talk.next(now, client), talk.next(now, client)], [Some(Deed::Close), None]);
    }
}
