//! Target `rsvp`: meets any bytes as RSVP messages that arrive at a router, and as IP packets.
//!
//! The input is a series of messages, each behind three bytes: how long after the one before and
//! where it arrives, and its length. Header length and checksum are put right, so that a changed
//! byte does not hide what is behind it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_core::classify::InterfaceId;
use weir_core::units::{Duration, Instant};
use weir_rsvp::ip::{self, Headers};
use weir_rsvp::node::{
    Action, Arrival, Call, Control, FlowId, InterfaceParams, Limits, Node, NodeParams, Packet,
    Poll, Request, Route, Timers,
};
use weir_rsvp::wire::{Cause, Message};

/// Feeds the messages of an input to a router and checks its state after each.
pub fn rsvp(input: &[u8]) {
    let mut router = Router::new();
    let mut rest = input;
    while let [when, high, low, bytes @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(bytes.len());
        let (bytes, behind) = bytes.split_at(length);
        rest = behind;
        check_message(bytes);
        check_packet(bytes);
        router.receive(*when, bytes);
        router.check();
    }
}

/// A message that was parsed is built and parsed again to the same.
fn check_message(bytes: &[u8]) {
    let Ok(message) = Message::parse(&mended(bytes)) else { return };
    let again = Message::parse(&message.build());
    let again = again.map(|again| Message { refused: message.refused, ..again });
    assert_eq!(again, Ok(message), "a message is parsed as it was built");
}

/// The message of an IP packet lies within it, and a packet is read as it was written.
fn check_packet(bytes: &[u8]) {
    let Some(headers) = ip::read(bytes) else { return };
    let Headers { source, destination, ttl, alert, message } = headers;
    let (interface, bytes) = (InterfaceId(0), bytes[message].to_vec());
    let packet = Packet { interface, source, destination, ttl, alert, bytes };
    let written = ip::write(&packet);
    let read = ip::read(&written).expect("what was written can be read");
    assert_eq!(written[read.message.clone()], packet.bytes);
    let message = read.message.clone();
    assert_eq!(read, Headers { source, destination, ttl, alert, message });
}

/// The message with the length that it has, and without a checksum.
fn mended(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= 8 {
        let length = bytes.len() as u16;
        bytes[2..4].fill(0);
        bytes[6..8].copy_from_slice(&length.to_be_bytes());
    }
    bytes
}

struct Router {
    node: Node,
    now: Instant,
    installed: BTreeMap<FlowId, Request>,
    asked: u64,
}

impl Router {
    fn new() -> Self {
        let interface = |number: u8| {
            let v4 = IpAddr::from([10, 0, number, 254]);
            let v6 = IpAddr::from([0x2001, 0xdb8, 0, u16::from(number), 0, 0, 0, 0xfe]);
            let mut params = InterfaceParams::plain(vec![v4, v6], 1e6, 1500);
            params.reduction = number == 2;
            params
        };
        let node = Node::new(NodeParams {
            interfaces: (0..3).map(interface).collect(),
            timers: Timers::default(),
            limits: LIMITS,
            seed: 1,
            epoch: 1,
        });
        Self { node, now: Instant::from_nanos(0), installed: BTreeMap::new(), asked: 0 }
    }

    fn receive(&mut self, when: u8, bytes: &[u8]) {
        let interface = InterfaceId(u16::from(when) % 3);
        self.now = self.now.after(Duration::from_secs(u64::from(when / 3)));
        let bytes = mended(bytes);
        let arrival = Arrival {
            interface,
            source: IpAddr::from([10, 0, interface.0 as u8, 1]),
            destination: IpAddr::from([10, 9, 9, 9]),
            ttl: 9,
            bytes: &bytes,
        };
        self.poll();
        self.node.receive(Call::new(self.now, &route), arrival);
        self.poll();
    }

    /// Carries out what the node wants; every third flow is refused.
    fn poll(&mut self) {
        let mut actions = 0;
        loop {
            let action = match self.node.poll(Call::new(self.now, &route)) {
                Poll::Action(action) => action,
                Poll::At(at) => {
                    assert!(at > self.now, "what is due was done");
                    return;
                }
                Poll::Idle => return,
            };
            actions += 1;
            assert!(actions < ACTIONS_MAX, "a call causes a bounded number of actions");
            match action {
                Action::Send(packet) => {
                    Message::parse(&packet.bytes).expect("a node sends well-formed messages");
                }
                Action::Control(Control::Remove(flow, _)) => {
                    self.installed.remove(&flow);
                }
                Action::Control(Control::Add(flow, request) | Control::Modify(flow, request)) => {
                    self.asked += 1;
                    let refused = self.asked.is_multiple_of(3);
                    let answer = if refused { Err(Cause::BANDWIDTH) } else { Ok(()) };
                    if !refused {
                        self.installed.insert(flow, request);
                    }
                    // A flow that is gone by now is removed by a later action.
                    self.node.answer(Call::new(self.now, &route), flow, answer);
                }
                Action::Event(_) => {}
            }
        }
    }

    /// The tables are bounded, and traffic control has what the sessions show.
    fn check(&self) {
        let mut shown = BTreeMap::new();
        let mut sessions = 0;
        for session in self.node.sessions() {
            sessions += 1;
            assert!(session.senders.len() <= LIMITS.senders);
            assert!(session.reservations.len() <= LIMITS.reservations);
            assert!(session.blockades.len() <= 2 * LIMITS.senders);
            assert!(session.upstream.len() <= session.senders.len());
            assert!(session.flows.len() <= session.reservations.len());
            let flows = session.flows.into_iter();
            shown.extend(flows.filter_map(|flow| Some((flow.id, flow.installed?))));
        }
        assert!(sessions <= LIMITS.sessions);
        assert_eq!(shown, self.installed);
    }
}

/// All but the groups of 224.0.0.0/4 leave by interface 1, those by 1 and 2; 10.9.9.9 is here.
fn route(destination: IpAddr, _: IpAddr) -> Route {
    let outgoing = if destination.is_multicast() { vec![1, 2] } else { vec![1] };
    Route {
        incoming: None,
        outgoing: outgoing.into_iter().map(InterfaceId).collect(),
        local: destination == IpAddr::from([10, 9, 9, 9]),
    }
}

const LIMITS: Limits = Limits { sessions: 8, senders: 4, reservations: 8, unacknowledged: 16 };
/// Far more than the tables of all sessions give.
const ACTIONS_MAX: usize = 10_000;
