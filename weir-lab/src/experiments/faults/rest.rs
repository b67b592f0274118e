//! The cost of an idle link, the rights of its forwarder, and the answers to hostile clients.

use super::link::{self, Service, text};
use super::row;
use crate::rows::{Options, Row};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};
use weir_testbed::{Scene, is_alive, signal};

pub(super) const NAME: &str = "rest";

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(Row)) -> Result<(), String> {
    let link = link::start(Service::default())?;
    let (keeper, forwarder) = (link.keeper()?, link.forwarder()?);
    thread::sleep(SETTLE);
    let measured = options.duration.min(MEASURED_MAX);
    let before = ticks(keeper)? + ticks(forwarder)?;
    let start = Instant::now();
    thread::sleep(measured);
    let used = (ticks(keeper)? + ticks(forwarder)? - before) as f64 / TICKS_PER_SECOND;
    let percent = 100.0 * used / start.elapsed().as_secs_f64();
    tell(Row::at_most(format!("{NAME}: processor"), percent, PROCESSOR_PERCENT, "%"));
    memory(&link, keeper, forwarder, tell)?;
    rights(forwarder, tell)?;
    hostile(&link, tell)?;
    let is_same = link.forwarder() == Ok(forwarder);
    let shown = if is_same { "the same" } else { "another, or none" };
    tell(row(format!("{NAME}: the forwarder after that"), shown, "the same", is_same));
    Ok(())
}

/// The resident memory beside what `weir check` printed for both processes.
fn memory(
    link: &Scene,
    keeper: u32,
    forwarder: u32,
    tell: &mut dyn FnMut(Row),
) -> Result<(), String> {
    let used = status_value(keeper, "VmRSS")? + status_value(forwarder, "VmRSS")?;
    let subject = format!("{NAME}: resident memory");
    let ended = link.weir(&["--format", "json", "check", "link.toml"])?;
    let printed = serde_json::from_str(&ended.stdout).ok().and_then(|value| printed(&value));
    match printed {
        Some(limit) => {
            let mib = |bytes: f64| bytes / f64::from(1 << 20);
            tell(Row::at_most(subject, mib((used << 10) as f64), mib(limit).ceil(), "MiB"));
        }
        None => {
            tell(row(subject, format!("{} MiB", used >> 10), "what `weir check` prints", false))
        }
    }
    Ok(())
}

/// Returns the memory that `weir check` says the link takes at most, in bytes.
fn printed(checked: &Value) -> Option<f64> {
    checked.get("memory")?.get("total_bytes")?.as_f64()
}

/// Compares the forwarder's rights in /proc with none.
fn rights(forwarder: u32, tell: &mut dyn FnMut(Row)) -> Result<(), String> {
    let status = fs::read_to_string(format!("/proc/{forwarder}/status")).map_err(text)?;
    let none = "0000000000000000";
    let rows = [
        ("CapEff", none),
        ("CapPrm", none),
        ("CapInh", none),
        ("CapBnd", none),
        ("CapAmb", none),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
    ];
    for (name, expected) in rows {
        let found = field(&status, name).unwrap_or_default();
        tell(row(format!("{NAME}: {name} of the forwarder"), found, expected, found == expected));
    }
    Ok(())
}

/// Every use gets a refusal or nothing, and the link still tells its status.
fn hostile(link: &Scene, tell: &mut dyn FnMut(Row)) -> Result<(), String> {
    let forwarder = link.forwarder()?;
    let mut bad = Vec::new();
    let long = vec![b'x'; 1 << 20];
    let deep = vec![b'['; 60_000];
    let many = "{\"call\":\"status\"}\n".repeat(50);
    let requests: [&[u8]; 12] = [
        b"",
        b"\n",
        b"status\n",
        b"{}\n",
        b"{\"call\":\"reboot\"}\n",
        b"{\"call\":1}\n",
        b"{\"call\":\"hand-over\"}\n",
        b"{\"call\":\"restart\",\"path\":\"/etc/passwd\"}\n",
        b"\xff\xfe\0\0\n",
        &long,
        &deep,
        many.as_bytes(),
    ];
    for (number, request) in requests.iter().enumerate() {
        if let Err(why) = ask(link, request) {
            bad.push(format!("request {number}: {why}"));
        }
    }
    let silent: Vec<_> = (0..40).filter_map(|_| UnixStream::connect(link.socket()).ok()).collect();
    drop(silent);
    for name in ["HUP", "USR1", "USR2", "PIPE", "WINCH", "CHLD", "CONT"] {
        for process in [link.keeper()?, forwarder] {
            if !is_alive(process) {
                continue;
            }
            drop(signal(process, name));
            thread::sleep(Duration::from_millis(50));
            if !is_alive(process) {
                let which = if process == forwarder { "forwarder" } else { "keeper" };
                bad.push(format!("SIG{name} ends the {which}"));
            }
        }
    }
    let answer = link.await_status("an answer", |_| true);
    bad.extend(answer.err().map(String::from));
    let shown = if bad.is_empty() { "refusals".to_owned() } else { bad.join("; ") };
    tell(row(format!("{NAME}: 20 hostile uses"), shown, "refusals", bad.is_empty()));
    Ok(())
}

/// Sends it and reads what comes back, which must be nothing or answers.
fn ask(link: &Scene, request: &[u8]) -> Result<(), String> {
    let mut stream = UnixStream::connect(link.socket()).map_err(text)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(text)?;
    // The link may have closed its end before all is sent.
    drop(stream.write_all(request));
    drop(stream.shutdown(Shutdown::Write));
    let mut answers = Vec::new();
    drop(stream.read_to_end(&mut answers));
    let text = String::from_utf8_lossy(&answers);
    match text.lines().find(|line| serde_json::from_str::<Value>(line).is_err()) {
        Some(line) => Err(format!("it answers `{line}`")),
        None => Ok(()),
    }
}

/// Returns the processor time of a process, in ticks of 10 ms.
fn ticks(process: u32) -> Result<u64, String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).map_err(text)?;
    // The name may contain spaces; what follows it does not. utime and stime are fields 14 and 15.
    let rest = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
    let times = rest.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
    Ok(times.sum())
}

/// Returns a value of /proc/PID/status, in kB.
pub(super) fn status_value(process: u32, name: &str) -> Result<u64, String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).map_err(text)?;
    let value = field(&status, name).and_then(|text| text.split(' ').next()?.parse().ok());
    value.ok_or_else(|| format!("process {process} has no {name}"))
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

const PROCESSOR_PERCENT: f64 = 1.0;
/// USER_HZ, which is 100 on every architecture that Weir runs on.
const TICKS_PER_SECOND: f64 = 100.0;
const SETTLE: Duration = Duration::from_secs(2);
const MEASURED_MAX: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_process_are_found() {
        let status = "Name:\tweir\nVmRSS:\t    8192 kB\nSeccomp:\t2\nSeccomp_filters:\t3\n";
        let rows = [("VmRSS", Some("8192 kB")), ("Seccomp", Some("2")), ("Missing", None)];
        for (name, expected) in rows {
            assert_eq!(field(status, name), expected, "{name}");
        }
    }

    #[test]
    fn the_memory_that_check_prints_is_found() {
        let value = serde_json::json!({ "file": "x", "memory": { "total_bytes": 7, "parts": [] } });
        assert_eq!(printed(&value), Some(7.0));
        assert_eq!(printed(&serde_json::json!({ "file": "x" })), None);
    }
}
