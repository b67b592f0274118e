//! More than a link carries: datagrams until the value is dropped.

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_host::netns::NetNs;

use crate::{Host, PATIENCE, Result, Testbed, bind};

/// Datagrams that are sent as fast as is said, until it is dropped.
#[derive(Debug)]
pub struct Flood {
    is_over: Arc<AtomicBool>,
    sender: Option<JoinHandle<()>>,
}

/// The rate and the form of a flood.
#[derive(Clone, Debug)]
pub struct FloodConfig {
    /// The ports that it is sent to, in turn.
    pub ports: Vec<u16>,
    /// The payload of each datagram in bytes.
    pub length: usize,
    /// Datagrams at once.
    pub burst: usize,
    /// From one burst to the next.
    pub pause: Duration,
}

/// 100 000 datagrams a second at most, twice what the links of tests carry of the shortest ones, so
/// that it leaves the machine to others now and then.
impl Default for FloodConfig {
    fn default() -> Self {
        let pause = Duration::from_millis(2);
        Self { ports: vec![Flood::PORT], length: 64, burst: 200, pause }
    }
}

impl Flood {
    /// A port where nothing listens.
    pub const PORT: u16 = 9;

    /// Starts to send from the client to [`Flood::PORT`] of the server, with a payload of so many
    /// bytes.
    ///
    /// # Errors
    /// As the system says.
    pub fn start(testbed: &Testbed, length: usize) -> Result<Self> {
        let config = FloodConfig { length, ..FloodConfig::default() };
        Self::between(&testbed.client, Host::Server.ip4(), config)
    }

    /// Starts to send from a network to an address.
    ///
    /// # Errors
    /// As the system says.
    ///
    /// # Panics
    /// If there is no port.
    pub fn between(from: &NetNs, to: IpAddr, config: FloodConfig) -> Result<Self> {
        assert!(!config.ports.is_empty(), "a flood goes somewhere");
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = from.run(|| UdpSocket::bind(any))??;
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let sender = thread::spawn(move || {
            let FloodConfig { ports, length, burst, pause } = config;
            let (bytes, mut ports) = (vec![0; length], ports.iter().cycle());
            while !told.load(Ordering::Relaxed) {
                let next = Instant::now() + pause;
                for port in ports.by_ref().take(burst) {
                    // It fails while the cable is unplugged, and where the socket is full.
                    drop(socket.send_to(&bytes, (to, *port)));
                }
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        });
        Ok(Self { is_over, sender: Some(sender) })
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // A sender that panicked has said why.
        drop(self.sender.take().map(JoinHandle::join));
    }
}

/// Sends so many datagrams from the client to a port of the server, each once the one before has
/// arrived.
///
/// # Errors
/// When one does not arrive.
pub fn exchange(testbed: &Testbed, port: u16, count: usize) -> Result<()> {
    let server = bind(&testbed.server, Host::Server.ip4(), port)?;
    let client = testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
    server.set_read_timeout(Some(PATIENCE))?;
    for number in 0..count {
        client.send_to(&[0; 160], (Host::Server.ip4(), port))?;
        let received = server.recv(&mut [0; 200]);
        received.map_err(|why| format!("datagram {number} of {count} to port {port}: {why}"))?;
    }
    Ok(())
}
