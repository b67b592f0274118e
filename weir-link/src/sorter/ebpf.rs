//! The sorter as an XDP program, for AF_XDP sockets.
//!
//! The program sees the frame as the sockets get it: what the driver has removed of the tags, the
//! classifier does not see either. Each read of the frame is behind a check against its end, as the
//! kernel's verifier demands; a frame that is too short goes to ring 0.
//!
//! R2 points to the frame, R3 to its end, R4 to the IP header, R6 to the context. R0 is what a test
//! reads; what the rules test and what is not at a fixed place behind R4 is on the stack.

use weir_core::packet::{EtherType, Protocol};

use super::cases::{Family, Field, NO_FLAGS, NO_ICMP, NO_PCP, NO_PORT, NO_TAG};
use super::graph::{Goal, Graph, Node, Reads};
use super::search::{Branches, Test};
use super::{FRAGMENT, FRAGMENT_OFFSET, Later, PORTED, UNSEEN};
use Reg::{R0, R1, R2, R3, R4, R5, R6, R10};
use weir_host::bpf::{Code, Cond, Function, Label, Map, Op, Reg, Width};
use weir_host::uapi::verdict::XDP_PASS;

type Target = super::search::Target<Label>;

/// How a program ends once it has the ring.
#[derive(Clone, Copy, Debug)]
pub(super) enum End<'a> {
    /// It hands the frame to the socket at the ring's place, or to the kernel's stack if there is
    /// none.
    Redirect(&'a Map),
    /// Its verdict is the ring.
    Number,
}

/// Returns the program, whatever its length.
pub(super) fn assemble(graphs: &[Graph; 3], later: Later, end: End<'_>) -> Code {
    let mut program = Program { reads: Reads::of(graphs), ..Program::default() };
    let starts = graphs.each_ref().map(|graph| match graph.start {
        Goal::Ring(ring) => Target::Ring(ring),
        Goal::Node(_) => Target::To(program.label()),
    });
    // Where the end finds the receive queue.
    program.code.set(R6, R1);
    if graphs.iter().all(|graph| graph.start == OUT_GOAL) {
        program.go(OUT);
    } else {
        program.prologue(starts, later);
    }
    for ((family, graph), start) in Family::ALL.into_iter().zip(graphs).zip(starts) {
        if let Target::To(start) = start {
            program.graph(graph, family, start);
        }
    }
    program.end(end);
    program.code
}

/// A program in the making.
#[derive(Default)]
struct Program {
    code: Code,
    /// A jump that is written unless its label comes next.
    pending: Option<Label>,
    /// The labels of the nodes of the graph that is written.
    nodes: Vec<Label>,
    /// The labels of the rings' ends, for rings that frames can go to.
    rings: [Option<Label>; super::RINGS_MAX],
    reads: Reads,
}

impl Branches for Program {
    type Label = Label;

    fn label(&mut self) -> Label {
        self.code.label()
    }

    fn here(&mut self, label: Label) {
        match self.pending.take() {
            Some(pending) if pending != label => drop(self.code.jump(pending)),
            _ => {}
        }
        self.code.place(label);
    }

    fn jump(&mut self, test: Test, number: u32, yes: Target, no: Target) {
        let cond = match test {
            Test::Equal => Cond::Equal,
            Test::Above => Cond::Above,
            Test::AtLeast => Cond::AtLeast,
        };
        self.leave(R0, cond, number, yes);
        self.go(no);
    }

    fn target(&mut self, goal: Goal) -> Target {
        match goal {
            Goal::Ring(ring) => Target::Ring(ring),
            Goal::Node(place) => Target::To(self.nodes[place]),
        }
    }
}

impl Program {
    /// Returns the code to append to.
    fn code(&mut self) -> &mut Code {
        debug_assert!(self.pending.is_none(), "behind a jump comes a label");
        &mut self.code
    }

    fn place(&mut self, target: Target) -> Label {
        match target {
            Target::To(label) => label,
            Target::Ring(ring) => {
                let code = &mut self.code;
                *self.rings[usize::from(ring)].get_or_insert_with(|| code.label())
            }
        }
    }

    fn go(&mut self, target: Target) {
        self.pending = Some(self.place(target));
    }

    /// Leaves for `target` if the condition holds between a register and a number.
    fn leave(&mut self, left: Reg, cond: Cond, number: u32, target: Target) {
        let label = self.place(target);
        match i32::try_from(number) {
            Ok(number) => self.code().jump_if(left, cond, number, label),
            // An immediate number would be sign-extended.
            Err(_) => self.code().set_wide(R5, number.into()).jump_if(left, cond, R5, label),
        };
    }

