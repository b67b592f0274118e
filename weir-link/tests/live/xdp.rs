//! AF_XDP ports between private networks: as the rows of `ports.rs`, and what only this kind of
//! port does. Needs root.

#![allow(unsafe_code)]

use crate::ports::{moves_away_and_back, never_gone, pulled_cable, set_down_and_up};
use crate::support::bridge;
use crate::support::lanes::by_ethertype;
use crate::support::raw::{Flows, Raw};
use crate::support::traffic::{echo, ends, super_packets, transfer};
use weir_testbed::rows::{self, Failed, Need};

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use bridge::Bridge;
use weir_core::classify::InterfaceId;
use weir_host::bpf::{self, Code, Function, Hook, Program, Reg};
use weir_host::ethtool;
use weir_host::probe;
use weir_host::wait::{WaitPolicy, monotonic_ns};
use weir_link::authority::{Authority, PortReply, PortRequest};
use weir_link::pool::FramePool;
use weir_link::port::{self, BATCH, Port, PortConfig, PortState};
use weir_link::sorter::{SortPlan, Sorting};
use weir_testbed::{
    END, Host, LEFT, Netlink, Process, RIGHT, Testbed, TestbedConfig, until, until_ok, until_some,
};

type Outcome = Result<(), Failed>;
type Test = (&'static str, fn() -> Outcome);

#[rustfmt::skip]
const TESTS: &[Test] = &[
    ("every_size_crosses_unchanged", || every_size([NATIVE; 2], PLAIN)),
    ("every_size_crosses_unchanged_behind_the_driver", || every_size([GENERIC; 2], PLAIN)),
    ("every_size_crosses_unchanged_between_both_kinds", || every_size([NATIVE, PACKET], PLAIN)),
    ("every_size_crosses_unchanged_at_mtu_2000", || every_size([NATIVE; 2], mtu(2000))),
    ("every_size_crosses_unchanged_at_mtu_9000", || every_size([NATIVE; 2], mtu(9000))),
    ("every_size_crosses_unchanged_at_mtu_9000_behind", || every_size([GENERIC; 2], mtu(9000))),
    ("every_size_crosses_unchanged_at_mtu_9000_mixed", || every_size([NATIVE, PACKET], mtu(9000))),
    ("tcp4_crosses", || tcp(Host::ip4, [NATIVE; 2], PLAIN)),
    ("tcp6_crosses", || tcp(Host::ip6, [NATIVE; 2], PLAIN)),
    ("tcp4_crosses_behind_the_driver", || tcp(Host::ip4, [GENERIC; 2], PLAIN)),
    ("tcp4_crosses_at_mtu_9000", || tcp(Host::ip4, [NATIVE; 2], mtu(9000))),
    ("tcp4_crosses_between_both_kinds", || tcp(Host::ip4, [NATIVE, PACKET], PLAIN)),
    ("tcp4_crosses_with_offloads_on", || tcp(Host::ip4, [NATIVE; 2], TestbedConfig::default())),
    ("tcp6_crosses_with_offloads_on", || tcp(Host::ip6, [NATIVE; 2], TestbedConfig::default())),
    ("tcp4_crosses_with_offloads_on_at_mtu_9000", || tcp(Host::ip4, [NATIVE; 2], JUMBO)),
    ("udp_super_packets_cross_as_frames", udp_super_packets_cross),
    ("vlan_tags_in_the_frame_survive", || vlan_tags(NATIVE, false, true)),
    ("vlan_tags_in_the_frame_survive_behind_the_driver", || vlan_tags(GENERIC, false, true)),
    ("vlan_tags_beside_the_frame_survive", || vlan_tags(NATIVE, true, true)),
    ("vlan_tags_beside_the_frame_survive_the_cure", || vlan_tags(GENERIC, true, false)),
    ("what_an_operator_must_see_to_is_said", warnings),
    ("the_rest_crosses_when_the_mtu_is_raised", mtu_raised),
    ("each_ring_has_its_own_frames_and_room", each_ring_has_its_own_frames),
    ("a_full_ring_counts_what_it_lost", a_full_ring_counts_what_it_lost),
    ("an_empty_pool_counts_what_it_lost", an_empty_pool_counts_what_it_lost),
    ("a_pulled_cable_is_reported_and_taken_up_again", || pulled_cable(NATIVE)),
    ("a_port_that_moves_away_and_back_is_taken_up_again", || moves_away_and_back(NATIVE, true)),
    ("a_port_that_moves_away_and_back_at_once_is_too", || moves_away_and_back(NATIVE, false)),
    ("behind_the_driver_it_is_taken_up_again", || moves_away_and_back(GENERIC, false)),
    ("frames_of_before_the_end_of_a_stall_count_as_old", frames_of_a_stall_are_old),
    ("frames_that_come_while_sockets_are_made_anew_are_counted", || sockets_made_anew(NATIVE)),
    ("frames_that_come_meanwhile_are_counted_behind_the_driver", || sockets_made_anew(GENERIC)),
    ("a_port_set_down_carries_on_when_set_up", || set_down_and_up(NATIVE)),
    ("a_renamed_interface_carries_on", renamed),
    ("an_interface_that_is_renamed_is_never_gone", || never_gone(NATIVE)),
    ("a_killed_process_gives_the_interface_back", killed),
    ("every_size_crosses_two_queues_that_one_thread_reads", || every_size([NATIVE; 2], QUEUES)),
    ("every_size_crosses_two_queues_behind_the_driver", || every_size([GENERIC; 2], QUEUES)),
    ("tcp4_crosses_two_queues_that_one_thread_reads", || tcp(Host::ip4, [NATIVE; 2], QUEUES)),
    ("flows_of_two_queues_that_one_thread_reads_keep_their_order", flows_of_two_queues),
    ("fewer_transmit_queues_are_refused_with_the_cure", fewer_transmit_queues),
];

const NATIVE: &str = "afxdp";
const GENERIC: &str = "afxdp-generic";
const PACKET: &str = "afpacket";
const MEGABYTES: usize = 8 << 20;
/// An ethertype for local experiments: no stack replies to it.
const EXPERIMENT: [u8; 2] = [0x88, 0xb5];
const OTHER_EXPERIMENT: [u8; 2] = [0x88, 0xb6];
const PLAIN: TestbedConfig = mtu(1500);
/// As [`PLAIN`], with two receive queues at each interface.
const QUEUES: TestbedConfig = TestbedConfig { queues: 2, ..PLAIN };
const JUMBO: TestbedConfig = TestbedConfig { offloads: true, ..mtu(9000) };
/// The name of the environment variable that makes this program the child of a test.
const CHILD: &str = "WEIR_XDP_CHILD";

const fn mtu(mtu: u32) -> TestbedConfig {
    TestbedConfig { mtu, offloads: false, static_neighbours: true, has_ipv6: true, queues: 1 }
}

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = rows::Row> {
    rows::table("xdp", TESTS, &[Need::AfXdp])
}

fn config(interface: &str, kind: &str) -> PortConfig {
    PortConfig { kind: kind.to_owned(), ..PortConfig::new(interface) }
}

fn start(testbed: &Testbed, kinds: [&str; 2]) -> Result<Bridge, Failed> {
    let on = [config(LEFT, kinds[0]), config(RIGHT, kinds[1])];
    Ok(Bridge::start_on(testbed, WaitPolicy::Hybrid, on)?)
}

/// A frame of `len` bytes whose content depends on the place and on the length.
fn frame(len: usize, ethertype: [u8; 2]) -> Vec<u8> {
    let header = [Host::Server.mac().0, Host::Client.mac().0].concat();
    let content = (0..len).map(|at| (at * 7 + len * 13 + at / 256) as u8);
    header.into_iter().chain(ethertype).chain(content).take(len).collect()
}

fn every_size(kinds: [&str; 2], config: TestbedConfig) -> Outcome {
    let testbed = Testbed::new(config)?;
    let bridge = start(&testbed, kinds)?;
    let ends = [testbed.client.run(|| Raw::open(END))??, testbed.server.run(|| Raw::open(END))??];
    let len_max = config.mtu as usize + 14;
    for len in 14..=len_max {
        // Every tenth the other way.
        let (from, to) = if len % 10 == 3 { (1, 0) } else { (0, 1) };
        let sent = frame(len, EXPERIMENT);
        ends[from].send(&sent)?;
        let is_ours = |seen: &[u8]| seen.get(12..14) == Some(&EXPERIMENT);
        let seen = ends[to].await_frame(is_ours);
        let seen = seen.map_err(|error| format!("{len} bytes: {error}"))?;
        if seen != sent {
            return Err(format!("{len} bytes: {} other bytes arrived", seen.len()).into());
        }
    }
    bridge.stop().expect_clean()
}

fn tcp(address: fn(Host) -> IpAddr, kinds: [&str; 2], config: TestbedConfig) -> Outcome {
    let testbed = Testbed::new(config)?;
    let bridge = start(&testbed, kinds)?;
    transfer(&testbed, address, MEGABYTES)?;
    let report = bridge.stop();
    report.expect_clean()?;
    let bytes = report.counters[0].received_bytes as usize;
    report.expect(bytes > MEGABYTES, "all bytes crossed")?;
    report.expect(report.counters[1].sent_bytes as usize == bytes, "and were sent")
}

/// The driver's XDP makes the kernel cut super-packets before the port; their checksums are left
/// unfinished.
fn udp_super_packets_cross() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let bridge = start(&testbed, [NATIVE; 2])?;
    super_packets(&testbed)?;
    let report = bridge.stop();
    report.expect_clean()?;
    report.expect(report.counters[0].checksums_completed >= 42, "checksums were completed")
}

