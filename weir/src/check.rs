//! `weir check`: reports the findings of a policy, a deployment or a scenario.

use crate::kind::{self, Kind};
use crate::output::{Exit, Format, Output};
use crate::{Run, input, whole_file};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use weir_daemon::circuits::foreseen::Foreseen;
use weir_daemon::keeper::found::Found;
use weir_daemon::up::{api, circuits};
use weir_gateway::site;
use weir_link::deploy;
use weir_link::memory::{self, Part};
use weir_policy::deployment::{Deployment, Direction};
use weir_policy::diff::printed::Figures;
use weir_policy::diff::{Standing, standings};
use weir_policy::finding::{Finding, Outcome, Severity};
use weir_policy::policy::Policy;
use weir_policy::reader::{Document, top_level};
use weir_policy::table::{Table, shown};
use weir_policy::{deployment, file, fix, policy, render};
use weir_sim::memory::Shown;
use weir_sim::read;

/// Checks a policy, a deployment or a scenario: what is wrong, where, and how to cure it.
///
/// Exits 0 without errors (there may be warnings), 1 with errors, 2 if the file cannot be read. A
/// file of the API that is there and that `weir up` refuses is an error, one that is not there is a
/// warning: this may be another machine.
#[derive(clap::Args)]
pub struct Check {
    /// The policy, deployment or scenario, in TOML.
    file: PathBuf,
    /// Print what each class of a policy, or of each direction of a deployment, gets at least, its
    /// longest delay and largest backlog, and its rate while all want more and while it is alone.
    #[arg(long)]
    bounds: bool,
    /// Write into the policy every cure that leaves nothing to choose, such as the right word for a
    /// misspelt one, and check it then. Each is printed; nothing is removed.
    #[arg(long)]
    fix: bool,
    /// Print all findings, not only the first five of each kind.
    #[arg(long)]
    all: bool,
}

/// The output of `--format json`; docs/findings.md describes it.
#[derive(Serialize)]
struct Checked<'a, F> {
    file: String,
    kind: &'static str,
    errors: usize,
    warnings: usize,
    findings: &'a [F],
    #[serde(skip_serializing_if = "Option::is_none")]
    bounds: Option<Vec<RowFigures<'a>>>,
    /// The most memory that `weir up` needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
    /// Files, and the user, that `weir up` would miss or refuse on this machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<String>,
    /// The circuits of the file that `[deployment.circuits]` names.
    #[serde(skip_serializing_if = "Option::is_none")]
    circuits: Option<Foreseen>,
}

/// The memory that `weir up` needs at most for a deployment.
#[derive(Serialize)]
struct Memory {
    total_bytes: u64,
    /// The sum of the parts that are there from the start on.
    start_bytes: u64,
    parts: Vec<Part>,
}

impl Memory {
    /// Returns that of a deployment, where its interfaces are as they are now.
    fn of(deployment: &Deployment) -> Self {
        let forecast = memory::forecast(deployment, memory::mtu_now);
        let (total_bytes, start_bytes) = (forecast.total(), forecast.at_start());
        Self { total_bytes, start_bytes, parts: forecast.parts }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |later: bool| {
            let parts = self.parts.iter().filter(|part| part.later == later);
            let shown = parts.map(|part| format!("{} {}", part.name, Shown(part.bytes)));
            shown.collect::<Vec<_>>().join(", ")
        };
        let (total, start) = (Shown(self.total_bytes), Shown(self.start_bytes));
        f.write_str(&wrapped(&format!(
            "`weir up` needs at most {total} of memory. From the start {start}: {}. As traffic, \
             changes and readers come: {}",
            of(false),
            of(true)
        )))
    }
}

/// The figures of a class, with its name, and its direction if the file has several.
struct Row {
    direction: Option<String>,
    class: String,
    standing: Standing,
}

/// The row in JSON.
#[derive(Serialize)]
struct RowFigures<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'a str>,
    class: &'a str,
    #[serde(flatten)]
    figures: Figures,
}

