//! Code actions: of each finding whose cure is an edit, that edit.
//!
//! An action is offered only if the text with it was checked and the finding is gone.

use crate::checked::Checked;
use crate::document::Document;
use crate::kind::Kind;
use crate::position::Encoding;
use lsp_types::{
    CodeAction, CodeActionKind, Diagnostic, NumberOrString, TextEdit, Uri, WorkspaceEdit,
};
use std::ops::Range;
use weir_policy::file::ReadFile;
use weir_policy::finding::Finding;
use weir_policy::fix::{self, Fix};

/// Where actions are asked for.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The file.
    pub uri: &'a Uri,
    /// How its positions count.
    pub encoding: Encoding,
    /// The diagnostics that the client has there.
    pub diagnostics: &'a [Diagnostic],
}

/// Returns the actions for the findings in these bytes of a checked document.
pub fn actions(
    document: &Document,
    bytes: Range<usize>,
    place: Place<'_>,
    read_file: ReadFile<'_>,
) -> Vec<CodeAction> {
    let (Some(kind), Some(checked)) = (document.kind(), &document.checked) else {
        return Vec::new();
    };
    let here = |finding: &&Finding| {
        let span = finding.place.span;
        finding.place.file == document.name && span.start <= bytes.end && bytes.start <= span.end
    };
    let check = |text: &str| Checked::of(kind, (&document.name, text), read_file).findings;
    let known = (document.text(), &checked.findings[..]);
    let mut actions = Vec::new();
    for finding in checked.findings.iter().filter(here).take(FINDINGS_MAX) {
        // Keys are those of a policy in a file of its own.
        let fits = |fix: &&Fix| kind == Kind::Policy || !matches!(fix, Fix::Set(_));
        let fixes: Vec<_> = finding.fixes.iter().filter(fits).collect();
        for fix in &fixes {
            let Some(text) = fix::cured(known, finding, fix, &check) else { continue };
            let edit = edit(document, &text, place.encoding);
            let is_preferred = fixes.len() == 1 && !fix.removes();
            actions.push(action(finding, fix, is_preferred, edit, place));
        }
    }
    actions
}

fn action(
    finding: &Finding,
    fix: &Fix,
    is_preferred: bool,
    edit: TextEdit,
    place: Place<'_>,
) -> CodeAction {
    let code = NumberOrString::String(finding.code.to_owned());
    let cured = |diagnostic: &&Diagnostic| {
        diagnostic.code.as_ref() == Some(&code) && diagnostic.message.starts_with(&finding.message)
    };
    let diagnostics: Vec<_> = place.diagnostics.iter().filter(cured).cloned().collect();
    #[expect(clippy::mutable_key_type, reason = "the type of the protocol; nothing changes a key")]
    let changes = [(place.uri.clone(), vec![edit])].into_iter().collect();
    CodeAction {
        title: format!("{}: {}", finding.code, fix.title()),
        kind: Some(CodeActionKind::QUICKFIX),
        diagnostics: Some(diagnostics),
        edit: Some(WorkspaceEdit::new(changes)),
        is_preferred: Some(is_preferred),
        ..CodeAction::default()
    }
}

/// Returns the edit between the first and the last character that differ.
fn edit(document: &Document, new: &str, encoding: Encoding) -> TextEdit {
    let old = document.text();
    let same = |(one, other): &(char, char)| one == other;
    let start: usize =
        old.chars().zip(new.chars()).take_while(same).map(|(one, _)| one.len_utf8()).sum();
    let tails = old[start..].chars().rev().zip(new[start..].chars().rev());
    let end: usize = tails.take_while(same).map(|(one, _)| one.len_utf8()).sum();
    let range = document.lines().range(start..old.len() - end, encoding);
    TextEdit { range, new_text: new[start..new.len() - end].to_owned() }
}

/// Bound: the findings of one answer; the file is checked once for each of their fixes.
const FINDINGS_MAX: usize = 16;
