//! The sorter as a classic BPF program, for PACKET_FANOUT_CBPF of AF_PACKET sockets.
//!
//! A fanout group runs its program where the packet begins at the network header [`af_packet.c`,
//! `packet_rcv_fanout` does not push the link header back], so offsets count from behind the
//! Ethernet header, and the header itself is read at SKF_LL_OFF. The kernel has removed the outer
//! tag and gives it as metadata; tags behind it are in the packet. A load beyond the packet ends
//! the program with 0, which is ring 0 as well.
//!
//! The prologue stores what the rules test in scratch memory and leaves in X where the IP header
//! begins; frames that are not plain go to ring 0 at once. Then comes a [`Graph`] for each family.
//! Where ring 0 has several shares, the frames of it that are plain IP go on to a hash of their
//! flow, which chooses a share; all others, and fragments, go to share 0.
//! Jumps of classic BPF reach 255 instructions; for a longer one, a `ja` or `ret` follows the jump.

use weir_core::packet::{EtherType, Protocol};

use super::cases::{Family, Field, NO_FLAGS, NO_ICMP, NO_PCP, NO_PORT, NO_TAG};
use super::graph::{Goal, Graph, Node, Reads};
use super::places::Places;
use super::search::{Branches, Test};
use super::{FRAGMENT, FRAGMENT_OFFSET, Later, PORTED, UNSEEN};
use weir_host::uapi::classic::*;

/// Returns the program, whatever its length, for a group whose members have these places.
pub(super) fn assemble(
    graphs: &[Graph; 3],
    later: Later,
    places: &Places,
) -> Vec<libc::sock_filter> {
    let mut code = Code { reads: Reads::of(graphs), ..Code::default() };
    if graphs.iter().all(|graph| graph.start == Goal::Ring(0)) && !places.are_spread() {
        return vec![statement(RETURN, places.rings[0].into())];
    }
    let mut starts = [OUT; 3];
    for ((family, graph), start) in Family::ALL.into_iter().zip(graphs).zip(&mut starts) {
        let spreads = places.are_spread() && family != Family::Other;
        let spread = if spreads { Target::To(code.label()) } else { OUT };
        code.spreads.push(spread);
        *start = code.start(graph, family);
    }
    code.prologue(starts, later);
    for (family, graph) in Family::ALL.into_iter().zip(graphs) {
        code.graph(graph, family);
        if let Target::To(label) = code.spreads[family as usize] {
            code.here(label);
            code.spread(family, places);
        }
    }
    code.finish(places)
}

/// A place in the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Label(usize);

type Target = super::search::Target<Label>;

const OUT: Target = Target::Ring(0);

enum Item {
    Plain(libc::sock_filter),
    Jump { test: u16, number: u32, yes: Target, no: Target },
    Go(Target),
    Here(Label),
}

/// A program in the making.
#[derive(Default)]
struct Code {
    items: Vec<Item>,
    labels: usize,
    /// The labels of the nodes of the graph that is written.
    nodes: Vec<Label>,
    /// The label of each graph's first node.
    starts: Vec<Label>,
    reads: Reads,
    /// For each family, where its frames of ring 0 go.
    spreads: Vec<Target>,
    /// The family of the graph that is written.
    family: usize,
}

impl Branches for Code {
    type Label = Label;

    fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    fn here(&mut self, label: Label) {
        self.items.push(Item::Here(label));
    }

    fn jump(&mut self, test: Test, number: u32, yes: Target, no: Target) {
        let test = match test {
            Test::Equal => JUMP_EQUAL,
            Test::Above => JUMP_ABOVE,
            Test::AtLeast => JUMP_AT_LEAST,
        };
        self.jump_by(test, number, yes, no);
    }

    fn target(&mut self, goal: Goal) -> Target {
        match goal {
            Goal::Ring(0) => self.spreads[self.family],
            Goal::Ring(ring) => Target::Ring(ring),
            Goal::Node(place) => Target::To(self.nodes[place]),
        }
    }
}

