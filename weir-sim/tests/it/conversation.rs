//! Conversations: every byte arrives, however packets are lost, in both directions; and one seed is
//! one run.

use crate::common;

use common::{run, written};
use std::io;
use std::path::Path;
use weir_sim::report::{Object, SourceReport};
use weir_sim::{Report, Watch, run_watched};

const LINK: &str = r#"
duration = "60 s"
[policy.link]
rate = "RATE"
scheduler = "fifo"
[policy.class.all]
default = true
queue = { limit = "LIMIT packets" }
"#;

fn talk(name: &str, keys: &str) -> String {
    format!("[[source]]\nname = \"{name}\"\nkind = \"tcp\"\nprofile = \"linux\"\n{keys}\n")
}

fn line(rate: &str, limit: u32, sources: &str) -> Report {
    let link = LINK.replace("RATE", rate).replace("LIMIT", &limit.to_string());
    run(&written(&format!("{link}{sources}")))
}

fn millis(source: &SourceReport) -> f64 {
    source.tcp.map_or(f64::NAN, |tcp| tcp.transfers.max.as_nanos() as f64 / 1e6)
}

#[test]
fn an_exchange_takes_the_round_trip_and_the_line() {
    // Three of 100 bytes up and 100 kB down: a round trip, slow start, and the line.
    for client in ["src", "dst"] {
        let keys = format!(
            "client = \"{client}\"\nreturn_delay = \"40 ms\"\nwindow = \"1 MB\"\n\
             conversation = [{{ up = 100, wait = \"50 ms\", down = 1000 }}, \
             {{ after = \"1 s\", up = 100, down = 1 }}]"
        );
        let report = line("100 Mbit/s", 100, &talk("a", &keys));
        let source = report.source("a").expect("it is declared");
        let tcp = source.tcp.expect("it is TCP");
        assert_eq!((tcp.connections, tcp.transfers.count), (1, 2), "{report}");
        // 40 ms of way, 50 ms of the server, some microseconds of line.
        let longest = millis(source);
        assert!((90.0..90.4).contains(&longest), "{client}: {longest} ms");
    }
}

#[test]
fn a_response_is_under_congestion_control_in_either_direction() {
    // 14 segments fit the first window of neither; over the delay alone a response takes slow start.
    for client in ["src", "dst"] {
        let keys = format!(
            "client = \"{client}\"\nreturn_delay = \"100 ms\"\nwindow = \"1 MB\"\n\
             conversation = [{{ up = 100, down = 28000 }}]"
        );
        let report = line("1 Gbit/s", 1000, &talk("a", &keys));
        let longest = millis(report.source("a").expect("it is declared"));
        assert!((200.0..203.0).contains(&longest), "{client}: {longest} ms");
    }
}

#[test]
fn a_reader_opens_a_connection_for_each_page_and_a_player_keeps_its_period() {
    let next = ["after = \"200 ms\", connect = true", "every = \"1 s\""];
    // From the end of one to that of the next: pause, handshake and exchange, or the period.
    for (kind, next, connections, apart) in
        [("tcp", next[0], 3, 400), ("tcp", next[1], 1, 1000), ("quic", next[1], 1, 1000)]
    {
        let keys = format!(
            "client = \"dst\"\nreturn_delay = \"100 ms\"\n\
             conversation = [{{ up = 100, down = 1000 }}, {{ {next}, up = 100, down = 1000 }}, {{ {next}, up = 100, down = 1000 }}]"
        );
        let link = LINK.replace("RATE", "1 Gbit/s").replace("LIMIT", "10");
        let source = format!("[[source]]\nname = \"a\"\nkind = \"{kind}\"\n{keys}\n");
        let scenario = written(&format!("{link}{source}"));
        let watch = Watch { objects: true, ..Watch::default() };
        let report = run_watched(&scenario, watch, &mut |_| {}).expect("it is sound");
        let source = report.source("a").expect("it is declared");
        let ends: Vec<u64> = source.objects.iter().map(|one| one.ended.as_nanos()).collect();
        let millis: Vec<u64> =
            ends.windows(2).map(|pair| (pair[1] - pair[0] + 500_000) / 1_000_000).collect();
        assert_eq!(millis, [apart, apart], "{kind}, {next}");
        if let Some(tcp) = source.tcp {
            assert_eq!(tcp.connections, connections, "{next}");
        }
    }
}

#[test]
fn quic_opens_a_connection_for_each_page_too() {
    let link = LINK.replace("RATE", "1 Gbit/s").replace("LIMIT", "10");
    let text = format!(
        "{link}[[source]]\nname = \"a\"\nkind = \"quic\"\nreturn_delay = \"20 ms\"\nconversation = \
         [{{ up = 100, down = 1000 }}, {{ connect = true, after = \"1 s\", up = 100, down = 1 }}]"
    );
    let report = run(&written(&text));
    let quic = report.source("a").and_then(|source| source.quic).expect("it is QUIC");
    assert_eq!((quic.connections, quic.transfers.count), (2, 2), "{report}");
}

