//! The live TCP traffic, by the kernel's own TCP: short transfers and an upload without end.

use super::mix::{WEB_BYTES, WEB_INTERVAL};
use super::udp::is_timeout;
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A transfer of the web class.
#[derive(Debug)]
pub(super) struct WebTransfer {
    /// When its connection was opened.
    pub begun: Instant,
    /// The time from opening its connection until the server had read it all and confirmed.
    pub took: io::Result<Duration>,
}

/// Begins a transfer at every interval until stopped. Call it in the client's network.
pub(super) fn browse(server: SocketAddr, stop: &AtomicBool) -> Vec<WebTransfer> {
    let start = Instant::now();
    thread::scope(|scope| {
        let mut begun = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            // The next begins at its time, whether or not earlier ones have ended.
            begun.push(
                scope.spawn(move || WebTransfer { begun: Instant::now(), took: transfer(server) }),
            );
            let due = WEB_INTERVAL * begun.len() as u32;
            thread::sleep(due.saturating_sub(start.elapsed()));
        }
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join();
        let ended = begun.into_iter().map(join);
        ended.map(|transfer| transfer.expect("a transfer never panics")).collect()
    })
}

/// Makes one transfer; returns how long it took.
pub(super) fn transfer(server: SocketAddr) -> io::Result<Duration> {
    let start = Instant::now();
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&[0; WEB_BYTES])?;
    stream.shutdown(Shutdown::Write)?;
    // The server closes after it has read everything.
    match stream.read(&mut [0])? {
        0 => Ok(start.elapsed()),
        _ => Err(io::Error::other("the server sent unexpected data")),
    }
}

/// Sends as much as TCP accepts until stopped. Call it in the client's network.
pub(super) fn upload(server: SocketAddr, stop: &AtomicBool) -> io::Result<()> {
    send_all(TcpStream::connect_timeout(&server, PATIENCE)?, stop)
}

/// As [`upload`], on a connection that is open.
pub(super) fn send_all(mut stream: TcpStream, stop: &AtomicBool) -> io::Result<()> {
    let socket = SockRef::from(&stream);
    // The simulation uses cubic. A kernel without it has another default, which is good enough.
    drop(socket.set_tcp_congestion(b"cubic"));
    // At the end unsent data is discarded: no test waits for it.
    socket.set_linger(Some(Duration::ZERO))?;
    stream.set_write_timeout(Some(PAUSE))?;
    let bytes = vec![0; UPLOAD_CHUNK];
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&bytes) {
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads every connection to its end until stopped.
pub(super) fn serve(listener: &TcpListener, stop: &AtomicBool) -> io::Result<()> {
    // A listener has no timeout of its own, but it waits no longer than its socket's.
    SockRef::from(listener).set_read_timeout(Some(PAUSE))?;
    thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            match listener.accept() {
                // The client sees how its connection ends.
                Ok((stream, _)) => drop(scope.spawn(move || drop(discard(stream, stop)))),
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
}

fn discard(mut stream: TcpStream, stop: &AtomicBool) -> io::Result<()> {
    stream.set_read_timeout(Some(PAUSE))?;
    let mut bytes = vec![0; UPLOAD_CHUNK];
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A transfer without progress for this time has failed.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest wait of a call before it checks whether to stop.
const PAUSE: Duration = Duration::from_millis(100);
const UPLOAD_CHUNK: usize = 64 << 10;
