//! Programs in the kernel: the few calls of bpf(2) that ports need, without a toolchain.
//!
//! A [`Program`] is loaded from [`Code`] and attached to an interface; the [`Link`] it gives is a
//! descriptor, so the program is detached when this process ends, however it ends.
//!
//! ```no_run
//! use weir_host::bpf::{Code, Hook, Kind, Program};
//! let mut code = Code::new();
//! code.give(2); // XDP_PASS
//! let program = Program::load(Kind::Xdp, "weir_pass", &code)?;
//! let link = program.attach(3, Hook::XdpNative)?;
//! # Ok::<(), weir_host::error::SystemError>(())
//! ```

mod code;
mod types;

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub use code::{Code, Cond, Function, Instruction, Label, Op, Operand, Reg, Width};

use crate::error::{Result, SystemError};
use crate::uapi::bpf::*;

/// The place in the kernel at which a program is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each frame that an interface received, before the kernel's stack.
    Xdp,
    /// As [`Kind::Xdp`]; the program also takes frames that lie in several pieces.
    XdpFragments,
    /// Each packet that enters or leaves the kernel's stack at an interface.
    Packet,
}

/// Where a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// In the driver, before the kernel makes a packet of the frame.
    XdpNative,
    /// Behind the driver: every interface can do it.
    XdpGeneric,
    /// Packets that the interface received, before all other programs there (Linux 6.6).
    TcxIngress,
    /// Packets that the host sends out of the interface, before all other programs there (Linux
    /// 6.6).
    TcxEgress,
}

impl Hook {
    fn attach_type(self) -> u32 {
        match self {
            Hook::XdpNative | Hook::XdpGeneric => BPF_XDP,
            Hook::TcxIngress => BPF_TCX_INGRESS,
            Hook::TcxEgress => BPF_TCX_EGRESS,
        }
    }
}

/// The type of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// Keys and values of any length.
    Hash,
    /// Keys are indices of four bytes; all entries exist and begin as zeros.
    Array,
    /// As `Array`, and a process may map its entries into its memory (Linux 5.5).
    Shared,
    /// Values are AF_XDP sockets, set as descriptors of four bytes; keys are indices.
    Sockets,
}

/// A table that programs and this process share.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    key_len: usize,
    value_len: usize,
}

/// A program that the kernel accepted.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
}

/// A program's place at an interface; dropping it detaches the program.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
}

impl Link {
    /// Returns the number of the interface at which the program is attached. The kernel detaches it
    /// when the interface is removed or leaves the network namespace, for good: then it is `None`.
    pub fn interface(&self) -> Option<u32> {
        let mut information = LinkInformation::default();
        let mut attributes = ObjectInformation {
            object_fd: self.fd.as_raw_fd() as u32,
            len: size_of::<LinkInformation>() as u32,
            information: (&raw mut information) as u64,
        };
        call(BPF_OBJ_GET_INFO_BY_FD, &mut attributes).ok()?;
        Some(information.interface_index).filter(|index| *index != 0)
    }
}

