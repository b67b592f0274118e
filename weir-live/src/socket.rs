//! Thin, checked wrappers of socket calls that the standard library lacks.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::error::{Result, SystemError};

/// Opens a socket that is closed on exec and never blocks.
pub(crate) fn open(family: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
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
pub(crate) fn set_option<T: Copy>(
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

/// Marks a plain structure of integers: every bit pattern, including all zeros, is a value.
///
/// # Safety
/// Only for types without padding-sensitive invariants, references or enums.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: an integer.
unsafe impl Plain for c_int {}
// SAFETY: two integers.
unsafe impl Plain for libc::tpacket_stats {}

/// Reads a socket option.
pub(crate) fn option<T: Plain>(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<T> {
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
pub(crate) fn interface_request(name: &str) -> Result<libc::ifreq> {
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
pub(crate) fn interface_ioctl(
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

/// Returns the flags of an interface of the socket's namespace.
pub(crate) fn interface_flags(socket: BorrowedFd<'_>, name: &str) -> io::Result<c_int> {
    let mut request = interface_request(name).map_err(|error| error.cause)?;
    interface_ioctl(socket, libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: SIOCGIFFLAGS filled in the flags.
    Ok(c_int::from(unsafe { request.ifr_ifru.ifru_flags }))
}

/// Returns the Ethernet address of an interface.
pub(crate) fn interface_address(socket: BorrowedFd<'_>, name: &str) -> io::Result<[u8; 6]> {
    let mut request = interface_request(name).map_err(|error| error.cause)?;
    interface_ioctl(socket, libc::SIOCGIFHWADDR, &mut request)?;
    // SAFETY: SIOCGIFHWADDR filled in the address.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    if address.sa_family != libc::ARPHRD_ETHER {
        return Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL));
    }
    let mut bytes = [0; 6];
    for (byte, found) in bytes.iter_mut().zip(address.sa_data) {
        *byte = found as u8;
    }
    Ok(bytes)
}

/// Sets an interface up or down, and leaves its other flags.
pub(crate) fn set_interface_up(socket: BorrowedFd<'_>, name: &str, up: bool) -> io::Result<()> {
    let flags = interface_flags(socket, name)?;
    let flags = if up { flags | libc::IFF_UP } else { flags & !libc::IFF_UP };
    let mut request = interface_request(name).map_err(|error| error.cause)?;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    interface_ioctl(socket, libc::SIOCSIFFLAGS, &mut request)
}

/// Returns the name that an interface has now.
pub(crate) fn interface_name(socket: BorrowedFd<'_>, index: c_int) -> io::Result<String> {
    // SAFETY: ifreq is integers, pointers and unions of them: all zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_ifru.ifru_ifindex = index;
    interface_ioctl(socket, libc::SIOCGIFNAME, &mut request)?;
    let bytes = request.ifr_name.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0);
    String::from_utf8(bytes.collect()).map_err(|error| io::Error::other(error.to_string()))
}
