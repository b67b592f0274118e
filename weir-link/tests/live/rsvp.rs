//! RSVP on real sockets, through routers in private networks. Needs root or user namespaces.

use std::net::Ipv4Addr;

use weir_core::classify::InterfaceId;
use weir_host::netns::NetNs;
use weir_host::rsvp::{Descriptors, KernelNetwork, Network, Role};
use weir_rsvp::Tspec;
use weir_rsvp::integrity::{Hash, Key, Security};
use weir_rsvp::node::{Claim, Counts, Event};
use weir_rsvp::wire::{Descriptor, Filter, Reservation, Session, Style};
use weir_testbed::Netlink;
use weir_testbed::groups::GroupRouter;
use weir_testbed::reserving::{Row, Setting, Station, address, connect_ends, drive_on, tspec};
use weir_testbed::rows::{self, Need, Outcome};

type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("ipv4_is_reserved_through_two_routers", || reserved(true, Setting { nodes: 4, ..plain() })),
    ("ipv6_is_reserved_through_two_routers", || reserved(false, Setting { nodes: 4, ..plain() })),
    ("ipv4_with_summary_refreshes", || reserved(true, Setting { reduction: true, ..plain() })),
    ("ipv6_with_keys", || reserved(false, Setting { change: with_key, ..plain() })),
    ("state_lives_by_refreshes_and_dies_without", state_dies),
    ("a_path_follows_the_route", a_path_follows_the_route),
    ("a_group_is_reached_and_not_heard_by_its_sender", a_group_is_reached),
    ("receivers_of_a_group_behind_two_interfaces_are_merged", receivers_of_a_group_are_merged),
    ("long_messages_travel_in_fragments", long_messages),
    ("descriptors_keep_their_order", descriptors_keep_their_order),
];

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = rows::Row> {
    rows::table("rsvp", TESTS, &[Need::PrivateNetworks])
}

fn plain() -> Setting {
    Setting { has_own_clock: true, ..Setting::default() }
}

fn with_key(interface: &mut weir_rsvp::node::InterfaceParams) {
    let keys = vec![Key { id: 7, hash: Hash::Md5, secret: b"between neighbours".to_vec() }];
    interface.security = Some(Security { keys, challenge: true, first_sequence: 1 });
}

fn has_path(station: &Station) -> bool {
    station.has(|event| matches!(event, Event::Path { .. }))
}

fn is_reserved(station: &Station) -> bool {
    station.has(|event| matches!(event, Event::Reserved { reservation: Some(_), .. }))
}

fn counts(station: &Station) -> Counts {
    station.driver.node().counts()
}

/// Drives the row until so many more messages have come to each node.
fn await_messages(row: &mut Row, more: u64) -> Outcome {
    let before: Vec<u64> = row.stations.iter().map(|one| counts(one).received).collect();
    row.until(&format!("{more} messages at each"), |stations| {
        stations.iter().zip(&before).all(|(now, before)| counts(now).received >= before + more)
    })?;
    Ok(())
}

/// A Path arrives and is intercepted by each router, a Resv returns, and the receiver is told so.
fn reserved(v4: bool, setting: Setting) -> Outcome {
    let mut row = Row::new(setting)?;
    let last = setting.nodes - 1;
    let (session, sender) = row.announce(v4);
    row.until("a Path", |stations| has_path(&stations[last]))?;
    row.reserve(session, sender);
    row.until("a Resv", |stations| is_reserved(&stations[0]))?;
    row.until("a ResvConf", |stations| {
        stations[last].has(|event| matches!(event, Event::Confirmed { .. }))
    })?;
    for node in 1..last {
        let view = row.stations[node].driver.node().session(&session).expect("it has state");
        let hop = view.senders[0].hop.expect("its sender is elsewhere");
        assert_eq!(hop, (InterfaceId(0), address(v4, node - 1, node - 1)));
        assert_eq!(view.senders[0].outgoing, [InterfaceId(1)]);
        let next = view.reservations[0].hop.expect("its receiver is elsewhere");
        assert_eq!(next, (InterfaceId(1), address(v4, node, node + 1)));
    }
    // A neighbour that is challenged says it again [rfc2747 §4.3]; until it has answered, its other
    // messages are refused, too. Here all have.
    let before: Vec<_> = row.stations.iter().map(counts).collect();
    await_messages(&mut row, 4)?;
    for (station, before) in row.stations.iter().zip(before) {
        let counts = counts(station);
        assert_eq!((counts.malformed, counts.insecure), (0, before.insecure), "{counts:?}");
        assert!(station.driver.failures().is_empty(), "{:?}", station.driver.failures());
    }
    let withdrawn = row.stations[0].driver.call(|node, call| node.withdraw(call, session, sender));
    assert_eq!(withdrawn, Ok(()));
    Ok(row.until("a PathTear", |stations| {
        stations[1..].iter().all(|station| station.driver.node().sessions().next().is_none())
    })?)
}

