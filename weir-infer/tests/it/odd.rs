//! Captures that lack something: each has a stated outcome.

use crate::common::{
    Captured, Source, capture, dumbbell, inferred, inferred_from_both, pcapng, scenario,
};
use std::net::Ipv4Addr;
use weir_infer::{Error, Grouping, Inferred, Mark, Model, Options, Reason};
use weir_sim::run;
use weir_trace::capture::CaptureReader;

type Frame = (u64, Vec<u8>, u32);

/// The frames of one upload of 100 kB over 42 ms, and a call.
fn frames() -> Vec<Frame> {
    let upload = "kind = \"tcp\"\nbytes = \"100 KB\"\nwindow = \"1 MB\"".to_owned();
    let call = "kind = \"voip\"\npause = \"0 s\"\nstop = \"1 s\"".to_owned();
    let sources = [Source { delay: 20, keys: upload }, Source { delay: 5, keys: call }];
    let captured = capture(&dumbbell("20 Mbit/s", "100 packets", 2, &sources));
    let mut reader = CaptureReader::new(&captured.before[..]).expect("it is a capture");
    let mut frames = Vec::new();
    while let Some(Ok(frame)) = reader.next_frame() {
        frames.push((frame.timestamp, frame.bytes.to_vec(), frame.original_length));
    }
    frames
}

fn infer(frames: &[Frame]) -> Inferred {
    inferred(&pcapng(frames), &Options::default()).expect("there are frames")
}

/// Returns the only connection with what is marked of it: its bytes and its round trip in ms.
fn upload(found: &Inferred) -> (u64, Option<f64>, Vec<Mark>) {
    let mut all = found.flows.iter().filter_map(|flow| match &flow.model {
        Model::Tcp { tcp, .. } => Some((tcp, flow.marks.clone())),
        _ => None,
    });
    let (tcp, marks) = all.next().expect("there is one");
    assert!(all.next().is_none());
    let bytes = tcp.exchanges.iter().map(|one| one.up + one.down).sum();
    let time = tcp.round_trip.total().map(|time| time.as_nanos() as f64 / 1e6);
    (bytes, time, marks)
}

fn is_data(frame: &Frame) -> bool {
    frame.1.get(26..30) == Some(&[198, 51, 100, 1])
}

#[test]
fn one_direction_tells_sizes_and_round_trip_by_acknowledgements() {
    let all = frames();
    let (bytes, time, marks) = upload(&infer(&all));
    assert_eq!((bytes, marks), (100_000, vec![]));
    assert!(time.is_some_and(|time| (42.0..43.0).contains(&time)), "{time:?}");
    let data: Vec<Frame> = all.iter().filter(|frame| is_data(frame)).cloned().collect();
    let (bytes, time, marks) = upload(&infer(&data));
    assert_eq!((bytes, marks), (100_000, vec![Mark::OneSided]));
    assert!(time.is_some_and(|time| (42.0..43.0).contains(&time)), "{time:?}");
    let acks: Vec<Frame> = all.iter().filter(|frame| !is_data(frame)).cloned().collect();
    let (bytes, _, marks) = upload(&infer(&acks));
    assert_eq!((bytes, marks), (100_000, vec![Mark::OneSided]));
}

#[test]
fn a_connection_from_its_middle_says_so() {
    let all = frames();
    let from = all.iter().filter(|frame| is_data(frame)).nth(20).expect("there are more").0;
    let late: Vec<Frame> = all.into_iter().filter(|frame| frame.0 >= from).collect();
    let (bytes, time, marks) = upload(&infer(&late));
    assert_eq!(marks, [Mark::Midstream]);
    assert!((50_000..100_000).contains(&bytes), "{bytes}");
    assert!(time.is_some());
}

#[test]
fn tags_are_kept_and_cut_headers_are_sent_again() {
    let tagged = |mut frame: Frame| {
        frame.1.splice(12..12, [0x81, 0, 0, 7]);
        frame.2 += 4;
        frame
    };
    let found = infer(&frames().into_iter().map(tagged).collect::<Vec<_>>());
    let (bytes, _, marks) = upload(&found);
    assert_eq!((bytes, marks), (100_000, vec![Mark::Vlan]));
    assert!(found.scenario().contains("vlan = 7"));
    // Ports remain, and nothing behind them.
    let cut = |frame: Frame| (frame.0, frame.1[..44.min(frame.1.len())].to_vec(), frame.2);
    let found = infer(&frames().into_iter().map(cut).collect::<Vec<_>>());
    let truncated = |model: &Model| matches!(model, Model::Replayed { reason: Reason::Truncated });
    assert!(found.flows.iter().any(|flow| truncated(&flow.model)), "{found}");
    assert_eq!(found.beside().len(), 1);
}

