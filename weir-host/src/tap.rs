//! Taps: all that a machine sends out of an interface, or receives there, comes by here.
//!
//! ```text
//!   this machine's namespace                                  private namespace
//!   routing, NAT ── eth0 ──(egress: to weir-host7)──> weir-host7 ══ tap   the host's tap
//!                    ^ └───────(ingress, marked)────────────┘
//!   wire ─────────> eth0 ──(ingress: to weir-wire7)─> weir-wire7 ══ tap   the wire's tap
//!                    ^ └───────(egress, marked)─────────────┘
//! ```
//! Programs in the kernel move the frames. One at the interface redirects each frame into a veth
//! pair, whose other end lies in a namespace that only this process holds. One at the near end of
//! the pair redirects what is sent into the far end: from the host's tap it arrives at the
//! interface as if from the wire, from the wire's tap it leaves the interface. Outgoing frames
//! are taken after routing, translation and connection tracking, incoming ones before these. So
//! nothing is moved: neither addresses, nor routes, nor rules.
//!
//! The interface's programs let pass, and clear, what carries [`MARK`]: it has been through a tap.
//! Both stand before all other programs, so filters and queues of the operator see each frame once.
//!
//! Invariant: programs and pairs live as long as their descriptors ([`Tap::descriptors`]) in any
//! process; when the last one ends, however it ends, frames pass as before.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::Duration;

use crate::bpf::{Code, Cond, Function, Hook, Kind, Link, Program, Reg, Width};
use crate::error::{Result, SystemError};
use crate::ethtool;
use crate::netlink::{LinkState, Mac, Netlink, VethEnd};
use crate::netns::NetNs;
use crate::privilege;
use crate::uapi::bpf::BPF_F_INGRESS;
use crate::uapi::verdict::{TCX_DROP, TCX_NEXT};

/// The far end of the pair, in the private namespace.
pub const INSIDE: &str = "tap";

/// The mark of a frame between a tap and the interface. Only there: both programs of the
/// interface clear it, and a frame that enters a tap loses its mark with its namespace.
pub const MARK: i32 = i32::from_be_bytes(*b"WEIR");

/// Which frames a tap takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Frames that this machine sends out of the interface; what is sent into the tap, the
    /// machine receives from the interface.
    Host,
    /// Frames that the interface receives; what is sent into the tap leaves the interface.
    Wire,
}

/// One side of an interface, redirected.
pub struct Tap {
    side: Side,
    interface: String,
    link: LinkState,
    pair_mtu: u32,
    near: String,
    near_index: u32,
    outside: NetNs,
    inside: NetNs,
    netlink: Netlink,
    inside_netlink: Netlink,
    /// Lets only redirected frames into the pair.
    guard: Link,
    /// The programs that name the interface; empty while there is none.
    links: Vec<Link>,
    /// Whether frames are to be redirected.
    is_wanted: bool,
    moves: u64,
}

/// The near end of the pair, and the program that guards it.
struct Pair {
    near_index: u32,
    guard: Link,
}

impl Tap {
    /// Makes a tap of an interface of this thread's network namespace. It takes no frames before
    /// [`Tap::attach`].
    ///
    /// # Errors
    /// When the interface does not exist, is no Ethernet interface, or has an XDP program; when
    /// another Weir has this tap; when privileges are missing.
    pub fn open(interface: &str, side: Side) -> Result<Self> {
        check_privileges(interface)?;
        let mut netlink = Netlink::open()?;
        let link = netlink.link(interface)?;
        check_interface(interface, link)?;
        let (outside, inside) = (NetNs::current()?, NetNs::new()?);
        let near = format!("weir-{}{}", side.word(), link.index);
        let mut inside_netlink = Netlink::open_in(&inside)?;
        let plan = PairPlan {
            interface,
            near: &near,
            outside: &outside,
            inside: &inside,
            mtu: link.mtu,
            tries_max: TRIES_MAX,
        };
        let pair = plan.set_up(&mut netlink, &mut inside_netlink)?;
        let Pair { near_index, guard } = pair;
        Ok(Self {
            side,
            interface: interface.to_owned(),
            link,
            pair_mtu: link.mtu,
            near,
            near_index,
            outside,
            inside,
            netlink,
            inside_netlink,
            guard,
            links: Vec::new(),
            is_wanted: false,
            moves: 0,
        })
    }

    /// Redirects the interface's frames from now on, if they are not.
    ///
    /// # Errors
    /// When the kernel is older than Linux 6.6, or the interface has disappeared.
    pub fn attach(&mut self) -> Result<()> {
        self.is_wanted = true;
        if self.links.is_empty() { self.redirect() } else { Ok(()) }
    }

