//! Ports whose authorities are in another thread, behind a channel, while the thread that forwards
//! has no capability, is in another network namespace, and may make or open nothing; and ports
//! whose intake is closed. Needs root, since programs in the kernel take frames.

#![allow(unsafe_code)]

use crate::support::lanes::{both_ways, by_ethertype};
use crate::support::locked;
use crate::support::raw;
use crate::support::traffic::{Ends, echo, echo_after_change, ends};
use weir_testbed::rows::{self, Failed, Need};

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use raw::Raw;
use weir_core::classify::InterfaceId;
use weir_host::channel::Channel;
use weir_host::netns::NetNs;
use weir_link::authority::{AuthorityClient, AuthorityServer};
use weir_link::bridge::{Bridge, BridgeConfig, BridgePort};
use weir_link::pool::FramePool;
use weir_link::port::{self, Port, PortConfig, PortState, Reached};
use weir_link::sorter::{SortPlan, Sorting};
use weir_link::status::{PortStatus, Status};
use weir_testbed::{
    END, Ends as Way, Host, LEFT, Netlink, PATIENCE, RIGHT, RunningBridge, Stream, StreamConfig,
    Testbed, TestbedConfig, until, until_ok, until_seen,
};

type Outcome<T = ()> = Result<T, Failed>;
type Test = (&'static str, fn() -> Outcome);

#[rustfmt::skip]
const TESTS: &[Test] = &[
    ("packet_sockets_follow_their_interface", || follows("afpacket")),
    ("xdp_sockets_follow_their_interface", || follows("afxdp")),
    ("xdp_sockets_behind_the_driver_follow", || follows("afxdp-generic")),
    ("auto_chooses_through_the_desk", || crosses("auto")),
    ("packet_sockets_sort_before_and_after_a_return", || sorts("afpacket")),
    ("xdp_sockets_sort_before_and_after_a_return", || sorts("afxdp")),
    ("packet_sockets_sort_once_the_interface_is_up", sorts_once_up),
    ("a_host_is_shaped_through_the_desk", host_is_shaped),
    ("a_port_is_set_down_through_the_desk", port_is_set_down),
    ("a_closed_intake_takes_nothing_afpacket", || intake("afpacket", true)),
    ("a_closed_intake_takes_nothing_afxdp", || intake("afxdp", true)),
    ("a_closed_intake_takes_nothing_in_one_process", || intake("afpacket", false)),
    ("a_closed_intake_takes_nothing_in_one_process_afxdp", || intake("afxdp", false)),
    ("two_bridges_in_turn_give_no_frame_twice", bridges_in_turn),
    ("a_host_keeps_its_tap_when_bridges_take_turns", hosts_in_turn),
    ("ports_go_on_without_their_desk", goes_on_without_server),
    ("a_desk_serves_only_its_deployment", serves_only_its_deployment),
];

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = rows::Row> {
    rows::table("authority", TESTS, &[Need::Root])
}

pub const PLAIN: TestbedConfig = TestbedConfig {
    mtu: 1500,
    offloads: false,
    static_neighbours: true,
    has_ipv6: true,
    queues: 1,
};
pub const EXPERIMENT: [u8; 2] = [0x88, 0xb5];
pub const OTHER_EXPERIMENT: [u8; 2] = [0x88, 0xb6];

/// A server on a thread in a network namespace, until its channel is closed.
pub struct Keeper {
    stop: Arc<AtomicBool>,
    server: Arc<Mutex<AuthorityServer>>,
    thread: JoinHandle<()>,
}

impl Keeper {
    fn start(
        namespace: &NetNs,
        server: impl FnOnce() -> AuthorityServer + Send,
    ) -> Outcome<(Self, AuthorityClient)> {
        let server = Arc::new(Mutex::new(namespace.run(server)?));
        let served = Arc::clone(&server);
        let (here, there) = Channel::pair()?;
        let inside = namespace.run(NetNs::current)??;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            inside.enter().expect("the namespace is there");
            while !stopped.load(Ordering::Relaxed) {
                let waits = there.wait(Duration::from_millis(20)).expect("poll works");
                if waits && served.lock().expect("no panic").serve(&there).is_err() {
                    break;
                }
            }
        });
        Ok((Self { stop, server, thread }, AuthorityClient::new(here)))
    }

    /// Ends the keeper, and the server with it.
    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the server does not panic");
    }
}

/// A bridge on a thread that is locked in.
struct Forwarder(RunningBridge);

