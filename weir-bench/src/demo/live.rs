//! The live half: three private networks, `weir up` with the policy between them, kernel traffic.

use super::Failure;
use super::later::{self, Trial};
use super::link::{self, Link, LinkSetup};
use super::mix::{Class, POLICY, VIDEO_RATE, WARMUP};
use super::tcp::{self, WebTransfer};
use super::udp::{self, Heard};
use crate::rig;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};
use weir_host::error::SystemError;
use weir_host::precedence::set_realtime;
use weir_host::signals::StopSignal;
use weir_host::wait::{monotonic_ns, pin_to_cpu};
use weir_link::status::Status;
use weir_testbed::{Host, Testbed, TestbedConfig};

/// The results of the live half.
pub(super) struct LiveRun {
    /// The link in the measured time.
    pub window: Window,
    /// The steps on the link after it, under the same traffic.
    pub trial: Trial,
    /// The link after all traffic had ended.
    pub last: Status,
    /// When each voice packet was sent, in ns of the monotonic clock.
    pub spoken: Vec<u64>,
    /// The voice packets that arrived.
    pub heard: Vec<Heard>,
    /// The web transfers that began.
    pub web: Vec<WebTransfer>,
    /// A record from before the traffic to its end, if it was asked for.
    pub record: Option<Vec<u8>>,
}

/// The link at both ends of a measurement.
pub(super) struct Window {
    /// The status at its beginning.
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

/// Runs the traffic for [`WARMUP`], `measured` and the trial after it; records all of it if it is
/// to be kept.
pub(super) fn run(
    (measured, is_kept): (Duration, bool),
    stop: &StopSignal,
    progress: &mut dyn FnMut(f64),
) -> Result<LiveRun, Failure> {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let sockets = Sockets::open(&testbed)?;
    let flags = Flags::default();
    thread::scope(|scope| {
        // However this closure ends, the threads must end, or the scope would wait for them without
        // end; and the link with it.
        let _ending = Ending(&flags);
        let (forward_cpu, traffic_cpu) = rig::cpus();
        let setup = LinkSetup { cpu: forward_cpu, policy: POLICY, ring: None };
        let link = Link::start(scope, &testbed, setup, stop.flag())?;
        let hosts = Hosts { testbed: &testbed, cpu: traffic_cpu, is_first: true };
        let traffic = Traffic { hosts, sockets: &sockets };
        let whole = WARMUP + measured + later::DURATION;
        let recording = is_kept.then(|| link.record(scope, whole));
        let receivers = traffic.receivers(scope, &flags.receivers);
        let senders = traffic.senders(scope, &flags.senders);
        let mut watch = Watch { link: &link, stop, begun: Instant::now(), whole, progress };
        let measured = watch.measure(measured);
        let tried = measured.and_then(|window| Ok((window, later::run(scope, &mut watch)?)));
        flags.senders.store(true, Ordering::Relaxed);
        let sent = senders.join();
        thread::sleep(DRAIN);
        let last = link.status();
        flags.receivers.store(true, Ordering::Relaxed);
        let heard = receivers.join();
        let ((window, trial), (spoken, web), heard) = (tried?, sent?, heard?);
        let (last, record) = (last?, recording.map(link::recorded).transpose()?);
        link.stop()?;
        Ok(LiveRun { window, trial, last, spoken, heard, web, record })
    })
}

/// The flags that end threads, in this order.
#[derive(Default)]
pub(super) struct Flags {
    /// Ends what sends.
    pub(super) senders: AtomicBool,
    /// Ends what receives.
    pub(super) receivers: AtomicBool,
}

/// Ends the threads when it is dropped.
pub(super) struct Ending<'a>(pub(super) &'a Flags);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let Flags { senders, receivers } = self.0;
        for flag in [senders, receivers] {
            flag.store(true, Ordering::Relaxed);
        }
    }
}

/// Raises this thread's priority, since other work on the machine should not affect the demo. An
/// ordinary user goes without.
fn go_first() {
    drop(set_realtime());
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

/// The hosts at both ends, whose threads are all on one CPU, so that the link has the other.
#[derive(Clone, Copy)]
pub(super) struct Hosts<'a> {
    pub(super) testbed: &'a Testbed,
    pub(super) cpu: Option<usize>,
    /// Whether their threads go before other work on the machine.
    pub(super) is_first: bool,
}

