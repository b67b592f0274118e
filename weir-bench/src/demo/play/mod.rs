//! `weir demo --play`: the link of the demo with traffic that goes on, for a page on which a person
//! changes it.
//!
//! Two hosts share it: a home with a call, a video, pages, an upload and a flood, and a guest, a
//! second address of the client. Invariant: when [`play`] returns, the traffic, the link and the
//! networks are gone, however it ends.

use super::link::{Link, LinkSetup};
use super::live::{Ending, Flags, Handle, Hosts, PAUSE, join};
use super::{Failure, tcp, udp};
use crate::rig;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::Duration;
use weir_host::error::SystemError;
use weir_host::signals::StopSignal;
use weir_testbed::{END, Host, Netlink, Testbed, TestbedConfig};

/// The policy of the link.
pub const PLAY_POLICY: &str = include_str!("policy.toml");

/// Runs link and traffic while `show` runs, which gets the path of the control socket and returns
/// once `stop` is requested. Call it before the process has a second thread.
///
/// # Errors
/// See [`Failure`]; what `show` says is one of the system.
pub fn play(
    stop: &StopSignal,
    show: &mut dyn FnMut(&Path) -> Result<(), String>,
) -> Result<(), Failure> {
    let _first = rig::prepare().map_err(Failure::Privilege)?;
    let testbed = Testbed::new(TestbedConfig::default())?;
    add_guest(&testbed)?;
    let sockets = Sockets::open(&testbed)?;
    let flags = Flags::default();
    thread::scope(|scope| {
        // However this closure ends, the threads must end, or the scope would wait for them.
        let ending = Ending(&flags);
        let (cpu, other_cpu) = rig::cpus();
        let setup = LinkSetup { cpu, policy: PLAY_POLICY, ring: Some(RING) };
        let link = Link::start(scope, &testbed, setup, stop.flag())?;
        // The browser that shows it needs this machine, too.
        let hosts = Hosts { testbed: &testbed, cpu: other_cpu, is_first: false };
        let threads = sockets.start(scope, hosts, &flags);
        let shown = show(&link.socket()).map_err(Failure::System);
        drop(ending);
        let joined = threads.into_iter().map(join).collect::<Result<Vec<()>, _>>();
        link.stop()?;
        joined?;
        shown
    })
}

/// Gives the client a second address, which its peer knows.
fn add_guest(testbed: &Testbed) -> Result<(), SystemError> {
    Netlink::open_in(&testbed.client)?.add_address(END, GUEST, 24)?;
    Netlink::open_in(&testbed.server)?.add_neighbour(END, GUEST, Host::Client.mac())
}

/// Sockets opened in their networks before any traffic.
struct Sockets {
    /// Those that send and that receive datagrams, with the rate; the call has none.
    datagrams: Vec<(UdpSocket, UdpSocket, Option<u64>)>,
    /// Those that serve connections.
    listeners: Vec<TcpListener>,
}

impl Sockets {
    fn open(testbed: &Testbed) -> Result<Self, SystemError> {
        let failed = |cause| SystemError::new("open the sockets of the traffic", cause);
        let heard = || -> io::Result<(Vec<_>, Vec<_>)> {
            let udp = DATAGRAMS.iter().map(|(port, _)| UdpSocket::bind(server(*port)));
            let tcp = STREAMS.iter().map(|port| TcpListener::bind(server(*port)));
            Ok((udp.collect::<io::Result<_>>()?, tcp.collect::<io::Result<_>>()?))
        };
        let sent = || -> io::Result<Vec<_>> {
            DATAGRAMS.iter().map(|(port, _)| sender(server(*port))).collect()
        };
        let (heard, listeners) = testbed.server.run(heard)?.map_err(failed)?;
        let sent = testbed.client.run(sent)?.map_err(failed)?;
        for socket in heard.iter().chain(&sent) {
            socket.set_read_timeout(Some(PAUSE)).map_err(failed)?;
            socket.set_write_timeout(Some(PAUSE)).map_err(failed)?;
        }
        let rates = DATAGRAMS.iter().map(|(_, rate)| *rate);
        let datagrams = sent.into_iter().zip(heard).zip(rates);
        let datagrams = datagrams.map(|((sent, heard), rate)| (sent, heard, rate)).collect();
        Ok(Self { datagrams, listeners })
    }

    /// Starts all traffic: those that receive it first.
    fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        hosts: Hosts<'scope>,
        flags: &'scope Flags,
    ) -> Vec<Handle<'scope, ()>> {
        let (receivers, senders) = (&flags.receivers, &flags.senders);
        let mut threads = Vec::new();
        for (_, socket, _) in &self.datagrams {
            let work = move || udp::discard(socket, receivers);
            threads.push(hosts.start(scope, Host::Server, "receive datagrams", work));
        }
        for listener in &self.listeners {
            let work = move || tcp::serve(listener, receivers);
            threads.push(hosts.start(scope, Host::Server, "serve connections", work));
        }
        let mut send = |work: Box<dyn Fn() -> io::Result<()> + Send + 'scope>| {
            let work = move || lasting(senders, &*work);
            threads.push(hosts.start(scope, Host::Client, "send the traffic", work));
        };
        for (socket, _, rate) in &self.datagrams {
            send(match *rate {
                Some(rate) => Box::new(move || udp::stream(socket, rate, senders)),
                None => Box::new(move || udp::speak(socket, senders).map(drop)),
            });
        }
        let [web, backup, guest] = STREAMS.map(server);
        for _ in 0..BROWSERS {
            send(Box::new(move || browse(web)));
        }
        send(Box::new(move || tcp::upload(backup, senders)));
        send(Box::new(move || tcp::send_all(connect_from(GUEST, guest)?, senders)));
        threads
    }
}

/// Does the work again and again until stopped: a policy may starve a connection until it breaks.
fn lasting(stop: &AtomicBool, work: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        if work().is_err() {
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// Gets a page, and reads it for a while.
fn browse(server: SocketAddr) -> io::Result<()> {
    tcp::transfer(server)?;
    thread::sleep(READING);
    Ok(())
}

fn server(port: u16) -> SocketAddr {
    SocketAddr::new(Host::Server.ip4(), port)
}

fn sender(to: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0))?;
    socket.connect(to)?;
    Ok(socket)
}

fn connect_from(address: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(address, 0).into())?;
    socket.connect_timeout(&to.into(), PATIENCE)?;
    Ok(socket.into())
}

/// The ports of datagrams, with their rates in bit/s: the call, the video, and the flood, which
/// offers more than the line carries.
const DATAGRAMS: [(u16, Option<u64>); 3] =
    [(5004, None), (5006, Some(4_000_000)), (5030, Some(25_000_000))];
/// The ports of connections: pages, the upload, the guest.
const STREAMS: [u16; 3] = [8080, 5001, 5002];
/// The second address of the client.
const GUEST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 3));
/// How many read pages at once.
const BROWSERS: usize = 3;
/// How long a page is read.
const READING: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(5);
/// The size of the ring, which keeps the last minutes.
const RING: &str = "64 MiB";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_has_no_finding_and_a_class_for_each_part_of_the_traffic() {
        let outcome = weir_policy::parse(PLAY_POLICY, "policy.toml");
        assert_eq!(outcome.findings, []);
        let policy = outcome.plan.expect("a policy without errors has a plan");
        for name in ["call", "video", "web", "backup", "flood", "guest"] {
            assert!(policy.class(name).is_some(), "{name}");
        }
    }
}
