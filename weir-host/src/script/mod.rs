//! Runs a user's script in a sandbox, to learn which commands it would give.
//!
//! The script runs by its own interpreter, in namespaces of its own (users, mounts, processes,
//! network, IPC), with everything mounted read-only, behind Landlock and a filter of system calls,
//! within limits of time, processes and memory. In the place of `tc`, `ip` and their kin stand
//! links to this program, which only note their arguments ([`note`]); what only asks, such as
//! `ip route get`, the real program answers, outside the sandbox ([`answers`]).
//!
//! Four processes: the caller, a supervisor (this program again, [`supervise`]) that builds the
//! sandbox and watches, the one that answers, and the script. A call that would write or reach a
//! network is put to the supervisor by the kernel before it happens; the answer is the end of the
//! script. What the supervisor lets pass is still behind the mounts and Landlock.

mod answers;
mod inside;
mod note;
mod questions;
mod watch;

use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use crate::error::{Result, SystemError};

/// A script to run.
#[derive(Clone, Debug)]
pub struct Script {
    /// The file.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// How long it may run.
    pub time_max: Duration,
}

/// A call of a program that only notes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The name of the program, and its arguments.
    pub words: Vec<String>,
    /// The lines that `tc -batch` was given.
    pub input: Option<String>,
    /// The answer, if the call asked and the script may have used it.
    pub asked: Option<Asked>,
}

/// The answer to a call that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Asked {
    /// That of this machine.
    Answered,
    /// None: nothing was printed, and the call succeeded.
    Unanswered,
}

/// The end of a script, and the calls that it made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The exit code, if it ended by itself.
    pub code: Option<i32>,
    /// Why it was ended, if it was.
    pub ended: Option<String>,
    /// The calls, in the order in which they began.
    pub notes: Vec<Note>,
    /// The end of what it printed.
    pub printed: String,
    /// Why no sandbox could be built.
    pub refused: Option<String>,
}

impl Script {
    /// Returns what will happen, for the operator.
    pub fn announcement(&self) -> String {
        let interpreter = interpreter(&self.path).map_or_else(
            |_| "its interpreter".to_owned(),
            |words| words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "),
        );
        format!(
            "runs {} by {interpreter} in a sandbox: without a network, writing only below \
             $TMPDIR, for at most {} s and with at most {PROCESSES_MAX} processes. It sees itself \
             as root and reads what {} may; {} and their kin only note their arguments, and \
             this machine answers what asks, such as `ip route get`",
            self.path.display(),
            self.time_max.as_secs(),
            inside::reader(),
            STAND_INS[..5].join(", ")
        )
    }

    /// Runs the script.
    ///
    /// # Errors
    /// When the script cannot be read, or this machine allows no sandbox.
    pub fn run(&self) -> Result<Outcome> {
        let name = self.path.display();
        interpreter(&self.path)
            .map_err(|cause| SystemError::new(format!("read the script {name}"), cause))?;
        let failed = |cause| SystemError::new("start a sandbox", cause);
        let own = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(&own);
        command.arg0(SUPERVISOR).arg(self.time_max.as_millis().to_string()).arg(&own);
        command.arg(&self.path).args(&self.arguments);
        command.stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output().map_err(failed)?;
        let outcome: Outcome = serde_json::from_slice(&output.stdout).map_err(|_| {
            let why = format!("the supervisor ended without an answer ({})", output.status);
            SystemError::refused("run the script in a sandbox", why, WAYS)
        })?;
        match outcome.refused {
            Some(why) => Err(SystemError::refused("run the script in a sandbox", why, WAYS)),
            None => Ok(outcome),
        }
    }
}

/// Acts as another program where this one was started under its name; call it first in `main`.
pub fn stand_in() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let name = arguments.next()?;
    let name = Path::new(&name).file_name()?.to_str()?.to_owned();
    if name == SUPERVISOR {
        return Some(supervise(&arguments.collect::<Vec<_>>()));
    }
    if name == answers::ANSWERS {
        return Some(answers::serve());
    }
    if !STAND_INS.contains(&name.as_str()) {
        return None;
    }
    note::note(name, arguments)
}

/// The supervisor: builds the sandbox, runs the script in it, and prints what came of it.
fn supervise(arguments: &[OsString]) -> ExitCode {
    let outcome = match inside::run(arguments) {
        Ok(outcome) => outcome,
        Err(error) => Outcome { refused: Some(error.to_string()), ..Outcome::default() },
    };
    match serde_json::to_writer(std::io::stdout(), &outcome) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Returns the interpreter of a script with the argument that its first line gives it.
fn interpreter(path: &Path) -> std::io::Result<Vec<OsString>> {
    use std::io::Read;
    use std::os::unix::ffi::OsStrExt;
    let mut head = Vec::new();
    std::fs::File::open(path)?.take(256).read_to_end(&mut head)?;
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or(&[]).trim_ascii();
    let Some(line) = line.strip_prefix(b"#!") else { return Ok(vec!["/bin/sh".into()]) };
    let words = line.trim_ascii().splitn(2, |byte| byte.is_ascii_whitespace());
    let words = words.map(|word| OsStr::from_bytes(word.trim_ascii()).to_owned());
    Ok(words.collect())
}

/// The names under which this program acts as another one.
const SUPERVISOR: &str = "weir-script-supervisor";
/// The programs in whose place this one only notes.
pub const STAND_INS: &[&str] = &[
    "tc",
    "ip",
    "iptables",
    "ethtool",
    "modprobe",
    "ip6tables",
    "sysctl",
    "ifconfig",
    "insmod",
    "rmmod",
    "depmod",
    "brctl",
    "bridge",
    "nft",
    "ipset",
    "ebtables",
    "arptables",
    "iptables-save",
    "iptables-restore",
    "ip6tables-save",
    "ip6tables-restore",
    "iw",
    "iwconfig",
    "route",
    "vconfig",
    "service",
    "systemctl",
    "logger",
    "ping",
    "ping6",
    "fping",
    "sleep",
    "sudo",
];
/// Bound: processes of a script at a time; one with more is ended.
const PROCESSES_MAX: usize = 128;
/// The ways out where no sandbox can be built.
const WAYS: &str = "`weir import tc --from-kernel` reads what is in force where the script has \
                    run; or give the tc commands alone, as text";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_names_its_interpreter() {
        let folder = tempfile::tempdir().expect("a folder");
        let rows: [(&str, &[&str]); 4] = [
            ("#!/bin/bash\ntrue\n", &["/bin/bash"]),
            ("#! /bin/sh -e\n", &["/bin/sh", "-e"]),
            ("#!/usr/bin/env bash -x\n", &["/usr/bin/env", "bash -x"]),
            ("tc qdisc show\n", &["/bin/sh"]),
        ];
        for (text, wanted) in rows {
            let path = folder.path().join("script");
            std::fs::write(&path, text).expect("it can be written");
            let found = interpreter(&path).expect("it can be read");
            assert_eq!(found, wanted, "{text}");
        }
    }
}
