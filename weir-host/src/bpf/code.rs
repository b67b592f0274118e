//! An assembler for eBPF: a program is a list of Rust values, so Weir needs no BPF toolchain.
//!
//! The encoding is that of the kernel's document `bpf/standardization/instruction-set.rst`: eight
//! bytes an instruction (operation, registers, offset, immediate). Jumps name a [`Label`].
//!
//! Invariant: each label that is used is placed once, and every jump goes forward or back to it.

use std::os::fd::AsRawFd;

use super::Map;

/// A register. A program starts with its context in R1; R0 holds results; R6 to R9 survive calls;
/// R10 points to the end of 512 bytes of stack and cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "their names say it")]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// The width of a load or a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 1 byte.
    Byte,
    /// 2 bytes.
    Half,
    /// 4 bytes.
    Word,
    /// 8 bytes.
    Double,
}

/// An operation on a whole register of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `to += from`.
    Add,
    /// `to -= from`.
    Sub,
    /// `to *= from`.
    Mul,
    /// Quotient of unsigned numbers.
    Div,
    /// `to |= from`.
    Or,
    /// `to &= from`.
    And,
    /// Shift to the left.
    ShiftLeft,
    /// Shift to the right, zeros from the left.
    ShiftRight,
    /// `to ^= from`.
    Xor,
    /// `to = from`.
    Move,
}

/// A condition of a jump, on unsigned numbers of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cond {
    /// `left == right`.
    Equal,
    /// `left != right`.
    NotEqual,
    /// `left > right`.
    Above,
    /// `left >= right`.
    AtLeast,
    /// `left < right`.
    Below,
    /// `left <= right`.
    AtMost,
    /// Any bit in common.
    AnyBit,
}

/// The second operand: a register, or a number that is sign-extended to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The value of a register.
    Register(Reg),
    /// A constant, extended to 64 bits with its sign.
    Number(i32),
}

impl From<Reg> for Operand {
    fn from(register: Reg) -> Self {
        Self::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Self {
        Self::Number(number)
    }
}

/// A function of the kernel that a program may call; arguments in R1 to R5, the result in R0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Calls `void *map_lookup_elem(map, key)`.
    MapLookup,
    /// Calls `u64 ktime_get_ns()`.
    Clock,
    /// Calls `redirect(ifindex, flags)`.
    Redirect,
    /// `skb_load_bytes(skb, offset, to, len)`.
    SkbLoad,
    /// Calls `skb_vlan_push(skb, protocol, tci)`.
    VlanPush,
    /// Calls `skb_vlan_pop(skb)`.
    VlanPop,
    /// `redirect_map(map, key, flags)`; for an XSKMAP the low bits of the flags are the verdict
    /// where the key has no socket.
    RedirectMap,
    /// `xdp_adjust_head(xdp, delta)`: a negative delta makes room before the frame.
    AdjustHead,
    /// Calls `redirect_peer(ifindex, flags)`.
    RedirectPeer,
    /// `clone_redirect(skb, ifindex, flags)`: redirects a copy. Pointers into the frame are lost.
    CloneRedirect,
    /// `check_mtu(skb, ifindex, length, change, flags)`.
    CheckMtu,
}

/// A place in a program, to which jumps go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// A program in the making.
#[derive(Clone, Debug, Default)]
pub struct Code {
    instructions: Vec<Instruction>,
    /// Where each label stands.
    labels: Vec<Option<usize>>,
    /// The jumps whose offset is not yet known: instruction, label.
    jumps: Vec<(usize, Label)>,
}

/// One instruction as the kernel reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// Class, operation and source bits of the instruction (`BPF_*`).
    pub operation: u8,
    /// The destination in the low half, the source in the high one.
    pub registers: u8,
    /// Of a jump or of a place in memory.
    pub offset: i16,
    /// The constant of the operation, or the number of the called function.
    pub immediate: i32,
}

impl Code {
    /// A program without instructions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of instructions so far.
    pub fn len(&self) -> usize {
        self.instructions.len()
    }

