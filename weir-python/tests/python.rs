//! Runs the tests in Python beside this file with the module that Cargo built for this test.
//!
//! Without Python the test prints so and passes, and it prints which tests are left out for want of
//! a library. With `WEIR_REQUIRE_PYTHON=1` it installs the libraries in an environment of its own,
//! and fails where it cannot.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

#[test]
fn the_python_tests_pass() {
    if !has_python() {
        assert!(!is_required(), "no {} can be run, and WEIR_REQUIRE_PYTHON=1", python());
        // Bypasses the harness, which shows a test's output only if it fails.
        let _ =
            writeln!(io::stderr(), "skipped: no {} can be run, so `weir` is not tried", python());
        return;
    }
    let python = if is_required() { environment() } else { PathBuf::from(python()) };
    let folder = tempfile::tempdir().expect("a place for temporary files");
    install(&folder.path().join("weir"));
    let (modules, failed) = (Mutex::new(modules()), Mutex::new(String::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(module) = next(&modules) {
                    let (is_passed, said) = tried(&python, folder.path(), &module);
                    if !is_passed {
                        *failed.lock().expect("no panic") += &said;
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no panic");
    assert!(failed.is_empty(), "{failed}");
}

/// Returns the files with tests, the one that takes longest last.
fn modules() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let files = fs::read_dir(folder).expect("the folder is there");
    let name = |entry: io::Result<fs::DirEntry>| entry.expect("it can be listed").file_name();
    let names = files.map(|file| name(file).to_string_lossy().into_owned());
    let mut modules: Vec<String> =
        names.filter(|name| name.starts_with("test_") && name.ends_with(".py")).collect();
    assert!(!modules.is_empty(), "there are no tests in Python");
    modules.sort_by_key(|name| name == LONGEST);
    modules
}

fn next(modules: &Mutex<Vec<String>>) -> Option<String> {
    modules.lock().expect("no panic").pop()
}

/// Runs the tests in a file; returns whether they passed, and what they printed.
fn tried(python: &Path, package: &Path, module: &str) -> (bool, String) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut command = Command::new(python);
    // Avoids other modules called `weir`, and writing anything beside the sources.
    command.args(["-B", "-m", "unittest", "discover", "-v", "-p", module, "-s"]).arg(tests);
    command.env("PYTHONPATH", package).current_dir(package);
    if let Some(weir) = program() {
        command.env("WEIR", weir);
    }
    let output = command.output().expect("it just ran");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for (test, why) in said.lines().filter_map(|line| line.split_once(" ... skipped ")) {
        // Bypasses the harness, as above.
        let _ = writeln!(io::stderr(), "skipped: {test}: {why}");
    }
    (output.status.success() && said.contains("\nOK"), format!("{module}:\n{said}"))
}

/// Returns the interpreter of an environment with the libraries, which is made anew if the list of
/// them is another.
fn environment() -> PathBuf {
    let test = env::current_exe().expect("a test knows its own path");
    let folder = test.with_file_name("python-libraries");
    let (bin, list) = (if cfg!(windows) { "Scripts" } else { "bin" }, folder.join("libraries"));
    let python = folder.join(bin).join("python");
    let wanted = LIBRARIES.join("\n");
    if fs::read_to_string(&list).is_ok_and(|made| made == wanted) {
        return python;
    }
    let mut venv = Command::new(self::python());
    succeed(venv.args(["-m", "venv", "--clear"]).arg(&folder));
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]);
    succeed(pip.arg("--prefer-binary").args(LIBRARIES));
    fs::write(list, wanted).expect("the environment can be written to");
    python
}

/// Runs a command of which the tests need that it succeeds.
fn succeed(command: &mut Command) {
    let output = command.output().expect("an interpreter can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "WEIR_REQUIRE_PYTHON=1 needs the libraries of the tests, and {command:?} failed: {said}"
    );
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

/// Returns whether everything has to be tried, as in CI.
fn is_required() -> bool {
    env::var_os("WEIR_REQUIRE_PYTHON").is_some_and(|value| value == "1")
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

/// The file of tests that takes longest, so it begins first.
const LONGEST: &str = "test_sweep.py";
/// Files of tests that run at once: each waits for processes and for real time.
const AT_ONCE: usize = 2;
/// What the tests need beside Python. Ray is left out: to install it and to kill its nodes takes a
/// minute more, and `cargo xtask figures sweep` does that.
const LIBRARIES: &[&str] = &[
    "matplotlib>=3.6",
    "mypy",
    "numpy",
    "optuna>=3.5",
    "pandas>=2.2",
    "polars",
    "pyarrow",
    "pyright",
    "tomlkit>=0.12",
];
