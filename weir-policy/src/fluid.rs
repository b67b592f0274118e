//! The rates of a tree's classes in the fluid ideal, where the link is shared at every instant as
//! if packets could be divided without end.
//!
//! A parent's share is divided among its children in proportion to their rates; what a child cannot
//! use is divided among its siblings, so an excess stays among siblings as long as one of them
//! wants more [floyd95 §2]. Priorities decide the order of service, not the amounts, so they are
//! ignored here. Invariant: no class gets more than it wants or may have, and nothing is left while
//! a class that may have more wants it.

use weir_core::ids::ClassId;
use weir_core::sched::{ClassSpec, Tree};

/// The demand of a leaf.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Demand {
    /// This much, in bit/s.
    Rate(f64),
    /// More than it gets, whatever that is: the leaf is always backlogged.
    Greedy,
}

/// Returns what each class gets, in bit/s and in the order of declaration, while each leaf (in the
/// order of leaves) wants what `demand` says.
///
/// Of a class it reads `rate` (its weight, and its limit without `borrow`), `borrow` and `ceil`; of
/// a class with service curves their last slopes: that of link sharing is its weight, the upper
/// limit its limit, and a leaf with only a real-time curve gets no more than that. Classes without
/// any of these have equal weights.
///
/// # Panics
/// If there is not one demand for each leaf.
pub fn shares(tree: &Tree, demand: &[Demand]) -> Vec<f64> {
    let link = tree.rate().bits_per_second() as f64;
    let parts = parts(tree, link, demand, &vec![0.0; demand.len()]);
    parts.into_iter().map(|part| part.share).collect()
}

/// The rate of a class, and how it is derived; in bit/s.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Part {
    /// The rate that it gets.
    pub(crate) share: f64,
    /// The least rate that it gets, whatever the others do.
    pub(crate) floor: f64,
    /// The rate that it can use.
    pub(crate) wants: f64,
    /// The rate that its weight alone would give it among its siblings; infinite if all of them
    /// have what they can use.
    pub(crate) even: f64,
}

/// Returns what each class gets of a line of `link` bit/s, where each leaf has at least its floor
/// of `floors`, in bit/s, as far as it wants that: whatever limits its ancestors have, and at the
/// cost of all others.
///
/// # Panics
/// If there is not one demand and one floor for each leaf.
pub(crate) fn parts(tree: &Tree, link: f64, demand: &[Demand], floors: &[f64]) -> Vec<Part> {
    let count = tree.leaf_count();
    assert!(demand.len() == count && floors.len() == count, "each leaf has a demand and a floor");
    let children = children(tree);
    let mut parts = room(tree, (demand, floors), &children);
    // From the top down, as the stack hands each parent's share on; it terminates, since a tree has
    // no loop.
    let mut open = vec![(children.len() - 1, link)];
    while let Some((parent, whole)) = open.pop() {
        divide(tree, &children[parent], whole, &mut parts);
        let interior = children[parent].iter().filter(|&&child| !children[child].is_empty());
        open.extend(interior.map(|&child| (child, parts[child].share)));
    }
    parts
}

/// Returns the children of each class; those of the link come last.
fn children(tree: &Tree) -> Vec<Vec<usize>> {
    let link = tree.classes().len();
    let mut children = vec![Vec::new(); link + 1];
    for (id, class) in tree.classes() {
        children[class.parent.map_or(link, ClassId::index)].push(id.index());
    }
    children
}

/// Returns what each class wants with all below it, within the limits on the way, and the floors.
fn room(tree: &Tree, (demand, floors): (&[Demand], &[f64]), children: &[Vec<usize>]) -> Vec<Part> {
    let mut room = vec![Part::default(); tree.classes().len()];
    for (leaf, _) in tree.leaves() {
        let wants = match demand[leaf.index()] {
            Demand::Rate(rate) => rate,
            Demand::Greedy => f64::INFINITY,
        };
        let floor = floors[leaf.index()].min(wants);
        room[tree.class_of(leaf).index()] = Part { floor, wants, ..Part::default() };
    }
    for class in upwards(tree) {
        if !children[class].is_empty() {
            let sum = |of: fn(&Part) -> f64| children[class].iter().map(|&at| of(&room[at])).sum();
            let (floor, wants) = (sum(|at| at.floor), sum(|at| at.wants));
            room[class] = Part { floor, wants, ..Part::default() };
        }
        let Part { floor, wants, .. } = room[class];
        room[class].wants = wants.min(limit(tree.class(ClassId(class as u32)))).max(floor);
    }
    room
}

/// Returns the classes, each before its parent.
fn upwards(tree: &Tree) -> Vec<usize> {
    let depth = |class: usize| tree.path(ClassId(class as u32)).count();
    let mut classes: Vec<usize> = (0..tree.classes().len()).collect();
    classes.sort_by_key(|&class| std::cmp::Reverse(depth(class)));
    classes
}

