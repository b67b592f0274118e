//! A port in memory: a test hands it the frames that arrive, with their instants, and takes those
//! that were sent. So the run loop is tested without an interface and without a clock.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::lookup::FrameLookup;
use super::{
    Found, LaneRules, NewRings, Port, PortCounters, PortState, Reached, Received, Room, Sent,
    ShareHandle, SortHandle, complete_sum,
};
use crate::pool::{FrameId, FramePool};
use crate::stations::Address;
use weir_core::packet::Headers;
use weir_host::error::{Result, SystemError};

/// The far end of a port in memory.
#[derive(Clone, Debug)]
pub struct Cable(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// For each queue, the frames that wait with their instants, earliest first.
    rings: Vec<VecDeque<Waiting>>,
    sent: Vec<Vec<u8>>,
    /// How many more frames it takes before it is busy.
    room: usize,
    /// Whether frames come in.
    intake: bool,
    /// How far the frames of each queue were passed on, of those that arrived.
    reached: Vec<Reached>,
    /// Whether the next call to receive panics.
    panics: bool,
    /// Whether calls to receive do not return, but at a port that was opened again; of a port that
    /// is shared, those of the last share.
    hangs: bool,
    /// For each share, whether it was opened.
    opened: Vec<bool>,
    /// Whether each share has all rings.
    have_all_rings: bool,
    /// Whether such a call was made.
    has_hung: bool,
    counters: PortCounters,
    /// Looks a frame up when it arrives, if workers are to.
    lookup: Option<FrameLookup>,
}

/// A frame in a queue.
#[derive(Clone, Debug)]
struct Waiting {
    at_ns: u64,
    frame: Vec<u8>,
    found: Found,
}

/// The port's end of a [`Cable`].
#[derive(Debug)]
pub struct Mem {
    name: String,
    cable: Cable,
    /// The far end's queue for each of its own.
    queues: Vec<usize>,
    /// How many of them are parts of ring 0.
    parts: usize,
    /// How many threads may share the port.
    threads: usize,
    /// Whether a call to receive may hang.
    may_hang: bool,
}

impl Mem {
    /// A port with this many rings, and its far end.
    pub fn new(name: &str, rings: usize) -> (Self, Cable) {
        Self::in_parts(name, rings, 1)
    }

    /// As [`Mem::new`], whose ring 0 has so many parts, as if workers shared the port: the far
    /// end's first queues.
    pub fn in_parts(name: &str, rings: usize, parts: usize) -> (Self, Cable) {
        let cable = Cable::of(rings - 1 + parts, 1);
        (Self { parts, ..cable.port(name) }, cable)
    }

    /// As [`Mem::new`], a port that so many threads can share; this one is the first share. The far
    /// end's first queues are those of the shares.
    pub fn shared(name: &str, rings: usize, shares: usize) -> (Self, Cable) {
        let cable = Cable::of(rings - 1 + shares, shares);
        (cable.share(name, 0), cable)
    }

    /// As [`Mem::shared`], of which each share has all rings: the far end has the queues of all
    /// shares for ring 0, then those for ring 1, and so on.
    pub fn split(name: &str, rings: usize, shares: usize) -> (Self, Cable) {
        let cable = Cable::of(rings * shares, shares);
        cable.state().have_all_rings = true;
        (cable.share(name, 0), cable)
    }
}

/// Opens the shares of a port.
struct Sharers {
    name: String,
    cable: Cable,
    shares: usize,
    has_all_rings: bool,
}

impl ShareHandle for Sharers {
    fn shares(&self) -> usize {
        self.shares
    }

    fn has_all_rings(&self) -> bool {
        self.has_all_rings
    }

    fn open(&self, share: usize) -> Result<Box<dyn Port>> {
        Ok(Box::new(self.cable.share(&self.name, share)))
    }
}

impl Cable {
    fn of(queues: usize, shares: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            rings: vec![VecDeque::new(); queues],
            sent: Vec::new(),
            room: usize::MAX,
            intake: true,
            reached: vec![Reached::All; queues],
            panics: false,
            hangs: false,
            opened: vec![false; shares],
            have_all_rings: false,
            has_hung: false,
            counters: PortCounters::default(),
            lookup: None,
        })))
    }

    /// Returns a share of a port with this far end.
    fn share(&self, name: &str, share: usize) -> Mem {
        let mut state = self.state();
        let (queues, shares) = (state.rings.len(), state.opened.len());
        let is_first = !std::mem::replace(&mut state.opened[share], true);
        let own = (share..queues).step_by(shares);
        let queues = match share {
            _ if state.have_all_rings => own.collect(),
            0 => [0].into_iter().chain(shares..queues).collect(),
            _ => vec![share],
        };
        Mem {
            name: name.to_owned(),
            cable: self.clone(),
            queues,
            parts: 1,
            threads: shares,
            may_hang: is_first && share + 1 == shares,
        }
    }

    /// Lets a frame arrive in queue `ring` at `at_ns`; of one queue no earlier than the one before.
    /// While the intake is closed it is refused.
    pub fn deliver(&self, ring: usize, at_ns: u64, frame: Vec<u8>) {
        let mut state = self.state();
        if state.intake {
            let headers = Headers::parse_ethernet(&frame);
            let lookup = state.lookup.as_mut();
            let found = lookup.map_or(Found::NOTHING, |lookup| lookup.find(&headers));
            state.rings[ring].push_back(Waiting { at_ns, frame, found });
        }
    }

    /// Returns how many frames wait in `ring`.
    pub fn waiting(&self, ring: usize) -> usize {
        self.state().rings[ring].len()
    }

    /// Has the port say that of what arrives in `ring` so much was passed on, as if by a worker.
    pub fn set_reached(&self, ring: usize, reached: Reached) {
        self.state().reached[ring] = reached;
    }

    /// Has the port panic when it is next asked for frames.
    pub fn panic_at_next_receive(&self) {
        self.state().panics = true;
    }

    /// Has the port not return when it is asked for frames, until this is taken back; one that is
    /// opened again does.
    pub fn set_hanging(&self, hangs: bool) {
        self.state().hangs = hangs;
    }

    /// Returns whether a call has not returned since [`Cable::set_hanging`].
    pub fn has_hung(&self) -> bool {
        self.state().has_hung
    }

    /// Returns a port with this far end, as one that is opened again.
    pub fn port(&self, name: &str) -> Mem {
        self.share(name, 0)
    }

    /// Takes the frames that were sent.
    pub fn take_sent(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.state().sent)
    }

    /// From now on the port takes this many frames, and is busy then.
    pub fn set_room(&self, frames: usize) {
        self.state().room = frames;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Notes a call that is to hang; returns whether it is.
    fn is_stuck(&mut self) -> bool {
        self.has_hung |= self.hangs;
        self.hangs
    }
}

