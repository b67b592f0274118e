//! The ends of forwarders and keepers, wanted and not, and what traffic sees of them.

use super::restarts::TAKES_OVER;
use super::stopped::{StoppedThread, await_thread};
use super::{
    POLICY, SLOW, Test, await_another, call, called, class_at, dropped, exchange, fails, plan,
};
use libtest_mimic::Failed;
use serde_json::Value;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use weir_control::client;
use weir_control::protocol::{Answer, Request, Setting, Terms};
use weir_link::change::history::ENTRIES_MAX;
use weir_link::status::Status;
use weir_testbed::rows::Outcome;
use weir_testbed::{
    Flood, Host, LEFT, PATIENCE, RIGHT, Scene, Stream, StreamConfig, is_alive, signal, until,
    until_seen,
};

pub const TESTS: &[Test] = &[
    ("a_killed_forwarder_is_replaced", || replaced("KILL", "closed")),
    ("a_killed_forwarder_with_workers_is_replaced", || {
        replaced_in("workers = 2\non_exit = \"closed\"", "KILL")
    }),
    ("an_aborted_forwarder_is_replaced", || replaced("ABRT", "closed")),
    ("a_forwarder_that_hangs_is_replaced", || replaced("STOP", "closed")),
    ("without_a_restart_and_closed_the_link_ends_with_its_forwarder", ended),
    ("traffic_passes_without_the_keeper_and_nothing_is_lost", the_keeper_dies),
    ("a_new_keeper_takes_over_from_one_that_died", a_new_keeper_takes_over),
    ("a_keeper_that_dies_while_it_takes_over_leaves_the_link_to_the_next", die_in_between),
    ("signals_that_mean_nothing_end_nothing", signals_end_nothing),
    ("term_sends_what_waits_and_counts_the_rest_as_flushed", term_flushes),
    ("a_service_manager_is_told", a_service_manager_is_told),
    ("missing_interfaces_are_awaited", missing_interfaces_are_awaited),
    ("a_death_while_an_interface_is_missing_costs_no_restart", a_death_without_an_interface),
    ("deaths_under_load_leave_nothing_behind", || leave_nothing("closed")),
];

/// Only root may attach the programs by which the kernel carries frames.
pub const CARRIED: &[Test] = &[
    ("the_kernel_carries_traffic_until_a_killed_forwarder_is_replaced", || {
        replaced("KILL", "open")
    }),
    ("the_kernel_carries_traffic_where_no_forwarder_is_to_be_started", carried_on),
    ("deaths_under_load_leave_nothing_behind_in_the_kernel", || leave_nothing("open")),
    ("a_worker_that_hangs_is_given_up", a_worker_hangs),
];

/// A forwarder gets this signal; another one follows, and no frame is sent twice.
fn replaced(which: &str, on_exit: &str) -> Outcome {
    // Of one that hangs the watchdog, by default of 2 s, says so.
    let watchdog = if which == "STOP" { "" } else { "\nwatchdog = \"20 s\"" };
    replaced_in(&format!("on_exit = \"{on_exit}\"{watchdog}"), which)
}

fn replaced_in(deployment: &str, which: &str) -> Outcome {
    let mut scene = plan(POLICY).deployment(deployment).start()?;
    let stream = Stream::numbered(&scene.testbed, SLOW)?;
    stream.await_another()?;
    let forwarder = scene.forwarder()?;
    signal(forwarder, which)?;
    await_another(&scene, forwarder)?;
    until("it ends", || !is_alive(forwarder))?;
    stream.await_another()?;
    let found = stream.finish()?;
    assert_eq!(found.repeated, 0, "{found:?}");
    // It is told a moment after it is so.
    scene.await_logged("runs again after")?;
    // A client that asks the next process hears of it, too.
    until("clients can read of it", || {
        let events = called(&scene, &["api", "link", "/events"]).unwrap_or_default();
        ["forwarder-died", "forwarder-started"].iter().all(|kind| events.contains(kind))
    })?;
    let text = scene.stop()?;
    for event in ["died: process", "runs again after"] {
        assert!(text.contains(event), "{event}: {text}");
    }
    assert_eq!(text.contains("unshaped for"), deployment.contains("open"), "{text}");
    Ok(())
}