/// Sends a tagged frame; with `beside`, the sender's kernel has the tag beside the frame, and with
/// `inserts`, it leaves it there for the interface to insert.
fn vlan_tags(kind: &str, beside: bool, inserts: bool) -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    testbed.client.run(|| ethtool::set_tag_insertion(END, inserts))??;
    let bridge = start(&testbed, [kind; 2])?;
    let tagger = if beside { Some(push_tags(&testbed)?) } else { None };
    let receiver = testbed.server.run(|| Raw::open(END))??;
    let plain = frame(80, EXPERIMENT);
    let tagged = [&plain[..12], &[0x81, 0x00, 0x20, 0x05], &plain[12..]].concat();
    // Through the queueing discipline, where the kernel tags it.
    let sent = [if beside { plain.clone() } else { tagged.clone() }];
    testbed.client.run(|| probe::send(END, &sent))??;
    let is_ours = |seen: &[u8]| seen.ends_with(&plain[14..]);
    let seen = receiver.await_frame(is_ours)?;
    drop(tagger);
    if seen != tagged {
        return Err(format!("{seen:02x?} instead of {tagged:02x?}").into());
    }
    bridge.stop().expect_clean()
}

fn warnings() -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    // parts of each warning: of native, of generic, of a packet socket
    let rows: [(&str, &[&str]); 3] = [
        (NATIVE, &["checksums inside tunnels"]),
        (GENERIC, &["VLAN tags", "super-packets"]),
        (PACKET, &[]),
    ];
    for (kind, parts) in rows {
        let found = testbed.weir.run(|| port::open(config(LEFT, kind)))??.warnings();
        let has_all = found.iter().zip(parts).all(|(text, part)| text.contains(part));
        if found.len() != parts.len() || !has_all {
            return Err(format!("{kind}: {found:?}").into());
        }
    }
    Ok(())
}

