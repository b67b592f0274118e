//! A modem behind the link, which is the kernel's token bucket with a queue of its own,
//! a server behind it, and what passes.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use weir_host::ethtool;
use weir_host::netlink::Mac;
use weir_host::netns::NetNs;
use weir_testbed::rows::Outcome;
use weir_testbed::{CableEnd, END, Host, Netlink, PATIENCE, Result, Scene, connect};

/// A direction of the modem, at a port of the server's network.
#[derive(Clone, Copy)]
pub struct Modem {
    /// Its port.
    pub port: &'static str,
    /// Bytes that its queue holds.
    pub bytes: u32,
}

impl Modem {
    /// Towards the link.
    pub const DOWN: Self = Self { port: END, bytes: 800_000 };
    /// Towards a distant server.
    pub const UP: Self = Self { port: LINE, ..Self::DOWN };

    /// Makes it, with a rate in Mbit/s.
    pub fn add(self, scene: &Scene, mbit: u32) -> Outcome {
        self.set(scene, "add", &format!("{mbit}mbit"))
    }

    /// Gives it another rate in Mbit/s.
    pub fn change(self, scene: &Scene, mbit: u32) -> Outcome {
        self.set(scene, "change", &format!("{mbit}mbit"))
    }

    /// Lets nothing pass any more.
    pub fn halt(self, scene: &Scene) -> Outcome {
        self.set(scene, "change", "8bit")
    }

    fn set(self, scene: &Scene, verb: &str, rate: &str) -> Outcome {
        let limit = self.bytes.to_string();
        let words = ["qdisc", verb, "dev", self.port, "root", "tbf", "rate", rate];
        let mut tc = Command::new("tc");
        tc.args(words).args(["burst", "4kb", "limit", &limit]);
        let ended = scene.testbed.server.run(|| tc.output())??;
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        Ok(())
    }
}

/// A server behind the modem, which is a router between it and the link. A sender's own queue would
/// hold back what the sender answers with.
pub struct Distant(NetNs);

impl Distant {
    pub fn behind(scene: &Scene) -> Result<Self> {
        let (client, router) = (&scene.testbed.client, &scene.testbed.server);
        let namespace = NetNs::new()?;
        let [near, far] = DISTANT.map(IpAddr::from);
        let mac = |host| Mac([2, 0, 0, 0, 0x99, host]);
        let addresses = [[(near, 24)], [(far, 24)]];
        let end = |namespace, name, mac, addresses| CableEnd { namespace, name, mac, addresses };
        let ends = [
            end(router, LINE, mac(1), addresses[0].as_slice()),
            end(&namespace, END, mac(2), addresses[1].as_slice()),
        ];
        connect(ends, 1500)?;
        for (namespace, name) in [(router, LINE), (&namespace, END)] {
            namespace.run(|| ethtool::set_all_offloads(name, false))??;
        }
        router.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))??;
        Netlink::open_in(client)?.add_route(far, 32, Host::Server.ip4())?;
        Netlink::open_in(&namespace)?.add_route(Host::Client.ip4(), 32, near)?;
        Ok(Self(namespace))
    }

    pub fn end(&self) -> End<'_> {
        End { namespace: &self.0, address: DISTANT[1].into() }
    }
}

/// An end of connections.
#[derive(Clone, Copy)]
pub struct End<'a> {
    /// Its network.
    pub namespace: &'a NetNs,
    /// Its address.
    pub address: IpAddr,
}

/// Returns the client's end.
pub fn client(scene: &Scene) -> End<'_> {
    End { namespace: &scene.testbed.client, address: Host::Client.ip4() }
}

/// The router's port away from the link.
const LINE: &str = "line";
/// The addresses of the router there, and of the server.
const DISTANT: [[u8; 4]; 2] = [[10, 99, 0, 1], [10, 99, 0, 2]];

/// A client that sends a few bytes as soon as the last ones have come back.
pub struct Conversation {
    stops: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Conversation {
    pub fn start(scene: &Scene, distant: &Distant) -> Result<Self> {
        let stops = Arc::new(AtomicBool::new(false));
        let address = (distant.end().address, 8081);
        let listener = distant.end().namespace.run(|| TcpListener::bind(address))??;
        let connect = || TcpStream::connect_timeout(&address.into(), PATIENCE);
        let mut asks = scene.testbed.client.run(connect)??;
        let (mut answers, _) = listener.accept()?;
        for stream in [&asks, &answers] {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
        }
        let stopped = Arc::clone(&stops);
        let talks = move || {
            let mut bytes = [7; 100];
            while !stopped.load(Ordering::Relaxed)
                && asks.write_all(&bytes).and_then(|()| asks.read_exact(&mut bytes)).is_ok()
            {
            }
        };
        let echoes = move || {
            let mut bytes = [0; 100];
            while answers.read_exact(&mut bytes).and_then(|()| answers.write_all(&bytes)).is_ok() {}
        };
        Ok(Self { stops, threads: vec![thread::spawn(talks), thread::spawn(echoes)] })
    }

    pub fn stop(self) {
        self.stops.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// Connections by which one end sends without end.
pub struct Traffic {
    ends: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// A sender's own queue holds little of each connection, so there are many.
    const CONNECTIONS: u16 = 24;

    pub fn start(scene: &Scene) -> Result<Self> {
        let server = End { namespace: &scene.testbed.server, address: Host::Server.ip4() };
        Self::between(server, client(scene))
    }

    pub fn between(from: End<'_>, to: End<'_>) -> Result<Self> {
        let address = (to.address, 8080);
        let listener = to.namespace.run(|| TcpListener::bind(address))??;
        let (mut ends, mut threads) = (Vec::new(), Vec::new());
        for _ in 0..Self::CONNECTIONS {
            let connect = || TcpStream::connect_timeout(&address.into(), PATIENCE);
            let mut sender = from.namespace.run(connect)??;
            sender.set_write_timeout(Some(PATIENCE))?;
            let (mut receiver, _) = listener.accept()?;
            ends.extend([sender.try_clone()?, receiver.try_clone()?]);
            threads.push(thread::spawn(move || while sender.write_all(&[7; 16 << 10]).is_ok() {}));
            threads.push(thread::spawn(move || {
                let mut bytes = vec![0; 64 << 10];
                while receiver.read(&mut bytes).is_ok_and(|count| count > 0) {}
            }));
        }
        Ok(Self { ends, threads })
    }

    /// Ends the connections: what waits at the senders need not come.
    pub fn stop(self) {
        for end in self.ends {
            end.shutdown(Shutdown::Both).ok();
        }
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}
