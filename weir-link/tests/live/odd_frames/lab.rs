//! Two hosts with a bridge between them: the kernel's, or Weir's. Frames are sent by one host and
//! collected at the other.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

use weir_host::claim::{Claim, ClaimConfig, ClaimPort};
use weir_host::ethtool;
use weir_host::netlink::LinkState;
use weir_host::socket::set_option;
use weir_link::bridge::{Bridge, BridgeConfig, BridgePort};
use weir_link::offload::{self, OffloadHeader};
use weir_link::pool::FramePool;
use weir_link::port::{self, BATCH, Port, PortConfig, Reached};
use weir_link::status::{PortStatus, Status};
use weir_policy::deployment::OnExit;
use weir_testbed::rows::Failed;
use weir_testbed::{
    END, Host, LEFT, Netlink, RIGHT, RunningBridge, Testbed, TestbedConfig, until, until_seen,
};

use crate::odd_frames::frames::{Frame, marker};
use crate::support::lanes::both_ways;
use crate::support::raw;

pub type Outcome<T = ()> = Result<T, Failed>;

/// The bridge between the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    Kernel,
    Weir,
    /// Weir with a worker for each port.
    Workers,
    /// Weir, through which super-packets pass as one packet.
    Whole,
    /// The fallback, while Weir is dead.
    Fallback,
}

/// The hosts, the bridge, and what was sent and heard so far.
pub struct Lab {
    pub testbed: Testbed,
    pub through: Through,
    weir: Option<RunningBridge>,
    claim: Option<Claim>,
    ears: [Ear; 2],
    senders: [OwnedFd; 2],
    /// Frames that arrived at client and server, in order.
    pub heard: [Vec<Vec<u8>>; 2],
    /// Frames that client and server sent, super-packets counted as the frames they stand for.
    pub sent: [u64; 2],
    markers: u32,
}

/// The frames that arrived in a run.
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
        // Neither neighbour discovery nor group reports come between the frames of the test.
        let testbed = Testbed::new(TestbedConfig { has_ipv6: false, ..config })?;
        testbed.weir.run(|| ethtool::set_ipv6("default", false))??;
        let (mut weir, mut claim) = (None, None);
        match through {
            Through::Weir => weir = Some(start_weir(&testbed, (1, passes_carrier))?),
            Through::Workers => weir = Some(start_weir(&testbed, (2, passes_carrier))?),
            Through::Whole => weir = Some(start_whole(&testbed)?),
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
            self.listen(1 - from, &[]);
        }
        self.markers += 1;
        let last = marker(HOSTS[from].mac(), self.markers);
        self.lose(from, &[Frame::plain(last.clone())])?;
        let what = format!("{:?}: the last frame arrives", self.through);
        until(&what, || self.listen(1 - from, &last))?;
        Ok(())
    }

    /// Sends frames, all by one interface, that may not arrive.
    pub fn lose(&mut self, from: usize, frames: &[Frame]) -> Outcome {
        let Some(first) = frames.first() else { return Ok(()) };
        let mut netlink = Netlink::open_in(self.testbed.namespace(HOSTS[from]))?;
        let index = netlink.link(first.interface)?.index;
        for frame in frames {
            assert_eq!(frame.interface, first.interface, "they go by one interface");
            let message = [&frame.header()[..], &frame.bytes].concat();
            raw::send_to(&self.senders[from], index, &message)
                .map_err(|error| format!("send {} bytes: {error}", frame.bytes.len()))?;
            self.sent[from] += frame.count() as u64;
        }
        Ok(())
    }

    /// Collects what has arrived at a host, but for the frame `last`; returns whether that came.
    fn listen(&mut self, at: usize, last: &[u8]) -> bool {
        let mut has_come = false;
        for frame in self.ears[at].take() {
            if frame == last {
                has_come = true;
            } else if !is_of_the_bridge(&frame) {
                self.heard[at].push(frame);
            }
        }
        has_come
    }

    /// Waits until the bridge has noticed what happened to an interface.
    pub fn settle(&mut self) -> Outcome {
        match self.through {
            // It looks at its interfaces in the first turn of its loop after some time. Each status
            // is given after another turn, however long the machine made it pause.
            Through::Weir | Through::Workers | Through::Whole => {
                thread::sleep(LOOK_AFTER);
                (0..2).for_each(|_| drop(self.status()));
            }
            // It hears of a carrier when the kernel has acted on that.
            Through::Kernel | Through::Fallback => self.await_carriers()?,
        }
        if let Some(claim) = &mut self.claim {
            self.testbed.weir.run(|| claim.refresh())?;
        }
        for ear in &mut self.ears {
            ear.port.refresh();
        }
        Ok(())
    }

    /// Waits until Weir's bridge says this of its port [`RIGHT`]: its state, and how often it came
    /// back.
    pub fn await_right(&self, state: &str, rebinds: u64) -> Outcome {
        let Some(weir) = &self.weir else { return Ok(()) };
        let port = || weir.status().map(|status| status.ports[1].clone());
        let is_so = |port: &PortStatus| port.state == state && port.rebinds == rebinds;
        until_seen(&format!("the port is {state}"), port, |port| port.as_ref().is_ok_and(is_so))??;
        Ok(())
    }

    fn await_carriers(&self) -> Outcome {
        let mut netlink = self.netlink()?;
        until("the kernel has acted on all carriers", || {
            let mut links = [LEFT, RIGHT, OTHER].iter().filter_map(|port| netlink.link(port).ok());
            let has_acted =
                |link: LinkState| link.is_operational == (link.is_up && link.has_carrier);
            links.all(has_acted)
        })?;
        Ok(())
    }

    /// Returns a netlink socket of the bridge's namespace.
    pub fn netlink(&self) -> Outcome<Netlink> {
        Ok(Netlink::open_in(&self.testbed.weir)?)
    }

    /// Returns Weir's status; `None` if the bridge is the kernel's.
    pub fn status(&self) -> Option<Status> {
        self.weir.as_ref().and_then(|weir| weir.status().ok())
    }

    /// Ends the bridge, collects what is still to be heard, and returns Weir's last status.
    pub fn stop(mut self) -> Outcome<Heard> {
        if self.through == Through::Workers {
            // They count once a millisecond.
            thread::sleep(LOOK_AFTER);
        }
        let status = self.weir.take().map(RunningBridge::stop).transpose()?;
        for at in [CLIENT, SERVER] {
            self.listen(at, &[]);
        }
        Ok(Heard { frames: self.heard, sent: self.sent, status })
    }
}

