//! Three private networks in a row, which `weir-live` makes.

pub use weir_live::testbed::{END, Host, LEFT, RIGHT, Testbed, TestbedConfig, wait_for_carrier};
