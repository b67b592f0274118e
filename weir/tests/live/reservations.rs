//! `weir up` with `[deployment.rsvp]` on two routers between two hosts, in private networks: a
//! reservation that the receiver asks for is a class on both routers, real packets get its rate,
//! and it goes with its state. The hosts are nodes of `weir-rsvp` on real sockets. Needs root, as
//! host ports do.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::reserved::{Crossing, classes, expires_ms, policy, reservations};
use tempfile::TempDir;
use weir_control::client;
use weir_control::protocol::{Answer, Request, Reservations, Since};
use weir_rsvp::node::Event;
use weir_rsvp::wire::{Filter, Priority, Session};
use weir_testbed::reserving::{self, Setting, address, drive};
use weir_testbed::rows::{self, Failed, Named, Need, Outcome, Row};
use weir_testbed::{Process, children, end_all, is_alive, signal, until, until_ok};

const TESTS: &[Named] = &[
    ("a_reservation_is_a_class_on_each_router_until_it_is_released", a_reservation_is_a_class),
    ("without_refreshes_classes_go", without_refreshes_classes_go),
    ("classes_outlive_the_process_of_reservations", classes_outlive_the_process),
    ("a_hung_process_is_replaced_by_one_that_admits_flows", a_hung_process_is_replaced),
    ("what_does_not_fit_is_refused_and_told", what_does_not_fit_is_refused),
    ("the_higher_priority_takes_the_place_of_the_lower", the_higher_priority_takes_the_place),
    ("a_reservation_outlives_a_reload_and_a_restart", a_reservation_outlives_a_reload),
];

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = Row> {
    rows::table("reservations", TESTS, &[Need::Root])
}

/// Sender, two routers, receiver. The hosts are driven by the thread of the test.
struct Scene {
    folder: TempDir,
    hosts: reserving::Row,
    /// Routers that were started, each with the number of its network.
    routers: Vec<(usize, Process)>,
    /// More lines of `[deployment.rsvp]`.
    more: &'static str,
}

const NODES: usize = 4;
const ROUTERS: [usize; 2] = [1, 2];
const CLASS: &str = "rsvp-10_3_0_4-17-5004-10_1_0_1-4000";

impl Scene {
    fn new(reserved: u32) -> Result<Self, Failed> {
        Self::with(reserved, "")
    }

    fn with(reserved: u32, more: &'static str) -> Result<Self, Failed> {
        let networks = reserving::networks(NODES)?;
        let setting = Setting { nodes: NODES, ..Setting::default() };
        let mut stations = Vec::new();
        for node in [0, NODES - 1] {
            let driver = networks[node].run(|| drive(node, setting))??;
            stations.push(reserving::Station { driver, events: Vec::new() });
        }
        let hosts = reserving::Row { networks, stations };
        let mut scene = Self { folder: tempfile::tempdir()?, hosts, routers: Vec::new(), more };
        fs::write(scene.folder.path().join("out.toml"), policy(reserved))?;
        ROUTERS.into_iter().try_for_each(|node| scene.start(node))?;
        Ok(scene)
    }

    fn start(&mut self, node: usize) -> Outcome {
        let deployment = format!(
            "[deployment]\nports = {{ host = \"right\" }}\ncontrol = \"{}\"\n\
             [deployment.rsvp]\nclass = \"reserved\"\nrefresh = \"500 ms\"\n{}\
             [direction.out]\nfrom = \"host\"\nto = \"wire\"\npolicy = \"out.toml\"\n",
            self.socket(node).display(),
            self.more
        );
        let file = format!("r{node}.toml");
        fs::write(self.folder.path().join(&file), deployment)?;
        let mut command = self.weir(&["up", &file]);
        let process = Process::start_in(&self.hosts.networks[node], &mut command)?;
        self.routers.push((node, process));
        self.await_told(node, "it takes reservations", |_| true).map(drop)
    }

