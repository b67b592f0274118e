//! The client: sends a request to a running link and reads its answer.
//!
//! The other end may be a foreign socket: what it sends is bounded in length and time, and texts
//! are made fit to print.

use crate::circuits::CIRCUITS_DEFAULT;
use crate::places::denied;
use crate::printable::{clean_value, fit, printable, printable_lines};
use crate::protocol::{
    ABSENT, Answer, CLASSES_DEFAULT, Changed, DESCRIPTORS_MAX, Entry, InForce, OWNER_REQUEST_MAX,
    Query, Request, Right, Terms,
};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix,
    SocketFlags, SocketType, recvmsg, socket_with,
};
use serde::Deserialize;
use std::io::{self, BufRead, BufReader, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_link::status::Status;
use weir_link::status::reservations::SESSIONS_DEFAULT;

/// Returns the status of the link that listens at `path`.
///
/// # Errors
/// When no link listens there or the answer is invalid; the text says what to do.
pub fn status(path: &Path, query: &Query) -> Result<Status, String> {
    match call(path, &Request::Status(query.clone()))? {
        Answer::Status(status) => Ok(*status),
        Answer::Error(error) => Err(error),
        _ => Err(format!("`{}` gave no status", path.display())),
    }
}

/// Sends one request and reads its answer.
///
/// # Errors
/// When no link listens at `path`, or the answer does not follow this protocol.
pub fn call(path: &Path, request: &Request) -> Result<Answer, String> {
    // Descriptors that were not asked for are closed.
    call_for_descriptors(path, request).map(|(answer, _)| answer)
}

/// As [`call`], and returns the descriptors that came with the answer.
///
/// # Errors
/// As [`call`].
pub fn call_for_descriptors(
    path: &Path,
    request: &Request,
) -> Result<(Answer, Vec<OwnedFd>), String> {
    let place = printable(&path.display().to_string()).into_owned();
    let stream = connect(path)?;
    exchange(&stream, request).map_err(|error| match error {
        Silence::NotAsked(cause) => format!("no answer on `{place}`: {cause}"),
        Silence::NoAnswer(error) => format!("no valid answer on `{place}`: {error}"),
    })
}

/// Sends a request on a connection, on which others may follow, and reads its answer.
///
/// # Errors
/// When there is no answer, or it does not follow this protocol.
pub fn call_on(stream: &UnixStream, request: &Request) -> Result<Answer, String> {
    // Descriptors that were not asked for are closed.
    exchange(stream, request).map(|(answer, _)| answer).map_err(|error| match error {
        Silence::NotAsked(cause) => format!("the link does not answer: {cause}"),
        Silence::NoAnswer(error) => format!("the link gives no valid answer: {error}"),
    })
}

/// Why there is no answer.
enum Silence {
    /// The request was not sent.
    NotAsked(io::Error),
    /// The bytes are no answer, for this reason.
    NoAnswer(String),
}

fn exchange(stream: &UnixStream, request: &Request) -> Result<(Answer, Vec<OwnedFd>), Silence> {
    // A server that turns the client away answers before it reads.
    let asked = ask(stream, request);
    receive(stream, request).map_err(|error| match asked {
        Err(cause) => Silence::NotAsked(cause),
        Ok(()) => Silence::NoAnswer(error),
    })
}

fn ask(mut stream: &UnixStream, request: &Request) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Sends a request whose answer is followed by bytes; returns the connection in front of them, on
/// which neither side waits for a limited time only.
///
/// # Errors
/// As [`call`], and when the link refuses the request.
pub fn follow(path: &Path, request: &Request) -> Result<UnixStream, String> {
    let place = printable(&path.display().to_string()).into_owned();
    follow_on(connect(path)?, request).map_err(|error| match error {
        Refused::ByLink(why) => why,
        Refused::NotHeard(what) => format!("{what} on `{place}`"),
    })
}

/// Why nothing follows a request.
#[derive(Debug)]
pub enum Refused {
    /// The link says so.
    ByLink(String),
    /// There is no answer, or another one than was asked for.
    NotHeard(String),
}

/// As [`follow`], on a connection that is there.
///
/// # Errors
/// As [`follow`].
pub fn follow_on(stream: UnixStream, request: &Request) -> Result<UnixStream, Refused> {
    // A server that turns the client away answers before it reads.
    let _answered = ask(&stream, request);
    done(stream)
}

/// Reads an answer that says no more than that the request was met, and nothing of what follows.
fn done(stream: UnixStream) -> Result<UnixStream, Refused> {
    let read = |mut stream: &UnixStream| -> io::Result<Vec<u8>> {
        stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
        // Byte by byte: what follows the line is not part of it.
        let (mut answer, mut byte) = (Vec::new(), [0]);
        while answer.len() < ANSWER_BYTES as usize && stream.read(&mut byte)? > 0 {
            match byte {
                [b'\n'] => break,
                [byte] => answer.push(byte),
            }
        }
        stream.set_read_timeout(None)?;
        Ok(answer)
    };
    let unheard = |error| Refused::NotHeard(format!("no answer: {error}"));
    let answer = read(&stream).map_err(unheard)?;
    match read_answer(&mut answer.as_slice()) {
        Ok(Answer::Done) => Ok(stream),
        Ok(Answer::Error(why)) => Err(Refused::ByLink(why)),
        Ok(_) => Err(Refused::NotHeard("another answer than asked for".to_owned())),
        Err(error) => Err(Refused::NotHeard(format!("no valid answer ({error})"))),
    }
}

/// Has the link take what follows on a new connection as that of a client of the API with this
/// right; the log has its changes as those of this user if it `keeps_user`. Does not wait: the
/// answer is still to be read.
///
/// # Errors
/// When the link has gone.
pub fn begin_on_behalf(stream: &UnixStream, right: Right, keeps_user: bool) -> io::Result<()> {
    ask(stream, &Request::OnBehalf { right, keeps_user })
}

/// Reads the answer to [`begin_on_behalf`].
///
/// # Errors
/// When the link refuses, or there is no answer.
pub fn await_on_behalf(stream: UnixStream) -> Result<UnixStream, String> {
    done(stream).map_err(|error| match error {
        Refused::ByLink(why) | Refused::NotHeard(why) => why,
    })
}

/// The body behind an answer, on a connection that acts for a client of the API: it comes in parts,
/// each behind its length, with an empty one at the end if it is whole.
pub struct Parts {
    stream: BufReader<UnixStream>,
    /// Bytes of the part that are to come; `None` at the end.
    left: Option<usize>,
}

impl Parts {
    /// The body behind the answer that was read.
    pub fn new(stream: UnixStream) -> Self {
        Self { stream: BufReader::new(stream), left: Some(0) }
    }
}

impl Read for Parts {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.left == Some(0) {
            let mut digits = String::new();
            (&mut self.stream).take(LENGTH_DIGITS_MAX).read_line(&mut digits)?;
            let length =
                digits.strip_suffix('\n').and_then(|text| usize::from_str_radix(text, 16).ok());
            self.left = match length.ok_or(io::ErrorKind::UnexpectedEof)? {
                0 => None,
                length => Some(length),
            };
        }
        let Some(left) = &mut self.left else { return Ok(0) };
        let room = bytes.len().min(*left);
        let count = self.stream.read(&mut bytes[..room])?;
        if count == 0 && room > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *left -= count;
        Ok(count)
    }
}

