//! Firewall rules of test networks: what a router behind address translation has. Written as
//! nf_tables messages (`<linux/netfilter/nf_tables.h>`), so that a test needs no tool.

use std::io;

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};

use weir_host::error::{Result, SystemError};

/// Lets this thread's namespace translate what leaves by `outside` to its address there, and
/// accept packets only from interfaces in `trusted`: what arrived by another is dropped.
///
/// # Errors
/// As the system says.
pub fn protect_router(outside: &str, trusted: &[&str]) -> Result<()> {
    let mut batch = Batch::default();
    batch.control(BATCH_BEGIN);
    batch.add(NEW_TABLE, &string(1, TABLE));
    let translate = Chain { name: "translate", kind: "nat", hook: 4, priority: 100 };
    batch.add(NEW_CHAIN, &translate.attributes(ACCEPT));
    let expressions = [meta(KEY_OUTPUT_NAME), equals(outside), expression("masq", &[])];
    batch.add(NEW_RULE, &rule("translate", &expressions));
    let accept = Chain { name: "accept", kind: "filter", hook: 0, priority: -300 };
    batch.add(NEW_CHAIN, &accept.attributes(DROP));
    for name in trusted {
        batch
            .add(NEW_RULE, &rule("accept", &[meta(KEY_INPUT_NAME), equals(name), verdict(ACCEPT)]));
    }
    batch.control(BATCH_END);
    batch.send().map_err(|cause| SystemError::new("set the rules of a test router", cause))
}

struct Chain {
    name: &'static str,
    kind: &'static str,
    hook: u32,
    priority: i32,
}

impl Chain {
    fn attributes(&self, policy: u32) -> Vec<u8> {
        let hook = [number(1, self.hook), number(2, self.priority as u32)].concat();
        let (table, name) = (string(1, TABLE), string(3, self.name));
        [table, name, nested(4, &hook), number(5, policy), string(7, self.kind)].concat()
    }
}

fn rule(chain: &str, expressions: &[Vec<u8>]) -> Vec<u8> {
    let list: Vec<u8> = expressions.iter().flat_map(|one| nested(1, one)).collect();
    [string(1, TABLE), string(2, chain), nested(4, &list)].concat()
}

fn expression(name: &str, attributes: &[u8]) -> Vec<u8> {
    [string(1, name), nested(2, attributes)].concat()
}

/// Loads what `key` says of a packet into register 1.
fn meta(key: u32) -> Vec<u8> {
    expression("meta", &[number(2, key), number(1, 1)].concat())
}

/// Goes on only if register 1 holds this name of an interface.
fn equals(name: &str) -> Vec<u8> {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    let data = nested(3, &attribute(1, &bytes));
    expression("cmp", &[number(1, 1), number(2, 0), data].concat())
}

/// Decides; the register 0 is the verdict's.
fn verdict(code: u32) -> Vec<u8> {
    let data = nested(2, &nested(2, &number(1, code)));
    expression("immediate", &[number(1, 0), data].concat())
}

fn string(kind: u16, text: &str) -> Vec<u8> {
    attribute(kind, &[text.as_bytes(), &[0]].concat())
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

fn nested(kind: u16, content: &[u8]) -> Vec<u8> {
    const NESTED: u16 = 1 << 15;
    attribute(kind | NESTED, content)
}

fn attribute(kind: u16, content: &[u8]) -> Vec<u8> {
    let len = content.len() as u16 + 4;
    let mut bytes = [&len.to_ne_bytes(), &kind.to_ne_bytes(), content].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Messages that the kernel carries out all, or none.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// How many of them are acknowledged.
    acknowledged: u32,
    sequence: u32,
}

impl Batch {
    fn control(&mut self, kind: u16) {
        // NLM_F_REQUEST; the family is none, and the resource the subsystem in network order.
        self.message(kind, 0x1, [0, 0, 0, SUBSYSTEM as u8], &[]);
    }

    fn add(&mut self, kind: u16, attributes: &[u8]) {
        // NLM_F_REQUEST, NLM_F_ACK, NLM_F_CREATE, NLM_F_APPEND.
        self.message(SUBSYSTEM << 8 | kind, 0x1 | 0x4 | 0x400 | 0x800, [IPV4, 0, 0, 0], attributes);
        self.acknowledged += 1;
    }

    fn message(&mut self, kind: u16, flags: u16, header: [u8; 4], attributes: &[u8]) {
        self.sequence += 1;
        let len = 20 + attributes.len() as u32;
        self.bytes.extend(len.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(flags.to_ne_bytes());
        self.bytes.extend(self.sequence.to_ne_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend(header);
        self.bytes.extend(attributes);
    }

    fn send(&self) -> io::Result<()> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.send(&self.bytes, 0)?;
        let mut left = self.acknowledged;
        while left > 0 {
            let (bytes, _) = socket.recv_from_full()?;
            // Replies of NLMSG_ERROR; the number after the header is zero where all is well.
            for reply in split(&bytes) {
                let code = reply.get(16..20).and_then(|four| four.try_into().ok());
                match code.map(i32::from_ne_bytes) {
                    Some(0) => left = left.saturating_sub(1),
                    Some(code) => return Err(io::Error::from_raw_os_error(-code)),
                    None => return Err(io::ErrorKind::InvalidData.into()),
                }
            }
        }
        Ok(())
    }
}

/// Splits a buffer of netlink messages.
fn split(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut messages) = (bytes, Vec::new());
    while let Some(len) = rest.first_chunk().map(|four| u32::from_ne_bytes(*four) as usize) {
        let (message, after) = rest.split_at(len.next_multiple_of(4).max(4).min(rest.len()));
        messages.push(message);
        rest = after;
    }
    messages
}

const TABLE: &str = "weir_test";
const SUBSYSTEM: u16 = 10;
const IPV4: u8 = 2;
const NEW_TABLE: u16 = 0;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const KEY_INPUT_NAME: u32 = 6;
const KEY_OUTPUT_NAME: u32 = 7;
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
