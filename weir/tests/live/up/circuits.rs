//! Circuits that come and go on a running link: from a file, by the API, by RADIUS.
//!
//! With WEIR_CIRCUITS the last row is a figure: so many circuits, beside 10 000 classes.

use super::{Test, await_another, called, edit, exchange, plan};
use libtest_mimic::Failed;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Instant;
use weir_control::circuits::{Circuits, Fed};
use weir_control::client;
use weir_control::protocol::{Answer, Request};
use weir_link::status::{ClassStatus, Status};
use weir_testbed::rows::Outcome;
use weir_testbed::{
    Host, Netlink, Process, Scene, Stream, StreamConfig, has_argument, signal, until_ok,
};

pub const TESTS: &[Test] = &[
    ("circuits_follow_a_file_over_deaths_and_a_reload", follow_a_file),
    ("circuits_join_and_leave_by_the_api", follow_a_feed),
    ("circuits_that_come_and_go_cost_others_no_frame", churn),
];

pub const WITH_RADCLIENT: &[Test] = &[("sessions_of_radius_are_circuits", follow_radius)];

/// A link with places for circuits; the default class tells hosts apart.
const POLICY: &str = r#"
[link]
rate = "50 Mbit/s"
scheduler = "htb"

[plan.gold]
rate = "200 kbit/s"
ceil = "5 Mbit/s"

[template.circuit]
circuits = true
class.parent = "{site}"
class.rate = "{plan.rate}"
class.ceil = "{plan.ceil}"
class.match = [{ dst = ["{addresses}"] }]

[class.north]
rate = "20 Mbit/s"
places = { count = 40, queue = { limit = "40 packets" } }

[class.north-own]
parent = "north"
rate = "1 Mbit/s"
match = { proto = "udp", dport = "7" }

[class.rest]
rate = "10 Mbit/s"
ceil = "50 Mbit/s"
default = true
isolate = "flows within dstaddr"
"#;

fn ask(scene: &Scene) -> Result<Circuits, String> {
    match client::call(&scene.socket(), &Request::Circuits { limit: None })? {
        Answer::Circuits(circuits) => Ok(*circuits),
        answer => Err(format!("{answer:?}")),
    }
}

/// Waits until the link says this of its circuits; returns them.
fn await_circuits(
    scene: &Scene,
    what: &str,
    is_good: impl Fn(&Circuits) -> bool,
) -> Result<Circuits, Failed> {
    let look = || match ask(scene)? {
        circuits if is_good(&circuits) => Ok(circuits),
        circuits => Err(format!("{circuits:?}")),
    };
    let found = until_ok(what, look);
    Ok(found.map_err(|why| format!("{why}\n{}", scene.logged()))?)
}

fn feed(scene: &Scene, lines: String, whole: bool) -> Result<Fed, Failed> {
    match client::call(&scene.socket(), &Request::Feed { lines, whole })? {
        Answer::Fed(fed) => Ok(fed),
        answer => Err(format!("{answer:?}").into()),
    }
}

fn join(id: &str, address: &str) -> String {
    format!(
        "{{\"join\":{{\"id\":\"{id}\",\"addresses\":[\"{address}\"],\"plan\":\"gold\",\
         \"site\":\"north\"}}}}\n"
    )
}

fn class<'a>(status: &'a Status, id: &str) -> Option<&'a ClassStatus> {
    let name = format!("circuit-{id}");
    status.lanes[0].classes.iter().find(|class| class.name == name)
}

fn sent(status: &Status, id: &str) -> Option<u64> {
    class(status, id).map(|class| class.sent.packets)
}