/// Reads the answer to a request, and the descriptors that come with it.
pub(crate) fn receive(
    stream: &UnixStream,
    request: &Request,
) -> Result<(Answer, Vec<OwnedFd>), String> {
    let mut incoming = Incoming::new(stream, answer_max(request), patience(request));
    let answer = read_answer(&mut incoming)?;
    Ok((answer, incoming.descriptors))
}

/// Reads an answer, and makes it fit to print.
fn read_answer(incoming: &mut impl Read) -> Result<Answer, String> {
    let mut reader =
        serde_json::Deserializer::from_reader(BufReader::with_capacity(PART, incoming));
    match Answer::<Box<Status>>::deserialize(&mut reader) {
        Ok(Answer::Status(mut status)) => {
            status.each_text(&mut fit);
            Ok(Answer::Status(status))
        }
        Ok(Answer::Error(text) | Answer::Refused { text, .. }) => {
            Ok(Answer::Error(printable_lines(&text)))
        }
        Ok(Answer::Events(mut events)) => {
            events.events.iter_mut().flat_map(|event| event.values_mut()).for_each(clean_value);
            Ok(Answer::Events(events))
        }
        Ok(Answer::Changed(mut changed)) => {
            clean_change(&mut changed);
            Ok(Answer::Changed(changed))
        }
        Ok(Answer::Log(mut entries)) => {
            entries.iter_mut().for_each(clean_entry);
            Ok(Answer::Log(entries))
        }
        Ok(Answer::Reservations(mut reservations)) => {
            reservations.each_text(&mut |text| *text = printable(text).into_owned());
            Ok(Answer::Reservations(reservations))
        }
        Ok(Answer::Circuits(mut circuits)) => {
            circuits.each_text(&mut |text| *text = printable(text).into_owned());
            Ok(Answer::Circuits(circuits))
        }
        Ok(Answer::Fed(mut fed)) => {
            fed.faults.iter_mut().for_each(|(_, why)| *why = printable(why).into_owned());
            Ok(Answer::Fed(fed))
        }
        Ok(Answer::Policy(mut policy)) => {
            clean_policy(&mut policy);
            Ok(Answer::Policy(policy))
        }
        Ok(answer) => Ok(answer),
        Err(error) if error.is_eof() => Err(ENDED.to_owned()),
        Err(error) => Err(printable(&error.to_string()).into_owned()),
    }
}