/// Has the client's kernel put a VLAN tag on all that it sends.
fn push_tags(testbed: &Testbed) -> Result<bpf::Link, Failed> {
    let mut code = Code::new();
    code.set(Reg::R2, 0x8100).network_order(Reg::R2, 16).set(Reg::R3, 0x2005);
    code.call(Function::VlanPush).give(-1);
    let program = Program::load(bpf::Kind::Packet, "weir_tagger", &code)?;
    let index = Netlink::open_in(&testbed.client)?.link(END)?.index;
    Ok(testbed.client.run(|| program.attach(index, Hook::TcxEgress))??)
}

fn mtu_raised() -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let bridge = start(&testbed, [NATIVE; 2])?;
    echo(ends(&testbed, Host::ip4), 1400)?;
    let mut weir = Netlink::open_in(&testbed.weir)?;
    for name in [LEFT, RIGHT] {
        weir.set_mtu(name, 3000)?;
    }
    for host in [&testbed.client, &testbed.server] {
        Netlink::open_in(host)?.set_mtu(END, 3000)?;
    }
    bridge.until("the pool has grown", |seen| seen.slot_len >= 3000)?;
    echo(ends(&testbed, Host::ip4), 2900)?;
    transfer(&testbed, Host::ip4, 1 << 20)?;
    bridge.stop().expect_clean()
}

