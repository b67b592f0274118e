//! The API of a running link on a TCP address, and what a real Prometheus makes of its metrics.

use super::page::gateway;
use super::{POLICY, SLOW, Test, called, class_at, exchange, fails, plan};
use libtest_mimic::Failed;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use weir_testbed::Netlink;
use weir_testbed::rows::Outcome;
use weir_testbed::{PATIENCE, Process, Scene, ScenePlan, Stream, signal, until, until_ok};

pub const TESTS: &[Test] = &[
    ("the_api_on_tcp_takes_a_token_and_each_token_its_rights", tokens_have_rights),
    ("a_token_that_others_may_read_or_guess_starts_nothing", bad_tokens_start_nothing),
    ("a_gateway_that_stands_still_or_dies_costs_no_frame", a_gateway_fails),
];

pub const WITH_PROMETHEUS: &[Test] =
    &[("prometheus_scrapes_a_link_and_returns_its_counts", prometheus_scrapes)];

/// The address of the API.
pub const ADDRESS: &str = "127.0.0.1:8480";
/// More clients than the gateway has places for.
const STRANGERS: usize = 40;
/// The token that allows everything.
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const READ_TOKEN: &str = "fedcba9876543210fedcba9876543210";

/// A link whose API has two tokens, not started yet.
fn scene() -> Result<Scene, Failed> {
    with_api(plan(POLICY))
}

/// The link of a plan, not started yet, with an API that has two tokens.
pub fn with_api(plan: ScenePlan) -> Result<Scene, Failed> {
    let api = format!(
        "[deployment.api]\nlisten = \"{ADDRESS}\"\ntoken_file = \"token\"\n\
         read_token_file = \"token-read\"\nhosts = [\"weir.example\"]\n"
    );
    let scene = plan.tables(&api).prepare()?;
    for (file, token) in [("token", TOKEN), ("token-read", READ_TOKEN)] {
        scene.write(file, &format!("{token}\n"))?;
        fs::set_permissions(scene.path(file), fs::Permissions::from_mode(0o600))?;
    }
    scene.testbed.weir.run(|| Netlink::open()?.set_up("lo", true))??;
    Ok(scene)
}

/// Returns the answer to a request of HTTP, sent in the network of the link.
fn ask(scene: &Scene, request: &str, headers: &str) -> Result<String, Failed> {
    let text = format!("{request} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
    let talk = move || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(ADDRESS)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(text.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        // Of a record, the head is text.
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    Ok(scene.testbed.weir.run(talk)??)
}

fn tokens_have_rights() -> Outcome {
    let mut scene = scene()?;
    scene.start()?;
    let check = |request: &str, (host, token): (&str, &str), status: u16| -> Outcome {
        let headers = format!("Host: {host}\r\nAuthorization: Bearer {token}\r\n");
        let answer = ask(&scene, request, &headers)?;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request} {host}: {answer}");
        assert!(!answer.contains(TOKEN) && !answer.contains(READ_TOKEN), "{answer}");
        Ok(())
    };
    check("GET /status", (ADDRESS, TOKEN), 200)?;
    check("GET /status", (ADDRESS, READ_TOKEN), 200)?;
    check("GET /metrics", ("weir.example", READ_TOKEN), 200)?;
    check("GET /status", ("localhost", &TOKEN[1..]), 401)?;
    check("GET /status", ("localhost", ""), 401)?;
    check("GET /status", ("evil.example", TOKEN), 421)?;
    check("POST /mark", (ADDRESS, TOKEN), 200)?;
    check("POST /mark", (ADDRESS, READ_TOKEN), 403)?;
    let headers = format!("Host: {ADDRESS}\r\nAuthorization: Bearer {READ_TOKEN}\r\n");
    let answer = ask(&scene, "POST /mark", &headers)?;
    assert!(answer.contains("this token only reads") && !answer.contains("sudo"), "{answer}");
    // Records hold what users send.
    check("GET /policy", (ADDRESS, READ_TOKEN), 200)?;
    check("GET /snapshot", (ADDRESS, READ_TOKEN), 403)?;
    check("POST /record?for_ms=1", (ADDRESS, READ_TOKEN), 403)?;
    check("POST /record?for_ms=1", (ADDRESS, TOKEN), 200)?;
    // A restart takes the address over with the link.
    called(&scene, &["restart"])?;
    check("GET /status", (ADDRESS, TOKEN), 200)?;
    let printed = scene.stop()?;
    let told = "by a client on TCP was refused: not-allowed: this token only reads";
    assert!(printed.contains(told) && !printed.contains("unknown user"), "{printed}");
    assert!(!printed.contains(TOKEN) && !printed.contains(READ_TOKEN), "{printed}");
    Ok(())
}

fn bad_tokens_start_nothing() -> Outcome {
    let scene = scene()?;
    let path = scene.path("token");
    let refused = |part: &str| -> Outcome {
        let text = fails(&scene, "link.toml", 1)?.stderr;
        assert!(text.contains(part), "{part}: {text}");
        for (verb, status) in [("check", 1), ("doctor", 1)] {
            let said = scene.weir_inside(&[verb, "link.toml"])?;
            assert_eq!(said.status.code(), Some(status), "{verb}: {said:?}");
            assert!(said.stdout.contains(part), "{verb}, {part}: {}", said.stdout);
        }
        Ok(())
    };
    let check = |mode: u32, token: &str, part: &str| -> Outcome {
        fs::write(&path, token)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        refused(part)
    };
    check(0o644, TOKEN, "everybody may read")?;
    check(0o600, &TOKEN[1..], "at least 32")?;
    check(0o600, READ_TOKEN, "the same")?;
    // Nothing would ever come from a pipe, and a keeper would wait for it.
    fs::remove_file(&path)?;
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)?;
    refused("regular file")
}

