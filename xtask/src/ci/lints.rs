//! The compiler of this workspace's crates while `ci` builds: clippy's, which lints what it
//! compiles, where that has the tests, and rustc without them: nothing is linted twice.
//!
//! Cargo calls this program in place of rustc, with rustc and its arguments.

use crate::nostd::target_directory;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{fs, io};

/// Returns whether these are the arguments of a compiler.
pub fn is_compiler(arguments: &[&str]) -> bool {
    arguments.first().is_some_and(|first| Path::new(first).file_name() == Some("rustc".as_ref()))
}

/// Replaces this process by the compiler.
pub fn compile(arguments: &[&str]) -> ExitCode {
    let lints = std::env::var_os(DRIVER).filter(|_| !is_linted_with_tests(arguments));
    let error = match lints {
        Some(driver) => Command::new(driver).args(arguments).exec(),
        None => Command::new(arguments[0]).args(&arguments[1..]).exec(),
    };
    eprintln!("cannot run the compiler: {error}");
    ExitCode::FAILURE
}

/// Returns a cargo that compiles so. A lint is an error.
///
/// # Errors
/// When clippy is missing.
pub fn cargo(root: &Path) -> Result<Command, String> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    let output = output.map_err(|error| format!("cannot run rustc: {error}"))?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let driver = sysroot.join("bin/clippy-driver");
    if !driver.exists() {
        return Err(format!("{} is missing: rustup component add clippy", driver.display()));
    }
    let compiler = copied(root).map_err(|error| format!("cannot copy this program: {error}"))?;
    let mut command = Command::new("cargo");
    command.current_dir(root).env("RUSTC_WORKSPACE_WRAPPER", compiler).env(DRIVER, driver);
    // As `cargo clippy -- -D warnings` passes it on.
    command.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    // What is built from nothing is built faster without what a next build could use again.
    command.env("CARGO_INCREMENTAL", "0");
    Ok(command)
}

/// Returns a copy of this program, which the build replaces while it needs it.
fn copied(root: &Path) -> io::Result<PathBuf> {
    let folder = target_directory(root);
    let (whole, copy) = (folder.join("compiler"), folder.join("compiler.new"));
    let program = fs::read(std::env::current_exe()?)?;
    if !fs::read(&whole).is_ok_and(|before| before == program) {
        fs::copy(std::env::current_exe()?, &copy)?;
        fs::rename(copy, &whole)?;
    }
    std::path::absolute(whole)
}

/// Whether these are a library or a program without its unit tests, which are compiled as well.
fn is_linted_with_tests(arguments: &[&str]) -> bool {
    let is_tested =
        arguments.contains(&"--test") || arguments.windows(2).any(|two| two == CFG_TEST);
    let is_main = |path: &&str| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    !is_tested && arguments.iter().any(is_main)
}

/// Where the path of clippy's compiler is.
const DRIVER: &str = "WEIR_CLIPPY_DRIVER";
/// Of tests with a harness of their own.
const CFG_TEST: [&str; 2] = ["--cfg", "test"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_linted_once() {
        let rows = [
            ("rustc --crate-name weir src/main.rs --crate-type bin", true),
            ("rustc --crate-name weir src/main.rs --test", false),
            ("rustc --crate-name weir_core weir-core/src/lib.rs --crate-type lib", true),
            ("rustc --crate-name it tests/it/main.rs --test", false),
            ("rustc --crate-name live tests/live/main.rs --crate-type bin --cfg test", false),
            ("rustc --crate-name tour examples/tour.rs --crate-type bin", false),
            ("rustc -vV", false),
        ];
        for (line, expected) in rows {
            let arguments: Vec<&str> = line.split(' ').collect();
            assert!(is_compiler(&arguments));
            assert_eq!(is_linted_with_tests(&arguments), expected, "{line}");
        }
        assert!(!is_compiler(&["ci", "build"]));
    }
}
