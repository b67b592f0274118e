//! Sent packets are compared as a stream of bytes.

use weir_packetdrill::compare::{Stream, difference, text};
use weir_packetdrill::parse;
use weir_packetdrill::script::{Action, Packet};

/// Parses packets, one a line.
fn packets(lines: &str) -> Vec<Packet> {
    let lines = lines.lines().map(|line| format!("+0 > {line}\n"));
    let script = parse::script(&lines.collect::<String>()).expect("the packets are right");
    let packet = |event: weir_packetdrill::script::Event| match event.action {
        Action::Expect(packet) => packet,
        other => panic!("{other:?}"),
    };
    script.events.into_iter().map(packet).collect()
}

/// Compares packets that were sent with expected ones; returns the first difference.
fn compare(sent: &str, expected: &str, is_strict: bool) -> Option<String> {
    let mut stream = Stream::default();
    packets(sent).into_iter().for_each(|packet| stream.push(0, packet, 1000));
    packets(expected).iter().find_map(|expected| match stream.take(expected, is_strict) {
        None => Some(format!("nothing for {}", text(expected))),
        Some(sent) => difference(expected, &sent, true),
    })
}

#[test]
fn bursts_may_be_cut_or_joined() {
    let rows = [
        ("P. 1:3001(3000) ack 1", "P. 1:1001(1000) ack 1\n. 1001:3001(2000) ack 1", true),
        (". 1:1001(1000) ack 1\nP. 1001:3001(2000) ack 1", "P. 1:3001(3000) ack 1", true),
        (
            ". 1:1001(1000) ack 1\nP. 1001:3001(2000) ack 1",
            ". 1:1501(1500) ack 1\nP. 1501:3001(1500) ack 1",
            true,
        ),
    ];
    for (sent, expected, holds) in rows {
        assert_eq!(compare(sent, expected, false).is_none(), holds, "{sent} {expected}");
    }
    let strict = compare("P. 1:3001(3000) ack 1", ". 1:1001(1000) ack 1", true);
    assert_eq!(strict.as_deref(), Some("length: expected 1000, got 3000"));
}

#[test]
fn offload_decides_the_push_flag_of_full_segments() {
    assert_eq!(compare(". 1:1001(1000) ack 5", "P. 1:1001(1000) ack 5", false), None);
    assert_eq!(compare("P. 1:2001(2000) ack 5", ". 1:2001(2000) ack 5", false), None);
}

#[test]
fn differences_are_named() {
    let rows = [
        (". 1:1(0) ack 5", ". 1:1(0) ack 6", "ack: expected 6, got 5"),
        ("P. 1:2(1) ack 5", ". 1:2(1) ack 5", "flags: expected ., got P."),
        (". 1:2(1) ack 5", "P. 1:2(1) ack 5", "flags: expected P., got ."),
        ("P. 1:1001(1000) ack 5", ". 1:1001(1000) ack 5", "flags: expected ., got P."),
        (
            "S 0:0(0) <mss 9,sackOK>",
            "S 0:0(0) <mss 9>",
            "options: expected <mss 9>, got <mss 9, sackOK>",
        ),
        ("F. 1:1(0) ack 1 win 3", "F. 1:1(0) ack 1 win 4", "window: expected 4, got 3"),
        ("[ce] . 1:1(0) ack 1", "[ect01] . 1:1(0) ack 1", "ECN: expected Ect01, got Ce"),
        (". 1:9(8) ack 1", ". 1:17(16) ack 1", "length: expected 16, got 8"),
    ];
    for (sent, expected, difference) in rows {
        assert_eq!(compare(sent, expected, false).as_deref(), Some(difference));
    }
}

#[test]
fn clocks_are_the_scripts_own() {
    assert_eq!(
        compare(". 1:1(0) ack 1 <nop,TS val 5 ecr 7>", ". 1:1(0) ack 1 <TS val 9 ecr 7>", false),
        None
    );
}
