//! The traffic of a pair on real packets, and a record of it.
//!
//! The server sends, the client fetches, by the kernel's TCP and UDP. What is asked for and when
//! follows from a small generator of its own for each application, so both policies of a pair meet
//! the same users. Requests wait for responses, so how far a user comes depends on the policy.

use super::habits::{BLOCK, GAP, OBJECTS, REQUEST, pause, size};
use super::pairs::{Mix, Others, Pair};
use super::quic::{self, Identity};
use crate::experiments::records;
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weir_bench::rig::{self, Forwarder};
use weir_core::units::Share;
use weir_host::error::SystemError;
use weir_link::bridge::PortSource;
use weir_link::recorder;
use weir_testbed::{Host, Testbed};
use weir_trace::record::{File, Head, LaneHead};

/// The direction in which the server sends.
pub const DOWN: &str = "back";
/// Ports of the applications.
pub const BULK: u16 = 9001;
/// Of pages.
pub const WEB: u16 = 9002;
/// Of films.
pub const VIDEO: u16 = 9003;
/// Of calls.
pub const VOICE: u16 = 9004;
/// Of games.
pub const GAME: u16 = 9005;
/// Of downloads by BBR.
pub const BBR: u16 = 9006;
/// Of players with a buffer.
pub const PLAYER: u16 = 9007;
/// Of downloads by QUIC.
pub const QUIC: u16 = 9008;
/// Of pages by QUIC.
pub const QUIC_WEB: u16 = 9009;

/// Runs the traffic of a pair under a policy for so long, and returns a record of the link.
///
/// # Errors
/// When networks, bridge or sockets fail, or the record is not whole.
pub fn record(pair: &Pair, policy: &str, duration: Duration) -> Result<Vec<u8>, SystemError> {
    let (fast, slow) = (rig::policy(FAST)?, rig::policy(policy)?);
    let mut forwarder = Forwarder::weir(&fast, &slow)?;
    if let Forwarder::Weir(config) = &mut forwarder {
        for (place, port) in config.ports.iter_mut().enumerate() {
            let PortSource::Config(config) = &mut port.source else { continue };
            let half = u64::from(pair.round_trip) * 500_000;
            config.impairment.delay = weir_core::units::Duration::from_nanos(half);
            // Towards the client, behind the link.
            let loss = Share::from_ppb((pair.loss * 1e7) as u64).unwrap_or_default();
            config.impairment.loss = if place == 0 { loss } else { Share::default() };
        }
    }
    let (bytes, _) = rig::between(forwarder, |testbed, board| {
        let board = board.expect("the bridge has a board");
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let session = records::begin(board);
            let writing = scope.spawn(|| records::write(session, &head(policy), &is_over));
            let done = traffic(testbed, pair, duration, &is_over);
            is_over.store(true, Ordering::Relaxed);
            let written = writing.join().expect("the writer does not panic");
            done.map(|()| written)
        })
    })?;
    Ok(bytes)
}

fn head(policy: &str) -> Head {
    let lane = |name: &str, from: u16, policy: &str| LaneHead {
        name: name.to_owned(),
        from: vec![from],
        to: 1 - from,
        policy: policy.to_owned(),
        ..LaneHead::default()
    };
    let file = |name: &str, text: &str| File { name: name.to_owned(), text: text.to_owned() };
    Head {
        epoch_ns: recorder::epoch_ns(),
        lanes: vec![lane("forth", 0, "fast.toml"), lane(DOWN, 1, "slow.toml")],
        files: vec![file("fast.toml", FAST), file("slow.toml", policy)],
        ..Head::default()
    }
}