/// Parts that are JSON need no cleaning: JSON escapes characters that control a terminal.
fn clean_change(changed: &mut Changed) {
    let own = [&mut changed.text, &mut changed.what];
    let ways = changed.directions.iter_mut().flat_map(|way| [&mut way.direction, &mut way.text]);
    own.into_iter().chain(ways).for_each(|text| *text = printable_lines(text));
}

fn clean_entry(entry: &mut Entry) {
    let texts = [&mut entry.reason, &mut entry.what];
    texts.into_iter().for_each(|text| *text = printable(text).into_owned());
}

fn clean_policy(policy: &mut InForce) {
    let ways = policy.directions.iter_mut();
    let words = ways.flat_map(|way| [&mut way.direction, &mut way.file, &mut way.identity]);
    words.for_each(|text| *text = printable(text).into_owned());
    for file in &mut policy.files {
        file.name = printable(&file.name).into_owned();
        // A tab indents, in a file as on a terminal.
        let line = |line: &str| line.split('\t').map(printable).collect::<Vec<_>>().join("\t");
        file.text = file.text.lines().map(|text| line(text) + "\n").collect();
    }
}

/// Reads any bytes as an answer, as the client does: for the fuzz target.
pub fn exercise(bytes: &[u8]) {
    let clean = |text: &str| text.lines().all(|line| printable(line) == line);
    match read_answer(&mut &*bytes) {
        Ok(Answer::Status(mut status)) => {
            status.each_text(&mut |text| assert!(clean(text), "{text:?} is fit to print"));
        }
        Ok(Answer::Error(text)) | Err(text) => assert!(clean(&text), "{text:?} is fit to print"),
        Ok(Answer::Changed(changed)) => assert!(clean(&changed.text) && clean(&changed.what)),
        Ok(Answer::Log(entries)) => {
            assert!(entries.iter().all(|entry| clean(&entry.reason) && clean(&entry.what)));
        }
        Ok(Answer::Policy(policy)) => {
            let is_clean = |text: &str| text.split('\t').all(clean);
            assert!(policy.files.iter().all(|file| clean(&file.name) && is_clean(&file.text)));
        }
        Ok(_) => {}
    }
}