/// The program stays attached as long as a descriptor of the link is open in any process.
impl From<Link> for OwnedFd {
    fn from(link: Link) -> Self {
        link.fd
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The outcome of [`Program::test`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// The number that the program returned.
    pub verdict: u32,
    /// The frame as the program left it.
    pub frame: Vec<u8>,
}

impl Map {
    /// Makes a map; `name` is at most 15 bytes of letters, digits, `_` and `.`.
    pub fn new(
        kind: MapKind,
        name: &str,
        key_len: usize,
        value_len: usize,
        entries: usize,
    ) -> Result<Self> {
        let attributes = MapCreate {
            map_type: match kind {
                MapKind::Hash => BPF_MAP_TYPE_HASH,
                MapKind::Array | MapKind::Shared => BPF_MAP_TYPE_ARRAY,
                MapKind::Sockets => BPF_MAP_TYPE_XSKMAP,
            },
            key_size: key_len as u32,
            value_size: value_len as u32,
            max_entries: entries as u32,
            flags: if kind == MapKind::Shared { BPF_F_MMAPABLE } else { 0 },
            inner_map_fd: 0,
            numa_node: 0,
            name: name_bytes(name),
        };
        let made = create(BPF_MAP_CREATE, attributes);
        let failed = |cause| with_cure(format!("make the BPF map `{name}`"), cause);
        Ok(Self { fd: made.map_err(failed)?, key_len, value_len })
    }

    /// Makes a map of words of four bytes, by index, which a process may map into its memory: they
    /// are [`Map::SHARED_STRIDE`] bytes apart there.
    pub fn shared(name: &str, entries: usize) -> Result<Self> {
        Self::new(MapKind::Shared, name, 4, 4, entries)
    }

    /// The bytes from one entry of a shared map to the next: the kernel aligns each to eight.
    pub const SHARED_STRIDE: usize = 8;

    /// Makes a map of AF_XDP sockets, by index.
    pub fn sockets(name: &str, entries: usize) -> Result<Self> {
        Self::new(MapKind::Sockets, name, 4, 4, entries)
    }

    /// Sets an entry.
    ///
    /// # Panics
    /// If key or value has not the map's length.
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<()> {
        assert_eq!(key.len(), self.key_len, "a key of the map");
        assert_eq!(value.len(), self.value_len, "a value of the map");
        let mut attributes = self.element(key, value.as_ptr() as u64);
        call(BPF_MAP_UPDATE_ELEM, &mut attributes)
            .map(|_| ())
            .map_err(|cause| with_cure("set an entry of a BPF map", cause))
    }

    /// Sets an entry of a map whose keys are indices to a descriptor.
    pub fn set_descriptor(&self, index: usize, value: BorrowedFd<'_>) -> Result<()> {
        self.set(&(index as u32).to_ne_bytes(), &value.as_raw_fd().to_ne_bytes())
    }

    /// Returns an entry; `None` if there is none.
    ///
    /// # Panics
    /// If the key has not the map's length.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        assert_eq!(key.len(), self.key_len, "a key of the map");
        // The kernel writes values in multiples of eight bytes for some kinds of map.
        let mut value = vec![0; self.value_len.next_multiple_of(8)];
        let mut attributes = self.element(key, value.as_mut_ptr() as u64);
        match call(BPF_MAP_LOOKUP_ELEM, &mut attributes) {
            Ok(_) => {
                value.truncate(self.value_len);
                Ok(Some(value))
            }
            Err(cause) if cause.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(cause) => Err(with_cure("read an entry of a BPF map", cause)),
        }
    }

    fn element(&self, key: &[u8], value: u64) -> MapElement {
        let map_fd = self.fd.as_raw_fd() as u32;
        MapElement { map_fd, padding: 0, key: key.as_ptr() as u64, value, flags: 0 }
    }
}

impl Program {
    /// Loads a program. `name` is as for [`Map::new`].
    ///
    /// # Errors
    /// As [`Program::load_for`].
    pub fn load(kind: Kind, name: &str, code: &Code) -> Result<Self> {
        Self::load_for(kind, name, code, None)
    }

    /// Loads a program; with the number of an interface it can be attached there only, natively,
    /// and may ask its driver what is known of a frame beside its bytes.
    ///
    /// # Errors
    /// Where privileges are missing, or the kernel's verifier refuses the program: the end of its
    /// log is in the text.
    pub fn load_for(kind: Kind, name: &str, code: &Code, interface: Option<u32>) -> Result<Self> {
        let action = format!("load the BPF program `{name}`");
        let Some(instructions) = code.finish() else {
            let why = format!("a jump of its {} instructions is too long", code.len());
            return Err(SystemError::refused(action, why, "write a shorter policy"));
        };
        let mut attributes = program_attributes(kind, name, &instructions, interface);
        let mut attempts = 1;
        let cause = loop {
            match create(BPF_PROG_LOAD, attributes) {
                Ok(fd) => return Ok(Self { fd }),
                // The verifier gives up when a signal comes, if only to stop and to go on.
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock && attempts < LOADS_MAX => {
                    attempts += 1;
                }
                Err(cause) => break cause,
            }
        };
        // Once more, now with a log: it costs time that a good program need not spend.
        let mut log = vec![0; LOG_LEN];
        attributes.log_level = 1;
        attributes.log_size = log.len() as u32;
        attributes.log = log.as_mut_ptr() as u64;
        let _refused_again = create(BPF_PROG_LOAD, attributes);
        Err(with_cure(format!("{action}{}", end_of_log(&log)), cause))
    }

