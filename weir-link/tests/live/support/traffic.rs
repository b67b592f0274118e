//! Traffic of the hosts' own kernels: datagrams that are echoed, and connections.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::thread;

use weir_host::netns::NetNs;
use weir_testbed::rows::{Failed, Outcome};
use weir_testbed::{Host, PATIENCE, Testbed, until};

use super::raw;

/// Two hosts, each with its address.
pub type Ends<'a> = [(&'a NetNs, IpAddr); 2];

/// Returns client and server, with these addresses.
pub fn ends(testbed: &Testbed, address: fn(Host) -> IpAddr) -> Ends<'_> {
    [Host::Client, Host::Server].map(|host| (testbed.namespace(host), address(host)))
}

/// Binds a socket at each end, connected to the other.
pub fn sockets(ends: Ends<'_>) -> Result<[UdpSocket; 2], Failed> {
    let [one, other] = ends.map(|(place, at)| place.run(|| UdpSocket::bind((at, 0))));
    let sockets = [one??, other??];
    for (socket, other) in sockets.iter().zip(sockets.iter().rev()) {
        socket.connect(other.local_addr()?)?;
        socket.set_read_timeout(Some(PATIENCE))?;
    }
    Ok(sockets)
}

/// Sends a UDP datagram each way, which must arrive unchanged.
pub fn echo(ends: Ends<'_>, size: usize) -> Outcome {
    let [client, server] = sockets(ends)?;
    let content: Vec<u8> = (0..size).map(|n| (n * 7) as u8).collect();
    for (from, to) in [(&client, &server), (&server, &client)] {
        from.send(&content)?;
        let mut bytes = vec![0; size + 1];
        let len = to.recv(&mut bytes).map_err(|error| format!("{size} bytes: {error}"))?;
        if bytes[..len] != content {
            return Err(format!("{size} bytes became {len}").into());
        }
    }
    Ok(())
}

/// As [`echo`], while the ports adapt to a change: until they have, datagrams may be lost.
pub fn echo_after_change(ends: Ends<'_>, size: usize) -> Outcome {
    let sockets = sockets(ends)?;
    let content: Vec<u8> = (0..size).map(|n| (n * 7) as u8).collect();
    let (mut has_crossed, mut changed) = ([false; 2], None);
    for socket in &sockets {
        socket.set_nonblocking(true)?;
    }
    until(&format!("datagrams of {size} bytes cross both ways"), || {
        let mut bytes = vec![0; size + 1];
        for (from, at) in [(0, 1), (1, 0)] {
            // While an interface is down nothing is sent.
            drop(sockets[from].send(&content));
            if let Ok(len) = sockets[at].recv(&mut bytes) {
                has_crossed[at] = true;
                changed = changed.or((bytes[..len] != content).then_some(len));
            }
        }
        has_crossed == [true; 2]
    })?;
    match changed {
        Some(len) => Err(format!("{size} bytes became {len}").into()),
        None => Ok(()),
    }
}

/// Sends `bytes` each way at once over TCP; all must arrive unchanged.
pub fn transfer(testbed: &Testbed, address: fn(Host) -> IpAddr, bytes: usize) -> Outcome {
    let at = address(Host::Server);
    let listener = testbed.server.run(|| TcpListener::bind((at, 0)))??;
    let to = listener.local_addr()?;
    let client = testbed.client.run(|| TcpStream::connect_timeout(&to, PATIENCE))??;
    let (server, _) = listener.accept()?;
    let content = |seed: u64| (0..bytes as u64).map(move |n| (n.wrapping_mul(n + seed) >> 7) as u8);
    let (forth, back): (Vec<u8>, Vec<u8>) = (content(0).collect(), content(1).collect());
    let is_same = thread::scope(|scope| {
        let other = scope.spawn(|| exchange(server, &back, &forth));
        let is_same = exchange(client, &forth, &back)?;
        Ok::<_, io::Error>(is_same && other.join().expect("it does not panic")?)
    })?;
    if is_same { Ok(()) } else { Err("other bytes arrived".into()) }
}

/// Sends `own` and receives all; returns whether that is `other`.
fn exchange(mut stream: TcpStream, own: &[u8], other: &[u8]) -> io::Result<bool> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut back = stream.try_clone()?;
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut received = Vec::new();
            back.read_to_end(&mut received).map(|_| received)
        });
        stream.write_all(own)?;
        stream.shutdown(Shutdown::Write)?;
        Ok(reader.join().expect("it does not panic")? == other)
    })
}

/// Sends super-packets of 21 datagrams; each must arrive as one, in their order.
pub fn super_packets(testbed: &Testbed) -> Outcome {
    const SIZE: usize = 1000;
    for address in [Host::ip4, Host::ip6] {
        let [client, server] = sockets(ends(testbed, address))?;
        raw::set_udp_segment(&client, SIZE as u16)?;
        let content: Vec<u8> = (0..20_500u32).map(|n| (n / 3) as u8).collect();
        client.send(&content)?;
        let (mut arrived, mut bytes) = (Vec::<u8>::new(), [0; 2 * SIZE]);
        while arrived.len() < content.len() {
            let len = server.recv(&mut bytes)?;
            arrived.extend(&bytes[..len]);
        }
        if arrived != content {
            return Err("datagrams changed on the way".into());
        }
    }
    Ok(())
}
