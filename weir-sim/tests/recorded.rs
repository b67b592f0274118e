//! A record replays to the bit: every scheduler, dropper and classifier, with overload, stalls and
//! changes; and a record in which one thing is different is found out.

#[path = "common/policies.rs"]
mod policies;

use policies::text;
use std::collections::BTreeSet;
use weir_core::classify::{CLASSIFIERS, Classifier, InterfaceId};
use weir_core::event::{Departure, Mark};
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{AnyLink, Change as LinkChange, Packet};
use weir_core::packet::Headers;
use weir_core::queue::DROPPERS;
use weir_core::random::Random;
use weir_core::sched::SCHEDULERS;
use weir_core::units::{Duration, Instant};
use weir_policy::Policy;
use weir_record::state::checkpoint;
use weir_record::{
    Arrival, Change, End, Fate, File, Head, LaneHead, Pending, RecordReader, RecordWriter, Step,
    headers_of,
};
use weir_sim::load::{Detail, Happened, Load};
use weir_sim::recorded::{RecordReport, policy_of, replay};

/// A lane that records, without ports: what `weir-live` does with frames, in virtual time.
struct Recording {
    head: Head,
    policy: Policy,
    classifier: Classifier,
    link: Box<dyn AnyLink>,
    pending: Pending,
    writer: RecordWriter<Vec<u8>>,
    is_on: bool,
    random: Random,
    now: u64,
    handle: u32,
}

const SOJOURN: Duration = Duration::from_millis(30);

impl Recording {
    fn new(policy: &str, seed: u64) -> Option<Self> {
        let files = vec![File { name: "p.toml".to_owned(), text: policy.to_owned() }];
        let leaves = weir_policy::parse(policy, "p").plan?.link.tree.leaf_count();
        let lane = LaneHead {
            name: "up".to_owned(),
            policy: "p.toml".to_owned(),
            sojourn_max: vec![SOJOURN; leaves],
            ..LaneHead::default()
        };
        let head = Head { files, lanes: vec![lane], ..Head::default() };
        let policy = policy_of("p.toml", &head.files, &head).ok()?;
        Some(Self {
            classifier: policy.classifier(),
            link: policy.link.build().ok()?,
            policy,
            pending: Pending::default(),
            writer: RecordWriter::new(Vec::new(), &head).expect("a Vec takes all"),
            is_on: true,
            head,
            random: Random::new(seed, 0),
            now: 0,
            handle: 0,
        })
    }

    fn note(&mut self, step: &Step<'_>) {
        if self.is_on {
            self.writer.step(0, step).expect("a Vec takes all");
        }
    }

    /// The state here: the record begins with it, or holds the replay to it.
    fn checkpoint(&mut self) {
        let mut out = Vec::new();
        checkpoint(&self.pending, (self.link.as_ref(), &self.classifier), &mut out);
        self.writer.steps(0, &out).expect("a Vec takes all");
        self.is_on = true;
    }

    /// A frame arrives a little before now.
    fn arrive(&mut self) {
        let frame = frame(&mut self.random);
        let headers = Headers::parse_ethernet(&frame);
        let stamp = self.now.saturating_sub(self.random.below(50_000).into());
        let at = self.pending.offer_at(Instant::from_nanos(stamp));
        let classified =
            self.classifier.classify(self.pending.classify_at(at), InterfaceId(0), &headers);
        self.handle += 1;
        let packet = Packet {
            handle: Handle(self.handle),
            length: frame.len() as u32,
            flow: headers.flow(classified.flow),
            traffic_class: headers.traffic_class.unwrap_or(0),
            meter: classified.meter,
        };
        let refused = self.random.below(50) == 0;
        let fate = if refused { Fate::Refused } else { Fate::Offered };
        let (port, leaf) = (InterfaceId(0), classified.leaf);
        let headers = headers_of(&frame, &headers);
        let arrival = Arrival { at, port, leaf, packet, fate, headers };
        self.note(&Step::Arrival(arrival));
        if !refused {
            self.pending.push(arrival.offered());
        }
    }

