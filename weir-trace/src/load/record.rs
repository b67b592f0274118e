//! The load of one direction of a record: what its link was offered, when, and by which policies.
//!
//! Frames are offered by the rule of the run loop ([`Pending`]), so each has the instant and the
//! leaf that it had. A record that begins on a running link begins with the link's state.

use super::fork::{Fork, Forking, Moved};
use super::{Begin, Event, HANDLES_FROM, LinkWay, Load, Outcome, Stage};
use crate::record::{Change, Fate, File, Head, RecordReader, Step, policy};
use std::collections::BTreeMap;
use std::io::Read;
use weir_core::ids::Handle;
use weir_core::link::{Packet, Pending};
use weir_core::packet::{Headers, Segment};
use weir_core::queue::QueuePlan;
use weir_core::units::{Duration, Instant};

impl Load {
    /// Reads the load of a direction: the one called `direction`, or the only one.
    ///
    /// # Errors
    /// When the record has no such direction, holds no packet, or its policy has errors. A record
    /// that is cut gives what precedes the cut.
    pub fn of_record(record: impl Read, direction: Option<&str>) -> Result<Self, String> {
        Reading::all(record, direction, None, false).map(|read| read.0)
    }

    /// As [`Load::of_record`], with what the record says became of the load.
    ///
    /// # Errors
    /// As [`Load::of_record`].
    pub fn with_outcome(
        record: impl Read,
        direction: Option<&str>,
    ) -> Result<(Self, Outcome), String> {
        Reading::all(record, direction, None, true)
    }

    /// As [`Load::of_record`], with the changes of `fork`: from its moment on, frames are
    /// classified by the changed policy. If these values change nothing, it is the load of the
    /// record.
    ///
    /// # Errors
    /// As [`Load::of_record`], and when the values cannot be set.
    pub fn forked(record: impl Read, direction: Option<&str>, fork: &Fork) -> Result<Self, String> {
        Reading::all(record, direction, Some(fork), false).map(|read| read.0)
    }
}

/// The head of a record: the link and its directions.
#[derive(Clone, Debug)]
pub struct RecordHead {
    /// The name of the link.
    pub name: String,
    /// The version of Weir that recorded.
    pub weir: String,
    /// The wall clock at instant 0, in nanoseconds since 1970.
    pub epoch_ns: u64,
    /// The directions, in the order of the record.
    pub directions: Vec<RecordWay>,
}

/// A direction of a record.
#[derive(Clone, Debug)]
pub struct RecordWay {
    /// The name of the direction.
    pub name: String,
    /// The ports where its frames come in.
    pub from: Vec<String>,
    /// The port where they leave.
    pub to: String,
    /// The policy with which the record begins.
    pub stage: Stage,
}

/// Returns what a record says of itself.
///
/// # Errors
/// When it is no record, or a policy of it has errors.
pub fn head(record: impl Read) -> Result<RecordHead, String> {
    let reader = RecordReader::new(record).map_err(|error| error.to_string())?;
    let head = reader.head();
    let port = |number: &u16| {
        let name = head.ports.get(usize::from(*number)).cloned();
        name.unwrap_or_else(|| format!("port {number}"))
    };
    let direction = |lane: &crate::record::LaneHead| {
        Ok(RecordWay {
            name: lane.name.clone(),
            from: lane.from.iter().map(port).collect(),
            to: port(&lane.to),
            stage: stage(Instant::ZERO, (&lane.policy, &head.files), head)?,
        })
    };
    Ok(RecordHead {
        name: head.name.clone(),
        weir: head.weir.clone(),
        epoch_ns: head.epoch_ns,
        directions: head.lanes.iter().map(direction).collect::<Result<_, String>>()?,
    })
}

/// Returns the names of a record's directions.
///
/// # Errors
/// When it is no record.
pub fn directions(record: impl Read) -> Result<Vec<String>, String> {
    let reader = RecordReader::new(record).map_err(|error| error.to_string())?;
    Ok(reader.head().lanes.iter().map(|lane| lane.name.clone()).collect())
}

fn lane(head: &Head, direction: Option<&str>) -> Result<usize, String> {
    let names: Vec<&str> = head.lanes.iter().map(|lane| lane.name.as_str()).collect();
    match direction {
        Some(name) => names.iter().position(|own| *own == name).ok_or_else(|| {
            format!("the record has no direction `{name}`; it has {}", names.join(", "))
        }),
        None if names.len() == 1 => Ok(0),
        None => Err(format!("name a direction with --direction: {}", names.join(", "))),
    }
}