impl Port for Mem {
    fn kind(&self) -> &'static str {
        "mem"
    }

    fn interface(&self) -> &str {
        &self.name
    }

    fn address(&self) -> Option<Address> {
        None
    }

    fn mtu(&self) -> usize {
        1500
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn room(&self) -> Room {
        Room { slot_len: FramePool::slot_for(self.mtu()), ..Room::default() }
    }

    fn attach(&mut self, _pool: &mut FramePool) -> Result<()> {
        Ok(())
    }

    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn rings(&self) -> usize {
        self.queues.len() + 1 - self.parts
    }

    fn shares(&self) -> usize {
        self.parts
    }

    fn queues(&self) -> usize {
        self.queues.len()
    }

    /// As workers do, where parts of ring 0 stand for those.
    fn look_up_in(&mut self, rules: &LaneRules) {
        if self.parts > 1 {
            FrameLookup::take_up(&mut self.cable.state().lookup, rules.clone());
        }
    }

    fn receive(
        &mut self,
        queue: usize,
        frames_max: usize,
        pool: &mut FramePool,
        out: &mut Vec<Received>,
    ) -> Reached {
        let ring = self.queues[queue];
        while self.may_hang && self.cable.state().is_stuck() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let mut state = self.cable.state();
        assert!(!std::mem::take(&mut state.panics), "the far end wants a panic");
        for _ in 0..frames_max {
            let Some(Waiting { at_ns, frame, found }) = state.rings[ring].pop_front() else {
                break;
            };
            match pool.insert(&frame) {
                Some(frame) => {
                    state.counters.received += 1;
                    out.push(Received { found, ..Received::new(frame, at_ns, pool) });
                }
                None => state.counters.pool_exhausted += 1,
            }
        }
        match out.last() {
            Some(last) if !state.rings[ring].is_empty() => Reached::Behind(last.at_ns),
            _ => state.reached[ring],
        }
    }

    fn sorter(&self) -> Option<Arc<dyn SortHandle>> {
        // The far end chooses the rings.
        None
    }

    fn sharers(&self) -> Option<Arc<dyn ShareHandle>> {
        let Self { name, cable, threads, .. } = self;
        let has_all_rings = cable.state().have_all_rings;
        let (name, cable) = (name.clone(), cable.clone());
        let handle = Sharers { name, cable, shares: *threads, has_all_rings };
        (*threads > 1).then(|| Arc::new(handle) as Arc<dyn ShareHandle>)
    }

    fn begin_sorting(&mut self, _made: &mut NewRings) -> bool {
        false
    }

    fn end_sorting(&mut self, retired: u8) {
        self.cable.state().counters.retire_rings(retired);
    }

    fn send(&mut self, pool: &mut FramePool, frames: &[FrameId]) -> Sent {
        let mut state = self.cable.state();
        let taken = frames.len().min(state.room);
        state.room -= taken;
        for frame in &frames[..taken] {
            complete_sum(pool, *frame);
            state.sent.push(pool.bytes(*frame).to_vec());
            pool.release(*frame);
        }
        state.counters.sent += taken as u64;
        Sent { taken, ..Sent::default() }
    }

    fn reclaim(&mut self, _pool: &mut FramePool) {
        // The far end has a copy of what was sent.
    }

    fn deadline(&self) -> Option<u64> {
        None
    }

    fn held(&self) -> usize {
        0
    }

    fn lent(&self) -> usize {
        0
    }

    fn state(&self) -> PortState {
        PortState::Up
    }

    fn refresh(&mut self) -> PortState {
        PortState::Up
    }

    fn set_up(&mut self, _up: bool) -> Result<()> {
        let action = format!("set `{}` up or down", self.name);
        Err(SystemError::refused(action, "a port of kind mem cannot", ""))
    }

    fn set_intake(&mut self, open: bool) -> Result<()> {
        self.cable.state().intake = open;
        Ok(())
    }

    fn counters(&mut self) -> PortCounters {
        self.cable.state().counters
    }
}