#[test]
fn a_path_loses_its_part_and_a_source_repairs_it() {
    let keys = "loss = \"2 %\"\nreturn_delay = \"10 ms\"\nconversation = [{ up = 3000000 }]";
    let report = line("100 Mbit/s", 1000, &talk("a", keys));
    let tcp = report.source("a").and_then(|source| source.tcp).expect("it is TCP");
    // Of 2072 segments; the deviation is 6.
    assert!((15..70).contains(&tcp.retransmitted), "{report}");
    assert_eq!(tcp.transfers.count, 1, "every byte arrives");
}

#[test]
fn over_quic_it_is_the_same() {
    for client in ["src", "dst"] {
        let keys = format!(
            "client = \"{client}\"\nreturn_delay = \"20 ms\"\nstop = \"50 s\"\n\
             conversation = [{{ down = 5000 }}, {{ after = \"1 s\", up = 300, wait = \"7 ms\", \
             down = 400000 }}, {{ up = 200000 }}, {{ up = 1, down = 1 }}]"
        );
        let keys = talk("a", &keys).replace("tcp", "quic").replace("profile = \"linux\"\n", "");
        let cross =
            "[[source]]\nname = \"b\"\nkind = \"cbr\"\nrate = \"3 Mbit/s\"\nsize = \"1 KB\"\n";
        let report = line("5 Mbit/s", 20, &(keys.clone() + cross));
        let quic = report.source("a").and_then(|source| source.quic).expect("it is QUIC");
        assert_eq!((quic.connections, quic.transfers.count), (1, 4), "{report}");
        assert_eq!(report.to_json(), line("5 Mbit/s", 20, &(keys + cross)).to_json());
    }
}

#[test]
fn all_bytes_arrive_whatever_is_lost() {
    // Many at once over a short queue, uploads and downloads mixed, servers that begin.
    let rows = "conversation = [{ up = 3000, down = 90000 }, { after = \"20 ms\", down = 50000 }, \
                { up = 120000 }, { up = 1, down = 1 }]";
    let sources: String = (0..12)
        .map(|number| {
            let client = if number % 3 == 0 { "src" } else { "dst" };
            let keys = format!("client = \"{client}\"\nreturn_delay = \"{number} ms\"\n{rows}");
            talk(&format!("s{number}"), &keys)
        })
        .collect();
    let report = line("8 Mbit/s", 12, &sources);
    assert!(report.conservation.holds);
    assert!(report.sources.iter().any(|source| source.lost.packets > 20), "{report}");
    for source in &report.sources {
        let tcp = source.tcp.expect("it is TCP");
        assert_eq!((tcp.connections, tcp.transfers.count), (1, 4), "{report}");
    }
}

const NETWORK: &str = r#"
duration = "30 s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "line"
ends = ["a", "b"]
rate = "5 Mbit/s"
delay = "20 ms"
queue = "10 packets"
loss = "1 %"
"#;

#[test]
fn in_a_network_both_directions_are_links() {
    let sources: String = ["src", "dst"]
        .map(|client| {
            let keys = format!(
                "from = \"a\"\nto = \"b\"\nclient = \"{client}\"\n\
                 conversation = [{{ up = 200000, down = 300000 }}, {{ up = 9, down = 9 }}]"
            );
            talk(client, &keys)
        })
        .concat();
    let scenario = written(&format!("{NETWORK}{sources}"));
    let report = run(&scenario);
    for source in &report.sources {
        let tcp = source.tcp.expect("it is TCP");
        assert_eq!(tcp.transfers.count, 2, "{report}");
        // 500 kB cannot cross faster.
        assert!(millis(source) > 400.0, "{report}");
    }
    assert_eq!(report.to_json(), run(&scenario).to_json());
}

#[test]
fn a_report_lists_the_objects_on_request() {
    let keys = "return_delay = \"10 ms\"\nstart = \"1 s\"\n\
                conversation = [{ up = 1, down = 1 }, { after = \"1 s\", up = 1, down = 1 }]";
    let link = LINK.replace("RATE", "10 Mbit/s").replace("LIMIT", "10");
    let scenario = written(&format!("{link}{}", talk("a", keys)));
    let watch = Watch { objects: true, ..Watch::default() };
    let report = run_watched(&scenario, watch, &mut |_| {}).expect("it is sound");
    let objects = &report.source("a").expect("it is declared").objects;
    let [first, second]: [Object; 2] = objects[..].try_into().expect("two exchanges");
    assert_eq!(second.ended.since(first.ended).as_nanos() / 1_000_000, 1010);
    assert!(run(&scenario).sources[0].objects.is_empty());
}

#[test]
fn what_contradicts_itself_is_refused() {
    let rows = [
        ("conversation = []", "has 0 exchanges"),
        ("conversation = [{ after = \"1 s\" }]", "exchanges nothing"),
        ("client = \"dst\"", "needs a `conversation`"),
        ("buffer = \"3 s\"", "needs a `conversation`"),
        ("bytes = \"1 KB\"\nconversation = [{ up = 1 }]", "`conversation` says what is sent"),
    ];
    for (keys, wanted) in rows {
        let link = LINK.replace("RATE", "10 Mbit/s").replace("LIMIT", "10");
        let text = format!("{link}{}", talk("a", keys));
        let file = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
        let read = weir_sim::read::parse(text.as_bytes(), "test.toml", &file);
        let found: Vec<_> = read.findings.iter().map(|finding| finding.message.clone()).collect();
        assert!(found.iter().any(|line| line.contains(wanted)), "{keys}: {found:?}");
    }
}
