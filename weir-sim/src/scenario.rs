//! A scenario: one link and the sources that share it.
//!
//! A scenario is a value, built in code or read from TOML. A value that is wrong by itself (an
//! interval of zero, a packet without bytes) is refused where it is built.

use crate::behind::Behind;
use crate::change::PlanChange;
use crate::conversation::Conversation;
use crate::network::plan::{Ends, Network};
use crate::random::Random;
use crate::script::{Datagram, Script, Work};
use std::sync::Arc;
use weir_core::classify::{Classifier, InterfaceId};
use weir_core::link::LinkPlan;
use weir_core::packet::Headers;
use weir_core::units::{Bytes, Duration, Instant, Rate, Share};
use weir_policy::policy::Demand;
use weir_tcp::{AckPolicy, Config, Retries};
use weir_trace::capacity::{self, Capacity, CapacityError, End};

pub use weir_tcp::{Congestion, EcnMode, InitialWindow, Profile, SlowStart};

/// Sources, a classifier, one link, sinks.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name in reports.
    pub name: String,
    /// The link that the sources share.
    pub link: LinkPlan,
    /// Which leaf the packets of a source go to.
    pub classifier: Classifier,
    /// The time from the last bit on the wire to the receiver.
    pub delay: Duration,
    /// How long to simulate.
    pub duration: Duration,
    /// How long to simulate before anything counts in the report.
    pub warmup: Duration,
    /// Another seed is another run: sources, droppers, meters and hashes of flows draw from it.
    pub seed: u64,
    /// The delay and arrival curve that each leaf declares; empty if no leaf declares any.
    pub demands: Vec<Demand>,
    /// The sources, in the order of the scenario.
    pub sources: Vec<Source>,
    /// When the link gets another plan, and which; in the order of time.
    pub changes: Vec<PlanChange>,
    /// Around the link a network, of which it is then the main outlet; its own delay counts there,
    /// not `delay`.
    pub network: Option<Box<Network>>,
    /// The bottleneck behind the link, if there is one; in a network each outlet has its own.
    pub behind: Option<Box<Behind>>,
    /// Random times by which another seed moves phases.
    pub jitter: Jitter,
}

/// Random times that break up phases: sources whose packets would always meet in the same order
/// [floyd91] do so in one run only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Jitter {
    /// Each source starts later by up to this.
    pub start: Duration,
    /// The receiver of a connection answers each packet later by up to this, in their order.
    pub processing: Duration,
}

impl Scenario {
    /// Returns the scenario with this capacity in place of that of each bottleneck; `None` if it
    /// has none.
    pub fn with_capacity(&self, capacity: &Capacity) -> Option<Self> {
        let mut other = self.clone();
        let links = other.network.iter_mut().flat_map(|network| &mut network.links);
        let outlets = links.flat_map(|link| &mut link.outlets);
        let behind = outlets.filter_map(|outlet| outlet.behind.as_mut()).chain(&mut other.behind);
        let count = behind.map(|behind| behind.capacity = capacity.clone()).count();
        (count > 0).then_some(other)
    }

    /// As [`Scenario::with_capacity`], with the capacity of a trace, which begins again at its end.
    ///
    /// # Errors
    /// When the bytes are no trace.
    pub fn with_trace(&self, bytes: &[u8]) -> Result<Option<Self>, CapacityError> {
        capacity::parse(bytes, End::Loop).map(|capacity| self.with_capacity(&capacity))
    }

    /// Returns the scenario with the seeds of its links mixed with its own: another seed draws
    /// other numbers in droppers, meters and hashes of flows, too.
    pub(crate) fn seeded(&self) -> Self {
        let mut seeded = self.clone();
        for source in &mut seeded.sources {
            let mut random = Random::stream(self.seed, &format!("start of {}", source.name));
            source.start = source.start.after(random.up_to(self.jitter.start));
        }
        let mix = |plan: &mut LinkPlan, outlet: usize| {
            plan.seed ^= Random::stream(self.seed, &format!("outlet {outlet}")).bits();
        };
        let main = self.network.as_ref().map_or(0, |network| network.main.index());
        mix(&mut seeded.link, main);
        if let Some(network) = &mut seeded.network {
            let outlets = network.links.iter_mut().flat_map(|link| &mut link.outlets);
            for (place, outlet) in outlets.enumerate() {
                if let Some(own) = &mut outlet.queueing {
                    mix(&mut own.link, place);
                }
            }
        }
        for change in &mut seeded.changes {
            mix(&mut change.link, change.outlet.index());
        }
        seeded
    }