    /// Leaves for ring 0 unless `len` bytes from `start` on are in the frame.
    fn need(&mut self, start: Reg, len: i32) {
        let out = self.place(OUT);
        self.code().set(R5, start).op(Op::Add, R5, len).jump_if(R5, Cond::Above, R3, out);
    }

    /// Reads a number of `bits` bits in network byte order into `to`.
    fn read(&mut self, to: Reg, from: Reg, at: i16, bits: i32) {
        let width = if bits == 16 { Width::Half } else { Width::Word };
        self.code().load(width, to, from, at).network_order(to, bits);
    }

    fn store(&mut self, slot: Slot, from: Reg) {
        self.code().store(Width::Word, R10, slot.offset(), from);
    }

    fn set(&mut self, slot: Slot, number: u32) {
        self.code().set(R5, number as i32);
        self.store(slot, R5);
    }

    fn prologue(&mut self, [v4, v6, other]: [Target; 3], later: Later) {
        self.code().load(Width::Word, R2, R1, 0).load(Width::Word, R3, R1, 4);
        self.need(R2, ETHERNET_LEN);
        self.set(Slot::Vlan, NO_TAG);
        self.set(Slot::VlanInner, NO_TAG);
        if self.reads.pcp {
            self.set(Slot::Pcp, NO_PCP);
        }
        self.code().set(R4, R2).op(Op::Add, R4, ETHERNET_LEN);
        self.read(R0, R2, 12, 16);
        let untagged = self.label();
        self.tag(Slot::Vlan, untagged);
        self.tag(Slot::VlanInner, untagged);
        self.here(untagged);
        let [is_v4, is_v6] = [self.label(), self.label()];
        let unless_out = |graph, label| if graph == OUT { OUT } else { Target::To(label) };
        self.leave(R0, Cond::Equal, EtherType::IPV4.0.into(), unless_out(v4, is_v4));
        self.leave(R0, Cond::Equal, EtherType::IPV6.0.into(), unless_out(v6, is_v6));
        self.leave(R0, Cond::Below, ETHERTYPE_MIN, OUT);
        for kind in UNSEEN {
            self.leave(R0, Cond::Equal, kind.0.into(), OUT);
        }
        self.store(Slot::EtherType, R0);
        self.go(other);
        if v4 != OUT {
            self.here(is_v4);
            self.ipv4(v4, later);
        }
        if v6 != OUT {
            self.here(is_v6);
            self.ipv6(v6);
        }
    }

    /// Goes to `untagged` if R0 is no ethertype of a tag. Else it stores the VLAN of the tag at R4,
    /// and moves R4 behind it and the next ethertype into R0.
    fn tag(&mut self, slot: Slot, untagged: Label) {
        let tagged = self.label();
        self.leave(R0, Cond::Equal, EtherType::VLAN.0.into(), Target::To(tagged));
        self.leave(R0, Cond::Equal, EtherType::VLAN_SERVICE.0.into(), Target::To(tagged));
        self.leave(R0, Cond::NotEqual, EtherType::VLAN_OLD.0.into(), Target::To(untagged));
        self.here(tagged);
        self.need(R4, 4);
        self.read(R0, R4, 0, 16);
        if self.reads.pcp && matches!(slot, Slot::Vlan) {
            self.code().set(R1, R0).op(Op::ShiftRight, R1, PRIORITY_SHIFT);
            self.store(Slot::Pcp, R1);
        }
        self.code().op(Op::And, R0, 0x0fff);
        self.store(slot, R0);
        self.read(R0, R4, 2, 16);
        self.code().op(Op::Add, R4, 4);
    }

    fn ipv4(&mut self, graph: Target, later: Later) {
        self.need(R4, 20);
        self.code().load(Width::Byte, R0, R4, 0).set(R1, R0).op(Op::And, R0, 0xf0);
        self.leave(R0, Cond::NotEqual, 0x40, OUT);
        self.code().op(Op::And, R1, 0x0f);
        self.leave(R1, Cond::Below, 5, OUT);
        self.code().op(Op::ShiftLeft, R1, 2);
        self.byte(1, Slot::TrafficClass);
        self.byte(9, Slot::Protocol);
        // A length of 0 says nothing; any other includes the header.
        let [known, fits, portless, unread] = [(); 4].map(|()| self.label());
        self.read(R0, R4, 2, 16);
        self.leave(R0, Cond::NotEqual, 0, Target::To(known));
        self.code().set(R0, u16::MAX as i32);
        self.here(known);
        self.code().jump_if(R0, Cond::AtLeast, R1, fits);
        self.go(OUT);
        self.here(fits);
        self.code().op(Op::Sub, R0, R1);
        self.code().store(Width::Word, R10, Slot::PayloadLen.offset(), R0);
        self.no_transport();
        self.read(R0, R4, 6, 16);
        let (bits, fragment) = match later {
            Later::Unknown => (FRAGMENT, OUT),
            Later::Portless => (FRAGMENT_OFFSET, Target::To(unread)),
        };
        self.leave(R0, Cond::AnyBit, bits, fragment);
        self.unless_ported(portless);
        self.code().load(Width::Word, R0, R10, Slot::PayloadLen.offset());
        self.leave(R0, Cond::Below, 4, OUT);
        self.code().op(Op::Add, R1, R4);
        self.ports();
        self.flags();
        self.go(graph);
        self.here(portless);
        if self.reads.icmp {
            self.need_icmp(unread);
            self.code().op(Op::Add, R1, R4);
            self.icmp();
        }
        self.go(Target::To(unread));
        self.here(unread);
        self.no_ports(graph);
    }

