//! The time of `weir check` for policies of two sizes, how it grows between them, and the time for
//! a template with a list of subscribers.
//!
//! The command is measured as a user runs it: this program, started anew, reads the file,
//! checks it and prints. The sizes take turns, so that a machine that slows down slows both. The
//! fastest round of each counts, as other work on the machine can only add to the time.

use serde::Serialize;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Seconds that the largest may take.
pub const SECONDS_MAX: f64 = 1.0;
/// How much longer the largest may take than the smallest, which is a tenth of it.
pub const GROWTH_MAX: f64 = 15.0;
/// Leaves of each size; there are twice as many rules.
pub const CLASSES: [usize; 2] = [5_000, 50_000];
/// Rows of the list, one for each subscriber.
pub const SUBSCRIBERS: usize = 20_000;

/// The time of one size.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The number of leaf classes.
    pub classes: usize,
    /// The number of rules.
    pub rules: usize,
    /// Bytes of the file, and of its list.
    pub bytes: usize,
    /// The fastest of the rounds.
    pub seconds: f64,
    /// The ratio to the time of the smallest; none for subscribers.
    pub growth: Option<f64>,
    /// Whether neither is above its limit.
    pub holds: bool,
}

/// Checks a policy of each size `rounds` times.
///
/// # Errors
/// When this program cannot be started, a file not be written, or a policy has errors.
pub fn measure(rounds: usize) -> Result<Vec<Row>, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("temporary folder: {error}"))?;
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, String>(path)
    };
    let mut files = Vec::new();
    for classes in CLASSES {
        let text = policy(classes);
        let path = write(&format!("{classes}.toml"), &text)?;
        files.push((classes, 2 * classes, path, text.len(), Vec::new()));
    }
    let list = subscribers(SUBSCRIBERS);
    write("subscribers.csv", &list)?;
    let path = write("provider.toml", PROVIDER)?;
    files.push((SUBSCRIBERS, SUBSCRIBERS, path, PROVIDER.len() + list.len(), Vec::new()));
    for _ in 0..rounds.max(1) {
        for (_, _, path, _, times) in &mut files {
            times.push(check(path)?);
        }
    }
    let fastest = |times: &[Duration]| times.iter().min().map_or(0.0, Duration::as_secs_f64);
    let smallest = fastest(&files[0].4);
    let row = |(at, file): (usize, &(usize, usize, _, usize, Vec<Duration>))| {
        let (classes, rules, _, bytes, times) = file;
        let seconds = fastest(times);
        let growth = (at < CLASSES.len()).then_some(seconds / smallest);
        let holds = seconds <= SECONDS_MAX && growth.is_none_or(|growth| growth <= GROWTH_MAX);
        Row { classes: *classes, rules: *rules, bytes: *bytes, seconds, growth, holds }
    };
    Ok(files.iter().enumerate().map(row).collect())
}

/// The time of `weir check` for a file.
fn check(path: &Path) -> Result<Duration, String> {
    let program = std::env::current_exe().map_err(|error| format!("own program: {error}"))?;
    let mut command = Command::new(program);
    command.arg("check").arg(path).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status().map_err(|error| format!("weir check: {error}"))?;
    let time = start.elapsed();
    if status.success() { Ok(time) } else { Err(format!("weir check ended with {status}")) }
}

/// The policy that is checked: leaves of `htb` below classes of a hundred, each with a rule for a
/// network and one for a port of a host. It has neither errors nor warnings.
pub fn policy(classes: usize) -> String {
    let mut text = "[link]\nrate = '40 Gbit/s'\nscheduler = 'htb'\n".to_owned();
    // A text can always grow.
    let mut line = |line: std::fmt::Arguments<'_>| text.write_fmt(line).unwrap_or_default();
    for class in 0..classes {
        let (group, host) = (class / GROUP, class % GROUP);
        if host == 0 {
            line(format_args!("[class.group{group}]\nrate = '40 Mbit/s'\n"));
        }
        let (high, low) = (class >> 8 & 0xff, class & 0xff);
        line(format_args!(
            "[class.customer{class}]\nparent = 'group{group}'\nrate = '400 kbit/s'\n\
             ceil = '4 Mbit/s'\nmatch = [{{ dst = '10.{high}.{low}.0/24' }}, \
             {{ proto = 'udp', dst = '172.16.{high}.{low}', dport = {} }}]\n",
            1024 + host
        ));
    }
    text + "[class.rest]\nrate = '10 Mbit/s'\ndefault = true\n"
}

/// A list of subscribers, each with an address of both kinds, a plan and an access point.
fn subscribers(rows: usize) -> String {
    let mut text = "id,name,access point,plan,ipv4,ipv6\n".to_owned();
    for row in 0..rows {
        let (high, low) = (row >> 8 & 0xff, row & 0xff);
        let (point, plan) = (row % POINTS, ["gold", "silver"][row % 2]);
        // A text can always grow.
        let written = writeln!(
            text,
            "{row},\"Name, {row}\",point {point},{plan},100.64.{high}.{low},2001:db8:{row:x}::/56"
        );
        written.unwrap_or_default();
    }
    text
}

/// The policy of a provider, with eight access points.
const PROVIDER: &str = r#"
[link]
rate = "100 Gbit/s"
scheduler = "htb"
[class.all]
rate = "90 Gbit/s"
[class.rest]
parent = "all"
rate = "100 Mbit/s"
default = true
[plan.gold]
rate = "2 Mbit/s"
ceil = "90 Mbit/s"
[plan.silver]
rate = "1 Mbit/s"
ceil = "40 Mbit/s"
[template.point]
list = [{ n = 0 }, { n = 1 }, { n = 2 }, { n = 3 }, { n = 4 }, { n = 5 }, { n = 6 }, { n = 7 }]
name = "point-{n}"
class = { parent = "all", rate = "5 Gbit/s", ceil = "10 Gbit/s" }
[template.subscriber]
list = "subscribers.csv"
name = "s{id}"
class.parent = "{access point}"
class.rate = "{plan.rate}"
class.ceil = "{plan.ceil}"
class.match = [{ dst = ["{ipv4}", "{ipv6}"] }]
"#;
/// Access points of that policy.
const POINTS: usize = 8;
/// Leaves of a class.
const GROUP: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_has_the_requested_size_and_no_findings() {
        let outcome = weir_policy::parse(&policy(1000), "p");
        // The line is fast enough for a hundred times as many.
        let others = outcome.findings.iter().filter(|finding| finding.code != "W158");
        assert_eq!(others.count(), 0, "{:#?}", outcome.findings);
        let policy = outcome.plan.expect("it has no errors");
        assert_eq!(policy.link.tree.leaf_count(), 1001);
        assert_eq!(policy.link.tree.classes().len(), 1001 + 10);
        assert_eq!(policy.rules.len(), 2000);
    }

    #[test]
    fn the_subscribers_have_a_class_each_and_no_findings() {
        let list = |_: &Path| Ok(subscribers(1000).into_bytes());
        let outcome = weir_policy::policy::parse_bytes(PROVIDER.as_bytes(), "p", None, &list);
        assert!(outcome.findings.is_empty(), "{:#?}", outcome.findings);
        let policy = outcome.plan.expect("it has no errors");
        assert_eq!(policy.link.tree.leaf_count(), 1001);
        assert_eq!(policy.rules.len(), 1000);
    }
}