/// Another thread opens the port of a worker that hangs; the forwarder stays, and when the worker
/// goes on it leaves, and each slot is free again.
fn a_worker_hangs() -> Outcome {
    let deployment = "workers = 2\nsojourn_max = \"none\"";
    let mut scene = plan(POLICY).deployment(deployment).start()?;
    let forwarder = scene.forwarder()?;
    for worker in ["worker-0", "worker-1"] {
        let stream = Stream::numbered(&scene.testbed, SLOW)?;
        stream.await_another()?;
        let stopped = StoppedThread::of(forwarder, worker)?;
        await_thread(forwarder, "worker-again")?;
        stream.await_another()?;
        stopped.go_on()?;
        stream.await_another()?;
        let found = stream.finish()?;
        assert_eq!((found.repeated, found.reordered), (0, 0), "{worker}: {found:?}");
        let whole = |status: &Status| status.frames_free == status.frames_max;
        scene.await_status("each slot is free again", whole)?;
    }
    assert_eq!(scene.forwarder()?, forwarder, "no other one is needed");
    scene.stop()?;
    Ok(())
}

fn carried_on() -> Outcome {
    let deployment = "on_exit = \"open\"\nrestart = \"never\"\nwatchdog = \"20 s\"";
    let mut scene = plan(POLICY).deployment(deployment).start()?;
    let stream = Stream::numbered(&scene.testbed, SLOW)?;
    stream.await_another()?;
    signal(scene.forwarder()?, "KILL")?;
    until("it is gone", || scene.children().is_empty())?;
    scene.await_logged("restart = \"never\"")?;
    stream.await_another()?;
    let found = stream.finish()?;
    // A forwarder takes each frame, or the kernel does from some frame on.
    assert!(found.missing().len() <= 1 && found.repeated == 0, "{found:?}");
    for verb in ["status", "restart"] {
        let refused = call(&scene, &[verb])?;
        let text = &refused.stderr;
        let says = text.contains("no forwarder runs");
        assert!(refused.status.code() == Some(2) && says, "{refused:?}");
    }
    assert!(scene.children().is_empty(), "none is started");
    scene.signal("TERM")?;
    scene.process()?.wait_for_exit()?;
    Ok(())
}

fn ended() -> Outcome {
    let mut scene = plan(POLICY).deployment("restart = \"never\"").start()?;
    signal(scene.forwarder()?, "KILL")?;
    let ended = scene.process()?.wait_for_output()?;
    let errors = &ended.stderr;
    assert_eq!(ended.status.code(), Some(2), "{errors}");
    assert!(errors.contains("restart = \"never\"") && errors.contains("SIGKILL"), "{errors}");
    assert!(!scene.socket().exists(), "the socket is removed");
    Ok(())
}

/// Kills the keeper, and nothing else.
fn kill_keeper(scene: &mut Scene) -> Outcome {
    scene.signal("KILL")?;
    scene.process()?.wait_for_exit()?;
    Ok(())
}

fn the_keeper_dies() -> Outcome {
    let mut scene = plan(POLICY).deployment("sojourn_max = \"none\"").start()?;
    let forwarder = scene.forwarder()?;
    let processes = scene.status()?.processes.ok_or("it has two")?;
    assert_eq!((processes.keeper, processes.forwarder), (Some(scene.keeper()?), forwarder));
    let stream = Stream::numbered(&scene.testbed, SLOW)?;
    stream.await_another()?;
    kill_keeper(&mut scene)?;
    let processes = await_orphan(&scene)?.processes.ok_or("it had two")?;
    stream.await_another()?;
    let found = stream.finish()?;
    assert_eq!((found.lost(), found.repeated, found.reordered), (0, 0, 0), "{found:?}");
    // Another deployment may not take the interfaces.
    let text = scene.read("link.toml")?;
    scene.write("other.toml", &text.replace("weir.sock", "other.sock"))?;
    fails(&scene, "other.toml", 2)?;
    // Nor the link, where it has the same socket.
    let text = text.replace("[deployment]", "[deployment]\nname = \"second\"");
    scene.write("other.toml", &text.replace(LEFT, "none0"))?;
    let text = fails(&scene, "other.toml", 2)?.stderr;
    assert!(text.contains("another link, `link`"), "{text}");
    until("it goes on", || scene.status().is_ok_and(|now| now.processes == Some(processes)))?;
    signal(forwarder, "TERM")?;
    until("it ends", || !is_alive(forwarder))?;
    scene.await_logged("the keeper of `link` is gone")?;
    Ok(())
}

