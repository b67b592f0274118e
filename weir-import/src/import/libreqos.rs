//! Imports LibreQoS's own files: the circuits of `ShapedDevices.csv` and the sites and access
//! points of `network.json`. One policy for each direction: a class of `htb` a node and a circuit,
//! whose addresses lead to it.
//!
//! Rates are kept as they are: LibreQoS sells more than there is, and so may a policy that says
//! `oversubscribe`.

use super::lines::{LineId, Reading};
use super::sketch::{Class, Rule, Sketch, quoted, rate_value};
use super::words::{decimal, scaled};
use super::{Language, Options};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::net::IpAddr;
use weir_policy::codes;
use weir_policy::csv::{self, Records};
use weir_policy::finding::{Draft, Span};

pub(super) const LANGUAGE: Language = Language {
    name: "libreqos",
    summary: "LibreQoS's ShapedDevices.csv, with the network.json beside it",
    read,
};

/// A direction: what its policy is called, and which values are its own.
struct Direction {
    name: &'static str,
    /// The key of a rule with the subscriber's addresses.
    address: &'static str,
    least: &'static str,
    most: &'static str,
    /// The keys of a node.
    node: [&'static str; 2],
}

/// A site or an access point.
struct Node {
    name: String,
    id: Option<String>,
    parent: Option<usize>,
    /// The rates of [`DIRECTIONS`] in bit/s; none where the file says none.
    rates: [Option<u64>; 2],
}

/// A subscriber with the addresses of all its devices.
struct Circuit {
    id: String,
    line: LineId,
    parent: Option<usize>,
    addresses: Vec<String>,
    /// The least and the most rate of each of [`DIRECTIONS`] in bit/s.
    rates: [(u64, u64); 2],
    /// The queue that `sqm` names.
    queue: Option<String>,
}

/// The contents of both files.
#[derive(Default)]
struct Network {
    nodes: Vec<Node>,
    circuits: Vec<Circuit>,
    /// The numbers of circuits by their identifier, and of nodes by their name and by theirs: the
    /// first of each.
    by_id: BTreeMap<String, usize>,
    nodes_by_name: BTreeMap<String, usize>,
    nodes_by_id: BTreeMap<String, usize>,
    /// The circuit of each address.
    owners: BTreeMap<String, String>,
    /// The statement that notes about all circuits belong to.
    head: Option<LineId>,
}

fn read(text: &str, options: &Options, reading: &mut Reading) -> Vec<Sketch> {
    let mut network = Network::default();
    let is_tree = text.trim_start().starts_with('{');
    let tree = if is_tree { Some(text) } else { options.network.as_deref() };
    if let Some(tree) = tree {
        network.tree(tree, is_tree, reading);
    }
    if !is_tree {
        network.devices(text, reading);
    }
    let rated = |node: &Node| node.rates.iter().any(Option::is_some);
    let has_any = match is_tree {
        true => network.nodes.iter().any(rated),
        false => !network.circuits.is_empty(),
    };
    let head = network.head.filter(|_| has_any && !reading.report.failed());
    let Some(head) = head else { return Vec::new() };
    if is_tree {
        let note = "its circuits are in ShapedDevices.csv: import that file, with this one beside \
                    it";
        reading.approximated(head, note);
    }
    let each = |at: usize| network.sketch(at, head, options, reading);
    (0..DIRECTIONS.len()).map(each).collect()
}

impl Network {
    /// Reads `network.json`; `alone` if it is the file that findings point into.
    fn tree(&mut self, text: &str, alone: bool, reading: &mut Reading) {
        let whole = Span { start: 0, end: if alone { text.trim_end().len() } else { 0 } };
        match serde_json::from_str(text) {
            Ok(Value::Object(tree)) => {
                if alone {
                    self.head = Some(reading.line(whole));
                }
                self.children(&tree, None, 0);
            }
            _ => {
                let message = "network.json is not an object of nodes in JSON";
                let draft = Draft::new(&codes::BAD_IMPORT_VALUE, Span::default(), message);
                reading.report.push(draft.cure("give the file that LibreQoS itself reads"));
            }
        }
    }

    fn children(&mut self, nodes: &Map<String, Value>, parent: Option<usize>, depth: usize) {
        for (name, value) in nodes {
            let Some(node) = value.as_object() else { continue };
            if depth >= DEPTH_MAX || self.nodes.len() >= NODES_MAX {
                return;
            }
            // A virtual node groups others on the map, and shapes nothing.
            let shapes = node.get("virtual").and_then(Value::as_bool) != Some(true);
            let mut above = parent;
            if shapes {
                let rate = |at: usize| {
                    let value = DIRECTIONS[at].node.iter().find_map(|key| node.get(*key))?;
                    megabits(&value.to_string()).filter(|rate| *rate > 0)
                };
                let id = node.get("id").and_then(Value::as_str).map(str::to_owned);
                let rates = [rate(0), rate(1)];
                above = Some(self.add_node(Node { name: name.clone(), id, parent, rates }));
            }
            if let Some(inner) = node.get("children").and_then(Value::as_object) {
                self.children(inner, above, depth + 1);
            }
        }
    }

