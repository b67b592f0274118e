//! Tests of the publisher with a source of many leaves, and of what readers get.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as Patience;

use weir_core::account::{Count, Histogram, LeafAccount};
use weir_core::units::{Duration, Instant};

use super::counts::Snapshot;
use super::publisher::LEAVES_PER_STEP;
use super::query::{self, Query, Sort};
use super::*;

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: it hands each call to the system's allocator; the counter is a plain cell of the thread
// that needs neither memory nor a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the rules of this same method.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Returns how often this thread took or freed memory.
pub fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

/// A bridge of one lane whose leaf `n` was offered as many packets as it was counted, times `n`.
struct Leaves {
    number: usize,
    /// How often each leaf was counted.
    counted: Vec<u64>,
    marked: usize,
}

impl Leaves {
    fn new(number: usize) -> Self {
        Self { number, counted: vec![0; number], marked: 0 }
    }
}

impl Source for Leaves {
    fn labels(&self) -> Labels {
        let leaves = (0..self.number).map(|leaf| format!("leaf-{leaf}")).collect();
        let lane =
            LaneLabels { leaves, from: vec![0], to: 1, has_delays: true, ..LaneLabels::default() };
        Labels {
            lanes: vec![lane],
            ports: vec![("mem", String::new()), ("mem", String::new())],
            ..Labels::default()
        }
    }

    fn head(&mut self, head: &mut Head) {
        for (port, counts) in head.ports.iter_mut().enumerate() {
            counts.interface.clear();
            counts.interface.push_str(if port == 0 { "eth0" } else { "eth1" });
        }
    }

    fn delays(&mut self, _lane: usize, _leaf: usize, mark: bool, _to: &mut Histogram) {
        self.marked += usize::from(mark);
    }

    fn leaf(&mut self, _lane: usize, leaf: usize) -> LeafCounts {
        self.counted[leaf] += 1;
        let count = |packets: u64| Count { packets, bytes: 100 * packets };
        let packets = self.counted[leaf] * leaf as u64;
        let account = LeafAccount { offered: count(packets), ..LeafAccount::default() };
        // The later leaves wait, the earlier ones send.
        let (sent, backlog) = if leaf < self.number / 2 { (packets, 0) } else { (0, packets) };
        let account = LeafAccount { sent: count(sent), backlog: count(backlog), ..account };
        LeafCounts { account, ..LeafCounts::default() }
    }
}

/// A publisher with its clock.
struct Scene {
    leaves: Leaves,
    publisher: Publisher,
    board: Arc<Board>,
    now: Instant,
    /// The most leaves of a step, and the number of steps that copied.
    worst: usize,
    steps: usize,
    /// How often steps took or freed memory.
    allocated: u64,
}

impl Scene {
    fn new(leaves: usize) -> Self {
        let leaves = Leaves::new(leaves);
        let publisher = Publisher::new(&leaves);
        let now = Instant::from_nanos(5_000_000_000);
        Self { leaves, publisher, board: Arc::default(), now, worst: 0, steps: 0, allocated: 0 }
    }

    /// Looks each `pace` for `micros`; fails if a look allocates but for the first counts of a leaf
    /// in each of the two snapshots.
    fn run(&mut self, micros: u64, pace: u64) {
        for _ in 0..micros / pace {
            self.now = self.now.after(Duration::from_micros(pace));
            let before = allocations();
            let copied = self.publisher.publish(self.now, &mut self.leaves, &self.board);
            let allocated = allocations() - before;
            assert!(allocated <= copied as u64, "{allocated} times for {copied} leaves");
            self.allocated += allocated;
            self.worst = self.worst.max(copied);
            self.steps += usize::from(copied > 0);
        }
        let rooms = 2 * self.leaves.number as u64;
        assert!(self.allocated <= rooms, "{} times for {rooms} rooms", self.allocated);
    }
}

#[test]
fn a_step_copies_a_bounded_part_whatever_readers_do() {
    let check = |leaves: usize, reads: bool, steps_in_a_second: usize| {
        let mut scene = Scene::new(leaves);
        scene.run(10_000, 500);
        let (done, board) = (Arc::new(AtomicBool::new(false)), Arc::clone(&scene.board));
        let ended = Arc::clone(&done);
        let reader = std::thread::spawn(move || {
            let mut answers = 0;
            while reads && !ended.load(Ordering::Relaxed) {
                let status = query::read(&[Arc::clone(&board)], &all(), Patience::from_millis(5));
                answers += u64::from(status.is_some());
            }
            answers
        });
        scene.steps = 0;
        scene.run(1_000_000, 500);
        done.store(true, Ordering::Relaxed);
        reader.join().expect("the reader does not panic");
        assert!(scene.worst <= LEAVES_PER_STEP, "{leaves} leaves: {} in a step", scene.worst);
        assert!(scene.steps <= steps_in_a_second, "{leaves} leaves: {} steps", scene.steps);
    };
    // A look copies each millisecond at most; a small link is not copied more often than asked.
    check(40_000, true, 1000);
    check(40_000, false, 157);
    check(100, true, 100);
    check(100, false, 1);
}