/// Returns whether a keeper without a forwarder listens at `path`, which says so unasked.
pub fn is_absent(path: &Path) -> bool {
    let Contact::Live(mut stream) = contact(path) else { return false };
    let wanted = format!("{{\"error\":\"{ABSENT}");
    let mut said = vec![0; wanted.len()];
    let heard = stream.set_read_timeout(Some(LISTEN)).and_then(|()| stream.read_exact(&mut said));
    heard.is_ok() && said == wanted.as_bytes()
}

/// The outcome of connecting to a path.
#[derive(Debug)]
pub(crate) enum Contact {
    /// The connection to a process that listens.
    Live(UnixStream),
    /// A socket that no process listens on.
    Stale,
    /// There is nothing, or no socket.
    Absent,
    /// This user may not connect.
    Denied,
    /// Something else is wrong.
    Failed(io::Error),
}

/// Connects without waiting: a process that accepts no one could make it wait for ever.
pub(crate) fn contact(path: &Path) -> Contact {
    let connected = || -> rustix::io::Result<UnixStream> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        fcntl_setfl(&socket, OFlags::empty())?;
        Ok(UnixStream::from(socket))
    };
    match connected() {
        Ok(stream) => Contact::Live(stream),
        Err(Errno::CONNREFUSED) => {
            let is_socket = |there: std::fs::Metadata| there.file_type().is_socket();
            let is_socket = std::fs::metadata(path).is_ok_and(is_socket);
            if is_socket { Contact::Stale } else { Contact::Absent }
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Contact::Absent,
        Err(Errno::ACCESS | Errno::PERM) => Contact::Denied,
        Err(Errno::AGAIN) => Contact::Failed(io::Error::other(
            "too many clients wait there already, and none is accepted",
        )),
        Err(error) => Contact::Failed(error.into()),
    }
}

/// Connects to the socket at `path`.
///
/// # Errors
/// When no link listens there; the text says what to do.
pub fn connect(path: &Path) -> Result<UnixStream, String> {
    let place = printable(&path.display().to_string()).into_owned();
    match contact(path) {
        Contact::Live(stream) => Ok(stream),
        Contact::Stale => Err(format!(
            "`{place}` is stale: no process listens there any more; the link ended without \
             removing it, and the next `weir up` replaces it"
        )),
        Contact::Absent => Err(format!(
            "no link answers on `{place}`: there is no socket; start one with `weir up`, or name \
             its socket with --control (`weir status` lists the links that run)"
        )),
        Contact::Denied => Err(denied(path)),
        Contact::Failed(error) => Err(format!("no link answers on `{place}`: {error}")),
    }
}

/// Returns how many bytes the answer to a request may have.
pub fn answer_max(request: &Request) -> u64 {
    match request {
        Request::Status(query) => {
            let classes = query.limit.unwrap_or(CLASSES_DEFAULT);
            let bins = if query.bins { BINS_BYTES_MAX } else { 0 };
            let hosts = u64::from(query.hosts.unwrap_or(0)) * HOST_BYTES_MAX;
            u64::from(classes) * (CLASS_BYTES_MAX + bins + hosts) + ANSWER_BYTES
        }
        // Of a dry run of many classes: what changes in each.
        Request::Set { terms: Terms { dry_run: true, .. }, .. }
        | Request::Reload { terms: Terms { dry_run: true, .. }, .. }
        | Request::Rollback { terms: Terms { dry_run: true, .. }, .. } => DIFFERENCE_BYTES,
        Request::Texts {} => OWNER_REQUEST_MAX as u64 * 2 + ANSWER_BYTES,
        Request::Policy {} => TEXTS_BYTES,
        Request::Reservations { limit } => {
            u64::from(limit.unwrap_or(SESSIONS_DEFAULT)) * SESSION_BYTES_MAX + ANSWER_BYTES
        }
        Request::Circuits { limit } => {
            u64::from(limit.unwrap_or(CIRCUITS_DEFAULT)) * CIRCUIT_BYTES_MAX + ANSWER_BYTES
        }
        _ => ANSWER_BYTES,
    }
}