    fn socket(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("r{node}.sock"))
    }

    fn router(&self, node: usize) -> &Process {
        let found = self.routers.iter().find(|(of, _)| *of == node);
        &found.expect("both are started").1
    }

    /// Returns the output of a router.
    fn log(&self, node: usize) -> String {
        self.router(node).printed()
    }

    fn weir(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    /// Drives the hosts until `look` finds something.
    fn until<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&mut Self) -> Result<T, String>,
    ) -> Result<T, Failed> {
        let found = until_ok(what, || {
            self.hosts.turn();
            look(self)
        });
        Ok(found.map_err(|why| format!("{why}\n{}\n{}", self.log(1), self.log(2)))?)
    }

    /// Drives the hosts until what a router tells of its reservations is good; returns it.
    fn await_told(
        &mut self,
        node: usize,
        what: &str,
        is_good: impl Fn(&Reservations) -> bool,
    ) -> Result<Reservations, Failed> {
        let what = format!("router {node}: {what}");
        let found = until_ok(&what, || {
            self.hosts.turn();
            let told = reservations(&self.socket(node))?;
            if is_good(&told) { Ok(told) } else { Err(format!("{told:?}")) }
        });
        Ok(found.map_err(|why| format!("{why}\n{}", self.log(node)))?)
    }

    /// Drives the hosts until a reservation was refreshed at a router after this call, and checks
    /// at each look that its class is there.
    fn await_refresh(&mut self, node: usize) -> Outcome {
        let mut least = u64::MAX;
        self.until("it is refreshed", |scene| {
            let socket = scene.socket(node);
            // While the process of reservations starts, it tells nothing.
            let lives = reservations(&socket).ok().as_ref().and_then(expires_ms);
            assert_eq!(classes(&socket)?, [CLASS], "the class stays, {}", scene.log(node));
            let is_refreshed = lives.is_some_and(|lives| lives > least);
            least = least.min(lives.unwrap_or(u64::MAX));
            if is_refreshed { Ok(()) } else { Err(format!("it lives for {lives:?} ms")) }
        })
    }

    /// Drives the hosts until an event of this kind is among those that clients of the router read;
    /// returns its sentence.
    fn await_event(&mut self, node: usize, kind: &str) -> Result<String, Failed> {
        self.until(kind, |scene| event(&scene.socket(node), kind))
    }

    /// Drives the hosts until a router has printed these words.
    fn await_printed(&mut self, node: usize, words: &str) -> Outcome {
        self.until(words, |scene| {
            let log = scene.log(node);
            if log.contains(words) { Ok(()) } else { Err(log) }
        })
    }

    /// Drives the hosts until both routers have these classes.
    fn await_classes(&mut self, what: &str, wanted: &[&str]) -> Outcome {
        self.until(what, |scene| {
            let found = ROUTERS.map(|node| classes(&scene.socket(node)));
            let is_it = |names: &Result<Vec<String>, String>| {
                names.as_ref().is_ok_and(|names| names == wanted)
            };
            if found.iter().all(is_it) { Ok(()) } else { Err(format!("{found:?}")) }
        })
    }

    /// The sender announces a flow, and the receiver reserves for it.
    fn reserve(&mut self) -> Result<(Session, Filter), Failed> {
        self.reserve_for(0, None)
    }

    /// Announces and reserves flow `number`.
    fn reserve_for(
        &mut self,
        number: u16,
        priority: Option<Priority>,
    ) -> Result<(Session, Filter), Failed> {
        let session = Session::udp(address(true, NODES - 2, NODES - 1), 5004 + number);
        let sender = Filter::new(address(true, 0, 0), 4000 + number);
        self.hosts.announce_to(session, sender);
        self.hosts.until("the receiver hears of the sender", |stations| {
            let is_it =
                |event: &Event| matches!(event, Event::Path { session: of, .. } if *of == session);
            stations[1].has(is_it)
        })?;
        self.hosts.reserve_at(session, sender, priority);
        Ok((session, sender))
    }

    /// Runs `weir` with these words about a router, while the hosts are driven; fails if that does.
    fn tell(&mut self, node: usize, words: &[&str]) -> Outcome {
        let socket = self.socket(node).display().to_string();
        let mut command = self.weir(&[words, &["--control", &socket]].concat());
        let mut process = Process::start(&mut command)?;
        self.until("the command ends", |_| {
            if process.is_alive() { Err(process.printed()) } else { Ok(()) }
        })?;
        let ended = process.wait_for_output()?;
        match ended.status.success() {
            true => Ok(()),
            false => Err(format!("{words:?}: {ended:?}").into()),
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for (node, mut process) in self.routers.drain(..) {
            end_all(&self.hosts.networks[node], &mut process);
        }
    }
}

