//! The quality of a call by the E-model of ITU-T G.107, simplified.
//!
//! `R = 93.2 - Id - Ie,eff` for the G.711 codec: the default values of the model but for delay and
//! loss. The impairment by delay is the fit of Cole and Rosenbluth (*Voice over IP performance
//! monitoring*, ACM Computer Communication Review 31(2), 2001) to G.107; that by loss is G.107's,
//! with the values of G.113 for G.711 that conceals losses, and losses at random. A receiver plays
//! each packet [`PLAYOUT`] after the earliest that it could have come; later ones are lost. The
//! delay of the path outside the link is not known and not in R, so compare values of R rather than
//! take one for the rating of a call from end to end.

use weir_core::units::Duration;

/// The path of a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Path {
    /// The shortest delay in the link.
    pub delay: Duration,
    /// The part of the packets that were lost, or came too late to be played.
    pub lost: f64,
}

/// How long a receiver waits for late packets; games have about as much patience.
pub(super) const PLAYOUT: Duration = Duration::from_millis(60);
/// A packet holds so much sound.
const PACKET: Duration = Duration::from_millis(20);
/// R of a call without delay and loss.
const BEST: f64 = 93.2;
/// Above this the delay disturbs the talk.
const DISTURBING_MS: f64 = 177.3;
/// The robustness of G.711 with concealment against random loss, in per cent.
const ROBUSTNESS: f64 = 25.1;

/// Returns R, 0 to 93.2: from 80 on users are satisfied, below 60 nearly all are not.
pub(super) fn rating(path: Path) -> f64 {
    let whole = path.delay.plus(PLAYOUT).plus(PACKET);
    let millis = whole.as_nanos() as f64 / 1e6;
    let by_delay = 0.024 * millis + 0.11 * (millis - DISTURBING_MS).max(0.0);
    let per_cent = path.lost * 100.0;
    let by_loss = 95.0 * per_cent / (per_cent + ROBUSTNESS);
    (BEST - by_delay - by_loss).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_and_loss_lower_the_rating() {
        let rate = |ms, lost| rating(Path { delay: Duration::from_millis(ms), lost });
        let near =
            |found: f64, wanted: f64| assert!((found - wanted).abs() < 0.05, "{found}, {wanted}");
        near(rate(0, 0.0), 91.28);
        near(rate(100, 0.0), 93.2 - 0.024 * 180.0 - 0.11 * 2.7);
        near(rate(0, 0.05), 91.28 - 95.0 * 5.0 / 30.1);
        near(rate(2000, 1.0), 0.0);
    }
}
