//! Path state: Path, PathTear and PathErr, and refreshes downstream [rfc2209 §2].

use weir_core::classify::InterfaceId;
use weir_core::units::{Duration, Instant};

use super::action::{Arrival, Event, Removal};
use super::outbox::{Call, Outbox, To};
use super::params::Route;
use super::state::{Neighbour, Sender, SessionState};
use crate::wire::{Body, Carried, Cause, ErrorSpec, Filter, Hop, Message, MessageId};
use crate::wire::{Path, PathError, PathTear, SenderDescriptor};

impl SessionState {
    /// Takes a Path [rfc2209 §2 "Path message arrives"].
    pub fn path(
        &mut self,
        call: Call<'_>,
        arrival: &Arrival<'_>,
        message: &Message,
        path: &Path,
        out: &mut Outbox,
    ) {
        let filter = path.sender.template;
        if let Some(cause) = self.path_fault(path, message.refused) {
            refuse_path(call.now, (path, arrival.interface), cause, out);
            return;
        }
        let route = call.route(self.key.destination, filter.source);
        // [rfc2205 §3.9] A multicast Path from elsewhere than the tree would double state.
        let astray = route.incoming.is_some_and(|incoming| incoming != arrival.interface);
        let known = self.senders.get(&filter);
        let is_own = known.is_some_and(|sender| sender.from.is_none());
        if astray || is_own {
            out.counts.stray += 1;
            return;
        }
        if known.is_none() && self.senders.len() >= out.params.limits.senders {
            out.counts.full += 1;
            return;
        }
        let mut sender = new_sender(call, arrival, message, path, out);
        if self.refreshes_former(&filter, &sender) {
            return;
        }
        let known = self.senders.get(&filter);
        sender.former = known.and_then(|known| known.before(&sender));
        sender.follow(&route, sender.from);
        let is_news = known.is_none_or(|known| !known.announces_the_same(&sender));
        if !is_news {
            let known = self.senders.get_mut(&filter).expect("only a known sender is no news");
            (known.expires, known.came_as) = (sender.expires, sender.came_as);
            return;
        }
        self.replace_sender(call, filter, sender, out);
        self.reconcile(call.because(Removal::Rerouted), out);
    }

    /// Puts a sender that is new or changed into the table and tells downstream.
    pub fn replace_sender(
        &mut self,
        call: Call<'_>,
        filter: Filter,
        mut sender: Sender,
        out: &mut Outbox,
    ) {
        if let Some(old) = self.senders.remove(&filter) {
            sender.message_ids = old.message_ids.clone();
            self.tear_left_interfaces(call.now, (&filter, &old), &mut sender, out);
        }
        sender.refresh_at = out.next_refresh(call.now);
        if sender.local {
            out.event(Event::Path {
                session: self.key,
                sender: filter,
                tspec: sender.tspec,
                adspec: sender.adspec.as_deref().cloned(),
            });
        }
        self.send_paths(call.now, filter, (&mut sender, true), out);
        self.senders.insert(filter, Box::new(sender));
    }

    /// After a change of route the former previous hop repeats its Path until its own state
    /// expires. Returns whether this is such a Path; the newer hop stays then.
    ///
    /// [rfc2209 §2] would take the hop of the latest Path, and change with each refresh of the two.
    fn refreshes_former(&mut self, filter: &Filter, sender: &Sender) -> bool {
        let Some(known) = self.senders.get_mut(filter) else { return false };
        let (Some(former), Some(from)) = (&mut known.former, sender.from) else { return false };
        if former.0 == from {
            former.1 = sender.expires.unwrap_or(former.1);
        }
        former.0 == from
    }

    /// Returns why a Path is refused.
    fn path_fault(&self, path: &Path, refused: Option<Cause>) -> Option<Cause> {
        let template = path.sender.template;
        let tspec = path.sender.tspec.filter(|tspec| tspec.fault().is_none());
        let same_host = |other: &&Filter| other.source == template.source && **other != template;
        let mut others = self.senders.keys().filter(same_host);
        match () {
            () if refused.is_some() => refused,
            () if tspec.is_none() => Some(Cause::BAD_TSPEC),
            // [rfc2205 §3.2] Port 0 and other ports of one sender cannot be told apart.
            () if others.any(|other| other.is_any_port() || template.is_any_port()) => {
                Some(Cause::SENDER_PORTS)
            }
            () => None,
        }
    }

