//! Writes the seeds of target `tcp` into `corpus/tcp/`: random calls of endpoints.

use std::fs;
use std::path::Path;
use weir_core::random::Random;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/tcp");
    fs::create_dir_all(&folder)?;
    for seed in 0..12 {
        let mut random = Random::new(seed, 9);
        let bytes: Vec<u8> = (0..400 + 100 * seed).map(|_| (random.bits() >> 40) as u8).collect();
        fs::write(folder.join(format!("calls-{seed:02}.seed")), bytes)?;
    }
    Ok(())
}
