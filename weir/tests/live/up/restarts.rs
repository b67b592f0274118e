//! A forwarder follows another on request: what passes, what may be lost, and what may not.
//!
//! The one closes its intake before the other opens its own. So a stream may miss one run of
//! numbers, which came between the two; whatever a forwarder took before it sends or counts.

use super::{POLICY, SLOW, Test, await_another, call, called, class_at, edit, exchange, plan};
use libtest_mimic::Failed;
use std::fs;
use std::ops::Range;
use std::process::Command;
use weir_link::status::Status;
use weir_testbed::rows::Outcome;
use weir_testbed::{
    Found, PortKind, Process, Scene, Stream, StreamConfig, children, is_alive, until, until_seen,
};

pub const TESTS: &[Test] = &[
    ("a_restart_loses_only_what_comes_between_two_intakes", || exchanged(PortKind::AfPacket)),
    ("a_restart_sends_all_that_waited_once_and_in_order", || held(ENOUGH)),
    ("a_restart_counts_what_waited_and_was_not_sent", || held("20 ms")),
    ("a_restart_loses_nothing_where_nothing_comes_meanwhile", nothing_comes),
    ("restarts_in_a_row_wait_for_one_another", in_a_row),
    ("a_restart_with_a_wrong_file_changes_nothing", wrongly_restarted),
    ("a_link_ends_by_its_name_after_it_sent_what_waited", stopped),
];

pub const OVER_AF_XDP: &[Test] =
    &[("a_restart_of_af_xdp_ports_repeats_no_frame", || exchanged(PortKind::AfXdp))];

pub const TRACED: &[Test] =
    &[("a_restart_goes_on_while_the_loop_pauses_for_seconds", the_loop_pauses)];

fn stopped() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    called(&scene, &["stop"])?;
    let words = scene.last_words();
    assert!(words.starts_with("it ended by itself") && words.contains("wait_status(0)"), "{words}");
    let again = call(&scene, &["stop"])?;
    assert_eq!(again.status.code(), Some(2), "{again:?}");
    Ok(())
}

/// Traffic goes on while forwarders follow one another.
fn exchanged(kind: PortKind) -> Outcome {
    let deployment = "watchdog = \"20 s\"\nsojourn_max = \"none\"\ndrain = \"10 s\"";
    let mut scene = plan(ROOMY).ports(kind).deployment(deployment).start()?;
    for number in 1..=EXCHANGES {
        let former = scene.forwarder()?;
        let stream = Stream::numbered(&scene.testbed, DENSE)?;
        stream.await_another()?;
        let asked = stream.sent();
        called(&scene, &["restart"])?;
        scene.await_logged_times(TAKES_OVER, number)?;
        let told = stream.sent();
        until("the former one ends", || !is_alive(former))?;
        stream.await_another()?;
        let found = stream.finish()?;
        // An AF_XDP port gets its queue when the former one has ended. Its ring is filled from then
        // on, and loses what does not fit into it if the loop begins much later.
        let (end, runs) = if kind == PortKind::AfXdp { (found.sent, 2) } else { (told + 1, 1) };
        check_runs(&found, runs, asked..end);
        assert_eq!(flushed(&scene, number)?, 0);
    }
    let text = scene.stop()?;
    assert!(text.matches(TAKES_OVER).count() == EXCHANGES && !text.contains("died"), "{text}");
    Ok(())
}

/// The missing datagrams arrived while no intake was open: they are at most so many runs, of numbers
/// that were sent meanwhile, and between two of them a whole ring arrived.
fn check_runs(found: &Found, most: usize, meanwhile: Range<u64>) {
    let missing = found.missing();
    let is_between = |run: &Range<u64>| meanwhile.start <= run.start && run.end <= meanwhile.end;
    let is_full = missing.windows(2).all(|pair| pair[1].start - pair[0].end >= RING);
    let is_right = missing.len() <= most && missing.iter().all(is_between) && is_full;
    let is_right = is_right && found.repeated == 0;
    assert!(is_right, "{meanwhile:?}: {found:?}");
}