/// Another name of the port [`RIGHT`].
pub const OTHER: &str = "other";
/// More than the time from one look of a bridge at its interfaces to the next.
const LOOK_AFTER: Duration = Duration::from_millis(300);
const POLICY: &str = "[link]\nrate = '40 Gbit/s'\nscheduler = 'fifo'\n\
     [class.all]\nqueue = { limit = '4000 packets' }\ndefault = true\n";

/// Starts Weir's bridge on a thread of its own.
fn start_weir(
    testbed: &Testbed,
    (workers, passes_carrier): (usize, bool),
) -> Outcome<RunningBridge> {
    let config = BridgeConfig { workers, ..config(passes_carrier)? };
    Ok(RunningBridge::run(testbed.weir.run(|| Bridge::open(config))??)?)
}

/// As [`start_weir`], with trains of any length.
fn start_whole(testbed: &Testbed) -> Outcome<RunningBridge> {
    let mut config = config(false)?;
    config.lanes.iter_mut().for_each(|lane| lane.train_max = vec![u32::MAX]);
    Ok(RunningBridge::run(testbed.weir.run(|| Bridge::open(config))??)?)
}

fn config(passes_carrier: bool) -> Outcome<BridgeConfig> {
    let parsed = weir_policy::policy::parse(POLICY, "odd frames");
    let render = weir_policy::render::render;
    let why = || render(&parsed.findings, &parsed.sources, false);
    let policy = parsed.plan.as_ref().ok_or_else(why)?;
    Ok(both_ways(BridgePort::two([LEFT, RIGHT]), policy, passes_carrier)?)
}

/// Joins the ports by the kernel's bridge, which finishes super-packets before it sends them.
fn start_kernel_bridge() -> weir_host::error::Result<()> {
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
fn start_fallback() -> weir_host::error::Result<Claim> {
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
    fn open() -> weir_host::error::Result<Self> {
        let port = port::open(PortConfig::new(END))?;
        Ok(Self { port, pool: FramePool::for_mtu(4096, 9500) })
    }

    fn take(&mut self) -> Vec<Vec<u8>> {
        let mut received = Vec::new();
        while self.port.receive(0, BATCH, &mut self.pool, &mut received) != Reached::All {}
        let bytes = |pool: &mut FramePool, frame| {
            port::complete_sum(pool, frame);
            let bytes = pool.bytes(frame).to_vec();
            pool.release(frame);
            bytes
        };
        received.into_iter().map(|received| bytes(&mut self.pool, received.frame)).collect()
    }
}

/// Opens a socket that sends whole frames, each behind a header that says what is left undone.
fn open_sender() -> io::Result<OwnedFd> {
    let socket = raw::open_packet_socket(0)?;
    set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)?;
    // Longer super-packets than a socket may queue as it comes; without the privilege they fail.
    let much = 8_i32 << 20;
    let _unprivileged = set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &much);
    Ok(socket)
}

impl Frame {
    /// Returns how many frames it stands for.
    pub fn count(&self) -> usize {
        let plan = offload::plan(&self.bytes, &OffloadHeader::parse(&self.header()));
        plan.map_or(1, |plan| plan.count())
    }
}
