//! Attempts from inside the sandbox that succeed, and those that fail. Each row starts this test
//! again as a process of its own, which enters the sandbox and tries one thing. Needs root or user
//! namespaces.

#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bridge::{Bridge, Opened};
use weir_core::classify::InterfaceId;
use weir_host::realtime;
use weir_host::sandbox::{self, Denials, SandboxConfig, User};
use weir_host::wait::{WaitPolicy, Waiter, monotonic_ns};
use weir_link::port::{self, PortConfig};
use weir_rsvp::node::Event;
use weir_testbed::reserving::{Row, Setting, Station};
use weir_testbed::rows::{self, Failed, Need, Outcome};
use weir_testbed::{Ended, Host, LEFT, PATIENCE, Process, RIGHT, Testbed, TestbedConfig, until};

use crate::support::bridge;
use crate::support::traffic::{ends, sockets};

type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("no_capability_no_new_privileges_and_a_filter_are_shown_outside", the_status_shows_it),
    ("frames_pass_packet_sockets_and_nothing_is_refused", || expect_done("afpacket")),
    ("messages_of_rsvp_pass_and_nothing_is_refused", || expect_done("rsvp")),
    ("threads_start_and_serve_clients_of_a_socket", clients_are_served),
    ("a_panic_is_printed", a_panic_is_printed),
    ("an_abort_ends_the_process", || expect_signal("abort", libc::SIGABRT)),
    ("refused_calls_are_counted", || expect_done("count")),
    ("a_process_with_threads_does_not_enter", || expect_done("threads")),
    ("an_unknown_user_is_named", || expect_done("unknown-user")),
    ("memory_is_locked_or_the_reason_said", || expect_done("memory")),
];

/// Tried inside; each must be refused with this error number, or end the process.
const ATTEMPTS: &[(&str, Attempt, Refusal)] = &[
    ("read_a_file", |_| File::open("/etc/passwd").map(drop), Errno(libc::EPERM)),
    ("read_its_own_memory", |_| File::open("/proc/self/mem").map(drop), Errno(libc::EPERM)),
    ("make_a_file", |_| File::create("/tmp/weir-sandbox").map(drop), Errno(libc::EPERM)),
    ("remove_a_file", |_| fs::remove_file("/tmp/weir-none"), Errno(libc::EPERM)),
    ("list_a_folder", |_| fs::read_dir("/").map(drop), Errno(libc::EPERM)),
    ("open_an_ip_socket", |_| socket(libc::AF_INET, libc::SOCK_STREAM), Errno(libc::EPERM)),
    ("open_a_packet_socket", |_| socket(libc::AF_PACKET, libc::SOCK_RAW), Errno(libc::EPERM)),
    ("open_a_netlink_socket", |_| socket(libc::AF_NETLINK, libc::SOCK_RAW), Errno(libc::EPERM)),
    ("open_a_unix_socket", |_| UnixDatagram::unbound().map(drop), Errno(libc::EPERM)),
    ("open_an_interface", open_an_interface, Errno(libc::EPERM)),
    ("set_an_interface_down", set_an_interface_down, Errno(libc::EPERM)),
    ("connect_a_socket", |before| before.socket.connect("127.0.0.1:9"), Errno(libc::EPERM)),
    ("bind_a_socket", bind, Errno(libc::EPERM)),
    ("fork", fork, Errno(libc::EPERM)),
    ("signal_its_parent", |before| call([libc::SYS_kill, before.parent, 0, 0]), Errno(libc::EPERM)),
    ("become_root", |_| call([libc::SYS_setresuid, 0, 0, 0]), Errno(libc::EPERM)),
    ("map_executable_memory", map_executable, Errno(libc::EPERM)),
    ("let_itself_be_traced", |_| prctl(libc::PR_SET_DUMPABLE, 1), Errno(libc::EPERM)),
    ("lift_a_limit", lift_a_limit, Errno(libc::EPERM)),
    // The library blocks signals while it starts one, so that the refusal cannot be counted.
    ("start_a_program", |_| Command::new("/bin/true").status().map(drop), Killed),
    ("become_another_program", exec, Killed),
    ("trace_its_parent", |before| call([libc::SYS_ptrace, 16, before.parent, 0]), Killed),
    ("load_a_bpf_program", |_| call([libc::SYS_bpf, 5, 0, 0]), Killed),
    ("make_a_namespace", |_| call([libc::SYS_unshare, NEW_USER, 0, 0]), Killed),
    ("enter_a_namespace", |_| call([libc::SYS_setns, 0, 0, 0]), Killed),
    ("mount", |_| call([libc::SYS_mount, 0, 0, 0]), Killed),
    ("use_io_uring", |_| call([libc::SYS_io_uring_setup, 1, 0, 0]), Killed),
];

