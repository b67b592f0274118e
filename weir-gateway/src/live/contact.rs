//! Connections to the control socket by its path.

use crate::source::Contact;
use rustix::process::geteuid;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use weir_control::client;
use weir_control::places::Places;
use weir_control::protocol::Right;

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
    fn connect(&self, right: Right) -> Result<UnixStream, String> {
        let stream = client::connect(&self.find()?)?;
        // A user who only reads has no more to give.
        let right = if self.may_change() { right } else { Right::Read };
        client::begin_on_behalf(&stream, right, true)
            .map_err(|error| format!("the link does not answer: {error}"))?;
        Ok(stream)
    }

    fn may_change(&self) -> bool {
        let own = geteuid().as_raw();
        let owner = self.find().ok().and_then(|path| path.metadata().ok()).map(|it| it.uid());
        own == 0 || owner == Some(own)
    }
}
