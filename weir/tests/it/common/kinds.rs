//! A small file of each kind that the command tells apart, and the command in their folder.

use std::fs;
use std::process::Command;
use tempfile::TempDir;

/// A folder with these files.
pub fn folder() -> TempDir {
    let folder = TempDir::new().expect("a place for temporary files");
    for (name, bytes) in FILES {
        fs::write(folder.path().join(name), bytes).expect("is writable");
    }
    folder
}

/// The command with these words as arguments, in this folder.
pub fn command(folder: &TempDir, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(folder.path()).args(words.split(' '));
    command
}

const FILES: &[(&str, &[u8])] = &[
    (
        "policy.toml",
        b"link = { rate = '1 Mbit/s', scheduler = 'fifo' }\n[class.all]\ndefault = true\n\
          [[promise]]\nthat = 'all.rate >= 0.1 Mbit/s'\nunder = 'scenario.toml'\n",
    ),
    (
        "deployment.toml",
        b"[deployment]\nports = { inside = 'no-such0', outside = 'no-such1' }\n\
          [direction.up]\nfrom = 'inside'\nto = 'outside'\npolicy = 'policy.toml'\n",
    ),
    (
        "scenario.toml",
        b"policy = 'policy.toml'\nduration = '1 s'\n[[source]]\nname = 'a'\nkind = 'cbr'\n\
          rate = '0.5 Mbit/s'\nsize = '500 B'\n",
    ),
    (
        "network.toml",
        b"duration = '1 s'\n[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n[[link]]\n\
          name = 'ab'\nends = ['a', 'b']\nrate = '1 Mbit/s'\n",
    ),
    ("capture.pcap", b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\0\0\0"),
    ("hosts.csv", b"id,ip\n1,10.0.0.1\n"),
    ("report.json", b"{ \"scenario\": \"x\", \"seed\": 1 }\n"),
    ("packets.parquet", b"PAR1\x15\x04\x15\0PAR1"),
    (
        "set-up.sh",
        b"#!/bin/sh\ntc qdisc add dev eth0 root handle 1: htb default 10\n\
          tc class add dev eth0 parent 1: classid 1:10 htb rate 1mbit\n",
    ),
    (
        "altq.conf",
        b"interface fxp0 bandwidth 10M cbq\nclass cbq fxp0 root NULL pbandwidth 100\n\
          class cbq fxp0 all root pbandwidth 90 default\n",
    ),
    (
        "sqm",
        b"config queue 'wan'\n\toption enabled '1'\n\toption interface 'eth1'\n\
          \toption download '85000'\n\toption upload '9000'\n\toption script 'simplest.qos'\n",
    ),
    ("uplink.network", b"[Match]\nName=eth0\n[CAKE]\nBandwidth=40M\n"),
    ("router.rsc", b"/queue simple\nadd name=a target=10.0.0.1 max-limit=5M/20M\n"),
    (
        "router.cfg",
        b"class-map VOICE\n match dscp ef\npolicy-map WAN\n class VOICE\n  priority percent 20\n",
    ),
    (
        "ShapedDevices.csv",
        b"Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,\
          Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment\n\
          1,a,1,b,,,100.64.0.1,,1,1,5,5,\n",
    ),
    ("rc.firewall", b"ipfw pipe 1 config bw 5Mbit/s\nipfw add 10 pipe 1 ip from any to any out\n"),
    ("qos.json", b"{\"openconfig-qos:qos\": {\"scheduler-policies\": {}}}\n"),
    (
        "pf.conf",
        b"altq on em0 cbq bandwidth 10Mb queue { all }\nqueue all bandwidth 100% cbq(default)\n\
          pass out on em0 queue all\n",
    ),
];
