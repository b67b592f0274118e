//! The named bounds of queues, tables and loops: constants whose documentation begins with
//! `Bound:`, what is bounded, a semicolon, and what happens beyond. `cargo xtask bounds` prints
//! them as the page docs/internals/bounds.md; tidy compares the two.

use std::fmt::Write as _;

use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Expr, Lit, Type};

use super::Finding;
use super::source::{Source, lines};

/// The page that is the table.
pub const PAGE: &str = "docs/internals/bounds.md";

/// A constant that bounds something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bound {
    /// The file, relative to the workspace's root.
    file: String,
    /// The line of its name, from 1.
    line: usize,
    /// The name, behind that of its type where it is of one.
    name: String,
    /// The thing that is bounded, and what happens beyond.
    sentence: String,
    /// The value as a reader writes it.
    value: String,
}

/// Returns the bounds of a file, tests aside.
pub fn find(source: &Source) -> Vec<Bound> {
    let mut constants = Constants { source, owner: None, bounds: Vec::new() };
    constants.visit_file(&source.syntax);
    constants.bounds
}

/// Reports a bound whose sentence does not say what happens beyond.
pub fn sentences(bounds: &[Bound]) -> Vec<Finding> {
    let lacking = bounds.iter().filter(|bound| !bound.sentence.contains("; "));
    lacking
        .map(|bound| Finding {
            file: bound.file.clone(),
            line: bound.line,
            check: "bounds",
            what: format!("the bound `{}` has half a sentence", bound.name),
            cure: "write what is bounded, a semicolon, and what happens beyond",
        })
        .collect()
}

/// Reports a page that differs from the table of these bounds.
pub fn compare(bounds: &[Bound], page: Option<&str>) -> Option<Finding> {
    let wanted = print(bounds);
    let page = page.unwrap_or_default();
    if wanted == page {
        return None;
    }
    let same = wanted.lines().zip(page.lines()).take_while(|(one, other)| one == other).count();
    Some(Finding {
        file: PAGE.to_owned(),
        line: same + 1,
        check: "bounds",
        what: "the page is not the table of the bounds in the code".to_owned(),
        cure: "write it with `cargo xtask bounds > docs/internals/bounds.md`",
    })
}

/// Returns the page: a table for each crate.
pub fn print(bounds: &[Bound]) -> String {
    let mut sorted: Vec<&Bound> = bounds.iter().collect();
    sorted.sort();
    let mut page = HEAD.to_owned();
    let mut krate = "";
    for bound in sorted {
        let own = bound.file.split('/').next().unwrap_or_default();
        if own != krate {
            krate = own;
            let _ = write!(page, "\n## {krate}\n\n{COLUMNS}");
        }
        let Bound { file, name, sentence, value, .. } = bound;
        let _ = writeln!(page, "| {sentence} | {value} | `{name}`, `{file}` |");
    }
    page
}

/// Visits every constant of a file.
struct Constants<'ast> {
    source: &'ast Source,
    owner: Option<String>,
    bounds: Vec<Bound>,
}

impl Constants<'_> {
    fn add(&mut self, name: &syn::Ident, attributes: &[Attribute], value: &Expr) {
        let line = name.span().start().line;
        let Some(sentence) = sentence(attributes).filter(|_| !self.source.is_test(line)) else {
            return;
        };
        let owner = self.owner.iter().map(|owner| format!("{owner}::"));
        self.bounds.push(Bound {
            file: self.source.path.clone(),
            line,
            name: owner.chain([name.to_string()]).collect(),
            value: written(value, sentence.starts_with("bytes "), self.source),
            sentence,
        });
    }
}

impl<'ast> Visit<'ast> for Constants<'ast> {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.add(&item.ident, &item.attrs, &item.expr);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.owner = match &*item.self_ty {
            Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        visit::visit_item_impl(self, item);
        self.owner = None;
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.add(&item.ident, &item.attrs, &item.expr);
    }
}

/// Returns the first sentence behind `Bound:` of a documentation that begins so.
fn sentence(attributes: &[Attribute]) -> Option<String> {
    let texts = attributes.iter().filter_map(documented);
    let texts: Vec<String> = texts.map(|text| text.trim().to_owned()).collect();
    let paragraph = texts.split(String::is_empty).next()?.join(" ");
    let words = paragraph.strip_prefix("Bound: ")?;
    let first = words.split_once(". ").map_or(words, |(first, _)| first);
    Some(first.trim_end_matches('.').replace("[`", "`").replace("`]", "`"))
}

/// Returns the text of a documentation's line.
fn documented(attribute: &Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    let Expr::Lit(syn::ExprLit { lit: Lit::Str(text), .. }) = &pair.value else { return None };
    attribute.path().is_ident("doc").then(|| text.value())
}

