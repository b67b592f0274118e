//! `weir init`: writes a policy for each direction of a line, and a deployment.
//!
//! The texts are in `init/`; a word between two `@` stands for a value. What is written is checked
//! first, and nothing is overwritten.

use crate::Run;
use crate::output::{Exit, Format, Output};
use crate::whole_file;
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use weir_core::units::Rate;
use weir_policy::{deployment, render};

/// Writes a commented policy for each direction of a line, and a deployment that joins them.
///
/// Hosts share the line evenly, queues are short, and calls and bulk traffic are told apart by
/// DSCP. Asks on a terminal for what is missing. Overwrites nothing.
#[derive(clap::Args)]
pub struct Init {
    /// The rate towards you, such as "20 Mbit/s".
    #[arg(long, value_name = "RATE")]
    down: Option<Rate>,
    /// The rate away from you, such as "5 Mbit/s".
    #[arg(long, value_name = "RATE")]
    up: Option<Rate>,
    /// The kind of line, which decides what each packet takes on it.
    #[arg(long, value_parser = PossibleValuesParser::new(LINKS.map(|link| link.word)))]
    link: Option<String>,
    /// The interface towards your network.
    #[arg(long, value_name = "NAME", default_value = "lan0")]
    inside: String,
    /// The interface towards the line.
    #[arg(long, value_name = "NAME", default_value = "wan0")]
    outside: String,
    /// The folder of the files; it is made if it does not exist.
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
}

/// A kind of line.
struct Link {
    word: &'static str,
    /// The value of `overhead`.
    overhead: &'static str,
    what: &'static str,
}

/// A direction, and what its hosts are told apart by.
struct Direction {
    name: &'static str,
    hash: &'static str,
    fair: &'static str,
}

/// The output of `--format json`.
#[derive(Serialize)]
struct Written {
    files: Vec<String>,
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
        let down = asked(self.down, "--down", "The rate towards you, such as 20 Mbit/s")?;
        let up = asked(self.up, "--up", "The rate away from you, such as 5 Mbit/s")?;
        let kinds = LINKS.map(|link| link.word).join(", ");
        let word = asked(self.link.clone(), "--link", &format!("The kind of line ({kinds})"))?;
        let link = LINKS.iter().find(|link| link.word == word);
        let link = link.ok_or_else(|| format!("--link {word}: write one of {kinds}"))?;
        let policies = [policy(&DIRECTIONS[0], down, link)?, policy(&DIRECTIONS[1], up, link)?];
        let [download, upload] = policies;
        let deployment = fill(
            DEPLOYMENT,
            &[
                ("NAME", NAME),
                ("INSIDE", &self.inside.escape_default().to_string()),
                ("OUTSIDE", &self.outside.escape_default().to_string()),
            ],
        );
        let files = [("download.toml", download), ("upload.toml", upload), (MAIN, deployment)];
        if let Some(faults) = faults(&files, output) {
            return Ok(faults);
        }
        self.write_all(&files)?;
        let names = files.map(|(name, _)| self.out.join(name).display().to_string()).to_vec();
        match output.format {
            Format::Json => output.json(&Written { files: names }),
            Format::Text => output.text(&next_steps(&names)),
        }
        Ok(Exit::Clean)
    }

    /// Writes all files or none.
    fn write_all(&self, files: &[(&str, String)]) -> Result<(), String> {
        let paths: Vec<_> = files.iter().map(|(name, _)| self.out.join(name)).collect();
        if let Some(path) = paths.iter().find(|path| path.symlink_metadata().is_ok()) {
            let path = path.display();
            return Err(format!("{path} exists: name another folder with `-o`, or move it away"));
        }
        let folder = self.out.display().to_string();
        fs::create_dir_all(&self.out)
            .map_err(|error| whole_file::cannot("make", &folder, &error))?;
        for (at, (path, (_, text))) in paths.iter().zip(files).enumerate() {
            if let Err(message) = whole_file::write_new(path, text) {
                for written in &paths[..at] {
                    // The failure to write is what the user must know.
                    let _ = fs::remove_file(written);
                }
                return Err(message);
            }
        }
        Ok(())
    }
}