    fn serve(&mut self, behind: u64) {
        let until = self.pending.now().max(Instant::from_nanos(self.now.saturating_sub(behind)));
        let mut out = Vec::new();
        let link = &mut self.link;
        self.pending.serve(until, |due| link.serve(due, until, &mut out));
        self.note(&Step::Serve { until });
        out.iter().for_each(|departure| self.note(&Step::Departure(*departure)));
        self.take_dropped();
    }

    fn take_dropped(&mut self) {
        let mut drops = Vec::new();
        self.link.take_dropped(&mut |dropped| drops.push(dropped));
        drops.iter().for_each(|dropped| self.note(&Step::Dropped(*dropped)));
    }

    fn stall(&mut self) {
        self.now += 60_000_000;
        let (clock, before) =
            (Instant::from_nanos(self.now), Instant::from_nanos(self.now - 1_000_000));
        self.pending.forfeit_before(before);
        self.link.forfeit_before(before);
        self.note(&Step::Forfeit { before });
        self.link.drop_older(&|_| clock.before(SOJOURN));
        self.note(&Step::DropOlder { clock });
        self.take_dropped();
    }

    /// Everything that came before is over, so that no frame needs a new leaf.
    fn change(&mut self, text: &str) {
        self.serve(0);
        let change = Change {
            at: self.pending.now(),
            policy: "new.toml".to_owned(),
            files: vec![File { name: "new.toml".to_owned(), text: text.to_owned() }],
            sojourn_max: Vec::new(),
            ..Change::default()
        };
        let policy = policy_of("new.toml", &change.files, &self.head).expect("a sound policy");
        let (from, to) = (&self.policy.link, &policy.link);
        let heir = policy.default.leaf;
        LinkChange { from, to, heir }.apply(&mut self.link, change.at).expect("it builds");
        self.classifier = policy.classifier();
        let sojourn_max = vec![SOJOURN; policy.link.tree.leaf_count()];
        self.policy = policy;
        self.note(&Step::Change(Box::new(Change { sojourn_max, ..change })));
        self.take_dropped();
    }

    /// Turns with bursts above the line's rate, pauses, and a stall; with `new` another policy in
    /// the middle.
    fn run(mut self, turns: u32, new: Option<&str>) -> Vec<u8> {
        for turn in 0..turns {
            self.now += u64::from(self.random.below(2_000_000));
            (0..self.random.below(12)).for_each(|_| self.arrive());
            let behind = if self.random.below(4) == 0 { 40_000 } else { 0 };
            self.serve(behind);
            if turn == turns / 3 {
                self.stall();
            }
            if [turns / 6, turns * 3 / 4].contains(&turn) {
                self.checkpoint();
            }
            if let Some(new) = new.filter(|_| turn == turns / 2) {
                self.change(new);
            }
        }
        self.writer.finish(End::Asked).expect("a Vec takes all")
    }
}

/// A datagram to one of some ports, of any length; some are fragments, some other frames.
fn frame(random: &mut Random) -> Vec<u8> {
    let length = 60 + random.below(policies::MTU - 60) as usize;
    let mut frame = vec![0; length];
    frame[12] = 8;
    frame[14..16].copy_from_slice(&[0x45, [0, 1, 2, 0xb8][random.below(4) as usize]]);
    frame[16..18].copy_from_slice(&(length as u16 - 14).to_be_bytes());
    frame[19] = random.below(4) as u8;
    frame[20] = [0, 0, 0, 0, 0x20, 0x01][random.below(6) as usize];
    frame[23] = [17, 6][random.below(2) as usize];
    frame[29] = random.below(4) as u8;
    frame[35] = random.below(8) as u8;
    frame[37] = random.below(10) as u8;
    if random.below(40) == 0 {
        frame[12] = 0x88;
    }
    frame
}

fn check(bytes: &[u8]) -> RecordReport {
    let reader = RecordReader::new(bytes).expect("it was written as a record");
    replay(reader).unwrap_or_else(|error| panic!("{error}"))
}