/// Waits until the forwarder knows that its keeper is gone.
fn await_orphan(scene: &Scene) -> Result<Status, Failed> {
    Ok(scene.await_status("it notices", |status| {
        status.processes.is_some_and(|processes| processes.keeper.is_none())
    })?)
}

/// A keeper dies and another takes over, twice: the new one dies too. Each hand-over may lose what
/// comes between two intakes, and nothing else.
fn a_new_keeper_takes_over() -> Outcome {
    let deployment = "log = \"told.log\"\nwatchdog = \"20 s\"\nsojourn_max = \"none\"";
    let mut scene = plan(POLICY).deployment(deployment).start()?;
    // More changes than the history keeps: the start, whose files they change, is not in it.
    const { assert!(CHANGES > ENTRIES_MAX) };
    for number in 0..CHANGES {
        let (key, value) = ("link.rate".to_owned(), format!("{} Mbit/s", 48 + number % 2));
        let settings = vec![Setting { direction: None, key, value }];
        let request = Request::Set { settings, terms: Terms::default() };
        let answer = client::call(&scene.socket(), &request)?;
        assert!(matches!(answer, Answer::Changed(_)), "{answer:?}");
    }
    let stream = Stream::numbered(&scene.testbed, SLOW)?;
    for _ in 0..KEEPERS {
        stream.await_another()?;
        let forwarder = scene.forwarder()?;
        kill_keeper(&mut scene)?;
        await_orphan(&scene)?;
        scene.start()?;
        until("a forwarder of its own", || scene.forwarder().is_ok())?;
        until("the former one ends", || !is_alive(forwarder))?;
        let own = scene.keeper()?;
        let status = scene.await_status("its keeper", |status| {
            status.processes.is_some_and(|processes| processes.keeper == Some(own))
        })?;
        assert_eq!(status.lanes[0].policy.rate_bps, 49e6, "the last change is in force");
    }
    stream.await_another()?;
    let found = stream.finish()?;
    assert!(found.repeated == 0 && found.missing().len() <= KEEPERS, "{found:?}");
    let told = || scene.read("told.log").unwrap_or_default().matches(TAKES_OVER).count();
    until_seen("it is told twice", told, |times| *times == KEEPERS)?;
    let text = scene.stop()?;
    let kept = "the link keeps what `weir set` changed";
    for part in ["has a keeper again", TAKES_OVER, "are bridged", kept] {
        assert!(text.contains(part), "{part}: {text}");
    }
    Ok(())
}

/// Keepers die at different moments of a takeover, at once after their predecessor; the next one
/// takes over each time, and is the one that `weir stop` ends.
fn die_in_between() -> Outcome {
    let mut scene = plan(POLICY).deployment("watchdog = \"20 s\"").start()?;
    let stream = Stream::numbered(&scene.testbed, SLOW)?;
    for tens in 0..DEATHS {
        stream.await_another()?;
        kill_keeper(&mut scene)?;
        let command = scene.command(&["up", "link.toml"]);
        scene.spawn(command)?;
        std::thread::sleep(std::time::Duration::from_millis(10 * tens));
        kill_keeper(&mut scene)?;
        scene.start()?;
        let own = scene.keeper()?;
        scene.await_status("its keeper", |status| {
            status.processes.is_some_and(|processes| processes.keeper == Some(own))
        })?;
    }
    stream.await_another()?;
    assert_eq!(stream.finish()?.repeated, 0);
    let keeper = scene.keeper()?;
    let stopped = called(&scene, &["stop", "--format", "json"])?;
    assert!(stopped.contains(&format!(": {keeper}")), "{keeper}: {stopped}");
    let words = scene.last_words();
    assert!(words.starts_with("it ended by itself") && words.contains("wait_status(0)"), "{words}");
    Ok(())
}

