//! Claims of interfaces, in private networks: what is refused, what frees a lock, and that the host
//! leaves frames of a claimed interface alone. Needs root or user namespaces, and `ip`.

#![allow(unsafe_code)]

use crate::support::raw;
use weir_testbed::rows::{self, Failed, Need};

use std::fs;
use std::process::Command;

use raw::Raw;
use weir_core::packet::Checksum;
use weir_host::claim::{Claim, ClaimConfig, ClaimPort};
use weir_host::ethtool;
use weir_policy::deployment::OnExit;
use weir_testbed::{END, Host, LEFT, Netlink, RIGHT, Testbed, TestbedConfig, until};

type Outcome = Result<(), Failed>;
type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("an_interface_that_the_host_uses_is_refused_with_what_uses_it", used_interfaces_are_refused),
    ("an_interface_belongs_to_one_deployment_until_its_claim_ends", one_deployment_at_a_time),
    ("host_egress_keeps_addresses_and_only_locks", host_egress_only_locks),
    ("an_interface_made_anew_is_claimed_again", an_interface_made_anew_is_claimed_again),
    ("an_interface_that_others_claimed_first_is_noted_once", a_lost_interface_is_noted_once),
    ("no_router_advertisement_configures_the_host", || stays_silent(&ADVERTISEMENT)),
    ("the_host_forwards_nothing_a_second_time", || stays_silent(&FORWARDING)),
    ("the_host_answers_no_arp_for_its_other_addresses", || stays_silent(&ARP)),
    ("settings_of_an_interface_return_with_the_end_of_its_claim", settings_return),
];

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = rows::Row> {
    rows::table("claim", TESTS, &[Need::PrivateNetworks, Need::Program("ip")])
}

/// Runs `ip` with each line of `commands` between the hosts.
fn ip(testbed: &Testbed, commands: &str) -> Outcome {
    for line in commands.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut command = Command::new("ip");
        command.args(line.split(' '));
        let output = testbed.weir.run(move || command.output())??;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("ip {line}: {text}").into());
        }
    }
    Ok(())
}

/// Claims interfaces between the hosts for the deployment `home`.
fn claim(testbed: &Testbed, interfaces: [&str; 2], take: bool) -> Result<Claim, String> {
    claim_for("home", testbed, interfaces, take)
}

/// As [`claim`], for another deployment.
fn claim_for(
    deployment: &str,
    testbed: &Testbed,
    interfaces: [&str; 2],
    take: bool,
) -> Result<Claim, String> {
    let port = |(name, interface)| ClaimPort { name, interface, is_host: false, bridge: 0 };
    let ports = ["inside", "outside"].into_iter().zip(interfaces).map(port).collect();
    let config = ClaimConfig { deployment, take, on_exit: OnExit::Closed, ports };
    let claimed = testbed.weir.run(|| Claim::take(&config)).map_err(|error| error.to_string())?;
    claimed.map_err(|error| error.to_string())
}

/// Commands for `ip`, the ports, whether they may be taken, and parts of the refusal, or of the
/// note with a claim that succeeds.
type Row<'a> = (&'a str, [&'a str; 2], bool, Result<&'a str, &'a [&'a str]>);

const BOTH: [&str; 2] = [LEFT, RIGHT];
const VETH: &str = "link add x type veth peer name y\nlink set x up\nlink set y up\n";

