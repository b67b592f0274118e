//! Captures made by hand go through a policy: when frames leave, what is written of them, and what
//! becomes of damaged, hostile and odd captures.

use std::fmt::Write as _;
use std::io::{self, Write};
use weir_policy::Policy;
use weir_sim::replay::{InterfaceMap, Outputs, ReplayError, ReplayReport, replay};
use weir_trace::capture::{CaptureLink, CaptureReader, CaptureRecord, CaptureWriter, Interface};

/// The timestamp of the first frame, in ns.
const EPOCH: u64 = 1_700_000_000_123_456_789;

/// A frame to capture: µs after [`EPOCH`], interface, UDP port, length on the link.
#[derive(Clone, Copy, Debug)]
struct Frame(i64, u32, u16, u32);

/// The results of a replay: its report, and the departures and drops as captures.
struct Made {
    report: ReplayReport,
    departures: Vec<u8>,
    drops: Vec<u8>,
}

fn policy(text: &str) -> Policy {
    let outcome = weir_policy::parse(text, "test.toml");
    outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.findings))
}

/// 1 Mbit/s, 8 µs a byte; two frames wait.
fn fifo() -> Policy {
    policy(
        "link = { rate = '1 Mbit/s', scheduler = 'fifo' }
         [class.all]
         default = true
         queue = { limit = '2 packets' }",
    )
}

/// Two classes by port that share 1 Mbit/s in turns; the second makes room at its head.
fn two() -> Policy {
    policy(
        "link = { rate = '1 Mbit/s', scheduler = 'drr' }
         [class.voice]
         match = [{ proto = 'udp', dport = 5004 }]
         [class.rest]
         default = true
         queue = { dropper = 'head', limit = '2 packets' }",
    )
}

fn capture(interfaces: &[(CaptureLink, &str)], frames: &[Frame]) -> Vec<u8> {
    let mut writer = CaptureWriter::new(Vec::new()).expect("memory takes all");
    let describe = |&(link_type, name): &(CaptureLink, &str)| Interface {
        link_type,
        name: name.to_owned(),
        snap_length: 0,
    };
    let described: Vec<_> = interfaces.iter().map(describe).collect();
    writer.describe(&described).expect("memory takes all");
    for &Frame(micros, interface, port, original_length) in frames {
        let link = interfaces[interface as usize].0;
        let nanos = i128::from(EPOCH) + i128::from(micros) * 1000;
        let record = CaptureRecord {
            timestamp: nanos.clamp(0, i128::from(u64::MAX)) as u64,
            interface,
            original_length,
            bytes: &headers(link, port),
            comment: "",
        };
        writer.write(&record).expect("memory takes all");
    }
    writer.finish().expect("memory takes all")
}

/// A link header where there is one, then IPv4 and UDP to `port`; nothing else of the packet.
fn headers(link: CaptureLink, port: u16) -> Vec<u8> {
    let mut bytes = match link {
        CaptureLink::ETHERNET => [[0; 12].as_slice(), &[8, 0]].concat(),
        CaptureLink::LINUX_SLL => [[0; 14].as_slice(), &[8, 0]].concat(),
        CaptureLink::LINUX_SLL2 => [[8, 0].as_slice(), &[0; 18]].concat(),
        CaptureLink::NULL => vec![2, 0, 0, 0],
        _ => Vec::new(),
    };
    bytes.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend([0x30, 0x39]);
    bytes.extend(port.to_be_bytes());
    bytes.extend([0, 8, 0, 0]);
    bytes
}

fn ethernet(frames: &[Frame]) -> Vec<u8> {
    capture(&[(CaptureLink::ETHERNET, "eth0")], frames)
}

fn run_with(policy: &Policy, map: &InterfaceMap, bytes: &[u8]) -> Made {
    let mut reader = CaptureReader::new(bytes).expect("a good header");
    let writer = || CaptureWriter::new(Vec::new()).expect("memory takes all");
    let mut outputs = Outputs { departures: Some(writer()), drops: Some(writer()), timeline: None };
    let report = replay(policy, map, &mut reader, &mut outputs).expect("memory takes all");
    let finish = |writer: Option<CaptureWriter<Vec<u8>>>| {
        writer.expect("kept").finish().expect("memory takes all")
    };
    let made =
        Made { report, departures: finish(outputs.departures), drops: finish(outputs.drops) };
    assert!(made.report.conservation.holds, "{}", made.report.conservation);
    assert_eq!(made.report.conservation.sent as usize, comments(&made.departures).len());
    assert_eq!(made.report.conservation.dropped as usize, comments(&made.drops).len());
    made
}

