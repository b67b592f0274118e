//! The rows of live tests: each says what it needs of the machine, and runs where that is there.
//!
//! ```no_run
//! use weir_testbed::rows::{self, Need, Outcome, Row};
//!
//! const ROWS: &[Row] = &[
//!     Row::new("frames_pass", frames_pass),
//!     Row::new("the_screen_shows_rates", the_screen).needs(&[Need::Program("tmux")]),
//!     Row::new("a_killed_forwarder_leaves_a_fallback", fallback).needs(&[Need::Root]),
//! ];
//!
//! fn main() -> std::process::ExitCode {
//!     rows::main(ROWS.iter().cloned())
//! }
//! # fn frames_pass() -> Outcome { Ok(()) }
//! # fn the_screen() -> Outcome { Ok(()) }
//! # fn fallback() -> Outcome { Ok(()) }
//! ```
//!
//! Invariant: a row that cannot run is counted as ignored with its reason, or fails if
//! WEIR_REQUIRE_LIVE=1; it never passes.

mod needs;
mod times;

use std::borrow::Cow;
use std::fmt;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::thread;
use std::time::Instant;

use libtest_mimic::{Arguments, Trial};
use weir_host::netns::{self, NetNs};

pub use libtest_mimic::{Completion, Failed};
pub use needs::Need;
use times::Times;

/// The result of a row.
pub type Outcome = std::result::Result<(), Failed>;

/// A test, and what it needs.
#[derive(Clone)]
pub struct Row {
    name: Cow<'static, str>,
    needs: &'static [Need],
    is_alone: bool,
    test: Test,
}

#[derive(Clone)]
enum Test {
    Function(fn() -> Outcome),
    Closure(Arc<dyn Fn() -> Result<Completion, Failed> + Send + Sync>),
}

impl Row {
    /// Makes a row of a table. It needs private networks.
    pub const fn new(name: &'static str, test: fn() -> Outcome) -> Self {
        let (name, test) = (Cow::Borrowed(name), Test::Function(test));
        Self { name, needs: &[Need::PrivateNetworks], is_alone: false, test }
    }

    /// Makes a row from other data. It needs private networks.
    pub fn of(
        name: impl Into<Cow<'static, str>>,
        test: impl Fn() -> Outcome + Send + Sync + 'static,
    ) -> Self {
        Self::ignorable(name, move || test().map(|()| Completion::Completed))
    }

    /// As [`Row::of`], of a test that finds out itself whether it can run.
    pub fn ignorable(
        name: impl Into<Cow<'static, str>>,
        test: impl Fn() -> Result<Completion, Failed> + Send + Sync + 'static,
    ) -> Self {
        let test = Test::Closure(Arc::new(test));
        Self { name: name.into(), needs: &[Need::PrivateNetworks], is_alone: false, test }
    }

    /// Sets what it needs: private networks only if they are named here, or another need implies
    /// them.
    pub const fn needs(mut self, needs: &'static [Need]) -> Self {
        self.needs = needs;
        self
    }

    /// Lets no other row of this program run beside it.
    pub const fn alone(mut self) -> Self {
        self.is_alone = true;
        self
    }

    fn run(&self) -> Result<Completion, Failed> {
        match &self.test {
            Test::Function(test) => test().map(|()| Completion::Completed),
            Test::Closure(test) => test(),
        }
    }
}

/// A row of a table that needs private networks and nothing else.
impl From<&Named> for Row {
    fn from((name, test): &Named) -> Self {
        Self::new(name, *test)
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row").field("name", &self.name).field("needs", &self.needs).finish()
    }
}

/// A test and its name.
pub type Named = (&'static str, fn() -> Outcome);

/// Returns a row for each of these tests, named after their module.
pub fn table<'a>(
    module: &'a str,
    tests: &'a [Named],
    needs: &'static [Need],
) -> impl Iterator<Item = Row> + use<'a> {
    tests.iter().map(move |(name, test)| Row::of(format!("{module}::{name}"), *test).needs(needs))
}

