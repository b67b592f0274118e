//! Networks of nodes: set-up, teardown, loss, routes that change, killer reservations, integrity.

use crate::common::net;

use std::net::IpAddr;

use net::{Net, PLAIN, Setup, reservation, seconds};
use weir_core::units::{Duration, Instant};
use weir_rsvp::integrity::{Hash, Key, Security};
use weir_rsvp::intserv::Adspec;
use weir_rsvp::node::{Event, HostError, Limits, Timers};
use weir_rsvp::wire::{Cause, ErrorSpec, Filter, Session, Style};

/// A chain of hosts 0 and 4 with three routers between them, and the session from 0 to 4.
fn chain(setup: Setup) -> (Net, Session, Filter) {
    let net = Net::chain(setup, LAST);
    let session = Session::udp(net.address(LAST - 1, 2), 5000);
    let sender = Filter::new(net.address(0, 1), 4000);
    (net, session, sender)
}

const LAST: usize = 4;

/// Node 0 sends, node `LAST` reserves as soon as it hears of it; returns whether all nodes on the
/// way have the flow by `end`.
fn set_up(net: &mut Net, session: Session, sender: Filter, end: Instant) -> bool {
    let known = |net: &Net| net.nodes[LAST].session(&session).is_some();
    net.announce(0, session, sender, 1000.0);
    loop {
        if !net.run(end, known) {
            return false;
        }
        let reserved = net.reserve(LAST, session, reservation(Style::Fixed, 800.0, &[sender]));
        assert_eq!(reserved, Ok(()), "the sender is known");
        // Path state may expire under loss, and the reservation with it: then it is made again.
        let ends = |net: &Net| net.installed.len() == LAST || !known(net);
        if net.run(end, ends) && net.installed.len() == LAST {
            return true;
        }
        if net.now >= end {
            return false;
        }
    }
}

fn is_confirmed(net: &Net, node: usize) -> bool {
    let confirmed = |(_, at, event): &(Instant, usize, Event)| {
        *at == node && matches!(event, Event::Confirmed { .. })
    };
    net.events.iter().any(confirmed)
}

#[test]
fn a_reservation_reaches_the_sender_and_is_confirmed() {
    for (v6, reduction) in [(false, false), (true, false), (false, true), (true, true)] {
        let setup = Setup { v6, reduction, ..PLAIN };
        let (mut net, session, sender) = chain(setup);
        assert!(set_up(&mut net, session, sender, seconds(1)), "{v6} {reduction}");
        net.run_until(seconds(1));
        assert!(is_confirmed(&net, LAST), "the receiver is told");
        let told = net.events.iter().any(|(_, at, event)| {
            *at == 0 && matches!(event, Event::Reserved { reservation: Some(_), .. })
        });
        assert!(told, "the sender is told");
        net.check_flows();
        // Two hours of refreshes change nothing.
        let changes = net.changes.len();
        net.run_for(Duration::from_secs(7200));
        assert_eq!((net.installed.len(), net.changes.len()), (LAST, changes));
        let refused: u64 = net.nodes.iter().map(|node| node.counts().refused).sum();
        assert_eq!(refused, 0);
    }
}

#[test]
fn the_adspec_adds_up_the_hops() {
    let (mut net, session, sender) = chain(PLAIN);
    net.announce(0, session, sender, 1000.0);
    net.run_until(seconds(1));
    let adspec: Vec<Adspec> = net
        .events
        .iter()
        .filter_map(|(_, node, event)| match event {
            Event::Path { adspec, .. } if *node == LAST => adspec.clone(),
            _ => None,
        })
        .collect();
    let general = adspec[0].general;
    assert_eq!((general.hops, general.latency, general.mtu), (4, 4000, 1500));
    assert!(!general.broken, "all nodes speak RSVP");
    let total = adspec[0].guaranteed.expect("all nodes offer it").total;
    assert_eq!((total.c, total.d), (6000, 400));
}

