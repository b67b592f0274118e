//! The reservations of `[risso99]` §7.2 on two routers, with UDP and TCP of the kernel, beside the
//! simulated sheet of the same.
//!
//! `f1` and `f2` send 1.5 Mbit/s each to the receiver, and `f3` 3 Mbit/s without a reservation,
//! over links of 2 Mbit/s. A row says what `f1` is like, and when it has a reservation. Figures:
//! `ROW.FLOW.goodput` (kbit/s of payload that arrived) and `ROW.f1.rate`: kbit/s of IP packets that
//! arrived, for TCP of those that its class on the last router sent. `rates` is the series of what
//! the reserved flows get together, each as a percentage of the simulated: 0.1 Mbit/s that no class
//! has goes to the one or the other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use serde::Deserialize;
use weir_host::netns::NetNs;
use weir_link::status::Status;
use weir_rsvp::intserv::Flowspec;
use weir_rsvp::node::Event;
use weir_rsvp::{Session, Tspec};
use weir_traffic::{ReceivePlan, ReceiveReport, Receiver, SendPlan, Sender, source};

use super::scene::{Heard, Plan, Scene};
use super::text;
use crate::claims::{Era, Kind, Measured, PaperSet, Plot, Run};

/// A link, and what is measured on it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    /// The file of the routers' policy.
    policy: String,
    /// Whole lines of `[deployment.rsvp]`.
    rsvp: String,
    rows: Vec<Row>,
}

/// A row of the paper's table, as the sheet writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// Figures begin with it.
    name: String,
    /// Bytes of each IP packet of `f1`.
    #[serde(default = "largest")]
    packet: u32,
    /// Bytes of its shortest packet, as its Tspec has them.
    #[serde(default = "shortest")]
    told: u32,
    /// The flow is one of TCP.
    #[serde(default)]
    tcp: bool,
    #[serde(default)]
    when: When,
    /// The sender of `f2` runs, too.
    #[serde(default = "yes")]
    other: bool,
    /// Of 1000 messages of RSVP, those that each host loses.
    #[serde(default)]
    loss: u32,
}

/// When `f1` has a reservation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum When {
    /// Before it sends, to the end.
    #[default]
    Always,
    /// Once it has sent for a while.
    Late,
    /// Until it has sent for a while.
    Gone,
    Never,
}

/// Measures the rows; [`weir_bench::rig::prepare`] must be called before.
pub(super) fn measure(run: &Run<'_>) -> Result<Measured, String> {
    let seconds: u64 = run.setting("seconds")?;
    let links: Vec<Link> = run.setting("scene")?;
    let beside = simulated(run)?;
    let mut measured = Measured::default();
    let (mut rates, mut table) = (Vec::new(), Vec::new());
    for link in &links {
        let plan = Plan {
            routers: ROUTERS,
            policy: run.text(&link.policy)?,
            rsvp: &link.rsvp,
            period: weir_core::units::Duration::from_millis(PERIOD_MS),
            reduction: false,
        };
        let mut stage = Stage::new(Scene::start(&plan)?);
        for row in &link.rows {
            let seen = stage.play(row, Duration::from_secs(seconds))?;
            let live = seen.figures(row, &mut measured);
            let simulated = beside.value(&format!("{}.f1.rate", row.name));
            let other = beside.value(&format!("{}.f2.rate", row.name)).filter(|_| row.other);
            let sums = live.zip(simulated).map(|(live, simulated)| {
                (live + seen.rate_of_other(), simulated + other.unwrap_or_default())
            });
            rates.extend(sums.map(|(live, simulated)| 100.0 * live / simulated));
            table.push(cells(row, &seen, (live, simulated)));
        }
    }
    let points = rates.iter().enumerate().map(|(place, rate)| (place as f64, *rate)).collect();
    let plot = Plot::new(Kind::Bars, "Rates as a part of the simulated", "row", "%");
    measured.plot(plot.with("live", points));
    measured.series("rates", rates);
    measured.table("Live beside simulated", &COLUMNS, table);
    Ok(measured)
}