/// Runs the rows that the arguments of this process ask for, several at a time: they mostly wait.
///
/// It is the whole `main` of a test, and must be called before any thread is started. The time of
/// each row goes to the file that WEIR_TEST_TIMES names, a line `time NAME SECONDS` each; without
/// it, the slowest rows are printed.
pub fn main(rows: impl IntoIterator<Item = Row>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    let prepared = match arguments.list {
        true => Ok(()),
        false => prepare(),
    };
    PREPARED.set(prepared).expect("a program has one main");
    let cores = thread::available_parallelism().map_or(1, usize::from);
    arguments.test_threads = arguments.test_threads.or(Some(threads(cores)));
    let is_required = std::env::var_os("WEIR_REQUIRE_LIVE").is_some_and(|value| value == "1");
    let shared = Arc::new(Shared::default());
    let trials = rows.into_iter().map(|row| {
        let shared = Arc::clone(&shared);
        Trial::ignorable_test(row.name.clone(), move || run(&row, &shared, is_required))
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    shared.times.tell();
    conclusion.exit_code()
}

/// Lets this process make private networks, and tries one.
fn prepare() -> std::result::Result<(), String> {
    netns::prepare_private_networks()?;
    NetNs::new().map(drop).map_err(|error| error.to_string())
}

/// The state that all rows share.
#[derive(Default)]
struct Shared {
    times: Times,
    /// A row that is alone holds it for writing, each other one for reading.
    machine: RwLock<()>,
}

/// Runs a row, if what it needs is there.
fn run(row: &Row, shared: &Shared, is_required: bool) -> Result<Completion, Failed> {
    match needs::missing(row.needs) {
        Some(why) if is_required => return Err(why.into()),
        Some(why) => return Ok(Completion::ignored_with(why)),
        None => {}
    }
    let machine = &shared.machine;
    let write = || machine.write().unwrap_or_else(PoisonError::into_inner);
    let read = || machine.read().unwrap_or_else(PoisonError::into_inner);
    let _whole = row.is_alone.then(write);
    let _part = (!row.is_alone).then(read);
    let start = Instant::now();
    // A row that panics has a time, too.
    let _noted = Noted { row, start, times: &shared.times };
    row.run()
}

/// Notes the time of a row when it ends.
struct Noted<'a> {
    row: &'a Row,
    start: Instant,
    times: &'a Times,
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.times.note(&self.row.name, self.start.elapsed());
    }
}

/// Returns how many rows run at a time.
fn threads(cores: usize) -> usize {
    THREADS_MIN.max(2 * cores)
}

/// Whether private networks can be made, or why not.
static PREPARED: OnceLock<std::result::Result<(), String>> = OnceLock::new();
/// Rows mostly wait, so that even one processor runs several.
const THREADS_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_lacks_what_it_needs_never_passes() {
        let shared = Shared::default();
        let row = Row::new("it_needs_what_nobody_has", || Ok(()));
        let row = row.needs(&[Need::Program("no-such-program")]);
        let why = "there is no program `no-such-program` in PATH";
        let ignored = run(&row, &shared, false).expect("it is ignored");
        assert!(matches!(ignored, Completion::Ignored { reason: Some(found) } if found == why));
        let failed = run(&row, &shared, true).err().expect("it is required");
        assert_eq!(failed.message(), Some(why));
    }

    #[test]
    fn a_row_runs_and_its_time_is_noted() {
        let shared = Shared::default();
        let rows = [
            Row::new("passes", || Ok(())),
            Row::of("fails", || Err("it fails".into())),
            Row::of(String::from("is_alone"), || Ok(())).alone(),
        ];
        let outcomes = rows.map(|row| run(&row.needs(&[]), &shared, true).is_ok());
        assert_eq!(outcomes, [true, false, true]);
        assert_eq!(shared.times.count(), 3);
    }

    #[test]
    fn several_rows_run_at_a_time() {
        assert_eq!([1, 2, 3, 8].map(threads), [4, 4, 6, 16]);
    }
}