/// Frames of one ethertype go to ring 1.
fn sorted_by_ethertype() -> Sorting {
    Sorting::of(&SortPlan::of_policy(&by_ethertype()), InterfaceId(0))
}

/// Opens a port of 64 slots, floods it while it does not receive, and returns it with its pool,
/// which has `frames` frames.
fn flooded(
    testbed: &Testbed,
    sorting: Option<Sorting>,
    frames: u32,
) -> Result<(Box<dyn Port>, FramePool), Failed> {
    let config = PortConfig { ring_slots: 64, sorting, ..config(LEFT, NATIVE) };
    let mut port = testbed.weir.run(|| port::open(config))??;
    let mut pool = FramePool::new(frames, port.room().slot_len);
    port.attach(&mut pool)?;
    let sender = testbed.client.run(|| Raw::open(END))??;
    for count in 0..FLOOD {
        sender.send(&frame(200, EXPERIMENT))?;
        if count % 100 == 0 {
            sender.send(&frame(200, OTHER_EXPERIMENT))?;
        }
    }
    Ok((port, pool))
}

const FLOOD: u64 = 1000;
const OTHERS: u64 = FLOOD / 100;

/// Receives until all frames of [`flooded`] are accounted for; returns how many of the two
/// ethertypes each ring had.
fn drain(port: &mut dyn Port, pool: &mut FramePool) -> Result<[[u64; 2]; 2], Failed> {
    let mut seen = [[0; 2]; 2];
    until_ok("each frame is received, or lost and counted", || {
        for (ring, seen) in seen.iter_mut().enumerate().take(port.rings()) {
            let mut received = Vec::new();
            port.receive(ring, 64, pool, &mut received);
            for received in received {
                match pool.bytes(received.frame).get(12..14) {
                    Some(kind) if kind == EXPERIMENT => seen[0] += 1,
                    Some(kind) if kind == OTHER_EXPERIMENT => seen[1] += 1,
                    _ => {}
                }
                pool.release(received.frame);
            }
        }
        let counters = port.counters();
        let lost = counters.overruns() + counters.pool_exhausted + counters.truncated;
        assert_eq!(pool.capacity() - pool.free_count(), port.held(), "no frame leaked");
        let has_all = counters.received + lost >= FLOOD + OTHERS;
        if has_all { Ok(()) } else { Err(format!("{counters:#?}")) }
    })?;
    Ok(seen)
}

fn each_ring_has_its_own_frames() -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let (mut port, mut pool) = flooded(&testbed, Some(sorted_by_ethertype()), 1024)?;
    let seen = drain(port.as_mut(), &mut pool)?;
    let counters = port.counters();
    let lost = counters.ring_overruns;
    // A frame that the host sent by itself may take a slot, and late ones find room again.
    let is_full = seen[0][0] >= 60 && lost[0] > 0 && lost[1..].iter().sum::<u64>() == 0;
    if is_full && seen[0][1] == 0 && seen[1] == [0, OTHERS] {
        return Ok(());
    }
    Err(format!("{seen:?}: {counters:#?}").into())
}

fn a_full_ring_counts_what_it_lost() -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let (mut port, mut pool) = flooded(&testbed, None, 1024)?;
    let seen = drain(port.as_mut(), &mut pool)?;
    let counters = port.counters();
    let all = counters.received + counters.ring_overruns[0];
    let others = counters.pool_exhausted + counters.truncated;
    // The ring and the slots lent to the kernel may run out at the same frame.
    if seen[0][0] + seen[0][1] >= 60 && all + others >= FLOOD + OTHERS && others <= 2 {
        return Ok(());
    }
    Err(format!("{seen:?}: {counters:#?}").into())
}

