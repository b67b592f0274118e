//! The ends of forwarders and keepers, wanted and not, and what traffic sees of them.

use super::probe::Probe;
use super::told::configure;
use super::{Outcome, PATIENCE, POLICY, Scene, Test, children, flood, send_until_received, signal};
use libtest_mimic::Failed;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weir_core::random::Random;
use weir_live::privilege::lacking_for_taps;
use weir_live::status::Status;
use weir_testbed::{Host, LEFT, RIGHT};

pub const TESTS: &[Test] = &[
    ("a_killed_forwarder_is_replaced_within_a_second", || replaced("kill", "KILL", "closed")),
    ("an_aborted_forwarder_is_replaced_within_a_second", || replaced("abrt", "ABRT", "closed")),
    ("a_forwarder_that_hangs_is_replaced", || replaced("hang", "STOP", "closed")),
    ("the_kernel_carries_traffic_until_a_killed_forwarder_is_replaced", || {
        replaced("open", "KILL", "open")
    }),
    ("the_kernel_carries_traffic_where_no_forwarder_is_to_be_started", carried_on),
    ("without_a_restart_and_closed_the_link_ends_with_its_forwarder", ended),
    ("traffic_passes_without_the_keeper", the_keeper_dies),
    ("a_new_keeper_takes_over_from_one_that_died", a_new_keeper_takes_over),
    ("a_restart_on_request_has_a_gap_of_at_most_50_ms", restarted),
    ("a_restart_goes_on_while_the_loop_pauses_for_seconds", restarted_while_the_loop_pauses),
    ("a_restart_of_af_xdp_ports_repeats_no_frame", restarted_af_xdp),
    ("a_restart_with_a_wrong_file_changes_nothing", wrongly_restarted),
    ("signals_that_mean_nothing_end_nothing", signals_end_nothing),
    ("term_sends_what_waits_and_counts_the_rest_as_flushed", term_flushes),
    ("a_service_manager_is_told", a_service_manager_is_told),
    ("missing_interfaces_are_awaited", missing_interfaces_are_awaited),
    ("a_death_while_an_interface_is_missing_costs_no_restart", a_death_without_an_interface),
    ("twenty_deaths_under_load_leave_nothing_behind", twenty_deaths),
];

/// Waits until `is_so`.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Outcome {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() > PATIENCE {
            return Err(format!("{what}: not within {PATIENCE:?}").into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Returns whether a process holds what it has open.
pub fn is_alive(process: u32) -> bool {
    // Of one that ended and was not waited for, nothing is left but its first thread, dead. While
    // another of its threads still ends, what it has open is open.
    let threads = fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count);
    let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, rest)| threads > 1 || !rest.starts_with('Z'))
}

/// Returns whether the kernel may carry frames here.
fn can_carry() -> bool {
    let can = lacking_for_taps().is_empty();
    if !can {
        eprintln!("not tried: only root may attach programs to interfaces");
    }
    can
}

/// Waits until another forwarder than `old` carries a datagram; returns it.
fn await_another(scene: &Scene, old: u32) -> Result<u32, Failed> {
    until("another forwarder", || scene.forwarder().is_ok_and(|now| now != old))?;
    scene.await_status("it answers", |_| true)?;
    scene.forwarder()
}

/// Measures a gap until one is short: the machine may hold up one run, not each of them.
fn one_gap_is_below(limit: Duration, measure: impl Fn() -> Result<Duration, Failed>) -> Outcome {
    let mut gaps = Vec::new();
    while gaps.len() < ATTEMPTS {
        let gap = measure()?;
        if gap < limit {
            return Ok(());
        }
        gaps.push(gap);
    }
    Err(format!("each of these gaps is {limit:?} or longer: {gaps:?}").into())
}

/// Waits until the log of the link has these words.
pub fn await_logged(scene: &Scene, words: &str) -> Outcome {
    let path = scene.folder.join(LOG);
    until(words, || fs::read_to_string(&path).is_ok_and(|text| text.contains(words)))
}

/// A forwarder gets this signal.
fn replaced(name: &str, which: &str, on_exit: &str) -> Outcome {
    if on_exit == "open" && !can_carry() {
        return Ok(());
    }
    // The watchdog waits for a while before it acts.
    let gap_max = Duration::from_millis(if which == "STOP" { 2500 } else { 1000 });
    one_gap_is_below(gap_max, || gap_of_death(name, which, on_exit))
}

