//! Checks the limits of CONTRIBUTING.md that a parser can measure: lengths, widths, parameters,
//! nesting, names, and unfinished code.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, Expr, FnArg, Signature, Type};

use super::Finding;
use super::rules::{FILE_LINES, FUNCTION_LINES, LINE_WIDTH, NESTING, PARAMETERS};
use super::source::Source;

/// Requires a `//!` header that describes the file.
pub fn header(source: &Source) -> Vec<Finding> {
    let first = source.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if first.strip_prefix("//!").is_some_and(|words| words.trim().len() > 1) {
        return Vec::new();
    }
    let what = "the file opens without a `//!` header".to_owned();
    vec![source.finding(1, "header", what, "describe the file in its first line")]
}

/// Limits a file's lines, tests and tables aside.
pub fn file_length(source: &Source) -> Vec<Finding> {
    let lines = (1..=source.text.lines().count()).filter(|line| !source.is_aside(*line)).count();
    if lines <= FILE_LINES {
        return Vec::new();
    }
    let what = format!("the file has {lines} lines without tests and tables, limit {FILE_LINES}");
    vec![source.finding(1, "file-length", what, "split it by subject")]
}

/// Limits the width of each line, in characters.
pub fn line_width(source: &Source) -> Vec<Finding> {
    let widths = source.text.lines().map(|line| line.chars().count()).zip(1..);
    let wide = widths.filter(|(width, line)| *width > LINE_WIDTH && !source.is_aside(*line));
    wide.map(|(width, line)| {
        let what = format!("the line has {width} characters, limit {LINE_WIDTH}");
        source.finding(line, "line-width", what, "break it")
    })
    .collect()
}

/// Limits the lines of each function, from its signature to its closing brace.
pub fn function_length(source: &Source) -> Vec<Finding> {
    let functions = functions(source);
    let long = functions.iter().filter(|function| function.lines() > FUNCTION_LINES);
    long.map(|function| {
        let what = format!(
            "function `{}` has {} lines, limit {FUNCTION_LINES}",
            function.signature.ident,
            function.lines()
        );
        let cure = "keep the `match` here and move the arithmetic to pure functions";
        source.finding(function.line(), "function-length", what, cure)
    })
    .collect()
}

/// Limits the parameters of each function, `self` aside.
pub fn parameters(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for function in functions(source) {
        let inputs = function.signature.inputs.iter();
        let count = inputs.filter(|input| matches!(input, FnArg::Typed(_))).count();
        if count > PARAMETERS {
            let name = &function.signature.ident;
            let what = format!("function `{name}` has {count} parameters, limit {PARAMETERS}");
            let cure = "combine related ones into a struct";
            findings.push(source.finding(function.line(), "parameters", what, cure));
        }
    }
    findings
}

/// Limits the values that the parameters of each function take: each leaf of a tuple is one. A
/// function with too many parameters is reported by [`parameters`] alone.
pub fn tuples(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for function in functions(source) {
        let typed = |input: &FnArg| match input {
            FnArg::Typed(parameter) => Some(leaves(&parameter.ty)),
            FnArg::Receiver(_) => None,
        };
        let each: Vec<usize> = function.signature.inputs.iter().filter_map(typed).collect();
        let count: usize = each.iter().sum();
        if each.len() <= PARAMETERS && count > PARAMETERS {
            let name = &function.signature.ident;
            let what =
                format!("function `{name}` takes {count} values in tuples, limit {PARAMETERS}");
            let cure = "name the struct that the tuple stands for";
            findings.push(source.finding(function.line(), "tuples", what, cure));
        }
    }
    findings
}

/// Returns how many values a parameter of this type takes.
fn leaves(kind: &Type) -> usize {
    match kind {
        Type::Tuple(tuple) => tuple.elems.iter().map(leaves).sum::<usize>().max(1),
        Type::Reference(reference) => leaves(&reference.elem),
        Type::Paren(inner) => leaves(&inner.elem),
        _ => 1,
    }
}