fn run(policy: &Policy, bytes: &[u8]) -> Made {
    let map = InterfaceMap::new(policy, &[]).expect("no pairs");
    run_with(policy, &map, bytes)
}

/// A line a frame: µs after [`EPOCH`], length, comment.
fn trace(capture: &[u8]) -> String {
    let mut reader = CaptureReader::new(capture).expect("a good header");
    let mut comments = comments(capture).into_iter();
    let mut text = String::new();
    while let Some(frame) = reader.next_frame() {
        let frame = frame.expect("a good capture");
        let nanos = frame.timestamp as i64 - EPOCH as i64;
        let comment = comments.next().expect("every frame has a comment");
        let micros = nanos / 1000;
        assert_eq!(nanos % 1000, 0, "rows are in whole microseconds");
        writeln!(text, "{micros} {} {comment}", frame.original_length).expect("text can grow");
    }
    text
}

/// The comments in a capture that Weir wrote, in order: they begin with the class.
fn comments(capture: &[u8]) -> Vec<String> {
    let starts = capture.windows(6).enumerate().filter(|(_, window)| window == b"class=");
    let comment = |(start, _): (usize, &[u8])| {
        // [pcapng §3.5] An option is its code, its length, and its value.
        let length = u16::from_le_bytes([capture[start - 2], capture[start - 1]]);
        assert_eq!(capture[start - 4..start - 2], [1, 0], "the option is a comment");
        String::from_utf8(capture[start..start + usize::from(length)].to_vec()).expect("is text")
    };
    starts.map(comment).collect()
}

fn check(policy: &Policy, frames: &[Frame], departures: &[&str], drops: &[&str]) {
    let made = run(policy, &ethernet(frames));
    assert_eq!(trace(&made.departures).lines().collect::<Vec<_>>(), departures, "departures");
    assert_eq!(trace(&made.drops).lines().collect::<Vec<_>>(), drops, "drops");
}

#[test]
fn frames_leave_when_the_line_is_free_and_the_rest_is_dropped() {
    // 125 bytes take a millisecond. The third and fourth arrive while one is sent and one waits.
    check(
        &fifo(),
        &[
            Frame(0, 0, 9, 125),
            Frame(0, 0, 9, 125),
            Frame(0, 0, 9, 250),
            Frame(500, 0, 9, 125),
            Frame(1000, 0, 9, 125),
            Frame(9000, 0, 9, 125),
        ],
        &[
            "0 125 class=all delay_us=0.000 verdict=sent",
            "1000 125 class=all delay_us=1000.000 verdict=sent",
            "2000 250 class=all delay_us=2000.000 verdict=sent",
            "4000 125 class=all delay_us=3000.000 verdict=sent",
            "9000 125 class=all delay_us=0.000 verdict=sent",
        ],
        &["500 125 class=all delay_us=0.000 verdict=dropped:full"],
    );
}

#[test]
fn classes_take_turns_and_a_head_drop_tells_how_long_the_frame_waited() {
    check(
        &two(),
        &[
            Frame(0, 0, 9, 1250),
            Frame(0, 0, 9, 1251),
            Frame(0, 0, 9, 1252),
            Frame(100, 0, 5004, 125),
            Frame(200, 0, 9, 1250),
        ],
        &[
            "0 1250 class=rest delay_us=0.000 verdict=sent",
            "10000 1252 class=rest delay_us=10000.000 verdict=sent",
            "20016 125 class=voice delay_us=19916.000 verdict=sent",
            "21016 1250 class=rest delay_us=20816.000 verdict=sent",
        ],
        &["200 1251 class=rest delay_us=200.000 verdict=dropped:evicted"],
    );
}

#[test]
fn the_report_counts_each_class_over_the_span() {
    let frames = [Frame(0, 0, 9, 1250), Frame(0, 0, 5004, 125), Frame(30_000, 0, 5004, 125)];
    let report = run(&two(), &ethernet(&frames)).report;
    // 31 ms, of which the line is busy 12.
    assert_eq!(report.span.as_nanos(), 31_000_000);
    assert_eq!(report.capture.duration.as_nanos(), 30_000_000);
    assert_eq!(report.link.utilisation, 12.0 / 31.0);
    let voice = report.class("voice").expect("declared");
    assert_eq!((voice.offered.packets, voice.sent.bytes), (2, 250));
    assert_eq!(voice.sent.bits_per_second, 64_516);
    assert_eq!((voice.delay.count, voice.delay.max.as_nanos()), (2, 10_000_000));
    assert_eq!(report.warnings(), Vec::<String>::new());
    let shown = report.to_string();
    assert!(shown.contains("busy 38.71 % of 0.031000 s"), "{shown}");
}

