//! A line on real packets: a modem's queue in front of a capacity that varies, in each way, and the
//! time to the other end.
//!
//! ```text
//!  client: eth0 ---- left :weir: right ---- eth0 :line: wan ---- eth0 :far
//! ```
//! A thread in the network between takes frames at the kernel's stamps, has the simulator's own
//! bottleneck say when the last bit of each is sent, and sends it on a delay later. So what is
//! measured at the modem is exact to the stamp, however late the thread is; lateness only adds to
//! the delay of the path. Invariant: a frame that was taken is in one queue, or released.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use weir_core::packet::Protocol;
use weir_core::units::{Duration, Instant};
use weir_host::error::{Result, SystemError};
use weir_host::ethtool;
use weir_host::netlink::Mac;
use weir_host::netns::NetNs;
use weir_host::precedence::set_realtime;
use weir_host::wait::{WaitPolicy, Waiter, monotonic_ns, set_exact_timers};
use weir_link::pool::{FrameId, FramePool};
use weir_link::port::{self, BATCH, Port, PortConfig, Received};
use weir_sim::behind::{Behind, BehindReport, RunningBehind};
use weir_testbed::{CableEnd, END, Host, Netlink, Testbed, connect};

use weir_bench::rig;

/// A line between two ports, and how its runs are reported.
pub struct LinePlan {
    /// The bottleneck from the link, and that towards it.
    pub behind: [Behind; 2],
    /// The time from a bottleneck to the other end.
    pub delay: Duration,
    /// The time that a report leaves out, and that at which it ends.
    pub span: (Duration, Duration),
}

/// A line that carries frames.
pub struct RunningLine {
    shared: Arc<Shared>,
    thread: JoinHandle<Result<[BehindReport; 2]>>,
}

/// The state that the thread shares with its owner.
#[derive(Default)]
struct Shared {
    /// When the trace begins, in ns of CLOCK_MONOTONIC.
    begins_ns: AtomicU64,
    stop: AtomicBool,
}

/// A host behind the line, with the addresses that the testbed's server has otherwise. The network
/// of that is the line's.
///
/// # Errors
/// As the system says.
pub fn far_host(testbed: &Testbed) -> Result<NetNs> {
    let far = NetNs::new()?;
    let line = &testbed.server;
    line.run(|| rig::command("ip", &format!("address flush dev {END}")))??;
    let addresses = [(Host::Server.ip4(), 24)];
    let ends = [
        CableEnd { namespace: line, name: WAN, mac: Mac(WAN_MAC), addresses: &[] },
        CableEnd { namespace: &far, name: END, mac: Host::Server.mac(), addresses: &addresses },
    ];
    connect(ends, MTU)?;
    for (namespace, name) in [(line, WAN), (&far, END)] {
        namespace.run(|| ethtool::set_all_offloads(name, false))??;
    }
    let mut netlink = Netlink::open_in(&far)?;
    netlink.add_neighbour(END, Host::Client.ip4(), Host::Client.mac())?;
    Ok(far)
}

impl RunningLine {
    /// Opens the ports in the line's network and carries frames.
    ///
    /// # Errors
    /// As the system says.
    pub fn start(network: &NetNs, plan: LinePlan) -> Result<Self> {
        let open = |name| -> Result<Box<dyn Port>> {
            port::open(PortConfig { ring_slots: RING_SLOTS, ..PortConfig::new(name) })
        };
        let mut ports = network.run(|| Ok::<_, SystemError>([open(END)?, open(WAN)?]))??;
        let slot = ports[0].room().slot_len.max(ports[1].room().slot_len);
        let mut pool = FramePool::new(FRAMES, slot);
        for port in &mut ports {
            port.attach(&mut pool)?;
        }
        let shared = Arc::new(Shared::default());
        let stopped = Arc::clone(&shared);
        let (tell, runs) = mpsc::channel();
        let thread = thread::spawn(move || {
            // An ordinary user goes without either.
            drop(set_realtime());
            drop(set_exact_timers());
            // The one who started it waits for this.
            let _told = tell.send(());
            Line::new(plan, ports, pool).run(&stopped)
        });
        let failed = |_| SystemError::refused("start the line", "its thread ended", "try again");
        runs.recv().map_err(failed)?;
        Ok(Self { shared, thread })
    }

    /// Lets the trace begin now; before, the line is as at its start.
    pub fn begin(&self) {
        self.shared.begins_ns.store(monotonic_ns(), Ordering::Release);
    }