    /// Returns whether there is no instruction yet.
    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty()
    }

    /// `to = to op operand`; for [`Op::Move`] `to = operand`.
    pub fn op(&mut self, op: Op, to: Reg, operand: impl Into<Operand>) -> &mut Self {
        let number = match op {
            Op::Add => 0x0,
            Op::Sub => 0x1,
            Op::Mul => 0x2,
            Op::Div => 0x3,
            Op::Or => 0x4,
            Op::And => 0x5,
            Op::ShiftLeft => 0x6,
            Op::ShiftRight => 0x7,
            Op::Xor => 0xa,
            Op::Move => 0xb,
        };
        self.with_operand(CLASS_ALU64 | number << 4, to, operand.into())
    }

    /// Emits `to = operand`.
    pub fn set(&mut self, to: Reg, operand: impl Into<Operand>) -> &mut Self {
        self.op(Op::Move, to, operand)
    }

    /// Converts the low `bits` (16, 32 or 64) of `to` between network and host order, and clears
    /// the rest.
    pub fn network_order(&mut self, to: Reg, bits: i32) -> &mut Self {
        assert!(matches!(bits, 16 | 32 | 64), "a width of the byte swap");
        self.push(CLASS_ALU | SWAP | SOURCE_REGISTER, to, Reg::R0, 0, bits)
    }

    /// `to = *(from + offset)`, with zeros in the upper bytes.
    pub fn load(&mut self, width: Width, to: Reg, from: Reg, offset: i16) -> &mut Self {
        self.push(CLASS_LDX | MODE_MEMORY | size(width), to, from, offset, 0)
    }

    /// `*(to + offset) = from`.
    pub fn store(&mut self, width: Width, to: Reg, offset: i16, from: Reg) -> &mut Self {
        self.push(CLASS_STX | MODE_MEMORY | size(width), to, from, offset, 0)
    }

    /// `to = number`, all 64 bits.
    pub fn set_wide(&mut self, to: Reg, number: u64) -> &mut Self {
        self.wide(to, Reg::R0, number)
    }

    /// `to = map`. The map must outlive the load of the program; the program then keeps it alive.
    pub fn set_map(&mut self, to: Reg, map: &Map) -> &mut Self {
        // The source register 1 says that the number is a descriptor of a map.
        self.wide(to, Reg::R1, map.fd.as_raw_fd() as u64)
    }

    /// Calls a function of the kernel. R1 to R5 are lost.
    pub fn call(&mut self, helper: Function) -> &mut Self {
        // The numbers of <linux/bpf.h>, `__BPF_FUNC_MAPPER`.
        let number = match helper {
            Function::MapLookup => 1,
            Function::Clock => 5,
            Function::CloneRedirect => 13,
            Function::VlanPush => 18,
            Function::VlanPop => 19,
            Function::Redirect => 23,
            Function::SkbLoad => 26,
            Function::AdjustHead => 44,
            Function::RedirectMap => 51,
            Function::RedirectPeer => 155,
            Function::CheckMtu => 163,
        };
        self.push(CLASS_JUMP | CALL, Reg::R0, Reg::R0, 0, number)
    }

    /// Calls a function of the kernel by its number in the kernel's types, which
    /// [`super::kernel_function`] finds. R1 to R5 are lost.
    pub fn call_kernel(&mut self, number: i32) -> &mut Self {
        // The source register 2 says that the number is one of a type.
        self.push(CLASS_JUMP | CALL, Reg::R0, Reg::R2, 0, number)
    }

    /// Adds what `other` has. Its labels stay its own.
    pub fn append(&mut self, other: &Self) -> &mut Self {
        let (base, labels) = (self.instructions.len(), self.labels.len());
        self.instructions.extend(&other.instructions);
        self.labels.extend(other.labels.iter().map(|place| place.map(|place| place + base)));
        let jumps = other.jumps.iter().map(|(at, label)| (at + base, Label(label.0 + labels)));
        self.jumps.extend(jumps);
        self
    }

    /// Ends the program; R0 is the verdict.
    pub fn exit(&mut self) -> &mut Self {
        self.push(CLASS_JUMP | EXIT, Reg::R0, Reg::R0, 0, 0)
    }

    /// `R0 = verdict`, and ends the program.
    pub fn give(&mut self, verdict: i32) -> &mut Self {
        self.set(Reg::R0, verdict).exit()
    }

    /// Returns a new label, to be placed once.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Lets `label` stand before the next instruction.
    ///
    /// # Panics
    /// If it stands elsewhere already.
    pub fn place(&mut self, label: Label) -> &mut Self {
        let place = &mut self.labels[label.0];
        assert!(place.is_none(), "a label is placed once");
        *place = Some(self.instructions.len());
        self
    }

    /// Emits a jump to `label`.
    pub fn jump(&mut self, label: Label) -> &mut Self {
        self.jumps.push((self.instructions.len(), label));
        self.push(CLASS_JUMP, Reg::R0, Reg::R0, 0, 0)
    }

    /// Continues at `label` if the condition holds between `left` and `right`.
    pub fn jump_if(
        &mut self,
        left: Reg,
        cond: Cond,
        right: impl Into<Operand>,
        label: Label,
    ) -> &mut Self {
        self.jumps.push((self.instructions.len(), label));
        let number = match cond {
            Cond::Equal => 0x1,
            Cond::Above => 0x2,
            Cond::AtLeast => 0x3,
            Cond::AnyBit => 0x4,
            Cond::NotEqual => 0x5,
            Cond::Below => 0xa,
            Cond::AtMost => 0xb,
        };
        self.with_operand(CLASS_JUMP | number << 4, left, right.into())
    }

    /// Returns the finished instructions; `None` if a jump is too long to encode (the program
    /// has more than 32 767 instructions).
    ///
    /// # Panics
    /// If a label was used and not placed.
    pub fn finish(&self) -> Option<Vec<Instruction>> {
        let mut instructions = self.instructions.clone();
        for (from, label) in &self.jumps {
            let to = self.labels[label.0].expect("a label that is used is placed");
            // Offsets count from the instruction after the jump.
            let offset = to as i64 - (*from as i64 + 1);
            instructions[*from].offset = i16::try_from(offset).ok()?;
        }
        Some(instructions)
    }

    fn with_operand(&mut self, operation: u8, to: Reg, operand: Operand) -> &mut Self {
        match operand {
            Operand::Register(from) => self.push(operation | SOURCE_REGISTER, to, from, 0, 0),
            Operand::Number(number) => self.push(operation, to, Reg::R0, 0, number),
        }
    }

    /// The one instruction of two halves.
    fn wide(&mut self, to: Reg, kind: Reg, number: u64) -> &mut Self {
        self.push(MODE_IMMEDIATE | SIZE_DOUBLE, to, kind, 0, number as u32 as i32);
        self.push(0, Reg::R0, Reg::R0, 0, (number >> 32) as i32)
    }

    fn push(&mut self, operation: u8, to: Reg, from: Reg, offset: i16, number: i32) -> &mut Self {
        let registers = to as u8 | (from as u8) << 4;
        self.instructions.push(Instruction { operation, registers, offset, immediate: number });
        self
    }
}