#[test]
fn time_that_runs_back_is_held() {
    check(
        &fifo(),
        &[Frame(0, 0, 9, 125), Frame(5000, 0, 9, 125), Frame(-7000, 0, 9, 125)],
        &[
            "0 125 class=all delay_us=0.000 verdict=sent",
            "5000 125 class=all delay_us=0.000 verdict=sent",
            "6000 125 class=all delay_us=1000.000 verdict=sent",
        ],
        &[],
    );
    let frames = [Frame(0, 0, 9, 125), Frame(-1, 0, 9, 125)];
    let report = run(&fifo(), &ethernet(&frames)).report;
    assert_eq!(report.capture.backward, 1);
    let warnings = report.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("1 of 2 frames are earlier"), "{warnings:?}");
    assert!(warnings[0].contains("`reordercap IN OUT`"), "{warnings:?}");
}

#[test]
fn every_link_header_counts_as_ethernet() {
    // The same IP packet of 986 bytes behind each header: 1000 bytes on the link, 8 ms.
    for (link, length) in [
        (CaptureLink::ETHERNET, 1000),
        (CaptureLink::RAW, 986),
        (CaptureLink::IPV4, 986),
        (CaptureLink::NULL, 990),
        (CaptureLink::LINUX_SLL, 1002),
        (CaptureLink::LINUX_SLL2, 1006),
    ] {
        let frames = [Frame(0, 0, 5004, length), Frame(0, 0, 5004, length)];
        let made = run(&two(), &capture(&[(link, "")], &frames));
        let expected = format!(
            "0 {length} class=voice delay_us=0.000 verdict=sent\n\
             8000 {length} class=voice delay_us=8000.000 verdict=sent\n"
        );
        assert_eq!(trace(&made.departures), expected, "{link}");
        assert_eq!(made.report.capture.unread, 0);
    }
}

#[test]
fn a_foreign_link_header_goes_to_the_default_class_with_a_warning() {
    let made = run(&two(), &capture(&[(CaptureLink(195), "wpan0")], &[Frame(0, 0, 5004, 100)]));
    assert_eq!(trace(&made.departures), "0 100 class=rest delay_us=0.000 verdict=sent\n");
    assert_eq!(made.report.capture.unread, 1);
    assert_eq!(
        made.report.warnings(),
        ["1 of 1 frames have the link type 195 (ieee802.15.4), which Weir does not read; no rule \
          about addresses, ports, protocols or DSCP matches them, and they count as if their link \
          header were 14 bytes. Weir reads Ethernet, raw IP, loopback, Linux cooked, Linux cooked \
          2, PPP, serial PPP, PPPoE, Cisco HDLC, Frame Relay, 802.11, 802.11 with radiotap, NFLOG: \
          capture on such an interface, or cut a header of N bytes before an IP packet off with \
          `editcap -L -C N -T rawip IN OUT`"]
    );
}

/// Reads hexadecimal digits; spaces are for people.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// A frame that begins with `outer`, before UDP to port 5004, goes to `class`, is charged `length`
/// bytes and cannot be read for the cause `unread`, if any.
#[track_caller]
fn check_class(link: u16, outer: &str, class: &str, length: u64, unread: &str) {
    let mut bytes = hex(outer);
    bytes.extend(headers(CaptureLink::RAW, 5004));
    let mut writer = CaptureWriter::new(Vec::new()).expect("memory takes all");
    let link_type = CaptureLink(link);
    writer
        .describe(&[Interface { link_type, name: "a".to_owned(), snap_length: 0 }])
        .expect("memory");
    let original_length = bytes.len() as u32 + 1000;
    let record = CaptureRecord {
        timestamp: EPOCH,
        interface: 0,
        original_length,
        bytes: &bytes,
        comment: "",
    };
    writer.write(&record).expect("memory takes all");
    let made = run(&two(), &writer.finish().expect("memory takes all"));
    let report = made.report.class(class).expect("a class");
    assert_eq!((report.sent.packets, report.sent.bytes), (1, length), "{outer}");
    let json = serde_json::to_value(&made.report).expect("is JSON");
    let causes = match unread {
        "" => serde_json::json!({}),
        cause => serde_json::json!({ cause: 1 }),
    };
    assert_eq!(json["capture"]["unread_causes"], causes, "{outer}");
    assert_eq!(made.report.capture.unread, u64::from(!unread.is_empty()));
    assert_eq!(made.report.warnings().len(), usize::from(!unread.is_empty()), "{outer}");
}

