//! The place of `rows.rs` in a build without Parquet.

use std::path::{Path, PathBuf};
use weir_sim::{Fate, Scenario};

/// Refuses the name of such a file.
///
/// # Errors
/// Always, with the cure.
pub fn writable(_: PathBuf) -> Result<PathBuf, &'static str> {
    Err(WITHOUT_PARQUET)
}

/// No such file exists.
pub enum Rows {}

impl Rows {
    /// Creates no file.
    ///
    /// # Errors
    /// Always.
    pub fn create(_: &Path, _: &Scenario) -> Result<Self, String> {
        Err(WITHOUT_PARQUET.to_owned())
    }

    /// Cannot be called: there is no value of the type.
    pub fn add(&mut self, _: &Fate<'_>) {
        match *self {}
    }

    /// Is never called.
    ///
    /// # Errors
    /// None.
    pub fn finish(self) -> Result<(), String> {
        match self {}
    }
}

/// The reason, and the cure.
const WITHOUT_PARQUET: &str = "this build writes no Parquet; `--trace` writes the packets as a \
                               capture, or install Weir with Parquet: `cargo install --locked \
                               --path weir --features full`";
