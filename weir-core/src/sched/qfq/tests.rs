//! Beside a plain twin.
