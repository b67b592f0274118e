//! Runs a sorter's program on a frame as the kernel would, without the kernel: for tests, which need
//! no privileges then.

mod classic;
mod xdp;

pub use classic::classic;
pub use xdp::xdp;
