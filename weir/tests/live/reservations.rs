//! `weir up` with `[deployment.rsvp]` on two routers between two hosts, in private networks: a
//! reservation that the receiver asks for is a class on both routers, real packets get its rate,
//! and it goes with its state. The hosts are nodes of `weir-rsvp` on real sockets. Needs root, as
//! host ports do; otherwise the tests are skipped and counted, or fail if WEIR_REQUIRE_LIVE=1.

use crate::processes;
use crate::support::reserving;
use weir_testbed::rows::{self, Need};

use libtest_mimic::Failed;
use processes::{children, signal};
use reserving::{Row, Setting, address, connect, drive, route_to_all};
use serde_json::Value;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use weir_live::netns::NetNs;
use weir_rsvp::node::Event;
use weir_rsvp::wire::{Filter, Priority, Session};

type Outcome = Result<(), Failed>;
type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("a_reservation_is_a_class_on_each_router_until_it_is_released", a_reservation_is_a_class),
    ("without_refreshes_classes_go", without_refreshes_classes_go),
    ("classes_outlive_the_process_of_reservations", classes_outlive_the_process),
    ("what_does_not_fit_is_refused_and_told", what_does_not_fit_is_refused),
    ("the_higher_priority_takes_the_place_of_the_lower", the_higher_priority_takes_the_place),
    ("a_reservation_outlives_a_reload_and_a_restart", a_reservation_outlives_a_reload),
];

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = rows::Row> {
    rows::table("reservations", TESTS, &[Need::Root])
}

/// Sender, two routers, receiver. The hosts are driven by the thread of the test.
struct Scene {
    folder: PathBuf,
    row: Row,
    routers: Vec<Child>,
    /// More lines of `[deployment.rsvp]`.
    more: &'static str,
}

const NODES: usize = 4;
const CLASS: &str = "rsvp-10_3_0_4-17-5004-10_1_0_1-4000";

/// 10 Mbit/s, of which reservations have almost `reserved` Mbit/s.
fn policy(reserved: u32) -> String {
    format!(
        "[link]\nrate = \"10 Mbit/s\"\nscheduler = \"hfsc\"\noverhead = \"ethernet\"\n\
         [class.reserved]\nrate = \"{reserved} Mbit/s\"\n\
         places = {{ count = 100, rate = \"1 kbit/s\" }}\n\
         [class.signals]\nparent = \"reserved\"\nrate = \"100 kbit/s\"\n\
         match = {{ proto = \"46\" }}\n\
         [class.rest]\nrate = \"1 Mbit/s\"\ndefault = true\n"
    )
}

impl Scene {
    fn new(name: &str, reserved: u32) -> Result<Self, Failed> {
        Self::with(name, reserved, "")
    }

