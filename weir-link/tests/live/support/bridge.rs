//! The simplest forwarder: two ports and first in, first out, in both directions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use weir_host::error::Result;
use weir_host::wait::{WaitPolicy, Waiter, monotonic_ns};
use weir_link::pool::{FrameId, FramePool};
use weir_link::port::{self, BATCH, Port, PortConfig, PortCounters, PortState};
use weir_testbed::rows::Outcome;
use weir_testbed::{LEFT, RIGHT, Testbed, until_seen};

/// A bridge that runs on a thread of its own until it is stopped.
pub struct Bridge {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    thread: JoinHandle<Report>,
}

/// The states of the left and the right port, when the bridge last looked at them.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub counters: [PortCounters; 2],
    pub states: [Vec<PortState>; 2],
    /// The bytes of a frame that the pool has room for.
    pub slot_len: usize,
}

/// The observations of the bridge, for the left and the right port.
#[derive(Debug)]
pub struct Report {
    pub counters: [PortCounters; 2],
    /// The states that each port went through.
    pub states: [Vec<PortState>; 2],
    /// Frames in use in the pool although no queue holds them.
    pub leaked: usize,
}

impl Bridge {
    pub fn start(testbed: &Testbed, policy: WaitPolicy) -> Result<Self> {
        Self::start_on(testbed, policy, [PortConfig::new(LEFT), PortConfig::new(RIGHT)])
    }

    pub fn start_on(testbed: &Testbed, policy: WaitPolicy, on: [PortConfig; 2]) -> Result<Self> {
        let [left, right] = on;
        let opened = testbed.weir.run(|| Opened::new([port::open(left)?, port::open(right)?]));
        Ok(Self::with(opened??, policy))
    }

    /// As [`Bridge::start_on`], of open ports.
    pub fn with(opened: Opened, policy: WaitPolicy) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (stopped, noted) = (Arc::clone(&stop), Arc::clone(&seen));
        let thread = thread::spawn(move || forward(opened, policy, (&stopped, &noted)));
        Self { stop, seen, thread }
    }

    /// Waits until what the bridge sees is so: however late the machine lets it look.
    pub fn until(&self, what: &str, is_so: impl Fn(&Seen) -> bool) -> Outcome {
        let seen = || self.seen.lock().expect("no panic").clone();
        until_seen(what, seen, is_so)?;
        Ok(())
    }

    pub fn stop(self) -> Report {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the bridge does not panic")
    }
}

impl Report {
    /// Fails unless every frame that arrived was sent, and none leaked.
    pub fn expect_clean(&self) -> Outcome {
        self.expect(self.leaked == 0, "no frame leaked")?;
        for counters in &self.counters {
            let lost = counters.unfinished + counters.oversize + counters.truncated;
            let unsent = counters.send_too_long + counters.send_no_link + counters.send_failed;
            self.expect(lost + unsent == 0, "every frame crossed")?;
        }
        Ok(())
    }

    pub fn expect(&self, is_so: bool, what: &str) -> Outcome {
        if is_so { Ok(()) } else { Err(format!("{what}: {self:#?}").into()) }
    }
}

/// Two ports with the pool that they share.
pub struct Opened {
    ports: [Box<dyn Port>; 2],
    pool: FramePool,
}

impl Opened {
    pub fn new(mut ports: [Box<dyn Port>; 2]) -> Result<Self> {
        let slot = ports.iter().map(|port| port.room().slot_len).max().expect("two ports");
        let held_max: usize = ports.iter().map(|port| port.room().held_max).sum();
        let mut pool = FramePool::new(8192 + held_max as u32, slot);
        for port in &mut ports {
            port.attach(&mut pool)?;
        }
        Ok(Self { ports, pool })
    }
}

fn forward(
    opened: Opened,
    policy: WaitPolicy,
    (stop, seen): (&AtomicBool, &Mutex<Seen>),
) -> Report {
    let Opened { mut ports, mut pool } = opened;
    let mut waiter = Waiter::new(policy, &descriptors(&ports));
    let mut states = ports.each_ref().map(|port| vec![port.state()]);
    let mut received = Vec::with_capacity(4096);
    let mut queues: [Vec<FrameId>; 2] = [Vec::new(), Vec::new()];
    let mut looked_ns = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut worked = false;
        for from in 0..2 {
            received.clear();
            ports[from].reclaim(&mut pool);
            for ring in 0..ports[from].rings() {
                ports[from].receive(ring, BATCH, &mut pool, &mut received);
            }
            worked |= !received.is_empty();
            queues[from].extend(received.iter().map(|frame| frame.frame));
            for batch in std::mem::take(&mut queues[from]).chunks(BATCH) {
                let sent = ports[1 - from].send(&mut pool, batch);
                queues[from].extend(&batch[sent.taken..]);
            }
        }
        let mut now = monotonic_ns();
        if worked {
            waiter.worked(now);
        } else {
            now = waiter.wait(now, None).expect("ppoll works");
        }
        if now - looked_ns > 20_000_000 {
            looked_ns = now;
            for (port, states) in ports.iter_mut().zip(&mut states) {
                let state = port.refresh();
                if states.last() != Some(&state) {
                    states.push(state);
                }
            }
            let slot = ports.iter().map(|port| port.room().slot_len).max().expect("two ports");
            if slot > pool.slot_len() {
                pool.grow(slot);
                ports.iter_mut().for_each(|port| drop(port.attach(&mut pool)));
            }
            waiter = Waiter::new(policy, &descriptors(&ports));
            *seen.lock().expect("no panic") = Seen {
                counters: ports.each_mut().map(|port| port.counters()),
                states: states.clone(),
                slot_len: pool.slot_len(),
            };
        }
    }
    queues.iter().flatten().for_each(|frame| pool.release(*frame));
    ports.iter_mut().for_each(|port| port.reclaim(&mut pool));
    let held: usize = ports.iter().map(|port| port.held()).sum();
    let leaked = pool.capacity() - pool.free_count() - held;
    let counters = ports.each_mut().map(|port| port.counters());
    Report { counters, states, leaked }
}

fn descriptors(ports: &[Box<dyn Port>; 2]) -> Vec<i32> {
    ports.iter().flat_map(|port| port.descriptors()).collect()
}
