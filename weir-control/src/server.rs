//! The server: a thread that accepts clients, and a thread for each client that answers from the
//! run loop's board.

use crate::protocol::{Answer, REQUEST_MAX, Request};
use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_live::status::Board;

/// A control socket; removed when dropped.
pub struct Server {
    path: Option<PathBuf>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at `path` and answers from these loops' boards.
    ///
    /// # Errors
    /// When another link answers there, or the path cannot be bound; the text says what to do.
    pub fn start(path: &Path, boards: Vec<Arc<Board>>) -> Result<Self, String> {
        let mut server = Self::on(listen(path)?, boards);
        server.path = Some(path.to_owned());
        Ok(server)
    }

    /// Answers on a socket whose name belongs to another process.
    pub fn on(listener: UnixListener, boards: Vec<Arc<Board>>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || serve(&listener, &Arc::from(boards), &stopped));
        Self { path: None, stop, thread: Some(thread) }
    }
}

/// Listens at `path`.
///
/// # Errors
/// When another link answers there, or the path cannot be bound; the text says what to do.
pub fn listen(path: &Path) -> Result<UnixListener, String> {
    let place = path.display();
    if UnixStream::connect(path).is_ok() {
        return Err(format!(
            "another link already answers on `{place}`; stop it, or set another `control` path in \
             the deployment"
        ));
    }
    bind(path).map_err(|error| {
        format!(
            "cannot listen on `{place}`: {error}; set a `control` path in the deployment that this \
             user may write"
        )
    })
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened; the link itself is unharmed.
            drop(thread.join());
        }
        if let Some(path) = &self.path {
            drop(fs::remove_file(path));
        }
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    match fs::symlink_metadata(path) {
        // No link answers, so a remaining socket was left by a link that was killed.
        Ok(there) if there.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => return Err(io::Error::other("it is not a socket")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Accepts clients, each on a thread of its own so that none waits for another, until stopped.
fn serve(listener: &UnixListener, boards: &Arc<[Arc<Board>]>, stop: &AtomicBool) {
    let mut clients: Vec<(UnixStream, JoinHandle<()>)> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        clients.retain(|(_, thread)| !thread.is_finished());
        match listener.accept() {
            Ok((stream, _)) if clients.len() >= CLIENTS_MAX => turn_away(&stream),
            Ok((stream, _)) => clients.extend(attend(stream, boards)),
            Err(_) => std::thread::sleep(ACCEPT_INTERVAL),
        }
    }
    for (stream, thread) in clients {
        // Ends the client's reading; an error means that it has disconnected already.
        let _ = stream.shutdown(Shutdown::Both);
        // A panic of the thread was printed when it happened; the link itself is unharmed.
        drop(thread.join());
    }
}

/// Starts a thread for this client, if the system allows one.
fn attend(stream: UnixStream, boards: &Arc<[Arc<Board>]>) -> Option<(UnixStream, JoinHandle<()>)> {
    let (own, boards) = (stream.try_clone().ok()?, Arc::clone(boards));
    // A client that disconnects early loses only its own answer.
    let work = move || drop(converse(&own, &boards));
    let thread = std::thread::Builder::new().name("control".to_owned()).spawn(work).ok()?;
    Some((stream, thread))
}

fn turn_away(stream: &UnixStream) {
    let busy = format!("{CLIENTS_MAX} clients are connected already; try again");
    // The client may have disconnected; a line fits the buffer of a new socket, so this does not
    // wait.
    let _ = stream
        .set_write_timeout(Some(ACCEPT_INTERVAL))
        .and_then(|()| send(stream, &Answer::Error(busy)));
}

fn converse(stream: &UnixStream, boards: &[Arc<Board>]) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut buffer = Vec::new();
    while let Some(line) = read_line(stream, &mut buffer)? {
        send(stream, &answer(&String::from_utf8_lossy(&line), boards))?;
    }
    if buffer.len() >= REQUEST_MAX as usize {
        let long = format!("the request is longer than {REQUEST_MAX} bytes; send a shorter one");
        send(stream, &Answer::Error(long))?;
    }
    Ok(())
}

fn send(mut stream: &UnixStream, answer: &Answer) -> io::Result<()> {
    let mut text = serde_json::to_string(answer)?;
    text.push('\n');
    stream.write_all(text.as_bytes())
}

/// Returns the next line within [`PATIENCE`]; `None` at the end, or if it is too long. `buffer`
/// holds the bytes read beyond it.
fn read_line(mut stream: &UnixStream, buffer: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    // The limit is for the whole line: a client that sends single bytes slowly is given up like a
    // silent one.
    let end = Instant::now() + PATIENCE;
    let mut searched = 0;
    loop {
        if let Some(at) = buffer[searched..].iter().position(|&byte| byte == b'\n') {
            let rest = buffer.split_off(searched + at + 1);
            return Ok(Some(std::mem::replace(buffer, rest)));
        }
        searched = buffer.len();
        if searched >= REQUEST_MAX as usize {
            return Ok(None);
        }
        let left = end.saturating_duration_since(Instant::now());
        // A timeout of zero would mean none.
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes)? {
            // The last line may lack its end.
            0 => return Ok((!buffer.is_empty()).then(|| std::mem::take(buffer))),
            count => buffer.extend_from_slice(&bytes[..count]),
        }
    }
}

