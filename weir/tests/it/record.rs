//! The recorder of the run loop, without a kernel: what a real loop over ports in memory does
//! replays to the bit, for every scheduler, with overload, stalls, busy ports and old frames; and a
//! record that its writer does not follow ends, and the loop goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_core::classify::InterfaceId;
use weir_core::random::Random;
use weir_core::sched::SCHEDULERS;
use weir_core::units;
use weir_host::wait::{WaitPolicy, monotonic_ns};
use weir_link::bridge::{Bridge, BridgeConfig, BridgePort, LaneConfig, PortSource};
use weir_link::port::mem::{Cable, Mem};
use weir_link::recorder::{Progress, Session};
use weir_link::status::Board;
use weir_policy::Policy;
use weir_testbed::{PATIENCE, until};
use weir_trace::record::{End, File, Head, LaneHead, RecordReader, RecordWriter};
use weir_trace::recorded::{RecordReport, replay};

/// Shorter than the pauses of a busy machine: each is a stall of the loop.
const LAG_MAX: units::Duration = units::Duration::from_millis(2);
const SOJOURN: units::Duration = units::Duration::from_millis(20);

/// A policy of this scheduler that it takes: with rates, with shares, or with neither.
fn policy(scheduler: &str) -> Option<(String, Policy)> {
    let of = |one: &str, other: &str| {
        format!(
            "[link]\nrate = '2 Mbit/s'\nscheduler = '{scheduler}'\n\
             [class.first]\nmatch = [{{ proto = 'udp', dport = 1 }}]\n{one}\n\
             queue = {{ limit = '30 packets' }}\n\
             [class.rest]\ndefault = true\n{other}\n"
        )
    };
    let texts = [
        of("rate = '0.8 Mbit/s'", "rate = '1.2 Mbit/s'"),
        of("share = '40 %'", "share = '60 %'"),
        of("", ""),
    ];
    let read = |text: String| weir_policy::parse(&text, "p").plan.map(|policy| (text, policy));
    texts.into_iter().find_map(read)
}

fn head(text: &str) -> Head {
    let lane = |name: &str, from: u16| LaneHead {
        name: name.to_owned(),
        from: vec![from],
        to: 1 - from,
        policy: "p".to_owned(),
        sojourn_max: vec![SOJOURN; 2],
        ..LaneHead::default()
    };
    Head {
        lanes: vec![lane("forth", 0), lane("back", 1)],
        files: vec![File { name: "p".to_owned(), text: text.to_owned() }],
        ..Head::default()
    }
}

/// A datagram to port 1 or 2.
fn frame(random: &mut Random) -> Vec<u8> {
    let length = 60 + random.below(600) as usize;
    let mut frame = vec![2; 12];
    (frame[5], frame[11]) = (9, 1);
    frame.extend([8, 0, 0x45, 0]);
    frame.resize(length, 0);
    frame[16..18].copy_from_slice(&(length as u16 - 14).to_be_bytes());
    frame[23] = 17;
    frame[37] = 1 + random.below(2) as u8;
    frame
}

/// Runs a loop with this policy, and `with` beside it, while frames come all the time.
fn beside<T>(policy: &Policy, with: impl FnOnce(&Board) -> T) -> T {
    let (mems, cables): (Vec<_>, Vec<Cable>) =
        (0..2).map(|number| Mem::new(&format!("mem{number}"), 1)).unzip();
    let port = |(number, mem)| BridgePort {
        number: InterfaceId(number),
        source: PortSource::Open(Box::new(mem)),
    };
    let lane = |from: usize| {
        let lane = LaneConfig::new(["forth", "back"][from], (vec![from], 1 - from), policy);
        LaneConfig { sojourn_max: vec![SOJOURN; 2], ..lane.expect("the policy builds") }
    };
    let config = BridgeConfig {
        ports: (0..).zip(mems).map(port).collect(),
        lanes: vec![lane(0), lane(1)],
        wait: WaitPolicy::Spin,
        lag_max: LAG_MAX,
        cpu: None,
        workers: 1,
        passes_carrier: false,
        intake: true,
    };
    let (stop, board) = (AtomicBool::new(false), Board::new());
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            let mut bridge = Bridge::open(config).expect("ports in memory open");
            bridge.run(&stop, &[], &board).expect("the loop runs");
            bridge.drain(units::Duration::from_millis(1)).expect("the loop drains");
        });
        let send = scope.spawn(|| {
            let mut random = Random::new(7, 0);
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..random.below(20) {
                    cables[0].deliver(0, monotonic_ns(), frame(&mut random));
                }
                // Now and then the other port is busy.
                cables[1].set_room(if random.below(4) == 0 { 0 } else { usize::MAX });
                cables[1].take_sent();
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        let done = with(&board);
        stop.store(true, Ordering::Relaxed);
        send.join().expect("the sender does not panic");
        run.join().expect("the loop does not panic");
        done
    })
}

