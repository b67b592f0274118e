//! The loop: messages of neighbours, what the link did, questions of the forwarder, timers.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use crate::keeper::rsvp::{AskSessions, FromRsvp, Happening, RsvpPlan, What};
use weir_core::classify::InterfaceId;
use weir_core::units::{Duration, Instant};
use weir_host::channel::Channel;
use weir_host::error::SystemError;
use weir_host::rsvp::{Driver, HostInterface, LinkNetwork, Network, keys};
use weir_link::status::reservations::SESSIONS_MAX;
use weir_policy::deployment::Rsvp;
use weir_rsvp::Admission;
use weir_rsvp::admission::AdmissionParams;
use weir_rsvp::integrity::Security;
use weir_rsvp::intserv::Characterization;
use weir_rsvp::node::{FlowId, FlowView, InterfaceParams, Limits, NodeParams, Request, Timers};

use weir_rsvp::wire::Cause;

use super::Prepared;
use super::classes::{Classes, Outcome};
use super::desk::Desk;
use super::{policy, shown};

/// The process at work.
struct Router {
    driver: Driver<LinkNetwork>,
    desk: Desk,
    keeper: Channel,
    /// When classes of a life before go.
    former_until: Option<Instant>,
    /// What the operator was not told, for it happened too often.
    untold: BTreeMap<What, u64>,
    told_at: BTreeMap<What, Instant>,
}

/// Runs until the keeper ends.
///
/// # Errors
/// When it cannot begin, or the system refuses to wait.
pub fn run(prepared: Prepared, keeper: Channel) -> Result<(), String> {
    let Prepared { plan, network, questions, bell } = prepared;
    let copy = |channel: &Channel| {
        let copy = channel.as_fd().try_clone_to_owned();
        copy.map(Channel::from).map_err(|error| error.to_string())
    };
    // The thread of classes hears the keeper; this one speaks, and sees its end.
    let speaker = copy(&keeper)?;
    let mut read = None;
    let (classes, _) = Classes::start((keeper, bell), |texts| {
        let found = policy::read(texts)?;
        Ok(read.insert(found).direction.clone())
    })?;
    let policy::Read { settings, policy, present, .. } = read.expect("the thread has started");
    let shaped = network.interfaces().first().cloned().ok_or("there is no interface")?;
    let params = AdmissionParams::of(&settings, shaped.mtu, ETHERNET_HEADER);
    let admission = Admission::new(policy, params)?;
    let mut params = node_params(&plan, &settings, network.interfaces(), &admission)?;
    let lifetime = params.timers.lifetime(params.timers.period);
    let learned = Driver::<LinkNetwork>::now().after(lifetime);
    params.timers.learns_until = learned;
    let driver = Driver::new(params, network);
    let desk = Desk::new(admission, classes, SHAPED, present);
    let former_until = Some(learned);
    let (untold, told_at) = (BTreeMap::new(), BTreeMap::new());
    let mut router = Router { driver, desk, keeper: speaker, former_until, untold, told_at };
    router.work(Some(questions))
}

impl Router {
    fn work(&mut self, mut questions: Option<Channel>) -> Result<(), String> {
        loop {
            let turn = self.driver.turn(&mut self.desk);
            let mut deadline = turn.deadline;
            if self.settle() {
                deadline = Some(Driver::<LinkNetwork>::now());
            }
            self.tell();
            let look = self.driver.network().is_down();
            let look = look.then(|| Driver::<LinkNetwork>::now().after(LOOK_GAP));
            let deadline = deadline.into_iter().chain(self.former_until).chain(look).min();
            let bell = self.desk.classes().bell();
            let own = [self.keeper.as_fd(), bell.as_fd()];
            let others: Vec<_> =
                own.into_iter().chain(questions.as_ref().map(AsFd::as_fd)).collect();
            self.driver.wait(deadline, &others).map_err(|error| error.to_string())?;
            if is_closed(&self.keeper) {
                return Ok(());
            }
            if let Some(why) = self.driver.network().lost() {
                return Err(why);
            }
            self.desk.classes().bell().reset();
            self.hear();
            // Without a keeper's end of the channel nobody asks.
            questions = questions.filter(|channel| self.describe(channel).is_ok());
        }
    }

    /// Answers a question of the forwarder, if it has one.
    fn describe(&self, questions: &Channel) -> Result<(), SystemError> {
        let Some((ask, _)) = questions.receive::<AskSessions>(std::time::Duration::ZERO)? else {
            return Ok(());
        };
        let now = Driver::<LinkNetwork>::now();
        let limit = ask.limit.min(SESSIONS_MAX) as usize;
        let shown = shown::describe(self.driver.node(), &self.desk, limit, now);
        // A forwarder that has ended misses nothing.
        let _unheard = questions.send(&(ask.number, shown), &[]);
        Ok(())
    }

    /// Tells the node which flows lost their place, and lets old classes go; returns whether a turn
    /// has to follow.
    fn settle(&mut self) -> bool {
        let now = Driver::<LinkNetwork>::now();
        if self.former_until.is_some_and(|until| until <= now) {
            self.former_until = None;
            self.desk.drop_former();
        }
        let losses = self.desk.take_losses();
        for (flow, cause) in &losses {
            self.driver.call(|node, call| node.preempt(call, *flow, *cause));
        }
        !losses.is_empty()
    }

