//! One direction of a record, made again.

use super::{Difference, DirectionReport, after, policy_of};
use crate::record::state::{restore, save};
use crate::record::{Arrival, Change, Fate, Head, Joins, LaneHead, Step};
use std::collections::VecDeque;
use weir_core::classify::Classifier;
use weir_core::event::{Departure, Dropped, Mark};
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, Change as LinkChange, LinkPlan, Packet, Pending};
use weir_core::packet::Headers;
use weir_core::units::{Duration, Instant, Rate};
use weir_policy::Policy;
use weir_policy::policy::JoinRequest;

/// A lane of a record that is made again: see the module.
pub(super) struct Lane {
    policy: Policy,
    classifier: Classifier,
    /// The plan of the link: classes join and leave there by themselves, since the policy learns of
    /// one from what it was before.
    plan: LinkPlan,
    link: Box<dyn AnyLink>,
    sojourn_max: Vec<Duration>,
    pending: Pending,
    /// Departures of the link that the record has not confirmed yet.
    departures: VecDeque<Departure>,
    drops: VecDeque<Dropped>,
    out: Vec<Departure>,
    /// Whether the link was called yet.
    is_begun: bool,
    /// The first instant of the record.
    start: Option<Instant>,
    /// The number of the step in hand.
    step: u64,
    report: DirectionReport,
}

/// Why a replay stops.
#[derive(Debug)]
pub(super) enum Mismatch {
    /// The link did something else.
    Differs(Box<Difference>),
    /// The record asks what no link can be asked.
    Faulty(String),
}

type Same = Result<(), Mismatch>;

impl Lane {
    /// The direction before its first step.
    pub fn new(lane: &LaneHead, head: &Head) -> Result<Self, String> {
        let policy = policy_of(&lane.policy, &head.files, head)?.with_places();
        Ok(Self {
            classifier: policy.classifier(),
            link: policy.link.build().map_err(|error| error.message)?,
            plan: policy.link.clone(),
            policy,
            sojourn_max: lane.sojourn_max.clone(),
            pending: Pending::default(),
            departures: VecDeque::new(),
            drops: VecDeque::new(),
            out: Vec::new(),
            is_begun: false,
            start: None,
            step: 0,
            report: DirectionReport { direction: lane.name.clone(), ..Default::default() },
        })
    }

    /// Makes a step again, or compares it with what the link did.
    pub fn step(&mut self, step: &Step<'_>, head: &Head, number: u64) -> Same {
        self.step = number;
        match step {
            Step::Checkpoint { now, classified, state } => {
                self.checkpoint(*now, *classified, state)
            }
            Step::Arrival(arrival) => self.arrival(arrival),
            Step::Serve { until } => self.serve(*until),
            Step::Departure(departure) => self.compare_departure(departure),
            Step::Dropped(dropped) => self.compare_drop(dropped),
            Step::Forfeit { before } => {
                self.settle()?;
                self.pending.forfeit_before(*before);
                self.link.forfeit_before(*before);
                self.called();
                Ok(())
            }
            Step::DropOlder { clock } => self.drop_older(*clock),
            Step::Change(change) => self.change(change, head),
            Step::Joins(joins) => self.join(joins),
            Step::Rate { at, rate } => self.set_rate(*at, *rate),
            Step::Lost(_) => {
                self.report.lost += 1;
                Ok(())
            }
            Step::Sent { .. } | Step::End(_) => Ok(()),
        }
    }

    /// Returns what was the same.
    pub fn report(self) -> DirectionReport {
        self.report
    }

    /// Checks that the record has confirmed everything that the link did.
    pub fn settle(&self) -> Same {
        let nothing = "nothing more".to_owned();
        if let Some(left) = self.departures.front().copied() {
            return self.differs((left.leaf, left.handle, left.at), nothing, departed(&left));
        }
        match self.drops.front().copied() {
            Some(left) => self.differs((left.leaf, left.handle, left.at), nothing, dropped(&left)),
            None => Ok(()),
        }
    }

    fn checkpoint(&mut self, now: Instant, classified: Instant, state: &[u8]) -> Same {
        self.settle()?;
        self.start.get_or_insert(now);
        if self.is_begun {
            // What waits to be offered is listed anew.
            self.pending.arrivals_mut().clear();
            self.report.checkpoints += 1;
            return self.compare_state(now, classified, state);
        }
        self.is_begun = true;
        self.pending = Pending::at(now, classified, 0);
        let leaves = self.policy.link.tree.leaf_count();
        let restored = restore(state, self.link.as_mut(), &mut self.classifier, leaves);
        match restored {
            Ok(()) => Ok(()),
            Err(error) => self.faulty(&error.to_string()),
        }
    }

