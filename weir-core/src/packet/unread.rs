//! Why the IP header of a frame cannot be read, and how many frames were so.
//!
//! ARP, spanning tree, PPPoE discovery and other control frames have no IP header: they are not
//! counted here.

use super::Headers;

/// Makes [`Unread`] and its tables from one row a cause.
macro_rules! causes {
    ($($(#[$doc:meta])* $cause:ident $name:literal $what:literal,)*) => {
        /// Why the IP header of a frame cannot be read, although the frame may carry one.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Unread {
            $($(#[$doc])* $cause,)*
        }

        impl Unread {
            /// All causes, in the order of their numbers.
            pub const ALL: [Unread; [$($name),*].len()] = [$(Unread::$cause),*];

            /// The cause as reports in JSON name it.
            pub fn name(self) -> &'static str {
                match self { $(Unread::$cause => $name,)* }
            }

            /// The predicate of a sentence about such frames.
            pub fn what(self) -> &'static str {
                match self { $(Unread::$cause => $what,)* }
            }
        }
    };
}

causes! {
    /// The capture has a link type that Weir does not read.
    LinkType "link-type" "have a link header that Weir does not read",
    /// The bytes end before the IP header does, or make no sense.
    Damaged "damaged" "have headers that are damaged or cut short",
    /// More than [`VLAN_TAGS_MAX`](super::VLAN_TAGS_MAX) VLAN tags.
    VlanTags "vlan-tags" "have more than 8 VLAN tags",
    /// MACsec (IEEE 802.1AE).
    MacSec "macsec" "are protected by MACsec",
    /// Another header around the frame that Weir does not read.
    Encapsulation "encapsulation"
        "are in an encapsulation that Weir does not read (PBB, TRILL, NSH, batman-adv, PPP bridge)",
    /// PPP frames that are compressed, encrypted or parts of a multilink bundle.
    Ppp "ppp" "are PPP frames that are compressed, encrypted or split",
    /// More than [`MPLS_LABELS_MAX`](super::MPLS_LABELS_MAX) MPLS labels.
    MplsLabels "mpls-labels" "have more than 16 MPLS labels",
    /// MPLS labels in front of anything but IP.
    MplsPayload "mpls-payload" "have no IP packet behind their MPLS labels (a pseudowire)",
    /// A frame of a wireless network that is encrypted.
    WirelessEncrypted "wireless-encrypted" "are encrypted 802.11 frames",
    /// A fragment of a wireless frame other than the first.
    WirelessFragment "wireless-fragment" "are later fragments of 802.11 frames",
}

/// How many frames could not be read, for each cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UnreadCounts([u64; Unread::ALL.len()]);

impl UnreadCounts {
    /// Counts the frame of these headers, if its IP header could not be read.
    #[inline]
    pub fn add(&mut self, headers: &Headers) {
        if let Some(cause) = headers.unread {
            self.0[cause as usize] += 1;
        }
    }

    /// The number of all such frames.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The causes of at least one frame, each with its number of frames.
    pub fn each(&self) -> impl Iterator<Item = (Unread, u64)> {
        Unread::ALL.into_iter().zip(self.0).filter(|(_, frames)| *frames > 0)
    }
}
