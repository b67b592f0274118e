//! A port that two threads share, as its workers open, lose and open it again: packet sockets, and
//! AF_XDP sockets of two receive queues.

use std::collections::BTreeSet;

use crate::support::raw::Flows;
use weir_link::pool::FramePool;
use weir_link::port::{self, BATCH, Port, PortConfig, PortState};
use weir_testbed::rows::{self, Failed, Need, Row};
use weir_testbed::{END, Host, LEFT, Testbed, TestbedConfig, until, until_ok};

type Outcome<T = ()> = Result<T, Failed>;
type Test = (&'static str, fn() -> Outcome);

const TESTS: &[Test] = &[
    ("a_share_that_ends_is_opened_again", || ends_and_opens(PACKET, 1)),
    ("the_first_share_that_ends_is_opened_again", || ends_and_opens(PACKET, 0)),
    ("a_share_that_stands_still_is_replaced", || stands_still(1)),
    ("the_first_share_that_stands_still_is_replaced", || stands_still(0)),
];
const OVER_AF_XDP: &[Test] = &[
    ("a_queue_that_ends_is_opened_again", || ends_and_opens(XDP, 1)),
    ("the_first_queue_that_ends_is_opened_again", || ends_and_opens(XDP, 0)),
    ("queues_follow_an_interface_that_moves_away_and_back", queues_follow),
];

const PACKET: &str = "afpacket";
const XDP: &str = "afxdp";

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = Row> {
    let over_af_xdp = rows::table("shares", OVER_AF_XDP, &[Need::AfXdp]);
    rows::table("shares", TESTS, &[Need::PrivateNetworks]).chain(over_af_xdp)
}

/// Flows of a round, one frame each.
const FLOWS: u16 = 200;

/// A port, what it received last by flow, and all that it received or lost.
struct Thread {
    port: Box<dyn Port>,
    pool: FramePool,
    flows: BTreeSet<u16>,
}

impl Thread {
    fn new(mut port: Box<dyn Port>) -> Outcome<Self> {
        let mut pool = FramePool::new(16_384, port.room().slot_len);
        port.attach(&mut pool)?;
        port.set_intake(true)?;
        Ok(Self { port, pool, flows: BTreeSet::new() })
    }

    fn receive(&mut self) {
        let mut frames = Vec::new();
        self.port.reclaim(&mut self.pool);
        self.port.receive(0, BATCH, &mut self.pool, &mut frames);
        for received in frames {
            if let Some(ports) = received.headers.ports {
                self.flows.insert(ports.destination);
            }
            self.pool.release(received.frame);
        }
    }
}

/// Sends a frame of each flow, and has the threads take them until they have so many together;
/// returns which came by which.
fn round(
    sender: &Flows,
    threads: &mut [&mut Thread],
    wanted: usize,
) -> Outcome<Vec<BTreeSet<u16>>> {
    threads.iter_mut().for_each(|thread| thread.flows.clear());
    (1..=FLOWS).try_for_each(|flow| sender.send(flow, 0))?;
    until_ok("the frames arrive", || {
        threads.iter_mut().for_each(|thread| thread.receive());
        let count: usize = threads.iter().map(|thread| thread.flows.len()).sum();
        if count == wanted { Ok(()) } else { Err(format!("{count} of {wanted}")) }
    })?;
    Ok(threads.iter().map(|thread| thread.flows.clone()).collect())
}

/// Opens both shares, and waits until each has a part of the flows.
fn open(testbed: &Testbed, kind: &str) -> Outcome<(Vec<Thread>, Flows)> {
    let config = PortConfig { shares: 2, kind: kind.to_owned(), ..PortConfig::new(LEFT) };
    let first = Thread::new(testbed.weir.run(|| port::open(config))??)?;
    let sharers = first.port.sharers().ok_or("it can be shared")?;
    let sender = testbed.client.run(|| Flows::open(END))??;
    let mut both = vec![first];
    if kind == PACKET {
        // The first share has all flows as long as it is alone.
        round(&sender, &mut both.iter_mut().collect::<Vec<_>>(), usize::from(FLOWS))?;
    }
    both.push(Thread::new(sharers.open(1)?)?);
    Ok((both, sender))
}

/// A share that nobody has loses what waits for it, and counts that; the other one goes on, and so
/// does this one, with the flows that it had, once it is opened again. Frames for a receive queue without
/// sockets are the host's.
fn ends_and_opens(kind: &str, ends: usize) -> Outcome {
    let testbed = Testbed::new(TestbedConfig { queues: 2, ..TestbedConfig::default() })?;
    let (mut threads, sender) = open(&testbed, kind)?;
    let all = usize::from(FLOWS);
    let before = round(&sender, &mut threads.iter_mut().collect::<Vec<_>>(), all)?;
    assert!(before.iter().all(|flows| flows.len() > all / 4), "{before:?}");
    let sharers = threads[0].port.sharers().ok_or("it can be shared")?;
    for _ in 0..3 {
        drop(threads.remove(ends));
        let other = &mut threads[0];
        let now = round(&sender, &mut [&mut *other], before[1 - ends].len())?;
        assert_eq!(now[0], before[1 - ends], "the other share has its own");
        let mut again = Thread::new(sharers.open(ends)?)?;
        until_ok("what came meanwhile is lost or comes", || {
            again.receive();
            let counters = again.port.counters();
            let found = counters.received + counters.overruns();
            if kind == XDP || found >= before[ends].len() as u64 {
                Ok(())
            } else {
                Err(format!("{counters:?}"))
            }
        })?;
        threads.insert(ends, again);
        let now = round(&sender, &mut threads.iter_mut().collect::<Vec<_>>(), all)?;
        assert_eq!(now, before, "each share has its own");
    }
    Ok(())
}

/// A thread that still has its share gets no frame more, another has them; and then again another.
fn stands_still(stands: usize) -> Outcome {
    let testbed = Testbed::new(TestbedConfig::default())?;
    let (mut threads, sender) = open(&testbed, PACKET)?;
    let all = usize::from(FLOWS);
    let before = round(&sender, &mut threads.iter_mut().collect::<Vec<_>>(), all)?;
    let sharers = threads[0].port.sharers().ok_or("it can be shared")?;
    for _ in 0..3 {
        let again = Thread::new(sharers.open(stands)?)?;
        let mut still = std::mem::replace(&mut threads[stands], again);
        let now = round(&sender, &mut threads.iter_mut().collect::<Vec<_>>(), all)?;
        assert_eq!(now, before, "each share has its own");
        still.flows.clear();
        still.receive();
        assert!(still.flows.is_empty(), "it gets no frame more");
    }
    Ok(())
}

/// The interface goes and comes back, under its number; whichever queue sees it first, both take
/// their flows again.
fn queues_follow() -> Outcome {
    for first in [0, 1] {
        let testbed = Testbed::new(TestbedConfig { queues: 2, ..TestbedConfig::default() })?;
        let (mut threads, sender) = open(&testbed, XDP)?;
        let all = usize::from(FLOWS);
        let before = round(&sender, &mut threads.iter_mut().collect::<Vec<_>>(), all)?;
        let elsewhere = testbed.move_away(Host::Client)?;
        testbed.move_back(Host::Client, &elsewhere)?;
        until("both see it", || {
            for number in [first, 1 - first] {
                threads[number].port.refresh();
            }
            threads.iter().all(|thread| thread.port.state() == PortState::Up)
        })?;
        // The first queue sees by now what the other one noted.
        threads[0].port.refresh();
        let now = round(&sender, &mut threads.iter_mut().collect::<Vec<_>>(), all)?;
        assert_eq!(now, before, "each queue has its own, {first} saw it first");
        let counted = threads.iter_mut().map(|thread| thread.port.counters().rebinds);
        assert_eq!(counted.collect::<Vec<_>>(), [1, 0], "the first queue's");
    }
    Ok(())
}
