//! Beyond the capture: what its users would have done if they had come further.
//!
//! Under a faster policy a user has all that the capture holds before its time is over, and goes on
//! as before. An object that the end of the capture cut is as long as the longer ones of the same
//! server were on average; without any it has no end. A user that was still there repeats its own
//! connections, or its exchanges on the one that it has: one after another, and in replications as
//! drawn, since nobody knows what it would have wanted. Invariant: what the capture holds whole
//! stays as it is.

use crate::observed::{End, Observed};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use weir_core::fnv::{BASIS, fnv1a};
use weir_core::units::Duration;
use weir_sim::Scenario;
use weir_sim::conversation::{AMOUNT_MAX, Client, Conversation, EXCHANGES_MAX, Exchange};
use weir_sim::scenario::{Source, Traffic};

/// The users of a capture, and how they go on.
pub struct Beyond {
    habits: BTreeMap<Server, Habits>,
    /// By source: what it does in the capture.
    users: Vec<Option<User>>,
}

struct User {
    server: Server,
    plan: Conversation,
    end: End,
}

impl Beyond {
    /// Learns the habits of the users of a scenario.
    pub fn new(observed: &Observed, scenario: &Scenario) -> Self {
        let mut habits: BTreeMap<Server, Habits> = BTreeMap::new();
        let user = |(source, end): (&Source, &Option<End>)| {
            let plan = source.traffic.tcp()?.conversation.clone()?;
            Some(User { server: server(source, &plan)?, plan, end: (*end)? })
        };
        let users: Vec<_> = scenario.sources.iter().zip(&observed.ends).map(user).collect();
        for user in users.iter().flatten() {
            habits.entry(user.server).or_default().add(&user.plan, user.end);
        }
        Self { habits, users }
    }

    /// Lets users go on behind the end of the capture, as drawn for a replication.
    pub fn extend(&self, scenario: &mut Scenario, replication: usize) {
        for (place, (source, user)) in scenario.sources.iter_mut().zip(&self.users).enumerate() {
            let Some(user) = user else { continue };
            let Some(habits) = self.habits.get(&user.server) else { continue };
            let Traffic::Tcp(tcp) = &mut source.traffic else { continue };
            let Some(conversation) = &mut tcp.conversation else { continue };
            let mut draws = Draws { replication, place, count: 0 };
            let longer = habits.go_on(&user.plan, user.end, &mut draws);
            conversation.exchanges = Arc::from(longer);
        }
    }
}

/// Draws of a source in a replication.
struct Draws {
    replication: usize,
    place: usize,
    count: u64,
}

impl Draws {
    /// Returns a number below `count`: in the first run one after another.
    fn below(&mut self, count: usize) -> usize {
        self.count += 1;
        if self.replication == 0 {
            return (self.count - 1) as usize % count;
        }
        let seed = [self.replication as u64, self.place as u64, self.count];
        let hash = seed.iter().fold(BASIS, |hash, part| fnv1a(hash, &part.to_le_bytes()));
        let mixed = u128::from(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        ((mixed * count as u128) >> 64) as usize
    }
}

/// A client's host, and a server with its port.
type Server = (IpAddr, IpAddr, u16);

fn server(source: &Source, plan: &Conversation) -> Option<Server> {
    let addresses = &source.headers.addresses;
    let (from, to) = addresses.source().zip(addresses.destination())?;
    let ports = source.headers.ports?;
    Some(match plan.client {
        Client::Source => (from, to, ports.destination),
        Client::Destination => (to, from, ports.source),
    })
}

/// The habits of a host's users at a server.
#[derive(Default)]
struct Habits {
    /// The bytes of whole objects.
    sizes: Vec<u64>,
    /// Whole connections.
    connections: Vec<Vec<Exchange>>,
    /// Before connections.
    pauses: Vec<Duration>,
}

impl Habits {
    fn add(&mut self, plan: &Conversation, end: End) {
        let whole = plan.exchanges.len() - usize::from(end.is_cut);
        self.sizes.extend(plan.exchanges[..whole].iter().map(size));
        let connects = plan.exchanges.iter().filter(|exchange| exchange.connect);
        self.pauses.extend(connects.map(|exchange| exchange.after));
        self.pauses.sort_unstable();
        let mut connections = of_connections(&plan.exchanges);
        // The last one may not have been whole.
        connections.pop();
        self.connections.extend(connections.into_iter().map(<[Exchange]>::to_vec));
    }

