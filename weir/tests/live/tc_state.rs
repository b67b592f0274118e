//! `weir import tc --from-kernel`: what the kernel has after a script, or after an export, is what
//! the script, or the policy, says. Needs root or user namespaces and `tc`.

use crate::tc_kernel::imported::{fitting, parsed};
use crate::tc_kernel::{load, script, shown, tc, values};
use weir_core::classify::InterfaceId;
use weir_core::packet::Headers;
use weir_core::random::Random;
use weir_core::units::Instant;
use weir_host::disciplines::disciplines;
use weir_import::export::{self, Filters};
use weir_import::import::{self, Import, Options, kernel};
use weir_policy::{Policy, policy};
use weir_testbed::rows::{self, Need, Outcome, Row};
use weir_testbed::{RIGHT, Testbed, TestbedConfig};

type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("what_is_in_force_is_what_the_script_says", scripts_agree),
    ("what_is_exported_is_read_back", exports_agree),
    ("the_command_sees_that_a_tun_device_has_no_ethernet_header", tun_is_seen),
];

/// Scripts without WEIR_TC_SCRIPTS.
const SCRIPTS: u64 = 10;
/// Packets for each.
const PACKETS: usize = 24;

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = Row> {
    rows::table("tc_state", TESTS, &[Need::PrivateNetworks, Need::Program("tc")])
}

/// Returns what the kernel has for a device of this thread's network, as commands of tc.
pub fn dumped(device: &str) -> Result<String, String> {
    let found = disciplines(Some(device)).map_err(|error| error.to_string())?;
    let interface = |one: weir_host::disciplines::Disciplines| kernel::Interface {
        name: one.name,
        ethernet: one.is_ethernet,
        mtu: one.mtu,
        queue_length: one.queue_length,
        qdiscs: one.qdiscs,
        classes: one.classes,
        filters: one.filters,
    };
    Ok(kernel::commands(&found.into_iter().map(interface).collect::<Vec<_>>()))
}

/// Imports commands, which must give a policy.
pub fn read(text: &str) -> Result<Import, String> {
    let language = import::find("tc").ok_or("it is a language")?;
    let outcome = import::read(language, text.as_bytes(), "commands", &Options::default());
    outcome.plan.ok_or_else(|| format!("{:?}\n{text}", outcome.findings))
}

fn scripts_agree() -> Outcome {
    let scripts = std::env::var("WEIR_TC_SCRIPTS").ok().and_then(|text| text.parse().ok());
    let scripts = scripts.unwrap_or(SCRIPTS);
    let testbed = Testbed::new(TestbedConfig::default())?;
    let mut packets = 0;
    for seed in 0..scripts {
        let run = || script_agrees(seed).map_err(|why| format!("seed {seed}: {why}"));
        packets += testbed.weir.run(run)??;
    }
    println!("{scripts} scripts read from the kernel: {packets} packets, 0 in another class");
    Ok(())
}

fn script_agrees(seed: u64) -> Result<usize, String> {
    let mut random = Random::new(seed, 7);
    let script = script::script(RIGHT, &mut random);
    let (text, import) = fitting(&script, |_, note| !note.contains("refuses"))?;
    let said = parsed(&import, &text)?;
    load(&text)?;
    let dump = dumped(RIGHT)?;
    let there = parsed(&read(&dump)?, &dump)?;
    let mut same = || -> Result<(), String> {
        classes_agree(&there, &said)?;
        packets_agree([&said, &there], &mut random)
    };
    same().map_err(|why| format!("{why}\n{text}\n{dump}"))?;
    Ok(PACKETS)
}

/// Compares the classes of a policy with the kernel's, where neither had to be lowered.
fn classes_agree(there: &Policy, said: &Policy) -> Result<(), String> {
    for (name, kernel) in shown()? {
        if there.class(&name).is_none() || kernel.iter().all(|word| word != "htb") {
            continue;
        }
        let rate = |policy: &Policy| {
            let id = policy.class(&name)?;
            policy.link.tree.class(id).params.rate("rate")
        };
        if rate(there) != rate(said) {
            return Err(format!("class {name}: {:?} and {:?}", rate(there), rate(said)));
        }
        let rows = values(there, &name, &kernel)?;
        // A rate that was lowered to fit its parent is the same in both policies; what depends on
        // it is not the kernel's.
        if rows.iter().any(|row| row.0 == "rate" && row.1 != row.2) {
            continue;
        }
        if let Some((key, found, wanted)) = rows.iter().find(|row| row.1 != row.2) {
            return Err(format!("class {name}: {key} is {found}, the kernel has {wanted}"));
        }
    }
    Ok(())
}