/// A record that is being read.
struct Reading {
    load: Load,
    pending: Pending,
    /// The place of the packet that has each handle of the record.
    places: BTreeMap<u32, usize>,
    /// When the link was last served.
    served: Instant,
    /// The ages from which a leaf's frames are dropped after a stall.
    ages: Vec<Duration>,
    is_begun: bool,
    fork: Option<Forking>,
    /// Whether a queue of a policy, also of a fork, looks into the segments of packets.
    reads_segments: bool,
    /// The segments of the packets that wait to be offered, by the handle of the record.
    segments: BTreeMap<u32, Segment>,
    /// The departures and drops of the record, if they are wanted.
    outcome: Option<Outcome>,
}

impl Reading {
    fn new(head: &Head, lane: usize) -> Result<Self, String> {
        let lane = &head.lanes[lane];
        let stage = stage(Instant::ZERO, (&lane.policy, &head.files), head)?;
        let reads_segments = looks_into_segments(&stage);
        let load = Load::new(stage, Vec::new(), (Instant::MAX, Instant::ZERO));
        let others = head.lanes.iter().any(|other| other.policy != lane.policy);
        let direction = others.then(|| lane.name.clone());
        let link = Some(LinkWay { words: vec![head.name.clone()], direction });
        Ok(Self {
            load: Load { link, ..load },
            pending: Pending::default(),
            places: BTreeMap::new(),
            served: Instant::ZERO,
            ages: lane.sojourn_max.clone(),
            is_begun: false,
            fork: None,
            reads_segments,
            segments: BTreeMap::new(),
            outcome: None,
        })
    }

    fn all(
        record: impl Read,
        direction: Option<&str>,
        fork: Option<&Fork>,
        keeps_outcome: bool,
    ) -> Result<(Load, Outcome), String> {
        let mut reader = RecordReader::new(record).map_err(|error| error.to_string())?;
        let head = reader.head().clone();
        let lane = lane(&head, direction)?;
        let mut reading = Self::new(&head, lane)?;
        // Frames may wait to be offered when the fork is made.
        let forked = fork.and_then(|fork| fork.edited(reading.stage(), fork.at).ok());
        reading.reads_segments |= forked.as_ref().is_some_and(looks_into_segments);
        reading.fork = fork.cloned().map(Forking::new);
        reading.outcome = keeps_outcome.then(Outcome::default);
        loop {
            match reader.next_step() {
                Ok(Some((_, Step::End(_)))) | Ok(None) => break,
                Ok(Some((of, step))) if of == lane => reading.step(&step, &head)?,
                Ok(Some(_)) => {}
                Err(error) => {
                    reading.load.fault = Some(error.to_string());
                    break;
                }
            }
            if reading.load.arrivals.len() >= ARRIVALS_MAX {
                reading.load.fault =
                    Some(format!("only its first {ARRIVALS_MAX} packets are explained"));
                break;
            }
        }
        reading.finish()
    }

    fn step(&mut self, step: &Step<'_>, head: &Head) -> Result<(), String> {
        match step {
            Step::Checkpoint { now, classified, state } => {
                let is_forked = self.fork.as_ref().is_some_and(Forking::is_made);
                if self.is_begun && !is_forked {
                    // What waits to be offered is listed anew.
                    self.pending.arrivals_mut().clear();
                }
                if !self.is_begun {
                    self.pending = Pending::at(*now, *classified, 0);
                    self.load.begin = Some(Begin { now: *now, state: state.to_vec() });
                    self.load.start = *now;
                }
            }
            Step::Arrival(arrival) => self.arrival(arrival)?,
            Step::Serve { until } => self.serve(*until)?,
            Step::Departure(left) => {
                self.left(left.handle, left.at);
                self.outcome.iter_mut().for_each(|outcome| outcome.departures.push(*left));
            }
            Step::Sent { handle, at } => self.sent(*handle, *at),
            Step::Forfeit { before } => {
                self.pending.forfeit_before(*before);
                self.event(Event::Forfeit(*before));
            }
            Step::DropOlder { clock } => {
                let ages = self.ages.clone();
                self.event(Event::DropOlder { clock: *clock, ages });
            }
            Step::Change(change) => self.change(change, head)?,
            Step::Rate { at, rate } => {
                self.pending.forfeit_before(*at);
                self.event(Event::Rate(*at, *rate));
            }
            Step::Joins(_) => return Err(JOINED.to_owned()),
            Step::Lost(loss) => *self.load.lost.entry(loss.name()).or_default() += 1,
            Step::Dropped(one) => {
                self.outcome.iter_mut().for_each(|outcome| outcome.drops.push(*one));
            }
            Step::End(_) => {}
        }
        self.is_begun = true;
        Ok(())
    }

