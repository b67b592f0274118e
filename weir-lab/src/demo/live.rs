//! The live half: three private networks, a bridge with the policy between them, kernel traffic.

use super::Failure;
use super::mix::{Class, WARMUP};
use super::tcp::{self, WebTransfer};
use super::udp::{self, Heard};
use crate::rig;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};
use weir_core::classify::Classifier;
use weir_core::ids::LeafId;
use weir_core::link::LinkPlan;
use weir_core::parameter::Params;
use weir_core::sched::{ClassSpec, Tree};
use weir_core::units::Rate;
use weir_live::bridge::{Bridge, BridgeConfig, LaneConfig};
use weir_live::error::SystemError;
use weir_live::precedence::set_realtime;
use weir_live::signals::StopSignal;
use weir_live::status::{Board, Shape, Status};
use weir_live::testbed::{Host, Testbed, TestbedConfig};
use weir_live::wait::{monotonic_ns, pin_to_cpu};
use weir_policy::Policy;

/// The results of the live half.
pub(super) struct LiveRun {
    /// The measurement.
    pub window: Window,
    /// The bridge after all traffic had ended.
    pub last: Status,
    /// When each voice packet was sent, in ns of the monotonic clock.
    pub spoken: Vec<u64>,
    /// The voice packets that arrived.
    pub heard: Vec<Heard>,
    /// The web transfers that began.
    pub web: Vec<WebTransfer>,
}

/// The bridge at both ends of the measurement.
pub(super) struct Window {
    /// At its beginning.
    pub before: Status,
    /// At its end; its delays are those of the window.
    pub after: Status,
    /// The fewest packets that each class had waiting at any poll of the status.
    pub waiting_min: Vec<u64>,
    /// Its beginning and end, in ns of the monotonic clock.
    pub span: (u64, u64),
    /// Its beginning and end on the clock of web transfers.
    pub times: (Instant, Instant),
}

/// Runs the traffic for [`WARMUP`] and `measured`.
pub(super) fn run(
    policy: &Policy,
    measured: Duration,
    stop: &StopSignal,
    progress: &mut dyn FnMut(f64),
) -> Result<LiveRun, Failure> {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let sockets = Sockets::open(&testbed)?;
    let (forward_cpu, traffic_cpu) = rig::cpus();
    let config = rig::bridge_config(lanes(policy)?, forward_cpu);
    let (board, flags) = (Board::new(), Flags::default());
    thread::scope(|scope| {
        // However this closure ends, the threads must end, or the scope would wait for them without
        // end.
        let _ending = Ending(&flags);
        let bridge = scope.spawn(|| forward(&testbed, config, &flags.bridge, &board));
        let traffic = Traffic { testbed: &testbed, sockets: &sockets, cpu: traffic_cpu };
        let receivers = traffic.receivers(scope, &flags.receivers);
        let senders = traffic.senders(scope, &flags.senders);
        let watch = Watch { board: &board, stop, gone: &|| bridge.is_finished() };
        let window = watch.measure(measured, progress);
        flags.senders.store(true, Ordering::Relaxed);
        let sent = senders.join();
        thread::sleep(DRAIN);
        let last = board.ask(PATIENCE);
        flags.receivers.store(true, Ordering::Relaxed);
        let heard = receivers.join();
        flags.bridge.store(true, Ordering::Relaxed);
        join(bridge)?;
        let (window, (spoken, web), heard) = (window?, sent?, heard?);
        Ok(LiveRun { window, last: last.ok_or_else(silent)?, spoken, heard, web })
    })
}

/// The flags that end threads, in this order.
#[derive(Default)]
struct Flags {
    senders: AtomicBool,
    receivers: AtomicBool,
    bridge: AtomicBool,
}

struct Ending<'a>(&'a Flags);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let Flags { senders, receivers, bridge } = self.0;
        for flag in [senders, receivers, bridge] {
            flag.store(true, Ordering::Relaxed);
        }
    }
}

fn forward(
    testbed: &Testbed,
    config: BridgeConfig,
    stop: &AtomicBool,
    board: &Board,
) -> Result<(), SystemError> {
    testbed.weir.enter()?;
    go_first();
    Bridge::open(config)?.run(stop, &[], board)
}

/// Raises this thread's priority, since other work on the machine should not affect the demo. An
/// ordinary user goes without.
fn go_first() {
    drop(set_realtime());
}