impl Run for Check {
    fn run(self, output: &Output) -> Exit {
        let name = self.file.display().to_string();
        // With --fix the file is replaced, so it is not kept as an input.
        let read = if self.fix { file::read(&self.file) } else { input::read(&self.file) };
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => return output.refuse(&format!("cannot read {name}: {error}")),
        };
        let bytes = match self.fix.then(|| self.fixed(output, &name, &bytes)).transpose() {
            Ok(fixed) => fixed.unwrap_or(bytes),
            Err(why) => return output.refuse(&why),
        };
        let document = Document::new(&name, &bytes);
        let keys = document.top_level();
        let read_file = |path: &Path| input::read_named(path);
        let kind = Kind::of_tables(&keys);
        if self.bounds && kind == Some(Kind::Scenario) {
            let cure = "name the policy that it runs; `weir sim` compares a run with its bounds";
            return output.refuse(&format!("{name} is a scenario, which has no bounds: {cure}"));
        }
        let page = |kind| Page { output, name: &name, kind, all: self.all };
        if kind == Some(Kind::Deployment) {
            let outcome = deployment::parse(&bytes, &name, &read_file);
            return check_deployment(&page("deployment"), &outcome, self.bounds);
        }
        if kind == Some(Kind::Scenario) {
            let outcome = read::parse(&bytes, &name, &read_file);
            return page("scenario").print(&outcome);
        }
        let outcome = policy::of_document(&document, None, &read_file);
        if outcome.failed() && kind.is_none() {
            return kind::refuse(output, (&name, &bytes), Kind::Policy, &outcome);
        }
        let policy = outcome.plan.as_ref().filter(|_| self.bounds && !outcome.failed());
        page("policy").print_with(&outcome, policy.map(Row::of_policy))
    }
}

/// The output of the check of a file.
struct Page<'a> {
    output: &'a Output,
    name: &'a str,
    kind: &'static str,
    /// Whether all findings of a kind are printed.
    all: bool,
}

impl Check {
    /// Writes the policy with its fixes, and returns it.
    fn fixed(&self, output: &Output, name: &str, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let kind = Kind::of_tables(&top_level(bytes));
        let text = std::str::from_utf8(bytes).ok().filter(|_| kind == Some(Kind::Policy));
        let text = text.filter(|_| self.file != Path::new("-"));
        let text = text.ok_or_else(|| format!("--fix takes a policy in a file, not {name}"))?;
        let check = |text: &str| {
            policy::parse_bytes(text.as_bytes(), name, None, &input::read_named).findings
        };
        let (text, fixed) = fix::all(text, &check);
        if !fixed.is_empty() {
            whole_file::write(&self.file, &text)?;
        }
        if output.format == Format::Text {
            fixed.iter().for_each(|words| output.text(&format!("fixed {name}:{words}\n")));
        }
        Ok(text.into_bytes())
    }
}

impl<'a> RowFigures<'a> {
    fn of(row: &'a Row) -> Self {
        Self {
            direction: row.direction.as_deref(),
            class: &row.class,
            figures: Figures::of(&row.standing),
        }
    }
}

impl Row {
    fn of_policy(policy: &Policy) -> Vec<Self> {
        let row = |(class, standing)| Self { direction: None, class, standing };
        standings(policy).into_iter().map(row).collect()
    }

    fn of_way(direction: &Direction) -> Vec<Self> {
        let named = |row| Self { direction: Some(direction.name.clone()), ..row };
        Self::of_policy(&direction.policy_with_trains()).into_iter().map(named).collect()
    }
}