fn state_dies() -> Outcome {
    // State lives for 2.1 s without a refresh.
    let period = weir_core::units::Duration::from_millis(400);
    let mut row = Row::new(Setting { period, ..plain() })?;
    let (session, sender) = row.announce(true);
    row.until("a Path", |stations| has_path(&stations[2]))?;
    row.reserve(session, sender);
    row.until("a Resv", |stations| is_reserved(&stations[0]))?;
    // A refresh comes every 400 ms, so this is more than twice as long.
    await_messages(&mut row, 12)?;
    let gone = |event: &Event| {
        matches!(event, Event::PathGone { .. } | Event::Reserved { reservation: None, .. })
    };
    assert!(!row.stations.iter().any(|station| station.has(gone)), "refreshes keep it");
    // The sender stops without a word.
    row.stations.remove(0);
    Ok(row.until("an end", |stations| stations[1].has(gone))?)
}

/// A second cable beside the first, and a route that moves to it.
fn a_path_follows_the_route() -> Outcome {
    let mut row = Row::new(plain())?;
    let (session, sender) = row.announce(true);
    row.until("a Path", |stations| has_path(&stations[2]))?;
    let outgoing = |stations: &[Station]| {
        let view = stations[1].driver.node().session(&session).expect("it has state");
        view.senders[0].outgoing.clone()
    };
    assert_eq!(outgoing(&row.stations), [InterfaceId(1)]);
    let mut router = Netlink::open_in(&row.networks[1])?;
    router.add_route(session.destination, 32, sender.source)?;
    row.until("no way back", |stations| outgoing(stations) != [InterfaceId(1)])?;
    // A link that goes down takes its route along, of which the kernel says nothing.
    router.set_up("left", false)?;
    Ok(row.until("the first way", |stations| outgoing(stations) == [InterfaceId(1)])?)
}

fn a_group_is_reached() -> Outcome {
    for v4 in [true, false] {
        let mut row = Row::new(Setting { nodes: 2, ..plain() })?;
        let group = if v4 { "239.1.2.3" } else { "ff15::123" }.parse()?;
        let joined = row.stations[1].driver.network_mut().join(group, InterfaceId(0), true);
        joined?;
        let network = row.stations[0].driver.network_mut();
        network.join(group, InterfaceId(0), true)?;
        let session = Session::udp(group, 5004);
        let sender = Filter::new(address(v4, 0, 0), 4000);
        let mut near = Netlink::open_in(&row.networks[0])?;
        if v4 {
            near.add_route("224.0.0.0".parse()?, 4, address(true, 0, 1))?;
        }
        row.announce_to(session, sender);
        row.until("a Path", |stations| has_path(&stations[1]))?;
        row.reserve(session, sender);
        row.until("a Resv", |stations| is_reserved(&stations[0]))?;
        let counts = row.stations[0].driver.node().counts();
        assert_eq!(counts.stray, 0, "its own Path does not come back: {counts:?}");
    }
    Ok(())
}

/// A router with two receivers of a group, each behind an interface of its own, where the kernel's
/// multicast routes lead.
fn receivers_of_a_group_are_merged() -> Outcome {
    const ROUTER: usize = 1;
    let mut row = Row::new(Setting { nodes: 3, ..plain() })?;
    row.networks.push(NetNs::new()?);
    connect_ends(&row.networks, 2, [(ROUTER, "side"), (3, "left")])?;
    let names = ["left", "right", "side"].map(str::to_owned);
    let router = row.networks[ROUTER].run(|| drive_on(&names, Role::Router, ROUTER, plain()))??;
    row.stations[ROUTER].driver = router;
    let side = row.networks[3].run(|| {
        Netlink::open()?.set_up("lo", true)?;
        Netlink::open()?.add_route(address(true, 0, usize::MAX), 24, address(true, 2, ROUTER))?;
        drive_on(&["left".to_owned()], Role::Host, 3, plain())
    })??;
    row.stations.push(Station { driver: side, events: Vec::new() });
    let (source, group) = (Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(239, 1, 2, 3));
    let mut near = Netlink::open_in(&row.networks[0])?;
    near.add_route("224.0.0.0".parse()?, 4, address(true, 0, ROUTER))?;
    for receiver in [2, 3] {
        let network = row.stations[receiver].driver.network_mut();
        network.join(group.into(), InterfaceId(0), true)?;
    }
    let (session, sender) = (Session::udp(group.into(), 5004), Filter::new(source.into(), 4000));
    row.announce_to(session, sender);
    // The kernel has no route for the group as yet, so these Paths lead nowhere.
    row.until("three Paths are sent", |stations| counts(&stations[0]).sent >= 3)?;
    let before = counts(&row.stations[0]).sent;
    let router = row.networks[ROUTER].run(|| GroupRouter::open(&["left", "right", "side"]))??;
    router.route((source, group), 0, &[1, 2])?;
    row.until("a Path at both", |stations| has_path(&stations[2]) && has_path(&stations[3]))?;
    let sent = counts(&row.stations[0]).sent - before;
    assert!(counts(&row.stations[ROUTER]).received <= sent, "one came before there was a route");
    let view = row.stations[ROUTER].driver.node().session(&session).ok_or("it has state")?;
    assert_eq!(view.senders[0].outgoing, [InterfaceId(1), InterfaceId(2)]);
    // Half of what the other one wants.
    let less = Tspec { rate: tspec().rate / 2.0, ..tspec() };
    reserve_wildcard(&mut row, (2, session), less);
    row.until("a Resv", |stations| reserved_rate(&stations[0]) == Some(less.rate))?;
    reserve_wildcard(&mut row, (3, session), tspec());
    row.until("the larger one", |stations| reserved_rate(&stations[0]) == Some(tspec().rate))?;
    let view = row.stations[ROUTER].driver.node().session(&session).ok_or("it has state")?;
    let mut hops: Vec<_> = view.reservations.iter().filter_map(|one| one.hop).collect();
    hops.sort_unstable();
    let wanted = [(1, address(true, 1, 2)), (2, address(true, 2, 3))];
    assert_eq!(hops, wanted.map(|(port, address)| (InterfaceId(port), address)));
    let driver = &mut row.stations[3].driver;
    assert_eq!(driver.call(|node, call| node.release(call, session)), Ok(()));
    row.until("the smaller one is left", |stations| {
        reserved_rate(&stations[0]) == Some(less.rate)
    })?;
    // Without its route the group goes nowhere.
    router.route((source, group), 0, &[1])?;
    Ok(row.until("one way is left", |stations| {
        let view = stations[ROUTER].driver.node().session(&session);
        view.is_some_and(|view| view.senders[0].outgoing == [InterfaceId(1)])
    })?)
}