fn follow_a_file() -> Outcome {
    let server = Host::Server.ip4();
    let section = "[deployment.circuits]\nfrom = \"circuits.csv\"\n";
    let mut scene = plan(POLICY).tables(section).prepare()?;
    let head = "id,addresses,plan,site\n";
    let anna = format!("{head}anna,{server},gold,north\nben,192.0.2.9,gone,north\n");
    scene.write("circuits.csv", &anna)?;
    scene.start()?;
    let seen = |what: &str, known: u64, shaped: u64| {
        let is_good = |all: &Circuits| (all.known, all.shaped, all.waiting) == (known, shaped, 0);
        await_circuits(&scene, what, is_good)
    };
    let both = seen("one is shaped", 2, 1)?;
    let fault = both.shown[0].fault.clone().unwrap_or_default();
    assert!(fault.contains("the plan `gone` is not declared"), "{both:?}");
    exchange(&scene.testbed, 5100, 3)?;
    scene.await_status("its packets are counted", |status| sent(status, "anna") == Some(3))?;
    // The address goes to another circuit, and nobody reloads.
    scene.write("circuits.csv", &format!("{head}ben,{server},gold,north\n"))?;
    seen("one is left", 1, 1)?;
    exchange(&scene.testbed, 5100, 2)?;
    let moved = |status: &Status| (sent(status, "anna"), sent(status, "ben")) == (None, Some(2));
    scene.await_status("the packets went with the address", moved)?;
    // The process dies, and the next one learns the circuits from their classes.
    let own = scene.children().into_iter().find(|child| has_argument(*child, "circuits"));
    signal(own.ok_or("the process runs")?, "KILL")?;
    scene.await_logged("the process of circuits of")?;
    scene.await_logged("is no longer missing")?;
    seen("it is known again", 1, 1)?;
    scene.await_status("its class stayed", |status| sent(status, "ben") == Some(2))?;
    // A plan that was changed is that of the circuits that are there.
    edit(&scene, "policy.toml", "200 kbit/s", "300 kbit/s")?;
    called(&scene, &["reload"])?;
    let rate = |status: &Status| class(status, "ben").and_then(|class| class.share_bps);
    scene.await_status("it has the new rate", |status| rate(status) == Some(3e5))?;
    let forwarder = scene.forwarder()?;
    signal(forwarder, "KILL")?;
    await_another(&scene, forwarder)?;
    seen("it is known to the next forwarder", 1, 1)?;
    called(&scene, &["restart"])?;
    seen("and after a restart", 1, 1)?;
    exchange(&scene.testbed, 5100, 1)?;
    scene.await_status("its rule holds", |status| sent(status, "ben") == Some(1))?;
    // Without the file circuits stay as they are.
    fs::remove_file(scene.path("circuits.csv"))?;
    let lost = await_circuits(&scene, "the loss is told", |all| !all.faults.is_empty())?;
    assert_eq!((lost.known, lost.shaped), (1, 1), "{lost:?}");
    scene.await_logged("not every circuit of `link` is shaped as it should be: cannot read")?;
    fs::write(scene.path("circuits.csv"), "id,addresses\nben,192.0.2.9\n")?;
    scene.await_logged("every circuit of `link` is shaped as it should be again")?;
    scene.stop()?;
    Ok(())
}

fn follow_a_feed() -> Outcome {
    let server = Host::Server.ip4().to_string();
    let section = "[deployment.circuits]\nfrom = \"http\"\n";
    let mut scene = plan(POLICY).tables(section).start()?;
    exchange(&scene.testbed, 5100, 2)?;
    let is_seen = |all: &Circuits| all.unknown.iter().any(|host| host.address == server);
    await_circuits(&scene, "the host has no circuit", is_seen)?;
    let lines = join("anna", &server) + &join("ben", "192.0.2.9") + "{\"leave\":\"carl\"}\n";
    let fed = feed(&scene, lines, false)?;
    assert_eq!((fed.taken, fed.refused, fed.faults[0].0), (2, 1, 3), "{fed:?}");
    let shaped = |count: u64| move |all: &Circuits| (all.shaped, all.waiting) == (count, 0);
    let both = await_circuits(&scene, "both are shaped", shaped(2))?;
    assert!(!is_seen(&both), "the host has a circuit: {both:?}");
    exchange(&scene.testbed, 5100, 3)?;
    scene.await_status("it is counted", |status| sent(status, "anna") == Some(3))?;
    let text = called(&scene, &["status", "--circuits"])?;
    assert!(text.starts_with("2 circuits from http: 2 shaped, 0 not"), "{text}");
    // All that stay are named.
    feed(&scene, join("ben", "192.0.2.9"), true)?;
    await_circuits(&scene, "one left", |all| (all.known, all.shaped, all.waiting) == (1, 1, 0))?;
    // There are forty places, and what leaves makes room.
    let many: String =
        (0..41).map(|n| join(&format!("m{n}"), &format!("198.51.100.{n}"))).collect();
    feed(&scene, many, true)?;
    let full = |all: &Circuits| (all.shaped, all.unshaped, all.waiting) == (40, 1, 0);
    let all = await_circuits(&scene, "one finds no place", full)?;
    let fault = all.shown[0].fault.clone().unwrap_or_default();
    assert!(fault.contains("finds no place: 40 are taken"), "{fault}");
    // With all places taken the link can be changed, and the next forwarder loses no class.
    called(&scene, &["set", "class.rest.rate=9 Mbit/s"])?;
    let forwarder = scene.forwarder()?;
    signal(forwarder, "KILL")?;
    await_another(&scene, forwarder)?;
    let stayed = |status: &Status| {
        let classes = status.lanes[0].classes.iter();
        classes.filter(|class| class.name.starts_with("circuit-")).count() == 40
    };
    scene.await_status("all classes stayed", stayed)?;
    feed(&scene, "{\"leave\":\"m7\"}\n{\"leave\":\"m8\"}".to_owned(), false)?;
    await_circuits(&scene, "it is tried again", shaped(39))?;
    // A class that somebody removes by hand comes back.
    let removal = ["class", "remove", "--control", "weir.sock", "circuit-m9"];
    let removed = scene.weir(&removal)?;
    assert!(removed.status.success(), "{removed:?}");
    let back = |status: &Status| class(status, "m9").is_some();
    scene.await_status("it is there again", back)?;
    called(&scene, &["restart"])?;
    await_circuits(&scene, "they outlive a restart", shaped(39))?;
    scene.stop()?;
    Ok(())
}