/// A slow line holds datagrams when its forwarder is followed by another: each arrives once and in
/// order, or is counted as flushed when its time is over.
fn held(drain: &str) -> Outcome {
    let deployment = format!("watchdog = \"20 s\"\nsojourn_max = \"none\"\ndrain = \"{drain}\"");
    let mut scene = plan(NARROW).ports(PortKind::AfPacket).deployment(&deployment).start()?;
    let mut known = 0;
    for number in 1..=RESTARTS {
        let (former, before) = (scene.forwarder()?, class_at(&scene.status()?, 0).offered.packets);
        let mut stream = Stream::numbered(&scene.testbed, FILLING)?;
        until("the line has enough to do", || stream.sent() >= WAITING)?;
        let sent = stream.stop_sending();
        let offered = |status: &Status| class_at(status, 0).offered.packets;
        scene.await_status("all are taken", |status| offered(status) >= before + sent)?;
        called(&scene, &["restart"])?;
        scene.await_logged_times(TAKES_OVER, number)?;
        until("the former one ends", || !is_alive(former))?;
        let found = stream.finish()?;
        assert_eq!((found.repeated, found.reordered), (0, 0), "{found:?}");
        let flushed = flushed(&scene, number)? - known;
        known += flushed;
        assert_eq!(found.lost(), flushed, "what did not arrive is counted: {found:?}");
        assert!(flushed == 0 || drain != ENOUGH, "{flushed} of those that waited were flushed");
    }
    scene.stop()?;
    Ok(())
}

/// Returns how many frames the forwarders counted that they could not send any more, once so many
/// forwarders have told.
fn flushed(scene: &Scene, times: usize) -> Result<u64, Failed> {
    let counts = until_seen(
        "the former one tells what it flushed",
        || counts(scene),
        |counts| counts.len() >= times,
    )?;
    Ok(counts.iter().sum())
}

fn counts(scene: &Scene) -> Vec<u64> {
    let logged = scene.logged();
    // The last line may be on its way.
    let whole = logged.rfind('\n').map_or("", |end| &logged[..end]);
    let lines = whole.lines().filter_map(|line| line.split_once(FLUSHED));
    lines.filter_map(|(_, count)| count.trim().parse().ok()).collect()
}

/// All datagrams that are sent before a restart and after it arrive.
fn nothing_comes() -> Outcome {
    let mut scene = plan(POLICY).deployment("watchdog = \"20 s\"").start()?;
    for number in 1..=2 * RESTARTS {
        let former = scene.forwarder()?;
        let stream = Stream::numbered(&scene.testbed, SLOW)?;
        stream.await_another()?;
        let found = stream.finish()?;
        assert_eq!((found.lost(), found.repeated, found.reordered), (0, 0, 0), "{found:?}");
        called(&scene, &["restart"])?;
        scene.await_logged_times(TAKES_OVER, number)?;
        exchange(&scene.testbed, SLOW.port, 3)?;
        await_another(&scene, former)?;
    }
    scene.stop()?;
    Ok(())
}

/// One waits for what is left of the one before.
fn in_a_row() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    for _ in 0..RESTARTS {
        called(&scene, &["restart"])?;
    }
    // The last one is told of after it is answered.
    scene.await_logged_times(TAKES_OVER, RESTARTS)?;
    exchange(&scene.testbed, SLOW.port, 1)?;
    let text = scene.stop()?;
    assert_eq!(text.matches(TAKES_OVER).count(), RESTARTS, "{text}");
    Ok(())
}

/// Returns the thread of a forwarder's loop: it has no name of its own, as the first one.
fn loop_of(forwarder: u32) -> Result<u32, Failed> {
    let folder = format!("/proc/{forwarder}/task");
    let name = |task: u32| fs::read_to_string(format!("{folder}/{task}/comm")).ok();
    let tasks = fs::read_dir(&folder)?;
    let mut tasks = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    let thread = tasks.find(|task| *task != forwarder && name(*task) == name(forwarder));
    thread.ok_or_else(|| "the forwarder has no loop".into())
}

