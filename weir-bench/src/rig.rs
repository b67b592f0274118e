//! The live rig: a generator, a bridge with a policy and a receiver in three private networks.
//!
//! The generator sends UDP frames of one length, each flow at its own rate, to a station that does
//! not exist, so the receiver's kernel discards them after its port has seen them. Rates are taken
//! at the receiver from the kernel's receive stamps, by the length on the wire.

mod htb;

use etherparse::PacketBuilder;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use weir_core::units::Rate;
use weir_host::error::SystemError;
use weir_host::ethtool::set_ipv6;
use weir_host::netlink::Mac;
use weir_host::netns;
use weir_host::precedence::{NICENESS_FIRST, SessionNiceness, set_niceness, set_realtime};
use weir_host::wait::{WaitPolicy, monotonic_ns, pin_to_cpu};
use weir_link::bridge::{Bridge, BridgeConfig, BridgePort, LaneConfig};
use weir_link::pool::{FrameId, FramePool};
use weir_link::port::{self, BATCH, PortConfig};
use weir_link::status::{Board, Status};
use weir_policy::Policy;
use weir_testbed::{END, Host, LEFT, RIGHT, RunningBridge, Testbed, TestbedConfig};
use weir_traffic::RawPort;
use weir_traffic::flood::{FloodPlan, Way};

pub use htb::Htb;

/// A flow of UDP at a constant rate.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// The destination port, by which policies distinguish flows.
    pub port: u16,
    /// The offered rate, counted in frames without check sequence.
    pub rate: Rate,
}

/// The set-up of a measurement of rates.
pub struct Setup<'a> {
    /// The policy from client to server.
    pub policy: &'a Policy,
    /// The flows to send.
    pub flows: &'a [Flow],
    /// Length of every frame in bytes, without check sequence.
    pub frame_length: usize,
    /// The time before the measurement, in which queues fill.
    pub warmup: Duration,
    /// The time that is measured.
    pub duration: Duration,
}

/// The results of a measurement.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Frames per flow, by destination port.
    pub frames: BTreeMap<u16, u64>,
    /// The time from the first measured frame to the last, in ns.
    pub span_ns: u64,
    /// Frames that the receiver itself lost: if not 0 the measurement is void.
    pub receiver_lost: u64,
    /// The rate that the generator really offered, in frames per second.
    pub offered_per_second: f64,
    /// The status of the bridge.
    pub status: Status,
}

impl Measured {
    /// Returns it if the receiver counted every frame that came to it.
    fn whole(self) -> Result<Self, SystemError> {
        let Self { receiver_lost: lost, .. } = self;
        let why = || format!("the receiver lost {lost} frames; nothing was measured");
        let refused = || SystemError::refused("count what arrives", why(), "try again");
        if lost == 0 { Ok(self) } else { Err(refused()) }
    }

    /// Returns the rate of one flow in bit/s for frames of `wire` bytes.
    pub fn rate(&self, port: u16, wire: u32) -> f64 {
        let frames = self.frames.get(&port).copied().unwrap_or(0);
        frames as f64 * f64::from(wire) * 8e9 / self.span_ns.max(1) as f64
    }

    /// Returns the rate of all flows: the frame that opens the span does not count.
    pub fn total_rate(&self, wire: u32) -> f64 {
        let frames = self.frames.values().sum::<u64>().saturating_sub(1);
        frames as f64 * f64::from(wire) * 8e9 / self.span_ns.max(1) as f64
    }
}

/// Enters a user namespace if this process may not make networks otherwise, and takes the
/// precedence that `weir up` takes, until the result is dropped. Call it before any thread is
/// started.
///
/// # Errors
/// When neither is possible; the text says which privilege is missing and how to get it.
pub fn prepare() -> Result<Option<SessionNiceness>, String> {
    netns::prepare_private_networks()?;
    // Other work on the machine should not affect the measurement; ordinary users go without.
    drop(set_niceness(NICENESS_FIRST));
    Ok(SessionNiceness::set(NICENESS_FIRST).ok())
}

