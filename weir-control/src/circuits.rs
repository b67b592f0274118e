//! Circuits that come and go, as feeds say them and as readers see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The circuits of an answer, unless a reader asks for more or fewer.
pub const CIRCUITS_DEFAULT: u32 = 1000;
/// Bound: circuits of an answer; a query for more is refused.
pub const CIRCUITS_MAX: u32 = 1 << 17;

/// A circuit: what one subscriber has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Circuit {
    /// Identifies it.
    pub id: String,
    /// Its addresses and networks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The plan of the policy that it has.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plan: String,
    /// Where in the tree it is, if the template asks for that.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub site: String,
    /// The session of RADIUS that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
}

/// A session of RADIUS accounting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// The access server: its identifier or address.
    pub server: String,
    /// Its name of the session: Acct-Session-Id.
    pub id: String,
}

/// A line of a feed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FeedLine {
    /// A circuit joins, or is another one from now on.
    Join(Circuit),
    /// The circuit of this id leaves.
    Leave(String),
}

/// The outcome of a feed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fed {
    /// Lines that were followed.
    pub taken: u64,
    /// Lines that were not, of which `faults` has the first.
    pub refused: u64,
    /// The number of a line, from 1, and why it was refused.
    pub faults: Vec<(u64, String)>,
}

/// The circuits of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Circuits {
    /// Where they are heard of: the file, `http` or `radius`.
    pub from: String,
    /// How many are known.
    pub known: u64,
    /// How many of them have a class in each direction.
    pub shaped: u64,
    /// How many wait until the link has made their change.
    pub waiting: u64,
    /// How many cannot have what they should, of which `shown` has the first.
    pub unshaped: u64,
    /// How many left after the time without news that the deployment allows.
    pub expired: u64,
    /// How often an address went from one circuit to another.
    pub moved: u64,
    /// Why the file, or a part of it, is not followed.
    pub faults: Vec<String>,
    /// Hosts in the default class that no circuit has, where that class tells hosts apart.
    pub unknown: Vec<UnknownHost>,
    /// The packets of RADIUS, if that is the source.
    pub radius: Option<RadiusCounts>,
    /// Circuits: first those that are unshaped, then the others.
    pub shown: Vec<CircuitStatus>,
}

/// One circuit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CircuitStatus {
    /// The name of its class.
    pub class: String,
    /// The circuit.
    pub circuit: Circuit,
    /// Why it has not what it should.
    pub fault: Option<String>,
    /// How long ago it was heard of, in seconds.
    pub heard_s: u64,
}

/// A host in the default class that no circuit has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownHost {
    /// The direction.
    pub direction: String,
    /// Its address.
    pub address: String,
    /// Bytes that were sent from it or to it.
    pub bytes: u64,
}

/// Counts of the packets of RADIUS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RadiusCounts {
    /// Packets that arrived.
    pub received: u64,
    /// Packets that were answered.
    pub answered: u64,
    /// Packets that came again, and were answered as before.
    pub repeated: u64,
    /// Packets from addresses that are no clients'.
    pub foreign: u64,
    /// Packets beyond the rate of one client.
    pub limited: u64,
    /// Packets that are no RADIUS accounting.
    pub malformed: u64,
    /// Packets whose authenticator is wrong.
    pub insecure: u64,
    /// Packets of circuits that cannot be known, such as one without an address.
    pub refused: u64,
    /// Ends of sessions in whose place there is another one, or none.
    pub stale: u64,
}

impl Circuits {
    /// Has something done to each text in it.
    pub fn each_text(&mut self, change: &mut impl FnMut(&mut String)) {
        change(&mut self.from);
        self.faults.iter_mut().for_each(&mut *change);
        for host in &mut self.unknown {
            [&mut host.direction, &mut host.address].into_iter().for_each(&mut *change);
        }
        for one in &mut self.shown {
            let Circuit { id, addresses, plan, site, session } = &mut one.circuit;
            let session = session.iter_mut().flat_map(|it| [&mut it.server, &mut it.id]);
            let own = [&mut one.class, id, plan, site].into_iter();
            own.chain(addresses).chain(session).chain(&mut one.fault).for_each(&mut *change);
        }
    }
}
