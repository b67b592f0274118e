//! The tests of sweeps, one program.

mod sweep;
