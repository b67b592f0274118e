//! Runs `test_weir.py` in Python with the module that Cargo built for this test.
//!
//! Without Python the test prints so and passes; with `WEIR_REQUIRE_PYTHON=1` it fails.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn the_python_tests_pass() {
    if !has_python() {
        let required = env::var_os("WEIR_REQUIRE_PYTHON").is_some_and(|value| value == "1");
        assert!(!required, "no {PYTHON} can be run, and WEIR_REQUIRE_PYTHON=1");
        // Bypasses the harness, which shows a test's output only if it fails.
        let _ = writeln!(io::stderr(), "skipped: no {PYTHON} can be run, so `weir` is not tried");
        return;
    }
    let folder = tempfile::tempdir().expect("a place for temporary files");
    fs::copy(library(), folder.path().join(module_file())).expect("the library can be copied");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/test_weir.py");
    let mut command = Command::new(PYTHON);
    // Avoids other modules called `weir`, and writing anything beside the sources.
    command.arg("-B").arg(tests).env("PYTHONPATH", folder.path()).current_dir(folder.path());
    let output = command.output().expect("it just ran");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("\nOK"), "no test of Python's ran: {said}");
}

/// Returns whether a Python can be run.
fn has_python() -> bool {
    Command::new(PYTHON).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Returns the library of this package, which Cargo builds before its tests and places beside them:
/// a dynamic library's name has no hash.
fn library() -> PathBuf {
    let test = env::current_exe().expect("a test knows its own path");
    let name = format!("{}weir{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let library = test.with_file_name(name);
    assert!(library.is_file(), "{} is not there", library.display());
    library
}

/// Returns the file name that Python requires of the module.
fn module_file() -> &'static str {
    if cfg!(windows) { "weir.pyd" } else { "weir.so" }
}

const PYTHON: &str = "python3";
