//! Random networks beside an obvious twin: after senders and receivers came, changed and went, each
//! interface has just the flows that follow from who sends, who reserves, and the paths between.

use crate::common::net;
use crate::seeds::seeds;

use std::collections::BTreeMap;
use std::net::IpAddr;

use net::{Net, Setup, reservation};
use weir_core::random::Random;
use weir_core::units::Duration;
use weir_rsvp::wire::{Filter, Reservation, Session, Style};

/// A node and the next one.
type Edge = (usize, usize);

/// The senders and receivers of a session, from which flows are computed anew.
struct Twin {
    style: Style,
    /// The senders that send: their node.
    senders: BTreeMap<Filter, usize>,
    /// The reservation of each receiver: rate by sender; with WF and SE all have one rate.
    receivers: BTreeMap<usize, Vec<(Filter, f32)>>,
}

impl Twin {
    /// The flows of each directed edge, with FF by sender: the largest rate that a receiver beyond
    /// it wants.
    fn flows(&self, net: &Net) -> Vec<(Edge, Option<Filter>, f32)> {
        let mut flows: BTreeMap<(Edge, Option<Filter>), f32> = BTreeMap::new();
        let mut paths = Vec::new();
        for (receiver, wants) in &self.receivers {
            for (sender, rate) in wants {
                let path = net.map.path(self.senders[sender], *receiver);
                let fixed = (self.style == Style::Fixed).then_some(*sender);
                for edge in path.windows(2) {
                    let flow = flows.entry(((edge[0], edge[1]), fixed)).or_default();
                    *flow = flow.max(*rate);
                }
                paths.push(path);
            }
        }
        if self.style != Style::Fixed {
            let pairs = paths.iter().flat_map(|path| path.windows(3));
            let pairs: Vec<[Edge; 2]> =
                pairs.map(|three| [(three[0], three[1]), (three[1], three[2])]).collect();
            spread(&mut flows, &pairs);
        }
        flows.into_iter().map(|((edge, sender), rate)| (edge, sender, rate)).collect()
    }

    fn withdraw(&mut self, sender: &Filter) {
        self.senders.remove(sender);
        for wants in self.receivers.values_mut() {
            wants.retain(|(other, _)| other != sender);
        }
        self.receivers.retain(|_, wants| !wants.is_empty());
    }

    /// With WF a sender that comes is reserved for by all.
    fn announce(&mut self, sender: Filter, node: usize) {
        self.senders.insert(sender, node);
        for wants in self.receivers.values_mut().filter(|_| self.style == Style::Wildcard) {
            let rate = wants[0].1;
            wants.retain(|(other, _)| *other != sender);
            wants.push((sender, rate));
        }
    }
}

/// A shared flow has at least the rate of the next one on the path of some sender, of whichever
/// sender that rate is wanted: a node merges the rates of its next hops [rfc2205 §1.4, Figure 7].
fn spread(flows: &mut BTreeMap<(Edge, Option<Filter>), f32>, pairs: &[[Edge; 2]]) {
    // A path has fewer edges than there are pairs of them in the tree.
    for _ in 0..=pairs.len() {
        let before = flows.clone();
        for [edge, next] in pairs {
            let rate = flows[&(*next, None)];
            let flow = flows.get_mut(&(*edge, None)).expect("each edge of a path has a flow");
            *flow = flow.max(rate);
        }
        if *flows == before {
            return;
        }
    }
    panic!("rates in a tree settle");
}

/// Returns the flows in traffic control, in the form of `Twin::flows`.
fn installed(net: &Net, links: &[Edge]) -> Vec<(Edge, Option<Filter>, f32)> {
    let far = |node: usize, interface: u16| {
        let mut at_node = links.iter().filter(|(one, other)| [*one, *other].contains(&node));
        let (one, other) = at_node.nth(interface.into()).expect("interfaces are numbered by wire");
        if *one == node { *other } else { *one }
    };
    let mut flows: Vec<_> = net
        .installed
        .iter()
        .map(|((node, _), request)| {
            let sender = (request.style == Style::Fixed).then(|| request.filters[0]);
            let edge = (*node, far(*node, request.interface.0));
            (edge, sender, request.flowspec.tspec().rate)
        })
        .collect();
    flows.sort_by_key(|(edge, sender, _)| (*edge, *sender));
    flows
}

