//! The fallback that carries frames on while Weir is dead, and who holds a claim then, in private
//! networks. `odd_frames.rs` compares the frames themselves with the kernel's bridge. Needs root,
//! since a program in the kernel does it.

#![allow(unsafe_code)]

use crate::support::bridge;
use crate::support::raw;
use crate::support::traffic::{self, ends, transfer};
use weir_testbed::rows::{self, Failed, Need};

use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bridge::Bridge;
use raw::Raw;
use weir_host::claim::{Claim, ClaimConfig, ClaimPort};
use weir_host::netlink::Mac;
use weir_host::netns::{self, NetNs};
use weir_host::robust::{self, Word};
use weir_host::tap::{Side, Tap};
use weir_host::wait::WaitPolicy;
use weir_policy::deployment::OnExit;
use weir_testbed::{
    CableEnd, END, Host, LEFT, Netlink, RIGHT, Stream, StreamConfig, Testbed, TestbedConfig,
    connect, until, until_ok,
};

type Outcome<T = ()> = Result<T, Failed>;
type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("traffic_passes_both_ways_only_while_it_is_open", traffic_passes_only_while_open),
    ("it_opens_as_soon_as_the_loop_of_its_bridge_dies", it_opens_as_soon_as_the_loop_dies),
    ("no_frame_comes_twice_when_it_takes_over_and_hands_back", no_frame_comes_twice),
    ("a_bridge_of_three_ports_is_a_hub", a_bridge_of_three_ports_is_a_hub),
    ("bridges_stay_apart", bridges_stay_apart),
    ("a_claim_is_taken_over_from_whoever_holds_a_copy", a_claim_is_taken_over),
    ("a_socket_that_is_no_lock_is_refused", a_socket_that_is_no_lock_is_refused),
    ("taps_that_are_held_let_nothing_pass", taps_that_are_held_let_nothing_pass),
];

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = rows::Row> {
    let name = "fallback::it_is_refused_where_programs_are_not_permitted";
    let refused = [rows::Row::new(name, refused).needs(&[Need::UserNamespaces])];
    rows::table("fallback", TESTS, &[Need::Root]).chain(refused)
}