/// Waits until the loop has sent something.
fn warm(board: &Board) {
    let dropped = |board: &Board| {
        let status = board.ask(PATIENCE).expect("the loop gives counts");
        let classes = status.lanes[0].classes.iter();
        classes.flat_map(|class| &class.dropped).any(|(_, amount)| amount.packets > 0)
    };
    until("something is dropped", || dropped(board)).expect("the queues are short");
}

/// Records so many frames.
fn record(board: &Board, text: &str, frames: u64) -> Vec<u8> {
    let mut session = Session::begin([(&board.recording, 2)]);
    let mut writer = RecordWriter::new(Vec::new(), &head(text)).expect("a Vec takes all");
    let end = loop {
        let Progress { end, .. } = session.pump(&mut writer).expect("a Vec takes all");
        if let Some(end) = end {
            break end;
        }
        if session.frames() >= frames {
            break End::Asked;
        }
    };
    writer.finish(end).expect("a Vec takes all")
}

fn replayed(bytes: &[u8]) -> RecordReport {
    let reader = RecordReader::new(bytes).expect("it is a record");
    replay(reader).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn what_a_loop_does_replays_to_the_bit_for_every_scheduler() {
    let (mut departures, mut drops, mut lost) = (0, 0, 0);
    for scheduler in SCHEDULERS.iter().map(|row| row.descriptor.keyword) {
        let (text, policy) = policy(scheduler).unwrap_or_else(|| panic!("a policy: {scheduler}"));
        let bytes = beside(&policy, |board| {
            warm(board);
            record(board, &text, 200)
        });
        let report = replayed(&bytes);
        assert!(report.is_identical() && report.is_whole, "{scheduler}: {report}");
        departures += report.directions[0].departures;
        drops += report.directions[0].drops;
        lost += report.directions[0].lost;
    }
    assert!(departures > 100 && drops > 100 && lost > 0, "{departures}, {drops}, {lost}");
}

#[test]
fn a_record_lasts_to_the_end_of_its_link_and_two_at_once_are_equal() {
    let (text, policy) = policy("drr").expect("a sound policy");
    let both: Arc<Mutex<Vec<Session>>> = Arc::default();
    let sessions = beside(&policy, |board| {
        warm(board);
        let two = [(); 2].map(|()| Session::begin([(&board.recording, 2)]));
        both.lock().expect("no panic").extend(two);
        let status = || board.ask(PATIENCE).expect("the loop gives counts");
        let before = status().lanes[0].classes[1].offered.packets;
        let is_more = || status().lanes[0].classes[1].offered.packets >= before + 100;
        until("frames are offered", is_more).expect("the sender goes on");
        std::mem::take(&mut *both.lock().expect("no panic"))
    });
    let records: Vec<Vec<u8>> = sessions.into_iter().map(|session| rest(session, &text)).collect();
    let reports: Vec<_> = records.iter().map(|bytes| replayed(bytes)).collect();
    for report in &reports {
        assert!(report.is_identical(), "{report}");
        assert_eq!(report.end, Some("the link ended"));
    }
    assert!(reports[0].directions[0].arrivals > 100, "{}", reports[0]);
}

/// Writes what the loop sent before it ended.
fn rest(mut session: Session, text: &str) -> Vec<u8> {
    let mut writer = RecordWriter::new(Vec::new(), &head(text)).expect("a Vec takes all");
    loop {
        let progress = session.pump(&mut writer).expect("a Vec takes all");
        if let Some(end) = progress.end {
            return writer.finish(end).expect("a Vec takes all");
        }
    }
}

#[test]
fn a_writer_that_does_not_follow_ends_the_record_and_not_the_loop() {
    let (text, policy) = policy("drr").expect("a sound policy");
    let (session, more) = beside(&policy, |board| {
        warm(board);
        let session = Session::with_buffer([(&board.recording, 2)], 64 << 10);
        let status = || board.ask(PATIENCE).expect("the loop goes on");
        let offered = || status().lanes[0].classes[1].offered.packets;
        let before = offered();
        until("frames are offered", || offered() >= before + 2000).expect("the sender goes on");
        (session, record(board, &text, 100))
    });
    let report = replayed(&rest(session, &text));
    assert!(report.is_identical() && !report.is_whole, "{report}");
    assert_eq!(report.end, Some("the writer did not follow"));
    assert!(replayed(&more).is_identical(), "another record can be made");
}

/// Runs the program; returns its exit code and all that it prints.
fn weir(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/record");
    let output = command.args(arguments).current_dir(folder).output().expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_program_says_what_is_different_and_where_a_record_ends() {
    let rows: [(&[&str], i32, &str); 5] = [
        (&["replay", "--record", "calls.seed"], 1, "expected: nothing more\n  found:    packet 0"),
        (&["replay", "--record", "cut.seed"], 1, "the record is cut inside a block"),
        (&["replay", "--record", "../policy"], 2, "cannot read"),
        (&["replay", "--record", "../../Cargo.toml"], 2, "this is no record of Weir"),
        (&["sim", "--from", "change.seed", "--direction", "down"], 2, "there are `up`"),
    ];
    for (arguments, code, wanted) in rows {
        let (exit, text) = weir(arguments);
        assert_eq!(exit, Some(code), "{arguments:?}: {text}");
        assert!(text.contains(wanted), "{arguments:?}: {text}");
    }
    let (exit, text) = weir(&["--format", "json", "sim", "--from", "calls.seed"]);
    assert_eq!(exit, Some(0), "{text}");
    let report: serde_json::Value = serde_json::from_str(&text).expect("a report");
    assert_eq!(report["classes"][0]["offered"]["packets"], 5, "{text}");
}

#[test]
fn a_fork_of_a_real_record_is_identical_without_a_change_and_exits_0() {
    let (text, policy) = policy("drr").expect("a sound policy");
    let bytes = beside(&policy, |board| {
        warm(board);
        record(board, &text, 2000)
    });
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let file = folder.path().join("r.pcapng");
    std::fs::write(&file, &bytes).expect("is writable");
    let file = file.to_str().expect("a path in UTF-8");
    let fork = |more: &[&str]| weir(&[&["fork", file, "--direction", "forth"], more].concat());
    let (exit, text) = fork(&["--at", "10ms", "--format", "json"]);
    assert_eq!(exit, Some(0), "{text}");
    let report: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!((&report["identical"], &report["open_loop"]), (&true.into(), &true.into()));
    assert!(report["packets"].as_u64() > Some(100), "{}", report["packets"]);
    let (exit, text) = fork(&["--card", "chain"]);
    assert!(exit == Some(0) && text.contains("The card asked the scheduler"), "{exit:?}: {text}");
    let (exit, text) = fork(&["--at", "10ms", "--set", "link.rate=500kbit/s"]);
    assert_eq!(exit, Some(0), "{text}");
    assert!(text.contains("the first difference, ") && text.contains("Mbit/s"), "{text}");
    let rows: [(&[&str], &str); 5] = [
        (&["--at", "1h"], "after its beginning"),
        (&["--set", "class.first.quantum=fast"], "fast"),
        (&["--set", "class.first"], "has no `=`"),
        (&["--set", "back:link.rate=1Mbit/s"], "name it with --direction back"),
        (&["--length", "0s"], "a time above 0"),
    ];
    for (more, said) in rows {
        let (exit, text) = fork(more);
        assert!(exit == Some(2) && text.contains(said), "{more:?}: {exit:?}: {text}");
    }
    let (exit, text) = weir(&["fork", file]);
    assert!(exit == Some(2) && text.contains("name a direction with --direction"), "{text}");
}
