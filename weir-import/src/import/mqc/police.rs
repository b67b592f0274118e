//! Policers of a class: rates, bursts, and what happens to the packets of each colour.

use super::super::lines::{LineId, Reading};
use super::super::sketch::{Key, quoted, rate_value};
use super::super::words::{Words, number};
use super::{Share, dscp_of, share};
use weir_core::packet::Dscp;
use weir_core::police::Action;

/// A policer as it is written.
pub(super) struct Police {
    line: LineId,
    pub rate: Share,
    burst: Option<u64>,
    /// The second rate, and the burst that goes with it.
    peak: Option<Share>,
    peak_burst: Option<u64>,
    conform: Action,
    exceed: Action,
    /// With one rate, it is that of packets beyond a second burst.
    violate: Option<Action>,
}

impl Police {
    /// Reads `police [cir | rate] R [bps] [bc B] [pir R] [be B] [conform-action A ...]`.
    pub(super) fn read(words: &mut Words, line: LineId, reading: &mut Reading) -> Option<Self> {
        words.accept("cir");
        words.accept("rate");
        let rate = share(words, 1, reading)?;
        let (conform, exceed) = (Action::Pass, Action::Drop);
        let (burst, peak, peak_burst, violate) = (None, None, None, None);
        let mut one = Self { line, rate, burst, peak, peak_burst, conform, exceed, violate };
        while let Some(word) = words.take() {
            match word.text.as_str() {
                "pir" | "peak-rate" => one.peak = Some(share(words, 1, reading)?),
                "be" | "peak-burst" => one.peak_burst = bytes(words, line, reading),
                "bc" | "burst" => one.burst = bytes(words, line, reading),
                which if which.ends_with("-action") => one.action(which, words, line, reading),
                text => match number(text) {
                    Some(bytes) if one.burst.is_none() => one.burst = Some(bytes),
                    other => one.peak_burst = one.peak_burst.or(other),
                },
            }
        }
        Some(one)
    }

    /// Reads what happens to the packets of a colour, such as `exceed-action drop`.
    pub(super) fn action(
        &mut self,
        which: &str,
        words: &mut Words,
        line: LineId,
        reading: &mut Reading,
    ) {
        let word = words.take().map_or_else(String::new, |word| word.text);
        let mut value = || words.take().map_or_else(String::new, |word| word.text);
        let mark = match word.as_str() {
            "set-dscp-transmit" => Some(dscp_of(&value())),
            "set-prec-transmit" => Some(precedence(&value())),
            _ => None,
        };
        let action = match (word.as_str(), mark.flatten()) {
            (_, Some(dscp)) => Action::Mark(dscp),
            ("transmit", None) => Action::Pass,
            ("drop", None) => Action::Drop,
            (other, None) => {
                let note = format!("`{other}` leaves the packet's marks as they are");
                reading.approximated(line, note);
                if other.contains("transmit") { Action::Pass } else { Action::Drop }
            }
        };
        match which {
            "conform-action" => self.conform = action,
            "exceed-action" => self.exceed = action,
            _ => self.violate = Some(action),
        }
    }

    /// Returns the keys of the table `police`, by the rate of the class and of all it shares.
    pub(super) fn keys(&self, (own, whole): (u64, u64), reading: &mut Reading) -> Option<Vec<Key>> {
        let bits = |share: Share| match share {
            Share::Ratio(_) => own,
            share => share.of(whole),
        };
        let rate = bits(self.rate);
        if rate == 0 {
            reading.approximated(self.line, "a policer of 0 is left out");
            return None;
        }
        // The router's burst, where the file names none: a 32nd of a second, a packet at least.
        let depth = |burst: Option<u64>, rate: u64| {
            let bytes = burst.unwrap_or((rate / 32).max(1500)).clamp(1500, 1 << 30);
            quoted(&format!("{bytes} B"))
        };
        let mut keys = vec![("rate", rate_value(rate)), ("depth", depth(self.burst, rate))];
        let written = |action: Action| quoted(&action.to_string());
        let conform = (self.conform != Action::Pass).then(|| written(self.conform));
        let Some(peak) = self.peak.map(bits).filter(|peak| *peak >= rate) else {
            if self.peak.is_some() || self.violate.is_some_and(|violate| violate != self.exceed) {
                let note = "Weir has one burst for one rate: packets that violate it are treated \
                            as those that exceed it";
                reading.approximated(self.line, note);
            }
            keys.extend(conform.map(|action| ("in", action)));
            keys.push(("out", written(self.exceed)));
            return Some(keys);
        };
        keys.insert(0, ("meter", quoted("trtcm")));
        keys.extend([
            ("peak_rate", rate_value(peak)),
            ("peak_depth", depth(self.peak_burst, peak)),
        ]);
        keys.extend(conform.map(|action| ("green", action)));
        keys.push(("yellow", written(self.exceed)));
        keys.push(("red", written(self.violate.unwrap_or(Action::Drop))));
        Some(keys)
    }
}

/// Reads a burst in bytes; none for one in time.
fn bytes(words: &mut Words, line: LineId, reading: &mut Reading) -> Option<u64> {
    let burst = words.peek().and_then(number)?;
    words.take();
    if words.accept("ms") || words.accept("us") || words.accept("packets") {
        reading.approximated(line, "a burst that is not in bytes is left out");
        return None;
    }
    words.accept("bytes");
    Some(burst)
}

fn precedence(text: &str) -> Option<Dscp> {
    let value = number(text).filter(|value| *value < 8)?;
    Some(Dscp::of_traffic_class((value << 5) as u8))
}
