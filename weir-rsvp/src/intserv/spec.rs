//! Tspecs, Rspecs and flowspecs: order, least upper and greatest lower bound, sum.
//!
//! One is at least another if every flow and promise that the other covers is covered, too
//! [rfc2211 §8, rfc2212]. The order is partial; bounds exist for any two of one service.

use crate::wire::Cause;

/// A token bucket: what a flow sends at most [rfc2210 §3.1, rfc2215 §3.6].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tspec {
    /// Token rate `r` in bytes a second.
    pub rate: f32,
    /// Bucket size `b` in bytes.
    pub bucket: f32,
    /// Peak rate `p` in bytes a second; positive infinity if unknown.
    pub peak: f32,
    /// Minimum policed unit `m`: smaller packets count as this many bytes.
    pub packet_min: u32,
    /// Largest packet `M` in bytes.
    pub packet_max: u32,
}

/// The rate and slack that a receiver requests of guaranteed service `[rfc2212]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rspec {
    /// The service rate `R` in bytes a second.
    pub rate: f32,
    /// The slack `S` in microseconds: how much later than by `R` the receiver allows.
    pub slack: u32,
}

/// A service that is asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Flowspec {
    /// As on a lightly loaded network `[rfc2211]`.
    ControlledLoad(Tspec),
    /// A bound on delay and no loss `[rfc2212]`.
    Guaranteed(Tspec, Rspec),
}

/// The service of a flowspec.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Service {
    /// Controlled load `[rfc2211]`.
    ControlledLoad,
    /// Guaranteed service `[rfc2212]`.
    Guaranteed,
}

impl Tspec {
    /// Returns why this can describe no flow, if so.
    pub fn fault(&self) -> Option<&'static str> {
        match () {
            () if !self.rate.is_finite() || self.rate <= 0.0 => Some("rate"),
            () if !self.bucket.is_finite() || self.bucket <= 0.0 => Some("bucket"),
            () if self.peak < self.rate => Some("peak rate below the rate"),
            () if self.packet_min > self.packet_max => Some("smallest packet above the largest"),
            () if (self.packet_max as f32) > self.bucket => Some("largest packet above the bucket"),
            () => None,
        }
    }

    /// [rfc2211 §8] Covers every flow that `other` covers.
    pub fn at_least(&self, other: &Tspec) -> bool {
        self.rate >= other.rate
            && self.bucket >= other.bucket
            && self.peak >= other.peak
            && self.packet_min <= other.packet_min
            && self.packet_max >= other.packet_max
    }

    /// [rfc2211 §8] The merged Tspec: the least that covers both flows.
    pub fn upper(&self, other: &Tspec) -> Tspec {
        Tspec {
            rate: self.rate.max(other.rate),
            bucket: self.bucket.max(other.bucket),
            peak: self.peak.max(other.peak),
            packet_min: self.packet_min.min(other.packet_min),
            packet_max: self.packet_max.max(other.packet_max),
        }
    }

    /// The greatest that both cover.
    ///
    /// [rfc2211 §8] calls it the smallest common Tspec for traffic that both allow.
    pub fn lower(&self, other: &Tspec) -> Tspec {
        Tspec {
            rate: self.rate.min(other.rate),
            bucket: self.bucket.min(other.bucket),
            peak: self.peak.min(other.peak),
            packet_min: self.packet_min.max(other.packet_min),
            packet_max: self.packet_max.min(other.packet_max),
        }
    }

    /// [rfc2211 §8] Covers both flows at once.
    pub fn sum(&self, other: &Tspec) -> Tspec {
        Tspec {
            rate: self.rate + other.rate,
            bucket: self.bucket + other.bucket,
            peak: self.peak + other.peak,
            packet_min: self.packet_min.min(other.packet_min),
            packet_max: self.packet_max.max(other.packet_max),
        }
    }
}

impl std::fmt::Display for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Service::ControlledLoad => "controlled-load",
            Service::Guaranteed => "guaranteed",
        })
    }
}

impl Rspec {
    /// [rfc2212 Ordering and Merging] Promises at least as much: no smaller rate and no more slack.
    pub fn at_least(&self, other: &Rspec) -> bool {
        self.rate >= other.rate && self.slack <= other.slack
    }

    /// [rfc2212 Ordering and Merging] The larger rate and the smaller slack.
    pub fn upper(&self, other: &Rspec) -> Rspec {
        Rspec { rate: self.rate.max(other.rate), slack: self.slack.min(other.slack) }
    }

    /// The smaller rate and the larger slack.
    pub fn lower(&self, other: &Rspec) -> Rspec {
        Rspec { rate: self.rate.min(other.rate), slack: self.slack.max(other.slack) }
    }
}

impl Flowspec {
    /// The traffic that the service is asked for.
    pub const fn tspec(&self) -> &Tspec {
        match self {
            Flowspec::ControlledLoad(tspec) | Flowspec::Guaranteed(tspec, _) => tspec,
        }
    }

    /// The rate in bytes a second: the service rate R, or the token rate.
    pub const fn rate(&self) -> f32 {
        match self {
            Flowspec::ControlledLoad(tspec) => tspec.rate,
            Flowspec::Guaranteed(_, rspec) => rspec.rate,
        }
    }

    /// Returns the service that the flowspec requests.
    pub const fn service(&self) -> Service {
        match self {
            Flowspec::ControlledLoad(_) => Service::ControlledLoad,
            Flowspec::Guaranteed(..) => Service::Guaranteed,
        }
    }

