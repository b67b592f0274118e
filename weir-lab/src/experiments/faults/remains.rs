//! The things that a link could leave behind in the namespace of its ports: sockets, locks, routes,
//! programs, settings of interfaces, processes.

use super::link::text;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};
use weir_host::bpf::{self, Hook};
use weir_host::netlink::Netlink;
use weir_testbed::{LEFT, RIGHT, Testbed, processes_in};

/// The things in a namespace, each with a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Snapshot(Vec<(&'static str, String)>);

impl Snapshot {
    pub(super) fn take(testbed: &Testbed) -> Result<Self, String> {
        let mut parts = testbed.weir.run(inside).map_err(text)??;
        let processes: Vec<_> = processes_in(&testbed.weir).iter().map(u32::to_string).collect();
        parts.push(("processes", processes.join(" ")));
        Ok(Self(parts))
    }

    /// Returns what differs, with what it was before and is now.
    fn differences(&self, now: &Self) -> Vec<String> {
        let pairs = self.0.iter().zip(&now.0).filter(|(before, now)| before != now);
        pairs.map(|((name, before), (_, now))| format!("{name}: {}", diff(before, now))).collect()
    }
}

/// Waits until there is what there was before; returns what still differs then.
pub(super) fn await_same(before: &Snapshot, testbed: &Testbed) -> Result<Vec<String>, String> {
    let start = Instant::now();
    loop {
        let differences = before.differences(&Snapshot::take(testbed)?);
        // The kernel frees some things a moment after their last descriptor.
        if differences.is_empty() || start.elapsed() > PATIENCE {
            return Ok(differences);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Lists the things of the namespace that this thread is in.
fn inside() -> Result<Vec<(&'static str, String)>, String> {
    let mut parts = Vec::new();
    for (name, file) in FILES {
        let content = fs::read_to_string(format!("/proc/thread-self/net/{file}"));
        parts.push((*name, inodes_and_names(&content.map_err(text)?)));
    }
    for (name, arguments) in PROGRAMS {
        let output = Command::new(arguments[0]).args(&arguments[1..]).output().map_err(text)?;
        parts.push((*name, String::from_utf8_lossy(&output.stdout).into_owned()));
    }
    let mut netlink = Netlink::open().map_err(text)?;
    let mut attached = Vec::new();
    for interface in [LEFT, RIGHT] {
        let state = netlink.link(interface).map_err(text)?;
        attached.push(format!("{interface}: XDP {}", state.has_xdp));
        for hook in [Hook::TcxIngress, Hook::TcxEgress] {
            let count = bpf::attached(state.index, hook).map_err(text)?;
            attached.push(format!("{interface}: {hook:?} {count}"));
        }
    }
    parts.push(("programs at the ports", attached.join("\n")));
    Ok(parts)
}

/// Sorts lines, and leaves out the addresses in the kernel, which differ from time to time.
fn inodes_and_names(table: &str) -> String {
    let without_address = |line: &str| match line.split_once(' ') {
        Some((address, rest)) if address.len() > 8 => rest.to_owned(),
        _ => line.to_owned(),
    };
    let mut lines: Vec<String> = table.lines().map(without_address).collect();
    lines.sort();
    lines.join("\n")
}

fn diff(before: &str, now: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), now.lines().collect());
    let gone = old.iter().filter(|line| !new.contains(line)).map(|line| format!("- {line}"));
    let came = new.iter().filter(|line| !old.contains(line)).map(|line| format!("+ {line}"));
    gone.chain(came).collect::<Vec<_>>().join(" ")
}

const FILES: &[(&str, &str)] = &[
    ("packet sockets", "packet"),
    ("unix sockets and locks", "unix"),
    ("udp sockets", "udp"),
    ("routes", "route"),
    ("IPv6 routes", "ipv6_route"),
    ("IPv6 addresses", "if_inet6"),
];

const PROGRAMS: &[(&str, &[&str])] = &[
    ("interfaces", &["ip", "-d", "-o", "link", "show"]),
    ("addresses", &["ip", "-o", "addr", "show"]),
    ("queues", &["tc", "qdisc", "show"]),
];

const PATIENCE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_named() {
        let snapshot = |routes: &str| Snapshot(vec![("routes", routes.to_owned())]);
        let before = snapshot("a\nb");
        assert!(before.differences(&snapshot("a\nb")).is_empty());
        assert_eq!(before.differences(&snapshot("b\nc")), ["routes: - a + c"]);
    }

    #[test]
    fn addresses_in_the_kernel_do_not_count() {
        let table = |address: &str| format!("sk RefCnt\n{address} 3 3 0003 2\n");
        let (first, second) = ("ffff88810a", "ffff88820b");
        assert_eq!(inodes_and_names(&table(first)), inodes_and_names(&table(second)));
    }
}
