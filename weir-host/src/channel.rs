//! Messages between two processes of Weir, with descriptors: what the keeper of a deployment and
//! its forwarder say to each other.
//!
//! A message is one JSON value of at most [`VALUE_MAX`] bytes, and up to [`DESCRIPTORS_MAX`]
//! descriptors, which the receiver gets as its own. A value of more than [`INLINE_MAX`] bytes
//! travels in a file in memory (memfd), which takes the place of one descriptor.
//!
//! Invariant: a message arrives whole or not at all, and in order. A sender never waits: where the
//! receiver does not read, sending fails.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Result, SystemError};

/// The most descriptors of one message.
pub const DESCRIPTORS_MAX: usize = 16;
/// Longer values travel in a file in memory.
pub const INLINE_MAX: usize = 64 << 10;
/// The longest value that a message carries, in bytes.
pub const VALUE_MAX: usize = 256 << 20;

/// One end of a pair; dropping it is seen at the other end.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
}

/// First byte of a message: the value follows.
const INLINE: u8 = 0;
/// The value is in the file that is the last descriptor.
const IN_FILE: u8 = 1;

impl Channel {
    /// Makes two ends that are connected.
    ///
    /// # Errors
    /// When there are too many descriptors.
    pub fn pair() -> Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let made = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (one, other) = made.map_err(|cause| failed("make a channel", cause))?;
        Ok((Self { socket: one }, Self { socket: other }))
    }

    /// Sends a value and copies of these descriptors.
    ///
    /// # Errors
    /// When the other end was closed (`BrokenPipe`), or does not read (`WouldBlock`).
    ///
    /// # Panics
    /// If there are more than [`DESCRIPTORS_MAX`] descriptors, or the value has no form in JSON.
    pub fn send(&self, value: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        let json = serde_json::to_vec(value).expect("messages have a form in JSON");
        assert!(json.len() <= VALUE_MAX, "a message has its bound");
        if json.len() <= INLINE_MAX {
            return self.send_bytes(&[INLINE], &json, descriptors);
        }
        let file = in_file(&json).map_err(|cause| SystemError::new(SENDING, cause))?;
        let with_file = [descriptors, &[file.as_fd()]].concat();
        self.send_bytes(&[IN_FILE], &[], &with_file)
    }

    /// Sends these bytes as they are, which may be no message; returns whether it could. For a fuzz
    /// target.
    pub fn send_raw(&self, bytes: &[u8]) -> bool {
        rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_ok()
    }

    fn send_bytes(&self, place: &[u8], json: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        assert!(descriptors.len() <= DESCRIPTORS_MAX, "a message has few descriptors");
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
            assert!(fits, "the space is for {DESCRIPTORS_MAX} descriptors");
        }
        let parts = [IoSlice::new(place), IoSlice::new(json)];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            match sendmsg(&self.socket, &parts, &mut control, flags) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(cause) => return Err(failed(SENDING, cause)),
            }
        }
    }

    /// Receives the next message; `None` if none comes within `patience`.
    ///
    /// # Errors
    /// When the other end was closed and all was read (`UnexpectedEof`), or the message has another
    /// form (`InvalidData`); the message is gone then, and its descriptors are closed.
    pub fn receive<T: DeserializeOwned>(
        &self,
        patience: Duration,
    ) -> Result<Option<(T, Vec<OwnedFd>)>> {
        let start = Instant::now();
        loop {
            match self.receive_now() {
                Ok((json, descriptors)) => {
                    let value = serde_json::from_slice(&json)
                        .map_err(|error| invalid(&error.to_string()))?;
                    return Ok(Some((value, descriptors)));
                }
                Err(error) if error.cause.kind() == io::ErrorKind::WouldBlock => {
                    let left = patience.saturating_sub(start.elapsed());
                    if left.is_zero() || !self.wait(left)? && start.elapsed() >= patience {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until a message can be read, or the other end was closed; returns whether.
    ///
    /// # Errors
    /// When the system refuses to wait.
    pub fn wait(&self, patience: Duration) -> Result<bool> {
        let mut watched = [PollFd::new(&self.socket, PollFlags::IN)];
        let timeout = Timespec::try_from(patience).ok();
        match poll(&mut watched, timeout.as_ref()) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(cause) => Err(failed("wait for a message", cause)),
        }
    }

    fn receive_now(&self) -> Result<(Vec<u8>, Vec<OwnedFd>)> {
        let mut place = [0];
        let mut bytes = vec![0; INLINE_MAX];
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut place), IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let message = loop {
            match recvmsg(&self.socket, &mut parts, &mut control, flags) {
                Ok(message) => break message,
                // The other end was closed before it had read all; what it sent still waits here,
                // and this is said once.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                Err(cause) => return Err(failed(RECEIVING, cause)),
            }
        };
        let mut descriptors = Vec::new();
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = part {
                descriptors.extend(rights);
            }
        }
        if message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(invalid("it is too long, or this process may open no more files"));
        }
        if message.bytes == 0 {
            let cause = io::Error::new(io::ErrorKind::UnexpectedEof, "the other end was closed");
            return Err(SystemError::new(RECEIVING, cause));
        }
        if place[0] == IN_FILE {
            let file = descriptors.pop().ok_or_else(|| invalid("it lacks its file"))?;
            let json = of_file(file).map_err(|cause| SystemError::new(RECEIVING, cause))?;
            return Ok((json, descriptors));
        }
        bytes.truncate(message.bytes - 1);
        Ok((bytes, descriptors))
    }
}

