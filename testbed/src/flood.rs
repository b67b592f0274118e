//! More than a link carries: datagrams until the value is dropped.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::{Host, PATIENCE, Result, Testbed, bind};

/// A flood from the client to [`Flood::PORT`] of the server, where nothing listens: 100 000
/// datagrams a second at most, twice what the links of tests carry of the shortest ones, so that it
/// leaves the machine to others now and then.
#[derive(Debug)]
pub struct Flood {
    is_over: Arc<AtomicBool>,
    sender: Option<JoinHandle<()>>,
}

impl Flood {
    /// The port that it is sent to.
    pub const PORT: u16 = 9;

    /// Starts to send datagrams with a payload of so many bytes.
    ///
    /// # Errors
    /// As the system says.
    pub fn start(testbed: &Testbed, length: usize) -> Result<Self> {
        let client = testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let sender = thread::spawn(move || {
            let bytes = vec![0; length];
            while !told.load(Ordering::Relaxed) {
                let next = Instant::now() + PAUSE;
                for _ in 0..BURST {
                    // It fails while the cable is unplugged.
                    drop(client.send_to(&bytes, (Host::Server.ip4(), Self::PORT)));
                }
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        });
        Ok(Self { is_over, sender: Some(sender) })
    }
}

/// So many in each pause.
const BURST: u32 = 200;
const PAUSE: Duration = Duration::from_millis(2);

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
