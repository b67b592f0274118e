//! The part of the command line that the programs `weir` and `weir-lab` share: the format of
//! results and exit codes, files that users name, pictures, and the options of `weir lab`.
#![forbid(unsafe_code)]

pub mod input;
pub mod lab;
pub mod output;
pub mod picture;
pub mod program;
#[cfg_attr(not(feature = "parquet"), path = "no_rows.rs")]
pub mod rows;
pub mod time;
pub mod usage;
pub mod whole_file;

/// The version of both programs, with the commit where the sources are a git repository.
pub const VERSION: &str = env!("WEIR_VERSION");