/// The sound run of the sheet that simulates the same.
fn simulated(run: &Run<'_>) -> Result<Measured, String> {
    let id: String = run.setting("beside")?;
    let set = PaperSet::open()?;
    let sheet = set.sheets.iter().find(|sheet| sheet.id == id);
    let sheet = sheet.ok_or_else(|| format!("there is no sheet `{id}`"))?;
    crate::experiments::measure(&Run { sheet, era: Era::Sound, seed: run.seed, fifo: false })
}

/// The scene, and what its hosts did so far.
struct Stage {
    scene: Scene,
    announced: BTreeMap<Session, Flowspec>,
    /// The flows that the receiver has heard of since they were announced.
    heard: BTreeSet<Session>,
    /// The reservations to make, again whenever they are lost.
    wanted: Vec<(Session, Flowspec)>,
}

/// The figures of a row.
#[derive(Default)]
struct Seen {
    /// Of `f1`, `f2` and `f3`, payload that arrived in kbit/s.
    goodput: [f64; 3],
    /// Of `f1`, in kbit/s, if it had a reservation.
    rate: Option<f64>,
    /// The rate of `f1` before its reservation, in kbit/s.
    before: Option<f64>,
}

/// Counts at an instant.
struct Look {
    at: Instant,
    received: ReceiveReport,
    status: Status,
}

impl Stage {
    fn new(scene: Scene) -> Self {
        let (announced, heard) = (BTreeMap::new(), BTreeSet::new());
        Self { scene, announced, heard, wanted: Vec::new() }
    }

    /// Lets the traffic of a row run and measures it.
    fn play(&mut self, row: &Row, spell: Duration) -> Result<Seen, String> {
        let to = self.scene.receiver_address();
        let (own, other) = (row.session(to), Session::udp(to, PORTS[1]));
        let own_spec = (own, Flowspec::ControlledLoad(tspec(row.told)));
        let other_spec = (other, Flowspec::ControlledLoad(tspec(largest())));
        self.announce(own_spec)?;
        self.announce(other_spec)?;
        let [from, .., last] = self.scene.networks.as_slice() else {
            return Err("there are no networks".to_owned());
        };
        let receiver = receiver(last)?;
        let sender = sender(from, row, to)?;
        let others = [other_spec].into_iter().filter(|_| row.other);
        let reserved = [own_spec].into_iter().filter(|_| row.when != When::Never);
        let mut seen = Seen::default();
        if row.when == When::Late {
            self.reserve(others.clone().collect())?;
            seen.before = Some(self.window(&receiver, row, spell / 2)?.goodput[0]);
        }
        self.reserve(reserved.chain(others.clone()).collect())?;
        if row.when == When::Gone {
            self.drive(SETTLE)?;
            self.scene.receiver.release(own);
            self.reserve(others.collect())?;
        }
        self.lose(row.loss);
        self.drive(SETTLE)?;
        let seen = Seen { before: seen.before, ..self.window(&receiver, row, spell)? };
        self.lose(0);
        sender.stop();
        while !sender.is_done() {
            self.drive(SHORT)?;
        }
        drop(sender.finish());
        drop(receiver.finish());
        for (session, _) in std::mem::take(&mut self.wanted) {
            self.scene.receiver.release(session);
        }
        self.reserve(Vec::new())?;
        Ok(seen)
    }

    /// Announces a flow that is new or other than before, and waits until the receiver hears of it.
    fn announce(&mut self, (session, flowspec): (Session, Flowspec)) -> Result<(), String> {
        if self.announced.insert(session, flowspec) == Some(flowspec) {
            return Ok(());
        }
        self.heard.remove(&session);
        self.scene.sender.announce(session, *flowspec.tspec())?;
        let start = Instant::now();
        while !self.heard.contains(&session) {
            self.drive(SHORT)?;
            if start.elapsed() > PATIENCE {
                return Err(format!("the receiver did not hear of {session}"));
            }
        }
        Ok(())
    }

    /// Reserves for these flows, and waits until both routers have a class for each.
    fn reserve(&mut self, wanted: Vec<(Session, Flowspec)>) -> Result<(), String> {
        for (session, flowspec) in &wanted {
            self.scene.receiver.reserve(*session, *flowspec)?;
        }
        self.wanted = wanted;
        let Self { scene, heard, wanted, .. } = self;
        let count = wanted.len() as u64;
        let take = |scene: &mut Scene, all: Heard| take(scene, heard, wanted, all.receiver);
        scene.until_admitted((count, PATIENCE), take).map(drop)
    }