/// Limits the depth of blocks in each function, as `rules::NESTING` measures it; one finding a
/// function.
pub fn nesting(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for function in functions(source) {
        let Some(block) = function.block else {
            continue;
        };
        let mut depth = Depth::default();
        depth.visit_block(block);
        if depth.deepest > NESTING {
            let name = &function.signature.ident;
            let deepest = depth.deepest;
            let what = format!("function `{name}` nests {deepest} blocks deep, limit {NESTING}");
            let cure = "return early with `let … else`, or move the inside to a function";
            findings.push(source.finding(depth.line, "nesting", what, cure));
        }
    }
    findings
}

/// Reports meaningless names (style 3).
pub fn names(source: &Source) -> Vec<Finding> {
    let mut named = Named::default();
    named.visit_file(&source.syntax);
    let bad = named.0.iter().filter(|(name, line)| says_nothing(name) && !source.is_test(*line));
    bad.map(|(name, line)| {
        let what = format!("`{name}` does not describe anything");
        source.finding(*line, "names", what, "use the glossary's word for it")
    })
    .collect()
}

/// Reports unfinished code, tests aside (an ignored test is reported everywhere, unless its reason
/// names the part of figures that runs it).
pub fn unfinished(source: &Source) -> Vec<Finding> {
    let rows = [
        (". unwrap (", "an `unwrap`", "return an error, or `expect` with the invariant"),
        ("todo !", "a `todo!`", "write it, or remove it"),
        ("unimplemented !", "an `unimplemented!`", "write it, or remove it"),
        ("dbg !", "a `dbg!`", "remove it"),
    ];
    let mut findings = Vec::new();
    for (tokens, what, cure) in rows {
        for line in source.lines_of(tokens) {
            findings.push(source.finding(line, "unfinished", what.to_owned(), cure));
        }
    }
    let ignored = source.tokens.windows(5).filter(|five| {
        let mut texts = five.iter().map(|token| token.text.as_str());
        let is_ignored = texts.by_ref().take(3).eq(["#", "[", "ignore"]);
        is_ignored && !texts.any(|text| text.contains("`cargo xtask figures "))
    });
    findings.extend(ignored.map(|five| {
        let cure = "run it, remove it, or let the reason name the part that runs it, as in \
                    `cargo xtask figures pages`";
        source.finding(five[0].line, "unfinished", "an ignored test".to_owned(), cure)
    }));
    findings
}

/// Reports lints that are silenced without a reason in the attribute.
pub fn silenced(source: &Source) -> Vec<Finding> {
    let lints = ["missing_docs", "unwrap_used", "dead_code", "unused", "warnings"];
    let mut findings = Vec::new();
    for (at, window) in source.tokens.windows(2).enumerate() {
        if !matches!(window[0].text.as_str(), "allow" | "expect") || window[1].text != "(" {
            continue;
        }
        let end = source.tokens[at..].iter().position(|token| token.text == ")").unwrap_or(0);
        let inside = &source.tokens[at..at + end];
        let named = inside.iter().find(|token| lints.contains(&token.text.as_str()));
        let Some(token) = named.filter(|token| !source.is_test(token.line)) else { continue };
        if !inside.iter().any(|token| token.text == "reason") {
            let what = format!("the lint `{}` is silenced without a reason", token.text);
            let cure = "correct the code, or add `reason = \"…\"`";
            findings.push(source.finding(token.line, "silenced", what, cure));
        }
    }
    findings
}

/// Returns true for a name with a meaningless word.
fn says_nothing(name: &str) -> bool {
    let words = words(name);
    let last = words.last().map(String::as_str).unwrap_or_default();
    let vague = ["util", "utils", "helper", "helpers", "manager", "misc"];
    words.iter().any(|word| vague.contains(&word.as_str()))
        || matches!(last, "data" | "info")
        || name.starts_with("get_")
        || name.starts_with("do_")
}

