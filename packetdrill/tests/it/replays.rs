//! Scripts are replayed against the model; each is written for this test.

use weir_packetdrill::driver::replay;
use weir_packetdrill::parse;
use weir_packetdrill::report::Verdict;

/// Parses and replays a script.
fn run(text: &str) -> Verdict {
    replay(&parse::script(text).unwrap_or_else(|why| panic!("{why}")))
}

/// A server with a connection of segments of 500 bytes and 40 ms, written for these tests.
const OPEN: &str = "\
    `sysctl -q net.ipv4.tcp_timestamps=0`
    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
    +0 bind(3, ..., ...) = 0
    +0 listen(3, 1) = 0
    +0 < S 0:0(0) win 5000 <mss 500,sackOK,wscale 4>
    +0 > S. 0:0(0) ack 1 <mss 1460,sackOK,wscale 8>
    +.04 < . 1:1(0) ack 1 win 900
    +0 accept(3, ..., ...) = 4
";

#[test]
fn what_is_sent_in_time_passes() {
    let rows = [
        "+0 write(4, ..., 700) = 700\n +0 > P. 1:701(700) ack 1\n",
        "+0 write(4, ..., 700) = 700\n +0 > . 1:501(500) ack 1\n +0 > P. 501:701(200) ack 1\n",
        "+0 < P. 1:301(300) ack 1 win 900\n +0 > . 1:1(0) ack 301\n +0 read(4, ..., 999) = 300\n",
        "+0 %{ assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd }%\n",
        "+0...0.05 read(4, ..., 99) = 5\n +.05 < P. 1:6(5) ack 1 win 900\n +0 > . 1:1(0) ack 6\n",
    ];
    for row in rows {
        assert_eq!(run(&format!("{OPEN}{row}")), Verdict::Passed, "{row}");
    }
}

#[test]
fn the_first_difference_is_told_with_its_line() {
    let rows = [
        ("+0 write(4, ..., 7) = 7\n +0 > P. 1:9(8) ack 1\n", "length: expected 8, got 7"),
        ("+0 write(4, ..., 7) = 7\n +.5 > P. 1:8(7) ack 1\n", "time: expected"),
        ("\n+0 > . 1:1(0) ack 1\n", "expected . 1:1(0) ack 1, nothing sent by"),
        ("\n+0 read(4, ..., 9) = 9\n", "read: expected 9 bytes, got 0"),
        (
            "\n+0 %{ assert tcpi_snd_cwnd == 3 }%\n",
            "assertion tcpi_snd_cwnd == 3: tcpi_snd_cwnd is 10",
        ),
    ];
    for (row, expected) in rows {
        match run(&format!("{OPEN}{row}")) {
            Verdict::Failed { line: 10, difference } => {
                assert!(difference.starts_with(expected), "{row}: {difference}");
            }
            other => panic!("{row}: {other:?}"),
        }
    }
}