/// Returns the gap that a forwarder's death by this signal makes.
fn gap_of_death(name: &str, which: &str, on_exit: &str) -> Result<Duration, Failed> {
    let mut scene = Scene::new(name, POLICY)?;
    let watchdog = if which == "STOP" { "500 ms" } else { "10 s" };
    let service = format!("on_exit = \"{on_exit}\"\nwatchdog = \"{watchdog}\"");
    configure(&scene, &format!("{service}\nlog = \"{LOG}\""))?;
    scene.start()?;
    send_until_received(&scene.testbed, 5005, 1)?;
    let probe = Probe::start(&scene.testbed)?;
    thread::sleep(Duration::from_millis(300));
    let forwarder = scene.forwarder()?;
    signal(forwarder, which)?;
    await_another(&scene, forwarder)?;
    probe.await_another()?;
    let found = probe.end();
    println!("{which}, {on_exit}: {found:?}");
    assert!(found.repeated == 0 && found.arrived <= found.sent, "{found:?}");
    // It is told a moment after it is so.
    await_logged(&scene, "runs again after")?;
    let text = scene.stop()?;
    for event in ["died: process", "runs again after"] {
        assert!(text.contains(event), "{event}: {text}");
    }
    assert_eq!(text.contains("unshaped for"), on_exit == "open", "{text}");
    Ok(found.gap)
}

fn carried_on() -> Outcome {
    if !can_carry() {
        return Ok(());
    }
    one_gap_is_below(Duration::from_secs(1), gap_until_carried)
}

/// Returns the gap until the kernel carries what a forwarder did.
fn gap_until_carried() -> Result<Duration, Failed> {
    let mut scene = Scene::new("carried", POLICY)?;
    configure(&scene, "on_exit = \"open\"\nrestart = \"never\"")?;
    scene.start()?;
    send_until_received(&scene.testbed, 5005, 1)?;
    let probe = Probe::start(&scene.testbed)?;
    thread::sleep(Duration::from_millis(200));
    let keeper = scene.keeper()?;
    signal(scene.forwarder()?, "KILL")?;
    until("it is gone", || children(keeper).is_empty())?;
    thread::sleep(Duration::from_millis(800));
    probe.await_another()?;
    let found = probe.end();
    println!("KILL, open, never: {found:?}");
    assert_eq!(found.repeated, 0, "{found:?}");
    assert!(children(keeper).is_empty(), "none is started");
    for verb in ["status", "restart"] {
        let output = scene.weir(&[verb, "--control", "weir.sock"]).output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains("no forwarder runs"), "{text}");
    }
    let text = stop_keeper(&mut scene, "TERM")?;
    assert!(text.contains("restart = \"never\""), "{text}");
    Ok(found.gap)
}

/// Ends the keeper by a signal; returns what it printed.
fn stop_keeper(scene: &mut Scene, which: &str) -> Result<String, Failed> {
    scene.signal(which)?;
    let mut child = scene.child.take().ok_or("nothing was started")?;
    child.wait()?;
    printed(&mut child)
}

fn printed(child: &mut Child) -> Result<String, Failed> {
    let mut text = String::new();
    child.stdout.take().ok_or("its output was piped")?.read_to_string(&mut text)?;
    Ok(text)
}

fn ended() -> Outcome {
    let mut scene = Scene::new("ended", POLICY)?;
    configure(&scene, "restart = \"never\"")?;
    scene.start()?;
    signal(scene.forwarder()?, "KILL")?;
    let mut child = scene.child.take().ok_or("nothing was started")?;
    let exit = child.wait()?;
    let mut errors = String::new();
    child.stderr.take().ok_or("it was piped")?.read_to_string(&mut errors)?;
    assert_eq!(exit.code(), Some(2), "{errors}");
    assert!(errors.contains("restart = \"never\"") && errors.contains("SIGKILL"), "{errors}");
    assert!(!scene.folder.join("weir.sock").exists(), "the socket is removed");
    Ok(())
}

fn the_keeper_dies() -> Outcome {
    one_gap_is_below(Duration::from_millis(500), gap_without_keeper)
}

