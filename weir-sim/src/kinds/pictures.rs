//! The pictures of a film: how long each is.
//!
//! Of each group of pictures the first is coded by itself (I) and several times as long as the
//! others (P), which hold only changes. Sizes of one kind have a lognormal or a gamma distribution
//! around their mean, as those of MPEG films do `[rose95]`. Invariant: the mean rate of the
//! pictures is the one that is written.

use crate::random::Random;
use crate::read::source::fraction;
use weir_core::units::Rate;
use weir_policy::finding::Report;
use weir_policy::reader::{Node, Table};

/// The pictures of a film.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pictures {
    /// The number of pictures a second.
    pub per_second: u64,
    /// The mean bytes of an I picture and of a P picture.
    pub means: (f64, f64),
    /// Pictures from one I picture to the next.
    pub group: u64,
    /// How sizes vary around their mean.
    pub sway: Sway,
}

/// How the sizes of pictures of one kind vary; each holds the coefficient of variation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sway {
    /// Each picture has the mean length.
    Constant,
    /// As a lognormal distribution.
    Lognormal(f64),
    /// As a gamma distribution.
    Gamma(f64),
}

impl Sway {
    /// A factor with mean 1.
    fn draw(self, random: &mut Random) -> f64 {
        match self {
            Sway::Constant => 1.0,
            Sway::Lognormal(variation) => random.lognormal(variation),
            Sway::Gamma(variation) => random.gamma(variation),
        }
    }
}

impl Pictures {
    /// Returns the bytes of the picture of this number.
    pub(super) fn bytes(&self, number: u64, random: &mut Random) -> u64 {
        let mean = if number.is_multiple_of(self.group) { self.means.0 } else { self.means.1 };
        let size = (mean * self.sway.draw(random)).clamp(1.0, PICTURE_MAX);
        (size + 0.5) as u64
    }
}

/// `pictures`, `group`, `i_ratio`, `bitrate`, `distribution`, `variation`.
pub(super) fn read(table: &mut Table<'_>, report: &mut Report) -> Option<Pictures> {
    let pictures = table.value::<u64>("pictures", report);
    let group = table.value::<u64>("group", report);
    let ratio = |node: &Node<'_>, report: &mut Report| fraction(node, (1.0, 1000.0), report);
    let ratio = table.value_by("i_ratio", report, ratio);
    let bitrate = table.value::<Rate>("bitrate", report);
    let sway = sway(table, report);
    let (per_second, group, ratio) = (pictures?, group?, ratio?);
    let mean = bitrate?.bits_per_second() as f64 / 8.0 / per_second as f64;
    let p_mean = mean * group as f64 / (ratio + group as f64 - 1.0);
    Some(Pictures { per_second, means: (p_mean * ratio, p_mean), group, sway: sway? })
}

/// Reads `distribution` and `variation`.
fn sway(table: &mut Table<'_>, report: &mut Report) -> Option<Sway> {
    let word = table.word("distribution", report);
    let variation = |node: &Node<'_>, report: &mut Report| fraction(node, (0.0, 5.0), report);
    let variation = table.value_by("variation", report, variation);
    let (word, variation) = (word?, variation?);
    Some(match word {
        _ if variation == 0.0 => Sway::Constant,
        "lognormal" => Sway::Lognormal(variation),
        "gamma" => Sway::Gamma(variation),
        _ => Sway::Constant,
    })
}

/// The longest picture, since a lognormal distribution is unbounded.
const PICTURE_MAX: f64 = (64 << 20) as f64;
