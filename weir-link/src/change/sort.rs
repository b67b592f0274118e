//! Other ways to sort frames into rings, for the ports of bridges that run.
//!
//! The kernel exchanges how it sorts beside the loop, and it may refuse. So that comes first, port
//! by port, and the policy only after the last: when a port cannot, those before sort as they did,
//! and nothing has changed. A frame is classified again behind its ring, so it may come by the ring
//! of another policy meanwhile. Invariant: frames of one flow keep their order
//! ([`crate::port::SortHandle`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_core::classify::InterfaceId;
use weir_core::ids::LeafId;
use weir_policy::deployment::Direction;

use super::mailbox::{ChangeHandle, Offer};
use super::{BridgeChange, Refusal};
use crate::bridge::Bridge;
use crate::events::watch::{RingNames, ring_names};
use crate::lane::change::LaneChange;
use crate::port::{NewRings, RINGS_MAX, SortHandle};
use crate::sorter::{SortConfig, SortPlan, Sorting};
use weir_host::error::{Result, SystemError};

/// A port whose frames the kernel sorts by the policy of one lane.
pub(crate) struct SortedPort {
    /// Its place in the bridge.
    pub port: usize,
    /// The number of the lane.
    pub lane: usize,
    /// The number by which rules name it.
    pub number: InterfaceId,
    /// How it sorts them now.
    pub sorting: Sorting,
    pub handle: Arc<dyn SortHandle>,
}

/// Another way to sort the frames of a port of [`ChangeHandle::sorted`].
pub(crate) struct Wanted {
    /// Its place there.
    place: usize,
    sorting: Sorting,
}

/// A change of how ports of a bridge sort frames, as its loop begins and ends it.
pub(crate) struct BridgeSort {
    pub ports: Vec<PortSort>,
    /// It ends; else it begins.
    pub is_over: bool,
}

/// Its part for one port.
pub(crate) struct PortSort {
    pub port: usize,
    pub made: NewRings,
    pub has_begun: bool,
}

/// The classes of a port's rings from a change on.
pub(crate) struct RingsNow {
    pub port: usize,
    /// A bit for each ring that is no longer that of the class that had it.
    pub retired: u8,
    /// The names of the rings; afterwards those of before.
    pub names: RingNames,
}

/// How the loops are woken, and how long one may take.
#[derive(Clone, Copy)]
pub(crate) struct Loops<'a> {
    pub wake: &'a dyn Fn(),
    pub patience: Duration,
}

/// The consequences of a changed policy for the ports of its lane.
#[derive(Default)]
pub(crate) struct Sorted {
    pub wanted: Vec<Wanted>,
    pub rings: Vec<RingsNow>,
}

impl Sorted {
    /// Gives rings to the classes of a lane that `change` changes, for the ports in `handle`, and
    /// notes what these must do otherwise. A class that keeps a ring keeps the same one.
    pub fn add(
        &mut self,
        (lane, change): (usize, &mut LaneChange),
        (old, new): (&Direction, &Direction),
        handle: &ChangeHandle,
    ) {
        let of_lane = |port: &&SortedPort| port.lane == lane;
        if !handle.sorted.iter().any(|port| of_lane(&port)) {
            return;
        }
        let before = &handle.labels.lanes[lane].rings;
        // By the names of classes.
        let kept = change.labels().rings.clone();
        let [was, now] = [old, new].map(SortConfig::of_direction);
        let plan = (was != now).then(|| SortPlan::after(now, &kept));
        let rings = plan.as_ref().map_or_else(|| before.clone(), SortPlan::leaves_of_rings);
        let is_retired = |ring: &usize| {
            let at = |rings: &[Option<LeafId>]| rings.get(*ring).copied().flatten();
            at(before).is_some() && at(&kept) != at(&rings)
        };
        let retired = (0..RINGS_MAX).filter(is_retired).fold(0, |bits, ring| bits | 1 << ring);
        change.set_rings(rings);
        let ports = handle.sorted.iter().enumerate();
        for (place, SortedPort { port, number, sorting, .. }) in ports.filter(|it| of_lane(&it.1)) {
            let names = ring_names((0..RINGS_MAX).map(|ring| change.labels().ring_class(ring)));
            self.rings.push(RingsNow { port: *port, retired, names });
            let other = plan.as_ref().map(|plan| Sorting::of(plan, *number));
            let other = other.filter(|other| other != sorting);
            self.wanted.extend(other.map(|sorting| Wanted { place, sorting }));
        }
    }
}