    fn with(name: &str, reserved: u32, more: &'static str) -> Result<Self, Failed> {
        let folder = std::env::temp_dir().join(format!("weir-rsvp-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let networks: Vec<NetNs> = (0..NODES).map(|_| NetNs::new()).collect::<Result<_, _>>()?;
        for cable in 0..NODES - 1 {
            connect(&networks, cable)?;
        }
        for (node, network) in networks.iter().enumerate() {
            network.run(|| route_to_all(node, NODES))??;
        }
        let setting = Setting { nodes: NODES, ..Setting::default() };
        let mut stations = Vec::new();
        for node in [0, NODES - 1] {
            let driver = networks[node].run(|| drive(node, setting))??;
            stations.push(reserving::Station { driver, events: Vec::new() });
        }
        let row = Row { networks, stations };
        let mut scene = Self { folder, row, routers: Vec::new(), more };
        fs::write(scene.folder.join("out.toml"), policy(reserved))?;
        for node in 1..NODES - 1 {
            scene.start(node)?;
        }
        Ok(scene)
    }

    fn start(&mut self, node: usize) -> Outcome {
        let deployment = format!(
            "[deployment]\nports = {{ host = \"right\" }}\ncontrol = \"{}\"\n\
             [deployment.rsvp]\nclass = \"reserved\"\nrefresh = \"500 ms\"\n{}\
             [direction.out]\nfrom = \"host\"\nto = \"wire\"\npolicy = \"out.toml\"\n",
            self.folder.join(format!("r{node}.sock")).display(),
            self.more
        );
        let file = format!("r{node}.toml");
        fs::write(self.folder.join(&file), deployment)?;
        let mut command = self.weir(&["up", &file]);
        let log = fs::File::create(self.folder.join(format!("r{node}.log")))?;
        command.stdout(log.try_clone()?).stderr(log);
        self.routers.push(self.row.networks[node].run(move || command.spawn())??);
        let start = Instant::now();
        while self.reservations(node).is_err() {
            if start.elapsed() > reserving::PATIENCE {
                return Err(
                    format!("router {node} takes no reservations: {}", self.log(node)).into()
                );
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn log(&self, node: usize) -> String {
        fs::read_to_string(self.folder.join(format!("r{node}.log"))).unwrap_or_default()
    }

    fn weir(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(arguments).current_dir(&self.folder);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// What the router tells of its reservations.
    fn reservations(&self, node: usize) -> Result<Value, Failed> {
        let socket = format!("r{node}.sock");
        let output = self.weir(&["api", "link", "/reservations", "--control", &socket]).output()?;
        let answer: Value = serde_json::from_slice(&output.stdout)?;
        let inner = answer.get("reservations").cloned();
        inner.ok_or_else(|| format!("{answer}").into())
    }

    /// Drives the hosts until an event of this kind is among those that clients of the router read;
    /// returns its sentence.
    fn await_event(&mut self, node: usize, kind: &str) -> Result<String, Failed> {
        let socket = format!("r{node}.sock");
        let start = Instant::now();
        loop {
            let output = self.weir(&["api", "link", "/events", "--control", &socket]).output()?;
            let answer: Value = serde_json::from_slice(&output.stdout)?;
            let events = answer["events"]["events"].as_array().cloned().unwrap_or_default();
            let found = events.iter().find(|event| event["event"] == kind);
            if let Some(text) = found.and_then(|event| event["text"].as_str()) {
                return Ok(text.to_owned());
            }
            if start.elapsed() > reserving::PATIENCE {
                return Err(format!("no {kind} in {answer}\n{}", self.log(node)).into());
            }
            self.row.run(Duration::from_millis(50));
        }
    }

    /// The names of the router's classes of reservations.
    fn classes(&self, node: usize) -> Result<Vec<String>, Failed> {
        let socket = format!("r{node}.sock");
        let output = self.weir(&["--format", "json", "status", "--control", &socket]).output()?;
        let status: Value = serde_json::from_slice(&output.stdout)?;
        let lanes = status["lanes"].as_array().cloned().unwrap_or_default();
        let classes =
            lanes.iter().flat_map(|lane| lane["classes"].as_array().cloned().unwrap_or_default());
        let names = classes.filter_map(|class| class["name"].as_str().map(str::to_owned));
        Ok(names.filter(|name| name.starts_with("rsvp-")).collect())
    }

    /// Drives the hosts until both routers have these classes.
    fn await_classes(&mut self, what: &str, wanted: &[&str]) -> Outcome {
        let start = Instant::now();
        loop {
            self.row.run(Duration::from_millis(50));
            let found: Vec<_> = (1..NODES - 1).map(|node| self.classes(node)).collect();
            if found.iter().all(|names| names.as_ref().is_ok_and(|names| names == wanted)) {
                return Ok(());
            }
            if start.elapsed() > reserving::PATIENCE {
                let told: Vec<_> = (1..NODES - 1).map(|node| self.reservations(node)).collect();
                let logs: String = (1..NODES - 1).map(|node| self.log(node)).collect();
                return Err(format!("{what}: {found:?} {told:?}\n{logs}").into());
            }
        }
    }

    /// The sender announces a flow, and the receiver reserves for it.
    fn reserve(&mut self) -> Result<(Session, Filter), Failed> {
        self.reserve_for(0, None)
    }

    /// The same for flow `number`.
    fn reserve_for(
        &mut self,
        number: u16,
        priority: Option<Priority>,
    ) -> Result<(Session, Filter), Failed> {
        let session = Session::udp(address(true, NODES - 2, NODES - 1), 5004 + number);
        let sender = Filter::new(address(true, 0, 0), 4000 + number);
        self.row.announce_to(session, sender);
        self.row.until("the receiver hears of the sender", |stations| {
            let is_it =
                |event: &Event| matches!(event, Event::Path { session: of, .. } if *of == session);
            stations[1].has(is_it)
        })?;
        self.row.reserve_at(session, sender, priority);
        Ok((session, sender))
    }

    /// Runs `weir` with these words about a router; fails if that does.
    fn tell(&self, node: usize, words: &[&str]) -> Outcome {
        let socket = format!("r{node}.sock");
        let output = self.weir(&[words, &["--control", &socket]].concat()).output()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("{words:?}: {output:?}").into()),
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for child in self.routers.drain(..) {
            processes::end(child);
        }
        drop(fs::remove_dir_all(&self.folder));
    }
}

fn a_reservation_is_a_class() -> Outcome {
    let mut scene = Scene::new("class", 8)?;
    let (session, _) = scene.reserve()?;
    scene.row.until("it is confirmed", |stations| {
        stations[1].has(|event| matches!(event, Event::Confirmed { .. }))
            && stations[0].has(|event| matches!(event, Event::Reserved { .. }))
    })?;
    scene.await_classes("both routers have its class", &[CLASS])?;
    let shown = scene.reservations(1)?;
    let one = &shown["shown"][0];
    assert_eq!((&shown["sessions"], &shown["admitted"]), (&1.into(), &1.into()), "{shown}");
    assert_eq!(one["senders"][0]["from"], "10.1.0.1", "{shown}");
    assert_eq!(one["reservations"][0]["by"], "10.2.0.3", "{shown}");
    assert_eq!(one["reservations"][0]["class"], CLASS, "{shown}");
    assert_eq!(one["reservations"][0]["service"], "controlled-load", "{shown}");
    let expires = one["reservations"][0]["expires_ms"].as_u64().expect("it does");
    assert!((1..=2625).contains(&expires), "{shown}");
    for node in [1, 2] {
        let text = scene.await_event(node, "reservation-admitted")?;
        assert!(text.contains(CLASS) && text.contains("FF"), "{text}");
    }
    real_packets_get_the_rate(&mut scene)?;
    scene.row.stations[1].driver.call(|node, now, routes| node.release(now, session, routes))?;
    scene.await_classes("it is released", &[])?;
    let text = scene.await_event(1, "reservation-released")?;
    assert!(text.contains(CLASS) && text.contains("tore it down"), "{text}");
    Ok(())
}

const COUNT: usize = 200;
/// Runs tried until the machine lets no queue before the link overflow.
const ATTEMPTS: usize = 15;

/// While another flow fills the link, packets within the reservation all arrive.
fn real_packets_get_the_rate(scene: &mut Scene) -> Outcome {
    let mut arrived = Vec::new();
    while arrived.last() != Some(&COUNT) {
        assert!(arrived.len() < ATTEMPTS, "of {COUNT} within the reservation: {arrived:?}");
        arrived.push(count_beside_a_flood(scene)?);
    }
    Ok(())
}

fn count_beside_a_flood(scene: &mut Scene) -> Result<usize, Failed> {
    const PAYLOAD: usize = 972;
    let [from, to] = [0, NODES - 1].map(|node| &scene.row.networks[node]);
    let target: SocketAddr = (address(true, NODES - 2, NODES - 1), 5004).into();
    let receiver = to.run(|| UdpSocket::bind(target))??;
    receiver.set_read_timeout(Some(Duration::from_millis(50)))?;
    let sender = from.run(|| UdpSocket::bind((address(true, 0, 0), 4000)))??;
    let flood = from.run(|| UdpSocket::bind((address(true, 0, 0), 0)))??;
    let other = SocketAddr::new(target.ip(), 9);
    let done = std::sync::atomic::AtomicBool::new(false);
    let received = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                // 40 Mbit/s; a full socket is no failure of this test.
                (0..50).for_each(|_| drop(flood.send_to(&[0; 1000], other)));
                thread::sleep(Duration::from_millis(10));
            }
        });
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            // 100 kB/s of IP packets, as is reserved.
            for _ in 0..COUNT {
                drop(sender.send_to(&[1; PAYLOAD], target));
                thread::sleep(Duration::from_millis(10));
            }
        });
        let mut last = Instant::now();
        let (mut received, mut bytes) = (0, [0; PAYLOAD]);
        while received < COUNT && last.elapsed() < Duration::from_secs(2) {
            if receiver.recv(&mut bytes).is_ok() {
                received += 1;
                last = Instant::now();
            }
            // Without refreshes the reservation would go.
            scene.row.run(Duration::from_millis(1));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        received
    });
    Ok(received)
}

