//! Imports OpenWrt's `/etc/config/sqm` (UCI): a shaper for each direction of an interface.
//!
//! What the scripts of sqm-scripts run is written as commands of tc, which the importer of tc reads
//! `[sqm-scripts: run-openwrt.sh, simple.qos, simplest.qos, piece_of_cake.qos]`.

use super::lines::{LineId, Reading};
use super::sketch::Sketch;
use super::tc::{self, Command};
use super::words::{Word, bad_value, number, split_quoted};
use super::{Fate, Language, Options};
use std::collections::BTreeMap;
use weir_policy::codes;
use weir_policy::finding::Span;

pub(super) const LANGUAGE: Language =
    Language { name: "sqm", summary: "OpenWrt's /etc/config/sqm", read };

/// A section `config queue`.
struct Queue {
    line: LineId,
    span: Span,
    options: BTreeMap<String, (LineId, Word)>,
}

/// The disciplines that a script sets up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    /// A cake with these words.
    Cake(&'static str),
    /// A class of htb with one queue.
    One,
    /// Classes for three kinds of DSCP; one for arriving packets, where their DSCP is ignored.
    Three,
    /// A token bucket with one queue.
    Bucket,
}

/// The values of one direction.
struct Direction {
    /// The name of its policy.
    name: String,
    /// In kbit/s.
    rate: u64,
    shape: Shape,
    /// The queue below the shaper, with its options.
    leaf: String,
    /// The words that the file adds to it.
    added: Vec<Word>,
}

fn read(text: &str, options: &Options, reading: &mut Reading) -> Vec<Sketch> {
    let mut commands = Vec::new();
    for queue in sections(text, reading) {
        queue.commands(&mut commands, reading);
    }
    tc::given(commands, options, reading)
}

/// Reads the sections; one of another type is lost.
fn sections(text: &str, reading: &mut Reading) -> Vec<Queue> {
    let mut queues: Vec<Queue> = Vec::new();
    let mut is_queue = false;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let words = split_quoted(line, offset);
        offset += line.len();
        let span = match (words.first(), words.last()) {
            (Some(first), Some(last)) => Span { start: first.span.start, end: last.span.end },
            _ => continue,
        };
        let id = reading.line(span);
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        match texts.as_slice() {
            ["config", kind, ..] => {
                is_queue = *kind == "queue";
                if is_queue {
                    queues.push(Queue { line: id, span, options: BTreeMap::new() });
                } else {
                    reading.lost(id, "it is no `config queue`: sqm reads no other section");
                }
            }
            ["package", ..] => {}
            ["option" | "list", key, _] => {
                let known = OPTIONS.iter().find(|row| row.0.contains(key));
                match known.filter(|_| is_queue) {
                    None => reading.lost(id, "sqm has no such option of a queue"),
                    Some((_, Fate::Kept, "")) => {}
                    Some((_, Fate::Kept, note)) => reading.noted(id, *note),
                    Some((_, _, note)) => reading.approximated(id, *note),
                }
                let value = words.last().expect("there are three").clone();
                let queue = queues.last_mut().filter(|_| is_queue);
                let key = (*key).to_owned();
                queue.map(|queue| queue.options.insert(key, (id, value)));
            }
            [first @ ("config" | "option" | "list"), ..] => {
                let wants = if *first == "config" { "a type" } else { "a key and one value" };
                let message = format!("`{first}` wants {wants}");
                let cure = "write it in quotes, as in `option interface 'eth1'`";
                reading.error(&codes::INCOMPLETE, span, message, cure);
            }
            [first, ..] => {
                let known = ["config", "option", "list"];
                reading.unknown((first, words[0].span), "line of UCI", &known);
            }
            [] => {}
        }
    }
    queues
}

impl Queue {
    fn text(&self, key: &str) -> Option<&str> {
        self.options.get(key).map(|row| row.1.text.as_str())
    }

    fn is_on(&self, key: &str, otherwise: bool) -> bool {
        self.text(key).map_or(otherwise, |text| text == "1")
    }

    /// Reads a number; reports anything else.
    fn number(&self, key: &str, otherwise: u64, reading: &mut Reading) -> Option<u64> {
        let Some((_, word)) = self.options.get(key) else { return Some(otherwise) };
        let value = number(&word.text).filter(|value| *value <= RATE_MAX);
        if value.is_none() {
            bad_value(word, "a whole number", reading);
        }
        value
    }