#[test]
fn teardown_leaves_nothing() {
    for reduction in [false, true] {
        for sender_first in [false, true] {
            let setup = Setup { reduction, ..PLAIN };
            let (mut net, session, sender) = chain(setup);
            assert!(set_up(&mut net, session, sender, seconds(1)));
            if sender_first {
                net.withdraw(0, session, sender);
                net.run_until(seconds(2));
            } else {
                net.release(LAST, session);
                net.run_until(seconds(2));
                assert_eq!(net.installed.len(), 0, "no flow outlives its reservation");
                assert_eq!(net.sessions(), LAST + 1, "the sender is still there");
                net.withdraw(0, session, sender);
                net.run_until(seconds(3));
            }
            assert_eq!((net.sessions(), net.installed.len()), (0, 0));
            net.run_for(Duration::from_secs(1000));
            assert_eq!(net.sessions(), 0);
        }
    }
}

/// [rfc2205 §3.7] A message goes at least every 1.5 R. With half of them lost, a hop is passed after
/// two tries on average.
#[test]
fn half_of_all_messages_lost_delay_a_reservation_and_do_not_prevent_it() {
    let mut times = [Vec::new(), Vec::new()];
    for seed in 0..60 {
        for (at, reduction) in [false, true].into_iter().enumerate() {
            let setup = Setup { seed, reduction, ..PLAIN };
            let (mut net, session, sender) = chain(setup);
            net.loss = 500;
            // The 8 hops of Path and Resv, each lost 5 times: one in 10^4 runs is slower.
            let end = seconds(40 * 45);
            assert!(set_up(&mut net, session, sender, end), "seed {seed}, reduction {reduction}");
            times[at].push(net.now.as_nanos() / 1_000_000_000);
            // Once nothing is lost, all is in place after a refresh a hop and direction.
            net.loss = 0;
            let path = net.now.after(Duration::from_secs(45 * LAST as u64));
            net.run_until(path);
            if net.nodes[LAST].session(&session).is_none_or(|view| view.reservations.is_empty()) {
                let again = net.reserve(LAST, session, reservation(Style::Fixed, 800.0, &[sender]));
                assert_eq!(again, Ok(()), "seed {seed}");
            }
            net.run_for(Duration::from_secs(45 * LAST as u64));
            assert_eq!(net.installed.len(), LAST, "seed {seed}, reduction {reduction}");
            net.check_flows();
        }
    }
    let median = |times: &mut Vec<u64>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    let [plain, reliable] = &mut times;
    let (plain, reliable) = (median(plain), median(reliable));
    println!("median set-up under 50 % loss: {plain} s, with acknowledgements {reliable} s");
    // Twice a hop's mean of one lost message, each 1.5 R at most.
    assert!(plain <= 8 * 45, "{plain} s");
    assert!(reliable <= plain / 2, "{reliable} s");
}

/// Releases a reservation while messages get lost; returns when each node on the way lost its flow,
/// beginning beside the receiver.
fn lost_tears(setup: Setup, loss: u32) -> Vec<Instant> {
    let (mut net, session, sender) = chain(setup);
    assert!(set_up(&mut net, session, sender, seconds(1)));
    net.run_until(seconds(100));
    net.loss = loss;
    net.release(LAST, session);
    let mut gone = vec![net.now];
    for node in (0..LAST).rev() {
        let end = net.now.after(Timers::default().lifetime(Duration::from_secs(30)));
        let is_gone = |net: &Net| net.installed.keys().all(|(at, _)| *at != node);
        assert!(net.run(end, is_gone), "node {node} keeps it longer than its lifetime: {setup:?}");
        gone.push(net.now);
    }
    net.check_flows();
    gone
}

