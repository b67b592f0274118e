//! The traffic of the overload: a flood with packets of the guaranteed class anywhere in it, from
//! one thread; at the other end those are counted one by one.

use super::{BULK_PORT, IP_LENGTH, VOICE_PORT};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use weir_bench::rig;
use weir_host::error::SystemError;
use weir_testbed::{Host, Testbed};
use weir_traffic::arrivals::Delays;
use weir_traffic::flood::{Flood, FloodPlan, FloodReport, Guaranteed, Place};
use weir_traffic::{ReceivePlan, Receiver};

/// How bulk is offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bulk {
    /// 60-byte packets, this many a second.
    Rate(u64),
    /// 60-byte packets, as many as the generator can.
    All,
    /// Super-packets, as many as the generator can.
    SuperPackets,
}

/// The guaranteed packets that arrived or were lost, and the bulk beside them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) delay: Delays,
    pub(super) bulk_per_second: f64,
}

/// The generators and the receiver, on the processor that the bridge does not have.
pub(super) struct Traffic {
    flood: Flood,
    back: Option<Flood>,
    receiver: Receiver,
    /// It is never read: without a listener the kernel would answer each packet by ICMP.
    _bulk: UdpSocket,
}

impl Traffic {
    /// Starts everything: this many guaranteed packets among `bulk`, and with `back` a flood
    /// towards the client.
    pub(super) fn start(
        testbed: &Testbed,
        bulk: Bulk,
        packets: u64,
        back: bool,
    ) -> Result<Self, SystemError> {
        let (receiver, unread) = testbed.server.run(|| {
            rig::pin_traffic()?;
            let plan = ReceivePlan { tcp: Vec::new(), ..ReceivePlan::ports(&[VOICE_PORT]) };
            let failed = |cause| SystemError::new("listen for bulk", cause);
            let bulk = UdpSocket::bind(SocketAddr::new(Host::Server.ip4(), BULK_PORT));
            Ok::<_, SystemError>((Receiver::start(&plan)?, bulk.map_err(failed)?))
        })??;
        let pinned = |plan: &FloodPlan| rig::pin_traffic().and_then(|()| Flood::start(plan));
        let backwards = || pinned(&rig::flood_past(Host::Server, BULK_PORT, FRAME, None));
        let back = back.then(|| testbed.server.run(backwards)?).transpose()?;
        let flood = testbed.client.run(|| pinned(&plan(bulk, packets)))??;
        Ok(Self { flood, back, receiver, _bulk: unread })
    }

    /// Waits for the last guaranteed packet.
    pub(super) fn finish(self) -> Counted {
        let FloodReport { sent, seconds, guaranteed, .. } = self.flood.wait();
        self.receiver.wait_ended(PATIENCE);
        let received = self.receiver.finish();
        if let Some(back) = self.back {
            back.finish();
        }
        let voice = received.streams.iter().find(|stream| stream.stream == Some(STREAM));
        let arrived = voice.map_or(0, |stream| stream.packets - stream.duplicated);
        Counted {
            sent: guaranteed,
            lost: guaranteed.saturating_sub(arrived),
            delay: voice.map(|stream| stream.delay).unwrap_or_default(),
            bulk_per_second: sent as f64 / seconds,
        }
    }
}

fn plan(bulk: Bulk, packets: u64) -> FloodPlan {
    let (to, segments) = (Host::Server.ip4(), (SEGMENT, SEGMENTS));
    let flood = match bulk {
        Bulk::Rate(rate) => rig::flood_past(Host::Client, BULK_PORT, FRAME, Some(rate)),
        Bulk::All => rig::flood_past(Host::Client, BULK_PORT, FRAME, None),
        Bulk::SuperPackets => FloodPlan::udp(to, BULK_PORT, segments),
    };
    let guaranteed = Guaranteed {
        stream: STREAM,
        length: FRAME,
        packets,
        place: Place::Any,
        to: Some(Host::Server.mac()),
        ..Guaranteed::new(VOICE_PORT)
    };
    FloodPlan { guaranteed: Some(guaranteed), ..flood }
}

const STREAM: u32 = 1;
/// A 60-byte packet in its frame.
const FRAME: u32 = IP_LENGTH + 14;
/// The frames that a super-packet becomes.
const SEGMENT: u32 = 1442;
const SEGMENTS: u16 = 45;
const PATIENCE: Duration = Duration::from_secs(2);
