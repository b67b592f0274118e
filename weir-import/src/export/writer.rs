//! The commands written so far, and what is lost.

use super::{ExportedClass, Loss};
use weir_core::ids::ClassId;
use weir_core::link::{Charge, Coding, Framing};
use weir_core::sched::ClassSpec;
use weir_core::units::Bytes;
use weir_policy::policy::Policy;

/// The output so far.
pub(super) struct Writer<'p> {
    pub policy: &'p Policy,
    pub device: &'p str,
    /// Whether packets of the device begin with an IP header: the kernel counts 14 bytes less than
    /// Weir.
    pub bare: bool,
    pub lines: Vec<String>,
    pub lost: Vec<Loss>,
    /// The handle of each class, by its number.
    pub ids: Vec<String>,
    /// The handle of the discipline that has the classes.
    pub root: &'static str,
}

impl Writer<'_> {
    pub(super) fn command(&mut self, line: String) {
        self.lines.push(line);
    }

    pub(super) fn lose(&mut self, what: impl Into<String>, why: impl Into<String>) {
        if self.lost.len() < LOST_MAX {
            self.lost.push(Loss { what: what.into(), why: why.into() });
        }
    }

    /// Returns the classes, parents before their children, otherwise as declared.
    pub(super) fn downward(&self) -> Vec<(ClassId, &ClassSpec)> {
        let tree = &self.policy.link.tree;
        let mut classes: Vec<_> = tree.classes().collect();
        classes.sort_by_key(|(id, _)| tree.path(*id).count());
        classes
    }

    pub(super) fn default_class(&self) -> ClassId {
        self.policy.link.tree.class_of(self.policy.default.leaf)
    }

    /// Returns the charged length of the largest packet.
    pub(super) fn packet(&self) -> u64 {
        self.policy.link.tree.mtu().get()
    }

    pub(super) fn rate(&self) -> u64 {
        self.policy.link.tree.rate().bits_per_second()
    }

    /// Returns the bytes that are added to what the kernel counts of a packet.
    pub(super) fn added(&self) -> i64 {
        let link = &self.policy.link;
        let own = if link.charge == Charge::Frame { 0 } else { i64::from(link.framing.added) };
        own + if self.bare { ETHERNET_HEADER } else { 0 }
    }

    /// Returns `overhead N mpu N linklayer atm`, as far as the framing requires it.
    pub(super) fn overhead(&self) -> String {
        let framing = self.policy.link.framing;
        let (added, frame) = (self.added(), self.policy.link.charge == Charge::Frame);
        let mut text = String::new();
        if added != 0 || !frame && matches!(framing.coding, Coding::Cells(_)) {
            text.push_str(&format!(" overhead {added}"));
        }
        if frame {
            return text;
        }
        if framing.minimum > 0 {
            text.push_str(&format!(" mpu {}", framing.minimum));
        }
        if framing.coding == Framing::ATM.coding {
            text.push_str(" linklayer atm");
        }
        text
    }

    /// Returns the words of a cake for the framing: it counts from the IP header.
    pub(super) fn cake_overhead(&mut self) -> String {
        let framing = match self.policy.link.charge {
            Charge::Frame => Framing { added: 0, minimum: 0, coding: Coding::Plain },
            Charge::Wire => self.policy.link.framing,
        };
        let coding = match framing.coding {
            Coding::Plain => "noatm",
            Coding::Ptm => "ptm",
            Coding::Cells(_) => "atm",
        };
        let added = i64::from(framing.added) + ETHERNET_HEADER;
        let (bytes, minimum) = (added.clamp(-64, 256), framing.minimum.min(256));
        if (bytes, minimum) != (added, framing.minimum) {
            let why = "tc takes from -64 to 256 bytes beside the IP packet, and an `mpu` up to 256";
            self.lose("`overhead` of the link", why);
        }
        format!(" overhead {bytes} mpu {minimum} {coding}")
    }

    /// Returns `stab ...`, for disciplines whose classes have no `overhead`.
    pub(super) fn stab(&self) -> String {
        let overhead = self.overhead();
        if overhead.is_empty() { overhead } else { format!(" stab{overhead}") }
    }

    pub(super) fn named(&mut self, id: &str, name: &str) {
        self.command(format!("# class {id} is {name}"));
    }

    pub(super) fn exported(&mut self, id: ClassId, handle: String) -> ExportedClass {
        let tree = &self.policy.link.tree;
        let class = tree.class(id);
        self.ids[id.index()].clone_from(&handle);
        ExportedClass {
            name: class.name.clone(),
            id: handle,
            leaf: tree.leaf_of(id).is_some(),
            rate: None,
            ceil: None,
        }
    }

    /// Writes the shaper above a discipline without a rate of its own.
    pub(super) fn shaper(&mut self) {
        let (rate, packet) = (self.rate(), self.packet());
        let device = self.device;
        let burst = packet.max(rate / 8 / 1000);
        let stab = self.stab();
        // Packets wait below it; this limit is not used.
        let limit = burst + 1000 * packet;
        self.command(format!(
            "qdisc add dev {device} root handle 1:{stab} tbf rate {rate}bit burst {burst} \
             limit {limit}"
        ));
    }

    pub(super) fn lose_rest(&mut self) {
        let link = &self.policy.link;
        let packets = link.packets_max;
        let held: u64 = link.queues.len() as u64 * 100;
        if u64::from(packets) < held {
            self.lose("packets_max", "the kernel has no bound for all queues together");
        }
        if link.framing.coding == Framing::AAL5.coding {
            self.lose("overhead", "the kernel counts 53 bytes for a cell, not the 48 it carries");
        }
        let is_cake = self.lines.iter().any(|line| line.contains(" root handle 1: cake "));
        if link.framing.coding == Coding::Ptm && !is_cake {
            let why = "the kernel does not count the byte that PTM adds to each 64; lower the rate \
                       to 64/65 of it";
            self.lose("overhead", why);
        }
        if link.follows_arrivals && !is_cake {
            self.lose(
                "follows_arrivals",
                "of the kernel's disciplines only a `cake` at the root does",
            );
        }
        if link.buffer != Bytes::ZERO {
            self.lose("buffer", "the device's own queue is set by its driver");
        }
    }

    /// As [`Writer::downward`], for a caller that writes during the iteration.
    pub(super) fn downward_owned(&self) -> Vec<(ClassId, ClassSpec)> {
        self.downward().into_iter().map(|(id, class)| (id, class.clone())).collect()
    }
}

/// The bytes of an Ethernet header.
const ETHERNET_HEADER: i64 = 14;
/// The most losses that are reported.
const LOST_MAX: usize = 1000;
