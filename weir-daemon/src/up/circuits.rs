//! The process of circuits, as its keeper sees it: it gets its socket, the contents of the watched
//! file and connections to the control socket, and nothing else. Whatever becomes of it, the link
//! goes on, with the classes that it has.

use super::api::secret;
use super::child::{Child, MESSAGES_MAX};
use super::running::Running as Forwarder;
use crate::circuits::foreseen::{self, Foreseen};
use crate::keeper::circuits::{CircuitsPlan, FromCircuits, ToCircuits};
use crate::keeper::messages::PROTOCOL;
use crate::supervisor::interface::{Followed, Pid};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use weir_control::client;
use weir_host::channel::Channel;
use weir_host::error::SystemError;
use weir_policy::deployment::{self, CircuitSource, Deployment};
use weir_policy::file::{self, FILE_BYTES_MAX};

/// The circuits of a link, if some come and go.
pub struct Circuits {
    /// The path of the control socket.
    control: PathBuf,
    wanted: Option<Wanted>,
    /// The socket of RADIUS: what arrives while no process runs waits there.
    socket: Option<(SocketAddr, UdpSocket)>,
    running: Option<Running>,
}

#[derive(PartialEq)]
struct Wanted {
    settings: deployment::Circuits,
    plan: CircuitsPlan,
}

struct Running {
    child: Child,
    /// The other end of the channel by which the forwarder asks.
    questions: Channel,
    watch: Option<Watch>,
}

/// A file that is watched: its contents are given once it has been the same for two looks, so that
/// a file that is being written is not read.
struct Watch {
    path: PathBuf,
    seen: Option<Stamp>,
    /// The state that was given last.
    given: Option<Option<Stamp>>,
}

/// Tells two states of a file apart.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    length: u64,
    changed: (i64, i64),
}

/// The signs of the process since the last call.
#[derive(Default)]
pub struct Signs {
    /// It said something.
    pub is_alive: bool,
    /// The trouble with circuits that it told of last.
    pub trouble: Option<Option<String>>,
    /// Which process died and why, if it did.
    pub died: Option<(Pid, String)>,
}

impl Circuits {
    /// The circuits that a deployment wants; nothing runs yet.
    ///
    /// # Errors
    /// When the file of the secret cannot be used; the text says what to do.
    pub fn prepare(deployment: &Deployment, control: &Path) -> Result<Self, String> {
        let (control, wanted) = (control.to_owned(), Wanted::of(deployment)?);
        Ok(Self { control, wanted, socket: None, running: None })
    }

    /// Follows a deployment that was read anew; a process that it does not want is ended.
    ///
    /// # Errors
    /// As [`Circuits::prepare`].
    pub fn follow(&mut self, deployment: &Deployment) -> Result<Followed, String> {
        let wanted = Wanted::of(deployment)?;
        let is_other = wanted != self.wanted;
        self.wanted = wanted;
        if self.wanted.is_none() {
            self.stop();
            self.socket = None;
            return Ok(Followed::Unwanted);
        }
        Ok(if is_other { Followed::Other } else { Followed::Same })
    }

    /// Starts the process, in place of one that runs.
    ///
    /// # Errors
    /// When the system refuses, or the address of RADIUS cannot be bound.
    pub fn start(&mut self) -> Result<(), SystemError> {
        self.stop();
        let Some(Wanted { settings, plan }) = &self.wanted else { return Ok(()) };
        let listen = match &settings.from {
            CircuitSource::Radius(radius) => Some(radius.listen),
            CircuitSource::File(_) | CircuitSource::Http => None,
        };
        self.socket.take_if(|(address, _)| Some(*address) != listen);
        if let (Some(listen), None) = (listen, &self.socket) {
            let bound = bind(listen)
                .map_err(|cause| SystemError::new(format!("listen on {listen} for RADIUS"), cause));
            self.socket = Some((listen, bound?));
        }
        let (questions, answers) = Channel::pair()?;
        let child = Child::start("circuits", PROTOCOL)?;
        let socket = self.socket.as_ref().map(|(_, socket)| socket.as_fd());
        let given: Vec<_> = [answers.as_fd()].into_iter().chain(socket).collect();
        let sent = child.send(&ToCircuits::Begin(Box::new(plan.clone())), &given);
        let watch = match &settings.from {
            CircuitSource::File(path) => Some(Watch::of(path)),
            CircuitSource::Http | CircuitSource::Radius(_) => None,
        };
        self.running = Some(Running { child, questions, watch });
        sent
    }

    /// Lets a forwarder ask the process.
    pub fn introduce(&self, forwarder: &Forwarder) {
        if let Some(running) = &self.running {
            forwarder.give_circuits(running.questions.as_fd());
        }
    }

    /// Kills the process, and waits until it has ended.
    pub fn stop(&mut self) {
        self.running = None;
    }

    /// Returns what to watch: its end, and what it says.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.running.iter().flat_map(|running| running.child.descriptors())
    }

    /// Ends the process, which hangs.
    pub fn end_hung(&mut self, why: String) {
        if let Some(running) = &mut self.running {
            running.child.end(why);
        }
    }

    /// Gives the process what it asks for; returns what it said meanwhile.
    pub fn serve(&mut self) -> Signs {
        let Some(running) = &mut self.running else { return Signs::default() };
        let mut signs = Signs::default();
        running.serve(&self.control, &mut signs);
        let ended = running.child.ended();
        if ended.is_some() {
            // Its last words.
            running.serve(&self.control, &mut signs);
        }
        signs.died = ended.map(|how| running.child.cause_of_death(how));
        if signs.died.is_some() {
            self.running = None;
        }
        signs
    }

    /// Looks whether the watched file has changed, and gives the process its contents.
    pub fn look(&mut self) {
        let Some(Running { child, watch: Some(watch), .. }) = &mut self.running else { return };
        let Some(stamp) = watch.settled() else { return };
        let message = ToCircuits::File(read(&watch.path));
        if child.send(&message, &[]).is_ok() {
            watch.given = Some(stamp);
        }
    }
}

