//! The policy of the link, as reservations see it: without the classes that they became.

use std::collections::BTreeSet;

use weir_control::protocol::Texts;
use weir_control::texts;
use weir_policy::Policy;
use weir_policy::deployment::Rsvp;
use weir_policy::render;
use weir_rsvp::admission::PREFIX;

/// The parts of a link's texts that reservations need.
pub struct Read {
    /// The section of the deployment.
    pub settings: Rsvp,
    /// The direction whose policy has the class.
    pub direction: String,
    /// The policy, without reservations.
    pub policy: Policy,
    /// The names of classes of reservations that the link has.
    pub present: BTreeSet<String>,
}

/// Reads the texts of a link.
///
/// # Errors
/// When they are wrong, or the deployment takes no reservations.
pub fn read(texts: &Texts) -> Result<Read, String> {
    let mut bare = texts.clone();
    let mut present = BTreeSet::new();
    for tables in bare.added.values_mut() {
        tables.retain(|name, _| {
            let is_own = name.starts_with(PREFIX);
            if is_own {
                present.insert(name.clone());
            }
            !is_own
        });
    }
    let outcome = texts::read_again(&bare);
    let Some(mut deployment) = outcome.plan else {
        return Err(render::summary(&outcome.findings));
    };
    let settings = deployment.rsvp.ok_or("the deployment has no [deployment.rsvp]")?;
    let way = deployment.directions.swap_remove(settings.direction);
    Ok(Read { settings, direction: way.name, policy: way.policy, present })
}
