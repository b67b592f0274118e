//! Structures that schedulers and flow queues share: what is next, by turn, by time or by key.

pub(crate) mod arrivals;
#[allow(dead_code, reason = "service curves use a part of it")]
pub(crate) mod families;
pub(crate) mod heap;
pub(crate) mod id_set;
pub(crate) mod linked;
#[allow(dead_code, reason = "service curves use a part of it")]
pub(crate) mod lists;
pub(crate) mod round_robin;
pub(crate) mod rounds;
#[allow(dead_code, reason = "service curves use a part of it")]
pub(crate) mod weights;
