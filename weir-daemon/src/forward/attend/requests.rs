//! Requests of clients: what those ask for that only the first thread can do, and who waits for the
//! keeper.

use super::health::Health;
use super::keeper::KeeperLink;
use crate::forward::control_listener::{ControlListener, ForwarderRequest};
use crate::forward::policies::Policies;
use crate::forward::questions::{Asks, Questions};
use crate::forward::report::report;
use crate::keeper::messages::Report;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;
use weir_host::channel::Channel;
use weir_host::error::SystemError;
use weir_link::change::history::Texts;
use weir_link::events::{Kind, Reporter};

/// Requests that the threads of clients hand to the first thread.
pub struct Requests {
    listener: ControlListener,
    /// Requests of the socket's clients, from their threads.
    incoming: Receiver<ForwarderRequest>,
    policies: Arc<Policies>,
    questions: Arc<Questions>,
    /// Clients that wait for the contents of the deployment.
    readers: Vec<Sender<Result<Texts, String>>>,
    /// The client that waits for a restart.
    restarter: Option<Sender<Result<String, String>>>,
    reporter: Reporter,
}

impl Requests {
    /// Requests that come by a control socket, which is closed as yet.
    pub fn new(
        listener: ControlListener,
        incoming: Receiver<ForwarderRequest>,
        (policies, questions): (Arc<Policies>, Arc<Questions>),
        reporter: Reporter,
    ) -> Self {
        let (readers, restarter) = (Vec::new(), None);
        Self { listener, incoming, policies, questions, readers, restarter, reporter }
    }

    /// Does what clients ask for, and what is due with changes on trial.
    pub fn handle(&mut self, now: Instant, keeper: &mut KeeperLink, health: &mut Health) {
        while let Ok(request) = self.incoming.try_recv() {
            self.carry_out(request, keeper, health);
        }
        self.policies.check_trial(now);
    }

    fn carry_out(
        &mut self,
        request: ForwarderRequest,
        keeper: &mut KeeperLink,
        health: &mut Health,
    ) {
        match request {
            ForwarderRequest::Restart(reply) => {
                if let Err(why) = self.restart(&reply, keeper) {
                    // The client may have gone; so below.
                    let _gone = reply.send(Err(why.to_owned()));
                }
            }
            ForwarderRequest::ReadAnew(reply) if !keeper.has_keeper() => {
                let why = "its keeper is gone, which reads its files; name the deployment";
                let _gone = reply.send(Err(why.to_owned()));
            }
            ForwarderRequest::ReadAnew(reply) => {
                self.readers.push(reply);
                keeper.send(&Report::ReadAnew);
            }
            ForwarderRequest::Report(report, reported) => {
                // The event of a change is not lost with a forwarder that dies once a client has
                // heard of it.
                health.report_new(keeper);
                keeper.send(&report);
                // Nobody may wait.
                let _unheard = reported.send(());
            }
            ForwarderRequest::Alarms(alarms) => health.watch(*alarms),
            ForwarderRequest::HandOver(reply) => {
                // A client that is gone by now closes the channels, which is a keeper's end.
                let _gone = reply.send(self.hand_over(keeper, health));
            }
        }
    }

