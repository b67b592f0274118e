//! One direction of a bridge: a frame's way from its classification to the interface behind.
//!
//! [`Intake`] classifies a frame, [`LaneLink`] shapes it, [`Outbox`] hands it to the interface, and
//! [`Books`] counts it. No frame is lost before it is classified for want of room: each leaf has a
//! reserve of frames that no other leaf can take, so what must be shed is shed where it is too
//! much.
//! Invariant: each frame that a lane accepted waits for its turn, is in the link's queue, or is in
//! the outbox; and each frame that it lost is counted once, by leaf and cause.

mod books;
pub(crate) mod change;
mod config;
mod intake;
pub(crate) mod join;
mod limits;
mod link;
mod loss;
mod outbox;
mod reserves;
mod restore;
#[cfg(test)]
pub(crate) mod tests;

use weir_core::account::Histogram;
use weir_core::classify::InterfaceId;
use weir_core::ids::LeafId;
use weir_core::link::{Arrival, Packet};
use weir_core::packet::UnreadCounts;
use weir_core::queue::HostAccounts;
use weir_core::sched::Regulation;
use weir_core::units::{Instant, Rate};

use weir_policy::deployment::trains;
use weir_trace::record::{self, Fate, Step};

use crate::alarm::LeafMeasures;
use crate::pool::FramePool;
use crate::port::{BATCH, LaneRules, Port, Received};
use crate::recorder::Steps;
use crate::status::{Found, LaneLabels, LeafCounts};
use books::Books;
pub use config::{FRAMES_MAX_DEFAULT, LaneConfig, Varies};
use intake::{Incoming, Intake};
use link::LaneLink;
pub(crate) use link::Turn;
pub use loss::{Loss, Losses};
use outbox::{Left, Outbox};
use restore::Connections;

/// One direction of a bridge, at work.
pub(crate) struct Lane {
    intake: Intake,
    link: LaneLink,
    outbox: Outbox,
    books: Books,
    /// Frames that the link dropped in turns.
    dropped: u64,
    /// The code points that its frames get from the other way of their connections.
    connections: Option<Connections>,
}

impl Lane {
    pub(crate) fn new(config: LaneConfig) -> Self {
        let labels = config.labels();
        let mut link = config.link;
        link.reserve(config.frames_max);
        Self {
            intake: Intake::new(config.classifier),
            link: LaneLink::new(link),
            outbox: Outbox::new(),
            books: Books::new(labels, config.frames_max),
            dropped: 0,
            connections: config.restores_dscp.then(Connections::new),
        }
    }

    /// Returns its rules, for a port with this number to look frames up in.
    pub(crate) fn rules(&self, port: InterfaceId) -> LaneRules {
        self.intake.rules(port)
    }

    /// Starts the line anew at `now` after a stall: what could have left before `limit` does not
    /// leave all at once, and what is of no use any more does not leave at all.
    pub(crate) fn restart(&mut self, now: Instant, limit: Instant, pool: &mut FramePool) {
        self.link.restart(now, limit, &mut self.books, pool);
    }

    /// Notes a frame that goes the other way, if frames of this lane get its code point.
    #[inline]
    pub(crate) fn note_other_way(&mut self, received: &Received) {
        if let Some(connections) = &mut self.connections {
            connections.note(received);
        }
    }

    /// Classifies frames that were received in the turn that began at `now`, and accepts them for
    /// the lane's turn, or sheds what is too old or of which its leaf has too many. Several are
    /// segments of one super-packet, in order, which may be one packet.
    pub(crate) fn accept(
        &mut self,
        now: Instant,
        (received, port): (&mut [Received], InterfaceId),
        pool: &mut FramePool,
    ) {
        if let Some(connections) = &mut self.connections {
            received.iter_mut().for_each(|one| connections.restore(one, pool));
        }
        let mut rest = &*received;
        while let [first, ..] = rest {
            let Received { frame, at_ns, headers, found } = first;
            let incoming = Incoming { frame: *frame, at_ns: *at_ns, headers, port, found: *found };
            let length = pool.bytes(*frame).len() as u32;
            let mut arrival = self.intake.classify(incoming, length, &mut self.link.pending);
            let frames = match rest.len() {
                1 => 1,
                _ => couple(rest, self.books.train_max(arrival.leaf), &mut arrival.packet, pool),
            };
            self.admit(now, arrival, incoming, pool);
            rest = &rest[frames..];
        }
    }