/// [rfc2205 §3.7] A node forgets what is not refreshed after L = (K + 0.5) 1.5 R, whatever is lost;
/// where tears are acknowledged it hears of the end within seconds.
#[test]
fn a_lost_tear_is_cleaned_up_within_the_lifetime_of_a_hop() {
    for loss in [300, 500] {
        let mut medians = Vec::new();
        for reduction in [false, true] {
            let mut times: Vec<u64> = (0..60)
                .map(|seed| {
                    let gone = lost_tears(Setup { seed, reduction, ..PLAIN }, loss);
                    gone[LAST].since(gone[0]).as_nanos() / 1_000_000
                })
                .collect();
            times.sort_unstable();
            medians.push(times[times.len() / 2]);
        }
        println!("loss {loss} in 1000: median end of all flows {medians:?} ms, plain and reliable");
        // Three tries a hop within 1.5 s: at half of the messages lost, 59 % of the rows of four.
        assert!(medians[1] <= 6_000, "{medians:?}");
        assert!(
            medians[0] > 10 * medians[1],
            "a plain tear that is lost takes a lifetime: {medians:?}"
        );
    }
}

/// A receiver asks for a confirmation with each refresh until one comes. Where messages are
/// acknowledged, the confirmation is sent again before that.
#[test]
fn a_lost_confirmation_is_sent_again() {
    let mut medians = Vec::new();
    for reduction in [false, true] {
        let (mut times, mut told) = (Vec::new(), 0);
        for seed in 0..60 {
            let (mut net, session, sender) = chain(Setup { seed, reduction, ..PLAIN });
            net.announce(0, session, sender, 1000.0);
            net.run_until(seconds(1));
            let claim = reservation(Style::Fixed, 800.0, &[sender]);
            assert_eq!(net.reserve(LAST, session, claim), Ok(()));
            // The Resv passes, and half of what comes after it does not.
            assert!(net.run(seconds(2), |net| net.installed.len() == LAST));
            net.loss = 500;
            let start = net.now;
            // So long all state lives, whatever is lost.
            net.run(start.after(Duration::from_secs(150)), |net| is_confirmed(net, LAST));
            times.push(net.now.since(start).as_nanos() / 1_000_000);
            let confirmed = |(_, at, event): &&(Instant, usize, Event)| {
                *at == LAST && matches!(event, Event::Confirmed { .. })
            };
            net.loss = 0;
            net.run_for(Duration::from_secs(60));
            told += net.events.iter().filter(confirmed).count();
        }
        times.sort_unstable();
        medians.push(times[times.len() / 2]);
        // One that comes after the receiver asked again makes two; a repetition makes none.
        println!("{told} confirmations of 60 reservations, reduction: {reduction}");
        assert!(told <= 80, "{told} confirmations");
    }
    println!("median confirmation under 50 % loss: {medians:?} ms, plain and reliable");
    assert!(medians[1] <= 6_000 && medians[0] > 20_000, "{medians:?}");
}

/// A ResvErr comes again with the next refresh of what was refused. Where messages are
/// acknowledged, it is sent again before that.
#[test]
fn a_lost_error_is_sent_again() {
    let mut late = Vec::new();
    for reduction in [false, true] {
        let mut times = Vec::new();
        for seed in 0..60 {
            let (mut net, session, sender) = chain(Setup { seed, reduction, ..PLAIN });
            net.announce(0, session, sender, 1000.0);
            net.run_until(seconds(1));
            // The last router has no room.
            net.capacity.insert((LAST - 1, 1), 100.0);
            let claim = reservation(Style::Fixed, 800.0, &[sender]);
            assert_eq!(net.reserve(LAST, session, claim), Ok(()));
            // The Resv passes, and half of what comes after it does not.
            let sent = net.sent;
            assert!(net.run(seconds(2), |net| net.sent > sent));
            net.loss = 500;
            let start = net.now;
            net.run(start.after(Duration::from_secs(150)), |net| !errors_at(net, LAST).is_empty());
            times.push(net.now.since(start).as_nanos() / 1_000_000);
        }
        times.sort_unstable();
        late.push(times[times.len() * 3 / 4]);
    }
    println!("a quarter of errors under 50 % loss comes after {late:?} ms, plain and reliable");
    assert!(late[1] <= 2_000 && late[0] > 10_000, "{late:?}");
}

