//! A file of another kind than a verb takes: the message says which kind it is, which verb takes it
//! and how to get the kind that is needed.

use crate::common::kinds;

use kinds::{command, folder};

/// The files: their names, and the words that messages have for their kinds.
const KINDS: &[(&str, &str)] = &[
    ("policy.toml", "a policy"),
    ("deployment.toml", "a deployment"),
    ("scenario.toml", "a scenario"),
    ("network.toml", "a scenario"),
    ("capture.pcap", "a capture"),
    ("hosts.csv", "a list in CSV"),
    ("report.json", "JSON"),
    ("packets.parquet", "a Parquet file"),
    ("set-up.sh", "a script of tc commands"),
    ("altq.conf", "an altq.conf"),
    ("pf.conf", "a pf.conf"),
    ("sqm", "an OpenWrt configuration of sqm"),
    ("uplink.network", "a .network file of systemd-networkd"),
    ("router.rsc", "a configuration of RouterOS"),
    ("router.cfg", "a configuration of Cisco IOS"),
    ("ShapedDevices.csv", "a file of LibreQoS"),
    ("rc.firewall", "a configuration of ipfw"),
    ("qos.json", "an OpenConfig QoS configuration"),
];

/// Runs a verb with a file of each kind in place of `FILE`. The files `taken` are read, though they
/// may have errors; every other one is refused, by the name of its kind.
fn check(words: &str, taken: &[&str]) {
    let folder = folder();
    for (file, kind) in KINDS {
        let words = words.replace("FILE", file);
        let output = command(&folder, &words).output().expect("weir starts");
        let said = String::from_utf8_lossy(&output.stderr);
        let refused = format!("weir: {file} is {kind}");
        let named = said.starts_with(&refused) && said.contains(", not a");
        assert_eq!(!named, taken.contains(file), "{words}: {said}");
        if named {
            assert_eq!(output.status.code(), Some(2), "{words}: {said}");
            assert!(said.contains("; for "), "{words}: {said}");
            let ways = ["`weir ", "no verb", "Weir does not read it: "];
            assert!(ways.iter().any(|way| said.contains(way)), "{words}: {said}");
        }
    }
}

#[test]
fn a_file_of_another_kind_is_named_with_its_verb_and_the_way_to_the_right_kind() {
    let scenarios = ["scenario.toml", "network.toml"];
    check("check FILE", &["policy.toml", "deployment.toml", "scenario.toml", "network.toml"]);
    check("diff FILE policy.toml", &["policy.toml"]);
    check("diff policy.toml FILE", &["policy.toml"]);
    check("test FILE", &["policy.toml"]);
    check("replay FILE capture.pcap", &["policy.toml"]);
    check("replay policy.toml FILE", &["capture.pcap"]);
    check("export tc FILE --dev eth0", &["policy.toml"]);
    check("convert FILE --scheduler htb", &["policy.toml"]);
    check("sim FILE", &scenarios);
    check("compare FILE --schedulers drr,fifo", &scenarios);
    check("measure FILE capture.pcap --policy policy.toml", &["capture.pcap"]);
    check("measure capture.pcap FILE --policy policy.toml", &["capture.pcap"]);
    check("measure capture.pcap capture.pcap --policy FILE", &["policy.toml"]);
    check("up FILE", &["deployment.toml"]);
    check("doctor FILE", &["deployment.toml"]);
    check("import tc FILE", &["set-up.sh"]);
    check("import altq FILE", &["altq.conf"]);
    check("import pf FILE", &["pf.conf"]);
    check("import sqm FILE", &["sqm"]);
    check("import systemd FILE", &["uplink.network"]);
    check("import routeros FILE", &["router.rsc"]);
    check("import mqc FILE", &["router.cfg"]);
    check("import libreqos FILE", &["ShapedDevices.csv"]);
}

#[test]
fn import_without_a_kind_names_the_command_for_the_file() {
    let folder = folder();
    for (words, said) in [
        ("import set-up.sh", "`weir import tc set-up.sh`"),
        ("import pf.conf", "`weir import pf pf.conf`"),
        ("import sqm", "`weir import sqm` wants a FILE"),
        ("import uplink.network", "`weir import systemd uplink.network`"),
        ("import router.rsc", "`weir import routeros router.rsc`"),
        ("import router.cfg", "`weir import mqc router.cfg`"),
        ("import ShapedDevices.csv", "`weir import libreqos ShapedDevices.csv`"),
        ("import rc.firewall", "which Weir does not read: write a class for each `pipe`"),
        ("import ipfw rc.firewall", "weir has no importer for `ipfw`: write a class"),
        ("import qos.json", "an OpenConfig QoS configuration, which Weir does not read"),
        ("import hosts.csv", "what hosts.csv is, is not known: name its kind, one of"),
        ("import nothing", "`nothing` is neither a kind of file nor a file"),
        ("import tc", "wants a FILE, or `--from-kernel`, or `--run SCRIPT`"),
    ] {
        let output = command(&folder, words).output().expect("weir starts");
        assert_eq!(output.status.code(), Some(2), "{words}: {output:?}");
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(printed.contains(said), "{words}: {said}\nin {printed}");
    }
}

#[test]
fn the_status_of_a_file_names_its_deployment() {
    let folder = folder();
    let path = folder.path().join("deployment.toml");
    let named = std::fs::read_to_string(&path).expect("it is there");
    let named = named.replace("[deployment]", "[deployment]\nname = 'weir-test-none'");
    std::fs::write(folder.path().join("no-such-place.toml"), named).expect("is writable");
    for (file, said) in [
        ("deployment.toml", "write its name: `weir status deployment`"),
        ("./deployment.toml", "write its name: `weir status deployment`"),
        ("no-such-place.toml", "write its name: `weir status weir-test-none`"),
        ("./policy.toml", "\"./policy.toml\" is not a name of a deployment"),
    ] {
        let output = command(&folder, &format!("status {file}")).output().expect("weir starts");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{file}: {output:?}");
    }
    let help = command(&folder, "status --help").output().expect("weir starts");
    let usage = "Usage: weir status [OPTIONS] [NAME|--control <SOCKET>]";
    assert!(String::from_utf8_lossy(&help.stdout).contains(usage), "{help:?}");
}
