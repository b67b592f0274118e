//! The limits of pfctl for the numbers of a tree of queues: for `altq`, `eval_pfqueue` and its
//! parts for `cbq`, `hfsc` and `priq`; for the newer kind, OpenBSD's grammar and
//! `pfctl_load_queues`.
//!
//! Children whose bandwidths exceed their parent's together are only a warning of `altq`; the
//! import lowers them. The newer kind compares no queue with its parent, nor `min` with
//! `bandwidth`.

use super::super::altq_classes::{AltqClass, Curve, Discipline};
use super::super::lines::Reading;
use super::{Bandwidth, Queue, Tree, WHOLE};
use crate::import::sketch::show_rate;
use weir_policy::codes;

impl Tree<'_> {
    /// Reports the queues that pfctl refuses on an interface of `rate` bit/s.
    pub(super) fn check_limits(&self, rate: u64, reading: &mut Reading) {
        if self.altq.is_new {
            return self.check_new(reading);
        }
        for (at, class) in self.classes.iter().enumerate() {
            let (above, before) = (class.parent.map(|at| &self.classes[at]), &self.classes[..at]);
            let mut named = self.file.queues.iter();
            let queue = named.find(|queue| queue.line == class.line);
            let fault = match self.altq.discipline {
                Discipline::Priq => {
                    queue.and_then(beyond_priq).or_else(|| same_priority(class, before))
                }
                Discipline::Cbq | Discipline::Fairq => too_wide(class, above, rate),
                Discipline::Codel => None,
                Discipline::Hfsc => too_wide(class, above, rate)
                    .or_else(|| curves(class, rate))
                    .or_else(|| sums(class, before, (above, rate))),
            };
            if let Some((message, cure)) = fault {
                let span = queue.map_or(self.altq.name.span, |queue| queue.name.span);
                reading.error(&codes::INCONSISTENT, span, message, cure);
            }
        }
    }
}

impl Tree<'_> {
    /// Reports what pfctl refuses in queues of the newer kind.
    fn check_new(&self, reading: &mut Reading) {
        for (at, class) in self.classes.iter().enumerate() {
            let mut named = self.file.queues.iter();
            let Some(queue) = named.find(|queue| queue.line == class.line) else { continue };
            let is_leaf = self.classes.iter().all(|other| other.parent != Some(at));
            if let Some((message, cure)) = new_fault(queue, is_leaf) {
                reading.error(&codes::INCONSISTENT, queue.name.span, message, cure);
            }
        }
    }
}

fn new_fault(queue: &Queue, is_leaf: bool) -> Fault {
    let name = &queue.name.text;
    if !is_leaf && (queue.class.default || queue.flows.is_some()) {
        let word = if queue.flows.is_some() { "flows" } else { "default" };
        let message = format!("queue `{name}` has children and `{word}`");
        return Some((message, format!("write `{word}` in a queue without children")));
    }
    // A root of flows alone has the interface's rate.
    let is_bare = queue.parent.is_none() && queue.flows.is_some() && queue.bandwidth == WHOLE;
    let bursts = queue.bursts.iter().flatten().map(|burst| burst.0);
    let mut rates = bursts.chain(queue.min).chain(queue.max);
    let is_part = |rate: Bandwidth| matches!(rate, Bandwidth::Percent(_));
    (is_part(queue.bandwidth) && !is_bare || rates.any(is_part)).then(|| {
        let message = format!("queue `{name}` lacks a bandwidth in bits, or has one in percent");
        (message, "write each bandwidth as in `bandwidth 10M`".to_owned())
    })
}

/// A message and its cure.
type Fault = Option<(String, String)>;

fn beyond_priq(queue: &Queue) -> Fault {
    let what = if queue.children.is_empty() { "a bandwidth" } else { "children" };
    let plain = queue.children.is_empty() && queue.bandwidth == WHOLE;
    (!plain).then(|| {
        let message = format!("queue `{}` of `priq` has {what}", queue.name.text);
        (message, format!("leave {what} out, or choose `cbq` or `hfsc`"))
    })
}

fn same_priority(class: &AltqClass, before: &[AltqClass]) -> Fault {
    let of = |class: &AltqClass| class.priority.unwrap_or(PRIORITY_DEFAULT);
    let other = before.iter().find(|other| of(other) == of(class))?;
    let (priority, one, two) = (of(class), &other.name, &class.name);
    let message = format!("queues `{one}` and `{two}` have the same priority, {priority}");
    Some((message, "give each queue of `priq` another `priority`, 0 to 15".to_owned()))
}

