//! What clients of the control socket may ask for beside the status: it goes to the first thread.

use super::tell;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;
use weir_control::protocol::{Answer, Request};
use weir_control::service::{Act, Refused, Reply, Service};
use weir_live::events::{Kind, Reporter};
use weir_live::keeper::watch::Bell;
use weir_live::status::Board;

/// What a client asks for, and where the outcome goes.
pub enum Wish {
    /// To restart the link from its file.
    Restart(Sender<Result<String, String>>),
    /// To be its keeper from now on, with these descriptors.
    HandOver(Sender<Result<Vec<OwnedFd>, String>>),
}

/// Returns what the server of the control socket is given, and where wishes arrive; `bell` wakes
/// the thread that takes them.
pub fn open(
    boards: Vec<Arc<Board>>,
    owner: u32,
    reporter: Reporter,
    bell: Arc<Bell>,
) -> (Service, Receiver<Wish>) {
    let (wishes, arriving) = mpsc::channel();
    let act: Act = Box::new(move |request, _peer| match request {
        Request::Restart => match ask(&wishes, &bell, Wish::Restart, RESTART_PATIENCE) {
            Ok(_) => Answer::Done.into(),
            Err(why) => Reply::error(why),
        },
        Request::HandOver => match ask(&wishes, &bell, Wish::HandOver, HAND_OVER_PATIENCE) {
            Ok(descriptors) => Reply { descriptors, ..Answer::Done.into() },
            Err(why) => Reply::error(why),
        },
        Request::Status(_) | Request::Mark => Reply::error("the server itself answers this"),
    });
    let refused = move |refused: Refused| {
        let user = refused.uid.map_or("an unknown user".to_owned(), |uid| format!("user {uid}"));
        let detail = format!("{}: {}", refused.cause.name(), refused.text);
        tell(&reporter, Kind::ControlRefused, &user, &detail);
    };
    let service = Service { act, refused: Box::new(refused), ..Service::of(boards, owner) };
    (service, arriving)
}

/// Has a wish granted by the first thread.
fn ask<T>(
    wishes: &Sender<Wish>,
    bell: &Bell,
    wish: fn(Sender<Result<T, String>>) -> Wish,
    patience: Duration,
) -> Result<T, String> {
    let (reply, outcome) = mpsc::channel();
    let stopping = "the link is stopping";
    wishes.send(wish(reply)).map_err(|_| stopping)?;
    bell.ring();
    outcome.recv_timeout(patience).map_err(|_| "the link does not answer in time, or ends")?
}

/// A new forwarder reads a policy that may have a million classes.
const RESTART_PATIENCE: Duration = Duration::from_secs(60);
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(2);
