//! Writes the seeds of target `infer`: a connection over a short queue with a call beside it, whole,
//! in one direction, and from its middle; a connection of QUIC; and one whose headers are cut.
//!
//! `cargo run -p weir-fuzz --example infer_seeds`

use std::fs;
use std::io;
use std::path::Path;
use weir_sim::{Fate, Watch, frame, read, run_watched};
use weir_trace::capture::{CaptureLink, CaptureRecord, CaptureWriter, Interface};

type Frame = (u64, Vec<u8>, u32);

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/infer");
    fs::create_dir_all(&folder)?;
    let write = |name: &str, frames: &[Frame]| {
        fs::write(folder.join(name).with_extension("seed"), capture(frames)?)
    };
    let tcp = "kind = \"tcp\"\nbytes = \"60 KB\"\ntimestamps = true\necn = \"classic\"";
    let call = "kind = \"voip\"\npause = \"0 s\"\nstop = \"300 ms\"";
    let all = frames(&[tcp, call]);
    write("whole", &all)?;
    let is_forward = |frame: &&Frame| frame.1.get(29) == Some(&1);
    write("one-sided", &all.iter().filter(is_forward).cloned().collect::<Vec<_>>())?;
    write("midstream", &all[all.len() / 2..])?;
    let cut = |frame: &Frame| (frame.0, frame.1[..frame.1.len().min(46)].to_vec(), frame.2);
    write("cut", &all.iter().take(20).map(cut).collect::<Vec<_>>())?;
    write("quic", &frames(&["kind = \"quic\"\nbytes = \"20 KB\""]))
}

/// Returns what passes a line of 4 Mbit/s with a short queue.
fn frames(sources: &[&str]) -> Vec<Frame> {
    let mut text = "duration = \"1 s\"\n[[node]]\nname = \"a\"\naddress = \"10.0.0.1\"\n\
        [[node]]\nname = \"b\"\naddress = \"10.0.0.2\"\n[[link]]\nname = \"line\"\n\
        ends = [\"a\", \"b\"]\nrate = \"4 Mbit/s\"\nqueue = \"10 packets\"\ndelay = \"9 ms\"\n"
        .to_owned();
    for (place, keys) in sources.iter().enumerate() {
        text += &format!(
            "[[source]]\nname = \"{place}\"\nfrom = \"a\"\nto = \"b\"\nsport = {}\n{keys}\n",
            4000 + place
        );
    }
    let none = |_: &Path| Err(io::Error::other("no file is named"));
    let outcome = read::parse(text.as_bytes(), "seeds", &none);
    let scenario = outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.findings));
    let mut frames = Vec::new();
    let mut tell = |fate: &Fate<'_>| {
        let mut bytes = Vec::new();
        frame::write(fate.headers, fate.length, fate.content, fate.marked, &mut bytes);
        // A datagram of QUIC is written whole, of which its first bytes suffice.
        bytes.truncate(80);
        frames.push((fate.at.as_nanos(), bytes, fate.length));
    };
    let watch = Watch { packets: Some(&mut tell), ..Watch::default() };
    run_watched(&scenario, watch, &mut |_| {}).expect("it runs");
    frames.sort_by_key(|frame| frame.0);
    frames
}

fn capture(frames: &[Frame]) -> io::Result<Vec<u8>> {
    let mut writer = CaptureWriter::new(Vec::new())?;
    let link_type = CaptureLink::ETHERNET;
    writer.describe(&[Interface { link_type, name: String::new(), snap_length: 80 }])?;
    for (timestamp, bytes, length) in frames {
        writer.write(&CaptureRecord {
            timestamp: *timestamp,
            interface: 0,
            original_length: *length.max(&(bytes.len() as u32)),
            bytes,
            comment: "",
        })?;
    }
    writer.finish()
}
