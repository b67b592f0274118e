//! Hosts that share one leaf: what a host with one flow gets beside one with many, and the memory
//! that a host takes which has no packet any more.

use super::{Experiment, Own};
use crate::rows::{Row, Rows};
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use weir_core::event::Departure;
use weir_core::ids::{Handle, LeafId};
use weir_core::link::{LinkPlan, Packet};
use weir_core::packet::Host;
use weir_core::units::Instant;
use weir_host::pages::bytes_in_use;
use weir_policy::{Outcome, Policy};
use weir_sim::{read, run};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "hosts",
    summary: "hosts of 1, 8 and 32 flows against one of one flow; memory of 10 000 idle hosts",
    measure: None,
    own: Some(Own::simulated(run_all)),
};

fn run_all(rows: &mut Rows<'_>) -> Result<(), String> {
    let cases = QUEUES.iter().flat_map(|queue| [1, 8, 32].map(|flows| (queue, flows)));
    for ((name, queue), flows) in cases {
        for (kind, sources) in SOURCES {
            let subject = format!("{name}: {flows} flows against one, {kind}");
            rows.measure(&subject, |_| {
                let part = share(queue, sources, flows)?;
                // The share that TCP leaves is told, not judged: a drop is a pause for it. And
                // queues by connection know no hosts.
                let is_judged = kind == FULL && *name != CONNECTIONS;
                Ok::<_, String>([shared(&subject, part, is_judged)])
            })?;
        }
    }
    for (name, queue) in QUEUES {
        let subject = format!("{name}: memory of an idle host of {HOSTS}");
        rows.measure(&subject, |_| {
            let bytes = idle(queue, HOSTS)?.saturating_sub(idle(queue, FEW)?);
            let each = bytes as f64 / f64::from(HOSTS - FEW);
            Ok::<_, String>([Row::shown(subject.clone(), format!("{each:.0} bytes"))])
        })?;
    }
    Ok(())
}

fn shared(subject: &str, part: f64, is_judged: bool) -> Row {
    if !is_judged {
        return Row::shown(subject.to_owned(), format!("{part:.2} % for the one"));
    }
    let texts = (format!("{part:.2} %"), "50 %".to_owned());
    Row::off(subject.to_owned(), texts, (part - 50.0).abs() * 2.0, 2.0)
}

/// Returns the part of the bytes, in percent, that the host of one flow gets beside the other.
fn share(queue: &str, sources: [&str; 2], flows: u32) -> Result<f64, String> {
    let mut text = format!(
        "duration = \"30 s\"\nwarmup = \"5 s\"\ndelay = \"5 ms\"\n[policy.link]\nrate = \"{RATE} \
         Mbit/s\"\nscheduler = \"fifo\"\n[policy.class.all]\ndefault = true\nqueue = {queue}\n"
    );
    let mut add = |host: u32, flow: u32, of: u32| {
        // Each host offers as much as the line carries.
        let source = sources[host as usize - 1].replace("RATE", &format!("{}", RATE * 1000 / of));
        let _ = write!(
            text,
            "[[source]]\nname = \"{host}-{flow}\"\nsrc = \"192.168.1.{host}\"\n\
             dst = \"203.0.113.{}\"\nsport = {}\n{source}",
            1 + flow + 100 * (host - 1),
            5001 + flow
        );
    };
    (0..flows).for_each(|flow| add(1, flow, flows));
    add(2, 0, 1);
    let files = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
    let outcome = read::parse(text.as_bytes(), "hosts.toml", &files);
    let first = outcome.findings.first().map(|finding| finding.message.clone());
    let scenario = outcome.plan.ok_or_else(|| first.unwrap_or_default())?;
    let report = run(&scenario, &mut |_| {}).map_err(|why| why.to_string())?;
    let received = |one: bool| -> u64 {
        let own = report.sources.iter().filter(|source| source.name.starts_with("2-") == one);
        own.map(|source| source.received.bytes).sum()
    };
    let (one, many) = (received(true), received(false));
    Ok(one as f64 * 100.0 / (one + many).max(1) as f64)
}

/// Returns the memory of a link through which each of so many hosts sent a packet.
fn idle(queue: &str, hosts: u32) -> Result<usize, String> {
    let text = format!(
        "[link]\nrate = \"1 Gbit/s\"\nscheduler = \"fifo\"\n[class.all]\ndefault = true\n\
         queue = {queue}\n"
    );
    let Outcome { plan, .. } = weir_policy::policy::parse(&text, "hosts.toml");
    let Policy { link, .. } = plan.ok_or("the policy is sound")?;
    let mut out: Vec<Departure> = Vec::with_capacity(FEW as usize);
    let before = bytes_in_use();
    if before == 0 {
        return Err("this program's allocator counts nothing".to_owned());
    }
    let mut link = build(&link)?;
    let mut now = Instant::ZERO;
    for host in 0..hosts {
        let address = Host::from_bits(u128::from(host + 1) << 64 | 1);
        let packet = Packet { host: address, flow: host, ..Packet::new(Handle(host), 300) };
        link.offer(now, LeafId(0), packet);
        while let Some(next) = link.advance(now, &mut out) {
            now = next;
        }
        out.clear();
    }
    Ok(bytes_in_use() - before)
}

fn build(plan: &LinkPlan) -> Result<Box<dyn weir_core::link::AnyLink>, String> {
    plan.build().map_err(|why| why.to_string())
}

const CONNECTIONS: &str = "fq-codel";
const FULL: &str = "always full";
/// A name, and a queue of a policy.
const QUEUES: [(&str, &str); 4] = [
    ("cake, triple-isolate", "{ dropper = \"cake\" }"),
    ("cake, dual-srchost", "{ dropper = \"cake\", hash = \"dual-srchost\" }"),
    ("isolate", "{ dropper = \"isolate\", isolate = \"flows within srcaddr\" }"),
    (CONNECTIONS, "{ dropper = \"fq-codel\" }"),
];
const FULL_FLOW: &str = "kind = \"cbr\"\nrate = \"RATE kbit/s\"\nsize = \"1514 B\"\n";
const TCP_FLOW: &str = "kind = \"tcp\"\nprofile = \"linux\"\nreturn_delay = \"5 ms\"\n";
/// The traffic of a flow of the many and of the one; `RATE` is in kbit/s.
const SOURCES: [(&str, [&str; 2]); 4] = [
    (FULL, [FULL_FLOW; 2]),
    ("TCP", [TCP_FLOW; 2]),
    ("TCP of the one, others always full", [FULL_FLOW, TCP_FLOW]),
    ("TCP of the many, the one always full", [TCP_FLOW, FULL_FLOW]),
];
/// In Mbit/s.
const RATE: u32 = 20;
const HOSTS: u32 = 10_000;
const FEW: u32 = 100;
