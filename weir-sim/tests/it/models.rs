//! Sources that are models of an application: what each sends, and what is found in each.

use crate::common;

use std::io;
use std::path::Path;
use weir_policy::finding::Outcome;
use weir_sim::report::SourceReport;
use weir_sim::{Report, Scenario, read};
use weir_trace::capture::{CaptureLink, CaptureRecord, CaptureWriter, Interface};

const HEAD: &str = "duration = \"100 s\"\n[policy.link]\nrate = \"1 Gbit/s\"\nscheduler = \"fifo\"\n\
    [policy.class.web]\nmatch = [{ dport = \"80\" }]\n[policy.class.rest]\n\
    default = true\nqueue = { limit = \"10000 packets\" }\n";
const LIST: &str = "time,length,flow\n0,100,3\n0.5,200,9\n0.5,300,3\n99,400,3\n200,500,3\n";

fn parse(source: &str) -> Outcome<Scenario> {
    let text = format!("{HEAD}[[source]]\nname = \"x\"\n{source}\n");
    let file = |path: &Path| match path.to_str() {
        Some("folder/list.csv") => Ok(LIST.as_bytes().to_vec()),
        Some("folder/cut.csv") => Ok(b"0,64\n1\n".to_vec()),
        Some("folder/empty.csv") => Ok(b"time,length\n".to_vec()),
        Some("folder/two.pcapng") => Ok(two_flows([8, 0])),
        Some("folder/macsec.pcapng") => Ok(two_flows([0x88, 0xe5])),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    read::parse(text.as_bytes(), "folder/s.toml", &file)
}

/// Three frames of two flows, one of them to port 80, that have this ethertype.
fn two_flows(ethertype: [u8; 2]) -> Vec<u8> {
    let frame = |port: u8, length: usize| {
        let mut bytes = vec![0; 14];
        bytes[12..].copy_from_slice(&ethertype);
        bytes.extend([0x45, 0, 0, 60, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend([19, 136, 0, port, 0, 40, 0, 0]);
        bytes.resize(length, 0);
        bytes
    };
    let mut writer = CaptureWriter::new(Vec::new()).expect("memory takes it");
    let link_type = CaptureLink::ETHERNET;
    let interface = Interface { link_type, name: String::new(), snap_length: 0 };
    writer.describe(&[interface]).expect("memory takes it");
    for (millis, port, length) in [(1000, 80, 100), (1250, 81, 200), (1500, 80, 300)] {
        let bytes = frame(port, length);
        let record = CaptureRecord {
            timestamp: millis * 1_000_000,
            interface: 0,
            original_length: bytes.len() as u32,
            bytes: &bytes,
            comment: "",
        };
        writer.write(&record).expect("memory takes it");
    }
    writer.finish().expect("memory takes it")
}

fn run(source: &str) -> Report {
    let outcome = parse(source);
    assert_eq!(outcome.findings, [], "{source}");
    common::run(&outcome.plan.expect("nothing was found"))
}

/// The one source of a run.
fn check(source: &str, holds: impl Fn(&SourceReport) -> bool) {
    let report = run(source);
    assert_eq!(report.sources.len(), 1);
    assert!(holds(&report.sources[0]), "{source}: {:#?}", report.sources[0]);
}

#[test]
fn ttcp_sends_so_many_buffers() {
    // 2048 datagrams of six frames: payload 16 MiB, each frame its headers.
    check("kind = \"ttcp\"\ntransport = \"udp\"", |source| {
        let payload = 2048 * 8192;
        source.sent.packets == 6 * 2048
            && source.goodput_bps == payload * 8 / 100
            && source.sent.bytes == payload + 2048 * (6 * 34 + 8)
    });
    check(
        "kind = \"ttcp\"\ntransport = \"udp\"\nbuffers = 10\nlength = \"100 B\"\nrate = \"1 Mbit/s\"",
        |source| source.sent.packets == 10 && source.sent.bytes == 1420,
    );
    check("kind = \"ttcp\"\nwindow = \"16 KiB\"\nreturn_delay = \"1 ms\"", |source| {
        let tcp = source.tcp.expect("it is TCP");
        tcp.transfers.count == 1 && source.goodput_bps == 2048 * 8192 * 8 / 100
    });
}

#[test]
fn a_datagram_that_lost_a_fragment_is_not_delivered() {
    // A link that drops every third frame: the queue holds one, frames come two at a time.
    let text = format!(
        "{}[[source]]\nname = \"x\"\nkind = \"ttcp\"\ntransport = \"udp\"\nbuffers = 1000\n",
        HEAD.replace("10000 packets", "4 packets").replace("1 Gbit/s", "50 Mbit/s")
    );
    let outcome = read::parse(text.as_bytes(), "s.toml", &|_| Err(io::ErrorKind::NotFound.into()));
    let report = common::run(&outcome.plan.expect("it is sound"));
    let source = &report.sources[0];
    // The rate is rounded to bit/s, so the bytes are known to 7.
    let payload = source.goodput_bps * 100 / 8;
    let whole = (payload + 4096) / 8192;
    assert!(payload.abs_diff(whole * 8192) < 7, "only whole datagrams count: {payload}");
    assert!(source.lost.packets > 1000 && whole < 500, "{source:#?}");
    assert!(whole <= source.received.packets / 6, "{source:#?}");
}

#[test]
fn nttcp_fills_its_interface() {
    // 1450 bytes and 42 of headers at 100 Mbit/s for 100 s.
    check("kind = \"nttcp\"", |source| {
        let packets: u64 = 100 * 100_000_000 / (8 * 1492);
        source.sent.packets.abs_diff(packets) <= 1
            && source.sent.bytes == source.sent.packets * 1492
    });
    check("kind = \"nttcp\"\nbuffers = 7\nrate = \"10 Mbit/s\"", |source| source.sent.packets == 7);
}

#[test]
fn a_call_has_packets_during_talk_spurts() {
    // Without pauses 50 packets a second: 160 bytes of sound, 12 + 8 + 20 + 14 of headers.
    check("kind = \"voip\"\npause = \"0 s\"", |source| {
        source.sent.packets == 5000 && source.sent.bytes == 5000 * 214
    });
    check("kind = \"voip\"\ncodec = \"g723\"\npause = \"0 s\"", |source| {
        source.sent.packets == 3334 && source.sent.bytes == 3334 * (24 + 54)
    });
    // With them 39 % of that; some forty spurts vary by a sixth or so.
    check("kind = \"voip\"", |source| (1400..2700).contains(&source.sent.packets));
}

#[test]
fn pictures_keep_their_mean_rate() {
    // 100 s of 1 Mbit/s, headers aside; 2500 pictures.
    check("kind = \"video\"\ndistribution = \"constant\"", |source| {
        let payload = source.sent.bytes - source.sent.packets * 54;
        payload.abs_diff(12_500_000) < 60_000
    });
    for sway in ["lognormal", "gamma"] {
        let keys = format!("kind = \"video\"\ndistribution = \"{sway}\"\nvariation = 0.6");
        check(&keys, |source| {
            let payload = source.sent.bytes - source.sent.packets * 54;
            payload.abs_diff(12_500_000) < 600_000
        });
    }
    check("kind = \"video\"\npictures = 10\ngroup = 1\npacket = \"500 B\"", |source| {
        source.sent.packets > 12_500_000 / 500
    });
}

#[test]
fn a_reader_transfers_page_after_page() {
    check("kind = \"web\"", |source| {
        let transfers = source.tcp.expect("it is TCP").transfers.count;
        (60..130).contains(&transfers) && source.kind == "web"
    });
    // Ten objects a page, with 10 ms between them: some 8 to 10 times as many.
    check("kind = \"web\"\nobjects = 10\nobjects_shape = 1.5\nobject = \"2 KB\"", |source| {
        source.tcp.expect("it is TCP").transfers.count > 300
    });
}

#[test]
fn files_follow_each_other() {
    check("kind = \"ftp\"\nfiles = 5\npause = \"0 s\"", |source| {
        let transfers = source.tcp.expect("it is TCP").transfers.count;
        transfers == 5 && source.goodput_bps == 5 * 200_000 * 8 / 100
    });
    check("kind = \"ftp\"\nfile_shape = 1.5\ndistribution = \"constant\"", |source| {
        (80..101).contains(&source.tcp.expect("it is TCP").transfers.count)
    });
}

#[test]
fn probes_are_few_and_small() {
    check("kind = \"probe\"", |source| {
        source.sent.packets == 10_000
            && source.sent.bytes == 640_000
            && source.delay.count == 10_000
    });
    check("kind = \"probe\"\nsize = \"100 B\"\ninterval = \"1 s\"\nstart = \"50 s\"", |source| {
        source.sent.packets == 50
    });
}

#[test]
fn recorded_packets_come_at_their_times() {
    // What is later than the run is not sent.
    check("kind = \"capture\"\nfile = \"list.csv\"", |source| {
        (source.sent.packets, source.sent.bytes) == (4, 1000)
    });
    check("kind = \"capture\"\nfile = \"two.pcapng\"\nstart = \"99.6 s\"", |source| {
        (source.sent.packets, source.sent.bytes) == (2, 300) && source.class == "rest"
    });
    let rows = |source: &str| -> Vec<(String, String, u64)> {
        let row =
            |source: &SourceReport| (source.name.clone(), source.class.clone(), source.sent.bytes);
        run(source).sources.iter().map(row).collect()
    };
    let row = |name: &str, class: &str, bytes| (name.to_owned(), class.to_owned(), bytes);
    assert_eq!(
        rows("kind = \"capture\"\nfile = \"two.pcapng\"\nflows = true"),
        [row("x/1", "web", 400), row("x/2", "rest", 200)]
    );
    assert_eq!(
        rows("kind = \"capture\"\nfile = \"list.csv\"\nflows = true"),
        [row("x/1", "rest", 800), row("x/2", "rest", 200)]
    );
}

#[test]
fn equal_seeds_give_equal_runs() {
    for kind in ["ttcp", "voip", "video", "web", "ftp"] {
        let source = format!("kind = \"{kind}\"\nstop = \"30 s\"");
        assert_eq!(run(&source), run(&source), "{kind}");
    }
}

/// Where the line is faster than the film a player asks for a segment as often as it shows one, and
/// its last requests are as late as its buffer is large; where it is slower, it stands still.
#[test]
fn a_player_fills_its_buffer_and_stands_still_without() {
    let played = |transport: &str, rate: &str| {
        let text = format!(
            "duration = \"100 s\"\ndelay = \"5 ms\"\n[policy.link]\nrate = \"{rate}\"\n\
             scheduler = \"fifo\"\n[policy.class.all]\ndefault = true\n[[source]]\n\
             name = \"x\"\nkind = \"video\"\ntransport = \"{transport}\"\nbitrate = \"4 Mbit/s\"\n\
             segment = \"2 s\"\nbuffer = \"20 s\"\nreturn_delay = \"5 ms\"\n"
        );
        let none = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
        let outcome = read::parse(text.as_bytes(), "s.toml", &none);
        assert_eq!(outcome.findings, [], "{text}");
        let scenario = outcome.plan.expect("it is sound");
        let report = weir_sim::run(&scenario, &mut |_| {}).expect("it runs");
        let source = report.sources[0].clone();
        let playback = source.playback.expect("it plays");
        let transfers = match transport {
            "tcp" => source.tcp.as_ref().map(|tcp| tcp.transfers),
            _ => source.quic.as_ref().map(|quic| quic.transfers),
        };
        (source.goodput_bps, transfers.expect("it connects").count, playback, report)
    };
    for transport in ["tcp", "quic"] {
        let (goodput, segments, playback, report) = played(transport, "40 Mbit/s");
        // Within 100 s it shows nearly 100 s and holds 18 to 20 s more, whole segments.
        assert!((57..=60).contains(&segments), "{segments}\n{report}");
        assert!((4.4e6..5.0e6).contains(&(goodput as f64)), "{report}");
        assert_eq!((playback.stalls, playback.stalled.as_nanos()), (0, 0), "{report}");
        let startup = playback.startup.expect("it has begun").as_nanos();
        assert!((200_000_000..1_200_000_000).contains(&startup), "{startup}");
        let (_, segments, playback, report) = played(transport, "3 Mbit/s");
        // A segment of 2 s takes at least 2.7 s.
        assert!((30..=37).contains(&segments), "{segments}\n{report}");
        assert!(playback.stalls >= segments / 2, "{playback:?}\n{report}");
        let stalled = playback.stalled.as_nanos() as f64 / 1e9;
        let shown = (segments - 1) as f64 * 2.0;
        assert!((stalled + shown - 97.0).abs() < 4.0, "{stalled}, {shown}\n{report}");
        assert!(format!("{report}").contains("stalled ms"), "{report}");
    }
}

#[test]
fn faults_of_models_are_found() {
    let rows: [(&str, &str); 26] = [
        ("kind = \"ttcp\"\ntransport = \"icmp\"", "W016"),
        ("kind = \"ttcp\"\nbuffers = 0", "W015"),
        ("kind = \"ttcp\"\ntransport = \"udp\"\nlength = \"64 KiB\"", "W015"),
        ("kind = \"ttcp\"\ntransport = \"udp\"\nwindow = \"16 KiB\"", "W010"),
        ("kind = \"nttcp\"\nmtu = \"100 B\"", "W015"),
        ("kind = \"voip\"\ncodec = \"mp3\"", "W016"),
        ("kind = \"voip\"\ninterval = \"0 s\"", "W015"),
        ("kind = \"voip\"\nsize = \"100 B\"", "W010"),
        ("kind = \"video\"\npictures = 0", "W015"),
        ("kind = \"video\"\nvariation = 9.0", "W015"),
        ("kind = \"video\"\nbitrate = \"1 Mbps\"", "W014"),
        ("kind = \"video\"\ni_ratio = 0.5", "W015"),
        ("kind = \"video\"\nbuffer = \"30 s\"", "W010"),
        ("kind = \"video\"\ntransport = \"tcp\"\npacket = \"500 B\"", "W010"),
        ("kind = \"video\"\ntransport = \"quic\"\nsegment = \"0 s\"", "W015"),
        ("kind = \"web\"\nobject_shape = 1.0", "W015"),
        ("kind = \"web\"\nbytes = \"1 KB\"", "W010"),
        ("kind = \"web\"\nwindow = \"0 B\"", "W015"),
        ("kind = \"ftp\"\nfiles = 0", "W015"),
        ("kind = \"ftp\"\nproto = \"udp\"", "W311"),
        ("kind = \"probe\"\ninterval = \"0 s\"", "W015"),
        ("kind = \"capture\"", "W011"),
        ("kind = \"capture\"\nfile = \"none.pcap\"", "W004"),
        ("kind = \"capture\"\nfile = \"cut.csv\"", "W341"),
        ("kind = \"capture\"\nfile = \"empty.csv\"", "W341"),
        ("kind = \"capture\"\nfile = \"macsec.pcapng\"\nflows = true", "W342"),
    ];
    for (source, code) in rows {
        let outcome = parse(source);
        let found: Vec<_> = outcome.findings.iter().map(|finding| finding.code).collect();
        assert_eq!(found, [code], "{source}\n{:#?}", outcome.findings);
        assert!(outcome.findings.iter().all(|finding| !finding.cure.is_empty()), "{source}");
    }
}
