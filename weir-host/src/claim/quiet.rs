//! Keeps the host's own network stack from acting on frames of a claimed interface.
//!
//! A packet socket sees a frame before the hook `tcx ingress`, the stack behind it. So a program
//! there that drops everything leaves Weir's copy as the only one: no router advertisement
//! configures the host, nothing is answered, and nothing is forwarded a second time. The program is
//! attached by a descriptor, so it goes with the process. Where it is not permitted (user
//! namespaces, kernels before 6.6), settings of the interface prevent most of this; a process that
//! is killed leaves them behind.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use super::fallback::{Switch, Ways};
use crate::bpf::{self, Code, Hook, Kind, Program};
use crate::error::Result;
use crate::uapi::verdict::TCX_DROP;

/// The means that keep the host quiet, until this is dropped.
#[derive(Debug)]
pub(super) enum Quiet {
    /// A program drops what the interface receives, or passes it on along these ways.
    Program(bpf::Link, Ways),
    /// Settings, with their former values.
    Settings(Vec<Setting>),
}

/// A setting of an interface.
#[derive(Debug)]
pub(super) struct Setting {
    /// Its place in [`SETTINGS`].
    number: usize,
    path: PathBuf,
    before: String,
}

/// A setting as it was, for another process: its place in the list of settings, and its value.
pub(super) type Before = (usize, String);

impl Quiet {
    /// Attaches a program to the interface `index`, before all others there.
    pub(super) fn by_program(index: u32, switch: Option<&Switch>, ways: Ways) -> Result<Self> {
        let code = match switch {
            Some(switch) => switch.program(&ways),
            None => drop_all(),
        };
        let program = Program::load(Kind::Packet, "weir_quiet", &code)?;
        Ok(Self::Program(program.attach(index, Hook::TcxIngress)?, ways))
    }

    /// Changes settings of the interface `name`; says in `notes` what may still happen. What was
    /// changed `before` this claim is restored with it.
    pub(super) fn by_settings(
        (name, has_ip6): (&str, bool),
        before: &[Before],
        notes: &mut Vec<String>,
    ) -> Self {
        let mut settings: Vec<Setting> = Vec::new();
        let mut refused = Vec::new();
        for (number, (family, key, value)) in SETTINGS.iter().enumerate() {
            if *key == DISABLE_IP6 && has_ip6 {
                // It would remove the addresses for good.
                continue;
            }
            let path = PathBuf::from(format!("/proc/sys/net/{family}/conf/{name}/{key}"));
            if let Some((_, before)) = before.iter().find(|known| known.0 == number) {
                settings.push(Setting { number, path, before: before.clone() });
                continue;
            }
            // A host without IPv6 has no such settings, and needs none.
            let Ok(before) = fs::read_to_string(&path) else { continue };
            if before.trim() == *value {
                continue;
            }
            match fs::write(&path, value) {
                Ok(()) => settings.push(Setting { number, path, before }),
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

    /// Returns what another process needs in order to keep the host quiet when this one ends: a
    /// copy of the program's link, or the settings as they were.
    pub(super) fn copy(&self) -> io::Result<(Option<OwnedFd>, Vec<Before>)> {
        match self {
            Self::Program(link, _) => Ok((Some(link.as_fd().try_clone_to_owned()?), Vec::new())),
            Self::Settings(settings) => {
                let before = settings.iter().map(|one| (one.number, one.before.clone()));
                Ok((None, before.collect()))
            }
        }
    }
}

/// Returns whether a setting of another process can be one of these, and its value a value.
pub(super) fn is_sound((number, value): &Before) -> bool {
    let number_in_words = value.strip_suffix('\n').unwrap_or(value);
    *number < SETTINGS.len() && value.len() <= 16 && number_in_words.parse::<i32>().is_ok()
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

fn drop_all() -> Code {
    let mut code = Code::new();
    code.give(TCX_DROP);
    code
}

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
