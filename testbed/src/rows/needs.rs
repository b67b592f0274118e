//! The needs of a row: parts of the machine and privileges. Each is looked for once.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::OnceLock;

use weir_host::bpf::{Code, Kind, Map, Program};
use weir_host::privilege;
use weir_host::wait::usable_cpus;

use super::PREPARED;

/// Something that a row needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Private networks: root, or user namespaces.
    PrivateNetworks,
    /// Programs in the kernel on interfaces of private networks, as host ports and `on_exit =
    /// "open"` load them: root.
    Root,
    /// AF_XDP sockets on interfaces of private networks: root, and a kernel that has them.
    AfXdp,
    /// User namespaces that a process without privileges may make.
    UserNamespaces,
    /// The real-time class: its privilege, and two processors.
    Realtime,
    /// A program of this name in PATH.
    Program(&'static str),
}

/// Returns why one of these needs is not met, if one is not.
pub(super) fn missing(needs: &[Need]) -> Option<String> {
    needs.iter().find_map(|need| need.check().err())
}

impl Need {
    fn check(self) -> Result<(), String> {
        static ROOT: OnceLock<Result<(), String>> = OnceLock::new();
        static AF_XDP: OnceLock<Result<(), String>> = OnceLock::new();
        match self {
            Self::PrivateNetworks => networks(),
            Self::Root => ROOT.get_or_init(root).clone(),
            Self::AfXdp => AF_XDP.get_or_init(af_xdp).clone(),
            Self::UserNamespaces => user_namespaces(),
            Self::Realtime => realtime(),
            Self::Program(name) => program(name),
        }
    }
}

fn networks() -> Result<(), String> {
    PREPARED.get().cloned().unwrap_or_else(|| Err("`rows::main` was not called".to_owned()))
}

/// In a user namespace a process has every capability, and still may load no program.
fn root() -> Result<(), String> {
    networks()?;
    privilege::ready_for_taps()?;
    let mut code = Code::new();
    code.give(0);
    Program::load(Kind::Packet, "weir_test", &code).map(drop).map_err(|error| error.to_string())
}

fn af_xdp() -> Result<(), String> {
    networks()?;
    Map::sockets("weir_test", 1).map(drop).map_err(|error| error.to_string())
}

fn user_namespaces() -> Result<(), String> {
    let is_there = privilege::Privilege::detect().user_namespace;
    if is_there { Ok(()) } else { Err("no user namespaces can be made here".to_owned()) }
}

/// A child tries, since entering the class changes a limit of the whole process.
fn realtime() -> Result<(), String> {
    if usable_cpus().map_err(|error| error.to_string())?.len() < 2 {
        return Err("the real-time class needs two processors".to_owned());
    }
    program("chrt")?;
    let tried = Command::new("chrt").args(["-f", "1", "true"]).output();
    let tried = tried.map_err(|error| error.to_string())?;
    let why = || format!("no real-time class: {}", String::from_utf8_lossy(&tried.stderr).trim());
    if tried.status.success() { Ok(()) } else { Err(why()) }
}

fn program(name: &str) -> Result<(), String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_there = env::split_paths(&path).any(|folder| {
        let found = folder.join(name).metadata();
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    });
    if is_there { Ok(()) } else { Err(format!("there is no program `{name}` in PATH")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_need_that_is_not_met_is_told() {
        let absent = Need::Program("no-such-program");
        let why = "there is no program `no-such-program` in PATH".to_owned();
        assert_eq!(missing(&[]), None);
        assert_eq!(missing(&[Need::Program("sh")]), None);
        assert_eq!(missing(&[Need::Program("sh"), absent]), Some(why));
    }
}
