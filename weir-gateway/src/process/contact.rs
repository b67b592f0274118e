//! Connections to the control socket from the keeper, which hands them to a process that can open
//! none.

use crate::source::Contact;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use weir_control::gateway::{FromGateway, ToGateway};
use weir_control::protocol::Right;
use weir_host::channel::Channel;

/// Connections that the keeper makes: this process can open none itself.
pub struct ByKeeper(Mutex<Channel>);

impl ByKeeper {
    /// Connections from the keeper at the other end.
    pub fn new(channel: Channel) -> Self {
        Self(Mutex::new(channel))
    }

    fn ask(&self, right: Right) -> Result<Option<OwnedFd>, String> {
        let gone = "the keeper of the link does not answer";
        let channel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        channel.send(&FromGateway::Connect(right), &[]).map_err(|_| gone)?;
        match channel.receive(PATIENCE).map_err(|_| gone)?.ok_or(gone)? {
            (ToGateway::Connection(Ok(())), mut descriptors) => Ok(descriptors.pop()),
            (ToGateway::Connection(Err(why)), _) => Err(why),
            (ToGateway::Begin(_), _) => Ok(None),
        }
    }
}

impl Contact for ByKeeper {
    fn connect(&self, right: Right) -> Result<UnixStream, String> {
        let connection = self.ask(right)?;
        connection.map(UnixStream::from).ok_or("the keeper gives no connection".to_owned())
    }

    /// The keeper connects, and the keeper may.
    fn may_change(&self) -> bool {
        true
    }
}

/// How long the keeper may take: it does nothing that waits.
const PATIENCE: Duration = Duration::from_secs(5);