/// Measures the rates of flows behind the bridge of `weir up`. All frames come by one ring, as from
/// a driver that sorts none.
///
/// # Errors
/// When the networks cannot be made, a thread of the rig fails, or the receiver lost frames.
pub fn run(setup: &Setup<'_>) -> Result<Measured, SystemError> {
    let forth = LaneConfig::unsorted(DIRECTIONS[0], (vec![0], 1), setup.policy)?;
    let forth = LaneConfig { frames_max: FRAMES_MAX, ..forth };
    let config = bridge_config([forth, policy_lane(1, &policy(UNSHAPED)?)?], cpus().0);
    let (_, other_cpu) = cpus();
    let (measured, status) = between(Forwarder::Weir(Box::new(config)), |testbed, _| {
        measure(setup, testbed, (other_cpu, other_cpu))
    })?;
    Measured { status, ..measured }.whole()
}

/// As [`run`], with the kernel in place of the bridge: its own bridge, and towards the server the
/// set-up of `tc`, a line for each call.
///
/// # Errors
/// As [`run`], and when `ip` or `tc` fails.
pub fn run_kernel(setup: &Setup<'_>, tc: &[String]) -> Result<Measured, SystemError> {
    // The kernel forwards on the sender's CPU.
    let (receiver_cpu, sender_cpu) = cpus();
    let (measured, _) = between(Forwarder::Kernel(tc), |testbed, _| {
        measure(setup, testbed, (sender_cpu, receiver_cpu))
    })?;
    measured.whole()
}

/// The bridge between client and server.
pub enum Forwarder<'a> {
    /// The bridge of `weir up`.
    Weir(Box<BridgeConfig>),
    /// The bridge of `weir up` with `priority = "realtime"`, if the user may have that priority.
    WeirFirst(Box<BridgeConfig>),
    /// The kernel's, with this set-up of `tc` towards the server, a line for each call.
    Kernel(&'a [String]),
}

impl Forwarder<'_> {
    /// The bridge of `weir up` with a policy in each direction.
    pub fn weir(forth: &Policy, back: &Policy) -> Result<Self, SystemError> {
        let lanes = [policy_lane(0, forth)?, policy_lane(1, back)?];
        Ok(Self::Weir(Box::new(bridge_config(lanes, cpus().0))))
    }

    /// The bridge of `weir up`, which shapes neither direction and waits like this.
    pub fn unshaped(wait: WaitPolicy) -> Result<Self, SystemError> {
        let policy = policy(UNSHAPED)?;
        let lanes = [policy_lane(0, &policy)?, policy_lane(1, &policy)?];
        let config = BridgeConfig { wait, ..bridge_config(lanes, cpus().0) };
        Ok(Self::Weir(Box::new(config)))
    }

    /// Lets super-packets pass Weir's bridge as one packet, as `super_packets = "whole"` does.
    pub fn whole(mut self) -> Self {
        if let Self::Weir(config) = &mut self {
            for lane in &mut config.lanes {
                lane.train_max = vec![u32::MAX; lane.leaf_names.len()];
            }
        }
        self
    }

    /// Runs Weir's bridge with `priority = "realtime"`, if the user may have that priority.
    pub fn first(self) -> Self {
        match self {
            Self::Weir(config) => Self::WeirFirst(config),
            other => other,
        }
    }
}

/// Makes the networks, starts the forwarder and runs the traffic; returns what that returned, and
/// the last status of the bridge, which is empty for the kernel.
pub fn between<T>(
    forwarder: Forwarder<'_>,
    traffic: impl FnOnce(&Testbed, Option<&Board>) -> Result<T, SystemError>,
) -> Result<(T, Status), SystemError> {
    let testbed = quiet_testbed()?;
    let is_first = matches!(forwarder, Forwarder::WeirFirst(_));
    let config = match forwarder {
        Forwarder::Weir(config) | Forwarder::WeirFirst(config) => *config,
        Forwarder::Kernel(tc) => {
            testbed.weir.run(|| kernel_bridge(tc))??;
            return Ok((traffic(&testbed, None)?, Status::default()));
        }
    };
    let bridge = testbed.weir.run(|| Bridge::open(config))??;
    let running = RunningBridge::start(move || {
        if is_first {
            // An ordinary user goes without.
            drop(set_realtime());
        }
        Ok(bridge)
    })?;
    let result = traffic(&testbed, Some(running.board()));
    let status = running.board().ask(PATIENCE).unwrap_or_default();
    running.stop()?;
    Ok((result?, status))
}