    fn admit(
        &mut self,
        now: Instant,
        arrival: Arrival,
        incoming: Incoming<'_>,
        pool: &mut FramePool,
    ) {
        let Incoming { frame, at_ns, headers, port, .. } = incoming;
        let bytes = pool.bytes(frame);
        let stamp = Instant::from_nanos(at_ns);
        let refusal = self.books.admit((arrival.leaf, arrival.packet.frames()), stamp, now);
        if let Some(steps) = self.books.steps.get() {
            let fate = if refusal.is_some() { Fate::Refused } else { Fate::Offered };
            let (at, leaf, packet) = (arrival.at, arrival.leaf, arrival.packet);
            let headers = record::headers_of(bytes, headers);
            record::Arrival { at, port, leaf, packet, fate, headers }.write(steps);
        }
        if let Some(cause) = refusal {
            self.books.refuse(&arrival, cause, now, pool);
            return;
        }
        self.link.push(arrival, bytes, headers);
        pool.set_stamp(frame, at_ns);
    }

    /// Serves the link with what was accepted, and gives what leaves it to `port`; returns whether
    /// that was done with any frame. Once in each turn of the run loop, after it has received.
    pub(crate) fn turn(&mut self, turn: Turn, pool: &mut FramePool, port: &mut dyn Port) -> bool {
        self.link.serve(turn, &mut self.outbox.departures, &mut self.books.steps);
        self.dropped += self.link.release_dropped(&mut self.books, pool);
        self.outbox.drop_stale(turn.now, &mut self.books, pool);
        let is_done_with_any = self.outbox.send(&mut self.books, pool, port);
        self.outbox.shed(turn.now, &mut self.books, pool);
        self.check();
        is_done_with_any
    }

    /// From now on notes which frames leave, for [`Lane::take_left`].
    pub(crate) fn note_left(&mut self) {
        self.outbox.note_left();
    }

    /// Hands over what left since the last call.
    pub(crate) fn take_left(&mut self, each: impl FnMut(Left)) {
        self.outbox.take_left(each);
    }

