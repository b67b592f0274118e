//! Why a test cannot go on, in words. Every error that a test meets becomes one by `?`.

use std::fmt;
use std::io;

use weir_host::error::SystemError;

/// See the module. It becomes a failed row (`libtest_mimic::Failed`) and a `String` by `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(String);

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Failure>;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self(why)
    }
}

impl From<&str> for Failure {
    fn from(why: &str) -> Self {
        Self(why.to_owned())
    }
}

impl From<SystemError> for Failure {
    fn from(error: SystemError) -> Self {
        Self(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<Failure> for String {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}
