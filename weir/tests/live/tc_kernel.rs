//! Random tc scripts, in the kernel and imported: each packet goes to the same class, and each class
//! that is marked kept has the same rate, ceil, burst and quantum; exported, it has the same bursts
//! again. Needs root or user namespaces and `tc`. WEIR_TC_SCRIPTS is the number of scripts.

pub mod imported;
pub mod kinds;
pub mod script;

use imported::{fitting, parsed};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use weir_core::classify::InterfaceId;
use weir_core::packet::Headers;
use weir_core::random::Random;
use weir_core::units::Instant;
use weir_host::probe;
use weir_import::export::{self, Filters};
use weir_import::import::{Fate, Import};
use weir_policy::Policy;
use weir_testbed::rows::{Need, Outcome, Row};
use weir_testbed::{RIGHT, Testbed, TestbedConfig};

/// Scripts without WEIR_TC_SCRIPTS.
const SCRIPTS: u64 = 8;
/// At this rate in bit/s no burst of a script takes 137 s.
const SLOW: u64 = 20_000;
/// Packets for each set of filters.
const PACKETS: usize = 24;

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = Row> {
    let row = Row::new("tc_kernel::the_kernel_and_the_import_agree_on_random_scripts", agree);
    std::iter::once(row.needs(&[Need::PrivateNetworks, Need::Program("tc")]))
}

fn agree() -> Outcome {
    let scripts = std::env::var("WEIR_TC_SCRIPTS").ok().and_then(|text| text.parse().ok());
    let scripts = scripts.unwrap_or(SCRIPTS);
    let testbed = Testbed::new(TestbedConfig::default())?;
    let mut counts = Counts::default();
    for seed in 0..scripts {
        let run = || script_agrees(seed, &mut counts).map_err(|why| format!("seed {seed}: {why}"));
        testbed.weir.run(run)??;
    }
    println!(
        "{scripts} scripts: {} classes and {} packets compared, 0 disagreements",
        counts.classes, counts.packets
    );
    if counts.classes < scripts || counts.packets < scripts * PACKETS as u64 {
        return Err(format!("too little was compared: {counts:?}").into());
    }
    Ok(())
}

#[derive(Default, Debug)]
struct Counts {
    classes: u64,
    packets: u64,
}

/// Compares one script: first with the filters that are kept, by any packet; then with those, too,
/// that are approximated since the kernel compares ports at a fixed place, by ordinary packets.
fn script_agrees(seed: u64, counts: &mut Counts) -> Result<(), String> {
    let mut random = Random::new(seed, 0);
    let script = script::script(RIGHT, &mut random);
    let ports = |note: &str| {
        let fixed = note.contains("a header of 20 bytes") || note.contains("extension");
        fixed && !note.contains("every protocol")
    };
    for ordinary in [false, true] {
        let fits = |fate: Fate, note: &str| fate == Fate::Kept || ordinary && ports(note);
        let (text, import) = fitting(&script, fits)?;
        let policy = parsed(&import, &text)?;
        load(&text)?;
        counts.classes += classes_agree(&policy, &import, &text)?;
        let mut sent = arrived()?;
        for _ in 0..PACKETS {
            let frame = script::frame(ordinary, &mut random);
            packet_agrees(&policy, &frame, &mut sent).map_err(|why| format!("{why}\n{text}"))?;
            counts.packets += 1;
        }
        exported_bursts_agree(&policy)?;
    }
    Ok(())
}

