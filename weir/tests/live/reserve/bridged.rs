//! `weir reserve` on two hosts of one network, with a bridge of `weir up` between them that has an
//! address in RSVP.

use std::net::IpAddr;

use weir_control::client;
use weir_control::protocol::Query;
use weir_host::netlink::{Mac, VethEnd};
use weir_host::netns::NetNs;
use weir_host::rsvp::{Descriptors, KernelNetwork, Network, Role};
use weir_rsvp::wire::{Body, Message};
use weir_testbed::rows::{Failed, Outcome};
use weir_testbed::{Netlink, Process, until, until_ok, wait_for_carrier};

use super::{CONTROL, RECEIVER, ROUTER, SENDER, Scene, Test, packets_cross};
use crate::reserved::{expires_ms, reservations};

pub const TESTS: &[Test] = &[
    ("a_bridge_with_an_address_makes_a_class_until_it_is_released", a_bridge_makes_a_class),
    ("a_bridge_refuses_what_does_not_fit", a_bridge_refuses),
    ("a_bridge_hears_of_an_interface_that_comes_back", an_interface_comes_back),
];

const OWN: &str = "10.1.0.9";
const CLASS: &str = "rsvp-10_1_0_3-17-5004-10_1_0_1-4000";
const SEND: &str = "send 10.1.0.3:5004 --from 10.1.0.1:4000 --rate 800kbit/s --bucket 4000B \
                    --packet-min 1000B --packet-max 1000B --refresh 500ms";

/// Both hosts on one network of IPv4, and a bridge that has no interface with an address.
fn scene(reserved: u32) -> Result<Scene, Failed> {
    let networks: Vec<NetNs> = (0..3).map(|_| NetNs::new()).collect::<Result<_, _>>()?;
    for (host, port) in [(SENDER, "left"), (RECEIVER, "right")] {
        cable(&networks, host, port)?;
    }
    let deployment = format!(
        "[deployment]\nports = {{ near = \"left\", far = \"right\" }}\ncontrol = \"{CONTROL}\"\n\
         [deployment.rsvp]\naddress = \"{OWN}\"\nclass = \"reserved\"\nrefresh = \"500 ms\"\n\
         [direction.down]\nfrom = \"near\"\nto = \"far\"\npolicy = \"out.toml\"\n",
    );
    Scene::of(networks, &deployment, reserved)
}

/// A cable between a host and the bridge.
fn cable(networks: &[NetNs], host: usize, port: &str) -> Outcome {
    let mac = |last| Mac([2, 0, 0, 0, host as u8, last]);
    let near = VethEnd { name: "host", namespace: &networks[host], mac: mac(1) };
    let far = VethEnd { name: port, namespace: &networks[ROUTER], mac: mac(2) };
    Netlink::open_in(&networks[ROUTER])?.add_veth(near, far, 1500)?;
    Netlink::open_in(&networks[ROUTER])?.set_up(port, true)?;
    let mut netlink = Netlink::open_in(&networks[host])?;
    netlink.set_up("lo", true)?;
    netlink.set_up("host", true)?;
    wait_for_carrier(&mut netlink, "host")?;
    netlink.add_address("host", IpAddr::from([10, 1, 0, host as u8 + 1]), 24)?;
    Ok(())
}

/// Waits until the bridge knows so many sessions.
fn await_sessions(scene: &Scene, count: u64) -> Outcome {
    let knows =
        |scene: &Scene| reservations(&scene.socket()).is_ok_and(|told| told.sessions == count);
    scene.until(&format!("sessions {count}"), knows)
}

/// Waits until the reservation was refreshed after this call; its class is there at each look.
fn await_refresh(scene: &Scene) -> Outcome {
    let mut least = u64::MAX;
    let look = || {
        assert!(scene.has(&[CLASS]), "refreshes keep it: {}", scene.logs());
        let lives = reservations(&scene.socket()).ok().as_ref().and_then(expires_ms);
        let is_refreshed = lives.is_some_and(|lives| lives > least);
        least = least.min(lives.unwrap_or(u64::MAX));
        is_refreshed
    };
    Ok(until("it is refreshed", look)?)
}