    /// Reads `ShapedDevices.csv`.
    fn devices(&mut self, text: &str, reading: &mut Reading) {
        let mut header: Option<Vec<String>> = None;
        for record in Records::new(text) {
            let record = match record {
                Ok(record) => record,
                Err(fault) => {
                    let draft = Draft::new(fault.code, fault.span, fault.message);
                    reading.report.push(draft.cure(fault.cure));
                    continue;
                }
            };
            let line = reading.line(record.span);
            let cells: Vec<&str> = record.cells.iter().map(|cell| cell.0.as_ref()).collect();
            if header.is_none() && cells.first().is_some_and(|cell| cell.contains("Circuit ID")) {
                self.head = Some(line);
                header = Some(cells.iter().map(|&cell| cell.to_owned()).collect());
                continue;
            }
            self.head.get_or_insert(line);
            let names = names(header.as_deref(), cells.len());
            let Some(names) = names else {
                reading.lost(line, format!("a row of {} cells is none of LibreQoS", cells.len()));
                continue;
            };
            let row: BTreeMap<&str, &str> = names.into_iter().zip(cells).collect();
            self.device(&row, line, reading);
        }
    }

    /// Reads a row: a device of a circuit.
    fn device(&mut self, row: &BTreeMap<&str, &str>, line: LineId, reading: &mut Reading) {
        let cell = |name: &str| row.get(name).copied().unwrap_or_default().trim();
        let rate = |name: &str| megabits(cell(name));
        let mut rates = [(0, 0); 2];
        for (at, direction) in DIRECTIONS.iter().enumerate() {
            let (least, most) = (rate(direction.least), rate(direction.most));
            let Some((least, most)) = least.zip(most).filter(|row| row.1 > 0) else {
                let why = format!(
                    "`{}` and `{}` are not two rates in Mbit/s",
                    direction.least, direction.most
                );
                return reading.lost(line, why);
            };
            rates[at] = (least.clamp(1, most), most);
        }
        let mut addresses = Vec::new();
        let id = cell("Circuit ID").to_owned();
        for name in ["IPv4", "IPv6"] {
            for text in cell(name).split([',', ';', ' ']).filter(|part| !part.is_empty()) {
                self.address(text, &id, &mut addresses, (line, reading));
            }
        }
        if let Some(&known) = self.by_id.get(&id) {
            let circuit = &mut self.circuits[known];
            circuit.addresses.extend(addresses);
            if circuit.rates != rates {
                let note = "the circuit keeps the rates of its first row";
                reading.approximated(line, note);
            }
            return;
        }
        if addresses.is_empty() {
            return reading.lost(line, "it has no address of its own, so no packet leads to it");
        }
        let parent = self.parent([cell("Parent Node"), cell("Parent Node ID")], line, reading);
        let queue = Some(cell("sqm").to_owned()).filter(|text| !text.is_empty());
        self.by_id.insert(id.clone(), self.circuits.len());
        self.circuits.push(Circuit { id, line, parent, addresses, rates, queue });
    }

    fn address(
        &mut self,
        text: &str,
        id: &str,
        addresses: &mut Vec<String>,
        (line, reading): (LineId, &mut Reading),
    ) {
        let (host, length) = text.split_once('/').unwrap_or((text, ""));
        let most = |host: &IpAddr| if host.is_ipv4() { 32 } else { 128 };
        let fits = |host: &IpAddr| {
            length.is_empty() || length.parse::<u32>().is_ok_and(|length| length <= most(host))
        };
        if !host.parse::<IpAddr>().is_ok_and(|host| fits(&host)) {
            let shown: String = text.chars().take(SHOWN_MAX).collect();
            return reading.approximated(line, format!("`{shown}` is no address: left out"));
        }
        match self.owners.get(text) {
            Some(other) if other == id => {}
            Some(other) => {
                let note = format!("{text} belongs to circuit `{other}` already: left out");
                reading.approximated(line, note);
            }
            None => {
                self.owners.insert(text.to_owned(), id.to_owned());
                addresses.push(text.to_owned());
            }
        }
    }

    /// Returns the node of this name or identifier; makes one that network.json lacks.
    fn parent(
        &mut self,
        [name, id]: [&str; 2],
        line: LineId,
        reading: &mut Reading,
    ) -> Option<usize> {
        let by_id = self.nodes_by_id.get(id).filter(|_| !id.is_empty());
        if let Some(at) = self.nodes_by_name.get(name).into_iter().chain(by_id).min() {
            return Some(*at);
        }
        if name.is_empty() || name == "none" {
            return None;
        }
        let note = format!("no network.json has node `{name}`: its class may use the whole link");
        reading.approximated(line, note);
        let name = name.to_owned();
        Some(self.add_node(Node { name, id: None, parent: None, rates: [None; 2] }))
    }

    /// Adds a node; returns its number.
    fn add_node(&mut self, node: Node) -> usize {
        let at = self.nodes.len();
        self.nodes_by_name.entry(node.name.clone()).or_insert(at);
        if let Some(id) = &node.id {
            self.nodes_by_id.entry(id.clone()).or_insert(at);
        }
        self.nodes.push(node);
        at
    }

