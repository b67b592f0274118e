//! Diagnostics: the findings of `weir check`, where they stand.

use crate::document::Document;
use crate::position::{Encoding, Lines};
use crate::uri;
use lsp_types::{
    Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, NumberOrString, Range,
};
use std::collections::BTreeMap;
use weir_policy::finding::{Finding, Place, Severity, Source, Span};
use weir_sweep::file as sweep;

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
