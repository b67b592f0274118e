//! The kinds of file, told by their top-level keys.

use weir_policy::deployment::is_deployment;
use weir_sim::read::is_scenario;

/// The kinds of file that the server knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The classes of a link.
    Policy,
    /// Interfaces and the policies between them.
    Deployment,
    /// Sources, and the links that they share.
    Scenario,
    /// A scenario, and what varies.
    Sweep,
}

impl Kind {
    /// Returns the kind of a file with these top-level keys.
    pub fn of_keys(keys: &[String]) -> Option<Self> {
        let has = |name: &str| keys.iter().any(|key| key == name);
        match () {
            () if is_deployment(keys) => Some(Self::Deployment),
            () if has("link") && has("class") => Some(Self::Policy),
            () if has("scenario") && SWEEP.iter().any(|key| has(key)) => Some(Self::Sweep),
            () if is_scenario(keys) => Some(Self::Scenario),
            () if has("link") || has("class") || has("promise") => Some(Self::Policy),
            () => None,
        }
    }
}

/// Keys that a sweep has beside its scenario.
const SWEEP: [&str; 5] = ["metrics", "replications", "grid", "random", "latin"];