fn lanes(policy: &Policy) -> Result<[LaneConfig; 2], SystemError> {
    let build = |plan: &LinkPlan| {
        plan.build().map_err(|error| SystemError::refused("build the policy", error.message, ""))
    };
    let forth = LaneConfig {
        name: "forth".to_owned(),
        from: vec![0],
        to: 1,
        leaf_names: policy.link.tree.leaves().map(|(_, class)| class.name.clone()).collect(),
        classifier: policy.classifier(),
        link: build(&policy.link)?,
        sorting: None,
        frames_max: rig::FRAMES_MAX,
        sojourn_max: Vec::new(),
        shape: Arc::new(Shape::of(policy)),
    };
    let plan_back = way_back(policy);
    let back = LaneConfig {
        name: "back".to_owned(),
        from: vec![1],
        to: 0,
        leaf_names: vec!["all".to_owned()],
        classifier: Classifier::new(Vec::new(), LeafId(0), Default::default()),
        link: build(&plan_back)?,
        sorting: None,
        frames_max: rig::FRAMES_MAX,
        sojourn_max: Vec::new(),
        shape: Arc::new(Shape::of_plan(&plan_back)),
    };
    Ok([forth, back])
}

/// Plans one queue with more rate than the acknowledgements need.
fn way_back(policy: &Policy) -> LinkPlan {
    let class = ClassSpec { name: "all".to_owned(), parent: None, params: Params::new() };
    let rate = Rate::new(BACK_RATE).expect("the rate is not 0");
    let tree = Tree::new(rate, policy.link.tree.mtu(), Params::new(), vec![class]);
    LinkPlan::new("fifo", tree.expect("one class is a tree"))
}

/// Sockets opened in their networks before any traffic, so that no first packet meets a closed
/// port.
struct Sockets {
    voice: [UdpSocket; 2],
    video: [UdpSocket; 2],
    web: TcpListener,
    bulk: TcpListener,
}

impl Sockets {
    fn open(testbed: &Testbed) -> Result<Self, SystemError> {
        let failed = |cause| SystemError::new("open the sockets of the traffic", cause);
        let listener = |class: Class| TcpListener::bind(server(class));
        let (heard, seen, web, bulk) = testbed
            .server
            .run(|| -> io::Result<_> {
                let udp = |class| UdpSocket::bind(server(class));
                let tcp = (listener(Class::Web)?, listener(Class::Bulk)?);
                Ok((udp(Class::Voice)?, udp(Class::Video)?, tcp.0, tcp.1))
            })?
            .map_err(failed)?;
        let (speaking, showing) = testbed
            .client
            .run(|| Ok((sender(Class::Voice)?, sender(Class::Video)?)))?
            .map_err(failed)?;
        let sockets = Self { voice: [speaking, heard], video: [showing, seen], web, bulk };
        for socket in sockets.voice.iter().chain(&sockets.video) {
            socket.set_read_timeout(Some(PAUSE)).map_err(failed)?;
            socket.set_write_timeout(Some(PAUSE)).map_err(failed)?;
        }
        Ok(sockets)
    }
}

/// Returns the destination of the packets of a class.
fn server(class: Class) -> SocketAddr {
    SocketAddr::new(Host::Server.ip4(), class.port())
}

fn sender(class: Class) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0))?;
    socket.connect(server(class))?;
    Ok(socket)
}

/// The threads at both ends, all on one CPU, so that the bridge has the other.
struct Traffic<'a> {
    testbed: &'a Testbed,
    sockets: &'a Sockets,
    cpu: Option<usize>,
}

type Handle<'scope, T> = ScopedJoinHandle<'scope, Result<T, SystemError>>;

struct Receivers<'scope> {
    voice: Handle<'scope, Vec<Heard>>,
    others: [Handle<'scope, ()>; 3],
}

struct Senders<'scope> {
    voice: Handle<'scope, Vec<u64>>,
    web: Handle<'scope, Vec<WebTransfer>>,
    others: [Handle<'scope, ()>; 2],
}

