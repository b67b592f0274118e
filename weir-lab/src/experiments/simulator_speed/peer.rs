//! The peers as programs: each simulates some seconds and reports the time that took.

use super::{Timing, pinned};
use std::io::{ErrorKind, Write};
use std::process::{Command, Output};
use std::time::Duration;
use tempfile::NamedTempFile;
use weir_host::wait::{CpuTimeOf, cpu_time};

/// The peer to compare with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Program {
    /// ns-2, with this number of CBQ classes.
    Ns2(usize),
    /// ns-3 as `bench/ns3/ns3.cc` sets it up, with this discipline.
    Ns3(&'static str),
}

/// A simulator that is installed, ready to run.
pub(super) struct Peer {
    program: Program,
    /// The script for ns-2.
    script: Option<NamedTempFile>,
    /// CPU time to start and set up, which is subtracted.
    start: Duration,
}

impl Program {
    /// Returns the name in rows.
    pub const fn name(self) -> &'static str {
        match self {
            Program::Ns2(_) => "ns-2",
            Program::Ns3(_) => "ns-3",
        }
    }

    const fn command(self) -> &'static str {
        match self {
            Program::Ns2(_) => "ns",
            Program::Ns3(_) => "weir-ns3",
        }
    }

    const fn cure(self) -> &'static str {
        match self {
            Program::Ns2(_) => "`apt-get install ns2` installs it on Debian and Ubuntu",
            Program::Ns3(_) => "bench/peers builds it",
        }
    }
}

impl Peer {
    /// Finds the peer; returns `None` if its program is missing and the rest can be measured
    /// without it.
    pub fn find(program: Program) -> Result<Option<Self>, String> {
        let mut script = None;
        if let Program::Ns2(_) = program {
            let refuse = |error: std::io::Error| format!("cannot write ns-2's script: {error}");
            let mut file = NamedTempFile::with_suffix(".tcl").map_err(refuse)?;
            file.write_all(NS2_SCRIPT.as_bytes()).map_err(refuse)?;
            script = Some(file);
        }
        let mut peer = Self { program, script, start: Duration::ZERO };
        match (program, peer.command(SECONDS_MIN).output()) {
            (Program::Ns3(_), Err(error)) if error.kind() == ErrorKind::NotFound => Ok(None),
            _ => {
                peer.start = pinned(|| peer.run(SECONDS_MIN))?.cpu;
                Ok(Some(peer))
            }
        }
    }

    /// Simulates some seconds; the wall clock is the peer's own, from the first event to the last.
    pub fn run(&self, seconds: f64) -> Result<Timing, String> {
        let cpu = cpu_time(CpuTimeOf::Children);
        let (name, cure) = (self.program.command(), self.program.cure());
        let output = self.command(seconds).output().map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                format!("{} is missing: no program `{name}`; {cure}", self.program.name())
            }
            _ => format!("cannot run `{name}`: {error}"),
        })?;
        let used = cpu_time(CpuTimeOf::Children).saturating_sub(cpu);
        let (delivered, micros) = figures(name, &output)?;
        let (wall, cpu) = (Duration::from_micros(micros), used.saturating_sub(self.start));
        Ok(Timing { delivered, seconds, wall, cpu })
    }

    fn command(&self, seconds: f64) -> Command {
        let mut command = Command::new(self.program.command());
        if let Some(script) = &self.script {
            command.arg(script.path());
        }
        command.arg(seconds.to_string());
        match self.program {
            Program::Ns2(classes) => command.arg(classes.to_string()),
            Program::Ns3(discipline) => command.arg(discipline),
        };
        command
    }
}

fn figures(name: &str, output: &Output) -> Result<(u64, u64), String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(delivered)), Some(Ok(micros))) = (numbers.next(), numbers.next()) else {
        let fault = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{name}` did not print a count and a time: {text}{fault}"));
    };
    Ok((delivered, micros))
}

const NS2_SCRIPT: &str = include_str!("ns2.tcl");
/// Long enough to have sent a packet.
const SECONDS_MIN: f64 = 0.001;