/// Joins the ports by a bridge of the kernel; call it on a thread of their network.
pub fn kernel_bridge(tc: &[String]) -> Result<(), SystemError> {
    command("ip", &format!("link add name {KERNEL_BRIDGE} type bridge"))?;
    set_ipv6(KERNEL_BRIDGE, false)?;
    for port in [LEFT, RIGHT] {
        command("ip", &format!("link set {port} master {KERNEL_BRIDGE}"))?;
    }
    for line in tc {
        command("tc", line)?;
    }
    command("ip", &format!("link set {KERNEL_BRIDGE} up"))
}

/// Runs a program with these arguments, separated by spaces, to its end.
///
/// # Errors
/// When it is not there or fails, with what it says.
pub fn command(program: &str, arguments: &str) -> Result<(), SystemError> {
    let action = format!("run `{program} {arguments}`");
    let output = Command::new(program).args(arguments.split_whitespace()).output();
    let output = output.map_err(|cause| SystemError {
        cure: "install iproute2".into(),
        ..SystemError::new(action.clone(), cause)
    })?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(SystemError::refused(action, why, "use a kernel that has this scheduler and a bridge"))
}

/// Makes the networks, with hosts that send nothing of their own: they would look for routers
/// periodically, and the interface counts those frames too.
pub fn quiet_testbed() -> Result<Testbed, SystemError> {
    let testbed = Testbed::new(TestbedConfig::default())?;
    for host in [&testbed.client, &testbed.server] {
        host.run(|| set_ipv6(END, false))??;
    }
    Ok(testbed)
}

/// Sends and receives on these CPUs.
pub fn measure(
    setup: &Setup<'_>,
    testbed: &Testbed,
    (sender_cpu, receiver_cpu): (Option<usize>, Option<usize>),
) -> Result<Measured, SystemError> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| testbed.server.run(|| receive(setup, receiver_cpu))?);
        let sender = scope.spawn(|| testbed.client.run(|| send(setup, sender_cpu, &stop))?);
        let received = receiver.join().expect("the receiver does not panic");
        stop.store(true, Ordering::Relaxed);
        let offered_per_second = sender.join().expect("the sender does not panic")?;
        Ok(Measured { offered_per_second, ..received? })
    })
}

/// Leaves the CPU of the bridge to it: this thread, and those that it starts, have the other.
pub fn pin_traffic() -> Result<(), SystemError> {
    cpus().1.map_or(Ok(()), pin_to_cpu)
}

/// Describes a flood of frames of `length` bytes, all that the generator can send or so many a
/// second, to a station that does not exist: they cross the bridge and load no receiver.
pub fn flood_past(from: Host, port: u16, length: u32, rate: Option<u64>) -> FloodPlan {
    let to = if from == Host::Client { Host::Server } else { Host::Client };
    let raw = RawPort { interface: END.to_owned(), to: Mac(NO_STATION), from: None };
    let plan = FloodPlan::raw(END, to.ip4(), port);
    FloodPlan { way: Way::Raw(raw), from: from.ip4(), length, rate, ..plan }
}

/// Returns the CPU of the bridge and that of the traffic: the bridge has one of its own if there
/// are two.
pub fn cpus() -> (Option<usize>, Option<usize>) {
    match thread::available_parallelism() {
        Ok(count) if count.get() > 1 => (Some(1), Some(0)),
        _ => (None, None),
    }
}

/// Reads the policy of an experiment.
pub fn policy(text: &str) -> Result<Policy, SystemError> {
    let outcome = weir_policy::parse(text, "experiment.toml");
    let why = || weir_policy::render::render(&outcome.findings, &outcome.sources, false);
    let policy = outcome.plan.as_ref().cloned();
    policy.ok_or_else(|| SystemError::refused("read the policy", why(), ""))
}

