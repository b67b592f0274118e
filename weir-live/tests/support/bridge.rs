//! The simplest forwarder: two ports and first in, first out, in both directions.
#![allow(dead_code, missing_docs, unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use weir_live::error::Result;
use weir_live::pool::{FrameId, FramePool};
use weir_live::port::{self, BATCH, Port, PortConfig, PortCounters, PortState};
use weir_live::testbed::{LEFT, RIGHT, Testbed};
use weir_live::wait::{WaitPolicy, Waiter, monotonic_ns};

/// A bridge that runs on a thread of its own until it is stopped.
pub struct Bridge {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Report>,
}

/// What the bridge observed, for the left and the right port.
#[derive(Debug)]
pub struct Report {
    pub counters: [PortCounters; 2],
    /// The states that each port went through.
    pub states: [Vec<PortState>; 2],
    /// Frames in use in the pool although no queue holds them.
    pub leaked: usize,
    /// CPU time of the bridge's thread.
    pub cpu_ns: u64,
}

impl Bridge {
    pub fn start(testbed: &Testbed, policy: WaitPolicy) -> Result<Self> {
        let ports = testbed.weir.run(|| {
            Ok([port::open(PortConfig::new(LEFT))?, port::open(PortConfig::new(RIGHT))?])
        })??;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || forward(ports, policy, &stopped));
        Ok(Self { stop, thread })
    }

    pub fn stop(self) -> Report {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the bridge does not panic")
    }
}

fn forward(mut ports: [Box<dyn Port>; 2], policy: WaitPolicy, stop: &AtomicBool) -> Report {
    let mtu = ports.iter().map(|port| port.mtu()).max().expect("two ports");
    let mut pool = FramePool::for_mtu(8192, mtu);
    let descriptors: Vec<_> = ports.iter().flat_map(|port| port.descriptors()).collect();
    let mut waiter = Waiter::new(policy, &descriptors);
    let mut states = ports.each_ref().map(|port| vec![port.state()]);
    let mut received = Vec::with_capacity(4096);
    let mut queues: [Vec<FrameId>; 2] = [Vec::new(), Vec::new()];
    let mut looked_ns = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut worked = false;
        for from in 0..2 {
            received.clear();
            ports[from].receive(0, BATCH, &mut pool, &mut received);
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
        }
    }
    queues.iter().flatten().for_each(|frame| pool.release(*frame));
    let leaked = pool.capacity() - pool.free_count();
    let counters = ports.each_mut().map(|port| port.counters());
    Report { counters, states, leaked, cpu_ns: thread_cpu_ns() }
}

fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "a thread can read its own clock");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
