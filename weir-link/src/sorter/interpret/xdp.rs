//! Runs an XDP program on a frame.
//!
//! Addresses are numbers: the frame begins at [`FRAME`], the context at [`CONTEXT`], and the stack
//! ends at [`STACK`].

use weir_host::bpf::{Code, Instruction};

/// Returns the verdict of a program that calls no function, for a frame.
///
/// # Panics
/// If the kernel would refuse the program: at an unknown instruction, an access beyond the frame or
/// the stack, a jump out of the program or back.
pub fn xdp(code: &Code, frame: &[u8]) -> u32 {
    let code = code.finish().expect("jumps are short");
    let mut machine = Machine { registers: [0; 11], stack: [0; STACK_LEN], frame };
    (machine.registers[1], machine.registers[10]) = (CONTEXT, STACK);
    let mut at = 0;
    loop {
        let instruction = code[at];
        match machine.step(instruction, code.get(at + 1)) {
            Step::Next => at += 1,
            Step::Skip(count) => at += 1 + usize::try_from(count).expect("jumps go forward"),
            Step::End => return machine.registers[0] as u32,
        }
    }
}

struct Machine<'a> {
    registers: [u64; 11],
    stack: [u8; STACK_LEN],
    frame: &'a [u8],
}

enum Step {
    Next,
    /// Go on behind so many instructions.
    Skip(i16),
    End,
}

impl Machine<'_> {
    fn step(&mut self, instruction: Instruction, next: Option<&Instruction>) -> Step {
        let Instruction { operation, registers, offset, immediate } = instruction;
        let (to, from) = (usize::from(registers & 0xf), usize::from(registers >> 4));
        let operand = match operation & SOURCE_REGISTER {
            0 => i64::from(immediate) as u64,
            _ => self.registers[from],
        };
        match operation {
            0x18 => {
                let high = next.expect("the second half").immediate as u32;
                self.registers[to] = u64::from(high) << 32 | u64::from(immediate as u32);
                return Step::Skip(1);
            }
            0xdc => {
                let swapped = self.registers[to].swap_bytes() >> (64 - immediate);
                self.registers[to] = swapped;
            }
            0x61 | 0x69 | 0x71 => {
                let address = self.registers[from].wrapping_add_signed(offset.into());
                self.registers[to] = self.load(address, len(operation));
            }
            0x63 => {
                let address = self.registers[to].wrapping_add_signed(offset.into());
                let at = (address - (STACK - STACK_LEN as u64)) as usize;
                let bytes = (self.registers[from] as u32).to_le_bytes();
                self.stack[at..at + 4].copy_from_slice(&bytes);
            }
            0x95 => return Step::End,
            0x05 => return Step::Skip(offset),
            _ if operation & 0x07 == 0x05 => {
                let left = self.registers[to];
                return if holds(operation, left, operand) {
                    Step::Skip(offset)
                } else {
                    Step::Next
                };
            }
            _ => self.registers[to] = result(operation, self.registers[to], operand),
        }
        Step::Next
    }

    /// Loads as a little-endian machine does; a pointer in the context is an address of 64 bits.
    fn load(&self, address: u64, len: usize) -> u64 {
        let (memory, from) = match address {
            CONTEXT => return FRAME,
            CONTEXT_END => return FRAME + self.frame.len() as u64,
            FRAME..CONTEXT => (self.frame, address - FRAME),
            _ => (&self.stack[..], address - (STACK - STACK_LEN as u64)),
        };
        let bytes = &memory[from as usize..from as usize + len];
        bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

fn len(operation: u8) -> usize {
    [4, 2, 1, 8][usize::from(operation >> 3 & 3)]
}

/// Returns whether the condition of a jump holds.
fn holds(operation: u8, left: u64, right: u64) -> bool {
    match operation >> 4 {
        0x1 => left == right,
        0x2 => left > right,
        0x3 => left >= right,
        0x4 => left & right != 0,
        0x5 => left != right,
        0xa => left < right,
        0xb => left <= right,
        _ => panic!("the interpreter does not know jump {operation:#x}"),
    }
}

/// Returns the result of an operation on 64 bits.
fn result(operation: u8, left: u64, right: u64) -> u64 {
    assert_eq!(operation & 0x07, 0x07, "the interpreter does not know {operation:#x}");
    match operation >> 4 {
        0x0 => left.wrapping_add(right),
        0x1 => left.wrapping_sub(right),
        0x5 => left & right,
        0x6 => left << right,
        0x7 => left >> right,
        0xb => right,
        _ => panic!("the interpreter does not know operation {operation:#x}"),
    }
}

const FRAME: u64 = 0x1000_0000;
const CONTEXT: u64 = 0x2000_0000;
const CONTEXT_END: u64 = CONTEXT + 4;
const STACK: u64 = 0x3000_0000;
const STACK_LEN: usize = 512;
const SOURCE_REGISTER: u8 = 0x08;