    fn sketch(
        &self,
        direction: usize,
        head: LineId,
        options: &Options,
        reading: &mut Reading,
    ) -> Sketch {
        let Direction { name, address, .. } = DIRECTIONS[direction];
        let mut sketch = Sketch::new(name, reading.span(head));
        sketch.scheduler = "htb";
        sketch.oversubscribed = true;
        sketch.rate_or(options, head, reading);
        let link = sketch.rate;
        for node in &self.nodes {
            let mut class = Class::new(node.name.clone(), node.parent, head);
            let above = node.parent.and_then(|at| sketch.classes[at].rate).unwrap_or(link);
            let rate = node.rates[direction].map_or(above, |rate| rate.min(above));
            class.rate = Some(rate);
            class.leaf_keys.push(("prio", PRIO.to_string()));
            sketch.classes.push(class);
        }
        for (at, circuit) in self.circuits.iter().enumerate() {
            let mut class =
                Class::new(format!("circuit-{}", circuit.id), circuit.parent, circuit.line);
            let (least, most) = circuit.rates[direction];
            class.rate = Some(least);
            class.keys.push(("ceil", rate_value(most)));
            class.leaf_keys.push(("prio", PRIO.to_string()));
            class.queue = vec![("dropper", quoted(dropper(circuit, head, reading)))];
            let all: Vec<String> = circuit.addresses.iter().map(|one| quoted(one)).collect();
            let keys = vec![(address, format!("[{}]", all.join(", ")))];
            class.rules.push(Rule { keys, rank: at as u64 });
            sketch.classes.push(class);
        }
        let mut rest = Class::new("unlisted", None, head);
        rest.rate = Some((link / 4).max(1));
        rest.keys.push(("ceil", rate_value(link)));
        rest.leaf_keys.push(("prio", UNLISTED_PRIO.to_string()));
        rest.queue = vec![("dropper", quoted("fq-codel"))];
        rest.default = true;
        reading.noted(head, "packets of no circuit share a quarter of the link: class `unlisted`");
        sketch.classes.push(rest);
        sketch.under_link(head);
        sketch
    }
}

/// Returns the queue of a circuit, and says what it lacks.
fn dropper(circuit: &Circuit, head: LineId, reading: &mut Reading) -> &'static str {
    match circuit.queue.as_deref() {
        Some("fq_codel") => "fq-codel",
        Some("none") => "tail",
        _ => {
            let note = "the cake of a circuit becomes flows by turns, as in fq-codel: its classes \
                        by DSCP become one";
            reading.approximated(head, note);
            "fq-codel"
        }
    }
}

/// Returns the names of the cells of a row; none if it has another number of them.
fn names(header: Option<&[String]>, count: usize) -> Option<Vec<&str>> {
    if let Some(header) = header {
        let names: Vec<&str> = header.iter().map(String::as_str).collect();
        let left_out = csv::left_out(names.iter().copied(), count);
        let kept = names.iter().enumerate().filter(|(at, _)| !left_out.contains(at));
        let kept: Vec<&str> = kept.map(|row| *row.1).collect();
        return (kept.len() <= count).then_some(kept);
    }
    let (new, old) = (COLUMNS.to_vec(), [&COLUMNS[..5], &COLUMNS[7..]].concat());
    match count {
        13 | 14 => Some(old),
        15 | 16 => Some(new),
        _ => None,
    }
}

/// Parses a number of Mbit/s, in bit/s.
fn megabits(text: &str) -> Option<u64> {
    let (millionths, rest) = decimal(text)?;
    scaled(millionths, 1_000_000).filter(|_| rest.is_empty())
}

const DIRECTIONS: [Direction; 2] = [
    Direction {
        name: "download",
        address: "dst",
        least: "Download Min Mbps",
        most: "Download Max Mbps",
        node: ["downloadBandwidthMbps", "downloadBandwidth"],
    },
    Direction {
        name: "upload",
        address: "src",
        least: "Upload Min Mbps",
        most: "Upload Max Mbps",
        node: ["uploadBandwidthMbps", "uploadBandwidth"],
    },
];
/// The columns of a file without a header; an older one lacks the sixth and the seventh.
const COLUMNS: [&str; 16] = [
    "Circuit ID",
    "Circuit Name",
    "Device ID",
    "Device Name",
    "Parent Node",
    "Parent Node ID",
    "Anchor Node ID",
    "MAC",
    "IPv4",
    "IPv6",
    "Download Min Mbps",
    "Upload Min Mbps",
    "Download Max Mbps",
    "Upload Max Mbps",
    "Comment",
    "sqm",
];
/// The priority of circuits, and that of packets without one.
const PRIO: u8 = 3;
const UNLISTED_PRIO: u8 = 5;
/// Bound: nodes above one another in network.json; deeper ones are left out.
const DEPTH_MAX: usize = 32;
/// Bound: nodes of network.json; further ones are left out.
const NODES_MAX: usize = 1 << 14;
/// The most characters of a cell in a note.
const SHOWN_MAX: usize = 40;
