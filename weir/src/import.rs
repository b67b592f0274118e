//! `weir import`: converts another tool's configuration to policies.

mod source;

use crate::kind::{self, Kind};
use crate::output::{Exit, Format, Output};
use crate::whole_file::cannot;
use crate::{Run, input, whole_file};
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use serde::Serialize;
use source::Question;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use weir_core::units::Rate;
use weir_import::import::{
    self, Fate, Import as Imports, Imported, LANGUAGES, Line, Options, known,
};
use weir_policy::finding::Finding;
use weir_policy::reader::list;
use weir_policy::render;

/// Converts another tool's configuration to policies, and reports the fate of each line.
///
/// Without KIND it says which kind a file is. The policy goes to standard output, the report to
/// standard error. Exits 0 with a policy, 1 if the file is wrong, 2 if it cannot be read or a
/// policy cannot be written.
#[derive(clap::Args)]
#[command(override_usage = "weir import [OPTIONS] [KIND] [FILE]\n       \
                            weir import tc [OPTIONS] --run SCRIPT [ARGUMENT]...")]
pub struct Import {
    /// The kind of file: `tc` is lines of tc, a `tc -batch` file or what `tc show` prints; `sqm`
    /// OpenWrt's, `systemd` a .network file, `mqc` Cisco's policy-maps, `libreqos` its
    /// ShapedDevices.csv.
    #[arg(value_name = "KIND", value_parser = Languages)]
    language: String,
    /// The configuration file of that tool.
    file: Option<PathBuf>,
    /// With `tc`: read what is in force, from the kernel.
    #[arg(long, conflicts_with_all = ["file", "run"])]
    from_kernel: bool,
    /// With `--from-kernel`: this interface alone; with a file: the interface of lines that name
    /// none.
    #[arg(long, value_name = "IF")]
    dev: Option<String>,
    /// With `--from-kernel`: in the network namespace of this name (`ip netns`).
    #[arg(long, value_name = "NAME", requires = "from_kernel")]
    netns: Option<String>,
    /// With `tc`: run a script in a sandbox, and import the commands that it gives. All that
    /// follows are its arguments, so options such as `--out` stand before it.
    #[arg(long, value_name = "SCRIPT", num_args = 1.., allow_hyphen_values = true,
          conflicts_with = "file")]
    run: Vec<OsString>,
    /// With `--run`: how many seconds the script may run.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, requires = "run")]
    time_limit: u64,
    /// Convert only the policy of this interface.
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// The rate of an interface for which the file gives none, such as "100 Mbit/s".
    #[arg(long)]
    rate: Option<Rate>,
    /// The file of the policy; for several interfaces a folder, in which each gets NAME.toml.
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
}

/// Takes the kinds of file, and any other word: what is not a kind may be a file.
#[derive(Clone)]
struct Languages;

impl TypedValueParser for Languages {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = LANGUAGES.iter().map(|row| PossibleValue::new(row.name));
        Some(Box::new(values))
    }
}

/// The output of `--format json`; docs/import.md describes it.
#[derive(Serialize)]
struct Printed<'a> {
    file: &'a str,
    language: &'a str,
    policies: &'a [Imported],
    lines: &'a [Line],
    /// The calls of a script beside tc.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    called: &'a [String],
    /// The calls of a script that asked.
    #[serde(skip_serializing_if = "<[Question]>::is_empty")]
    questions: &'a [Question],
    findings: &'a [Finding],
}

impl Run for Import {
    fn run(self, output: &Output) -> Exit {
        let Some(language) = import::find(&self.language) else {
            return output.refuse(&self.unknown());
        };
        let source = match self.source(output) {
            Ok(source) => source,
            Err(why) => return output.refuse(&why),
        };
        let (name, bytes) = (&source.name, &source.bytes);
        let (rate, device) = (self.rate, self.dev.clone());
        let options = Options { rate, device, network: self.network(output) };
        let outcome = import::read(language, bytes, name, &options);
        let failed = outcome.failed();
        let mut found = outcome.plan.unwrap_or(Imports { policies: Vec::new(), lines: Vec::new() });
        if failed
            && self.file.is_some()
            && let Some(why) = kind::mistaken(name, bytes, Kind::of_language(language.name))
        {
            return output.refuse(&why);
        }
        if !failed && let Err(why) = self.choose(&mut found) {
            return output.refuse(&why);
        }
        if !failed && let Err(why) = self.write(&found.policies) {
            return output.refuse(&why);
        }
        match output.format {
            Format::Json => output.json(&Printed {
                file: name,
                language: language.name,
                policies: &found.policies,
                lines: &found.lines,
                called: &source.called,
                questions: &source.questions,
                findings: &outcome.findings,
            }),
            Format::Text => {
                let shown = render::render(&outcome.findings, &outcome.sources, false);
                tell(&shown, &found.lines, name);
                source.list();
            }
        }
        if failed {
            return Exit::Faults;
        }
        self.print(&found.policies, output);
        if source.is_cut { Exit::Faults } else { Exit::Clean }
    }
}

