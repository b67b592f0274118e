//! Build tasks, run as `cargo xtask TASK`: checks that the compiler does not make, and all of CI.

mod ci;
mod figures;
mod format;
mod mutants;
mod nostd;
mod pauses;
mod pictures;
mod processes;
mod tidy;
mod view;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The tasks, one a line, as `cargo xtask` prints them.
const USAGE: &str = "\
usage: cargo xtask TASK
  fmt [--check] format every Rust file, those that macros declare among them; or only check
  tidy          check the style limits, the arrows between crates and modules, the absences
  bounds        print the bounds of queues, tables and loops: docs/internals/bounds.md
  ci [--keep-going] [STEP...]
                run every step that a change must pass, or the named ones, up to the first that
                fails; with --keep-going also those after it
  ci --list     name the steps of ci and what they check
  ci --full     every step, then every part of figures: hours
  pauses COMMAND...
                run a command, such as `cargo xtask ci test`, while processes below it are stopped
                for half a second at random instants; WEIR_SEED=HEX draws the same instants again
  figures [PART...]
                measure every figure of README and docs, or the named parts; exit 1 if a goal is
                missed
  figures mutants --sample N
                with another number of mutants than 100
  figures packetdrill --scripts FOLDER
                replay the packetdrill scripts of a folder, such as those of google/packetdrill
                and of Linux's selftests
  figures --list
                name the parts of figures
  pictures [PART...]
                make the pictures of README and docs from the real thing (20 min; root)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if ci::lints::is_compiler(&words) {
        return ci::lints::compile(&words);
    }
    let passed = processes::end_with_signals().and_then(|()| run(&workspace_root(), &words));
    match passed {
        Ok(Some(true)) => ExitCode::SUCCESS,
        Ok(Some(false)) => ExitCode::FAILURE,
        Ok(None) => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the task; returns whether it passed, or nothing if there is no such task.
fn run(root: &Path, words: &[&str]) -> Result<Option<bool>, String> {
    let passed = match words {
        ["--help" | "-h"] | [_, "--help" | "-h"] => {
            println!("{USAGE}");
            true
        }
        ["fmt"] => formatted(root, false),
        ["fmt", "--check"] => formatted(root, true),
        ["tidy"] => tidy::run(root).map_err(|why| format!("tidy: {why}"))?,
        ["bounds"] => {
            print!("{}", tidy::bounds(root).map_err(|why| format!("bounds: {why}"))?);
            true
        }
        ["ci", "--list"] => ci::list(),
        ["ci", "--full"] => {
            let passed = ci::run(root, &[], true);
            figures::run(root, &[]) && passed
        }
        ["ci", "--keep-going", steps @ ..] => ci::run(root, steps, true),
        ["ci", steps @ ..] => ci::run(root, steps, false),
        ["pauses", command @ ..] => pauses::run(command)?,
        ["pictures", parts @ ..] => pictures::run(root, parts),
        ["figures", "--list"] => figures::list(),
        ["figures", "mutants", "--sample", number] => figures::run_mutants(root, number),
        ["figures", "packetdrill", "--scripts", folder] => figures::run_packetdrill(root, folder),
        ["figures", parts @ ..] => figures::run(root, parts),
        _ => return Ok(None),
    };
    Ok(Some(passed))
}

fn formatted(root: &Path, check: bool) -> bool {
    format::run(root, check).inspect_err(|why| eprintln!("fmt: {why}")).is_ok()
}

/// Returns the folder of the workspace's manifest.
fn workspace_root() -> PathBuf {
    // The variable at run time comes first: work trees that share a build folder share this
    // program.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR");
    let manifest =
        manifest.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().expect("xtask is in a folder of the workspace").to_path_buf()
}
