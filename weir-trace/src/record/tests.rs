//! Records written and read, whole and damaged.

use super::*;
use weir_core::classify::InterfaceId;
use weir_core::event::{Departure, DropReason, Dropped, Mark};
use weir_core::ids::{Handle, LeafId, MeterId};
use weir_core::link::Packet;
use weir_core::packet::{Headers, Host};
use weir_core::units::{Bytes, Duration, Instant, Rate};

const FRAME: [u8; 61] = [7; 61];

fn head() -> Head {
    let lane = |name: &str, bridge| LaneHead {
        name: name.to_owned(),
        bridge,
        from: vec![0, 2],
        to: 1,
        policy: "up.toml".to_owned(),
        sojourn_max: vec![Duration::from_millis(20), Duration::ZERO],
    };
    let file = |name: &str, text: &str| File { name: name.to_owned(), text: text.to_owned() };
    Head {
        weir: "0.1.0".to_owned(),
        name: "home".to_owned(),
        epoch_ns: 1_700_000_000_000_000_000,
        ports: vec!["lan".to_owned(), "wan".to_owned()],
        lanes: vec![lane("up", 0), lane("down", 1)],
        files: vec![file("up.toml", "[link]"), file("rows.csv", "")],
    }
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// One step of each kind, and each fate.
fn steps() -> Vec<(usize, Step<'static>)> {
    let packet = Packet {
        handle: Handle(9),
        length: 1500,
        train: 0,
        flow: 0xdead_beef,
        host: Host::NONE,
        traffic_class: 0xb8,
        meter: MeterId::from_index(3),
    };
    let (port, leaf, fate) = (InterfaceId(2), LeafId(5), Fate::Offered);
    let arrival = Arrival { at: at(7), port, leaf, packet, fate, headers: &FRAME };
    let host = Host::from_bits(0x2001_0db8 << 96 | 5);
    let refused = Arrival { fate: Fate::Refused, headers: &FRAME[..60], ..arrival };
    let refused = Arrival { packet: Packet { host, train: 700, ..packet }, ..refused };
    let bare = Packet { meter: None, host: Host::from_bits(7), ..packet };
    let resumed = Arrival { fate: Fate::Resumed, packet: bare, headers: &[], ..arrival };
    let departure = Departure {
        handle: Handle(9),
        leaf,
        charged: Bytes::new(1538),
        arrived: at(7),
        at: at(8),
        finished: at(u64::MAX),
        mark: Mark::new(Some(0)),
    };
    let unmarked = Departure { mark: Mark::new(None), ..departure };
    let reason = DropReason::Stale;
    let dropped = Dropped { handle: Handle(1), leaf, reason, at: at(9), arrived: at(7) };
    let change = Change {
        at: at(10),
        policy: "new.toml".to_owned(),
        files: head().files,
        sojourn_max: vec![Duration::ZERO],
        user: "root".to_owned(),
        reason: "a test".to_owned(),
    };
    let loss = Loss { handle: Handle(9), leaf, cause: 5, length: 1500, at: at(11) };
    let state = &FRAME[..5];
    vec![
        (0, Step::Checkpoint { now: at(5), classified: at(6), state }),
        (1, Step::Arrival(resumed)),
        (0, Step::Arrival(arrival)),
        (0, Step::Arrival(refused)),
        (1, Step::Serve { until: at(8) }),
        (1, Step::Departure(departure)),
        (1, Step::Departure(unmarked)),
        (0, Step::Dropped(dropped)),
        (0, Step::Forfeit { before: at(9) }),
        (0, Step::DropOlder { clock: at(9) }),
        (1, Step::Change(Box::new(change))),
        (1, Step::Joins(Box::new(joins()))),
        (1, Step::Rate { at: at(11), rate: Rate::MIN }),
        (0, Step::Lost(loss)),
        (0, Step::Sent { handle: Handle(9), at: at(12) }),
    ]
}

fn written() -> Vec<u8> {
    let mut writer = RecordWriter::new(Vec::new(), &head()).expect("a Vec takes all");
    for (lane, step) in steps() {
        writer.step(lane, &step).expect("a Vec takes all");
    }
    writer.finish(End::Asked).expect("a Vec takes all")
}

/// Returns how many steps are read from `bytes`, and the fault behind them.
fn read(bytes: &[u8]) -> (usize, Option<RecordError>) {
    let mut reader = match RecordReader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (0, Some(error)),
    };
    let mut wanted = steps().into_iter();
    let mut count = 0;
    loop {
        match reader.next_step() {
            Ok(Some((_, Step::End(end)))) => assert_eq!(end, End::Asked),
            Ok(Some(step)) => {
                assert_eq!(Some(step), wanted.next());
                count += 1;
            }
            Ok(None) => return (count, None),
            Err(error) => return (count, Some(error)),
        }
    }
}

