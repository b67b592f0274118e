//! Weir's bridge on a thread of this process, for what needs the loop and none of the processes
//! around it.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use weir_host::error::{Result, SystemError};
use weir_host::watch::Waker;
use weir_link::bridge::Bridge;
use weir_link::status::{Board, Status};

use crate::PATIENCE;

/// A bridge that runs until it is stopped or dropped.
pub struct RunningBridge {
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    board: Arc<Board>,
    thread: Option<JoinHandle<Result<Status>>>,
}

impl RunningBridge {
    /// Runs a bridge that was opened in the network of its ports.
    ///
    /// # Errors
    /// As the system says.
    pub fn run(bridge: Bridge) -> Result<Self> {
        Self::start(move || Ok(bridge))
    }

    /// Lets `open` open or prepare a bridge on the thread that then runs it, and waits until it is
    /// open.
    ///
    /// # Errors
    /// As `open`.
    pub fn start(open: impl FnOnce() -> Result<Bridge> + Send + 'static) -> Result<Self> {
        let (stop, board) = (Arc::new(AtomicBool::new(false)), Arc::new(Board::new()));
        let waker = Arc::new(Waker::new()?);
        let (stopped, seen, woken) = (Arc::clone(&stop), Arc::clone(&board), Arc::clone(&waker));
        let (tell, is_open) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut bridge = open()?;
            // The one who started it waits for this.
            let _told = tell.send(());
            bridge.run(&stopped, &[woken.as_fd().as_raw_fd()], &seen)?;
            Ok(bridge.status())
        });
        let running = Self { stop, waker, board, thread: Some(thread) };
        match is_open.recv() {
            Ok(()) => Ok(running),
            // It ended before, and says why.
            Err(_) => running.stop().map(|_| unreachable!("a bridge that opened has told so")),
        }
    }

    /// Returns the board by which its status is requested.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Returns its status at an instant after this call.
    ///
    /// # Errors
    /// When the loop hangs.
    pub fn status(&self) -> Result<Status> {
        let hangs = || SystemError::refused("read the status", "the loop hangs", "try again");
        self.board.ask(PATIENCE).ok_or_else(hangs)
    }

    /// Wakes the loop, for a change that waits for it.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Stops it; returns its last status.
    ///
    /// # Errors
    /// As the loop, if it ended with an error.
    ///
    /// # Panics
    /// If it panicked.
    pub fn stop(mut self) -> Result<Status> {
        // Workers count once a millisecond.
        std::thread::sleep(std::time::Duration::from_millis(5));
        self.ask_to_stop();
        let thread = self.thread.take().expect("it is stopped once");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
    }
}

impl Drop for RunningBridge {
    fn drop(&mut self) {
        self.ask_to_stop();
        // A test that goes on after a bridge that failed has seen why, or needs it no more.
        drop(self.thread.take().map(JoinHandle::join));
    }
}