/// Returns the sentence of the first event of this kind that a link tells.
fn event(socket: &std::path::Path, kind: &str) -> Result<String, String> {
    let Answer::Events(all) = client::call(socket, &Request::Events(Since::default()))? else {
        return Err("no events".to_owned());
    };
    let found = all.events.iter().find(|event| event["event"] == kind);
    let text = found.and_then(|event| event["text"].as_str());
    text.map(str::to_owned).ok_or_else(|| format!("{:?}", all.events))
}

fn a_reservation_is_a_class() -> Outcome {
    let mut scene = Scene::new(8)?;
    let (session, _) = scene.reserve()?;
    scene.hosts.until("it is confirmed", |stations| {
        stations[1].has(|event| matches!(event, Event::Confirmed { .. }))
            && stations[0].has(|event| matches!(event, Event::Reserved { .. }))
    })?;
    scene.await_classes("both routers have its class", &[CLASS])?;
    let told = scene.await_told(1, "it is admitted", |told| told.admitted == 1)?;
    let shown = serde_json::to_value(&told.shown)?;
    let one = &shown[0];
    assert_eq!(told.sessions, 1, "{shown}");
    assert_eq!(one["senders"][0]["from"], "10.1.0.1", "{shown}");
    assert_eq!(one["reservations"][0]["by"], "10.2.0.3", "{shown}");
    assert_eq!(one["reservations"][0]["class"], CLASS, "{shown}");
    assert_eq!(one["reservations"][0]["service"], "controlled-load", "{shown}");
    assert!(expires_ms(&told).is_some_and(|lives| lives <= LIFE_MS), "{shown}");
    for node in ROUTERS {
        let text = scene.await_event(node, "reservation-admitted")?;
        assert!(text.contains(CLASS) && text.contains("FF"), "{text}");
    }
    packets_cross(&mut scene)?;
    scene.hosts.stations[1].driver.call(|node, call| node.release(call, session))?;
    scene.await_classes("it is released", &[])?;
    let text = scene.await_event(1, "reservation-released")?;
    assert!(text.contains(CLASS) && text.contains("tore it down"), "{text}");
    Ok(())
}

/// How long state lives without a refresh, at a period of 500 ms.
const LIFE_MS: u64 = 2625;

/// While another flow fills the link, packets within the reservation all arrive.
fn packets_cross(scene: &mut Scene) -> Outcome {
    let [from, to] = [0, NODES - 1].map(|node| &scene.hosts.networks[node]);
    let source = (address(true, 0, 0), 4000).into();
    let target = (address(true, NODES - 2, NODES - 1), 5004).into();
    let crossing = Crossing::open((from, source), (to, target))?;
    // Without refreshes the reservation would go.
    crossing.check(&scene.socket(1), || scene.hosts.turn())
}

