//! A link whose keeper died, and how this process becomes its keeper.

use super::running::Running;
use crate::keeper::messages::Report;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_control::client;
use weir_control::protocol::{Answer, Request};
use weir_host::channel::Channel;
use weir_host::claim::ClaimPart;
use weir_host::error::SystemError;
use weir_host::process::{self, Process};
use weir_link::authority::AuthorityServer;
use weir_link::change::history::{File, History};
use weir_link::port::PortConfig;
use weir_policy::deployment;

/// A link without a keeper.
pub struct Orphan {
    /// The forwarder that goes on without it.
    pub forwarder: Running,
    /// The control socket that it listens on.
    pub listener: UnixListener,
    /// Its share of the claim of its interfaces, with the descriptors that hold it.
    pub claim: Vec<(ClaimPart, Vec<OwnedFd>)>,
    /// The policies that it had.
    pub history: History,
}

/// A forwarder with its socket, what it holds of the claim, and the policies that it had.
pub type Parts = (Option<(Running, UnixListener)>, Vec<(ClaimPart, Vec<OwnedFd>)>, History);

impl Orphan {
    /// Splits it, so that a keeper can take the parts one by one.
    pub fn split(self) -> Parts {
        (Some((self.forwarder, self.listener)), self.claim, self.history)
    }

    /// Takes over the link of this name that listens at `path`, if there is one and it has no
    /// keeper.
    ///
    /// # Errors
    /// When it has none and cannot be taken over, or is another link.
    pub fn find(path: &Path, (name, ports): (&str, &[PortConfig])) -> Result<Option<Self>, String> {
        // Whoever made the socket of another user could pretend to be anything.
        let owner = fs::symlink_metadata(path).map(|there| there.uid());
        if !owner.is_ok_and(|owner| owner == 0 || owner == process::user()) {
            return Ok(None);
        }
        // Nothing listens, or it has a keeper: the claim will say so.
        let Some(descriptors) = ask_for_channels(path) else { return Ok(None) };
        let text = |error: SystemError| {
            format!("cannot take over the link on `{}`: {error}", path.display())
        };
        let orphan = Self::take(descriptors, ports).map_err(text)?;
        match orphan.name() {
            // Dropped here, it goes on without a keeper, and another one may come.
            Some(other) if other != name => Err(format!(
                "another link, `{other}`, answers on `{}`, and has no keeper: `weir up` with its \
                 deployment takes it over; set another `control` path for `{name}`",
                path.display()
            )),
            _ => Ok(Some(orphan)),
        }
    }

    /// Returns the name of its deployment, unless its texts were too long to be kept.
    fn name(&self) -> Option<String> {
        let File { name, text } = &self.history.last()?.texts.as_ref()?.deployment;
        deployment::parse_outline(text.as_bytes(), name).plan.map(|deployment| deployment.name)
    }

    fn take(descriptors: Vec<OwnedFd>, ports: &[PortConfig]) -> Result<Self, SystemError> {
        let refused = |why| SystemError::refused("take the link over", why, "");
        let channels: Result<[OwnedFd; 2], _> = descriptors.try_into();
        let [authority, commands] =
            channels.map_err(|_| refused("it gives other descriptors than expected"))?;
        let (authority, commands) = (Channel::from(authority), Channel::from(commands));
        let (mut claim, mut history) = (Vec::new(), History::default());
        loop {
            let received = commands.receive::<Report>(PATIENCE)?;
            match received.ok_or_else(|| refused("it does not answer"))? {
                (Report::Held(part), copies) => claim.push((part, copies)),
                (Report::History(known), _none) => history = *known,
                (Report::Takeover(number), mut descriptors) => {
                    let listener = descriptors.pop();
                    let (Some(listener), Some(process)) = (listener, descriptors.pop()) else {
                        return Err(refused("it gives no control socket"));
                    };
                    let process = Process::adopt(number, process);
                    let authority_server = AuthorityServer::new(ports.to_vec());
                    let forwarder =
                        Running::adopt(process, (authority, commands), authority_server)?;
                    let listener = listener.into();
                    return Ok(Self { forwarder, listener, claim, history });
                }
                _ => return Err(refused("it says what no forwarder says")),
            }
        }
    }
}

/// Returns the channels of a link whose keeper ended. Its forwarder hears of that a moment later.
fn ask_for_channels(path: &Path) -> Option<Vec<OwnedFd>> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Ok((Answer::Done, descriptors)) =
            client::call_for_descriptors(path, &Request::HandOver {})
        {
            return Some(descriptors);
        }
        let has_keeper = Process::listener(&client::connect(path).ok()?).is_ok();
        if has_keeper || Instant::now() >= end {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
}

/// How soon a link whose keeper has ended is asked again.
const PAUSE: Duration = Duration::from_millis(20);
/// How long it may take to give what it holds.
const PATIENCE: Duration = Duration::from_secs(2);