/// Returns how long a link may take to answer a request.
pub fn patience(request: &Request) -> Duration {
    match request {
        Request::Class { .. }
        | Request::Set { .. }
        | Request::Reload { .. }
        | Request::Rollback { .. } => CHANGE_PATIENCE,
        Request::Restart {} => CHANGE_PATIENCE,
        _ => PATIENCE,
    }
}

/// The bytes of an answer, as many and as long as is sensible, and the descriptors among them.
struct Incoming<'a> {
    stream: &'a UnixStream,
    descriptors: Vec<OwnedFd>,
    /// Bytes that may still come.
    room: u64,
    /// The longest wait for the next part.
    patience: Duration,
    end: Instant,
}

impl<'a> Incoming<'a> {
    fn new(stream: &'a UnixStream, room: u64, patience: Duration) -> Self {
        let end = Instant::now() + ANSWER_PATIENCE.max(patience);
        Self { stream, descriptors: Vec::new(), room, patience, end }
    }
}

impl Read for Incoming<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if self.room == 0 {
            return Err(io::Error::other("it is longer than any answer to this request"));
        }
        let wait = left.clamp(Duration::from_millis(1), self.patience);
        self.stream.set_read_timeout(Some(wait))?;
        let wanted = bytes.len().min(usize::try_from(self.room).unwrap_or(usize::MAX));
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut bytes[..wanted])];
        let received = recvmsg(self.stream, parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                // Those beyond the bound are closed.
                let room = DESCRIPTORS_MAX - self.descriptors.len();
                self.descriptors.extend(descriptors.take(room));
            }
        }
        self.room -= received.bytes as u64;
        Ok(received.bytes)
    }
}

/// Why there is no whole answer where the connection ends.
const ENDED: &str = "the connection ended before the whole answer came, as when the process that \
                     answers ends; `weir status` tells whether the link runs";
/// How long a process may take to say something unasked.
const LISTEN: Duration = Duration::from_millis(50);
/// The longest wait for the next part of an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest wait for other policies to be in force, which may have a million classes.
const CHANGE_PATIENCE: Duration = Duration::from_secs(90);
/// The longest time that an answer may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);
/// More than a class takes in an answer.
const CLASS_BYTES_MAX: u64 = 4096;
/// More than a circuit with some tens of addresses takes.
const CIRCUIT_BYTES_MAX: u64 = 16 << 10;
/// More than a session with some tens of senders takes.
const SESSION_BYTES_MAX: u64 = 16 << 10;
/// More than its delays in bins take: 1152 bins.
const BINS_BYTES_MAX: u64 = 64 << 10;
/// More than a host of a class takes.
const HOST_BYTES_MAX: u64 = 1024;
/// More than all else in an answer takes.
const ANSWER_BYTES: u64 = 1 << 20;
/// More than a dry run says.
const DIFFERENCE_BYTES: u64 = 256 << 20;
/// More than the policies of a link take, whose reader escapes some characters.
const TEXTS_BYTES: u64 = 2 * OWNER_REQUEST_MAX as u64;
/// More digits than the length of a part has.
const LENGTH_DIGITS_MAX: u64 = 16;
/// Bytes that are read at once.
const PART: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_stays_as_it_is_but_for_what_controls_a_terminal() {
        let check = |text: &str, expected: &str| {
            let text = serde_json::json!(text);
            let json = format!(
                "{{\"policy\":{{\"directions\":[],\"files\":[{{\"name\":\"p\",\"text\":{text}}}]}}}}"
            );
            match read_answer(&mut json.as_bytes()) {
                Ok(Answer::Policy(policy)) => assert_eq!(policy.files[0].text, expected),
                other => panic!("{json}: {other:?}"),
            }
        };
        check(
            "[link]\n\trate = \"1 Mbit/s\"\t# größe\n",
            "[link]\n\trate = \"1 Mbit/s\"\t# größe\n",
        );
        check("# \u{1b}[31mred", "# \\u{1b}[31mred\n");
        check("", "");
    }
}