fn without_refreshes_classes_go() -> Outcome {
    let mut scene = Scene::new(8)?;
    scene.reserve()?;
    scene.await_classes("both routers have its class", &[CLASS])?;
    // The hosts say nothing any more.
    until_ok("the classes go", || {
        let found = ROUTERS.map(|node| classes(&scene.socket(node)));
        if found.iter().all(|names| names == &Ok(vec![])) {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })?;
    // The first one to miss refreshes tells the other by a tear.
    let text = until_ok("one says that it expired", || {
        let logs = ROUTERS.map(|node| scene.log(node));
        let expired = |log: &String| log.contains("did not refresh it");
        let first = ROUTERS.into_iter().zip(&logs).find(|(_, log)| expired(log));
        let (first, _) = first.ok_or_else(|| format!("{logs:?}"))?;
        event(&scene.socket(first), "reservation-expired")
    })?;
    assert!(text.contains(CLASS), "{text}");
    Ok(())
}

fn classes_outlive_the_process() -> Outcome {
    let mut scene = Scene::new(8)?;
    scene.reserve()?;
    scene.await_classes("both routers have its class", &[CLASS])?;
    let first = reserving_process(&scene, None)?;
    signal(first, "KILL")?;
    let again =
        scene.until("it is started again", |scene| reserving_process(scene, Some(first)))?;
    scene.await_refresh(1)?;
    scene.await_told(1, "the new process has it", |told| told.admitted == 1)?;
    // Without refreshes it goes, although the process that made it is no more.
    signal(again, "KILL")?;
    let gone = until_ok("the class goes", || match classes(&scene.socket(1)) {
        Ok(names) if names.is_empty() => Ok(()),
        found => Err(format!("{found:?}")),
    });
    Ok(gone.map_err(|why| format!("{why}\n{}", scene.log(1)))?)
}

/// It hangs for longer than neighbours wait for its refreshes, so they may give the flow up meanwhile.
fn a_hung_process_is_replaced() -> Outcome {
    let mut scene = Scene::new(8)?;
    scene.reserve()?;
    scene.await_classes("both routers have its class", &[CLASS])?;
    let first = reserving_process(&scene, None)?;
    signal(first, "STOP")?;
    scene.until("another is started", |scene| reserving_process(scene, Some(first)))?;
    until("the hung one is ended", || !is_alive(first))?;
    scene.reserve_for(1, None)?;
    scene.await_told(1, "the new process admits another flow", |told| told.admitted >= 1)?;
    assert!(scene.log(1).contains("it gave no sign of life"), "{}", scene.log(1));
    Ok(())
}

/// Returns the process of the first router that keeps reservations, another than `former`.
fn reserving_process(scene: &Scene, former: Option<u32>) -> Result<u32, String> {
    let all = children(scene.router(1).id());
    let is_it = |process: &u32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == b"rsvp")
    };
    let mut found = all.iter().copied().filter(is_it).filter(|process| Some(*process) != former);
    found.next().ok_or_else(|| format!("none of {all:?} keeps reservations"))
}

fn what_does_not_fit_is_refused() -> Outcome {
    let mut scene = Scene::new(1)?;
    scene.reserve()?;
    scene.hosts.until("the receiver hears that it is refused", |stations| {
        stations[1].has(|event| matches!(event, Event::ResvError { .. }))
    })?;
    assert_eq!(classes(&scene.socket(2))?, Vec::<String>::new());
    let text = scene.await_event(2, "reservation-refused")?;
    assert!(text.contains("would be more than"), "it says why: {text}");
    scene.await_printed(2, "refused a reservation")
}

fn the_higher_priority_takes_the_place() -> Outcome {
    // One flow takes 1.1 of almost 2 Mbit/s.
    let mut scene = Scene::with(2, "preemption = true\n")?;
    let (weak, _) = scene.reserve()?;
    scene.await_classes("both routers have its class", &[CLASS])?;
    scene.reserve_for(1, Some(Priority { preempting: 7, defending: 7 }))?;
    let lost = |stations: &[reserving::Station]| {
        let is_it =
            |event: &&Event| matches!(event, Event::ResvError { session, .. } if *session == weak);
        stations[1].events.iter().filter(is_it).count()
    };
    let what = "the receiver hears that its first reservation is gone";
    scene.hosts.until(what, |stations| lost(stations) >= 1)?;
    let strong = "rsvp-10_3_0_4-17-5005-10_1_0_1-4001";
    scene.await_classes("both routers have the other class", &[strong])?;
    // The first one asks again with each refresh, and stays out.
    let refused = lost(&scene.hosts.stations);
    scene.hosts.until("it is refused again", |stations| lost(stations) > refused + 1)?;
    scene.await_classes("it stays", &[strong])?;
    scene.await_printed(2, "higher priority")?;
    let text = scene.await_event(2, "reservation-preempted")?;
    assert!(text.contains(CLASS), "{text}");
    Ok(())
}

fn a_reservation_outlives_a_reload() -> Outcome {
    let mut scene = Scene::new(8)?;
    scene.reserve()?;
    scene.await_classes("both routers have its class", &[CLASS])?;
    let room = scene.await_told(1, "it has room", |_| true)?.room;
    fs::write(scene.folder.path().join("out.toml"), policy(6))?;
    scene.tell(1, &["reload", "r1.toml"])?;
    let has_less = |told: &Reservations| told.room + 2_000_000 == room;
    let told = scene.await_told(1, "it has less room", has_less)?;
    assert_eq!(told.admitted, 1, "it was checked again: {told:?}");
    scene.await_classes("it stays over the reload", &[CLASS])?;
    scene.tell(1, &["restart"])?;
    scene.await_refresh(1)?;
    scene.await_refresh(1)?;
    scene.await_classes("it stays over the restart", &[CLASS])
}
