//! Streams over a bridge between private networks, in this process. Needs root or user namespaces.

use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use weir_host::watch::Waker;
use weir_link::bridge::Bridge;
use weir_link::deploy;
use weir_link::status::{Board, Status};
use weir_testbed::rows::{self, Outcome, Row};
use weir_testbed::{
    Host, LEFT, PATIENCE, RIGHT, Result, Stream, StreamConfig, Testbed, TestbedConfig, until,
};

const ROWS: &[Row] = &[
    Row::new("nothing_is_missing_behind_a_whole_link", nothing_is_missing),
    Row::new("what_a_link_drops_is_missing", what_a_link_drops_is_missing),
    Row::new("a_stream_goes_on_after_a_cable_was_pulled", a_stream_goes_on),
    Row::new("two_streams_on_one_port_one_after_another_stay_apart", streams_stay_apart),
];

fn main() -> std::process::ExitCode {
    rows::main(ROWS.iter().cloned())
}

/// A bridge from the client to the server, on a thread.
struct Link {
    testbed: Testbed,
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    board: Arc<Board>,
    thread: Option<JoinHandle<()>>,
}

impl Link {
    /// Starts it; `class` has more of the class of the stream.
    fn start(class: &'static str) -> Result<Self> {
        let testbed = Testbed::new(TestbedConfig::default())?;
        let policy = format!(
            "[link]\nrate = \"100 Mbit/s\"\nscheduler = \"drr\"\n[class.stream]\n\
             match = {{ proto = \"udp\", dport = \"5004\" }}\n{class}[class.rest]\ndefault = true\n"
        );
        let text = format!(
            "[deployment]\nports = {{ a = \"{LEFT}\", b = \"{RIGHT}\" }}\n\
             [direction.forth]\nfrom = \"a\"\nto = \"b\"\npolicy = \"policy.toml\"\n"
        );
        let read = |_: &Path| Ok(policy.as_bytes().to_vec());
        let outcome = weir_policy::deployment::parse(text.as_bytes(), "link.toml", &read);
        let deployment = outcome.plan.as_ref().ok_or_else(|| format!("{:?}", outcome.findings))?;
        let config = deploy::bridges(deployment)?.remove(0);
        let mut bridge = testbed.weir.run(|| Bridge::open(config))??;
        let (stop, board) = (Arc::new(AtomicBool::new(false)), Arc::new(Board::new()));
        let waker = Arc::new(Waker::new()?);
        let (stopped, seen, woken) = (Arc::clone(&stop), Arc::clone(&board), Arc::clone(&waker));
        let thread = thread::spawn(move || {
            bridge.run(&stopped, &[woken.as_fd().as_raw_fd()], &seen).expect("the bridge runs");
        });
        Ok(Self { testbed, stop, waker, board, thread: Some(thread) })
    }

    fn status(&self) -> Result<Status> {
        Ok(self.board.ask(PATIENCE).ok_or("the loop gives no counts")?)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Waits until so many more are sent.
fn await_sent(stream: &Stream, count: u64) -> Result<()> {
    let wanted = stream.sent() + count;
    until("datagrams are sent", || stream.sent() >= wanted)
}

fn nothing_is_missing() -> Outcome {
    let link = Link::start("")?;
    let stream = Stream::numbered(&link.testbed, StreamConfig::default())?;
    for _ in 0..3 {
        await_sent(&stream, 50)?;
        stream.await_another()?;
    }
    let found = stream.finish()?;
    assert!(found.sent >= 150, "{found:?}");
    assert_eq!((found.arrived, found.lost(), found.repeated), (found.sent, 0, 0), "{found:?}");
    assert_eq!((found.reordered, found.missing()), (0, vec![]), "{found:?}");
    let arrived = (0..found.sent).map(|number| found.arrived_ns(number));
    // Two clocks were compared, so a millisecond of doubt.
    let is_later =
        |(sent, arrived): (&u64, Option<u64>)| arrived.is_some_and(|at| at + 1_000_000 > *sent);
    assert!(found.sent_ns().iter().zip(arrived).all(is_later), "{found:?}");
    Ok(())
}

/// The meter lets about a third of the stream pass.
fn what_a_link_drops_is_missing() -> Outcome {
    let link = Link::start("police = { rate = \"240 kbit/s\", depth = \"2000 B\" }\n")?;
    let stream = Stream::numbered(&link.testbed, StreamConfig::default())?;
    await_sent(&stream, 300)?;
    let found = stream.finish()?;
    let class = &link.status()?.lanes[0].classes[0];
    let dropped: u64 = class.dropped.iter().map(|(_, amount)| amount.packets).sum();
    assert!(found.lost() > 0 && found.repeated == 0, "{found:?}");
    // Marks behind the last number are dropped alike, until one arrives.
    assert!((found.lost()..found.lost() + found.marks).contains(&dropped), "{dropped}: {found:?}");
    let missing: u64 = found.missing().iter().map(|run| run.end - run.start).sum();
    assert_eq!(missing, found.lost(), "{found:?}");
    Ok(())
}

fn a_stream_goes_on() -> Outcome {
    let link = Link::start("")?;
    let stream = Stream::numbered(&link.testbed, StreamConfig::default())?;
    stream.await_another()?;
    link.testbed.disconnect(Host::Client)?;
    let status = || link.status().is_ok_and(|status| status.ports[0].state == "gone");
    until("the bridge knows", status)?;
    link.testbed.connect(Host::Client)?;
    stream.await_another()?;
    let found = stream.finish()?;
    assert!(found.refused > 0 && found.repeated == 0, "{found:?}");
    Ok(())
}

fn streams_stay_apart() -> Outcome {
    let link = Link::start("")?;
    for _ in 0..3 {
        let stream = Stream::numbered(&link.testbed, StreamConfig::default())?;
        stream.await_another()?;
        // What is on its way when it ends may reach the next one.
        drop(stream);
        let stream = Stream::numbered(&link.testbed, StreamConfig::default())?;
        stream.await_another()?;
        let found = stream.finish()?;
        assert_eq!((found.lost(), found.repeated), (0, 0), "{found:?}");
    }
    Ok(())
}