    /// The plans that each outlet has, one after another; one link is one outlet.
    pub(crate) fn plans(&self) -> Vec<Vec<&LinkPlan>> {
        let mut plans: Vec<Vec<&LinkPlan>> = match &self.network {
            None => vec![vec![&self.link]],
            Some(network) => {
                let outlets = network.links.iter().flat_map(|link| &link.outlets);
                let own = outlets.map(|outlet| outlet.queueing.as_deref());
                own.map(|own| vec![own.map_or(&self.link, |own| &own.link)]).collect()
            }
        };
        for change in &self.changes {
            if let Some(row) = plans.get_mut(change.outlet.index()) {
                row.push(&change.link);
            }
        }
        plans
    }
}

/// One sender and its receiver behind the link.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name in reports; also names its stream of random numbers.
    pub name: String,
    /// The headers of its packets, by which they are classified.
    pub headers: Headers,
    /// Where its packets come in.
    pub interface: InterfaceId,
    /// The instant at which it starts.
    pub start: Instant,
    /// When it stops, if it does before the end.
    pub stop: Option<Instant>,
    /// The packets or transfers that it sends.
    pub traffic: Traffic,
    /// In a network: between which hosts.
    pub ends: Option<Ends>,
}

/// The packets or transfers of a source.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// Packets at even distances.
    Cbr {
        /// How long they are.
        sizes: Sizes,
        /// The distance from one to the next.
        spacing: Spacing,
        /// Each distance is longer or shorter by up to this part, evenly distributed.
        jitter: Share,
    },
    /// Packets at exponentially distributed distances.
    Poisson {
        /// How long they are.
        sizes: Sizes,
        /// The mean distance from one to the next.
        spacing: Spacing,
    },
    /// Even distances while on, silence while off; begins on.
    OnOff {
        /// How long the packets are.
        sizes: Sizes,
        /// How far apart while on.
        spacing: Spacing,
        /// How long it stays on.
        on: Period,
        /// How long it stays off.
        off: Period,
    },
    /// One TCP connection at a time.
    Tcp(Tcp),
    /// One QUIC connection at a time.
    Quic(Quic),
    /// The packets of a model of an application, sent regardless of losses.
    Scripted(Arc<dyn Script>),
    /// The transfers of a model of an application, one TCP connection at a time; the plan's own
    /// `transfer` has no part in it.
    Transfers(Tcp, Arc<dyn Work>),
    /// The transfers of a model of an application, one QUIC connection at a time.
    QuicTransfers(Quic, Arc<dyn Work>),
}

/// The lengths of frames, without check sequence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// The upper end of its part of the 32-bit numbers and the length; the last end is the largest.
    steps: Vec<(u32, u32)>,
}

/// The distance between packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spacing(Interval);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Interval {
    Fixed(Duration),
    /// The distance at which the frames have this rate.
    Rate(Rate),
}

/// How long a source stays on, or off.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Period {
    /// A constant length.
    Constant(Duration),
    /// Exponentially distributed with this mean.
    Exponential(Duration),
    /// Pareto distributed: heavy-tailed, as bursts of real traffic are.
    Pareto(Pareto),
}

/// A Pareto distribution with a mean.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pareto {
    mean: Duration,
    shape: f64,
}

/// A TCP connection, or one after another.
#[derive(Clone, PartialEq, Debug)]
pub struct Tcp {
    /// The settings of both hosts. Lengths of IP headers follow from the addresses; a segment is
    /// never a burst, a sender writes whatever it has, and no connection is given up, whatever this
    /// says.
    pub config: Config,
    /// The amount to send; without it, the source never ends.
    pub transfer: Option<Transfer>,
    /// The requests and responses in place of a transfer, on one connection.
    pub conversation: Option<Conversation>,
    /// How long packets travel that come back; nothing else is on their way.
    pub return_delay: Duration,
    /// The part of the sender's packets that is lost by chance, behind the link.
    pub loss: Share,
}