    /// Has the link send at another rate, between two turns.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        let at = self.link.pending.now();
        self.link.inner_mut().set_rate(at, rate);
        self.books.steps.note(&Step::Rate { at, rate });
        self.link.serve_soon();
    }

    /// Returns the frames that the link dropped, and whether some wait in it.
    pub(crate) fn load(&self) -> (u64, bool) {
        (self.dropped, self.link.inner().backlog() > 0)
    }

    /// Gives up what it holds at `now`: the outbox at once, and what waits in the link from the
    /// next status on. No frame may arrive after that.
    pub(crate) fn flush(&mut self, now: Instant, pool: &mut FramePool) {
        let turn = Turn { now, seen: None, looked: None };
        self.link.serve(turn, &mut self.outbox.departures, &mut self.books.steps);
        self.link.release_dropped(&mut self.books, pool);
        self.outbox.flush(now, &mut self.books, pool);
        self.books.is_flushed = true;
        self.check();
    }

    /// Asserts that each frame that has room is somewhere, and the reverse.
    fn check(&self) {
        let (held, with_room) = (self.held(), self.books.reserves.held());
        assert_eq!(held, with_room, "each frame waits for its turn, in the link or in the outbox");
    }

    /// Returns when the link must be served again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.link.deadline()
    }

    /// Returns whether frames wait for a busy interface.
    pub(crate) fn has_outbox(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Returns whether the port behind is so far behind that what has no guarantee should not come
    /// in: it would be lost where its class does not matter any more.
    pub(crate) fn is_jammed(&self) -> bool {
        self.outbox.len() >= outbox::JAMMED
    }

    /// Returns whether it has been behind its rings for so long that it is overloaded.
    pub(crate) fn is_behind(&self) -> bool {
        self.link.is_overloaded()
    }

    /// Returns the number of frames that it holds.
    pub(crate) fn held(&self) -> usize {
        self.link.held() + self.outbox.len() + self.books.riders
    }

    /// Returns what readers of the counts are told once.
    pub(crate) fn labels(&self) -> &LaneLabels {
        &self.books.labels
    }

    /// Returns the frames that it lost outside the link for this cause.
    pub(crate) fn lost(&self, cause: Loss) -> u64 {
        self.books.losses.total[cause as usize]
    }

    /// Returns the frames that were too old to be sent, as after a stall.
    pub(crate) fn stale(&self) -> u64 {
        self.books.stale()
    }

    /// Returns how many bytes of a leaf wait.
    pub(crate) fn leaf_backlog(&self, leaf: LeafId) -> u64 {
        self.link.inner().leaf_account(leaf).backlog.bytes
    }

    /// Returns what alarms measure of a leaf.
    pub(crate) fn leaf_measures(&self, leaf: LeafId) -> LeafMeasures {
        self.books.measures(leaf, &self.link.inner().leaf_account(leaf))
    }

    /// Returns what a record gets of this turn.
    pub(crate) fn steps(&mut self) -> &mut Steps {
        &mut self.books.steps
    }

    /// Appends what a record of this lane begins with here: its state, and the frames that wait
    /// to be offered.
    pub(crate) fn checkpoint(&self, out: &mut Vec<u8>) {
        let state = (self.link.inner(), &self.intake.classifier);
        record::state::checkpoint(&self.link.pending, state, out);
    }

    /// Returns the number of frames whose header could not be read, by cause.
    pub(crate) fn unread(&self) -> &UnreadCounts {
        &self.intake.unread
    }

    /// Returns how many leaves held frames, whenever that was counted.
    pub(crate) fn found(&self) -> Found {
        self.books.reserves.found()
    }

    /// Returns the counts of a leaf.
    pub(crate) fn counts(&self, leaf: usize) -> LeafCounts {
        self.books.counts(LeafId(leaf as u32), self.link.inner())
    }

    /// Returns the accounts of the hosts of a leaf that sent most, at most so many; `None` where
    /// hosts do not take turns.
    pub(crate) fn hosts(&self, leaf: usize, most: usize) -> Option<HostAccounts> {
        self.link.inner().hosts(LeafId(leaf as u32), most)
    }

    /// Returns what was counted of leaves that changes removed.
    pub(crate) fn retired(&self) -> LeafCounts {
        self.books.retired(self.link.inner())
    }

    /// Copies the delays of a leaf; with `mark`, their measurement restarts.
    pub(crate) fn copy_delays(&mut self, leaf: usize, mark: bool, to: &mut Histogram) {
        self.books.copy_delays(leaf, mark, to);
    }

    /// Looks which leaves their limits hold back, at some of them a call.
    pub(crate) fn sample_limits(&mut self, now: Instant) {
        // The link may be ahead, to the stamp of a frame that just came.
        let (link, now) = (self.link.inner(), now.max(self.link.pending.now()));
        self.books.limits.sample(now, |leaf| link.held_by(now, leaf) != Regulation::None);
    }
}

/// Makes one packet of leading frames, segments of one super-packet, as far as they have at most
/// `train_max` bytes together; returns how many, at least 1.
fn couple(
    segments: &[Received],
    train_max: u32,
    packet: &mut Packet,
    pool: &mut FramePool,
) -> usize {
    let each = packet.length;
    let Ok(train) = u16::try_from(each) else { return 1 };
    let mut frames = 1;
    for pair in segments.windows(2).take(TRAIN_FRAMES_MAX - 1) {
        let length = pool.bytes(pair[1].frame).len() as u32;
        // A shorter one is the last.
        let is_full = packet.length == each * frames as u32;
        if !is_full || length > each || packet.length + length > train_max {
            break;
        }
        pool.couple(pair[0].frame, pair[1].frame);
        packet.length += length;
        frames += 1;
    }
    packet.train = if frames > 1 { train } else { 0 };
    frames
}

const TRAIN_FRAMES_MAX: usize = trains::FRAMES_MAX as usize;
const _: () = assert!(TRAIN_FRAMES_MAX <= BATCH, "one call sends a train");
