//! Reads `fq` as `tc` writes it [linux sch_fq, q_fq.c].

use super::super::lines::{LineId, Reading};
use super::super::sketch::{Key, quoted};
use super::super::words::Words;
use super::disciplines::{A_RATE, A_SIZE, A_TIME, bytes, duration, packets, size_u32, unsigned};
use super::units::{rate, time};

/// Reads `fq limit PACKETS flow_limit PACKETS ... bands 3 priomap P P ... weights W W W`.
pub(super) fn read(words: &mut Words, line: LineId, reading: &mut Reading) -> Option<Vec<Key>> {
    let mut one = Fq { limit: LIMIT, ..Fq::default() };
    while let Some(word) = words.take() {
        match word.text.as_str() {
            "limit" => one.limit = words.value(A_COUNT, unsigned, reading)?.max(1),
            "flow_limit" => {
                let most = words.value(A_COUNT, unsigned, reading)?.max(1);
                one.keys.push(("flow_limit", most.to_string()));
            }
            "quantum" => one.keys.push(("quantum", quantum(words, reading)?)),
            "initial_quantum" => one.keys.push(("initial_quantum", quantum(words, reading)?)),
            "maxrate" => one.rate = Some(words.value(A_RATE, rate, reading)?),
            "pacing" => one.paces = Some(true),
            "nopacing" => one.paces = Some(false),
            "refill_delay" => one.time("refill_delay", words, reading)?,
            "ce_threshold" => one.time("ce_threshold", words, reading)?,
            "low_rate_threshold" => {
                let low = words.value(A_RATE, rate, reading)?;
                one.keys.push(("low_rate_threshold", bits(low)));
            }
            "orphan_mask" => {
                let mask = words.value("a mask of hashes", unsigned, reading)?;
                one.keys.push(("flows", (mask.min(MASK_MAX) + 1).to_string()));
            }
            "buckets" => drop(words.value(A_COUNT, unsigned, reading)?),
            "timer_slack" => drop(words.value(A_TIME, time, reading)?),
            "horizon" | "offload_horizon" | "defrate" => {
                words.need("a value", reading)?;
                reading.noted(line, format!("`{}`: {SOCKETS}", word.text));
            }
            "horizon_drop" | "horizon_cap" => {
                reading.noted(line, format!("`{}`: {SOCKETS}", word.text));
            }
            "bands" => one.bands(words, line, reading)?,
            "priomap" => one.map(words, line, reading)?,
            "weights" => one.weights(words, reading)?,
            other => {
                reading.unknown((other, word.span), "option of fq", &KNOWN);
                return None;
            }
        }
    }
    reading.noted(line, FLOWS);
    Some(one.into_keys())
}

/// The options that are written.
#[derive(Default)]
struct Fq {
    keys: Vec<Key>,
    limit: u64,
    rate: Option<u64>,
    paces: Option<bool>,
    has_bands: bool,
}

impl Fq {
    fn time(&mut self, key: &'static str, words: &mut Words, reading: &mut Reading) -> Option<()> {
        self.keys.push((key, duration(words.value(A_TIME, time, reading)?)));
        Some(())
    }

    fn bands(&mut self, words: &mut Words, line: LineId, reading: &mut Reading) -> Option<()> {
        if words.value("a number of bands", unsigned, reading)? != 3 {
            reading.approximated(line, "the kernel has three bands, and so has Weir");
        }
        self.has_bands = true;
        Some(())
    }

    fn map(&mut self, words: &mut Words, line: LineId, reading: &mut Reading) -> Option<()> {
        let mut map = Vec::new();
        while let Some(band) = words.peek().and_then(unsigned) {
            words.take();
            map.push(band);
        }
        // Priorities that follow from a TOS: of usual packets, bulk, low delay, and both.
        let of_tos = [0, 2, 6, 4].map(|priority| map.get(priority).copied());
        if of_tos != [1, 2, 0, 1].map(Some) {
            let note = "Weir's bands follow from the TOS by the kernel's usual `priomap`";
            reading.approximated(line, note);
        }
        self.has_bands = true;
        Some(())
    }

    fn weights(&mut self, words: &mut Words, reading: &mut Reading) -> Option<()> {
        for key in ["weight0", "weight1", "weight2"] {
            let weight = words.value("three weights of bands", unsigned, reading)?;
            self.keys.push((key, weight.clamp(WEIGHT_MIN, WEIGHT_MAX).to_string()));
        }
        self.has_bands = true;
        Some(())
    }

    fn into_keys(mut self) -> Vec<Key> {
        let mut keys = vec![("dropper", quoted("fq"))];
        let bands = if self.has_bands { 3 } else { 1 };
        if self.limit != LIMIT || self.has_bands {
            keys.push(("limit", packets(self.limit.saturating_mul(bands))));
        }
        if self.has_bands {
            // The kernel's limit is that of a band.
            keys.extend([("bands", quoted("tos")), ("band_limit", self.limit.to_string())]);
        }
        if let Some(rate) = self.rate.filter(|_| self.paces != Some(false)) {
            keys.push(("maxrate", bits(rate)));
        }
        keys.append(&mut self.keys);
        keys
    }
}

fn quantum(words: &mut Words, reading: &mut Reading) -> Option<String> {
    let size = words.value(A_SIZE, size_u32, reading)?;
    Some(bytes(size.clamp(QUANTUM_MIN, QUANTUM_MAX)))
}

fn bits(rate: u64) -> String {
    quoted(&format!("{} bit/s", rate.max(1)))
}

const A_COUNT: &str = "a number of packets";
/// The kernel's limit, in packets.
const LIMIT: u64 = 10_000;
const QUANTUM_MIN: u64 = 256;
const QUANTUM_MAX: u64 = 1 << 20;
const WEIGHT_MIN: u64 = 1 << 13;
const WEIGHT_MAX: u64 = i32::MAX as u64;
/// The largest mask: hashes have 16 bits.
const MASK_MAX: u64 = u16::MAX as u64;
const FLOWS: &str = "a flow is a hash of addresses and ports, as in the kernel for packets that it \
     forwards; for its own it takes a socket, and sends at the rate of that";
const SOCKETS: &str = "it counts for packets that sockets stamp, and a bridge sees no stamp";
const KNOWN: [&str; 12] = [
    "limit",
    "flow_limit",
    "quantum",
    "initial_quantum",
    "maxrate",
    "nopacing",
    "refill_delay",
    "low_rate_threshold",
    "orphan_mask",
    "ce_threshold",
    "horizon",
    "weights",
];