/// Returns the most that a class may have by its own parameters, in bit/s; infinite without one.
pub fn limit(class: &ClassSpec) -> f64 {
    let own = rate(class, "rate").filter(|_| class.params.flag("borrow") == Some(false));
    let shares = ["rate", "ls_m2"].iter().any(|name| rate(class, name).is_some());
    let guarantee = rate(class, "rt_m2").filter(|_| !shares);
    let limits = [rate(class, "ceil"), rate(class, "ul_m2"), own, guarantee];
    limits.into_iter().flatten().fold(f64::INFINITY, f64::min)
}

fn weight(class: &ClassSpec) -> f64 {
    let slopes = ["ls_m2", "rate", "rt_m2"];
    slopes.iter().find_map(|name| rate(class, name)).unwrap_or(1.0)
}

/// Returns a rate parameter of a class, in bit/s.
pub(crate) fn rate(class: &ClassSpec, name: &str) -> Option<f64> {
    class.params.rate(name).map(|rate| rate.bits_per_second() as f64)
}

/// Divides `whole` among siblings: in proportion to their weights, but no class gets less than its
/// floor or more than it wants.
fn divide(tree: &Tree, siblings: &[usize], whole: f64, parts: &mut [Part]) {
    let weight = |class: usize| weight(tree.class(ClassId(class as u32)));
    // As the part of a unit of weight rises, each class grows with it from its floor until it has
    // what it wants.
    let bends = |&class: &usize| {
        let (Part { floor, wants, .. }, weight) = (parts[class], weight(class));
        [(floor / weight, weight), (wants / weight, -weight)]
    };
    let mut bends: Vec<(f64, f64)> = siblings.iter().flat_map(bends).collect();
    bends.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut given: f64 = siblings.iter().map(|&class| parts[class].floor).sum();
    let (mut unit, mut slope, mut all) = (0.0, 0.0, true);
    for (bend, change) in bends {
        let then = given + slope * (bend - unit);
        if then >= whole || bend == f64::INFINITY {
            unit += if slope > 0.0 { (whole - given).max(0.0) / slope } else { 0.0 };
            all = false;
            break;
        }
        (given, unit, slope) = (then, bend, slope + change);
    }
    for &class in siblings {
        let Part { floor, wants, .. } = parts[class];
        let even = if all { f64::INFINITY } else { unit * weight(class) };
        parts[class] = Part { share: even.max(floor).min(wants), floor, wants, even };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::parameter::{Params, Value};
    use weir_core::units::{Bytes, Quantity, Rate};

    const NO: Demand = Demand::Rate(0.0);
    const ALL: Demand = Demand::Greedy;

    fn mbit(rate: f64) -> Demand {
        Demand::Rate(rate * 1e6)
    }

    /// `name parent rate [fixed] [ceil] [ls_m2] [ul_m2] [rt_m2]`, in Mbit/s; `-` is the link as
    /// parent, or no rate.
    fn tree(link: u64, rows: &[&str]) -> Tree {
        let names: Vec<&str> = rows.iter().map(|row| word(row, 0)).collect();
        let class = |row: &&str| {
            let parent = names.iter().position(|&name| name == word(row, 1));
            let mut params = Params::new();
            let columns = [("rate", 2), ("ceil", 4), ("ls_m2", 5), ("ul_m2", 6), ("rt_m2", 7)];
            for (name, column) in columns {
                if let Ok(value) = word(row, column).parse::<u64>() {
                    let rate = Rate::new(value * 1_000_000).expect("rows hold no zero");
                    params.set(name, Value::Quantity(Quantity::Rate(rate)));
                }
            }
            params.set("borrow", Value::Flag(word(row, 3) != "fixed"));
            let parent = parent.map(|index| ClassId(index as u32));
            ClassSpec { name: word(row, 0).to_owned(), parent, params }
        };
        let rate = Rate::new(link * 1_000_000).expect("rows hold no zero");
        let classes = rows.iter().map(class).collect();
        Tree::new(rate, Bytes::new(1514), Params::new(), classes).expect("rows are trees")
    }

    fn word<'a>(row: &&'a str, column: usize) -> &'a str {
        row.split_whitespace().nth(column).unwrap_or("-")
    }

    /// `expected` in Mbit/s, of every class in order.
    fn check(link: u64, rows: &[&str], demand: &[Demand], expected: &[f64]) {
        let shares = shares(&tree(link, rows), demand);
        assert_eq!(shares.len(), expected.len());
        for (share, expected) in shares.iter().zip(expected) {
            let close = (share / 1e6 - expected).abs() < 1e-9 * link as f64;
            assert!(close, "{rows:?} {demand:?}: {shares:?}, expected {expected}");
        }
    }

    #[test]
    fn backlogged_siblings_share_in_proportion_to_their_rates() {
        check(20, &["a - 5", "b - 15"], &[ALL, ALL], &[5.0, 15.0]);
        check(20, &["a - 1", "b - 3"], &[ALL, ALL], &[5.0, 15.0]);
        check(20, &["a -", "b -", "c -"], &[ALL, ALL, mbit(2.0)], &[9.0, 9.0, 2.0]);
    }

    #[test]
    fn siblings_divide_what_one_leaves() {
        let rows = ["voice - 1", "video - 6", "web - 5", "bulk - 8"];
        let demand = [mbit(0.1), mbit(60.0), mbit(1.7), ALL];
        check(20, &rows, &demand, &[0.1, 7.8, 1.7, 10.4]);
        check(20, &rows, &[NO, NO, mbit(6.0), mbit(9.0)], &[0.0, 0.0, 6.0, 9.0]);
        check(
            20,
            &rows,
            &[NO, mbit(8.0), ALL, ALL],
            &[0.0, 6.0 + 6.0 / 19.0, 100.0 / 19.0, 160.0 / 19.0],
        );
    }

    #[test]
    fn an_excess_stays_among_siblings_first() {
        let rows = ["a - 6", "a1 a 4", "a2 a 2", "b - 4", "b1 b 1", "b2 b 3"];
        check(10, &rows, &[ALL, NO, ALL, ALL], &[6.0, 6.0, 0.0, 4.0, 1.0, 3.0]);
        check(10, &rows, &[NO, NO, ALL, ALL], &[0.0, 0.0, 0.0, 10.0, 2.5, 7.5]);
        check(10, &rows, &[mbit(1.0), ALL, mbit(0.5), ALL], &[6.0, 1.0, 5.0, 4.0, 0.5, 3.5]);
    }

    #[test]
    fn limits_bind_a_class_and_all_below_it() {
        check(10, &["a - 2 fixed", "b - 2"], &[ALL, ALL], &[2.0, 8.0]);
        check(10, &["a - 2 - 3", "b - 2"], &[ALL, ALL], &[3.0, 7.0]);
        check(10, &["a - 4 fixed", "b a 1", "c a 1"], &[ALL, NO], &[4.0, 4.0, 0.0]);
        check(10, &["a - 4", "b a 1 - 2", "c a 1 fixed"], &[ALL, ALL], &[3.0, 2.0, 1.0]);
        check(10, &["a - 2 fixed", "b - 2 - 3"], &[ALL, ALL], &[2.0, 3.0]);
    }

    #[test]
    fn the_last_slopes_of_curves_are_weights_and_limits() {
        check(10, &["a - 2 - - 6", "b - 2"], &[ALL, ALL], &[7.5, 2.5]);
        check(10, &["a - 8 - - - 3", "b - 2"], &[ALL, ALL], &[3.0, 7.0]);
        check(10, &["a - - - - - - 4", "b - 6"], &[ALL, ALL], &[4.0, 6.0]);
        check(10, &["a - - - - - - 4", "b - 6"], &[ALL, NO], &[4.0, 0.0]);
    }

    #[test]
    fn floors_hold_whatever_weights_and_limits_say() {
        let check = |rows: &[&str], floors: &[f64], expected: &[f64]| {
            let floors: Vec<f64> = floors.iter().map(|floor| floor * 1e6).collect();
            let parts = parts(&tree(10, rows), 1e7, &vec![ALL; floors.len()], &floors);
            for (part, expected) in parts.iter().zip(expected) {
                assert!((part.share / 1e6 - expected).abs() < 1e-8, "{rows:?}: {parts:?}");
            }
        };
        check(&["a - 1", "b - 9"], &[4.0, 0.0], &[4.0, 6.0]);
        check(&["a - 1", "b - 9"], &[0.5, 9.0], &[1.0, 9.0]);
        check(&["a - 1", "b - 9"], &[7.0, 8.0], &[7.0, 8.0]);
        check(&["a - 1 - - - 2", "b - 9"], &[4.0, 0.0], &[4.0, 6.0]);
        let deep = ["a - 1", "b a 1", "c a 3", "d - 9"];
        check(&deep, &[3.0, 0.0, 0.0], &[3.0, 3.0, 0.0, 7.0]);
        check(&deep, &[0.5, 0.0, 1.0], &[1.0, 0.5, 0.5, 9.0]);
    }

    #[test]
    fn a_deep_tree_is_divided_level_by_level() {
        let rows = ["a - 8", "b a 8", "c b 6", "d b 2", "e - 2"];
        check(10, &rows, &[ALL, ALL, mbit(1.0)], &[9.0, 9.0, 6.75, 2.25, 1.0]);
    }

    #[test]
    fn priorities_do_not_matter() {
        let rows = ["a - 5", "b - 5"];
        let plain = tree(10, &rows);
        let classes = plain.classes().map(|(id, class)| {
            let priority = Quantity::Number(u64::from(id.0) * 7);
            ClassSpec { params: class.params.clone().with("priority", priority), ..class.clone() }
        });
        let ranked =
            Tree::new(plain.rate(), plain.mtu(), Params::new(), classes.collect()).expect("a tree");
        assert_eq!(shares(&ranked, &[ALL, ALL]), shares(&plain, &[ALL, ALL]));
    }
}
