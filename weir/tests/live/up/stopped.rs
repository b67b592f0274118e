//! Single threads of a process that stand still.

// To trace a thread is a call that no library here wraps.
#![allow(unsafe_code)]

use std::fs;

use libtest_mimic::Failed;
use weir_testbed::rows::Outcome;
use weir_testbed::until;

/// A thread that is stopped, as if the kernel did not let it go on; the others of its process run.
pub struct StoppedThread(libc::pid_t);

impl StoppedThread {
    /// Stops the thread of this name.
    pub fn of(process: u32, name: &str) -> Result<Self, Failed> {
        for entry in fs::read_dir(format!("/proc/{process}/task"))? {
            let entry = entry?;
            if fs::read_to_string(entry.path().join("comm"))?.trim() == name {
                let thread = entry.file_name().to_string_lossy().parse()?;
                trace(libc::PTRACE_SEIZE, thread)?;
                trace(libc::PTRACE_INTERRUPT, thread)?;
                // SAFETY: no status is asked for.
                unsafe { libc::waitpid(thread, std::ptr::null_mut(), libc::__WALL) };
                return Ok(Self(thread));
            }
        }
        Err(format!("process {process} has no thread `{name}`").into())
    }

    /// Lets it go on.
    pub fn go_on(self) -> Outcome {
        trace(libc::PTRACE_DETACH, self.0)
    }
}

/// Waits until a process has a thread of this name.
pub fn await_thread(process: u32, name: &str) -> Outcome {
    until(&format!("there is a thread `{name}`"), || {
        let threads = fs::read_dir(format!("/proc/{process}/task"));
        let threads = threads.into_iter().flatten().flatten();
        let names =
            threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
        { names }.any(|own| own.trim() == name)
    })?;
    Ok(())
}

fn trace(request: libc::c_uint, thread: libc::pid_t) -> Outcome {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: these requests take two numbers, here zeros, and touch no memory of ours.
    match unsafe { libc::ptrace(request, thread, none, none) } {
        -1 => Err(std::io::Error::last_os_error().into()),
        _ => Ok(()),
    }
}
