//! Queues that `tc qdisc show` prints otherwise than tc takes them: numbers with units, keys of
//! JSON with names of their own, and options that it does not show at all [iproute2 tc/q_*.c].

use super::super::words::number;
use super::queues::{CELLS, burst_of};
use super::units::{size, time};

/// How an option of JSON becomes words of tc.
enum Form {
    /// The word of tc, with a unit behind the value.
    Named(&'static str, &'static str),
    /// The value itself.
    Itself,
    /// The words for its values; nothing for another one.
    Words(&'static [(&'static str, &'static str)]),
    /// A time in microseconds, which tc takes in milliseconds.
    Millis,
}

/// Returns an option of JSON as tc takes it, for keys that have another name or meaning there.
pub(super) fn option(kind: &str, key: &str, value: &str) -> Option<String> {
    let row = OPTIONS.iter().find(|row| row.0.contains(&kind) && row.1 == key)?;
    Some(match &row.2 {
        Form::Named(word, unit) => format!("{word} {value}{unit}"),
        Form::Itself => value.to_owned(),
        Form::Words(words) => {
            let found = words.iter().find(|row| row.0 == value);
            found.map_or_else(String::new, |row| row.1.to_owned())
        }
        Form::Millis => {
            format!("{key} {}", number(value).map_or(0, |micros| micros / 1_000))
        }
    })
}

/// Returns a value behind the word `before` as tc takes it: `30p` are 30 packets, `10sec` of
/// `perturb` are ten. `None` if it is printed as it is taken.
pub(super) fn bare(before: &str, text: &str) -> Option<String> {
    let digits = |unit: &str| {
        let rest = text.strip_suffix(unit)?;
        let plain = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| rest.to_owned())
    };
    match before {
        "perturb" => digits("sec"),
        "penalty_rate" => digits("pps"),
        "flows" => text.split('/').next().map(str::to_owned),
        // Printed with six decimals, a gain is the next 256th.
        "alpha" | "beta" if text.contains('.') => {
            let parts = (text.parse::<f64>().ok()? * 256.0).round();
            Some((parts / 256.0).to_string())
        }
        "rehash" | "db" if number(text).is_none() => {
            time(text).map(|time| (time / 1_000_000).to_string())
        }
        _ if PACKETS.contains(&before) => digits("p"),
        _ => None,
    }
}

/// Reads an indented line of options; `None` for one of figures.
pub(super) fn further(kind: &str, words: &[&str]) -> Option<String> {
    match (kind, words) {
        ("gred", ["vq", ..]) => Some(words.join(" ")),
        // Before iproute2 5.5, with times in milliseconds.
        (
            "sfb",
            [
                "increment",
                up,
                "decrement",
                down,
                "penalty",
                "rate",
                rate,
                "burst",
                burst,
                rest @ ..,
            ],
        ) => {
            let mut text = format!(
                "increment {up} decrement {down} penalty_rate {rate} penalty_burst {burst}"
            );
            if let [rehash, db] = rest {
                let (rehash, db) = (rehash.trim_start_matches('('), db.trim_end_matches(')'));
                text += &format!(" rehash {rehash} db {db}");
            }
            Some(text)
        }
        _ => None,
    }
}

/// Returns whether a line that is not indented has figures alone.
pub(super) fn is_figures(kind: &str, line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    kind == "dualpi2" && DUALPI2_FIGURES.contains(&first)
}

/// Returns the options of a queue by the commands that set them: the one that adds it, and those
/// that change it.
pub(super) fn commands(kind: &str, words: &[String]) -> Vec<Vec<String>> {
    match kind {
        "choke" => vec![average(words, 1.0)],
        "gred" => {
            let mut all = vec![vec!["setup".to_owned()]];
            for word in words {
                if word == "vq" {
                    all.push(vec!["avpkt".to_owned(), PACKET.to_string()]);
                }
                all.last_mut().expect("it has the setup").push(word.clone());
            }
            for queue in all.iter_mut().skip(1) {
                *queue = average(queue, PACKET);
            }
            all
        }
        "cake" => {
            let mut words = words.to_vec();
            if let Some(at) = words.windows(2).position(|pair| pair == ["bandwidth", "unlimited"]) {
                words.remove(at);
            }
            vec![words]
        }
        _ => vec![words.to_vec()],
    }
}