/// Returns the answer to one line.
pub fn answer(line: &str, boards: &[Arc<Board>]) -> Answer {
    match serde_json::from_str::<Request>(line) {
        Ok(Request::Status) => match Board::ask_all(boards, PATIENCE) {
            Some(status) => Answer::Status(Box::new(status)),
            None => Answer::Error("the run loop does not answer; it may be stopping".to_owned()),
        },
        Err(error) => Answer::Error(format!(
            "not a request: {error}; send one JSON object on a line, such as \
             {{\"call\":\"status\"}}"
        )),
    }
}

/// The longest wait for a client or the run loop.
const PATIENCE: Duration = Duration::from_secs(2);
/// Clients served at once; further ones receive an error that says to try again.
const CLIENTS_MAX: usize = 16;
/// The interval of checks for new clients and for the end.
const ACCEPT_INTERVAL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_lines_get_an_error() {
        for line in ["", "status", "{}", "{\"call\":\"reboot\"}", "[[[[", "{\"call\":1}"] {
            assert!(matches!(answer(line, &[]), Answer::Error(_)), "{line}");
        }
    }

    #[test]
    fn two_links_do_not_share_a_socket() {
        let directory = std::env::temp_dir().join(format!("weir-control-{}", std::process::id()));
        let path = directory.join("a.sock");
        let first = Server::start(&path, vec![Arc::new(Board::new())]).expect("a fresh path");
        assert!(Server::start(&path, vec![Arc::new(Board::new())]).is_err());
        drop(first);
        assert!(!path.exists(), "the socket is removed with its server");
        drop(fs::remove_dir(directory));
    }

    /// Runs `law` beside a server in a folder of its own whose board is answered.
    fn check(name: &str, law: impl FnOnce(&Path)) {
        let folder = format!("weir-control-{}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(folder);
        let path = directory.join("a.sock");
        let board = Arc::new(Board::new());
        let server = Server::start(&path, vec![Arc::clone(&board)]).expect("a fresh path");
        let done = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&done);
        let run_loop = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                board.answer(|_| Default::default());
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        law(&path);
        let start = Instant::now();
        drop(server);
        assert!(start.elapsed() < PATIENCE / 2, "{name}: clients do not delay the server's end");
        done.store(true, Ordering::Relaxed);
        run_loop.join().expect("the loop does not panic");
        drop(fs::remove_dir(directory));
    }

    fn connect(path: &Path) -> UnixStream {
        UnixStream::connect(path).expect("the server listens")
    }

    #[test]
    fn a_silent_client_does_not_delay_other_clients() {
        check("silent", |path| {
            let silent: Vec<_> = (1..CLIENTS_MAX).map(|_| connect(path)).collect();
            let start = Instant::now();
            crate::client::status(path).expect("an answer");
            assert!(start.elapsed() < PATIENCE / 2, "it does not wait for the others");
            drop(silent);
        });
    }

    #[test]
    fn surplus_clients_are_refused_and_may_connect_later() {
        check("many", |path| {
            let silent: Vec<_> = (0..CLIENTS_MAX).map(|_| connect(path)).collect();
            let error = crate::client::status(path).expect_err("it is refused");
            assert!(error.contains("try again"), "{error}");
            drop(silent);
            let start = Instant::now();
            while crate::client::status(path).is_err() {
                assert!(start.elapsed() < PATIENCE, "disconnected clients make room");
            }
        });
    }

    #[test]
    fn a_line_may_arrive_in_parts_within_a_time_limit() {
        check("parts", |path| {
            let mut stream = connect(path);
            for part in ["{\"call\":", "\"status\"}\n{\"call\"", ":\"status\"}\n"] {
                stream.write_all(part.as_bytes()).expect("it reads");
                std::thread::sleep(Duration::from_millis(20));
            }
            let mut text = [0; 2];
            stream.read_exact(&mut text).expect("an answer");
            let mut slow = connect(path);
            let start = Instant::now();
            while slow.write_all(b"x").is_ok() {
                assert!(start.elapsed() < 2 * PATIENCE, "a slow client is given up");
                std::thread::sleep(Duration::from_millis(50));
            }
        });
    }

    #[test]
    fn a_line_too_long_is_refused_once() {
        check("long", |path| {
            let mut stream = connect(path);
            // The server closes the connection meanwhile.
            let _ = stream.write_all(&vec![b'x'; 3 * REQUEST_MAX as usize]);
            let mut text = String::new();
            let _ = stream.read_to_string(&mut text);
            assert!(text.contains("longer than") && text.lines().count() == 1, "{text}");
        });
    }

    #[test]
    fn a_file_that_is_not_a_socket_stays() {
        let path = std::env::temp_dir().join(format!("weir-control-{}-file", std::process::id()));
        fs::write(&path, "precious").expect("a fresh path");
        let error = Server::start(&path, vec![Arc::new(Board::new())]).err().expect("refused");
        assert!(error.contains("not a socket"), "{error}");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "precious");
        drop(fs::remove_file(&path));
    }
}