/// Prints the findings of a deployment, the guarantees of its classes if requested, and the memory
/// that it needs.
fn check_deployment(page: &Page<'_>, outcome: &Outcome<Deployment>, bounds: bool) -> Exit {
    let Page { output, name, .. } = *page;
    let plan = outcome.plan.as_ref().filter(|_| !outcome.failed());
    let rows: Option<Vec<Row>> =
        plan.filter(|_| bounds).map(|plan| plan.directions.iter().flat_map(Row::of_way).collect());
    let Some(memory) = plan.map(Memory::of) else {
        return page.print(outcome);
    };
    let files = plan.map(deploy::missing).unwrap_or_default();
    let user = plan.and_then(deploy::missing_user);
    let api = plan.and_then(|plan| api::read(plan, site::check).err());
    let secret = plan.and_then(|plan| circuits::check(plan).err());
    let is_wrong = api.is_some() && plan.is_some_and(api::is_here)
        || secret.is_some() && plan.is_some_and(circuits::is_here);
    let (circuits, unread) = match plan.and_then(circuits::foresee) {
        Some((path, Ok(foreseen))) => (Some((path, foreseen)), None),
        Some((_, Err(why))) => {
            (None, Some(format!("{why}; no circuit joins until it can be read")))
        }
        None => (None, None),
    };
    let files = files.into_iter().chain(unread).collect::<Vec<_>>();
    let refused = api.into_iter().chain(secret);
    let api: Vec<_> = refused.map(|why| format!("`weir up` will not start: {why}")).collect();
    if output.format == Format::Json {
        let bounds = rows.as_ref().map(|rows| rows.iter().map(RowFigures::of).collect());
        let memory = Some(memory);
        let missing = files.into_iter().chain(user).chain(api).collect();
        let circuits = circuits.map(|(_, foreseen)| foreseen);
        let checked = checked(name, "deployment", outcome, bounds);
        output.json(&Checked { memory, missing, circuits, ..checked });
        return if is_wrong { Exit::Faults } else { Exit::Clean };
    }
    let exit = page.print_with(outcome, rows);
    output.text(&memory.to_string());
    files.iter().for_each(|text| output.text(&format!("note: {text}\n")));
    user.iter().for_each(|text| output.text(&format!("warning: {text}\n")));
    circuits.iter().for_each(|(path, foreseen)| output.text(&shaped(path, foreseen)));
    let severity = if is_wrong { "error" } else { "warning" };
    api.iter().for_each(|text| output.text(&format!("{severity}: {text}\n")));
    if is_wrong { Exit::Faults } else { exit }
}

/// Says how many circuits a file has, and what is wrong with some.
fn shaped(path: &Path, foreseen: &Foreseen) -> String {
    let path = path.display();
    let Foreseen { circuits, faults, more } = foreseen;
    let mut text: String = faults.iter().map(|why| format!("warning: {path}: {why}\n")).collect();
    if *more > 0 {
        text += &format!("warning: {path}: and {more} more\n");
    }
    format!("{path}: circuits: {circuits}, faults: {}\n{text}", faults.len() + more)
}

impl Page<'_> {
    /// Prints the findings of a file; returns the exit code.
    fn print<T>(&self, outcome: &Outcome<T>) -> Exit {
        let findings = outcome.findings.as_slice();
        match self.output.format {
            Format::Json => self.output.json(&checked(self.name, self.kind, outcome, None)),
            Format::Text => {
                let render = if self.all { render::render_all } else { render::render };
                let colour = self.output.colour();
                self.output.text(&render(findings, &outcome.sources, colour));
                let (name, kind) = (self.name, self.kind);
                self.output.text(&format!("{name}: {kind}, {}\n", render::summary(findings)));
            }
        }
        if outcome.failed() { Exit::Faults } else { Exit::Clean }
    }

    /// As [`Page::print`], with the guarantees of classes if requested.
    fn print_with<T>(&self, outcome: &Outcome<T>, rows: Option<Vec<Row>>) -> Exit {
        let Some(rows) = rows else { return self.print(outcome) };
        if self.output.format == Format::Json {
            let bounds = rows.iter().map(RowFigures::of);
            self.output.json(&checked(self.name, self.kind, outcome, Some(bounds.collect())));
            return Exit::Clean;
        }
        let exit = self.print(outcome);
        self.output.text(&format!("{}\n{}{}", table(&rows), wrapped(LEGEND), notes(&rows)));
        exit
    }
}

/// Returns the guarantees of classes as a table.
fn table(rows: &[Row]) -> Table {
    let names = Standing::default().figures().map(|figure| figure.0);
    let ways = rows.iter().any(|row| row.direction.is_some());
    let mut table =
        Table::new(ways.then_some("direction").into_iter().chain(["class"]).chain(names));
    if ways {
        table = table.words(&[1]);
    }
    for row in rows {
        let figures = row.standing.figures().into_iter().zip(row.standing.notes());
        let figures = figures.map(|((_, figure), note)| {
            // A note on a known figure says what that assumes.
            let mark = if figure.is_some() && note.is_some() { "*" } else { "" };
            format!("{}{mark}", shown(figure))
        });
        let way = row.direction.clone().into_iter();
        table.row(way.chain([row.class.clone()]).chain(figures));
    }
    table
}