fn all() -> Query {
    Query { limit: Some(query::CLASSES_MAX), ..Query::default() }
}

#[test]
fn a_request_gets_counts_of_after_it_and_each_class_balances() {
    for leaves in [100, 5000] {
        let mut scene = Scene::new(leaves);
        scene.run(2_000_000, 1000);
        let counted = scene.leaves.counted[1];
        let board = Arc::clone(&scene.board);
        let reader = std::thread::spawn(move || board.ask(Patience::from_secs(20)));
        while !reader.is_finished() {
            scene.run(10_000, 1000);
        }
        let status = reader.join().expect("it does not panic").expect("an answer");
        let classes = &status.lanes[0].classes;
        assert_eq!((classes.len(), status.lanes[0].left_out), (leaves, 0));
        assert!(classes[1].offered.packets > counted, "it is of after the request");
        let is_balanced = |class: &ClassStatus| {
            class.offered.packets == class.sent.packets + class.backlog.packets
        };
        assert!(classes.iter().all(is_balanced));
        let span = status.uptime_ns - status.begun_ns;
        let steps = leaves.div_ceil(LEAVES_PER_STEP) as u64;
        assert!((steps - 1..2 * steps).contains(&(span / 1_000_000)), "{leaves}: {span} ns");
    }
}

#[test]
fn without_the_loop_readers_get_the_last_counts_and_no_thread_waits_for_another() {
    let mut scene = Scene::new(10);
    let boards = [Arc::clone(&scene.board)];
    let patience = Patience::from_millis(1);
    assert!(query::read(&boards, &all(), patience).is_none(), "there was none yet");
    scene.run(10_000, 1000);
    assert!(scene.board.ask(patience).is_none(), "none of after the request");
    assert!(query::read(&boards, &all(), patience).is_some() && scene.board.latest().is_some());
    // A reader that keeps a snapshot delays the next one, and not the loop.
    let held = scene.board.newer_or_last(patience);
    scene.run(30_000, 1000);
    let before = scene.leaves.counted[0];
    scene.board.request_mark();
    scene.run(30_000, 1000);
    assert_eq!(scene.leaves.counted[0], before, "its memory is not written to");
    drop(held);
    scene.run(30_000, 1000);
    assert_eq!((scene.leaves.counted[0], scene.leaves.marked), (before + 1, 10));
    scene.run(3_000_000, 1000);
    assert_eq!(scene.leaves.marked, 10, "a mark is for once");
}

