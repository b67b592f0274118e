//! Fair schedulers compared with the fluid that they approximate: proven bounds on random
//! workloads, and the order of the worked example.

mod bounds;
mod changes;
mod fluid;
mod orders;
mod workload;