/// A gateway that answers nobody while many ask, and then one that is killed: frames pass, the
/// control socket answers, and the next gateway serves at the same address.
fn a_gateway_fails() -> Outcome {
    let mut scene = scene()?;
    scene.start()?;
    let headers = format!("Host: {ADDRESS}\r\nAuthorization: Bearer {TOKEN}\r\n");
    let is_met = || {
        let answer = ask(&scene, "GET /status", &headers);
        answer.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 "))
    };
    until("the API answers", is_met)?;
    let (old, processes) = (gateway(&scene)?, scene.status()?.processes);
    let stream = Stream::numbered(&scene.testbed, SLOW)?;
    stream.await_another()?;
    signal(old, "STOP")?;
    let connect = || -> std::io::Result<TcpStream> {
        let mut client = TcpStream::connect(ADDRESS)?;
        client.write_all(format!("GET /status HTTP/1.1\r\n{headers}\r\n").as_bytes())?;
        Ok(client)
    };
    let many = || (0..STRANGERS).map(|_| connect()).collect::<std::io::Result<Vec<_>>>();
    let waiting = scene.testbed.weir.run(many)??;
    stream.await_another()?;
    assert_eq!(scene.status()?.processes, processes, "the link answers");
    signal(old, "KILL")?;
    until("another gateway", || gateway(&scene).is_ok_and(|now| now != old))?;
    until("it answers", is_met)?;
    stream.await_another()?;
    drop(waiting);
    let found = stream.finish()?;
    assert_eq!((found.lost(), found.repeated, found.reordered), (0, 0, 0), "{found:?}");
    assert_eq!(scene.status()?.processes, processes, "the link went on");
    let printed = scene.stop()?;
    assert!(
        printed.contains("the gateway of `link`, which serves page and API, ended"),
        "{printed}"
    );
    Ok(())
}

/// The whole way: a packet through the link, its count over TCP with a token into a
/// Prometheus, and out of that by a query.
fn prometheus_scrapes() -> Outcome {
    let mut scene = scene()?;
    scene.start()?;
    exchange(&scene.testbed, 5004, 5)?;
    let config = format!(
        "global: {{ scrape_interval: 1s }}\nscrape_configs:\n- job_name: weir\n  authorization: {{ \
         credentials_file: token-read }}\n  static_configs: [{{ targets: [\"{ADDRESS}\"] }}]\n"
    );
    scene.write("prometheus.yml", &config)?;
    let mut command = Command::new("prometheus");
    command.args(["--config.file=prometheus.yml", "--storage.tsdb.path=tsdb"]);
    command.arg("--web.listen-address=127.0.0.1:9090").current_dir(scene.folder());
    let prometheus = Process::start_in(&scene.testbed.weir, &mut command)?;
    let sent = class_at(&scene.status()?, 0).sent.packets;
    let query = "weir_class_sent_packets_total%7Bclass%3D%22voice%22%2Cdirection%3D%22upload%22%7D";
    let scraped = until_ok("prometheus has the count", || match asked_back(&scene, query) {
        Ok(Some(value)) if value >= sent as f64 => Ok(()),
        found => Err(format!("{found:?}, of {sent}")),
    });
    scraped.map_err(|why| format!("{why}: {}", prometheus.printed()))?;
    drop(prometheus);
    scene.stop()?;
    Ok(())
}

/// Returns the value that Prometheus has for a query; `None` while it has none.
fn asked_back(scene: &Scene, query: &str) -> Result<Option<f64>, Failed> {
    let request = format!(
        "GET /api/v1/query?query={query} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    );
    let talk = move || -> std::io::Result<String> {
        let mut stream = TcpStream::connect("127.0.0.1:9090")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = scene.testbed.weir.run(talk)??;
    let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
    let value: Value = serde_json::from_str(body)?;
    let text = value["data"]["result"][0]["value"][1].as_str();
    Ok(text.and_then(|text| text.parse().ok()))
}
