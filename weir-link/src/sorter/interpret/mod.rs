//! Runs a sorter's program on a frame as the kernel would, without the kernel: for tests, which
//! then need no privileges.

mod classic;
mod xdp;

pub use classic::classic;
pub use xdp::xdp;
