//! The packets of one class, counted at the receiving host: one call.

use crate::arrivals::Delays;
use crate::outlet::RawPort;
use crate::{ReceivePlan, Receiver, SendPlan, Sender, source};
use serde::Serialize;
use std::net::IpAddr;
use std::time::Duration;
use weir_host::netns::NetNs;
use weir_host::wait::WaitPolicy;

/// The packets to send and count.
#[derive(Clone, Debug)]
pub struct ClassCount {
    /// The address of the receiving host.
    pub to: IpAddr,
    /// The port to which they are sent.
    pub dport: u16,
    /// The number of packets.
    pub packets: u64,
    /// From one to the next.
    pub interval: Duration,
    /// The payload of each, at least 24 bytes.
    pub payload: u32,
    /// Its code point, as scenarios write it: a name or a number.
    pub dscp: String,
    /// Another seed is another run.
    pub seed: u64,
    /// How the sender waits.
    pub wait: WaitPolicy,
    /// Send whole frames on an interface, not datagrams on a socket.
    pub raw: Option<RawPort>,
}

/// The counts at both ends.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Counted {
    /// Packets that the sender's system took.
    pub sent: u64,
    /// Packets that it refused: the network never had them.
    pub refused: u64,
    /// Packets that arrived, duplicates too.
    pub received: u64,
    /// Packets that were taken and did not arrive.
    pub lost: u64,
    /// Packets that came after one with a higher number.
    pub reordered: u64,
    /// Packets that came again.
    pub duplicated: u64,
    /// Packets that the receiver had no room for; they are among the lost.
    pub overruns: u64,
    /// From the sender's call to the receiver's kernel.
    pub delay: Delays,
    /// How late the sender was.
    pub late: Delays,
}

impl ClassCount {
    /// 30 000 packets of 160 bytes at 1000 a second.
    pub fn new(to: IpAddr, dport: u16) -> Self {
        Self {
            to,
            dport,
            packets: 30_000,
            interval: Duration::from_millis(1),
            payload: 160,
            dscp: "0".to_owned(),
            seed: 1,
            wait: WaitPolicy::Block,
            raw: None,
        }
    }
}

/// Sends the packets from one namespace and counts them in another.
///
/// # Errors
/// When a socket cannot be opened, the payload has no room for a mark, or nothing at all is known
/// of what arrived.
pub fn count(from: &NetNs, to: &NetNs, class: &ClassCount) -> Result<Counted, String> {
    if (class.payload as usize) < crate::mark::MARK_BYTES {
        let least = crate::mark::MARK_BYTES;
        return Err(format!("a payload of {} bytes has no room for {least}", class.payload));
    }
    let keys = [
        ("interval", format!("{} ns", class.interval.as_nanos())),
        ("payload", format!("{} B", class.payload)),
        ("dport", class.dport.to_string()),
        ("dscp", class.dscp.clone()),
    ];
    let keys: Vec<_> = keys.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let plan = SendPlan {
        seed: class.seed,
        duration: Duration::MAX,
        packets_max: Some(class.packets),
        raw: class.raw.clone(),
        wait: class.wait,
        ..SendPlan::new(vec![source("counted", "cbr", class.to, &keys)?])
    };
    let listen = ReceivePlan { tcp: Vec::new(), ..ReceivePlan::ports(&[class.dport]) };
    let receiver = to.run(|| Receiver::start(&listen)).and_then(|started| started);
    let receiver = receiver.map_err(|error| error.to_string())?;
    let sender = from.run(|| Sender::start(&plan)).and_then(|started| started);
    let sent = sender.map_err(|error| error.to_string())?.finish();
    receiver.wait_ended(PATIENCE);
    let received = receiver.finish();
    let sent = sent.streams.into_iter().next().ok_or("nothing was sent")?;
    let ours = |stream: &&crate::arrivals::ReceivedStream| stream.stream == Some(sent.stream);
    let stream = received.streams.iter().find(ours);
    let unique = stream.map_or(0, |stream| stream.packets - stream.duplicated);
    Ok(Counted {
        sent: sent.packets,
        refused: sent.refused,
        received: stream.map_or(0, |stream| stream.packets),
        lost: sent.packets.saturating_sub(unique),
        reordered: stream.map_or(0, |stream| stream.reordered),
        duplicated: stream.map_or(0, |stream| stream.duplicated),
        overruns: received.overruns,
        delay: stream.map(|stream| stream.delay).unwrap_or_default(),
        late: sent.late,
    })
}

/// How long the end mark may be under way.
const PATIENCE: Duration = Duration::from_secs(2);