    /// Takes a PathTear: the senders that it names, or all of its hop, go.
    pub fn path_tear(
        &mut self,
        call: Call<'_>,
        arrival: &Arrival<'_>,
        (tear, id): (&PathTear, Option<MessageId>),
        out: &mut Outbox,
    ) {
        let named = tear.sender.as_ref().map(|sender| sender.template);
        // [rfc2961 §4.6] A tear that comes again may be older than the state.
        let is_it = |from: Neighbour| {
            from.hop.address == tear.hop.address && from.interface == arrival.interface
        };
        let goes = |filter: &Filter, sender: &Sender| {
            named.is_none_or(|named| named == *filter)
                && !is_older(id, sender.came_as)
                && sender.from.is_some_and(is_it)
        };
        for sender in self.senders.values_mut() {
            sender.former = sender.former.filter(|(from, _)| !is_it(*from));
        }
        let gone = self.senders_that(goes);
        if gone.is_empty() {
            out.counts.stray += 1;
            return;
        }
        gone.iter().for_each(|filter| self.remove_sender(call.now, filter, out));
        self.reconcile(call, out);
    }

    fn senders_that(&self, are: impl Fn(&Filter, &Sender) -> bool) -> Vec<Filter> {
        let senders = self.senders.iter().filter(|(filter, sender)| are(filter, sender));
        senders.map(|(filter, _)| *filter).collect()
    }

    /// Forgets a sender and says so downstream, as after a PathTear or in time [rfc2205 §2.4].
    pub fn remove_sender(&mut self, now: Instant, filter: &Filter, out: &mut Outbox) {
        if let Some(sender) = self.senders.get_mut(filter)
            && let Some((from, expires)) = sender.former.take_if(|(_, expires)| *expires > now)
        {
            // The former hop still sends it: the route is the old one again.
            (sender.from, sender.expires) = (Some(from), Some(expires));
            return;
        }
        let Some(sender) = self.senders.remove(filter) else { return };
        if sender.local {
            out.event(Event::PathGone { session: self.key, sender: *filter });
        }
        for interface in sender.outgoing.clone() {
            self.tear_path(now, (filter, &sender), interface, out);
        }
        sender.message_ids.iter().for_each(|(_, number)| out.forget(*number));
    }

    /// Takes a PathErr, which goes on to the sender's previous hop [rfc2205 §3.1.7].
    pub fn path_error(
        &self,
        now: Instant,
        error: &PathError,
        carried: &[Carried],
        out: &mut Outbox,
    ) {
        let named = error.sender.as_ref().map(|sender| sender.template);
        let sender = named.and_then(|named| self.senders.get(&named));
        let Some(sender) = sender else {
            out.counts.stray += 1;
            return;
        };
        let Some(from) = sender.from else {
            let (session, error) = (self.key, error.error);
            out.event(Event::PathError { session, error, sender: named });
            return;
        };
        if let Some(to) = out.neighbour(from.interface, from.hop.address) {
            out.send_news(now, to, (Body::PathErr(error.clone()), carried), None);
        }
    }

    /// Sends the refreshes of senders that are due, and forgets those that expired. Returns why
    /// flows go if something changed.
    pub fn refresh_senders(&mut self, call: Call<'_>, out: &mut Outbox) -> Option<Removal> {
        let now = call.now;
        let is_expired =
            |_: &Filter, sender: &Sender| sender.expires.is_some_and(|expires| expires <= now);
        let gone = self.senders_that(is_expired);
        gone.iter().for_each(|filter| self.remove_sender(now, filter, out));
        let mut is_rerouted = false;
        for filter in self.senders_that(|_, sender| sender.refresh_at <= now) {
            is_rerouted |= self.refresh_sender(call, filter, out);
        }
        match (gone.is_empty(), is_rerouted) {
            (false, _) => Some(Removal::Expired),
            (true, true) => Some(Removal::Rerouted),
            (true, false) => None,
        }
    }

    /// Sends a sender's refresh along the route of now; returns whether that changed
    /// [rfc2205 §3.6].
    fn refresh_sender(&mut self, call: Call<'_>, filter: Filter, out: &mut Outbox) -> bool {
        let old = self.senders.remove(&filter).expect("a sender that is due is in the table");
        let route = call.route(self.key.destination, filter.source);
        let mut sender = old.clone();
        sender.follow(&route, sender.from);
        sender.refresh_at = out.next_refresh(call.now);
        let changed = sender.outgoing != old.outgoing || sender.local != old.local;
        if changed {
            self.tear_left_interfaces(call.now, (&filter, &old), &mut sender, out);
        }
        self.send_paths(call.now, filter, (&mut sender, changed), out);
        self.senders.insert(filter, sender);
        changed
    }

