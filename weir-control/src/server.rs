//! The server: a thread that answers one client after the other from the run loop's board.

use crate::protocol::{Answer, REQUEST_MAX, Request};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_live::status::Board;

/// A control socket; dropped, it goes away.
pub struct Server {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at `path` and answers from `board`.
    ///
    /// # Errors
    /// When another link answers there, or the path cannot be bound; the text says what to do.
    pub fn start(path: &Path, board: Arc<Board>) -> Result<Self, String> {
        let place = path.display();
        if UnixStream::connect(path).is_ok() {
            return Err(format!(
                "another link already answers on `{place}`; stop it, or set \
                                another `control` path in the deployment"
            ));
        }
        let bind = || -> io::Result<UnixListener> {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)?;
            }
            // Nobody answers, so a socket that is still there was left by a link that was killed.
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let listener = UnixListener::bind(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = bind().map_err(|error| {
            format!(
                "cannot listen on `{place}`: {error}; set a `control` path in the deployment \
                     that this user may write"
            )
        })?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || serve(&listener, &board, &stopped));
        Ok(Self { path: path.to_owned(), stop, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened; the link itself is unharmed.
            drop(thread.join());
        }
        drop(fs::remove_file(&self.path));
    }
}

fn serve(listener: &UnixListener, board: &Board, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            // A client that hangs up in the middle loses only its own answer.
            Ok((stream, _)) => drop(converse(&stream, board, stop)),
            Err(_) => std::thread::sleep(ACCEPT_INTERVAL),
        }
    }
}

fn converse(stream: &UnixStream, board: &Board, stop: &AtomicBool) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream);
    while !stop.load(Ordering::Relaxed) {
        let mut line = String::new();
        if reader.by_ref().take(REQUEST_MAX).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut text = serde_json::to_string(&answer(&line, board))?;
        text.push('\n');
        (&mut &*stream).write_all(text.as_bytes())?;
    }
    Ok(())
}

/// The answer to one line.
pub fn answer(line: &str, board: &Board) -> Answer {
    match serde_json::from_str::<Request>(line) {
        Ok(Request::Status) => match board.ask(PATIENCE) {
            Some(status) => Answer::Status(Box::new(status)),
            None => Answer::Error("the run loop does not answer; it may be stopping".to_owned()),
        },
        Err(error) => Answer::Error(format!(
            "not a request: {error}; send one JSON object on a line, such as \
             {{\"call\":\"status\"}}"
        )),
    }
}

/// A client or a loop that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(2);
/// So often new clients and the end are looked for.
const ACCEPT_INTERVAL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_lines_get_an_error() {
        for line in ["", "status", "{}", "{\"call\":\"reboot\"}", "[[[[", "{\"call\":1}"] {
            assert!(matches!(answer(line, &Board::new()), Answer::Error(_)), "{line}");
        }
    }

    #[test]
    fn two_links_do_not_share_a_socket() {
        let directory = std::env::temp_dir().join(format!("weir-control-{}", std::process::id()));
        let path = directory.join("a.sock");
        let first = Server::start(&path, Arc::new(Board::new())).expect("a fresh path");
        assert!(Server::start(&path, Arc::new(Board::new())).is_err());
        drop(first);
        assert!(!path.exists(), "the socket goes with its server");
        drop(fs::remove_dir(directory));
    }
}
