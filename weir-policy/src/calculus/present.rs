//! The guarantees of a scheduler to the classes that there are, without places that no class has:
//! no packet ever waits there, so they take nothing from the others.

use weir_core::sched::Service;
use weir_core::sched::service::{Buckets, Rounds};

/// Returns the service of the leaves that are `present`, in their order.
pub(super) fn only(service: Service, present: &[bool]) -> Service {
    if present.iter().all(|is_present| *is_present) {
        return service;
    }
    match service {
        Service::Ranks(ranks) => Service::Ranks(kept(ranks, present)),
        Service::Rounds(rounds) => {
            Service::Rounds(Rounds { gains: kept(rounds.gains, present), ..rounds })
        }
        Service::Fluid(leaves) => Service::Fluid(kept(leaves, present)),
        Service::Buckets(buckets) => {
            Service::Buckets(Buckets { leaves: kept(buckets.leaves, present), ..buckets })
        }
        Service::Curves(curves) => Service::Curves(kept(curves, present)),
        // The first leaf is never a place: those come last.
        Service::Unknown | Service::Arrivals { .. } | Service::Deadline(_) => service,
    }
}

fn kept<T>(leaves: Vec<T>, present: &[bool]) -> Vec<T> {
    leaves.into_iter().zip(present).filter(|row| *row.1).map(|row| row.0).collect()
}
