//! How long each row took, for the table of the slowest tests.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The times of all rows of a program.
#[derive(Debug, Default)]
pub(super) struct Times(Mutex<Vec<(String, Duration)>>);

impl Times {
    pub fn note(&self, name: &str, time: Duration) {
        self.locked().push((name.to_owned(), time));
    }

    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.locked().len()
    }

    /// Appends the times to the file that WEIR_TEST_TIMES names, or prints the slowest rows.
    pub fn tell(&self) {
        let all = self.lines(&std::env::var("CARGO_PKG_NAME").unwrap_or_default());
        let Some(path) = std::env::var_os("WEIR_TEST_TIMES") else {
            all.iter().take(SLOWEST).for_each(|line| println!("{line}"));
            return;
        };
        if let Err(error) = append(Path::new(&path), &all) {
            eprintln!("the times are lost: {}: {error}", path.display());
        }
    }

    /// Returns a line for each row, the slowest first. The name of the crate tells rows of the same
    /// name apart.
    fn lines(&self, package: &str) -> Vec<String> {
        let mut times = self.locked().clone();
        times.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        let place = if package.is_empty() { String::new() } else { format!("{package}::") };
        let line = |(name, time): &(String, Duration)| {
            format!("time {place}{name} {:.3}", time.as_secs_f64())
        };
        times.iter().map(line).collect()
    }

    fn locked(&self) -> MutexGuard<'_, Vec<(String, Duration)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Appends lines at once, so that those of two programs do not mix.
fn append(path: &Path, lines: &[String]) -> std::io::Result<()> {
    let mut text = String::new();
    for line in lines {
        writeln!(text, "{line}").expect("a string takes what it is given");
    }
    OpenOptions::new().create(true).append(true).open(path)?.write_all(text.as_bytes())
}

/// How many rows are printed.
const SLOWEST: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_come_first_and_lines_are_appended() {
        let times = Times::default();
        times.note("short", Duration::from_millis(20));
        times.note("long", Duration::from_millis(1500));
        let lines = times.lines("weir-link");
        assert_eq!(lines, ["time weir-link::long 1.500", "time weir-link::short 0.020"]);
        assert_eq!(times.lines(""), ["time long 1.500", "time short 0.020"]);
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("times");
        append(&path, &lines[..1]).and_then(|()| append(&path, &lines[1..])).expect("it writes");
        let text = std::fs::read_to_string(&path).expect("it is there");
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }
}
