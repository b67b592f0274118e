//! Two hosts with a bridge between them: the kernel's, or Weir's. Frames are sent by one host and
//! collected at the other.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use weir_live::bridge::{Bridge, BridgeConfig, BridgePort, LaneConfig};
use weir_live::claim::{Claim, ClaimConfig, ClaimPort};
use weir_live::ethtool;
use weir_live::netlink::Netlink;
use weir_live::offload::{self, OffloadHeader};
use weir_live::pool::FramePool;
use weir_live::port::{self, BATCH, Port, PortConfig};
use weir_live::status::{Board, Status};
use weir_live::wait::WaitPolicy;
use weir_policy::deployment::OnExit;
use weir_testbed::{END, Host, LEFT, RIGHT, Testbed, TestbedConfig};

use crate::odd_frames::frames::{Frame, marker};

pub type Outcome<T = ()> = Result<T, Failed>;

/// What is between the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    Kernel,
    Weir,
    /// What carries frames on while Weir is dead.
    Fallback,
}

/// The hosts, the bridge, and what was sent and heard so far.
pub struct Lab {
    pub testbed: Testbed,
    pub through: Through,
    weir: Option<Running>,
    claim: Option<Claim>,
    ears: [Ear; 2],
    senders: [OwnedFd; 2],
    /// Frames that arrived at client and server, in order.
    pub heard: [Vec<Vec<u8>>; 2],
    /// Frames that client and server sent, super-packets counted as the frames they stand for.
    pub sent: [u64; 2],
    markers: u32,
}

/// What became of a run.
pub struct Heard {
    /// The frames that arrived at client and server, in order.
    pub frames: [Vec<Vec<u8>>; 2],
    /// How many frames client and server sent.
    pub sent: [u64; 2],
    /// Weir's status at the end.
    pub status: Option<Status>,
}

/// The hosts in the order of all arrays here.
pub const HOSTS: [Host; 2] = [Host::Client, Host::Server];
pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;

impl Lab {
    pub fn new(through: Through, config: TestbedConfig, passes_carrier: bool) -> Outcome<Self> {
        let testbed = Testbed::new(config)?;
        testbed.weir.run(|| ethtool::set_ipv6("default", false))??;
        for host in HOSTS {
            // Neither neighbour discovery nor group reports come between the frames of the test.
            testbed.namespace(host).run(|| ethtool::set_ipv6(END, false))??;
        }
        let (mut weir, mut claim) = (None, None);
        match through {
            Through::Weir => weir = Some(Running::start(&testbed, passes_carrier)?),
            Through::Kernel => testbed.weir.run(start_kernel_bridge)??,
            Through::Fallback => claim = Some(testbed.weir.run(start_fallback)??),
        }
        let ear = |host: Host| testbed.namespace(host).run(Ear::open);
        let sender = |host: Host| testbed.namespace(host).run(open_sender);
        let ears = [ear(Host::Client)??, ear(Host::Server)??];
        let senders = [sender(Host::Client)??, sender(Host::Server)??];
        let (heard, sent) = ([Vec::new(), Vec::new()], [0; 2]);
        Ok(Self { testbed, through, weir, claim, ears, senders, heard, sent, markers: 0 })
    }

    /// Sends frames and waits until a last one has arrived at the other host.
    pub fn cross(&mut self, from: usize, frames: &[Frame]) -> Outcome {
        for batch in frames.chunks(BATCH) {
            self.lose(from, batch)?;
            self.listen(1 - from, |_| false, Duration::ZERO);
        }
        self.markers += 1;
        let last = marker(HOSTS[from].mac(), self.markers);
        self.lose(from, &[Frame::plain(last.clone())])?;
        if self.listen(1 - from, |frame| frame == last, PATIENCE) {
            return Ok(());
        }
        Err(format!("{:?}: the last frame did not arrive", self.through).into())
    }

    /// Sends frames that may not arrive.
    pub fn lose(&mut self, from: usize, frames: &[Frame]) -> Outcome {
        for frame in frames {
            send(&self.senders[from], frame)
                .map_err(|error| format!("send {} bytes: {error}", frame.bytes.len()))?;
            self.sent[from] += frame.count() as u64;
        }
        Ok(())
    }

