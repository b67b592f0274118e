//! The program that runs for each frame that an interface receives: it redirects the frame to the
//! AF_XDP socket of its receive queue and ring.

use crate::sorter::{Sorting, add_queue};
use weir_host::bpf::{Code, Cond, Function, Map, Op, Reg, Width};
use weir_host::uapi::verdict::{XDP_DROP, XDP_PASS};

/// Returns the program. With the number of the kernel's function for it, it first puts a VLAN tag
/// back that the sender's kernel or the hardware left beside the frame. Without sorting all frames
/// go to ring 0. Frames pass to the kernel's stack while their ring has no socket.
pub(super) fn to_rings(tag_function: Option<i32>, sorting: Option<&Sorting>, map: &Map) -> Code {
    let mut code = Code::new();
    if let Some(number) = tag_function {
        put_tag_back(&mut code, number);
    }
    if let Some(sorting) = sorting {
        code.append(&sorting.xdp(map));
        return code;
    }
    code.set(Reg::R2, 0);
    add_queue(&mut code, Reg::R2, Reg::R1);
    code.set_map(Reg::R1, map).set(Reg::R3, XDP_PASS);
    code.call(Function::RedirectMap).exit();
    code
}

/// Puts the tag beside the frame, if there is one, into it. Begins and ends with the context in R1.
fn put_tag_back(code: &mut Code, number: i32) {
    let (refuse, end) = (code.label(), code.label());
    code.set(Reg::R6, Reg::R1).set(Reg::R0, 0);
    code.store(Width::Double, Reg::R10, PROTOCOL, Reg::R0);
    code.store(Width::Double, Reg::R10, CONTROL, Reg::R0);
    code.set(Reg::R2, Reg::R10).op(Op::Add, Reg::R2, i32::from(PROTOCOL));
    code.set(Reg::R3, Reg::R10).op(Op::Add, Reg::R3, i32::from(CONTROL));
    code.call_kernel(number);
    // The result is an `int`; any error means that there is no tag.
    code.op(Op::ShiftLeft, Reg::R0, 32).jump_if(Reg::R0, Cond::NotEqual, 0, end);
    code.load(Width::Half, Reg::R7, Reg::R10, PROTOCOL);
    code.load(Width::Half, Reg::R8, Reg::R10, CONTROL).network_order(Reg::R8, 16);
    code.set(Reg::R1, Reg::R6).set(Reg::R2, -4).call(Function::AdjustHead);
    code.jump_if(Reg::R0, Cond::NotEqual, 0, refuse);
    // R2 and R3 are the bounds of the frame, which is longer by the room for the tag.
    code.load(Width::Word, Reg::R2, Reg::R6, 0).load(Width::Word, Reg::R3, Reg::R6, 4);
    code.set(Reg::R4, Reg::R2).op(Op::Add, Reg::R4, 18);
    code.jump_if(Reg::R4, Cond::Above, Reg::R3, refuse);
    code.load(Width::Double, Reg::R4, Reg::R2, 4).load(Width::Word, Reg::R5, Reg::R2, 12);
    code.store(Width::Double, Reg::R2, 0, Reg::R4).store(Width::Word, Reg::R2, 8, Reg::R5);
    code.store(Width::Half, Reg::R2, 12, Reg::R7).store(Width::Half, Reg::R2, 14, Reg::R8);
    code.jump(end);
    // Without its tag the frame would go to another network.
    code.place(refuse).give(XDP_DROP);
    code.place(end).set(Reg::R1, Reg::R6);
}

/// Places on the stack.
const PROTOCOL: i16 = -8;
const CONTROL: i16 = -16;