fn without_refreshes_classes_go() -> Outcome {
    let mut scene = Scene::new("refresh", 8)?;
    let begin = Instant::now();
    scene.reserve()?;
    scene.await_classes("both routers have its class", &[CLASS])?;
    // The hosts say nothing any more. A period of 500 ms lets state live for 2.625 s.
    let start = Instant::now();
    while scene.classes(2)? != Vec::<String>::new() || scene.classes(1)? != Vec::<String>::new() {
        assert!(start.elapsed() < reserving::PATIENCE, "the classes go");
        thread::sleep(Duration::from_millis(50));
    }
    // On a busy machine much of its life is over when both classes are seen.
    assert!(begin.elapsed() > Duration::from_secs(1), "soft state lives for some periods");
    // The first one to miss refreshes tells the other by a tear.
    let start = Instant::now();
    let first = loop {
        let expired = |node: &usize| scene.log(*node).contains("did not refresh it");
        if let Some(node) = [1, 2].into_iter().find(expired) {
            break node;
        }
        let logs = [1, 2].map(|node| scene.log(node));
        assert!(start.elapsed() < reserving::PATIENCE, "neither says that it expired: {logs:?}");
        thread::sleep(Duration::from_millis(50));
    };
    let text = scene.await_event(first, "reservation-expired")?;
    assert!(text.contains(CLASS), "{text}");
    Ok(())
}

