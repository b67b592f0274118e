//! A flood on a thread of its own: equal frames as fast as the machine sends them, or at a rate.
//!
//! Its frames are made once, so that nearly all of its time is spent in the kernel. Guaranteed
//! frames can be mixed in; these carry marks, and a [`crate::Receiver`] counts them. Invariant: a
//! guaranteed frame is sent by the same thread, between the frames of the flood, so no scheduler of
//! the machine decides how they are mixed.

use crate::arrivals::Delays;
use crate::frame::FrameMaker;
use crate::mark::{Clock, Kind, MARK_BYTES};
use crate::outlet::{Outlet, RawPort, udp_front};
use crate::sender::{Marking, Shared, give};
use serde::Serialize;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use weir_core::account::Histogram;
use weir_core::packet::{Addresses, Headers, Ports, Protocol};
use weir_core::units;
use weir_host::batch::{BATCH_MAX, set_udp_segment};
use weir_host::error::{Result, SystemError};
use weir_host::netlink::Mac;
use weir_host::wait::{WaitPolicy, Waiter, monotonic_ns, set_exact_timers};

/// The packets of a flood, and where they go.
#[derive(Clone, Debug)]
pub struct FloodPlan {
    /// Frames on an interface, or datagrams on sockets.
    pub way: Way,
    /// The receiver of the packets.
    pub to: IpAddr,
    /// The sender that raw frames name; sockets have the host's own address.
    pub from: IpAddr,
    /// The port of the receiver.
    pub dport: u16,
    /// The number of flows; each has a source port of its own.
    pub flows: u16,
    /// The length of each frame, without check sequence; of each segment of a super-packet.
    pub length: u32,
    /// The octet of DSCP and ECN.
    pub traffic_class: u8,
    /// Frames a second; `None` for as many as the machine can send.
    pub rate: Option<u64>,
    /// When it ends by itself.
    pub duration: Option<Duration>,
    /// Frames of another class between those of the flood; the flood ends with the last of them.
    pub guaranteed: Option<Guaranteed>,
}

/// How a flood is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Way {
    /// Frames on an interface, past its queueing discipline.
    Raw(RawPort),
    /// UDP sockets, with this many segments in each super-packet; 1 for plain datagrams.
    Udp(u16),
}

/// Frames with marks between those of a flood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guaranteed {
    /// The number of its stream.
    pub stream: u32,
    /// The port of the receiver.
    pub dport: u16,
    /// The length of each frame, at least 66 bytes over IPv4, 86 over IPv6.
    pub length: u32,
    /// The octet of DSCP and ECN.
    pub traffic_class: u8,
    /// From one to the next.
    pub interval: Duration,
    /// The number of frames.
    pub packets: u64,
    /// Where in a batch of the flood they go.
    pub place: Place,
    /// The station that raw frames go to, if it is not that of the flood.
    pub to: Option<Mac>,
}

/// A place in a batch of the flood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Before its first frame.
    First,
    /// Between its two halves.
    Middle,
    /// After its last frame.
    Last,
    /// At a place of its own in each batch, from before the first frame to after the last.
    Any,
}

/// The packets that a flood sent.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FloodReport {
    /// Frames of the flood that the system took; segments of super-packets each count.
    pub sent: u64,
    /// Frames of the flood that it refused.
    pub refused: u64,
    /// Why it refused the last one.
    pub error: Option<String>,
    /// How long the flood lasted.
    pub seconds: f64,
    /// Guaranteed frames that the system took.
    pub guaranteed: u64,
    /// Guaranteed frames that it refused.
    pub guaranteed_refused: u64,
    /// How late guaranteed frames were sent.
    pub late: Delays,
}

impl FloodPlan {
    /// 60-byte frames of one flow on an interface, for the station 02:00:00:00:00:99, which no host
    /// of a testbed is: they cross a bridge, and a receiving host drops them at once.
    pub fn raw(interface: &str, to: IpAddr, dport: u16) -> Self {
        let absent = Mac([2, 0, 0, 0, 0, 0x99]);
        let port = RawPort { interface: interface.to_owned(), to: absent, from: None };
        Self {
            way: Way::Raw(port),
            to,
            from: to,
            dport,
            flows: 1,
            length: 60,
            traffic_class: 0,
            rate: None,
            duration: None,
            guaranteed: None,
        }
    }

