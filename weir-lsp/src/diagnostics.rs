//! Diagnostics: the findings of `weir check`, where they stand.

use crate::document::{Document, Kind};
use crate::position::{Encoding, Lines};
use crate::uri;
use lsp_types::{
    Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, NumberOrString, Range,
};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::Path;
use weir_policy::deployment;
use weir_policy::diff::{Standing, standings};
use weir_policy::file::ReadFile;
use weir_policy::finding::{Finding, Outcome, Place, Severity, Source, Span};
use weir_policy::policy::{self, Policy};
use weir_sim::read as scenario;
use weir_sweep::{Sweep, file as sweep};

/// The outcome of checking a file.
#[derive(Debug, Default)]
pub struct Checked {
    /// The findings, in the order of the file.
    pub findings: Vec<Finding>,
    /// The files that they point into.
    pub sources: Vec<Source>,
    /// The plan of a policy without errors.
    pub policy: Option<Policy>,
    /// Why a sweep cannot be run, and where.
    pub fault: Option<sweep::Fault>,
    standings: OnceCell<BTreeMap<String, Standing>>,
}

impl Checked {
    /// Checks a text of a kind as `weir check` does; `read_file` reads the files that it names.
    pub fn of(kind: Kind, (name, text): (&str, &str), read_file: ReadFile<'_>) -> Self {
        let bytes = text.as_bytes();
        match kind {
            Kind::Policy => {
                let outcome = policy::parse_bytes(bytes, name, None, read_file);
                Self { policy: outcome.plan, ..Self::with(outcome.findings, outcome.sources) }
            }
            Kind::Deployment => Self::plain(deployment::parse(bytes, name, read_file)),
            Kind::Scenario => Self::plain(scenario::parse(bytes, name, read_file)),
            Kind::Sweep => {
                let spec = sweep::parse(text, Path::new(name), read_file);
                let fault = spec.and_then(|spec| {
                    Sweep::new(spec).map_err(|message| sweep::Fault { message, span: None })
                });
                Self { fault: fault.err(), ..Self::default() }
            }
        }
    }

    fn plain<T>(outcome: Outcome<T>) -> Self {
        Self::with(outcome.findings, outcome.sources)
    }

    fn with(findings: Vec<Finding>, sources: Vec<Source>) -> Self {
        Self { findings, sources, ..Self::default() }
    }

    /// Returns what a leaf of the policy gets, as `weir check --bounds` says.
    pub fn standing(&self, leaf: &str) -> Option<&Standing> {
        let policy = self.policy.as_ref()?;
        let all = self.standings.get_or_init(|| standings(policy).into_iter().collect());
        all.get(leaf)
    }
}

/// Returns the diagnostics of each file that the findings of `document` point into, by its name;
/// the document itself is among them also if it has none.
pub fn diagnostics(document: &Document, encoding: Encoding) -> BTreeMap<String, Vec<Diagnostic>> {
    let mut all = BTreeMap::from([(document.name.clone(), Vec::new())]);
    let Some(checked) = &document.checked else { return all };
    let places = Places::new(document, &checked.sources, encoding);
    for finding in &checked.findings {
        let diagnostic = places.diagnostic(finding);
        all.entry(finding.place.file.clone()).or_default().push(diagnostic);
    }
    if let Some(fault) = &checked.fault {
        let row = places.fault(fault);
        all.entry(document.name.clone()).or_default().push(row);
    }
    all
}

/// The files that findings point into.
struct Places<'a> {
    document: &'a Document,
    others: BTreeMap<&'a str, Lines>,
    encoding: Encoding,
}

impl<'a> Places<'a> {
    fn new(document: &'a Document, sources: &'a [Source], encoding: Encoding) -> Self {
        let others = sources.iter().filter(|source| source.name() != document.name);
        let lines = |source: &'a Source| (source.name(), Lines::new(source.text().to_owned()));
        Self { document, others: others.map(lines).collect(), encoding }
    }

    fn range(&self, place: &Place) -> Range {
        let lines = self.others.get(place.file.as_str()).unwrap_or(self.document.lines());
        let Span { start, end } = place.span;
        lines.range(start..end, self.encoding)
    }

    fn diagnostic(&self, finding: &Finding) -> Diagnostic {
        let mut message = finding.message.clone();
        if !finding.cure.is_empty() {
            message += &format!("\nhelp: {}", finding.cure);
        }
        if let Some(source) = finding.source {
            message += &format!("\nsource: {source}");
        }
        let related = finding.related.iter().filter_map(|related| {
            let uri = uri::of(&related.place.file)?;
            let location = Location { uri, range: self.range(&related.place) };
            Some(DiagnosticRelatedInformation { location, message: related.label.clone() })
        });
        let related: Vec<_> = related.collect();
        Diagnostic {
            range: self.range(&finding.place),
            severity: Some(match finding.severity {
                Severity::Error => DiagnosticSeverity::ERROR,
                Severity::Warning => DiagnosticSeverity::WARNING,
                Severity::Info => DiagnosticSeverity::INFORMATION,
            }),
            code: Some(NumberOrString::String(finding.code.to_owned())),
            source: Some(SOURCE.to_owned()),
            message,
            related_information: (!related.is_empty()).then_some(related),
            ..Diagnostic::default()
        }
    }

    /// Returns the diagnostic of a sweep: at its place, or else at the first word that it quotes.
    fn fault(&self, fault: &sweep::Fault) -> Diagnostic {
        let text = self.document.text();
        let quoted = || {
            let word = fault.message.split('`').nth(1).filter(|word| !word.is_empty())?;
            text.find(word).map(|at| at..at + word.len())
        };
        let line = || 0..text.lines().next().map_or(0, str::len);
        let span = fault.span.clone().or_else(quoted).unwrap_or_else(line);
        Diagnostic {
            range: self.document.lines().range(span, self.encoding),
            severity: Some(DiagnosticSeverity::ERROR),
            source: Some(SOURCE.to_owned()),
            message: fault.message.trim_end().to_owned(),
            ..Diagnostic::default()
        }
    }
}

/// The name of the server in the editor.
pub const SOURCE: &str = "weir";
