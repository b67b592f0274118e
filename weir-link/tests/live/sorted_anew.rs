//! Ports that run come to sort frames by another policy: no frame is lost by that, no flow changes
//! its order, and a class that gets a ring has it at once. Needs root.

use crate::authority::{EXPERIMENT, OTHER_EXPERIMENT, PLAIN, frame, open};
use crate::support::raw::Flows;
use weir_core::classify::InterfaceId;
use weir_link::pool::FramePool;
use weir_link::port::Port;
use weir_link::sorter::{SortPlan, Sorting};
use weir_testbed::rows::{self, Need, Outcome};
use weir_testbed::{END, Testbed, TestbedConfig, until, until_ok};

type Test = (&'static str, fn() -> Outcome);

#[rustfmt::skip]
const TESTS: &[Test] = &[
    ("packet_sockets", || sort_anew("afpacket", false, PLAIN)),
    ("packet_sockets_through_the_desk", || sort_anew("afpacket", true, PLAIN)),
    ("xdp_sockets", || sort_anew("afxdp", false, PLAIN)),
    ("xdp_sockets_through_the_desk", || sort_anew("afxdp", true, PLAIN)),
    ("xdp_sockets_behind_the_driver", || sort_anew("afxdp-generic", false, PLAIN)),
    ("xdp_sockets_of_two_queues", || sort_anew("afxdp", false, QUEUES)),
    ("xdp_sockets_of_two_queues_through_the_desk", || sort_anew("afxdp", true, QUEUES)),
];

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = rows::Row> {
    rows::table("sorted_anew", TESTS, &[Need::Root])
}

const QUEUES: TestbedConfig = TestbedConfig { queues: 2, ..PLAIN };

/// Where the frames come from, and a port that takes them.
struct Ends {
    sender: Flows,
    port: Box<dyn Port>,
    pool: FramePool,
}

/// Frames of two classes wait while the port comes to sort them otherwise; then each class in turn
/// has a ring, or shares one with a flood.
fn sort_anew(kind: &'static str, by_desk: bool, networks: TestbedConfig) -> Outcome {
    let testbed = Testbed::new(networks)?;
    let (_keeper, port, pool) = open(&testbed, kind, (by_desk, true))?;
    let mut ends = Ends { sender: testbed.client.run(|| Flows::open(END))??, port, pool };
    ends.send(0..WAITING)?;
    // The other ethertype gives up its ring, and the first one gets one; another class does, too.
    let first = sorting("match = [{ ethertype = '0x88b5' }]", "match = [{ vlan = 7 }]");
    ends.sort_by(&first, || Ok(()))?;
    ends.send(WAITING..2 * WAITING)?;
    ends.expect_in_order(2 * WAITING)?;
    ends.flood(OTHER_EXPERIMENT, EXPERIMENT)?;
    let other = sorting("match = [{ ethertype = '0x88b6' }]", "match = [{ vlan = 7 }]");
    // Frames come while the kernel goes over from the one to the other.
    let sender = testbed.client.run(|| Flows::open(END))??;
    let meanwhile = || {
        for number in 0..WAITING {
            sender.send_frame(&frame(number, EXPERIMENT))?;
            sender.send_frame(&frame(number, OTHER_EXPERIMENT))?;
        }
        Ok(())
    };
    ends.sort_by(&other, meanwhile)?;
    ends.send(WAITING..2 * WAITING)?;
    ends.expect_in_order(2 * WAITING)?;
    ends.flood(EXPERIMENT, OTHER_EXPERIMENT)?;
    Ok(())
}

/// Returns how a policy of these two classes, and a default one, has frames sorted.
fn sorting(one: &str, other: &str) -> Sorting {
    let policy = format!(
        "[link]\nrate = '1 Gbit/s'\nscheduler = 'fifo'\n[class.one]\n{one}\n\
         [class.other]\n{other}\n[class.rest]\ndefault = true\n"
    );
    let policy = weir_policy::parse(&policy, "policy.toml").plan.expect("a sound policy");
    Sorting::of(&SortPlan::of_policy(&policy), InterfaceId(0))
}

impl Ends {
    /// Sends a frame of each ethertype with each of these numbers.
    fn send(&self, numbers: std::ops::Range<u16>) -> Outcome {
        for number in numbers {
            self.sender.send_frame(&frame(number, EXPERIMENT))?;
            self.sender.send_frame(&frame(number, OTHER_EXPERIMENT))?;
        }
        Ok(())
    }

    /// Has the port sort so, as the loop and the thread of a change do it; `meanwhile` happens
    /// while another thread waits for the kernel.
    fn sort_by(&mut self, sorting: &Sorting, meanwhile: impl Fn() -> Outcome) -> Outcome {
        let handle = self.port.sorter().ok_or("it sorts")?;
        let mut made = handle.make_rings(sorting.rings())?;
        until("the port can begin", || {
            self.port.begin_sorting(&mut made) || {
                // It ends the change before.
                self.port.receive(0, 64, &mut self.pool, &mut Vec::new());
                false
            }
        })?;
        std::thread::scope(|scope| {
            let sorted = scope.spawn(|| handle.sort(sorting));
            meanwhile()?;
            Ok::<_, rows::Failed>(sorted.join().expect("it does not panic")?)
        })?;
        self.port.end_sorting(0);
        Ok(())
    }

    /// Takes what a turn of the loop takes; returns ethertype and number of each frame.
    fn receive(&mut self) -> Vec<([u8; 2], u16)> {
        let Self { port, pool, .. } = self;
        let (mut seen, mut received) = (Vec::new(), Vec::new());
        port.reclaim(pool);
        for ring in 0..port.rings() {
            port.receive(ring, 64, pool, &mut received);
            for received in received.drain(..) {
                let bytes = pool.bytes(received.frame);
                let kind = [bytes[12], bytes[13]];
                if kind == EXPERIMENT || kind == OTHER_EXPERIMENT {
                    seen.push((kind, u16::from_be_bytes([bytes[14], bytes[15]])));
                }
                pool.release(received.frame);
            }
        }
        seen
    }

    /// Receives so many frames of each ethertype, each in the order of its numbers.
    fn expect_in_order(&mut self, count: u16) -> Outcome {
        let mut seen = Vec::new();
        until_ok("each frame comes", || {
            seen.extend(self.receive());
            let missing = usize::from(2 * count) - seen.len().min(usize::from(2 * count));
            if missing == 0 { Ok(()) } else { Err(format!("{missing} are missing: {seen:?}")) }
        })?;
        for kind in [EXPERIMENT, OTHER_EXPERIMENT] {
            let of_kind = seen.iter().filter(|(of, _)| *of == kind).map(|(_, number)| *number);
            let numbers: Vec<_> = of_kind.collect();
            assert_eq!(numbers, (0..count).collect::<Vec<_>>(), "{kind:02x?}");
        }
        Ok(())
    }

    /// Floods the ring that classes share while the loop does not come to it: it overruns, and no
    /// frame is lost of the class with a ring.
    fn flood(&mut self, shared: [u8; 2], own: [u8; 2]) -> Outcome {
        // A change that is not over takes frames in order.
        until("what was sorted as before is taken", || self.receive().is_empty())?;
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(self.receive().is_empty(), "no more frames are on their way");
        let before = self.port.counters();
        for number in 0..FLOOD {
            self.sender.send_frame(&frame(number, shared))?;
            if number % 10 == 0 {
                self.sender.send_frame(&frame(number, own))?;
            }
        }
        let (mut of_own, mut all) = (0, 0);
        until_ok("each frame of the flood is received, or lost and counted", || {
            let seen = self.receive();
            of_own += seen.iter().filter(|(kind, _)| *kind == own).count();
            all += seen.len() as u64;
            let lost = self.port.counters().overruns() - before.overruns();
            let has_all = all + lost >= u64::from(FLOOD + FLOOD / 10);
            if has_all { Ok(()) } else { Err(format!("{all} received, {lost} lost")) }
        })?;
        let now = self.port.counters();
        let lost: Vec<_> = now.ring_overruns.iter().zip(before.ring_overruns).collect();
        let is_first_only = lost.iter().skip(1).all(|(now, before)| **now == *before);
        assert!(is_first_only && now.overruns() > before.overruns(), "{lost:?}");
        assert_eq!(of_own, usize::from(FLOOD / 10), "of the class with a ring: {lost:?}");
        Ok(())
    }
}

const WAITING: u16 = 40;
/// More than the ring that classes share has slots.
const FLOOD: u16 = 3000;