fn classes_outlive_the_process() -> Outcome {
    let mut scene = Scene::new("outlive", 8)?;
    scene.reserve()?;
    scene.await_classes("both routers have its class", &[CLASS])?;
    let keeper = scene.routers[0].id();
    let is_it = |process: &u32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == b"rsvp")
    };
    let found = children(keeper).into_iter().find(is_it).ok_or("no process of reservations")?;
    signal(found, "KILL")?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(6) {
        scene.row.run(Duration::from_millis(100));
        assert_eq!(scene.classes(1)?, [CLASS], "the class stays, {}", scene.log(1));
    }
    let again = children(keeper).into_iter().find(is_it).ok_or("it was not started again")?;
    assert_ne!(found, again);
    let shown = scene.reservations(1)?;
    assert_eq!(shown["admitted"], 1, "the new process has it: {shown}");
    // Without refreshes it goes, although the process that made it is no more.
    signal(again, "KILL")?;
    let start = Instant::now();
    while scene.classes(1)? != Vec::<String>::new() {
        assert!(start.elapsed() < reserving::PATIENCE, "the class goes, {}", scene.log(1));
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn what_does_not_fit_is_refused() -> Outcome {
    let mut scene = Scene::new("refused", 1)?;
    scene.reserve()?;
    scene.row.until("the receiver hears that it is refused", |stations| {
        stations[1].has(|event| matches!(event, Event::ResvError { .. }))
    })?;
    assert_eq!(scene.classes(2)?, Vec::<String>::new());
    let start = Instant::now();
    while !scene.log(2).contains("refused a reservation") {
        assert!(start.elapsed() < reserving::PATIENCE, "it is an event: {}", scene.log(2));
        thread::sleep(Duration::from_millis(50));
    }
    let text = scene.await_event(2, "reservation-refused")?;
    assert!(text.contains("would be more than"), "it says why: {text}");
    Ok(())
}

fn the_higher_priority_takes_the_place() -> Outcome {
    // One flow takes 1.1 of almost 2 Mbit/s.
    let mut scene = Scene::with("priority", 2, "preemption = true\n")?;
    let (weak, _) = scene.reserve()?;
    scene.await_classes("both routers have its class", &[CLASS])?;
    scene.reserve_for(1, Some(Priority { preempting: 7, defending: 7 }))?;
    scene.row.until("the receiver hears that its first reservation is gone", |stations| {
        let is_it =
            |event: &Event| matches!(event, Event::ResvError { session, .. } if *session == weak);
        stations[1].has(is_it)
    })?;
    let strong = "rsvp-10_3_0_4-17-5005-10_1_0_1-4001";
    scene.await_classes("both routers have the other class", &[strong])?;
    // The first one asks again with each refresh, and stays out.
    scene.row.run(Duration::from_secs(2));
    scene.await_classes("it stays", &[strong])?;
    assert!(scene.log(2).contains("higher priority"), "it is an event: {}", scene.log(2));
    let text = scene.await_event(2, "reservation-preempted")?;
    assert!(text.contains(CLASS), "{text}");
    Ok(())
}

fn a_reservation_outlives_a_reload() -> Outcome {
    let mut scene = Scene::new("reload", 8)?;
    scene.reserve()?;
    scene.await_classes("both routers have its class", &[CLASS])?;
    let before = scene.reservations(1)?;
    fs::write(scene.folder.join("out.toml"), policy(6))?;
    scene.tell(1, &["reload", "r1.toml"])?;
    let start = Instant::now();
    loop {
        scene.row.run(Duration::from_millis(100));
        let shown = scene.reservations(1)?;
        if shown["room"].as_u64() == before["room"].as_u64().map(|room| room - 2_000_000) {
            assert_eq!(shown["admitted"], 1, "it was checked again: {shown}");
            break;
        }
        assert!(start.elapsed() < reserving::PATIENCE, "{shown}: {}", scene.log(1));
    }
    scene.await_classes("it stays over the reload", &[CLASS])?;
    scene.tell(1, &["restart"])?;
    // Longer than state lives without a refresh.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        scene.row.run(Duration::from_millis(100));
        assert_eq!(scene.classes(1)?, [CLASS], "the class stays, {}", scene.log(1));
    }
    scene.await_classes("it stays over the restart", &[CLASS])
}
