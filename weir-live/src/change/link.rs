//! The change of one link: what is made beside it, and what the loop does with it.

use weir_core::ids::LeafId;
use weir_core::link::{AnyLink, Change, LinkPlan};
use weir_core::parameter::BuildError;
use weir_core::units::Instant;

/// A change of a link that was tried and cannot fail any more.
pub(crate) struct LinkChange {
    from: LinkPlan,
    to: LinkPlan,
    heir: LeafId,
}

/// What is left of the link before, to be freed where nothing waits for that.
pub(crate) struct LinkRemains {
    _plans: (LinkPlan, LinkPlan),
}

impl LinkChange {
    /// Prepares a change between two plans; packets of leaves that are removed go to `heir`.
    pub(crate) fn prepare(
        from: &LinkPlan,
        to: &LinkPlan,
        heir: LeafId,
    ) -> Result<Self, BuildError> {
        drop(to.build()?);
        Ok(Self { from: from.clone(), to: to.clone(), heir })
    }

    /// Changes the link, whose time is `now`.
    pub(crate) fn apply(self, link: &mut Box<dyn AnyLink>, now: Instant) -> LinkRemains {
        let change = Change { from: &self.from, to: &self.to, heir: self.heir };
        change.apply(link, now).expect("the plan was built before");
        LinkRemains { _plans: (self.from, self.to) }
    }
}
