//! Deaths at random instants under load: no frame arrives twice, and nothing is left behind.

use super::link::{self, Service};
use super::remains::{self, Snapshot};
use super::row;
use crate::rows::{Options, Row};
use std::thread;
use std::time::Duration;
use weir_core::random::Random;
use weir_testbed::{Scene, processes_in, signal, until_seen};

pub(super) const NAME: &str = "kill";

/// The process that is killed.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Forwarder,
    Keeper,
    /// The forwarder at once after its keeper.
    Both,
}

const VICTIMS: [Victim; 3] = [Victim::Forwarder, Victim::Keeper, Victim::Both];

/// The sums over all kills.
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
    let mut link = link::prepare(Service::default())?;
    for number in 0..wanted {
        let victim = VICTIMS[number as usize % VICTIMS.len()];
        let before = Snapshot::take(&link.testbed)?;
        if let Err(why) = total.kill(&mut link, victim, &mut random) {
            total.failed.push(format!("{number} ({victim:?}): {why}"));
            link = link::prepare(Service::default())?;
        }
        if total.failed.is_empty() {
            let left = remains::await_same(&before, &link.testbed)?;
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
    /// The link from its start to the death of all its processes.
    fn kill(
        &mut self,
        link: &mut Scene,
        victim: Victim,
        random: &mut Random,
    ) -> Result<(), String> {
        link::start_in_its_own_disk(link)?;
        let (probe, load) = (link::probe(link)?, link::load(link, LOAD)?);
        thread::sleep(Duration::from_micros(random.below(INSTANT_MAX_US).into()));
        let (keeper, forwarder) = (link.keeper()?, link.forwarder()?);
        match victim {
            Victim::Forwarder => signal(forwarder, "KILL")?,
            Victim::Keeper => signal(keeper, "KILL")?,
            Victim::Both => signal(keeper, "KILL").and_then(|()| signal(forwarder, "KILL"))?,
        }
        self.kills += 1;
        thread::sleep(AFTER);
        for found in [link::end(probe)?, link::end(load)?] {
            self.sent += found.sent;
            self.twice += found.repeated;
        }
        end(link)
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
fn end(link: &mut Scene) -> Result<(), String> {
    let asked = match link.process()?.is_alive() {
        true => vec![link.keeper()?],
        false => processes_in(&link.testbed.weir),
    };
    // One that ended meanwhile is no fault.
    asked.into_iter().for_each(|process| drop(signal(process, "TERM")));
    let left = || processes_in(&link.testbed.weir);
    until_seen("its processes end", left, Vec::is_empty)?;
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

/// Datagrams a second, and the bytes of each.
const LOAD: (u32, usize) = (8000, 200);
const KILLS_MIN: u64 = 6;
const KILLS_MAX: u64 = 100;
const INSTANT_MAX_US: u32 = 400_000;
const AFTER: Duration = Duration::from_millis(400);
/// The random instants are the same in each run.
const SEED: u64 = 20;