/// Splits a name of either case into words, in lower case.
pub fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter == '_' || letter.is_uppercase() {
            words.push(String::new());
        }
        if letter != '_' {
            let word = words.last_mut().expect("it starts with one word");
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A function or method with its body, if it has one.
struct Function<'ast> {
    signature: &'ast Signature,
    block: Option<&'ast Block>,
}

impl Function<'_> {
    /// Returns the line of its signature.
    fn line(&self) -> usize {
        self.signature.span().start().line
    }

    /// Returns the lines from its signature to its closing brace.
    fn lines(&self) -> usize {
        let end = self.block.map_or(self.signature.span(), Spanned::span).end().line;
        end + 1 - self.line()
    }
}

/// Returns every function of the file, tests aside.
fn functions(source: &Source) -> Vec<Function<'_>> {
    let mut found = Functions(Vec::new());
    found.visit_file(&source.syntax);
    found.0.retain(|function| !source.is_test(function.line()));
    found.0
}

struct Functions<'ast>(Vec<Function<'ast>>);

impl<'ast> Visit<'ast> for Functions<'ast> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.0.push(Function { signature: &item.sig, block: Some(&item.block) });
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.0.push(Function { signature: &item.sig, block: Some(&item.block) });
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.0.push(Function { signature: &item.sig, block: item.default.as_ref() });
        visit::visit_trait_item_fn(self, item);
    }
}

/// Measures the depth of blocks in one body; functions inside it are measured on their own.
#[derive(Default)]
struct Depth {
    now: usize,
    deepest: usize,
    line: usize,
}

impl Depth {
    fn inside<'ast>(&mut self, line: usize, visit: impl FnOnce(&mut Self) + 'ast) {
        self.now += 1;
        if self.now > self.deepest {
            self.deepest = self.now;
            self.line = line;
        }
        visit(self);
        self.now -= 1;
    }

    /// Visits the statements of a block whose depth is already counted.
    fn statements(&mut self, block: &Block) {
        block.stmts.iter().for_each(|statement| self.visit_stmt(statement));
    }

    /// The block of a closure or an arm is part of it, not one more level.
    fn body(&mut self, expression: &Expr) {
        match expression {
            Expr::Block(inner) => self.statements(&inner.block),
            other => self.visit_expr(other),
        }
    }

    fn branch(&mut self, branch: &syn::ExprIf) {
        self.visit_expr(&branch.cond);
        self.inside(lines_start(branch), |depth| depth.statements(&branch.then_branch));
        match branch.else_branch.as_ref().map(|(_, other)| &**other) {
            Some(Expr::If(next)) => self.branch(next),
            Some(other) => self.inside(lines_start(other), |depth| depth.body(other)),
            None => {}
        }
    }
}

fn lines_start(syntax: &impl Spanned) -> usize {
    syntax.span().start().line
}

impl<'ast> Visit<'ast> for Depth {
    fn visit_block(&mut self, block: &'ast Block) {
        // Only the body of the function itself arrives here uncounted; all others are counted
        // below.
        self.statements(block);
    }