/// Reads the load of a record, drives a link through it, and compares what leaves with what the
/// record says, as far as it goes.
fn check_load(bytes: &[u8], detail: Detail) {
    let mut reader = RecordReader::new(bytes).expect("it was written as a record");
    let (mut recorded, mut dropped) = (Vec::new(), 0);
    while let Ok(Some((_, step))) = reader.next_step() {
        match step {
            Step::Departure(left) => recorded.push((left.leaf, left.arrived, left.at)),
            Step::Dropped(_) => dropped += 1,
            _ => {}
        }
    }
    let load = Load::of_record(bytes, None).expect("it holds packets");
    let (mut left, mut drops) = (Vec::new(), 0);
    let still = load.replay(&load.plans(), detail, &mut |happened| match happened {
        Happened::Left(one) => left.push((one.leaf, one.arrived, one.at)),
        Happened::Dropped(..) => drops += 1,
        _ => {}
    });
    let still = still.expect("the plans build") as usize;
    assert_eq!(left.len() + drops + still, load.arrivals.len());
    assert!(drops >= dropped, "{drops} of {dropped} drops");
    assert_eq!(left[..recorded.len()], recorded);
}

#[test]
fn the_load_of_a_record_leaves_as_recorded() {
    let mut random = Random::new(22, 0);
    let fine = Detail { single: true, explained: true };
    for scheduler in ["fifo", "htb", "drr", "hfsc", "cbq", "priq"] {
        let text = policy(scheduler, "codel", CLASSIFIERS[0].keyword, &mut random);
        let new = policies::text("drr", &mut random);
        let Some(recording) = Recording::new(&text, 3) else { panic!("{scheduler}: {text}") };
        let bytes = recording.run(200, Some(&new));
        check_load(&bytes, Detail::default());
        check_load(&bytes, fine);
    }
}

/// Returns a policy of this scheduler, with this dropper and this classifier.
fn policy(scheduler: &str, dropper: &str, classifier: &str, random: &mut Random) -> String {
    let text = text(scheduler, random);
    let queue = format!("queue = {{ dropper = '{dropper}', limit = '20 packets' }}");
    let text = text.replace("queue = { limit = '20 packets' }", &queue);
    text.replacen("[link]\n", &format!("[link]\nclassifier = '{classifier}'\n"), 1)
}

#[test]
fn every_scheduler_dropper_and_classifier_replays_to_the_bit() {
    let mut random = Random::new(21, 0);
    let (mut departures, mut drops) = (0, 0);
    let mut tried = BTreeSet::new();
    for scheduler in SCHEDULERS.iter().map(|row| row.descriptor.keyword) {
        for dropper in DROPPERS.iter().map(|row| row.keyword) {
            let place = random.below(CLASSIFIERS.len() as u32) as usize;
            let classifier = CLASSIFIERS[place].keyword;
            let text = policy(scheduler, dropper, classifier, &mut random);
            let Some(recording) = Recording::new(&text, random.bits()) else { continue };
            let other = policies::text(scheduler, &mut random);
            // Every other record begins with a new link, the others in the middle of a run.
            let is_on = random.below(2) == 0;
            let report = check(&Recording { is_on, ..recording }.run(120, Some(&other)));
            assert!(report.is_identical() && report.is_whole, "{report}\n{text}");
            let [lane] = report.directions.as_slice() else { panic!("one direction") };
            assert_eq!((lane.changes, lane.checkpoints), (1, 1 + u64::from(is_on)));
            departures += lane.departures;
            drops += lane.drops;
            tried.extend([scheduler, dropper, classifier]);
        }
    }
    let all = SCHEDULERS.len() + DROPPERS.len() + CLASSIFIERS.len();
    assert!(tried.len() + 4 >= all, "only {} of {all} were tried: {tried:?}", tried.len());
    assert!(departures > 10_000 && drops > 10_000, "{departures} departures, {drops} drops");
}