    /// Stores that neither flags nor the type of a message are known.
    fn no_transport(&mut self) {
        if self.reads.tcp_flags {
            self.set(Slot::TcpFlags, NO_FLAGS);
        }
        if self.reads.icmp {
            self.set(Slot::Icmp, NO_ICMP);
        }
    }

    /// Stores the flags of the segment at R1, if it is one of TCP, is as long as to have them, and
    /// a decision reads them.
    fn flags(&mut self) {
        if !self.reads.tcp_flags {
            return;
        }
        let done = self.label();
        self.code().load(Width::Word, R0, R10, Slot::Protocol.offset());
        self.leave(R0, Cond::NotEqual, Protocol::TCP.0.into(), Target::To(done));
        self.code().load(Width::Word, R0, R10, Slot::PayloadLen.offset());
        self.leave(R0, Cond::Below, FLAGS_END as u32, Target::To(done));
        self.need(R1, FLAGS_END);
        self.code().load(Width::Byte, R0, R1, FLAGS_END as i16 - 1);
        self.store(Slot::TcpFlags, R0);
        self.here(done);
    }

    /// Goes to `unread` unless the packet is a message of ICMP with a type and a code.
    fn need_icmp(&mut self, unread: Label) {
        let is_icmp = self.label();
        self.code().load(Width::Word, R0, R10, Slot::Protocol.offset());
        self.leave(R0, Cond::Equal, Protocol::ICMP.0.into(), Target::To(is_icmp));
        self.leave(R0, Cond::NotEqual, Protocol::ICMPV6.0.into(), Target::To(unread));
        self.here(is_icmp);
        self.code().load(Width::Word, R0, R10, Slot::PayloadLen.offset());
        self.leave(R0, Cond::Below, 2, Target::To(unread));
    }

    /// Stores the type and the code of the message at R1.
    fn icmp(&mut self) {
        self.need(R1, 2);
        self.read(R0, R1, 0, 16);
        self.store(Slot::Icmp, R0);
    }

    fn ipv6(&mut self, graph: Target) {
        self.need(R4, 40);
        self.read(R0, R4, 0, 16);
        self.code().set(R1, R0).op(Op::ShiftRight, R1, 12);
        self.leave(R1, Cond::NotEqual, 6, OUT);
        self.code().op(Op::ShiftRight, R0, 4).op(Op::And, R0, 0xff);
        self.store(Slot::TrafficClass, R0);
        self.byte(6, Slot::Protocol);
        for protocol in (0..=u8::MAX).map(Protocol).filter(|protocol| protocol.is_extension()) {
            self.leave(R0, Cond::Equal, protocol.0.into(), OUT);
        }
        self.no_transport();
        if self.reads.tcp_flags || self.reads.icmp {
            self.read(R0, R4, 4, 16);
            self.store(Slot::PayloadLen, R0);
        }
        let [portless, unread] = [self.label(), self.label()];
        self.unless_ported(portless);
        self.read(R0, R4, 4, 16);
        self.leave(R0, Cond::Below, 4, OUT);
        self.code().set(R1, R4).op(Op::Add, R1, 40);
        self.ports();
        self.flags();
        self.go(graph);
        self.here(portless);
        if self.reads.icmp {
            self.need_icmp(unread);
            self.code().set(R1, R4).op(Op::Add, R1, 40);
            self.icmp();
        }
        self.go(Target::To(unread));
        self.here(unread);
        self.no_ports(graph);
    }

    /// Stores the byte at this place of the IP header; it is in R0 as well.
    fn byte(&mut self, at: i16, slot: Slot) {
        self.code().load(Width::Byte, R0, R4, at);
        self.store(slot, R0);
    }

    /// Goes to `portless` if the protocol has no ports.
    fn unless_ported(&mut self, portless: Label) {
        let ported = self.label();
        self.code().load(Width::Word, R0, R10, Slot::Protocol.offset());
        for protocol in PORTED {
            self.leave(R0, Cond::Equal, protocol.0.into(), Target::To(ported));
        }
        self.go(Target::To(portless));
        self.here(ported);
    }

