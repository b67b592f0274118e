//! Delay-bounded hybrid proportional delay: ratios, and one class with a bound [algorithms §8].
//!
//! By Nieminen and others `[nieminen §2.B]`: as `hpd`, but once the first packet of the first
//! class has waited longer than `d_max` less `t_safe`, it goes before all. So it leaves within
//! that time, the one packet that is being sent, and those of its own class that are overdue
//! before it. That is absolute priority: a first class that offers too much takes the line from
//! all others. Invariant: no packet of another class leaves while one of the first is overdue.

use super::proportional_delay::{DDP, ESTIMATOR, G, GAMMA, ProportionalDelay, RATIO};
use super::{
    Calls, Changes, Cost, Descriptor, Discipline, Explains, Kin, Promises, Service, Tree, Waiting,
};
use crate::parameter::{BuildError, Kind, Parameter, Scope};
use crate::units::{Dimension, Duration, Instant};

/// Delay-bounded hybrid proportional delay.
pub type Dbhpd = ProportionalDelay<true>;

impl Discipline for Dbhpd {
    const DESCRIPTOR: Descriptor = Descriptor {
        keyword: "dbhpd",
        summary: "Proportional delay, with a bound for the first class.",
        parameters: &[D_MAX, T_SAFE, DDP, RATIO, G, GAMMA, ESTIMATOR],
        sources: &["nieminen §2.B", "algorithms §8"],
        promises: Promises {
            work_conserving: true,
            hierarchical: false,
            exact_wake: true,
            cost: Cost::Linear,
        },
    };

    const CALLS: Calls = Calls { compares_ages: true, ..Calls::DEFAULT };

    fn build(tree: &Tree) -> Result<Self, BuildError> {
        let params = tree.params();
        let d_max = params.duration("d_max").unwrap_or(D_MAX_DEFAULT);
        let t_safe = params.duration("t_safe").unwrap_or(Duration::ZERO);
        if t_safe > d_max {
            let message = alloc::format!(
                "t_safe {t_safe} is longer than d_max {d_max}, so every packet would be late; \
                 lower `t_safe` or raise `d_max`"
            );
            return Err(BuildError::in_link("t_safe", message));
        }
        let bound = Duration::from_nanos(d_max.as_nanos() - t_safe.as_nanos());
        Ok(Self::new(tree, bound))
    }
}

impl Explains for Dbhpd {
    fn service(tree: &Tree) -> Service {
        let d_max = tree.params().duration("d_max").unwrap_or(D_MAX_DEFAULT);
        let t_safe = tree.params().duration("t_safe").unwrap_or(Duration::ZERO);
        let patience = d_max.as_nanos().saturating_sub(t_safe.as_nanos());
        Service::Deadline(Duration::from_nanos(patience))
    }
}

impl Changes for Dbhpd {
    fn inherit(&mut self, _now: Instant, old: &Self, kin: &Kin) {
        self.take_over(old, kin);
    }

    fn agrees(&self, waiting: &Waiting<'_>) -> bool {
        self.knows(waiting)
    }
}

const D_MAX: Parameter = Parameter {
    name: "d_max",
    scope: Scope::Link,
    kind: Kind::Quantity(Dimension::Duration),
    default: Some("5 ms"),
    summary: "How long a packet of the first class may wait before it goes before all others.",
};
const T_SAFE: Parameter = Parameter {
    name: "t_safe",
    scope: Scope::Link,
    kind: Kind::Quantity(Dimension::Duration),
    default: Some("0 ms"),
    summary: "How much earlier than that it goes first, to allow for the packet being sent.",
};

const D_MAX_DEFAULT: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Params;
    use crate::sched::ClassSpec;
    use crate::units::{Bytes, Quantity, Rate};

    #[test]
    fn a_margin_longer_than_the_bound_is_refused_with_the_cure() {
        let millis = |millis| Quantity::Duration(Duration::from_millis(millis));
        let class = ClassSpec { name: "a".into(), parent: None, params: Params::new() };
        let params = Params::new().with("t_safe", millis(6));
        let tree = Tree::new(Rate::MIN, Bytes::new(1500), params, [class].into());
        let error = Dbhpd::build(&tree.expect("a tree")).err().expect("refused");
        assert_eq!(error.parameter, Some("t_safe"));
        assert!(error.message.contains("t_safe 6 ms is longer than d_max 5 ms"), "{error}");
    }
}
