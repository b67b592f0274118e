//! A probe: numbered datagrams through a link, a thousand a second.

use super::PATIENCE;
use libtest_mimic::Failed;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use weir_live::testbed::{Host, Testbed};

/// A probe at work.
pub struct Probe {
    done: Arc<AtomicBool>,
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
        let server = testbed.server.run(|| UdpSocket::bind((Host::Server.ip4(), PORT)))??;
        let client = testbed.client.run(|| UdpSocket::bind((Host::Client.ip4(), 0)))??;
        server.set_read_timeout(Some(Duration::from_millis(100)))?;
        let done = Arc::new(AtomicBool::new(false));
        let (ended, heard_out) = (Arc::clone(&done), Arc::clone(&done));
        let sender = thread::spawn(move || {
            let mut number = 0u32;
            while !ended.load(Ordering::Relaxed) {
                drop(client.send_to(&number.to_be_bytes(), (Host::Server.ip4(), PORT)));
                number += 1;
                thread::sleep(Duration::from_micros(900));
            }
            number
        });
        let receiver = thread::spawn(move || {
            let mut arrivals = Vec::new();
            let mut bytes = [0; 4];
            loop {
                match server.recv(&mut bytes) {
                    Ok(_) => arrivals.push((u32::from_be_bytes(bytes), Instant::now())),
                    Err(_) if heard_out.load(Ordering::Relaxed) => return arrivals,
                    Err(_) => {}
                }
            }
        });
        Ok(Self { done, sender, receiver })
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

/// The port of the class `voice`.
const PORT: u16 = 5004;