    fn visit_item(&mut self, _: &'ast syn::Item) {}

    fn visit_expr(&mut self, expression: &'ast Expr) {
        let line = lines_start(expression);
        match expression {
            Expr::If(branch) => self.branch(branch),
            Expr::Closure(closure) => self.inside(line, |depth| depth.body(&closure.body)),
            Expr::Match(choice) => {
                self.visit_expr(&choice.expr);
                for arm in &choice.arms {
                    self.inside(lines_start(arm), |depth| depth.body(&arm.body));
                }
            }
            Expr::ForLoop(_)
            | Expr::While(_)
            | Expr::Loop(_)
            | Expr::Block(_)
            | Expr::Unsafe(_)
            | Expr::Async(_) => self.inside(line, |depth| visit::visit_expr(depth, expression)),
            _ => visit::visit_expr(self, expression),
        }
    }
}

/// The names that a file defines and its author chose: not those of a foreign trait.
#[derive(Default)]
struct Named(Vec<(String, usize)>);

impl Named {
    fn push(&mut self, name: &syn::Ident) {
        self.0.push((name.to_string(), name.span().start().line));
    }
}

impl<'ast> Visit<'ast> for Named {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.trait_.is_none() {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        self.push(&signature.ident);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.push(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.push(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.push(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.push(&item.ident);
        visit::visit_item_mod(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines of the findings of `check` in `text`.
    fn lines(check: fn(&Source) -> Vec<Finding>, text: &str) -> Vec<usize> {
        let source = Source::parse("weir-x/src/a.rs", text).expect("the test's snippet is Rust");
        check(&source).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_file_needs_a_header() {
        let rows: [(&str, &[usize]); 4] = [
            ("//! What it is.\nfn a() {}", &[]),
            ("\n//! What it is.", &[]),
            ("//!\nfn a() {}", &[1]),
            ("// not a header\nfn a() {}", &[1]),
        ];
        for (text, expected) in rows {
            assert_eq!(lines(header, text), expected, "{text}");
        }
    }

    #[test]
    fn long_files_are_found_and_their_tests_not_counted() {
        let code = "fn a() {}\n".repeat(FILE_LINES);
        assert!(lines(file_length, &code).is_empty());
        assert_eq!(lines(file_length, &format!("{code}fn b() {{}}")), [1]);
        let tests = format!("{code}#[cfg(test)]\nmod tests {{\n{code}}}\n");
        assert!(lines(file_length, &tests).is_empty());
        assert_eq!(lines(file_length, &format!("//! x\n{tests}")), [1]);
    }

    #[test]
    fn wide_lines_are_counted_in_characters() {
        let fits = format!("// {}\n", "é".repeat(LINE_WIDTH - 3));
        assert!(lines(line_width, &fits).is_empty());
        let wide = format!("fn a() {{}}\n// {}\n", "é".repeat(LINE_WIDTH - 2));
        assert_eq!(lines(line_width, &wide), [2]);
    }

    #[test]
    fn a_function_may_have_as_many_lines_as_the_limit() {
        let function = |body: usize| format!("fn a() {{\n{}}}", "// x\n".repeat(body));
        assert!(lines(function_length, &function(FUNCTION_LINES - 2)).is_empty());
        assert_eq!(lines(function_length, &function(FUNCTION_LINES - 1)), [1]);
        let method = format!("struct S;\nimpl S {{ {} }}", function(FUNCTION_LINES - 1));
        assert_eq!(lines(function_length, &method), [2]);
        let test = format!("#[test]\n{}", function(FUNCTION_LINES));
        assert!(lines(function_length, &test).is_empty());
    }

    #[test]
    fn the_leaves_of_tuples_are_values() {
        let rows: [(&str, &[usize]); 7] = [
            ("fn f(a: A, b: B, c: C, d: D, e: E) {}", &[]),
            ("fn f(a: A, (b, c): (B, C), d: D, e: E) {}", &[]),
            ("fn f(a: A, (b, c): (B, C), d: D, e: E, f: F) {}", &[1]),
            ("fn f((a, (b, c)): (A, (B, C)), d: &(D, E, F)) {}", &[1]),
            ("struct S;\nimpl S { fn f(&self, a: (A, B, C), d: (D, E, F)) {} }", &[2]),
            ("fn f(a: A, b: B, c: C, d: D, e: E, f: F) {}", &[]),
            ("#[test]\nfn f(a: (A, B, C), d: (D, E, F)) {}", &[]),
        ];
        for (text, expected) in rows {
            assert_eq!(lines(tuples, text), expected, "{text}");
        }
    }

    #[test]
    fn self_is_not_a_parameter() {
        let five = "a: u8, b: u8, c: u8, d: u8, e: u8";
        let rows: [(String, &[usize]); 4] = [
            (format!("fn f({five}) {{}}"), &[]),
            (format!("impl S {{ fn f(&self, {five}) {{}} }}"), &[]),
            (format!("fn f({five}, g: u8) {{}}"), &[1]),
            (format!("trait T {{\nfn f(&self, {five}, g: u8); }}"), &[2]),
        ];
        for (text, expected) in rows {
            assert_eq!(lines(parameters, &text), expected, "{text}");
        }
    }

    #[test]
    fn blocks_in_blocks_are_measured() {
        let rows = [
            ("if a {}", 1),
            ("if a {} else if b {} else if c {} else {}", 1),
            ("for a in b { while c { loop { if d {} } } }", 4),
            ("for a in b { while c { loop { if d { unsafe {} } } } }", 5),
            ("match a { b => c, d => { e } }", 1),
            ("match a { b => match c { d => if e {} } }", 3),
            ("a.map(|b| { c })", 1),
            ("a.map(|b| b.map(|c| c.map(|d| d.map(|e| e.map(|f| f)))))", 5),
            ("let Some(a) = b else { return };", 1),
            ("fn g() { if a { if b { if c { if d {} } } } }", 0),
            ("let a = if b { c } else { match d { e => f } };", 2),
        ];
        for (body, expected) in rows {
            let text = format!("fn f() {{ {body} }}");
            let function: syn::ItemFn = syn::parse_str(&text).expect("the row is Rust");
            let mut depth = Depth::default();
            depth.visit_block(&function.block);
            assert_eq!(depth.deepest, expected, "{body}");
        }
    }

    #[test]
    fn deep_nesting_is_found_at_the_deepest_line() {
        let text = "fn f() {\nif a { if b {\nif c { if d {\nif e {} } } } } }";
        assert_eq!(lines(nesting, text), [4]);
    }

    #[test]
    fn meaningless_names_are_found() {
        let rows: [(&str, &[usize]); 9] = [
            ("mod util {}", &[1]),
            ("struct QueueManager;", &[1]),
            ("struct PacketInfo;", &[1]),
            ("fn get_rate() {}", &[1]),
            ("impl S { fn do_it() {} }", &[1]),
            ("fn utility() {}", &[]),
            ("fn database() {}", &[]),
            ("impl Foreign for S { fn get_rate() {} }", &[]),
            ("#[cfg(test)] mod t { fn get_rate() {} }", &[]),
        ];
        for (text, expected) in rows {
            assert_eq!(lines(names, text), expected, "{text}");
        }
    }

    #[test]
    fn unfinished_code_is_found_also_inside_macros() {
        let rows: [(&str, &[usize]); 9] = [
            ("fn f() { a.unwrap() }", &[1]),
            ("fn f() { println!(\"{}\", a.unwrap()) }", &[1]),
            ("fn f() { a.unwrap_or(1).expect(\"it holds\") }", &[]),
            ("fn f() { todo!() }", &[1]),
            ("fn f() { dbg!(a) }", &[1]),
            ("#[cfg(test)]\nmod t { fn f() { a.unwrap() } }", &[]),
            ("#[test]\n#[ignore]\nfn f() {}", &[2]),
            ("#[test]\n#[ignore = \"later\"]\nfn f() {}", &[2]),
            ("#[test]\n#[ignore = \"by `cargo xtask figures pages`\"]\nfn f() {}", &[]),
        ];
        for (text, expected) in rows {
            assert_eq!(lines(unfinished, text), expected, "{text}");
        }
    }

    #[test]
    fn lints_silenced_without_a_reason_are_found() {
        let rows: [(&str, &[usize]); 5] = [
            ("#![allow(missing_docs)]", &[1]),
            ("#[expect(dead_code, reason = \"r\")] fn f() {}", &[]),
            ("#[expect(dead_code)] fn f() {}", &[1]),
            ("#[allow(clippy::too_many_lines)] fn f() {}", &[]),
            ("#[cfg(test)] mod t { #![allow(dead_code)] }", &[]),
        ];
        for (text, expected) in rows {
            assert_eq!(lines(silenced, text), expected, "{text}");
        }
    }
}
