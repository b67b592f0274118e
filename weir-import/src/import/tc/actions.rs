//! The actions of a filter, one after the other: a policer, and a new code point of DSCP for the
//! packets that come so far [linux, rfc2474 §3].

use super::super::lines::{LineId, Reading};
use super::super::sketch::{Key, inline, quoted, rate_value};
use super::super::words::Words;
use super::draft::{Accepts, Draft, EthernetType};
use super::units::{base0, kernel_burst, rate, size};
use weir_core::packet::Dscp;

/// The fate of the packets that a filter takes: of those within its policer's rate, and beyond.
#[derive(Clone, Debug)]
pub(super) struct Actions {
    policer: Option<Policer>,
    /// The code point that each of them gets.
    marks: [Option<Dscp>; 2],
    /// Whether each of them comes to the next action: the one before ends with `pipe`.
    comes: [bool; 2],
}

impl Default for Actions {
    fn default() -> Self {
        Self { policer: None, marks: [None; 2], comes: [true; 2] }
    }
}

#[derive(Clone, Debug)]
struct Policer {
    /// In bit/s.
    rate: u64,
    /// In bytes.
    depth: u64,
    out: &'static str,
}

impl Actions {
    pub(super) fn is_empty(&self) -> bool {
        self.policer.is_none() && self.marks == [None; 2]
    }

    /// Returns the keys of the rule.
    pub(super) fn keys(&self) -> Vec<Key> {
        let [within, beyond] = self.marks.map(|mark| mark.map(|dscp| quoted(&dscp.to_string())));
        let Some(policer) = &self.policer else {
            return within.map(|dscp| ("set_dscp", dscp)).into_iter().collect();
        };
        let depth = quoted(&format!("{} B", policer.depth));
        let mut keys = vec![("rate", rate_value(policer.rate)), ("depth", depth)];
        // `set_dscp` marks whatever passes.
        let all = policer.out == "drop" || within == beyond;
        let mark = |dscp: Dscp| quoted(&format!("mark {dscp}"));
        keys.extend(self.marks[0].filter(|_| !all).map(|dscp| ("in", mark(dscp))));
        let out = self.marks[1].filter(|_| !all).map_or(quoted(policer.out), mark);
        keys.push(("out", out));
        let set = within.filter(|_| all).map(|dscp| ("set_dscp", dscp));
        [("police", inline(&keys))].into_iter().chain(set).collect()
    }
}

/// Reads an action behind that word.
pub(super) fn action(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let before = draft.actions.clone();
    let name = words.take().map_or_else(String::new, |word| word.text);
    match name.as_str() {
        "police" => police(words, draft, reading)?,
        "pedit" => pedit(words, draft, reading)?,
        "csum" => csum(words, draft, reading)?,
        "ok" | "pass" => draft.actions.comes = [false; 2],
        "ctinfo" => {
            let why = "the code point of `ctinfo` is that of a connection: write \
                       `restore_dscp = true` into the direction of the deployment";
            reading.lost(draft.line, why);
            return None;
        }
        other => {
            reading.lost(draft.line, format!("Weir has no action `{other}` of a filter"));
            return None;
        }
    }
    if before.comes == [false; 2] {
        let note = format!("no packet comes to `action {name}`: the one before has no `pipe`");
        reading.noted(draft.line, note);
        draft.actions = before;
    }
    Some(())
}

/// Reads `police rate R burst B [mtu M] [drop | pass | continue | conform-exceed ...]`.
pub(super) fn police(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    let (mut bits, mut depth, mut out) = (0, 0, "drop");
    let mut comes = [false, false];
    while let Some(word) = words.peek() {
        match word {
            "rate" => {
                words.take();
                bits = words.value("a rate such as 1mbit", rate, reading)?;
            }
            "burst" | "buffer" | "maxburst" => {
                words.take();
                depth = words.value("a size such as 10k", size, reading)?;
            }
            "mtu" | "minburst" | "mpu" => {
                words.take();
                words.need("a size", reading)?;
            }
            "peakrate" | "avrate" | "overhead" | "linklayer" | "index" => {
                let note = format!("`{word}` of `police` is left out");
                reading.approximated(draft.line, note);
                words.take();
                words.need("a value", reading)?;
            }
            "conform-exceed" => {
                words.take();
                let action = words.need("an action such as `drop`", reading)?;
                let (beyond, within) =
                    action.text.split_once('/').unwrap_or((&action.text, "pass"));
                out = exceed(beyond, draft.line, reading);
                comes = [within == "pipe", beyond == "pipe"];
                if !["pass", "ok", "pipe"].contains(&within) {
                    let note = format!("packets within the rate pass, and not `{within}`");
                    reading.approximated(draft.line, note);
                }
            }
            action if OUTCOMES.contains(&action) => {
                out = exceed(action, draft.line, reading);
                comes[1] = action == "pipe";
                words.take();
            }
            _ => break,
        }
    }
    if bits == 0 || depth == 0 {
        reading.approximated(draft.line, "`police` without `rate` and `burst` is left out");
        return Some(());
    }
    let depth = kernel_burst(depth, bits).clamp(1, 1 << 30);
    let actions = &mut draft.actions;
    actions.policer = Some(Policer { rate: bits, depth, out });
    actions.comes = [actions.comes[0] && comes[0], actions.comes[1] && comes[1]];
    Some(())
}

