//! Why a checkpoint cannot be loaded.

use core::fmt;

/// Why a checkpoint cannot be loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateError {
    /// The bytes end before the checkpoint does.
    Cut,
    /// The bytes are no checkpoint of this kind: of a link, or of a classifier.
    Kind,
    /// The checkpoint has this version, which this program does not read.
    Version(u64),
    /// The checksum is not that of the bytes.
    Checksum,
    /// The checkpoint is that of an object with another plan.
    OtherPlan,
    /// A value that cannot be the state of this part.
    Invalid(&'static str),
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::Cut => f.write_str("the checkpoint is cut off; take another one"),
            StateError::Kind => {
                f.write_str("no checkpoint of this kind begins here; give a link's to a link")
            }
            StateError::Version(found) => write!(
                f,
                "the checkpoint has version {found}, and this program reads version {}; read it \
                 with the program that wrote it",
                super::seal::VERSION
            ),
            StateError::Checksum => {
                f.write_str("the checkpoint is damaged: its checksum is wrong; take another one")
            }
            StateError::OtherPlan => f.write_str(
                "the checkpoint is that of another policy: scheduler, classes, queues and seed \
                 must be the same; load it with the policy that was in force when it was taken",
            ),
            StateError::Invalid(what) => {
                write!(f, "the checkpoint is damaged: no `{what}` can be so; take another one")
            }
        }
    }
}

impl core::error::Error for StateError {}