fn follow_radius() -> Outcome {
    let server = Host::Server.ip4();
    let section = "[deployment.circuits]\nfrom = \"radius\"\nlisten = \"127.0.0.1:1813\"\n\
                   clients = [\"127.0.0.1\"]\nsecret_file = \"radius.secret\"\n";
    let mut scene = plan(POLICY).tables(section).prepare()?;
    scene.testbed.weir.run(|| Netlink::open()?.set_up("lo", true))??;
    scene.write("radius.secret", "sesame\n")?;
    // Others may read it.
    fs::set_permissions(scene.path("radius.secret"), fs::Permissions::from_mode(0o644))?;
    for words in [&["check", "link.toml"][..], &["up", "link.toml"]] {
        let ended = scene.weir_inside(words)?;
        let text = ended.stdout + &ended.stderr;
        assert!(text.contains("everybody may read"), "{words:?}: {text}");
        assert_ne!(ended.status.code(), Some(0), "{words:?}: {text}");
    }
    fs::set_permissions(scene.path("radius.secret"), fs::Permissions::from_mode(0o600))?;
    scene.start()?;
    await_circuits(&scene, "it listens", |all| all.radius.is_some())?;
    let send = |secret: &str, attributes: &str| -> Result<bool, Failed> {
        scene.write("packet", &format!("NAS-Identifier = \"north\"\n{attributes}"))?;
        let mut command = Command::new("radclient");
        command.args(["-r", "1", "-t", "5", "-f"]).arg(scene.path("packet"));
        command.args(["127.0.0.1:1813", "acct", secret]);
        let mut process = Process::start_in(&scene.testbed.weir, &mut command)?;
        Ok(process.wait_for_output()?.status.success())
    };
    let session = |status: &str, user: &str, id: &str, address: &str| {
        format!(
            "Acct-Status-Type = {status}\nUser-Name = \"{user}\"\nAcct-Session-Id = \"{id}\"\n\
             Filter-Id = \"gold\"\nFramed-IP-Address = {address}\n"
        )
    };
    let server = server.to_string();
    let start = session("Start", "anna@isp", "s1", &server);
    assert!(!send("guess", &start)?, "a client without the secret gets no answer");
    assert!(send("sesame", &start)?, "radclient takes the response for authentic");
    let signed = format!("{start}Message-Authenticator = 0x00\n");
    assert!(send("sesame", &signed)?, "also where it is signed");
    let shaped = |known: u64| {
        move |all: &Circuits| (all.known, all.shaped, all.waiting) == (known, known, 0)
    };
    let all = await_circuits(&scene, "it is shaped", shaped(1))?;
    let counts = all.radius.ok_or("they are counted")?;
    assert_eq!((counts.answered, counts.insecure), (2, 1), "{counts:?}");
    exchange(&scene.testbed, 5100, 3)?;
    scene.await_status("it is counted", |status| sent(status, "anna-isp") == Some(3))?;
    // A keeper that starts the process again loses no session.
    let own = scene.children().into_iter().find(|child| has_argument(*child, "circuits"));
    signal(own.ok_or("the process runs")?, "KILL")?;
    scene.await_logged("is no longer missing")?;
    await_circuits(&scene, "it is known again", shaped(1))?;
    assert!(send("sesame", &session("Interim-Update", "ben", "s2", "192.0.2.9"))?);
    await_circuits(&scene, "an update is news, too", shaped(2))?;
    assert!(send("sesame", &session("Stop", "anna@isp", "s0", &server))?);
    assert!(send("sesame", &session("Stop", "anna@isp", "s1", &server))?);
    let all = await_circuits(&scene, "one is left", shaped(1))?;
    assert_eq!(all.radius.map(|counts| counts.stale), Some(1), "of another session");
    assert!(send("sesame", "Acct-Status-Type = Accounting-Off\n")?);
    await_circuits(&scene, "none is left", shaped(0))?;
    scene.stop()?;
    Ok(())
}