/// Returns what becomes of a packet beyond the rate.
fn exceed(action: &str, line: LineId, reading: &mut Reading) -> &'static str {
    match action {
        // The same filter takes a packet again that is classified once more, and its policer finds
        // it too long again; after 16 such turns the kernel drops it.
        "drop" | "shot" | "reclassify" => "drop",
        // At `pipe` a further action may give it a code point; no other decides.
        "pass" | "ok" | "pipe" => "pass",
        other => {
            let note = format!(
                "packets beyond the rate go to the class too: Weir does not try the next filter, \
                 as `{other}` says"
            );
            reading.approximated(line, note);
            "pass"
        }
    }
}

/// A new value for a byte, of which only the bits of the mask change.
#[derive(Clone, Copy, Debug)]
struct Byte {
    value: u32,
    mask: u32,
}

/// Reads `[ex] munge HEADER FIELD set VALUE [retain MASK]`, once or more, behind `action pedit`.
fn pedit(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    words.accept("ex");
    let mut found = None;
    while words.accept("munge") {
        found = Some(munge(words, draft, reading)?);
    }
    if found.is_none() {
        reading.lost(draft.line, "`pedit` without `munge` rewrites nothing; tc refuses it");
        return None;
    }
    let Actions { marks, comes, .. } = &mut draft.actions;
    for (mark, comes) in marks.iter_mut().zip(*comes) {
        *mark = found.filter(|_| comes).or(*mark);
    }
    control(words, draft, reading)
}

/// Reads the checksums that `action csum` makes anew: Weir's are right in any case.
fn csum(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    while words.peek().is_some_and(|word| CHECKSUMS.contains(&word)) {
        words.take();
        words.accept("and");
    }
    control(words, draft, reading)
}

/// Reads what an action that is no policer does with the packet: without a word it goes to the
/// class.
fn control(words: &mut Words, draft: &mut Draft, reading: &mut Reading) -> Option<()> {
    while words.accept("index") {
        words.need("a number", reading)?;
    }
    if words.accept("pipe") {
        return Some(());
    }
    draft.actions.comes = [false; 2];
    match words.peek() {
        Some("pass" | "ok") => drop(words.take()),
        Some(other) if OUTCOMES.contains(&other) => {
            let why = format!("Weir's rules end with a class, and not with `{other}`");
            reading.lost(draft.line, why);
            return None;
        }
        _ => {}
    }
    Some(())
}

fn munge(words: &mut Words, draft: &Draft, reading: &mut Reading) -> Option<Dscp> {
    let header = words.need("a header such as `ip`", reading)?.text;
    let field = words.need("a field such as `dsfield`", reading)?.text;
    let version = match (header.as_str(), field.as_str()) {
        ("ip", "dsfield" | "tos") => EthernetType::IPV4,
        ("ip6", "traffic_class") => EthernetType::IPV6,
        _ => {
            let why = format!("Weir rewrites the code point only, and not `{header} {field}`");
            reading.lost(draft.line, why);
            return None;
        }
    };
    let byte = match words.need("what becomes of it, such as `set`", reading)?.text.as_str() {
        "set" => {
            let value = words.value("a byte such as 0xb8", byte, reading)?;
            let mask = match words.accept("retain") {
                true => words.value("a mask such as 0xfc", byte, reading)?,
                false => WHOLE,
            };
            Byte { value, mask }
        }
        "clear" => Byte { value: 0, mask: WHOLE },
        other => {
            let why = format!("Weir sets a code point, and does not `{other}` it");
            reading.lost(draft.line, why);
            return None;
        }
    };
    if draft.outer != Accepts::Type(version) {
        let note = "the kernel changes this byte of frames without such a header, too: write a \
                    `protocol` for the filter";
        reading.approximated(draft.line, note);
    }
    code_point(byte, draft, reading)
}

fn byte(text: &str) -> Option<u32> {
    base0(text, WHOLE)
}

fn code_point(byte: Byte, draft: &Draft, reading: &mut Reading) -> Option<Dscp> {
    if byte.mask & CODE_POINT != CODE_POINT {
        reading.lost(draft.line, "Weir sets all six bits of the code point, or none");
        return None;
    }
    if byte.mask & !CODE_POINT != 0 {
        let note = "the two bits of ECN stay as they are: the kernel sets them, too; \
                    `retain 0xfc` keeps them there";
        reading.approximated(draft.line, note);
    }
    Dscp::new((byte.value >> 2) as u8).ok()
}

/// Returns a key of `pedit` as the kernel has it, a word with the bits of it that stay, as a script
/// would write it.
pub(super) fn munged(header: &str, place: u64, value: u32, kept: u32) -> String {
    let (name, shift) = match header {
        "ipv4" | "network" => ("ip dsfield", 16),
        "ipv6" => ("ip6 traffic_class", 20),
        _ => ("", 0),
    };
    let (changed, whole) = (!kept, WHOLE << shift);
    if name.is_empty() || place != 0 || changed & !whole != 0 || value & !whole != 0 {
        return format!("munge offset {place}");
    }
    let (value, mask) = (value >> shift & WHOLE, changed >> shift & WHOLE);
    format!("munge {name} set {value:#04x} retain {mask:#04x}")
}

const OUTCOMES: [&str; 7] = ["drop", "shot", "pass", "ok", "continue", "reclassify", "pipe"];
/// All bits of a byte, and those of the code point in it.
const WHOLE: u32 = 0xff;
const CODE_POINT: u32 = 0xfc;
const CHECKSUMS: [&str; 8] = ["ip4h", "iph", "icmp", "igmp", "tcp", "udp", "udplite", "sctp"];
