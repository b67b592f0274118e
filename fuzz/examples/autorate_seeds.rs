//! Writes the seeds of target `autorate` into `corpus/autorate/`: random calls.

use std::fs;
use std::path::Path;
use weir_core::random::Random;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/autorate");
    fs::create_dir_all(&folder)?;
    for seed in 0..8 {
        let mut random = Random::new(seed, 46);
        let bytes: Vec<u8> = (0..400 + 100 * seed).map(|_| (random.bits() >> 40) as u8).collect();
        fs::write(folder.join(format!("calls-{seed:02}.seed")), bytes)?;
    }
    Ok(())
}