/// Returns the record with each step as `change` leaves it; it gets the number of the step of its
/// kind, and drops those for which it returns false.
fn rewritten(bytes: &[u8], mut change: impl FnMut(&mut Step<'_>) -> bool) -> Vec<u8> {
    let mut reader = RecordReader::new(bytes).expect("a record");
    let head = reader.head().clone();
    let mut writer = RecordWriter::new(Vec::new(), &head).expect("a Vec takes all");
    while let Some((lane, mut step)) = reader.next_step().expect("it is whole") {
        if !matches!(step, Step::End(_)) && change(&mut step) {
            writer.step(lane, &step).expect("a Vec takes all");
        }
    }
    writer.finish(End::Asked).expect("a Vec takes all")
}

#[test]
fn a_departure_moved_by_a_nanosecond_is_the_first_difference() {
    let text = policy("drr", "red", "linear", &mut Random::new(3, 0));
    let bytes = Recording::new(&text, 3).expect("a sound policy").run(100, None);
    assert!(check(&bytes).is_identical());
    type Turn = fn(&mut Departure);
    let turns: [(Turn, &str); 4] = [
        (|it| it.at = it.at.after(Duration::from_nanos(1)), "leaves at"),
        (|it| it.finished = it.finished.after(Duration::from_nanos(1)), "is over at"),
        (|it| it.handle = Handle(it.handle.0 + 1), "packet"),
        (|it| it.mark = Mark::new(Some(0xff)), "marked 0xff"),
    ];
    for (turn, shown) in turns {
        let mut number = 0;
        let moved = rewritten(&bytes, |step| {
            if let Step::Departure(departure) = step {
                number += 1;
                if number == 20 {
                    turn(departure);
                }
            }
            true
        });
        let report = check(&moved);
        assert!(!report.is_identical());
        let difference = report.difference.as_ref().expect("one departure differs");
        assert_eq!(report.directions[0].departures, 19, "{report}");
        assert!(difference.expected.contains(shown), "{report}");
        assert_ne!(difference.expected, difference.found);
    }
}

#[test]
fn what_is_missing_from_a_record_is_a_difference() {
    let text = policy("drr", "tail", "linear", &mut Random::new(4, 0));
    let bytes = Recording::new(&text, 4).expect("a sound policy").run(100, None);
    type IsIt = fn(&Step<'_>) -> bool;
    let kinds: [IsIt; 4] = [
        |step| matches!(step, Step::Departure(_)),
        |step| matches!(step, Step::Dropped(_)),
        |step| matches!(step, Step::Forfeit { .. }),
        |step| matches!(step, Step::Arrival(_)),
    ];
    for (kind, is_it) in kinds.into_iter().enumerate() {
        let mut left_out = false;
        let less = rewritten(&bytes, |step| {
            let is_first = !left_out && is_it(step);
            left_out |= is_first;
            !is_first
        });
        assert!(left_out && check(&less).difference.is_some(), "kind {kind}");
    }
}

#[test]
fn a_cut_record_is_identical_up_to_the_cut() {
    let text = policy("drr", "tail", "linear", &mut Random::new(5, 0));
    let bytes = Recording::new(&text, 5).expect("a sound policy").run(60, None);
    for cut in (1000..bytes.len()).step_by(997) {
        let Ok(reader) = RecordReader::new(&bytes[..cut]) else { continue };
        let report = replay(reader).expect("the policy is whole");
        assert!(report.difference.is_none() && report.fault.is_some(), "{report}");
    }
}

#[test]
fn a_record_that_asks_the_impossible_is_faulty() {
    let text = policy("drr", "tail", "linear", &mut Random::new(6, 0));
    let bytes = Recording::new(&text, 6).expect("a sound policy").run(60, None);
    type Turn = fn(&mut Step<'_>);
    let turns: [Turn; 3] = [
        |step| {
            if let Step::Arrival(arrival) = step {
                arrival.leaf = LeafId(99);
            }
        },
        |step| {
            if let Step::Serve { until } = step {
                *until = Instant::from_nanos(until.as_nanos() % 1_000_003);
            }
        },
        |step| {
            if let Step::Change(change) = step {
                change.policy.clear();
            }
        },
    ];
    for turn in turns {
        let wrong = rewritten(&bytes, |step| {
            turn(step);
            true
        });
        let report = check(&wrong);
        assert!(wrong == bytes || !report.is_identical(), "{report}");
    }
}
