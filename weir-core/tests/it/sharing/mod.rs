//! Shared parts of tests of sharing: a tree in a few words, the fluid ideal, a saturated link.

pub mod fluid;
pub mod saturated;

use weir_core::ids::ClassId;
use weir_core::link::{Framing, LinkPlan};
use weir_core::parameter::{Params, Value};
use weir_core::queue::QueuePlan;
use weir_core::sched::{ClassSpec, Tree};
use weir_core::units::{Bytes, Quantity, Rate};

/// A class of a test tree.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Index of the parent, `None` under the link.
    pub parent: Option<usize>,
    /// In bit/s.
    pub rate: u64,
    pub borrow: bool,
    /// From 0 to 7.
    pub priority: u64,
    /// Charged length of its packets; 0 means that it is idle.
    pub packet: u32,
}

/// A class that borrows, at priority 1, with packets of 1 500 bytes.
pub const fn class(parent: Option<usize>, rate: u64) -> Class {
    Class { parent, rate, borrow: true, priority: 1, packet: 1500 }
}

impl Class {
    /// Sets the packet length; 0 means idle.
    pub const fn of(self, packet: u32) -> Class {
        Class { packet, ..self }
    }

    /// Makes the class idle.
    pub const fn idle(self) -> Class {
        self.of(0)
    }

    pub const fn alone(self) -> Class {
        Class { borrow: false, ..self }
    }

    pub const fn priority(self, priority: u64) -> Class {
        Class { priority, ..self }
    }
}

/// Whether the class has no children.
pub fn is_leaf(classes: &[Class], index: usize) -> bool {
    classes.iter().all(|class| class.parent != Some(index))
}

/// A plan of a link of `rate` bit/s over `classes` under the scheduler `keyword`.
pub fn plan(keyword: &'static str, rate: u64, params: Params, classes: &[Class]) -> LinkPlan {
    let spec = |(index, class): (usize, &Class)| {
        let parent = class.parent.map(|parent| ClassId(parent as u32));
        let params = match keyword {
            "hfsc" => curves(class),
            _ => borrowing(class, is_leaf(classes, index)),
        };
        ClassSpec { name: index.to_string(), parent, params }
    };
    let specs = classes.iter().enumerate().map(spec).collect();
    let rate = Rate::new(rate).expect("a link of a test has a rate");
    let tree = Tree::new(rate, Bytes::new(MTU), params, specs).expect("a tree");
    let mut plan = LinkPlan::new(keyword, tree);
    plan.framing = Framing::FRAME;
    plan.queues = vec![QueuePlan::default(); plan.tree.leaf_count()];
    plan
}

fn rate(class: &Class) -> Quantity {
    Quantity::Rate(Rate::new(class.rate).expect("a class of a test has a rate"))
}

/// A rate, and whether to borrow beyond it.
fn borrowing(class: &Class, is_leaf: bool) -> Params {
    let mut params = Params::new().with("rate", rate(class));
    params.set("borrow", Value::Flag(class.borrow));
    if is_leaf {
        params = params.with("priority", Quantity::Number(class.priority));
    }
    params
}

/// The rate as a link-share curve; for a class that may not borrow also as an upper limit.
fn curves(class: &Class) -> Params {
    let params = Params::new().with("ls_m2", rate(class));
    if class.borrow { params } else { params.with("ul_m2", rate(class)) }
}

/// The largest packet that the tests' trees are built for.
const MTU: u64 = 1514;