    fn arrival(&mut self, arrival: &crate::record::Arrival<'_>) -> Result<(), String> {
        // What is listed anew belongs to the step before.
        let is_new = arrival.fate != Fate::Resumed;
        if is_new && self.fork_is_due(|at| arrival.at > at) {
            self.fork()?;
        }
        let is_forked = self.fork.as_ref().is_some_and(Forking::is_made);
        if is_forked && !is_new {
            // It was moved to its leaf of the changed policy.
            return Ok(());
        }
        let offered = match &mut self.fork {
            Some(fork) if is_forked => fork.classify(arrival, &mut self.pending),
            _ => arrival.offered(),
        };
        if arrival.fate == Fate::Refused {
            return Ok(());
        }
        let plan = &self.stage().policy.link;
        let has_meter = offered.packet.meter.is_none_or(|meter| meter.index() < plan.meters.len());
        if offered.leaf.index() >= plan.tree.leaf_count() || !has_meter {
            return Err("the record is damaged: a frame of no leaf".to_owned());
        }
        self.note(arrival, &offered.packet);
        self.pending.push(offered);
        Ok(())
    }

    /// Keeps the segment of a packet, as [`AnyLink::note_frame`](weir_core::link::AnyLink) does.
    fn note(&mut self, arrival: &crate::record::Arrival<'_>, packet: &Packet) {
        if !self.reads_segments || packet.train > 0 {
            return;
        }
        let headers = Headers::parse_ethernet(arrival.headers);
        if let Some(segment) = Segment::of_frame(arrival.headers, &headers) {
            self.segments.insert(packet.handle.0, segment);
        }
    }

    /// Returns whether the moment of a fork is over by this test, and the fork not made.
    fn fork_is_due(&self, is_over: impl Fn(Instant) -> bool) -> bool {
        let open = self.fork.as_ref().filter(|fork| self.is_begun && !fork.is_made());
        open.is_some_and(|fork| is_over(fork.fork().at))
    }

    /// Makes the fork at its moment, or at the link's time if that is later.
    fn fork(&mut self) -> Result<(), String> {
        let Some(forking) = &self.fork else { return Ok(()) };
        let at = forking.fork().at.max(self.pending.now());
        let stage = forking.fork().edited(self.stage(), at)?;
        let driver = forking.fork().driver;
        if stage.policy == self.stage().policy && driver.is_none() {
            self.fork = None;
            return Ok(());
        }
        self.offer(at);
        let moved = Moved::new(self.stage(), &stage);
        moved.frames(&mut self.pending);
        self.ages = moved.ages(&self.ages);
        self.fork.iter_mut().for_each(|fork| fork.enter(&stage));
        self.load.driver = driver.map(|driver| (self.load.stages.len(), driver));
        self.load.stages.push(stage);
        self.event(Event::Stage(self.load.stages.len() - 1));
        Ok(())
    }

    fn stage(&self) -> &Stage {
        self.load.stages.last().expect("a load has a first stage")
    }

    fn serve(&mut self, until: Instant) -> Result<(), String> {
        // The reader of a damaged record may find any instant.
        let until = until.max(self.pending.now());
        if self.fork_is_due(|at| until > at) {
            self.fork()?;
        }
        self.offer(until);
        if self.fork_is_due(|at| until == at) {
            self.fork()?;
        }
        Ok(())
    }

    /// Offers what is due at `until`.
    fn offer(&mut self, until: Instant) {
        let (load, places) = (&mut self.load, &mut self.places);
        let (outcome, segments) = (&mut self.outcome, &mut self.segments);
        self.pending.serve(until, |due| {
            for arrival in due {
                let place = load.arrivals.len();
                let recorded = arrival.packet.handle.0;
                places.insert(recorded, place);
                let segment = segments.remove(&recorded);
                load.segments.extend(segment.map(|segment| (place, segment)));
                outcome.iter_mut().for_each(|outcome| outcome.handles.push(recorded));
                let mut arrival = *arrival;
                arrival.packet.handle = Handle(HANDLES_FROM + place as u32);
                load.arrivals.push(arrival);
                load.late.push(None);
            }
        });
        let first = self.load.arrivals.first().map_or(until, |arrival| arrival.at);
        self.load.start = self.load.start.min(first);
        self.load.end = self.load.end.max(until);
        self.served = until;
    }

