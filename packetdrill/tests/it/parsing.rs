//! Scripts are parsed into what they say.

use weir_packetdrill::parse;
use weir_packetdrill::script::{Action, Counter, EcnMark, TcpOption, Time};

/// Parses a script of one event, and returns its time and action.
fn one(text: &str) -> (Time, Action) {
    let script = parse::script(text).unwrap_or_else(|why| panic!("{text}: {why}"));
    let [event] = script.events.as_slice() else { panic!("{text}: {:?}", script.events) };
    (event.time, event.action.clone())
}

#[test]
fn times_have_five_forms() {
    let rows = [
        ("0 `true`", Time::Absolute(0)),
        ("1.5 `true`", Time::Absolute(1_500_000)),
        ("+.25 `true`", Time::Relative(250_000)),
        ("+.1~+.2 `true`", Time::RelativeRange(100_000, 200_000)),
        ("+.1 ~ +.2 `true`", Time::RelativeRange(100_000, 200_000)),
        ("2~3 `true`", Time::AbsoluteRange(2_000_000, 3_000_000)),
        ("* `true`", Time::Any),
        ("`true`", Time::Untimed),
    ];
    for (text, expected) in rows {
        assert_eq!(one(text).0, expected, "{text}");
    }
}

#[test]
fn a_blocking_call_has_an_end() {
    for text in ["+0...0.25 read(4, ..., 7) = 7", "+.0 ... 0.25 read(4, ..., 7) = 7"] {
        let script = parse::script(text).expect("the script is right");
        assert_eq!(script.events[0].until, Some(250_000), "{text}");
    }
}

#[test]
fn a_packet_has_flags_numbers_and_options() {
    let text = "+0 < [ect0] P.5 7:9(2) ack 3 win 11 <nop,sack 1:2 4:5,TS val 8 ecr 9>";
    let (_, Action::Inject(packet)) = one(text) else { panic!("not a packet") };
    assert_eq!((packet.seq, packet.length, packet.ack, packet.window), (7, 2, Some(3), Some(11)));
    assert_eq!((packet.ecn, packet.flags.ace()), (Some(EcnMark::Ect0), 5));
    assert!(packet.flags.psh && packet.flags.ack && !packet.flags.syn);
    let expected = vec![
        TcpOption::Padding,
        TcpOption::Sack(vec![(1, 2), (4, 5)]),
        TcpOption::Timestamps { value: 8, echo: 9 },
    ];
    assert_eq!(packet.options, Some(expected));
}

#[test]
fn options_may_be_left_open() {
    let (_, Action::Expect(packet)) = one("+0 > S. 0:0(0) ack 1 <...>") else { panic!() };
    assert_eq!(packet.options, None);
    let (_, Action::Expect(packet)) = one("+0 > S 0:0(0) <ECN e1b 1 ceb 2>") else { panic!() };
    let counters = vec![(Counter::Ect1, 1), (Counter::Ce, 2)];
    assert_eq!(packet.options, Some(vec![TcpOption::AccEcn(counters)]));
}

#[test]
fn a_call_keeps_its_arguments() {
    let text = "+0 connect(3, {a = [1, 2], b}, ...) = -1 EINPROGRESS (it is under way)";
    let (_, Action::Call(call)) = one(text) else { panic!("not a call") };
    assert_eq!(call.arguments, ["3", "{a = [1, 2], b}", "..."]);
    assert_eq!((call.returned(), call.error.as_deref()), (Some(-1), Some("EINPROGRESS")));
}

#[test]
fn comments_options_and_lines_are_told_apart() {
    let text =
        "// first\n--tolerance_usecs=7000 // wide\n/* two\nlines */ +0 `a\nb`\n+0 %{ x = 1 }%";
    let script = parse::script(text).expect("the script is right");
    assert_eq!(script.option("tolerance_usecs"), Some("7000"));
    let lines: Vec<usize> = script.events.iter().map(|event| event.line).collect();
    assert_eq!(lines, [4, 6]);
    assert_eq!(script.events[1].action, Action::Code("x = 1".to_owned()));
}

#[test]
fn mistakes_name_their_line() {
    let rows = [("\n+0 < Q 0:0(0)", 2), ("+0 > . 1:x(0)", 1), ("+0 close(3) 0", 1), ("+0 `a", 1)];
    for (text, line) in rows {
        let trouble = parse::script(text).expect_err(text);
        assert_eq!(trouble.line, line, "{text}: {trouble}");
    }
}
