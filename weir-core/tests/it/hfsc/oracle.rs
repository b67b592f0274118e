//! HFSC by the letter: curves of two pieces in exact fractions, periods and offsets of virtual
//! time, every choice a scan [algorithms §6.2-6.6].
//!
//! What `hfsc` says it does otherwise than ALTQ is done here too, each at its place: a class that
//! idles is charged first, what was adjusted stays adjusted, the credit of a limit, ties, and that
//! the mean of two virtual times is rounded down to 2^-40 ns.

use crate::hfsc::ratio::Ratio;
use crate::hfsc::world::{Credit, Curve, LENGTH_MAX, Row, credit, is_leaf};

#[derive(Clone, Copy, Debug)]
struct Runtime {
    x: Ratio,
    y: Ratio,
    m1: Ratio,
    dx: Ratio,
    dy: Ratio,
    m2: Ratio,
}

/// In bytes per ns.
fn slope(bits_per_second: u64) -> Ratio {
    Ratio::new(bits_per_second.into(), 8_000_000_000)
}

impl Runtime {
    fn start(curve: Curve, x: Ratio, y: Ratio) -> Self {
        let (m1, d, m2) = curve;
        let dx = Ratio::whole(d.into());
        Self { x, y, m1: slope(m1), dx, dy: slope(m1) * dx, m2: slope(m2) }
    }

    fn y2x(&self, value: Ratio) -> Ratio {
        if value < self.y {
            self.x
        } else if value <= self.y + self.dy {
            let zero = self.dy == Ratio::ZERO;
            if zero { self.x + self.dx } else { self.x + (value - self.y) / self.m1 }
        } else {
            self.x + self.dx + (value - self.y - self.dy) / self.m2
        }
    }

    fn x2y(&self, at: Ratio) -> Ratio {
        if at <= self.x {
            self.y
        } else if at <= self.x + self.dx {
            self.y + (at - self.x) * self.m1
        } else {
            self.y + self.dy + (at - self.x - self.dx) * self.m2
        }
    }

    fn min_with(&mut self, curve: Curve, x: Ratio, y: Ratio) {
        let fresh = Self::start(curve, x, y);
        if fresh.m1 <= fresh.m2 {
            if self.x2y(x) >= y {
                (self.x, self.y) = (x, y);
            }
            return;
        }
        let y1 = self.x2y(x);
        if y1 <= y {
            return;
        }
        if self.x2y(x + fresh.dx) >= y + fresh.dy {
            *self = fresh;
            return;
        }
        let mut dx = (y1 - y) / (fresh.m1 - fresh.m2);
        if self.x + self.dx > x {
            dx = dx + (self.x + self.dx - x);
        }
        *self = Self { dx, dy: fresh.m1 * dx, ..fresh };
    }
}

fn lowered(runtime: &mut Option<Runtime>, curve: Curve, x: Ratio, y: Ratio) -> Runtime {
    // A curve of one slope has no first piece.
    let curve = if curve.1 == 0 || curve.0 == curve.2 { (0, 0, curve.2) } else { curve };
    match runtime {
        Some(runtime) => runtime.min_with(curve, x, y),
        None => *runtime = Some(Runtime::start(curve, x, y)),
    }
    runtime.expect("just made")
}

#[derive(Clone, Debug, Default)]
struct Class {
    row: Row,
    leaf: bool,
    deadline: Option<Runtime>,
    virtual_time: Option<Runtime>,
    limit: Option<Runtime>,
    cumul: i128,
    total: i128,
    e: i128,
    d: i128,
    vt: Ratio,
    vtoff: Ratio,
    /// The number of its `vt` among all that were set.
    turn: u64,
    myf: i128,
    /// How late `myf` may be, and what is left of that when it was later.
    credit: (u64, u64),
    active: bool,
    backlogged: bool,
    // Of its children.
    nactive: u32,
    cvtmin: Ratio,
    /// Whether link sharing has chosen a child in this period.
    has_chosen: bool,
    cvtmax: Ratio,
}

/// The selection of the twin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The class, and whether the real-time criterion chose it.
    Class(usize, bool),
    At(u64),
    Idle,
}

/// The twin. Class 0 is the link, class n + 1 that of row n.
pub struct Oracle {
    classes: Vec<Class>,
    turns: u64,
}