fn reserve_wildcard(row: &mut Row, (station, session): (usize, Session), tspec: Tspec) {
    let flowspec = Some(weir_rsvp::Flowspec::ControlledLoad(tspec));
    let descriptors = vec![Descriptor { flowspec, filters: Vec::new() }];
    let reservation = Reservation { style: Style::Wildcard, descriptors };
    let claim = Claim { session, reservation, confirm: None, priority: None };
    let driver = &mut row.stations[station].driver;
    assert_eq!(driver.call(|node, call| node.reserve(call, claim)), Ok(()));
}

/// The rate that the sender was told last.
fn reserved_rate(station: &Station) -> Option<f32> {
    let told = station.events.iter().rev().find_map(|event| match event {
        Event::Reserved { reservation, .. } => Some(reservation.clone()),
        _ => None,
    });
    Some(told??.descriptors.first()?.flowspec?.tspec().rate)
}

/// Two reservations of many senders need a message longer than a packet of the cable.
fn long_messages() -> Outcome {
    for v4 in [true, false] {
        let mut row = Row::new(plain())?;
        let session = Session::udp(address(v4, 1, 2), 5004);
        let senders: Vec<_> =
            (0..40).map(|port| Filter::new(address(v4, 0, 0), 4000 + port)).collect();
        senders.iter().for_each(|sender| row.announce_to(session, *sender));
        row.until("all Paths", |stations| {
            let view = stations[2].driver.node().session(&session);
            view.is_some_and(|view| view.senders.len() == senders.len())
        })?;
        reserve_each(&mut row, session, &senders);
        row.until("all Resvs", |stations| {
            let view = stations[0].driver.node().session(&session);
            view.is_some_and(|view| view.reservations.len() == senders.len())
        })?;
        for station in &row.stations {
            assert!(station.driver.failures().is_empty(), "{:?}", station.driver.failures());
        }
    }
    Ok(())
}

fn reserve_each(row: &mut Row, session: Session, senders: &[Filter]) {
    let flowspec = Some(weir_rsvp::Flowspec::ControlledLoad(tspec()));
    let descriptor = |sender: &Filter| Descriptor { flowspec, filters: vec![*sender] };
    let descriptors = senders.iter().map(descriptor).collect();
    let reservation = Reservation { style: Style::Fixed, descriptors };
    let claim = Claim { session, reservation, confirm: None, priority: None };
    let driver = &mut row.stations[2].driver;
    let done = driver.call(|node, call| node.reserve(call, claim));
    assert_eq!(done, Ok(()));
}

fn descriptors_keep_their_order() -> Outcome {
    let row = Row::new(Setting { nodes: 2, ..plain() })?;
    for role in [Role::Host, Role::Router] {
        let parts = row.networks[0].run(|| Descriptors::open(role))??.into_parts();
        let count = parts.len();
        let again = Descriptors::from_parts(parts)?;
        assert_eq!(again.into_parts().len(), count);
        let parts = row.networks[0].run(|| Descriptors::open(role))??.into_parts();
        let network = KernelNetwork::new(Descriptors::from_parts(parts)?, &["right".to_owned()])?;
        assert_eq!(network.interfaces()[0].addresses[0], address(true, 0, 0));
    }
    let error = Descriptors::from_parts(Vec::new()).expect_err("there are none");
    assert!(error.to_string().contains("there are 0 descriptors"), "{error}");
    Ok(())
}
