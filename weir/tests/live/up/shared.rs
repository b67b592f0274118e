//! Flows of one interface that several workers share.

use super::stopped::{StoppedThread, await_thread};
use super::{POLICY, Test, called, plan};
use libtest_mimic::Failed;
use std::net::{Ipv4Addr, UdpSocket};
use weir_host::interface::Interface;
use weir_link::status::Status;
use weir_testbed::rows::Outcome;
use weir_testbed::{
    Host, LEFT, PortKind, Scene, Stream, StreamConfig, TestbedConfig, is_alive, until,
};

pub const TESTS: &[Test] = &[
    ("flows_of_one_interface_are_shared_and_arrive_whole", || flows_are_shared(PACKET)),
    ("shares_follow_another_way_to_sort", || shares_follow_another_way_to_sort(PACKET)),
    ("shares_follow_an_interface_that_was_down", || shares_follow_an_interface(PACKET)),
];

/// A share is a receive queue.
pub const OVER_AF_XDP: &[Test] = &[
    ("flows_of_receive_queues_are_shared_and_arrive_whole", || flows_are_shared(XDP)),
    ("queues_follow_another_way_to_sort", || shares_follow_another_way_to_sort(XDP)),
    ("queues_follow_an_interface_that_was_down", || shares_follow_an_interface(XDP)),
    ("a_queue_whose_worker_hangs_holds_up_no_other", || a_share_hangs(XDP, "worker-1")),
    ("a_first_queue_whose_worker_hangs_holds_up_no_other", || a_share_hangs(XDP, "worker-0")),
    ("a_restart_exchanges_both_queues", restarted),
];

/// Only root may stop a thread.
pub const STOPPED: &[Test] = &[
    ("a_share_that_hangs_holds_up_no_other", || a_share_hangs(PACKET, "worker-1")),
    ("a_first_share_that_hangs_holds_up_no_other", || a_share_hangs(PACKET, "worker-0")),
];

const PACKET: PortKind = PortKind::Unsaid;
const XDP: PortKind = PortKind::AfXdp;

/// Two ports with two workers each.
const WORKERS: &str = "workers = 4\nsojourn_max = \"none\"";
/// Of a class without a ring of its own; a ring holds what comes while a process pauses for long.
const FIRST_PORT: u16 = 6000;
const PER_SECOND: u32 = 100;
/// So many flows that none of two shares is likely to have none of them.
const FLOWS_MAX: u16 = 24;

/// A stream, and the share by which it comes in.
struct Flow {
    stream: Stream,
    share: usize,
}

fn scene(kind: PortKind) -> Result<Scene, Failed> {
    let networks = match kind {
        XDP => TestbedConfig { queues: 2, offloads: false, ..TestbedConfig::default() },
        _ => TestbedConfig::default(),
    };
    let scene = plan(POLICY).deployment(WORKERS).ports(kind).networks(networks).start()?;
    scene.await_status("the port has two shares", |status| by_share(status).len() == 2)?;
    Ok(scene)
}

/// Returns how many frames came by each share of the inner port.
fn by_share(status: &Status) -> Vec<u64> {
    status.ports[0].received_by_share.clone()
}

/// Starts flows until each share has one at least. All of them run from then on.
fn flows(scene: &Scene) -> Result<Vec<Flow>, Failed> {
    let mut flows: Vec<Flow> = Vec::new();
    for port in FIRST_PORT..FIRST_PORT + FLOWS_MAX {
        let before = by_share(&scene.status()?);
        let config = StreamConfig { port, per_second: PER_SECOND, length: 64 };
        let stream = Stream::numbered(&scene.testbed, config)?;
        let grown = |status: &Status, share: usize| by_share(status)[share] - before[share];
        let is_clear = |status: &Status| {
            let grown = [0, 1].map(|share| grown(status, share));
            grown[0].abs_diff(grown[1]) > FRAMES_SEEN
        };
        let status = scene.await_status("the flow comes by one share", is_clear)?;
        let share = usize::from(grown(&status, 1) > grown(&status, 0));
        stream.change(0, 64);
        flows.push(Flow { stream, share });
        if [0, 1].iter().all(|share| flows.iter().any(|flow| flow.share == *share)) {
            flows.iter().for_each(|flow| flow.stream.change(PER_SECOND, 64));
            return Ok(flows);
        }
    }
    Err("all flows come by one share".into())
}

/// Frames of a flow by which its share is told.
const FRAMES_SEEN: u64 = 20;

fn flows_are_shared(kind: PortKind) -> Outcome {
    let mut scene = scene(kind)?;
    let flows = flows(&scene)?;
    for flow in &flows {
        until("many are sent", || flow.stream.sent() > 200)?;
    }
    // The policy changes while all of them run.
    called(&scene, &["set", "link.rate=40 Mbit/s"])?;
    called(&scene, &["set", "deployment.super_packets=whole"])?;
    let in_force = |status: &Status| {
        // The other way has no policy.
        status.lanes[0].whole_trains == 2 && status.ports.iter().all(|port| port.workers == 2)
    };
    scene.await_status("what is in force is told", in_force)?;
    let forwarder = scene.status()?.processes.map(|processes| processes.forwarder);
    let name = format!("/proc/{}/comm", forwarder.unwrap_or_default());
    assert_eq!(std::fs::read_to_string(name)?, "weir-forward\n");
    for Flow { stream, .. } in flows {
        stream.await_another()?;
        let found = stream.finish()?;
        assert_eq!((found.lost(), found.repeated, found.reordered), (0, 0, 0), "{found:?}");
    }
    let whole = |status: &Status| status.frames_free == status.frames_max;
    scene.await_status("each slot is free again", whole)?;
    scene.stop()?;
    Ok(())
}

