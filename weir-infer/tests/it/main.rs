//! Inference against the truth: simulated connections, captured at their bottleneck.

mod common;
mod families;
mod odd;
mod truth;
mod whatif;
