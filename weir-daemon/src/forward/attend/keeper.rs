//! The keeper's link: what the keeper says, what it is told, its loss, and how another one takes
//! over.

use crate::forward::questions::Asks;
use crate::keeper::messages::{Command, Report};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weir_host::channel::Channel;
use weir_host::claim::ClaimPart;
use weir_host::error::SystemError;
use weir_link::authority::AuthorityClient;
use weir_link::change::history::{History, Texts};
use weir_link::events::{About, Event, Kind};

/// The forwarder's end of the channel to its keeper.
pub struct KeeperLink {
    channel: Channel,
    /// Whether the keeper still listens.
    has_keeper: bool,
    /// The process of the keeper; 0 while there is none.
    keeper_pid: Arc<AtomicU32>,
    /// The name of the deployment.
    name: String,
    /// The loss of the keeper, until another one took over.
    loss: Option<Event>,
    /// The claim of the interfaces, with the descriptors that hold it.
    claim: Vec<(ClaimPart, Vec<OwnedFd>)>,
    /// The descriptor of this process by which a keeper watches it, for the next one.
    process: Option<OwnedFd>,
    handles: KeeperHandles,
}

/// The control socket and the authority of a keeper, which the next keeper takes over.
pub struct KeeperHandles {
    /// The listening control socket.
    pub listener: OwnedFd,
    /// The client of the keeper's authority server.
    pub authority: AuthorityClient,
}

/// An order of the keeper for another part of the forwarder.
#[derive(Debug)]
pub enum Order {
    /// Open the intake of every port, or close it.
    Intake(bool),
    /// Begin the measurement of delays anew.
    Mark,
    /// Send what waits for up to this time, and end.
    Drain(Duration),
    /// Tell the client that asked for a restart.
    Restarted(Result<String, String>),
    /// Put in force, or give to clients that asked, what the deployment contains now.
    Texts(Result<Texts, String>),
    /// Ask for sessions of reservations by this channel.
    Questions(Asks, Channel),
    /// Tell clients what happened elsewhere.
    Reported(Box<Event>),
    /// Go on without a keeper.
    Lost(Event),
}

impl KeeperLink {
    /// The link of the deployment `name` to a keeper, the process `keeper_pid`.
    pub fn new(
        channel: Channel,
        name: String,
        keeper_pid: Arc<AtomicU32>,
        handles: KeeperHandles,
    ) -> Self {
        let (loss, claim, process) = (None, Vec::new(), None);
        Self { channel, has_keeper: true, keeper_pid, name, loss, claim, process, handles }
    }

    /// Returns whether there is a keeper.
    pub fn has_keeper(&self) -> bool {
        self.has_keeper
    }

