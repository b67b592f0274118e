//! The fallback: what the kernel does with frames of a claimed interface while nothing forwards
//! them.
//!
//! The program that keeps the host quiet (`quiet.rs`) looks into a table of one entry, the
//! [`Switch`], which all programs of a claim share. While it is closed every frame is dropped;
//! while it is open a frame for another machine leaves by the other ports of its bridge, unshaped.
//! So one write turns all ports over at once, and it works while this process does nothing else.
//!
//! The loop of each bridge holds a word ([`crate::robust`]) while its intake is open. When it dies
//! the kernel marks that, and the program opens for the bridge with the next frame: the keeper,
//! which is notified of the end of a process once its memory and sockets are released, need not
//! act.
//!
//! Frames are dropped that the kernel's bridge would keep: frames for the address of a port, frames
//! longer than the MTU where they would leave (a VLAN tag aside), and on a bridge of more than two
//! ports the reserved groups but that of spanning trees, so that others still find loops. Nothing
//! is learned: with more than two ports each frame goes to all of the others.

use std::os::fd::{AsFd, BorrowedFd};

use crate::bpf::{Code, Cond, Function, Label, Map, MapKind, Op, Reg, Width};
use crate::error::Result;
use crate::netlink::Mac;
use crate::robust::{OWNER_DIED, WORDS_MAX};
use crate::uapi::verdict::TCX_DROP;

/// Whether the programs of a claim pass frames on; closed at first.
#[derive(Debug)]
pub(super) struct Switch {
    map: Map,
    /// For each bridge whether the loop that forwarded for it died.
    deaths: Map,
}

/// Where the frames of one port go while the switch is open.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ways {
    /// The interfaces of the other ports of the bridge.
    pub(super) to: Vec<u32>,
    /// The addresses of all ports of the bridge.
    pub(super) own: Vec<Mac>,
    /// The number of the bridge.
    pub(super) bridge: usize,
}

impl Switch {
    pub(super) fn new() -> Result<Self> {
        let map = Map::new(MapKind::Array, "weir_open", 4, 4, 1)?;
        Ok(Self { map, deaths: Map::shared("weir_deaths", WORDS_MAX)? })
    }

    /// Opens or closes it for all programs at once; closed, it has forgotten every death.
    pub(super) fn set(&self, is_open: bool) -> Result<()> {
        if !is_open {
            for number in 0..WORDS_MAX as u32 {
                self.deaths.set(&number.to_ne_bytes(), &[0; 4])?;
            }
        }
        self.map.set(&0u32.to_ne_bytes(), &u32::from(is_open).to_ne_bytes())
    }

    /// Returns the map of the words that a forwarder's loops hold.
    pub(super) fn deaths(&self) -> BorrowedFd<'_> {
        self.deaths.as_fd()
    }

    /// Returns the program of a port with these ways.
    pub(super) fn program(&self, ways: &Ways) -> Code {
        let mut code = Code::new();
        let drop = code.label();
        code.set(Reg::R6, Reg::R1);
        self.check(&mut code, ways.bridge, drop);
        check_destination(&mut code, ways, drop);
        match ways.to.as_slice() {
            [one] => {
                check_length(&mut code, *one, drop);
                code.set(Reg::R1, *one as i32).set(Reg::R2, 0).call(Function::Redirect).exit();
            }
            several => {
                for index in several {
                    let next = code.label();
                    check_length(&mut code, *index, next);
                    code.set(Reg::R1, Reg::R6).set(Reg::R2, *index as i32).set(Reg::R3, 0);
                    code.call(Function::CloneRedirect).place(next);
                }
            }
        }
        code.place(drop).give(TCX_DROP);
        code
    }

    /// Leads to `drop` while the switch is closed and the loop of the bridge lives.
    fn check(&self, code: &mut Code, bridge: usize, drop: Label) {
        let open = code.label();
        look_up(code, &self.map, 0, drop);
        code.jump_if(Reg::R2, Cond::NotEqual, 0, open);
        look_up(code, &self.deaths, bridge, drop);
        code.op(Op::And, Reg::R2, OWNER_DIED as i32).jump_if(Reg::R2, Cond::Equal, 0, drop);
        code.place(open);
    }
}

/// Loads a word of a map to R2; leads to `missing` if there is none.
fn look_up(code: &mut Code, map: &Map, index: usize, missing: Label) {
    code.set(Reg::R2, index as i32).store(Width::Word, Reg::R10, -4, Reg::R2);
    code.set(Reg::R2, Reg::R10).op(Op::Add, Reg::R2, -4);
    code.set_map(Reg::R1, map).call(Function::MapLookup);
    code.jump_if(Reg::R0, Cond::Equal, 0, missing);
    code.load(Width::Word, Reg::R2, Reg::R0, 0);
}

/// Leads frames for a port itself to `drop`, and those of reserved groups on a larger bridge.
fn check_destination(code: &mut Code, ways: &Ways, drop: Label) {
    code.load(Width::Word, Reg::R2, Reg::R6, OFFSET_DATA);
    code.load(Width::Word, Reg::R3, Reg::R6, OFFSET_DATA_END);
    code.set(Reg::R4, Reg::R2).op(Op::Add, Reg::R4, HEADER_LEN);
    code.jump_if(Reg::R4, Cond::Above, Reg::R3, drop);
    code.load(Width::Word, Reg::R3, Reg::R2, 0).load(Width::Half, Reg::R4, Reg::R2, 4);
    for Mac([a, b, c, d, e, f]) in &ways.own {
        let other = code.label();
        code.set_wide(Reg::R5, u32::from_ne_bytes([*a, *b, *c, *d]).into());
        code.jump_if(Reg::R3, Cond::NotEqual, Reg::R5, other);
        let last = u16::from_ne_bytes([*e, *f]);
        code.jump_if(Reg::R4, Cond::Equal, i32::from(last), drop).place(other);
    }
    if ways.to.len() > 1 {
        let other = code.label();
        code.set_wide(Reg::R5, u32::from_ne_bytes([0x01, 0x80, 0xc2, 0]).into());
        code.jump_if(Reg::R3, Cond::NotEqual, Reg::R5, other);
        // As `Mac::is_reserved` has it: the one that ends in 00 crosses.
        code.jump_if(Reg::R4, Cond::Equal, 0, other);
        code.op(Op::And, Reg::R4, i32::from(u16::from_ne_bytes([0xff, 0xf0])));
        code.jump_if(Reg::R4, Cond::Equal, 0, drop).place(other);
    }
}

/// Leads to `too_long` if a frame, less a tag, exceeds the MTU of the interface `index`, or if
/// there is none. A super-packet is never too long: the kernel cuts it.
fn check_length(code: &mut Code, index: u32, too_long: Label) {
    // No length other than the frame's own.
    code.set(Reg::R2, 0).store(Width::Word, Reg::R10, -4, Reg::R2);
    code.set(Reg::R1, Reg::R6).set(Reg::R2, index as i32);
    code.set(Reg::R3, Reg::R10).op(Op::Add, Reg::R3, -4);
    code.set(Reg::R4, -TAG_LEN).set(Reg::R5, 0).call(Function::CheckMtu);
    code.jump_if(Reg::R0, Cond::NotEqual, 0, too_long);
}

/// Of `data` and `data_end` in `struct __sk_buff` of <linux/bpf.h>.
const OFFSET_DATA: i16 = 76;
const OFFSET_DATA_END: i16 = 80;
/// Of the header of Ethernet, and of an 802.1Q tag.
const HEADER_LEN: i32 = 14;
const TAG_LEN: i32 = 4;
