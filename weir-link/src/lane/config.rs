//! The parameters of a lane.

use std::sync::Arc;

use weir_autorate::{Plan, Way};
use weir_core::account::HISTOGRAMS_MAX;
use weir_core::classify::Classifier;
use weir_core::ids::LeafId;
use weir_core::link::AnyLink;
use weir_core::parameter::BuildError;
use weir_core::units::{Duration, Instant};
use weir_policy::Policy;

use crate::sorter::SortPlan;
use crate::status::{LaneLabels, Shape};
use weir_host::error::{Result, SystemError};
use weir_host::wait::monotonic_ns;

/// The policy of one direction of a bridge.
pub struct LaneConfig {
    /// The name in reports.
    pub name: String,
    /// The indices of the ports whose frames it takes.
    pub from: Vec<usize>,
    /// The index of the port where they leave.
    pub to: usize,
    /// The names of the leaves, in their order.
    pub leaf_names: Vec<String>,
    /// Chooses the leaf of a frame.
    pub classifier: Classifier,
    /// The link that shapes the frames.
    pub link: Box<dyn AnyLink>,
    /// Which leaves have a ring of their own at the ports.
    pub sorting: Option<SortPlan>,
    /// The most frames that it holds.
    pub frames_max: u32,
    /// For each leaf, the age from which its frames are dropped instead of sent; empty if they
    /// never are.
    pub sojourn_max: Vec<Duration>,
    /// For each leaf, the longest train of frames, in bytes, that passes as one packet; 0, also
    /// beyond the end, where each frame passes by itself.
    pub train_max: Vec<u32>,
    /// Its classes, as readers of the status are told.
    pub shape: Arc<Shape>,
    /// How its rate follows the capacity of a line, if it does.
    pub autorate: Option<Varies>,
    /// Whether its frames get the code point of the first frame that their connection sent the
    /// other way.
    pub restores_dscp: bool,
}

/// A rate that follows the capacity of a line.
#[derive(Clone, Copy, Debug)]
pub struct Varies {
    /// Whether frames go to the modem, or come from it.
    pub way: Way,
    /// The index of the modem's port.
    pub modem: usize,
    /// The range of the rate, and the rule.
    pub plan: Plan,
}

impl LaneConfig {
    /// The lane of `policy` from some ports to another, with [`FRAMES_MAX_DEFAULT`] frames and no
    /// limit of age.
    ///
    /// # Errors
    /// When the link cannot be built.
    pub fn new(name: &str, ends: (Vec<usize>, usize), policy: &Policy) -> Result<Self> {
        let lane = Self::unsorted(name, ends, policy)?;
        Ok(Self { sorting: Some(SortPlan::of_policy(policy)), ..lane })
    }

    /// As [`LaneConfig::new`], but its frames come by one ring.
    ///
    /// # Errors
    /// When the link cannot be built.
    pub fn unsorted(name: &str, (from, to): (Vec<usize>, usize), policy: &Policy) -> Result<Self> {
        let refused = |error: BuildError| {
            SystemError::refused("build the policy", error.message, "see `weir check`")
        };
        let leaves = (0..policy.link.tree.leaf_count() as u32).map(LeafId);
        Ok(Self {
            name: name.to_owned(),
            from,
            to,
            leaf_names: leaves.map(|leaf| policy.leaf_name(leaf).to_owned()).collect(),
            classifier: policy.classifier(),
            link: policy.link.build().map_err(refused)?,
            sorting: None,
            frames_max: FRAMES_MAX_DEFAULT,
            sojourn_max: Vec::new(),
            train_max: Vec::new(),
            shape: Arc::new(Shape::of(policy)),
            autorate: None,
            restores_dscp: false,
        })
    }

    /// Returns what readers of the lane are told, in force from now on.
    pub(super) fn labels(&self) -> LaneLabels {
        LaneLabels {
            name: self.name.clone(),
            from: self.from.clone(),
            to: self.to,
            leaves: self.leaf_names.clone(),
            sojourn_max: self.sojourn_max.clone(),
            train_max: self.train_max.clone(),
            rings: self.sorting.as_ref().map(SortPlan::leaves_of_rings).unwrap_or_default(),
            shape: Arc::clone(&self.shape),
            since: Instant::from_nanos(monotonic_ns()),
            has_delays: self.leaf_names.len() <= HISTOGRAMS_MAX,
        }
    }
}

/// Bound: frames that a lane holds unless told otherwise; a further one is dropped.
pub const FRAMES_MAX_DEFAULT: u32 = 8192;