/// Runs all applications, and says after so long that the record is over. They go on a little
/// longer, so that no record has the end of its traffic, which differs from one to the other.
fn traffic(
    testbed: &Testbed,
    pair: &Pair,
    duration: Duration,
    is_over: &AtomicBool,
) -> Result<(), SystemError> {
    let Mix { bulk, web, video, voice, game, others } = pair.mix;
    let Others { bbr, quic, quic_web, player } = others;
    let chunk = u64::from(pair.rate) * 125_000 / 5;
    let tasks = [
        (bulk, BULK, Task::Download),
        (web, WEB, Task::Pages),
        (video, VIDEO, Task::Film(chunk)),
        (bbr, BBR, Task::Download),
        (player, PLAYER, Task::Player(chunk)),
    ];
    let streams = packets(voice, VOICE, (172, 20)).chain(packets(game, GAME, (80, 16)));
    let listeners = tasks.into_iter().filter(|row| row.0 > 0).map(|(count, port, task)| {
        let congestion = if port == BBR { "bbr" } else { pair.congestion };
        Ok((count, port, task, listen(testbed, port, congestion)?))
    });
    let listeners = listeners.collect::<Result<Vec<_>, SystemError>>()?;
    let by_quic = [(quic, QUIC, quic::Task::Download), (quic_web, QUIC_WEB, quic::Task::Pages)];
    let identity = Identity::new();
    let identity = identity.map_err(|cause| SystemError::new("make a certificate", cause))?;
    let recorded = Instant::now() + duration;
    let end = recorded + TAIL;
    thread::scope(|scope| {
        scope.spawn(move || {
            thread::sleep(recorded.saturating_duration_since(Instant::now()));
            is_over.store(true, Ordering::Relaxed);
        });
        for (count, port, task, listener) in listeners {
            scope.spawn(move || serve(&listener, end));
            let user = move |number| client(testbed, (port, task, number), end);
            (0..count).for_each(|number| drop(scope.spawn(move || user(number))));
        }
        let identity = &identity;
        for (count, port, task) in by_quic {
            let address = SocketAddr::new(Host::Server.ip4(), port);
            if let Some(socket) = bind(testbed, Host::Server, port).filter(|_| count > 0) {
                scope.spawn(move || quic::serve(identity, socket, end));
            }
            for number in 0..count {
                let user = quic::User { task, draw: seed(port, number), server: address };
                let Some(socket) = bind(testbed, Host::Client, 0) else { continue };
                scope.spawn(move || quic::fetch(identity, socket, user, end));
            }
        }
        for (own, length, pace) in streams {
            scope.spawn(move || stream(testbed, own, (length, pace), end));
        }
    });
    Ok(())
}