    /// Writes the commands of both directions.
    fn commands(&self, commands: &mut Vec<Command>, reading: &mut Reading) -> Option<()> {
        let Some(interface) = self.text("interface").map(str::to_owned) else {
            let message = "the queue names no interface";
            let cure = "write `option interface` with the name of a device";
            reading.error(&codes::INCOMPLETE, self.span, message, cure);
            return None;
        };
        if !self.is_on("enabled", false) {
            reading.lost(self.line, "sqm does not start it: `enabled` is not 1");
            return None;
        }
        let script = self.text("script").unwrap_or("simple.qos");
        let Some((_, shape)) = SCRIPTS.iter().find(|row| row.0 == script) else {
            let why = format!(
                "only the script `{script}` knows what it sets up: `weir import tc --from-kernel` \
                 on the router reads it"
            );
            reading.lost(self.line, why);
            return None;
        };
        let sides = [("upload", 'e'), ("download", 'i')];
        for (side, letter) in sides {
            let rate = self.number(side, 0, reading)?;
            if rate == 0 {
                let line = self.options.get(side).map_or(self.line, |row| row.0);
                reading.noted(line, format!("0 is no limit: no policy for the {side}"));
                continue;
            }
            let name = format!("{interface}-{side}");
            let (shape, qdisc) = self.shape(*shape, letter, reading);
            let added = self.added(letter, qdisc, reading);
            let leaf = self.leaf(qdisc, rate, letter, reading)?;
            let direction = Direction { name, rate, shape, leaf, added };
            let bare = if super::is_bare(&interface) { "no" } else { "an" };
            self.push(commands, format!("#device {} {bare}", direction.name), Vec::new());
            self.direction(&direction, commands, reading)?;
        }
        Some(())
    }

    /// Returns what the script sets up for a direction, and the queue below it.
    fn shape(&self, shape: Shape, letter: char, reading: &mut Reading) -> (Shape, &str) {
        let qdisc = self.text("qdisc").unwrap_or("fq_codel");
        let is_cake = qdisc.starts_with("cake");
        let ignores = letter == 'i' && self.is_on("squash_ingress", true);
        match shape {
            Shape::Cake("diffserv3 nat") if ignores => (Shape::Cake("besteffort nat"), qdisc),
            Shape::Cake(_) => (shape, qdisc),
            Shape::One if is_cake => (Shape::Cake("besteffort"), qdisc),
            Shape::Three if is_cake && ignores => (Shape::Cake("besteffort"), qdisc),
            Shape::Three if is_cake => (Shape::Cake(""), qdisc),
            Shape::Three if ignores => (Shape::One, qdisc),
            Shape::Bucket if is_cake => {
                reading.noted(self.line, "this script takes fq_codel in place of cake");
                (shape, "fq_codel")
            }
            _ => (shape, qdisc),
        }
    }

    /// Returns the words of `iqdisc_opts` or `eqdisc_opts`, without those that only cake knows
    /// where the queue is another.
    fn added(&self, letter: char, qdisc: &str, reading: &mut Reading) -> Vec<Word> {
        let Some((line, word)) = self.options.get(&format!("{letter}qdisc_opts")) else {
            return Vec::new();
        };
        let is_foreign = |text: &&str| !qdisc.starts_with("cake") && CAKE_WORDS.contains(text);
        let (foreign, own): (Vec<&str>, Vec<&str>) =
            word.text.split_whitespace().partition(is_foreign);
        for text in foreign {
            let note = format!("`{text}` is a word of cake, which {qdisc} does not know: left out");
            reading.approximated(*line, note);
        }
        let one = |text: &str| Word { text: text.to_owned(), span: word.span };
        own.into_iter().map(one).collect()
    }