    fn restart(
        &mut self,
        reply: &Sender<Result<String, String>>,
        keeper: &KeeperLink,
    ) -> Result<(), &'static str> {
        if !keeper.has_keeper() {
            return Err("its keeper is gone; `weir up` with its deployment takes the link over");
        }
        if self.restarter.is_some() {
            return Err("a restart is on its way already");
        }
        self.restarter = Some(reply.clone());
        self.policies.set_leaving(true);
        keeper.send(&Report::Restart);
        Ok(())
    }

    /// Gives another keeper what is its own. That one replaces this process, so what clients would
    /// change from now on would be lost with it.
    fn hand_over(
        &self,
        keeper: &mut KeeperLink,
        health: &mut Health,
    ) -> Result<Vec<OwnedFd>, String> {
        let (ends, loss) = keeper.hand_over(self.policies.history())?;
        loss.into_iter().for_each(|loss| health.keep(loss.end_now()));
        self.policies.set_leaving(true);
        Ok(ends)
    }

    /// Sends the outcome of a restart to the client that requested it.
    pub fn restarted(&mut self, outcome: Result<String, String>) {
        self.policies.set_leaving(outcome.is_ok());
        if outcome.is_ok() {
            // Before the client knows, who may ask again at once.
            self.listener.finish();
        }
        if let Some(reply) = self.restarter.take() {
            let _gone = reply.send(outcome);
        }
    }

    /// Takes what the deployment contains: for clients who asked, or else because of a signal.
    pub fn take_texts(&mut self, read: Result<Texts, String>) {
        if !self.readers.is_empty() {
            for reader in self.readers.drain(..) {
                let _gone = reader.send(read.clone());
            }
            return;
        }
        let policies = Arc::clone(&self.policies);
        let work = move || policies.reload(read);
        if let Err(error) = std::thread::Builder::new().name("change".to_owned()).spawn(work) {
            let name = self.policies.name();
            report(&self.reporter, Kind::ReloadRefused, &name, &error.to_string());
        }
    }

    /// Sends questions to this process by this channel from now on.
    pub fn take_questions(&self, whom: Asks, channel: Channel) {
        self.questions.take(whom, channel);
    }

    /// Ends the wait of clients for a keeper that is gone.
    pub fn lose_keeper(&mut self) {
        // They see that the channel is closed.
        self.readers.clear();
        if let Some(reply) = self.restarter.take() {
            let why = "its keeper ended before the new process took over; the link goes on";
            let _gone = reply.send(Err(why.to_owned()));
        }
        self.policies.set_leaving(false);
    }

    /// Serves clients from now on.
    ///
    /// # Errors
    /// When the system has no descriptor or no thread left.
    pub fn open_listener(&mut self) -> Result<(), SystemError> {
        self.listener.open()
    }

    /// Serves no more clients.
    pub fn close_listener(&mut self) {
        self.listener = ControlListener::Gone;
    }
}

#[cfg(test)]
mod tests {
    use super::super::keeper::tests::{keep, link, received};
    use super::*;
    use crate::forward::attend::health;
    use crate::forward::policies;
    use std::sync::mpsc::{self, TryRecvError};
    use weir_control::protocol::{Answer, Request};
    use weir_control::service::Peer;
    use weir_link::events;

    /// The parts of a forwarder without bridges, and what is around them.
    struct World {
        requests: Requests,
        keeper: KeeperLink,
        health: Health,
        sender: Sender<ForwarderRequest>,
        /// The keeper's end of the channel.
        other: Option<Channel>,
    }

    impl World {
        fn new() -> Self {
            let (sender, incoming) = mpsc::channel();
            let (reporter, log) = events::log();
            let policies = policies::tests::policies(sender.clone(), reporter.clone());
            let parts = (policies, Arc::default());
            let requests = Requests::new(ControlListener::Gone, incoming, parts, reporter.clone());
            let (keeper, other) = link();
            let health = health::tests::health(reporter, log);
            Self { requests, keeper, health, sender, other: Some(other) }
        }

        fn turn(&mut self) {
            self.requests.handle(Instant::now(), &mut self.keeper, &mut self.health);
        }

        fn lose_keeper(&mut self) {
            self.other = None;
            assert!(self.keeper.handle(1).is_some(), "it is lost");
            self.requests.lose_keeper();
        }

        /// Sends a request; returns where the outcome arrives.
        fn ask<T>(
            &mut self,
            request: fn(Sender<Result<T, String>>) -> ForwarderRequest,
        ) -> Receiver<Result<T, String>> {
            let (reply, outcome) = mpsc::channel();
            self.sender.send(request(reply)).expect("it is heard");
            self.turn();
            outcome
        }

        /// Returns why a change is refused.
        fn refuses_change(&self) -> String {
            let change = Request::Class {
                direction: None,
                add: None,
                remove: Vec::new(),
                dry_run: false,
                reason: String::new(),
            };
            let peer = Peer { uid: Some(0), user: Some(0), token: None };
            match self.requests.policies.meet(&change, &peer).answer {
                Answer::Error(why) => why,
                other => format!("{other:?}"),
            }
        }