    /// Datagrams that a frame of `length` holds, with this many in each super-packet.
    pub fn udp(to: IpAddr, dport: u16, (length, segments): (u32, u16)) -> Self {
        Self { way: Way::Udp(segments.max(1)), length, ..Self::raw("", to, dport) }
    }

    fn headers(&self, sport: u16, dport: u16, traffic_class: u8) -> Headers {
        let addresses = match (self.from, self.to) {
            (IpAddr::V6(source), IpAddr::V6(destination)) => Addresses::V6 { source, destination },
            (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 { source, destination },
            _ => Addresses::Unknown,
        };
        let ports = Ports { source: sport, destination: dport };
        let mut headers = Headers::of_flow(addresses, Protocol::UDP, ports);
        headers.traffic_class = Some(traffic_class);
        headers
    }
}

impl Guaranteed {
    /// 1000 packets of 200 bytes a second to this port, for 30 seconds, in the middle of batches.
    pub fn new(dport: u16) -> Self {
        Self {
            stream: 1,
            dport,
            length: 214,
            traffic_class: 0,
            interval: Duration::from_millis(1),
            packets: 30_000,
            place: Place::Middle,
            to: None,
        }
    }
}

/// A flood that runs.
pub struct Flood {
    shared: Arc<Shared>,
    thread: JoinHandle<FloodReport>,
}

impl Flood {
    /// Opens the sockets in this thread's namespace and begins.
    ///
    /// # Errors
    /// When a socket or the interface cannot be opened.
    pub fn start(plan: &FloodPlan) -> Result<Self> {
        let running = Running::new(plan)?;
        let shared = Arc::clone(&running.shared);
        let named = thread::Builder::new().name("weir-flood".to_owned());
        let thread = named.spawn(move || running.run());
        let failed = |cause| SystemError::new("start a thread", cause);
        Ok(Self { shared, thread: thread.map_err(failed)? })
    }

    /// Returns how many frames of the flood were sent so far.
    pub fn sent(&self) -> u64 {
        self.shared.packets.load(Ordering::Relaxed)
    }

    /// Returns whether it has ended by itself.
    pub fn is_done(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until it has ended by itself: it has a duration or guaranteed frames.
    ///
    /// # Panics
    /// If its thread did.
    pub fn wait(self) -> FloodReport {
        self.thread.join().expect("the flood's thread does not panic")
    }

    /// Ends it now.
    ///
    /// # Panics
    /// If its thread did.
    pub fn finish(self) -> FloodReport {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.wait()
    }
}

/// The state of the flood's thread.
struct Running {
    plan: FloodPlan,
    flows: Vec<(Outlet, Vec<u8>)>,
    /// Frames that one message of the flood holds.
    segments: u64,
    guaranteed: Option<(Guaranteed, Outlet)>,
    late: Histogram,
    report: FloodReport,
    shared: Arc<Shared>,
    turn: usize,
}

impl Running {
    fn new(plan: &FloodPlan) -> Result<Self> {
        let raw = match &plan.way {
            Way::Raw(port) => Some((port, port.open()?)),
            Way::Udp(_) => None,
        };
        let outlet = |headers: &Headers, to: Option<Mac>| match &raw {
            Some((port, (socket, own))) => {
                let maker = FrameMaker::new(headers, to.unwrap_or(port.to), *own);
                Ok(Outlet::Raw { socket: Arc::clone(socket), maker })
            }
            None => Outlet::udp(headers, None, 0),
        };
        let mut flows = Vec::new();
        for flow in 0..plan.flows.clamp(1, FLOWS_MAX) {
            let headers = plan.headers(FLOW_FIRST + flow, plan.dport, plan.traffic_class);
            let outlet = outlet(&headers, None)?;
            let message = message(plan, &headers, &outlet)?;
            flows.push((outlet, message));
        }
        let guaranteed = match &plan.guaranteed {
            Some(guaranteed) => {
                let class = guaranteed.traffic_class;
                let headers = plan.headers(GUARANTEED_PORT, guaranteed.dport, class);
                Some((guaranteed.clone(), outlet(&headers, guaranteed.to)?))
            }
            None => None,
        };
        let segments = if let Way::Udp(segments) = plan.way { u64::from(segments) } else { 1 };
        Ok(Self {
            plan: plan.clone(),
            flows,
            segments,
            guaranteed,
            late: Histogram::new(),
            report: FloodReport {
                sent: 0,
                refused: 0,
                error: None,
                seconds: 0.0,
                guaranteed: 0,
                guaranteed_refused: 0,
                late: Delays::default(),
            },
            shared: Arc::default(),
            turn: 0,
        })
    }

