//! Checks doc comments: a sentence does not begin with "What", and a private item has a comment
//! only where that says more than its name.

use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprLit, Lit, Meta, Type, Visibility};

use super::Finding;
use super::limits::words;
use super::source::Source;

/// Reports doc comments that begin with "What".
pub fn openings(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut before = None;
    for (line, number) in source.text.lines().zip(1..) {
        let comment = doc(line);
        let marker = comment.map(|(marker, _)| marker);
        let is_first = marker.is_some() && marker != before;
        before = marker;
        if is_first && comment.is_some_and(|(_, text)| text.starts_with("What ")) {
            let what = "a doc comment that begins with \"What\"".to_owned();
            let cure = "name the thing, as in \"The rate in bit/s that …\", or begin with a verb";
            findings.push(source.finding(number, "doc-opening", what, cure));
        }
    }
    findings
}

/// Returns the marker and the text of a line that is a doc comment.
fn doc(line: &str) -> Option<(&'static str, &str)> {
    let text = |marker| Some((marker, line.trim_start().strip_prefix(marker)?.trim_start()));
    ["///", "//!"].into_iter().find_map(text)
}

/// Reports doc comments of private items whose words are all in the item's name, in that of the
/// type around it, or, of a field, in its own type.
pub fn repeats(source: &Source) -> Vec<Finding> {
    let mut repeats = Repeats { source, around: Vec::new(), findings: Vec::new() };
    repeats.visit_file(&source.syntax);
    repeats.findings
}

struct Repeats<'s> {
    source: &'s Source,
    /// The words of the type to which fields and methods belong.
    around: Vec<String>,
    findings: Vec<Finding>,
}

impl Repeats<'_> {
    /// Checks an item with these words in its name.
    fn check(&mut self, attributes: &[Attribute], visibility: &Visibility, named: Vec<String>) {
        let mut docs = attributes.iter().filter_map(|one| Some((one, text(one)?))).peekable();
        let Some((first, _)) = docs.peek() else { return };
        let line = first.span().start().line;
        let text: String = docs.map(|(_, text)| text + "\n").collect();
        let known: BTreeSet<&str> =
            named.iter().chain(&self.around).map(|word| stem(word)).collect();
        let said = text.split(|letter: char| !letter.is_alphanumeric());
        let said: Vec<String> = said.map(str::to_lowercase).collect();
        let said: Vec<&str> =
            said.iter().map(|word| stem(word)).filter(|word| !EMPTY.contains(word)).collect();
        let repeats = !said.is_empty() && said.iter().all(|word| known.contains(word));
        if repeats && !matches!(visibility, Visibility::Public(_)) {
            let what = "a doc comment that only repeats the name".to_owned();
            let cure = "say what a reader cannot see, or remove it";
            self.findings.push(self.source.finding(line, "doc-repeats", what, cure));
        }
    }

    /// Runs `visit` inside of a type with these words in its name.
    fn within(&mut self, around: Vec<String>, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.around, around);
        visit(self);
        self.around = before;
    }
}

/// Returns the text of a doc comment's line.
fn text(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    match &pair.value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if pair.path.is_ident("doc") => {
            Some(text.value())
        }
        _ => None,
    }
}

/// Returns the word without the ending of a plural.
fn stem(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(stem) if word.len() > 3 => stem,
        _ => word,
    }
}

/// Returns the words of all names in a type.
fn type_words(kind: &Type) -> Vec<String> {
    struct Names(Vec<String>);
    impl<'ast> Visit<'ast> for Names {
        fn visit_ident(&mut self, name: &'ast syn::Ident) {
            self.0.extend(words(&name.to_string()));
        }
    }
    let mut names = Names(Vec::new());
    names.visit_type(kind);
    names.0
}

impl<'ast> Visit<'ast> for Repeats<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.check(&item.attrs, &item.vis, words(&item.sig.ident.to_string()));
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.check(&item.attrs, &item.vis, words(&item.sig.ident.to_string()));
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let around = type_words(&item.self_ty);
        self.within(around, |repeats| visit::visit_item_impl(repeats, item));
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let named = words(&item.ident.to_string());
        self.check(&item.attrs, &item.vis, named.clone());
        self.within(named, |repeats| {
            for field in &item.fields {
                let mut named = type_words(&field.ty);
                named.extend(field.ident.iter().flat_map(|name| words(&name.to_string())));
                repeats.check(&field.attrs, &field.vis, named);
            }
        });
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.check(&item.attrs, &item.vis, words(&item.ident.to_string()));
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.check(&item.attrs, &item.vis, words(&item.ident.to_string()));
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.check(&item.attrs, &item.vis, words(&item.ident.to_string().to_lowercase()));
        visit::visit_item_const(self, item);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.check(&item.attrs, &item.vis, words(&item.ident.to_string().to_lowercase()));
    }
}

/// Words that say nothing by themselves.
const EMPTY: [&str; 10] = ["", "a", "an", "each", "it", "its", "of", "one", "return", "the"];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(check: fn(&Source) -> Vec<Finding>, text: &str, expected: &[usize]) {
        let source = Source::parse("weir-x/src/a.rs", text).expect("the test's snippet is Rust");
        let lines: Vec<usize> = check(&source).into_iter().map(|finding| finding.line).collect();
        assert_eq!(lines, expected, "{text}");
    }

    #[test]
    fn a_doc_comment_does_not_begin_with_what() {
        check(openings, "//! What it is.\n\n/// What it\n/// does.\nfn a() {}", &[1, 3]);
        check(openings, "//! It is\n//! What it is.\n\n// What it does.\nfn a() {}", &[]);
        check(openings, "//! A header.\n/// What it does.\nfn a() {}", &[2]);
        check(openings, "/// Whatever it does.\nfn a() {}", &[]);
    }

    #[test]
    fn a_doc_comment_says_more_than_the_name() {
        check(repeats, "/// The queue.\nstruct Queue;", &[1]);
        check(repeats, "/// The queue of a leaf.\nstruct Queue;", &[]);
        check(repeats, "/// The queue.\npub struct Queue;", &[]);
        check(repeats, "struct Leaf {\n/// The queue of the leaf.\nqueue: u8 }", &[2]);
        check(repeats, "struct Leaf {\n/// The length.\nmost: Length }", &[2]);
        check(repeats, "impl Leaf {\n/// Returns its queues.\npub(super) fn queue() {} }", &[2]);
        check(repeats, "/// The longest queue.\nconst QUEUE_LONGEST: u8 = 1;", &[1]);
        check(repeats, "enum Leaf {\n/// A queue.\nQueue }", &[]);
    }
}
