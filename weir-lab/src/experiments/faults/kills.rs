//! Deaths at random instants under load: no frame arrives twice, and nothing is left behind.

use super::link::{Link, Service, signal};
use super::remains::{self, Snapshot};
use super::row;
use super::stream::{LOAD_PORT, Stream};
use crate::rows::{Options, Row};
use std::thread;
use std::time::{Duration, Instant};
use weir_bench::rig;
use weir_core::random::Random;
use weir_testbed::Testbed;

pub(super) const NAME: &str = "kill";

/// What dies.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Forwarder,
    Keeper,
    /// The forwarder at once after its keeper.
    Both,
}

const VICTIMS: [Victim; 3] = [Victim::Forwarder, Victim::Keeper, Victim::Both];

/// What all kills together showed.
#[derive(Default)]
struct Total {
    kills: u64,
    sent: u64,
    twice: u64,
    left: Vec<String>,
    failed: Vec<String>,
}

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(Row)) -> Result<(), String> {
    let wanted = kills(options.duration);
    let mut total = Total::default();
    let mut random = Random::new(SEED, 0);
    let mut testbed = rig::quiet_testbed().map_err(|error| error.to_string())?;
    for number in 0..wanted {
        let victim = VICTIMS[number as usize % VICTIMS.len()];
        let before = Snapshot::take(&testbed)?;
        testbed = match total.kill(testbed, victim, &mut random) {
            Ok(testbed) => testbed,
            Err(why) => {
                total.failed.push(format!("{number} ({victim:?}): {why}"));
                rig::quiet_testbed().map_err(|error| error.to_string())?
            }
        };
        if total.failed.is_empty() {
            let left = remains::await_same(&before, &testbed)?;
            total
                .left
                .extend(left.into_iter().map(|what| format!("{number} ({victim:?}): {what}")));
        }
    }
    total.judge(wanted, tell);
    Ok(())
}

/// The kills in a run of this length: a hundred where there is time.
fn kills(duration: Duration) -> u64 {
    (duration.as_secs() / 10).clamp(KILLS_MIN, KILLS_MAX)
}

impl Total {
    /// One link from its start to the death of all its processes; returns the networks.
    fn kill(
        &mut self,
        testbed: Testbed,
        victim: Victim,
        random: &mut Random,
    ) -> Result<Testbed, String> {
        let mut link = Link::start_between(testbed, Service::default())?;
        let probe = Stream::probe(&link.testbed)?;
        let load = Stream::start(&link.testbed, LOAD_PORT, LOAD)?;
        thread::sleep(Duration::from_micros(random.below(INSTANT_MAX_US).into()));
        let (keeper, forwarder) = (link.keeper(), link.forwarder()?);
        match victim {
            Victim::Forwarder => signal(forwarder, "KILL")?,
            Victim::Keeper => signal(keeper, "KILL")?,
            Victim::Both => signal(keeper, "KILL").and_then(|()| signal(forwarder, "KILL"))?,
        }
        self.kills += 1;
        thread::sleep(AFTER);
        for outcome in [probe.finish()?, load.finish()?] {
            self.sent += outcome.sent;
            self.twice += outcome.twice;
        }
        end(&mut link)?;
        link.into_testbed()
    }

    fn judge(self, wanted: u64, tell: &mut dyn FnMut(Row)) {
        let subject = |what: &str| format!("{NAME}: {what}");
        let done = format!("{} of {wanted}", self.kills);
        tell(row(subject("deaths under load"), done, "all", self.kills == wanted));
        let twice = format!("{} of {}", self.twice, self.sent);
        tell(row(subject("frames twice"), twice, "0", self.twice == 0 && self.sent > 0));
        tell(listed(subject("links that did not start or end"), &self.failed));
        tell(listed(subject("left behind"), &self.left));
    }
}

/// Ends what lives as an operator does: the keeper, or a forwarder without one, gets SIGTERM.
fn end(link: &mut Link) -> Result<(), String> {
    let asked = match link.is_kept() {
        true => signal(link.keeper(), "TERM"),
        false => link.processes().into_iter().try_for_each(|process| signal(process, "TERM")),
    };
    // One that ended meanwhile is no fault.
    drop(asked);
    let start = Instant::now();
    while link.is_kept() || !link.processes().is_empty() {
        if start.elapsed() > END_PATIENCE {
            return Err(format!("processes {:?} do not end", link.processes()));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// A row that holds if the list is empty, and else shows its beginning.
fn listed(subject: String, list: &[String]) -> Row {
    let shown = match list.first() {
        None => "none".to_owned(),
        Some(first) => format!("{}: {first}", list.len()),
    };
    row(subject, shown, "none", list.is_empty())
}

/// Datagrams a turn, and the bytes of each: 8000 a second.
const LOAD: (u32, u32) = (8, 200);
const KILLS_MIN: u64 = 6;
const KILLS_MAX: u64 = 100;
const INSTANT_MAX_US: u32 = 400_000;
const AFTER: Duration = Duration::from_millis(400);
const END_PATIENCE: Duration = Duration::from_secs(5);
/// The random instants are the same in each run.
const SEED: u64 = 20;
