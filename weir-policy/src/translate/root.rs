//! The parent of all classes, for a scheduler whose classes borrow only from their parent.
//!
//! Without one its top classes have their rates and no more, and what they leave is lost.

use super::promises::Promised;
use weir_core::link::LinkPlan;
use weir_core::parameter::{Params, Value};
use weir_core::sched::{ClassSpec, Descriptor, Tree};
use weir_core::units::Quantity;

/// Returns the class to add as the parent of all top classes, with a note, where the scheduler `to`
/// lends only from parent to child and a top class may have more than its rate.
pub(super) fn needed(
    plan: &LinkPlan,
    promised: &[Promised],
    to: &Descriptor,
) -> Option<(ClassSpec, String)> {
    // [algorithms §5.3] A ceiling says up to what ancestors lend.
    let lends_down = to.parameters.iter().any(|row| row.name == "ceil");
    let link = plan.tree.rate().bits_per_second() as f64;
    let tops = || plan.tree.classes().filter(|(_, class)| class.parent.is_none());
    let short = |promised: &Promised| promised.borrows() && promised.rate < link;
    if !lends_down || !tops().any(|(id, _)| short(&promised[id.index()])) {
        return None;
    }
    let name = free_name(&plan.tree);
    let rate = Value::Quantity(Quantity::Rate(plan.tree.rate()));
    let mut params = Params::new();
    params.set("rate", rate);
    let note = format!("added class `{name}` with the link's rate, from which the others borrow");
    Some((ClassSpec { name, parent: None, params }, note))
}

/// Returns a name that no class and no queue of a class has.
fn free_name(tree: &Tree) -> String {
    let taken = |name: &str| {
        // `NAME-0` may be a queue of a class that is written as NAME.
        let is_queue = |rest: &str| rest.is_empty() || rest.starts_with('-');
        tree.classes().any(|(_, class)| class.name.strip_prefix(name).is_some_and(is_queue))
    };
    root_name(&taken)
}

/// Returns a name for the parent of all classes that is not `taken`.
pub(crate) fn root_name(taken: &dyn Fn(&str) -> bool) -> String {
    let names = NAMES.iter().map(|&name| name.to_owned());
    let mut names = names.chain((2_u64..).map(|number| format!("{}{number}", NAMES[0])));
    names.find(|name| !taken(name)).expect("there are more numbers than classes")
}

const NAMES: [&str; 3] = ["link", "line", "root"];