/// The packet has 1028 bytes, and an Ethernet frame with it 1042; what Ethernet carries beside it
/// counts, and what stands in place of Ethernet's header does not.
#[test]
fn every_kind_of_frame_reaches_the_class_of_its_packet() {
    const MACS: &str = "020000000001 020000000002";
    const WIRELESS: &str = "0000 0a0000000001 0a0000000002 0a0000000003 1000";
    let ethernet = |outer: &str| format!("{MACS} {outer}");
    for (outer, class, length, unread) in [
        ("8864 1100 0001 041e 0021", "voice", 1042 + 8, ""),
        ("8100 0007 8864 1100 0001 041e 0021", "voice", 1042 + 12, ""),
        ("8864 1100 0001 041e 00fd", "rest", 1042 + 8, "ppp"),
        ("8864 1100 0001 041e c021", "rest", 1042 + 8, ""),
        ("8863 1107 0000 0004", "rest", 1042 + 6, ""),
        ("8847 00010040 00020140", "voice", 1042 + 8, ""),
        ("8847 00010140 00000000", "rest", 1042 + 8, "mpls-payload"),
        ("88a8 0001 8100 0002 8100 0003 0800", "voice", 1042 + 12, ""),
        ("88e5 2c00 00000001", "rest", 1042 + 6, "macsec"),
        ("0806", "rest", 1042, ""),
    ] {
        check_class(1, &ethernet(outer), class, length, unread);
    }
    for (link, outer, class, length, unread) in [
        (9, "ff03 0021".to_owned(), "voice", 1042, ""),
        (9, "21".to_owned(), "voice", 1042, ""),
        (9, "ff03 003d".to_owned(), "rest", 1042, "ppp"),
        (50, "ff03 0021".to_owned(), "voice", 1042, ""),
        (50, "0f00 0800".to_owned(), "voice", 1042, ""),
        (51, "1100 0001 041e 0021".to_owned(), "voice", 1042 + 8, ""),
        (104, "8f00 0800".to_owned(), "voice", 1042, ""),
        (107, "1841 03 cc".to_owned(), "voice", 1042, ""),
        (107, "1841 0800".to_owned(), "voice", 1042, ""),
        (105, format!("0801 {WIRELESS} aaaa03 000000 0800"), "voice", 1042, ""),
        (105, format!("8802 {WIRELESS} 0600 aaaa03 000000 0800"), "voice", 1042, ""),
        (105, format!("8842 {WIRELESS} 0600 1122334455667788"), "rest", 1050, "wireless-encrypted"),
        (105, format!("8000 {WIRELESS}"), "rest", 1042 + 24, ""),
        (127, format!("00 00 0800 00000000 0801 {WIRELESS} aaaa03 000000 0800"), "voice", 1042, ""),
        // With a check sequence of four bytes behind it.
        (
            127,
            format!("00 00 0900 02000000 10 0801 {WIRELESS} aaaa03 000000 0800"),
            "voice",
            1038,
            "",
        ),
        (239, "02 00 0000 0800 0500 00000001 0804 0900".to_owned(), "voice", 1042, ""),
    ] {
        check_class(link, &outer, class, length, unread);
    }
}

/// Captured names and the policy's.
type Pairs = &'static [(Option<&'static str>, &'static str)];