/// Plays the part of a process that may load no programs, if this process was started to do so.
pub fn part() -> Option<ExitCode> {
    std::env::var_os(PART)?;
    let refusal = refusal();
    println!("{refusal:?}");
    Some(if refusal.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The variable of a process that plays that part.
const PART: &str = "WEIR_FALLBACK_PART";

/// Interfaces, each with the number of its bridge.
type Ports<'a> = &'a [(&'a str, usize)];

const BOTH: Ports<'static> = &[(LEFT, 0), (RIGHT, 0)];

fn config<'a>(deployment: &'a str, ports: Ports<'a>) -> ClaimConfig<'a> {
    let port = |&(interface, bridge): &(&'a str, usize)| ClaimPort {
        name: interface,
        interface,
        is_host: false,
        bridge,
    };
    let ports = ports.iter().map(port).collect();
    ClaimConfig { deployment, take: false, on_exit: OnExit::Open, ports }
}

fn claim(testbed: &Testbed, ports: Ports<'_>) -> Outcome<Claim> {
    Ok(testbed.weir.run(|| Claim::take(&config("home", ports)))??)
}

/// In a user namespace no process may load programs.
fn refused() -> Outcome {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(PART, "1");
    let output = netns::start_in_user_namespace(&mut command).output()?;
    if output.status.success() { Ok(()) } else { Err(format!("{output:?}").into()) }
}

fn refusal() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let found = testbed.weir.run(|| Claim::take(&config("home", BOTH)))?;
    let text = found.err().map(|error| error.to_string()).unwrap_or_default();
    let parts = ["as `on_exit` says", "root", "`on_exit = \"closed\"`"];
    if parts.iter().all(|part| text.contains(part)) { Ok(()) } else { Err(text.into()) }
}

fn traffic_passes_only_while_open() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let claim = claim(&testbed, BOTH)?;
    let mut probe = Probe::new(ends(&testbed, Host::ip4))?;
    for round in 0..3 {
        probe.send();
        claim.fallback(true)?;
        probe.expect(&format!("of those sent while it is open, round {round}"))?;
        for address in [Host::ip4, Host::ip6] {
            transfer(&testbed, address, 1 << 20)?;
        }
        claim.fallback(false)?;
    }
    let state = testbed.weir.run(|| programs(LEFT))??;
    drop(claim);
    let after = testbed.weir.run(|| programs(LEFT))??;
    if (state, after) == (1, 0) { Ok(()) } else { Err(format!("{state}, then {after}").into()) }
}

/// Without a call of [`Claim::fallback`]: the kernel marks the word of a thread that ended.
fn it_opens_as_soon_as_the_loop_dies() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let claim = claim(&testbed, BOTH)?;
    let words = robust::words(claim.deaths().ok_or("it may open")?)?;
    let mut probe = Probe::new(ends(&testbed, Host::ip4))?;
    // Threads of other bridges, and one that let go, open nothing.
    let dies = |word: &Word| -> Outcome {
        thread::scope(|scope| {
            scope
                .spawn(|| word.watch().map(|watched| (word.hold(), watched)).map(std::mem::forget))
                .join()
        })
        .expect("no panic")?;
        Ok(())
    };
    for round in 0..3 {
        dies(&words[1])?;
        thread::scope(|scope| {
            scope.spawn(|| words[0].watch().map(|_watched| words[0].hold())).join()
        })
        .expect("no panic")?;
        probe.send();
        dies(&words[0])?;
        probe.expect(&format!("of those sent after the death, round {round}"))?;
        claim.fallback(false)?;
    }
    probe.send();
    claim.fallback(true)?;
    probe.expect("of those sent while it is open: a death that was forgotten let none pass before")
}

/// Numbered datagrams between two hosts, a hundred each way at a time.
struct Probe {
    sockets: [UdpSocket; 2],
    next: u32,
    /// The first that may have passed while the way was opened.
    opened: Option<u32>,
}

impl Probe {
    fn new(ends: traffic::Ends<'_>) -> Outcome<Self> {
        let sockets = traffic::sockets(ends)?;
        for socket in &sockets {
            socket.set_nonblocking(true)?;
        }
        Ok(Self { sockets, next: 0, opened: None })
    }

    /// Sends a hundred each way.
    fn send(&mut self) {
        for number in self.next..self.next + 100 {
            for socket in &self.sockets {
                // What is closed may refuse them.
                drop(socket.send(&number.to_be_bytes()));
            }
        }
        self.next += 100;
    }

    /// Sends until some pass each way, and none of those before.
    fn await_open(&mut self) -> Outcome {
        let (first, mut has_passed) = (self.next, [false; 2]);
        until("datagrams pass both ways", || {
            self.send();
            for (socket, has_passed) in self.sockets.iter().zip(&mut has_passed) {
                let mut number = [0; 4];
                while socket.recv(&mut number).is_ok() {
                    assert!(u32::from_be_bytes(number) >= first, "one passed that was held");
                    *has_passed = true;
                }
            }
            has_passed == [true; 2]
        })?;
        self.opened = Some(first);
        Ok(())
    }

    /// Sends a hundred each way, which must arrive, each once, and none of those before: what
    /// passes keeps its order.
    fn expect(&mut self, what: &str) -> Outcome {
        let wanted: Vec<u32> = (self.next..self.next + 100).collect();
        let first = self.opened.take().unwrap_or(self.next);
        self.send();
        for socket in &self.sockets {
            let mut heard = Vec::new();
            until_ok(&format!("the last one, {what}"), || {
                let mut number = [0; 4];
                while socket.recv(&mut number).is_ok() {
                    heard.push(u32::from_be_bytes(number));
                }
                if heard.last() == wanted.last() { Ok(()) } else { Err(format!("{heard:?}")) }
            })?;
            // Of those that were sent while the way was opened any may pass.
            heard.retain(|number| *number < first || *number >= wanted[0]);
            if heard != wanted {
                return Err(format!("{what}: {heard:?}").into());
            }
        }
        Ok(())
    }
}

/// Weir forwards, ends, the fallback takes over, and Weir is back: under load, again and again.
fn no_frame_comes_twice() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let claim = claim(&testbed, BOTH)?;
    let config = StreamConfig { per_second: 10_000, ..StreamConfig::default() };
    let stream = Stream::numbered(&testbed, config)?;
    for round in 0..20 {
        if round > 0 {
            claim.fallback(false)?;
        }
        let bridge = Bridge::start(&testbed, WaitPolicy::Hybrid)?;
        stream.await_another()?;
        bridge.stop();
        claim.fallback(true)?;
        stream.await_another()?;
    }
    let found = stream.finish()?;
    if found.repeated == 0 { Ok(()) } else { Err(format!("{found:?}").into()) }
}