    /// Compares the state at a later checkpoint with what the replay has there.
    fn compare_state(&self, now: Instant, classified: Instant, state: &[u8]) -> Same {
        let is_same = self.pending.now() == now
            && self.pending.classified() == classified
            && save(self.link.as_ref(), &self.classifier) == state;
        if is_same {
            return Ok(());
        }
        let expected = "the state of the checkpoint".to_owned();
        self.differs((LeafId(0), Handle(0), now), expected, "another state".to_owned())
    }

    fn arrival(&mut self, arrival: &Arrival<'_>) -> Same {
        self.start.get_or_insert(arrival.at);
        let leaves = self.policy.link.tree.leaf_count();
        let meters = self.policy.link.meters.len();
        if arrival.leaf.index() >= leaves
            || arrival.packet.meter.is_some_and(|meter| meter.index() >= meters)
        {
            return self.faulty("a frame of a leaf or a meter that the policy does not have");
        }
        if arrival.fate != Fate::Resumed {
            self.report.arrivals += 1;
            self.classify(arrival)?;
        }
        if arrival.fate != Fate::Refused {
            let offered = arrival.offered();
            let headers = Headers::parse_ethernet(arrival.headers);
            self.link.note_frame(&offered, arrival.headers, &headers);
            self.pending.push(offered);
        }
        Ok(())
    }

    fn classify(&mut self, arrival: &Arrival<'_>) -> Same {
        let headers = Headers::parse_ethernet(arrival.headers);
        let at = self.pending.classify_at(arrival.at);
        let classified = self.classifier.classify(at, arrival.port, &headers);
        let found = Packet {
            flow: headers.flow(classified.flow),
            host: headers.host(classified.flow),
            traffic_class: headers.traffic_class.unwrap_or(0),
            meter: classified.meter,
            ..arrival.packet
        };
        if (classified.leaf, found) == (arrival.leaf, arrival.packet) {
            return Ok(());
        }
        let shown = |leaf: LeafId, packet: &Packet| {
            let Packet { length, flow, host, traffic_class, meter, .. } = packet;
            let host = host.address().map_or("none".to_owned(), |address| address.to_string());
            let meter = meter.map_or("none".to_owned(), |meter| meter.index().to_string());
            format!(
                "classified to {}: {length} bytes, flow {flow:#x}, host {host}, traffic class \
                 {traffic_class:#x}, meter {meter}",
                self.class(leaf)
            )
        };
        let (expected, found) =
            (shown(arrival.leaf, &arrival.packet), shown(classified.leaf, &found));
        self.differs((arrival.leaf, arrival.packet.handle, arrival.at), expected, found)
    }

    fn serve(&mut self, until: Instant) -> Same {
        self.settle()?;
        self.start.get_or_insert(until);
        if until < self.pending.now() {
            return self.faulty("time goes back");
        }
        self.out.clear();
        let (link, out) = (&mut self.link, &mut self.out);
        self.pending.serve(until, |due| link.serve(due, until, out));
        self.departures.extend(self.out.drain(..));
        self.called();
        Ok(())
    }

    fn drop_older(&mut self, clock: Instant) -> Same {
        self.settle()?;
        let ages = &self.sojourn_max;
        if ages.len() != self.policy.link.tree.leaf_count() {
            return self.faulty("ages of other leaves than the policy has");
        }
        self.link.drop_older(&|leaf| clock.before(ages[leaf.index()]));
        self.called();
        Ok(())
    }

    fn set_rate(&mut self, at: Instant, rate: Rate) -> Same {
        self.settle()?;
        if at < self.pending.now() {
            return self.faulty("time goes back");
        }
        self.pending.forfeit_before(at);
        self.link.set_rate(at, rate);
        self.called();
        Ok(())
    }

    /// Takes what the link dropped in a call.
    fn called(&mut self) {
        self.is_begun = true;
        let drops = &mut self.drops;
        self.link.take_dropped(&mut |dropped| drops.push_back(dropped));
    }

    fn change(&mut self, change: &Change, head: &Head) -> Same {
        self.settle()?;
        if change.at < self.pending.now() {
            return self.faulty("time goes back");
        }
        let policy = policy_of(&change.policy, &change.files, head).map_err(Mismatch::Faulty)?;
        let policy = policy.with_places();
        let (from, to) = (&self.plan, &policy.link);
        let applied =
            LinkChange { from, to, heir: policy.default.leaf }.apply(&mut self.link, change.at);
        applied.map_err(|error| Mismatch::Faulty(error.message))?;
        self.classifier = policy.classifier();
        self.plan = policy.link.clone();
        self.sojourn_max = change.sojourn_max.clone();
        self.policy = policy;
        // The link's time is that of the change now; a record that goes back is faulty.
        self.pending.forfeit_before(change.at);
        // The frames that wait to be offered follow, with their new leaves.
        self.pending.arrivals_mut().clear();
        self.report.changes += 1;
        self.called();
        Ok(())
    }

