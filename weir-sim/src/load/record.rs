//! The load of one direction of a record: what its link was offered, when, and by which policies.
//!
//! Frames are offered by the rule of the run loop ([`Pending`]), so each has the instant and the
//! leaf that it had. A record that begins on a running link begins with the link's state.

use super::{Begin, Event, HANDLES_FROM, Load, Stage};
use std::collections::BTreeMap;
use std::io::Read;
use weir_core::ids::Handle;
use weir_core::units::{Duration, Instant};
use weir_record::{Change, Fate, File, Head, Pending, RecordReader, Step};

impl Load {
    /// Reads the load of a direction: the one called `direction`, or the only one.
    ///
    /// # Errors
    /// When the record has no such direction, holds no packet, or its policy has errors. A record
    /// that is cut gives what precedes the cut.
    pub fn of_record(record: impl Read, direction: Option<&str>) -> Result<Self, String> {
        let mut reader = RecordReader::new(record).map_err(|error| error.to_string())?;
        let head = reader.head().clone();
        let lane = lane(&head, direction)?;
        let mut reading = Reading::new(&head, lane)?;
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
}

impl Reading {
    fn new(head: &Head, lane: usize) -> Result<Self, String> {
        let lane = &head.lanes[lane];
        let stage = stage(Instant::ZERO, (&lane.policy, &head.files), head)?;
        Ok(Self {
            load: Load::new(stage, Vec::new(), (Instant::MAX, Instant::ZERO)),
            pending: Pending::default(),
            places: BTreeMap::new(),
            served: Instant::ZERO,
            ages: lane.sojourn_max.clone(),
            is_begun: false,
        })
    }

    fn step(&mut self, step: &Step<'_>, head: &Head) -> Result<(), String> {
        match step {
            Step::Checkpoint { now, classified, state } => {
                if !self.is_begun {
                    self.pending = Pending::at(*now, *classified, 0);
                    self.load.begin = Some(Begin { now: *now, state: state.to_vec() });
                    self.load.start = *now;
                }
            }
            Step::Arrival(arrival) if arrival.fate != Fate::Refused => {
                let leaves = self.stage().policy.link.tree.leaf_count();
                let meters = self.stage().policy.link.meters.len();
                let meter = arrival.packet.meter;
                let is_there = arrival.leaf.index() < leaves
                    && meter.is_none_or(|meter| meter.index() < meters);
                if !is_there {
                    return Err("the record is damaged: a frame of no leaf".to_owned());
                }
                self.pending.push(arrival.offered());
            }
            Step::Serve { until } => self.serve(*until),
            Step::Departure(left) => self.left(left.handle, left.at),
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
            Step::Joins(_) => return Err(JOINED.to_owned()),
            Step::Lost(loss) => *self.load.lost.entry(loss.name()).or_default() += 1,
            Step::Arrival(_) | Step::Dropped(_) | Step::End(_) => {}
        }
        self.is_begun = true;
        Ok(())
    }

    fn stage(&self) -> &Stage {
        self.load.stages.last().expect("a load has a first stage")
    }

    fn serve(&mut self, until: Instant) {
        // The reader of a damaged record may find any instant.
        let until = until.max(self.pending.now());
        let (load, places) = (&mut self.load, &mut self.places);
        self.pending.serve(until, |due| {
            for arrival in due {
                let place = load.arrivals.len();
                places.insert(arrival.packet.handle.0, place);
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
        let stage = stage(at, (&change.policy, &change.files), head)?;
        self.load.stages.push(stage);
        self.ages = change.sojourn_max.clone();
        // The frames that wait to be offered follow, with their new leaves.
        self.pending.arrivals_mut().clear();
        self.event(Event::Stage(self.load.stages.len() - 1));
        Ok(())
    }

    fn finish(self) -> Result<Load, String> {
        if self.load.arrivals.is_empty() {
            return Err("the record holds no packet of this direction".to_owned());
        }
        Ok(self.load)
    }
}

fn stage(at: Instant, (name, files): (&str, &[File]), head: &Head) -> Result<Stage, String> {
    let file = files.iter().find(|file| file.name == name);
    let text = file.ok_or_else(|| format!("the record does not hold policy `{name}`"))?;
    let files = files.iter().map(|file| (file.name.clone(), file.text.clone())).collect();
    Stage::with_files(at, (name, &text.text), files, Some(head.ports.clone()))
}

/// What is explained is found by replays from the texts of policies.
const JOINED: &str = "classes joined the link or left it while this was recorded, which explain \
                      does not follow; record while none does";
/// The most packets of a record that are explained.
pub const ARRIVALS_MAX: usize = 1 << 22;
