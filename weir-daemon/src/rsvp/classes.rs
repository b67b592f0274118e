//! The classes of reservations at the link: a thread that asks for them by the control socket.
//!
//! The node goes on meanwhile, and gets the outcome of each change later. Several changes that wait
//! go into one request. Invariant: the changes of one class are made in the order of the calls.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::companion::{LinkClient, refused};
use crate::keeper::rsvp::{FromRsvp, ToRsvp};
use weir_control::protocol::{Request, Tables, Texts};
use weir_host::channel::Channel;
use weir_host::watch::Waker;
use weir_rsvp::node::FlowId;

/// A change of one class at the link.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// A class joins, or is retuned.
    Join {
        /// The reservation, to which the outcome belongs.
        flow: FlowId,
        /// The name of the class.
        name: String,
        /// The table of the class, in TOML.
        table: String,
    },
    /// The class of this name leaves.
    Leave(String),
}

/// The outcome of a change, or news of the link.
#[derive(Debug)]
pub enum Outcome {
    /// The class of a reservation is in force, or the link says why not.
    Joined(FlowId, Result<(), String>),
    /// The link has other texts than before, by a change that was not made here.
    Texts(Box<Texts>),
}

/// The thread's other end.
pub struct Classes {
    changes: Sender<Change>,
    outcomes: Receiver<Outcome>,
    waker: Arc<Waker>,
}

impl Classes {
    /// Starts the thread, which gets its connections from the keeper; returns also the texts of the
    /// link. `direction` is found in them.
    ///
    /// # Errors
    /// When the link gives no texts, or the system no thread.
    pub fn start(
        (keeper, waker): (Channel, Arc<Waker>),
        direction: impl FnOnce(&Texts) -> Result<String, String>,
    ) -> Result<(Self, Texts), String> {
        let client = LinkClient::new(REASON, Box::new(move || connection(&keeper)));
        let mut link = Link { client, direction: String::new() };
        let texts = link.client.texts()?;
        link.direction = direction(&texts)?;
        let (changes, arriving) = mpsc::channel();
        let (leaving, outcomes) = mpsc::channel();
        let loop_waker = Arc::clone(&waker);
        let work = move || link.work(&arriving, &leaving, &loop_waker);
        let started = thread::Builder::new().name("classes".to_owned()).spawn(work);
        started.map_err(|error| error.to_string())?;
        Ok((Self { changes, outcomes, waker }, texts))
    }

    /// Queues a change. At most a change and its opposite wait for each flow of the node, whose
    /// number is bounded.
    pub fn change(&self, change: Change) {
        // The thread ends when the keeper is gone, and this process ends soon, too.
        let _ended = self.changes.send(change);
    }

    /// Returns the next outcome.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcomes.try_recv().ok()
    }

    /// Readable once there is an outcome.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }
}

/// The thread's connection to the link.
struct Link {
    client: LinkClient,
    direction: String,
}