fn an_empty_pool_counts_what_it_lost() -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let (mut port, mut pool) = flooded(&testbed, None, 32)?;
    let seen = drain(port.as_mut(), &mut pool)?;
    let counters = port.counters();
    if seen[0][0] <= 32 && counters.pool_exhausted >= FLOOD - 32 && counters.truncated == 0 {
        return Ok(());
    }
    Err(format!("{seen:?}: {counters:#?}").into())
}

/// AF_XDP says of no frame when it came, and after a stall one may be as old as the stall.
fn frames_of_a_stall_are_old() -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let mut port = testbed.weir.run(|| port::open(config(LEFT, NATIVE)))??;
    let mut pool = FramePool::new(8192, port.room().slot_len);
    port.attach(&mut pool)?;
    let sender = testbed.client.run(|| Raw::open(END))??;
    for _ in 0..2 {
        let mut received = Vec::new();
        port.reclaim(&mut pool);
        port.receive(0, 64, &mut pool, &mut received);
        received.drain(..).for_each(|frame| pool.release(frame.frame));
        let before = monotonic_ns();
        sender.send(&frame(200, EXPERIMENT))?;
        thread::sleep(STALL);
        let at = until_some("the frame", || {
            port.reclaim(&mut pool);
            port.receive(0, 64, &mut pool, &mut received);
            received.first().map(|frame| frame.at_ns)
        })?;
        received.drain(..).for_each(|frame| pool.release(frame.frame));
        assert!(at <= before, "it may have come at {before}, and counts from {at}");
    }
    Ok(())
}

/// More than a loop that looks at its rings lets pass between two looks.
const STALL: Duration = Duration::from_millis(100);

/// An authority that is asked for sockets a second time while frames come.
struct Pressed {
    authority: Box<dyn Authority>,
    sender: Raw,
    asked_for_sockets: u32,
}

impl Authority for Pressed {
    fn ask(
        &mut self,
        request: PortRequest,
        passed: Vec<OwnedFd>,
    ) -> weir_host::error::Result<PortReply> {
        if matches!(request, PortRequest::Sockets(_)) {
            self.asked_for_sockets += 1;
            let frames = if self.asked_for_sockets == 2 { FLOOD } else { 0 };
            for _ in 0..frames {
                self.sender.send(&frame(200, EXPERIMENT)).expect("the link has room");
            }
        }
        self.authority.ask(request, passed)
    }

    fn sort_by(&mut self, sorting: Sorting) {
        self.authority.sort_by(sorting);
    }
}

/// The MTU grows so much that the sockets and the pool are made anew. That takes long, and frames
/// that come meanwhile find the sockets of before, so they are counted.
fn sockets_made_anew(kind: &'static str) -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let kind = port::KINDS.iter().find(|known| known.keyword == kind).expect("it is a kind");
    let [first, sender] = [(); 2].map(|()| testbed.client.run(|| Raw::open(END)));
    let (first, sender) = (first??, sender??);
    let mut port = testbed.weir.run(|| {
        let authority = (kind.authority)(&config(LEFT, kind.keyword))?;
        let pressed = Pressed { authority, sender: first, asked_for_sockets: 0 };
        (kind.open)(config(LEFT, kind.keyword), Box::new(pressed))
    })??;
    let mut pool = FramePool::new(8192, port.room().slot_len);
    port.attach(&mut pool)?;
    Netlink::open_in(&testbed.weir)?.set_mtu(LEFT, 9000)?;
    port.refresh();
    assert!(port.room().slot_len > pool.slot_len(), "the pool must grow");
    pool.grow(port.room().slot_len);
    port.attach(&mut pool)?;
    let lost = port.counters().overruns();
    assert!(lost > FLOOD / 10, "{lost} of {FLOOD} frames are known: {:#?}", port.counters());
    sender.send(&frame(200, OTHER_EXPERIMENT))?;
    let (mut received, mut has_come) = (Vec::new(), false);
    until("a frame comes by the new sockets", || {
        port.reclaim(&mut pool);
        port.receive(0, 64, &mut pool, &mut received);
        for received in received.drain(..) {
            has_come |= pool.bytes(received.frame).get(12..14) == Some(&OTHER_EXPERIMENT[..]);
            pool.release(received.frame);
        }
        has_come
    })?;
    assert_eq!(pool.capacity() - pool.free_count(), port.held(), "no frame leaked");
    Ok(())
}