impl Wanted {
    fn of(deployment: &Deployment) -> Result<Option<Self>, String> {
        let Some(settings) = &deployment.circuits else { return Ok(None) };
        let secret = match &settings.from {
            CircuitSource::Radius(radius) => Some(secret(&radius.secret_file)?),
            CircuitSource::File(_) | CircuitSource::Http => None,
        };
        let plan = CircuitsPlan { user: deployment.service.user.clone(), secret };
        Ok(Some(Self { settings: settings.clone(), plan }))
    }
}

impl Running {
    /// Acts on what it says, and notes its signs.
    fn serve(&mut self, control: &Path, signs: &mut Signs) {
        for _ in 0..MESSAGES_MAX {
            let Some(said) = self.child.receive::<FromCircuits>() else { break };
            signs.is_alive = true;
            match said.sanitise() {
                FromCircuits::Ready | FromCircuits::Beat => {}
                FromCircuits::Trouble(trouble) => signs.trouble = Some(trouble),
                FromCircuits::Failed(why) => self.child.fail(why),
                FromCircuits::Connect => {
                    // Connecting does not wait. One that has ended misses nothing.
                    let _ended = match client::connect(control) {
                        Ok(link) => {
                            self.child.send(&ToCircuits::Connection(Ok(())), &[link.as_fd()])
                        }
                        Err(why) => self.child.send(&ToCircuits::Connection(Err(why)), &[]),
                    };
                }
            }
        }
    }
}

impl Watch {
    fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), seen: Stamp::of(path), given: None }
    }

    /// Returns the state of the file if it is not the one that was given, and was the same before.
    fn settled(&mut self) -> Option<Option<Stamp>> {
        let stamp = Stamp::of(&self.path);
        let is_still = std::mem::replace(&mut self.seen, stamp) == stamp;
        (is_still && self.given != Some(stamp)).then_some(stamp)
    }
}

impl Stamp {
    /// `None` if the file cannot be seen.
    fn of(path: &Path) -> Option<Self> {
        let there = fs::metadata(path).ok()?;
        Some(Self {
            file: (there.dev(), there.ino()),
            length: there.len(),
            changed: (there.mtime(), there.mtime_nsec()),
        })
    }
}

/// Returns the contents of the watched file, unread.
fn read(path: &Path) -> Result<String, String> {
    let place = path.display();
    let bytes = file::read_named(path).map_err(|why| format!("cannot read `{place}`: {why}"))?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(format!("`{place}` has more than {FILE_BYTES_MAX} bytes"));
    }
    String::from_utf8(bytes).map_err(|why| format!("`{place}` is no text: {why}"))
}

/// Binds the socket of RADIUS.
fn bind(listen: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind(listen)?;
    socket.set_nonblocking(true)?;
    // Some thousand packets, while the process is started again; the system may allow less.
    let _as_it_allows = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVED_MAX);
    Ok(socket)
}

/// Bytes of packets of RADIUS that wait in the socket.
const RECEIVED_MAX: usize = 4 << 20;

/// Returns what is wrong with the files of `[deployment.circuits]`, as a start of the link would.
///
/// # Errors
/// When others may read the secret, or it cannot be read; the text says what to do.
pub fn check(deployment: &Deployment) -> Result<(), String> {
    Wanted::of(deployment).map(drop)
}

/// Returns whether the file of the secret is on this machine, if there is to be one.
pub fn is_here(deployment: &Deployment) -> bool {
    let source = deployment.circuits.as_ref().map(|circuits| &circuits.from);
    !matches!(source, Some(CircuitSource::Radius(radius)) if !radius.secret_file.exists())
}

/// Returns what the watched file of a deployment holds, and whether its circuits find their places.
///
/// # Errors
/// When the file cannot be read.
pub fn foresee(deployment: &Deployment) -> Option<(&Path, Result<Foreseen, String>)> {
    let CircuitSource::File(path) = &deployment.circuits.as_ref()?.from else { return None };
    Some((path, read(path).map(|text| foreseen::foresee(deployment, &text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_once_it_rests() {
        let folder = tempfile::tempdir().expect("there is a folder");
        let path = folder.path().join("c.csv");
        let mut watch = Watch::of(&path);
        // That it is missing is told once, too.
        let told = |watch: &mut Watch| {
            let stamp = watch.settled();
            watch.given = stamp.or(watch.given);
            stamp.map(|stamp| stamp.map(|stamp| stamp.length))
        };
        assert_eq!([told(&mut watch), told(&mut watch)], [Some(None), None]);
        let write = |text: &str| fs::write(&path, text).expect("it can be written");
        write("id\n");
        assert_eq!(told(&mut watch), None, "it may be half of it");
        write("id,addresses\n");
        assert_eq!(told(&mut watch), None);
        assert_eq!([told(&mut watch), told(&mut watch)], [Some(Some(13)), None]);
        fs::remove_file(&path).expect("it is there");
        assert_eq!([told(&mut watch), told(&mut watch)], [None, Some(None)]);
    }
}