impl Forwarder {
    fn start(client: &AuthorityClient, kinds: [(&str, &str); 2], carrier: bool) -> Outcome<Self> {
        let config = bridge(kinds, carrier)?.through(client);
        Ok(Self(RunningBridge::start(move || {
            locked::lock_in().expect("a thread may give up what it has");
            Bridge::open(config)
        })?))
    }

    /// Opens or closes the intake, and waits until that is so.
    fn set_intake(&mut self, open: bool) -> Outcome {
        let intake = &self.0.board().intake;
        intake.want(open);
        self.0.wake();
        let done = intake.wait(open, PATIENCE).ok_or("the loop runs")?;
        if done.by_all { Ok(()) } else { Err(format!("not by all ports: {open}").into()) }
    }

    /// Waits until the ports are as they should be.
    fn await_ports(&self, what: &str, is_so: impl Fn(&[PortStatus]) -> bool) -> Outcome {
        until_ok(what, || match self.0.status() {
            Ok(status) if is_so(&status.ports) => Ok(()),
            other => Err(format!("{:#?}", other.map(|status| status.ports))),
        })?;
        Ok(())
    }

    /// Waits until both ports are up and have these numbers of rebinds.
    fn await_up(&self, rebinds: [u64; 2]) -> Outcome {
        self.await_ports("both ports are up", |ports| {
            let mut ports = ports.iter().zip(rebinds);
            ports.all(|(port, rebinds)| port.state == "up" && port.rebinds == rebinds)
        })
    }

    /// Waits until a port is in this state.
    fn await_state(&self, port: usize, state: &str) -> Outcome {
        self.await_ports(state, |ports| ports[port].state == state)
    }

    fn stop(self) -> Outcome<Status> {
        Ok(self.0.stop()?)
    }
}

/// Returns two ports, each an interface and a kind.
fn configs(kinds: [(&str, &str); 2]) -> Vec<PortConfig> {
    let plan = SortPlan::of_policy(&by_ethertype());
    let port = |(number, (interface, kind)): (u16, (&str, &str))| PortConfig {
        kind: kind.to_owned(),
        sorting: Some(Sorting::of(&plan, InterfaceId(number))),
        ..PortConfig::new(interface)
    };
    (0..).zip(kinds).map(port).collect()
}

fn bridge(kinds: [(&str, &str); 2], passes_carrier: bool) -> Outcome<BridgeConfig> {
    let ports = (0..).zip(configs(kinds)).map(|(n, config)| BridgePort::new(n, config));
    Ok(both_ways(ports.collect(), &by_ethertype(), passes_carrier)?)
}

/// A server for these ports in Weir's namespace, and a bridge that uses it, with an open intake.
fn start(
    testbed: &Testbed,
    kinds: [(&'static str, &'static str); 2],
    carrier: bool,
) -> Outcome<(Keeper, Forwarder)> {
    let (keeper, client) =
        Keeper::start(&testbed.weir, move || AuthorityServer::new(configs(kinds)))?;
    let mut forwarder = Forwarder::start(&client, kinds, carrier)?;
    forwarder.set_intake(true)?;
    Ok((keeper, forwarder))
}

fn rename(testbed: &Testbed, from: &str, to: &str) -> Outcome {
    Ok(Netlink::open_in(&testbed.weir)?.rename(from, to)?)
}

fn crosses(kind: &'static str) -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let (_keeper, forwarder) = start(&testbed, [(LEFT, kind), (RIGHT, kind)], false)?;
    echo(ends(&testbed, Host::ip4), 1000)?;
    forwarder.stop()?;
    Ok(())
}

fn follows(kind: &'static str) -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let (_keeper, forwarder) = start(&testbed, [(LEFT, kind), (RIGHT, kind)], false)?;
    let hosts = || ends(&testbed, Host::ip4);
    echo(hosts(), 1000)?;
    rename(&testbed, LEFT, "west0")?;
    forwarder.await_ports("the new name", |ports| ports[0].interface == "west0")?;
    echo_after_change(hosts(), 1000)?;
    rename(&testbed, "west0", LEFT)?;
    for (namespace, name) in [
        (&testbed.weir, LEFT),
        (&testbed.weir, RIGHT),
        (&testbed.client, END),
        (&testbed.server, END),
    ] {
        Netlink::open_in(namespace)?.set_mtu(name, 3000)?;
    }
    echo_after_change(hosts(), 2900)?;
    for returns in 1..=2 {
        testbed.disconnect(Host::Server)?;
        forwarder.await_state(1, "gone")?;
        testbed.connect(Host::Server)?;
        forwarder.await_up([0, returns])?;
        echo_after_change(hosts(), 1000)?;
    }
    let mut netlink = Netlink::open_in(&testbed.weir)?;
    netlink.set_up(LEFT, false)?;
    forwarder.await_state(0, "down")?;
    netlink.set_up(LEFT, true)?;
    forwarder.await_up([0, 2])?;
    echo_after_change(hosts(), 1000)?;
    forwarder.stop()?;
    Ok(())
}