/// [rfc2961 §4.6] A tear that was lost is sent again; by then its state may be there anew.
#[test]
fn a_tear_that_comes_late_leaves_newer_state() {
    for sender_side in [true, false] {
        let (mut net, session, sender) = chain(Setup { reduction: true, ..PLAIN });
        assert!(set_up(&mut net, session, sender, seconds(1)));
        net.run_until(seconds(2));
        let claim = reservation(Style::Fixed, 800.0, &[sender]);
        net.loss = 1000;
        match sender_side {
            true => net.withdraw(0, session, sender),
            false => net.release(LAST, session),
        }
        net.run_for(Duration::from_millis(10));
        net.loss = 0;
        match sender_side {
            true => net.announce(0, session, sender, 1000.0),
            false => assert_eq!(net.reserve(LAST, session, claim), Ok(())),
        }
        let changes = net.changes.len();
        net.run_for(Duration::from_secs(10));
        let later: Vec<_> = net.changes[changes..].iter().filter(|one| one.2 == "torn").collect();
        assert!(later.is_empty(), "sender: {sender_side}: {later:?}");
        assert_eq!(net.sessions(), LAST + 1, "sender: {sender_side}");
        net.check_flows();
    }
}

/// A host that learns who understands identifiers uses them with a router that does, and with no
/// other.
#[test]
fn identifiers_are_used_with_neighbours_that_say_so() {
    for routers_reduce in [false, true] {
        let (mut net, session, sender) = Net::with_hosts(PLAIN, LAST, routers_reduce);
        assert!(set_up(&mut net, session, sender, seconds(1)));
        net.run_until(seconds(2));
        net.loss = 1000;
        net.release(LAST, session);
        net.run_for(Duration::from_millis(10));
        net.loss = 0;
        net.run_for(Duration::from_secs(2));
        let left = if routers_reduce { 0 } else { LAST };
        assert_eq!(net.installed.len(), left, "routers reduce: {routers_reduce}");
        let waiting = net.nodes[LAST].unacknowledged();
        assert_eq!(waiting, 0, "routers reduce: {routers_reduce}");
        let again = net.nodes[LAST].counts().retransmitted;
        assert_eq!(again > 0, routers_reduce, "{again}");
    }
}

#[test]
fn a_flow_says_why_it_goes() {
    let words = |net: &Net, node: usize| -> Vec<&'static str> {
        let own = net.changes.iter().filter(|change| change.1 == node);
        own.map(|change| change.2).filter(|word| !["add", "modify"].contains(word)).collect()
    };
    let (mut net, session, sender) = chain(PLAIN);
    assert!(set_up(&mut net, session, sender, seconds(1)));
    net.release(LAST, session);
    net.run_until(seconds(2));
    assert_eq!(words(&net, 2), ["torn"]);
    let (mut net, session, sender) = chain(PLAIN);
    assert!(set_up(&mut net, session, sender, seconds(1)));
    net.silence(LAST);
    net.run_until(seconds(400));
    assert_eq!(words(&net, LAST - 1), ["expired"]);
    assert_eq!(words(&net, LAST - 2), ["torn"], "the node behind it tears");
}

#[test]
fn state_lives_no_longer_than_the_cleanup_timeout() {
    // [rfc2205 §3.7] L = (K + 0.5) 1.5 R.
    let lifetime = Timers::default().lifetime(Duration::from_secs(30));
    assert_eq!(lifetime, Duration::from_millis(157_500));
    for (silent, left) in [(LAST, LAST), (0, 0)] {
        let (mut net, session, sender) = chain(PLAIN);
        assert!(set_up(&mut net, session, sender, seconds(1)));
        net.run_until(seconds(100));
        net.silence(silent);
        net.run_for(lifetime);
        // A neighbour's death ends what it refreshed; the rest is torn.
        net.run_for(Duration::from_secs(1));
        assert_eq!(net.installed.keys().filter(|(node, _)| *node != silent).count(), 0);
        let others = net.nodes.iter().enumerate().filter(|(node, _)| *node != silent);
        let sessions: usize = others.map(|(_, node)| node.sessions().count()).sum();
        assert_eq!(sessions, left, "after node {silent} fell silent");
    }
}