/// Returns the longest gap while a keeper dies and is not followed by another.
fn gap_without_keeper() -> Result<Duration, Failed> {
    let mut scene = Scene::new("keeper", POLICY)?;
    scene.start()?;
    let forwarder = scene.forwarder()?;
    send_until_received(&scene.testbed, 5005, 1)?;
    let processes = scene.status()?.processes.ok_or("it has two")?;
    assert_eq!((processes.keeper, processes.forwarder), (Some(scene.keeper()?), forwarder));
    let errors = scene.child.as_mut().and_then(|child| child.stderr.take());
    let probe = Probe::start(&scene.testbed)?;
    thread::sleep(Duration::from_millis(200));
    stop_keeper(&mut scene, "KILL")?;
    let processes = await_orphan(&scene)?.processes.ok_or("it had two")?;
    thread::sleep(Duration::from_millis(500));
    assert!(is_alive(forwarder), "{processes:?}");
    probe.await_another()?;
    let found = probe.end();
    println!("the keeper is killed: {found:?}");
    assert_eq!(found.repeated, 0, "{found:?}");
    // Another deployment may not take the interfaces.
    let text = fs::read_to_string(scene.folder.join("link.toml"))?;
    fs::write(scene.folder.join("other.toml"), text.replace("weir.sock", "other.sock"))?;
    let output = scene.run_up_of("other.toml")?;
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    // Nor the link, where it has the same socket.
    let text = fs::read_to_string(scene.folder.join("link.toml"))?;
    let text = text.replace("[deployment]", "[deployment]\nname = \"second\"");
    fs::write(scene.folder.join("other.toml"), text.replace(LEFT, "none0"))?;
    let output = scene.run_up_of("other.toml")?;
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && text.contains("another link, `link`"), "{text}");
    until("it goes on", || scene.status().is_ok_and(|now| now.processes == Some(processes)))?;
    signal(forwarder, "TERM")?;
    until("it ends", || !is_alive(forwarder))?;
    let mut text = String::new();
    errors.ok_or("its errors were piped")?.read_to_string(&mut text)?;
    assert!(text.contains("the keeper of `link` is gone"), "{text}");
    Ok(found.gap)
}

/// Waits until the forwarder knows that its keeper is gone.
fn await_orphan(scene: &Scene) -> Result<Status, Failed> {
    scene.await_status("it notices", |status| {
        status.processes.is_some_and(|processes| processes.keeper.is_none())
    })
}

fn a_new_keeper_takes_over() -> Outcome {
    one_gap_is_below(Duration::from_secs(1), gap_of_new_keepers)
}

/// Returns the longest gap while a keeper dies and another takes over, twice: the new one dies too.
fn gap_of_new_keepers() -> Result<Duration, Failed> {
    let mut scene = Scene::new("adopt", POLICY)?;
    configure(&scene, &format!("log = \"{LOG}\""))?;
    scene.start()?;
    let set = scene.weir(&["set", "link.rate=49 Mbit/s", "--control", "weir.sock"]).output()?;
    assert!(set.status.success(), "{set:?}");
    send_until_received(&scene.testbed, 5005, 1)?;
    let probe = Probe::start(&scene.testbed)?;
    for _ in 0..2 {
        let forwarder = scene.forwarder()?;
        stop_keeper(&mut scene, "KILL")?;
        await_orphan(&scene)?;
        scene.start()?;
        until("a forwarder of its own", || scene.forwarder().is_ok())?;
        until("the former one ends", || !is_alive(forwarder))?;
        let own = scene.keeper()?;
        scene.await_status("its keeper", |status| {
            status.processes.is_some_and(|processes| processes.keeper == Some(own))
        })?;
    }
    probe.await_another()?;
    let found = probe.end();
    println!("two keepers are killed and replaced: {found:?}");
    assert_eq!(found.repeated, 0, "{found:?}");
    until("it is told twice", || count_logged(&scene, TAKES_OVER) == 2)?;
    let text = scene.stop()?;
    let kept = "the link keeps what `weir set` changed";
    for part in ["has a keeper again", "forwards for `link` from now on", "are bridged", kept] {
        assert!(text.contains(part), "{part}: {text}");
    }
    Ok(found.gap)
}

fn restart(scene: &Scene) -> Result<Output, Failed> {
    Ok(scene.weir(&["restart", "--control", "weir.sock"]).output()?)
}