fn renamed() -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let mut port = testbed.weir.run(|| port::open(config(LEFT, NATIVE)))??;
    let mut pool = FramePool::new(8192, port.room().slot_len);
    port.attach(&mut pool)?;
    Netlink::open_in(&testbed.weir)?.rename(LEFT, "west0")?;
    assert_eq!((port.refresh(), port.interface()), (PortState::Up, "west0"));
    Ok(())
}

/// Plays the child of [`killed`], if this process was started to do so: it opens a port in its
/// network namespace and keeps it.
pub fn part() -> Option<ExitCode> {
    std::env::var_os(CHILD).map(|_| hold_a_port())
}

fn hold_a_port() -> ExitCode {
    let Ok(mut port) = port::open(config(LEFT, NATIVE)) else { return ExitCode::FAILURE };
    let mut pool = FramePool::new(8192, port.room().slot_len);
    if port.attach(&mut pool).is_err() {
        return ExitCode::FAILURE;
    }
    println!("ready");
    loop {
        thread::park();
    }
}

fn killed() -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    let mut command = Command::new(std::env::current_exe()?);
    let mut child = Process::start_in(&testbed.weir, command.env(CHILD, "1"))?;
    until("the child has a port", || child.stdout() == "ready\n")?;
    let text = testbed.weir.run(|| port::open(config(LEFT, NATIVE)))?.err();
    let text = text.map(|error| error.to_string()).unwrap_or_default();
    child.kill();
    assert!(text.contains("another program is attached"), "a second port: {text:?}");
    let bridge = start(&testbed, [NATIVE; 2])?;
    echo(ends(&testbed, Host::ip4), 100)?;
    bridge.stop().expect_clean()
}

/// Frames of many flows wait in both queues; each flow comes in its order, and stamps never go
/// back.
fn flows_of_two_queues() -> Outcome {
    const FLOWS: u16 = 20;
    const ROUNDS: u16 = 30;
    let testbed = Testbed::new(QUEUES)?;
    let mut port = testbed.weir.run(|| port::open(config(LEFT, NATIVE)))??;
    let mut pool = FramePool::new(16_384, port.room().slot_len);
    port.attach(&mut pool)?;
    assert!(port.sharers().is_none(), "one thread has both");
    let sender = testbed.client.run(|| Flows::open(END))??;
    for round in 0..ROUNDS {
        (0..FLOWS).try_for_each(|flow| sender.send(flow, round))?;
    }
    let (mut next, mut last_ns) = (vec![0; usize::from(FLOWS)], 0);
    until_ok("each frame comes", || {
        let mut received = Vec::new();
        port.reclaim(&mut pool);
        port.receive(0, BATCH, &mut pool, &mut received);
        assert!(received.len() <= BATCH, "a call takes what it was asked for");
        for received in received {
            assert!(received.at_ns >= last_ns, "stamps never go back");
            last_ns = received.at_ns;
            if let Some((flow, number)) = Flows::read(pool.bytes(received.frame)) {
                let next = &mut next[usize::from(flow)];
                assert_eq!(number, *next, "flow {flow}");
                *next += 1;
            }
            pool.release(received.frame);
        }
        if next.iter().all(|next| *next == ROUNDS) { Ok(()) } else { Err(format!("{next:?}")) }
    })?;
    assert_eq!(pool.capacity() - pool.free_count(), port.held(), "no frame leaked");
    Ok(())
}

fn fewer_transmit_queues() -> Outcome {
    let testbed = Testbed::new(PLAIN)?;
    testbed.weir.run(|| ethtool::set_queues(LEFT, 2, 1))??;
    let opened = testbed.weir.run(|| port::open(config(LEFT, NATIVE)))?;
    let text = opened.err().map(|error| error.to_string()).unwrap_or_default();
    if text.contains("2 queues") && text.contains("sends by 1") && text.contains("ethtool -L left")
    {
        return Ok(());
    }
    Err(format!("{text:?}").into())
}
