//! `weir init`: writes a policy for each direction of a line, and a deployment.
//!
//! The texts are in `init/`; a word between two `@` stands for a value. What is written is checked
//! first, and nothing is overwritten.

use crate::Run;
use crate::output::{Exit, Format, Output};
use crate::whole_file;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde::Serialize;
use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use weir_core::units::Rate;
use weir_policy::deployment::{self, INTERFACE_BYTES_MAX, is_interface};
use weir_policy::render;

/// Writes a commented policy for each direction of a line, and a deployment that joins them.
///
/// Hosts share the line evenly, queues are short, and calls and bulk traffic are told apart by
/// DSCP. Joins two interfaces as a bridge, or with `--host` shapes one interface of this machine.
/// Asks on a terminal for what is missing. Overwrites nothing.
#[derive(clap::Args)]
pub struct Init {
    /// The rate towards you, such as "20 Mbit/s".
    #[arg(long, value_name = "RATE")]
    down: Option<Rate>,
    /// The rate away from you, such as "5 Mbit/s".
    #[arg(long, value_name = "RATE")]
    up: Option<Rate>,
    /// The kind of line, which decides what each packet takes on it.
    #[arg(long, value_name = "KIND", value_enum)]
    link: Option<Link>,
    /// The interface towards your network.
    #[arg(long, value_name = "NAME", default_value = "lan0")]
    inside: String,
    /// The interface towards the line.
    #[arg(long, value_name = "NAME", default_value = "wan0")]
    outside: String,
    /// In place of two interfaces: the interface of this machine towards the line. Addresses,
    /// routes and firewall stay as they are. A router that translates addresses (NAT) names the one
    /// towards its hosts, where each has its own address, and gives the two rates in each other's
    /// place.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["inside", "outside"])]
    host: Option<String>,
    /// The line carries now more and now less: the rates given are its usual ones, and Weir follows
    /// it from a quarter to four times as much.
    #[arg(long)]
    varies: bool,
    /// The queues: classes in which hosts and then their connections take turns, or one CAKE as
    /// Linux has it.
    #[arg(long, value_name = "QUEUE", value_enum, default_value_t = Queue::Isolate)]
    queue: Queue,
    /// The folder of the files; it is made if it does not exist.
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
}

/// A kind of line.
#[derive(Clone, Copy)]
struct Link {
    word: &'static str,
    /// The lines that are of this kind.
    lines: &'static str,
    /// The value of `overhead`.
    overhead: &'static str,
    what: &'static str,
}

/// The queues of a policy.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Queue {
    /// Classes for calls, hosts and bulk traffic under `htb`.
    Isolate,
    /// One queue with CAKE's tins, hosts and flows.
    Cake,
}

/// A direction, and what its hosts are told apart by.
struct Direction {
    name: &'static str,
    isolate: &'static str,
    fair: &'static str,
}

/// The rates of a direction of the line.
#[derive(Clone, Copy)]
struct Rates {
    usual: Rate,
    varies: bool,
}

impl Direction {
    /// Returns the word by which CAKE tells its hosts apart.
    fn hash(&self) -> &'static str {
        if self.isolate.ends_with("srcaddr") { "dual-srchost" } else { "dual-dsthost" }
    }
}

impl Rates {
    /// Returns the rate that the policy is written for, the percentage of it, and why it is that.
    fn planned(self) -> (Rate, u64, String) {
        if self.varies {
            let why = "the least that the line carries: what it guarantees grows with the line";
            return (self.part(1, SPREAD), 100, why.to_owned());
        }
        let why = format!("{PERCENT} % of the line: packets must wait here, not in the modem");
        (self.usual, PERCENT, why)
    }

    /// Returns the table of a direction `@` that follows the line, if it varies.
    fn table(self) -> String {
        if !self.varies {
            return String::new();
        }
        let kbit = |rate: Rate| format!("\"{} kbit/s\"", rate.bits_per_second() / 1000);
        let (min, base, max) = (self.part(1, SPREAD), self.usual, self.part(SPREAD, 1));
        format!(
            "\n# The rate follows what the line carries; docs/guide/variable.md explains it.\n\
             [direction.@.autorate]\nmin = {}\nbase = {}\nmax = {}\n",
            kbit(min),
            kbit(base),
            kbit(max)
        )
    }

    fn part(self, times: u64, of: u64) -> Rate {
        // Whole kbit/s, as the texts have them.
        let bits = self.usual.bits_per_second() / 1000 * times / of * 1000;
        Rate::new(bits).unwrap_or(self.usual)
    }
}

/// The output of `--format json`.
#[derive(Serialize)]
struct Written {
    files: Vec<String>,
}

