//! The facts that checks read: files below `/proc` and `/sys`, and the kernel's answers about
//! interfaces.

use std::fs;
use std::path::PathBuf;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

use weir_policy::deployment::OnExit;

use super::tried::Tried;
use super::wakeup::{self, Wakeup};
use super::{Wanted, WantedPort};

use weir_host::claim::{self, ClaimConfig, ClaimPort, Prospect};
use weir_host::ethtool::{self, Features};
use weir_host::netlink::{LinkState, Netlink};
use weir_host::privilege;

/// All that checks read.
#[derive(Debug)]
pub struct Facts {
    /// The files of the kernel.
    pub files: Files,
    /// The outcome of trying calls.
    pub tried: Tried,
    /// How late threads wake.
    pub wakeups: Vec<Wakeup>,
    /// The interfaces of the wanted ports, in their order.
    pub interfaces: Vec<InterfaceFacts>,
}

/// Files of the kernel below a folder, which is `/` but in tests.
#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
}

/// The kernel's answers about an interface. `None` where it, or its driver, does not say.
#[derive(Clone, Debug, Default)]
pub struct InterfaceFacts {
    /// Its state; `None` if there is no such interface.
    pub link: Option<LinkState>,
    /// The name of its driver.
    pub driver: Option<String>,
    /// The queues into which it receives.
    pub queues: Option<u32>,
    /// The work that it does for the kernel.
    pub features: Features,
    /// Pause frames: received ones are obeyed, and own ones are sent.
    pub pause: Option<[bool; 2]>,
    /// The frames that its receive ring and its transmit ring hold.
    pub rings: Option<[u32; 2]>,
    /// The name of its root queueing discipline.
    pub qdisc: Option<String>,
    /// The obstacles to its claim.
    pub prospect: Prospect,
    /// Its folder below `sys`, if that shows this network namespace.
    pub folder: Option<String>,
}

impl Facts {
    /// Reads this machine, and tries what it allows. Takes about a second.
    pub fn of_this_machine(wanted: &Wanted) -> Self {
        let files = Files::below("/");
        let interfaces = wanted.ports.iter().map(|port| InterfaceFacts::read(port, &files));
        let mut interfaces: Vec<_> = interfaces.collect();
        let ports = wanted.ports.iter().map(|port| ClaimPort {
            name: &port.interface,
            interface: &port.interface,
            is_host: port.is_host,
            bridge: 0,
        });
        let (take, on_exit) = (wanted.take, OnExit::Closed);
        let config = ClaimConfig { deployment: "", take, on_exit, ports: ports.collect() };
        let prospects = claim::prospects(&config).unwrap_or_default();
        for (facts, prospect) in interfaces.iter_mut().zip(prospects) {
            facts.prospect = prospect;
        }
        Self { files, tried: Tried::now(), wakeups: wakeup::measure(), interfaces }
    }

    /// Returns the capabilities of this process, a bit each.
    pub(super) fn capabilities(&self) -> u64 {
        privilege::effective_in(&self.files.text("proc/self/status").unwrap_or_default())
    }
}

impl Files {
    /// The files below this folder.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the text of a file, without the end of its last line.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok().map(|text| text.trim_end().to_owned())
    }

    /// Returns the number that a file holds.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.trim().parse().ok()
    }

    /// Returns the names in a folder, sorted.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Returns a setting of the kernel, by its name in sysctl(8).
    pub(super) fn sysctl(&self, name: &str) -> Option<u64> {
        self.number(&format!("proc/sys/{}", name.replace('.', "/")))
    }
}

impl InterfaceFacts {
    fn read(port: &WantedPort, files: &Files) -> Self {
        let name = &port.interface;
        let Ok(mut netlink) = Netlink::open() else { return Self::default() };
        let Ok(link) = netlink.link(name) else { return Self::default() };
        let folder = format!("sys/class/net/{name}");
        // `/sys` shows the namespace in which it was mounted, which may be another.
        let is_same = files.number(&format!("{folder}/ifindex")) == Some(link.index.into())
            && files.text(&format!("{folder}/address")) == link.mac.map(|mac| mac.to_string());
        Self {
            link: Some(link),
            driver: ethtool::driver(name).ok(),
            queues: ethtool::receive_queues(name).ok(),
            features: ethtool::features(name),
            pause: ethtool::pause(name).ok(),
            rings: ethtool::rings(name).ok(),
            qdisc: root_qdisc(&mut netlink, link.index),
            prospect: Prospect::default(),
            folder: is_same.then_some(folder),
        }
    }

    /// Returns the MTU; 0 if there is no such interface.
    pub(super) fn mtu(&self) -> u32 {
        self.link.map_or(0, |link| link.mtu)
    }

    /// Returns whether its driver is one for interfaces whose other end is on the same machine.
    pub(super) fn is_virtual(&self) -> bool {
        const DRIVERS: [&str; 6] = ["veth", "tun", "virtio_net", "bridge", "dummy", "tap"];
        self.driver.as_deref().is_none_or(|driver| DRIVERS.contains(&driver))
    }
}

fn root_qdisc(netlink: &mut Netlink, index: u32) -> Option<String> {
    let mut message = TcMessage::default();
    message.header.index = index as i32;
    let answers = netlink.dump(RouteNetlinkMessage::GetQueueDiscipline(message)).ok()?;
    answers.into_iter().find_map(|answer| {
        let RouteNetlinkMessage::NewQueueDiscipline(qdisc) = answer else { return None };
        if qdisc.header.index != index as i32 || qdisc.header.parent != TcHandle::ROOT {
            return None;
        }
        qdisc.attributes.into_iter().find_map(|attribute| match attribute {
            TcAttribute::Kind(kind) => Some(kind),
            _ => None,
        })
    })
}
