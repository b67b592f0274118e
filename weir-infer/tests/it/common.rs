//! Simulations of many connections over one bottleneck, captured before and behind its queue.

use std::path::Path;
use weir_infer::tcp::Tcp;
use weir_infer::{Error, Inferred, Input, Model, Options, infer};
use weir_sim::{Fate, Scenario, Watch, frame, read, run_watched};
use weir_trace::capture::{CaptureLink, CaptureReader, CaptureRecord, CaptureWriter, Interface};

/// A source, the delay of its access link in ms, and keys of its own.
pub struct Source {
    pub delay: u64,
    pub keys: String,
}

/// The captures of a simulation: before the queue of the bottleneck, and behind it.
pub struct Captured {
    pub before: Vec<u8>,
    pub behind: Vec<u8>,
}

/// Returns a dumbbell: each source has an access link of its own, the bottleneck has no delay, and
/// receivers are 1 ms behind it.
pub fn dumbbell(rate: &str, queue: &str, seconds: u64, sources: &[Source]) -> String {
    let mut text = format!("duration = \"{seconds} s\"\n");
    let mut node = |name: &str, address: &str, router: bool| {
        text +=
            &format!("[[node]]\nname = \"{name}\"\naddress = \"{address}\"\nrouter = {router}\n");
    };
    node("r1", "192.0.2.1", true);
    node("r2", "192.0.2.2", true);
    for place in 0..sources.len() {
        node(&format!("s{place}"), &format!("198.51.100.{}", place + 1), false);
        node(&format!("d{place}"), &format!("10.0.0.{}", place + 1), false);
    }
    let mut link = |name: &str, ends: [&str; 2], keys: &str| {
        let [one, other] = ends;
        text += &format!("[[link]]\nname = \"{name}\"\nends = [\"{one}\", \"{other}\"]\n{keys}\n");
    };
    link("line", ["r1", "r2"], &format!("rate = \"{rate}\"\nqueue = \"{queue}\"\n"));
    for (place, source) in sources.iter().enumerate() {
        let delay = source.delay;
        let near = format!("rate = \"1 Gbit/s\"\nqueue = \"1000 packets\"\ndelay = \"{delay} ms\"");
        link(&format!("a{place}"), [&format!("s{place}"), "r1"], &near);
        let far = "rate = \"1 Gbit/s\"\nqueue = \"1000 packets\"\ndelay = \"1 ms\"";
        link(&format!("b{place}"), ["r2", &format!("d{place}")], far);
    }
    for (place, source) in sources.iter().enumerate() {
        text += &format!(
            "[[source]]\nname = \"{place}\"\nfrom = \"s{place}\"\nto = \"d{place}\"\n\
             sport = {}\n{}\n",
            40_000 + place,
            source.keys
        );
    }
    text
}

/// Reads a scenario.
pub fn scenario(text: &str) -> Scenario {
    let none = |_: &Path| Err(std::io::Error::other("no file is named"));
    let outcome = read::parse(text.as_bytes(), "test.toml", &none);
    outcome.plan.unwrap_or_else(|| panic!("{text}\n{:?}", outcome.findings))
}

/// Simulates, and captures at both ends of the first link.
pub fn capture(text: &str) -> Captured {
    let scenario = scenario(text);
    let mut frames: [Vec<(u64, Vec<u8>, u32)>; 2] = Default::default();
    let mut tell = |fate: &Fate<'_>| {
        // The first link's outlets: forward, with the queue, and back.
        let (near, far) = match fate.outlet.0 {
            0 => (fate.arrived, fate.at),
            1 => (fate.at, fate.arrived),
            _ => return,
        };
        let mut bytes = Vec::new();
        frame::write(fate.headers, fate.length, fate.content, fate.marked, &mut bytes);
        let is_sent = fate.dropped.is_none();
        let length = fate.length;
        if is_sent || fate.outlet.0 == 0 {
            frames[0].push((near.as_nanos(), bytes.clone(), length));
        }
        if is_sent {
            frames[1].push((far.as_nanos(), bytes, length));
        }
    };
    let watch = Watch { packets: Some(&mut tell), ..Watch::default() };
    run_watched(&scenario, watch, &mut |_| {}).expect("it runs");
    let [before, behind] = frames.map(|mut frames| {
        frames.sort_by_key(|frame| frame.0);
        pcapng(&frames)
    });
    Captured { before, behind }
}

/// Returns a capture of Ethernet frames, each with its time, bytes and length.
pub fn pcapng(frames: &[(u64, Vec<u8>, u32)]) -> Vec<u8> {
    let mut writer = CaptureWriter::new(Vec::new()).expect("memory takes all");
    let link_type = CaptureLink::ETHERNET;
    let interface = Interface { link_type, name: String::new(), snap_length: 0 };
    writer.describe(&[interface]).expect("memory takes all");
    for (timestamp, bytes, length) in frames {
        let record = CaptureRecord {
            timestamp: 1_700_000_000_000_000_000 + timestamp,
            interface: 0,
            original_length: *length.max(&(bytes.len() as u32)),
            bytes,
            comment: "",
        };
        writer.write(&record).expect("memory takes all");
    }
    writer.finish().expect("memory takes all")
}

/// Infers from one capture.
pub fn inferred(bytes: &[u8], options: &Options) -> Result<Inferred, Error> {
    let reader = CaptureReader::new(bytes).expect("it is a capture");
    infer(Input::Capture(reader), options, &mut |_| {})
}

/// Infers from both captures.
pub fn inferred_from_both(captured: &Captured) -> Inferred {
    let reader = |bytes| CaptureReader::new(bytes).expect("it is a capture");
    let input = Input::Captures(reader(&captured.before[..]), reader(&captured.behind[..]));
    infer(input, &Options::default(), &mut |_| {}).expect("there are frames")
}

/// Returns the connections of a source: those from its port.
pub fn connections(inferred: &Inferred, place: usize) -> Vec<&Tcp> {
    let port = 40_000 + place as u16;
    let own = inferred
        .flows
        .iter()
        .filter(|flow| flow.source.port() == port || flow.destination.port() == port);
    own.filter_map(|flow| match &flow.model {
        Model::Tcp { tcp, .. } => Some(&**tcp),
        _ => None,
    })
    .collect()
}