    /// Attaches the program to the interface of this number in this thread's network namespace.
    pub fn attach(&self, interface_index: u32, hook: Hook) -> Result<Link> {
        let (name, flags) = match hook {
            Hook::XdpNative => ("native XDP", XDP_FLAGS_DRV_MODE),
            Hook::XdpGeneric => ("generic XDP", XDP_FLAGS_SKB_MODE),
            Hook::TcxIngress => ("tcx ingress", BPF_F_BEFORE),
            Hook::TcxEgress => ("tcx egress", BPF_F_BEFORE),
        };
        let attributes = LinkCreate {
            program_fd: self.fd.as_raw_fd() as u32,
            interface_index,
            attach_type: hook.attach_type(),
            flags,
            rest: [0; 4],
        };
        let action = || format!("attach a program to interface {interface_index} ({name})");
        let fd = create(BPF_LINK_CREATE, attributes).map_err(|cause| with_cure(action(), cause))?;
        Ok(Link { fd })
    }

    /// Puts the program in the place of the one that this link attached, at once: each frame meets
    /// one of the two.
    ///
    /// # Errors
    /// When the descriptor is no such link, or the program is of another kind.
    pub fn replace(&self, link: BorrowedFd<'_>) -> Result<()> {
        let mut attributes = LinkUpdate {
            link_fd: link.as_raw_fd() as u32,
            program_fd: self.fd.as_raw_fd() as u32,
            flags: 0,
            former_fd: 0,
        };
        call(BPF_LINK_UPDATE, &mut attributes)
            .map(drop)
            .map_err(|cause| with_cure("exchange an attached program", cause))
    }