impl Import {
    /// Returns what to do where KIND is none: it may be a file, or a kind that Weir does not read.
    fn unknown(&self) -> String {
        let word = &self.language;
        if let Some(instead) = known::named(word).and_then(|known| known.instead) {
            return format!("weir has no importer for `{word}`: {instead}");
        }
        let names: Vec<&str> = LANGUAGES.iter().map(|row| row.name).collect();
        let kinds = list(&names);
        let bytes = input::read(Path::new(word)).ok().filter(|_| self.file.is_none());
        let Some(bytes) = bytes else {
            return format!("`{word}` is neither a kind of file nor a file: kinds are {kinds}");
        };
        let known = known::of(&String::from_utf8_lossy(&bytes));
        match known.map(|known| (known, known.instead)) {
            Some((known, None)) => {
                let (noun, name) = (known.noun, known.name);
                format!("{word} is {noun}: `weir import {name} {word}` makes a policy of it")
            }
            Some((known, Some(instead))) => {
                format!("{word} is {}, which Weir does not read: {instead}", known.noun)
            }
            None => format!("what {word} is, is not known: name its kind, one of {kinds}"),
        }
    }

    /// Reads LibreQoS's network.json beside the file, if there is one.
    fn network(&self, output: &Output) -> Option<String> {
        let file = self.file.as_ref().filter(|_| self.language == "libreqos")?;
        let beside = file.with_file_name("network.json");
        if beside == *file {
            return None;
        }
        let text = String::from_utf8(input::read(&beside).ok()?).ok()?;
        output.warn(&format!("{} is read, too", beside.display()));
        Some(text)
    }

    /// Keeps only the requested policy.
    fn choose(&self, found: &mut Imports) -> Result<(), String> {
        let Some(wanted) = &self.interface else { return Ok(()) };
        let names: Vec<_> = found.policies.iter().map(|one| one.interface.clone()).collect();
        found.policies.retain(|one| one.interface == *wanted);
        match found.policies.is_empty() {
            true => Err(format!("no interface `{wanted}`; the file shapes {}", names.join(", "))),
            false => Ok(()),
        }
    }

    /// Writes the policies, if a path is given.
    fn write(&self, policies: &[Imported]) -> Result<(), String> {
        let inputs: Vec<&Path> = self.file.iter().map(PathBuf::as_path).collect();
        whole_file::distinct(&[("--out", &self.out)], &inputs)?;
        let Some(out) = &self.out else { return Ok(()) };
        if let [one] = policies
            && !out.is_dir()
        {
            return whole_file::write(out, &one.policy);
        }
        let failed = |error| cannot("write", &out.display().to_string(), &error);
        std::fs::create_dir_all(out).map_err(failed)?;
        for one in policies {
            // An interface's name becomes one part of a path, whatever it contains.
            let name = format!("{}.toml", one.interface.replace(['/', '\\'], "_"));
            whole_file::write(&out.join(name), &one.policy)?;
        }
        Ok(())
    }

    /// Prints the policies as text, unless a path is given.
    fn print(&self, policies: &[Imported], output: &Output) {
        if self.out.is_some() || output.format == Format::Json {
            return;
        }
        let texts: Vec<&str> = policies.iter().map(|one| one.policy.as_str()).collect();
        output.text(&texts.join("\n"));
        if policies.len() > 1 {
            output.warn(&format!(
                "{0} interfaces, {0} policies: choose one with `--interface`, or write each to a \
                 file with `--out FOLDER`",
                policies.len()
            ));
        }
    }
}

/// Prints findings, then each line that is not simply kept, then the number of lines by fate.
fn tell(findings: &str, lines: &[Line], name: &str) {
    let mut text = findings.to_owned();
    for line in lines.iter().filter(|line| line.fate != Fate::Kept || !line.note.is_empty()) {
        let (number, fate) = (line.place.line, line.fate.name());
        text.push_str(&format!("{name}:{number}: {fate}: {}\n", line.text));
        line.note.lines().for_each(|note| text.push_str(&format!("    {note}\n")));
    }
    if !lines.is_empty() {
        let count = |fate| lines.iter().filter(|line| line.fate == fate).count();
        let [kept, approximated, lost] = [Fate::Kept, Fate::Approximated, Fate::Lost].map(count);
        text.push_str(&format!("{name}: {kept} kept, {approximated} approximated, {lost} lost\n"));
    }
    // If standard error is closed, the error cannot be reported anywhere.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
