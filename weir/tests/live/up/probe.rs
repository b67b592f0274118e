//! A probe: numbered datagrams through a link, a thousand a second.

use super::deaths::until;
use super::{PATIENCE, bind};
use libtest_mimic::Failed;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use weir_testbed::{Host, Testbed};

/// A probe at work.
pub struct Probe {
    done: Arc<AtomicBool>,
    arrived: Arc<AtomicU32>,
    sender: JoinHandle<u32>,
    receiver: JoinHandle<Vec<(u32, Instant)>>,
}

/// What a probe found.
#[derive(Debug)]
pub struct Found {
    /// Datagrams sent.
    pub sent: u32,
    /// Different ones that arrived.
    pub arrived: u32,
    /// Those that arrived more than once.
    pub repeated: u32,
    /// The longest time without one.
    pub gap: Duration,
}

impl Probe {
    /// Begins to send from the client to the server.
    pub fn start(testbed: &Testbed) -> Result<Self, Failed> {
        let server = bind(&testbed.server, Host::Server.ip4(), PORT)?;
        let client = testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
        server.set_read_timeout(Some(Duration::from_millis(100)))?;
        // Those of a probe before it may still be on their way.
        let probe = PROBES.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let (done, arrived) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let count = Arc::clone(&arrived);
        let (ended, heard_out) = (Arc::clone(&done), Arc::clone(&done));
        let sender = thread::spawn(move || {
            let mut number = 0u32;
            while !ended.load(Ordering::Relaxed) {
                let datagram = [probe, number.to_be_bytes()].concat();
                drop(client.send_to(&datagram, (Host::Server.ip4(), PORT)));
                number += 1;
                thread::sleep(Duration::from_micros(900));
            }
            number
        });
        let receiver = thread::spawn(move || {
            let mut arrivals = Vec::new();
            let mut bytes = [[0; 4]; 2];
            loop {
                match server.recv(bytes.as_flattened_mut()) {
                    Ok(_) if bytes[0] != probe => {}
                    Ok(_) => {
                        arrivals.push((u32::from_be_bytes(bytes[1]), Instant::now()));
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(_) if heard_out.load(Ordering::Relaxed) => return arrivals,
                    Err(_) => {}
                }
            }
        });
        Ok(Self { done, arrived, sender, receiver })
    }

    /// Waits until one arrives that was sent after this call, so that the gap before it is known.
    pub fn await_another(&self) -> Result<(), Failed> {
        let before = self.arrived.load(Ordering::Relaxed);
        // As many as may be on their way.
        until("datagrams arrive", || self.arrived.load(Ordering::Relaxed) > before + 100)
    }

    /// Stops, and returns what it found.
    pub fn end(self) -> Found {
        self.done.store(true, Ordering::Relaxed);
        let sent = self.sender.join().expect("it does not panic");
        let arrivals = self.receiver.join().expect("it does not panic");
        let gaps = arrivals.windows(2).map(|pair| pair[1].1.duration_since(pair[0].1));
        let gap = gaps.max().unwrap_or(PATIENCE);
        let mut numbers: Vec<u32> = arrivals.iter().map(|arrival| arrival.0).collect();
        numbers.sort_unstable();
        let all = numbers.len();
        numbers.dedup();
        let arrived = numbers.len() as u32;
        assert!(0 < arrived && arrived <= sent, "{arrived} of {sent} arrived");
        Found { sent, arrived, repeated: all as u32 - arrived, gap }
    }
}

/// How many probes were started.
static PROBES: AtomicU32 = AtomicU32::new(0);
/// The port of the class `voice`.
const PORT: u16 = 5004;