/// Has the kernel sort frames as `changes` want it, for the bridges behind `handles`.
///
/// # Errors
/// When it does not; then all ports sort as before.
pub(super) fn sort(
    changes: &[BridgeChange],
    handles: &mut [ChangeHandle],
    loops: Loops<'_>,
) -> std::result::Result<(), Refusal> {
    for bridge in 0..changes.len() {
        if let Err(error) = handles[bridge].sort(&changes[bridge].wanted, loops) {
            for (change, handle) in changes.iter().zip(handles.iter_mut()).take(bridge) {
                handle.sort_as_before(&change.wanted, loops);
            }
            return Err(Refusal::Sort(error.to_string()));
        }
    }
    Ok(())
}

impl ChangeHandle {
    /// Begins a change of the sorting, and has the kernel make it; the loop ends it with the new
    /// policy.
    fn sort(&mut self, wanted: &[Wanted], loops: Loops<'_>) -> Result<()> {
        if wanted.is_empty() {
            return Ok(());
        }
        let mut ports = Vec::new();
        for Wanted { place, sorting } in wanted {
            let SortedPort { port, handle, .. } = &self.sorted[*place];
            let made = handle.make_rings(sorting.rings())?;
            ports.push(PortSort { port: *port, made, has_begun: false });
        }
        let all = |handle: &Self| {
            let sort = |it: &Wanted| handle.sorted[it.place].handle.sort(&it.sorting);
            wanted.iter().try_for_each(sort)
        };
        let sorted = self.begin_sorting(ports, loops).and_then(|()| all(self));
        sorted.inspect_err(|_| self.sort_as_before(wanted, loops))
    }

    /// Has ports sort as before a change that is refused. One that cannot sorts as it was to, which
    /// is right, too: frames are classified again.
    fn sort_as_before(&mut self, wanted: &[Wanted], loops: Loops<'_>) {
        if wanted.is_empty() {
            return;
        }
        let mut ports = Vec::new();
        for Wanted { place, .. } in wanted {
            let SortedPort { port, sorting, handle, .. } = &self.sorted[*place];
            let _sorts_as_it_may = handle.sort(sorting);
            ports.push(PortSort { port: *port, made: NewRings::default(), has_begun: true });
        }
        if !self.is_busy() {
            self.offer(Offer::Sort(Box::new(BridgeSort { ports, is_over: true })));
            (loops.wake)();
            let _ends_when_it_goes_on = self.wait(loops.patience);
        }
    }

    /// As [`sort`], where the bridge does not run yet.
    pub(super) fn sort_at_rest(
        &mut self,
        wanted: &[Wanted],
        bridge: &mut Bridge,
    ) -> std::result::Result<(), Refusal> {
        let mut sort = |it: &Wanted| {
            let SortedPort { port, handle, .. } = &self.sorted[it.place];
            let made = handle.make_rings(it.sorting.rings())?;
            let ports = vec![PortSort { port: *port, made, has_begun: false }];
            bridge.sort(&mut BridgeSort { ports, is_over: false });
            handle.sort(&it.sorting)
        };
        let sorted = wanted.iter().try_for_each(&mut sort);
        sorted.map_err(|error| {
            let before = wanted.iter().map(|it| &self.sorted[it.place]);
            let ports = before.map(|SortedPort { port, sorting, handle, .. }| {
                let _sorts_as_it_may = handle.sort(sorting);
                PortSort { port: *port, made: NewRings::default(), has_begun: true }
            });
            let ports = ports.collect();
            bridge.sort(&mut BridgeSort { ports, is_over: true });
            Refusal::Sort(error.to_string())
        })
    }

    /// Has the loop begin a change of the sorting at these ports. One whose change before is not
    /// over needs a moment.
    fn begin_sorting(&mut self, ports: Vec<PortSort>, loops: Loops<'_>) -> Result<()> {
        let mut sort = Box::new(BridgeSort { ports, is_over: false });
        let until = Instant::now() + BEGIN_PATIENCE;
        let refused = |why: &str| SystemError::refused(ACTION, why, "try again");
        loop {
            self.offer(Offer::Sort(sort));
            (loops.wake)();
            if self.wait(loops.patience).is_err() {
                self.gives_up_sort = true;
                return Err(refused("a loop of the link hangs"));
            }
            sort = self.take_sort().ok_or_else(|| refused("a loop of the link has ended"))?;
            if sort.ports.iter().all(|port| port.has_begun) {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(refused("a port came back meanwhile, or still sorts as before"));
            }
            std::thread::sleep(BEGIN_PAUSE);
        }
    }

