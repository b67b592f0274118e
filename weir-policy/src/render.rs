//! Formats findings for people: message, excerpt of the file, cure, source.

use crate::codes;
use crate::finding::{Finding, Place, Severity, Source};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// Formats all findings with excerpts of their files, in colour if `colour`.
pub fn render(findings: &[Finding], sources: &[Source], colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let mut text = String::new();
    for finding in findings {
        text.push_str(&renderer.render(&[group(finding, sources)]));
        text.push_str("\n\n");
    }
    text
}

/// Returns a line with their numbers, such as `2 errors, 1 warning`.
pub fn summary(findings: &[Finding]) -> String {
    let count = |severity| findings.iter().filter(|f| f.severity == severity).count();
    let noun = |count, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let errors = noun(count(Severity::Error), "error");
    format!("{errors}, {}", noun(count(Severity::Warning), "warning"))
}

/// Returns the first error of what [`render`] made, in a line with its place; one that says only
/// that another file has errors stands back behind those. Of another text, it is the first line.
pub fn headline(text: &str) -> String {
    let elsewhere = format!("error[{}]", codes::POLICY_FAULTY.id);
    let lines: Vec<_> = text.lines().collect();
    let errors = || lines.iter().enumerate().filter(|(_, line)| line.starts_with("error"));
    let own = errors().find(|(_, line)| !line.starts_with(&elsewhere));
    let Some((number, error)) = own.or(errors().next()) else {
        let first = lines.iter().find(|line| !line.trim().is_empty());
        return first.map(|line| (*line).to_owned()).unwrap_or_default();
    };
    let place = lines.get(number + 1).and_then(|line| line.trim_start().strip_prefix("--> "));
    place.map_or((*error).to_owned(), |place| format!("{place}: {error}"))
}

fn group<'a>(finding: &'a Finding, sources: &'a [Source]) -> Group<'a> {
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Info => Level::INFO,
    };
    let title = level.primary_title(finding.message.as_str()).id(finding.code);
    let mut group = Group::with_title(title);
    if let Some(snippet) = snippet(&finding.place, "", AnnotationKind::Primary, sources) {
        group = group.element(snippet);
    }
    for related in &finding.related {
        let kind = AnnotationKind::Context;
        if let Some(snippet) = snippet(&related.place, &related.label, kind, sources) {
            group = group.element(snippet);
        }
    }
    if !finding.cure.is_empty() {
        group = group.element(Level::HELP.message(finding.cure.as_str()));
    }
    match finding.source {
        Some(source) => group.element(Level::NOTE.message(format!("source: {source}"))),
        None => group,
    }
}

/// Passes only the lines of the place to the library, so that the cost does not grow with the file.
fn snippet<'a>(
    place: &'a Place,
    label: &'a str,
    kind: AnnotationKind,
    sources: &'a [Source],
) -> Option<Snippet<'a, annotate_snippets::Annotation<'a>>> {
    let source = sources.iter().find(|source| source.name() == place.file)?;
    let (lines, first) = source.lines_of(place.span);
    let excerpt = &source.text()[lines.start..lines.end];
    let range = place.span.start - lines.start..place.span.end.min(lines.end) - lines.start;
    let annotation = match label {
        "" => kind.span(range),
        label => kind.span(range).label(label),
    };
    Some(Snippet::source(excerpt).line_start(first).path(source.name()).annotation(annotation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy;

    #[test]
    fn a_headline_is_the_first_error_with_its_place() {
        let class = "[class.a]\ndefault = true\n";
        let text = format!("[link]\nrate = \"5 mbps\"\nscheduler = \"drr\"\n\n{class}");
        let outcome = policy::parse(&text, "p.toml");
        let warning = Finding { severity: Severity::Warning, ..outcome.findings[0].clone() };
        let code = codes::POLICY_FAULTY.id;
        let elsewhere = Finding { code, ..outcome.findings[0].clone() };
        let findings = [&[warning, elsewhere], outcome.findings.as_slice()].concat();
        let line = headline(&render(&findings, &outcome.sources, false));
        assert!(line.starts_with("p.toml:2:8: error[") && line.contains("ambiguous"), "{line}");
        assert_eq!(headline("\nno link answers\nthere"), "no link answers");
        assert_eq!(headline(""), "");
    }
}