fn too_wide(class: &AltqClass, above: Option<&AltqClass>, rate: u64) -> Fault {
    let (whole, most) = match above {
        Some(parent) => (format!("its parent `{}`", parent.name), parent.bandwidth),
        None => ("the interface".to_owned(), rate),
    };
    let (has, most_shown) = (show_rate(class.bandwidth), show_rate(most));
    (class.bandwidth > most).then(|| {
        let name = &class.name;
        let message = format!("queue `{name}` has {has}, more than {whole}: {most_shown}");
        (message, format!("write a bandwidth of at most {most_shown}"))
    })
}

/// Checks the curves of a queue by themselves.
fn curves(class: &AltqClass, rate: u64) -> Fault {
    let name = &class.name;
    let written = [
        ("realtime", class.real_time),
        ("linkshare", class.link_share),
        ("upperlimit", class.upper_limit),
    ];
    for (word, curve) in written {
        let Some(Curve { m1, d, m2 }) = curve else { continue };
        if m2 == 0 && m1 > 0 {
            let message = format!("`{word}` of queue `{name}` ends with a rate of 0");
            return Some((message, "write the third value".to_owned()));
        }
        if d > 0 && m1 < m2 && m1 != 0 {
            let message = format!("`{word}` of queue `{name}` begins slower than it goes on");
            return Some((message, "write 0 as its first rate, or one above its last".to_owned()));
        }
    }
    let upper = class.upper_limit?;
    if upper.m1.max(upper.m2) > rate {
        let message = format!("`upperlimit` of queue `{name}` is above the interface's rate");
        return Some((message, format!("write at most {}", show_rate(rate))));
    }
    let least = class.real_time.filter(|least| least.m2 > upper.m2)?;
    let message = format!("`upperlimit` of queue `{name}` is below its `realtime`");
    Some((message, format!("write at least {}", show_rate(least.m2))))
}

/// Checks the curves of a queue and of its siblings before it together.
fn sums(
    class: &AltqClass,
    before: &[AltqClass],
    (above, rate): (Option<&AltqClass>, u64),
) -> Fault {
    let siblings = || before.iter().chain([class]).filter(|other| other.parent == class.parent);
    let name = &class.name;
    let reserved = Curve::straight(rate / 100 * REAL_TIME_PERCENT);
    let real_time: Vec<Curve> = siblings().filter_map(|one| one.real_time).collect();
    if class.real_time.is_some() && !is_under(&real_time, reserved) {
        let message = format!(
            "with queue `{name}` the `realtime` curves exceed {REAL_TIME_PERCENT} % of the rate"
        );
        let cure = format!("lower them to {} together", show_rate(reserved.m2));
        return Some((message, cure));
    }
    let whole = above.map_or(Some(Curve::straight(rate)), |parent| parent.link_share)?;
    let link_share: Vec<Curve> = siblings().filter_map(|one| one.link_share).collect();
    if class.link_share.is_some() && !is_under(&link_share, whole) {
        let message = format!("with queue `{name}` the `linkshare` curves exceed their parent's");
        return Some((message, "lower their `linkshare` or `bandwidth`".to_owned()));
    }
    None
}

/// Returns whether the sum of `curves` is nowhere above `whole`: at each bend, and for ever.
fn is_under(curves: &[Curve], whole: Curve) -> bool {
    let slope: u128 = curves.iter().map(|curve| u128::from(curve.m2)).sum();
    let mut bends = curves.iter().chain([&whole]).map(|curve| curve.d);
    slope <= u128::from(whole.m2)
        && bends.all(|at| {
            let sum = curves.iter().map(|curve| bits(*curve, at)).fold(0, u128::saturating_add);
            sum <= bits(whole, at)
        })
}

/// Returns the data that a curve gives in `at` milliseconds, in thousandths of a bit.
fn bits(curve: Curve, at: u64) -> u128 {
    let Curve { m1, d, m2 } = curve;
    let (first, rest) = (at.min(d), at.saturating_sub(d));
    u128::from(m1) * u128::from(first) + u128::from(m2) * u128::from(rest)
}

/// The priority of a queue that names none.
const PRIORITY_DEFAULT: u64 = 1;
/// The part of an interface that real-time curves may take.
const REAL_TIME_PERCENT: u64 = 80;
