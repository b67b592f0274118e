//! Formats findings for people: message, excerpt of the file, cure, source.

use crate::codes;
use crate::finding::{Finding, Place, Severity, Source};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use std::collections::BTreeMap;

/// Formats findings with excerpts of their files, in colour if `colour`: of each kind the first
/// [`OF_KIND_MAX`], and how many more there are.
pub fn render(findings: &[Finding], sources: &[Source], colour: bool) -> String {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut is_shown = |finding: &&Finding| {
        let count = kinds.entry(finding.code).or_default();
        *count += 1;
        *count <= OF_KIND_MAX
    };
    let shown: Vec<_> = findings.iter().filter(&mut is_shown).collect();
    let mut text = render_each(shown.into_iter(), sources, colour);
    for (code, count) in kinds.into_iter().filter(|kind| kind.1 > OF_KIND_MAX) {
        let more = count - OF_KIND_MAX;
        text += &format!("and {more} more of {code}; `weir check --all` shows them\n\n");
    }
    text
}

/// As [`render`], with all findings of each kind.
pub fn render_all(findings: &[Finding], sources: &[Source], colour: bool) -> String {
    render_each(findings.iter(), sources, colour)
}

fn render_each<'a>(
    findings: impl Iterator<Item = &'a Finding>,
    sources: &'a [Source],
    colour: bool,
) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let mut text = String::new();
    for finding in findings {
        text.push_str(&renderer.render(&[group(finding, sources)]));
        text.push_str("\n\n");
    }
    text
}

/// Bound: findings of one kind that people are shown, since one mistake may be in a hundred places;
/// further ones are counted.
pub const OF_KIND_MAX: usize = 5;

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
    fn five_findings_of_a_kind_are_shown_and_the_others_are_counted() {
        let class = |at: u32| format!("[class.c{at}]\nweihgt = 1\nmatch = {{ dport = {at} }}\n");
        let classes: String = (0..20).map(class).collect();
        let text = format!(
            "[link]\nrate = \"5 Mbit/s\"\nscheduler = \"drr\"\n{classes}[class.a]\n\
             default = true\nqueue = 3\n"
        );
        let outcome = policy::parse(&text, "p.toml");
        let shown = render(&outcome.findings, &outcome.sources, false);
        assert_eq!(shown.matches("error[W010]").count(), OF_KIND_MAX, "{shown}");
        assert_eq!(shown.matches("error[W012]").count(), 1, "{shown}");
        assert!(shown.contains("\nand 15 more of W010; `weir check --all`"), "{shown}");
        let all = render_all(&outcome.findings, &outcome.sources, false);
        assert_eq!(all.matches("error[W010]").count(), 20, "{all}");
        assert_eq!(summary(&outcome.findings), "21 errors, 0 warnings");
    }

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