/// The direction of a bridge that follows a policy.
pub fn policy_lane(from: usize, policy: &Policy) -> Result<LaneConfig, SystemError> {
    let lane = LaneConfig::new(DIRECTIONS[from], (vec![from], 1 - from), policy)?;
    Ok(LaneConfig { frames_max: FRAMES_MAX, ..lane })
}

/// Configures a bridge between the ports of a testbed, with room for the backlog of a stall.
pub fn bridge_config(lanes: [LaneConfig; 2], cpu: Option<usize>) -> BridgeConfig {
    let port = |(number, name)| {
        BridgePort::new(number, PortConfig { ring_slots: RING_SLOTS, ..PortConfig::new(name) })
    };
    BridgeConfig {
        ports: (0..).zip([LEFT, RIGHT]).map(port).collect(),
        lanes: lanes.into(),
        wait: WaitPolicy::Hybrid,
        lag_max: weir_core::units::Duration::from_millis(LAG_MAX_MS),
        cpu,
        workers: 1,
        passes_carrier: false,
        intake: true,
    }
}

/// Sends every flow at its rate until stopped; returns the frames per second really sent.
fn send(setup: &Setup<'_>, cpu: Option<usize>, stop: &AtomicBool) -> Result<f64, SystemError> {
    if let Some(cpu) = cpu {
        pin_to_cpu(cpu)?;
    }
    let config = PortConfig { ring_slots: 64, promiscuous: false, ..PortConfig::new(END) };
    let mut port = port::open(config)?;
    let mut pool = FramePool::new((setup.flows.len() + BATCH) as u32, setup.frame_length.max(64));
    let interval =
        |flow: &Flow| setup.frame_length as f64 * 8e9 / flow.rate.bits_per_second() as f64;
    let mut flows: Vec<(FrameId, f64, f64)> = Vec::new();
    for flow in setup.flows {
        let bytes = frame(flow.port, setup.frame_length);
        let id = pool.insert(&bytes).expect("the pool has a slot for each flow");
        flows.push((id, interval(flow), 0.0));
    }
    let start = monotonic_ns();
    let mut batch = Vec::with_capacity(BATCH);
    let mut sent = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let elapsed = (monotonic_ns() - start) as f64;
        batch.clear();
        gather(&mut flows, elapsed, &mut batch);
        if batch.is_empty() {
            thread::sleep(SEND_PAUSE);
            continue;
        }
        let copies: Vec<_> = batch.iter().filter_map(|frame| pool.copy(*frame)).collect();
        let taken = port.send(&mut pool, &copies).taken;
        copies[taken..].iter().for_each(|frame| pool.release(*frame));
        sent += taken as u64;
    }
    Ok(sent as f64 * 1e9 / (monotonic_ns() - start) as f64)
}

/// Collects one frame of each flow that is due, in turn, until none is due or the batch is full.
fn gather(flows: &mut [(FrameId, f64, f64)], elapsed: f64, batch: &mut Vec<FrameId>) {
    loop {
        let before = batch.len();
        for (id, interval, due) in flows.iter_mut().filter(|flow| flow.2 <= elapsed) {
            if batch.len() == BATCH {
                return;
            }
            batch.push(*id);
            *due += *interval;
        }
        if batch.len() == before {
            return;
        }
    }
}

/// Counts the frames that arrive after the warm-up, by flow.
fn receive(setup: &Setup<'_>, cpu: Option<usize>) -> Result<Measured, SystemError> {
    if let Some(cpu) = cpu {
        pin_to_cpu(cpu)?;
    }
    if let [flow] = setup.flows {
        return receive_one(setup, flow.port);
    }
    let config = PortConfig { ring_slots: RECEIVER_SLOTS, ..PortConfig::new(END) };
    let mut port = port::open(config)?;
    let mut pool = FramePool::for_mtu(BATCH as u32, port.mtu());
    let mut frames = Vec::with_capacity(BATCH);
    let mut measured = Measured::default();
    let opened = monotonic_ns();
    let from = opened + setup.warmup.as_nanos() as u64;
    let until = from + setup.duration.as_nanos() as u64;
    let (mut first, mut last) = (0, 0);
    let mut lost_before = None;
    while monotonic_ns() < until {
        port.receive(0, BATCH, &mut pool, &mut frames);
        if frames.is_empty() {
            thread::sleep(RECEIVE_PAUSE);
            continue;
        }
        for received in frames.drain(..) {
            if (from..until).contains(&received.at_ns) {
                if first == 0 {
                    first = received.at_ns;
                    lost_before = Some(port.counters().overruns());
                }
                last = received.at_ns;
                if let Some(flow) = flow_of(pool.bytes(received.frame)) {
                    *measured.frames.entry(flow).or_default() += 1;
                }
            }
            pool.release(received.frame);
        }
    }
    measured.span_ns = last - first;
    measured.receiver_lost = port.counters().overruns() - lost_before.unwrap_or(0);
    Ok(measured)
}