fn used_interfaces_are_refused() -> Outcome {
    let above = "link add link left name left.5 type macvlan";
    let elsewhere = format!("{VETH}route add default dev x\nroute add default dev left metric 9");
    let rows: &[Row<'_>] = &[
        ("", BOTH, false, Ok("")),
        ("", [LEFT, "nosuch0"], true, Err(&["`nosuch0` as port `outside`", "ip link"])),
        (
            "link add br0 type bridge\nlink set left master br0",
            BOTH,
            true,
            Err(&["`left` as port `inside`", "the bridge `br0`", "ip link set left nomaster"]),
        ),
        (
            "addr add 192.0.2.1/24 dev right\naddr add 2001:db8::1/64 dev right",
            BOTH,
            false,
            Err(&["`right`", "192.0.2.1/24, 2001:db8::1/64, which would stop", "--take"]),
        ),
        ("addr add 192.0.2.1/24 dev right", BOTH, true, Ok("cannot use 192.0.2.1/24")),
        (
            "route add 198.51.100.0/24 dev left",
            BOTH,
            false,
            Err(&["the route to 198.51.100.0/24", "--take"]),
        ),
        (
            "addr add 192.0.2.1/24 dev left\nroute add default via 192.0.2.254",
            BOTH,
            true,
            Err(&["the default route through 192.0.2.254", "no other", "ip route del default"]),
        ),
        (&elsewhere, BOTH, false, Err(&["the default route, which would stop"])),
        (&elsewhere, BOTH, true, Ok("cannot use the default route")),
        (VETH, ["x", "y"], true, Err(&["`x` as port `inside`", "the two ends of one veth pair"])),
        (above, [LEFT, "left.5"], true, Err(&["it is a macvlan on `left`", "port `outside`"])),
        (above, BOTH, false, Err(&["the macvlan `left.5`, which would stop"])),
    ];
    for (commands, ports, take, wanted) in rows {
        let testbed = Testbed::new(TestbedConfig::default())?;
        // Addresses that each interface has do not count.
        for port in BOTH {
            testbed.weir.run(|| ethtool::set_ipv6(port, true))??;
        }
        ip(&testbed, commands)?;
        let found = claim(&testbed, *ports, *take);
        let right = match (&wanted, found) {
            (Ok(""), Ok(mut claim)) => claim.take_notes().is_empty(),
            (Ok(part), Ok(mut claim)) => claim.take_notes()[0].contains(part),
            (Err(parts), Err(text)) => parts.iter().all(|part| text.contains(part)),
            _ => false,
        };
        if !right {
            let found = claim(&testbed, *ports, *take).map(|mut claim| claim.take_notes());
            return Err(format!("{commands}: {found:?}, wanted {wanted:?}").into());
        }
    }
    Ok(())
}

/// Whether this process may load programs; in a user namespace it may not.
fn loads_programs() -> bool {
    use weir_host::bpf::{Code, Kind, Program};
    let mut code = Code::new();
    code.give(0);
    Program::load(Kind::Packet, "weir_test", &code).is_ok()
}

fn one_deployment_at_a_time() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let other = Testbed::new(TestbedConfig::default())?;
    let first = claim(&testbed, BOTH, false)?;
    // Another namespace has the same numbers and names.
    let _elsewhere = claim(&other, BOTH, false)?;
    let refused = claim(&testbed, [RIGHT, LEFT], true).err().unwrap_or_default();
    let wanted = format!("already to the deployment `home` (process {})", std::process::id());
    if !refused.contains(&wanted) || !refused.contains("`right` as port `inside`") {
        return Err(format!("{refused:?} should contain {wanted}").into());
    }
    drop(first);
    // A child that another row starts has copies of all locks until it runs its program.
    until("the lock is free", || claim(&testbed, BOTH, false).is_ok())?;
    Ok(())
}

fn host_egress_only_locks() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    ip(&testbed, "addr add 10.77.0.1/24 dev left\nroute add default via 10.77.0.9")?;
    let port = ClaimPort { name: "host", interface: LEFT, is_host: true, bridge: 0 };
    let config =
        ClaimConfig { deployment: "home", take: false, on_exit: OnExit::Closed, ports: vec![port] };
    let mut claimed = testbed.weir.run(|| Claim::take(&config))??;
    let refused = claim(&testbed, BOTH, true).err().unwrap_or_default();
    // The host answers for its address: nothing keeps it quiet.
    let client = testbed.client.run(|| Raw::open(END))??;
    let mut asked = request(0);
    asked[38..42].copy_from_slice(&[10, 77, 0, 1]);
    asked[28..32].copy_from_slice(&[10, 77, 0, 7]);
    client.send(&asked)?;
    client.await_frame(|frame| {
        frame.get(20..22) == Some(&[0, 2]) && frame.get(28..32) == Some(&[10, 77, 0, 1])
    })?;
    let notes = claimed.take_notes();
    if notes.is_empty() && refused.contains("already to the deployment `home`") {
        return Ok(());
    }
    Err(format!("{notes:?}, {refused:?}").into())
}

