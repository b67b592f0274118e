//! The smallest change by trying every value: slow and obvious.

use weir_policy::setting::{Setting, Way};
use weir_sim::replicate;
use weir_trace::remedy::Search;

/// How dense the values are that are tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grid {
    /// For CI: only sizes that would show that a proposal is more than twice too large, four tenths
    /// apart.
    Coarse,
    /// All sizes up to the limit, a twentieth apart.
    Dense,
}

/// Returns the size of the smallest change, at most `limit`, that keeps the first condition; the
/// proposed one has the size `proposed`.
pub fn least(search: &Search<'_>, grid: Grid, limit: f64, proposed: f64) -> Option<f64> {
    let (factor, limit) = match grid {
        Grid::Coarse if proposed.is_infinite() => (2.0, limit),
        Grid::Coarse => (1.4, limit.min(proposed / 2.0)),
        Grid::Dense => (1.05, limit),
    };
    let settings = search.settings();
    let work = |place: usize| {
        let found = [Way::Up, Way::Down].map(|way| of(search, (place, way), (factor, limit)));
        found.into_iter().flatten().fold(f64::INFINITY, f64::min)
    };
    let sizes = replicate::map(settings.len(), work, replicate::cores());
    Some(sizes.into_iter().fold(f64::INFINITY, f64::min)).filter(|size| size.is_finite())
}

fn of(search: &Search<'_>, (place, way): (usize, Way), (factor, limit): (f64, f64)) -> Option<f64> {
    let setting: &Setting = &search.settings()[place];
    let mut size = setting.step().unwrap_or(SMALLEST);
    while size <= limit.min(LARGEST) {
        let moved = setting.moved(way, size);
        // A value of three digits is a little nearer than asked.
        let tried = moved.and_then(|value| Some((value, search.tried(place, value)?)));
        if let Some((value, tried)) = tried
            && search.keeps(&tried, 0)
        {
            return Some(setting.size(value));
        }
        size = setting.step().map_or(size * factor, |step| size + step);
    }
    None
}

const SMALLEST: f64 = 0.005;
/// As the largest of [`weir_trace::remedy::SIZES`].
const LARGEST: f64 = 1024.0;
