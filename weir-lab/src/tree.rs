//! A three-level tree of 2, 14, 9 and 5 of 30 Mbit/s, its cases, and what each class should get.
//!
//! ```text
//! root 30 -- a 2
//!         \- right 28 -- b 14
//!                     |- c 9
//!                     \- d 5         (parts of 30 of the link)
//! ```

use crate::rows::Row;
use std::collections::BTreeMap;
use std::time::Duration as Wait;
use weir_bench::rig::{FIRST_PORT, Flow, Htb, Measured, Setup};
use weir_core::classify::InterfaceId;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::Packet;
use weir_core::packet::{Addresses, Headers, Ports, Protocol};
use weir_core::units::{Duration, Instant, Rate};
use weir_policy::fluid::{Demand, shares};
use weir_policy::policy::{self, Policy};

/// A choice of busy leaves.
#[derive(Debug)]
pub struct Case {
    /// The busy leaves, in words.
    pub name: &'static str,
    /// The busy leaves: 0 is `a`, 3 is `d`.
    pub busy: &'static [usize],
}

/// Which leaves are backlogged in each case.
pub const CASES: &[Case] = &[
    Case { name: "all backlogged", busy: &[0, 1, 2, 3] },
    Case { name: "b idle", busy: &[0, 2, 3] },
    Case { name: "c and d idle", busy: &[0, 1] },
    Case { name: "a idle", busy: &[1, 2, 3] },
    Case { name: "only d", busy: &[3] },
];
/// The schedulers with such a tree.
pub const SCHEDULERS: [&str; 2] = ["cbq", "htb"];
/// The rates of the link.
pub const MBITS: [u64; 2] = [30, 100];
/// Lengths of packets without the Ethernet header.
pub const IP_LENGTHS: [u32; 2] = [512, 1500];
/// The number of leaves.
pub const LEAVES: usize = 4;

/// One link with this tree and its flows.
pub struct Sharing {
    /// The policy with the tree.
    pub policy: Policy,
    /// A flow for each busy leaf.
    pub flows: Vec<Flow>,
    /// Length of every frame in bytes.
    pub frame: u32,
    scheduler: &'static str,
    busy: &'static [usize],
}

impl Sharing {
    /// Builds the tree for a link of `bits` bit/s with packets of `ip` bytes.
    ///
    /// # Errors
    /// When the policy is refused.
    pub fn new(scheduler: &'static str, bits: u64, ip: u32, case: &Case) -> Result<Self, String> {
        let text = policy_text(scheduler, bits);
        let outcome = policy::parse(&text, "tree.toml");
        let findings = format!("{:?}", outcome.findings);
        let policy = outcome.plan.ok_or(findings)?;
        // As `htb.py sharing`: 1.2 times the link, or 0.8 of that each if several send.
        let percent = if case.busy.len() > 1 { 96 } else { 120 };
        let rate = Rate::new(bits * percent / 100).ok_or("the rate is zero")?;
        let flow = |&leaf: &usize| Flow { port: FIRST_PORT + leaf as u16, rate };
        let flows = case.busy.iter().map(flow).collect();
        Ok(Self { policy, flows, frame: ip + HEADER, scheduler, busy: case.busy })
    }