/// Says below a table why cells are `-`, and what those marked `*` assume; each note once, with the
/// classes that it is about.
fn notes(rows: &[Row]) -> String {
    let mut about: Vec<((&str, String), Vec<String>)> = Vec::new();
    for row in rows {
        for ((figure, value), note) in row.standing.figures().into_iter().zip(row.standing.notes())
        {
            let Some(note) = note.map(Cow::into_owned) else { continue };
            // The time of a turn stands beside the class, so that classes share the note.
            let turn = row.standing.turn().filter(|_| figure.starts_with("delay"));
            let note =
                turn.as_ref().map_or(note.clone(), |turn| note.replace(turn, "the time below"));
            let mark = if value.is_some() { "*" } else { "-" };
            let proven = row.standing.at_least.proven.filter(|_| figure.starts_with("at least"));
            let proven =
                proven.map(|rate| format!(" (proven: {} Mbit/s)", shown(Some(rate / 1e6))));
            let way = row.direction.as_ref().map(|way| format!("{way} ")).unwrap_or_default();
            let turn = turn.map(|turn| format!(" ({turn})"));
            let beside = proven.or(turn).unwrap_or_default();
            let class = format!("{way}`{}`{beside}", row.class);
            let at = about.iter().position(|known| known.0.0 == figure && known.0.1 == note);
            let at = at.unwrap_or_else(|| {
                about.push(((figure, note), vec![mark.to_owned()]));
                about.len() - 1
            });
            about[at].1.push(class);
        }
    }
    let line = |((figure, note), classes): &((&str, String), Vec<String>)| {
        let (mark, classes) = (&classes[0], &classes[1..]);
        let mut names = classes[..classes.len().min(NAMES_SHOWN)].join(", ");
        if classes.len() > NAMES_SHOWN {
            names += &format!(" and {} more", classes.len() - NAMES_SHOWN);
        }
        wrapped(&format!("{mark} {figure}: {note}; so for {names}"))
    };
    about.iter().map(line).collect()
}

/// Breaks a text into lines of at most [`WIDTH`] characters, indented but for the first.
fn wrapped(text: &str) -> String {
    let (mut lines, mut width) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            lines += "\n ";
            width = 1;
        }
        lines += if width > 0 { " " } else { "" };
        lines += word;
        width += length + 1;
    }
    lines + "\n"
}

fn checked<'a, T>(
    name: &str,
    kind: &'static str,
    outcome: &'a Outcome<T>,
    bounds: Option<Vec<RowFigures<'a>>>,
) -> Checked<'a, Finding> {
    Checked {
        file: name.to_owned(),
        kind,
        errors: outcome.count(Severity::Error),
        warnings: outcome.count(Severity::Warning),
        findings: &outcome.findings,
        bounds,
        memory: None,
        missing: Vec::new(),
        circuits: None,
    }
}

/// Prints the findings of a file; returns the exit code.
pub fn print<T>(output: &Output, name: &str, kind: &'static str, outcome: &Outcome<T>) -> Exit {
    Page { output, name, kind, all: false }.print(outcome)
}

/// As [`print`], of a deployment with errors that another process found.
pub fn print_found(output: &Output, name: &str, kind: &'static str, found: &Found) -> Exit {
    let Found { errors, warnings, text, summary, findings, .. } = found;
    match output.format {
        Format::Json => output.json(&Checked {
            file: name.to_owned(),
            kind,
            errors: *errors,
            warnings: *warnings,
            findings,
            bounds: None,
            memory: None,
            missing: Vec::new(),
            circuits: None,
        }),
        Format::Text => {
            output.text(text);
            output.text(&format!("{name}: {kind}, {summary}\n"));
        }
    }
    Exit::Faults
}

/// The meaning of the columns.
const LEGEND: &str = "at least: whatever others do, or, with *, on the condition below; delay: the \
                      longest from a packet's offer to its last bit, whatever others do within \
                      the `arrival` that they declare (* says below what shortens it); greedy: \
                      while every class always has packets to send; alone: while only this one \
                      has; -: not known, for the reason below";
/// The most classes named in a note; JSON has all.
const NAMES_SHOWN: usize = 4;
/// The most characters of a line of notes.
const WIDTH: usize = 100;