#[test]
fn a_reservation_follows_its_route() {
    // 0 - 1 - 2 - 4 - 5, and 1 - 3 - 6 - 4, which is longer.
    let links = [(0, 1), (1, 2), (2, 4), (4, 5), (1, 3), (3, 6), (6, 4)];
    for reduction in [false, true] {
        let mut net = Net::new(Setup { reduction, ..PLAIN }, &links);
        let session = Session::udp(net.address(3, 2), 5000);
        let sender = Filter::new(net.address(0, 1), 4000);
        net.announce(0, session, sender, 1000.0);
        net.run_until(seconds(1));
        let shared = reservation(Style::Shared, 500.0, &[sender]);
        assert_eq!(net.reserve(5, session, shared), Ok(()));
        net.run_until(seconds(2));
        let with_flow =
            |net: &Net| -> Vec<usize> { net.installed.keys().map(|(node, _)| *node).collect() };
        assert_eq!(with_flow(&net), [0, 1, 2, 4]);
        net.set_wire(1, false);
        // [rfc2205 §3.6] The Path follows after W = 2 s, the Resv with it.
        net.run_for(Duration::from_millis(1990));
        assert_eq!(with_flow(&net), [0, 1, 2, 4]);
        net.run_for(Duration::from_millis(100));
        assert!([0, 1, 3, 4, 6].iter().all(|node| with_flow(&net).contains(node)));
        net.run_for(Duration::from_secs(200));
        assert_eq!(with_flow(&net), [0, 1, 3, 4, 6], "what was left behind expires");
        let why = |node: usize| {
            let last = net.changes.iter().rev().find(|change| change.1 == node);
            last.map(|change| change.2)
        };
        assert_eq!(why(2), Some("expired"), "{:?}", net.changes);
        assert!(net.changes.iter().any(|change| change.1 == 1 && change.2 == "rerouted"));
        net.check_flows();
        net.set_wire(1, true);
        net.run_for(Duration::from_millis(2100));
        assert_eq!(with_flow(&net), [0, 1, 2, 4], "the way back is torn at once");
    }
}

/// 0 - 1 - 2 and from 2 receivers 3 and 4; the wire between 1 and 2 is the bottleneck.
fn bottleneck() -> (Net, Session, Filter) {
    let mut net = Net::new(PLAIN, &[(0, 1), (1, 2), (2, 3), (2, 4)]);
    let group = IpAddr::from([239, 1, 1, 1]);
    net.map.members.insert(group, vec![3, 4]);
    net.capacity.insert((1, 1), 1000.0);
    let session = Session::udp(group, 5000);
    let sender = Filter::new(net.address(0, 1), 4000);
    net.announce(0, session, sender, 5000.0);
    net.run_until(seconds(1));
    (net, session, sender)
}

fn errors_at(net: &Net, node: usize) -> Vec<bool> {
    let error = |(_, at, event): &(Instant, usize, Event)| match event {
        Event::ResvError { error, .. } if *at == node => Some(error.not_guilty),
        _ => None,
    };
    net.events.iter().filter_map(error).collect()
}

