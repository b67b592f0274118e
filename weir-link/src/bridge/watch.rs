//! The readings of the run loop for the watch over its faults.

use weir_core::units::{Duration, Instant};

use super::{Bridge, OpenPort, REFRESH_INTERVAL};
use crate::alarm::Gauged;
use crate::events::Reporter;
use crate::events::watch::{
    LATE_MIN, LaneReading, LoopReading, Moment, Monitor, PortReading, RingNames,
};
use crate::lane::{Lane, Loss};
use crate::port::RINGS_MAX;

use weir_host::wait::{monotonic_ns, realtime_ns};

/// The watch over a bridge, and what the loop notes for it.
#[derive(Debug, Default)]
pub(super) struct Watch {
    monitor: Option<Monitor>,
    reporter: Option<Reporter>,
    /// When it last looked.
    observed: Instant,
    /// How long the last stall was.
    pub(super) stalled: Duration,
    /// By how much the system woke the loop late, beyond what is usual; a sum.
    late: Duration,
    /// The counts by which alarms are judged.
    gauged: Gauged,
}

impl Watch {
    /// Returns where events are told, if they are.
    pub(super) fn reporter(&self) -> Option<&Reporter> {
        self.reporter.as_ref()
    }

    /// Counts other leaves from now on; `gauged` becomes what was counted.
    pub(super) fn replace_gauged(&mut self, gauged: &mut Gauged) {
        std::mem::swap(&mut self.gauged, gauged);
    }

    /// From now on tells the rings of a port by these names, which become those of before.
    pub(super) fn name_rings(&mut self, port: usize, names: &mut RingNames) {
        if let Some(monitor) = &mut self.monitor {
            monitor.name_rings(port, names);
        }
    }
}

impl Bridge {
    /// From now on counts these leaves of lanes for alarms.
    pub(crate) fn gauge(&mut self, mut gauged: Gauged) {
        self.watch.replace_gauged(&mut gauged);
    }

    /// From now on tells faults to `reporter`.
    pub fn report_to(&mut self, reporter: Reporter) {
        let rings = (0..self.ports.len()).map(|port| self.ring_classes(port)).collect();
        let name = self.names().iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
        self.watch.reporter = Some(reporter.clone());
        let mut monitor = Monitor::new(reporter, name.join(" and "), rings, self.lanes.len());
        let interface = |port: &OpenPort| port.port.interface().to_owned();
        let interfaces: Vec<_> = self.ports.iter().map(interface).collect();
        for (index, name) in interfaces.iter().enumerate() {
            if interfaces[..index].contains(name) {
                monitor.share_interface(index);
            }
        }
        self.watch.monitor = Some(monitor);
    }

    /// Returns the class of each ring that a port may have, if a class has it alone.
    fn ring_classes(&self, port: usize) -> Vec<Option<String>> {
        let lane = self.only_lane_of(port).map(|lane| &self.lanes[lane]);
        let class = |ring| lane.and_then(|lane| lane.labels().ring_class(ring));
        (0..RINGS_MAX).map(class).collect()
    }

    /// Looks for faults, if the last look was long ago or the state of a port changed.
    pub(super) fn observe_faults(&mut self, now: Instant, changed: bool) {
        if !changed && now.since(self.watch.observed) < REFRESH_INTERVAL {
            return;
        }
        self.watch.observed = now;
        let lanes = &self.lanes;
        self.watch.gauged.sample(
            now,
            |lane, leaf| lanes[lane].leaf_backlog(leaf),
            |lane, leaf| lanes[lane].leaf_measures(leaf),
        );
        let Some(monitor) = &mut self.watch.monitor else { return };
        let moment = moment();
        monitor.begin(moment);
        for (index, port) in self.ports.iter_mut().enumerate() {
            observe_port(monitor, moment, (index, port), &self.lanes);
        }
        for (index, lane) in self.lanes.iter().enumerate() {
            let (is_behind, pool) = (lane.is_behind(), lane.lost(Loss::Pool));
            let name = &lane.labels().name;
            monitor.lane(index, moment, &LaneReading { name, is_behind, pool });
        }
        let stale = self.lanes.iter().map(Lane::stale).sum();
        let (stalls, stalled, late) = (self.stalls, self.watch.stalled, self.watch.late);
        monitor.own(moment, &LoopReading { stalls, stalled, stale, late });
    }

    /// Notes by how much a wait ended late.
    pub(super) fn count_lateness(&mut self, now: Instant) {
        let late = now.since(self.expected);
        if late > LATE_MIN {
            let sum = self.watch.late.as_nanos() + late.as_nanos() - LATE_MIN.as_nanos();
            self.watch.late = Duration::from_nanos(sum);
        }
    }

    /// Ends what can lose no more frames.
    pub(super) fn finish_observing(&mut self) {
        self.observe_faults(Instant::from_nanos(monotonic_ns()), true);
        if let Some(monitor) = &mut self.watch.monitor {
            monitor.finish(moment());
        }
    }
}

fn observe_port(
    monitor: &mut Monitor,
    moment: Moment,
    (index, open): (usize, &mut OpenPort),
    lanes: &[Lane],
) {
    let counters = open.port.counters();
    let into = lanes.iter().filter(|lane| lane.labels().to == index);
    let reading = PortReading {
        interface: open.port.interface(),
        state: open.port.state(),
        mtu: open.port.mtu(),
        counters: &counters,
        no_copy: open.kept.copies,
        is_blocked: into.clone().any(Lane::has_outbox),
        busy: into.map(|lane| lane.lost(Loss::BusyPort)).sum(),
    };
    monitor.port(index, moment, &reading);
}

/// Reads both clocks, so that no interruption comes between them if it can be helped.
fn moment() -> Moment {
    let mut best = None;
    for _ in 0..READINGS_MAX {
        let before = monotonic_ns();
        let wall_ns = realtime_ns();
        let now = monotonic_ns();
        let moment = Moment { now: Instant::from_nanos(now), wall_ns };
        let took = now - before;
        if best.is_none_or(|(least, _)| took < least) {
            best = Some((took, moment));
        }
        if took < TOGETHER_NS {
            break;
        }
    }
    best.expect("it was read at least once").1
}

/// Clocks are read together if that takes less than this.
const TOGETHER_NS: u64 = 1_000_000;
/// How often they are read to find that.
const READINGS_MAX: u32 = 8;
