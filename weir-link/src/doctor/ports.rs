//! The checks of an interface that is, or may become, a port.

use super::facts::InterfaceFacts;
use super::{Check, Facts, Finding, Level, Wanted, WantedPort};
use crate::port::{QUEUES_MAX, SHARES_MAX};

/// An interface and what is wanted of it.
pub(super) struct Subject<'a> {
    pub(super) facts: &'a Facts,
    pub(super) wanted: &'a Wanted,
    pub(super) port: &'a WantedPort,
    pub(super) interface: &'a InterfaceFacts,
}

/// Looks at an interface.
type Run = fn(&Subject<'_>) -> Vec<Finding>;

/// The checks, in the order in which they are told. All but the first are silent about an interface
/// that does not exist.
pub(super) const CHECKS: &[Check<Run>] = &[
    Check { name: "interface", run: exists },
    Check { name: "use", run: uses },
    Check { name: "carrier", run: carrier },
    Check { name: "driver", run: driver },
    Check { name: "queues", run: queues },
    Check { name: "mtu", run: mtu },
    Check { name: "offloads", run: offloads },
    Check { name: "pause", run: pause },
    Check { name: "ring", run: ring },
    Check { name: "qdisc", run: qdisc },
    Check { name: "xdp-program", run: program },
    Check { name: "interrupts", run: interrupts },
];

impl Subject<'_> {
    fn name(&self) -> &str {
        &self.port.interface
    }

    fn may_be_xdp(&self) -> bool {
        !self.port.is_host && self.port.kind != "afpacket" && !self.interface.is_virtual()
    }

    fn must_be_xdp(&self) -> bool {
        self.port.kind.starts_with("afxdp")
    }

    /// Returns the level of what keeps AF_XDP away.
    fn against_xdp(&self) -> Level {
        self.wanted.missing(self.must_be_xdp(), Level::Note)
    }
}

fn exists(subject: &Subject<'_>) -> Vec<Finding> {
    let Some(link) = subject.interface.link else {
        let finding = Finding::new(Level::Problem, "there is no such interface");
        return vec![finding.cured("`ip link` lists the interfaces")];
    };
    if !link.is_ethernet {
        let finding = Finding::new(Level::Problem, "it is not an Ethernet interface");
        return vec![finding.cured("name another one; for PPPoE the one below it")];
    }
    Vec::new()
}

fn uses(subject: &Subject<'_>) -> Vec<Finding> {
    if subject.interface.link.is_none() {
        return Vec::new();
    }
    let prospect = &subject.interface.prospect;
    if let Some((process, deployment)) = &prospect.holder {
        return Finding::note(format!(
            "the deployment `{deployment}` has it now (process {process})"
        ));
    }
    if let Some((why, cure)) = &prospect.refusal {
        let level = subject.wanted.missing(true, Level::Warning);
        return vec![Finding::new(level, why.as_str()).cured(cure.as_str())];
    }
    match &prospect.note {
        Some(note) => {
            let cure = "give the host another interface (docs/running.md)";
            vec![Finding::new(Level::Warning, note.as_str()).cured(cure)]
        }
        None if subject.port.is_host => Finding::good("the host can go on using it under Weir"),
        None => Finding::good("the host does not use it"),
    }
}

fn carrier(subject: &Subject<'_>) -> Vec<Finding> {
    let Some(link) = subject.interface.link else { return Vec::new() };
    if !link.is_up {
        let cure = format!("ip link set {} up", subject.name());
        let text = "it is set down: no frame passes until it is set up";
        return vec![Finding::new(Level::Warning, text).cured(cure)];
    }
    if !link.has_carrier {
        let finding = Finding::new(Level::Warning, "it has no carrier");
        return vec![finding.cured("connect the cable, and the machine behind it")];
    }
    Finding::good("it is up and has a carrier")
}

fn driver(subject: &Subject<'_>) -> Vec<Finding> {
    if subject.interface.link.is_none() {
        return Vec::new();
    }
    let Some(driver) = &subject.interface.driver else {
        return Finding::note("the kernel does not say which driver it has");
    };
    if subject.interface.is_virtual() {
        return Finding::note(format!(
            "its driver is `{driver}`: the other end may be on this machine and send super-packets \
             (packet sockets cut them); `auto` takes no AF_XDP here"
        ));
    }
    Finding::note(format!(
        "its driver is `{driver}`; Weir was tried with virtual interfaces only, so try it first \
         (docs/real-card.md)"
    ))
}

