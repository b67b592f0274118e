//! A rate that follows the capacity of a line: kernel TCP through `weir up`, and behind it a modem,
//! which is the kernel's token bucket with a queue of its own.

use super::{Test, plan};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use weir_link::status::{AutorateStatus, Status};
use weir_testbed::rows::Outcome;
use weir_testbed::{END, Host, PATIENCE, Result, Scene, TestbedConfig};

pub const TESTS: &[Test] =
    &[("a_rate_follows_the_modem_and_returns_to_its_base_when_blind", a_rate_follows)];

const POLICY: &str = r#"
[link]
rate = "4 Mbit/s"
scheduler = "drr"

[class.rest]
default = true
queue = { dropper = "fq-codel" }
"#;

const VARIES: &str = r#"
[direction.download.autorate]
min = "4 Mbit/s"
base = "8 Mbit/s"
max = "60 Mbit/s"
"#;

fn a_rate_follows() -> Outcome {
    // Super-packets would be longer than the modem's burst.
    let networks = TestbedConfig { offloads: false, ..TestbedConfig::default() };
    let scene = plan(POLICY).both_ways().tables(VARIES).deployment("ring = \"8 MiB\"");
    let mut scene = scene.networks(networks).start()?;
    modem(&scene, "add", 20)?;
    let traffic = Traffic::start(&scene)?;
    await_rate(&scene, "the rate follows up", |varies| varies.rate_bps > 13_000_000)?;
    modem(&scene, "change", 6)?;
    await_rate(&scene, "the rate follows down", |varies| varies.rate_bps < 7_500_000)?;
    modem(&scene, "change", 20)?;
    await_rate(&scene, "the rate follows up again", |varies| varies.rate_bps > 13_000_000)?;
    scene.await_logged("behind the link")?;
    traffic.stop();
    await_rate(&scene, "the rate is the base", |varies| {
        varies.rate_bps == 8_000_000 && varies.delay_us.is_none()
    })?;
    let record = ["record", "--last", "--control", "weir.sock", "-o", "r.pcapng"];
    let made = scene.weir(&record)?;
    assert!(made.status.success(), "{} {}", made.stdout, made.stderr);
    let again = scene.weir(&["replay", "--record", "r.pcapng"])?;
    assert!(again.status.success(), "it decides the same: {} {}", again.stdout, again.stderr);
    scene.stop()?;
    Ok(())
}

/// Sets the modem's rate in Mbit/s: the server's queue behind Weir's port.
fn modem(scene: &Scene, verb: &str, mbit: u32) -> Outcome {
    let rate = format!("{mbit}mbit");
    let words = ["qdisc", verb, "dev", END, "root", "tbf", "rate", &rate, "burst", "4kb"];
    let mut tc = Command::new("tc");
    tc.args(words).args(["latency", "300ms"]);
    let ended = scene.testbed.namespace(Host::Server).run(|| tc.output())??;
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    Ok(())
}

/// Waits until the download's rate is as it should be; it is within its range all the time.
fn await_rate(scene: &Scene, what: &str, is_good: impl Fn(&AutorateStatus) -> bool) -> Outcome {
    scene.await_status(what, |status: &Status| {
        let varies = status.lanes.iter().find_map(|lane| lane.autorate.as_ref());
        let varies = varies.expect("the download varies");
        assert!((4_000_000..=60_000_000).contains(&varies.rate_bps), "{varies:?}");
        is_good(varies)
    })?;
    Ok(())
}

/// Connections by which the server sends without end.
struct Traffic {
    stops: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// A sender's own queue holds little of each connection, so there are many.
    const CONNECTIONS: u16 = 24;

    fn start(scene: &Scene) -> Result<Self> {
        let stops = Arc::new(AtomicBool::new(false));
        let address = (Host::Client.ip4(), 8080);
        let listener = scene.testbed.client.run(|| TcpListener::bind(address))??;
        let mut threads = Vec::new();
        for _ in 0..Self::CONNECTIONS {
            let connect = || TcpStream::connect_timeout(&address.into(), PATIENCE);
            let mut sender = scene.testbed.server.run(connect)??;
            sender.set_write_timeout(Some(PATIENCE))?;
            let (mut receiver, _) = listener.accept()?;
            let stopped = Arc::clone(&stops);
            threads.push(thread::spawn(move || {
                while !stopped.load(Ordering::Relaxed) && sender.write_all(&[7; 16 << 10]).is_ok() {
                }
            }));
            threads.push(thread::spawn(move || {
                let mut bytes = vec![0; 64 << 10];
                while receiver.read(&mut bytes).is_ok_and(|count| count > 0) {}
            }));
        }
        Ok(Self { stops, threads })
    }

    fn stop(self) {
        self.stops.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}