/// Returns the signals that wait to be taken by a process, as the kernel prints them.
fn pending(process: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    line.unwrap_or("of none that runs").trim().to_owned()
}

/// Of SIGHUP and SIGUSR1 the keeper takes what they mean; no other has any effect on the two.
fn signals_end_nothing() -> Outcome {
    let mut scene = plan(POLICY).start()?;
    let both = [scene.keeper()?, scene.forwarder()?];
    exchange(&scene.testbed, 5004, 20)?;
    scene.await_status("delays", |status| class_at(status, 0).delay.max_us > 0.0)?;
    for process in both {
        for name in ["USR2", "PIPE", "ALRM", "VTALRM", "PROF", "IO", "XFSZ", "HUP", "USR1"] {
            signal(process, name)?;
            let is_taken = |found: &String| found.trim_matches('0').is_empty();
            until_seen(&format!("{name} is taken"), || pending(process), is_taken)?;
        }
    }
    let is_marked = |status: &Status| class_at(status, 0).delay.max_us == 0.0;
    let status = scene.await_status("delays are measured anew", is_marked)?;
    assert_eq!(class_at(&status, 0).sent.packets, 20, "counts go on");
    exchange(&scene.testbed, 5004, 1)?;
    assert_eq!([scene.keeper()?, scene.forwarder()?], both);
    scene.await_logged(HUNG_UP)?;
    let text = scene.stop()?;
    // The forwarder acts on none: a terminal signals both.
    assert!(text.matches(HUNG_UP).count() == 1 && !text.contains("died"), "{text}");
    Ok(())
}

/// A link of 20 kbit/s holds more than it can send within the time that the deployment gives. What
/// it counts as sent arrives, and nothing else.
fn term_flushes() -> Outcome {
    let policy = POLICY.replace("50 Mbit/s", "20 kbit/s");
    let deployment = "drain = \"20 ms\"\nsojourn_max = \"none\"";
    let mut scene = plan(&policy).deployment(deployment).prepare()?;
    scene.start_with(&["--format", "json", "up", "link.toml"])?;
    let many = StreamConfig { per_second: 200, ..SLOW };
    let mut stream = Stream::numbered(&scene.testbed, many)?;
    let waits = |status: &Status| class_at(status, 0).backlog.packets > 90;
    scene.await_status("frames wait", waits)?;
    let sent = stream.stop_sending();
    let taken = |status: &Status| class_at(status, 0).offered.packets == sent;
    scene.await_status("all are taken", taken)?;
    let text = scene.stop()?;
    let last: Value = serde_json::from_str(text.lines().last().unwrap_or_default())?;
    let status: Status = serde_json::from_value(last["status"].clone())?;
    let voice = class_at(&status, 0);
    let flushed = dropped(voice, "flushed");
    let dropped: u64 = voice.dropped.iter().map(|(_, amount)| amount.packets).sum();
    assert!(flushed > 10, "{voice:?}");
    assert_eq!((voice.offered.packets, voice.backlog.packets), (sent, 0), "{voice:?}");
    assert_eq!(sent, voice.sent.packets + dropped, "{voice:?}");
    let arrives = |arrived: &u64| *arrived == voice.sent.packets;
    until_seen("what was sent arrives", || stream.arrived(), arrives)?;
    Ok(())
}

