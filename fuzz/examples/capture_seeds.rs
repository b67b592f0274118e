//! Writes the seeds of target `capture`: a capture of every format and byte order, one in gzip
//! and one in zstd.
//!
//! `cargo run -p weir-fuzz --example capture_seeds`

#[path = "../../weir-trace/src/capture/tests/samples.rs"]
#[allow(dead_code)]
mod samples;

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/capture");
    fs::create_dir_all(&folder)?;
    let samples = samples::samples();
    for (name, sample) in NAMES.iter().zip(&samples) {
        fs::write(folder.join(name).with_extension("seed"), &sample.bytes)?;
    }
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&samples[0].bytes)?;
    fs::write(folder.join("gzip.seed"), gzip.finish()?)?;
    let zstd = compress_to_vec(&samples[0].bytes[..], CompressionLevel::Fastest);
    fs::write(folder.join("zstd.seed"), zstd)
}

/// The samples in their order.
const NAMES: [&str; 6] =
    ["pcap-le", "pcap-ns-le", "pcapng-le", "pcap-be", "pcap-ns-be", "pcapng-be"];
