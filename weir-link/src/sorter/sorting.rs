//! How one port sorts frames, as data: a forwarder makes it from its policy, and the authority of
//! the port makes programs from it.
//!
//! An authority may be in a process with privileges, which reads no policy and does not trust the
//! forwarder. So this is no program but the decisions of one. Invariant, once [`Sorting::check`]
//! has passed: every way through a graph ends in a ring that the port has. A wrong graph then
//! costs room, for frames are classified again behind the ring.

use serde::{Deserialize, Serialize};

use super::cases::{Family, Field};
use super::graph::{Goal, Graph};
use super::places::Places;
use super::{INSTRUCTIONS_MAX, Later, RINGS_MAX, SortPlan, XdpSorter, cbpf};
use weir_core::classify::InterfaceId;
use weir_host::bpf::{Code, Map};

/// How a port sorts frames into rings before anything can be lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sorting {
    rings: usize,
    later: Later,
    /// As many rules as have room in a classic program, and in one for XDP.
    classic: [Graph; 3],
    xdp: [Graph; 3],
}

impl Sorting {
    /// How a port sorts by a plan; rules name the port by this number.
    pub fn of(plan: &SortPlan, number: InterfaceId) -> Self {
        let (classic, xdp) = (plan.fit_classic(number).0, plan.fit_xdp(number).0);
        Self { rings: plan.rings, later: plan.later, classic, xdp }
    }

    /// How a port sorts whose frames all come by ring 0.
    pub(crate) fn into_one() -> Self {
        let all = || Family::ALL.map(|_| Graph { nodes: Vec::new(), start: Goal::Ring(0) });
        Self { rings: 1, later: Later::Unknown, classic: all(), xdp: all() }
    }

    /// Returns the number of rings, ring 0 included.
    pub fn rings(&self) -> usize {
        self.rings
    }

    /// Returns the program for PACKET_FANOUT_CBPF, whose result is the ring.
    pub fn classic(&self) -> Vec<libc::sock_filter> {
        self.classic_to(&Places::in_order(1))
    }

    /// As [`Sorting::classic`], whose result is the member that has the frame.
    pub(crate) fn classic_to(&self, places: &Places) -> Vec<libc::sock_filter> {
        cbpf::assemble(&self.classic, self.later, places)
    }

    /// Returns the XDP program that hands each frame to the socket of its ring.
    pub fn xdp(&self, sockets: &Map) -> Code {
        XdpSorter { graphs: self.xdp.clone(), later: self.later }.redirect(sockets)
    }

    /// Checks one that another process made.
    ///
    /// # Errors
    /// When no plan leads to such a one; the text says why.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=RINGS_MAX).contains(&self.rings) {
            return Err(format!("{} rings are not 1 to {RINGS_MAX}", self.rings));
        }
        for graphs in [&self.classic, &self.xdp] {
            // Each node and each arm takes an instruction at least.
            let sizes = graphs.iter().flat_map(|graph| &graph.nodes).map(|it| 1 + it.arms.len());
            if sizes.fold(0, usize::saturating_add) > INSTRUCTIONS_MAX {
                return Err("its program would be too long".to_owned());
            }
            for (graph, family) in graphs.iter().zip(Family::ALL) {
                check(graph, family, self.rings)?;
            }
        }
        if self.classic().len() > INSTRUCTIONS_MAX {
            return Err("its program is too long".to_owned());
        }
        Ok(())
    }
}