fn a_bridge_makes_a_class() -> Outcome {
    let mut scene = scene(8)?;
    let sender = scene.start(SENDER, SEND)?;
    let receiver = scene.start(RECEIVER, "receive 10.1.0.3:5004 --refresh 500ms")?;
    let accepted = scene.await_told(receiver, "accepted")?;
    assert_eq!(accepted["by"], "10.1.0.1", "the sender's host confirms: {accepted}");
    scene.await_told(sender, "reserved")?;
    scene.until("it is a class", |scene| scene.has(&[CLASS]))?;
    let told = reservations(&scene.socket())?;
    let shown = serde_json::to_value(&told.shown)?;
    let one = &shown[0];
    assert_eq!(one["senders"][0]["from"], "10.1.0.1", "{shown}");
    assert_eq!(one["reservations"][0]["by"], "10.1.0.3", "the hop of a Resv: {shown}");
    assert_eq!(told.malformed, 0, "{told:?}");
    paths_name_the_bridge(&scene)?;
    packets_cross(&scene, [10, 1, 0, 3].into())?;
    let mut restart = scene.weir(&["restart", "--control", "r.sock"]);
    let restart = Process::start(&mut restart)?.wait_for_output()?;
    assert!(restart.status.success(), "{restart:?} {}", scene.logs());
    paths_name_the_bridge(&scene)?;
    await_refresh(&scene)?;
    await_refresh(&scene)?;
    let release = scene.run(RECEIVER, "release 10.1.0.3:5004")?;
    assert_eq!(release.status.code(), Some(0), "{release:?}");
    scene.until("it is released", |scene| scene.has(&[]))?;
    scene.await_told(sender, "not-reserved")?;
    scene.run(SENDER, "release --all")?;
    await_sessions(&scene, 0)
}

/// No Path of the sender's host crosses beside the bridge's own, of which there are several.
fn paths_name_the_bridge(scene: &Scene) -> Outcome {
    let host = ["host".to_owned()];
    let sockets = scene.networks[RECEIVER].run(|| Descriptors::open(Role::Host))??;
    let mut network = scene.networks[RECEIVER].run(|| KernelNetwork::new(sockets, &host))??;
    let (own, mut message, mut hops) = (OWN.parse::<IpAddr>()?, Vec::new(), Vec::new());
    until_ok("several Path messages arrive", || -> Result<(), String> {
        while network.receive(&mut message).is_some() {
            let parsed = Message::parse(&message).map_err(|error| format!("{error:?}"))?;
            if let Body::Path(path) = parsed.body {
                hops.push(path.hop.address);
            }
        }
        if hops.len() >= PATHS { Ok(()) } else { Err(format!("{hops:?}")) }
    })?;
    assert!(hops.iter().all(|hop| *hop == own), "{hops:?}");
    Ok(())
}

/// A host sends as many as the bridge, so if its own crossed, one of so many would be its.
const PATHS: usize = 4;

fn a_bridge_refuses() -> Outcome {
    let mut scene = scene(1)?;
    scene.start(SENDER, &SEND.replace("800kbit/s", "2Mbit/s"))?;
    let refused = scene.run(RECEIVER, "receive 10.1.0.3:5004")?;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let text = &refused.stdout;
    assert!(text.contains("refused by 10.1.0.9: admission refused: the bandwidth"), "{text}");
    // The other way no class could be: no policy shapes it.
    let back = SEND.replace("10.1.0.3:5004 --from 10.1.0.1", "10.1.0.1:5004 --from 10.1.0.3");
    scene.start(RECEIVER, &back)?;
    let refused = scene.run(SENDER, "receive 10.1.0.1:5004")?;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let text = &refused.stdout;
    assert!(text.contains("refused by 10.1.0.9"), "{text}");
    Ok(())
}

fn an_interface_comes_back() -> Outcome {
    let mut scene = scene(8)?;
    scene.start(SENDER, SEND)?;
    await_sessions(&scene, 1)?;
    Netlink::open_in(&scene.networks[RECEIVER])?.delete_link("host")?;
    let is = |state: &'static str| {
        move |scene: &Scene| {
            let status = client::status(&scene.socket(), &Query::default());
            status.is_ok_and(|all| all.ports.iter().any(|port| port.state == state))
        }
    };
    scene.until("the interface is gone", is("gone"))?;
    cable(&scene.networks, RECEIVER, "right")?;
    let test = scene.run(RECEIVER, "receive 10.1.0.3:5004 --test --refresh 500ms --wait 60s")?;
    assert_eq!(test.status.code(), Some(0), "{test:?} {}", scene.logs());
    Ok(())
}