#[test]
fn rules_see_the_interface_that_the_map_says() {
    let policy = policy(
        "link = { rate = '1 Mbit/s', scheduler = 'drr' }
         [class.lan]
         match = [{ interface = 'lan' }]
         [class.rest]
         default = true",
    );
    let links = [(CaptureLink::ETHERNET, "lan"), (CaptureLink::ETHERNET, "eth1")];
    let bytes = capture(&links, &[Frame(0, 0, 9, 125), Frame(10_000, 1, 9, 125)]);
    let rows: [(Pairs, [&str; 2], u64); 3] = [
        (&[], ["lan", "rest"], 1),
        (&[(Some("eth1"), "lan")], ["lan", "lan"], 0),
        (&[(None, "lan")], ["lan", "lan"], 0),
    ];
    for (pairs, classes, unnamed) in rows {
        let own = |&(from, to): &(Option<&str>, &str)| (from.map(str::to_owned), to.to_owned());
        let pairs: Vec<_> = pairs.iter().map(own).collect();
        let map = InterfaceMap::new(&policy, &pairs).expect("the policy names it");
        let made = run_with(&policy, &map, &bytes);
        let expected = format!(
            "0 125 class={} delay_us=0.000 verdict=sent\n\
             10000 125 class={} delay_us=0.000 verdict=sent\n",
            classes[0], classes[1]
        );
        assert_eq!(trace(&made.departures), expected);
        assert_eq!(made.report.capture.unnamed, unnamed);
        assert_eq!(made.report.warnings().len() as u64, unnamed);
    }
    let unknown = InterfaceMap::new(&policy, &[(None, "wan".into())]).expect_err("no rule has it");
    assert_eq!(
        unknown.to_string(),
        "no rule of the policy names the interface `wan`; there are `lan`"
    );
}

#[test]
fn a_capture_cut_anywhere_is_replayed_up_to_the_cut() {
    let frames: Vec<_> = (0..12).map(|index| Frame(index * 400, 0, 5004, 60 + 9)).collect();
    let bytes = ethernet(&frames);
    let whole = trace(&run(&two(), &bytes).departures);
    let mut ends = vec![bytes.len()];
    let mut reader = CaptureReader::new(&bytes[..]).expect("a good header");
    while let Some(frame) = reader.next_frame() {
        ends.push(frame.expect("a good capture").offset as usize);
    }
    ends.sort_unstable();
    for cut in ends[0]..=bytes.len() {
        let made = run(&two(), &bytes[..cut]);
        let frames = ends.iter().filter(|&&end| end <= cut).count() - 1;
        assert_eq!(made.report.capture.frames as usize, frames, "cut at {cut}");
        assert_eq!(made.report.conservation.sent as usize, frames, "cut at {cut}");
        // Causes go before effects: the end of a capture changes nothing of what came before.
        assert!(whole.starts_with(&trace(&made.departures)), "cut at {cut}");
        match made.report.fault {
            None => assert!(ends.contains(&cut), "cut at {cut}"),
            Some(fault) => {
                assert_eq!(fault.offset as usize, ends[frames], "cut at {cut}");
                assert_eq!(fault.frames as usize, frames);
                assert!(fault.message.contains(&format!("at byte {}", fault.offset)));
            }
        }
    }
}

#[test]
fn the_same_capture_gives_the_same_bytes() {
    // A mix without a pattern: multiples of large primes.
    let frame = |index: i64| {
        let port = if index * 7919 % 5 < 2 { 5004 } else { 9 };
        Frame(index * 104_729 % 1_000_003, 0, port, 60 + (index * 6007 % 1400) as u32)
    };
    let mut frames: Vec<_> = (0..500).map(frame).collect();
    frames.sort_by_key(|frame| frame.0);
    let bytes = ethernet(&frames);
    let (one, other) = (run(&two(), &bytes), run(&two(), &bytes));
    assert!(one.report.conservation.dropped > 0 && one.report.conservation.sent > 100);
    assert_eq!(one.departures, other.departures);
    assert_eq!(one.drops, other.drops);
    assert_eq!(one.report, other.report);
}