fn queues(subject: &Subject<'_>) -> Vec<Finding> {
    let Some(queues) = subject.interface.queues else { return Vec::new() };
    if queues <= 1 {
        return Finding::good("it receives into one queue");
    }
    let text = format!("it receives into {queues} queues");
    let (name, shares) = (subject.name(), subject.port.shares as u32);
    if !subject.may_be_xdp() && !subject.must_be_xdp() {
        return Finding::good(format!("{text}, which packet sockets read all"));
    }
    if queues as usize > QUEUES_MAX {
        let text = format!("{text}, above the {QUEUES_MAX} that AF_XDP reads at most");
        let cure = format!("ethtool -L {name} combined {QUEUES_MAX}");
        return vec![Finding::new(subject.against_xdp(), text).cured(cure)];
    }
    if !subject.must_be_xdp() {
        let text = format!("{text}: `auto` takes AF_XDP for one, and packet sockets here");
        let cure = format!("`kind = \"afxdp\"` reads all of them; or ethtool -L {name} combined 1");
        return vec![Finding::new(Level::Note, text).cured(cure)];
    }
    if shares >= queues {
        return Finding::good(format!("{text}, each of which has a thread"));
    }
    let threads =
        if shares == 1 { "one thread reads".to_owned() } else { format!("{shares} threads read") };
    let fewer = format!("ethtool -L {name} combined {shares}");
    let workers = queues as usize * subject.wanted.ports.len();
    let cure = match workers <= SHARES_MAX {
        true => format!("for a thread each: `workers = {workers}`; or {fewer}"),
        false => format!("for a thread each: {fewer}"),
    };
    vec![Finding::new(Level::Note, format!("{text}, which {threads}")).cured(cure)]
}

fn mtu(subject: &Subject<'_>) -> Vec<Finding> {
    let mtu = subject.interface.mtu();
    if mtu == 0 {
        return Vec::new();
    }
    let others = subject.facts.interfaces.iter().map(InterfaceFacts::mtu);
    let least = others.filter(|other| *other > 0).min().unwrap_or(mtu);
    if subject.must_be_xdp() && mtu > XDP_MTU_MAX {
        let cure = format!("ip link set {} mtu {XDP_MTU_MAX}", subject.name());
        let text = format!("its MTU {mtu} is above {XDP_MTU_MAX}, the most with AF_XDP");
        return vec![Finding::new(subject.against_xdp(), text).cured(cure)];
    }
    if subject.wanted.is_deployment && mtu > least {
        let text = format!(
            "its MTU is {mtu}, and that of another port {least}: longer frames are lost there"
        );
        let cure = format!("ip link set {} mtu {least}", subject.name());
        return vec![Finding::new(Level::Warning, text).cured(cure)];
    }
    Finding::good(format!("its MTU is {mtu}"))
}

fn offloads(subject: &Subject<'_>) -> Vec<Finding> {
    let (name, features) = (subject.name(), subject.interface.features);
    let mut findings = Vec::new();
    if features.joins_in_card == Some(true) {
        let text = "the card joins received segments (LRO) and does not say where: what Weir cuts \
                    them into differs from what was sent";
        let cure = format!("ethtool -K {name} lro off");
        findings.push(Finding::new(Level::Warning, text).cured(cure));
    }
    if features.joins == Some(true) && subject.may_be_xdp() {
        // A program in the driver sees frames before the kernel joins them.
        findings.extend(Finding::note("the kernel joins segments (GRO), after AF_XDP took them"));
    } else if features.joins == Some(true) {
        let text = "the kernel joins received segments (GRO), and Weir cuts them again: that saves \
                    work, but the segments of one frame then leave in a burst";
        let cure = format!("for even spacing: ethtool -K {name} gro off");
        findings.push(Finding::new(Level::Note, text).cured(cure));
    }
    if features.takes_tags_off == Some(true) && (subject.must_be_xdp() || subject.may_be_xdp()) {
        let text = "the card takes VLAN tags off frames; an AF_XDP port puts them back only where \
                    the driver and a kernel of 6.8 or newer pass them on";
        let cure = format!("where VLANs cross it: ethtool -K {name} rxvlan off");
        findings.push(Finding::new(Level::Note, text).cured(cure));
    }
    if findings.is_empty() && subject.interface.link.is_some() {
        return Finding::good("no offload is in the way");
    }
    findings
}

fn pause(subject: &Subject<'_>) -> Vec<Finding> {
    let Some([obeys, sends]) = subject.interface.pause else { return Vec::new() };
    if !obeys && !sends {
        return Finding::good("it neither obeys nor sends pause frames");
    }
    let what = match (obeys, sends) {
        (true, true) => "obeys and sends",
        (true, false) => "obeys",
        _ => "sends",
    };
    let text = format!(
        "it {what} pause frames: the neighbour can stop this line, or this machine the \
         neighbour's, whatever the policy says"
    );
    let cure = format!("ethtool -A {} autoneg off rx off tx off", subject.name());
    vec![Finding::new(Level::Warning, text).cured(cure)]
}