/// A port through a server or in one process, with its pool.
pub fn open(
    testbed: &Testbed,
    kind: &'static str,
    (by_desk, intake): (bool, bool),
) -> Outcome<(Option<Keeper>, Box<dyn Port>, FramePool)> {
    let kinds = [(LEFT, kind), (RIGHT, kind)];
    let mut config = PortConfig { intake, ..configs(kinds).swap_remove(0) };
    let mut keeper = None;
    if by_desk {
        let (started, client) =
            Keeper::start(&testbed.weir, move || AuthorityServer::new(configs(kinds)))?;
        config.through = Some(client);
        keeper = Some(started);
    }
    let mut port = match by_desk {
        true => port::open(config)?,
        false => testbed.weir.run(|| port::open(config))??,
    };
    let room = port.room();
    let mut pool = match room.shares_memory {
        true => FramePool::new_shared(8192, room.slot_len),
        false => FramePool::new(8192, room.slot_len),
    };
    port.attach(&mut pool)?;
    Ok((keeper, port, pool))
}

pub fn frame(number: u16, kind: [u8; 2]) -> Vec<u8> {
    let mut frame = [[0x03; 6], [0x02, 0, 0, 0, 9, 9]].concat();
    frame.extend(kind);
    frame.extend(number.to_be_bytes());
    frame.extend([7; 60]);
    frame
}

/// The number of the last frame of each ethertype.
const LAST: u16 = u16::MAX;

/// Sends a last frame of each ethertype, and receives until they have come: frames of a ring keep
/// their order. Returns the ring, ethertype and number of each frame before them.
fn drain(
    sender: &Raw,
    port: &mut dyn Port,
    pool: &mut FramePool,
) -> Outcome<Vec<(usize, [u8; 2], u16)>> {
    for kind in [EXPERIMENT, OTHER_EXPERIMENT] {
        sender.send(&frame(LAST, kind))?;
    }
    let mut seen = Vec::new();
    let mut last = 0;
    until("a last frame of each ethertype", || {
        port.reclaim(pool);
        for ring in 0..port.rings() {
            let mut received = Vec::new();
            while port.receive(ring, 64, pool, &mut received) != Reached::All {}
            for received in received {
                let bytes = pool.bytes(received.frame);
                let kind = [bytes[12], bytes[13]];
                if kind == EXPERIMENT || kind == OTHER_EXPERIMENT {
                    match u16::from_be_bytes([bytes[14], bytes[15]]) {
                        LAST => last += 1,
                        number => seen.push((ring, kind, number)),
                    }
                }
                pool.release(received.frame);
            }
        }
        last == 2
    })?;
    Ok(seen)
}

/// Sends frames of both ethertypes, and expects each kind by its own ring.
fn expect_sorted(testbed: &Testbed, port: &mut dyn Port, pool: &mut FramePool) -> Outcome {
    let sender = testbed.client.run(|| Raw::open(END))??;
    for number in 0..20 {
        sender.send(&frame(number, EXPERIMENT))?;
        sender.send(&frame(number, OTHER_EXPERIMENT))?;
    }
    let seen = drain(&sender, port, pool)?;
    for (ring, kind) in [(0, EXPERIMENT), (1, OTHER_EXPERIMENT)] {
        let by_ring = seen.iter().filter(|(by, of, _)| (*by, *of) == (ring, kind)).count();
        let all = seen.iter().filter(|(_, of, _)| *of == kind).count();
        if (by_ring, all) != (20, 20) {
            return Err(format!("ring {ring} had {by_ring} of {all} of 20: {seen:?}").into());
        }
    }
    Ok(())
}

fn await_state(port: &mut dyn Port, state: PortState) -> Outcome {
    until_seen(&format!("{state:?}"), || port.refresh(), |now| *now == state)?;
    Ok(())
}

