//! Writes the seeds of target `mark` into `corpus/mark/`.

use std::fs;
use std::path::Path;
use weir_traffic::mark::{Clock, Kind, Mark};

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/mark");
    fs::create_dir_all(&folder)?;
    let mark = |kind, number| {
        let clock = if number % 2 > 0 { Clock::Realtime } else { Clock::Monotonic };
        Mark { kind, clock, stream: 7, number, sent_ns: number * 1_000_000 }.bytes()
    };
    let packets = |numbers: &[u64]| -> Vec<u8> {
        numbers.iter().flat_map(|&number| mark(Kind::Packet, number)).collect()
    };
    let in_order = [packets(&[0, 1, 2, 3]), mark(Kind::End, 4).to_vec()].concat();
    fs::write(folder.join("in-order.seed"), in_order)?;
    fs::write(folder.join("out-of-order.seed"), packets(&[2, 0, 0, 65_538, 1, 1 << 40]))?;
    fs::write(folder.join("unmarked.seed"), [0x57; 60])
}
