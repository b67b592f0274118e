//! A group with a receiver behind the interface that the router shapes, and one behind another.

use super::{RECEIVER, ROUTER, SENDER, Scene, Test};
use std::net::Ipv4Addr;
use weir_host::netns::NetNs;
use weir_testbed::Netlink;
use weir_testbed::groups::GroupRouter;
use weir_testbed::reserving::{address, connect, connect_ends, route_to_all};
use weir_testbed::rows::Outcome;

pub const TESTS: &[Test] =
    &[("a_group_is_reserved_where_its_receivers_are", a_group_is_reserved_where_receivers_are)];

const SIDE: usize = 3;
const CLASS: &str = "rsvp-239_1_2_3-17-5004";
const SEND: &str = "send 239.1.2.3:5004 --from 10.1.0.1:4000 --rate 800kbit/s --bucket 4000B \
                    --packet-min 1000B --packet-max 1000B --refresh 500ms";
const RECEIVE: &str = "receive 239.1.2.3:5004 --style wf --refresh 500ms";

fn a_group_is_reserved_where_receivers_are() -> Outcome {
    let networks: Vec<NetNs> = (0..4).map(|_| NetNs::new()).collect::<Result<_, _>>()?;
    (0..2).try_for_each(|cable| connect(&networks, cable))?;
    connect_ends(&networks, 2, [(ROUTER, "side"), (SIDE, "left")])?;
    for node in [SENDER, ROUTER, RECEIVER] {
        networks[node].run(|| route_to_all(node, 3))??;
    }
    let mut side = Netlink::open_in(&networks[SIDE])?;
    side.set_up("lo", true)?;
    side.add_route(address(true, 0, usize::MAX), 24, address(true, 2, ROUTER))?;
    let gateway = address(true, 0, ROUTER);
    Netlink::open_in(&networks[SENDER])?.add_route("224.0.0.0".parse()?, 4, gateway)?;
    let mut scene = Scene::routed(networks, 8, "")?;
    let open = || GroupRouter::open(&["left", "right", "side"]);
    let groups = scene.networks[ROUTER].run(open)??;
    groups.route((Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(239, 1, 2, 3)), 0, &[1, 2])?;

    let sender = scene.start(SENDER, SEND)?;
    let near = scene.start(RECEIVER, RECEIVE)?;
    scene.await_told(near, "accepted")?;
    scene.until("it is a class", |scene| scene.has(&[CLASS]))?;
    scene.await_told(sender, "reserved")?;
    // Where nothing shapes, nothing can be promised; the other receiver's class stays.
    let refused = scene.run(SIDE, RECEIVE)?;
    assert_eq!(refused.status.code(), Some(1), "{refused:?} {}", scene.logs());
    let text = &refused.stdout;
    assert!(text.contains("refused by 10."), "{text}");
    assert!(scene.has(&[CLASS]), "{:?} {}", scene.classes(), scene.logs());
    // Without its route, nothing of the group leaves there any more.
    groups.route((Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(239, 1, 2, 3)), 0, &[2])?;
    scene.until("its class goes with its route", |scene| scene.has(&[]))
}