    /// Returns what to watch, if there is a keeper.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.has_keeper.then(|| self.channel.as_fd())
    }

    /// Sends a report to the keeper, unless it has died. Returns whether it was sent.
    pub fn send(&self, report: &Report) -> bool {
        self.has_keeper && self.channel.send(report, &[]).is_ok()
    }

    /// Takes what the keeper said, and returns the next thing that others are to do, at `at_ns` of
    /// CLOCK_REALTIME.
    pub fn handle(&mut self, at_ns: u64) -> Option<Order> {
        while self.has_keeper {
            let (command, descriptors) = match self.channel.receive(Duration::ZERO) {
                Ok(received) => received?,
                // It is gone, and the next one is as good as any.
                Err(error) if error.cause.kind() == ErrorKind::InvalidData => return None,
                Err(_) => return Some(Order::Lost(self.lose(at_ns))),
            };
            if let Some(order) = self.take(command, descriptors) {
                return Some(order);
            }
        }
        None
    }

    /// Does what concerns this link alone; returns all else.
    fn take(&mut self, command: Command, descriptors: Vec<OwnedFd>) -> Option<Order> {
        Some(match command {
            Command::Hold { is_first, part } => {
                if is_first {
                    self.claim.clear();
                }
                self.claim.push((part, descriptors));
                return None;
            }
            Command::KeptBy { keeper } => {
                self.keeper_pid.store(keeper, Ordering::Relaxed);
                self.process = descriptors.into_iter().next();
                return None;
            }
            Command::Intake(is_open) => Order::Intake(is_open),
            Command::Mark => Order::Mark,
            Command::Drain(drain) => Order::Drain(drain),
            Command::Restarted(outcome) => Order::Restarted(outcome),
            Command::Texts(read) => Order::Texts(read),
            Command::Reservations => Order::Questions(Asks::Reservations, channel(descriptors)?),
            Command::Circuits => Order::Questions(Asks::Circuits, channel(descriptors)?),
            Command::Reported(event) => Order::Reported(event),
            // They are for a process that does not forward yet.
            Command::Read(_) | Command::Open(_) => return None,
        })
    }

    /// The keeper ended without a word: whatever happened to it, traffic goes on.
    fn lose(&mut self, at_ns: u64) -> Event {
        self.has_keeper = false;
        self.keeper_pid.store(0, Ordering::Relaxed);
        let about = About { subject: &self.name, ..About::default() };
        let loss = Event::at(Kind::KeeperLost, at_ns, about);
        self.loss = Some(loss.clone());
        loss
    }

    /// Makes channels to the next keeper, and tells it the `history` of the link. Returns its ends,
    /// authority first, and the event that there was none. It may die at once as well: then another
    /// one gets channels of its own.
    ///
    /// # Errors
    /// When there is a keeper, none ever said that it is, or there are no descriptors left.
    pub fn hand_over(&mut self, history: History) -> Result<(Vec<OwnedFd>, Option<Event>), String> {
        if self.has_keeper {
            let keeper = self.keeper_pid.load(Ordering::Relaxed);
            return Err(format!("its keeper, process {keeper}, runs"));
        }
        let process = self.process.as_ref().ok_or("it never had a keeper")?;
        let pair = || Channel::pair().map_err(|error| error.to_string());
        let ((authority, own_authority), (commands, own_commands)) = (pair()?, pair()?);
        self.handles.authority.reconnect(own_authority);
        self.channel = own_commands;
        self.has_keeper = true;
        for (part, copies) in &self.claim {
            let copies: Vec<_> = copies.iter().map(AsFd::as_fd).collect();
            self.give(&Report::Held(part.clone()), &copies);
        }
        self.give(&Report::History(Box::new(history)), &[]);
        let kept = [process.as_fd(), self.handles.listener.as_fd()];
        self.give(&Report::Takeover(std::process::id()), &kept);
        Ok((vec![authority.into(), commands.into()], self.loss.take()))
    }

    fn give(&self, report: &Report, descriptors: &[BorrowedFd<'_>]) {
        let _gone: Result<(), SystemError> = self.channel.send(report, descriptors);
    }
}

