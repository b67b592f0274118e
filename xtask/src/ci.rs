//! `cargo xtask ci`: runs every step that a change must pass, in order, each timed.

pub mod lints;
mod programs;

use programs::Times;
use std::path::Path;
use std::time::{Duration, Instant};

/// A step: its name, what it checks, and its action. `Ok` describes the result.
struct Step {
    name: &'static str,
    checks: &'static str,
    run: fn(&Path, &mut Times) -> Result<String, String>,
}

/// The steps, cheapest first.
const STEPS: [Step; 6] = [
    Step {
        name: "fmt",
        checks: "every file is formatted (`cargo xtask fmt` does it)",
        run: |root, _| crate::format::run(root, true),
    },
    Step {
        name: "tidy",
        checks: "limits of style, arrows between crates and modules, citations",
        run: |root, _| tidy(root),
    },
    Step {
        name: "nostd",
        checks: "weir-core and weir-tcp build without the standard library",
        run: |root, _| crate::nostd::prove(root),
    },
    Step {
        name: "build",
        checks: "every target builds, without a lint",
        run: |root, _| programs::build(root).map(|all| all.describe()),
    },
    Step {
        name: "test",
        checks: "every test, on live links too; it builds first if need be",
        run: programs::run,
    },
    Step { name: "doctest", checks: "the examples in the documentation of code", run: doctest },
];

/// The outcome of a step: its name, its time, its message.
struct Outcome {
    name: &'static str,
    spent: Duration,
    result: Result<String, String>,
}

/// Runs the named steps, or all of them, up to the first that fails, or all if `keep_going`;
/// returns true if every one passed.
pub fn run(root: &Path, names: &[&str], keep_going: bool) -> bool {
    if let Some(unknown) = names.iter().find(|name| !STEPS.iter().any(|step| step.name == **name)) {
        eprintln!("ci: no step is called `{unknown}`; these are:");
        list();
        return false;
    }
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut times = Times::default();
    for step in STEPS.iter().filter(|step| names.is_empty() || names.contains(&step.name)) {
        println!("\n== {}", step.name);
        let start = Instant::now();
        let result = (step.run)(root, &mut times);
        let failed = result.is_err();
        outcomes.push(Outcome { name: step.name, spent: start.elapsed(), result });
        if failed && !keep_going {
            break;
        }
    }
    times.print();
    summarise(&outcomes);
    outcomes.iter().all(|outcome| outcome.result.is_ok())
}

/// Prints the steps, one a line.
pub fn list() -> bool {
    STEPS.iter().for_each(|step| println!("{:<8} {}", step.name, step.checks));
    true
}

fn summarise(outcomes: &[Outcome]) {
    println!("\n== summary");
    for Outcome { name, spent, result } in outcomes {
        let time = format!("{:.1} s", spent.as_secs_f64());
        match result {
            Ok(found) => println!("{}", format!("{name:<13}{time:>8}  {found}").trim_end()),
            Err(trouble) => {
                println!("{name:<13}{time:>8}  FAILED: {trouble}; alone: cargo xtask ci {name}")
            }
        }
    }
    // The count of tests is printed last, alone on its line.
    let tests = outcomes.iter().find(|outcome| outcome.name == "test");
    if let Some(Ok(counted)) = tests.map(|outcome| &outcome.result) {
        println!("\ntests: {counted}");
    }
}

fn tidy(root: &Path) -> Result<String, String> {
    match crate::tidy::run(root)? {
        true => Ok("no findings".into()),
        false => Err("the findings above".into()),
    }
}

fn doctest(root: &Path, _: &mut Times) -> Result<String, String> {
    let mut command = lints::cargo(root)?;
    let status = command.args(["test", "--locked", "--workspace", "--doc"]).status();
    match status.map_err(|error| format!("cannot run cargo: {error}"))?.success() {
        true => Ok(String::new()),
        false => Err("examples in the documentation fail".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_step_is_refused() {
        assert!(!run(Path::new("."), &["nosuch"], false));
    }
}