    /// Stops it, when its report has ended; returns what passed from the link, and what came to it.
    ///
    /// # Errors
    /// As the system says, and when the line lost frames of its own or its report has not ended.
    ///
    /// # Panics
    /// If its thread did.
    pub fn stop(self) -> Result<[BehindReport; 2]> {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// The line in its thread.
struct Line {
    ports: [Box<dyn Port>; 2],
    pool: FramePool,
    ways: [OneWay; 2],
    delay_ns: u64,
    /// When the report ends, from the beginning of the trace.
    end_ns: u64,
    frames: Vec<Received>,
}

/// The frames one way.
struct OneWay {
    behind: RunningBehind,
    /// When each goes on, in ns of CLOCK_MONOTONIC.
    under_way: VecDeque<(u64, FrameId)>,
}

impl Line {
    fn new(plan: LinePlan, ports: [Box<dyn Port>; 2], pool: FramePool) -> Self {
        let ways = plan.behind.each_ref().map(|behind| OneWay {
            behind: RunningBehind::reporting(behind, plan.span),
            under_way: VecDeque::new(),
        });
        let [delay_ns, end_ns] = [plan.delay, plan.span.1].map(Duration::as_nanos);
        Self { ports, pool, ways, delay_ns, end_ns, frames: Vec::new() }
    }

    fn run(mut self, shared: &Shared) -> Result<[BehindReport; 2]> {
        let descriptors: Vec<_> = self.ports.iter().flat_map(|port| port.descriptors()).collect();
        let mut waiter = Waiter::new(WaitPolicy::Block, &descriptors);
        let mut reports = None;
        while !shared.stop.load(Ordering::Relaxed) {
            let begins_ns = shared.begins_ns.load(Ordering::Acquire);
            let now = monotonic_ns();
            if reports.is_none() && begins_ns > 0 && now >= begins_ns + self.end_ns {
                reports = Some(self.report()?);
            }
            [0, 1].into_iter().for_each(|way| self.take(way, begins_ns));
            [0, 1].into_iter().for_each(|way| self.send(way, now));
            let fronts = self.ways.iter().filter_map(|way| way.under_way.front());
            let next = fronts.map(|front| front.0).chain([now + TURN_NS]).min();
            waiter.wait(now, next)?;
        }
        let why = "it was stopped before the end of its report";
        reports.ok_or_else(|| SystemError::refused("play the line", why, "let it run longer"))
    }

    /// Returns what was measured so far.
    fn report(&mut self) -> Result<[BehindReport; 2]> {
        let lost: u64 = self.ports.iter_mut().map(|port| port.counters().overruns()).sum();
        if lost > 0 {
            let why = format!("the line lost {lost} frames that came too fast for its thread");
            return Err(SystemError::refused("play the line", why, "try again on an idle machine"));
        }
        Ok(self.ways.each_ref().map(|way| way.behind.report(SOURCES.into_iter())))
    }

    /// Takes what came to the port before a bottleneck.
    fn take(&mut self, way: usize, begins_ns: u64) {
        let Self { ports, pool, ways, frames, .. } = self;
        let OneWay { behind, under_way } = &mut ways[way];
        ports[way].receive(0, BATCH, pool, frames);
        for Received { frame, at_ns, headers, .. } in frames.drain(..) {
            let begun = if begins_ns == 0 { at_ns } else { begins_ns };
            let at = Instant::from_nanos(at_ns.saturating_sub(begun));
            let length = pool.bytes(frame).len() as u32;
            let is_call = headers.protocol == Some(Protocol::UDP);
            match behind.pass(at, length, usize::from(!is_call)) {
                Some(sent) => {
                    under_way.push_back((begun + sent.as_nanos() + self.delay_ns, frame));
                }
                None => pool.release(frame),
            }
        }
    }

    /// Sends on what is due.
    fn send(&mut self, way: usize, now: u64) {
        let Self { ports, pool, ways, .. } = self;
        let under_way = &mut ways[way].under_way;
        let mut batch = Vec::with_capacity(BATCH);
        while batch.len() < BATCH
            && let Some((_, frame)) = under_way.front().filter(|row| row.0 <= now)
        {
            batch.push(*frame);
            under_way.pop_front();
        }
        let port = &mut ports[1 - way];
        if !batch.is_empty() {
            let taken = port.send(pool, &batch).taken;
            batch[taken..].iter().for_each(|frame| pool.release(*frame));
        }
        port.reclaim(pool);
    }
}

/// The names of the sources in reports: datagrams are the call's.
pub const SOURCES: [&str; 2] = ["call", "rest"];
/// The line's port towards the far host.
const WAN: &str = "wan";
const WAN_MAC: [u8; 6] = [2, 0, 0, 0, 0x79, 1];
const MTU: u32 = 1500;
/// More than come while the machine lets the thread wait for a tenth of a second.
const RING_SLOTS: usize = 4096;
/// Bound: frames that the line holds, with those under way; the ports' rings keep what has no room.
const FRAMES: u32 = 1 << 14;
/// The longest that the thread waits before it looks whether it is to stop.
const TURN_NS: u64 = 1_000_000;
