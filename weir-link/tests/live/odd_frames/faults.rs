//! Faults and changes: what a bridge does with ordinary frames while its surroundings are odd.

use std::io::Write;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::thread;

use weir_core::random::Random;
use weir_host::netlink::Mac;
use weir_testbed::{END, Host, LEFT, Netlink, PATIENCE, RIGHT, TestbedConfig, Vxlan, until_seen};

use crate::odd_frames::frames::*;
use crate::odd_frames::lab::{CLIENT, HOSTS, Lab, OTHER, Outcome, SERVER, Through};

fn numbered(from: Host, to: Host, number: u8) -> Vec<u8> {
    between(from.mac(), to.mac(), LOCAL, &[number; 60])
}

/// Sends a few frames each way.
fn talk(lab: &mut Lab, number: u8) -> Outcome {
    let frames = |from, to| plain((0..5).map(|n| numbered(from, to, number + n)).collect());
    lab.cross(CLIENT, &frames(Host::Client, Host::Server))?;
    lab.cross(SERVER, &frames(Host::Server, Host::Client))
}

pub fn for_a_port(lab: &mut Lab) -> Outcome {
    let mut netlink = lab.netlink()?;
    for port in [LEFT, RIGHT] {
        let own = netlink.link(port)?.mac.ok_or("a port has an address")?;
        lab.cross(CLIENT, &plain(vec![between(Host::Client.mac(), own, LOCAL, &[1; 60])]))?;
        lab.cross(SERVER, &plain(vec![between(Host::Server.mac(), own, LOCAL, &[2; 60])]))?;
        // One that claims to be the port itself.
        lab.cross(CLIENT, &plain(vec![between(own, Host::Server.mac(), LOCAL, &[3; 60])]))?;
        lab.cross(SERVER, &plain(vec![between(Host::Server.mac(), own, LOCAL, &[4; 60])]))?;
    }
    Ok(())
}

pub fn one_side(lab: &mut Lab) -> Outcome {
    let near = Mac([2, 0, 0, 0, 0, 9]);
    let frame = |from, to| plain(vec![between(from, to, LOCAL, &[7; 60])]);
    // Unknown: it goes to every port. Then it speaks, and what is for it stays.
    lab.cross(CLIENT, &frame(Host::Client.mac(), near))?;
    lab.cross(CLIENT, &frame(near, Host::Server.mac()))?;
    lab.cross(CLIENT, &frame(Host::Client.mac(), near))?;
    lab.cross(SERVER, &frame(Host::Server.mac(), near))?;
    talk(lab, 0)
}

pub fn moves(lab: &mut Lab) -> Outcome {
    let station = Mac([2, 0, 0, 0, 0, 9]);
    let frame = |from, to, number| plain(vec![between(from, to, LOCAL, &[number; 60])]);
    for round in 0..3 {
        lab.cross(CLIENT, &frame(station, Host::Server.mac(), round))?;
        lab.cross(CLIENT, &frame(Host::Client.mac(), station, 10 + round))?;
        lab.cross(SERVER, &frame(station, Host::Client.mac(), 20 + round))?;
        // The same address on both sides: each frame goes to where it was not seen last.
        lab.cross(CLIENT, &frame(Host::Client.mac(), station, 30 + round))?;
        lab.cross(SERVER, &frame(Host::Server.mac(), station, 40 + round))?;
    }
    lab.cross(CLIENT, &frame(station, station, 50))?;
    lab.cross(SERVER, &frame(station, station, 51))
}

pub fn flood(lab: &mut Lab) -> Outcome {
    talk(lab, 0)?;
    let mut random = Random::new(1, 0);
    let mut invented = || {
        let bits = random.bits().to_be_bytes();
        Mac([2, bits[1], bits[2], bits[3], bits[4], bits[5]])
    };
    let stations: Vec<Mac> = (0..6000).map(|_| invented()).collect();
    for some in stations.chunks(200) {
        let frames = some.iter().map(|from| between(*from, Host::Server.mac(), LOCAL, &[1; 60]));
        lab.cross(CLIENT, &plain(frames.collect()))?;
    }
    let back = stations.iter().step_by(60);
    let frames = back.map(|to| between(Host::Server.mac(), *to, LOCAL, &[2; 60]));
    lab.cross(SERVER, &plain(frames.collect()))?;
    talk(lab, 10)
}

pub fn shorter_mtu(lab: &mut Lab) -> Outcome {
    lab.netlink()?.set_mtu(RIGHT, 1000)?;
    lab.testbed.server.run(|| Netlink::open()?.set_mtu(END, 1000))??;
    lab.settle()?;
    let lens = [999, 1000, 1001, 1004, 1005, 1500];
    let mut frames: Vec<_> = lens.iter().map(|len| ethernet(LOCAL, &filling(*len))).collect();
    frames.extend([1000, 1001, 1500].map(|len| tagged(&[0x8100, 5], LOCAL, &filling(len))));
    lab.cross(CLIENT, &plain(frames))
}

pub fn mtu_changes(lab: &mut Lab) -> Outcome {
    let frames = |from: Host, to: Host, longest: u32| {
        let longest = between(from.mac(), to.mac(), LOCAL, &filling(longest as usize));
        plain(vec![longest, numbered(from, to, 1)])
    };
    for mtu in [1500_u32, 9000, 3000, 1500, 4000] {
        for port in [LEFT, RIGHT] {
            lab.netlink()?.set_mtu(port, mtu)?;
        }
        for host in HOSTS {
            lab.testbed.namespace(host).run(|| Netlink::open()?.set_mtu(END, mtu))??;
        }
        lab.settle()?;
        lab.cross(CLIENT, &frames(Host::Client, Host::Server, mtu))?;
        lab.cross(SERVER, &frames(Host::Server, Host::Client, mtu))?;
    }
    Ok(())
}