#[test]
fn a_record_is_read_as_written() {
    let bytes = written();
    assert!(is_record(&bytes) && is_record(&bytes[..80]) && !is_record(&bytes[..20]));
    assert_eq!(RecordReader::new(&bytes[..]).expect("a record").head(), &head());
    let (count, fault) = read(&bytes);
    assert!(fault.is_none(), "{fault:?}");
    assert_eq!(count, steps().len());
}

#[test]
fn a_record_cut_anywhere_gives_what_came_before_and_the_place() {
    let bytes = written();
    let mut before = 0;
    for length in 0..bytes.len() {
        let (count, fault) = read(&bytes[..length]);
        let fault = fault.unwrap_or_else(|| panic!("cut at {length} of {}", bytes.len()));
        assert!(count >= before, "more bytes give no fewer steps");
        assert!(fault.offset <= length as u64, "{fault} of {length}");
        before = count;
    }
    assert_eq!(before, steps().len(), "only the end is missing");
}

#[test]
fn a_damaged_byte_is_found_or_changes_one_step() {
    let bytes = written();
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x41;
        exercise(&damaged);
    }
}

#[test]
fn an_instant_after_centuries_ends_a_record() {
    let late = Instant::from_nanos(u64::MAX);
    let arrival = Arrival {
        at: late,
        port: InterfaceId(0),
        leaf: LeafId(0),
        packet: Packet::new(Handle(1), 100),
        fate: Fate::Offered,
        headers: &FRAME,
    };
    for step in [Step::Serve { until: late }, Step::Arrival(arrival)] {
        let mut writer = RecordWriter::new(Vec::new(), &head()).expect("a Vec takes all");
        for step in [Step::Serve { until: INSTANT_MAX }, step] {
            writer.step(0, &step).expect("a Vec takes all");
        }
        let bytes = writer.finish(End::Asked).expect("a Vec takes all");
        let mut reader = RecordReader::new(&bytes[..]).expect("a record");
        assert!(matches!(reader.next_step(), Ok(Some((0, Step::Serve { .. })))));
        let fault = reader.next_step().expect_err("no clock shows that").fault;
        assert!(matches!(fault, RecordFault::Instant), "{fault:?}");
        assert!(reader.next_step().is_err(), "a fault stays");
    }
}

#[test]
fn a_newer_record_and_a_plain_capture_are_refused() {
    let bytes = written();
    let section = u32::from_le_bytes(*bytes[4..].first_chunk().expect("a length")) as usize;
    let mut newer = bytes.clone();
    let version = section + 8 + 16;
    newer[version] = VERSION as u8 + 1;
    let fault = read(&newer).1.expect("it is newer").fault;
    assert!(matches!(fault, RecordFault::Version(at) if at == VERSION + 1), "{fault:?}");
    let fault = read(&bytes[..section]).1.expect("a section is no record").fault;
    assert!(matches!(fault, RecordFault::NotARecord), "{fault:?}");
    assert!(matches!(read(b"").1.expect("empty").fault, RecordFault::NotARecord));
}

#[test]
fn the_stored_bytes_of_a_frame_parse_as_the_frame() {
    let mut rows: Vec<(Vec<u8>, usize)> = vec![(vec![0; 14], 14), (vec![0xff; 2000], 128)];
    let mut four = vec![0; 1514];
    four[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    four[16..18].copy_from_slice(&1500_u16.to_be_bytes());
    four[23] = 6;
    rows.push((four, 128));
    // IPv6 with hop-by-hop options of 136 bytes before UDP.
    let mut six = vec![0; 1514];
    six[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
    six[18..20].copy_from_slice(&1460_u16.to_be_bytes());
    (six[54], six[55]) = (17, 16);
    rows.push((six, 256));
    for (frame, length) in rows {
        let headers = Headers::parse_ethernet(&frame);
        let stored = headers_of(&frame, &headers);
        assert_eq!((Headers::parse_ethernet(stored), stored.len()), (headers, length));
    }
}

fn joins() -> super::Joins {
    super::Joins {
        at: Instant::from_nanos(9),
        removed: vec!["a".to_owned(), String::new()],
        tables: "[class.b]\nplace = 3\n".to_owned(),
        user: "user 0".to_owned(),
        reason: "a call".to_owned(),
    }
}