/// Adds cables to the machine in the middle: each ends in `outside`, at an interface of its name
/// with an `x` behind it.
fn add_cables(testbed: &Testbed, outside: &NetNs, names: &[&str]) -> Outcome {
    for (number, name) in (0..).zip(names) {
        let (weir, addresses, end) = (&testbed.weir, &[], format!("{name}x"));
        let [mac, end_mac] = [0x79, 0x7a].map(|kind| Mac([2, 0, 0, 0, kind, number]));
        let near = CableEnd { namespace: weir, name, mac, addresses };
        let far = CableEnd { namespace: outside, name: &end, mac: end_mac, addresses };
        connect([near, far], 1500)?;
    }
    Ok(())
}

/// A frame of a protocol of its own.
fn frame(from: Mac, to: Mac, number: u8, len: usize) -> Vec<u8> {
    let mut frame = [to.0, from.0].concat();
    frame.extend([0x88, 0xb5, number]);
    frame.resize(14 + len, number);
    frame
}

fn a_bridge_of_three_ports_is_a_hub() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let outside = NetNs::new()?;
    add_cables(&testbed, &outside, &["third"])?;
    Netlink::open_in(&testbed.weir)?.set_mtu("third", 1000)?;
    let claim = claim(&testbed, &[(LEFT, 0), (RIGHT, 0), ("third", 0)])?;
    claim.fallback(true)?;
    let client = testbed.client.run(|| Raw::open(END))??;
    let server = testbed.server.run(|| Raw::open(END))??;
    let third = outside.run(|| Raw::open("thirdx"))??;
    let port = Netlink::open_in(&testbed.weir)?.link("third")?.mac.ok_or("it has an address")?;
    let (here, there) = (Host::Client.mac(), Host::Server.mac());
    let group = |last| Mac([1, 0x80, 0xc2, 0, 0, last]);
    // The destination, the length, and the others at which it arrives.
    let rows: &[(Mac, usize, bool, bool)] = &[
        (there, 60, true, true),
        (Mac([0xff; 6]), 60, true, true),
        (Mac([2, 9, 9, 9, 9, 9]), 60, true, true),
        (there, 1001, true, true),
        (there, 1200, true, false),
        (port, 60, false, false),
        (group(0), 60, true, true),
        (group(1), 60, false, false),
        (group(15), 60, false, false),
        (group(16), 60, true, true),
    ];
    for (number, (to, len, at_server, at_third)) in rows.iter().enumerate() {
        client.send(&frame(here, *to, number as u8, *len))?;
        let last = frame(here, Mac([0xff; 6]), 0x80 + number as u8, 60);
        client.send(&last)?;
        for (name, ear, wanted) in [("server", &server, *at_server), ("third", &third, *at_third)] {
            let is_ours = |seen: &[u8]| seen.get(12..15) == Some(&[0x88, 0xb5, number as u8]);
            let count = ear.count_until(&last, is_ours)?;
            if count != u32::from(wanted) {
                return Err(format!("row {number}: {count} at {name}").into());
            }
        }
    }
    Ok(())
}

fn bridges_stay_apart() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let outside = NetNs::new()?;
    add_cables(&testbed, &outside, &["a", "b"])?;
    let claim = claim(&testbed, &[(LEFT, 0), ("a", 1), (RIGHT, 0), ("b", 1)])?;
    claim.fallback(true)?;
    let client = testbed.client.run(|| Raw::open(END))??;
    let server = testbed.server.run(|| Raw::open(END))??;
    let [a, b] = [outside.run(|| Raw::open("ax"))??, outside.run(|| Raw::open("bx"))??];
    let all = Mac([0xff; 6]);
    let (first, second) = (frame(Host::Client.mac(), all, 1, 60), frame(all, all, 2, 60));
    client.send(&first)?;
    a.send(&second)?;
    for (ear, own, other) in [(&server, &first, &second), (&b, &second, &first)] {
        if ear.count_until(own, |seen| seen == other)? > 0 {
            return Err("a frame came into the other bridge".into());
        }
    }
    Ok(())
}

/// The process that holds copies; there is none of this number.
const HOLDER: u32 = 4_194_999;