/// A tracer delays each wait of the loop, as a machine does that is busy with something else.
fn the_loop_pauses() -> Outcome {
    let mut scene = plan(POLICY).deployment("watchdog = \"20 s\"").start()?;
    let former = scene.forwarder()?;
    let thread = loop_of(former)?;
    let mut strace = Command::new("strace");
    strace.args(["-e", "trace=ppoll", "-e", "inject=ppoll:delay_exit=2500000"]);
    let mut strace = Process::start(strace.args(["-p", &thread.to_string()]))?;
    until("the loop is traced", || {
        let path = format!("/proc/{former}/task/{thread}/status");
        fs::read_to_string(path).is_ok_and(|text| !text.contains("TracerPid:\t0\n"))
    })?;
    let restarted = call(&scene, &["restart"])?;
    strace.kill();
    assert!(restarted.status.success(), "{restarted:?}");
    until("the former one ends", || !is_alive(former))?;
    scene.await_logged(TAKES_OVER)?;
    exchange(&scene.testbed, SLOW.port, 1)?;
    called(&scene, &["set", "link.rate=49 Mbit/s"])?;
    let text = scene.stop()?;
    assert!(text.contains(TAKES_OVER) && !text.contains("died"), "{text}");
    Ok(())
}

fn wrongly_restarted() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    let forwarder = scene.forwarder()?;
    edit(&scene, "policy.toml", "50 Mbit/s", "50 mbps")?;
    let refused = call(&scene, &["restart"])?;
    let text = refused.stderr;
    assert!(refused.status.code() == Some(2) && text.contains("ambiguous"), "{text}");
    assert!(text.lines().count() > 3 && !text.contains("u{a}"), "it has lines: {text}");
    exchange(&scene.testbed, SLOW.port, 1)?;
    assert_eq!(children(scene.keeper()?), [forwarder]);
    edit(&scene, "policy.toml", "50 mbps", "20 Mbit/s")?;
    called(&scene, &["restart"])?;
    let text = scene.stop()?;
    assert!(text.contains("goes on as before"), "{text}");
    Ok(())
}

/// The words of a keeper when a new forwarder has taken over.
pub const TAKES_OVER: &str = "forwards for `link` from now on";
/// The words before the count of flushed frames.
const FLUSHED: &str = "frames that it could not send any more:";
/// So many that a forwarder which fails at every second restart is caught.
const RESTARTS: usize = 5;
/// More than it takes to send what waits.
const ENOUGH: &str = "10 s";
/// Datagrams that fill the line of [`NARROW`] for a second.
const WAITING: u64 = 150;
/// More than that line sends, and seconds of it fit into the ring and the queue.
const FILLING: StreamConfig = StreamConfig { port: 5004, per_second: 250, length: 64 };
/// So many, and so often, that some come twice if two forwarders take frames for a millisecond; and
/// a ring holds those of half a second, in which the machine may do something else.
const DENSE: StreamConfig = StreamConfig { port: 5004, per_second: 2000, length: 64 };
const EXCHANGES: usize = 12;
/// The frames that the ring of a guaranteed class holds.
const RING: u64 = 512;
/// No queue is full when one port takes frames before the next is ready.
const ROOMY: &str = r#"
[link]
rate = "50 Mbit/s"
scheduler = "drr"

[class.voice]
match = [{ proto = "udp", dport = "5004" }]
queue = { limit = "4000 packets" }

[class.rest]
default = true
"#;
/// A line of about a hundred datagrams a second.
const NARROW: &str = r#"
[link]
rate = "120 kbit/s"
scheduler = "htb"

[class.voice]
rate = "100 kbit/s"
match = [{ proto = "udp", dport = "5004" }]
queue = { limit = "4000 packets" }

[class.rest]
rate = "20 kbit/s"
default = true
"#;