    fn lose(&mut self, per_mille: u32) {
        self.scene.sender.lose(per_mille);
        self.scene.receiver.lose(per_mille);
    }

    /// Drives the hosts for a time.
    fn drive(&mut self, time: Duration) -> Result<(), String> {
        let Self { scene, heard, wanted, .. } = self;
        let start = Instant::now();
        while start.elapsed() < time {
            let events = scene.turn().receiver;
            take(scene, heard, wanted, events)?;
        }
        Ok(())
    }

    /// Measures for a time.
    fn window(&mut self, receiver: &Receiver, row: &Row, spell: Duration) -> Result<Seen, String> {
        let before = self.look(receiver)?;
        self.drive(spell)?;
        let after = self.look(receiver)?;
        let seconds = after.at.duration_since(before.at).as_secs_f64();
        let goodput = [0, 1, 2].map(|flow| {
            let bytes = |look: &Look| payload(&look.received, row, flow).1;
            bytes(&after).saturating_sub(bytes(&before)) as f64 * 8.0 / 1e3 / seconds
        });
        let packets = |look: &Look| payload(&look.received, row, 0).0;
        let headers = packets(&after).saturating_sub(packets(&before)) * u64::from(HEADERS);
        let class = row.class_name(self.scene.receiver_address());
        let sent = [&before, &after].map(|look| sent(&look.status, &class));
        let rate = match sent {
            [Some(before), Some(after)] if row.tcp => {
                let ns = after.1.saturating_sub(before.1).max(1);
                Some(after.0.saturating_sub(before.0) as f64 * 8e6 / ns as f64)
            }
            [Some(_), Some(_)] => Some(goodput[0] + headers as f64 * 8.0 / 1e3 / seconds),
            _ => None,
        };
        Ok(Seen { goodput, rate, before: None })
    }

    fn look(&self, receiver: &Receiver) -> Result<Look, String> {
        let status = self.scene.status(ROUTERS)?;
        Ok(Look { at: Instant::now(), received: receiver.report(), status })
    }
}

/// Notes what the receiver hears of. What it lost with the path state it reserves again.
fn take(
    scene: &mut Scene,
    heard: &mut BTreeSet<Session>,
    wanted: &[(Session, Flowspec)],
    events: Vec<Event>,
) -> Result<(), String> {
    for event in events {
        match event {
            Event::Path { session, .. } => {
                heard.insert(session);
                if let Some((session, flowspec)) = wanted.iter().find(|(of, _)| *of == session) {
                    scene.receiver.reserve(*session, *flowspec)?;
                }
            }
            Event::ResvError { session, error, .. } => {
                return Err(format!("{session} was refused: {error:?}"));
            }
            _ => {}
        }
    }
    Ok(())
}

impl Row {
    fn session(&self, to: IpAddr) -> Session {
        let session = Session::udp(to, PORTS[0]);
        if self.tcp { Session { protocol: 6, ..session } } else { session }
    }

    /// The name of the class that its reservation becomes.
    fn class_name(&self, to: IpAddr) -> String {
        let address = to.to_string().replace('.', "_");
        let Session { protocol, port, .. } = self.session(to);
        format!("rsvp-{address}-{protocol}-{port}")
    }
}

impl Seen {
    /// IP packets of `f2` that arrived, in kbit/s.
    fn rate_of_other(&self) -> f64 {
        self.goodput[1] * f64::from(largest()) / f64::from(largest() - HEADERS)
    }

    /// Adds the figures of a row; returns the rate of `f1` if it had a reservation.
    fn figures(&self, row: &Row, measured: &mut Measured) -> Option<f64> {
        let name = &row.name;
        for (flow, goodput) in ["f1", "f2", "f3"].into_iter().zip(self.goodput) {
            measured.figure(format!("{name}.{flow}.goodput"), goodput, "kbit/s");
        }
        if let Some(before) = self.before {
            measured.figure(format!("{name}.before.f1.goodput"), before, "kbit/s");
        }
        if let Some(rate) = self.rate {
            measured.figure(format!("{name}.f1.rate"), rate, "kbit/s");
        }
        self.rate
    }
}

