//! A device with several queues to the hardware, each with a discipline of its own below `mq`: each
//! becomes a device, since a link has one queue [linux].

use super::super::lines::Reading;
use super::{Device, Qdisc};
use std::collections::BTreeSet;

/// Returns the device or, if its root is `mq`, a device for each of its queues that has a
/// discipline, called by its number.
pub(super) fn queues(mut device: Device, reading: &mut Reading) -> Vec<Device> {
    let is_root = |one: &Qdisc| one.parent.is_none() && one.kind.kind == MULTIQUEUE;
    let Some(at) = device.qdiscs.iter().position(is_root) else { return vec![device] };
    let root = device.qdiscs.remove(at);
    let is_queue = |one: &Qdisc| one.parent.is_some_and(|parent| parent.0 == root.handle.0);
    let (tops, mut rest): (Vec<_>, Vec<_>) = device.qdiscs.into_iter().partition(is_queue);
    device.qdiscs = Vec::new();
    if tops.is_empty() {
        reading.lost(root.line, ALONE);
        return vec![device];
    }
    reading.approximated(root.line, APART);
    let mut queues = Vec::new();
    for top in tops {
        let number = top.parent.map_or(0, |parent| parent.1);
        let mut name = device.name.clone();
        name.text = format!("{}-{number}", name.text);
        let mut majors = BTreeSet::from([top.handle.0]);
        let mut queue = Device::new(name, device.bare);
        queue.queue_length = device.queue_length;
        queue.qdiscs.push(Qdisc { parent: None, ..top });
        // Terminates: each turn takes a discipline out of the rest.
        while let Some(at) = rest.iter().position(|one| is_below(one, &majors)) {
            majors.insert(rest[at].handle.0);
            queue.qdiscs.push(rest.remove(at));
        }
        queue.classes = device.classes.extract_if(.., |one| majors.contains(&one.id.0)).collect();
        let is_own = |major: Option<u16>| major.is_some_and(|major| majors.contains(&major));
        let filters = device.filters.extract_if(.., |one| is_own(one.parent.map(|id| id.0)));
        queue.filters = filters.collect();
        queues.push(queue);
    }
    for filter in device.filters {
        reading.lost(filter.line, "it stands at no discipline with classes");
    }
    queues
}

fn is_below(one: &Qdisc, majors: &BTreeSet<u16>) -> bool {
    one.parent.is_some_and(|parent| majors.contains(&parent.0))
}

/// The kernel's word for a root that only holds the queues.
const MULTIQUEUE: &str = "mq";
const ALONE: &str = "`mq` shapes nothing: it gives each queue of the device a plain one";
const APART: &str = "each queue of the device becomes a policy of its own; which packet goes to \
                     which queue, the kernel and the device decide by a hash";
