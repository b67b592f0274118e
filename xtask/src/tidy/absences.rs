//! Checks the absences of `rules::ABSENCES`.

use super::Finding;
use super::rules::{ABSENCES, Absence, PRESENT};
use super::source::Source;

/// Reports each forbidden token sequence, tests aside.
pub fn tokens(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let may_be = |what: &str| PRESENT.iter().any(|row| (row.0, row.1) == (&source.path, what));
    let all = ABSENCES.iter().filter(|absence| applies(absence, source.krate()));
    for absence in all.filter(|absence| !may_be(absence.what)) {
        for pattern in absence.tokens {
            findings.extend(source.lines_of(pattern).into_iter().map(|line| {
                let what = format!("{} (`{}`)", absence.what, pattern.replace(' ', ""));
                source.finding(line, "absence", what, absence.cure)
            }));
        }
    }
    findings
}

fn applies(absence: &Absence, krate: &str) -> bool {
    match absence.crates {
        [] => !absence.but.contains(&krate),
        crates => crates.contains(&krate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_tokens_are_found_in_the_crates_of_the_rule() {
        let rows: [(&str, &str, &[usize]); 13] = [
            ("weir-core", "use std::vec::Vec;", &[1]),
            ("weir-core", "use core::mem;\nuse alloc::vec::Vec;", &[]),
            ("weir-core", "#[cfg(test)]\nmod t { extern crate std; use std::vec::Vec; }", &[]),
            ("weir-core", "fn f() -> f64 { 0.0 }", &[1]),
            ("weir-sim", "fn f() -> f64 { 0.0 }", &[]),
            ("weir-sim", "fn f() { std::time::Instant::now(); }", &[1, 1]),
            ("weir-link", "fn f() { std::time::Instant::now(); }", &[]),
            ("weir-policy", "use std::collections::HashMap;", &[1]),
            ("weir", "use std::collections::HashMap;", &[]),
            ("weir", "fn f() { unsafe { g() } }", &[1]),
            ("weir-link", "fn f() { unsafe { g() } }", &[]),
            ("weir-lab", "fn f() { rand::thread_rng(); }", &[1]),
            ("weir-sim", "fn f() { std::thread::spawn(g); }", &[1, 1]),
        ];
        for (krate, text, expected) in rows {
            let path = format!("{krate}/src/a.rs");
            let source = Source::parse(&path, text).expect("the test's snippet is Rust");
            let lines: Vec<usize> = tokens(&source).iter().map(|found| found.line).collect();
            assert_eq!(lines, expected, "{krate}: {text}");
        }
    }
}