    /// Tears the path on interfaces by which it does not leave any more.
    fn tear_left_interfaces(
        &self,
        now: Instant,
        (filter, old): (&Filter, &Sender),
        sender: &mut Sender,
        out: &mut Outbox,
    ) {
        let left = old.outgoing.iter().filter(|one| !sender.outgoing.contains(one));
        left.for_each(|interface| self.tear_path(now, (filter, old), *interface, out));
        let outgoing = &sender.outgoing;
        sender.message_ids.retain(|(interface, number)| {
            let keep = outgoing.contains(interface);
            if !keep {
                out.forget(*number);
            }
            keep
        });
    }

    /// Sends a Path by each interface; one that is no news is sent as its identifier where the next
    /// hop has acknowledged that.
    fn send_paths(
        &self,
        now: Instant,
        filter: Filter,
        (sender, is_news): (&mut Sender, bool),
        out: &mut Outbox,
    ) {
        let former = std::mem::take(&mut sender.message_ids);
        for interface in sender.outgoing.clone() {
            let number = former.iter().find(|(on, _)| *on == interface).map(|(_, number)| *number);
            if let Some(number) = number.filter(|one| !is_news && out.summarise(interface, *one)) {
                sender.message_ids.push((interface, number));
                continue;
            }
            number.iter().for_each(|number| out.forget(*number));
            self.send_path(now, (filter, interface), sender, out);
        }
    }

    /// Sends message `number` again, since a neighbour does not know it, though a refresh named it.
    pub fn send_again(&mut self, call: Call<'_>, number: u32, out: &mut Outbox) {
        if let Some(at) = self.upstreams.iter().position(|one| one.id == Some(number)) {
            return self.report_upstream(call, at, out);
        }
        let has = |ids: &Vec<(InterfaceId, u32)>| ids.iter().position(|one| one.1 == number);
        for filter in self.senders_that(|_, sender| has(&sender.message_ids).is_some()) {
            let mut sender = self.senders.remove(&filter).expect("it was found");
            let (interface, _) =
                sender.message_ids.remove(has(&sender.message_ids).expect("it was found"));
            self.send_path(call.now, (filter, interface), &mut sender, out);
            self.senders.insert(filter, sender);
        }
    }

    /// Sends a Path by an interface, as news.
    fn send_path(
        &self,
        now: Instant,
        (filter, interface): (Filter, InterfaceId),
        sender: &mut Sender,
        out: &mut Outbox,
    ) {
        let Some((to, path)) = self.path_message(filter, sender, interface, out) else { return };
        let number = out.send_news(now, to, (path, &sender.carried), Some(self.key));
        sender.message_ids.extend(number.map(|number| (interface, number)));
    }

    /// The Path for an interface [rfc2209 §2 "PATH REFRESH"]; none if it may go no further.
    fn path_message(
        &self,
        filter: Filter,
        sender: &Sender,
        interface: InterfaceId,
        out: &mut Outbox,
    ) -> Option<(To, Body)> {
        let to = self.downstream(&filter, sender, interface, out)?;
        let hop = own_hop(interface, to, out)?;
        let mut adspec = sender.adspec.as_deref().cloned();
        if let Some(adspec) = &mut adspec {
            adspec.pass(&out.interface(interface)?.offers);
        }
        let path = Path {
            session: self.key,
            // [rfc2205 §3.8] The first router polices, so only the sender's host says so.
            police: sender.from.is_none() && sender.police,
            hop,
            period: millis(out.params.timers.period),
            policies: sender.policies.clone(),
            sender: SenderDescriptor { template: filter, tspec: Some(sender.tspec), adspec },
        };
        Some((to, Body::Path(path)))
    }

    fn tear_path(
        &self,
        now: Instant,
        (filter, sender): (&Filter, &Sender),
        interface: InterfaceId,
        out: &mut Outbox,
    ) {
        let Some(mut to) = self.downstream(filter, sender, interface, out) else { return };
        to.understood |= self.next_hops_understand(interface, out);
        let Some(hop) = own_hop(interface, to, out) else { return };
        let descriptor =
            SenderDescriptor { template: *filter, tspec: Some(sender.tspec), adspec: None };
        let tear = PathTear { session: self.key, hop, sender: Some(descriptor) };
        out.send_news(now, to, (Body::PathTear(tear), &[]), None);
    }

    /// Returns whether there are next hops on an interface and all understand identifiers. Only a
    /// tear rests on that: a Path may come to another hop when the route changes.
    fn next_hops_understand(&self, interface: InterfaceId, out: &Outbox) -> bool {
        let next = self.reservations.iter().filter_map(|reserved| reserved.from);
        let mut here = next.filter(|from| from.interface == interface).peekable();
        here.peek().is_some() && here.all(|from| out.is_understood_by(interface, from.hop.address))
    }

