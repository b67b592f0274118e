//! The sysctls that the shell commands of scripts set, by the rules of `defaults.sh` and
//! `set_sysctls.py`, as data.
//!
//! No command is run. Invariant: a command that is neither known to set sysctls nor known to be
//! without effect here is returned as not understood.

use std::collections::BTreeMap;

/// The values of sysctls below `net.ipv4`, and what else commands did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sysctls {
    values: BTreeMap<String, String>,
}

/// The effect of a shell command besides setting sysctls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing that the model has.
    None,
    /// The interface drops all packets from now on.
    DropAll,
    /// The interface holds packets until their departure time: pacing takes effect.
    FairQueue,
    /// Segmentation offload is off: each segment goes alone.
    NoOffload,
    /// This is not understood.
    Unknown(String),
}

impl Default for Sysctls {
    fn default() -> Self {
        let values = DEFAULTS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self { values: values.collect() }
    }
}

impl Sysctls {
    /// Returns the first number of a value.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.numbers(name).first().copied()
    }

    /// Returns the numbers of a value, such as the three of `tcp_rmem`.
    pub fn numbers(&self, name: &str) -> Vec<i64> {
        let words = self.text(name).split_whitespace();
        words.filter_map(crate::script::parse_number).collect()
    }

    /// Returns a value as text.
    pub fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// Takes a shell command, and returns its other effects.
    pub fn shell(&mut self, command: &str) -> Vec<Effect> {
        let command = command.replace("\\\n", " ");
        let parts = command.split(['\n', ';']).flat_map(|line| line.split("||"));
        let parts = parts.map(without_comment).filter(|part| !part.is_empty());
        parts.map(|part| self.part(&part)).filter(|effect| *effect != Effect::None).collect()
    }

    fn part(&mut self, command: &str) -> Effect {
        let words = words(command);
        let Some(program) = words.first() else { return Effect::None };
        let name = program.rsplit('/').next().unwrap_or_default();
        match name {
            "defaults.sh" => self.reset(),
            "sysctl" | "set_sysctls.py" => return self.assignments(&words[1..]),
            "echo" => return self.echo(&words),
            "tc" => return traffic_control(command),
            "ethtool" => return offload(command),
            "nstat" | "sync" | "sleep" | "true" => {}
            _ if name.starts_with("sysctl_restore") => {}
            _ if command.starts_with("ip tcp_metrics") => {}
            _ => return Effect::Unknown(command.to_owned()),
        }
        Effect::None
    }

    fn reset(&mut self) {
        *self = Self::default();
    }

    fn assignments(&mut self, words: &[String]) -> Effect {
        for word in words.iter().filter(|word| !word.starts_with('-')) {
            let Some((name, value)) = word.split_once('=') else { continue };
            self.set(name, value);
        }
        Effect::None
    }

    /// Takes `echo 3 > /proc/sys/net/ipv4/NAME` and the parameters of modules.
    fn echo(&mut self, words: &[String]) -> Effect {
        if let [_, value, sign, path] = words
            && sign == ">"
        {
            self.set(path, value);
        }
        Effect::None
    }

    /// Sets a value; the name is what follows the last slash or dot.
    fn set(&mut self, name: &str, value: &str) {
        let name = name.rsplit(['/', '.']).next().unwrap_or_default();
        self.values.insert(name.to_owned(), value.trim().to_owned());
    }
}

fn traffic_control(command: &str) -> Effect {
    if command.contains("limit 0") {
        return Effect::DropAll;
    }
    if command.ends_with(" fq") || command.contains(" fq ") {
        return Effect::FairQueue;
    }
    Effect::None
}

fn offload(command: &str) -> Effect {
    if command.contains("tso off") || command.contains("gso off") {
        return Effect::NoOffload;
    }
    Effect::None
}

/// Cuts a comment and a redirection to nowhere.
fn without_comment(line: &str) -> String {
    let line = line.split(" #").next().unwrap_or_default();
    let line = if line.trim_start().starts_with('#') { "" } else { line };
    let line = line.replace("&> /dev/null", "").replace("2>/dev/null", "");
    line.replace("> /dev/null 2>&1", "").replace("> /dev/null", "").trim().to_owned()
}

/// Splits a command at blanks outside of double quotes, and takes the quotes away.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for next in command.chars() {
        match next {
            '"' => is_quoted = !is_quoted,
            _ if next.is_whitespace() && !is_quoted => words.push(String::new()),
            _ => words.last_mut().expect("there is always a word").push(next),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The sysctls that `defaults.sh` sets, with their values.
const DEFAULTS: [(&str, &str); 22] = [
    ("tcp_rmem", "4096 540000 15728640"),
    ("tcp_wmem", "4096 262144 4194304"),
    ("tcp_timestamps", "1"),
    ("tcp_syn_retries", "5"),
    ("tcp_synack_retries", "5"),
    ("tcp_frto", "2"),
    ("tcp_sack", "1"),
    ("tcp_dsack", "1"),
    ("tcp_reordering", "3"),
    ("tcp_congestion_control", "cubic"),
    ("tcp_slow_start_after_idle", "0"),
    ("tcp_early_retrans", "4"),
    ("tcp_recovery", "1"),
    ("tcp_tso_win_divisor", "3"),
    ("tcp_ecn", "0"),
    ("tcp_ecn_option", "2"),
    ("tcp_pacing_ss_ratio", "200"),
    ("tcp_pacing_ca_ratio", "120"),
    ("tcp_notsent_lowat", "4294967295"),
    ("tcp_min_tso_segs", "2"),
    ("tcp_window_scaling", "1"),
    ("tcp_syncookies", "1"),
];