/// Checks that a graph reads fields of frames of `family`, goes forward, and ends in these rings.
fn check(graph: &Graph, family: Family, rings: usize) -> Result<(), String> {
    let leads = |goal: &Goal, before: usize| match goal {
        Goal::Ring(ring) => usize::from(*ring) < rings,
        Goal::Node(place) => *place < before,
    };
    let is_start = match graph.start {
        Goal::Ring(_) => graph.nodes.is_empty(),
        Goal::Node(place) => Some(place) == graph.nodes.len().checked_sub(1),
    };
    if !is_start || !leads(&graph.start, graph.nodes.len()) {
        return Err("it begins nowhere".to_owned());
    }
    for (place, node) in graph.nodes.iter().enumerate() {
        if !has(family, node.field) || node.word >= node.field.words(family) {
            return Err(format!("frames of {family:?} have no {:?} {}", node.field, node.word));
        }
        let is_apart = node.arms.windows(2).all(|pair| pair[0].1 < pair[1].0);
        let is_range = node.arms.iter().all(|(low, high, _)| low <= high);
        if node.arms.is_empty() || !is_apart || !is_range {
            return Err("its ranges are not in order".to_owned());
        }
        let mut goals = node.arms.iter().map(|arm| &arm.2).chain([&node.otherwise]);
        if !goals.all(|goal| leads(goal, place)) {
            return Err("it leads back, or to a ring that is not there".to_owned());
        }
    }
    Ok(())
}

