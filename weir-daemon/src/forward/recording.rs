//! Records of the link for clients of the control socket: each is written by the thread of its
//! client, straight to the connection.

use super::report::report;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_control::service::Tail;
use weir_core::units;
use weir_link::change::history::{Joined, Texts};
use weir_link::change::record_files;
use weir_link::deploy;
use weir_link::events::{Kind, Reporter};
use weir_link::recorder::history::History;
use weir_link::recorder::{self, Progress, RECORDS_MAX, Session};
use weir_link::status::Board;
use weir_policy::deployment::Deployment;
use weir_trace::record::{End, Head, RecordWriter};

/// Makes records of a link.
pub struct Recorder {
    /// The first part of each record: the policies in force.
    head: Mutex<Beginning>,
    boards: Vec<Arc<Board>>,
    /// The lanes of each board's loop.
    lanes: Vec<usize>,
    /// The record of the last seconds, if the deployment keeps one.
    history: Option<Arc<History>>,
    /// Records that are being written.
    running: AtomicUsize,
    name: String,
    reporter: Reporter,
}

impl Recorder {
    /// The recorder of a deployment that was read from these texts.
    pub fn new(
        (deployment, texts): (&Deployment, &Texts),
        boards: Vec<Arc<Board>>,
        reporter: Reporter,
    ) -> Self {
        let beginning = Beginning::of(deployment, texts);
        let head = &beginning.head;
        let of = |bridge: usize| {
            head.lanes.iter().filter(|lane| usize::from(lane.bridge) == bridge).count()
        };
        let lanes: Vec<_> = (0..boards.len()).map(of).collect();
        let history = deployment.service.ring.map(|bytes| {
            let bytes = usize::try_from(bytes.get()).unwrap_or(usize::MAX);
            Arc::new(History::new(boards.clone(), lanes.clone(), bytes))
        });
        Self {
            head: Mutex::new(beginning),
            boards,
            lanes,
            history,
            running: AtomicUsize::new(0),
            name: deployment.name.clone(),
            reporter,
        }
    }