    fn run(mut self) -> FloodReport {
        // Without it timers are 50 us later, which the report shows.
        let _ = set_exact_timers();
        let mut waiter = Waiter::new(WaitPolicy::Block, &[]);
        let start = monotonic_ns();
        let end = self.plan.duration.map(|duration| start + duration.as_nanos() as u64);
        loop {
            let now = monotonic_ns();
            let over = end.is_some_and(|end| now >= end) || self.is_complete();
            if over || self.shared.stop.load(Ordering::Relaxed) {
                break;
            }
            let batch = self.due(now - start);
            let mixed = self.mixed_due(now - start);
            if batch == 0 && mixed == 0 {
                let next = self.next_ns().saturating_add(start);
                if waiter.wait(now, Some(next)).is_err() {
                    break;
                }
                continue;
            }
            self.mix(batch, mixed, start);
        }
        self.report.seconds = (monotonic_ns() - start) as f64 / 1e9;
        self.end();
        self.report.late = Delays::of(&self.late);
        self.report
    }

    /// Whether the last guaranteed frame was sent.
    fn is_complete(&self) -> bool {
        let number = self.guaranteed_tried();
        self.guaranteed.as_ref().is_some_and(|(plan, _)| number >= plan.packets)
    }

    fn guaranteed_tried(&self) -> u64 {
        self.report.guaranteed + self.report.guaranteed_refused
    }

    /// How many messages of the flood may be sent now.
    fn due(&self, passed_ns: u64) -> u64 {
        let most = (BATCH_MAX as u64 / self.segments).max(1);
        let Some(rate) = self.plan.rate else { return most };
        let frames = u128::from(passed_ns) * u128::from(rate) / 1_000_000_000;
        let tried = u128::from(self.report.sent + self.report.refused);
        let due = frames.saturating_sub(tried) / u128::from(self.segments);
        u64::try_from(due).unwrap_or(most).min(most)
    }

    /// How many guaranteed frames are due.
    fn mixed_due(&self, passed_ns: u64) -> u64 {
        let Some((plan, _)) = &self.guaranteed else { return 0 };
        let interval = (plan.interval.as_nanos() as u64).max(1);
        let due = (passed_ns / interval + 1).min(plan.packets);
        due.saturating_sub(self.guaranteed_tried())
    }

    /// When the next frame is due, after the start.
    fn next_ns(&self) -> u64 {
        let mixed = self.guaranteed.as_ref().map(|(plan, _)| {
            (plan.interval.as_nanos() as u64).saturating_mul(self.guaranteed_tried())
        });
        let tried = self.report.sent + self.report.refused + self.segments;
        let bulk = self.plan.rate.map(|rate| {
            let nanos = u128::from(tried) * 1_000_000_000 / u128::from(rate.max(1));
            u64::try_from(nanos).unwrap_or(u64::MAX).saturating_add(1)
        });
        let next = [mixed, bulk].into_iter().flatten().min();
        next.unwrap_or(u64::MAX)
    }

    /// Sends messages of the flood with the guaranteed frames at their place.
    fn mix(&mut self, batch: u64, mixed: u64, start: u64) {
        let place = self.guaranteed.as_ref().map_or(Place::Last, |(plan, _)| plan.place);
        let before = match place {
            Place::First => 0,
            Place::Middle => batch / 2,
            Place::Last => batch,
            // Numbers in turn, multiplied by a prime, come by every place.
            Place::Any => self.guaranteed_tried() * PRIME % (batch + 1),
        };
        self.bulk(if mixed == 0 { batch } else { before });
        if mixed > 0 {
            (0..mixed).for_each(|_| self.send_guaranteed(start));
            self.bulk(batch - before);
        }
    }