impl Code {
    fn op(&mut self, code: u16, number: u32) {
        self.items.push(Item::Plain(statement(code, number)));
    }

    fn jump_by(&mut self, test: u16, number: u32, yes: Target, no: Target) {
        self.items.push(Item::Jump { test, number, yes, no });
    }

    /// Goes on where A is `number`, else to `no`; and so for other tests.
    fn need(&mut self, test: u16, number: u32, no: Target) {
        let on = self.label();
        self.jump_by(test, number, Target::To(on), no);
        self.here(on);
    }

    /// Leaves for `yes` if the test succeeds.
    fn leave(&mut self, test: u16, number: u32, yes: Target) {
        let on = self.label();
        self.jump_by(test, number, yes, Target::To(on));
        self.here(on);
    }

    fn set(&mut self, slot: Slot, number: u32) {
        self.op(LOAD_NUMBER, number);
        self.op(STORE, slot as u32);
    }

    fn start(&mut self, graph: &Graph, family: Family) -> Target {
        let label = self.label();
        self.starts.push(label);
        match graph.start {
            Goal::Ring(0) => self.spreads[family as usize],
            Goal::Ring(ring) => Target::Ring(ring),
            Goal::Node(_) => Target::To(label),
        }
    }

    fn prologue(&mut self, [v4, v6, other]: [Target; 3], later: Later) {
        self.op(LOAD_WORD, PACKET_TYPE);
        self.leave(JUMP_EQUAL, libc::PACKET_OUTGOING.into(), OUT);
        self.set(Slot::VlanInner, NO_TAG);
        if self.reads.pcp {
            self.set(Slot::Pcp, NO_PCP);
        }
        self.tags();
        // Stored on every path, since the kernel checks that what is loaded was stored.
        self.op(STORE, Slot::EtherType as u32);
        let [is_v4, is_v6] = [self.label(), self.label()];
        let unless_out = |graph, label| if graph == OUT { OUT } else { Target::To(label) };
        self.leave(JUMP_EQUAL, EtherType::IPV4.0.into(), unless_out(v4, is_v4));
        self.leave(JUMP_EQUAL, EtherType::IPV6.0.into(), unless_out(v6, is_v6));
        self.need(JUMP_AT_LEAST, ETHERTYPE_MIN, OUT);
        for kind in UNSEEN {
            self.leave(JUMP_EQUAL, kind.0.into(), OUT);
        }
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

    /// Reads at most two tags; leaves the ethertype in A and where the packet begins in X.
    fn tags(&mut self) {
        let [stripped, in_band, done] = [(); 3].map(|()| self.label());
        self.op(LOAD_X, 0);
        self.op(LOAD_WORD, VLAN_TAG_PRESENT);
        self.jump_by(JUMP_EQUAL, 0, Target::To(in_band), Target::To(stripped));

        self.here(stripped);
        self.op(LOAD_WORD, VLAN_TAG);
        self.op(AND, VLAN_MASK);
        self.op(STORE, Slot::Vlan as u32);
        self.priority(LOAD_WORD, VLAN_TAG);
        self.op(LOAD_HALF, LINK + 12);
        self.unless_tag(done);
        self.tag(0, Slot::VlanInner);
        self.go(Target::To(done));

        self.here(in_band);
        self.set(Slot::Vlan, NO_TAG);
        self.op(LOAD_HALF, LINK + 12);
        self.unless_tag(done);
        self.priority(LOAD_HALF, 0);
        self.tag(0, Slot::Vlan);
        self.unless_tag(done);
        self.tag(4, Slot::VlanInner);
        self.here(done);
    }

    /// Stores the priority of the tag that this loads, if a decision reads it; A is lost.
    fn priority(&mut self, load: u16, at: u32) {
        if self.reads.pcp {
            self.op(load, at);
            self.op(SHIFT_RIGHT, PRIORITY_SHIFT);
            self.op(STORE, Slot::Pcp as u32);
        }
    }

    /// Goes to `done` if A is no ethertype of a tag.
    fn unless_tag(&mut self, done: Label) {
        let is_tag = self.label();
        for kind in [EtherType::VLAN, EtherType::VLAN_SERVICE] {
            self.leave(JUMP_EQUAL, kind.0.into(), Target::To(is_tag));
        }
        self.need(JUMP_EQUAL, EtherType::VLAN_OLD.0.into(), Target::To(done));
        self.here(is_tag);
    }

    /// Stores the VLAN of the tag at `at`; leaves the ethertype behind it in A and its end in X.
    fn tag(&mut self, at: u32, slot: Slot) {
        self.op(LOAD_HALF, at);
        self.op(AND, VLAN_MASK);
        self.op(STORE, slot as u32);
        self.op(LOAD_X, at + 4);
        self.op(LOAD_HALF, at + 2);
    }

    fn ipv4(&mut self, graph: Target, later: Later) {
        // The whole header is there: a load beyond the packet would end the program.
        self.op(LOAD_WORD_X, 16);
        self.op(LOAD_BYTE_X, 0);
        self.op(AND, 0xf0);
        self.need(JUMP_EQUAL, 0x40, OUT);
        self.op(LOAD_BYTE_X, 0);
        self.op(AND, 0x0f);
        self.need(JUMP_AT_LEAST, 5, OUT);
        self.op(SHIFT_LEFT, 2);
        self.op(STORE, Slot::HeaderLen as u32);
        self.op(LOAD_BYTE_X, 1);
        self.op(STORE, Slot::TrafficClass as u32);
        self.op(LOAD_BYTE_X, 9);
        self.op(STORE, Slot::Protocol as u32);
        self.ipv4_lengths();
        self.no_transport();
        let [portless, unread] = [self.label(), self.label()];
        self.op(LOAD_HALF_X, 6);
        match later {
            Later::Unknown => self.leave(JUMP_ANY_BIT, FRAGMENT, OUT),
            Later::Portless => self.leave(JUMP_ANY_BIT, FRAGMENT_OFFSET, Target::To(unread)),
        }
        self.unless_ported(portless);
        self.op(LOAD_SLOT, Slot::PayloadLen as u32);
        self.need(JUMP_AT_LEAST, 4, OUT);
        self.behind_ipv4();
        self.ports(0);
        self.flags((LOAD_SLOT, Slot::PayloadLen as u32), 0);
        self.op(LOAD_X_SLOT, Slot::Network as u32);
        self.go(graph);
        self.here(portless);
        if self.reads.icmp {
            self.need_icmp((LOAD_SLOT, Slot::PayloadLen as u32), unread);
            self.behind_ipv4();
            self.op(LOAD_HALF_X, 0);
            self.op(STORE, Slot::Icmp as u32);
            self.op(LOAD_X_SLOT, Slot::Network as u32);
        }
        self.here(unread);
        self.no_ports(graph);
    }

    /// Moves X from the header of IPv4 to what is behind it.
    fn behind_ipv4(&mut self) {
        self.op(LOAD_SLOT, Slot::HeaderLen as u32);
        self.op(ADD_X, 0);
        self.op(KEEP_X, 0);
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

    /// Stores the flags of a segment at `at` from X, if it is one of TCP, is as long as to have
    /// them, and a decision reads them; `length` loads its length.
    fn flags(&mut self, (length, slot): (u16, u32), at: u32) {
        if !self.reads.tcp_flags {
            return;
        }
        let done = self.label();
        self.op(LOAD_SLOT, Slot::Protocol as u32);
        self.need(JUMP_EQUAL, Protocol::TCP.0.into(), Target::To(done));
        self.op(length, slot);
        self.need(JUMP_AT_LEAST, FLAGS_END, Target::To(done));
        self.op(LOAD_BYTE_X, at + FLAGS_END - 1);
        self.op(STORE, Slot::TcpFlags as u32);
        self.here(done);
    }

    /// Goes to `unread` unless the packet is a message of ICMP with a type and a code; `length`
    /// loads the length of the message.
    fn need_icmp(&mut self, (length, slot): (u16, u32), unread: Label) {
        let is_icmp = self.label();
        self.op(LOAD_SLOT, Slot::Protocol as u32);
        self.leave(JUMP_EQUAL, Protocol::ICMP.0.into(), Target::To(is_icmp));
        self.need(JUMP_EQUAL, Protocol::ICMPV6.0.into(), Target::To(unread));
        self.here(is_icmp);
        self.op(length, slot);
        self.need(JUMP_AT_LEAST, 2, Target::To(unread));
    }

    /// Stores how many bytes behind the header belong to the packet; a length of 0 says nothing.
    fn ipv4_lengths(&mut self) {
        let [unknown, known] = [self.label(), self.label()];
        self.op(SAVE_X, 0);
        self.op(STORE, Slot::Network as u32);
        self.op(LOAD_HALF_X, 2);
        self.leave(JUMP_EQUAL, 0, Target::To(unknown));
        self.op(LOAD_X_SLOT, Slot::HeaderLen as u32);
        self.need(JUMP_AT_LEAST_X, 0, OUT);
        self.op(SUBTRACT_X, 0);
        self.go(Target::To(known));
        self.here(unknown);
        self.op(LOAD_NUMBER, u32::from(u16::MAX));
        self.here(known);
        self.op(STORE, Slot::PayloadLen as u32);
        self.op(LOAD_X_SLOT, Slot::Network as u32);
    }

    fn ipv6(&mut self, graph: Target) {
        self.op(SAVE_X, 0);
        self.op(STORE, Slot::Network as u32);
        self.op(LOAD_WORD_X, 36);
        self.op(LOAD_BYTE_X, 0);
        self.op(AND, 0xf0);
        self.need(JUMP_EQUAL, 0x60, OUT);
        self.op(LOAD_HALF_X, 0);
        self.op(SHIFT_RIGHT, 4);
        self.op(AND, 0xff);
        self.op(STORE, Slot::TrafficClass as u32);
        self.op(LOAD_BYTE_X, 6);
        self.op(STORE, Slot::Protocol as u32);
        for protocol in (0..=u8::MAX).map(Protocol).filter(|protocol| protocol.is_extension()) {
            self.leave(JUMP_EQUAL, protocol.0.into(), OUT);
        }
        self.no_transport();
        let [portless, unread] = [self.label(), self.label()];
        self.unless_ported(portless);
        self.op(LOAD_HALF_X, 4);
        self.need(JUMP_AT_LEAST, 4, OUT);
        self.ports(40);
        self.flags((LOAD_HALF_X, 4), 40);
        self.go(graph);
        self.here(portless);
        if self.reads.icmp {
            self.need_icmp((LOAD_HALF_X, 4), unread);
            self.op(LOAD_HALF_X, 40);
            self.op(STORE, Slot::Icmp as u32);
        }
        self.here(unread);
        self.no_ports(graph);
    }

    /// Goes to `portless` if the protocol has no ports.
    fn unless_ported(&mut self, portless: Label) {
        let ported = self.label();
        self.op(LOAD_SLOT, Slot::Protocol as u32);
        for protocol in PORTED {
            self.leave(JUMP_EQUAL, protocol.0.into(), Target::To(ported));
        }
        self.go(Target::To(portless));
        self.here(ported);
    }

    fn ports(&mut self, at: u32) {
        self.op(LOAD_HALF_X, at);
        self.op(STORE, Slot::SourcePort as u32);
        self.op(LOAD_HALF_X, at + 2);
        self.op(STORE, Slot::DestinationPort as u32);
    }

    fn no_ports(&mut self, graph: Target) {
        self.op(LOAD_NUMBER, NO_PORT);
        self.op(STORE, Slot::SourcePort as u32);
        self.op(STORE, Slot::DestinationPort as u32);
        self.go(graph);
    }

    fn go(&mut self, target: Target) {
        self.items.push(Item::Go(target));
    }

    fn graph(&mut self, graph: &Graph, family: Family) {
        self.nodes = graph.nodes.iter().map(|_| self.label()).collect();
        self.here(self.starts[family as usize]);
        self.family = family as usize;
        for (place, node) in graph.nodes.iter().enumerate().rev() {
            self.here(self.nodes[place]);
            self.load(node, family);
            self.search(node);
        }
    }

    /// Loads the word of a node into A.
    fn load(&mut self, node: &Node, family: Family) {
        let slot = |slot: Slot| (LOAD_SLOT, slot as u32);
        let (source, destination) = if family == Family::V4 { (12, 16) } else { (8, 24) };
        let length = if family == Family::V4 { 2 } else { 4 };
        let mac = if node.word == 0 { LOAD_WORD } else { LOAD_HALF };
        let (code, number) = match node.field {
            Field::Vlan => slot(Slot::Vlan),
            Field::VlanInner => slot(Slot::VlanInner),
            Field::Pcp => slot(Slot::Pcp),
            Field::TcpFlags => slot(Slot::TcpFlags),
            Field::Icmp => slot(Slot::Icmp),
            Field::Length => (LOAD_HALF_X, length),
            Field::EtherType => slot(Slot::EtherType),
            Field::Protocol => slot(Slot::Protocol),
            Field::Dscp | Field::Ecn => slot(Slot::TrafficClass),
            Field::SourcePort => slot(Slot::SourcePort),
            Field::DestinationPort => slot(Slot::DestinationPort),
            Field::SourceMac => (mac, LINK + 6 + 4 * node.word),
            Field::DestinationMac => (mac, LINK + 4 * node.word),
            Field::Source => (LOAD_WORD_X, source + 4 * node.word),
            Field::Destination => (LOAD_WORD_X, destination + 4 * node.word),
        };
        self.op(code, number);
        match node.field {
            Field::Dscp => self.op(SHIFT_RIGHT, 2),
            Field::Ecn => self.op(AND, 3),
            _ => {}
        }
    }

    /// Chooses the share of a frame by its addresses, protocol and ports.
    fn spread(&mut self, family: Family, places: &Places) {
        let words = match family {
            Family::V4 => {
                // Those behind the first have no ports, and all go the same way.
                self.op(LOAD_HALF_X, 6);
                self.leave(JUMP_ANY_BIT, FRAGMENT, OUT);
                12..20
            }
            _ => 8..40,
        };
        self.set(Slot::Hash, 0);
        for at in words.step_by(4) {
            self.op(LOAD_WORD_X, at);
            self.mix();
        }
        for slot in [Slot::Protocol, Slot::SourcePort, Slot::DestinationPort] {
            self.op(LOAD_SLOT, slot as u32);
            self.mix();
        }
        // The highest bits depend on all that went in.
        self.op(SHIFT_RIGHT, 16);
        self.op(MODULO, 1 + places.others.len() as u32);
        for (share, place) in (0..).zip(places.of_shares()) {
            let next = self.label();
            self.need(JUMP_EQUAL, share, Target::To(next));
            self.op(RETURN, place.into());
            self.here(next);
        }
        self.go(OUT);
    }

    /// Mixes A into the hash, which is in A afterwards.
    fn mix(&mut self) {
        self.op(LOAD_X_SLOT, Slot::Hash as u32);
        self.op(XOR_X, 0);
        self.op(MULTIPLY, SPREADING);
        self.op(STORE, Slot::Hash as u32);
        self.op(LOAD_X_SLOT, Slot::Network as u32);
    }

    /// Resolves labels, and rings to their members. A jump that is too long gets an instruction
    /// behind it that goes on; since that moves others, this is repeated until no jump is too long.
    fn finish(self, members: &Places) -> Vec<libc::sock_filter> {
        let mut long = vec![(false, false); self.items.len()];
        loop {
            let (places, _) = self.places(&long);
            let mut grown = false;
            let mut at = 0;
            for (item, long) in self.items.iter().zip(&mut long) {
                if let Item::Jump { yes, no, .. } = item {
                    let near = |target| near(target, at, &places).is_some();
                    let now = (long.0 || !near(*yes), long.1 || !near(*no));
                    grown |= now != *long;
                    *long = now;
                }
                at += len(item, *long);
            }
            if !grown {
                return self.write(&long, members);
            }
        }
    }

    /// Returns where each label stands, and the length of the program.
    fn places(&self, long: &[(bool, bool)]) -> (Vec<usize>, usize) {
        let mut places = vec![0; self.labels];
        let mut at = 0;
        for (item, long) in self.items.iter().zip(long) {
            if let Item::Here(label) = item {
                places[label.0] = at;
            }
            at += len(item, *long);
        }
        (places, at)
    }

    fn write(&self, long: &[(bool, bool)], members: &Places) -> Vec<libc::sock_filter> {
        let far = |target, at, places: &[usize]| far(target, at, places, members);
        let (places, len) = self.places(long);
        let mut code = Vec::with_capacity(len);
        for (item, &(yes_long, no_long)) in self.items.iter().zip(long) {
            match *item {
                Item::Here(_) => {}
                Item::Plain(statement) => code.push(statement),
                Item::Go(target) => code.push(far(target, code.len(), &places)),
                Item::Jump { test, number, yes, no } => {
                    let at = code.len();
                    let offset = |target, long, behind: usize| match long {
                        true => behind as u8,
                        false => near(target, at, &places).expect("it is not long"),
                    };
                    let jt = offset(yes, yes_long, 0);
                    let jf = offset(no, no_long, usize::from(yes_long));
                    code.push(libc::sock_filter { code: test, jt, jf, k: number });
                    for target in [(yes, yes_long), (no, no_long)] {
                        if let (target, true) = target {
                            code.push(far(target, code.len(), &places));
                        }
                    }
                }
            }
        }
        code
    }
}

/// Returns the offset of a jump at `at`, if it has room in eight bits.
fn near(target: Target, at: usize, places: &[usize]) -> Option<u8> {
    let Target::To(label) = target else { return None };
    // Below for a moment only, while other jumps still grow.
    u8::try_from(places[label.0].checked_sub(at + 1)?).ok()
}

/// Returns the instruction at `at` that goes to a target however far it is.
fn far(target: Target, at: usize, places: &[usize], members: &Places) -> libc::sock_filter {
    match target {
        Target::Ring(ring) => statement(RETURN, members.rings[usize::from(ring)].into()),
        Target::To(label) => statement(JUMP, (places[label.0] - at - 1) as u32),
    }
}

fn len(item: &Item, (yes_long, no_long): (bool, bool)) -> usize {
    match item {
        Item::Here(_) => 0,
        Item::Plain(_) | Item::Go(_) => 1,
        Item::Jump { .. } => 1 + usize::from(yes_long) + usize::from(no_long),
    }
}

const fn statement(code: u16, number: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k: number }
}

/// Words of scratch memory.
#[derive(Clone, Copy)]
enum Slot {
    Vlan,
    VlanInner,
    EtherType,
    Protocol,
    TrafficClass,
    SourcePort,
    DestinationPort,
    HeaderLen,
    PayloadLen,
    Network,
    Pcp,
    TcpFlags,
    Icmp,
    Hash,
}

/// The golden ratio of 2^32, made odd: neighbouring numbers come far apart.
const SPREADING: u32 = 0x9e37_79b1;

const VLAN_MASK: u32 = 0x0fff;
/// Where the priority begins in a tag.
const PRIORITY_SHIFT: u32 = 13;
/// Bytes of a TCP header up to its flags.
const FLAGS_END: u32 = 14;
/// Smaller values in an ethertype's place are IEEE 802.3 lengths.
const ETHERTYPE_MIN: u32 = 0x0600;