/// Listens at the server, with this congestion control for all connections.
fn listen(testbed: &Testbed, port: u16, congestion: &str) -> Result<TcpListener, SystemError> {
    let failed = |cause| SystemError::new("serve by TCP", cause);
    let listener = testbed.server.run(|| TcpListener::bind((Host::Server.ip4(), port)))?;
    let listener = listener.map_err(failed)?;
    // Connections inherit it.
    SockRef::from(&listener).set_tcp_congestion(congestion.as_bytes()).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// Returns the port, the length and the interval of each of so many streams.
fn packets(
    count: u8,
    port: u16,
    (length, interval_ms): (usize, u64),
) -> impl Iterator<Item = (u16, usize, Duration)> {
    let pace = Duration::from_millis(interval_ms);
    (0..u16::from(count)).map(move |number| (port + 100 * number, length, pace))
}

/// The task of a client.
#[derive(Clone, Copy)]
enum Task {
    /// One object without end.
    Download,
    /// Pages of four objects, each page on a connection of its own.
    Pages,
    /// So many bytes each second, on one connection.
    Film(u64),
    /// So many bytes for each second of film, on one connection, whenever there is room for them.
    Player(u64),
}

/// Runs the client with this number.
fn client(testbed: &Testbed, (port, task, number): (u16, Task, u8), end: Instant) {
    let draw = seed(port, number);
    // A client whose network is gone ends.
    drop(testbed.client.run(|| fetch(port, task, (draw, end))));
}

/// Returns the first draw of a client.
fn seed(port: u16, number: u8) -> u64 {
    u64::from(port) * 64 + u64::from(number)
}

/// Returns a socket for datagrams at a port of a host.
fn bind(testbed: &Testbed, host: Host, port: u16) -> Option<UdpSocket> {
    let network = if host == Host::Server { &testbed.server } else { &testbed.client };
    network.run(|| UdpSocket::bind((host.ip4(), port))).ok()?.ok()
}

/// Serves each connection on a thread of its own: a request says how long its response is.
fn serve(listener: &TcpListener, end: Instant) {
    thread::scope(|scope| {
        while Instant::now() < end {
            match listener.accept() {
                Ok((stream, _)) => {
                    scope.spawn(move || respond(stream, end));
                }
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
    });
}

fn respond(mut stream: TcpStream, end: Instant) -> Option<()> {
    stream.set_nonblocking(false).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(IDLE_MAX)).ok()?;
    stream.set_write_timeout(Some(IDLE_MAX)).ok()?;
    let (mut request, block) = ([0; REQUEST], [0; BLOCK]);
    while Instant::now() < end {
        stream.read_exact(&mut request).ok()?;
        let mut left = u64::from_be_bytes(*request.first_chunk()?);
        while left > 0 && Instant::now() < end {
            let part = left.min(BLOCK as u64);
            stream.write_all(&block[..part as usize]).ok()?;
            left -= part;
        }
    }
    Some(())
}

/// Fetches by this task until the end.
fn fetch(port: u16, task: Task, (seed, end): (u64, Instant)) -> Option<()> {
    let mut draw = seed;
    let connect = || {
        let stream = TcpStream::connect(SocketAddr::new(Host::Server.ip4(), port)).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(IDLE_MAX)).ok()?;
        Some(stream)
    };
    match task {
        Task::Download => object(&mut connect()?, u64::MAX, end),
        Task::Film(chunk) => {
            let mut stream = connect()?;
            let mut due = Instant::now();
            while due < end {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                object(&mut stream, chunk, end)?;
                due = Instant::now().max(due + Duration::from_secs(1));
            }
            Some(())
        }
        Task::Player(chunk) => play(&mut connect()?, chunk, end),
        Task::Pages => {
            while Instant::now() < end {
                thread::sleep(pause(&mut draw));
                let mut stream = connect()?;
                for _ in 0..OBJECTS {
                    object(&mut stream, size(&mut draw), end)?;
                    thread::sleep(GAP);
                }
            }
            Some(())
        }
    }
}

/// Fetches a film, a second of it at a time, and shows it from its first second on.
fn play(stream: &mut TcpStream, chunk: u64, end: Instant) -> Option<()> {
    // The instant at which all that is there has been shown.
    let mut shown = None;
    while Instant::now() < end {
        object(stream, chunk, end)?;
        let now = Instant::now();
        let until = shown.map_or(now, |until| now.max(until)) + SECOND;
        shown = Some(until);
        thread::sleep((until + SECOND).saturating_duration_since(now + BUFFER));
    }
    Some(())
}

/// Fetches one object.
fn object(stream: &mut TcpStream, size: u64, end: Instant) -> Option<()> {
    let mut request = [0; REQUEST];
    request[..8].copy_from_slice(&size.to_be_bytes());
    stream.write_all(&request).ok()?;
    let (mut block, mut left) = ([0; BLOCK], size);
    while left > 0 && Instant::now() < end {
        let most = left.min(BLOCK as u64) as usize;
        left -= match stream.read(&mut block[..most]).ok()? {
            0 => return None,
            length => length as u64,
        };
    }
    Some(())
}

/// Sends packets of this length from the server at this pace, to a client that only listens.
fn stream(
    testbed: &Testbed,
    port: u16,
    (length, pace): (usize, Duration),
    end: Instant,
) -> Option<()> {
    let _listening = bind(testbed, Host::Client, port)?;
    let socket = bind(testbed, Host::Server, port)?;
    socket.connect((Host::Client.ip4(), port)).ok()?;
    let (packet, mut due) = (vec![0; length], Instant::now());
    while due < end {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        socket.send(&packet).ok()?;
        due += pace;
    }
    Some(())
}

/// The way of requests: fast, with room.
const FAST: &str = "[link]\nrate = \"1 Gbit/s\"\nscheduler = \"fifo\"\n\n[class.all]\n\
                    default = true\nqueue = { limit = \"4000 packets\" }\n";
/// How long traffic goes on behind the end of its record.
const TAIL: Duration = Duration::from_millis(500);
/// A connection that says nothing for so long is given up.
const IDLE_MAX: Duration = Duration::from_secs(4);
const SECOND: Duration = Duration::from_secs(1);
/// The film that a player holds at most.
const BUFFER: Duration = Duration::from_secs(3);