const NEW_USER: i64 = libc::CLONE_NEWUSER as i64;

type Attempt = fn(&Before) -> io::Result<()>;

/// The outcome of an attempt.
enum Refusal {
    Errno(i32),
    Killed,
}
use Refusal::{Errno, Killed};

/// Descriptors that are open before the sandbox.
struct Before {
    socket: UdpSocket,
    parent: i64,
}

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = rows::Row> {
    let attempt = |(name, _, refusal): &'static (&'static str, _, Refusal)| {
        rows::Row::of(format!("sandbox::it_cannot_{name}"), move || match refusal {
            Errno(number) => expect_text(name, &format!("errno {number}")),
            Killed => expect_signal(name, libc::SIGSYS),
        })
    };
    const OTHERS: &[rows::Row] = &[
        rows::Row::new("sandbox::frames_pass_xdp_sockets_and_nothing_is_refused", || {
            expect_done("afxdp")
        })
        .needs(&[Need::AfXdp]),
        rows::Row::new("sandbox::a_fifo_thread_that_never_sleeps_is_made_to", || {
            expect_done("fifo")
        })
        .needs(&[Need::PrivateNetworks, Need::Realtime]),
    ];
    let tests = rows::table("sandbox", TESTS, &[Need::PrivateNetworks]);
    tests.chain(ATTEMPTS.iter().map(attempt)).chain(OTHERS.iter().cloned())
}

/// Plays a part, if this process was started to do so.
pub fn part() -> Option<ExitCode> {
    std::env::var_os(PART).map(|part| play(&part.to_string_lossy()))
}

/// The variable that names what a started process does.
const PART: &str = "WEIR_SANDBOX_PART";
/// The folder of what it leaves for this one.
const FOLDER: &str = "WEIR_SANDBOX_FOLDER";

/// Starts this test as a process that plays `part`, with this folder.
fn start(part: &str, folder: &Path) -> Result<Process, Failed> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(PART, part).env("RUST_BACKTRACE", "0").env(FOLDER, folder);
    Ok(Process::start(&mut command)?)
}

/// Lets a process play `part` to its end.
fn play_out(part: &str) -> Result<Ended, Failed> {
    Ok(start(part, Path::new("/nonexistent"))?.wait_for_output()?)
}

fn expect_text(part: &str, text: &str) -> Outcome {
    let ended = play_out(part)?;
    if ended.stdout.trim() == text && ended.status.success() {
        return Ok(());
    }
    Err(format!("{part}: {text} expected: {ended:?}").into())
}

fn expect_done(part: &str) -> Outcome {
    expect_text(part, "done")
}

fn expect_signal(part: &str, signal: i32) -> Outcome {
    let ended = play_out(part)?;
    match ended.status.signal() {
        Some(found) if found == signal => Ok(()),
        _ => Err(format!("{part}: signal {signal} expected: {ended:?}").into()),
    }
}

