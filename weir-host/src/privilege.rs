//! The privileges of this process: which one is missing, how to get it, and what works without it.

use std::fmt;
use std::fs;

use crate::uapi::capability::{CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN};

/// The privileges of this process, found by reading its capabilities and by trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privilege {
    /// CAP_NET_RAW: may open packet sockets, so `weir up` works.
    pub net_raw: bool,
    /// CAP_NET_ADMIN: may set up interfaces and larger socket buffers.
    pub net_admin: bool,
    /// CAP_SYS_ADMIN: may make network namespaces, so `weir demo` works.
    pub sys_admin: bool,
    /// May enter a user namespace, in which it has all of these over its own networks.
    pub user_namespace: bool,
}

/// An activity that needs a privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Forwarding between interfaces of this machine.
    Live,
    /// Private networks: the demo and the live tests.
    PrivateNetworks,
}

/// A need that cannot be met; its text names the privilege, how to get it, and what works without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing(Need);

impl Privilege {
    /// Reads the capabilities of this process and tries whether it may enter a user namespace.
    pub fn detect() -> Self {
        let effective = effective_capabilities();
        let has = |capability: u32| effective >> capability & 1 == 1;
        Self {
            net_raw: has(CAP_NET_RAW),
            net_admin: has(CAP_NET_ADMIN),
            sys_admin: has(CAP_SYS_ADMIN),
            user_namespace: try_user_namespace(),
        }
    }

    /// Returns whether private networks can be made right away, without a user namespace.
    pub fn makes_networks(&self) -> bool {
        self.net_raw && self.net_admin && self.sys_admin
    }

    /// Checks whether `need` can be met.
    pub fn check(&self, need: Need) -> Result<(), Missing> {
        let met = match need {
            Need::Live => self.net_raw,
            Need::PrivateNetworks => self.makes_networks() || self.user_namespace,
        };
        if met { Ok(()) } else { Err(Missing(need)) }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Need::Live => {
                "forwarding needs CAP_NET_RAW, which this process lacks; run it as root, or once \
                 `sudo setcap cap_net_raw,cap_net_admin,cap_bpf+ep \"$(command -v weir)\"`; \
                 without it `check`, `sim`, `replay` and `bench` work, and `demo` where user \
                 namespaces do"
            }
            Need::PrivateNetworks => {
                "private networks need CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_NET_RAW, or a user \
                 namespace, and this process has neither; run it as root, or let an \
                 administrator allow user namespaces (sysctl user.max_user_namespaces=10000, and \
                 where they exist kernel.unprivileged_userns_clone=1 and \
                 kernel.apparmor_restrict_unprivileged_userns=0); without it `check`, `sim`, \
                 `replay` and `bench` work"
            }
        })
    }
}

impl std::error::Error for Missing {}

/// Returns which of the capabilities that a tap needs ([`crate::tap`]) this process lacks, by their
/// names in <linux/capability.h>.
pub fn lacking_for_taps() -> Vec<&'static str> {
    let effective = effective_capabilities();
    let lacks = |capability: u32| effective >> capability & 1 == 0;
    TAP_CAPABILITIES.iter().filter(|(bit, _)| lacks(*bit)).map(|(_, name)| *name).collect()
}

/// Returns why this process can make no tap, in words.
///
/// # Errors
/// The capabilities that it lacks.
pub fn ready_for_taps() -> Result<(), String> {
    match lacking_for_taps().as_slice() {
        [] => Ok(()),
        lacking => Err(format!("this process lacks {}", lacking.join(", "))),
    }
}

const TAP_CAPABILITIES: [(u32, &str); 4] = [
    (CAP_NET_ADMIN, "CAP_NET_ADMIN"),
    (CAP_NET_RAW, "CAP_NET_RAW"),
    (CAP_SYS_ADMIN, "CAP_SYS_ADMIN"),
    (CAP_BPF, "CAP_BPF"),
];

fn effective_capabilities() -> u64 {
    effective_in(&fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// Returns the effective capabilities that a `/proc/PID/status` tells, a bit each.
pub fn effective_in(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Tries it in a child process, since a process that has entered one cannot leave it.
fn try_user_namespace() -> bool {
    // SAFETY: the child makes only the two system calls below, which are safe after a fork even
    // where the parent has threads; the parent waits for exactly that child.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let refused = libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) != 0;
            libc::_exit(i32::from(refused));
        }
        if child < 0 {
            return false;
        }
        let mut status = 0;
        while libc::waitpid(child, &mut status, 0) < 0 {
            if *libc::__errno_location() != libc::EINTR {
                return false;
            }
        }
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_cure() {
        let none =
            Privilege { net_raw: false, net_admin: false, sys_admin: false, user_namespace: false };
        let rows = [
            (none, Need::Live, Some("CAP_NET_RAW")),
            (none, Need::PrivateNetworks, Some("user namespaces")),
            (Privilege { user_namespace: true, ..none }, Need::PrivateNetworks, None),
            (Privilege { user_namespace: true, ..none }, Need::Live, Some("setcap")),
            (Privilege { net_raw: true, ..none }, Need::Live, None),
        ];
        for (privilege, need, expected) in rows {
            let text = privilege.check(need).err().map(|missing| missing.to_string());
            let matches = match (&text, expected) {
                (Some(text), Some(part)) => text.contains(part),
                (None, None) => true,
                _ => false,
            };
            assert!(matches, "{privilege:?} {need:?} gave {text:?}");
        }
    }
}