        fn reported(&self) -> Vec<String> {
            let reports = self.other.as_ref().map(received).unwrap_or_default();
            reports.iter().map(|report| format!("{report:?}")).collect()
        }
    }

    fn refusal<T>(outcome: &Receiver<Result<T, String>>) -> String {
        let refused = outcome.try_recv().expect("there is an outcome");
        refused.err().expect("it is refused")
    }

    #[test]
    fn one_restart_is_asked_for_at_a_time() {
        let mut world = World::new();
        let first = world.ask(ForwarderRequest::Restart);
        assert_eq!(world.reported(), ["Restart"]);
        assert!(refusal(&world.ask(ForwarderRequest::Restart)).contains("on its way"));
        assert_eq!(first.try_recv(), Err(TryRecvError::Empty));
        world.requests.restarted(Err("the file is wrong".to_owned()));
        assert_eq!(refusal(&first), "the file is wrong");
        let second = world.ask(ForwarderRequest::Restart);
        world.requests.restarted(Ok("process 7".to_owned()));
        assert_eq!(second.try_recv(), Ok(Ok("process 7".to_owned())));
    }

    #[test]
    fn every_client_that_asked_gets_what_the_deployment_contains() {
        let mut world = World::new();
        let readers =
            [world.ask(ForwarderRequest::ReadAnew), world.ask(ForwarderRequest::ReadAnew)];
        assert_eq!(world.reported(), ["ReadAnew", "ReadAnew"]);
        world.requests.take_texts(Ok(Texts::default()));
        for reader in readers {
            assert_eq!(reader.try_recv(), Ok(Ok(Texts::default())));
        }
    }

    #[test]
    fn a_client_that_waits_for_a_keeper_that_ends_gets_an_answer() {
        let mut world = World::new();
        let (restart, reader) =
            (world.ask(ForwarderRequest::Restart), world.ask(ForwarderRequest::ReadAnew));
        world.lose_keeper();
        assert!(refusal(&restart).contains("its keeper ended before"));
        assert_eq!(reader.try_recv(), Err(TryRecvError::Disconnected));
        assert!(refusal(&world.ask(ForwarderRequest::Restart)).contains("takes the link over"));
        assert!(refusal(&world.ask(ForwarderRequest::ReadAnew)).contains("name the deployment"));
        assert!(refusal(&world.ask(ForwarderRequest::HandOver)).contains("never had a keeper"));
    }

    #[test]
    fn nothing_is_changed_while_another_process_is_to_take_over() {
        let mut world = World::new();
        let changes = |world: &World| world.refuses_change().contains("has places");
        assert!(changes(&world), "{}", world.refuses_change());
        let _outcome = world.ask(ForwarderRequest::Restart);
        assert!(world.refuses_change().contains("the link restarts"));
        world.requests.restarted(Err("the file is wrong".to_owned()));
        assert!(changes(&world));
        keep(world.other.as_ref().expect("there is a keeper"));
        assert!(world.keeper.handle(1).is_none());
        world.lose_keeper();
        assert!(changes(&world));
        let next = world.ask(ForwarderRequest::HandOver).recv().expect("there is an outcome");
        let next = next.expect("it has channels");
        assert!(world.refuses_change().contains("the link restarts"));
        drop(next);
        assert!(world.keeper.handle(2).is_some(), "the next one is gone, too");
        world.requests.lose_keeper();
        assert!(changes(&world));
    }

    #[test]
    fn the_keeper_gets_a_report_before_the_client_goes_on() {
        let mut world = World::new();
        let (reported, done) = mpsc::channel();
        report(&world.requests.reporter, Kind::PolicyChanged, "d", "change 2");
        world
            .sender
            .send(ForwarderRequest::Report(Box::new(Report::Confirmed), reported))
            .expect("it is heard");
        assert_eq!(done.try_recv(), Err(TryRecvError::Empty));
        world.turn();
        assert_eq!(done.try_recv(), Ok(()));
        let reported = world.reported();
        assert!(
            reported[0].contains("PolicyChanged") && reported[1] == "Confirmed",
            "{reported:?}"
        );
        assert!(
            refusal(&world.ask(ForwarderRequest::HandOver)).contains("its keeper, process 7, runs")
        );
    }
}
