//! Random tc scripts with filters of all kinds, in the kernel of `bench/twin` and imported: each
//! packet goes to the same class with the same code point, or is dropped by the same policer. WEIR_TC_TWIN is the folder that
//! `bench/twin/build.sh` made; only with it there is such a row, for `cargo xtask figures twin`. WEIR_TC_SCRIPTS is the
//! number of scripts.

use crate::tc_kernel::imported;
use crate::tc_kernel::kinds;
use crate::tc_kernel::script;
use weir_testbed::rows::Row;

use imported::{fitting, parsed};
use kinds::Sent;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_core::classify::InterfaceId;
use weir_core::packet::Headers;
use weir_core::police::Action;
use weir_core::random::Random;
use weir_core::units::Instant;
use weir_import::import::Fate;
use weir_policy::Policy;

const SCRIPTS: u64 = 100;
const PACKETS: usize = 40;

/// A script with the packets and Weir's decision for each.
struct Case {
    text: String,
    sent: Vec<(Sent, String)>,
    leaves: Vec<u32>,
}

/// Returns its row, if WEIR_TC_TWIN is set.
pub fn rows() -> impl Iterator<Item = Row> {
    let folder = std::env::var_os("WEIR_TC_TWIN").map(PathBuf::from);
    folder.into_iter().map(|folder| {
        let test = move || {
            agree(&folder);
            Ok(())
        };
        Row::of("tc_twin::the_twin_and_the_import_agree_on_random_filters", test).needs(&[])
    })
}