fn sorts(kind: &'static str) -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let (_keeper, mut port, mut pool) = open(&testbed, kind, (true, true))?;
    expect_sorted(&testbed, port.as_mut(), &mut pool)?;
    for _ in 0..2 {
        testbed.disconnect(Host::Client)?;
        await_state(port.as_mut(), PortState::Gone)?;
        testbed.connect(Host::Client)?;
        await_state(port.as_mut(), PortState::Up)?;
        port.reclaim(&mut pool);
        expect_sorted(&testbed, port.as_mut(), &mut pool)?;
    }
    Ok(())
}

fn sorts_once_up() -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let mut netlink = Netlink::open_in(&testbed.weir)?;
    netlink.set_up(LEFT, false)?;
    let (_keeper, mut port, mut pool) = open(&testbed, "afpacket", (true, true))?;
    assert_eq!(port.state(), PortState::Down);
    netlink.set_up(LEFT, true)?;
    await_state(port.as_mut(), PortState::Up)?;
    expect_sorted(&testbed, port.as_mut(), &mut pool)
}

/// The address of the machine that is shaped.
const MACHINE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 254));
const HOST_ENDS: [(&str, &str); 2] = [(RIGHT, "host"), (RIGHT, "wire")];

/// Returns the machine and the server.
fn machine_ends(testbed: &Testbed) -> Ends<'_> {
    [(&testbed.weir, MACHINE), (&testbed.server, Host::Server.ip4())]
}

fn connect_machine(testbed: &Testbed) -> Outcome {
    Ok(Netlink::open_in(&testbed.weir)?.add_address(RIGHT, MACHINE, 24)?)
}

fn host_is_shaped() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    connect_machine(&testbed)?;
    let (keeper, forwarder) = start(&testbed, HOST_ENDS, false)?;
    let machine = || machine_ends(&testbed);
    echo(machine(), 1000)?;
    for (namespace, name) in [(&testbed.weir, RIGHT), (&testbed.server, END)] {
        Netlink::open_in(namespace)?.set_mtu(name, 3000)?;
    }
    echo_after_change(machine(), 2900)?;
    testbed.disconnect(Host::Server)?;
    forwarder.await_state(0, "gone")?;
    testbed.connect(Host::Server)?;
    connect_machine(&testbed)?;
    forwarder.await_up([1, 1])?;
    echo_after_change(machine(), 1000)?;
    let before = forwarder.0.status()?;
    echo(machine(), 1000)?;
    let after = forwarder.stop()?;
    for (before, after) in before.ports.iter().zip(&after.ports) {
        assert!(after.received > before.received, "frames come by the tap: {after:#?}");
    }
    // Without server and port frames pass as before.
    keeper.stop();
    echo_after_change(machine(), 1000)
}

fn port_is_set_down() -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let kinds = [(LEFT, "afpacket"), (RIGHT, "afxdp")];
    let (_keeper, forwarder) = start(&testbed, kinds, true)?;
    for (pulled, seen) in [(Host::Client, Host::Server), (Host::Server, Host::Client)] {
        let mut netlink = Netlink::open_in(testbed.namespace(pulled))?;
        let mut other = Netlink::open_in(testbed.namespace(seen))?;
        for up in [false, true] {
            netlink.set_up(END, up)?;
            let has_carrier = || other.link(END).map(|link| link.has_carrier).ok();
            until_seen(&format!("carrier {up} at {seen:?}"), has_carrier, |has| *has == Some(up))?;
        }
    }
    forwarder.stop()?;
    Ok(())
}

/// Frames are sent while the intake is closed, open, closed, open: only those of the open times
/// arrive, also those that the port had not taken when it was closed.
fn intake(kind: &'static str, by_desk: bool) -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let (_keeper, mut port, mut pool) = open(&testbed, kind, (by_desk, false))?;
    let sender = testbed.client.run(|| Raw::open(END))??;
    for open in [false, true, false, true, false] {
        port.set_intake(open)?;
        port.reclaim(&mut pool);
        for number in 0..20 {
            let kind = if number % 2 == 0 { EXPERIMENT } else { OTHER_EXPERIMENT };
            sender.send(&frame(number + if open { 100 } else { 0 }, kind))?;
        }
    }
    port.set_intake(true)?;
    port.reclaim(&mut pool);
    let mut counts = BTreeMap::new();
    for (_, _, number) in drain(&sender, port.as_mut(), &mut pool)? {
        *counts.entry(number).or_insert(0) += 1;
    }
    let expected: BTreeMap<u16, i32> = (100..120).map(|number| (number, 2)).collect();
    assert_eq!(counts, expected, "each frame of the two open times, once");
    let counters = port.counters();
    assert_eq!(counters.overruns() + counters.pool_exhausted, 0, "{counters:#?}");
    Ok(())
}