impl Oracle {
    pub fn new(line: u64, rows: &[Row], rule: Credit) -> Self {
        let mut classes = vec![Class::default()];
        for (index, row) in rows.iter().enumerate() {
            let packet = |ul: Curve| (LENGTH_MAX * 8_000_000_000).div_ceil(ul.2);
            let credit = match rule {
                Credit::Bounded => [credit(line, rows, index); 2],
                Credit::Linux => [u64::MAX; 2],
                Credit::Altq => [row.ul.map_or(0, packet), 0],
            };
            let (leaf, credit) = (is_leaf(rows, index), credit.into());
            classes.push(Class { row: *row, leaf, credit, ..Class::default() });
        }
        Self { classes, turns: 0 }
    }

    fn children(&self, parent: usize) -> Vec<usize> {
        (1..self.classes.len()).filter(|&child| self.parent(child) == parent).collect()
    }

    fn parent(&self, class: usize) -> usize {
        self.classes[class].row.parent.map_or(0, |parent| parent + 1)
    }

    fn active(&self, parent: usize) -> Vec<usize> {
        let mut children = self.children(parent);
        children.retain(|&child| self.classes[child].active);
        children
    }

    /// The fit time: its own and, above the leaves, that of the first child.
    fn f(&self, class: usize) -> i128 {
        let own = if class == 0 { 0 } else { self.classes[class].myf };
        if self.classes[class].leaf {
            return own;
        }
        let children = self.active(class).into_iter().map(|child| self.f(child));
        own.max(children.min().unwrap_or(0))
    }

    /// The leaf of `row` gets its first packet, of `length`.
    pub fn enqueued(&mut self, now: u64, row: usize, length: u64) {
        let leaf = row + 1;
        let time = Ratio::whole(now.into());
        let this = &mut self.classes[leaf];
        this.backlogged = true;
        if let Some(rt) = this.row.rt {
            lowered(&mut this.deadline, rt, time, Ratio::whole(this.cumul));
            self.eligible(leaf);
            self.deadline(leaf, length);
        }
        let (mut at, mut newly) = (leaf, self.classes[leaf].row.ls.is_some());
        while at != 0 && newly {
            let parent = self.parent(at);
            newly = self.classes[parent].nactive == 0;
            self.join(at);
            let this = &mut self.classes[at];
            if let Some(ul) = this.row.ul {
                let runtime = lowered(&mut this.limit, ul, time, Ratio::whole(this.total));
                this.myf = runtime.y2x(Ratio::whole(this.total)).ceil();
            }
            at = parent;
        }
    }

    fn eligible(&mut self, leaf: usize) {
        let this = &mut self.classes[leaf];
        let mut curve = this.deadline.expect("a real-time leaf");
        if curve.m1 <= curve.m2 {
            (curve.dx, curve.dy) = (Ratio::ZERO, Ratio::ZERO);
        }
        this.e = curve.y2x(Ratio::whole(this.cumul)).ceil();
    }

    fn deadline(&mut self, leaf: usize, length: u64) {
        let this = &mut self.classes[leaf];
        let curve = this.deadline.expect("a real-time leaf");
        this.d = curve.y2x(Ratio::whole(this.cumul + i128::from(length))).ceil();
    }

    /// Its virtual time by its curve.
    fn own(&self, class: usize) -> Option<Ratio> {
        let this = &self.classes[class];
        Some(this.virtual_time?.y2x(Ratio::whole(this.total)) - this.vtoff)
    }

    fn join(&mut self, class: usize) {
        let parent = self.parent(class);
        let mean = match self.active(parent).iter().map(|&child| self.classes[child].vt).max() {
            Some(high) => {
                let low = self.classes[parent].cvtmin;
                if self.classes[parent].has_chosen { half(low + high) } else { high }
            }
            None => {
                let cvtmax = self.classes[parent].cvtmax;
                for child in self.children(parent) {
                    self.classes[child].vtoff = self.classes[child].vtoff + cvtmax;
                }
                let above = &mut self.classes[parent];
                (above.cvtmax, above.cvtmin) = (Ratio::ZERO, Ratio::ZERO);
                above.has_chosen = false;
                Ratio::ZERO
            }
        };
        let vt = self.own(class).map_or(mean, |own| own.max(mean));
        self.classes[parent].nactive += 1;
        self.turns += 1;
        let this = &mut self.classes[class];
        (this.vt, this.active, this.turn) = (vt, true, self.turns);
        let x = vt + this.vtoff;
        let ls = this.row.ls.expect("only classes that share join");
        lowered(&mut this.virtual_time, ls, x, Ratio::whole(this.total));
        let curve = this.virtual_time.as_mut().expect("just lowered");
        if curve.x == x {
            curve.x = curve.x - this.vtoff;
            this.vtoff = Ratio::ZERO;
        }
    }

