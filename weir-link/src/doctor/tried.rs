//! The calls that the kernel allows this process, found by trying them in a private network.

use std::io;
use std::time::{Duration, Instant};

use crate::pool::FramePool;
use crate::port::{self, BATCH, Port, PortConfig, PortState};
use weir_host::bpf::{Code, Hook, Kind, Program};
use weir_host::error::Result;
use weir_host::fanout;
use weir_host::netlink::{Mac, Netlink, VethEnd};
use weir_host::netns::NetNs;
use weir_host::privilege::Privilege;
use weir_host::probe;
use weir_host::socket;
use weir_host::uapi::classic::RETURN;
use weir_host::uapi::verdict::TCX_PASS;
use weir_host::wait::monotonic_ns;

use std::os::fd::{AsFd, AsRawFd};

/// The outcome of an attempt.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Attempt {
    /// The attempt succeeded.
    Works,
    /// It does not: the system's reason.
    Refused(String),
    /// It was not tried, for want of a private network.
    #[default]
    Untried,
}

impl Attempt {
    fn of<T>(result: Result<T>) -> Self {
        match result {
            Ok(_) => Self::Works,
            Err(error) => Self::Refused(format!("{}: {}", error.action, error.cause)),
        }
    }

    /// Returns whether it works.
    pub fn works(&self) -> bool {
        *self == Self::Works
    }
}

/// The outcomes of the attempts, and measurements made beside them.
#[derive(Clone, Debug, Default)]
pub struct Tried {
    /// A program at `tcx ingress` (Linux 6.6).
    pub tcx: Attempt,
    /// An AF_XDP socket behind a program in the driver of a veth interface.
    pub xdp_native: Attempt,
    /// An AF_XDP socket behind a program behind the driver.
    pub xdp_generic: Attempt,
    /// A program that sorts frames among packet sockets.
    pub fanout: Attempt,
    /// Whether this process may make a user namespace.
    pub user_namespace: bool,
    /// The version of landlock's interface, if the kernel has it.
    pub landlock: Option<u32>,
    /// Filters of system calls that end the process.
    pub seccomp: bool,
    /// The limit of locked memory, in bytes; `None` if there is none.
    pub memlock: Option<u64>,
    /// How far a kernel stamp of a received frame was from the time around it, in nanoseconds.
    pub stamp_error_ns: Option<u64>,
    /// The cost of reading the clock, in nanoseconds.
    pub clock_ns: u64,
    /// The CPUs that this process may use.
    pub cpus: Vec<usize>,
}

impl Tried {
    /// Tries it all. Nothing of the host changes.
    pub fn now() -> Self {
        let mut tried = Self {
            user_namespace: Privilege::detect().user_namespace,
            landlock: landlock(),
            seccomp: has_seccomp(),
            memlock: memlock(),
            clock_ns: clock_cost(),
            cpus: weir_host::wait::usable_cpus().unwrap_or_default(),
            ..Self::default()
        };
        // Without a private network these remain untried.
        if let Ok(networks) = Networks::new() {
            tried.tcx = Attempt::of(networks.run(attach_tcx));
            tried.xdp_native = Attempt::of(networks.run(|| open_xdp("afxdp")));
            tried.xdp_generic = Attempt::of(networks.run(|| open_xdp("afxdp-generic")));
            tried.fanout = Attempt::of(networks.run(open_fanout));
            tried.stamp_error_ns = networks.run(stamp_error).ok();
        }
        tried
    }
}

/// A private network with a cable in it.
struct Networks {
    namespace: NetNs,
}

impl Networks {
    fn new() -> Result<Self> {
        let namespace = NetNs::new()?;
        let mut netlink = Netlink::open_in(&namespace)?;
        let end = |name, last| VethEnd {
            name,
            namespace: &namespace,
            mac: Mac([0x02, 0, 0, 0, 0x79, last]),
        };
        netlink.add_veth(end(ENDS[0], 1), end(ENDS[1], 2), 1500)?;
        for name in ENDS {
            netlink.set_up(name, true)?;
        }
        Ok(Self { namespace })
    }

    fn run<T: Send>(&self, attempt: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.namespace.run(attempt)?
    }
}

fn attach_tcx() -> Result<()> {
    let index = Netlink::open()?.link(ENDS[0])?.index;
    let mut code = Code::new();
    code.give(TCX_PASS);
    Program::load(Kind::Packet, "weir_doctor", &code)?.attach(index, Hook::TcxIngress)?;
    Ok(())
}

