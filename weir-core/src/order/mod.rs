//! Structures that schedulers and flow queues share: who is next, by turn, by time or by key.

pub(crate) mod arrival_order;
pub(crate) mod deadlines;
pub(crate) mod families;
pub(crate) mod heap;
pub(crate) mod id_set;
pub(crate) mod in_step;
pub(crate) mod leaf_lists;
pub(crate) mod leaf_ring;
pub(crate) mod rounds;
pub(crate) mod tournament;
pub(crate) mod weights;
pub(crate) mod wheel;