#[test]
fn a_killer_reservation_does_not_deny_service_to_a_smaller_one() {
    // [rfc2205 §2.5] In both orders: a larger one comes later, or is there first and tries again.
    for small_first in [true, false] {
        for style in [Style::Wildcard, Style::Shared, Style::Fixed] {
            let (mut net, session, sender) = bottleneck();
            let mut claims = vec![(3, 800.0), (4, 3000.0)];
            if !small_first {
                claims.reverse();
            }
            for (node, rate) in claims {
                let claim = reservation(style, rate, &[sender]);
                assert_eq!(net.reserve(node, session, claim), Ok(()));
                net.run_for(Duration::from_secs(5));
            }
            let shown = format!("{style}, small first: {small_first}");
            assert_eq!(net.rates(1), [800.0], "{shown}");
            assert_eq!(net.rates(0), [800.0], "{shown}");
            assert_eq!(errors_at(&net, 3), [false; 0], "{shown}: the small one is not told");
            assert!(!errors_at(&net, 4).is_empty(), "{shown}: the killer is told");
            assert!(errors_at(&net, 4).iter().all(|innocent| !innocent), "{shown}");
            // It is tried again when the blockade ends, and the small one stays all the while.
            let removed = |net: &Net| {
                net.changes.iter().any(|change| change.2 != "add" && change.2 != "modify")
            };
            let before = errors_at(&net, 4).len();
            assert!(!net.run(net.now.after(Duration::from_secs(600)), removed), "{shown}");
            let tries = errors_at(&net, 4).len() - before;
            assert!((5..=12).contains(&tries), "{shown}: tried {tries} times in 600 s");
            assert_eq!(net.rates(1), [800.0], "{shown}");
            net.check_flows();
            // With room for it, it comes through.
            net.capacity.insert((1, 1), 4000.0);
            net.run_for(Duration::from_secs(70));
            assert_eq!(net.rates(1), [3000.0], "{shown}");
        }
    }
}

#[test]
fn a_change_that_is_refused_leaves_what_stood() {
    let (mut net, session, sender) = bottleneck();
    let claim = |rate| reservation(Style::Shared, rate, &[sender]);
    assert_eq!(net.reserve(3, session, claim(900.0)), Ok(()));
    net.run_for(Duration::from_secs(1));
    assert_eq!(net.rates(1), [900.0]);
    assert_eq!(net.reserve(3, session, claim(1100.0)), Ok(()));
    net.run_for(Duration::from_secs(1));
    let in_place = net.events.iter().any(|(_, node, event)| {
        *node == 3 && matches!(event, Event::ResvError { error, .. } if error.in_place)
    });
    assert!(in_place, "the receiver learns that the former reservation stands");
    assert_eq!(net.rates(1), [900.0]);
}

