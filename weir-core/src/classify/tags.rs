//! Conditions on VLAN tags.

use core::fmt;
use core::str::FromStr;

use crate::packet::{FieldError, VlanId, VlanTag};

/// A condition on one of the two VLAN tags that are recorded of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VlanTest {
    /// The frame lacks the tag.
    Untagged,
    /// The frame has the tag, of any VLAN.
    Tagged,
    /// The tag is of this VLAN.
    Id(VlanId),
}

impl VlanTest {
    /// Returns whether a frame with this tag satisfies the condition.
    pub fn accepts(self, tag: Option<VlanTag>) -> bool {
        match self {
            VlanTest::Untagged => tag.is_none(),
            VlanTest::Tagged => tag.is_some(),
            VlanTest::Id(vlan) => tag.is_some_and(|tag| tag.id() == vlan.id()),
        }
    }

    /// Returns whether every frame that satisfies `inner` satisfies this condition.
    pub fn covers(self, inner: VlanTest) -> bool {
        self == inner || self == VlanTest::Tagged && matches!(inner, VlanTest::Id(_))
    }

    /// Returns a tag that satisfies the condition; none if it demands that there is none.
    pub fn example(self) -> Option<VlanTag> {
        match self {
            VlanTest::Untagged => None,
            VlanTest::Tagged => Some(VlanTag(0)),
            VlanTest::Id(vlan) => Some(VlanTag(vlan.id())),
        }
    }

    /// Returns the VLAN, if the condition names one.
    pub fn id(self) -> Option<VlanId> {
        match self {
            VlanTest::Id(vlan) => Some(vlan),
            _ => None,
        }
    }
}

impl FromStr for VlanTest {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<VlanTest, FieldError> {
        match text {
            "none" => Ok(VlanTest::Untagged),
            "any" => Ok(VlanTest::Tagged),
            _ => text.parse().map(VlanTest::Id).map_err(|_| {
                FieldError::new(
                    "VLAN",
                    text,
                    "is not a number in 0..=4094, `none` or `any`",
                    "write the VLAN's number such as 100, or none for frames without a tag",
                )
            }),
        }
    }
}

impl fmt::Display for VlanTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VlanTest::Untagged => f.write_str("none"),
            VlanTest::Tagged => f.write_str("any"),
            VlanTest::Id(vlan) => vlan.fmt(f),
        }
    }
}