    /// Returns the words of the queue below a shaper of `rate` kbit/s.
    fn leaf(&self, qdisc: &str, rate: u64, letter: char, reading: &mut Reading) -> Option<String> {
        let side = if letter == 'i' { "ingress" } else { "egress" };
        let mut words = qdisc.to_owned();
        let has = |list: &[&str]| list.contains(&qdisc);
        let limit = self.number(&format!("{letter}limit"), LIMIT, reading)?;
        if has(&["fq_codel", "codel", "pie", "sfq", "pfifo"]) {
            words += &format!(" limit {limit}");
        }
        let target = self.text(&format!("{letter}target")).unwrap_or_default();
        match target {
            "" | "default" => {}
            // The time of a packet on a slow link; five milliseconds are enough for a fast one.
            "auto" => {
                let packet = 1540 * 8 * 1000 / rate.max(1);
                if packet > 5_000 && has(&["fq_codel", "codel"]) {
                    let interval = 95_000 + packet;
                    words += &format!(" target {packet}us interval {interval}us");
                    reading.approximated(self.line, "`auto` is about the time of a packet");
                }
            }
            _ if has(&["fq_codel", "codel", "pie"]) => words += &format!(" target {target}"),
            _ => {}
        }
        if has(&["fq_codel", "codel", "pie"]) {
            let ecn = self.text(&format!("{side}_ecn")).unwrap_or("ECN");
            words += if ecn == "NOECN" { " noecn" } else { " ecn" };
        }
        if has(&["fq_codel", "sfq"]) {
            words += " flows 1024";
        }
        Some(words)
    }

    /// Returns the overhead as an option of tc (`stab`, of htb) or of cake.
    fn overhead(&self, is_cake: bool, reading: &mut Reading) -> Option<[String; 2]> {
        let layer = self.text("linklayer").unwrap_or("none");
        let none = [String::new(), String::new()];
        if layer == "none" {
            return Some(none);
        }
        let mpu = self.number("tcMPU", 0, reading)?;
        let overhead = self.text("overhead").unwrap_or("0");
        let by = self.text("linklayer_adaptation_mechanism").unwrap_or("default");
        let private = format!("mpu {mpu} linklayer {layer} overhead {overhead}");
        Some(match by {
            "cake" | "default" if is_cake => {
                let cells = if layer == "atm" { "atm " } else { "" };
                [String::new(), format!("{cells}overhead {overhead} mpu {mpu}")]
            }
            "tc_stab" | "default" => [format!("stab {private}"), String::new()],
            "htb_private" if !is_cake => [String::new(), private],
            _ => none,
        })
    }

    fn direction(
        &self,
        one: &Direction,
        commands: &mut Vec<Command>,
        reading: &mut Reading,
    ) -> Option<()> {
        let Direction { name, rate, shape, leaf, added } = one;
        let is_cake = matches!(shape, Shape::Cake(_));
        let [stab, own] = self.overhead(is_cake, reading)?;
        let qdisc = format!("qdisc add dev {name}");
        let class = format!("class add dev {name}");
        // Bursts and quanta of a millisecond, and of a packet at least.
        let least = (rate / 8).max(PACKET);
        let timing = format!("quantum {least} burst {least} cburst {least} {own}");
        match shape {
            Shape::Cake(words) => {
                let text = format!("{qdisc} root {stab} cake bandwidth {rate}kbit {words} {own}");
                self.push(commands, text, added.clone());
            }
            Shape::Bucket => {
                let text = format!("{qdisc} root handle 1: {stab} tbf rate {rate}kbit");
                let text = format!("{text} burst {least} latency 300ms {own}");
                self.push(commands, text, Vec::new());
                self.push(commands, format!("{qdisc} parent 1: handle 110: {leaf}"), added.clone());
            }
            Shape::One => {
                self.push(
                    commands,
                    format!("{qdisc} root handle 1: {stab} htb default 10"),
                    vec![],
                );
                let text = format!("{class} parent 1: classid 1:10 htb rate {rate}kbit {timing}");
                self.push(commands, text, Vec::new());
                let text = format!("{qdisc} parent 1:10 handle 110: {leaf}");
                self.push(commands, text, added.clone());
            }
            Shape::Three => {
                self.push(
                    commands,
                    format!("{qdisc} root handle 1: {stab} htb default 12"),
                    vec![],
                );
                let text = format!("{class} parent 1: classid 1:1 htb rate {rate}kbit {timing}");
                self.push(commands, text, Vec::new());
                self.three(one, &timing, commands);
                let note = "sqm sorts by firewall marks that it sets by DSCP: here rules compare \
                            the DSCP";
                reading.approximated(self.line, note);
            }
        }
        Some(())
    }