#[test]
fn connections_of_a_host_with_itself_get_a_second_host() {
    for (own, other) in [("127.0.0.1", "127.0.0.0"), ("0.0.0.1", "0.0.0.3")] {
        let bytes = own.parse::<Ipv4Addr>().expect("it is an address").octets();
        let alone = |mut frame: Frame| {
            frame.1[26..34].copy_from_slice(&[bytes, bytes].concat());
            frame
        };
        let found = infer(&frames().into_iter().map(alone).collect::<Vec<_>>());
        let text = found.scenario();
        assert!(text.contains(&format!("src = \"{own}\"\ndst = \"{other}\" # in the")), "{text}");
        scenario(&text);
    }
}

#[test]
fn a_call_is_constant_and_tunnels_are_sent_again() {
    let found = infer(&frames());
    let steady = found.flows.iter().find_map(|flow| match &flow.model {
        Model::Steady { steady, .. } => Some(*steady),
        _ => None,
    });
    let steady = steady.expect("a call has one interval");
    assert_eq!(steady.interval.as_nanos() / 1_000_000, 20);
    assert!(found.scenario().contains("kind = \"cbr\""));
    // As GRE, it has no ports that count.
    let hidden = |mut frame: Frame| {
        frame.1[23] = 47;
        frame
    };
    let found = infer(&frames().into_iter().map(hidden).collect::<Vec<_>>());
    let [all, modelled] = found.counts.bytes();
    assert_eq!(modelled, 0, "{found}");
    let lengths: u64 = frames().iter().map(|frame| u64::from(frame.2)).sum();
    assert_eq!(all, lengths, "each byte is counted");
}

#[test]
fn nothing_and_damage_are_stated() {
    let empty = inferred(&pcapng(&[]), &Options::default());
    assert_eq!(empty.err(), Some(Error::Empty(None)));
    let mut bytes = pcapng(&frames());
    bytes.truncate(bytes.len() - 3);
    let found = inferred(&bytes, &Options::default()).expect("there are frames before");
    assert!(found.notes.iter().any(|note| note.contains("cut short")), "{:?}", found.notes);
}

#[test]
fn a_population_sends_as_much_as_its_connections() {
    let source = |place: u64| Source {
        delay: 10,
        keys: format!(
            "kind = \"tcp\"\ndport = 80\nbytes = \"{} KB\"\nstart = \"{} ms\"",
            40 + place % 5 * 10,
            place * 60
        ),
    };
    let sources: Vec<Source> = (0..40).map(source).collect();
    let captured = capture(&dumbbell("20 Mbit/s", "100 packets", 3, &sources));
    let options = Options { grouping: Grouping::Population, ..Options::default() };
    let found = inferred(&captured.before, &options).expect("there are frames");
    let text = found.scenario();
    assert!(text.contains("40 connections such as"), "{text}");
    let report = run(&scenario(&text), &mut |_| {}).expect("it runs");
    let sent: u64 = report.sources.iter().map(|source| source.sent.bytes).sum();
    let wanted: u64 = (0..40).map(|place| (40 + place % 5 * 10) * 1000).sum();
    let part = sent as f64 / wanted as f64;
    assert!((0.75..1.3).contains(&part), "{part} of {wanted} bytes\n{text}");
}

#[test]
fn captures_of_two_links_are_told() {
    let upload = |port: u16| {
        let keys = format!("kind = \"tcp\"\ndport = {port}\nbytes = \"100 KB\"");
        capture(&dumbbell("20 Mbit/s", "100 packets", 2, &[Source { delay: 20, keys }]))
    };
    let (one, other) = (upload(80), upload(81));
    let told = |found: Inferred| found.notes.iter().any(|note| note.contains("in both captures"));
    assert!(!told(inferred_from_both(&one)));
    assert!(told(inferred_from_both(&Captured { before: one.before, behind: other.behind })));
}
