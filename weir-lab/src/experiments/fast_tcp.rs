//! How fast TCP connections of the kernel pass a bridge whose policy has 10 Gbit/s: the bridge of
//! `weir up`, and the kernel's own with its HTB, in turns.
//!
//! The hosts leave segmentation to their interfaces, as hosts do, so super-packets come. Both
//! hosts and the bridge share the processors of this machine: only the ratio says anything. The
//! rounds' middle value counts.

use super::{Experiment, Own};
use crate::rows::{Row, Rows};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use weir_bench::rig::{self, Forwarder};
use weir_host::error::SystemError;
use weir_testbed::{Host, LEFT, RIGHT, Testbed};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "fast-tcp",
    summary: "one and four TCP connections at 10 Gbit/s, beside the kernel's bridge with its HTB",
    measure: None,
    own: Some(Own::live(run)),
};

/// The connections at once, whether super-packets pass whole, and the least part of the kernel's
/// speed.
const ROWS: [(usize, bool, f64); 4] =
    [(1, false, 0.8), (4, false, 0.8), (1, true, 0.8), (4, true, 0.8)];
const ROUNDS: usize = 3;
const POLICY: &str = "[link]\nrate = \"10 Gbit/s\"\nscheduler = \"htb\"\n\n\
                      [class.all]\nrate = \"10 Gbit/s\"\ndefault = true\n\
                      queue = { limit = \"4000 packets\" }\n";

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    ROWS.into_iter().try_for_each(|(connections, is_whole, least)| {
        let plural = if connections > 1 { "s" } else { "" };
        let whole = if is_whole { ", super-packets whole" } else { "" };
        let subject = format!("{connections} TCP connection{plural}{whole}");
        rows.measure(&subject, |options| {
            let mut rounds = Vec::new();
            for _ in 0..ROUNDS {
                let duration = options.duration.div_f64(2.0 * ROUNDS as f64);
                rounds.push(round((connections, is_whole), duration)?);
            }
            rounds.sort_by(|one, other| (one.0 / one.1).total_cmp(&(other.0 / other.1)));
            let (weir, kernel) = rounds[ROUNDS / 2];
            let both = format!("{weir:.2} Gbit/s, the kernel's bridge {kernel:.2}");
            let ratio = Row::ratio(format!("{subject}: to the kernel's"), weir / kernel, least);
            Ok::<_, SystemError>([ratio, Row::shown(subject.clone(), both)])
        })
    })
}

/// Measures both bridges, each for so long; returns Gbit/s of payload, that of the kernel last.
fn round(
    (connections, is_whole): (usize, bool),
    duration: Duration,
) -> Result<(f64, f64), SystemError> {
    let policy = rig::policy(POLICY)?;
    let transfer =
        |forwarder| rig::between(forwarder, |testbed, _| transfer(testbed, connections, duration));
    let weir = Forwarder::weir(&policy, &policy)?;
    let (weir, _) = transfer(if is_whole { weir.whole() } else { weir })?;
    let (kernel, _) = transfer(Forwarder::Kernel(&tc_lines()))?;
    Ok((weir, kernel))
}

/// The same policy for both directions of the kernel's bridge. Its own burst at this rate is too
/// small for super-packets.
fn tc_lines() -> Vec<String> {
    let of = |port| {
        [
            format!("qdisc add dev {port} root handle 1: htb default 1"),
            format!(
                "class add dev {port} parent 1: classid 1:1 htb rate 10gbit burst 1mb cburst 1mb"
            ),
        ]
    };
    [LEFT, RIGHT].into_iter().flat_map(of).collect()
}

/// Sends by so many connections for so long; returns the Gbit/s of payload that arrived.
fn transfer(testbed: &Testbed, count: usize, duration: Duration) -> Result<f64, SystemError> {
    let failed = |cause| SystemError::new("send by TCP", cause);
    let listen = || TcpListener::bind(SocketAddr::new(Host::Server.ip4(), 0));
    let listener = testbed.server.run(listen)?.map_err(failed)?;
    let to = listener.local_addr().map_err(failed)?;
    let connect = || (0..count).map(|_| TcpStream::connect(to)).collect::<Result<Vec<_>, _>>();
    let senders = testbed.client.run(connect)?.map_err(failed)?;
    let accept = |_| listener.accept().map(|(stream, _)| stream);
    let receivers = (0..count).map(accept).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let end = Instant::now() + duration;
    let began = Instant::now();
    let bytes = thread::scope(|scope| {
        for stream in senders {
            scope.spawn(move || send(stream, end));
        }
        let readers: Vec<_> =
            receivers.into_iter().map(|stream| scope.spawn(move || receive(stream))).collect();
        readers.into_iter().map(|reader| reader.join().expect("it does not panic")).sum::<u64>()
    });
    Ok(bytes as f64 * 8.0 / 1e9 / began.elapsed().as_secs_f64())
}

/// Sends until then; whoever receives sees what was lost.
fn send(mut stream: TcpStream, end: Instant) {
    let block = [0; BLOCK];
    while Instant::now() < end && stream.write_all(&block).is_ok() {}
    drop(stream.shutdown(Shutdown::Write));
}

/// Returns the bytes that came until the sender ended.
fn receive(mut stream: TcpStream) -> u64 {
    let (mut block, mut sum) = ([0; BLOCK], 0);
    while let Ok(length) = stream.read(&mut block) {
        if length == 0 {
            break;
        }
        sum += length as u64;
    }
    sum
}

/// Bytes of a call that writes or reads.
const BLOCK: usize = 128 << 10;