fn the_status_shows_it() -> Outcome {
    let mut child = start("wait", Path::new("/nonexistent"))?;
    until("it is inside", || child.stdout() == "ready\n")?;
    let status = fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let traced = fs::read_link(format!("/proc/{}/exe", child.id())).is_ok();
    child.kill();
    let none = "0000000000000000";
    // Root with every user becomes one of the link's own.
    let map = fs::read_to_string("/proc/self/uid_map")?;
    if map.split_whitespace().eq(["0", "0", "4294967295"]) {
        let user = 0x7000_0000 + std::process::id();
        let line = format!("Uid:\t{user}\t{user}\t{user}\t{user}\n");
        assert!(status.contains(&line), "{status}");
        assert!(status.contains(&line.replace("Uid", "Gid")), "{status}");
    }
    let rows = [
        ("CapInh", none),
        ("CapPrm", none),
        ("CapEff", none),
        ("CapBnd", none),
        ("CapAmb", none),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("Threads", "1"),
    ];
    for (name, expected) in rows {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        if line.map(str::trim) != Some(expected) {
            return Err(format!("{name}: {expected} expected:\n{status}").into());
        }
    }
    // This process is root with every capability here, or shares the user namespace.
    if traced { Ok(()) } else { Err("not even its parent may look at it".into()) }
}

fn clients_are_served() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut child = start("serve", folder.path())?;
    until("it is inside", || child.stdout() == "ready\n")?;
    for _ in 0..3 {
        let mut stream = UnixStream::connect(folder.path().join("socket"))?;
        stream.write_all(b"question")?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        assert_eq!(answer, "8 bytes");
    }
    let ended = child.wait_for_output()?;
    if ended.status.success() { Ok(()) } else { Err(format!("{ended:?}").into()) }
}

fn a_panic_is_printed() -> Outcome {
    let ended = play_out("panic")?;
    let printed = ended.stderr.contains("panicked at") && ended.stderr.contains("a fault inside");
    let is_so = printed && ended.status.code() == Some(101);
    if is_so { Ok(()) } else { Err(format!("{ended:?}").into()) }
}

/// The part of the started process.
fn play(part: &str) -> ExitCode {
    let before = Before {
        socket: UdpSocket::bind("0.0.0.0:0").expect("a socket"),
        parent: std::os::unix::process::parent_id().into(),
    };
    let done = match part {
        "wait" => wait(),
        "afpacket" | "afxdp" => frames(part),
        "rsvp" => reserve(),
        "serve" => serve(),
        "panic" => panic_inside(),
        "abort" => abort(),
        "count" => count(),
        "threads" => with_threads(),
        "unknown-user" => unknown_user(),
        "memory" => memory(),
        "fifo" => fifo(),
        attempt => try_inside(attempt, &before),
    };
    match done {
        Ok(text) => println!("{text}"),
        Err(error) => println!("{error}"),
    }
    ExitCode::SUCCESS
}

type Played = Result<String, Box<dyn std::error::Error>>;

fn enter() -> Result<sandbox::Entered, Box<dyn std::error::Error>> {
    sandbox::drop_capabilities(User::OfLink(std::os::unix::process::parent_id()), true)?;
    Ok(sandbox::enter(&SandboxConfig::default())?)
}

fn try_inside(name: &str, before: &Before) -> Played {
    let attempt = ATTEMPTS.iter().find(|(known, _, _)| *known == name).ok_or("no such part")?.1;
    enter()?;
    match attempt(before) {
        Ok(()) => Ok("it worked".to_owned()),
        Err(cause) => Ok(format!("errno {}", cause.raw_os_error().unwrap_or_default())),
    }
}

fn wait() -> Played {
    enter()?;
    println!("ready");
    loop {
        thread::park();
    }
}

/// A bridge forwards between hosts whose sockets were opened before, and its ports follow their
/// interfaces.
fn frames(kind: &str) -> Played {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let [client, server] = sockets(ends(&testbed, Host::ip4)).map_err(text)?;
    let open =
        |interface| port::open(PortConfig { kind: kind.to_owned(), ..PortConfig::new(interface) });
    let opened = testbed.weir.run(|| Opened::new([open(LEFT)?, open(RIGHT)?]))??;
    enter()?;
    let bridge = Bridge::with(opened, WaitPolicy::Hybrid);
    for _ in 0..50 {
        client.send(&[7; 160])?;
        server.recv(&mut [0; 200])?;
    }
    // The bridge notes what it counted when it looks at its interfaces.
    bridge.until("a look", |seen| seen.counters[0].received >= 50).map_err(text)?;
    assert_eq!(bridge.stop().leaked, 0);
    let refused = Denials::default().take_new();
    if refused.is_empty() { Ok("done".to_owned()) } else { Ok(format!("{refused:?}")) }
}