    fn redirect(&mut self) -> Result<()> {
        let (index, near) = (self.link.index, self.near_index);
        let (takes, flags) = match self.side {
            Side::Host => (Hook::TcxEgress, BPF_F_INGRESS),
            Side::Wire => (Hook::TcxIngress, EGRESS),
        };
        let back = Program::load(Kind::Packet, "weir_back", &back(index, flags))?;
        let take = Program::load(Kind::Packet, "weir_take", &take(near))?;
        // Two programs that take frames would do so one after the other.
        self.links.clear();
        let attach = || -> Result<Vec<Link>> {
            Ok(vec![back.attach(near, Hook::TcxIngress)?, take.attach(index, takes)?])
        };
        self.links = self.outside.run(attach)?.map_err(|error| explain(&self.interface, error))?;
        Ok(())
    }

    /// Follows the interface: its name, its MTU, or a new interface of the same name. Mends what
    /// others did to the pair. Returns the interface's state; `None` while there is none. Where the
    /// pair cannot be mended, this takes no frames any more: they pass as without a tap.
    pub fn follow(&mut self) -> Option<LinkState> {
        if let Ok((name, link)) = self.netlink.link_at(self.link.index) {
            (self.interface, self.link) = (name, link);
        } else {
            self.link = self.netlink.link(&self.interface).ok()?;
        }
        if self.mend().is_err() {
            self.links.clear();
            return None;
        }
        self.follow_mtu();
        Some(self.link)
    }

    /// Makes the pair anew if it was removed, sets it up if it was set down, and attaches the
    /// programs again if they were detached, as an interface that goes takes them with it.
    fn mend(&mut self) -> Result<()> {
        let near = self.netlink.link_at(self.near_index).ok();
        let is_there = near.is_some() && self.guard.interface() == Some(self.near_index);
        if !is_there {
            let plan = PairPlan {
                interface: &self.interface,
                near: &self.near,
                outside: &self.outside,
                inside: &self.inside,
                mtu: self.link.mtu,
                tries_max: 0,
            };
            let pair = plan.set_up(&mut self.netlink, &mut self.inside_netlink)?;
            (self.near_index, self.guard) = (pair.near_index, pair.guard);
            self.pair_mtu = self.link.mtu;
        } else if near.is_some_and(|(_, near)| !near.is_up) {
            self.netlink.set_up(&self.near, true)?;
            self.moves += 1;
        }
        let at: Vec<_> = self.links.iter().map(Link::interface).collect();
        let expected = [Some(self.near_index), Some(self.link.index)];
        if self.is_wanted && at != expected {
            self.redirect()?;
            self.moves += 1;
        }
        Ok(())
    }

    /// Returns the interface's name now.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Returns the namespace in which the interface [`INSIDE`] is the tap.
    pub fn namespace(&self) -> &NetNs {
        &self.inside
    }

    /// Returns the state of the interface as last seen by [`Tap::follow`].
    pub fn state(&self) -> LinkState {
        self.link
    }

    /// Returns what keeps the tap alive and the interface's frames redirected: another process that
    /// has copies retains both when this one ends.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let links = self.links.iter().map(AsFd::as_fd);
        [self.inside.as_fd(), self.guard.as_fd()].into_iter().chain(links).collect()
    }

    /// Returns how many times a new interface took the place of one that disappeared, and how many
    /// times the pair was mended.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    fn follow_mtu(&mut self) {
        let mtu = self.link.mtu;
        if mtu == self.pair_mtu {
            return;
        }
        let near = self.netlink.set_mtu(&self.near, mtu);
        // Where it fails, longer frames are lost in the pair: the next call tries again.
        if near.and_then(|()| self.inside_netlink.set_mtu(INSIDE, mtu)).is_ok() {
            self.pair_mtu = mtu;
        }
    }
}

impl Side {
    /// Returns the word for it in names.
    pub fn word(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Wire => "wire",
        }
    }
}

/// At the interface: what was through a tap passes, all else goes to the pair.
fn take(near: u32) -> Code {
    let mut code = Code::new();
    let pass = code.label();
    code.load(Width::Word, Reg::R2, Reg::R1, OFFSET_MARK).jump_if(Reg::R2, Cond::Equal, MARK, pass);
    mark(&mut code, MARK);
    redirect(&mut code, near, EGRESS);
    code.place(pass);
    mark(&mut code, 0);
    code.give(TCX_NEXT);
    code
}

/// At the near end's egress: what no program redirected here, such as what a daemon sends to every
/// interface, is dropped.
fn guard() -> Code {
    let mut code = Code::new();
    let pass = code.label();
    code.load(Width::Word, Reg::R2, Reg::R1, OFFSET_MARK).jump_if(Reg::R2, Cond::Equal, MARK, pass);
    code.give(TCX_DROP).place(pass).give(TCX_NEXT);
    code
}

/// At the near end's ingress: everything goes to the interface, marked.
fn back(index: u32, flags: i32) -> Code {
    let mut code = Code::new();
    mark(&mut code, MARK);
    redirect(&mut code, index, flags);
    code
}