#[test]
fn centuries_and_giant_frames_end_in_a_balance_under_every_scheduler() {
    let frames = [
        Frame(0, 0, 5004, 125),
        Frame(10, 0, 9, u32::MAX),
        Frame(11, 0, 5004, u32::MAX),
        Frame(10_000_000_000_000_000, 0, 9, 1000),
        Frame(i64::MAX, 0, 9, u32::MAX),
        Frame(i64::MAX, 0, 5004, 0),
        Frame(-1, 0, 5004, 125),
    ];
    let first_at_the_start = [Frame(i64::MIN, 0, 9, 125), Frame(i64::MAX, 0, 9, u32::MAX)];
    for entry in weir_core::sched::SCHEDULERS {
        let text = format!(
            "link = {{ rate = '1 kbit/s', scheduler = '{}' }}
             [class.voice]
             match = [{{ proto = 'udp', dport = 5004 }}]
             rate = '0.4 kbit/s'
             [class.rest]
             rate = '0.6 kbit/s'
             default = true",
            entry.descriptor.keyword
        );
        let parse = |text: &str| weir_policy::parse(text, "test.toml").plan;
        let without_rates =
            text.replace("rate = '0.4 kbit/s'", "").replace("rate = '0.6 kbit/s'", "");
        let with_shares = text
            .replace("rate = '0.4 kbit/s'", "share = '40 %'")
            .replace("rate = '0.6 kbit/s'", "share = '60 %'");
        let policy = [&text, &without_rates, &with_shares].into_iter().find_map(|text| parse(text));
        let policy =
            policy.unwrap_or_else(|| panic!("{}: one of them is right", entry.descriptor.keyword));
        let report = run(&policy, &ethernet(&frames)).report;
        assert_eq!(report.capture.frames, 7);
        assert_eq!((report.capture.overlong, report.capture.oversize), (3, 3));
        assert_eq!(report.capture.late, 3);
        assert_eq!(report.conservation.offered, 7);
        assert_eq!(report.warnings().len(), 4, "{:?}", report.warnings());
        let report = run(&policy, &ethernet(&first_at_the_start)).report;
        assert_eq!(report.conservation.offered, 2);
    }
}

#[test]
fn an_empty_capture_has_a_report_and_its_interfaces() {
    let made = run(&fifo(), &ethernet(&[]));
    assert_eq!(made.departures, ethernet(&[]));
    assert_eq!(made.report.conservation.offered, 0);
    assert_eq!(made.report.link.utilisation, 0.0);
    assert_eq!(made.report.fault, None);
}

/// An output that accepts a limited number of bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_the_replay() {
    let policy = fifo();
    let bytes = ethernet(&[Frame(0, 0, 9, 125), Frame(1, 0, 9, 125)]);
    let map = InterfaceMap::new(&policy, &[]).expect("no pairs");
    for room in [100, 150, 200, 280] {
        let mut reader = CaptureReader::new(&bytes[..]).expect("a good header");
        let writer = CaptureWriter::new(Full(room)).expect("the header fits");
        let mut outputs = Outputs { departures: Some(writer), drops: None, timeline: None };
        let result = replay(&policy, &map, &mut reader, &mut outputs);
        assert!(matches!(result, Err(ReplayError::Write(_))), "{room}: {result:?}");
    }
}

/// Marks or drops what waits too long.
fn codel() -> Policy {
    policy(
        "link = { rate = '1 Mbit/s', scheduler = 'fifo' }
         [class.all]
         default = true
         queue = { dropper = 'codel', ecn = true }",
    )
}

/// The traffic classes in a capture of Ethernet frames, and whether all checksums are right.
fn traffic_classes(capture: &[u8]) -> Vec<u8> {
    let mut reader = CaptureReader::new(capture).expect("a good header");
    let mut classes = Vec::new();
    while let Some(frame) = reader.next_frame() {
        let header = frame.expect("a good capture").bytes[14..34].to_vec();
        let words = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum: u32 = words.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the checksum is right");
        classes.push(header[1]);
    }
    classes
}

#[test]
fn marks_are_written_into_the_frames() {
    let frames: Vec<_> = (0..100).map(|_| Frame(0, 0, 5004, 1000)).collect();
    // ECN of the frames, its header's checksum, whether they are marked or dropped.
    for (ecn, checksum, marked) in [(2, [0x66, 0xcd], true), (0, [0x66, 0xcf], false)] {
        let mut bytes = ethernet(&frames);
        for at in 0..bytes.len() - 20 {
            if bytes[at..].starts_with(&[0x45, 0, 0, 28]) {
                bytes[at + 1] = ecn;
                bytes[at + 10..at + 12].copy_from_slice(&checksum);
            }
        }
        let made = run(&codel(), &bytes);
        let class = made.report.class("all").expect("it is declared");
        let late = class.dropped.total.packets;
        let classes = traffic_classes(&made.departures);
        let congested = classes.iter().filter(|&&class| class == 3).count() as u64;
        assert_eq!((class.marked_ecn, class.marked_dscp), (congested, 0));
        assert!(classes.iter().all(|&class| class == 3 || class == ecn));
        if marked {
            assert!(congested > 5 && late == 0, "{congested} {late}");
        } else {
            // Also those that were dropped after the last frame had come.
            assert!(congested == 0 && late > 5, "{congested} {late}");
            assert!(comments(&made.drops).iter().all(|text| text.ends_with("dropped:late")));
        }
    }
}