/// A QUIC connection, or one after another: one stream of one side. All that is not here is as in
/// quinn.
#[derive(Clone, PartialEq, Debug)]
pub struct Quic {
    /// The congestion control of the sender.
    pub congestion: QuicCongestion,
    /// The window of a new connection, before it knows the path; in place of TCP's rules that of
    /// RFC 9002, 10 packets of up to 1472 bytes.
    pub initial_window: InitialWindow,
    /// The receiver's buffer, of the stream and of the connection; at least a byte.
    pub window: Bytes,
    /// The longest time for which the receiver may hold an acknowledgement back; with zero it
    /// acknowledges each packet. `None` is QUIC's: of every second packet, after 25 ms at most.
    pub ack_delay: Option<Duration>,
    /// Whether packets say that congestion may mark them.
    pub ecn: bool,
    /// The largest IP packet, which is known from the start.
    pub mtu: Mtu,
    /// The amount to send; without it, the source never ends.
    pub transfer: Option<Transfer>,
    /// The requests and responses in place of a transfer, on one connection.
    pub conversation: Option<Conversation>,
    /// How long the receiver's packets travel; nothing else is on their way.
    pub return_delay: Duration,
}

/// A congestion control of quinn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuicCongestion {
    /// CUBIC, as quinn has it.
    Cubic,
    /// NewReno, as quinn has it.
    Reno,
}

/// An amount to send, once or again and again.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Transfer {
    /// How much; at least a byte.
    pub bytes: Bytes,
    /// How long after the last byte has arrived the next transfer begins, on a new connection;
    /// without it there is only one.
    pub think: Option<Period>,
}

/// The length of the largest IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mtu(u16);

impl Traffic {
    /// The mean distance of its packets while it sends, if it sends whatever becomes of them.
    pub(crate) fn mean_distance(&self) -> Option<Duration> {
        match self {
            Traffic::Cbr { sizes, spacing, .. }
            | Traffic::Poisson { sizes, spacing }
            | Traffic::OnOff { sizes, spacing, .. } => Some(spacing.mean(sizes)),
            _ => None,
        }
    }

    /// The word in scenarios and reports.
    pub fn keyword(&self) -> &'static str {
        match self {
            Traffic::Cbr { .. } => "cbr",
            Traffic::Poisson { .. } => "poisson",
            Traffic::OnOff { .. } => "on-off",
            Traffic::Tcp(_) => "tcp",
            Traffic::Quic(_) => "quic",
            Traffic::Scripted(script) => script.keyword(),
            Traffic::Transfers(_, work) | Traffic::QuicTransfers(_, work) => work.keyword(),
        }
    }

    /// Returns the TCP parameters of a source that uses TCP.
    pub fn tcp(&self) -> Option<&Tcp> {
        match self {
            Traffic::Tcp(tcp) | Traffic::Transfers(tcp, _) => Some(tcp),
            _ => None,
        }
    }

    /// Returns the QUIC parameters of a source that uses QUIC.
    pub fn quic(&self) -> Option<&Quic> {
        match self {
            Traffic::Quic(quic) | Traffic::QuicTransfers(quic, _) => Some(quic),
            _ => None,
        }
    }

    /// Returns whether it is sent over connections, so that packets come back to the sender.
    pub(crate) fn connects(&self) -> bool {
        self.tcp().is_some() || self.quic().is_some()
    }

    /// Its datagrams, if the sender cuts each into several frames.
    pub(crate) fn datagram(&self) -> Option<Datagram> {
        match self {
            Traffic::Scripted(script) => script.datagram(),
            _ => None,
        }
    }

    /// The amount to send that the plan of a connection names.
    pub(crate) fn transfer(&self) -> Option<Transfer> {
        let quic = self.quic().and_then(|quic| quic.transfer);
        self.tcp().map_or(quic, |tcp| tcp.transfer)
    }

    /// The model of an application that gives transfers, if one does.
    pub(crate) fn work(&self) -> Option<&Arc<dyn Work>> {
        match self {
            Traffic::Transfers(_, work) | Traffic::QuicTransfers(_, work) => Some(work),
            _ => None,
        }
    }
}

impl Sizes {
    /// Passes the lengths through unchanged.
    pub(crate) const NONE: Sizes = Sizes { steps: Vec::new() };

    /// All frames have `length`; `None` below a byte or above 65 535.
    pub fn fixed(length: u32) -> Option<Self> {
        Self::mixed(&[(length, Share::WHOLE)])
    }