fn a_service_manager_is_told() -> Outcome {
    let mut scene = plan(POLICY).prepare()?;
    let path = scene.path("notify.sock");
    let manager = UnixDatagram::bind(&path)?;
    manager.set_read_timeout(Some(PATIENCE))?;
    // As systemd does, it names the process whose watchdog it is.
    let mut command = Command::new("sh");
    command.args(["-c", "WATCHDOG_PID=$$ exec \"$0\" up link.toml", env!("CARGO_BIN_EXE_weir")]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    scene.spawn(command)?;
    let await_told = |wanted: &str| -> Outcome {
        let mut bytes = [0; 500];
        // Whatever else it says before that.
        for _ in 0..100 {
            let length = manager.recv(&mut bytes)?;
            if String::from_utf8_lossy(&bytes[..length]).lines().any(|line| line == wanted) {
                return Ok(());
            }
        }
        Err(format!("the service manager is not told {wanted}").into())
    };
    await_told("READY=1")?;
    await_told("WATCHDOG=1")?;
    await_told("WATCHDOG=1")?;
    scene.signal("TERM")?;
    await_told("STOPPING=1")?;
    assert!(scene.process()?.wait_for_exit()?.success());
    Ok(())
}

fn missing_interfaces_are_awaited() -> Outcome {
    let mut scene = plan(POLICY).deployment("wait_for_ports = \"forever\"").prepare()?;
    scene.testbed.disconnect(Host::Server)?;
    scene.spawn(scene.command(&["up", "link.toml"]))?;
    let awaits = format!("do not exist yet: {RIGHT}");
    scene.await_logged(&awaits)?;
    assert!(scene.status().is_err() && scene.process()?.is_alive(), "it waits");
    scene.testbed.connect(Host::Server)?;
    scene.await_status("it starts", |_| true)?;
    exchange(&scene.testbed, 5004, 1)?;
    let text = scene.stop()?;
    assert_eq!(text.matches(&awaits).count(), 1, "{text}");
    Ok(())
}

/// No forwarder can start without its interfaces: one is started when they are back.
fn a_death_without_an_interface() -> Outcome {
    let mut scene = plan(POLICY).deployment("watchdog = \"20 s\"").start()?;
    let forwarder = scene.forwarder()?;
    scene.testbed.disconnect(Host::Server)?;
    scene.await_status("the port is gone", |status| status.ports[1].state == "gone")?;
    signal(forwarder, "KILL")?;
    until("it ends", || !is_alive(forwarder))?;
    let awaits = format!("do not exist yet: {RIGHT}");
    scene.await_logged(&awaits)?;
    assert!(scene.children().is_empty(), "none is started");
    scene.testbed.connect(Host::Server)?;
    await_another(&scene, forwarder)?;
    exchange(&scene.testbed, 5004, 1)?;
    let text = scene.stop()?;
    assert_eq!(text.matches(&awaits).count(), 1, "{text}");
    assert_eq!(text.matches("died: process").count(), 1, "{text}");
    Ok(())
}

/// Deaths of forwarders, and of a keeper with its forwarder, while the link is full.
fn leave_nothing(on_exit: &str) -> Outcome {
    let deployment = format!("on_exit = \"{on_exit}\"\nwatchdog = \"20 s\"");
    let mut scene = plan(POLICY).deployment(&deployment).start()?;
    let flood = Flood::start(&scene.testbed, 64)?;
    let stream = Stream::numbered(&scene.testbed, SLOW)?;
    let mut processes = Vec::new();
    for death in 0..4 {
        let forwarder = scene.forwarder()?;
        processes.extend([forwarder, scene.keeper()?]);
        if death == 1 {
            kill_keeper(&mut scene)?;
        }
        signal(forwarder, "KILL")?;
        until("it ends", || !is_alive(forwarder))?;
        if death == 1 {
            scene.start()?;
        }
        await_another(&scene, forwarder)?;
    }
    stream.await_another()?;
    let found = stream.finish()?;
    drop(flood);
    assert_eq!(found.repeated, 0, "{found:?}");
    processes.push(scene.forwarder()?);
    scene.stop()?;
    // The kernel closes what a killed process had open, and ends its threads, a moment later.
    until("no process is left", || !processes.iter().any(|process| is_alive(*process)))?;
    let names = || fs::read_to_string("/proc/thread-self/net/unix").unwrap_or_default();
    let locks = || scene.testbed.weir.run(names).map_or(1, |all| all.matches("@weir-").count());
    until("no lock is left", || locks() == 0)?;
    scene.start()?;
    scene.stop()?;
    Ok(())
}

/// The words of a keeper about a SIGHUP.
const HUNG_UP: &str = "because of a SIGHUP";
/// Keepers that die while they take over, each 10 ms later than the one before.
const DEATHS: u64 = 12;
/// How many keepers follow the first one.
const KEEPERS: usize = 2;
/// The changes before they die.
const CHANGES: usize = 500;
