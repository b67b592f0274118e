//! `weir reserve` on two hosts of one network, with a bridge of `weir up` between them that has an
//! address in RSVP.

use super::reserving::PATIENCE;
use super::{Outcome, RECEIVER, ROUTER, SENDER, Scene, Test, real_packets_get_the_rate};
use libtest_mimic::Failed;
use serde_json::Value;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use std::{fs, thread};
use weir_live::netlink::{Mac, VethEnd};
use weir_live::netns::NetNs;
use weir_live::rsvp::{Descriptors, KernelNetwork, Network, Role};
use weir_rsvp::wire::{Body, Message};
use weir_testbed::{Netlink, wait_for_carrier};

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
fn scene(name: &str, reserved: u32) -> Result<Scene, Failed> {
    let folder = std::env::temp_dir().join(format!("weir-bri-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let networks: Vec<NetNs> = (0..3).map(|_| NetNs::new()).collect::<Result<_, _>>()?;
    for (host, port) in [(SENDER, "left"), (RECEIVER, "right")] {
        cable(&networks, host, port)?;
    }
    let deployment = format!(
        "[deployment]\nports = {{ near = \"left\", far = \"right\" }}\ncontrol = \"{}\"\n\
         [deployment.rsvp]\naddress = \"{OWN}\"\nclass = \"reserved\"\nrefresh = \"500 ms\"\n\
         [direction.down]\nfrom = \"near\"\nto = \"far\"\npolicy = \"out.toml\"\n",
        folder.join("r.sock").display()
    );
    Scene::of(folder, networks, &deployment, reserved)
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

fn sessions(scene: &Scene) -> Result<Value, Failed> {
    let words = ["--format", "json", "status", "--control", "r.sock", "--reservations"];
    Ok(serde_json::from_slice(&scene.weir(&words).output()?.stdout)?)
}

fn a_bridge_makes_a_class() -> Outcome {
    let mut scene = scene("class", 8)?;
    let sender = scene.start(SENDER, SEND)?;
    let receiver = scene.start(RECEIVER, "receive 10.1.0.3:5004 --refresh 500ms")?;
    scene.until("it is accepted", |scene| scene.told(receiver, "accepted").is_some())?;
    let accepted = scene.told(receiver, "accepted").ok_or("it was")?;
    assert_eq!(accepted["by"], "10.1.0.1", "the sender's host confirms: {accepted}");
    scene.until("the sender hears it", |scene| scene.told(sender, "reserved").is_some())?;
    scene.until("it is a class", |scene| scene.has(&[CLASS]))?;
    let shown = sessions(&scene)?;
    let one = &shown["shown"][0];
    assert_eq!(one["senders"][0]["from"], "10.1.0.1", "{shown}");
    assert_eq!(one["reservations"][0]["by"], "10.1.0.3", "the hop of a Resv: {shown}");
    assert_eq!(shown["malformed"], 0, "{shown}");
    paths_name_the_bridge(&scene)?;
    real_packets_get_the_rate(&scene, [10, 1, 0, 3].into())?;
    let restart = scene.weir(&["restart", "--control", "r.sock"]).output()?;
    assert!(restart.status.success(), "{restart:?} {}", scene.logs());
    paths_name_the_bridge(&scene)?;
    // Longer than state lives without a refresh.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        assert!(scene.has(&[CLASS]), "refreshes keep it: {}", scene.logs());
        thread::sleep(Duration::from_millis(100));
    }
    let release = scene.run(RECEIVER, "release 10.1.0.3:5004")?;
    assert_eq!(release.status.code(), Some(0), "{release:?}");
    scene.until("it is released", |scene| scene.has(&[]))?;
    scene.until("the sender hears it", |scene| scene.told(sender, "not-reserved").is_some())?;
    scene.run(SENDER, "release --all")?;
    scene.until("the session is gone", |scene| {
        sessions(scene).is_ok_and(|shown| shown["sessions"] == 0)
    })
}

/// No Path of the sender's host crosses beside the bridge's own.
fn paths_name_the_bridge(scene: &Scene) -> Outcome {
    let host = ["host".to_owned()];
    let sockets = scene.networks[RECEIVER].run(|| Descriptors::open(Role::Host))??;
    let mut network = scene.networks[RECEIVER].run(|| KernelNetwork::new(sockets, &host))??;
    let (start, mut message, mut hops) = (Instant::now(), Vec::new(), Vec::new());
    while start.elapsed() < Duration::from_secs(3) || hops.len() < 3 && start.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(10));
        while network.receive(&mut message).is_some() {
            if let Body::Path(path) = Message::parse(&message)?.body {
                hops.push(path.hop.address);
            }
        }
    }
    let own: IpAddr = OWN.parse()?;
    assert!(hops.len() >= 3 && hops.iter().all(|hop| *hop == own), "{hops:?}");
    Ok(())
}

fn a_bridge_refuses() -> Outcome {
    let mut scene = scene("refused", 1)?;
    scene.start(SENDER, &SEND.replace("800kbit/s", "2Mbit/s"))?;
    let refused = scene.run(RECEIVER, "receive 10.1.0.3:5004")?;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let text = String::from_utf8_lossy(&refused.stdout);
    assert!(text.contains("refused by 10.1.0.9: admission refused: the bandwidth"), "{text}");
    // The other way no class could be: no policy shapes it.
    let back = SEND.replace("10.1.0.3:5004 --from 10.1.0.1", "10.1.0.1:5004 --from 10.1.0.3");
    scene.start(RECEIVER, &back)?;
    let refused = scene.run(SENDER, "receive 10.1.0.1:5004")?;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let text = String::from_utf8_lossy(&refused.stdout);
    assert!(text.contains("refused by 10.1.0.9"), "{text}");
    Ok(())
}

fn an_interface_comes_back() -> Outcome {
    let mut scene = scene("back", 8)?;
    scene.start(SENDER, SEND)?;
    scene
        .until("it is known", |scene| sessions(scene).is_ok_and(|shown| shown["sessions"] == 1))?;
    Netlink::open_in(&scene.networks[RECEIVER])?.delete_link("host")?;
    thread::sleep(Duration::from_millis(500));
    cable(&scene.networks, RECEIVER, "right")?;
    let start = Instant::now();
    loop {
        let test = scene.run(RECEIVER, "receive 10.1.0.3:5004 --test --wait 2s")?;
        if test.status.code() == Some(0) {
            return Ok(());
        }
        assert!(start.elapsed() < PATIENCE, "{test:?} {}", scene.logs());
    }
}
