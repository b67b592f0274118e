//! Why packets of a load waited, told packet by packet: numbers that can be computed by hand.

use weir_core::ids::LeafId;
use weir_core::link::{Arrival, Packet};
use weir_core::units::{Duration, Instant, Rate};
use weir_trace::causes::{Ask, Causes, Rates, look};
use weir_trace::explain::SlowPacket;
use weir_trace::load::{Event, Load, Stage};

const POLICY: &str = "
[link]
rate = '8 Mbit/s'
scheduler = 'htb'
[class.line]
rate = '8 Mbit/s'
[class.calls]
parent = 'line'
rate = '500 kbit/s'
ceil = '800 kbit/s'
burst = '1600 B'
cburst = '1600 B'
[class.voice]
parent = 'calls'
rate = '400 kbit/s'
ceil = '8 Mbit/s'
burst = '1600 B'
queue = { limit = '3 packets' }
match = [{ proto = 'udp' }]
[class.rest]
parent = 'line'
rate = '1 Mbit/s'
ceil = '8 Mbit/s'
default = true
";

/// A load of packets of 1000 bytes: leaf and instant in µs; 0 is `voice`, 1 is `rest`.
fn load(packets: &[(u32, u64)]) -> Load {
    let packet = |(place, &(leaf, micros)): (usize, &(u32, u64))| Arrival {
        at: Instant::from_nanos(micros * 1000),
        leaf: LeafId(leaf),
        packet: Packet::new(Load::handle(place), 1000),
    };
    let stage = Stage::new(Instant::ZERO, "p.toml", POLICY).expect("a sound policy");
    let arrivals = packets.iter().enumerate().map(packet).collect();
    let end = Instant::ZERO.after(Duration::from_millis(100));
    Load::new(stage, arrivals, (Instant::ZERO, end))
}

/// Explains the `packet`th packet of `voice`, and compares the sentence.
fn check(packets: &[(u32, u64)], packet: u64, sentence: &str) -> Causes {
    let ask = Ask { class: Some("calls".into()), packet: Some(packet), ..Ask::default() };
    let causes = look(&load(packets), &ask).expect("the policy builds");
    let [story] = causes.stories.as_slice() else { panic!("{:?}", causes.stories) };
    assert_eq!(story.to_string(), sentence);
    let parts = story.parts_ms.named().iter().map(|part| part.1).sum::<f64>();
    assert!((parts - story.total_ms).abs() < 1e-9, "{story:?}");
    causes
}

#[test]
fn a_packet_waits_for_the_ceiling_of_the_class_above() {
    // A packet takes 1 ms on the line. The ceiling of `calls` has tokens for 1600 bytes at first,
    // and gains 100 bytes a ms: after two packets it owes 200 bytes at 2 ms, which take 2 ms.
    // Its rate and that of `voice` are used up for longer, so `line` lends.
    let causes = check(
        &[(0, 0), (0, 0), (0, 0), (1, 1500)],
        3,
        "voice's packet 3 (1000 B, offered at 0.000000 s) waited 4.000 ms: 2.000 ms behind 2 \
         packets (2000 B) of its own queue, 2.000 ms because of the ceiling of `calls`. Meanwhile \
         others sent: rest 1 packet (1000 B). `line` lent for it.",
    );
    assert_eq!(causes.packets, 4);
}

#[test]
fn the_slowest_are_those_of_the_class_asked_for_by_the_clock_of_the_load() {
    let slowest = |class: Option<&str>| {
        let boot = Instant::ZERO.after(Duration::from_millis(5000));
        let mut load = load(&[(0, 5_000_000), (0, 5_000_000), (1, 5_000_000)]);
        (load.start, load.end) = (boot, boot.after(Duration::from_millis(100)));
        let ask = Ask { class: class.map(str::to_owned), worst: 10, ..Ask::default() };
        let causes = look(&load, &ask).expect("the policy builds");
        let row = |row: &SlowPacket| (row.class.clone(), row.at.as_nanos() / 1000);
        causes.classes.slowest.iter().map(row).collect::<Vec<_>>()
    };
    // A packet takes 1 ms; it is listed by when it began to leave.
    let all = [("rest", 2000), ("voice", 1000), ("voice", 0)];
    let all = all.map(|(class, micros)| (class.to_owned(), micros));
    assert_eq!(slowest(None), all);
    assert_eq!(slowest(Some("calls")), all[1..]);
}

#[test]
fn drops_tell_the_queue_and_its_limit() {
    let causes = look(&load(&[(0, 0); 9]), &Ask::default()).expect("the policy builds");
    let [group] = causes.drops.as_slice() else { panic!("{:?}", causes.drops) };
    assert_eq!((group.class.as_str(), group.reason, group.packets), ("voice", "full", 5));
    assert_eq!((group.queued, group.limit.as_str()), ((3, 3), "3 packets"));
}

/// The class asked for, the classes of the table, and those of the drops.
#[test]
fn tables_have_the_classes_asked_for() {
    let packets: Vec<_> = (0..12).map(|number| (number % 2, 0)).collect();
    let rows: [(Option<&str>, &[&str], &[&str]); 3] = [
        (None, &["line", "calls", "voice", "rest"], &["voice"]),
        (Some("calls"), &["calls", "voice"], &["voice"]),
        (Some("rest"), &["rest"], &[]),
    ];
    for (class, classes, dropped) in rows {
        let ask = Ask { class: class.map(str::to_owned), ..Ask::default() };
        let causes = look(&load(&packets), &ask).expect("the policy builds");
        let table: Vec<_> = causes.classes.classes.iter().map(|row| row.name.as_str()).collect();
        let drops: Vec<_> = causes.drops.iter().map(|row| row.class.as_str()).collect();
        assert_eq!((table.as_slice(), drops.as_slice()), (classes, dropped), "{class:?}");
    }
}

#[test]
fn packets_that_waited_alike_are_told_of_together() {
    // Three at once, then as many as the tokens of `voice` let through: each waits as the one before.
    let packets: Vec<_> = (0..10u64).map(|number| (0, number.saturating_sub(2) * 10_000)).collect();
    let ask = Ask { class: Some("calls".into()), worst: 6, ..Ask::default() };
    let text = look(&load(&packets), &ask).expect("the policy builds").to_string();
    let told = "\n2 packets of voice (numbers 7 to 9, 1000 B, offered at 0.040 to 0.060 s) waited \
                4.000 ms: 4.000 ms because of the ceiling of `calls`. `line` lent for them.\n";
    assert!(text.contains(told), "{text}");
}

#[test]
fn a_rate_that_a_controller_changed_is_among_the_causes() {
    // The second packet would leave the line at 2 ms; at half the rate from 0.5 ms on it begins at
    // 1.5 ms, when the first has left, and is told of the change.
    let mut load = load(&[(0, 0), (0, 0)]);
    let at = Instant::from_nanos(500_000);
    let rate = Rate::new(4_000_000).expect("not zero");
    load.events.push((at, 2, Event::Rate(at, rate)));
    let ask = Ask { class: Some("calls".into()), packet: Some(2), ..Ask::default() };
    let causes = look(&load, &ask).expect("the policy builds");
    let [story] = causes.stories.as_slice() else { panic!("{:?}", causes.stories) };
    let rates = Rates { changes: 1, least_bps: 4_000_000, last_bps: 4_000_000 };
    assert_eq!(story.rates, Some(rates));
    let text = story.to_string();
    let told = "Meanwhile a controller set the link's rate to 4.0000 Mbit/s.";
    assert!(text.ends_with(told), "{text}");
}