pub fn cable(lab: &mut Lab) -> Outcome {
    talk(lab, 0)?;
    lab.testbed.disconnect(Host::Server)?;
    lab.await_right("gone", 0)?;
    lab.settle()?;
    lab.lose(CLIENT, &plain((0..20).map(|n| numbered(Host::Client, Host::Server, n)).collect()))?;
    lab.settle()?;
    lab.testbed.connect(Host::Server)?;
    lab.await_right("up", 1)?;
    lab.settle()?;
    if lab.through == Through::Kernel {
        // The frames that `talk` sends, and their last ones, for nothing.
        let frames = |from, to| plain((0..6).map(|n| numbered(from, to, n)).collect());
        lab.lose(CLIENT, &frames(Host::Client, Host::Server))?;
        return lab.lose(SERVER, &frames(Host::Server, Host::Client));
    }
    talk(lab, 10)
}

pub fn down(lab: &mut Lab) -> Outcome {
    talk(lab, 0)?;
    lab.netlink()?.set_up(RIGHT, false)?;
    lab.await_right("down", 0)?;
    lab.settle()?;
    lab.lose(CLIENT, &plain((0..20).map(|n| numbered(Host::Client, Host::Server, n)).collect()))?;
    lab.settle()?;
    lab.netlink()?.set_up(RIGHT, true)?;
    lab.await_right("up", 0)?;
    lab.settle()?;
    talk(lab, 10)
}

pub fn renamed(lab: &mut Lab) -> Outcome {
    talk(lab, 0)?;
    lab.netlink()?.rename(RIGHT, OTHER)?;
    lab.settle()?;
    talk(lab, 10)?;
    lab.netlink()?.set_up(OTHER, false)?;
    lab.await_right("down", 0)?;
    lab.settle()?;
    lab.netlink()?.set_up(OTHER, true)?;
    lab.await_right("up", 0)?;
    lab.settle()?;
    talk(lab, 20)?;
    if let Some(status) = lab.status() {
        let right = &status.ports[1];
        if right.interface != OTHER || right.rebinds != 0 {
            return Err(format!("the new name is not reported: {right:?}").into());
        }
    }
    Ok(())
}

/// With the option, a cable pulled at one host is a cable without carrier at the other, until it is
/// plugged again, or the bridge ends.
pub fn carrier_is_passed_on() -> Outcome {
    let mut lab = Lab::new(Through::Weir, TestbedConfig::default(), true)?;
    talk(&mut lab, 0)?;
    expect_carrier(&lab, Host::Server, true)?;
    lab.testbed.client.run(|| Netlink::open()?.set_up(END, false))??;
    expect_carrier(&lab, Host::Server, false)?;
    lab.testbed.client.run(|| Netlink::open()?.set_up(END, true))??;
    expect_carrier(&lab, Host::Server, true)?;
    lab.settle()?;
    talk(&mut lab, 10)?;
    lab.testbed.client.run(|| Netlink::open()?.set_up(END, false))??;
    expect_carrier(&lab, Host::Server, false)?;
    let mut netlink = lab.netlink()?;
    lab.stop()?;
    if netlink.link(RIGHT)?.is_up { Ok(()) } else { Err("the port was left down".into()) }
}

fn expect_carrier(lab: &Lab, host: Host, expected: bool) -> Outcome {
    let mut netlink = Netlink::open_in(lab.testbed.namespace(host))?;
    let has_carrier = || netlink.link(END).map(|link| link.has_carrier).ok();
    let what = format!("carrier {expected} at {host:?}");
    until_seen(&what, has_carrier, |has| *has == Some(expected))?;
    Ok(())
}

/// Hosts send TCP through a VXLAN tunnel of their own, with all offloads on, across both bridges.
pub fn tcp_in_vxlan() -> Outcome {
    const BYTES: usize = 32 << 20;
    for through in [Through::Kernel, Through::Weir] {
        let lab = Lab::new(through, TestbedConfig::default(), false)?;
        for (host, other) in [(Host::Client, Host::Server), (Host::Server, Host::Client)] {
            lab.testbed.namespace(host).run(|| add_tunnel(host, other))??;
        }
        let listener =
            lab.testbed.server.run(|| TcpListener::bind((inside(Host::Server), 0)))??;
        let to = listener.local_addr()?;
        let server = thread::spawn(move || -> std::io::Result<u64> {
            let (mut stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(PATIENCE))?;
            std::io::copy(&mut stream, &mut std::io::sink())
        });
        let mut stream = lab.testbed.client.run(|| TcpStream::connect_timeout(&to, PATIENCE))??;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&filling(BYTES))?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let arrived = server.join().map_err(|_| "the server panicked")??;
        let status = lab.stop()?.status;
        if arrived != BYTES as u64 {
            return Err(format!("{arrived} of {BYTES} bytes arrived: {status:?}").into());
        }
    }
    Ok(())
}

/// Returns the address of a host in the tunnel.
fn inside(host: Host) -> IpAddr {
    IpAddr::from([10, 99, 0, if host == Host::Client { 1 } else { 2 }])
}

fn add_tunnel(host: Host, other: Host) -> weir_host::error::Result<()> {
    let mut netlink = Netlink::open()?;
    let tunnel = Vxlan { id: 9, from: host.ip4(), to: other.ip4(), has_checksum: true };
    netlink.add_vxlan("tunnel", &tunnel)?;
    netlink.set_up("tunnel", true)?;
    netlink.add_address("tunnel", inside(host), 24)
}
