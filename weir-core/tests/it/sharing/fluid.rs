//! The fluid ideal: the link divided among classes as if bits could be divided without end.
//!
//! A class gets its parent's rate in proportion to its own rate among the siblings that want more;
//! what a sibling cannot use is divided among the others. Exact water-filling, no packets, no time.

use super::{Class, is_leaf};

/// Returns what each class gets in bit/s of a link of `link` bit/s while exactly the leaves with
/// packets are backlogged. Priorities are ignored.
pub fn shares(link: u64, classes: &[Class]) -> Vec<f64> {
    let mut shares = vec![0.0; classes.len()];
    divide(classes, None, link as f64, &mut shares);
    shares
}

/// Returns the most that a class can use.
fn demand(classes: &[Class], index: usize) -> f64 {
    let class = &classes[index];
    let wants = if is_leaf(classes, index) {
        if class.packet == 0 { 0.0 } else { f64::INFINITY }
    } else {
        children(classes, Some(index)).map(|child| demand(classes, child)).sum()
    };
    if class.borrow { wants } else { wants.min(class.rate as f64) }
}

fn children(classes: &[Class], parent: Option<usize>) -> impl Iterator<Item = usize> {
    (0..classes.len()).filter(move |&index| classes[index].parent == parent)
}

/// Divides `whole` among the children of `parent`.
fn divide(classes: &[Class], parent: Option<usize>, whole: f64, shares: &mut [f64]) {
    let mut open: Vec<usize> = children(classes, parent).collect();
    let mut left = whole;
    loop {
        let weight: f64 = open.iter().map(|&child| classes[child].rate as f64).sum();
        let part = |child: usize| left * classes[child].rate as f64 / weight;
        let (full, hungry): (Vec<_>, Vec<_>) =
            open.iter().partition(|&&child| demand(classes, child) <= part(child));
        if full.is_empty() {
            hungry.iter().for_each(|&child| shares[child] = part(child));
            break;
        }
        for &child in &full {
            shares[child] = demand(classes, child);
        }
        left -= full.iter().map(|&child| shares[child]).sum::<f64>();
        open = hungry;
    }
    for child in children(classes, parent).collect::<Vec<_>>() {
        divide(classes, Some(child), shares[child], shares);
    }
}