/// A random tree; with FF also rings. In a ring, shared reservations of senders whose trees differ
/// can keep each other alive after their receivers left, for RSVP merges their rates.
fn random_links(random: &mut Random, nodes: usize, style: Style) -> Vec<Edge> {
    let mut links: Vec<_> =
        (1..nodes).map(|node| (random.below(node as u32) as usize, node)).collect();
    let more = if style == Style::Fixed { random.below(3) } else { 0 };
    for _ in 0..more {
        let (one, other) =
            (random.below(nodes as u32) as usize, random.below(nodes as u32) as usize);
        let is_new = !links.contains(&(one, other)) && !links.contains(&(other, one));
        if one != other && is_new {
            links.push((one, other));
        }
    }
    links
}

fn step(random: &mut Random, net: &mut Net, twin: &mut Twin, session: Session, nodes: usize) {
    let node = random.below(nodes as u32) as usize;
    let home = net.home(node);
    let sender = Filter::new(home, 4000 + random.below(2) as u16);
    let known: Vec<Filter> = twin.senders.keys().copied().collect();
    match random.below(5) {
        0 | 1 => {
            net.announce(node, session, sender, 5000.0);
            twin.announce(sender, node);
        }
        2 if twin.senders.contains_key(&sender) => {
            net.withdraw(node, session, sender);
            twin.withdraw(&sender);
        }
        3 if twin.receivers.contains_key(&node) => {
            net.release(node, session);
            twin.receivers.remove(&node);
        }
        _ if !known.is_empty() => {
            let (wanted, wants) = random_claim(random, twin.style, &known);
            assert_eq!(net.reserve(node, session, wanted), Ok(()), "node {node} knows the senders");
            twin.receivers.insert(node, wants);
        }
        _ => {}
    }
    // Far longer than a message takes, far shorter than a refresh period.
    net.run_for(Duration::from_millis(200));
}

fn random_claim(
    random: &mut Random,
    style: Style,
    known: &[Filter],
) -> (Reservation, Vec<(Filter, f32)>) {
    let mut some: Vec<Filter> = known.iter().copied().filter(|_| random.below(2) == 0).collect();
    if some.is_empty() || style == Style::Wildcard {
        some = known.to_vec();
    }
    let mut rate = || 10.0 + random.below(50) as f32;
    if style != Style::Fixed {
        let rate = rate();
        let wants = some.iter().map(|sender| (*sender, rate)).collect();
        return (reservation(style, rate, &some), wants);
    }
    let wants: Vec<(Filter, f32)> = some.iter().map(|sender| (*sender, rate())).collect();
    let each = wants.iter().map(|(sender, rate)| reservation(style, *rate, &[*sender]));
    let descriptors = each.flat_map(|one| one.descriptors).collect();
    (Reservation { style, descriptors }, wants)
}

#[test]
fn random_networks_reserve_what_their_receivers_want() {
    for seed in seeds(60) {
        println!("seed {seed}");
        let mut random = Random::new(seed, 1);
        let nodes = 3 + random.below(6) as usize;
        let style = [Style::Wildcard, Style::Fixed, Style::Shared][random.below(3) as usize];
        let links = random_links(&mut random, nodes, style);
        let (v6, reduction) = (random.below(2) == 0, random.below(2) == 0);
        let mut net = Net::new(Setup { seed, v6, reduction }, &links);
        let group = match v6 {
            true => IpAddr::from([0xff0e, 0, 0, 0, 0, 0, 0, 1]),
            false => IpAddr::from([239, 1, 1, 1]),
        };
        net.map.members.insert(group, (0..nodes).collect());
        let session = Session::udp(group, 5000);
        let (senders, receivers) = (BTreeMap::new(), BTreeMap::new());
        let mut twin = Twin { style, senders, receivers };
        for number in 0..20 {
            step(&mut random, &mut net, &mut twin, session, nodes);
            let expected = twin.flows(&net);
            assert_eq!(installed(&net, &links), expected, "seed {seed}, step {number}, {style}");
        }
        net.check_flows();
        // Refreshes change nothing.
        let changes = net.changes.len();
        net.run_for(Duration::from_secs(100));
        assert_eq!(net.changes.len(), changes, "seed {seed}");
    }
}
