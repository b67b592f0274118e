//! Tests of endpoints over simulated paths.

mod laws;
mod path;
mod rows;
mod theory;