const TURNS: usize = 20;

/// Lets two bridges take turns under traffic from one host to the other, and expects no frame
/// twice.
fn take_turns(mut bridges: [Forwarder; 2], hosts: Ends<'_>) -> Outcome {
    let [(from, _), (to, address)] = hosts;
    let config = StreamConfig { per_second: 10_000, ..StreamConfig::default() };
    let stream = Stream::between(Way { from, to, address }, config)?;
    for turn in 0..TURNS {
        stream.await_another()?;
        bridges[turn % 2].set_intake(false)?;
        bridges[1 - turn % 2].set_intake(true)?;
    }
    let found = stream.finish()?;
    for bridge in bridges {
        let ports = bridge.stop()?.ports;
        assert!(ports[0].received > 0, "each bridge has its turns: {ports:#?}");
    }
    if found.repeated == 0 { Ok(()) } else { Err(format!("{found:?}").into()) }
}

fn bridges_in_turn() -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let kinds = [(LEFT, "afpacket"), (RIGHT, "afpacket")];
    let (_first_keeper, first) = start(&testbed, kinds, false)?;
    let (_keeper, client) =
        Keeper::start(&testbed.weir, move || AuthorityServer::new(configs(kinds)))?;
    let mut second = Forwarder::start(&client, kinds, false)?;
    second.set_intake(false)?;
    take_turns([first, second], ends(&testbed, Host::ip4))
}

fn hosts_in_turn() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    connect_machine(&testbed)?;
    let (first_keeper, first) = start(&testbed, HOST_ENDS, false)?;
    let (keeper, client) = Keeper::start(&testbed.weir, || {
        let server = first_keeper.server.lock().expect("no panic");
        AuthorityServer::beside(&server, configs(HOST_ENDS)).expect("a second server")
    })?;
    let mut second = Forwarder::start(&client, HOST_ENDS, false)?;
    second.set_intake(false)?;
    take_turns([first, second], machine_ends(&testbed))?;
    first_keeper.stop();
    keeper.stop();
    echo_after_change(machine_ends(&testbed), 1000)
}

/// The keeper ends; what is there carries on, and a tap stays.
fn goes_on_without_server() -> Outcome {
    for kinds in [[(LEFT, "afpacket"), (RIGHT, "afxdp")], HOST_ENDS] {
        let testbed = Testbed::new(PLAIN)?;
        connect_machine(&testbed)?;
        let (keeper, forwarder) = start(&testbed, kinds, false)?;
        keeper.stop();
        let hosts =
            if kinds == HOST_ENDS { machine_ends(&testbed) } else { ends(&testbed, Host::ip4) };
        echo(hosts, 1000)?;
        // The loop looks at its ports, and finds that it has no server.
        rename(&testbed, RIGHT, "east0")?;
        forwarder.await_ports("the new name", |ports| ports[1].interface == "east0")?;
        echo(hosts, 1000)?;
        let status = forwarder.stop()?;
        assert!(status.ports.iter().all(|port| port.received > 0), "{:#?}", status.ports);
    }
    Ok(())
}

fn serves_only_its_deployment() -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let one = || configs([(LEFT, "afpacket"), (RIGHT, "afpacket")]);
    let (_keeper, client) = Keeper::start(&testbed.weir, move || AuthorityServer::new(one()))?;
    let rows = [
        (7, "afpacket", "the deployment has none such"),
        (0, "afxdp", "the deployment says `afpacket`"),
        (0, "host", "the deployment says `afpacket`"),
    ];
    for (number, kind, expected) in rows {
        let through = Some(client.for_port(number));
        let config = PortConfig { kind: kind.to_owned(), through, ..PortConfig::new(LEFT) };
        let text = port::open(config).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(expected), "port {number}, {kind}: {text}");
    }
    // Whatever name the port says, it gets the interface that the server has under its number.
    let through = Some(client.for_port(1));
    let port = port::open(PortConfig { through, ..PortConfig::new(LEFT) })?;
    assert_eq!(port.interface(), RIGHT);
    Ok(())
}
