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
        "pf.conf",
        b"altq on em0 cbq bandwidth 10Mb queue { all }\nqueue all bandwidth 100% cbq(default)\n\
          pass out on em0 queue all\n",
    ),
];