fn size(width: Width) -> u8 {
    match width {
        Width::Word => libc::BPF_W as u8,
        Width::Half => libc::BPF_H as u8,
        Width::Byte => libc::BPF_B as u8,
        Width::Double => SIZE_DOUBLE,
    }
}

// <linux/bpf_common.h>: what eBPF shares with classic BPF.
const CLASS_LDX: u8 = libc::BPF_LDX as u8;
const CLASS_STX: u8 = libc::BPF_STX as u8;
const CLASS_ALU: u8 = libc::BPF_ALU as u8;
const CLASS_JUMP: u8 = libc::BPF_JMP as u8;
const MODE_IMMEDIATE: u8 = libc::BPF_IMM as u8;
const MODE_MEMORY: u8 = libc::BPF_MEM as u8;
/// The second operand is a register.
const SOURCE_REGISTER: u8 = libc::BPF_X as u8;
// <linux/bpf.h>: BPF_ALU64, BPF_DW, BPF_END, BPF_CALL and BPF_EXIT.
const CLASS_ALU64: u8 = 0x07;
const SIZE_DOUBLE: u8 = 0x18;
const SWAP: u8 = 0xd0;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;

#[cfg(test)]
mod tests {
    use super::*;
    use Reg::{R0, R1, R2, R6, R10};

    /// Checks the bytes of a program, written as hexadecimal words of one instruction each.
    fn check(what: &str, build: fn(&mut Code) -> &mut Code, expected: &[&str]) {
        let mut code = Code::new();
        build(&mut code);
        let found: Vec<String> = code.finish().expect("short jumps").iter().map(hex).collect();
        assert_eq!(found, expected, "{what}");
    }

    fn hex(instruction: &Instruction) -> String {
        let Instruction { operation, registers, offset, immediate } = instruction;
        let bytes =
            [&[*operation, *registers][..], &offset.to_le_bytes(), &immediate.to_le_bytes()];
        bytes.concat().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn instructions_have_the_encoding_of_the_instruction_set() {
        // Expected words follow from the tables of the instruction set.
        check("set number", |c| c.set(R0, -1), &["b7000000ffffffff"]);
        check("set register", |c| c.set(R6, R1), &["bf16000000000000"]);
        check("and", |c| c.op(Op::And, R2, 0xf), &["570200000f000000"]);
        check("swap", |c| c.network_order(R1, 16), &["dc01000010000000"]);
        check("load", |c| c.load(Width::Word, R2, R1, 4), &["6112040000000000"]);
        check("store", |c| c.store(Width::Double, R10, -8, R1), &["7b1af8ff00000000"]);
        let wide = ["1801000002000000", "0000000001000000"];
        check("wide", |c| c.set_wide(R1, 0x1_0000_0002), &wide);
        check("call", |c| c.call(Function::RedirectMap), &["8500000033000000"]);
        check("give", |c| c.give(2), &["b700000002000000", "9500000000000000"]);
    }

    #[test]
    fn jumps_reach_their_labels_both_ways() {
        let build: fn(&mut Code) -> &mut Code = |code| {
            let (start, end) = (code.label(), code.label());
            code.place(start).jump_if(R1, Cond::Above, R2, end).jump(start);
            code.place(end).exit()
        };
        let expected = ["2d21010000000000", "0500feff00000000", "9500000000000000"];
        check("forward and back", build, &expected);
    }

    #[test]
    fn appended_code_keeps_its_jumps() {
        let build: fn(&mut Code) -> &mut Code = |code| {
            let mut other = Code::new();
            let end = other.label();
            other.jump(end).exit().place(end);
            let end = code.label();
            code.jump(end).append(&other).append(&other).place(end).exit()
        };
        let jump = ["0500010000000000", "9500000000000000"];
        let expected = [&["0500040000000000"][..], &jump, &jump, &["9500000000000000"]].concat();
        check("append", build, &expected);
    }

    #[test]
    fn a_jump_too_long_to_encode_is_refused() {
        let mut code = Code::new();
        let end = code.label();
        code.jump(end);
        for _ in 0..=i16::MAX {
            code.set(R0, 0);
        }
        code.place(end);
        assert_eq!(code.finish(), None);
    }
}