    /// Sends this many messages, of the flows in turn.
    fn bulk(&mut self, count: u64) {
        let raw = matches!(self.plan.way, Way::Raw(_));
        let mut left = count as usize;
        while left > 0 {
            // Frames of all flows share one socket; each UDP flow has its own.
            let many = if raw { left } else { left.min(UDP_TURN) };
            let mut messages: [&[u8]; BATCH_MAX] = [&[]; BATCH_MAX];
            for (place, message) in messages[..many].iter_mut().enumerate() {
                let flow = if raw { self.turn + place } else { self.turn };
                *message = &self.flows[flow % self.flows.len()].1;
            }
            let outlet = &self.flows[self.turn % self.flows.len()].0;
            let may_wait = || !self.shared.stop.load(Ordering::Relaxed);
            let given = give(outlet, &messages[..many], may_wait);
            let refused = u64::from(given.refused.count_ones());
            let sent = (given.tried as u64 - refused) * self.segments;
            self.report.sent += sent;
            self.report.refused += refused * self.segments;
            if let Some(error) = given.error {
                self.report.error = Some(error.to_string());
            }
            self.shared.packets.fetch_add(sent, Ordering::Relaxed);
            self.turn = self.turn.wrapping_add(if raw { many } else { 1 });
            left -= many;
            if given.tried < many {
                break;
            }
        }
    }

    fn send_guaranteed(&mut self, start: u64) {
        let number = self.guaranteed_tried();
        let Some((plan, outlet)) = &self.guaranteed else { return };
        let due = start.saturating_add((plan.interval.as_nanos() as u64).saturating_mul(number));
        let mark = CLOCK.mark(Kind::Packet, plan.stream, number);
        let late = mark.sent_ns.saturating_sub(due);
        let mut bytes = Vec::with_capacity(plan.length as usize);
        outlet.write(plan.length, &mark, number, &mut bytes);
        let given = give(outlet, &[&bytes], || true);
        self.late.record(units::Duration::from_nanos(late));
        let refused = u64::from(given.refused.count_ones());
        self.report.guaranteed_refused += refused;
        self.report.guaranteed += 1 - refused;
    }

    /// Sends the receiver of guaranteed frames the mark of their end.
    fn end(&self) {
        let Some((plan, outlet)) = &self.guaranteed else { return };
        let mark = CLOCK.mark(Kind::End, plan.stream, self.guaranteed_tried());
        let mut bytes = Vec::new();
        for _ in 0..END_MARKS {
            thread::sleep(END_PAUSE);
            let length = plan.length.max(outlet.marked_length());
            outlet.write(length, &mark, mark.number, &mut bytes);
            give(outlet, &[&bytes], || true);
        }
    }
}

/// A message of the flood: a frame, or the payload of a datagram or super-packet.
fn message(plan: &FloodPlan, headers: &Headers, outlet: &Outlet) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let refuse = |why: String, cure| Err(SystemError::refused("make a flood", why, cure));
    match (&plan.way, outlet) {
        (Way::Raw(_), Outlet::Raw { maker, .. }) => {
            maker.write(plan.length, 0, &[], &mut bytes);
        }
        (Way::Udp(segments), _) => {
            let payload = plan.length.saturating_sub(udp_front(headers));
            let whole = u64::from(payload) * u64::from(*segments);
            if *segments > 1 {
                if payload == 0 || whole > DATAGRAM_MAX {
                    let why = format!("{segments} segments of {payload} bytes are {whole}");
                    return refuse(why, "a super-packet holds 1 to 65 000 bytes; send fewer");
                }
                set_udp_segment(outlet.as_fd(), payload as u16)?;
            }
            bytes.resize(whole as usize, 0);
        }
        _ => return refuse("its outlet is of another kind".to_owned(), ""),
    }
    Ok(bytes)
}

/// The shortest guaranteed frame over IPv4: with less it would carry no mark.
pub const GUARANTEED_MIN: u32 = 42 + MARK_BYTES as u32;
const CLOCK: (Clock, i64) = (Clock::Monotonic, 0);
/// Bound: flows of one flood; a plan with more gets this many.
pub const FLOWS_MAX: u16 = 1024;
const FLOW_FIRST: u16 = 20_000;
const GUARANTEED_PORT: u16 = 19_999;
const PRIME: u64 = 7919;
/// Datagrams of one flow before the next has its turn.
const UDP_TURN: usize = 16;
const DATAGRAM_MAX: u64 = 65_000;
const END_MARKS: u32 = 5;
const END_PAUSE: Duration = Duration::from_millis(30);