fn cells(row: &Row, seen: &Seen, (live, simulated): (Option<f64>, Option<f64>)) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    let rates = [live, simulated].map(number);
    let goodput = seen.goodput.map(|value| number(Some(value)));
    std::iter::once(row.name.clone()).chain(rates).chain(goodput).collect()
}

/// Packets and payload of a flow that arrived.
fn payload(received: &ReceiveReport, row: &Row, flow: usize) -> (u64, u64) {
    let transport = if flow == 0 && row.tcp { "tcp" } else { "udp" };
    // Streams are numbered from 1 on, in the order of their sources.
    let number = row.sources().iter().position(|of| *of == flow).map(|place| place as u32 + 1);
    let own = received
        .streams
        .iter()
        .filter(|one| one.transport == transport && number.is_some() && one.stream == number);
    own.fold((0, 0), |sum, one| (sum.0 + one.packets, sum.1 + one.bytes))
}

/// Bytes that a class sent, and when that was.
fn sent(status: &Status, class: &str) -> Option<(u64, u64)> {
    let mut classes = status.lanes.iter().flat_map(|lane| &lane.classes);
    let found = classes.find(|one| one.name == class)?;
    Some((found.sent.bytes, status.uptime_ns))
}

impl Row {
    /// The flows that send, in the order of their streams.
    fn sources(&self) -> Vec<usize> {
        if self.other { vec![0, 1, 2] } else { vec![0, 2] }
    }
}

fn receiver(network: &NetNs) -> Result<Receiver, String> {
    let plan = ReceivePlan { tcp: vec![PORTS[0]], buffer: 8 << 20, ..ReceivePlan::ports(&PORTS) };
    network.run(|| Receiver::start(&plan)).map_err(text)?.map_err(text)
}

fn sender(network: &NetNs, row: &Row, to: IpAddr) -> Result<Sender, String> {
    let sources = row.sources().into_iter().map(|flow| {
        let dport = PORTS[flow].to_string();
        let name = format!("f{}", flow + 1);
        let (packet, rate) = match flow {
            0 => (row.packet, RATE),
            1 => (largest(), RATE),
            _ => (largest(), FLOOD),
        };
        let payload = format!("{} B", packet - HEADERS);
        let interval = format!("{} ns", u64::from(packet) * 8_000_000_000 / rate);
        let (kind, keys): (_, &[(&str, &str)]) = match flow {
            0 if row.tcp => ("tcp", &[]),
            _ => ("cbr", &[("payload", &payload), ("interval", &interval)]),
        };
        let keys: Vec<_> = keys.iter().copied().chain([("dport", dport.as_str())]).collect();
        source(&name, kind, to, &keys)
    });
    let sources = sources.collect::<Result<Vec<_>, String>>()?;
    let plan = SendPlan { duration: LONG, ..SendPlan::new(sources) };
    network.run(|| Sender::start(&plan)).map_err(text)?.map_err(text)
}

/// 490 kbit/s in packets of up to 1500 bytes.
fn tspec(packet_min: u32) -> Tspec {
    let packet_max = largest();
    Tspec { rate: 61_250.0, bucket: 3000.0, peak: f32::INFINITY, packet_min, packet_max }
}

const fn largest() -> u32 {
    1500
}

const fn shortest() -> u32 {
    64
}

const fn yes() -> bool {
    true
}

const ROUTERS: usize = 2;
/// Where `f1`, `f2` and `f3` go.
const PORTS: [u16; 3] = [10_001, 10_002, 10_003];
/// Bytes of the headers of IP and UDP.
const HEADERS: u32 = 28;
/// The rates of `f1` and `f2`, and of the flood, in bit/s of IP packets.
const RATE: u64 = 1_500_000;
const FLOOD: u64 = 3_000_000;
/// The refresh period R, in ms.
const PERIOD_MS: u64 = 500;
/// Queues fill, and a lost reservation shows: more than the 5.25 periods that state lives pass
/// until the end of a measurement.
const SETTLE: Duration = Duration::from_millis(1500);
const SHORT: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(20);
/// Longer than a row; senders are stopped.
const LONG: Duration = Duration::from_secs(600);
const COLUMNS: [&str; 6] =
    ["row", "f1 kbit/s", "simulated", "f1 goodput", "f2 goodput", "f3 goodput"];