fn ring(subject: &Subject<'_>) -> Vec<Finding> {
    let Some([receive, transmit]) = subject.interface.rings else { return Vec::new() };
    if transmit > TRANSMIT_RING_MAX {
        let text = format!(
            "its transmit ring holds {transmit} frames: if the line is slower than the policy's \
             rate, so many frames wait there, in the order of their arrival"
        );
        let cure = format!("ethtool -G {} tx {TRANSMIT_RING_MAX}", subject.name());
        return vec![Finding::new(Level::Note, text).cured(cure)];
    }
    if receive < RECEIVE_RING_MIN {
        let text = format!("its receive ring holds {receive} frames: a short burst overflows it");
        let cure = format!("ethtool -G {} rx {RECEIVE_RING_MIN}", subject.name());
        return vec![Finding::new(Level::Warning, text).cured(cure)];
    }
    Finding::good(format!("its rings hold {receive} frames to receive and {transmit} to send"))
}

fn qdisc(subject: &Subject<'_>) -> Vec<Finding> {
    let Some(qdisc) = &subject.interface.qdisc else { return Vec::new() };
    // The kernel's own choice only passes frames on.
    let default = subject.facts.files.text("proc/sys/net/core/default_qdisc");
    let is_plain = default.as_ref() == Some(qdisc) || PLAIN_QDISCS.contains(&qdisc.as_str());
    match (subject.port.is_host, is_plain) {
        (true, false) => Finding::note(format!(
            "its queueing discipline `{qdisc}` queues each frame again after Weir: where both \
             shape, frames are delayed twice"
        )),
        (false, false) => Finding::note(format!(
            "Weir's frames bypass its queueing discipline `{qdisc}`; only the host's pass it"
        )),
        (_, true) => Finding::good(format!("its queueing discipline is `{qdisc}`")),
    }
}

fn program(subject: &Subject<'_>) -> Vec<Finding> {
    if subject.interface.link.is_none_or(|link| !link.has_xdp) {
        return Vec::new();
    }
    let level = if subject.port.is_host || subject.must_be_xdp() {
        subject.wanted.missing(true, Level::Warning)
    } else {
        Level::Warning
    };
    let cure = format!("if nothing needs it: ip link set {} xdp off", subject.name());
    let text = "an XDP program is attached: it sees frames before Weir, and may take them";
    vec![Finding::new(level, text).cured(cure)]
}

/// Where interrupts and their further work run: all on one CPU, and not on that of the bridge.
fn interrupts(subject: &Subject<'_>) -> Vec<Finding> {
    let Some(folder) = &subject.interface.folder else { return Vec::new() };
    let files = &subject.facts.files;
    let numbers = files.names(&format!("{folder}/device/msi_irqs"));
    let on = |number: &String| files.text(&format!("proc/irq/{number}/effective_affinity_list"));
    let mut on: Vec<_> = numbers.iter().filter_map(on).collect();
    on.sort();
    on.dedup();
    let mask = files.text(&format!("{folder}/queues/rx-0/rps_cpus")).unwrap_or_default();
    let is_spread = mask.chars().any(|digit| !"0,".contains(digit));
    let mut findings = Vec::new();
    if is_spread {
        let text = "the kernel spreads received frames over CPUs (RPS): each waits in one more \
                    queue before Weir gets it";
        let cure = format!("echo 0 > /{folder}/queues/rx-0/rps_cpus");
        findings.push(Finding::new(Level::Note, text).cured(cure));
    }
    let own = |cpu: &u32| on.iter().any(|list| has_cpu(list, *cpu));
    if let Some(cpu) = subject.wanted.cpus.iter().find(|cpu| own(cpu)) {
        let text =
            format!("its interrupts run on CPU {cpu}, which a bridge has: each delays the bridge");
        let cure = format!(
            "echo OTHER > /proc/irq/N/smp_affinity_list, for each N in /{folder}/device/msi_irqs"
        );
        findings.push(Finding::new(Level::Warning, text).cured(cure));
    } else if !on.is_empty() {
        findings.extend(Finding::good(format!("its interrupts run on CPU {}", on.join(", "))));
    }
    findings
}

/// Returns whether a list such as `0-3,8` has this CPU.
fn has_cpu(list: &str, cpu: u32) -> bool {
    list.split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.trim().parse::<u32>().ok();
        number(first).zip(number(last)).is_some_and(|(first, last)| (first..=last).contains(&cpu))
    })
}

/// The most that AF_XDP takes.
const XDP_MTU_MAX: u32 = 16_000;
/// A millisecond of full-size frames at 10 Gbit/s.
const TRANSMIT_RING_MAX: u32 = 1024;
const RECEIVE_RING_MIN: u32 = 256;
/// Disciplines that only pass frames on.
const PLAIN_QDISCS: [&str; 3] = ["noqueue", "mq", "pfifo_fast"];