    /// Returns the exchanges of a user, and those that it would have had next.
    fn go_on(&self, plan: &Conversation, end: End, draws: &mut Draws) -> Vec<Exchange> {
        let mut exchanges = plan.exchanges.to_vec();
        let Some(last) = exchanges.last_mut().filter(|_| end.is_cut) else {
            if end.silent <= patience(&exchanges) {
                self.repeat(&mut exchanges, draws);
            }
            return exchanges;
        };
        let longer = if last.down > 0 { &mut last.down } else { &mut last.up };
        *longer = self.whole(*longer, draws);
        if *longer < AMOUNT_MAX {
            self.repeat(&mut exchanges, draws);
        }
        exchanges
    }

    /// Returns how long an object is of which so much is known.
    fn whole(&self, known: u64, draws: &mut Draws) -> u64 {
        let longer: Vec<u64> = self.sizes.iter().copied().filter(|size| *size >= known).collect();
        match longer.len() {
            0 if self.sizes.len() < SIZES_ENOUGH => AMOUNT_MAX,
            0 => known,
            count if draws.replication == 0 => {
                let sum: u128 = longer.iter().map(|size| u128::from(*size)).sum();
                (sum / count as u128) as u64
            }
            count => longer[draws.below(count)],
        }
    }

    /// Adds what the user does next, again and again.
    fn repeat(&self, exchanges: &mut Vec<Exchange>, draws: &mut Draws) {
        let most = (exchanges.len() * FURTHER).clamp(FURTHER_MIN, EXCHANGES_MAX);
        let mut own = of_connections(exchanges);
        let last = own.pop().map_or(0, <[Exchange]>::len);
        let mut connections: Vec<Vec<Exchange>> = own.iter().map(|own| own.to_vec()).collect();
        if connections.is_empty() {
            connections.clone_from(&self.connections);
        }
        let pause = self.pauses.get(self.pauses.len() / 2).copied();
        let (Some(pause), false) = (pause, connections.is_empty()) else {
            return repeat_exchanges(exchanges, most, draws);
        };
        // The rest of the connection that the end of the capture cut.
        exchanges.extend(connections[draws.below(connections.len())].iter().skip(last).copied());
        draws.count = 0;
        while exchanges.len() < most {
            let next = &connections[draws.below(connections.len())];
            let first = exchanges.len();
            exchanges.extend(next.iter().take(most - first));
            let first = &mut exchanges[first];
            if !first.connect {
                (first.connect, first.after) = (true, first.after.plus(pause));
            }
        }
    }
}

/// Repeats the exchanges of a connection behind the first, which may be a greeting.
fn repeat_exchanges(exchanges: &mut Vec<Exchange>, most: usize, draws: &mut Draws) {
    let known = exchanges.len();
    while known >= EXCHANGES_ENOUGH && exchanges.len() < most {
        exchanges.push(exchanges[1 + draws.below(known - 1)]);
    }
}

fn of_connections(exchanges: &[Exchange]) -> Vec<&[Exchange]> {
    exchanges.chunk_by(|_, next| !next.connect).collect()
}

fn size(exchange: &Exchange) -> u64 {
    if exchange.down > 0 { exchange.down } else { exchange.up }
}

/// Returns after how long a user with these pauses is gone.
fn patience(exchanges: &[Exchange]) -> Duration {
    let pauses = exchanges.iter().skip(1).map(|exchange| exchange.after.max(exchange.every));
    let longest = pauses.max().unwrap_or_default();
    longest.plus(longest)
}

/// Whole objects, none of which is as long, from which a cut one counts as almost whole.
const SIZES_ENOUGH: usize = 3;
/// Exchanges on one connection from which they count as a habit.
const EXCHANGES_ENOUGH: usize = 3;
/// How many times as many exchanges a user may have as the capture shows.
const FURTHER: usize = 16;
/// At least so many.
const FURTHER_MIN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Exchanges by the bytes of their responses; a connection begins where they are negative.
    fn plan(downs: &[i64]) -> Conversation {
        let exchange = |down: &i64| Exchange {
            down: down.unsigned_abs(),
            connect: *down < 0,
            after: Duration::from_millis(if *down < 0 { 400 } else { 30 }),
            ..Exchange::default()
        };
        let exchanges = downs.iter().map(exchange).collect();
        Conversation { client: Client::Destination, buffer: Duration::ZERO, exchanges }
    }

