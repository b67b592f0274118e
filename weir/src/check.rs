//! `weir check`: the findings of a policy, a deployment or a scenario.

use crate::Run;
use crate::output::{Exit, Format, Output};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::path::{Path, PathBuf};
use weir_policy::diff::{Standing, standings};
use weir_policy::finding::{Finding, Outcome, Severity};
use weir_policy::policy::Policy;
use weir_policy::reader::Document;
use weir_policy::{deployment, file, policy, render};
use weir_sim::read;

/// Checks a policy, a deployment or a scenario: what is wrong, where, and what to do about it.
///
/// Exits 0 without errors (there may be warnings), 1 with errors, 2 if the file cannot be read.
#[derive(clap::Args)]
pub struct Check {
    /// The policy, deployment or scenario, in TOML.
    file: PathBuf,
    /// Print what each class of a policy may count on: guaranteed rate, longest delay, largest
    /// backlog, and what it gets while all want more and while it is alone.
    #[arg(long)]
    bounds: bool,
}

/// What `--format json` prints; docs/findings.md describes it.
#[derive(Serialize)]
struct Checked<'a> {
    file: String,
    kind: &'static str,
    errors: usize,
    warnings: usize,
    findings: &'a [Finding],
    #[serde(skip_serializing_if = "Option::is_none")]
    bounds: Option<Vec<Row>>,
}

/// What a class may count on, with its name.
#[derive(Serialize)]
struct Row {
    class: String,
    #[serde(flatten)]
    figures: Figures,
}

/// What a class may count on; `None` where nothing is known. docs/bounds.md describes it.
#[derive(Serialize)]
pub struct Figures {
    guaranteed_bps: Option<f64>,
    delay_us: Option<f64>,
    backlog_bytes: Option<f64>,
    greedy_bps: Option<f64>,
    alone_bps: f64,
}

impl Figures {
    /// Those of a class.
    pub fn of(standing: &Standing) -> Self {
        Self {
            guaranteed_bps: standing.bound.guaranteed,
            delay_us: standing.bound.delay.map(|seconds| seconds * 1e6),
            backlog_bytes: standing.bound.backlog,
            greedy_bps: standing.greedy,
            alone_bps: standing.alone,
        }
    }
}

impl Run for Check {
    fn run(self, output: &Output) -> Exit {
        let name = self.file.display().to_string();
        let bytes = match file::read(&self.file) {
            Ok(bytes) => bytes,
            Err(error) => return output.refuse(&format!("cannot read {name}: {error}")),
        };
        let document = Document::new(&name, &bytes);
        let keys = document.top_level();
        let read_file = |path: &Path| file::read(path);
        let is_policy = !deployment::is_deployment(&keys) && !read::is_scenario(&keys);
        if self.bounds && !is_policy {
            return output
                .refuse(&format!("{name} is no policy; `--bounds` says nothing of others"));
        }
        if deployment::is_deployment(&keys) {
            let outcome = deployment::parse(&bytes, &name, &read_file);
            return print(output, &name, "deployment", &outcome);
        }
        if read::is_scenario(&keys) {
            let outcome = read::parse(&bytes, &name, &read_file);
            return print(output, &name, "scenario", &outcome);
        }
        let outcome = policy::of_document(&document, None);
        let exit = match &outcome.plan {
            Some(policy) if self.bounds => print_bounds(output, &name, &outcome, policy),
            _ => print(output, &name, "policy", &outcome),
        };
        // The command ends here, and the system takes memory back faster than table by table.
        std::mem::forget((document, outcome));
        exit
    }
}

/// As [`print()`], with what the classes may count on.
fn print_bounds(output: &Output, name: &str, outcome: &Outcome<Policy>, policy: &Policy) -> Exit {
    let standings = standings(policy);
    if output.format == Format::Json {
        let row = |(class, standing): (&String, &Standing)| Row {
            class: class.clone(),
            figures: Figures::of(standing),
        };
        let bounds = Some(standings.iter().map(row).collect());
        output.json(&checked(name, "policy", outcome, bounds));
        return Exit::Clean;
    }
    let exit = print(output, name, "policy", outcome);
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    let names = Standing::default().figures().map(|figure| figure.0);
    table.set_header(["class"].into_iter().chain(names));
    for (class, standing) in &standings {
        let figures = standing.figures().map(|figure| shown(figure.1));
        table.add_row([class.clone()].into_iter().chain(figures));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    output.text(&format!("{table}\n"));
    exit
}

/// A figure in a table.
pub fn shown(figure: Option<f64>) -> String {
    match figure {
        None => "-".to_owned(),
        Some(figure) if figure < 1000.0 => format!("{figure:.3}"),
        Some(figure) => format!("{figure:.0}"),
    }
}

fn checked<'a, T>(
    name: &str,
    kind: &'static str,
    outcome: &'a Outcome<T>,
    bounds: Option<Vec<Row>>,
) -> Checked<'a> {
    Checked {
        file: name.to_owned(),
        kind,
        errors: outcome.count(Severity::Error),
        warnings: outcome.count(Severity::Warning),
        findings: &outcome.findings,
        bounds,
    }
}

/// Prints what was found in a file, and answers how the command ends.
pub fn print<T>(output: &Output, name: &str, kind: &'static str, outcome: &Outcome<T>) -> Exit {
    let findings = outcome.findings.as_slice();
    match output.format {
        Format::Json => output.json(&checked(name, kind, outcome, None)),
        Format::Text => {
            output.text(&render::render(findings, &outcome.sources, output.colour()));
            output.text(&format!("{name}: {kind}, {}\n", render::summary(findings)));
        }
    }
    if outcome.failed() { Exit::Faults } else { Exit::Clean }
}
