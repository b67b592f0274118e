//! weir-live