/// Returns whether a program can read a field of frames of this family.
fn has(family: Family, field: Field) -> bool {
    match field {
        Field::Vlan | Field::VlanInner | Field::Pcp | Field::SourceMac | Field::DestinationMac => {
            true
        }
        Field::EtherType => family == Family::Other,
        Field::Protocol
        | Field::Dscp
        | Field::Ecn
        | Field::Length
        | Field::TcpFlags
        | Field::Icmp
        | Field::SourcePort
        | Field::DestinationPort
        | Field::Source
        | Field::Destination => family != Family::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sorter::graph::Node;
    use serde_json::{Value, json};

    /// Three classes, of which two have a ring of their own.
    fn sorting() -> Sorting {
        let policy = "[link]\nrate = '1 Gbit/s'\nscheduler = 'fifo'\n\
                      [class.web]\nmatch = [{ proto = 'tcp', dport = 443, src = '10.0.0.0/8' }]\n\
                      [class.other]\nmatch = [{ ethertype = '0x88b6' }]\n\
                      [class.rest]\ndefault = true\n";
        let outcome = weir_policy::parse(policy, "p.toml");
        let policy = outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.findings));
        Sorting::of(&SortPlan::of_policy(&policy), InterfaceId(0))
    }

    /// A graph of one node with these goals.
    fn node(field: Field, word: u32, arms: &[(u32, u32, Goal)], otherwise: Goal) -> Graph {
        let node = Node { field, word, arms: arms.to_vec(), otherwise };
        Graph { nodes: vec![node], start: Goal::Node(0) }
    }

    #[test]
    fn what_a_plan_makes_is_sound_and_the_same_after_a_message() {
        let made = sorting();
        assert_eq!(made.check(), Ok(()));
        let text = serde_json::to_string(&made).expect("it has a form in JSON");
        let read: Sorting = serde_json::from_str(&text).expect("it is read as it was written");
        assert_eq!(read.check(), Ok(()));
        let code = |one: &Sorting| -> Vec<_> {
            one.classic().iter().map(|it| (it.code, it.jt, it.jf, it.k)).collect()
        };
        assert_eq!(code(&read), code(&made));
        assert_eq!(read.rings(), 3);
    }

    #[test]
    fn a_graph_that_no_plan_leads_to_is_refused() {
        use Field::{EtherType, Protocol, Source, Vlan};
        let (ring, lost) = (Goal::Ring(1), Goal::Ring(3));
        let one = |goal| [(1, 1, goal)];
        let rows: &[(&str, usize, Graph, &str)] = &[
            ("a sound one", 0, node(Vlan, 0, &one(ring), Goal::Ring(0)), ""),
            ("no such ring", 0, node(Vlan, 0, &one(lost), ring), "ring that is not there"),
            ("no such ring else", 0, node(Vlan, 0, &one(ring), lost), "ring that is not there"),
            ("a start at no ring", 0, Graph { nodes: vec![], start: lost }, "begins nowhere"),
            ("a start at no node", 0, Graph { nodes: vec![], start: Goal::Node(0) }, "nowhere"),
            ("a circle", 0, node(Vlan, 0, &one(Goal::Node(0)), ring), "leads back"),
            ("nodes behind", 0, node(Vlan, 0, &one(ring), Goal::Node(7)), "leads back"),
            ("no arms", 0, node(Vlan, 0, &[], ring), "not in order"),
            ("a range backwards", 0, node(Vlan, 0, &[(2, 1, ring)], ring), "not in order"),
            ("twice", 0, node(Vlan, 0, &[(1, 2, ring), (2, 3, ring)], ring), "not in order"),
            ("a word too far", 0, node(Source, 1, &one(ring), ring), "have no Source 1"),
            ("the last word", 1, node(Source, 3, &one(ring), ring), ""),
            ("behind it", 1, node(Source, 4, &one(ring), ring), "have no Source 4"),
            ("what is not stored", 0, node(EtherType, 0, &one(ring), ring), "no EtherType"),
            ("a header that is not there", 2, node(Protocol, 0, &one(ring), ring), "no Protocol"),
        ];
        for (what, family, graph, expected) in rows {
            for is_xdp in [false, true] {
                let mut sorting = sorting();
                let graphs = if is_xdp { &mut sorting.xdp } else { &mut sorting.classic };
                graphs[*family] = graph.clone();
                let outcome = sorting.check().err().unwrap_or_default();
                assert!(outcome.contains(expected), "{what}: {outcome}");
                assert_eq!(outcome.is_empty(), expected.is_empty(), "{what}: {outcome}");
            }
        }
    }

    #[test]
    fn a_program_has_its_bound() {
        let many: Vec<_> = (0..5000).map(|n| (2 * n, 2 * n, Goal::Ring(1))).collect();
        let mut long = sorting();
        long.xdp[0] = node(Field::Source, 0, &many, Goal::Ring(0));
        assert!(long.check().is_err_and(|why| why.contains("too long")));
        let fewer = &many[..2000];
        let mut long = sorting();
        long.classic[0] = node(Field::Source, 0, fewer, Goal::Ring(0));
        assert!(long.check().is_err_and(|why| why.contains("too long")));
        for rings in [0, RINGS_MAX + 1, usize::MAX] {
            assert!(Sorting { rings, ..sorting() }.check().is_err(), "{rings} rings");
        }
    }

    /// As a forwarder may do that was taken over: each value of the message is another in turn.
    #[test]
    fn a_message_with_any_other_value_is_refused_or_assembles() {
        let sound = serde_json::to_value(sorting()).expect("it has a form in JSON");
        let paths = numbers(&sound, String::new());
        assert!(paths.len() > 20, "{} numbers", paths.len());
        for path in paths {
            for other in [0_u64, 1, 2, 7, 8, 255, 4096, u64::from(u32::MAX), u64::MAX] {
                let mut changed = sound.clone();
                *changed.pointer_mut(&path).expect("it is there") = json!(other);
                let Ok(read) = serde_json::from_value::<Sorting>(changed) else { continue };
                if read.check().is_ok() {
                    assert!(read.classic().len() <= INSTRUCTIONS_MAX, "{path} is {other}");
                    let xdp = XdpSorter { graphs: read.xdp.clone(), later: read.later };
                    assert!(xdp.number().len() <= 2 * INSTRUCTIONS_MAX, "{path} is {other}");
                }
            }
        }
    }

    /// Returns where the numbers of a value are.
    fn numbers(value: &Value, at: String) -> Vec<String> {
        match value {
            Value::Number(_) => vec![at],
            Value::Array(all) => {
                let each = all.iter().enumerate();
                each.flat_map(|(place, one)| numbers(one, format!("{at}/{place}"))).collect()
            }
            Value::Object(all) => {
                let each = all.iter();
                each.flat_map(|(key, one)| numbers(one, format!("{at}/{key}"))).collect()
            }
            _ => Vec::new(),
        }
    }
}
