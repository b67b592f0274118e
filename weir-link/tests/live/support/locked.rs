//! Locks a thread in, as a forwarder is: no capability, and a filter that ends the test if the
//! thread makes, binds or configures a socket, and lets it open no file.

use std::io;

/// Takes every capability from this thread, and from now on ends the process if the thread makes a
/// call that a forwarder must not make.
pub fn lock_in() -> io::Result<()> {
    drop_capabilities()?;
    let program = program();
    let filter =
        libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: prctl takes integers, and a pointer to a program that outlives the call.
    let status = unsafe {
        match libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) {
            0 => libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter),
            refused => refused,
        }
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn drop_capabilities() -> io::Result<()> {
    // <linux/capability.h>: _LINUX_CAPABILITY_VERSION_3 and this thread; then three sets, twice.
    let (header, none) = ([0x2008_0522u32, 0], [0u32; 6]);
    // SAFETY: the kernel reads both arrays, which have the lengths of this version.
    let status = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Calls that make something, or act on the system.
const FORBIDDEN: [i64; 9] = [
    libc::SYS_socket,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_bpf,
    libc::SYS_execve,
    libc::SYS_ptrace,
    libc::SYS_mount,
];
/// Calls that open a file. They fail only: the C library tries them by itself when it gives memory
/// back to the system (`/proc/sys/vm/overcommit_memory`), and does without.
const REFUSED: [i64; 2] = [libc::SYS_openat, libc::SYS_openat2];
/// The ioctls that ask for an interface's name, number, flags, MTU, address and offloads, and the
/// one by which a descriptor of this process does not block.
const QUESTIONS: [u32; 7] = [0x8910, 0x8933, 0x8913, 0x8921, 0x8927, 0x8946, 0x5421];

/// <linux/if_packet.h>.
const PACKET_FANOUT_DATA: u32 = 22;

fn program() -> Vec<libc::sock_filter> {
    let mut code = vec![load(0)];
    for call in FORBIDDEN {
        code.extend([jump_unless(call as u32, 1), give(libc::SECCOMP_RET_KILL_PROCESS)]);
    }
    for call in REFUSED {
        let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        code.extend([jump_unless(call as u32, 1), give(refuse)]);
    }
    code.push(jump_unless(libc::SYS_ioctl as u32, QUESTIONS.len() as u8 * 2 + 2));
    code.push(load(24));
    for question in QUESTIONS {
        code.extend([jump_unless(question, 1), give(libc::SECCOMP_RET_ALLOW)]);
    }
    code.push(give(libc::SECCOMP_RET_KILL_PROCESS));
    code.push(jump_unless(libc::SYS_setsockopt as u32, 13));
    // How a group hands out frames, a thread may say that joined it.
    code.extend([load(24), jump_unless(libc::SOL_PACKET as u32, 3), load(32)]);
    code.extend([jump_unless(PACKET_FANOUT_DATA, 1), give(libc::SECCOMP_RET_ALLOW)]);
    code.extend([load(24), jump_unless(libc::SOL_SOCKET as u32, 5), load(32)]);
    for option in [libc::SO_ATTACH_FILTER, libc::SO_DETACH_FILTER] {
        code.extend([jump_unless(option as u32, 1), give(libc::SECCOMP_RET_ALLOW)]);
    }
    code.push(give(libc::SECCOMP_RET_KILL_PROCESS));
    code.push(give(libc::SECCOMP_RET_ALLOW));
    code
}

/// Loads a word of `struct seccomp_data`: 0 is the call, 16 + 8 n its argument n.
fn load(at: u32) -> libc::sock_filter {
    libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: at }
}

/// Skips `skipped` instructions unless the word is `value`.
fn jump_unless(value: u32, skipped: u8) -> libc::sock_filter {
    libc::sock_filter { code: 0x15, jt: 0, jf: skipped, k: value }
}

fn give(verdict: u32) -> libc::sock_filter {
    libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: verdict }
}