    /// Returns the first of the exchanges that a user has, beside others of the same server.
    fn check(downs: &[i64], others: &[i64], end: End, expected: &[i64]) {
        let mut habits = Habits::default();
        let here = plan(downs);
        habits.add(&here, end);
        if !others.is_empty() {
            habits.add(&plan(others), silent(0));
        }
        let mut draws = Draws { replication: 0, place: 0, count: 0 };
        let found = habits.go_on(&here, end, &mut draws);
        let shown =
            |exchange: &Exchange| exchange.down as i64 * if exchange.connect { -1 } else { 1 };
        let found: Vec<i64> = found.iter().map(shown).take(expected.len() + 1).collect();
        assert_eq!(found[..expected.len()], *expected, "{downs:?}");
        let is_over = expected.len() <= downs.len();
        assert_eq!(found.len() > expected.len(), !is_over, "{downs:?}: {found:?}");
    }

    /// The capture ends within an exchange.
    const CUT: End = End { is_cut: true, silent: Duration::ZERO };

    /// The last exchange ended so many milliseconds before the capture.
    fn silent(ms: u64) -> End {
        End { is_cut: false, silent: Duration::from_millis(ms) }
    }

    #[test]
    fn users_go_on_as_before() {
        let endless = AMOUNT_MAX as i64;
        // A download, alone and beside another one that has no end either.
        check(&[9000], &[], CUT, &[endless]);
        // Readers: the cut object is as long as longer ones, and the page is completed.
        check(&[5, 6, 7, -8, 2], &[], CUT, &[5, 6, 7, -8, 6, 7, -5, 6, 7, -5]);
        check(&[5, 6, -7, 8], &[], silent(700), &[5, 6, -7, 8, -5, 6, -5]);
        // One that has left, and one that did not begin a second page, beside others.
        check(&[5, 6, -7, 8], &[], silent(900), &[5, 6, -7, 8]);
        check(&[5], &[4, 3, -4, 3], CUT, &[5, 3, -4, 3]);
        check(&[3], &[4, 3, -4, 3], CUT, &[3, 3, -4, 3]);
        // A player on one connection.
        check(&[50, 50, 50, 20], &[], CUT, &[50, 50, 50, 50, 50, 50, 50]);
    }

    #[test]
    fn replications_draw_what_comes_next() {
        let mut habits = Habits::default();
        let here = plan(&[5, 6, -7, -8, -9, 2]);
        habits.add(&here, CUT);
        let tails: Vec<_> = (0..4)
            .map(|replication| {
                let mut draws = Draws { replication, place: 3, count: 0 };
                let found = habits.go_on(&here, CUT, &mut draws);
                assert_eq!(found[..5], here.exchanges[..5], "what the capture holds stays");
                assert_eq!(found.len(), 96);
                found[5..].iter().map(|exchange| exchange.down).collect::<Vec<_>>()
            })
            .collect();
        assert!((1..4).all(|other| tails[0] != tails[other]) && tails[1] != tails[2]);
    }
}
