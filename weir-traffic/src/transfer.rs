//! The transfers of a TCP source over the kernel's TCP, each on a connection of its own.
//!
//! A transfer begins with a mark that counts as a part of its bytes. It has ended when the
//! receiver, having read everything, has closed its side; the pause before the next one begins
//! then. Congestion control is that of the source where the kernel has it; window and segments are
//! the kernel's.

use crate::arrivals::Delays;
use crate::mark::{Clock, Kind, MARK_BYTES};
use crate::outlet::{receiver, set_class, unspecified};
use crate::sender::{Marking, SendPlan, SentStream, Shared, length_ns};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use weir_core::account::Histogram;
use weir_core::units;
use weir_host::batch::realtime_ahead_ns;
use weir_host::error::Result;
use weir_host::wait::monotonic_ns;
use weir_sim::scenario::{Congestion, Source};
use weir_sim::schedule::Transfers;
use weir_sim::script::Turn;

/// A TCP source that is to be sent.
pub(crate) struct Transfer {
    source: Source,
    to: SocketAddr,
    sport: Option<u16>,
    clock: (Clock, i64),
    turns: Transfers,
    /// When it starts and stops.
    span_ns: (u64, u64),
    left: u64,
    report: SentStream,
}

impl Transfer {
    pub fn new(
        plan: &SendPlan,
        source: &Source,
        (number, start_ns): (u32, u64),
        turns: Transfers,
    ) -> Result<Self> {
        let to = receiver(&source.headers, plan.zone)?;
        let own = source.headers.ports.map(|ports| ports.source).filter(|_| plan.own_ports);
        let length = length_ns(plan);
        let stop = source.stop.map_or(length, |stop| stop.as_nanos().min(length));
        let ahead_ns = if plan.clock == Clock::Realtime { realtime_ahead_ns() } else { 0 };
        Ok(Self {
            source: source.clone(),
            to,
            sport: own,
            clock: (plan.clock, ahead_ns),
            turns,
            span_ns: (
                start_ns.saturating_add(source.start.as_nanos()),
                start_ns.saturating_add(stop),
            ),
            left: plan.packets_max.unwrap_or(u64::MAX),
            report: SentStream::new(source, number, "tcp", to.to_string()),
        })
    }

    fn is_over(&self, shared: &Shared) -> bool {
        shared.stop.load(Ordering::Relaxed) || monotonic_ns() >= self.span_ns.1
    }

    /// Sleeps until an instant or the end, whichever is first.
    fn sleep_until(&self, at_ns: u64, shared: &Shared) {
        while !self.is_over(shared) {
            let Some(left) = at_ns.checked_sub(monotonic_ns()).filter(|left| *left > 0) else {
                return;
            };
            thread::sleep(Duration::from_nanos(left).min(TURN));
        }
    }