    /// Returns the same service for other traffic.
    #[must_use]
    pub const fn with_tspec(self, tspec: Tspec) -> Flowspec {
        match self {
            Flowspec::ControlledLoad(_) => Flowspec::ControlledLoad(tspec),
            Flowspec::Guaranteed(_, rspec) => Flowspec::Guaranteed(tspec, rspec),
        }
    }

    /// Returns the error with which traffic control refuses a flowspec that makes no sense.
    pub fn fault(&self) -> Option<Cause> {
        if self.tspec().fault().is_some() {
            return Some(Cause::BAD_FLOWSPEC);
        }
        match self {
            // [rfc2212] The service rate is at least the token rate.
            Flowspec::Guaranteed(tspec, rspec) => {
                let sound = rspec.rate.is_finite() && rspec.rate >= tspec.rate;
                (!sound).then_some(Cause::BAD_FLOWSPEC)
            }
            Flowspec::ControlledLoad(_) => None,
        }
    }

    /// Returns whether this asks for at least as much as `other`; flowspecs of two services do not
    /// compare.
    pub fn at_least(&self, other: &Flowspec) -> bool {
        match (self, other) {
            (Flowspec::ControlledLoad(one), Flowspec::ControlledLoad(other)) => one.at_least(other),
            (Flowspec::Guaranteed(one, rate), Flowspec::Guaranteed(other, least)) => {
                one.at_least(other) && rate.at_least(least)
            }
            _ => false,
        }
    }

    /// The least upper bound (LUB) [rfc2205 §2.2]; none for two services [rfc2210 §2.2].
    pub fn upper(&self, other: &Flowspec) -> Option<Flowspec> {
        self.joined(other, Tspec::upper, Rspec::upper)
    }

    /// The greatest lower bound (GLB); none for two services.
    pub fn lower(&self, other: &Flowspec) -> Option<Flowspec> {
        self.joined(other, Tspec::lower, Rspec::lower)
    }

    fn joined(
        &self,
        other: &Flowspec,
        tspecs: fn(&Tspec, &Tspec) -> Tspec,
        rspecs: fn(&Rspec, &Rspec) -> Rspec,
    ) -> Option<Flowspec> {
        match (self, other) {
            (Flowspec::ControlledLoad(one), Flowspec::ControlledLoad(other)) => {
                Some(Flowspec::ControlledLoad(tspecs(one, other)))
            }
            (Flowspec::Guaranteed(one, rate), Flowspec::Guaranteed(other, other_rate)) => {
                Some(Flowspec::Guaranteed(tspecs(one, other), rspecs(rate, other_rate)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tspec(rate: f32, bucket: f32, packets: (u32, u32)) -> Tspec {
        let (packet_min, packet_max) = packets;
        Tspec { rate, bucket, peak: 2.0 * rate, packet_min, packet_max }
    }

    #[test]
    fn the_least_upper_bound_covers_both_and_nothing_less_does() {
        let one = tspec(1000.0, 3000.0, (64, 1500));
        let other = tspec(2000.0, 2500.0, (40, 1000));
        let upper = one.upper(&other);
        assert_eq!(upper, Tspec { peak: 4000.0, ..tspec(2000.0, 3000.0, (40, 1500)) });
        assert!(upper.at_least(&one) && upper.at_least(&other));
        assert!(!one.at_least(&other) && !other.at_least(&one), "the order is partial");
        let lower = one.lower(&other);
        assert!(one.at_least(&lower) && other.at_least(&lower));
        assert_eq!(one.sum(&other).rate, 3000.0);
        assert_eq!(one.sum(&other).packet_min, 40);
    }

    #[test]
    fn more_slack_is_less_promised() {
        let rspec = |rate, slack| Rspec { rate, slack };
        assert!(rspec(100.0, 5).at_least(&rspec(100.0, 9)));
        assert!(!rspec(100.0, 9).at_least(&rspec(100.0, 5)));
        assert_eq!(rspec(100.0, 9).upper(&rspec(50.0, 5)), rspec(100.0, 5));
        assert_eq!(rspec(100.0, 5).lower(&rspec(50.0, 9)), rspec(50.0, 9));
    }

    #[test]
    fn services_do_not_merge() {
        let tspec = tspec(1000.0, 3000.0, (64, 1500));
        let load = Flowspec::ControlledLoad(tspec);
        let guaranteed = Flowspec::Guaranteed(tspec, Rspec { rate: 1000.0, slack: 0 });
        assert_eq!(load.upper(&guaranteed), None);
        assert!(!load.at_least(&guaranteed) && !guaranteed.at_least(&load));
        assert_eq!(guaranteed.upper(&guaranteed), Some(guaranteed));
    }

    #[test]
    fn what_describes_no_flow_is_named() {
        let sound = tspec(1000.0, 3000.0, (64, 1500));
        let rows = [
            (sound, None),
            (Tspec { rate: 0.0, ..sound }, Some("rate")),
            (Tspec { rate: f32::INFINITY, ..sound }, Some("rate")),
            (Tspec { bucket: 0.0, ..sound }, Some("bucket")),
            (Tspec { peak: 999.0, ..sound }, Some("peak rate below the rate")),
            (Tspec { packet_min: 1501, ..sound }, Some("smallest packet above the largest")),
            (Tspec { bucket: 1499.0, ..sound }, Some("largest packet above the bucket")),
            (Tspec { peak: f32::INFINITY, ..sound }, None),
        ];
        for (tspec, fault) in rows {
            assert_eq!(tspec.fault(), fault, "{tspec:?}");
        }
        let slow = Flowspec::Guaranteed(sound, Rspec { rate: 999.0, slack: 0 });
        assert_eq!(slow.fault(), Some(Cause::BAD_FLOWSPEC), "the rate R is at least r");
    }
}