    /// A packet left at `at`, as the link found when it was served.
    fn left(&mut self, handle: Handle, at: Instant) {
        let Some(&place) = self.places.get(&handle.0) else { return };
        self.load.late[place] = Some((self.served.since(at.min(self.served)), None));
    }

    fn sent(&mut self, handle: Handle, at: Instant) {
        let Some(&place) = self.places.get(&handle.0) else { return };
        if let Some(late) = &mut self.load.late[place] {
            late.1 = Some(at.since(self.served.min(at)));
        }
    }

    fn event(&mut self, event: Event) {
        self.load.events.push((self.served, self.load.arrivals.len(), event));
    }

    fn change(&mut self, change: &Change, head: &Head) -> Result<(), String> {
        // The reader of a damaged record may find any instant.
        let at = change.at.max(self.pending.now());
        let recorded = stage(at, (&change.policy, &change.files), head)?;
        // The link's time is that of the change now.
        self.pending.forfeit_before(at);
        let made = self.fork.as_mut().filter(|fork| fork.is_made());
        let (stage, ages) = match made {
            None => {
                // The frames that wait to be offered follow, with their new leaves.
                self.pending.arrivals_mut().clear();
                (recorded, change.sojourn_max.clone())
            }
            Some(fork) => {
                let stage = fork.fork().edited(&recorded, at).map_err(|why| {
                    format!("the record changes its policy to `{}`, where {why}", change.policy)
                })?;
                fork.enter(&stage);
                let ages = Moved::new(&recorded, &stage).ages(&change.sojourn_max);
                Moved::new(self.stage(), &stage).frames(&mut self.pending);
                (stage, ages)
            }
        };
        self.reads_segments |= looks_into_segments(&stage);
        self.load.stages.push(stage);
        self.load.start = self.load.start.min(at);
        self.ages = ages;
        self.event(Event::Stage(self.load.stages.len() - 1));
        Ok(())
    }

    fn finish(self) -> Result<(Load, Outcome), String> {
        if self.load.arrivals.is_empty() {
            return Err("the record holds no packet of this direction".to_owned());
        }
        Ok((self.load, self.outcome.unwrap_or_default()))
    }
}

fn stage(at: Instant, (name, files): (&str, &[File]), head: &Head) -> Result<Stage, String> {
    let text = policy::text(name, files)?;
    Stage::with_files(at, (name, text), files.to_vec(), Some(head.ports.clone()))
}

fn looks_into_segments(stage: &Stage) -> bool {
    stage.policy.link.queues.iter().any(QueuePlan::reads_segments)
}

/// Explanations replay the texts of policies, which do not have these classes.
const JOINED: &str = "classes joined the link or left it while this was recorded, which explain \
                      does not follow; record while none does";
/// Bound: packets of a record that are explained; only the first are, and that is told.
pub const ARRIVALS_MAX: usize = 1 << 22;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::LaneHead;

    /// Compares the direction that `weir set` wants for the first of some with these policies.
    fn check(policies: &[&str], wanted: Option<&str>) {
        let lane = |(place, policy): (usize, &&str)| LaneHead {
            name: ["up", "down", "side"][place].to_owned(),
            policy: (*policy).to_owned(),
            ..LaneHead::default()
        };
        let text = "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n[class.a]\ndefault = true\n";
        let file = |name: &&str| File { name: (*name).to_owned(), text: text.to_owned() };
        let head = Head {
            name: "home".to_owned(),
            lanes: policies.iter().enumerate().map(lane).collect(),
            files: policies.iter().map(file).collect(),
            ..Head::default()
        };
        let link = Reading::new(&head, 0).map(|reading| reading.load.link);
        let (words, direction) = (vec!["home".to_owned()], wanted.map(str::to_owned));
        assert_eq!(link, Ok(Some(LinkWay { words, direction })), "{policies:?}");
    }

    #[test]
    fn a_load_knows_its_link_and_whether_its_direction_must_be_named() {
        check(&["a.toml"], None);
        check(&["a.toml", "a.toml"], None);
        check(&["a.toml", "b.toml"], Some("up"));
        check(&["a.toml", "a.toml", "b.toml"], Some("up"));
    }
}