#[test]
fn senders_share_or_not_as_the_style_says() {
    // 0 and 1 send by 2 to 3.
    for (style, rates) in [
        (Style::Wildcard, vec![700.0]),
        (Style::Shared, vec![700.0]),
        (Style::Fixed, vec![700.0, 700.0]),
    ] {
        let mut net = Net::new(PLAIN, &[(0, 2), (1, 2), (2, 3)]);
        let session = Session::udp(net.address(2, 2), 5000);
        let senders = [0, 1].map(|wire| Filter::new(net.address(wire, 1), 4000));
        net.announce(0, session, senders[0], 400.0);
        net.announce(1, session, senders[1], 500.0);
        net.run_until(seconds(1));
        let mut claim = reservation(style, 700.0, &senders);
        if style == Style::Fixed {
            let each = senders.map(|sender| reservation(style, 700.0, &[sender]).descriptors);
            claim.descriptors = each.concat();
        }
        assert_eq!(net.reserve(3, session, claim), Ok(()));
        net.run_until(seconds(2));
        assert_eq!(net.rates(2), rates, "{style}");
        let request = net.installed.values().find(|request| request.filters.len() > 1);
        assert_eq!(request.is_some(), style != Style::Fixed, "{style}");
        // [rfc2209 §2] What is policed is what the senders send, at most what is reserved.
        let policed: Vec<f32> = request.map(|request| request.tspec.rate).into_iter().collect();
        assert_eq!(policed, if style == Style::Fixed { vec![] } else { vec![700.0] }, "{style}");
        net.withdraw(1, session, senders[1]);
        net.run_until(seconds(3));
        assert_eq!(net.rates(2), [700.0], "{style}: one sender is left");
        assert_eq!(net.rates(1), [0.0; 0], "{style}");
        let policed = net.installed.iter().find(|((node, _), _)| *node == 2);
        assert_eq!(policed.map(|(_, request)| request.tspec.rate), Some(400.0), "{style}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_cause() {
    let (mut net, session, sender) = chain(PLAIN);
    let claim = reservation(Style::Fixed, 800.0, &[sender]);
    assert_eq!(net.reserve(LAST, session, claim.clone()), Err(HostError::NoSender));
    net.announce(0, session, sender, 1000.0);
    net.run_until(seconds(1));
    let mut formless = claim.clone();
    formless.style = Style::Wildcard;
    assert_eq!(net.reserve(LAST, session, formless), Err(HostError::Form));
    let stranger = Filter::new(net.address(0, 1), 4001);
    let unknown = reservation(Style::Fixed, 800.0, &[stranger]);
    assert_eq!(net.reserve(LAST, session, unknown), Err(HostError::NoSender));
    let empty = reservation(Style::Fixed, 0.0, &[sender]);
    assert!(matches!(net.reserve(LAST, session, empty), Err(HostError::Unsound(_))));
    assert_eq!(net.installed.len(), 0);
    assert_eq!(net.nodes[LAST].sessions().count(), 1);
}

#[test]
fn a_flow_that_is_preempted_is_gone_and_its_receiver_told() {
    let (mut net, session, sender) = chain(PLAIN);
    assert!(set_up(&mut net, session, sender, seconds(1)));
    net.run_until(seconds(1));
    net.capacity.insert((2, 1), 100.0);
    net.preempt(2);
    net.run_until(seconds(2));
    assert_eq!([0, 1, 2, 3].map(|node| net.rates(node).len()), [0, 0, 0, 1], "torn upstream");
    let told = net.events.iter().any(|(_, node, event)| {
        let preempted = |error: &ErrorSpec| error.cause == Cause::PREEMPTED;
        *node == LAST && matches!(event, Event::ResvError { error, .. } if preempted(error))
    });
    assert!(told);
    net.check_flows();
    // The receiver goes on to ask, and is refused for lack of room until there is some.
    net.run_for(Duration::from_secs(100));
    assert!(net.rates(2).is_empty());
    net.capacity.clear();
    net.run_for(Duration::from_secs(50));
    assert_eq!(net.installed.len(), LAST);
}

#[test]
fn ports_that_cannot_be_told_apart_are_refused() {
    let (mut net, session, sender) = chain(PLAIN);
    net.announce(0, session, sender, 1000.0);
    net.run_until(seconds(1));
    let any = Session { port: 0, ..session };
    net.announce(0, Session { port: 6000, ..session }, sender, 1000.0);
    net.announce(0, session, Filter::new(sender.source, 0), 1000.0);
    net.announce(0, any, sender, 1000.0);
    net.run_until(seconds(2));
    let causes: Vec<Cause> = net
        .events
        .iter()
        .filter_map(|(_, _, event)| match event {
            Event::PathError { error, .. } => Some(error.cause),
            _ => None,
        })
        .collect();
    assert_eq!(causes, [Cause::SENDER_PORTS, Cause::DESTINATION_PORTS]);
    assert_eq!(net.nodes[1].sessions().count(), 2);
}

#[test]
fn a_full_table_refuses_what_is_new() {
    let limits = Limits { sessions: 3, ..Limits::default() };
    let mut net = Net::limited(PLAIN, &[(0, 1), (1, 2)], limits);
    let destination = net.address(1, 2);
    let sender = Filter::new(net.address(0, 1), 4000);
    for port in 1..=3 {
        net.announce(0, Session::udp(destination, port), sender, 1000.0);
    }
    net.run_until(seconds(1));
    let full = Session::udp(destination, 4);
    assert_eq!(net.try_announce(0, full, sender, 1000.0), Err(HostError::Full));
    net.withdraw(0, Session::udp(destination, 2), sender);
    assert_eq!(net.try_announce(0, full, sender, 1000.0), Ok(()));
    net.run_until(seconds(2));
    assert_eq!(net.sessions(), 9);
}

fn keys(secret: &str, challenge: bool) -> Option<Security> {
    let key = Key { id: 7, hash: Hash::Md5, secret: secret.as_bytes().to_vec() };
    Some(Security { keys: vec![key], challenge, first_sequence: 1000 })
}

#[test]
fn neighbours_with_a_common_key_trust_each_other_and_nobody_else() {
    for challenge in [false, true] {
        let links = [(0, 1), (1, 2), (2, 3), (3, 4)];
        let security = |_| keys("common", challenge);
        let mut net = Net::secured(PLAIN, &links, security);
        let session = Session::udp(net.address(LAST - 1, 2), 5000);
        let sender = Filter::new(net.address(0, 1), 4000);
        // A challenged message is lost; the refresh after it counts.
        assert!(set_up(&mut net, session, sender, seconds(400)), "challenge: {challenge}");
        let insecure: u64 = net.nodes.iter().map(|node| node.counts().insecure).sum();
        assert_eq!(insecure, 0);
    }
    let links = [(0, 1), (1, 2)];
    let mut net = Net::secured(PLAIN, &links, |wire| keys(["one", "other"][wire], false));
    let session = Session::udp(net.address(1, 2), 5000);
    let sender = Filter::new(net.address(0, 1), 4000);
    net.announce(0, session, sender, 1000.0);
    net.run_until(seconds(1));
    assert_eq!(net.nodes[2].sessions().count(), 1, "each wire has its key at both ends");
    let mut forger = Net::secured(PLAIN, &links, |wire| keys(["wrong", "other"][wire], false));
    std::mem::swap(&mut net.nodes[0], &mut forger.nodes[0]);
    net.announce(0, Session { port: 6000, ..session }, sender, 1000.0);
    net.run_until(seconds(2));
    assert_eq!(net.nodes[1].sessions().count(), 1, "another key makes no state");
    assert!(net.nodes[1].counts().insecure > 0);
}

#[test]
fn summary_refreshes_keep_the_state_with_fewer_bytes_and_after_a_crash() {
    let sent = |reduction| {
        let setup = Setup { reduction, ..PLAIN };
        let (mut net, session, sender) = chain(setup);
        for port in 0..50 {
            let session = Session { port: session.port + port, ..session };
            assert!(net.installed.len() <= usize::from(port) * LAST);
            net.announce(0, session, sender, 10.0);
        }
        net.run_until(seconds(3600));
        assert_eq!(net.sessions(), 50 * (LAST + 1));
        net.sent
    };
    let (plain, reduced) = (sent(false), sent(true));
    println!("messages in an hour of 50 sessions over 4 hops: {plain}, with summaries {reduced}");
    assert!(reduced * 3 < plain, "{reduced} against {plain}");
    // A router that forgot everything says so, and is told anew.
    let (mut net, session, sender) = chain(Setup { reduction: true, ..PLAIN });
    assert!(set_up(&mut net, session, sender, seconds(1)));
    let fresh = Net::chain(Setup { reduction: true, seed: 9, ..PLAIN }, LAST);
    net.nodes[2] = fresh.nodes.into_iter().nth(2).expect("the chain has a node 2");
    net.installed.retain(|(node, _), _| *node != 2);
    net.run_for(Duration::from_secs(100));
    assert_eq!(net.installed.len(), LAST, "a refresh that it does not know is answered");
    net.check_flows();
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let setup = Setup { seed, ..PLAIN };
        let (mut net, session, sender) = chain(setup);
        net.loss = 300;
        set_up(&mut net, session, sender, seconds(2000));
        (net.now, net.sent, net.changes, net.events)
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
}