/// A descriptor that was inherited.
impl From<OwnedFd> for Channel {
    fn from(socket: OwnedFd) -> Self {
        Self { socket }
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> Self {
        channel.socket
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn in_file(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("weir-message", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file)
}

/// Reads a file that the sender may still change or shorten: so it is not mapped.
fn of_file(file: OwnedFd) -> io::Result<Vec<u8>> {
    let mut file = File::from(file);
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.take(VALUE_MAX as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn invalid(why: &str) -> SystemError {
    let why = format!("the message cannot be read: {why}");
    SystemError::new(RECEIVING, io::Error::new(io::ErrorKind::InvalidData, why))
}

fn failed(action: &str, cause: Errno) -> SystemError {
    SystemError::new(action, cause.into())
}

const SENDING: &str = "send a message to the other process of Weir";
const RECEIVING: &str = "receive a message from the other process of Weir";
const SPACE: usize = rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX));

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    /// Sends a text of `len` bytes with `count` descriptors, and expects them at the other end.
    fn check(len: usize, count: usize) {
        let (here, there) = Channel::pair().expect("a pair");
        let (pipe, mut writer) = io::pipe().expect("a pipe");
        let text = "x".repeat(len);
        here.send(&text, &vec![pipe.as_fd(); count]).expect("room");
        let received = there.receive::<String>(SHORT).expect("a message");
        let (value, descriptors) = received.expect("in time");
        assert!(value == text, "{len} bytes arrive unchanged");
        assert_eq!(descriptors.len(), count, "{len} bytes");
        drop(pipe);
        for (number, descriptor) in descriptors.into_iter().enumerate() {
            let mut byte = [0];
            writer.write_all(&[number as u8]).expect("room");
            File::from(descriptor).read_exact(&mut byte).expect("it is the pipe");
            assert_eq!(byte, [number as u8]);
        }
    }

    #[test]
    fn values_and_descriptors_arrive_unchanged() {
        let rows = [(0, 0), (1, 1), (60_000, 16), (65_533, 3), (65_534, 3), (1 << 20, 15)];
        for (len, count) in rows {
            check(len, count);
        }
    }

    /// An end that is closed with messages in it resets the connection.
    #[test]
    fn last_words_arrive_of_an_end_that_heard_nothing() {
        let (here, there) = Channel::pair().expect("a pair");
        there.send(&"unheard", &[]).expect("room");
        here.send(&"last words", &[]).expect("room");
        drop(here);
        let received = there.receive::<String>(SHORT).expect("a message").expect("it waits");
        assert_eq!(received.0, "last words");
        let end = there.receive::<String>(SHORT).expect_err("it is closed");
        assert_eq!(end.cause.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn messages_arrive_in_order_until_the_end() {
        let (here, there) = Channel::pair().expect("a pair");
        assert!(there.receive::<u32>(SHORT).expect("open").is_none(), "none was sent");
        (0..3u32).for_each(|number| here.send(&number, &[]).expect("room"));
        drop(here);
        for number in 0..3 {
            let received = there.receive::<u32>(SHORT).expect("a message").expect("it waits");
            assert_eq!(received.0, number);
        }
        let end = there.receive::<u32>(SHORT).expect_err("the end");
        assert_eq!(end.cause.kind(), io::ErrorKind::UnexpectedEof);
        let end = there.send(&1, &[]).expect_err("no reader");
        assert_eq!(end.cause.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_sender_never_waits() {
        let (here, _there) = Channel::pair().expect("a pair");
        let text = "x".repeat(10_000);
        let refusal = (0..10_000).find_map(|_| here.send(&text, &[]).err());
        let refusal = refusal.expect("no reader");
        assert_eq!(refusal.cause.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_message_of_another_form_is_refused_and_the_next_one_is_read() {
        let (here, there) = Channel::pair().expect("a pair");
        here.send(&"text", &[]).expect("room");
        here.send(&7, &[]).expect("room");
        let error = there.receive::<u32>(SHORT).expect_err("not a number");
        assert_eq!(error.cause.kind(), io::ErrorKind::InvalidData);
        assert_eq!(there.receive::<u32>(SHORT).expect("a number").map(|(value, _)| value), Some(7));
    }
}