fn agree(folder: &Path) {
    let scripts = std::env::var("WEIR_TC_SCRIPTS").ok().and_then(|text| text.parse().ok());
    let cases: Vec<Case> = (0..scripts.unwrap_or(SCRIPTS)).map(case).collect();
    write(folder, &cases);
    let found = booted(folder);
    let mut packets = 0;
    let mut wrong = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let lines = found.get(&number).unwrap_or_else(|| panic!("script {number} did not run"));
        match differences(case, lines) {
            Some(why) => wrong.push(format!("seed {number}: {why}\n{}", case.text)),
            None => packets += case.sent.len(),
        }
    }
    println!("{} scripts: {packets} packets agree, {} scripts differ", cases.len(), wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn case(seed: u64) -> Case {
    let mut random = Random::new(seed, 0);
    let mut script = script::script("v0", &mut random);
    // Rates and queues are compared on the host's kernel; here every packet leaves at once.
    script.tree = script.tree.iter().filter_map(|line| plain(line)).collect();
    let flat = [None, Some("qfq weight 10"), Some("drr")][(seed / 2 % 3) as usize];
    flat.into_iter().for_each(|discipline| flatten(&mut script, discipline));
    script.tree.extend(script.leaves.iter().filter_map(|minor| leaf_queue(*minor, &mut random)));
    kinds::add(&mut script, &mut random);
    let whole = seed % 2 == 1;
    let kept = |fate: Fate, note: &str| {
        fate == Fate::Kept || fate == Fate::Approximated && fits(note, whole)
    };
    let (text, import) = fitting(&script, kept).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    let policy = parsed(&import, &text).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    let sent = (0..PACKETS).map(|_| kinds::sent(whole, &mut random));
    let sent = sent.map(|sent| (decision(&policy, &sent), sent)).map(|(found, sent)| (sent, found));
    Case { text, sent: sent.collect(), leaves: script.leaves }
}

/// Returns whether a filter that is approximated takes the same packets: those of the guest have tags
/// of 802.1q only, and in scripts with `whole` packets no fragments.
fn fits(note: &str, whole: bool) -> bool {
    let says = |words: &[&str]| words.iter().any(|words| note.contains(words));
    let fragments = if whole { "ports of fragments" } else { "802.1ad" };
    let other = ["rate", "20 bytes", "extension", "every protocol"];
    let other = says(&other) || !whole && says(&["ports of fragments"]);
    says(&["802.1ad", fragments]) && !other
}

/// Returns the line with one rate for all classes; none for a leaf's queue.
fn plain(line: &str) -> Option<String> {
    match line.split_once(" htb rate ") {
        Some((class, _)) => Some(format!("{class} htb rate 1gbit")),
        None => (!line.contains("parent")).then(|| line.to_owned()),
    }
}

/// Puts the leaves below a discipline whose classes have no children, and drops the filters of
/// others.
fn flatten(script: &mut script::Script, discipline: &str) {
    let keyword = discipline.split(' ').next().unwrap_or_default();
    let class =
        |minor: &u32| format!("class add dev v0 parent 1: classid 1:{minor:x} {discipline}");
    script.tree = vec![format!("qdisc add dev v0 root handle 1: {keyword}")];
    script.tree.extend(script.leaves.iter().map(class));
    script.filters.retain(|line| line.contains("parent 1: "));
}

fn leaf_queue(minor: u32, random: &mut Random) -> Option<String> {
    let queues = [
        "",
        "sfq",
        "sfq perturb 10",
        "red limit 400000 min 30000 max 90000 avpkt 1000 bandwidth 1gbit",
    ];
    let queue = queues[random.below(4) as usize];
    (!queue.is_empty()).then(|| format!("qdisc add dev v0 parent 1:{minor:x} {queue}"))
}

/// Returns the class's minor number, or `-` for a packet that goes to none, and of a packet of IP that
/// is sent the byte of its traffic class.
fn decision(policy: &Policy, sent: &Sent) -> String {
    let frame = sent.tagged();
    let mut headers = Headers::parse_ethernet(&frame);
    headers.mark = sent.mark;
    let found = policy.classifier().classify(Instant::ZERO, InterfaceId(0), &headers);
    let name = policy.leaf_name(found.leaf);
    let action = found.meter.map_or(Action::Pass, |meter| {
        let plan = &policy.link.meters[meter.index()];
        if let Some(dscp) = plan.marks_all() {
            return Action::Mark(dscp);
        }
        let depth = plan.params.bytes("depth").map_or(u64::MAX, |bytes| bytes.get());
        // The kernel keeps the outer tag beside the packet, and does not count it.
        let length = frame.len() - 4 * sent.tags.len().min(1);
        let (outcome, default) = match length as u64 > depth {
            true => ("out", Action::Drop),
            false => ("in", Action::Pass),
        };
        plan.actions.iter().find(|row| row.0 == outcome).map_or(default, |row| row.1)
    });
    let Some(minor) = name.strip_prefix("1-").filter(|_| action != Action::Drop) else {
        return "-".to_owned();
    };
    let byte = match sent.frame[12..] {
        [8, 0, _, byte, ..] => byte,
        [0x86, 0xdd, one, two, ..] => one << 4 | two >> 4,
        _ => return minor.to_owned(),
    };
    let byte = if let Action::Mark(dscp) = action { dscp.code() << 2 | byte & 3 } else { byte };
    format!("{minor} {byte:02x}")
}

fn write(folder: &Path, cases: &[Case]) {
    let scripts = folder.join("ird/scripts");
    drop(fs::remove_dir_all(&scripts));
    fs::create_dir_all(&scripts).expect("the folder can be written");
    for (number, case) in cases.iter().enumerate() {
        let packets = case.sent.iter().map(|(sent, _)| {
            let hex: String = sent.frame.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{} {} {hex}\n", sent.device(), sent.mark)
        });
        let leaves = case.leaves.iter().map(|minor| format!("{minor:x} "));
        for (kind, text) in [
            ("tc", case.text.clone()),
            ("packets", packets.collect()),
            ("leaves", leaves.collect::<String>()),
        ] {
            let path = scripts.join(format!("{number}.{kind}"));
            fs::write(path, text).expect("the folder can be written");
        }
    }
}

/// Boots the guest; returns the lines that it printed for each script.
fn booted(folder: &Path) -> BTreeMap<usize, Vec<String>> {
    let boot = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/twin/boot.sh");
    let output = Command::new(boot).arg(folder).output().expect("the guest boots");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut scripts: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let mut number = None;
    for line in text.lines().map(str::trim) {
        if let Some((_, name)) = line.split_once("== ") {
            number = name.parse().ok();
            scripts.extend(number.map(|number| (number, Vec::new())));
        } else if let Some(lines) = number.and_then(|number| scripts.get_mut(&number)) {
            lines.push(line.to_owned());
        }
    }
    assert!(text.contains("== end"), "the guest stopped early:\n{text}");
    scripts
}

/// Returns how the kernel's lines differ from Weir's decisions.
fn differences(case: &Case, lines: &[String]) -> Option<String> {
    let loaded = lines.iter().position(|line| line == "--").unwrap_or(lines.len());
    if loaded > 0 {
        return Some(format!("tc refuses: {:?}", &lines[..loaded]));
    }
    let counted = &lines[(loaded + 1).min(lines.len())..];
    if counted.len() != case.sent.len() {
        return Some(format!("{} packets were counted", counted.len()));
    }
    let mut pairs = case.sent.iter().zip(counted);
    let (sent, kernel) = pairs.find(|((_, weir), kernel)| weir != *kernel)?;
    let (Sent { tags, mark, frame }, weir) = (&sent.0, &sent.1);
    let hex: String = frame.iter().take(80).map(|byte| format!("{byte:02x}")).collect();
    let length = frame.len();
    Some(format!(
        "Weir sends it to {weir}, the kernel to {kernel}: tags {tags:?}, mark {mark}, {length} \
         bytes, {hex}"
    ))
}