/// Nodes of RSVP reserve by sockets that were opened before, join a group, and follow routes.
fn reserve() -> Played {
    let mut row = Row::new(Setting::default())?;
    enter()?;
    let (session, sender) = row.announce(true);
    let has_path = |station: &Station| station.has(|event| matches!(event, Event::Path { .. }));
    row.until("a Path", |stations| has_path(&stations[2]))?;
    row.reserve(session, sender);
    let is_reserved = |event: &Event| matches!(event, Event::Reserved { .. });
    row.until("a Resv", |stations| stations[0].has(is_reserved))?;
    for group in ["239.1.2.3", "ff15::123"] {
        let network = row.stations[2].driver.network_mut();
        network.join(group.parse()?, InterfaceId(0), true)?;
        network.join(group.parse()?, InterfaceId(0), false)?;
    }
    let refused = Denials::default().take_new();
    if refused.is_empty() { Ok("done".to_owned()) } else { Ok(format!("{refused:?}")) }
}

fn text(failed: Failed) -> String {
    failed.message().unwrap_or_default().to_owned()
}

fn serve() -> Played {
    let folder = PathBuf::from(std::env::var_os(FOLDER).ok_or("no folder")?);
    let listener = UnixListener::bind(folder.join("socket"))?;
    enter()?;
    listener.set_nonblocking(true)?;
    println!("ready");
    let mut waiter = Waiter::new(WaitPolicy::Block, &[listener.as_raw_fd()]);
    let mut threads = Vec::new();
    while threads.len() < 3 {
        waiter.wait(monotonic_ns(), None)?;
        if let Ok((stream, _)) = listener.accept() {
            threads
                .push(thread::Builder::new().name("client".to_owned()).spawn(|| answer(stream))?);
        }
    }
    for thread in threads {
        thread.join().expect("it does not panic")?;
    }
    Ok("done".to_owned())
}

fn answer(mut stream: UnixStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut bytes = Vec::new();
    stream.try_clone()?.read_to_end(&mut bytes)?;
    write!(stream, "{} bytes", bytes.len())
}

fn panic_inside() -> Played {
    enter()?;
    let thread = thread::spawn(|| panic!("a fault inside"));
    let ended = thread.join();
    std::process::exit(if ended.is_err() { 101 } else { 0 });
}

fn abort() -> Played {
    enter()?;
    std::process::abort();
}

fn count() -> Played {
    enter()?;
    let mut denials = Denials::default();
    denials.take_new();
    let _refused = (File::open("/etc/passwd"), File::open("/etc/passwd"));
    let other = thread::spawn(|| UnixDatagram::unbound().map(drop));
    let _refused = other.join().expect("it does not panic");
    let found: Vec<_> = denials.take_new().iter().map(ToString::to_string).collect();
    if cfg!(target_arch = "x86_64") {
        assert_eq!(found, ["socket refused, 1 times", "openat refused, 2 times"]);
    }
    Ok("done".to_owned())
}

fn with_threads() -> Played {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                thread::park_timeout(Duration::from_millis(1));
            }
        });
        let errors = [
            sandbox::drop_capabilities(User::Named("nobody"), false).err(),
            sandbox::enter(&SandboxConfig::default()).err(),
        ];
        stop.store(true, Ordering::Relaxed);
        for error in errors {
            let text = error.map(|error| error.to_string()).unwrap_or_default();
            assert!(text.contains("several threads"), "{text}");
        }
    });
    Ok("done".to_owned())
}

