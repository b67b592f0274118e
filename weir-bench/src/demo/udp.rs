//! The live UDP traffic: voice, whose receiver measures delay and loss itself, and the video flood.

use super::mix::{UDP_HEADERS, VIDEO_PAYLOAD, VOICE_INTERVAL, VOICE_PAYLOAD};
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use weir_host::wait::monotonic_ns;

/// A voice packet that arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    /// Its number, from 0.
    pub number: u64,
    /// When it was sent, in ns of the clock that all networks of a machine share.
    pub sent_at: u64,
    /// When it was received.
    pub heard_at: u64,
}

/// Sends voice packets until stopped; returns when each was sent.
pub(super) fn speak(socket: &UdpSocket, stop: &AtomicBool) -> io::Result<Vec<u64>> {
    let mut sent = Vec::new();
    let mut packet = [0; VOICE_PAYLOAD];
    let mut due = monotonic_ns();
    while !stop.load(Ordering::Relaxed) {
        let now = monotonic_ns();
        if now < due {
            thread::sleep(Duration::from_nanos(due - now));
            continue;
        }
        packet[..8].copy_from_slice(&(sent.len() as u64).to_be_bytes());
        packet[8..16].copy_from_slice(&now.to_be_bytes());
        socket.send(&packet)?;
        sent.push(now);
        due += VOICE_INTERVAL.as_nanos() as u64;
    }
    Ok(sent)
}

/// Receives voice packets until stopped.
pub(super) fn listen(socket: &UdpSocket, stop: &AtomicBool) -> io::Result<Vec<Heard>> {
    let mut heard = Vec::new();
    let mut packet = [0; VOICE_PAYLOAD];
    while !stop.load(Ordering::Relaxed) {
        if receive(socket, &mut packet)? != Some(VOICE_PAYLOAD) {
            continue;
        }
        let field = |from: usize| {
            u64::from_be_bytes(packet[from..from + 8].try_into().expect("a field has 8 bytes"))
        };
        heard.push(Heard { number: field(0), sent_at: field(8), heard_at: monotonic_ns() });
    }
    Ok(heard)
}

/// Sends full frames at this rate, in bit/s, until stopped, and ignores any reply.
pub(super) fn stream(socket: &UdpSocket, rate: u64, stop: &AtomicBool) -> io::Result<()> {
    let packet = [0; VIDEO_PAYLOAD];
    let bits = ((VIDEO_PAYLOAD + UDP_HEADERS) * 8) as u64;
    let start = monotonic_ns();
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        let elapsed = monotonic_ns() - start;
        let due = (u128::from(elapsed) * u128::from(rate) / 1_000_000_000) as u64 / bits;
        // After a stall of this thread, sends only part of the backlog, or the kernel's queues
        // would overflow.
        for _ in sent..due.min(sent + FLOOD_BURST) {
            send(socket, &packet)?;
        }
        sent = due;
        thread::sleep(FLOOD_PAUSE);
    }
    Ok(())
}

/// Receives all datagrams, so that the server's kernel does not reply that the port is closed.
pub(super) fn discard(socket: &UdpSocket, stop: &AtomicBool) -> io::Result<()> {
    let mut packet = [0; VIDEO_PAYLOAD];
    while !stop.load(Ordering::Relaxed) {
        receive(socket, &mut packet)?;
    }
    Ok(())
}

/// Returns the length of the next packet; `None` if none arrives for a while.
fn receive(socket: &UdpSocket, packet: &mut [u8]) -> io::Result<Option<usize>> {
    match socket.recv(packet) {
        Ok(length) => Ok(Some(length)),
        Err(error) if is_timeout(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sends, or drops the packet if the kernel has no room, as a flood may.
fn send(socket: &UdpSocket, packet: &[u8]) -> io::Result<()> {
    const ENOBUFS: i32 = 105;
    match socket.send(packet) {
        Ok(_) => Ok(()),
        Err(error) if is_timeout(&error) || error.raw_os_error() == Some(ENOBUFS) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns whether the error is only a timeout of the socket.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

const FLOOD_BURST: u64 = 256;
const FLOOD_PAUSE: Duration = Duration::from_micros(500);
