//! Python's module `weir`, for verbs whose engines and searches are Python's libraries.

use crate::output::Exit;
use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use weir_host::signals::{self, StopSignal};

/// The end of the module's process.
pub struct Ended {
    /// Its output.
    pub text: String,
    /// How it ended: done, not done for a reason that it told, or stopped.
    pub exit: Exit,
}

/// Runs `python3 -m weir` with these arguments and this input; `needs` is what has to be installed,
/// such as `weir-python[ray]`. What it prints on standard error is seen at once.
///
/// # Errors
/// When there is no such Python or module, or it fails; the text says what to do.
pub fn run(arguments: Vec<OsString>, input: &[u8], needs: &str) -> Result<Ended, String> {
    let python = std::env::var("WEIR_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let failed = |why: String| {
        let cure = format!(
            "install the module there (`pip install './{needs}'` in a checkout of Weir), or name \
             another Python in WEIR_PYTHON"
        );
        format!("`{python} -m weir` {why}; {cure}")
    };
    let mut command = Command::new(&python);
    command.args(["-m", "weir"]).args(arguments);
    // It ends with this process, however that ends.
    command.env("WEIR_DRIVER", std::process::id().to_string());
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| failed(error.to_string()))?;
    // Ctrl-C reaches the child, too; what it did is kept, and its exit code is this one's.
    let stop = StopSignal::install().map_err(|error| error.to_string())?;
    if let Some(mut pipe) = child.stdin.take() {
        // A child that ended says itself why.
        let _ = pipe.write_all(input);
    }
    let (number, has_ended) = (child.id(), AtomicBool::new(false));
    let ended = thread::scope(|scope| {
        scope.spawn(|| end_with(&stop, number, &has_ended));
        let ended = child.wait_with_output();
        has_ended.store(true, Ordering::Relaxed);
        ended
    });
    let ended = ended.map_err(|error| failed(error.to_string()))?;
    let exit = match ended.status.code() {
        Some(0) => Exit::Clean,
        // It told why on standard error.
        Some(2) => Exit::Usage,
        Some(130) => Exit::Interrupted,
        Some(code) => return Err(failed(format!("exited with {code}"))),
        // By a signal, so its sender knows.
        None => Exit::Interrupted,
    };
    Ok(Ended { text: String::from_utf8_lossy(&ended.stdout).into_owned(), exit })
}

/// Ends the child if only this process was told to stop: a signal to its group reaches both, and
/// then the child ends by itself.
fn end_with(stop: &StopSignal, child: u32, has_ended: &AtomicBool) {
    let mut waited = Duration::ZERO;
    while !has_ended.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
        waited = if stop.requested() { waited + LOOK } else { waited };
        if waited >= GRACE {
            // One that has ended by now is no error.
            let _ = signals::end(child, false);
            waited = Duration::ZERO;
        }
    }
}

/// How often it is looked whether to stop, and how long a child may take to end by itself.
const LOOK: Duration = Duration::from_millis(50);
const GRACE: Duration = Duration::from_secs(1);
