//! Connections to the control socket from the keeper, which hands them to a process that can open
//! none.

use crate::source::Contact;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_control::gateway::{FromGateway, ToGateway};
use weir_control::protocol::Right;
use weir_host::channel::Channel;

/// Connections that the keeper makes: this process can open none itself.
pub struct ByKeeper {
    asked: Arc<Mutex<Asked>>,
    /// Whether they are for viewers of the page.
    is_viewer: bool,
}

/// The keeper, and how often it was asked.
struct Asked {
    keeper: Channel,
    count: u64,
}

impl ByKeeper {
    /// Connections from the keeper at the other end.
    pub fn new(channel: Channel) -> Self {
        let asked = Arc::new(Mutex::new(Asked { keeper: channel, count: 0 }));
        Self { asked, is_viewer: false }
    }

    /// Returns the same contact for viewers of the page.
    pub fn for_viewers(&self) -> Self {
        Self { asked: Arc::clone(&self.asked), is_viewer: true }
    }

    fn ask(&self, right: Right) -> Result<Option<OwnedFd>, String> {
        let gone = "the keeper of the link does not answer";
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.count += 1;
        let Asked { keeper, count } = &*asked;
        let connect = FromGateway::Connect { number: *count, right, is_viewer: self.is_viewer };
        keeper.send(&connect, &[]).map_err(|_| gone)?;
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match keeper.receive(left).map_err(|_| gone)?.ok_or(gone)? {
                // Whoever asked for it gave up: it may have another right, and is closed.
                (ToGateway::Connection(number, _), _) if number != *count => {}
                (ToGateway::Connection(_, Ok(())), mut descriptors) => return Ok(descriptors.pop()),
                (ToGateway::Connection(_, Err(why)), _) => return Err(why),
                (ToGateway::Begin(_), _) => return Ok(None),
            }
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