    /// Stores the ports at R1.
    fn ports(&mut self) {
        self.need(R1, 4);
        self.read(R0, R1, 0, 16);
        self.store(Slot::SourcePort, R0);
        self.read(R0, R1, 2, 16);
        self.store(Slot::DestinationPort, R0);
    }

    fn no_ports(&mut self, graph: Target) {
        self.set(Slot::SourcePort, NO_PORT);
        self.set(Slot::DestinationPort, NO_PORT);
        self.go(graph);
    }

    fn graph(&mut self, graph: &Graph, family: Family, start: Label) {
        self.nodes = graph.nodes.iter().map(|_| self.code.label()).collect();
        self.here(start);
        for (place, node) in graph.nodes.iter().enumerate().rev() {
            self.here(self.nodes[place]);
            self.load(node, family);
            self.search(node);
        }
    }

    /// Loads the word of a node into R0.
    fn load(&mut self, node: &Node, family: Family) {
        let (source, destination) = if family == Family::V4 { (12, 16) } else { (8, 24) };
        let at = 4 * node.word as i16;
        let mac_bits = if node.word == 0 { 32 } else { 16 };
        let slot = match node.field {
            Field::Source => return self.read(R0, R4, source + at, 32),
            Field::Destination => return self.read(R0, R4, destination + at, 32),
            Field::SourceMac => return self.read(R0, R2, 6 + at, mac_bits),
            Field::DestinationMac => return self.read(R0, R2, at, mac_bits),
            Field::Length if family == Family::V4 => return self.read(R0, R4, 2, 16),
            Field::Length => return self.read(R0, R4, 4, 16),
            Field::Vlan => Slot::Vlan,
            Field::Pcp => Slot::Pcp,
            Field::TcpFlags => Slot::TcpFlags,
            Field::Icmp => Slot::Icmp,
            Field::VlanInner => Slot::VlanInner,
            Field::EtherType => Slot::EtherType,
            Field::Protocol => Slot::Protocol,
            Field::Dscp | Field::Ecn => Slot::TrafficClass,
            Field::SourcePort => Slot::SourcePort,
            Field::DestinationPort => Slot::DestinationPort,
        };
        self.code().load(Width::Word, R0, R10, slot.offset());
        match node.field {
            Field::Dscp => drop(self.code().op(Op::ShiftRight, R0, 2)),
            Field::Ecn => drop(self.code().op(Op::And, R0, 3)),
            _ => {}
        }
    }

    /// Writes what becomes of the frames of each ring.
    fn end(&mut self, end: End<'_>) {
        let redirect = self.label();
        for (ring, label) in (0..).zip(self.rings) {
            let Some(label) = label else { continue };
            self.here(label);
            match end {
                End::Number => drop(self.code().give(ring)),
                End::Redirect(_) => {
                    self.code().set(R2, ring);
                    self.go(Target::To(redirect));
                }
            }
        }
        if let End::Redirect(sockets) = end {
            self.here(redirect);
            add_queue(self.code(), R2, R6);
            self.code().set_map(R1, sockets).set(R3, XDP_PASS).call(Function::RedirectMap).exit();
        }
    }
}

/// Makes of the number of a ring in `ring` its place in a map of sockets, which has those of one
/// receive queue after those of the other. Uses R5.
pub(crate) fn add_queue(code: &mut Code, ring: Reg, context: Reg) {
    const RECEIVE_QUEUE: i16 = 16;
    const { assert!(super::RINGS_MAX.is_power_of_two(), "the rings of a queue are a shift") };
    let shift = super::RINGS_MAX.trailing_zeros() as i32;
    code.load(Width::Word, R5, context, RECEIVE_QUEUE);
    code.op(Op::ShiftLeft, R5, shift).op(Op::Add, ring, R5);
}

/// Words of the stack.
#[derive(Clone, Copy)]
enum Slot {
    Vlan,
    VlanInner,
    EtherType,
    Protocol,
    TrafficClass,
    SourcePort,
    DestinationPort,
    PayloadLen,
    Pcp,
    TcpFlags,
    Icmp,
}

impl Slot {
    /// Its offset from R10.
    fn offset(self) -> i16 {
        -4 * (self as i16 + 1)
    }
}

const OUT_GOAL: Goal = Goal::Ring(0);
const OUT: Target = Target::Ring(0);
const ETHERNET_LEN: i32 = 14;
/// Where the priority begins in a tag.
const PRIORITY_SHIFT: i32 = 13;
/// Bytes of a TCP header up to its flags.
const FLAGS_END: i32 = 14;
/// Smaller values in an ethertype's place are IEEE 802.3 lengths.
const ETHERTYPE_MIN: u32 = 0x0600;