    /// Collects what arrives at a host until a frame is `wanted`; returns whether it came.
    pub fn listen(
        &mut self,
        at: usize,
        wanted: impl Fn(&[u8]) -> bool,
        patience: Duration,
    ) -> bool {
        let start = Instant::now();
        loop {
            for frame in self.ears[at].take() {
                if wanted(&frame) {
                    return true;
                }
                if !is_of_the_bridge(&frame) {
                    self.heard[at].push(frame);
                }
            }
            if start.elapsed() >= patience {
                return false;
            }
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Waits until the bridge has noticed what happened to an interface.
    pub fn settle(&mut self) {
        thread::sleep(SETTLE);
        // Each is given after another turn of the loop, however long the machine made it pause.
        (0..2).for_each(|_| drop(self.status()));
        if let Some(claim) = &mut self.claim {
            self.testbed.weir.run(|| claim.refresh()).expect("the namespace is there");
        }
        for ear in &mut self.ears {
            ear.port.refresh();
        }
    }

    /// Returns a netlink socket of the bridge's namespace.
    pub fn netlink(&self) -> Outcome<Netlink> {
        Ok(Netlink::open_in(&self.testbed.weir)?)
    }

    /// Returns Weir's status; `None` if the bridge is the kernel's.
    pub fn status(&self) -> Option<Status> {
        self.weir.as_ref().and_then(|weir| weir.board.ask(PATIENCE))
    }

    /// Ends the bridge, collects what is still to be heard, and returns Weir's last status.
    pub fn stop(mut self) -> Outcome<Heard> {
        let status = self.weir.take().map(Running::stop).transpose()?;
        for at in [CLIENT, SERVER] {
            self.listen(at, |_| false, Duration::ZERO);
        }
        Ok(Heard { frames: self.heard, sent: self.sent, status })
    }
}

pub const PATIENCE: Duration = Duration::from_secs(30);
const SETTLE: Duration = Duration::from_millis(300);
const POLICY: &str = "[link]\nrate = '40 Gbit/s'\nscheduler = 'fifo'\n\
     [class.all]\nqueue = { limit = '4000 packets' }\ndefault = true\n";

/// Weir's bridge on a thread of its own.
struct Running {
    stop: Arc<AtomicBool>,
    board: Arc<Board>,
    thread: JoinHandle<weir_live::error::Result<Status>>,
}

impl Running {
    fn start(testbed: &Testbed, passes_carrier: bool) -> Outcome<Self> {
        let parsed = weir_policy::policy::parse(POLICY, "odd frames");
        let render = weir_policy::render::render;
        let why = || render(&parsed.findings, &parsed.sources, false);
        let policy = parsed.plan.as_ref().ok_or_else(why)?;
        let config = BridgeConfig {
            ports: BridgePort::two([LEFT, RIGHT]),
            lanes: vec![
                LaneConfig::new("forth", (vec![0], 1), policy)?,
                LaneConfig::new("back", (vec![1], 0), policy)?,
            ],
            wait: WaitPolicy::Hybrid,
            lag_max: weir_core::units::Duration::from_millis(100),
            cpu: None,
            passes_carrier,
            intake: true,
        };
        let mut bridge = testbed.weir.run(|| Bridge::open(config))??;
        let (stop, board) = (Arc::new(AtomicBool::new(false)), Arc::new(Board::new()));
        let (stopped, answered) = (Arc::clone(&stop), Arc::clone(&board));
        let thread = thread::spawn(move || {
            bridge.run(&stopped, &[], &answered)?;
            Ok(bridge.status())
        });
        Ok(Self { stop, board, thread })
    }

    fn stop(self) -> Outcome<Status> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.thread.join().map_err(|_| "the bridge panicked")??)
    }
}

/// Joins the ports by the kernel's bridge, which finishes super-packets before it sends them.
fn start_kernel_bridge() -> weir_live::error::Result<()> {
    // The bridge itself, not a firewall that reads its packets; not every kernel has one.
    let _missing = std::fs::write("/proc/sys/net/bridge/bridge-nf-call-iptables", "0");
    let _missing = std::fs::write("/proc/sys/net/bridge/bridge-nf-call-ip6tables", "0");
    let _missing = std::fs::write("/proc/sys/net/bridge/bridge-nf-call-arptables", "0");
    for port in [LEFT, RIGHT] {
        ethtool::set_all_offloads(port, false)?;
    }
    Netlink::open()?.add_bridge("bridge", &[LEFT, RIGHT])
}

