//! Reads `ets` as `tc` writes it [linux sch_ets].

use super::super::lines::{LineId, Reading};
use super::super::sketch::Key;
use super::super::words::Words;
use super::disciplines::Discipline;
use super::units::base0;

/// Reads `bands N strict N quanta Q Q ... priomap P P ...`.
pub(super) fn read(
    one: &mut Discipline,
    words: &mut Words,
    line: LineId,
    reading: &mut Reading,
) -> Option<()> {
    let (mut map, mut bands) = (Vec::new(), 0);
    while let Some(word) = words.take() {
        match word.text.as_str() {
            "bands" => bands = words.value("a number of bands from 1 to 16", some, reading)?,
            "strict" => {
                one.strict = words.value("a number of bands from 1 to 16", some, reading)?
            }
            "quanta" => one.quanta = numbers(words, 1),
            "priomap" => map = numbers(words, 0),
            other => {
                let known = ["bands", "strict", "quanta", "priomap"];
                reading.unknown((other, word.span), "option of ets", &known);
                return None;
            }
        }
    }
    let said = one.strict + one.quanta.len() as u64;
    one.bands = if bands == 0 { said } else { bands };
    if one.bands == 0 || one.bands < said || one.bands > BANDS_MAX {
        let note = "from 1 to 16 `bands`, as many as `strict` and `quanta` name, or more";
        reading.lost(line, format!("an ets needs {note}"));
        return None;
    }
    // Packets without a priority of their own have priority 0.
    one.ordinary = map.first().copied().unwrap_or(one.bands - 1).min(one.bands - 1);
    // What the map leaves out goes to the last band.
    let all = map.len() >= PRIORITIES && map.iter().all(|band| *band == one.ordinary);
    if !(all || map.iter().all(|band| *band == one.bands - 1)) {
        reading.approximated(line, super::disciplines::PRIORITY_MAP);
    }
    Some(())
}

/// Returns the key of a band, counted from 1, of which strict ones come first.
pub(super) fn key(one: &Discipline, band: u64) -> Key {
    // Where all sixteen are strict, the last one shares with none: it sends what they leave.
    let strict = one.strict.min(BANDS_MAX - 1);
    let Some(at) = band.checked_sub(strict + 1) else {
        return ("priority", (strict + 1 - band).to_string());
    };
    let quantum = usize::try_from(at).ok().and_then(|at| one.quanta.get(at));
    let quantum = quantum.copied().unwrap_or(FRAME);
    ("quantum", super::disciplines::bytes(quantum.clamp(64, 1 << 30)))
}

/// Reads numbers of at least `least` as far as they go.
fn numbers(words: &mut Words, least: u32) -> Vec<u64> {
    let mut found = Vec::new();
    let number = |text: &str| base0(text, u32::MAX).filter(|number| *number >= least);
    while let Some(number) = words.peek().and_then(number) {
        words.take();
        found.push(number.into());
    }
    found
}

fn some(text: &str) -> Option<u64> {
    base0(text, u32::MAX).map(u64::from).filter(|bands| (1..=BANDS_MAX).contains(bands))
}

const BANDS_MAX: u64 = 16;
/// Priorities of a map.
const PRIORITIES: usize = 16;
/// The kernel's quantum of a band without one.
const FRAME: u64 = 1514;
