//! Each check on facts made for it: files in a folder of the test, and what was tried.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::tried::{Attempt, Tried};
use super::wakeup::Wakeup;
use super::*;
use weir_host::ethtool::Features;
use weir_host::netlink::LinkState;

/// A row: files, facts, what is wanted; the check, and what it must say of it.
struct Row {
    files: &'static [(&'static str, &'static str)],
    change: fn(&mut Facts, &mut Wanted),
    check: &'static str,
    level: Level,
    text: &'static str,
}

const LINK: LinkState = LinkState {
    index: 7,
    is_up: true,
    has_carrier: true,
    is_operational: true,
    mtu: 1500,
    mac: None,
    is_ethernet: true,
    has_xdp: false,
};

/// A host on which all is well.
fn healthy(folder: PathBuf) -> (Facts, Wanted) {
    let tried = Tried {
        tcx: Attempt::Works,
        xdp_native: Attempt::Works,
        xdp_generic: Attempt::Works,
        fanout: Attempt::Works,
        user_namespace: true,
        landlock: Some(6),
        seccomp: true,
        memlock: None,
        stamp_error_ns: Some(0),
        clock_ns: 30,
        cpus: vec![0, 1],
    };
    let interface = InterfaceFacts {
        link: Some(LINK),
        driver: Some("ixgbe".to_owned()),
        queues: Some(1),
        features: Features::default(),
        pause: Some([false, false]),
        rings: Some([512, 512]),
        qdisc: Some("mq".to_owned()),
        folder: Some("sys/class/net/eth7".to_owned()),
        ..InterfaceFacts::default()
    };
    let wakeups = vec![Wakeup::of("normal", vec![50_000; 100])];
    let facts = Facts { files: Files::below(folder), tried, wakeups, interfaces: vec![interface] };
    let wanted = Wanted {
        is_deployment: true,
        memory: Some(64 << 20),
        ..Wanted::of_interfaces(&["eth7".to_owned()])
    };
    (facts, wanted)
}