fn mark(code: &mut Code, value: i32) {
    code.set(Reg::R2, value).store(Width::Word, Reg::R1, OFFSET_MARK, Reg::R2);
}

fn redirect(code: &mut Code, index: u32, flags: i32) {
    code.set(Reg::R1, index as i32).set(Reg::R2, flags).call(Function::Redirect).exit();
}

/// Of `mark` in `struct __sk_buff` of <linux/bpf.h>.
const OFFSET_MARK: i16 = 8;
/// No flag of the helper `redirect`: out of the interface.
const EGRESS: i32 = 0;

fn check_privileges(interface: &str) -> Result<()> {
    let lacking = privilege::lacking_for_taps();
    if lacking.is_empty() {
        return Ok(());
    }
    let why = format!("this process lacks {}", lacking.join(", "));
    let cure = "run it as root; a user namespace is not enough; without these privileges `weir up` \
                bridges two interfaces";
    Err(SystemError::refused(format!("shape what this host sends on `{interface}`"), why, cure))
}

fn check_interface(interface: &str, link: LinkState) -> Result<()> {
    let refuse = |why: &str, cure: &'static str| {
        let action = format!("redirect the frames of `{interface}`");
        Err(SystemError::refused(action, why, cure))
    };
    if !link.is_ethernet {
        let cure = "choose the Ethernet interface below it; `ip link` lists them";
        return refuse("it is not an Ethernet interface", cure);
    }
    if link.has_xdp {
        let cure = "detach it (`ip link set dev INTERFACE xdp off`, or end its program)";
        return refuse("an XDP program is attached, which may take frames first", cure);
    }
    Ok(())
}

/// Says of an error that the kernel is too old, where that is the reason.
fn explain(interface: &str, error: SystemError) -> SystemError {
    if error.errno() != Some(libc::EINVAL) {
        return error;
    }
    let action = format!("redirect the frames of `{interface}`");
    let why = format!("this kernel does not know tcx links ({})", error.cause);
    SystemError::refused(action, why, "it takes Linux 6.6 or later; bridge two interfaces")
}

/// A pair to be made: its near end is beside the interface, its far end in a namespace of its own.
struct PairPlan<'a> {
    interface: &'a str,
    /// The name of the near end.
    near: &'a str,
    /// The namespaces of the near end and of the far one.
    outside: &'a NetNs,
    inside: &'a NetNs,
    mtu: u32,
    /// How often a pair that is there already is waited for.
    tries_max: u32,
}

impl PairPlan<'_> {
    /// Makes the pair, guarded and up.
    fn set_up(&self, netlink: &mut Netlink, inside_netlink: &mut Netlink) -> Result<Pair> {
        let Self { interface, near, outside, inside, .. } = *self;
        self.add(netlink)?;
        let near_index = netlink.link(near)?.index;
        let guard = Program::load(Kind::Packet, "weir_guard", &guard())?;
        let attach = || guard.attach(near_index, Hook::TcxEgress);
        let guard = outside.run(attach)?.map_err(|error| explain(interface, error))?;
        // A message that the kernel sends by itself would look like one of the machine's own.
        outside.run(|| without_ipv6(near))??;
        inside.run(|| without_ipv6(INSIDE))??;
        netlink.set_up(near, true)?;
        inside_netlink.set_up(INSIDE, true)?;
        Ok(Pair { near_index, guard })
    }

    /// Makes the pair. Its name is the lock on this side of the interface.
    fn add(&self, netlink: &mut Netlink) -> Result<()> {
        let Self { interface, near, outside, inside, mtu, tries_max } = *self;
        let mac = |last| Mac([0x02, 0x57, 0x45, 0x49, 0x52, last]);
        let mut tries = 0;
        loop {
            let near_end = VethEnd { name: near, namespace: outside, mac: mac(1) };
            let far_end = VethEnd { name: INSIDE, namespace: inside, mac: mac(2) };
            let Err(error) = netlink.add_veth(near_end, far_end, mtu) else { return Ok(()) };
            if error.errno() != Some(libc::EEXIST) {
                return Err(error);
            }
            if tries == tries_max {
                let action = format!("redirect the frames of `{interface}`");
                let why = format!("another Weir shapes this interface: `{near}` exists");
                return Err(SystemError::refused(action, why, "stop the other `weir up` first"));
            }
            // The kernel removes the pair of a process that has just ended in the background.
            tries += 1;
            thread::sleep(TRY_INTERVAL);
        }
    }
}

const TRIES_MAX: u32 = 20;
const TRY_INTERVAL: Duration = Duration::from_millis(100);

/// Turns IPv6 of an interface off, where the kernel has IPv6.
fn without_ipv6(interface: &str) -> Result<()> {
    match ethtool::set_ipv6(interface, false) {
        Err(error) if error.cause.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}