/// Opens a port of this kind, as `weir up` does.
fn open_xdp(kind: &str) -> Result<()> {
    let config = PortConfig { kind: kind.to_owned(), ..PortConfig::new(ENDS[0]) };
    let (mut port, _pool) = open_port(config)?;
    let refused = |why: String| {
        weir_host::error::SystemError::refused(format!("open a port of kind {kind}"), why, "")
    };
    // It falls back to the other place of the program by itself, and says so.
    match port.warnings().into_iter().find(|text| kind == "afxdp" && text.contains("generic")) {
        Some(warning) => Err(refused(warning)),
        None if port.refresh() == PortState::Gone => Err(refused("it did not bind".into())),
        None => Ok(()),
    }
}

fn open_port(config: PortConfig) -> Result<(Box<dyn Port>, FramePool)> {
    let mut port = port::open(config)?;
    let room = port.room();
    let mut pool = FramePool::new((room.held_max + BATCH) as u32, room.slot_len);
    port.attach(&mut pool)?;
    Ok((port, pool))
}

fn open_fanout() -> Result<()> {
    let failed =
        |cause| weir_host::error::SystemError::new("sort frames among packet sockets", cause);
    let index = Netlink::open()?.link(ENDS[0])?.index;
    let open = || -> io::Result<()> {
        let socket = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        // SAFETY: sockaddr_ll is integers only: all zero is a value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as libc::c_int;
        let pointer: *const libc::sockaddr_ll = &address;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address is valid for its length during the call.
        if unsafe { libc::bind(socket.as_raw_fd(), pointer.cast(), len) } != 0 {
            return Err(io::Error::last_os_error());
        }
        fanout::create(socket.as_fd())?;
        // Every frame to the first socket.
        let first = [libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: 0 }];
        fanout::set_program(socket.as_fd(), &first)
    };
    open().map_err(failed)
}

/// Receives a frame, and returns how far its stamp lies outside the time between sending it and
/// finding it.
fn stamp_error() -> Result<u64> {
    let config = PortConfig { kind: "afpacket".to_owned(), ..PortConfig::new(ENDS[0]) };
    let (mut port, mut pool) = open_port(config)?;
    let mut frame = vec![0xff; 64];
    // An ethertype for experiments [IEEE 802, 9.2.3].
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    let (begun, before) = (Instant::now(), monotonic_ns());
    probe::send(ENDS[1], &[frame])?;
    let mut received = Vec::new();
    while received.is_empty() && begun.elapsed() < PATIENCE {
        port.receive(0, 1, &mut pool, &mut received);
    }
    let after = monotonic_ns();
    let none = || weir_host::error::SystemError::refused("receive a frame", "none came", "");
    let at = received.first().ok_or_else(none)?.at_ns;
    received.iter().for_each(|frame| pool.release(frame.frame));
    Ok(before.saturating_sub(at).max(at.saturating_sub(after)))
}

fn landlock() -> Option<u32> {
    /// `LANDLOCK_CREATE_RULESET_VERSION` of <linux/landlock.h>.
    const VERSION: libc::c_uint = 1;
    let none: *const libc::c_void = std::ptr::null();
    // SAFETY: with this flag the kernel reads nothing and returns a number.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, VERSION) };
    u32::try_from(version).ok()
}

fn has_seccomp() -> bool {
    let (command, action) = (libc::SECCOMP_GET_ACTION_AVAIL, libc::SECCOMP_RET_KILL_PROCESS);
    // SAFETY: the kernel reads the one number.
    unsafe { libc::syscall(libc::SYS_seccomp, command, 0, &raw const action) == 0 }
}

fn memlock() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit to write to.
    let status = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    (status == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Returns the least of several means: other work of the machine only adds.
fn clock_cost() -> u64 {
    let mean = |_| {
        let begun = monotonic_ns();
        let last = (0..READINGS).fold(begun, |_, _| monotonic_ns());
        (last - begun) / READINGS
    };
    (0..5).map(mean).min().unwrap_or_default()
}

const READINGS: u64 = 1000;
const PATIENCE: Duration = Duration::from_millis(500);
/// The ends of the cable.
const ENDS: [&str; 2] = ["weir-a", "weir-b"];