/// Runs all checks on a healthy host with what a row says of it.
fn findings(files: &[(&str, &str)], change: fn(&mut Facts, &mut Wanted)) -> Vec<Finding> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("weir-doctor-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).expect("a folder");
    // What a row says comes last, and stays.
    for (path, text) in HEALTHY_FILES.iter().chain(files) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("in the folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    let (mut facts, mut wanted) = healthy(folder.clone());
    change(&mut facts, &mut wanted);
    let findings = examine(&facts, &wanted);
    fs::remove_dir_all(folder).expect("the folder of this test");
    findings
}

const STATUS: &str = "proc/self/status";
const HEALTHY_FILES: &[(&str, &str)] = &[
    (STATUS, "Name:\tweir\nCapEff:\t000001ffffffffff\n"),
    ("proc/sys/kernel/osrelease", "6.18.44-generic\n"),
    ("proc/meminfo", "MemTotal: 4194304 kB\nMemAvailable:    2097152 kB\n"),
    ("proc/sys/net/core/bpf_jit_enable", "1\n"),
    ("proc/sys/kernel/unprivileged_bpf_disabled", "2\n"),
    ("proc/sys/net/core/netdev_budget", "300\n"),
    ("proc/sys/net/ipv4/ip_forward", "0\n"),
    ("proc/stat", "cpu  100 0 100 1000 0 0 0 0 0 0\n"),
    ("proc/cpuinfo", "flags\t\t: fpu tsc\n"),
    ("sys/devices/system/cpu/isolated", "1\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
];

const AS_IS: fn(&mut Facts, &mut Wanted) = |_, _| {};
const NO_CAPABILITY: (&str, &str) = (STATUS, "CapEff:\t0000000000000000\n");
const RAW_ALONE: (&str, &str) = (STATUS, "CapEff:\t0000000000002000\n");

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { files: &[NO_CAPABILITY], change: AS_IS, check: "capabilities",
        level: Level::Problem, text: "afpacket: it lacks CAP_NET_RAW" },
    Row { files: &[RAW_ALONE], change: AS_IS, check: "capabilities",
        level: Level::Note, text: "afxdp: it lacks CAP_NET_ADMIN, CAP_BPF" },
    Row { files: &[RAW_ALONE], change: |_, wanted| wanted.ports[0].kind = "afxdp".to_owned(),
        check: "capabilities", level: Level::Problem, text: "afxdp: it lacks" },
    Row { files: &[RAW_ALONE], change: |_, wanted| wanted.ports[0].is_host = true,
        check: "capabilities", level: Level::Problem, text: "host ports: it lacks" },
    Row { files: &[("proc/sys/kernel/osrelease", "4.19.0-26")], change: AS_IS, check: "kernel",
        level: Level::Problem, text: "4.20" },
    Row { files: &[("proc/sys/kernel/osrelease", "6.1.0-18-amd64")], change: AS_IS,
        check: "kernel", level: Level::Note, text: "6.6" },
    Row { files: &[("proc/sys/kernel/osrelease", "6.1.0")],
        change: |_, wanted| wanted.ports[0].is_host = true, check: "kernel",
        level: Level::Problem, text: "6.6" },
    Row { files: &[], change: |facts, _| facts.tried.tcx = Attempt::Refused("EPERM".to_owned()),
        check: "tcx", level: Level::Warning, text: "EPERM" },
    Row { files: &[], change: |facts, wanted| {
            facts.tried.tcx = Attempt::Refused("EPERM".to_owned());
            wanted.fails_open = true;
        }, check: "tcx", level: Level::Problem, text: "EPERM" },
    Row { files: &[("etc/passwd", "root:x:0:0::/:/bin/sh\n")],
        change: |_, wanted| wanted.user = Some("nobody".to_owned()), check: "user",
        level: Level::Problem, text: "no user `nobody`" },
    Row { files: &[("etc/passwd", "nobody:x:65534:0::/:/bin/sh\n")],
        change: |_, wanted| wanted.user = Some("nobody".to_owned()), check: "user",
        level: Level::Good, text: "`nobody`" },
    Row { files: &[], change: |_, wanted| wanted.is_real_time = true, check: "priority",
        level: Level::Warning, text: "realtime" },
    Row { files: &[], change: |facts, _| facts.tried.xdp_native = Attempt::Untried,
        check: "af-xdp", level: Level::Note, text: "not tried" },
    Row { files: &[], change: |facts, wanted| {
            facts.tried.xdp_native = Attempt::Refused("no".to_owned());
            wanted.ports[0].kind = "afxdp".to_owned();
        }, check: "af-xdp", level: Level::Problem, text: "no" },
    Row { files: &[], change: |facts, _| facts.tried.fanout = Attempt::Refused("no".to_owned()),
        check: "sorting", level: Level::Warning, text: "packet sockets" },
    Row { files: &[], change: |facts, _| facts.tried.landlock = None, check: "sandbox",
        level: Level::Warning, text: "landlock" },
    Row { files: &[], change: |facts, _| facts.tried.seccomp = false, check: "sandbox",
        level: Level::Warning, text: "seccomp" },
    Row { files: &[], change: |facts, _| facts.tried.user_namespace = false,
        check: "user-namespaces", level: Level::Note, text: "weir demo" },
    Row { files: &[RAW_ALONE], change: |facts, _| facts.tried.memlock = Some(8 << 20),
        check: "locked-memory", level: Level::Note, text: "8 MiB" },
    Row { files: &[], change: |facts, _| facts.tried.memlock = Some(8 << 20),
        check: "locked-memory", level: Level::Good, text: "as much" },
    Row { files: &[("proc/meminfo", "MemAvailable: 1024 kB\n")], change: AS_IS, check: "memory",
        level: Level::Problem, text: "at most 64 MiB" },
    Row { files: &[("proc/sys/net/core/bpf_jit_enable", "0")], change: AS_IS, check: "bpf",
        level: Level::Warning, text: "interprets" },
    Row { files: &[("proc/sys/kernel/unprivileged_bpf_disabled", "0")], change: AS_IS,
        check: "bpf", level: Level::Note, text: "any user" },
    Row { files: &[RAW_ALONE, ("proc/sys/net/core/rmem_max", "212992"),
            ("proc/sys/net/core/wmem_max", "4194304")], change: AS_IS, check: "buffers",
        level: Level::Warning, text: "208 KiB to receive" },
    Row { files: &[("proc/sys/net/core/netdev_budget", "64")], change: AS_IS,
        check: "netdev-budget", level: Level::Warning, text: "64 frames" },
    Row { files: &[("proc/sys/net/ipv4/ip_forward", "1")],
        change: |facts, _| facts.tried.tcx = Attempt::Untried, check: "routing",
        level: Level::Warning, text: "second time" },
    Row { files: &[], change: |_, wanted| wanted.ports[0].is_host = true, check: "routing",
        level: Level::Note, text: "own traffic only" },
    Row { files: &[("proc/sys/net/ipv4/conf/all/rp_filter", "1")],
        change: |_, wanted| wanted.ports[0].is_host = true, check: "reverse-path",
        level: Level::Note, text: "strict" },
    Row { files: &[], change: |_, wanted| wanted.cpus = vec![5], check: "cpus",
        level: Level::Problem, text: "CPU 5" },
    Row { files: &[], change: |facts, _| facts.tried.cpus = vec![0], check: "cpus",
        level: Level::Warning, text: "1 CPU;" },
    Row { files: &[("sys/devices/system/cpu/isolated", "\n")], change: AS_IS, check: "cpus",
        level: Level::Note, text: "none is kept free" },
    Row { files: &[("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n")],
        change: AS_IS, check: "governor", level: Level::Warning, text: "powersave" },
    Row { files: &[("proc/stat", "cpu  100 0 100 1000 0 0 0 50 0 0\n"),
            ("proc/cpuinfo", "flags\t: fpu hypervisor\n")], change: AS_IS, check: "steal",
        level: Level::Warning, text: "20.0 %" },
    Row { files: &[("proc/cpuinfo", "flags\t: hypervisor\n")], change: AS_IS, check: "steal",
        level: Level::Note, text: "virtual machine" },
    Row { files: &[("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet"),
            ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet")],
        change: |facts, _| facts.tried.clock_ns = 900, check: "clock", level: Level::Warning,
        text: "`hpet`, and reading it takes 900 ns" },
    Row { files: &[], change: |facts, _| facts.tried.stamp_error_ns = Some(5_000_000),
        check: "stamps", level: Level::Warning, text: "5000 µs" },
    Row { files: &[], change: |facts, _| {
            facts.wakeups = vec![Wakeup::of("normal", vec![900_000; 100])];
        }, check: "wake-up", level: Level::Warning, text: "99 % at most 900" },
    Row { files: &[], change: |facts, _| {
            facts.wakeups.insert(0, Wakeup::of("normal", vec![900_000; 100]));
        }, check: "wake-up", level: Level::Note, text: "99 % at most 900" },
    Row { files: &[], change: |facts, _| facts.interfaces[0].link = None, check: "interface",
        level: Level::Problem, text: "no such interface" },
    Row { files: &[], change: |facts, _| {
            facts.interfaces[0].link = Some(LinkState { is_ethernet: false, ..LINK });
        }, check: "interface", level: Level::Problem, text: "Ethernet" },
    Row { files: &[], change: |facts, _| {
            facts.interfaces[0].prospect.refusal = Some(("in use".to_owned(), "c".to_owned()));
        }, check: "use", level: Level::Problem, text: "in use" },
    Row { files: &[], change: |facts, wanted| {
            wanted.is_deployment = false;
            facts.interfaces[0].prospect.refusal = Some(("in use".to_owned(), "c".to_owned()));
        }, check: "use", level: Level::Warning, text: "in use" },
    Row { files: &[], change: |facts, _| {
            facts.interfaces[0].prospect.holder = Some(("12".to_owned(), "home".to_owned()));
        }, check: "use", level: Level::Note, text: "`home` has it now (process 12)" },
    Row { files: &[], change: |facts, _| {
            facts.interfaces[0].link = Some(LinkState { is_up: false, ..LINK });
        }, check: "carrier", level: Level::Warning, text: "set down" },
    Row { files: &[], change: |facts, _| {
            facts.interfaces[0].link = Some(LinkState { has_carrier: false, ..LINK });
        }, check: "carrier", level: Level::Warning, text: "no carrier" },
    Row { files: &[], change: |facts, _| facts.interfaces[0].driver = Some("veth".to_owned()),
        check: "driver", level: Level::Note, text: "super-packets" },
    Row { files: &[], change: AS_IS, check: "driver", level: Level::Note, text: "real-card" },
    Row { files: &[], change: |facts, _| facts.interfaces[0].queues = Some(8), check: "queues",
        level: Level::Note, text: "8 queues: `auto` takes AF_XDP for one" },
    Row { files: &[], change: |facts, wanted| {
            facts.interfaces[0].queues = Some(8);
            wanted.ports[0].kind = "afpacket".to_owned();
        }, check: "queues", level: Level::Good, text: "packet sockets read all" },
    Row { files: &[], change: |facts, wanted| {
            facts.interfaces[0].queues = Some(8);
            wanted.ports[0].kind = "afxdp".to_owned();
        }, check: "queues", level: Level::Note, text: "8 queues, which one thread reads" },
    Row { files: &[], change: |facts, wanted| {
            facts.interfaces[0].queues = Some(4);
            wanted.ports[0].kind = "afxdp".to_owned();
            wanted.ports[0].shares = 4;
        }, check: "queues", level: Level::Good, text: "4 queues, each of which has a thread" },
    Row { files: &[], change: |facts, wanted| {
            facts.interfaces[0].queues = Some(9);
            wanted.ports[0].kind = "afxdp".to_owned();
        }, check: "queues", level: Level::Problem, text: "9 queues, above the 8" },
    Row { files: &[], change: |facts, wanted| {
            facts.interfaces[0].link = Some(LinkState { mtu: 16_500, ..LINK });
            wanted.ports[0].kind = "afxdp".to_owned();
        }, check: "mtu", level: Level::Problem, text: "above 16000" },
    Row { files: &[], change: |facts, wanted| {
            let narrow = InterfaceFacts {
                link: Some(LinkState { mtu: 1400, ..LINK }), ..InterfaceFacts::default()
            };
            facts.interfaces.push(narrow);
            wanted.ports.push(WantedPort { interface: "eth8".to_owned(), ..wanted.ports[0].clone() });
        }, check: "mtu", level: Level::Warning, text: "another port 1400" },
    Row { files: &[], change: |facts, _| facts.interfaces[0].features.joins_in_card = Some(true),
        check: "offloads", level: Level::Warning, text: "LRO" },
    Row { files: &[], change: |facts, wanted| {
            wanted.ports[0].kind = "afpacket".to_owned();
            facts.interfaces[0].features.joins = Some(true);
        }, check: "offloads", level: Level::Note, text: "GRO" },
    Row { files: &[], change: |facts, _| facts.interfaces[0].features.takes_tags_off = Some(true),
        check: "offloads", level: Level::Note, text: "VLAN" },
    Row { files: &[], change: |facts, _| facts.interfaces[0].pause = Some([true, false]),
        check: "pause", level: Level::Warning, text: "it obeys pause frames" },
    Row { files: &[], change: |facts, _| facts.interfaces[0].rings = Some([64, 256]),
        check: "ring", level: Level::Warning, text: "64 frames" },
    Row { files: &[], change: |facts, _| facts.interfaces[0].rings = Some([512, 4096]),
        check: "ring", level: Level::Note, text: "4096 frames" },
    Row { files: &[], change: |facts, wanted| {
            wanted.ports[0].is_host = true;
            facts.interfaces[0].qdisc = Some("htb".to_owned());
        }, check: "qdisc", level: Level::Note, text: "after Weir" },
    Row { files: &[], change: |facts, _| facts.interfaces[0].qdisc = Some("cake".to_owned()),
        check: "qdisc", level: Level::Note, text: "bypass" },
    Row { files: &[], change: |facts, _| {
            facts.interfaces[0].link = Some(LinkState { has_xdp: true, ..LINK });
        }, check: "xdp-program", level: Level::Warning, text: "before Weir" },
    Row { files: &[("sys/class/net/eth7/device/msi_irqs/30", "msix"),
            ("proc/irq/30/effective_affinity_list", "1")],
        change: |_, wanted| wanted.cpus = vec![1], check: "interrupts", level: Level::Warning,
        text: "CPU 1, which a bridge has" },
    Row { files: &[("sys/class/net/eth7/device/msi_irqs/30", "msix"),
            ("proc/irq/30/effective_affinity_list", "0-1")], change: AS_IS,
        check: "interrupts", level: Level::Good, text: "CPU 0-1" },
    Row { files: &[], change: |_, wanted| wanted.missing = vec!["no folder `x`".to_owned()],
        check: "files", level: Level::Warning, text: "no folder" },
    Row { files: &[], change: |_, wanted| wanted.refused = Some("everybody may read".to_owned()),
        check: "files", level: Level::Problem, text: "everybody" },
    Row { files: &[("sys/class/net/eth7/queues/rx-0/rps_cpus", "00000000,00000003\n")],
        change: AS_IS, check: "interrupts", level: Level::Note, text: "RPS" },
];

#[test]
fn each_check_finds_what_it_is_for() {
    for row in ROWS {
        let found = findings(row.files, row.change);
        let fits = |finding: &&Finding| {
            finding.check == row.check
                && finding.level == row.level
                && finding.text.contains(row.text)
        };
        let of_check: Vec<_> = found.iter().filter(|finding| finding.check == row.check).collect();
        let finding = found.iter().find(fits);
        assert!(finding.is_some(), "{} {:?}: {of_check:#?}", row.check, row.text);
        let cured = finding.is_some_and(|finding| finding.cure.is_some());
        assert!(row.level < Level::Warning || cured, "{} has no cure", row.text);
    }
}

#[test]
fn every_check_has_a_row() {
    let names = host::CHECKS.iter().map(|check| check.name);
    for name in names.chain(ports::CHECKS.iter().map(|check| check.name)) {
        assert!(ROWS.iter().any(|row| row.check == name), "{name}");
    }
}

#[test]
fn a_healthy_host_has_no_warning() {
    let found = findings(&[], AS_IS);
    let bad: Vec<_> = found.iter().filter(|finding| finding.level > Level::Note).collect();
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn lateness_is_summed_up_by_its_ranks() {
    let wakeup = Wakeup::of("normal", (1..=300).rev().collect());
    assert_eq!((wakeup.p50_ns, wakeup.p99_ns, wakeup.max_ns), (150, 297, 300));
    let one = Wakeup::of("real-time", vec![7]);
    assert_eq!((one.p50_ns, one.p99_ns, one.max_ns, one.count), (7, 7, 7, 1));
}
