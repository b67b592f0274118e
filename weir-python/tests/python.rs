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
        assert!(!required, "no {} can be run, and WEIR_REQUIRE_PYTHON=1", python());
        // Bypasses the harness, which shows a test's output only if it fails.
        let _ =
            writeln!(io::stderr(), "skipped: no {} can be run, so `weir` is not tried", python());
        return;
    }
    let folder = tempfile::tempdir().expect("a place for temporary files");
    install(&folder.path().join("weir"));
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/test_weir.py");
    let mut command = Command::new(python());
    // Avoids other modules called `weir`, and writing anything beside the sources.
    command.arg("-B").arg(tests).env("PYTHONPATH", folder.path()).current_dir(folder.path());
    if let Some(weir) = program() {
        command.env("WEIR", weir);
    }
    let output = command.output().expect("it just ran");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("\nOK"), "no test of Python's ran: {said}");
}

/// Makes the package of the library and of what is written in Python, as a wheel contains it.
fn install(package: &Path) {
    fs::create_dir(package).expect("the folder is new");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/weir");
    for entry in fs::read_dir(sources).expect("the folder is there") {
        let path = entry.expect("it can be listed").path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            fs::copy(&path, package.join(name)).expect("a source can be copied");
        }
    }
    fs::copy(library(), package.join(module_file())).expect("the library can be copied");
}

/// Returns whether a Python can be run.
fn has_python() -> bool {
    Command::new(python()).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Returns the library of this package, which Cargo builds before its tests and places beside them:
/// a dynamic library's name has no hash.
fn library() -> PathBuf {
    let test = env::current_exe().expect("a test knows its own path");
    let name = format!("{}_weir{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let library = test.with_file_name(name);
    assert!(library.is_file(), "{} is not there", library.display());
    library
}

/// Returns the command `weir`, if Cargo built it, too: the tests with a running link need it.
fn program() -> Option<PathBuf> {
    let test = env::current_exe().expect("a test knows its own path");
    let built = test.parent()?.parent()?.join(format!("weir{}", env::consts::EXE_SUFFIX));
    built.is_file().then_some(built)
}

/// Returns the file name that Python requires of the module.
fn module_file() -> &'static str {
    if cfg!(windows) { "_weir.pyd" } else { "_weir.so" }
}

/// The interpreter, by default the first `python3`; `WEIR_PYTHON` names another, such as one with
/// pyarrow.
fn python() -> String {
    env::var("WEIR_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}