fn channel(descriptors: Vec<OwnedFd>) -> Option<Channel> {
    descriptors.into_iter().next().map(Channel::from)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A link without a deployment, and the keeper's end of its channel.
    pub fn link() -> (KeeperLink, Channel) {
        let (own, keeper) = Channel::pair().expect("there are descriptors");
        let (authority, _desk) = Channel::pair().expect("there are descriptors");
        let (listener, _other) = Channel::pair().expect("there are descriptors");
        let handles =
            KeeperHandles { listener: listener.into(), authority: AuthorityClient::new(authority) };
        let keeper_pid = Arc::new(AtomicU32::new(7));
        (KeeperLink::new(own, "d".to_owned(), keeper_pid, handles), keeper)
    }

    /// Returns everything that the keeper was told.
    pub fn received(keeper: &Channel) -> Vec<Report> {
        let next = || keeper.receive::<Report>(Duration::ZERO).expect("it is a report");
        std::iter::from_fn(|| next().map(|(report, _)| report)).collect()
    }

    /// Tells a link that process 9 is its keeper.
    pub fn keep(keeper: &Channel) {
        let process = std::fs::File::open("/proc/self/stat").expect("it is there");
        let kept = Command::KeptBy { keeper: 9 };
        keeper.send(&kept, &[process.as_fd()]).expect("the link is there");
    }

    fn words(link: &mut KeeperLink) -> Vec<String> {
        let orders = std::iter::from_fn(|| link.handle(5));
        orders.map(|order| format!("{order:?}").chars().take(12).collect()).collect()
    }

    #[test]
    fn what_the_keeper_says_becomes_orders_for_others() {
        let event = Event::at(Kind::RsvpDied, 3, About::default());
        let drain = Duration::from_millis(3);
        let rows = [
            (Command::Intake(true), "Intake(true)"),
            (Command::Mark, "Mark"),
            (Command::Drain(drain), "Drain(3ms)"),
            (Command::Restarted(Err("x".to_owned())), "Restarted(Er"),
            (Command::Texts(Err("x".to_owned())), "Texts(Err(\"x"),
            (Command::Reported(Box::new(event)), "Reported(Eve"),
            (Command::Open(Box::default()), ""),
            (Command::Read(Box::default()), ""),
            (Command::Reservations, ""),
            (Command::KeptBy { keeper: 8 }, ""),
        ];
        for (command, expected) in rows {
            let (mut link, keeper) = link();
            keeper.send(&command, &[]).expect("the link is there");
            let expected: Vec<_> = Some(expected).filter(|it| !it.is_empty()).into_iter().collect();
            assert_eq!(words(&mut link), expected, "{command:?}");
            assert!(link.has_keeper());
        }
    }

    #[test]
    fn a_keeper_that_ends_is_lost_once_and_what_it_said_is_received_first() {
        let (mut link, keeper) = link();
        keeper.send(&Command::Mark, &[]).expect("the link is there");
        drop(keeper);
        assert_eq!(words(&mut link), ["Mark", "Lost(Event {"]);
        assert!(!link.has_keeper() && link.descriptor().is_none());
        assert_eq!(link.keeper_pid.load(Ordering::Relaxed), 0);
        assert!(words(&mut link).is_empty() && !link.send(&Report::Beat));
    }

    #[test]
    fn a_message_of_another_form_is_no_loss() {
        let (mut link, keeper) = link();
        assert!(keeper.send_raw(b"\0{\"what\":1}"));
        assert!(words(&mut link).is_empty() && link.has_keeper());
        keeper.send(&Command::Mark, &[]).expect("the link is there");
        assert_eq!(words(&mut link), ["Mark"]);
    }

    #[test]
    fn only_a_link_that_lost_its_keeper_takes_another_and_reports_it_all() {
        let (mut link, keeper) = link();
        keep(&keeper);
        assert!(words(&mut link).is_empty());
        let refused = link.hand_over(History::default());
        assert!(refused.is_err_and(|why| why == "its keeper, process 9, runs"));
        drop(keeper);
        assert_eq!(words(&mut link), ["Lost(Event {"]);
        let (ends, loss) = link.hand_over(History::default()).expect("it has channels");
        assert_eq!(loss.map(|loss| (loss.kind, loss.at_ns)), Some((Kind::KeeperLost, 5)));
        let [_authority, commands]: [OwnedFd; 2] = ends.try_into().expect("two ends");
        let next = Channel::from(commands);
        let reported: Vec<_> = received(&next).iter().map(|report| format!("{report:?}")).collect();
        assert_eq!(reported.len(), 2, "{reported:?}");
        assert!(
            reported[0].starts_with("History(") && reported[1].starts_with("Takeover("),
            "{reported:?}"
        );
        // The next one is heard, and when it ends before it said that it is there, a third comes.
        next.send(&Command::Mark, &[]).expect("the link is there");
        assert_eq!(words(&mut link), ["Mark"]);
        drop(next);
        assert_eq!(words(&mut link), ["Lost(Event {"]);
        assert!(link.hand_over(History::default()).is_ok());
    }
}
