//! Runs a classic program on a frame.

/// Returns the ring that a classic program gives a frame, as it was on the wire; `None` if the
/// kernel would not deliver the frame.
///
/// # Panics
/// If the kernel would refuse the program: at an unknown instruction, a jump out of the program, or
/// a word of scratch memory that was not stored.
pub fn classic(code: &[libc::sock_filter], frame: &[u8]) -> Option<u32> {
    frame.get(..ETHERNET_LEN)?;
    let is_tagged = matches!(frame[12..14], [0x81, 0x00] | [0x88, 0xa8]);
    let (frame, tag) = match is_tagged {
        true => {
            let tag = u16::from_be_bytes(*frame.get(14..18)?.first_chunk()?);
            ([&frame[..12], &frame[16..]].concat(), Some(tag))
        }
        false => (frame.to_vec(), None),
    };
    let mut machine = Machine { a: 0, x: 0, scratch: [None; 16], frame: &frame, tag };
    let mut at = 0;
    // Jumps go only forward, so every program ends.
    loop {
        let step = machine.step(code[at]);
        match step {
            Step::Next(skipped) => at += 1 + skipped as usize,
            Step::End(result) => return Some(result),
        }
    }
}

/// The state of a classic program.
struct Machine<'a> {
    a: u32,
    x: u32,
    scratch: [Option<u32>; 16],
    frame: &'a [u8],
    tag: Option<u16>,
}

enum Step {
    /// Go on behind so many instructions.
    Next(u32),
    End(u32),
}

impl Machine<'_> {
    fn step(&mut self, statement: libc::sock_filter) -> Step {
        let k = statement.k;
        match statement.code {
            0x00 => self.a = k,
            0x01 => self.x = k,
            0x02 => self.scratch[k as usize] = Some(self.a),
            0x60 => self.a = self.scratch[k as usize].expect("the word was stored"),
            0x61 => self.x = self.scratch[k as usize].expect("the word was stored"),
            0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 => {
                let base = if statement.code < 0x40 { 0 } else { self.x };
                let len = [4, 2, 1][usize::from(statement.code >> 3 & 3)];
                let Some(loaded) = self.load(base.wrapping_add(k) as i32, len) else {
                    return Step::End(0);
                };
                self.a = loaded;
            }
            0x0c => self.a = self.a.wrapping_add(self.x),
            0x1c => self.a = self.a.wrapping_sub(self.x),
            0xac => self.a ^= self.x,
            0x24 => self.a = self.a.wrapping_mul(k),
            0x94 => self.a %= k,
            0x54 => self.a &= k,
            0x64 => self.a <<= k,
            0x74 => self.a >>= k,
            0x07 => self.x = self.a,
            0x87 => self.a = self.x,
            0x05 => return Step::Next(k),
            0x15 => return jump(statement, self.a == k),
            0x25 => return jump(statement, self.a > k),
            0x35 => return jump(statement, self.a >= k),
            0x3d => return jump(statement, self.a >= self.x),
            0x45 => return jump(statement, self.a & k != 0),
            0x06 => return Step::End(k),
            code => panic!("the interpreter does not know instruction {code:#x}"),
        }
        Step::Next(0)
    }

    /// Loads from the packet, from the link header before it, or metadata.
    fn load(&self, offset: i32, len: usize) -> Option<u32> {
        match offset - ANCILLARY {
            // Not a frame that this host sends out.
            4 => return Some(0),
            44 => return Some(self.tag.unwrap_or(0).into()),
            48 => return Some(self.tag.is_some().into()),
            _ => {}
        }
        let at = if offset >= 0 { offset + ETHERNET_LEN as i32 } else { offset - LINK };
        let bytes = self.frame.get(usize::try_from(at).ok()?..)?.get(..len)?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }
}

fn jump(statement: libc::sock_filter, taken: bool) -> Step {
    Step::Next(u32::from(if taken { statement.jt } else { statement.jf }))
}

const ETHERNET_LEN: usize = 14;
const ANCILLARY: i32 = -0x1000;
const LINK: i32 = -0x20_0000;