impl ValueEnum for Link {
    fn value_variants<'a>() -> &'a [Self] {
        &LINKS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.word).help(self.lines))
    }
}

impl FromStr for Link {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = LINKS.into_iter().find(|link| link.word == word);
        known.ok_or_else(|| format!("there is no kind `{word}`; write {}", Self::all()))
    }
}

impl Link {
    /// Returns the words, each with its lines.
    fn all() -> String {
        LINKS.map(|link| format!("{} ({})", link.word, link.lines)).join(", ")
    }
}

impl Run for Init {
    fn run(self, output: &Output) -> Exit {
        match self.write(output) {
            Ok(exit) => exit,
            Err(message) => output.refuse(&message),
        }
    }
}

impl Init {
    fn write(&self, output: &Output) -> Result<Exit, String> {
        self.check_interfaces()?;
        self.check_missing()?;
        let down = asked(self.down, "The rate towards you, such as 20 Mbit/s")?;
        let up = asked(self.up, "The rate away from you, such as 5 Mbit/s")?;
        let link = asked(self.link, &format!("The kind of line: {}", Link::all()))?;
        let directions = if self.host.is_some() { HOST_DIRECTIONS } else { DIRECTIONS };
        let rates = [down, up].map(|rate| Rates { usual: rate, varies: self.varies });
        let of = |place: usize| policy(&directions[place], rates[place], (&link, self.queue));
        let [download, upload] = [of(0)?, of(1)?];
        let varying = rates.map(|rates| rates.table());
        let deployment = match &self.host {
            Some(host) => fill(
                HOST,
                &[
                    ("NAME", NAME),
                    ("HOST", &quoted(host)),
                    ("DOWN", &varying[0].replace("@", "download")),
                    ("UP", &varying[1].replace("@", "upload")),
                ],
            ),
            None => fill(
                DEPLOYMENT,
                &[
                    ("NAME", NAME),
                    ("INSIDE", &quoted(&self.inside)),
                    ("OUTSIDE", &quoted(&self.outside)),
                    ("DOWN", &varying[0].replace("@", "download")),
                    ("UP", &varying[1].replace("@", "upload")),
                ],
            ),
        };
        let files = [("download.toml", download), ("upload.toml", upload), (MAIN, deployment)];
        if let Some(faults) = faults(&files, output) {
            return Ok(faults);
        }
        self.write_all(&files)?;
        let names = files.map(|(name, _)| self.out.join(name).display().to_string()).to_vec();
        match output.format {
            Format::Json => output.json(&Written { files: names }),
            Format::Text => output.text(&self.next_steps(&names)),
        }
        Ok(Exit::Clean)
    }

    /// Returns what to do with the files of these names.
    fn next_steps(&self, names: &[String]) -> String {
        let [download, upload, deployment] = names else { return String::new() };
        // A cake counts no hosts.
        let see = match self.queue {
            Queue::Isolate => {
                format!("{NAME} --hosts 5     (who sends, what waits, and what was lost)")
            }
            Queue::Cake => format!("{NAME}     (what was sent, what waits, and what was lost)"),
        };
        let place = self.host.as_ref().map_or_else(
            || "between the interfaces that it names".to_owned(),
            |host| format!("at {host}, which keeps its addresses"),
        );
        let change = if self.varies {
            format!(
                "the rates `min`, `base` and `max` in {deployment}, then weir restart {NAME}     \
                 (between them the rate follows the line)"
            )
        } else {
            format!(
                "weir set {NAME} upload:link.rate=9Mbit/s     (the line became slower: all \
                 classes follow)"
            )
        };
        format!(
            "written: {download}, {upload}, {deployment}\n\
             check:   weir check {deployment} --bounds\n\
             run:     weir up {deployment}     (as root, {place})\n\
             see:     weir status {see}\n\
             try:     weir try ADDRESS     (where `weir recv` runs, behind the line: what its load \
             adds to the latency; a few ms, and without Weir often hundreds)\n\
             change:  {change}\n"
        )
    }

    /// Where nobody can be asked, names all options that are missing.
    fn check_missing(&self) -> Result<(), String> {
        let options = [
            ("--down", self.down.is_none()),
            ("--up", self.up.is_none()),
            ("--link", self.link.is_none()),
        ];
        let missing = options.into_iter().filter(|row| row.1).map(|row| row.0);
        let missing = missing.collect::<Vec<_>>().join(" and ");
        if missing.is_empty() || io::stdin().is_terminal() {
            return Ok(());
        }
        let is = if missing.contains(' ') { "are" } else { "is" };
        Err(format!(
            "{missing} {is} missing, and there is no terminal to ask on: write `weir init --down \
             50Mbit/s --up 10Mbit/s --link KIND`, where KIND is {}",
            Link::all()
        ))
    }