    /// Runs the program once on a frame of at least 14 bytes; nothing is sent.
    pub fn test(&self, frame: &[u8]) -> Result<TestRun> {
        let mut after = vec![0; frame.len() + GROWTH_MAX];
        let mut attributes = TestProgram {
            program_fd: self.fd.as_raw_fd() as u32,
            size_in: frame.len() as u32,
            size_out: after.len() as u32,
            frame_in: frame.as_ptr() as u64,
            frame_out: after.as_mut_ptr() as u64,
            repeat: 1,
            ..TestProgram::default()
        };
        call(BPF_PROG_TEST_RUN, &mut attributes)
            .map_err(|cause| with_cure("try a BPF program on a frame", cause))?;
        after.truncate(attributes.size_out as usize);
        Ok(TestRun { verdict: attributes.verdict, frame: after })
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns the number of a function of the kernel that programs may call since it is described in
/// the kernel's types; `None` where there is no such function, or no description.
pub fn kernel_function(name: &str) -> Option<i32> {
    types::function(name)
}

/// Returns how many programs are attached at tcx `hook` of an interface of this thread's network
/// namespace.
///
/// # Errors
/// Without CAP_NET_ADMIN, before Linux 6.6, or for a hook of XDP, which netlink shows
/// ([`crate::netlink::LinkState`]).
pub fn attached(interface_index: u32, hook: Hook) -> Result<u32> {
    let attach_type = hook.attach_type();
    let mut query = Query { interface_index, attach_type, ..Query::default() };
    match call(BPF_PROG_QUERY, &mut query) {
        Ok(_) => Ok(query.count),
        // Nothing was ever attached there.
        Err(cause) if cause.raw_os_error() == Some(libc::ENOENT) => Ok(0),
        Err(cause) => Err(with_cure(format!("list the programs of {interface_index}"), cause)),
    }
}

fn program_attributes(
    kind: Kind,
    name: &str,
    instructions: &[Instruction],
    interface: Option<u32>,
) -> ProgramLoad {
    let (program_type, flags) = match kind {
        Kind::Xdp => (BPF_PROG_TYPE_XDP, 0),
        Kind::XdpFragments => (BPF_PROG_TYPE_XDP, BPF_F_XDP_HAS_FRAGS),
        Kind::Packet => (BPF_PROG_TYPE_SCHED_CLS, 0),
    };
    ProgramLoad {
        program_type,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        // Kernel functions are for programs that may be distributed under the GPL, as MIT allows.
        licence: c"Dual MIT/GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: flags | if interface.is_some() { BPF_F_XDP_DEV_BOUND_ONLY } else { 0 },
        name: name_bytes(name),
        interface_index: interface.unwrap_or(0),
        expected_attach_type: 0,
    }
}

/// Returns the last lines of a verifier's log in one line; they say what it refused and where.
fn end_of_log(log: &[u8]) -> String {
    let len = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(&log[..len]);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("processed ")).collect();
    let last = &lines[lines.len().saturating_sub(LOG_LINES_MAX)..];
    if last.is_empty() { String::new() } else { format!(" (verifier: {})", last.join("; ")) }
}

fn name_bytes(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    let fits = name.len() < bytes.len();
    assert!(fits, "the name `{name}` of a program or map has at most 15 bytes");
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

fn with_cure(action: impl Into<String>, cause: io::Error) -> SystemError {
    let mut error = SystemError::new(action, cause);
    let cure = match error.errno() {
        Some(libc::EPERM | libc::EACCES) => {
            "run as root, or give the program CAP_BPF and CAP_NET_ADMIN; a user namespace is not \
             enough"
        }
        Some(libc::ENOSYS) => "this kernel has no bpf(2): use ports of kind afpacket",
        Some(libc::EBUSY | libc::EEXIST) => {
            "another program is attached there; `ip link` and `bpftool net` show it"
        }
        _ => return error,
    };
    error.cure = cure.into();
    error
}

/// Makes a call whose result is a new descriptor.
fn create<T: Attributes>(command: c_long, mut attributes: T) -> io::Result<OwnedFd> {
    let fd = call(command, &mut attributes)?;
    // SAFETY: the kernel made the descriptor for this call; it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// How often a program is loaded while signals come.
const LOADS_MAX: u32 = 10;

fn call<T: Attributes>(command: c_long, attributes: &mut T) -> io::Result<i32> {
    let pointer: *mut T = attributes;
    // SAFETY: T has the layout of the command's part of `union bpf_attr` and is valid for its
    // length; the pointers inside outlive the call, as every caller in this file sees to.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, pointer, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// Marks the structures below.
///
/// # Safety
/// Only for structures with the layout of a command's part of `union bpf_attr`.
unsafe trait Attributes {}

/// Room for the verifier's log; the kernel cuts a longer one.
const LOG_LEN: usize = 1 << 20;
/// Lines of the log in a message.
const LOG_LINES_MAX: usize = 4;
/// Bytes that a program may add to a frame in a test.
const GROWTH_MAX: usize = 256;

#[derive(Clone, Copy)]
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    name: [u8; 16],
}
// SAFETY: the layout of <linux/bpf.h> for BPF_MAP_CREATE.
unsafe impl Attributes for MapCreate {}

#[derive(Clone, Copy)]
#[repr(C)]
struct MapElement {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}
// SAFETY: the layout of <linux/bpf.h> for BPF_MAP_*_ELEM.
unsafe impl Attributes for MapElement {}

#[derive(Clone, Copy)]
#[repr(C)]
struct ProgramLoad {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface_index: u32,
    expected_attach_type: u32,
}
// SAFETY: the layout of <linux/bpf.h> for BPF_PROG_LOAD.
unsafe impl Attributes for ProgramLoad {}

#[derive(Clone, Copy)]
#[repr(C)]
struct LinkCreate {
    program_fd: u32,
    interface_index: u32,
    attach_type: u32,
    flags: u32,
    /// For tcx: no other program to stand before or behind, any revision.
    rest: [u32; 4],
}
// SAFETY: the layout of <linux/bpf.h> for BPF_LINK_CREATE.
unsafe impl Attributes for LinkCreate {}

#[derive(Clone, Copy)]
#[repr(C)]
struct LinkUpdate {
    link_fd: u32,
    program_fd: u32,
    flags: u32,
    former_fd: u32,
}
// SAFETY: the layout of <linux/bpf.h> for BPF_LINK_UPDATE.
unsafe impl Attributes for LinkUpdate {}

#[derive(Clone, Copy)]
#[repr(C)]
struct ObjectInformation {
    object_fd: u32,
    len: u32,
    information: u64,
}
// SAFETY: the layout of <linux/bpf.h> for BPF_OBJ_GET_INFO_BY_FD.
unsafe impl Attributes for ObjectInformation {}

/// The beginning of `struct bpf_link_info` of <linux/bpf.h>, of a link at an interface.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct LinkInformation {
    kind: u32,
    id: u32,
    program_id: u32,
    padding: u32,
    interface_index: u32,
    rest: [u32; 7],
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Query {
    interface_index: u32,
    attach_type: u32,
    flags: u32,
    attach_flags: u32,
    ids: u64,
    count: u32,
    padding: u32,
    rest: [u64; 4],
}
// SAFETY: the layout of <linux/bpf.h> for BPF_PROG_QUERY; without `ids` it writes `count` only.
unsafe impl Attributes for Query {}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct TestProgram {
    program_fd: u32,
    verdict: u32,
    size_in: u32,
    size_out: u32,
    frame_in: u64,
    frame_out: u64,
    repeat: u32,
    duration: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}
// SAFETY: the layout of <linux/bpf.h> for BPF_PROG_TEST_RUN.
unsafe impl Attributes for TestProgram {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `build`'s program on a frame; `None` where this process may not load programs.
    fn verdict(kind: Kind, build: impl Fn(&mut Code), frame: &[u8]) -> Option<TestRun> {
        let mut code = Code::new();
        build(&mut code);
        match Program::load(kind, "weir_test", &code) {
            Ok(program) => Some(program.test(frame).expect("the program runs")),
            Err(error) if error.errno() == Some(libc::EPERM) => {
                println!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_program_reads_the_frame_and_decides() {
        let frame = |kind: u8| [[0; 12].as_slice(), &[8, kind], &[0; 46]].concat();
        // An XDP program: IPv4 gets 2, anything else 1. R2 = data, R3 = data_end.
        let build = |code: &mut Code| {
            let other = code.label();
            code.load(Width::Word, Reg::R2, Reg::R1, 0).load(Width::Word, Reg::R3, Reg::R1, 4);
            code.set(Reg::R4, Reg::R2).op(Op::Add, Reg::R4, 14);
            code.jump_if(Reg::R4, Cond::Above, Reg::R3, other);
            code.load(Width::Half, Reg::R5, Reg::R2, 12).network_order(Reg::R5, 16);
            code.jump_if(Reg::R5, Cond::NotEqual, 0x0800, other).give(2);
            code.place(other).give(1);
        };
        for (kind, expected) in [(0, 2), (6, 1)] {
            let Some(run) = verdict(Kind::Xdp, build, &frame(kind)) else { return };
            assert_eq!(run, TestRun { verdict: expected, frame: frame(kind) }, "0x080{kind}");
        }
    }

    #[test]
    fn a_program_and_this_process_share_a_map() {
        let map = match Map::new(MapKind::Array, "weir_test", 4, 8, 2) {
            Ok(map) => map,
            Err(error) => return println!("skipped: {error}"),
        };
        map.set(&1u32.to_ne_bytes(), &41u64.to_ne_bytes()).expect("an entry");
        let build = |code: &mut Code| {
            let none = code.label();
            code.set(Reg::R2, 1).store(Width::Word, Reg::R10, -4, Reg::R2);
            code.set(Reg::R2, Reg::R10).op(Op::Add, Reg::R2, -4);
            code.set_map(Reg::R1, &map).call(Function::MapLookup);
            code.jump_if(Reg::R0, Cond::Equal, 0, none);
            code.load(Width::Double, Reg::R6, Reg::R0, 0).op(Op::Add, Reg::R6, 1);
            code.store(Width::Double, Reg::R0, 0, Reg::R6).set(Reg::R0, Reg::R6).exit();
            code.place(none).give(0);
        };
        let Some(run) = verdict(Kind::Packet, build, &[0; 60]) else { return };
        assert_eq!(run.verdict, 42);
        let entry = map.get(&1u32.to_ne_bytes()).expect("readable");
        assert_eq!(entry, Some(42u64.to_ne_bytes().to_vec()));
        assert_eq!(map.get(&2u32.to_ne_bytes()).expect("readable"), None);
    }

    #[test]
    fn what_the_verifier_refused_is_in_the_text() {
        let mut code = Code::new();
        code.exit();
        let error = Program::load(Kind::Xdp, "weir_test", &code).expect_err("R0 has no value");
        let text = error.to_string();
        let expected = if error.errno() == Some(libc::EPERM) { "CAP_BPF" } else { "R0 !read_ok" };
        assert!(text.contains(expected) && text.contains("`weir_test`"), "{text}");
    }
}
