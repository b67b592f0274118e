//! The reports of a run beside its main one: each packet's fate, and bytes per class and bin.
//!
//! Invariant: watching changes nothing in the run.

use crate::bins::Bins;
use crate::network::plan::OutletId;
use crate::packets::{Content, Flight, Packets};
use crate::scenario::{Scenario, Source};
use weir_core::event::{Departure, DropReason, Dropped};
use weir_core::ids::LeafId;
use weir_core::packet::Headers;
use weir_core::sched::Tree;
use weir_core::units::{Duration, Instant};

/// The events of a run that the caller wants to see.
#[derive(Default)]
pub struct Watch<'a> {
    /// Explain why packets waited, and name this many of the slowest.
    pub slowest: Option<usize>,
    /// Count what each class sends in each bin of this width, from the start of the run.
    pub bins: Option<Duration>,
    /// Called for each packet that leaves an outlet or is dropped there, from the start of the run.
    pub packets: Option<Tell<'a>>,
    /// Note each segment of the TCP source at this place; nothing of another kind of source.
    pub flow: Option<usize>,
    /// List each transfer and exchange in the report of its source.
    pub objects: bool,
    /// Call it also for the packets that wait at the end, as if the link sent them afterwards, in
    /// at most [`REST_MAX`]: then `at` is past the end. The report does not count that.
    pub rest: bool,
}

/// The time after the end in which packets that wait there are sent for [`Watch::rest`].
pub const REST_MAX: Duration = Duration::from_nanos(600_000_000_000);

impl<'a> Watch<'a> {
    /// Returns the same watch for a shorter lifetime.
    pub(crate) fn shortened<'b>(self) -> Watch<'b>
    where
        'a: 'b,
    {
        let packets = self.packets.map(|tell| tell as Tell<'b>);
        Watch { packets, ..self }
    }
}

/// A function that is called for packets.
pub type Tell<'a> = &'a mut dyn FnMut(&Fate<'_>);

/// A packet that left an outlet or was dropped there.
#[derive(Clone, Copy, Debug)]
pub struct Fate<'a> {
    /// Which outlet of a network it left, or was dropped at; one link is the first.
    pub outlet: OutletId,
    /// When it left or was dropped.
    pub at: Instant,
    /// When the link was offered it.
    pub arrived: Instant,
    /// Why it was dropped; `None` if it was sent.
    pub dropped: Option<DropReason>,
    /// The class of its leaf.
    pub class: &'a str,
    /// Its source; in a network also of what comes back to it.
    pub source: &'a Source,
    /// The headers with which it was sent.
    pub headers: &'a Headers,
    /// The length of the frame.
    pub length: u32,
    /// DSCP and ECN with which it left, if these are not those it came with.
    pub marked: Option<u8>,
    /// Its contents beside headers and length.
    pub content: &'a Content,
}

/// The names of an outlet in tables and files of packets: its link, and the node that it leads away
/// from.
pub type Place = (String, String);

/// Returns the places of all outlets, in their order; without a network there is one link, without
/// a node name.
pub fn places(scenario: &Scenario) -> Vec<Place> {
    let Some(network) = &scenario.network else {
        return vec![(ONE_LINK.to_owned(), String::new())];
    };
    let place = |id: u32| {
        let (link, from) = network.outlet_names(OutletId(id));
        (link.to_owned(), from.to_owned())
    };
    (0..2 * network.links.len() as u32).map(place).collect()
}

/// The name of the link of a scenario without a network.
const ONE_LINK: &str = "link";

/// A watch that runs.
pub(crate) struct Watching<'a> {
    pub bins: Option<Bins>,
    pub packets: Option<Tell<'a>>,
    /// Whether to report what waits at the end.
    pub rest: bool,
    /// The tree of the present plan.
    pub tree: &'a Tree,
    pub sources: &'a [Source],
}

impl<'a> Watching<'a> {
    /// From now on the link has this tree.
    pub fn change(&mut self, tree: &'a Tree) {
        self.tree = tree;
        if let Some(bins) = &mut self.bins {
            bins.change(tree);
        }
    }

    pub fn departed(&mut self, departure: &Departure, flight: Flight, packets: &Packets) {
        if let Some(bins) = &mut self.bins {
            bins.add(departure);
        }
        let subject = self.subject(flight, packets.content(departure.handle));
        if let Some(tell) = &mut self.packets {
            tell(&subject.sent(departure));
        }
    }

    pub fn dropped(&mut self, dropped: &Dropped, flight: Flight, packets: &Packets) {
        let subject = self.subject(flight, packets.content(dropped.handle));
        if let Some(tell) = &mut self.packets {
            tell(&subject.dropped(dropped));
        }
    }

    fn subject<'b>(&self, flight: Flight, content: &'b Content) -> Subject<'b>
    where
        'a: 'b,
    {
        let source = &self.sources[flight.source as usize];
        let (outlet, length) = (OutletId(0), flight.length);
        Subject { outlet, tree: self.tree, source, headers: &source.headers, length, content }
    }
}

/// The packet that leaves or is dropped.
pub(crate) struct Subject<'a> {
    pub outlet: OutletId,
    /// The tree of the outlet's present plan.
    pub tree: &'a Tree,
    pub source: &'a Source,
    pub headers: &'a Headers,
    pub length: u32,
    pub content: &'a Content,
}

impl<'a> Subject<'a> {
    pub fn sent(&self, departure: &Departure) -> Fate<'a> {
        let marked = departure.mark.written();
        let times = (departure.at, departure.arrived);
        Fate { marked, ..self.fate(times, departure.leaf, None) }
    }

    pub fn dropped(&self, dropped: &Dropped) -> Fate<'a> {
        self.fate((dropped.at, dropped.arrived), dropped.leaf, Some(dropped.reason))
    }

    fn fate(
        &self,
        (at, arrived): (Instant, Instant),
        leaf: LeafId,
        dropped: Option<DropReason>,
    ) -> Fate<'a> {
        let &Self { outlet, tree, source, headers, length, content } = self;
        let class = &tree.class(tree.class_of(leaf)).name;
        Fate { outlet, at, arrived, dropped, class, source, headers, length, marked: None, content }
    }
}