fn an_interface_made_anew_is_claimed_again() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let mut first = claim(&testbed, BOTH, false)?;
    testbed.disconnect(Host::Client)?;
    testbed.weir.run(|| first.refresh())?;
    testbed.connect(Host::Client)?;
    testbed.weir.run(|| first.refresh())?;
    let refused = claim(&testbed, BOTH, true).err().unwrap_or_default();
    if !refused.contains("`left`") || !refused.contains("already") {
        return Err(format!("{refused:?} should name the new `left`").into());
    }
    // A renamed interface is the same one, and stays claimed when it is made anew.
    ip(&testbed, "link set left down\nlink set left name first")?;
    testbed.weir.run(|| first.refresh())?;
    ip(&testbed, "link del first\nlink add first type veth peer name second")?;
    testbed.weir.run(|| first.refresh())?;
    let refused = claim(&testbed, ["first", RIGHT], true).err().unwrap_or_default();
    if refused.contains("`first`") && refused.contains("already") {
        return Ok(());
    }
    Err(format!("{refused:?} should name `first`").into())
}

fn a_lost_interface_is_noted_once() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let mut first = claim(&testbed, BOTH, false)?;
    testbed.disconnect(Host::Client)?;
    testbed.connect(Host::Client)?;
    ip(&testbed, VETH)?;
    let second = claim_for("other", &testbed, [LEFT, "x"], false)?;
    let mut notes = Vec::new();
    for _ in 0..2 {
        testbed.weir.run(|| first.refresh())?;
        notes.extend(first.take_notes());
    }
    drop(second);
    let noted =
        matches!(notes.as_slice(), [note] if note.contains("take the interface `left` again"));
    if !noted {
        return Err(format!("{notes:?} should name `left` once").into());
    }
    until("`left` belongs to the first again", || {
        let refreshed = testbed.weir.run(|| first.refresh());
        let third = claim(&testbed, [LEFT, "x"], false).err().unwrap_or_default();
        refreshed.is_ok() && third.contains("already to the deployment `home`")
    })?;
    Ok(())
}

fn settings_return() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    ip(&testbed, "addr add 192.0.2.1/24 dev left")?;
    let keys = ["ipv4/conf/left/forwarding", "ipv4/conf/left/arp_ignore"];
    let keys = [keys[0], keys[1], "ipv6/conf/left/accept_ra", "ipv6/conf/left/disable_ipv6"];
    let read = || {
        let values = testbed.weir.run(|| {
            keys.map(|key| fs::read_to_string(format!("/proc/sys/net/{key}")).unwrap_or_default())
        });
        values.map_err(|error| error.to_string())
    };
    testbed.weir.run(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1"))??;
    let before = read()?;
    let claimed = claim(&testbed, BOTH, true)?;
    let during = read()?;
    testbed.weir.run(move || drop(claimed))?;
    let after = read()?;
    let changes = before != during;
    if before == after && changes != loads_programs() {
        return Ok(());
    }
    Err(format!("{before:?}, then {during:?}, then {after:?}").into())
}

/// An act of a host on a frame, which a claim of the interface prevents.
struct Deed {
    /// Commands for `ip` between the hosts.
    prepare: &'static str,
    /// The frame with this number, as the client sends it.
    frame: fn(u8) -> Vec<u8>,
    /// The host at which the effect shows.
    at: Host,
    /// Whether a frame there, or a line of `if_inet6` between the hosts, is the effect of this
    /// number.
    shows: fn(&[u8], u8) -> bool,
}