    /// Notes that ports sort so from now on.
    pub(super) fn now_sorts(&mut self, wanted: Vec<Wanted>) {
        for Wanted { place, sorting } in wanted {
            self.sorted[place].sorting = sorting;
        }
    }
}

const ACTION: &str = "sort frames into rings otherwise";
/// How long the end of a change before is waited for.
const BEGIN_PATIENCE: Duration = Duration::from_millis(500);
const BEGIN_PAUSE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::super::mailbox::mailbox;
    use super::*;
    use crate::status::Labels;
    use std::sync::Mutex;
    use std::thread;

    type Log = Arc<Mutex<Vec<String>>>;

    /// A port that notes what it is asked for.
    struct Noted {
        name: char,
        log: Log,
        /// The call that it refuses: `make`, or to sort into so many rings.
        refuses: &'static str,
    }

    impl Noted {
        fn note(&self, what: &str) -> Result<()> {
            self.log.lock().expect("no panic").push(format!("{}: {what}", self.name));
            match self.refuses {
                refused if refused == what => Err(SystemError::refused(ACTION, "no memory", "")),
                _ => Ok(()),
            }
        }
    }

    impl SortHandle for Noted {
        fn make_rings(&self, _rings: usize) -> Result<NewRings> {
            self.note("make").map(|()| NewRings::default())
        }

        fn sort(&self, sorting: &Sorting) -> Result<()> {
            self.note(&format!("sort {}", sorting.rings()))
        }
    }

    /// A sorting into so many rings.
    fn sorting(rings: usize) -> Sorting {
        let class = |number| format!("[class.c{number}]\nmatch = [{{ vlan = {number} }}]\n");
        let classes: String = (1..rings).map(class).collect();
        let link = "[link]\nrate = '1 Gbit/s'\nscheduler = 'fifo'\n";
        let policy = format!("{link}{classes}[class.rest]\ndefault = true\n");
        let policy = weir_policy::parse(&policy, "p.toml").plan.expect("a sound policy");
        Sorting::of(&SortPlan::of_policy(&policy), InterfaceId(0))
    }

    /// Two ports that sort into 2 rings, of which `b` refuses something, come to sort into 3.
    #[test]
    fn all_ports_sort_otherwise_or_none_does() {
        let made = "a: make; b: make";
        let undone = "a: sort 2; b: sort 2; over";
        let rows = [
            ("", format!("{made}; begin; a: sort 3; b: sort 3"), true),
            ("make", made.to_owned(), false),
            ("sort 3", format!("{made}; begin; a: sort 3; b: sort 3; {undone}"), false),
        ];
        for (refuses, expected, is_done) in rows {
            let log = Log::default();
            let (mut handle, inbox) = mailbox(Arc::new(Labels::default()));
            let ports = [('a', ""), ('b', refuses)].into_iter().enumerate();
            handle.sorted = ports
                .map(|(port, (name, refuses))| {
                    let handle = Arc::new(Noted { name, log: Arc::clone(&log), refuses });
                    let number = InterfaceId(port as u16);
                    SortedPort { port, lane: 0, number, sorting: sorting(2), handle }
                })
                .collect();
            let noted = Arc::clone(&log);
            let bridge = thread::spawn(move || {
                while let Some(mut offer) = inbox.wait() {
                    let Offer::Sort(sort) = &mut offer else { unreachable!("nothing else comes") };
                    let step = if sort.is_over { "over" } else { "begin" };
                    noted.lock().expect("no panic").push(step.to_owned());
                    sort.ports.iter_mut().for_each(|port| port.has_begun = true);
                    inbox.give_back(offer);
                }
            });
            let wanted: Vec<_> =
                (0..2).map(|place| Wanted { place, sorting: sorting(3) }).collect();
            let loops = Loops { wake: &|| (), patience: Duration::from_secs(60) };
            let outcome = handle.sort(&wanted, loops);
            drop(handle);
            bridge.join().expect("no panic");
            assert_eq!(outcome.is_ok(), is_done, "{refuses}: {outcome:?}");
            assert_eq!(log.lock().expect("no panic").join("; "), expected, "{refuses}");
        }
    }
}
