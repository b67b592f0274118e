//! Keeps the host's own network stack from acting on frames of a claimed interface.
//!
//! A packet socket sees a frame before the hook `tcx ingress`, the stack behind it. So a program
//! there that drops everything leaves Weir's copy as the only one: no router advertisement
//! configures the host, nothing is answered, and nothing is forwarded a second time. The program is
//! attached by a descriptor, so it goes with the process. Where it is not permitted (user
//! namespaces, kernels before 6.6), settings of the interface prevent most of this; a process that
//! is killed leaves them behind.

use std::fs;
use std::path::PathBuf;

use super::network::Interface;
use crate::bpf::{self, Code, Hook, Kind, Program};
use crate::error::Result;

/// What keeps the host quiet, until it is dropped.
#[derive(Debug)]
pub(super) enum Quiet {
    /// A program drops what the interface receives.
    Program(#[expect(dead_code, reason = "the open descriptor keeps it attached")] bpf::Link),
    /// Settings, with their former values.
    Settings(Vec<Setting>),
}

/// A setting of an interface.
#[derive(Debug)]
pub(super) struct Setting {
    path: PathBuf,
    before: String,
}

impl Quiet {
    /// Silences the host at `interface`; says in `notes` what may still happen.
    pub(super) fn new(interface: &Interface, has_ip6: bool, notes: &mut Vec<String>) -> Self {
        match drop_all(interface.index) {
            Ok(link) => Self::Program(link),
            Err(_) => Self::by_settings(&interface.name, has_ip6, notes),
        }
    }

    fn by_settings(name: &str, has_ip6: bool, notes: &mut Vec<String>) -> Self {
        let mut settings = Vec::new();
        let mut refused = Vec::new();
        for (family, key, value) in SETTINGS {
            if *key == DISABLE_IP6 && has_ip6 {
                // It would remove the addresses for good.
                continue;
            }
            let path = PathBuf::from(format!("/proc/sys/net/{family}/conf/{name}/{key}"));
            // A host without IPv6 has no such settings, and needs none.
            let Ok(before) = fs::read_to_string(&path) else { continue };
            if before.trim() == *value {
                continue;
            }
            match fs::write(&path, value) {
                Ok(()) => settings.push(Setting { path, before }),
                Err(_) => refused.push(format!("net.{family}.conf.{name}.{key}={value}")),
            }
        }
        if !refused.is_empty() {
            notes.push(format!(
                "`{name}`: the host may answer or forward frames that cross it, since this process \
                 may neither attach a program (root, Linux 6.6) nor write {}; write it with sysctl",
                refused.join(", ")
            ));
        }
        Self::Settings(settings)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Self::Settings(settings) = self {
            // In reverse: IPv6 comes back before its other settings do.
            for setting in settings.iter().rev() {
                // The interface may be gone, and its settings with it.
                drop(fs::write(&setting.path, &setting.before));
            }
        }
    }
}

fn drop_all(index: u32) -> Result<bpf::Link> {
    let mut code = Code::new();
    code.give(TCX_DROP);
    Program::load(Kind::Packet, "weir_quiet", &code)?.attach(index, Hook::TcxIngress)
}

/// <linux/bpf.h>, `tcx_action_base`.
const TCX_DROP: i32 = 2;
/// The key that turns IPv6 off.
const DISABLE_IP6: &str = "disable_ipv6";
/// Family, key and value of settings that keep the host from forwarding, from answering for
/// addresses of its other interfaces, and from being configured.
const SETTINGS: &[(&str, &str, &str)] = &[
    ("ipv4", "forwarding", "0"),
    ("ipv4", "arp_ignore", "8"),
    ("ipv6", "accept_ra", "0"),
    ("ipv6", "forwarding", "0"),
    ("ipv6", DISABLE_IP6, "1"),
];
