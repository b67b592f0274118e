//! Runs the tests in Python of the folder above with the module that Cargo built for this test: each
//! is a row. What else needs a library of Python is a row, too.
//!
//! A row whose library or program is missing is ignored, and says which. With
//! `WEIR_REQUIRE_PYTHON=1` the libraries are installed in an environment of their own, and what
//! cannot run fails.

mod schema;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};

use weir_testbed::rows::{self, Completion, Failed, Need, Row};

fn main() -> ExitCode {
    let python: &'static str = python().leak();
    let needs: &'static [Need] = match is_required() {
        true => &[],
        false => vec![Need::Program(python)].leak(),
    };
    let mut all: Vec<(usize, Row)> = Vec::new();
    for module in modules() {
        let file = Arc::new(File { module, found: OnceLock::new() });
        let names = file.names().into_iter().enumerate();
        all.extend(names.map(|(at, name)| (at, row(&file, name).needs(needs))));
    }
    // Files of tests run beside each other, since one row of each comes after the other.
    all.sort_by_key(|(at, _)| *at);
    rows::main(all.into_iter().map(|(_, row)| row).chain(schema::rows()))
}

fn row(file: &Arc<File>, name: String) -> Row {
    let file = Arc::clone(file);
    Row::ignorable(name.replace('.', "::"), move || file.outcome(&name))
}

/// A file of tests, which runs once.
struct File {
    module: String,
    found: OnceLock<Result<Ran, String>>,
}

/// The results of the tests of a file.
struct Ran {
    /// State and reason of each.
    rows: BTreeMap<String, (String, String)>,
    said: String,
}

impl File {
    /// Returns the names of its tests, with module and class, as Python names them.
    fn names(&self) -> Vec<String> {
        let text = fs::read_to_string(tests().join(format!("{}.py", self.module)));
        let (mut class, mut names) = ("", Vec::new());
        for line in text.expect("it was listed").lines() {
            if let Some(rest) = line.strip_prefix("class ") {
                class = rest.split(['(', ':']).next().unwrap_or_default();
            } else if let Some(rest) = line.strip_prefix("    def test_") {
                let name = rest.split('(').next().unwrap_or_default();
                names.push(format!("{}.{class}.test_{name}", self.module));
            }
        }
        assert!(!names.is_empty(), "{} has tests", self.module);
        names
    }

    fn outcome(&self, name: &str) -> Result<Completion, Failed> {
        let ran = self.found.get_or_init(|| tried(&self.module)).as_ref()?;
        match ran.rows.get(name).map(|(state, why)| (state.as_str(), why)) {
            Some(("passed", _)) => Ok(Completion::Completed),
            Some(("ignored", why)) if !is_required() || why.contains("ray") => {
                Ok(Completion::ignored_with(why.clone()))
            }
            Some((_, why)) => Err(why.into()),
            None => Err(format!("it did not run: {}", ran.said).into()),
        }
    }
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Returns the names of the files with tests.
fn modules() -> Vec<String> {
    let files = fs::read_dir(tests()).expect("the folder is there");
    let name = |entry: io::Result<fs::DirEntry>| entry.expect("it can be listed").file_name();
    let names = files.map(|file| name(file).to_string_lossy().into_owned());
    let is_test = |name: &String| name.starts_with("test_");
    let mut modules: Vec<String> = names
        .filter(is_test)
        .filter_map(|name| name.strip_suffix(".py").map(str::to_owned))
        .collect();
    assert!(!modules.is_empty(), "there are no tests in Python");
    modules.sort_unstable();
    modules
}

/// Runs the tests in a file.
fn tried(module: &str) -> Result<Ran, String> {
    let (python, package) = installed().as_ref()?;
    let mut command = Command::new(python);
    // Avoids other modules called `weir`, and writing anything beside the sources.
    command.arg("-B").arg(tests().join("rows.py")).arg(tests()).arg(format!("{module}.py"));
    command.env("PYTHONPATH", package.path()).current_dir(package.path());
    if let Some(weir) = program() {
        command.env("WEIR", weir);
    }
    let output = command.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let rows = serde_json::from_slice(&output.stdout).map_err(|why| format!("{why}: {said}"))?;
    Ok(Ran { rows, said })
}

/// Returns the interpreter, and a folder with the package.
fn installed() -> &'static Result<(PathBuf, tempfile::TempDir), String> {
    static INSTALLED: OnceLock<Result<(PathBuf, tempfile::TempDir), String>> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let python = if is_required() { environment()? } else { PathBuf::from(python()) };
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        install(&folder.path().join("weir"));
        Ok((python, folder))
    })
}

/// Returns the interpreter of an environment with the libraries, which is made anew if the list of
/// them is another.
fn environment() -> Result<PathBuf, String> {
    let test = env::current_exe().expect("a test knows its own path");
    let folder = test.with_file_name("python-libraries");
    let (bin, list) = (if cfg!(windows) { "Scripts" } else { "bin" }, folder.join("libraries"));
    let python = folder.join(bin).join("python");
    let wanted = LIBRARIES.join("\n");
    if fs::read_to_string(&list).is_ok_and(|made| made == wanted) {
        return Ok(python);
    }
    let mut venv = Command::new(self::python());
    succeed(venv.args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]);
    succeed(pip.arg("--prefer-binary").args(LIBRARIES))?;
    fs::write(list, wanted).expect("the environment can be written to");
    Ok(python)
}

/// Runs a command of which the tests need that it succeeds.
fn succeed(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("WEIR_REQUIRE_PYTHON=1 needs libraries; {command:?}: {said}")),
    }
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

/// The libraries that the tests need beside Python. Ray is left out: to install it and to kill its
/// nodes takes a minute more, and `cargo xtask figures sweep` does that.
const LIBRARIES: &[&str] = &[
    "jsonschema",
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