fn a_claim_is_taken_over() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let other = |ports| {
        let found = testbed.weir.run(|| Claim::take(&config("other", ports)));
        found.map(|taken| taken.map_err(|error| error.to_string()))
    };
    let first = claim(&testbed, BOTH)?;
    let copies = testbed.weir.run(|| first.descriptors(HOLDER))??;
    // Again, as after an interface came back: the name of the holder is there already.
    drop(testbed.weir.run(|| first.descriptors(HOLDER))??);
    let before = other(BOTH)?.err().unwrap_or_default();
    let stop = AtomicBool::new(false);
    let (adopted, won) = thread::scope(|scope| -> Outcome<(Claim, u32)> {
        let rival = scope.spawn(|| {
            let mut won = 0;
            while !stop.load(Ordering::Relaxed) {
                won += other(&BOTH[1..]).map_or(0, |taken| u32::from(taken.is_ok()));
            }
            won
        });
        drop(first);
        let orphaned = other(BOTH)?.err().unwrap_or_default();
        let holds = format!("whose keeper has ended and whose forwarder, process {HOLDER}");
        let programs = testbed.weir.run(|| programs(LEFT))??;
        let adopted = testbed.weir.run(|| Claim::adopt(&config("home", BOTH), copies))?;
        stop.store(true, Ordering::Relaxed);
        let won = rival.join().expect("the rival does not panic");
        if !orphaned.contains(&holds) || programs != 1 {
            return Err(format!("{programs} programs; {orphaned}").into());
        }
        Ok((adopted?, won))
    })?;
    let after = other(BOTH)?.err().unwrap_or_default();
    let owner = format!("deployment `home` (process {})", std::process::id());
    if won > 0 || !before.contains(&owner) || !after.contains(&owner) {
        return Err(format!("a rival took it {won} times; {before}; {after}").into());
    }
    let mut probe = Probe::new(ends(&testbed, Host::ip4))?;
    probe.send();
    adopted.fallback(true)?;
    probe.expect("of those sent while it is open after adoption")?;
    drop(adopted);
    let left = testbed.weir.run(|| programs(LEFT))??;
    // A child that another test starts has copies until it runs its program.
    until("no lock is left behind", || matches!(other(BOTH), Ok(Ok(_))))?;
    if left == 0 { Ok(()) } else { Err(format!("{left} programs are left behind").into()) }
}

fn a_socket_that_is_no_lock_is_refused() -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let claimed = claim(&testbed, BOTH)?;
    let copies = testbed.weir.run(move || claimed.descriptors(HOLDER))??;
    let forged = copies.into_iter().map(|(part, _)| {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        (part, vec![OwnedFd::from(socket)])
    });
    let forged: Vec<_> = forged.collect();
    let adopted = testbed.weir.run(|| Claim::adopt(&config("home", BOTH), forged))?;
    let text = adopted.err().map(|error| error.to_string()).unwrap_or_default();
    if text.contains("is not its lock") { Ok(()) } else { Err(text.into()) }
}

/// Host egress after the death of whoever read its taps: closed as long as another process holds
/// them, open once it lets them go.
fn taps_that_are_held_let_nothing_pass() -> Outcome {
    const ROUTER: [u8; 4] = [10, 77, 0, 254];
    let testbed = Testbed::new(TestbedConfig { static_neighbours: false, ..Default::default() })?;
    Netlink::open_in(&testbed.weir)?.add_address(RIGHT, ROUTER.into(), 24)?;
    let machine = (&testbed.weir, ROUTER.into());
    let mut probe = Probe::new([machine, (&testbed.server, Host::Server.ip4())])?;
    probe.expect("before")?;
    let taps = testbed.weir.run(|| -> weir_host::error::Result<[Tap; 2]> {
        let mut taps = [Tap::open(RIGHT, Side::Host)?, Tap::open(RIGHT, Side::Wire)?];
        taps.iter_mut().try_for_each(Tap::attach)?;
        Ok(taps)
    })??;
    probe.send();
    drop(taps);
    // A child that another row starts has copies of them until it runs its program.
    probe.await_open()?;
    probe.expect("of those sent when they are let go")
}

/// Returns the number of programs at the hook `tcx ingress` of an interface of this namespace.
fn programs(interface: &str) -> Outcome<u32> {
    /// Of <linux/bpf.h>, for BPF_PROG_QUERY, up to the last field that is needed.
    #[derive(Default)]
    #[repr(C)]
    struct Query {
        index: u32,
        attach_type: u32,
        flags: [u32; 2],
        programs: u64,
        count: u32,
        padding: u32,
        rest: [u64; 4],
    }
    const PROG_QUERY: libc::c_long = 16;
    const TCX_INGRESS: u32 = 46;
    let index = Netlink::open()?.link(interface)?.index;
    let mut query = Query { index, attach_type: TCX_INGRESS, ..Query::default() };
    let (pointer, len) = (&raw mut query, size_of::<Query>());
    // SAFETY: the kernel reads and writes the structure, which is valid for its length; it has no
    // room for numbers of programs, so only their count is written.
    let status = unsafe { libc::syscall(libc::SYS_bpf, PROG_QUERY, pointer, len) };
    if status < 0 { Err(std::io::Error::last_os_error().into()) } else { Ok(query.count) }
}
