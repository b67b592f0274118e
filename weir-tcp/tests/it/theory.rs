//! Throughput under random loss beside the formulas of theory.