/// Loads the classes of the policy's export, and compares the kernel's bursts with the policy's.
fn exported_bursts_agree(policy: &Policy) -> Result<(), String> {
    let export = export::to_tc(policy, RIGHT, Filters::U32)?;
    let classes = |line: &&String| line.starts_with("class") || line.contains(" root ");
    let lines = export.lines.iter().filter(classes);
    load(&lines.fold(String::new(), |text, line| text + line + "\n"))?;
    let kernel = shown()?;
    for class in &export.classes {
        let words = kernel.get(&class.id.replace(':', "-")).ok_or("a class is missing")?;
        let rows = values(policy, &class.name, words)?;
        // A burst that no tick has becomes the next, two microseconds of the rate on at most; the
        // ticks of a longer one than 274 s do not fit.
        let rate = class.ceil.unwrap_or(0);
        if class.rate.unwrap_or(0) < SLOW {
            continue;
        }
        let near = |found: &str, wanted: &str| {
            let pair = found.parse::<u64>().ok().zip(wanted.parse::<u64>().ok());
            pair.is_some_and(|(found, wanted)| {
                (found..=found + 2 + rate / 4_000_000).contains(&wanted)
            })
        };
        let differs = rows.iter().find(|row| row.0.ends_with("burst") && !near(&row.1, &row.2));
        if let Some(row) = differs.filter(|_| written(policy, &class.name)) {
            return Err(format!("export of {}: {row:?}\n{}", class.name, export.batch()));
        }
    }
    Ok(())
}

/// Returns whether the policy writes both bursts of a class.
fn written(policy: &Policy, name: &str) -> bool {
    let params = policy.class(name).map(|id| &policy.link.tree.class(id).params);
    params.is_some_and(|params| ["burst", "cburst"].iter().all(|key| params.bytes(key).is_some()))
}

/// Loads a script into the kernel, which must take every line.
pub fn load(text: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let deleted = tc(&["qdisc", "del", "dev", RIGHT, "root"]);
    drop(deleted);
    let mut command = Command::new("tc");
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    child.stdin.take().expect("it is piped").write_all(text.as_bytes()).map_err(failed)?;
    let output = child.wait_with_output().map_err(failed)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("tc refuses: {}\n{text}", String::from_utf8_lossy(&output.stderr))),
    }
}

pub fn tc(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("tc").args(arguments).output().map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the words about each class, by its name in a policy.
pub fn shown() -> Result<BTreeMap<String, Vec<String>>, String> {
    let text = tc(&["-s", "-d", "class", "show", "dev", RIGHT])?;
    let mut classes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["class", _, id, ..] = words.as_slice() {
            name = id.replace(':', "-");
        }
        classes.entry(name.clone()).or_default().extend(words.into_iter().map(str::to_owned));
    }
    Ok(classes)
}

fn behind<'w>(words: &'w [String], key: &str) -> &'w str {
    let at = words.iter().position(|word| word == key);
    at.and_then(|at| words.get(at + 1)).map_or("", String::as_str)
}

/// Compares the classes whose lines are kept; returns their number.
fn classes_agree(policy: &Policy, import: &Import, text: &str) -> Result<u64, String> {
    let classes = shown()?;
    let mut compared = 0;
    for line in import.lines.iter().filter(|line| line.text.starts_with("class")) {
        let words: Vec<String> = line.text.split_whitespace().map(str::to_owned).collect();
        let name = behind(&words, "classid").replace(':', "-");
        let kernel = classes.get(&name).ok_or_else(|| format!("no class {name}\n{text}"))?;
        if line.fate != Fate::Kept {
            continue;
        }
        compared += 1;
        for (key, found, wanted) in values(policy, &name, kernel)? {
            if found != wanted {
                let why = format!("class {name}: {key} is {found}, the kernel has {wanted}");
                return Err(format!("{why}\n{text}\n{}", import.policies[0].policy));
            }
        }
    }
    Ok(compared)
}