    /// Keeps new records from beginning until the result is dropped: policies are about to change.
    /// Their new texts go into it.
    pub fn hold(&self) -> Held<'_> {
        Held { recorder: self, head: self.lock() }
    }

    /// Begins to keep what happens of late, if the deployment says so.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn keep_history(&self) -> io::Result<()> {
        let Some(history) = &self.history else { return Ok(()) };
        let (history, reporter) = (Arc::clone(history), self.reporter.clone());
        let name = self.name.clone();
        let keep = move || {
            history.keep(|end| report(&reporter, Kind::RecordEnded, &name, end.name()));
        };
        std::thread::Builder::new().name("ring".to_owned()).spawn(keep).map(drop)
    }

    /// Returns what writes a record to a client, for up to this time.
    ///
    /// # Errors
    /// When too many records are being made.
    pub fn record(self: &Arc<Self>, time: Option<Duration>) -> Result<Tail, String> {
        // One is for the ring.
        if self.running.load(Ordering::Relaxed) + 1 >= RECORDS_MAX {
            let running = RECORDS_MAX - 1;
            return Err(format!("{running} records are being made already; end one of them"));
        }
        let recorder = Arc::clone(self);
        Ok(Box::new(move |out, is_over| {
            recorder.running.fetch_add(1, Ordering::Relaxed);
            let written = recorder.write((out, is_over), time);
            recorder.running.fetch_sub(1, Ordering::Relaxed);
            let why = match written {
                Ok(end) if end.is_whole() => return Ok(()),
                Ok(end) => end.name().to_owned(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    "its reader does not read".to_owned()
                }
                Err(error) => format!("its reader is gone: {error}"),
            };
            report(&recorder.reporter, Kind::RecordEnded, &recorder.name, &why);
            Ok(())
        }))
    }

    /// Returns what writes what happened of late to a client, between two moments in milliseconds
    /// since 1970.
    ///
    /// # Errors
    /// When it is not kept.
    pub fn snapshot(
        self: &Arc<Self>,
        from_ms: Option<u64>,
        to_ms: Option<u64>,
    ) -> Result<Tail, String> {
        let Some(history) = self.history.clone() else {
            return Err("the link keeps no ring; write `ring = \"64 MiB\"` to [deployment]".into());
        };
        let epoch = recorder::epoch_ns();
        let instant = |ms: u64| {
            units::Instant::from_nanos(ms.saturating_mul(1_000_000).saturating_sub(epoch))
        };
        let from = from_ms.map_or(units::Instant::ZERO, instant);
        let between = (from, to_ms.map_or(units::Instant::from_nanos(u64::MAX), instant));
        let recorder = Arc::clone(self);
        Ok(Box::new(move |out, _| {
            let written = || -> io::Result<()> {
                let mut writer = RecordWriter::new(out, &recorder.lock().whole())?;
                history.write(&mut writer, between)?;
                writer.finish(End::Snapshot).map(drop)
            };
            written().map_err(|error| format!("the snapshot was not read: {error}"))
        }))
    }

    /// Waits until records that end by themselves have reached their clients, for up to a second.
    pub fn wait_for_clients(&self) {
        let start = Instant::now();
        while self.running.load(Ordering::Relaxed) > 0 && start.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(PAUSE);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Beginning> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the loops record; returns when each has begun, with the policies in force then.
    fn begin(&self) -> (Session, Head) {
        let head = self.lock();
        let seats = self.boards.iter().map(|board| &board.recording);
        let session = Session::begin(seats.zip(self.lanes.iter().copied()));
        let start = Instant::now();
        while !session.has_begun() && start.elapsed() < LOOP_PATIENCE {
            std::thread::sleep(PAUSE);
        }
        (session, head.whole())
    }

    fn write(
        &self,
        (out, is_over): (&mut dyn Write, &dyn Fn() -> bool),
        time: Option<Duration>,
    ) -> io::Result<End> {
        let (mut session, head) = self.begin();
        let end_at = time.and_then(|time| Instant::now().checked_add(time));
        let mut writer = RecordWriter::new(out, &head)?;
        let end = loop {
            // Before the last parts: what the loops did until the client asked is in the record.
            let is_asked = is_over();
            let Progress { is_busy, end } = session.pump(&mut writer)?;
            if let Some(end) = end {
                break end;
            }
            if end_at.is_some_and(|end_at| Instant::now() >= end_at) {
                break End::Time;
            }
            if is_asked {
                break End::Asked;
            }
            if !is_busy {
                writer.flush()?;
                std::thread::sleep(PAUSE);
            }
        };
        writer.finish(end)?.flush()?;
        Ok(end)
    }
}

/// Keeps records from beginning while the policies change: see [`Recorder::hold`].
pub struct Held<'r> {
    recorder: &'r Recorder,
    head: MutexGuard<'r, Beginning>,
}

impl Held<'_> {
    /// These policies are in force now.
    pub fn follow(mut self, deployment: &Deployment, texts: &Texts) {
        *self.head = Beginning::of(deployment, texts);
        if let Some(history) = &self.recorder.history {
            history.forget();
        }
    }
}

impl Held<'_> {
    /// Classes joined and left. The ring begins anew: its checkpoints have other policies.
    pub fn follow_joined(mut self, joined: &Joined) {
        self.head.texts.follow(joined);
        if let Some(history) = &self.recorder.history {
            history.forget();
        }
    }
}

/// The first part of a record, with its policies as texts that classes can join.
struct Beginning {
    head: Head,
    texts: Texts,
}

impl Beginning {
    fn of(deployment: &Deployment, texts: &Texts) -> Self {
        let head = deploy::record_head(deployment, Vec::new(), recorder::epoch_ns());
        Self { head, texts: texts.clone() }
    }

    fn whole(&self) -> Head {
        let mut head = self.head.clone();
        head.files.splice(0..0, record_files(&self.texts.whole_files()));
        head
    }
}

/// How long loops may take to begin a record.
const LOOP_PATIENCE: Duration = Duration::from_secs(2);
/// The pause of a record that has nothing to write.
const PAUSE: Duration = Duration::from_millis(2);