/// Checks that frame 1, which a packet socket sees while the interface is claimed, has no effect,
/// and that frame 2 has it afterwards. Frames take effect in their order, so nothing is late.
fn stays_silent(deed: &Deed) -> Outcome {
    let testbed = Testbed::new(TestbedConfig { static_neighbours: false, ..Default::default() })?;
    testbed.weir.run(|| ethtool::set_ipv6(LEFT, true))??;
    testbed.weir.run(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1"))??;
    ip(&testbed, deed.prepare)?;
    let mut netlink = Netlink::open_in(&testbed.weir)?;
    netlink.add_neighbour(RIGHT, Host::Server.ip4(), Host::Server.mac())?;
    let port = testbed.weir.run(|| Raw::open(LEFT))??;
    let sender = testbed.client.run(|| Raw::open(END))??;
    let watcher = testbed.namespace(deed.at).run(|| Raw::open(END))??;
    let claimed = claim(&testbed, BOTH, true)?;
    let first = (deed.frame)(1);
    sender.send(&first)?;
    port.await_frame(|seen| seen == first)?;
    testbed.weir.run(move || drop(claimed))?;
    let mut seen: Vec<Vec<u8>> = Vec::new();
    until("the frame has its effect without a claim", || {
        // The kernel may act on none at first.
        drop(sender.send(&(deed.frame)(2)));
        let lines = testbed.weir.run(|| fs::read_to_string("/proc/thread-self/net/if_inet6"));
        let lines = lines.ok().and_then(Result::ok).unwrap_or_default();
        seen.extend(lines.lines().map(|line| line.as_bytes().to_vec()));
        seen.extend(std::iter::from_fn(|| watcher.take()));
        seen.iter().any(|seen| (deed.shows)(seen, 2))
    })?;
    if seen.iter().any(|seen| (deed.shows)(seen, 1)) {
        return Err("the host acted on a frame of a claimed interface".into());
    }
    Ok(())
}

/// A router advertises the prefix 2001:db8:0:N::/64.
const ADVERTISEMENT: Deed = Deed {
    prepare: "",
    frame: advertisement,
    at: Host::Client,
    shows: |line, number| line.starts_with(format!("20010db80000000{number}").as_bytes()),
};

/// A datagram for the server is sent to the address of the port.
const FORWARDING: Deed = Deed {
    prepare: "route add 10.77.0.1/32 dev left\nroute add 10.77.0.2/32 dev right",
    frame: datagram,
    at: Host::Server,
    shows: |frame, number| {
        frame.starts_with(&Host::Server.mac().0) && frame.ends_with(&[number; 9])
    },
};

/// A request for an address of the host's other interfaces.
const ARP: Deed = Deed {
    prepare: "link set lo up\naddr add 10.77.0.101/32 dev lo\naddr add 10.77.0.102/32 dev lo\n\
              route add 10.77.0.1/32 dev left",
    frame: request,
    at: Host::Client,
    // A reply is code 2 and begins with the sender's addresses.
    shows: |frame, number| {
        frame.get(20..22) == Some(&[0, 2]) && frame.get(28..32) == Some(&[10, 77, 0, 100 + number])
    },
};

/// Returns an Ethernet header from the client.
fn ethernet(to: [u8; 6], kind: u16) -> Vec<u8> {
    let mut frame = [to, Host::Client.mac().0].concat();
    frame.extend(kind.to_be_bytes());
    frame
}

fn advertisement(number: u8) -> Vec<u8> {
    let from = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let to = [0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    // RFC 4861, section 4.2: type, code, checksum, hop limit, flags, lifetime and two timers.
    let mut message = vec![134, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // RFC 4861, section 4.6.2: a prefix on the link, for addresses; two lifetimes.
    message.extend([3, 4, 64, 0xc0, 0, 0, 14, 16, 0, 0, 14, 16, 0, 0, 0, 0]);
    message.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, number, 0, 0, 0, 0, 0, 0, 0, 0]);
    let length = message.len() as u16;
    let pseudo = [&from[..], &to, &[0, 0], &length.to_be_bytes(), &[0, 0, 0, 58]].concat();
    let checksum = checksum(&[&pseudo[..], &message].concat());
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    let mut frame = ethernet([0x33, 0x33, 0, 0, 0, 1], 0x86dd);
    frame.extend([0x60, 0, 0, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend([58, 255]);
    frame.extend([&from[..], &to, &message].concat());
    frame
}

fn datagram(number: u8) -> Vec<u8> {
    // The address of the testbed's left port.
    let mut frame = ethernet([0x02, 0, 0, 0, 0x78, 1], 0x0800);
    let mut header = vec![0x45, 0, 0, 48, 0, 0, 0, 0, 64, 17, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2];
    let checksum = checksum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(header);
    // A UDP header without checksum, and the content.
    frame.extend([0x30, 0x39, 0x30, 0x39, 0, 28, 0, 0]);
    frame.extend([number; 20]);
    frame
}

fn request(number: u8) -> Vec<u8> {
    let mut frame = ethernet([0xff; 6], 0x0806);
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(Host::Client.mac().0);
    frame.extend([10, 77, 0, 1]);
    frame.extend([0; 6]);
    frame.extend([10, 77, 0, 100 + number]);
    frame.resize(60, 0);
    frame
}

fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = Checksum::default();
    sum.add(bytes);
    sum.finish()
}
