//! weir-control
