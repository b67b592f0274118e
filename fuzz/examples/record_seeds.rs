//! Writes the seeds of target `record`: a short record that replays to the bit, and its beginning.
//!
//! `cargo run -p weir-fuzz --example record_seeds`

use std::fs;
use std::io;
use std::path::Path;

use weir_core::classify::InterfaceId;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{Packet, Pending};
use weir_core::packet::Headers;
use weir_core::units::Instant;
use weir_trace::record::state::checkpoint;
use weir_trace::record::{
    Arrival, End, Fate, File, Head, LaneHead, RecordWriter, Step, headers_of,
};
use weir_trace::recorded::policy_of;

const POLICY: &str = "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n[class.all]\ndefault = true\n\
                      queue = { limit = '3 packets' }\n";

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/record");
    fs::create_dir_all(&folder)?;
    let bytes = record()?;
    fs::write(folder.join("cut.seed"), &bytes[..bytes.len() / 2])?;
    fs::write(folder.join("whole.seed"), bytes)
}

/// Returns a record of two bursts, between which the state is written.
fn record() -> io::Result<Vec<u8>> {
    let files = vec![File { name: "p".to_owned(), text: POLICY.to_owned() }];
    let lane = LaneHead { name: "up".to_owned(), policy: "p".to_owned(), ..LaneHead::default() };
    let head = Head { files, lanes: vec![lane], ..Head::default() };
    let policy = policy_of("p", &head.files, &head).map_err(io::Error::other)?;
    let mut link = policy.link.build().map_err(|error| io::Error::other(error.message))?;
    let mut classifier = policy.classifier();
    let mut pending = Pending::default();
    let mut writer = RecordWriter::new(Vec::new(), &head)?;
    let frame = [0; 64];
    let headers = Headers::parse_ethernet(&frame);
    for burst in 0..2 {
        let mut state = Vec::new();
        checkpoint(&pending, (link.as_ref(), &classifier), &mut state);
        writer.steps(0, &state)?;
        for number in 0..5 {
            let at = pending.offer_at(Instant::from_nanos(burst * 2_000_000 + number));
            classifier.classify(pending.classify_at(at), InterfaceId(0), &headers);
            let handle = Handle((burst * 5 + number) as u32);
            let packet =
                Packet { flow: headers.flow(Default::default()), ..Packet::new(handle, 64) };
            let (port, leaf, fate) = (InterfaceId(0), LeafId(0), Fate::Offered);
            let headers = headers_of(&frame, &headers);
            let arrival = Arrival { at, port, leaf, packet, fate, headers };
            pending.push(arrival.offered());
            writer.step(0, &Step::Arrival(arrival))?;
        }
        let until = Instant::from_nanos((burst + 1) * 2_000_000);
        let mut out = Vec::new();
        pending.serve(until, |due| link.serve(due, until, &mut out));
        writer.step(0, &Step::Serve { until })?;
        for departure in out {
            writer.step(0, &Step::Departure(departure))?;
        }
        let mut drops = Vec::new();
        link.take_dropped(&mut |dropped| drops.push(dropped));
        for dropped in drops {
            writer.step(0, &Step::Dropped(dropped))?;
        }
    }
    writer.finish(End::Asked)
}
