//! Thin, checked wrappers of socket calls that the standard library lacks.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::error::{Result, SystemError};

/// Opens a socket that is closed on exec and never blocks.
pub fn open(family: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket takes numbers only; the new descriptor has no other owner.
    unsafe {
        match libc::socket(family, kind | flags, protocol) {
            fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Sets a socket option whose value is a plain kernel structure or integer.
///
/// # Errors
/// As the system says.
pub fn set_option<T: Copy>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &T,
) -> io::Result<()> {
    let pointer: *const T = value;
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer is valid for `len` bytes for the length of the call.
    let status = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, pointer.cast(), len) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the number of the interface that a packet socket is bound to; 0 if it is bound to none.
/// One whose interface has been removed, or has left the network namespace, is bound to -1 from
/// then on, also when an interface of the same number comes.
pub fn bound_interface(socket: BorrowedFd<'_>) -> io::Result<c_int> {
    // SAFETY: sockaddr_ll is integers only: all zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    let pointer: *mut libc::sockaddr_ll = &mut address;
    // SAFETY: the pointer is valid for `len` bytes for the length of the call.
    match unsafe { libc::getsockname(socket.as_raw_fd(), pointer.cast(), &mut len) } {
        0 => Ok(address.sll_ifindex),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Binds a packet socket to an interface; protocol 0 receives nothing.
pub fn bind_to(socket: BorrowedFd<'_>, index: c_int, protocol: u16) -> io::Result<()> {
    // SAFETY: sockaddr_ll is integers only: all zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index;
    let pointer: *const libc::sockaddr_ll = &address;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointer is valid for `len` bytes for the length of the call.
    match unsafe { libc::bind(socket.as_raw_fd(), pointer.cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns how many bytes a TCP socket holds that the other kernel has not acknowledged.
///
/// # Errors
/// As the system says.
pub fn unacknowledged(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut count: c_int = 0;
    let pointer: *mut c_int = &mut count;
    // SAFETY: SIOCOUTQ, which has the number of TIOCOUTQ, writes one integer.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, pointer) } {
        0 => Ok(count.max(0) as u64),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Marks a plain structure of integers: every bit pattern, including all zeros, is a value.
///
/// # Safety
/// Only for types without padding-sensitive invariants, references or enums.
pub unsafe trait Plain: Copy {}
// SAFETY: an integer.
unsafe impl Plain for c_int {}
// SAFETY: two integers.
unsafe impl Plain for libc::tpacket_stats {}
// SAFETY: integers only.
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: integers only.
unsafe impl Plain for libc::xdp_statistics {}

/// Reads a socket option.
pub fn option<T: Plain>(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<T> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: T is Plain, so zeroed is a value, and whatever the kernel writes is one too; it
    // writes at most `len` bytes.
    unsafe {
        let mut value: T = std::mem::zeroed();
        let pointer: *mut T = &mut value;
        match libc::getsockopt(socket.as_raw_fd(), level, name, pointer.cast(), &mut len) {
            0 => Ok(value),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Returns an interface request for `name`, with all other fields zero.
pub fn interface_request(name: &str) -> Result<libc::ifreq> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() >= libc::IFNAMSIZ || bytes.contains(&0) {
        let why = "an interface name has 1 to 15 bytes";
        let cure = "`ip link` lists the interfaces";
        return Err(SystemError::refused(format!("look up the interface `{name}`"), why, cure));
    }
    // SAFETY: ifreq is integers, pointers and unions of them: all zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(request)
}

/// Makes an interface ioctl; the result is in `request`.
pub fn interface_ioctl(
    socket: BorrowedFd<'_>,
    code: libc::Ioctl,
    request: &mut libc::ifreq,
) -> io::Result<()> {
    let pointer: *mut libc::ifreq = request;
    // SAFETY: every code used here reads and writes one ifreq, and its pointers are kept
    // alive by the caller.
    match unsafe { libc::ioctl(socket.as_raw_fd(), code, pointer) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