    /// Takes what the thread of classes says.
    fn hear(&mut self) {
        while let Some(outcome) = self.desk.classes().outcome() {
            match outcome {
                Outcome::Joined(flow, result) => {
                    if let Some(answer) = self.desk.joined(flow, result) {
                        self.answer(flow, answer);
                    }
                }
                Outcome::Texts(texts) => match policy::read(&texts) {
                    Ok(read) => self.follow(read),
                    Err(why) => self.desk.happened.push((What::Preempted, why)),
                },
            }
        }
    }

    fn answer(&mut self, flow: FlowId, answer: Result<(), Cause>) {
        self.driver.answer(flow, answer);
        let Err(cause) = answer else { return };
        let is_it = |one: &FlowView| one.id == flow && one.installed.is_some();
        let mut sessions = self.driver.node().sessions();
        if sessions.any(|session| session.flows.iter().any(is_it)) {
            // It stood before it was to change, and its class is gone.
            drop(sessions);
            self.driver.call(|node, call| node.preempt(call, flow, cause));
        }
    }

    /// Goes on with another policy.
    fn follow(&mut self, read: policy::Read) {
        let interfaces = self.driver.network().interfaces();
        let mtu = interfaces.first().map_or(0, |shaped| shaped.mtu);
        let params = AdmissionParams::of(&read.settings, mtu, ETHERNET_HEADER);
        let admission = match Admission::new(read.policy, params) {
            Ok(admission) => admission,
            Err(why) => {
                self.desk.happened.push((What::Preempted, why));
                return;
            }
        };
        let offers = admission.offers(LATENCY);
        let flows: Vec<(FlowId, Request)> = self
            .driver
            .node()
            .sessions()
            .flat_map(|session| session.flows)
            .filter_map(|flow| Some((flow.id, flow.installed?)))
            .collect();
        self.desk.follow(admission, &read.present, flows.into_iter());
        self.driver.call(|node, _| node.set_offers(SHAPED, offers));
    }

    /// Tells the keeper what happened, once a second of each kind.
    fn tell(&mut self) {
        let now = Driver::<LinkNetwork>::now();
        for (what, detail) in std::mem::take(&mut self.desk.happened) {
            let untold = self.untold.entry(what).or_default();
            if self.told_at.get(&what).is_some_and(|at| now < at.after(TELL_GAP)) {
                *untold += 1;
                continue;
            }
            let happening = Happening { what, detail, untold: std::mem::take(untold) };
            self.told_at.insert(what, now);
            // A keeper that does not listen misses it.
            let _unheard = self.keeper.send(&FromRsvp::Happened(happening), &[]);
        }
    }
}

/// Returns what the node is told of itself.
fn node_params(
    plan: &RsvpPlan,
    settings: &Rsvp,
    interfaces: &[HostInterface],
    admission: &Admission,
) -> Result<NodeParams, String> {
    let keys = plan.keys.as_ref();
    let security: Option<Security> =
        keys.map(|keys| keys::read(&keys.0, plan.at_ns)).transpose()?;
    let interface = |(number, interface): (usize, &HostInterface)| InterfaceParams {
        addresses: interface.addresses.clone(),
        offers: match number {
            0 => admission.offers(LATENCY),
            _ => unshaped(interface),
        },
        security: security.clone(),
        reduction: settings.reduction,
        // A router that is told nothing uses what every router speaks.
        learns_reduction: false,
    };
    let limits = Limits { sessions: settings.sessions as usize, ..Limits::default() };
    Ok(NodeParams {
        interfaces: interfaces.iter().enumerate().map(interface).collect(),
        timers: Timers { period: settings.refresh, ..Timers::default() },
        limits,
        seed: plan.at_ns,
        // Seconds: another number after each start [rfc2961 §4.2].
        epoch: (plan.at_ns / 1_000_000_000) as u32,
    })
}

/// What an interface without classes for reservations offers: no service.
fn unshaped(interface: &HostInterface) -> Characterization {
    Characterization {
        bandwidth: f32::MAX,
        latency: LATENCY,
        mtu: interface.mtu,
        guaranteed: None,
        controlled_load: false,
    }
}

/// Returns whether the other end is closed. What comes on it is for the thread of classes.
fn is_closed(channel: &Channel) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut watched = [PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::empty())];
    let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&at_once)).is_ok() && !watched[0].revents().is_empty()
}

/// The first interface of the plan.
const SHAPED: InterfaceId = InterfaceId(0);
/// [rfc2215 §3.4] What a packet needs at least to the next hop; nothing is known, and zero is never
/// too much.
const LATENCY: Option<u32> = Some(0);
const ETHERNET_HEADER: u32 = 14;
const TELL_GAP: Duration = Duration::from_secs(1);
/// How soon an interface that is gone is noticed.
const LOOK_GAP: Duration = Duration::from_millis(500);