/// Claims the ports, and lets the kernel carry frames between them.
fn start_fallback() -> weir_live::error::Result<Claim> {
    for port in [LEFT, RIGHT] {
        ethtool::set_all_offloads(port, false)?;
    }
    let port = |interface| ClaimPort { name: interface, interface, is_host: false, bridge: 0 };
    let ports = [LEFT, RIGHT].map(port).into();
    let on_exit = OnExit::Open;
    let claim = Claim::take(&ClaimConfig { deployment: "odd", take: false, on_exit, ports })?;
    claim.fallback(true)?;
    Ok(claim)
}

/// Returns whether the kernel of the bridge itself sent the frame, to say in which groups it is.
fn is_of_the_bridge(frame: &[u8]) -> bool {
    const ALL_ROUTERS: [u8; 6] = [1, 0, 0x5e, 0, 0, 0x16];
    frame.starts_with(&ALL_ROUTERS) && frame[6..11] == [2, 0, 0, 0, 0x78]
}

/// Hears every frame of a host's interface.
struct Ear {
    port: Box<dyn Port>,
    pool: FramePool,
}

impl Ear {
    fn open() -> weir_live::error::Result<Self> {
        let port = port::open(PortConfig::new(END))?;
        Ok(Self { port, pool: FramePool::for_mtu(4096, 9500) })
    }

    fn take(&mut self) -> Vec<Vec<u8>> {
        let mut received = Vec::new();
        while self.port.receive(0, BATCH, &mut self.pool, &mut received) {}
        let bytes = |pool: &mut FramePool, frame| {
            let bytes = pool.bytes(frame).to_vec();
            pool.release(frame);
            bytes
        };
        received.into_iter().map(|received| bytes(&mut self.pool, received.frame)).collect()
    }
}

/// Opens a socket that sends whole frames, each behind a header that says what is left undone.
fn open_sender() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes numbers only; the new descriptor has no other owner.
    let socket = unsafe {
        match libc::socket(libc::AF_PACKET, kind, 0) {
            fd if fd >= 0 => OwnedFd::from_raw_fd(fd),
            _ => return Err(io::Error::last_os_error()),
        }
    };
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    // Longer super-packets than a socket may queue as it comes; without the privilege they fail.
    let _unprivileged = set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 8 << 20);
    Ok(socket)
}

fn set_option(socket: &OwnedFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let pointer: *const i32 = &value;
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the pointer is valid for `len` bytes for the length of the call.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, pointer.cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn send(socket: &OwnedFd, frame: &Frame) -> io::Result<()> {
    let message = [&frame.header()[..], &frame.bytes].concat();
    // SAFETY: sockaddr_ll is integers only: all zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = index_of(socket, frame.interface)?;
    let pointer: *const libc::sockaddr_ll = &address;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    let fd = socket.as_raw_fd();
    // SAFETY: message and address are valid for their lengths during the call.
    let sent =
        unsafe { libc::sendto(fd, message.as_ptr().cast(), message.len(), 0, pointer.cast(), len) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Looks a name up in the socket's namespace.
fn index_of(socket: &OwnedFd, name: &str) -> io::Result<i32> {
    let mut request = named(name);
    // SAFETY: the code reads and writes one ifreq.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFINDEX, &mut request) } {
        // SAFETY: SIOCGIFINDEX filled in the index.
        0 => Ok(unsafe { request.ifr_ifru.ifru_ifindex }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn named(name: &str) -> libc::ifreq {
    // SAFETY: ifreq is integers, pointers and unions of them: all zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

/// Gives an interface of this thread's namespace another name.
pub fn rename(from: &str, to: &str) -> io::Result<()> {
    let socket = open_sender()?;
    let mut request = named(from);
    let mut name: [libc::c_char; libc::IFNAMSIZ] = [0; libc::IFNAMSIZ];
    for (to, from) in name.iter_mut().zip(to.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_newname = name;
    // SAFETY: the code reads one ifreq.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFNAME, &mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Frame {
    /// Returns how many frames it stands for.
    pub fn count(&self) -> usize {
        let plan = offload::plan(&self.bytes, &OffloadHeader::parse(&self.header()));
        plan.map_or(1, |plan| plan.count())
    }
}