    fn check_interfaces(&self) -> Result<(), String> {
        let two = [("--inside", &self.inside), ("--outside", &self.outside)];
        let named = match &self.host {
            Some(host) => vec![("--host", host)],
            None => two.to_vec(),
        };
        for (option, name) in named {
            if !is_interface(name) {
                return Err(format!(
                    "{option} {name:?}: Linux has no interface of this name; write the name that \
                     `ip link` shows, at most {INTERFACE_BYTES_MAX} characters of ASCII"
                ));
            }
        }
        if self.host.is_none() && self.inside == self.outside {
            let name = &self.inside;
            return Err(format!("--inside and --outside are both {name}; name two interfaces"));
        }
        Ok(())
    }

    /// Writes all files or none.
    fn write_all(&self, files: &[(&str, String)]) -> Result<(), String> {
        let paths: Vec<_> = files.iter().map(|(name, _)| self.out.join(name)).collect();
        if let Some(path) = paths.iter().find(|path| path.symlink_metadata().is_ok()) {
            let path = path.display();
            return Err(format!("{path} exists: name another folder with `-o`, or move it away"));
        }
        let made: Vec<_> = self.out.ancestors().take_while(|folder| is_new(folder)).collect();
        let folder = self.out.display().to_string();
        let mut written = fs::create_dir_all(&self.out)
            .map_err(|error| whole_file::cannot("make", &folder, &error));
        let mut count = 0;
        while written.is_ok() && count < files.len() {
            written = whole_file::write_new(&paths[count], &files[count].1);
            count += usize::from(written.is_ok());
        }
        // The failure to write is what the user must know, not one to remove.
        if written.is_err() {
            paths[..count].iter().for_each(|path| drop(fs::remove_file(path)));
            made.iter().for_each(|folder| drop(fs::remove_dir(folder)));
        }
        written
    }
}

/// Returns whether a folder is yet to be made; the empty path is the current folder.
fn is_new(folder: &Path) -> bool {
    !folder.as_os_str().is_empty() && !folder.exists()
}

/// Returns a text as a string in TOML, which knows the escapes of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns the value of an option, or asks for it on the terminal.
fn asked<T: FromStr>(given: Option<T>, question: &str) -> Result<T, String>
where
    T::Err: std::fmt::Display,
{
    if let Some(value) = given {
        return Ok(value);
    }
    let missing = || "that was no answer: write the options, which `weir init --help` lists";
    answer(io::stdin().lock().lines(), question).ok_or_else(|| missing().to_owned())
}

/// Repeats the question until a line is a value; returns nothing after too many that are none.
fn answer<T: FromStr>(
    mut lines: impl Iterator<Item = io::Result<String>>,
    question: &str,
) -> Option<T>
where
    T::Err: std::fmt::Display,
{
    for _ in 0..QUESTIONS_MAX {
        // The question is no result, so it does not go to standard output.
        let _ = write!(io::stderr(), "{question}: ");
        let Some(Ok(line)) = lines.next() else { break };
        match line.trim().parse() {
            Ok(value) => return Some(value),
            Err(error) => {
                let _ = writeln!(io::stderr(), "{error}");
            }
        }
    }
    None
}

/// Returns the text of the policy of a direction.
fn policy(
    direction: &Direction,
    rates: Rates,
    (link, queue): (&Link, Queue),
) -> Result<String, String> {
    let (line, percent, why) = rates.planned();
    let bits = line.bits_per_second();
    if bits < RATE_MIN {
        let min = Rate::new(RATE_MIN).map_or_else(String::new, |rate| rate.to_string());
        return Err(format!("a line of {line} is below {min}, and a call would fill it"));
    }
    let values = [
        ("DIRECTION", direction.name.to_owned()),
        ("LINE_RATE", line.to_string()),
        ("LINK", link.word.to_owned()),
        // Rounded down to whole kbit/s.
        ("RATE", format!("{} kbit/s", bits / 100 * percent / 1000)),
        ("WHY", why),
        ("OVERHEAD", link.overhead.to_owned()),
        ("WHAT", link.what.to_owned()),
        ("NAME", NAME.to_owned()),
        ("VOICE", VOICE_PERCENT.to_string()),
        ("ISOLATE", direction.isolate.to_owned()),
        ("HASH", direction.hash().to_owned()),
        ("FAIR", direction.fair.to_owned()),
        ("HOSTS", HOSTS_PERCENT.to_string()),
        ("BULK", BULK_PERCENT.to_string()),
    ];
    let values: Vec<_> = values.iter().map(|(word, value)| (*word, value.as_str())).collect();
    Ok(fill(if queue == Queue::Cake { CAKE } else { POLICY }, &values))
}

