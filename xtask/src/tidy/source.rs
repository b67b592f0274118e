//! A Rust file as the checks see it: its text, its syntax, its tokens, and the lines of tests.

use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, Item, Type};

use super::Finding;

/// A Rust file, parsed once for all checks.
pub struct Source {
    /// The path, relative to the workspace's root.
    pub path: String,
    /// The contents of the file.
    pub text: String,
    /// The items that `syn` read.
    pub syntax: syn::File,
    /// All tokens in order, including the delimiters of groups.
    pub tokens: Vec<Token>,
    tests: Vec<RangeInclusive<usize>>,
    tables: Vec<RangeInclusive<usize>>,
}

/// One token; `::` and `->` are one each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The token as written.
    pub text: String,
    /// Its line, from 1.
    pub line: usize,
}

impl Source {
    /// Parses `text`; text that is not Rust is a finding.
    pub fn parse(path: &str, text: &str) -> Result<Source, Finding> {
        let trouble = |line: usize, error: String| Finding {
            file: path.to_owned(),
            line,
            check: "syntax",
            what: format!("cannot be parsed: {error}"),
            cure: "see the compiler's message",
        };
        let syntax = syn::parse_file(text)
            .map_err(|error| trouble(error.span().start().line, error.to_string()))?;
        let stream: TokenStream =
            text.parse().map_err(|error: proc_macro2::LexError| trouble(1, error.to_string()))?;
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        let mut aside = Aside::default();
        aside.visit_file(&syntax);
        let Aside { tests, tables } = aside;
        Ok(Source { path: path.into(), text: text.into(), syntax, tokens, tests, tables })
    }

    /// Returns the folder of the file's crate.
    pub fn krate(&self) -> &str {
        self.path.split('/').next().unwrap_or_default()
    }

    /// Returns true if the whole file is tests, benches or examples, or in the fuzz crate.
    pub fn is_test_file(&self) -> bool {
        let mut parts = self.path.split('/');
        self.path.ends_with("_tests.rs")
            || parts
                .any(|part| matches!(part, "tests" | "benches" | "examples" | "tests.rs" | "fuzz"))
    }

    /// Returns true if this line is part of a test.
    pub fn is_test(&self, line: usize) -> bool {
        self.is_test_file() || self.tests.iter().any(|range| range.contains(&line))
    }

    /// Returns true if this line is part of a test or of a constant table.
    pub fn is_aside(&self, line: usize) -> bool {
        self.is_test(line) || self.tables.iter().any(|range| range.contains(&line))
    }

    /// Returns the lines where these tokens, separated by spaces, are consecutive, tests aside.
    pub fn lines_of(&self, pattern: &str) -> Vec<usize> {
        let wanted: Vec<&str> = pattern.split(' ').collect();
        let windows = self.tokens.windows(wanted.len());
        windows
            .filter(|window| {
                window.iter().map(|token| token.text.as_str()).eq(wanted.iter().copied())
            })
            .map(|window| window[0].line)
            .filter(|line| !self.is_test(*line))
            .collect()
    }

    /// Makes a finding in this file.
    pub fn finding(
        &self,
        line: usize,
        check: &'static str,
        what: String,
        cure: &'static str,
    ) -> Finding {
        Finding { file: self.path.clone(), line, check, what, cure }
    }
}

/// Collects the lines of tests and of tables.
#[derive(Default)]
struct Aside {
    tests: Vec<RangeInclusive<usize>>,
    tables: Vec<RangeInclusive<usize>>,
}

impl<'ast> Visit<'ast> for Aside {
    fn visit_item(&mut self, item: &'ast Item) {
        if attributes(item).iter().any(is_test_attribute) {
            self.tests.push(lines(item));
        } else if is_table(item) {
            self.tables.push(lines(item));
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if function.attrs.iter().any(is_test_attribute) {
            self.tests.push(lines(function));
        }
        visit::visit_impl_item_fn(self, function);
    }
}

/// Returns the lines of a piece of syntax.
pub fn lines(syntax: &impl Spanned) -> RangeInclusive<usize> {
    let span = syntax.span();
    span.start().line..=span.end().line
}

/// Returns true for `#[test]`, `#[cfg(test)]` and a `cfg` that includes tests.
fn is_test_attribute(attribute: &Attribute) -> bool {
    if attribute.path().is_ident("test") {
        return true;
    }
    let syn::Meta::List(list) = &attribute.meta else {
        return false;
    };
    let mut words = Vec::new();
    flatten(list.tokens.clone(), &mut words);
    let says = |word: &str| words.iter().any(|token| token.text == word);
    attribute.path().is_ident("cfg") && says("test") && !says("not")
}

/// Returns true for a constant that is an array or a slice.
fn is_table(item: &Item) -> bool {
    let kind = match item {
        Item::Const(item) => &*item.ty,
        Item::Static(item) => &*item.ty,
        _ => return false,
    };
    match kind {
        Type::Array(_) => true,
        Type::Reference(reference) => matches!(*reference.elem, Type::Slice(_) | Type::Array(_)),
        _ => false,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Appends the tokens of `stream`, with groups flattened.
fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let mut joined = String::new();
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = delimiters(group.delimiter());
                tokens.push(Token { text: open.into(), line });
                flatten(group.stream(), tokens);
                let line = group.span_close().end().line;
                tokens.push(Token { text: close.into(), line });
            }
            TokenTree::Punct(punct) => {
                joined.push(punct.as_char());
                let pair = joined == ":" || joined == "-";
                if punct.spacing() == Spacing::Joint && pair {
                    continue;
                }
                tokens.push(Token { text: std::mem::take(&mut joined), line });
            }
            TokenTree::Ident(ident) => tokens.push(Token { text: ident.to_string(), line }),
            TokenTree::Literal(literal) => tokens.push(Token { text: literal.to_string(), line }),
        }
    }
}

fn delimiters(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Source {
        Source::parse("weir-x/src/a.rs", text).expect("the test's snippet is Rust")
    }

    #[test]
    fn text_that_is_not_rust_is_a_finding_at_its_line() {
        let found = Source::parse("a.rs", "fn a() {}\nfn fn").err().expect("no Rust");
        assert_eq!((found.line, found.check), (2, "syntax"));
    }

    #[test]
    fn tests_and_tables_are_aside() {
        let source = parse(
            "fn a() {}\n#[cfg(test)]\nmod tests {\n}\n#[cfg(not(test))]\nfn b() {}\n\
             const T: &[u8] = &[\n1,\n];\n#[cfg(any(test, feature = \"x\"))]\nfn c() {}\n",
        );
        let tests: Vec<usize> = (1..=11).filter(|line| source.is_test(*line)).collect();
        assert_eq!(tests, [2, 3, 4, 10, 11]);
        let aside: Vec<usize> = (1..=11).filter(|line| source.is_aside(*line)).collect();
        assert_eq!(aside, [2, 3, 4, 7, 8, 9, 10, 11]);
    }

    #[test]
    fn token_patterns_ignore_spacing_strings_and_comments() {
        let source = parse("// std::x\nfn a() { let s = \"std::y\"; }\nuse std\n  ::io;");
        assert_eq!(source.lines_of("std ::"), [3]);
        assert_eq!(source.lines_of("std :: io"), [3]);
    }
}