/// Returns the value of an option, or asks for it on a terminal.
fn asked<T: std::str::FromStr>(given: Option<T>, option: &str, question: &str) -> Result<T, String>
where
    T::Err: std::fmt::Display,
{
    if let Some(value) = given {
        return Ok(value);
    }
    let missing = || format!("{option} is missing: write it, or run `weir init` on a terminal");
    if !io::stdin().is_terminal() {
        return Err(missing());
    }
    let mut lines = io::stdin().lock().lines();
    for _ in 0..QUESTIONS_MAX {
        // The question is no result, so it does not go to standard output.
        let _ = write!(io::stderr(), "{question}: ");
        let Some(Ok(line)) = lines.next() else { break };
        match line.trim().parse() {
            Ok(value) => return Ok(value),
            Err(error) => {
                let _ = writeln!(io::stderr(), "{error}");
            }
        }
    }
    Err(missing())
}

/// Returns the text of the policy of a direction.
fn policy(direction: &Direction, line: Rate, link: &Link) -> Result<String, String> {
    let bits = line.bits_per_second();
    if bits < RATE_MIN {
        let min = Rate::new(RATE_MIN).map_or_else(String::new, |rate| rate.to_string());
        return Err(format!("a line of {line} is below {min}, and a call would fill it"));
    }
    // Rounded down to whole kbit/s, so that the parts never exceed the whole.
    let part = |percent: u64| bits / 100 * percent / 1000;
    let rate = |kbits: u64| format!("{kbits} kbit/s");
    let whole = part(PERCENT);
    let of_whole = |percent: u64| rate(whole * percent / 100);
    let values = [
        ("DIRECTION", direction.name.to_owned()),
        ("LINE_RATE", line.to_string()),
        ("LINK", link.word.to_owned()),
        ("RATE", rate(whole)),
        ("PERCENT", PERCENT.to_string()),
        ("OVERHEAD", link.overhead.to_owned()),
        ("WHAT", link.what.to_owned()),
        ("VOICE_RATE", of_whole(VOICE_PERCENT)),
        ("VOICE_CEIL", of_whole(2 * VOICE_PERCENT)),
        ("HASH", direction.hash.to_owned()),
        ("FAIR", direction.fair.to_owned()),
        ("HOSTS_RATE", of_whole(HOSTS_PERCENT)),
        ("BULK_RATE", of_whole(BULK_PERCENT)),
    ];
    let values: Vec<_> = values.iter().map(|(word, value)| (*word, value.as_str())).collect();
    Ok(fill(POLICY, &values))
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

fn next_steps(names: &[String]) -> String {
    let [download, upload, deployment] = names else { return String::new() };
    format!(
        "written: {download}, {upload}, {deployment}\n\
         check:   weir check {deployment} --bounds\n\
         run:     weir up {deployment}     (as root, between the interfaces that it names)\n"
    )
}

/// What a frame takes on each kind of line, beside its own bytes.
const LINKS: [Link; 5] = [
    Link {
        word: "ethernet",
        overhead: "\"ethernet\"",
        what: "fibre or Ethernet without PPPoE: check sequence, preamble and gap",
    },
    Link {
        word: "pppoe",
        overhead: "\"pppoe\"",
        what: "PPPoE on fibre or Ethernet: 8 B for it, 24 B for Ethernet",
    },
    Link {
        word: "ptm",
        overhead: "\"pppoe-ptm\"",
        what: "VDSL with PPPoE: 8 B for it, check sequence 4 B, PTM 4 B",
    },
    Link {
        word: "docsis",
        overhead: "\"docsis\"",
        what: "cable counts Ethernet frames with their check sequence",
    },
    Link {
        word: "atm",
        overhead: "\"pppoe-atm\"",
        what: "ADSL with PPPoE in LLC: cells of 53 B carry 48 B",
    },
];
const DIRECTIONS: [Direction; 2] = [
    Direction { name: "download", hash: "dstaddr", fair: "each host of your network has its part" },
    Direction { name: "upload", hash: "srcaddr", fair: "each host of your network has its part" },
];
const POLICY: &str = include_str!("init/policy.txt");
const DEPLOYMENT: &str = include_str!("init/deployment.txt");
/// The file that names the others.
const MAIN: &str = "deployment.toml";
/// The deployment's name in `weir status`.
const NAME: &str = "home";
/// Of the line's rate.
const PERCENT: u64 = 95;
/// Of the link's rate; these and the hosts' make the whole.
const VOICE_PERCENT: u64 = 15;
const HOSTS_PERCENT: u64 = 75;
const BULK_PERCENT: u64 = 10;
/// In bit/s.
const RATE_MIN: u64 = 256_000;
const QUESTIONS_MAX: usize = 5;