#[test]
fn a_query_chooses_classes() {
    let mut scene = Scene::new(40);
    scene.run(10_000, 1000);
    let boards = [Arc::clone(&scene.board), Arc::clone(&scene.board)];
    let check = |class: Option<&str>, sort, limit, wanted: &[&str], left_out: u64| {
        let query = Query { class: class.map(str::to_owned), sort, limit, ..Query::default() };
        let rows = query::read(&boards, &query, Patience::from_millis(1)).expect("the last counts");
        let text = serde_json::to_string(&rows).expect("it is JSON");
        let status = rows.whole();
        assert_eq!(serde_json::from_str::<Status>(&text).expect("the same type"), status);
        let names: Vec<_> = status.lanes.iter().flat_map(|lane| &lane.classes).collect();
        let names: Vec<_> = names.iter().map(|class| class.name.as_str()).collect();
        assert_eq!(names, wanted, "{query:?}");
        assert_eq!(status.lanes.iter().map(|lane| lane.left_out).sum::<u64>(), left_out);
    };
    let twice = |names: [&'static str; 2]| [names[0], names[1], names[0], names[1]];
    check(Some("leaf-7"), None, None, &["leaf-7", "leaf-7"], 78);
    check(Some("*-1?"), None, Some(3), &["leaf-10", "leaf-11", "leaf-12"], 77);
    check(Some("web"), None, None, &[], 80);
    check(None, Some(Sort::Backlog), Some(4), &twice(["leaf-39", "leaf-38"]), 76);
    check(None, Some(Sort::Rate), Some(4), &twice(["leaf-19", "leaf-18"]), 76);
    check(Some("leaf-2?"), Some(Sort::Backlog), Some(4), &twice(["leaf-29", "leaf-28"]), 76);
    check(None, Some(Sort::Drops), Some(2), &["leaf-0", "leaf-1"], 78);
    check(None, Some(Sort::Delay), Some(0), &[], 80);
}

#[test]
fn the_largest_of_each_direction_come_with_the_sums_of_all() {
    let mut scene = Scene::new(40);
    scene.run(10_000, 1000);
    let boards = [Arc::clone(&scene.board), Arc::clone(&scene.board)];
    let check = |query: Query, wanted: &[&str]| {
        let rows = query::read(&boards, &query, Patience::from_millis(1)).expect("the last counts");
        for lane in rows.whole().lanes {
            let names: Vec<_> = lane.classes.iter().map(|class| class.name.as_str()).collect();
            assert_eq!(names, wanted, "{query:?}");
            let (sums, all) = (lane.sums, 0..40_u64);
            let (sent, waiting) = (all.clone().take(20).sum(), all.skip(20).sum());
            assert_eq!((sums.leaves, sums.sent.packets), (40, sent), "{query:?}");
            assert_eq!(sums.backlog, Amount { packets: waiting, bytes: 100 * waiting });
            // A sum of nothing would be -0 in Rust.
            assert!(sums.sent_bps.is_sign_positive() && sums.lost_pps.is_sign_positive());
        }
    };
    let two = Query { per_direction: Some(2), latest: true, ..Query::default() };
    let largest = |sort| Query { largest: Some(sort), ..two.clone() };
    let filter = |text: &str| Query { filter: Some(text.to_owned()), ..two.clone() };
    check(two.clone(), &["leaf-0", "leaf-1"]);
    check(Query { sort: Some(Sort::Backlog), ..two.clone() }, &["leaf-39", "leaf-38"]);
    // Without a window the counts since the start decide.
    check(largest(Sort::RecentRate), &["leaf-18", "leaf-19"]);
    check(largest(Sort::Backlog), &["leaf-38", "leaf-39"]);
    check(Query { sort: Some(Sort::Rate), ..largest(Sort::Backlog) }, &["leaf-38", "leaf-39"]);
    check(filter("EAF-3"), &["leaf-3", "leaf-30"]);
    check(filter("web"), &[]);
    check(Query { limit: Some(0), ..two.clone() }, &[]);
    // None dropped a packet: both directions have their part of the limit.
    let equal = Query { largest: Some(Sort::Drops), limit: Some(4), ..Query::default() };
    check(equal, &["leaf-0", "leaf-1"]);
    let tickets = scene.board.newest_ticket();
    assert!(query::read(&boards, &two, Patience::ZERO).is_some(), "there are last counts");
    assert_eq!(scene.board.newest_ticket(), tickets, "the loop was not asked for newer ones");
}

#[test]
fn every_text_of_a_status_can_be_changed() {
    let text = || "\u{9b}31m".to_owned();
    let causes = || vec![(text(), 1)];
    let parameters = vec![(text(), text())];
    let port = PortStatus {
        interface: text(),
        kind: text(),
        why: text(),
        state: text(),
        lost_in_by_cause: causes(),
        lost_out_by_cause: causes(),
        kept: causes(),
        ..PortStatus::default()
    };
    let class = ClassStatus {
        name: text(),
        dropped: vec![(text(), Amount::default())],
        lost: causes(),
        parameters: parameters.clone(),
        ..ClassStatus::default()
    };
    let lane = LaneStatus {
        name: text(),
        from: text(),
        to: text(),
        unread: causes(),
        classes: vec![class],
        inner: vec![InnerStatus { name: text(), parameters, ..InnerStatus::default() }],
        policy: PolicyStatus { identity: text(), scheduler: text(), ..PolicyStatus::default() },
        removed: Some(Box::new(ClassStatus { name: text(), ..ClassStatus::default() })),
        ..LaneStatus::default()
    };
    let faults = vec![FaultStatus { event: text(), since: text(), text: text() }];
    let mut status = Status { ports: vec![port], lanes: vec![lane], faults, ..Status::default() };
    status.each_text(&mut |text| *text = text.replace('\u{9b}', "?"));
    let json = serde_json::to_string(&status).expect("it is JSON");
    assert!(!json.contains('\u{9b}'), "{json}");
}

/// Bounds the memory that the copies of a large link take, so that a change is noticed.
#[test]
fn a_leaf_takes_a_bounded_number_of_bytes() {
    let labels = Arc::new(Leaves::new(1000).labels());
    let snapshot = Snapshot::new(&labels);
    assert_eq!(snapshot.leaves.len(), 1000);
    assert!(size_of::<LeafCounts>() <= 408, "{} bytes", size_of::<LeafCounts>());
}