/// Puts a burst and a bandwidth in the place of the weight and the table that `-d` shows; `packet`
/// is what the thresholds count. The kernel does not tell the table, but the size of its cells.
fn average(words: &[String], packet: f64) -> Vec<String> {
    let value = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1)
    };
    let log = |name: &str| value(name)?.parse().ok().filter(|log: &u32| *log < 32);
    let min = value("min").and_then(|text| size(text)).unwrap_or(0) as f64 / packet;
    let found = log("ewma")
        .zip(log("Scell_log"))
        .and_then(|(weight, cells)| burst_of(1 << weight, min, (CELLS << cells) * 1_000 / 31));
    let mut out = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "ewma" | "Scell_log" | "Plog" => drop(words.next()),
            _ => out.push(word.clone()),
        }
    }
    match found {
        Some((burst, rate)) => out.extend([
            "burst".to_owned(),
            burst.to_string(),
            "bandwidth".to_owned(),
            format!("{rate}bit"),
        ]),
        None => out.push(SHOWN.to_owned()),
    }
    out
}

/// The word for options that are not shown: no line of tc can have it.
pub(super) const SHOWN: &str = "#shown";
/// The bytes of a packet by which bursts of a `gred` count.
const PACKET: f64 = 1000.0;
/// Words whose values are packets.
const PACKETS: [&str; 7] =
    ["limit", "flow_limit", "min", "max", "target", "min_qlen_step", "penalty_burst"];
/// The first words of `dualpi2`'s figures, which tc does not indent.
const DUALPI2_FIGURES: [&str; 6] =
    ["prob", "pkts_in_c", "ecn_mark", "credit", "memory_used", "memory"];
/// Keys of JSON that are no words of tc, by their kinds.
const OPTIONS: &[(&[&str], &str, Form)] = &[
    (CAKES, "autorate", Form::Words(&[("autorate-ingress", "autorate-ingress")])),
    (CAKES, "diffserv", Form::Itself),
    (CAKES, "flowmode", Form::Itself),
    (CAKES, "atm", Form::Itself),
    (
        CAKES,
        "ack-filter",
        Form::Words(&[
            ("enabled", "ack-filter"),
            ("aggressive", "ack-filter-aggressive"),
            ("disabled", "no-ack-filter"),
        ]),
    ),
    (CAKES, "split_gso", Form::Words(&[])),
    (DUALPI2, "memory-limit", Form::Named("memlimit", "")),
    (DUALPI2, "step-thresh-pkts", Form::Named("step_thresh", "p")),
    (DUALPI2, "step-thresh-us", Form::Named("step_thresh", "us")),
    (DUALPI2, "min-qlen-step", Form::Named("min_qlen_step", "")),
    (DUALPI2, "coupling", Form::Named("coupling_factor", "")),
    (
        DUALPI2,
        "drop-overload",
        Form::Words(&[("drop", "drop_on_overload"), ("overflow", "overflow")]),
    ),
    (
        DUALPI2,
        "drop-early",
        Form::Words(&[("drop-enqueue", "drop_enqueue"), ("drop-dequeue", "drop_dequeue")]),
    ),
    (DUALPI2, "c-protection", Form::Named("classic_protection", "")),
    (DUALPI2, "ecn-mask", Form::Words(&[("l4s-ect", "l4s_ect"), ("any-ect", "any_ect")])),
    (DUALPI2, "split-gso", Form::Words(&[])),
    (FQ, "pacing", Form::Words(&[("false", "nopacing")])),
    (SFB, "rehash", Form::Millis),
    (SFB, "db", Form::Millis),
    (GRED, "dp_cnt", Form::Named("vqs", "")),
    (GRED, "dp_default", Form::Named("default", "")),
];
const CAKES: &[&str] = &["cake", "cake_mq"];
const DUALPI2: &[&str] = &["dualpi2"];
const FQ: &[&str] = &["fq"];
const SFB: &[&str] = &["sfb"];
const GRED: &[&str] = &["gred"];
