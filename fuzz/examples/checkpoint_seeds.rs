//! Writes the seeds of target `checkpoint`: for each scheduler a plan, packets and edits, at random.
//!
//! `cargo run -p weir-fuzz --example checkpoint_seeds`

use std::fs;
use std::io;
use std::path::Path;

use weir_core::random::Random;
use weir_core::sched::SCHEDULERS;

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/checkpoint");
    fs::create_dir_all(&folder)?;
    for (stream, entry) in SCHEDULERS.iter().enumerate() {
        let keyword = entry.descriptor.keyword;
        let mut random = Random::new(1, stream as u64);
        let mut input = format!("{keyword}\n").into_bytes();
        input.extend((0..BYTES).map(|_| random.bits() as u8));
        fs::write(folder.join(keyword).with_extension("seed"), input)?;
    }
    Ok(())
}

/// A plan takes about 100 bytes, a packet about 5, an edit 5.
const BYTES: usize = 400;