/// The machine may hold up one restart; not each of many.
fn restarted() -> Outcome {
    let mut scene = Scene::new("restart", POLICY)?;
    configure(&scene, &format!("log = \"{LOG}\""))?;
    scene.start()?;
    send_until_received(&scene.testbed, 5005, 1)?;
    let is_short = |gap: &Duration| *gap <= Duration::from_millis(50);
    let mut gaps = Vec::new();
    while gaps.len() < 5 || gaps.len() < RESTARTS_MAX && !gaps.iter().any(is_short) {
        let forwarder = scene.forwarder()?;
        let probe = Probe::start(&scene.testbed)?;
        thread::sleep(Duration::from_millis(200));
        let output = restart(&scene)?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        probe.await_another()?;
        let found = probe.end();
        println!("restart: {found:?}");
        assert_eq!(found.repeated, 0, "{found:?}");
        gaps.push(found.gap);
        until("the former one ends", || !is_alive(forwarder))?;
    }
    assert!(gaps.iter().any(is_short), "{gaps:?}");
    // One waits for what is left of the one before.
    for _ in 0..3 {
        let output = restart(&scene)?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    // The last one is told of after it is answered.
    until("each is told", || count_logged(&scene, TAKES_OVER) >= gaps.len() + 3)?;
    let text = scene.stop()?;
    assert_eq!(text.matches(TAKES_OVER).count(), gaps.len() + 3, "{text}");
    Ok(())
}

/// Returns how often the log of the link has these words.
fn count_logged(scene: &Scene, words: &str) -> usize {
    fs::read_to_string(scene.folder.join(LOG)).unwrap_or_default().matches(words).count()
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
fn restarted_while_the_loop_pauses() -> Outcome {
    let mut scene = Scene::new("pause", POLICY)?;
    configure(&scene, "watchdog = \"10 s\"")?;
    scene.start()?;
    let former = scene.forwarder()?;
    let mut strace = Command::new("strace");
    strace.args(["-e", "trace=ppoll", "-e", "inject=ppoll:delay_exit=2500000"]);
    let thread = loop_of(former)?;
    let mut strace = strace.args(["-p", &thread.to_string()]).stderr(Stdio::null()).spawn()?;
    let is_traced = || {
        let path = format!("/proc/{former}/task/{thread}/status");
        fs::read_to_string(path).is_ok_and(|text| !text.contains("TracerPid:\t0\n"))
    };
    let output = until("the loop is traced", is_traced).and_then(|()| restart(&scene));
    strace.kill()?;
    strace.wait()?;
    let output = output?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    until("the former one ends", || !is_alive(former))?;
    send_until_received(&scene.testbed, 5005, 1)?;
    let set = scene.weir(&["set", "link.rate=49 Mbit/s", "--control", "weir.sock"]).output()?;
    assert!(set.status.success(), "{set:?}");
    let text = scene.stop()?;
    assert!(text.contains("forwards for `link` from now on") && !text.contains("died"), "{text}");
    Ok(())
}

/// The kernel gives a queue to one process at a time, so the gap is longer, and printed only.
/// Taking over is no stall; the machine may stall the loop in one run, not in each of them.
fn restarted_af_xdp() -> Outcome {
    let mut told = String::new();
    for _ in 0..ATTEMPTS {
        told = told_of_restarts_of_af_xdp()?;
        if !told.contains("nothing was forwarded") {
            return Ok(());
        }
    }
    Err(format!("each of {ATTEMPTS} runs tells of a stall: {told}").into())
}

fn told_of_restarts_of_af_xdp() -> Result<String, Failed> {
    let mut scene = Scene::new("restart-xdp", POLICY)?;
    let path = scene.folder.join("link.toml");
    let text = fs::read_to_string(&path)?;
    let port = |name: &str| format!("{{ interface = \"{name}\", kind = \"afxdp\" }}");
    let named = |name: &str| format!("\"{name}\"");
    let text = text.replace(&named(LEFT), &port(LEFT)).replace(&named(RIGHT), &port(RIGHT));
    fs::write(&path, text)?;
    scene.start()?;
    for _ in 0..3 {
        let forwarder = scene.forwarder()?;
        let probe = Probe::start(&scene.testbed)?;
        let output = restart(&scene)?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        until("the former one ends", || !is_alive(forwarder))?;
        probe.await_another()?;
        let found = probe.end();
        println!("restart of AF_XDP ports: {found:?}");
        assert!(found.repeated == 0 && found.arrived > 0, "{found:?}");
        send_until_received(&scene.testbed, 5005, 1)?;
    }
    scene.stop()
}

fn wrongly_restarted() -> Outcome {
    let mut scene = Scene::new("wrong-restart", POLICY)?;
    scene.start()?;
    let forwarder = scene.forwarder()?;
    fs::write(scene.folder.join("policy.toml"), POLICY.replace("50 Mbit/s", "50 mbps"))?;
    let output = restart(&scene)?;
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && text.contains("ambiguous"), "{text}");
    assert!(text.lines().count() > 3 && !text.contains("u{a}"), "it has lines: {text}");
    send_until_received(&scene.testbed, 5004, 1)?;
    assert_eq!(children(scene.keeper()?), [forwarder]);
    fs::write(scene.folder.join("policy.toml"), POLICY.replace("50 Mbit/s", "20 Mbit/s"))?;
    assert!(restart(&scene)?.status.success(), "it was mended");
    let text = scene.stop()?;
    assert!(text.contains("goes on as before"), "{text}");
    Ok(())
}

fn signals_end_nothing() -> Outcome {
    let mut scene = Scene::new("hup", POLICY)?;
    scene.start()?;
    let forwarder = scene.forwarder()?;
    send_until_received(&scene.testbed, 5004, 20)?;
    scene.await_status("delays", |status| status.lanes[0].classes[0].delay.max_us > 0.0)?;
    for process in [scene.keeper()?, forwarder] {
        for name in ["HUP", "USR1", "USR2", "PIPE", "ALRM", "VTALRM", "PROF", "IO", "XFSZ"] {
            signal(process, name)?;
        }
    }
    let is_marked = |status: &Status| status.lanes[0].classes[0].delay.max_us == 0.0;
    let status = scene.await_status("delays are measured anew", is_marked)?;
    assert_eq!(status.lanes[0].classes[0].sent.packets, 20, "counts go on");
    send_until_received(&scene.testbed, 5004, 1)?;
    assert_eq!(scene.forwarder()?, forwarder);
    let text = scene.stop()?;
    assert!(text.contains("because of a SIGHUP"), "{text}");
    Ok(())
}

/// A link of 20 kbit/s holds far more than it can send within the time that the deployment gives,
/// or while the machine lets the flood or the signal wait.
fn term_flushes() -> Outcome {
    let mut scene = Scene::new("flush", &POLICY.replace("50 Mbit/s", "20 kbit/s"))?;
    configure(&scene, "drain = \"20 ms\"")?;
    scene.start_with(&["--format", "json", "up", "link.toml"])?;
    let done = Arc::new(AtomicBool::new(false));
    let flooding = flood(&scene.testbed, &done)?;
    let waits = |status: &Status| status.lanes[0].classes[1].backlog.packets > 90;
    scene.await_status("frames wait", waits)?;
    let start = Instant::now();
    let text = scene.stop()?;
    println!("ended within {:?}", start.elapsed());
    done.store(true, Ordering::Relaxed);
    flooding.join().expect("the flood does not panic");
    let last: Value = serde_json::from_str(text.lines().last().unwrap_or_default())?;
    let status: Status = serde_json::from_value(last["status"].clone())?;
    let rest = &status.lanes[0].classes[1];
    let dropped: u64 = rest.dropped.iter().map(|(_, amount)| amount.packets).sum();
    let flushed = rest.dropped.iter().find(|(cause, _)| cause == "flushed");
    assert!(flushed.is_some_and(|(_, amount)| amount.packets > 10), "{rest:?}");
    assert_eq!(rest.offered.packets, rest.sent.packets + dropped, "{rest:?}");
    assert_eq!(rest.backlog.packets, 0, "{rest:?}");
    Ok(())
}

fn a_service_manager_is_told() -> Outcome {
    let mut scene = Scene::new("service", POLICY)?;
    let path = scene.folder.join("notify.sock");
    let manager = UnixDatagram::bind(&path)?;
    manager.set_read_timeout(Some(PATIENCE))?;
    // As systemd does, it names the process whose watchdog it is.
    let mut command = Command::new("sh");
    command.args(["-c", "WATCHDOG_PID=$$ exec \"$0\" up link.toml", env!("CARGO_BIN_EXE_weir")]);
    command.current_dir(&scene.folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    scene.child = Some(scene.testbed.weir.run(move || command.spawn())??);
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
    scene.child.take().ok_or("it was started")?.wait()?;
    Ok(())
}

fn missing_interfaces_are_awaited() -> Outcome {
    let mut scene = Scene::new("awaited", POLICY)?;
    configure(&scene, &format!("wait_for_ports = \"forever\"\nlog = \"{LOG}\""))?;
    scene.testbed.disconnect(Host::Server)?;
    let mut command = scene.weir(&["up", "link.toml"]);
    scene.child = Some(scene.testbed.weir.run(move || command.spawn())??);
    let awaits = format!("do not exist yet: {RIGHT}");
    await_logged(&scene, &awaits)?;
    thread::sleep(Duration::from_millis(300));
    assert!(scene.status().is_err(), "it waits");
    scene.testbed.connect(Host::Server)?;
    until("it starts", || scene.status().is_ok())?;
    send_until_received(&scene.testbed, 5004, 1)?;
    let text = scene.stop()?;
    assert_eq!(text.matches(&awaits).count(), 1, "{text}");
    Ok(())
}

/// No forwarder can start without its interfaces: one is started when they are back, however long
/// that takes.
fn a_death_without_an_interface() -> Outcome {
    let mut scene = Scene::new("without", POLICY)?;
    scene.start()?;
    let forwarder = scene.forwarder()?;
    scene.testbed.disconnect(Host::Server)?;
    thread::sleep(Duration::from_millis(300));
    signal(forwarder, "KILL")?;
    until("it ends", || !is_alive(forwarder))?;
    // Six tries would be over by now.
    thread::sleep(Duration::from_secs(2));
    assert!(children(scene.keeper()?).is_empty(), "none is started");
    scene.testbed.connect(Host::Server)?;
    await_another(&scene, forwarder)?;
    send_until_received(&scene.testbed, 5004, 1)?;
    let text = scene.stop()?;
    let awaits = format!("do not exist yet: {RIGHT}");
    assert_eq!(text.matches(&awaits).count(), 1, "{text}");
    Ok(())
}

/// Every fourth death is that of a keeper, with its forwarder.
fn twenty_deaths() -> Outcome {
    let mut scene = Scene::new("twenty", POLICY)?;
    let on_exit = if can_carry() { "open" } else { "closed" };
    configure(&scene, &format!("on_exit = \"{on_exit}\""))?;
    scene.start()?;
    let done = Arc::new(AtomicBool::new(false));
    let flooding = flood(&scene.testbed, &done)?;
    let probe = Probe::start(&scene.testbed)?;
    let mut random = Random::new(7, 0);
    let mut processes = Vec::new();
    for death in 0..20 {
        thread::sleep(Duration::from_millis(u64::from(random.below(100))));
        let forwarder = scene.forwarder()?;
        processes.extend([forwarder, scene.keeper()?]);
        if death % 4 == 3 {
            stop_keeper(&mut scene, "KILL")?;
            signal(forwarder, "KILL")?;
            until("it ends", || !is_alive(forwarder))?;
            scene.start()?;
        } else {
            signal(forwarder, "KILL")?;
            await_another(&scene, forwarder)?;
        }
    }
    let found = probe.end();
    done.store(true, Ordering::Relaxed);
    flooding.join().expect("the flood does not panic");
    println!("20 deaths: {found:?}");
    assert_eq!(found.repeated, 0, "{found:?}");
    let last = scene.forwarder()?;
    scene.stop()?;
    processes.push(last);
    // The kernel closes what a killed process had open, and ends its threads, a moment later.
    until("no process is left", || !processes.iter().any(|process| is_alive(*process)))?;
    let names = || fs::read_to_string("/proc/thread-self/net/unix").unwrap_or_default();
    let locks = || scene.testbed.weir.run(names).map_or(1, |all| all.matches("@weir-").count());
    until("no lock is left", || locks() == 0)?;
    assert!(!Path::new(&scene.folder.join("weir.sock")).exists());
    scene.start()?;
    scene.stop()?;
    Ok(())
}

/// Where the link writes what it tells, in the folder of a scene.
pub const LOG: &str = "told.log";
/// What a keeper tells when a new forwarder has taken over.
const TAKES_OVER: &str = "forwards for `link` from now on";
/// Runs tried until the machine holds up none.
const ATTEMPTS: usize = 5;
/// As [`ATTEMPTS`], of restarts of one link.
const RESTARTS_MAX: usize = 20;
