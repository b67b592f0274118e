//! Directions with `restore_dscp`: what comes back of a connection has the code point of its first
//! packet, in its frames, in its class and in the record.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::thread;

use libtest_mimic::Failed;
use socket2::{Domain, Socket, Type};
use weir_core::packet::Headers;
use weir_host::netns::NetNs;
use weir_link::pool::FramePool;
use weir_link::port::{self, BATCH, PortConfig};
use weir_link::status::Status;
use weir_testbed::rows::Outcome;
use weir_testbed::{END, Host, PATIENCE, Scene};

use super::Test;
use super::records::{interrupt, record, replayed};

pub const TESTS: &[Test] = &[
    ("answers_have_the_code_point_of_their_connection", || answers_have_it("")),
    ("answers_have_the_code_point_of_their_connection_with_workers", || {
        answers_have_it("workers = 2")
    }),
    ("answers_have_the_code_point_of_their_connection_with_shared_ports", || {
        answers_have_it("workers = 4")
    }),
];

/// The class `voice` is for a code point alone.
pub const POLICY: &str = r#"
[link]
rate = "50 Mbit/s"
scheduler = "drr"

[class.voice]
match = [{ dscp = "ef" }]

[class.rest]
default = true
"#;

const DOWNLOAD: &str = r#"
[direction.download]
from = "outside"
to = "inside"
policy = "policy.toml"
restore_dscp = true
"#;

pub const EF: u8 = 0xb8;
const AF41: u8 = 0x88;
const UDP: u16 = 5005;
const TCP: u16 = 8080;

/// By UDP and TCP, over IPv4 and IPv6, connections whose client says EF, and one whose server says
/// AF41 while its client says nothing. The record knows the frames as they were classified.
fn answers_have_it(deployment: &str) -> Outcome {
    let plan = Scene::plan(env!("CARGO_BIN_EXE_weir"), POLICY);
    let mut scene = plan.deployment(deployment).tables(DOWNLOAD).start()?;
    let recording = record(&scene)?;
    let mut port = scene.testbed.client.run(|| port::open(PortConfig::new(END)))??;
    let mut pool = FramePool::for_mtu(16 * BATCH as u32, port.mtu());
    let (client, server) = (&scene.testbed.client, &scene.testbed.server);
    for (own, to) in
        [(Host::Client.ip4(), Host::Server.ip4()), (Host::Client.ip6(), Host::Server.ip6())]
    {
        let marked = datagrams((client, own, EF), (server, to, 0))?;
        let plain = datagrams((client, own, 0), (server, to, AF41))?;
        let tcp = transfer((client, own), (server, to))?;
        let mut frames = Vec::new();
        port.receive(0, 8 * BATCH, &mut pool, &mut frames);
        for (ends, wanted, least) in [(marked, EF, 5), (plain, 0, 5), (tcp, EF, 20)] {
            let headers = frames.iter().map(|one| Headers::parse_ethernet(pool.bytes(one.frame)));
            let is_of = |headers: &Headers| {
                headers.ports.is_some_and(|ports| (ports.source, ports.destination) == ends)
            };
            let found: Vec<_> =
                headers.filter(is_of).filter_map(|headers| headers.traffic_class).collect();
            assert!(found.len() >= least, "{to} {ends:?}: {found:?}");
            assert!(found.iter().all(|class| *class == wanted), "{to} {ends:?}: {found:?}");
        }
        frames.iter().for_each(|one| pool.release(one.frame));
    }
    let voices = |status: &Status| status.lanes[1].classes[0].sent.packets;
    let status = scene.await_status("they have their class", |status| voices(status) >= 50)?;
    assert_eq!((status.lanes[1].name.as_str(), status.lanes[1].classes[0].marked), ("download", 0));
    interrupt(recording)?;
    let report = replayed(&scene)?;
    let lane = &report["directions"][1];
    assert_eq!(lane["direction"], "download");
    assert!(lane["departures"].as_u64() > Some(50), "{report}");
    let without = scene.read("link.toml")?.replace("restore_dscp = true", "");
    scene.write("link.toml", &without)?;
    let ended = scene.call(&["reload"])?;
    let refused = "`restore_dscp` in direction `download` cannot change while the link runs";
    assert!(ended.status.code() == Some(2) && ended.stderr.contains(refused), "{ended:?}");
    scene.stop()?;
    Ok(())
}

/// Five datagrams go and come back; returns source and destination port of those that come back.
pub fn datagrams(
    (client, own, up): (&NetNs, IpAddr, u8),
    (server, to, down): (&NetNs, IpAddr, u8),
) -> Result<(u16, u16), Failed> {
    let server: UdpSocket = server.run(|| bound(Type::DGRAM, (to, UDP).into(), down))??.into();
    let client: UdpSocket = client.run(|| bound(Type::DGRAM, (own, 0).into(), up))??.into();
    for socket in [&client, &server] {
        socket.set_read_timeout(Some(PATIENCE))?;
    }
    for number in 0..5 {
        client.send_to(&[number; 160], (to, UDP))?;
        let (length, back) = server.recv_from(&mut [0; 200])?;
        server.send_to(&[number; 100], back)?;
        // A kernel accepts no datagram whose header checksum is wrong.
        assert_eq!((length, client.recv(&mut [0; 200])?), (160, 100));
    }
    Ok((UDP, client.local_addr()?.port()))
}

/// The server sends some bytes to a client that says EF; returns their ports.
fn transfer(
    (client, own): (&NetNs, IpAddr),
    (server, to): (&NetNs, IpAddr),
) -> Result<(u16, u16), Failed> {
    let listener = server.run(|| TcpListener::bind((to, TCP)))??;
    let sender = thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&[7; 60_000])
    });
    let stream = client.run(|| bound(Type::STREAM, (own, 0).into(), EF))??;
    stream.connect_timeout(&SocketAddr::from((to, TCP)).into(), PATIENCE)?;
    let mut stream = std::net::TcpStream::from(stream);
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    sender.join().expect("the server does not panic")?;
    assert_eq!(bytes, [7; 60_000]);
    Ok((TCP, stream.local_addr()?.port()))
}

/// Returns a socket at an address whose packets have this traffic class from the first on.
fn bound(kind: Type, address: SocketAddr, class: u8) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    match address.is_ipv4() {
        true => socket.set_tos_v4(class.into())?,
        false => socket.set_tclass_v6(class.into())?,
    }
    socket.bind(&address.into())?;
    Ok(socket)
}