    /// Each length has its share of the packets; `None` if a length is out of range or the shares
    /// do not sum to 100 %, to 1 part in 10^6.
    pub fn mixed(rows: &[(u32, Share)]) -> Option<Self> {
        let whole: u64 = rows.iter().map(|row| u64::from(row.1.ppb())).sum();
        if whole.abs_diff(u64::from(Share::WHOLE.ppb())) > 1000 || rows.len() > SIZES_MAX {
            return None;
        }
        let (mut steps, mut below) = (Vec::with_capacity(rows.len()), 0u64);
        for &(length, share) in rows {
            if !(1..=LENGTH_MAX).contains(&length) {
                return None;
            }
            below += u64::from(share.ppb());
            let end = (u128::from(below) << 32) / u128::from(whole);
            steps.push((u32::try_from(end).unwrap_or(u32::MAX), length));
        }
        steps.last_mut()?.0 = u32::MAX;
        Some(Self { steps })
    }

    /// The length of the next packet, drawn by a random number.
    #[inline]
    pub(crate) fn draw(&self, random: impl FnOnce() -> u64) -> u32 {
        if let Some(length) = self.only() {
            return length;
        }
        let drawn = (random() >> 32) as u32;
        let step = self.steps.iter().find(|step| drawn <= step.0);
        step.expect("the last step is open").1
    }

    /// The length of all, if they have one.
    #[inline]
    pub(crate) fn only(&self) -> Option<u32> {
        if let [(_, length)] = self.steps[..] { Some(length) } else { None }
    }

    /// Returns the longest of the lengths.
    pub(crate) fn most(&self) -> u32 {
        self.steps.iter().map(|step| step.1).max().unwrap_or(0)
    }

    /// The shortest and the longest.
    pub(crate) fn range(&self) -> (u32, u32) {
        let least = self.steps.iter().map(|step| step.1).min().unwrap_or(0);
        (least, self.most())
    }

    /// The mean length in units of 2^-32 bytes.
    pub(crate) fn mean(&self) -> u64 {
        let (mut sum, mut below) = (0u64, 0u64);
        for &(end, length) in &self.steps {
            let end = u64::from(end) + u64::from(end == u32::MAX);
            sum += (end - below) * u64::from(length);
            below = end;
        }
        sum
    }
}

impl Spacing {
    /// Returns a constant distance; `None` for a distance of zero.
    pub fn interval(interval: Duration) -> Option<Self> {
        (interval > Duration::ZERO).then_some(Self(Interval::Fixed(interval)))
    }

    /// Returns the distance at which the frames have `rate`.
    pub const fn rate(rate: Rate) -> Self {
        Self(Interval::Rate(rate))
    }

    /// The distance after a packet of `length`: whole nanoseconds and a rest in parts of the second
    /// number.
    #[inline]
    pub(crate) fn after(self, length: u32) -> (Duration, u64, u64) {
        match self.0 {
            Interval::Fixed(interval) => (interval, 0, 1),
            Interval::Rate(rate) => {
                let (bits, rate) = (u64::from(length) * 8 * 1_000_000_000, rate.bits_per_second());
                (Duration::from_nanos(bits / rate), bits % rate, rate)
            }
        }
    }

    /// The mean distance for these sizes, at least a nanosecond.
    pub(crate) fn mean(self, sizes: &Sizes) -> Duration {
        match self.0 {
            Interval::Fixed(interval) => interval,
            Interval::Rate(rate) => {
                let bits = u128::from(sizes.mean()) * 8 * 1_000_000_000;
                let nanos = (bits / u128::from(rate.bits_per_second())) >> 32;
                Duration::from_nanos((nanos as u64).max(1))
            }
        }
    }
}

impl Pareto {
    /// The distribution with `mean` and `shape`; `None` unless `shape` is above 1, without which it
    /// has no mean, and at most 100.
    pub fn new(mean: Duration, shape: f64) -> Option<Self> {
        (shape > 1.0 && shape <= 100.0).then_some(Self { mean, shape })
    }
}

impl Period {
    /// Draws the length of one period, at least [`PERIOD_MIN`].
    pub(crate) fn draw(self, random: &mut crate::random::Random) -> Duration {
        let drawn = match self {
            Period::Constant(duration) => duration,
            Period::Exponential(mean) => random.exponential(mean),
            Period::Pareto(Pareto { mean, shape }) => random.pareto(mean, shape),
        };
        drawn.max(PERIOD_MIN)
    }
}

impl Mtu {
    /// The MTU of Ethernet, 1500 bytes.
    pub const ETHERNET: Mtu = Mtu(1500);

    /// An MTU from 576 bytes (1280 are needed for IPv6) to 65 535.
    pub fn new(bytes: u32) -> Option<Self> {
        u16::try_from(bytes).ok().filter(|&bytes| bytes >= 576).map(Self)
    }