    /// Returns the set-up of a measurement with real packets.
    pub fn setup(&self, duration: Wait) -> Setup<'_> {
        Setup {
            policy: &self.policy,
            flows: &self.flows,
            frame_length: self.frame as usize,
            warmup: WARMUP,
            duration,
        }
    }

    /// Returns the measured rate of each flow in bit/s, by port.
    pub fn rates(&self, measured: &Measured) -> BTreeMap<u16, f64> {
        let rate = |flow: &Flow| (flow.port, measured.rate(flow.port, self.frame));
        self.flows.iter().map(rate).collect()
    }

    /// Returns the name of the leaf to which a flow goes.
    pub fn leaf_of(&self, port: u16) -> &str {
        self.policy.leaf_name(LeafId(u32::from(port - FIRST_PORT)))
    }

    /// Returns the rate that each busy flow should get in bit/s, by port: the fluid ideal, or for a
    /// scheduler with another rule the result of that rule in virtual time.
    ///
    /// # Errors
    /// When the policy does not build.
    pub fn expected(&self) -> Result<BTreeMap<u16, f64>, String> {
        if self.scheduler == SCHEDULERS[0] { Ok(self.ideal()) } else { self.simulate() }
    }

    /// Returns the fluid ideal in which siblings share an excess first.
    pub fn ideal(&self) -> BTreeMap<u16, f64> {
        let busy =
            |leaf| if self.busy.contains(&leaf) { Demand::Greedy } else { Demand::Rate(0.0) };
        let demand: Vec<Demand> = (0..LEAVES).map(busy).collect();
        let shares = shares(&self.policy.link.tree, &demand);
        let tree = &self.policy.link.tree;
        let share = |&leaf: &usize| {
            let class = tree.class_of(LeafId(leaf as u32));
            (FIRST_PORT + leaf as u16, shares[class.index()])
        };
        self.busy.iter().map(share).collect()
    }

    /// Returns the rate of each flow in bit/s in virtual time, by port.
    ///
    /// # Errors
    /// When the policy does not build.
    pub fn simulate(&self) -> Result<BTreeMap<u16, f64>, String> {
        let mut link = self.policy.link.build().map_err(|error| error.to_string())?;
        let mut departures = Vec::new();
        let mut classifier = self.policy.classifier();
        let interval =
            |flow: &Flow| f64::from(self.frame) * 8e9 / flow.rate.bits_per_second() as f64;
        let mut due: Vec<f64> = vec![0.0; self.flows.len()];
        let packets = PACKETS / self.flows.len() as f64;
        let end = interval(&self.flows[0]) * packets;
        let warmup = end / 5.0;
        let mut sent: BTreeMap<LeafId, u64> = BTreeMap::new();
        loop {
            let first = (0..due.len()).min_by(|&a, &b| due[a].total_cmp(&due[b]));
            let index = first.ok_or("no flow sends")?;
            if due[index] > end {
                break;
            }
            let now = Instant::ZERO.after(Duration::from_nanos(due[index] as u64));
            link.advance(now, &mut departures);
            for departure in departures.drain(..) {
                if departure.at.as_nanos() as f64 > warmup {
                    *sent.entry(departure.leaf).or_default() += departure.charged.get();
                }
            }
            let headers = headers(self.flows[index].port);
            let leaf = classifier.classify(now, InterfaceId(0), &headers).leaf;
            link.offer(now, leaf, Packet::new(Handle(0), self.frame));
            link.take_dropped(&mut |_| {});
            due[index] += interval(&self.flows[index]);
        }
        let rate = |(leaf, bytes): (LeafId, u64)| {
            (FIRST_PORT + leaf.0 as u16, bytes as f64 * 8e9 / (end - warmup))
        };
        Ok(sent.into_iter().map(rate).collect())
    }

    /// Returns the row of the class that deviates most.
    pub fn worst(
        &self,
        subject: &str,
        expected: &BTreeMap<u16, f64>,
        measured: &BTreeMap<u16, f64>,
        limit: f64,
    ) -> Row {
        let measured = |port: u16| measured.get(&port).copied().unwrap_or(0.0);
        let off = |port: u16| (measured(port) / expected[&port] - 1.0).abs();
        let worst = expected.keys().copied().max_by(|&a, &b| off(a).total_cmp(&off(b)));
        let worst = worst.unwrap_or(FIRST_PORT);
        let subject = format!("{subject}: {}", self.leaf_of(worst));
        Row::rate(subject, measured(worst), expected[&worst], limit)
    }
}

/// Returns the tree and filters for the kernel's scheduler, a line for each call of `tc`. Bursts
/// are the default of `tc`, quanta in proportion to the rates as in the policy.
pub fn tc_lines(mbit: u64) -> Vec<String> {
    let bits = mbit * 1_000_000;
    let terms = |parts: u64| {
        format!("rate {}bit ceil {bits}bit quantum {}", bits * parts / 30, parts * 1514)
    };
    let htb = Htb::new(2).class(0, 1, &terms(30)).class(1, 2, &terms(2)).class(1, 3, &terms(28));
    let right = [(4, 14), (5, 9), (6, 5)];
    let htb = right.into_iter().fold(htb, |htb, (id, parts)| htb.class(3, id, &terms(parts)));
    let flows = (FIRST_PORT..).zip([2, 4, 5, 6]);
    flows.fold(htb, |htb, (port, id)| htb.flow(port, id)).lines()
}

fn headers(port: u16) -> Headers {
    let addresses =
        Addresses::V4 { source: [10, 77, 0, 1].into(), destination: [10, 77, 0, 2].into() };
    Headers::of_flow(addresses, Protocol::UDP, Ports { source: 4096, destination: port })
}

fn policy_text(scheduler: &str, bits: u64) -> String {
    let part = |parts: u64| format!("rate = \"{} bit/s\"", bits * parts / 30);
    let ceil = if scheduler == SCHEDULERS[1] {
        format!("ceil = \"{bits} bit/s\"\n")
    } else {
        String::new()
    };
    // In proportion to the rates, as in the peer's set-up.
    let quantum = |parts: u64| {
        if ceil.is_empty() { String::new() } else { format!("quantum = \"{} B\"\n", parts * 1514) }
    };
    let mut text = format!("[link]\nrate = \"{bits} bit/s\"\nscheduler = \"{scheduler}\"\n\n");
    text += &format!("[class.root]\n{}\n{ceil}\n", part(30));
    text += &format!("[class.right]\nparent = \"root\"\n{}\n{ceil}\n", part(28));
    let leaves = [("a", "root", 2), ("b", "right", 14), ("c", "right", 9), ("d", "right", 5)];
    for (index, (name, parent, parts)) in leaves.into_iter().enumerate() {
        text += &format!(
            "[class.{name}]\nparent = \"{parent}\"\n{}\n{ceil}{}{}\
             queue = {{ limit = \"1000 packets\" }}\n\
             match = [{{ proto = \"udp\", dport = \"{}\" }}]\n\n",
            part(parts),
            quantum(parts),
            if index == 0 { "default = true\n" } else { "" },
            FIRST_PORT + index as u16
        );
    }
    text
}

/// The length of the Ethernet header, which the policy counts.
const HEADER: u32 = 14;
/// The time in which queues fill before rates are measured.
const WARMUP: Wait = Wait::from_secs(1);
/// Packets offered in a simulation: the class of 2/30 then sends some 15 000.
const PACKETS: f64 = 400_000.0;