    /// [rfc2205 §3.1.3] A Path has the addresses of the data that it describes.
    fn downstream(
        &self,
        filter: &Filter,
        sender: &Sender,
        interface: InterfaceId,
        out: &Outbox,
    ) -> Option<To> {
        out.interface(interface)?;
        let (source, destination) = (filter.source, self.key.destination);
        let (ttl, understood) = (sender.ttl, out.reduces(interface));
        (ttl > 0).then_some(To { interface, source, destination, ttl, alert: true, understood })
    }
}

impl Sender {
    /// Takes the route of now; packets never leave by the interface by which they came.
    pub fn follow(&mut self, route: &Route, from: Option<Neighbour>) {
        let incoming = from.map(|from| from.interface);
        self.outgoing = route.outgoing.clone();
        self.outgoing.retain(|interface| Some(*interface) != incoming);
        self.outgoing.sort_unstable();
        self.outgoing.dedup();
        self.local = route.local;
    }

    /// The previous hop that another Path replaces.
    fn before(&self, other: &Sender) -> Option<(Neighbour, Instant)> {
        if self.from == other.from {
            return self.former;
        }
        self.from.zip(self.expires)
    }

    /// Returns whether another Path brings no news.
    fn announces_the_same(&self, other: &Sender) -> bool {
        self.from == other.from
            && self.tspec == other.tspec
            && self.adspec == other.adspec
            && self.policies == other.policies
            && self.carried == other.carried
            && self.police == other.police
            && self.ttl == other.ttl
            && self.outgoing == other.outgoing
            && self.local == other.local
    }
}

/// The sender that a Path describes.
fn new_sender(
    call: Call<'_>,
    arrival: &Arrival<'_>,
    message: &Message,
    path: &Path,
    out: &Outbox,
) -> Sender {
    let mut adspec = path.sender.adspec.clone();
    // [rfc2205 §3.8] A router without RSVP lowers the IP TTL and not that in the message.
    if message.ttl != arrival.ttl {
        adspec.iter_mut().for_each(|adspec| adspec.mark_broken());
    }
    let lifetime = out.params.timers.lifetime(period(path.period));
    Sender {
        from: Some(Neighbour { interface: arrival.interface, hop: path.hop }),
        tspec: path.sender.tspec.expect("`path_fault` refuses a Path without Tspec"),
        adspec: adspec.map(Box::new),
        policies: path.policies.clone(),
        carried: message.carried.clone(),
        police: path.police,
        ttl: arrival.ttl.saturating_sub(1),
        outgoing: Vec::new(),
        local: false,
        expires: Some(call.now.after(lifetime)),
        refresh_at: call.now,
        came_as: message.id.map(|id| id.id),
        former: None,
        message_ids: Vec::new(),
    }
}

/// Sends a PathErr to the hop that a Path came from.
pub fn refuse_path(
    now: Instant,
    (path, interface): (&Path, InterfaceId),
    cause: Cause,
    out: &mut Outbox,
) {
    out.counts.refused += 1;
    let Some(to) = out.neighbour(interface, path.hop.address) else { return };
    let error = ErrorSpec { node: to.source, in_place: false, not_guilty: false, cause };
    let sender = Some(path.sender.clone());
    let error = PathError { session: path.session, error, policies: Vec::new(), sender };
    out.send_news(now, to, (Body::PathErr(error), &[]), None);
}

/// This node as the previous hop of what leaves by an interface.
fn own_hop(interface: InterfaceId, to: To, out: &mut Outbox) -> Option<Hop> {
    let Some(address) = out.address(interface, to.destination) else {
        out.counts.unaddressed += 1;
        return None;
    };
    Some(Hop { address, handle: u32::from(interface.0) })
}

/// A refresh period of a neighbour, kept within reason: a tenth of a second to a day.
pub fn period(millis: u32) -> Duration {
    Duration::from_millis(u64::from(millis).clamp(PERIOD_MIN, PERIOD_MAX))
}

/// A period in the milliseconds of TIME_VALUES.
pub fn millis(period: Duration) -> u32 {
    u32::try_from(period.as_nanos() / 1_000_000).unwrap_or(u32::MAX)
}

/// Returns whether `id` is older than what the state came as: numbers of one epoch grow, and wrap
/// around [rfc2961 §4.6].
pub fn is_older(id: Option<MessageId>, known: Option<MessageId>) -> bool {
    let (Some(id), Some(known)) = (id, known) else { return false };
    id.epoch == known.epoch && (id.number.wrapping_sub(known.number) as i32) < 0
}

const PERIOD_MIN: u64 = 100;
const PERIOD_MAX: u64 = 86_400_000;