    /// Returns which class is next.
    pub fn select(&self, now: u64) -> Choice {
        let now = i128::from(now);
        let waits: Vec<usize> =
            (1..self.classes.len()).filter(|&class| self.classes[class].backlogged).collect();
        if waits.is_empty() {
            return Choice::Idle;
        }
        let real_time =
            || waits.iter().copied().filter(|&leaf| self.classes[leaf].row.rt.is_some());
        let eligible = real_time().filter(|&leaf| self.classes[leaf].e <= now);
        if let Some(leaf) = eligible.min_by_key(|&leaf| (self.classes[leaf].d, leaf)) {
            return Choice::Class(leaf - 1, true);
        }
        let mut at = 0;
        while !self.classes[at].leaf {
            let fitting = self.active(at).into_iter().filter(|&child| self.f(child) <= now);
            let turn = |&child: &usize| (self.classes[child].vt, self.classes[child].turn);
            match fitting.min_by_key(turn) {
                Some(child) => at = child,
                None => {
                    assert_eq!(at, 0, "a class that fits has a child that fits");
                    let e = real_time().map(|leaf| self.classes[leaf].e);
                    let f = self.active(0).into_iter().map(|child| self.f(child));
                    let wake = e.chain(f).min().expect("a leaf is backlogged");
                    return Choice::At(u64::try_from(wake).expect("in these tests time is short"));
                }
            }
        }
        Choice::Class(at - 1, false)
    }

    /// The leaf of `row` sent `length`; `next` waits there. `real_time` is what chose it.
    pub fn sent(&mut self, now: u64, row: usize, length: u64, chosen: bool, next: Option<u64>) {
        let leaf = row + 1;
        if !chosen {
            let mut at = leaf;
            while at != 0 {
                let (parent, vt) = (self.parent(at), self.classes[at].vt);
                self.classes[parent].cvtmin = self.classes[parent].cvtmin.max(vt);
                self.classes[parent].has_chosen = true;
                at = parent;
            }
        }
        self.update(now, leaf, length, next.is_none());
        if chosen {
            self.classes[leaf].cumul += i128::from(length);
        }
        self.next_head(leaf, chosen, next);
    }

    /// A packet that waited in the leaf of `row` was dropped; `next` is first now.
    pub fn dropped(&mut self, now: u64, row: usize, next: Option<u64>) {
        if next.is_none() {
            self.update(now, row + 1, 0, true);
        }
        self.next_head(row + 1, false, next);
    }

    fn next_head(&mut self, leaf: usize, chosen: bool, next: Option<u64>) {
        self.classes[leaf].backlogged = next.is_some();
        let (Some(length), true) = (next, self.classes[leaf].row.rt.is_some()) else { return };
        if chosen {
            self.eligible(leaf);
        }
        self.deadline(leaf, length);
    }

    fn update(&mut self, now: u64, leaf: usize, length: u64, emptied: bool) {
        let (mut at, mut passive) = (leaf, emptied);
        while at != 0 {
            self.forfeit(now, at);
            self.classes[at].total += i128::from(length);
            let parent = self.parent(at);
            if self.classes[at].active {
                let own = self.own(at).expect("an active class shares");
                if passive {
                    self.classes[at].active = false;
                    self.classes[at].vt = own;
                    let above = &mut self.classes[parent];
                    above.cvtmax = above.cvtmax.max(own);
                    above.nactive -= 1;
                    passive = above.nactive == 0;
                } else {
                    self.go_on(at, own);
                }
            } else {
                passive = false;
            }
            at = parent;
        }
    }

    fn go_on(&mut self, at: usize, own: Ratio) {
        let cvtmin = self.classes[self.parent(at)].cvtmin;
        self.turns += 1;
        let this = &mut self.classes[at];
        (this.vt, this.turn) = (own.max(cvtmin), self.turns);
        if own < cvtmin {
            let curve = this.virtual_time.as_mut().expect("an active class shares");
            curve.x = curve.x + (cvtmin - own);
        }
        if let Some(curve) = this.limit {
            this.myf = curve.y2x(Ratio::whole(this.total)).ceil();
        }
    }

    /// An active class loses the credit that it has too much.
    fn forfeit(&mut self, now: u64, at: usize) {
        let this = &mut self.classes[at];
        let Some(curve) = this.limit.as_mut() else { return };
        let (most, left) = this.credit;
        if this.active && this.myf + i128::from(most) < i128::from(now) {
            let time = curve.y2x(Ratio::whole(this.total));
            curve.x = curve.x + (Ratio::whole(i128::from(now) - i128::from(left)) - time);
        }
    }
}

/// Half of a virtual time, rounded down to 2^-40 ns.
fn half(time: Ratio) -> Ratio {
    Ratio::new((time * Ratio::whole(1 << 39)).floor(), 1 << 40)
}
