//! Fanout groups of packet sockets: the kernel hands each frame to one of them, as a program says.

use std::ffi::c_int;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;

use crate::rsvp::filter;
use crate::socket;
use crate::uapi::classic::RETURN;
use crate::uapi::if_packet::{
    PACKET_FANOUT_CBPF, PACKET_FANOUT_DATA, PACKET_FANOUT_FLAG_IGNORE_OUTGOING as IGNORE_OUTGOING,
    PACKET_FANOUT_FLAG_UNIQUEID as UNIQUE,
};

/// Makes a group of this bound socket alone, and returns the group's number.
pub fn create(first: BorrowedFd<'_>) -> io::Result<u16> {
    let with_outgoing = (PACKET_FANOUT_CBPF | UNIQUE) << 16;
    let alone = with_outgoing | IGNORE_OUTGOING << 16;
    // Kernels before 6.2 do not know the flag; frames that the host itself sends then come, too.
    if socket::set_option(first, libc::SOL_PACKET, libc::PACKET_FANOUT, &alone).is_err() {
        socket::set_option(first, libc::SOL_PACKET, libc::PACKET_FANOUT, &with_outgoing)?;
    }
    group(first)
}

/// Returns the number of the group of this socket.
pub fn group(member: BorrowedFd<'_>) -> io::Result<u16> {
    let group: c_int = socket::option(member, libc::SOL_PACKET, libc::PACKET_FANOUT)?;
    Ok((group & 0xffff) as u16)
}

/// Adds a bound socket to a group; members are numbered in this order.
pub fn join(socket: BorrowedFd<'_>, group: u16) -> io::Result<()> {
    let older = PACKET_FANOUT_CBPF << 16 | c_int::from(group);
    let wanted = older | IGNORE_OUTGOING << 16;
    socket::set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &wanted)
        .or_else(|_| socket::set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &older))
}

/// Sets the program that returns the number of the member for a frame. When it returns, each frame
/// that the program of before chose a member for is there. It takes the kernel some milliseconds.
pub fn set_program(member: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    set_filter(member, libc::SOL_PACKET, PACKET_FANOUT_DATA, program)
}

/// Makes the socket refuse every frame.
pub fn refuse_all(socket: BorrowedFd<'_>) -> io::Result<()> {
    let nothing = [libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: 0 }];
    set_filter(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &nothing)
}

/// Undoes [`refuse_all`], but for messages of RSVP where they are withheld
/// (`withheld` of a port).
pub fn refuse_only(socket: BorrowedFd<'_>, withheld: Option<Ipv4Addr>) -> io::Result<()> {
    if let Some(own) = withheld {
        return set_filter(
            socket,
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            &filter::withholding(own),
        );
    }
    match socket::set_option(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0) {
        // It has no filter.
        Err(cause) if cause.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        outcome => outcome,
    }
}

/// Makes the socket take only what the bridge itself has to answer: messages of RSVP, and requests
/// for its Ethernet address.
pub fn take_rsvp(socket: BorrowedFd<'_>, own: Ipv4Addr) -> io::Result<()> {
    set_filter(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter::taking(own))
}

fn set_filter(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    let len = u16::try_from(program.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the program is too long"))?;
    // The kernel only reads through the pointer.
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    socket::set_option(socket, level, name, &program)
}