/// Returns the name of each value, Weir's and the kernel's.
pub fn values(
    policy: &Policy,
    name: &str,
    kernel: &[String],
) -> Result<Vec<(&'static str, String, String)>, String> {
    let tree = &policy.link.tree;
    let id = policy.class(name).ok_or_else(|| format!("Weir has no class {name}"))?;
    let params = &tree.class(id).params;
    let bits = |key: &str| params.rate(key).map(|rate| rate.bits_per_second());
    let rate = bits("rate").unwrap_or(0);
    let ceil = bits("ceil").unwrap_or(rate);
    let kernel_bits = |key: &str| behind(kernel, key).to_owned();
    let mut rows = vec![
        ("rate", shown_rate(rate), kernel_bits("rate")),
        ("ceil", shown_rate(ceil), kernel_bits("ceil")),
    ];
    // A class that has sent nothing holds a full bucket, in ticks of 64 ns.
    for (key, bucket, rate) in [("burst", "tokens:", rate), ("cburst", "ctokens:", ceil)] {
        let ticks: u128 = behind(kernel, bucket).parse().map_err(|_| format!("{kernel:?}"))?;
        let bytes = (ticks * 64 * u128::from(rate / 8) + 500_000_000) / 1_000_000_000;
        let found = params.bytes(key).map_or(0, |bytes| bytes.get());
        // The kernel shows no more than 2^31 - 1 ticks, 137 s.
        let kernel = if ticks < i32::MAX as u128 { bytes.max(1) } else { found.into() };
        rows.push((key, found.to_string(), kernel.to_string()));
    }
    if tree.leaf_of(id).is_some() {
        let r2q = tree.params().number("r2q").unwrap_or(10);
        let usual = (rate / 8 / r2q).clamp(1000, 200_000).max(tree.mtu().get());
        let quantum = params.bytes("quantum").map_or(usual, |bytes| bytes.get());
        rows.push(("quantum", quantum.to_string(), behind(kernel, "quantum").to_owned()));
        let prio = params.number("prio").unwrap_or(0);
        rows.push(("prio", prio.to_string(), behind(kernel, "prio").to_owned()));
    }
    Ok(rows)
}

/// Formats a rate as tc does: in the largest unit of which it is a multiple, or above 1000.
fn shown_rate(bits: u64) -> String {
    let mut rate = bits;
    let mut units = ["bit", "Kbit", "Mbit", "Gbit", "Tbit"].into_iter();
    loop {
        let unit = units.next().unwrap_or("bit");
        if rate < 1000 || !rate.is_multiple_of(1000) && rate < 1_000_000 || unit == "Tbit" {
            return format!("{rate}{unit}");
        }
        rate /= 1000;
    }
}

/// Sends a frame, and compares the class in which it is counted or waits with Weir's.
fn packet_agrees(
    policy: &Policy,
    frame: &[u8],
    sent: &mut BTreeMap<String, u64>,
) -> Result<(), String> {
    let before = std::mem::take(sent);
    probe::send(RIGHT, &[frame.to_vec()]).map_err(|error| error.to_string())?;
    let after = arrived()?;
    let leaf =
        |name: &str| policy.class(name).and_then(|id| policy.link.tree.leaf_of(id)).is_some();
    let grown = after.iter().find(|(name, count)| leaf(name) && before.get(*name) != Some(count));
    let kernel = grown.map_or("direct", |(name, _)| name.as_str()).to_owned();
    *sent = after;
    let headers = Headers::parse_ethernet(frame);
    let found = policy.classifier().classify(Instant::ZERO, InterfaceId(0), &headers);
    let weir = policy.leaf_name(found.leaf);
    match weir == kernel {
        true => Ok(()),
        false => Err(format!("Weir sends it to {weir}, the kernel to {kernel}: {frame:02x?}")),
    }
}

/// Returns how many packets each class has sent, holds or dropped.
fn arrived() -> Result<BTreeMap<String, u64>, String> {
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().unwrap_or(0)
    };
    let count = |words: Vec<String>| {
        let after = |key: &str, skip: usize| {
            let at = words.iter().position(|word| word == key);
            at.and_then(|at| words.get(at + skip)).map_or(0, |word| number(word))
        };
        after("Sent", 3) + after("backlog", 2) + after("(dropped", 1)
    };
    Ok(shown()?.into_iter().map(|(name, words)| (name, count(words))).collect())
}