fn unknown_user() -> Played {
    let refusal = |name| {
        let error = sandbox::drop_capabilities(User::Named(name), false).err();
        error.map(|error| error.to_string()).unwrap_or_default()
    };
    let text = refusal("weir-nobody-has-this");
    assert!(text.contains("weir-nobody-has-this") && text.contains("getent passwd"), "{text}");
    let text = refusal("root");
    assert!(text.contains("that is root") && text.contains("leave it out"), "{text}");
    Ok("done".to_owned())
}

/// More memory can be had afterwards, also by many threads at once, and the stack grows.
fn memory() -> Played {
    let entered = enter()?;
    let is_said = entered.memory.bytes > 0 || entered.memory.why_not.contains("CAP_IPC_LOCK");
    assert!(is_said, "{entered}");
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for length in [1 << 10, 1 << 16, 1 << 20, 40 << 20] {
        blocks.push(vec![1; length]);
    }
    assert_eq!(use_stack(64), 64 << 10);
    assert_eq!(blocks.iter().map(Vec::len).sum::<usize>(), (41 << 20) + (1 << 16) + (1 << 10));
    let all = std::sync::Barrier::new(20);
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let _block = vec![1; 1 << 10];
                all.wait();
            });
        }
    });
    assert_eq!(Denials::default().take_new(), []);
    Ok("done".to_owned())
}

fn fifo() -> Played {
    realtime::enter()?;
    enter()?;
    // It spins until the watchdog has acted some times; then it is still there.
    let spinning = thread::spawn(|| {
        while realtime::rests() < 3 {
            std::hint::spin_loop();
        }
    });
    realtime::leave()?;
    spinning.join().expect("it does not panic");
    assert!(Denials::default().take_new().is_empty());
    Ok("done".to_owned())
}

#[inline(never)]
fn use_stack(deep: usize) -> usize {
    let room = std::hint::black_box([1_u8; 1 << 10]);
    if deep == 0 { 0 } else { room.len() + use_stack(deep - 1) }
}

fn call(arguments: [i64; 4]) -> io::Result<()> {
    let [number, first, second, third] = arguments;
    // SAFETY: each call of these rows gets numbers and null pointers, which it would refuse.
    match unsafe { libc::syscall(number, first, second, third, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn prctl(option: i32, value: i64) -> io::Result<()> {
    call([libc::SYS_prctl, option.into(), value, 0])
}

fn socket(family: i32, kind: i32) -> io::Result<()> {
    // SAFETY: socket takes numbers; a descriptor that it returns has no other owner.
    match unsafe { libc::socket(family, kind, 0) } {
        -1 => Err(io::Error::last_os_error()),
        open => {
            // SAFETY: as above.
            drop(unsafe { OwnedFd::from_raw_fd(open) });
            Ok(())
        }
    }
}

fn open_an_interface(_: &Before) -> io::Result<()> {
    port::open(PortConfig::new("lo")).map(drop).map_err(|error| error.cause)
}

fn set_an_interface_down(before: &Before) -> io::Result<()> {
    // SAFETY: ifreq is integers, pointers and unions of them: all zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[..2].copy_from_slice(&[b'l' as i8, b'o' as i8]);
    // SAFETY: the request is valid for the call, which a filter refuses.
    match unsafe { libc::ioctl(before.socket.as_raw_fd(), libc::SIOCSIFFLAGS, &mut request) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn bind(before: &Before) -> io::Result<()> {
    let fd = i64::from(before.socket.as_raw_fd());
    call([libc::SYS_bind, fd, 0, 0])
}

fn fork(_: &Before) -> io::Result<()> {
    // SAFETY: a child, if there were one, would end at once.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: as above.
        0 => unsafe { libc::_exit(0) },
        _ => Ok(()),
    }
}

fn exec(_: &Before) -> io::Result<()> {
    let arguments = [c"/bin/true".as_ptr(), std::ptr::null()];
    // SAFETY: the path and the list end as they must.
    unsafe { libc::execv(arguments[0], arguments.as_ptr()) };
    Err(io::Error::last_os_error())
}

fn map_executable(_: &Before) -> io::Result<()> {
    let protection = libc::PROT_READ | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, which nothing uses.
    match unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) } {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn lift_a_limit(_: &Before) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is valid for the call.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