/// Circuits come and go while numbered datagrams cross the link: in a class of the file, and in a
/// circuit that stays.
fn churn() -> Outcome {
    let figure: Option<usize> =
        std::env::var("WEIR_CIRCUITS").ok().and_then(|count| count.parse().ok());
    let (classes, count) = figure.map_or((200, 600), |count| (10_000, count));
    let idle = |number: usize| {
        format!(
            "[class.s{number}]\nparent = \"north\"\nrate = \"100 bit/s\"\n\
             match = {{ proto = \"udp\", dport = \"{}\" }}\n",
            10_000 + number
        )
    };
    let idle: String = (0..classes).map(idle).collect();
    let policy = POLICY.replace("count = 40", &format!("count = {}", 2 * BESIDE));
    let policy = policy.replace("rate = \"200 kbit/s\"", "rate = \"20 kbit/s\"") + &idle;
    let section = "[deployment.circuits]\nfrom = \"http\"\n";
    let scene = plan(&policy).deployment("pool = \"60000 packets\"").tables(section);
    let mut scene = scene.start()?;
    await_circuits(&scene, "it has begun", |all| all.from == "http")?;
    feed(&scene, join("stays", &Host::Server.ip4().to_string()), false)?;
    await_circuits(&scene, "one stays", |all| all.shaped == 1)?;
    let config = StreamConfig { port: 7, per_second: 500, length: 64 };
    let others = Stream::numbered(&scene.testbed, config)?;
    let staying = Stream::numbered(&scene.testbed, StreamConfig { port: 5100, ..config })?;
    let address =
        |number: usize| format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255);
    let began = Instant::now();
    for first in (0..count).step_by(ROUND) {
        let joining =
            (first..first + ROUND).map(|number| join(&number.to_string(), &address(number)));
        let gone = first.checked_sub(BESIDE).map(|gone| gone..gone + ROUND);
        let leaving =
            gone.into_iter().flatten().map(|number| format!("{{\"leave\":\"{number}\"}}\n"));
        let fed = feed(&scene, leaving.chain(joining).collect(), false)?;
        assert_eq!(fed.refused, 0, "{fed:?}");
        await_circuits(&scene, "the round is done", |all| (all.waiting, all.unshaped) == (0, 0))?;
    }
    let took = began.elapsed().as_secs_f64();
    others.await_another()?;
    staying.await_another()?;
    let (others, staying) = (others.finish()?, staying.finish()?);
    assert_eq!((others.lost(), staying.lost()), (0, 0), "{others:?} {staying:?}");
    assert_eq!(ask(&scene)?.known as usize, 1 + BESIDE, "the last ones are there");
    if figure.is_some() {
        let rate = count as f64 / took;
        println!(
            "{count} circuits came in {took:.1} s, {rate:.0} a second, and as many went, beside \
             {classes} classes; 0 frames of others were lost"
        );
    }
    scene.stop()?;
    Ok(())
}

/// Circuits that join in a request.
const ROUND: usize = 100;
/// How many that came and will go are there at a time.
const BESIDE: usize = 300;