/// Replaces each word between two `@`.
fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let one =
        |text: String, (word, value): &(&str, &str)| text.replace(&format!("@{word}@"), value);
    values.iter().fold(text.to_owned(), one)
}

/// Checks the files before they are written; prints the findings if there are any.
fn faults(files: &[(&str, String)], output: &Output) -> Option<Exit> {
    let text = |path: &Path| {
        let file = files.iter().find(|(name, _)| path == Path::new(name));
        file.map(|(_, text)| text.clone().into_bytes()).ok_or(io::ErrorKind::NotFound.into())
    };
    let main = text(Path::new(MAIN)).unwrap_or_default();
    let outcome = deployment::parse(&main, MAIN, &text);
    if outcome.findings.is_empty() {
        return None;
    }
    output.text(&render::render(&outcome.findings, &outcome.sources, output.colour()));
    Some(Exit::Faults)
}

/// The bytes of a frame on each kind of line, beside its own.
const LINKS: [Link; 8] = [
    Link {
        word: "fibre",
        lines: "fibre without PPPoE",
        overhead: "\"ethernet\"",
        what: "fibre: check sequence, preamble and gap of Ethernet, no less than its frames have",
    },
    Link {
        word: "ethernet",
        lines: "Ethernet without PPPoE",
        overhead: "\"ethernet\"",
        what: "Ethernet without PPPoE: check sequence, preamble and gap",
    },
    Link {
        word: "pppoe",
        lines: "fibre or Ethernet with PPPoE",
        overhead: "\"pppoe\"",
        what: "PPPoE on fibre or Ethernet: 8 B for it, 24 B for Ethernet",
    },
    Link {
        word: "ptm",
        lines: "VDSL",
        overhead: "\"pppoe-ptm\"",
        what: "VDSL with PPPoE: 8 B for it, check sequence 4 B, PTM 4 B",
    },
    Link {
        word: "docsis",
        lines: "cable",
        overhead: "\"docsis\"",
        what: "cable counts Ethernet frames with their check sequence",
    },
    Link {
        word: "lte",
        lines: "LTE and 5G",
        overhead: "\"ethernet\"",
        what: "mobile networks carry IP packets and headers of their own; Ethernet's cover them",
    },
    Link {
        word: "starlink",
        lines: "Starlink",
        overhead: "\"ethernet\"",
        what: "the dish carries Ethernet frames",
    },
    Link {
        word: "atm",
        lines: "ADSL",
        overhead: "\"pppoe-atm\"",
        what: "ADSL with PPPoE in LLC: cells of 53 B carry 48 B",
    },
];
const DIRECTIONS: [Direction; 2] = [
    Direction {
        name: "download",
        isolate: "flows within dstaddr",
        fair: "each host of your network has an equal part",
    },
    Direction {
        name: "upload",
        isolate: "flows within srcaddr",
        fair: "each host of your network has an equal part",
    },
];
/// Where the line begins at this machine, all that it sends has its own address.
const HOST_DIRECTIONS: [Direction; 2] = [
    Direction {
        name: "download",
        isolate: "flows within srcaddr",
        fair: "each host at the other end has an equal part",
    },
    Direction {
        name: "upload",
        isolate: "flows within dstaddr",
        fair: "each host at the other end has an equal part",
    },
];
const POLICY: &str = include_str!("init/policy.txt");
const CAKE: &str = include_str!("init/cake.txt");
const DEPLOYMENT: &str = include_str!("init/deployment.txt");
const HOST: &str = include_str!("init/host.txt");
/// The file that names the others.
const MAIN: &str = "deployment.toml";
/// The deployment's name in `weir status`.
const NAME: &str = "home";
/// Of the line's rate.
const PERCENT: u64 = 95;
/// A line that varies carries so many times less and more than usual.
const SPREAD: u64 = 4;
/// Of the link's rate; these and the hosts' make the whole.
const VOICE_PERCENT: u64 = 25;
const HOSTS_PERCENT: u64 = 65;
const BULK_PERCENT: u64 = 10;
/// In bit/s.
const RATE_MIN: u64 = 256_000;
const QUESTIONS_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// Replies to the question for a kind of line; checks which is taken, by its word.
    fn check(lines: &str, word: Option<&str>) {
        let answer = answer::<Link>(lines.lines().map(|line| Ok(line.to_owned())), "kind");
        assert_eq!(answer.map(|link| link.word), word, "{lines:?}");
    }

    #[test]
    fn a_wrong_kind_of_line_is_asked_for_again() {
        check("ptm", Some("ptm"));
        check("VDSL\n\n atm ", Some("atm"));
        check("dsl\ndsl\ndsl\ndsl\ndsl\nptm", None);
        check("", None);
    }
}
