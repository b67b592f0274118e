//! The loop: messages of neighbours, outcomes at the link, questions of the forwarder, timers.

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
use super::traffic_control::LinkControl;
use super::{policy, status};

/// The state of the loop.
struct Router {
    driver: Driver<LinkNetwork>,
    control: LinkControl,
    keeper: Channel,
    /// When classes of the former process are removed, unless a reservation has claimed them.
    former_until: Option<Instant>,
    /// By kind, how many events were not reported, since they happened too often.
    unreported: BTreeMap<What, u64>,
    reported_at: BTreeMap<What, Instant>,
    /// When the next sign of life is due.
    beat_at: Instant,
}

/// Runs until the keeper ends.
///
/// # Errors
/// When it cannot begin, or the system refuses to wait.
pub fn run(prepared: Prepared, keeper: Channel) -> Result<(), String> {
    let Prepared { plan, network, questions, waker } = prepared;
    let copy = |channel: &Channel| {
        let copy = channel.as_fd().try_clone_to_owned();
        copy.map(Channel::from).map_err(|error| error.to_string())
    };
    // The thread of classes receives from the keeper; this one sends, and sees its end.
    let speaker = copy(&keeper)?;
    let mut read = None;
    let (classes, _) = Classes::start((keeper, waker), |texts| {
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
    let control = LinkControl::new(admission, classes, SHAPED, present);
    let former_until = Some(learned);
    let (unreported, reported_at) = (BTreeMap::new(), BTreeMap::new());
    let beat_at = Driver::<LinkNetwork>::now();
    let mut router =
        Router { driver, control, keeper: speaker, former_until, unreported, reported_at, beat_at };
    router.work(Some(questions))
}

impl Router {
    fn work(&mut self, mut questions: Option<Channel>) -> Result<(), String> {
        loop {
            let turn = self.driver.turn(&mut self.control);
            let mut deadline = turn.deadline;
            if self.settle() {
                deadline = Some(Driver::<LinkNetwork>::now());
            }
            self.report();
            let check = self.driver.network().is_down();
            let check = check.then(|| Driver::<LinkNetwork>::now().after(CHECK_GAP));
            let beat = Some(self.beat());
            let others = self.former_until.into_iter().chain(check).chain(beat);
            let deadline = deadline.into_iter().chain(others).min();
            let waker = self.control.classes().waker();
            let own = [self.keeper.as_fd(), waker.as_fd()];
            let others: Vec<_> =
                own.into_iter().chain(questions.as_ref().map(AsFd::as_fd)).collect();
            self.driver.wait(deadline, &others).map_err(|error| error.to_string())?;
            if is_closed(&self.keeper) {
                return Ok(());
            }
            if let Some(why) = self.driver.network().lost() {
                return Err(why);
            }
            self.control.classes().waker().reset();
            self.handle_outcomes();
            // No question follows once the other end is closed.
            questions = questions.filter(|channel| self.describe(channel).is_ok());
        }
    }

    /// Gives the keeper a sign of life if that is due; returns when the next one is.
    fn beat(&mut self) -> Instant {
        let now = Driver::<LinkNetwork>::now();
        if now >= self.beat_at {
            self.beat_at = now.after(BEAT_GAP);
            // A keeper that does not receive looks again.
            let _unheard = self.keeper.send(&FromRsvp::Beat, &[]);
        }
        self.beat_at
    }

    /// Replies to a question of the forwarder, if there is one.
    fn describe(&self, questions: &Channel) -> Result<(), SystemError> {
        let Some((ask, _)) = questions.receive::<AskSessions>(std::time::Duration::ZERO)? else {
            return Ok(());
        };
        let now = Driver::<LinkNetwork>::now();
        let limit = ask.limit.min(SESSIONS_MAX) as usize;
        let described = status::describe(self.driver.node(), &self.control, limit, now);
        // A forwarder that has ended misses nothing.
        let _unheard = questions.send(&(ask.number, described), &[]);
        Ok(())
    }

    /// Preempts flows that lost their place, and removes classes of the former process; returns
    /// whether a turn has to follow.
    fn settle(&mut self) -> bool {
        let now = Driver::<LinkNetwork>::now();
        if self.former_until.is_some_and(|until| until <= now) {
            self.former_until = None;
            self.control.drop_former();
        }
        let losses = self.control.take_losses();
        for (flow, cause) in &losses {
            self.driver.call(|node, call| node.preempt(call, *flow, *cause));
        }
        !losses.is_empty()
    }

    /// Handles the outcomes of the thread of classes.
    fn handle_outcomes(&mut self) {
        while let Some(outcome) = self.control.classes().outcome() {
            match outcome {
                Outcome::Joined(flow, result) => {
                    if let Some(answer) = self.control.joined(flow, result) {
                        self.decide(flow, answer);
                    }
                }
                Outcome::Texts(texts) => match policy::read(&texts) {
                    Ok(read) => self.follow(read),
                    Err(why) => self.control.happened.push((What::Preempted, why)),
                },
            }
        }
    }

    fn decide(&mut self, flow: FlowId, answer: Result<(), Cause>) {
        self.driver.answer(flow, answer);
        let Err(cause) = answer else { return };
        let is_it = |one: &FlowView| one.id == flow && one.installed.is_some();
        let mut sessions = self.driver.node().sessions();
        if sessions.any(|session| session.flows.iter().any(is_it)) {
            // It was reserved before the change, and its class is gone.
            drop(sessions);
            self.driver.call(|node, call| node.preempt(call, flow, cause));
        }
    }

    /// Follows a change of the policy.
    fn follow(&mut self, read: policy::Read) {
        let interfaces = self.driver.network().interfaces();
        let mtu = interfaces.first().map_or(0, |shaped| shaped.mtu);
        let params = AdmissionParams::of(&read.settings, mtu, ETHERNET_HEADER);
        let admission = match Admission::new(read.policy, params) {
            Ok(admission) => admission,
            Err(why) => {
                self.control.happened.push((What::Preempted, why));
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
        self.control.follow(admission, &read.present, flows.into_iter());
        self.driver.call(|node, _| node.set_offers(SHAPED, offers));
    }

    /// Reports events to the keeper, one of each kind a second.
    fn report(&mut self) {
        let now = Driver::<LinkNetwork>::now();
        for (what, detail) in std::mem::take(&mut self.control.happened) {
            let unreported = self.unreported.entry(what).or_default();
            if self.reported_at.get(&what).is_some_and(|at| now < at.after(REPORT_GAP)) {
                *unreported += 1;
                continue;
            }
            let happening = Happening { what, detail, untold: std::mem::take(unreported) };
            self.reported_at.insert(what, now);
            // A keeper that does not receive misses it.
            let _unheard = self.keeper.send(&FromRsvp::Happened(happening), &[]);
        }
    }
}

/// Returns the settings of the node.
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
        // Without a setting, a router uses only what every router understands.
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

/// Returns the properties of an interface without classes for reservations: no service.
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
/// [rfc2215 §3.4] The least latency to the next hop; it is not known, and zero is never too much.
const LATENCY: Option<u32> = Some(0);
const ETHERNET_HEADER: u32 = 14;
const REPORT_GAP: Duration = Duration::from_secs(1);
/// The time between two signs of life.
const BEAT_GAP: Duration = Duration::from_secs(1);
/// How soon an interface that is gone is noticed.
const CHECK_GAP: Duration = Duration::from_millis(500);