    /// Lets classes join and leave as they did.
    fn join(&mut self, joins: &Joins) -> Same {
        self.settle()?;
        if joins.at < self.pending.now() {
            return self.faulty("time goes back");
        }
        let request =
            JoinRequest { remove: &joins.removed, tables: &joins.tables, name: "the record" };
        let outcome = self.policy.seat(&request);
        let Some(seatings) = outcome.plan else {
            let why = outcome.findings.first().map_or("", |finding| finding.message.as_str());
            return self.faulty(&format!("classes that cannot join, or leave, the policy: {why}"));
        };
        for seating in &seatings {
            for graft in seating.grafts(&self.policy) {
                let done = graft.apply(&mut self.plan, self.link.as_mut(), joins.at);
                done.map_err(|error| Mismatch::Faulty(error.to_string()))?;
            }
            match seating.rules() {
                Some(rules) => {
                    let fits = self.classifier.fits(seating.leaf, &rules);
                    fits.map_err(Mismatch::Faulty)?;
                    self.classifier.join(seating.leaf, rules);
                }
                None => drop(self.classifier.leave(seating.leaf)),
            }
            self.policy.follow(seating);
        }
        self.pending.forfeit_before(joins.at);
        // The frames that wait to be offered follow, with their new leaves.
        self.pending.arrivals_mut().clear();
        self.report.changes += 1;
        self.called();
        Ok(())
    }

    fn compare_departure(&mut self, expected: &Departure) -> Same {
        let found = self.departures.pop_front().map(plain);
        let is_same = found.as_ref() == Some(&plain(*expected));
        self.report.departures += u64::from(is_same);
        if is_same {
            return Ok(());
        }
        let found = found.map_or("no departure".to_owned(), |found| departed(&found));
        let place = (expected.leaf, expected.handle, expected.at);
        self.differs(place, departed(expected), found)
    }

    fn compare_drop(&mut self, expected: &Dropped) -> Same {
        let found = self.drops.pop_front();
        let is_same = found.as_ref() == Some(expected);
        self.report.drops += u64::from(is_same);
        if is_same {
            return Ok(());
        }
        let found = found.map_or("no drop".to_owned(), |found| dropped(&found));
        let place = (expected.leaf, expected.handle, expected.at);
        self.differs(place, dropped(expected), found)
    }

    fn differs(
        &self,
        (leaf, handle, at): (LeafId, Handle, Instant),
        expected: String,
        found: String,
    ) -> Same {
        Err(Mismatch::Differs(Box::new(Difference {
            direction: self.report.direction.clone(),
            step: self.step,
            at: after(self.start, at),
            class: self.class(leaf),
            packet: handle.0,
            expected,
            found,
        })))
    }

    fn faulty(&self, what: &str) -> Same {
        let direction = &self.report.direction;
        Err(Mismatch::Faulty(format!("direction {direction}, step {}: {what}", self.step)))
    }

    fn class(&self, leaf: LeafId) -> String {
        match leaf.index() < self.policy.link.tree.leaf_count() {
            true => self.policy.leaf_name(leaf).to_owned(),
            false => format!("leaf {}", leaf.0),
        }
    }
}

/// Returns the departure as a record has it: a mark that writes nothing is none.
pub(crate) fn plain(departure: Departure) -> Departure {
    Departure { mark: Mark::new(departure.mark.written()), ..departure }
}

/// A departure as text.
pub(crate) fn departed(departure: &Departure) -> String {
    let Departure { handle, leaf, charged, arrived, at, finished, mark } = departure;
    let mark = mark.written().map_or(String::new(), |mark| format!(", marked {mark:#x}"));
    format!(
        "packet {} of leaf {} leaves at {} ns, is over at {} ns; it came at {} ns and counts {} \
         bytes{mark}",
        handle.0,
        leaf.0,
        at.as_nanos(),
        finished.as_nanos(),
        arrived.as_nanos(),
        charged.get()
    )
}

/// A drop as text.
pub(crate) fn dropped(dropped: &Dropped) -> String {
    let Dropped { handle, leaf, reason, at, arrived } = dropped;
    format!(
        "packet {} of leaf {} is dropped at {} ns ({}); it came at {} ns",
        handle.0,
        leaf.0,
        at.as_nanos(),
        reason.name(),
        arrived.as_nanos()
    )
}