    fn connect(&self) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(self.to), Type::STREAM, Some(Protocol::TCP))?;
        set_class(&socket, &self.source.headers, self.to)?;
        let wanted = self.source.traffic.tcp().map(|tcp| tcp.config.congestion);
        let name: &[u8] = match wanted {
            Some(Congestion::Reno) => b"reno",
            Some(Congestion::Bbr) => b"bbr",
            Some(Congestion::Dctcp) => b"dctcp",
            Some(Congestion::Prague) => b"prague",
            Some(Congestion::Cubic | Congestion::None) | None => b"cubic",
        };
        // A kernel without it uses its own.
        let _ = socket.set_tcp_congestion(name);
        if let Some(port) = self.sport {
            socket.set_reuse_address(true)?;
            socket.bind(&SockAddr::from(SocketAddr::new(unspecified(self.to.ip()), port)))?;
        }
        socket.connect_timeout(&SockAddr::from(self.to), CONNECT_MAX)?;
        socket.set_write_timeout(Some(TURN))?;
        socket.set_read_timeout(Some(TURN))?;
        socket.set_tcp_nodelay(true)?;
        Ok(socket)
    }

    /// Sends one transfer; returns whether the receiver has all of it, and not just what the end
    /// of the run left.
    fn send(&mut self, number: u64, turn: Turn, shared: &Shared) -> io::Result<bool> {
        let mut socket = self.connect()?;
        let _open = shared.open(&socket)?;
        let mark = self.clock.mark(Kind::Packet, self.report.stream, number).bytes();
        let bytes = turn.bytes.map_or(u64::MAX, |bytes| bytes.get().max(MARK_BYTES as u64));
        let (mut first, zeros) = (vec![0; BUFFER], vec![0; BUFFER]);
        first[..MARK_BYTES].copy_from_slice(&mark);
        let mut sent = 0u64;
        while sent < bytes && !self.is_over(shared) {
            let begun = usize::try_from(sent).ok().filter(|&begun| begun < BUFFER);
            let part = begun.map_or(&zeros[..], |begun| &first[begun..]);
            let left = usize::try_from(bytes - sent).unwrap_or(BUFFER);
            let part = &part[..part.len().min(left)];
            let Some(count) = patiently(|| socket.write(part))? else { continue };
            sent += count as u64;
            self.report.bytes += count as u64;
            shared.bytes.fetch_add(count as u64, Ordering::Relaxed);
        }
        socket.shutdown(Shutdown::Write)?;
        self.await_close(&mut socket)?;
        Ok(sent == bytes)
    }

    /// Waits until the receiver has read everything and closed.
    fn await_close(&self, socket: &mut Socket) -> io::Result<()> {
        let until = monotonic_ns().max(self.span_ns.1).saturating_add(CLOSE_MAX_NS);
        let mut rest = [0; 64];
        while monotonic_ns() < until {
            if patiently(|| socket.read(&mut rest))? == Some(0) {
                return Ok(());
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the receiver did not close the connection"))
    }
}

/// Sends the transfers of a source until it or the run ends; returns what was sent.
pub(crate) fn run(mut transfer: Transfer, shared: &Shared) -> SentStream {
    let (mut number, mut times) = (0, Histogram::new());
    transfer.sleep_until(transfer.span_ns.0, shared);
    while transfer.left > 0 && !transfer.is_over(shared) {
        let Some(turn) = transfer.turns.next() else { break };
        let begun = monotonic_ns();
        match transfer.send(number, turn, shared) {
            Ok(whole) => {
                transfer.report.packets += 1;
                if whole {
                    times.record(elapsed(begun));
                }
            }
            Err(error) => {
                transfer.report.refused += 1;
                transfer.report.error = Some(error.to_string());
                // No listener, or no route to it: trying again at once would not help.
                transfer.sleep_until(monotonic_ns() + TURN.as_nanos() as u64, shared);
            }
        }
        number += 1;
        transfer.left -= 1;
        let Some(pause) = transfer.turns.pause(turn, elapsed(begun)) else { break };
        transfer.sleep_until(monotonic_ns().saturating_add(pause.as_nanos()), shared);
    }
    end(&transfer);
    transfer.report.late = Delays::of(&times);
    transfer.report
}

/// Returns the time since an instant.
fn elapsed(since_ns: u64) -> units::Duration {
    units::Duration::from_nanos(monotonic_ns() - since_ns)
}

/// Sends the receiver the number of transfers, on a connection of its own.
fn end(transfer: &Transfer) {
    let Ok(mut socket) = transfer.connect() else { return };
    let mark = transfer.clock.mark(Kind::End, transfer.report.stream, transfer.report.packets);
    // A receiver that is gone needs no end mark.
    let _ = socket.write_all(&mark.bytes());
    let _ = socket.shutdown(Shutdown::Write);
    let _ = transfer.await_close(&mut socket);
}

/// Returns `None` when nothing could be read or written in time.
pub(crate) fn patiently(call: impl FnOnce() -> io::Result<usize>) -> io::Result<Option<usize>> {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    match call() {
        Ok(count) => Ok(Some(count)),
        Err(error) if [Interrupted, TimedOut, WouldBlock].contains(&error.kind()) => Ok(None),
        Err(error) => Err(error),
    }
}

const BUFFER: usize = 64 << 10;
/// How long a thread sleeps or waits at once, so that a stop is noticed.
pub(crate) const TURN: Duration = Duration::from_millis(50);
const CONNECT_MAX: Duration = Duration::from_secs(3);
const CLOSE_MAX_NS: u64 = 5_000_000_000;