/// Counts the only flow by the interface's own counter, which costs the bridge's CPU nothing: the
/// sender's CPU would fill the receiver's ring.
fn receive_one(setup: &Setup<'_>, flow: u16) -> Result<Measured, SystemError> {
    thread::sleep(setup.warmup);
    let (from, before) = next_arrival()?;
    thread::sleep(setup.duration);
    let (until, after) = next_arrival()?;
    // One more than counted, since the rate is taken from the first frame to the last.
    let frames = BTreeMap::from([(flow, after - before + 1)]);
    Ok(Measured { frames, span_ns: until - from, ..Measured::default() })
}

/// Waits for the next frame; returns when it was there, and how many frames were.
fn next_arrival() -> Result<(u64, u64), SystemError> {
    let (start, before) = (monotonic_ns(), received_frames()?);
    loop {
        let (now, frames) = (monotonic_ns(), received_frames()?);
        if frames != before || now - start > PATIENCE.as_nanos() as u64 {
            return Ok((now, frames));
        }
    }
}

/// Returns the frames that the interface of this thread's network received so far.
pub fn received_frames() -> Result<u64, SystemError> {
    let failed = |cause| SystemError::new("read the counters of the receiver", cause);
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").map_err(failed)?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{END}:")));
    let packets = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    packets.ok_or_else(|| {
        failed(std::io::Error::other(format!("`{END}` has no line in the table of interfaces")))
    })
}

/// Returns the destination port of a frame of the generator.
fn flow_of(frame: &[u8]) -> Option<u16> {
    let headers = weir_core::packet::Headers::parse_ethernet(frame);
    headers.ports.map(|ports| ports.destination)
}

/// Builds a UDP frame of `length` bytes to a station that does not exist.
pub fn frame(port: u16, length: usize) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(Host::Client.mac().0, NO_STATION)
        .ipv4([10, 77, 0, 1], [10, 77, 0, 2], 64)
        .udp(4096, port);
    let payload = vec![0; length.saturating_sub(HEADERS)];
    let mut bytes = Vec::with_capacity(builder.size(payload.len()));
    builder.write(&mut bytes, &payload).expect("a vector takes any packet");
    bytes
}

/// The names of the directions, from the client and from the server.
const DIRECTIONS: [&str; 2] = ["forth", "back"];
/// A policy that never limits.
const UNSHAPED: &str =
    "[link]\nrate = \"40 Gbit/s\"\nscheduler = \"fifo\"\n[class.all]\ndefault = true\n";
/// Ethernet, IPv4 and UDP.
const HEADERS: usize = 14 + 20 + 8;
/// The first destination port of experiments' flows.
pub const FIRST_PORT: u16 = 9000;
const KERNEL_BRIDGE: &str = "bridge";
/// The hardware address of no host of a rig.
pub const NO_STATION: [u8; 6] = [2, 0, 0, 0, 0, 0x77];
/// The frames of a pool.
pub const FRAMES_MAX: u32 = 1 << 14;
/// 40 ms at 200 000 frames/s: a stall of the machine loses no frame.
const RING_SLOTS: usize = 1 << 13;
const LAG_MAX_MS: u64 = 100;
const RECEIVER_SLOTS: usize = 1 << 14;
const PATIENCE: Duration = Duration::from_secs(2);
/// A receiver that waited for each frame would cost the bridge a wake-up per frame.
const RECEIVE_PAUSE: Duration = Duration::from_millis(2);
const SEND_PAUSE: Duration = Duration::from_micros(50);