    /// The number of bytes.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The MTU with which segments over IPv4 are as long as BSD's: what is longer than a cluster
    /// of 2048 bytes is cut to a multiple of that `[algorithms §12.2]`.
    pub const fn with_bsd_segments(self) -> Self {
        let segment = self.0 - TCP_IPV4_HEADERS;
        if segment <= BSD_CLUSTER { self } else { Self(self.0 - segment % BSD_CLUSTER) }
    }
}

impl Default for Tcp {
    /// Linux's TCP without end, but with a window of one size, 64 KiB less a byte, without
    /// timestamps, and with acknowledgements that wait 10 ms at most.
    fn default() -> Self {
        let linux = Config::linux();
        let config = Config {
            timestamps: false,
            initial_window: InitialWindow::Rfc6928,
            acks: AckPolicy {
                delay: Some(Duration::from_millis(10)),
                adaptive: false,
                quick: 0,
                ..linux.acks.clone()
            },
            ecn: EcnMode::Off,
            window_scale: None,
            ..linux
        };
        let plain = Self {
            config,
            transfer: None,
            conversation: None,
            return_delay: Duration::ZERO,
            loss: Share::default(),
        };
        plain.with_window(WINDOW_DEFAULT)
    }
}

impl Default for Quic {
    /// A connection without end with quinn's own window, 1.25 MB, and without ECN, as that of
    /// [`Tcp`].
    fn default() -> Self {
        Self {
            congestion: QuicCongestion::Cubic,
            initial_window: InitialWindow::Rfc6928,
            window: QUIC_WINDOW_DEFAULT,
            ack_delay: None,
            ecn: false,
            mtu: Mtu::ETHERNET,
            transfer: None,
            conversation: None,
            return_delay: Duration::ZERO,
        }
    }
}

impl Tcp {
    /// Returns a connection without end between two such hosts.
    pub fn of_profile(profile: Profile) -> Self {
        Self { config: profile.config(), ..Self::default() }
    }

    /// Returns the same with this congestion controller.
    #[must_use]
    pub fn with_congestion(mut self, congestion: Congestion) -> Self {
        self.config.congestion = congestion;
        self
    }

    /// Returns the same with a receiver's buffer of this size; see [`Tcp::set_window`].
    #[must_use]
    pub fn with_window(mut self, window: Bytes) -> Self {
        self.set_window(window);
        self
    }

    /// Sets the size of the receiver's buffer, which then does not change: no more is ever under
    /// way. Windows are scaled if it needs that.
    pub fn set_window(&mut self, window: Bytes) {
        let buffers = &mut self.config.buffers;
        (buffers.receive, buffers.receive_max, buffers.autotuning) = (window, window, false);
        self.scale_windows();
    }

    /// Lets windows be scaled as far as the receiver's largest buffer needs it.
    pub(crate) fn scale_windows(&mut self) {
        let most = self.config.buffers.receive_max.get();
        let needed = (0..SCALE_MAX).find(|shift| most >> shift <= 0xffff).unwrap_or(SCALE_MAX);
        let scale = self.config.window_scale.unwrap_or(0).max(needed);
        self.config.window_scale = (scale > 0).then_some(scale);
    }

    /// Sets how long an acknowledgement waits, whatever the intervals of arrivals are; `None` for
    /// acknowledgements that never wait.
    pub fn set_ack_delay(&mut self, delay: Option<Duration>) {
        let acks = &mut self.config.acks;
        (acks.delay, acks.adaptive) = (delay, false);
        acks.delay_max = acks.delay_max.max(delay.unwrap_or_default());
    }

    /// Sets how many segments of a new connection are acknowledged one by one.
    pub fn set_quick_acks(&mut self, segments: u32) {
        (self.config.acks.quick, self.config.acks.adaptive) = (segments, false);
    }

    /// The largest IP packet.
    pub fn mtu(&self) -> Mtu {
        Mtu(self.config.mtu)
    }

    /// Returns what the endpoints of a simulation do, over IP headers of this length.
    pub(crate) fn simulated(&self, ip_header: u16) -> Config {
        let mut config = Config { ip_header, ..self.config.clone() };
        (config.limits.burst, config.limits.small_queue) = (1, None);
        // The application has no buffer, and more patience than any run has time.
        config.buffers.send = Bytes::new(u64::MAX >> 8);
        config.retries =
            Retries { syn: u8::MAX, syn_ack: u8::MAX, data: u8::MAX, ..config.retries };
        config
    }
}