/// Returns a value as a reader writes it; one that is no number, as the code has it.
fn written(value: &Expr, is_bytes: bool, source: &Source) -> String {
    if let Some(number) = number(value) {
        return if is_bytes { bytes(number) } else { grouped(number) };
    }
    if let Expr::Call(call) = value
        && let (Expr::Path(path), Some(inner)) = (&*call.func, call.args.first())
        && let (Some(last), Some(number)) = (path.path.segments.last(), number(inner))
    {
        match last.ident.to_string().as_str() {
            "from_secs" => return format!("{} s", grouped(number)),
            "from_millis" => return format!("{} ms", grouped(number)),
            "new" => return bytes(number),
            _ => {}
        }
    }
    let (from, to) = (lines(value), syn::spanned::Spanned::span(value));
    let text = source.text.lines().nth(from.start() - 1).unwrap_or_default();
    let columns = to.end().column - to.start().column;
    let text: String = text.chars().skip(to.start().column).take(columns).collect();
    format!("`{text}`")
}

/// Returns the number of an expression of literals.
fn number(value: &Expr) -> Option<u128> {
    match value {
        Expr::Lit(syn::ExprLit { lit: Lit::Int(digits), .. }) => digits.base10_parse().ok(),
        Expr::Paren(inner) => number(&inner.expr),
        Expr::Cast(cast) => number(&cast.expr),
        Expr::Path(path) => greatest(&path.path),
        Expr::Binary(pair) => {
            let (left, right) = (number(&pair.left)?, number(&pair.right)?);
            match pair.op {
                BinOp::Shl(_) => left.checked_shl(u32::try_from(right).ok()?),
                BinOp::Mul(_) => left.checked_mul(right),
                BinOp::Add(_) => left.checked_add(right),
                BinOp::Sub(_) => left.checked_sub(right),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns the number of `u16::MAX` and the like.
fn greatest(path: &syn::Path) -> Option<u128> {
    let words: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["u8", "MAX"] => Some(u8::MAX.into()),
        ["u16", "MAX"] => Some(u16::MAX.into()),
        ["u32", "MAX"] => Some(u32::MAX.into()),
        _ => None,
    }
}

/// Returns the digits in groups of three.
fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && digits.len() > 4 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Returns a number of bytes in the largest unit of which it is a whole number.
fn bytes(number: u128) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fits = |(power, _): &&(u32, &str)| number.is_multiple_of(1 << power) && number > 0;
    match units.iter().find(fits) {
        Some((power, unit)) => format!("{} {unit}", grouped(number >> power)),
        None => format!("{} B", grouped(number)),
    }
}

/// The beginning of the page.
const HEAD: &str = "\
# Bounds

Everything that grows has a named bound: every queue, loop and table. `cargo xtask bounds` prints \
this page from the code, where the
documentation of each constant begins with `Bound:`. A sentence says what is bounded, and what \
happens beyond. What a policy or a
deployment chooses itself, such as the `limit` of a leaf, is in the \
[reference](../reference/policy.md).
";

const COLUMNS: &str = "| bounded; beyond | value | place |\n| --- | --- | --- |\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(text: &str) -> Vec<Bound> {
        find(&Source::parse("weir-x/src/a.rs", text).expect("the test's snippet is Rust"))
    }

    #[test]
    fn a_constant_is_a_bound_if_its_documentation_says_so() {
        let rows = [
            ("/// Bound: packets; one more is dropped.\nconst A: u32 = 5;", "A: 5"),
            (
                "/// Bound: bytes of a frame; a longer\n/// one is cut. So.\nconst A: u32 = 64 << 10;",
                "A: 64 KiB",
            ),
            (
                "struct M;\nimpl M {\n/// Bound: ids; no more.\npub const MAX: usize = u16::MAX as usize; }",
                "M::MAX: 65 535",
            ),
            (
                "/// Bound: the time; then it ends.\nconst A: Duration = Duration::from_secs(30);",
                "A: 30 s",
            ),
            ("/// Bound: lines; joined.\nconst A: usize = COLOURS.len();", "A: `COLOURS.len()`"),
            ("/// The most packets.\nconst A: u32 = 5;", ""),
            ("#[cfg(test)]\nmod t {\n/// Bound: x; y.\nconst A: u32 = 5; }", ""),
        ];
        for (text, expected) in rows {
            let found = bounds(text);
            let found: Vec<String> =
                found.iter().map(|one| format!("{}: {}", one.name, one.value)).collect();
            assert_eq!(found.join(", "), expected, "{text}");
        }
    }

    #[test]
    fn a_sentence_ends_at_its_period_and_has_two_halves() {
        let found = bounds("/// Bound: what [`B`] is\n/// of; beyond. Why.\nconst A: u32 = 1;");
        assert_eq!(found[0].sentence, "what `B` is of; beyond");
        assert_eq!(sentences(&found), []);
        let half = bounds("/// Bound: packets.\nconst A: u32 = 1;");
        assert_eq!(sentences(&half).len(), 1);
    }

    #[test]
    fn the_page_is_compared_line_by_line() {
        let found = bounds("/// Bound: packets; dropped.\nconst A: u32 = 20_000;");
        let page = print(&found);
        assert!(page.ends_with("| packets; dropped | 20 000 | `A`, `weir-x/src/a.rs` |\n"));
        assert_eq!(compare(&found, Some(&page)), None);
        let stale = page.replace("20 000", "10 000");
        let line = compare(&found, Some(&stale)).map(|finding| finding.line);
        assert_eq!(line, Some(page.lines().count()));
        assert!(compare(&found, None).is_some());
    }
}
