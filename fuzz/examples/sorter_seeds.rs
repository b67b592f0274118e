//! Writes the seeds of target `sorter`: rules of many kinds, then plain and odd frames.
//!
//! `cargo run -p weir-fuzz --example sorter_seeds`

#[path = "../../weir-core/tests/it/frames/mod.rs"]
mod frames;

use std::fs;
use std::io;
use std::path::Path;

use frames::{Draws, frame};

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/sorter");
    fs::create_dir_all(&folder)?;
    for (seed, rules) in [(1, 24), (2, 60), (3, 120), (4, 250)] {
        fs::write(folder.join(format!("rules-{rules}.seed")), input(seed, rules))?;
    }
    Ok(())
}

/// Returns a part that rules are drawn from, then each frame behind its length.
fn input(seed: u64, rules: u8) -> Vec<u8> {
    let mut draws = Draws::new(seed);
    let mut bytes = vec![rules];
    bytes.extend((0..rules).map(|_| draws.next() as u8));
    for frame in frames() {
        bytes.push(frame.len().try_into().expect("seed frames are short"));
        bytes.extend(frame);
    }
    bytes
}

fn frames() -> Vec<Vec<u8>> {
    let udp4 = frame(17, ("10.0.0.1", 5004), ("10.0.0.2", 53));
    let udp6 = frame(17, ("2001:db8::1", 5004), ("2001:db8::2", 53));
    let tcp4 = frame(6, ("192.0.2.1", 1024), ("10.0.0.1", 80));
    vec![
        udp4.bytes(),
        udp6.bytes(),
        tcp4.clone().class(0xb8).bytes(),
        tcp4.clone().tag(0x8100, 7).bytes(),
        tcp4.tag(0x88a8, 7).tag(0x8100, 0xe007).bytes(),
        udp4.clone().piece(9, 0, true).bytes(),
        udp4.piece(9, 185, false).bytes(),
        udp6.clone().extension(60).bytes(),
        udp6.tag(0x9100, 7).tag(0x8100, 7).tag(0x8100, 7).bytes(),
    ]
}