fn packets_agree([one, other]: [&Policy; 2], random: &mut Random) -> Result<(), String> {
    for _ in 0..PACKETS {
        let frame = script::frame(false, random);
        let leaf = |policy: &Policy| {
            let headers = Headers::parse_ethernet(&frame);
            let found = policy.classifier().classify(Instant::ZERO, InterfaceId(0), &headers);
            policy.leaf_name(found.leaf).to_owned()
        };
        if leaf(one) != leaf(other) {
            let leaves = [leaf(one), leaf(other)];
            return Err(format!("a packet goes to {leaves:?}: {frame:02x?}"));
        }
    }
    Ok(())
}

const POLICY: &str = r#"
[link]
rate = "20 Mbit/s"
scheduler = "htb"
overhead = { bytes = @ }

[class.line]
rate = "20 Mbit/s"

[class.voice]
parent = "line"
rate = "2 Mbit/s"
ceil = "4 Mbit/s"
burst = "15000 B"
prio = 0
queue = { limit = "30 packets" }
match = [{ proto = "udp", dport = "5004-5010" }, { dscp = "ef" }]

[class.rest]
parent = "line"
rate = "15 Mbit/s"
ceil = "20 Mbit/s"
prio = 2
default = true
"#;

fn exports_agree() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let run = || -> Result<(), String> {
        for overhead in [0, 24, -4, 36] {
            exported(RIGHT, overhead)?;
        }
        made(&["tuntap", "add", "dev", "tun7", "mode", "tun"])?;
        for overhead in [0, 22, -14, -20] {
            exported("tun7", overhead)?;
        }
        Ok(())
    };
    Ok(testbed.weir.run(run)??)
}

/// Exports to a tun device by the command, and imports what is then in force.
fn tun_is_seen() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let run = || -> Result<(), String> {
        made(&["tuntap", "add", "dev", "up7", "mode", "tun"])?;
        let policy = std::env::temp_dir().join(format!("weir-tun-{}.toml", std::process::id()));
        let written = std::fs::write(&policy, POLICY.replace('@', "22"));
        written.map_err(|error| error.to_string())?;
        let path = policy.display().to_string();
        let export = ["export", "tc", &path, "--dev", "up7", "--apply", "--filters", "u32"];
        let rows: [(&[&str], &str); 2] = [
            (&export, "the kernel's state is as exported"),
            (&["import", "tc", "--from-kernel", "--dev", "up7"], "overhead = { bytes = 22 }"),
        ];
        let found = rows.into_iter().try_for_each(|(arguments, wanted)| {
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
            let done = command.args(arguments).output().map_err(|error| error.to_string())?;
            let said = String::from_utf8_lossy(&done.stdout).contains(wanted);
            if said { Ok(()) } else { Err(format!("{wanted}: {done:?}")) }
        });
        std::fs::remove_file(&policy).map_err(|error| error.to_string())?;
        found
    };
    Ok(testbed.weir.run(run)??)
}

fn made(arguments: &[&str]) -> Result<(), String> {
    let done = std::process::Command::new("ip").args(arguments).output();
    let done = done.map_err(|error| error.to_string())?;
    match done.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
    }
}

/// Sets a policy up on a device, and reads it back.
fn exported(device: &str, overhead: i64) -> Result<(), String> {
    let text = POLICY.replace('@', &overhead.to_string());
    let policy = policy::parse(&text, "p").plan.ok_or("the policy is right")?;
    let bare = device != RIGHT;
    let export = export::to_tc_on(&policy, device, bare, Filters::U32)?;
    drop(tc(&["qdisc", "del", "dev", device, "root"]));
    let lines = export.lines.iter().filter(|line| !line.starts_with('#'));
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let done = std::process::Command::new("tc").args(&words).output();
        let done = done.map_err(|error| error.to_string())?;
        if !done.status.success() {
            return Err(format!("{line}: {}", String::from_utf8_lossy(&done.stderr)));
        }
    }
    let dump = dumped(device)?;
    let back = parsed(&read(&dump)?, &dump)?;
    if back.link.framing != policy.link.framing && overhead != 0 {
        let why = format!("{:?} became {:?}", policy.link.framing, back.link.framing);
        return Err(format!("{device}: {why}\n{}\n{dump}", export.batch()));
    }
    for class in &export.classes {
        let id = policy.class(&class.name).ok_or("a class is missing")?;
        let name = class.id.replace(':', "-");
        let own = back.class(&name).ok_or_else(|| format!("no class {name}\n{dump}"))?;
        let (one, other) = (policy.link.tree.class(id), back.link.tree.class(own));
        for key in ["rate", "ceil"] {
            let rate =
                |params: &weir_core::parameter::Params| params.rate(key).or(params.rate("rate"));
            if rate(&one.params) != rate(&other.params) {
                return Err(format!("{device}: {key} of {}\n{dump}", class.name));
            }
        }
    }
    Ok(())
}