    /// Writes three classes, their queues, and filters by DSCP.
    fn three(&self, one: &Direction, timing: &str, commands: &mut Vec<Command>) {
        let Direction { name, rate, leaf, added, .. } = one;
        let (third, sixth, most) = (rate / 3, (rate / 6).max(1), rate.saturating_sub(16).max(1));
        let quantum = if leaf.starts_with("fq_codel") { " quantum 300" } else { "" };
        let first = 128.min(third.max(1));
        let classes = [
            (11, "priority", first, third.max(1), 1),
            (12, "best-effort", sixth, most.max(sixth), 2),
            (13, "background", sixth, most.max(sixth), 3),
        ];
        for (minor, word, least, most, prio) in classes {
            self.push(commands, format!("#class 1:{minor} {word}"), Vec::new());
            let place = format!("class add dev {name} parent 1:1 classid 1:{minor}");
            let rates = format!("rate {least}kbit ceil {most}kbit prio {prio}");
            self.push(commands, format!("{place} htb {rates} {timing}"), Vec::new());
            let place = format!("qdisc add dev {name} parent 1:{minor} handle {minor}0:");
            self.push(commands, format!("{place} {leaf}{quantum}"), added.clone());
        }
        for (tos, minor) in DSCPS {
            for (protocol, prio) in [("ip", 1), ("ipv6", 2)] {
                let place = format!("filter add dev {name} parent 1: protocol {protocol}");
                let text = format!("{place} prio {prio} flower ip_tos {tos:#x}/0xfc");
                self.push(commands, format!("{text} classid 1:{minor}"), Vec::new());
            }
        }
    }

    /// Adds a command; its words stand where the section begins, or where the file adds them.
    fn push(&self, commands: &mut Vec<Command>, text: String, added: Vec<Word>) {
        let one = |text: &str| Word { text: text.to_owned(), span: self.span };
        let words = text.split_whitespace().map(one).chain(added).collect();
        commands.push(Command { line: self.line, words });
    }
}

/// Options of a queue, their fate, and what is said of them.
const OPTIONS: [(&[&str], Fate, &str); 5] = [
    (
        &[
            "enabled",
            "interface",
            "download",
            "upload",
            "qdisc",
            "script",
            "linklayer",
            "overhead",
            "tcMPU",
            "ingress_ecn",
            "egress_ecn",
            "ilimit",
            "elimit",
            "itarget",
            "etarget",
            "iqdisc_opts",
            "eqdisc_opts",
            "squash_ingress",
            "linklayer_adaptation_mechanism",
        ],
        Fate::Kept,
        "",
    ),
    (
        &[
            "qdisc_advanced",
            "qdisc_really_really_advanced",
            "linklayer_advanced",
            "debug_logging",
            "verbosity",
        ],
        Fate::Kept,
        "it changes no packet",
    ),
    (&["tcMTU", "tcTSIZE"], Fate::Kept, "it sizes a table that Weir does not need"),
    (&["squash_dscp"], Fate::Approximated, "left out: Weir clears no DSCP"),
    (
        &["shaper_burst", "htb_quantum_function", "use_mq", "target"],
        Fate::Approximated,
        "left out: bursts and quanta are those of a millisecond",
    ),
];
/// The scripts of sqm-scripts.
const SCRIPTS: [(&str, Shape); 5] = [
    ("piece_of_cake.qos", Shape::Cake("besteffort nat")),
    ("layer_cake.qos", Shape::Cake("diffserv3 nat")),
    ("simplest.qos", Shape::One),
    ("simple.qos", Shape::Three),
    ("simplest_tbf.qos", Shape::Bucket),
];
/// The traffic classes that do not go to the best effort of `simple.qos`, and the class of each.
const DSCPS: [(u8, u8); 5] = [(0x20, 13), (0xc0, 11), (0xb8, 11), (0x90, 11), (0x10, 11)];
/// Words of cake that no other queue has.
const CAKE_WORDS: [&str; 21] = [
    "nat",
    "nonat",
    "srchost",
    "dsthost",
    "hosts",
    "dual-srchost",
    "dual-dsthost",
    "triple-isolate",
    "besteffort",
    "diffserv3",
    "diffserv4",
    "diffserv8",
    "precedence",
    "wash",
    "nowash",
    "ingress",
    "egress",
    "ack-filter",
    "no-ack-filter",
    "split-gso",
    "no-split-gso",
];
/// The packets of a queue that names no limit.
const LIMIT: u64 = 1001;
/// The packet of the least burst.
const PACKET: u64 = 1514;
/// The largest number of an option: more kbit/s than any link has.
const RATE_MAX: u64 = 1_000_000_000;
