//! Connections to the control socket: by its path, or from the keeper, which hands them to a
//! process that can open none.

use crate::source::Contact;
use rustix::process::geteuid;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use weir_control::client;
use weir_control::places::Places;
use weir_host::channel::Channel;
use weir_live::keeper::page::{FromPage, ToPage};

/// A control socket that is found by its path, or by the name of its link.
pub struct ByPath {
    name: Option<String>,
    path: Option<PathBuf>,
}

impl ByPath {
    /// The link of this name, or at this path if there is one.
    pub fn new(name: Option<String>, path: Option<PathBuf>) -> Self {
        Self { name, path }
    }

    /// Returns the path.
    ///
    /// # Errors
    /// When no link of the name runs.
    pub fn find(&self) -> Result<PathBuf, String> {
        match (&self.path, &self.name) {
            (Some(path), _) => Ok(path.clone()),
            // Anew each time: a link that was started again may be elsewhere.
            (None, name) => Places::of_process().find(name.as_deref().unwrap_or_default()),
        }
    }
}

impl Contact for ByPath {
    fn connect(&self) -> Result<UnixStream, String> {
        client::connect(&self.find()?)
    }

    fn may_change(&self) -> bool {
        let own = geteuid().as_raw();
        let owner = self.find().ok().and_then(|path| path.metadata().ok()).map(|it| it.uid());
        own == 0 || owner == Some(own)
    }
}

/// Connections that the keeper makes: this process can open none itself.
pub struct ByKeeper(Mutex<Channel>);

impl ByKeeper {
    /// Connections from the keeper at the other end.
    pub fn new(channel: Channel) -> Self {
        Self(Mutex::new(channel))
    }

    fn ask(&self) -> Result<Option<OwnedFd>, String> {
        let gone = "the keeper of the link does not answer";
        let channel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        channel.send(&FromPage::Connect, &[]).map_err(|_| gone)?;
        match channel.receive(PATIENCE).map_err(|_| gone)?.ok_or(gone)? {
            (ToPage::Connection(Ok(())), mut descriptors) => Ok(descriptors.pop()),
            (ToPage::Connection(Err(why)), _) => Err(why),
            (ToPage::Begin(_), _) => Ok(None),
        }
    }
}

impl Contact for ByKeeper {
    fn connect(&self) -> Result<UnixStream, String> {
        let connection = self.ask()?;
        connection.map(UnixStream::from).ok_or("the keeper gives no connection".to_owned())
    }

    /// The keeper connects, and the keeper may.
    fn may_change(&self) -> bool {
        true
    }
}

/// How long the keeper may take: it does nothing that waits.
const PATIENCE: Duration = Duration::from_secs(5);