impl Source {
    /// A source that sends from the first to the last instant.
    pub fn new(name: impl Into<String>, headers: Headers, traffic: Traffic) -> Self {
        let (name, start) = (name.into(), Instant::ZERO);
        Self { name, headers, interface: INTERFACE_NONE, start, stop: None, traffic, ends: None }
    }

    /// Returns whether it begins nothing any more at `at`.
    pub(crate) fn has_stopped(&self, at: Instant) -> bool {
        self.stop.is_some_and(|stop| stop <= at)
    }

    /// Bytes of a frame in front of the IP packet.
    pub(crate) fn link_header(&self) -> u32 {
        link_header(&self.headers)
    }
}

/// Bytes of a frame with these headers in front of the IP packet.
pub(crate) fn link_header(headers: &Headers) -> u32 {
    let tags = [headers.vlan, headers.vlan_inner];
    ETHERNET_HEADER + VLAN_TAG * tags.iter().flatten().count() as u32
}

/// Where packets come in if the scenario does not say; no rule names it.
pub const INTERFACE_NONE: InterfaceId = InterfaceId(u16::MAX);
/// The longest frame: as much as the largest IP packet.
pub const LENGTH_MAX: u32 = 65_535;
/// The most different lengths of one source.
pub const SIZES_MAX: usize = 64;
/// No period is shorter, or a source could switch on and off without end at one instant.
pub const PERIOD_MIN: Duration = Duration::from_micros(1);
/// The receiver's buffer of a source that names none.
pub const WINDOW_DEFAULT: Bytes = Bytes::new(65_535);
/// The default window over QUIC: quinn's, for 100 Mbit/s over 100 ms.
pub const QUIC_WINDOW_DEFAULT: Bytes = Bytes::new(1_250_000);
/// Bound: bytes of a TCP window; a scenario with a larger one is refused. The scale reaches 1 GiB,
/// but each segment under way takes memory.
pub const WINDOW_MAX: Bytes = Bytes::new(1 << 28);
/// The least retransmission timeout without selective acknowledgements [rfc6298 §2.4].
pub const RTO_MIN_RFC6298: Duration = Duration::from_secs(1);
/// Bound: segments that a TCP connection begins with; a scenario with more is refused.
pub const INITIAL_SEGMENTS_MAX: u32 = 1 << 16;
/// The most segments that a receiver acknowledges one by one when a connection begins.
pub const QUICK_ACKS_MAX: u32 = 1 << 16;
/// The largest shift of windows [rfc7323 §2.3].
const SCALE_MAX: u8 = 14;
const TCP_IPV4_HEADERS: u16 = 40;
const BSD_CLUSTER: u16 = 2048;
const ETHERNET_HEADER: u32 = 14;
const VLAN_TAG: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn share(percent: u64) -> Share {
        Share::from_ppb(percent * 10_000_000).expect("at most 100 %")
    }

    #[test]
    fn sizes_come_in_their_shares() {
        let rows = [(64, share(60)), (576, share(25)), (1514, share(15))];
        let sizes = Sizes::mixed(&rows).expect("a whole");
        let mut random = Random::stream(1, "sizes");
        let mut seen = [0u32; 3];
        for _ in 0..100_000 {
            let length = sizes.draw(|| random.bits());
            seen[rows.iter().position(|row| row.0 == length).expect("one of them")] += 1;
        }
        for (count, percent) in seen.iter().zip([60u32, 25, 15]) {
            assert!(count.abs_diff(percent * 1000) < 500, "{seen:?}");
        }
        let mean = 0.6 * 64.0 + 0.25 * 576.0 + 0.15 * 1514.0;
        assert!((sizes.mean() as f64 / 2f64.powi(32) - mean).abs() < 1e-3);
    }

    #[test]
    fn impossible_values_are_refused() {
        assert_eq!(Sizes::fixed(0), None);
        assert_eq!(Sizes::fixed(LENGTH_MAX + 1), None);
        assert_eq!(Sizes::mixed(&[(64, share(50))]), None);
        assert_eq!(Sizes::mixed(&[]), None);
        assert_eq!(Spacing::interval(Duration::ZERO), None);
        assert_eq!(Mtu::new(575), None);
        assert_eq!(Mtu::new(65_536), None);
        assert_eq!(Pareto::new(Duration::from_secs(1), 1.0), None);
        assert_eq!(Pareto::new(Duration::from_secs(1), f64::NAN), None);
    }
}