impl Link {
    fn work(mut self, arriving: &Receiver<Change>, leaving: &Sender<Outcome>, waker: &Waker) {
        let (mut held, mut checked) = (None, Instant::now());
        loop {
            if checked.elapsed() >= CHECK_INTERVAL {
                checked = Instant::now();
                if let Some(texts) = self.client.changed_texts() {
                    let _ended = leaving.send(Outcome::Texts(Box::new(texts)));
                    waker.wake();
                }
            }
            let next = held.take().map_or_else(|| arriving.recv_timeout(CHECK_INTERVAL), Ok);
            let first = match next {
                Ok(change) => change,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let batch;
            (batch, held) = batch_of(first, arriving);
            for (flow, result) in self.make(&batch) {
                let _ended = leaving.send(Outcome::Joined(flow, result));
            }
            waker.wake();
        }
    }

    /// Makes changes; returns the outcome for each class that was to join.
    fn make(&mut self, batch: &[Change]) -> Vec<(FlowId, Result<(), String>)> {
        let made = self.client.call(&request(&self.direction, batch)).and_then(refused);
        match (made, batch) {
            (Err(_), [_, _, ..]) => {
                // One of them is wrong, and the others are not.
                batch.iter().flat_map(|change| self.make(std::slice::from_ref(change))).collect()
            }
            (made, batch) => {
                let flow = |change: &Change| match change {
                    Change::Join { flow, .. } => Some((*flow, made.clone())),
                    // A class that is gone already is as good as one that left.
                    Change::Leave(_) => None,
                };
                batch.iter().filter_map(flow).collect()
            }
        }
    }
}

/// Asks the keeper for a connection to the control socket.
fn connection(keeper: &Channel) -> Result<UnixStream, String> {
    let gone = "the keeper of the link does not answer";
    keeper.send(&FromRsvp::Connect, &[]).map_err(|_| gone)?;
    match keeper.receive(PATIENCE).map_err(|_| gone)?.ok_or(gone)? {
        (ToRsvp::Connection(Ok(())), mut descriptors) => {
            let connection = descriptors.pop().map(UnixStream::from);
            connection.ok_or_else(|| "the keeper gives no connection".to_owned())
        }
        (ToRsvp::Connection(Err(why)), _) => Err(why),
        (ToRsvp::Begin(_), _) => Err(gone.to_owned()),
    }
}

/// Takes the changes that wait, as long as no class is named twice; returns also the one that is
/// left.
fn batch_of(first: Change, arriving: &Receiver<Change>) -> (Vec<Change>, Option<Change>) {
    let mut names = BTreeSet::from([first.name().to_owned()]);
    let mut batch = vec![first];
    while batch.len() < BATCH_MAX {
        let Ok(change) = arriving.try_recv() else { break };
        if !names.insert(change.name().to_owned()) {
            return (batch, Some(change));
        }
        batch.push(change);
    }
    (batch, None)
}

fn request(direction: &str, batch: &[Change]) -> Request {
    let (mut tables, mut remove) = (String::new(), Vec::new());
    for change in batch {
        match change {
            Change::Join { table, .. } => tables += table,
            Change::Leave(name) => remove.push(name.clone()),
        }
    }
    Request::Class {
        direction: Some(direction.to_owned()),
        add: (!tables.is_empty()).then_some(Tables::Text(tables)),
        remove,
        dry_run: false,
        reason: REASON.to_owned(),
    }
}

impl Change {
    fn name(&self) -> &str {
        match self {
            Self::Join { name, .. } | Self::Leave(name) => name,
        }
    }
}

/// The reason of its changes in the history of the link.
const REASON: &str = "reservations by RSVP";
/// How soon a change by others is noticed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Bound: changes of classes in one request of the reservations; the rest goes into the next.
const BATCH_MAX: usize = 64;
/// How long the keeper may take: it does nothing that waits.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes as words: `+name` joins, `-name` leaves.
    fn changes(words: &str) -> Vec<Change> {
        let change = |(number, word): (u64, &str)| match word.split_at(1) {
            ("+", name) => Change::Join {
                flow: FlowId(number),
                name: name.to_owned(),
                table: format!("[{name}]\n"),
            },
            (_, name) => Change::Leave(name.to_owned()),
        };
        (0..).zip(words.split_whitespace()).map(change).collect()
    }

    #[test]
    fn a_batch_names_each_class_once_and_keeps_the_order() {
        let many = |count: usize| (0..count).map(|n| format!("+c{n} ")).collect::<String>();
        let (full, more) = (many(BATCH_MAX), many(BATCH_MAX + 3));
        // Waiting changes, the number in the first batch, and the one that is held back.
        let rows = [
            ("+a", 1, None),
            ("+a -b +c", 3, None),
            ("+a -a", 1, Some("a")),
            ("+a +b -a +c", 2, Some("a")),
            (&*full, BATCH_MAX, None),
            (&*more, BATCH_MAX, None),
        ];
        for (words, taken, held) in rows {
            let (changes, arriving) = mpsc::channel();
            let all = self::changes(words);
            all[1..].iter().for_each(|one| changes.send(one.clone()).expect("it is open"));
            let (batch, left) = batch_of(all[0].clone(), &arriving);
            assert_eq!(batch, all[..taken], "{words:.40}");
            assert_eq!(left.as_ref().map(Change::name), held, "{words:.40}");
            let rest = arriving.try_iter().count();
            assert_eq!(taken + usize::from(held.is_some()) + rest, all.len(), "{words:.40}");
        }
    }

    #[test]
    fn a_batch_is_one_request() {
        let rows: [(&str, Option<&str>, &[&str]); 3] = [
            ("+a +b", Some("[a]\n[b]\n"), &[]),
            ("-a -b", None, &["a", "b"]),
            ("-a +b", Some("[b]\n"), &["a"]),
        ];
        for (words, tables, leaving) in rows {
            let made = request("up", &changes(words));
            let Request::Class { direction, add, remove, dry_run, .. } = made else {
                panic!("{words}: {made:?}");
            };
            assert_eq!((direction.as_deref(), dry_run), (Some("up"), false), "{words}");
            assert_eq!(add, tables.map(|text| Tables::Text(text.to_owned())), "{words}");
            assert_eq!(remove, leaving, "{words}");
        }
    }
}