/// The threads at both ends.
struct Traffic<'a> {
    hosts: Hosts<'a>,
    sockets: &'a Sockets,
}

pub(super) type Handle<'scope, T> = ScopedJoinHandle<'scope, Result<T, SystemError>>;

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
        let (sockets, hosts, host) = (self.sockets, self.hosts, Host::Server);
        let others = [
            hosts.start(scope, host, "receive video", || udp::discard(&sockets.video[1], stop)),
            hosts.start(scope, host, "serve web transfers", || tcp::serve(&sockets.web, stop)),
            hosts.start(scope, host, "serve the upload", || tcp::serve(&sockets.bulk, stop)),
        ];
        let voice =
            hosts.start(scope, host, "receive voice", || udp::listen(&sockets.voice[1], stop));
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
        let (sockets, hosts, host) = (self.sockets, self.hosts, Host::Client);
        let video = || udp::stream(&sockets.video[0], VIDEO_RATE, stop);
        let upload = || tcp::upload(server(Class::Bulk), stop);
        let web = || Ok(tcp::browse(server(Class::Web), stop));
        let others = [
            hosts.start(scope, host, "send video", video),
            hosts.start(scope, host, "upload", upload),
        ];
        Senders {
            voice: hosts.start(scope, host, "send voice", || udp::speak(&sockets.voice[0], stop)),
            web: hosts.start(scope, host, "begin web transfers", web),
            others,
        }
    }
}

impl<'a> Hosts<'a> {
    /// Starts a thread of a host.
    pub(super) fn start<'scope, T: Send + 'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        host: Host,
        action: &'static str,
        work: impl FnOnce() -> io::Result<T> + Send + 'scope,
    ) -> Handle<'scope, T>
    where
        'a: 'scope,
    {
        let Self { testbed, cpu, is_first } = *self;
        scope.spawn(move || {
            testbed.namespace(host).enter()?;
            if is_first {
                go_first();
            }
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

/// Waits for a thread and returns what it found.
pub(super) fn join<T>(thread: Handle<'_, T>) -> Result<T, SystemError> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Polls the link while the traffic runs.
pub(super) struct Watch<'a> {
    /// The link that is polled.
    pub link: &'a Link,
    stop: &'a StopSignal,
    begun: Instant,
    /// How long the traffic runs.
    whole: Duration,
    progress: &'a mut dyn FnMut(f64),
}

impl Watch<'_> {
    fn measure(&mut self, measured: Duration) -> Result<Window, Failure> {
        self.wait(WARMUP, &mut |_| {})?;
        self.window(measured)
    }

    /// Watches the link for so long; its delays are measured anew.
    pub(super) fn window(&mut self, measured: Duration) -> Result<Window, Failure> {
        let before = self.link.mark()?;
        let (from, begun) = (monotonic_ns(), Instant::now());
        let mut waiting_min = vec![u64::MAX; before.lanes[0].classes.len()];
        self.wait(measured, &mut |status| {
            for (least, class) in waiting_min.iter_mut().zip(&status.lanes[0].classes) {
                *least = class.backlog.packets.min(*least);
            }
        })?;
        let (until, ended) = (monotonic_ns(), Instant::now());
        let after = self.link.status()?;
        Ok(Window { before, after, waiting_min, span: (from, until), times: (begun, ended) })
    }

    /// Waits, polling the link periodically.
    pub(super) fn wait(
        &mut self,
        duration: Duration,
        look: &mut dyn FnMut(&Status),
    ) -> Result<(), Failure> {
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
            look(&self.link.status()?);
            (self.progress)(self.begun.elapsed().as_secs_f64() / self.whole.as_secs_f64());
        }
    }
}

/// The longest wait of a call before it checks whether to stop; also the interval of polls of the
/// link.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// The time for queued packets to leave when the senders have stopped.
const DRAIN: Duration = Duration::from_millis(300);
