//! A process that the keeper runs beside the forwarder, with a channel to it and nothing else of
//! the keeper's. It ends with the value.

use crate::supervisor::interface::Pid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;
use weir_host::channel::Channel;
use weir_host::error::SystemError;
use weir_host::process::{self, Process};

pub(super) struct Child {
    process: Process,
    channel: Channel,
    /// Whether it closed its end of the channel.
    is_silent: bool,
    /// Why it fails, as it says or as its messages show.
    failure: Option<String>,
}

impl Child {
    /// Starts this program again, with a verb for processes of the keeper.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn start(verb: &str, protocol: u32) -> Result<Self, SystemError> {
        let (channel, theirs) = Channel::pair()?;
        let mut program = process::same_program();
        program.arg(verb).args(["--protocol", &protocol.to_string()]);
        program.args(["--channel", &theirs.as_fd().as_raw_fd().to_string()]);
        let process = Process::start(program, &[theirs.as_fd()])?;
        Ok(Self { process, channel, is_silent: false, failure: None })
    }

    /// Sends a message; it does not wait.
    ///
    /// # Errors
    /// When the process has ended, or does not read.
    pub fn send(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), SystemError> {
        self.channel.send(message, descriptors)
    }

    /// Returns the next message, if one waits. What is no message ends the process.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Option<T> {
        if self.is_silent {
            return None;
        }
        match self.channel.receive(Duration::ZERO) {
            Ok(received) => received.map(|(message, _none)| message),
            Err(error) => {
                self.is_silent = true;
                if error.cause.kind() == io::ErrorKind::InvalidData {
                    self.failure.get_or_insert(error.to_string());
                    self.process.kill();
                }
                None
            }
        }
    }

    /// Notes why it says that it fails.
    pub fn fail(&mut self, why: String) {
        self.failure = Some(why);
    }

    /// Ends it, for this reason.
    pub fn end(&mut self, why: String) {
        self.fail(why);
        self.process.kill();
    }

    /// Returns what to watch: its end, and what it says.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let channel = (!self.is_silent).then(|| self.channel.as_fd());
        [Some(self.process.as_fd()), channel].into_iter().flatten()
    }

    /// Returns how it ended, if it has.
    pub fn ended(&mut self) -> Option<String> {
        self.process.ended()
    }

    /// Returns which process it was, and why it died, once it has ended in this way.
    pub fn cause_of_death(&mut self, how: String) -> (Pid, String) {
        (Pid(self.process.number()), self.failure.take().unwrap_or(how))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.process.kill();
        self.process.wait();
    }
}

/// Bound: messages of a process beside the forwarder that are met before something else is done;
/// the rest is met in the next turn.
pub(super) const MESSAGES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A process that sleeps, and the other end of its channel.
    fn sleeper() -> (Child, Channel) {
        let (channel, theirs) = Channel::pair().expect("there are descriptors");
        let mut command = Command::new("sleep");
        command.arg("60");
        let process = Process::start(command, &[]).expect("there is a `sleep`");
        (Child { process, channel, is_silent: false, failure: None }, theirs)
    }

    #[test]
    fn messages_come_in_their_order_and_none_is_waited_for() {
        let (mut child, theirs) = sleeper();
        assert_eq!(child.receive::<u32>(), None);
        (1..=2).for_each(|number: u32| theirs.send(&number, &[]).expect("it is open"));
        assert_eq!(
            [child.receive(), child.receive(), child.receive::<u32>()],
            [Some(1), Some(2), None]
        );
        assert_eq!((child.ended(), child.descriptors().count()), (None, 2));
    }

    #[test]
    fn a_channel_that_is_closed_ends_nothing() {
        let (mut child, theirs) = sleeper();
        drop(theirs);
        assert_eq!(child.receive::<u32>(), None);
        assert_eq!(
            (child.ended(), child.descriptors().count()),
            (None, 1),
            "it would wake for ever"
        );
    }

    #[test]
    fn what_is_no_message_ends_the_process_and_is_the_cause() {
        for own in [None, Some("its own words")] {
            let (mut child, theirs) = sleeper();
            own.map(str::to_owned).into_iter().for_each(|why| child.fail(why));
            theirs.send(&"no number", &[]).expect("it is open");
            assert_eq!(child.receive::<u32>(), None);
            child.process.wait();
            let how = child.ended().expect("it was ended");
            let (pid, why) = child.cause_of_death(how);
            assert_eq!(pid, Pid(child.process.number()));
            match own {
                Some(own) => assert_eq!(why, own, "the first reason stays"),
                None => assert!(why.contains("invalid type"), "{why}"),
            }
        }
    }
}
