//! A record replays to the bit: every scheduler, dropper and classifier, with overload, stalls and
//! changes; and a record in which one thing is different is found out.

use crate::common::policies;
use crate::common::recording;

use recording::{Recording, policy};
use std::collections::BTreeSet;
use weir_core::classify::CLASSIFIERS;
use weir_core::event::{Departure, Mark};
use weir_core::ids::{Handle, LeafId};
use weir_core::queue::DROPPERS;
use weir_core::random::Random;
use weir_core::sched::SCHEDULERS;
use weir_core::units::{Duration, Instant};
use weir_trace::load::{Detail, Happened, Load};
use weir_trace::record::{End, RecordReader, RecordWriter, Step};
use weir_trace::recorded::{RecordReport, replay};

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
    let fine = Detail { single: true, explained: true, ..Detail::default() };
    for scheduler in ["fifo", "htb", "drr", "hfsc", "cbq", "priq"] {
        let text = policy(scheduler, "codel", CLASSIFIERS[0].keyword, &mut random);
        let new = policies::text("drr", &mut random);
        let Some(recording) = Recording::new(&text, 3) else { panic!("{scheduler}: {text}") };
        let bytes = recording.run(200, Some(&new));
        check_load(&bytes, Detail::default());
        check_load(&bytes, fine);
    }
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
            let recording = if is_on { recording } else { recording.later() };
            let report = check(&recording.run(120, Some(&other)));
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

#[test]
fn rules_by_tags_flags_and_lengths_and_their_marks_replay_to_the_bit() {
    let text = "[link]\nrate = '10 Mbit/s'\nscheduler = 'drr'\n\
        [class.tagged]\nmatch = [{ pcp = 5, set_dscp = 'af41' }]\n\
        [class.acks]\nset_dscp = 'ef'\n\
        match = [{ ethertype = 'ipv4', proto = 'tcp', tcp_flags = 'ack', length = '0-400 B' }]\n\
        [class.rest]\ndefault = true\n";
    let recording = Recording::new(text, 8).expect("a sound policy");
    let bytes = recording.run(400, None);
    let report = check(&bytes);
    assert!(report.is_identical() && report.is_whole, "{report}");
    let mut reader = RecordReader::new(&bytes[..]).expect("it was written as a record");
    let mut marked = [[0; 2]; 3];
    while let Ok(Some((_, step))) = reader.next_step() {
        if let Step::Departure(left) = step {
            marked[left.leaf.index()][usize::from(left.mark.written().is_some())] += 1;
        }
    }
    let [tagged, acks, rest] = marked;
    // A packet that has the code point already, or none, leaves as it came.
    assert!(tagged[1] > 5 && acks[1] > 20 && rest[0] > 100 && rest[1] == 0, "{marked:?}");
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