impl<'a> Traffic<'a> {
    fn receivers<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        stop: &'scope AtomicBool,
    ) -> Receivers<'scope>
    where
        'a: 'scope,
    {
        let (sockets, host) = (self.sockets, Host::Server);
        let others = [
            self.start(scope, host, "receive video", || udp::discard(&sockets.video[1], stop)),
            self.start(scope, host, "serve web transfers", || tcp::serve(&sockets.web, stop)),
            self.start(scope, host, "serve the upload", || tcp::serve(&sockets.bulk, stop)),
        ];
        let voice =
            self.start(scope, host, "receive voice", || udp::listen(&sockets.voice[1], stop));
        Receivers { voice, others }
    }

    fn senders<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        stop: &'scope AtomicBool,
    ) -> Senders<'scope>
    where
        'a: 'scope,
    {
        let (sockets, host) = (self.sockets, Host::Client);
        let upload = || tcp::upload(server(Class::Bulk), stop);
        let web = || Ok(tcp::browse(server(Class::Web), stop));
        let others = [
            self.start(scope, host, "send video", || udp::flood(&sockets.video[0], stop)),
            self.start(scope, host, "upload", upload),
        ];
        Senders {
            voice: self.start(scope, host, "send voice", || udp::speak(&sockets.voice[0], stop)),
            web: self.start(scope, host, "begin web transfers", web),
            others,
        }
    }

    /// Starts a thread of a host.
    fn start<'scope, T: Send + 'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        host: Host,
        action: &'static str,
        work: impl FnOnce() -> io::Result<T> + Send + 'scope,
    ) -> Handle<'scope, T>
    where
        'a: 'scope,
    {
        let (testbed, cpu) = (self.testbed, self.cpu);
        scope.spawn(move || {
            testbed.namespace(host).enter()?;
            go_first();
            if let Some(cpu) = cpu {
                pin_to_cpu(cpu)?;
            }
            work().map_err(|cause| SystemError::new(action, cause))
        })
    }
}

impl Receivers<'_> {
    fn join(self) -> Result<Vec<Heard>, SystemError> {
        self.others.into_iter().try_for_each(join)?;
        join(self.voice)
    }
}

impl Senders<'_> {
    fn join(self) -> Result<(Vec<u64>, Vec<WebTransfer>), SystemError> {
        self.others.into_iter().try_for_each(join)?;
        Ok((join(self.voice)?, join(self.web)?))
    }
}

fn join<T>(thread: Handle<'_, T>) -> Result<T, SystemError> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Polls the bridge while the traffic runs.
struct Watch<'a> {
    board: &'a Board,
    stop: &'a StopSignal,
    /// Returns whether the bridge has ended.
    gone: &'a dyn Fn() -> bool,
}

impl Watch<'_> {
    fn measure(
        &self,
        measured: Duration,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Window, Failure> {
        let start = Instant::now();
        let whole = (WARMUP + measured).as_secs_f64();
        let mut tell = || progress(start.elapsed().as_secs_f64() / whole);
        self.wait(WARMUP, &mut |_| tell())?;
        let before = self.board.mark(PATIENCE).ok_or_else(silent)?;
        let (from, begun) = (monotonic_ns(), Instant::now());
        let mut waiting_min = vec![u64::MAX; before.lanes[0].classes.len()];
        self.wait(measured, &mut |status| {
            tell();
            for (least, class) in waiting_min.iter_mut().zip(&status.lanes[0].classes) {
                *least = class.backlog.packets.min(*least);
            }
        })?;
        let (until, ended) = (monotonic_ns(), Instant::now());
        let after = self.board.ask(PATIENCE).ok_or_else(silent)?;
        Ok(Window { before, after, waiting_min, span: (from, until), times: (begun, ended) })
    }

    /// Waits, polling the bridge periodically.
    fn wait(&self, duration: Duration, look: &mut dyn FnMut(&Status)) -> Result<(), Failure> {
        let start = Instant::now();
        loop {
            let left = duration.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(PAUSE));
            if self.stop.requested() {
                return Err(Failure::Interrupted);
            }
            if (self.gone)() {
                return Err(silent());
            }
            look(&self.board.ask(PATIENCE).ok_or_else(silent)?);
        }
    }
}

fn silent() -> Failure {
    let patience = PATIENCE.as_secs();
    Failure::System(format!(
        "the bridge gave no status for {patience} s; is the machine overloaded?"
    ))
}

/// The longest wait of a call before it checks whether to stop; also the interval of polls of the
/// bridge.
const PAUSE: Duration = Duration::from_millis(100);
/// The time for queued packets to leave when the senders have stopped.
const DRAIN: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(3);
const BACK_RATE: u64 = 1_000_000_000;