/// A class gets a ring of its own, which the first share has, or each, and loses it again; its flows keep
/// their order, and those of other classes their shares.
fn shares_follow_another_way_to_sort(kind: PortKind) -> Outcome {
    let mut scene = scene(kind)?;
    let flows = flows(&scene)?;
    let last = FIRST_PORT + flows.len() as u16 - 1;
    let bulk = format!("class.bulk={{ match = [{{ proto = \"udp\", dport = \"{last}\" }}] }}");
    for change in [bulk.as_str(), "class.bulk="] {
        flows.iter().try_for_each(|flow| flow.stream.await_another())?;
        called(&scene, &["set", change])?;
    }
    let before = by_share(&scene.status()?);
    for Flow { stream, .. } in flows {
        stream.await_another()?;
        let found = stream.finish()?;
        assert_eq!((found.lost(), found.repeated, found.reordered), (0, 0, 0), "{found:?}");
    }
    let grow = |status: &Status| {
        let now = by_share(status);
        now.iter().zip(&before).all(|(now, before)| now > before)
    };
    scene.await_status("both shares go on", grow)?;
    scene.stop()?;
    Ok(())
}

/// Sockets of a group that were made for an interface are of no use for the next one of its name;
/// those of an interface that was down are.
fn shares_follow_an_interface(kind: PortKind) -> Outcome {
    let mut scene = scene(kind)?;
    let set_up = |up: bool| -> Outcome {
        let set = || Interface::open(LEFT).and_then(|interface| interface.set_up(up));
        Ok(scene.testbed.weir.run(set)??)
    };
    set_up(false)?;
    scene.await_status("it is down", |status| status.ports[0].state == "down")?;
    set_up(true)?;
    scene.await_status("it is up", |status| status.ports[0].state == "up")?;
    check_shares(&scene)?;
    scene.testbed.disconnect(Host::Client)?;
    scene.await_status("it is gone", |status| status.ports[0].state == "gone")?;
    scene.testbed.connect(Host::Client)?;
    scene.await_status("it is back", |status| status.ports[0].state == "up")?;
    check_shares(&scene)?;
    assert_eq!(scene.status()?.ports[0].rebinds, 1, "the first share's");
    scene.stop()?;
    Ok(())
}

/// Another forwarder gets both queues of each port when the former one has ended.
fn restarted() -> Outcome {
    let mut scene = scene(XDP)?;
    for _ in 0..2 {
        let former = scene.forwarder()?;
        called(&scene, &["restart"])?;
        until("the former one ends", || !is_alive(former))?;
        check_shares(&scene)?;
    }
    scene.stop()?;
    Ok(())
}

/// Waits until each share takes frames of flows again, and checks that the flows pass.
fn check_shares(scene: &Scene) -> Outcome {
    let before = by_share(&scene.status()?);
    let client = &scene.testbed.client;
    until("each share takes frames", || {
        let sent = client.run(|| -> std::io::Result<()> {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.send_to(&[0; 64], (Host::Server.ip4(), FIRST_PORT)).map(drop)
        });
        let now = scene.status().map(|status| by_share(&status));
        let grows = |now: Vec<u64>| now.iter().zip(&before).all(|(now, before)| now > before);
        matches!(sent, Ok(Ok(()))) && now.is_ok_and(grows)
    })?;
    for Flow { stream, .. } in flows(scene)? {
        stream.await_another()?;
        let found = stream.finish()?;
        assert_eq!((found.lost(), found.repeated, found.reordered), (0, 0, 0), "{found:?}");
    }
    Ok(())
}

/// The thread of one share of the inner port stands still: the flows of the other share lose
/// nothing, another thread has its place, and when it goes on each slot is free again. A receive
/// queue is busy until then.
fn a_share_hangs(kind: PortKind, thread: &str) -> Outcome {
    let mut scene = scene(kind)?;
    let flows = flows(&scene)?;
    let hangs = usize::from(thread == "worker-1");
    let forwarder = scene.forwarder()?;
    let stopped = StoppedThread::of(forwarder, thread)?;
    await_thread(forwarder, "worker-again")?;
    let pass = |flow: &&Flow| kind != XDP || flow.share != hangs;
    flows.iter().filter(pass).try_for_each(|flow| flow.stream.await_another())?;
    stopped.go_on()?;
    for Flow { stream, share } in flows {
        stream.await_another()?;
        let found = stream.finish()?;
        assert_eq!((found.repeated, found.reordered), (0, 0), "{found:?}");
        assert!(share == hangs || found.lost() == 0, "share {share}: {found:?}");
    }
    let whole = |status: &Status| status.frames_free == status.frames_max;
    scene.await_status("each slot is free again", whole)?;
    check_shares(&scene)?;
    assert_eq!(scene.forwarder()?, forwarder, "no other one is needed");
    scene.stop()?;
    Ok(())
}
