//! Rewrites the text of a policy for a translated plan.
//!
//! A value that stays keeps its text and comment; a class that a scheduler without hierarchy does
//! not have goes with its comments; new parameters stand where the old ones stood.

use super::Translated;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value as Text, value};
use weir_core::ids::ClassId;
use weir_core::link::LinkPlan;
use weir_core::parameter::{Scope, Value};
use weir_core::sched::{self, ClassSpec, Descriptor, Tree};
use weir_core::units::Quantity;

/// The change from one plan to another in a text.
pub(super) struct Edit<'a> {
    /// The plan that the text holds.
    pub(super) old: &'a LinkPlan,
    /// The plan that it should hold.
    pub(super) new: &'a Translated,
    /// The scheduler of the new plan.
    pub(super) to: &'static Descriptor,
    /// Whether a class that keeps its rate keeps the share that it is written as.
    pub(super) keep_shares: bool,
}

impl Edit<'_> {
    /// Returns the text for the new plan, without the promises `lost`, given in order.
    ///
    /// # Errors
    /// When the text has a form that cannot be rewritten.
    pub(super) fn rewrite(&self, text: &str, lost: &[usize]) -> Result<String, String> {
        if self.old.scheduler == self.to.keyword {
            return Ok(text.to_owned());
        }
        let document = text.parse::<DocumentMut>();
        let mut document = document.map_err(|error| format!("the text does not parse: {error}"))?;
        let link = table(document.get_mut("link"))?;
        put(link, "scheduler", Text::from(self.to.keyword));
        link.remove(self.old.scheduler);
        self.change_places(link);
        remove_promises(document.get_mut("promise"), lost);
        let classes = table(document.get_mut("class"))?;
        let names: Vec<String> = classes.iter().map(|(name, _)| name.to_owned()).collect();
        let (old, new) = (by_name(&self.old.tree), by_name(&self.new.plan.tree));
        for name in names {
            let Some(class) = find(&new, &name) else {
                classes.remove(&name);
                continue;
            };
            let before = find(&old, &name).ok_or("a class of the text is not in its plan")?;
            let item = classes.get_mut(&name).ok_or("a class of the text vanished")?;
            self.change((before, class), item)?;
        }
        if let Some(root) = self.new.root {
            self.add(root, document.get_mut("class"))?;
        }
        Ok(document.to_string())
    }

    /// Changes a class that both plans have.
    fn change(&self, (before, class): Pair<'_>, item: &mut Item) -> Result<(), String> {
        let parent = class.parent.map(|parent| self.new.plan.tree.class(parent).name.clone());
        let keys = table(Some(&mut *item))?;
        let written: Vec<String> = keys.iter().map(|(key, _)| key.to_owned()).collect();
        let keeps_share = self.keep_shares
            && class.params.rate("rate") == before.params.rate("rate")
            && keys.contains_key("share")
            && class.params.value("share").is_none()
            && super::has(self.to, "rate");
        for key in self.old_keys().filter(|&key| !(keeps_share && key == "share")) {
            if class.params.value(key).is_none() {
                keys.remove(key);
            }
        }
        self.change_places(keys);
        match &parent {
            Some(parent) if keys.get("parent").and_then(Item::as_str) == Some(parent) => {}
            Some(parent) => put(keys, "parent", Text::from(parent)),
            None => drop(keys.remove("parent")),
        }
        for row in self.to.parameters {
            let Some(new) = class.params.value(row.name) else { continue };
            let stays = before.params.value(row.name) == Some(new) && keys.contains_key(row.name);
            let is_share = keeps_share && row.name == "rate";
            if !stays && !is_share {
                put(keys, row.name, written_as(new));
            }
        }
        self.order(item, &written);
        Ok(())
    }

    /// Takes from the places in a table what the new scheduler does not read: a place then has its
    /// default.
    fn change_places(&self, keys: &mut dyn TableLike) {
        if let Some(places) = keys.get_mut("places").and_then(Item::as_table_like_mut) {
            for key in self.old_keys().filter(|key| !super::has(self.to, key)) {
                places.remove(key);
            }
        }
    }

    /// The parameters of the old scheduler in classes.
    fn old_keys(&self) -> impl Iterator<Item = &'static str> {
        let rows = sched::find(self.old.scheduler).map_or(&[][..], |it| it.descriptor.parameters);
        let here = |scope| matches!(scope, Scope::Class | Scope::Leaf);
        rows.iter().filter(move |row| here(row.scope)).map(|row| row.name).chain(["share"])
    }

    /// Puts the scheduler's parameters where the first of the old ones stood, the parent before
    /// them, and all other keys in their old order.
    fn order(&self, item: &mut Item, written: &[String]) {
        let old: Vec<_> = self.old_keys().collect();
        let is_own = |key: &str| {
            key == "parent"
                || old.contains(&key)
                || self.to.parameters.iter().any(|p| p.name == key)
        };
        let first = written.iter().position(|key| is_own(key)).unwrap_or(0);
        let rows = || self.to.parameters.iter();
        let place = |key: &str| match key {
            "parent" => (first, 0),
            "share" => (first, 1),
            _ => match rows().position(|row| row.name == key) {
                Some(row) => (first, row + 2),
                None => {
                    let at = written.iter().position(|other| other == key);
                    (at.unwrap_or(written.len()), usize::MAX)
                }
            },
        };
        let compare = |one: &str, other: &str| -> Ordering { place(one).cmp(&place(other)) };
        match item {
            Item::Table(table) => table.sort_values_by(|one, _, other, _| compare(one, other)),
            Item::Value(Text::InlineTable(table)) => {
                table.sort_values_by(|one, _, other, _| compare(one, other));
                table.fmt();
            }
            _ => {}
        }
    }

    /// Adds the parent of all classes before the first class.
    fn add(&self, root: ClassId, classes: Option<&mut Item>) -> Result<(), String> {
        let ClassSpec { name, params, .. } = self.new.plan.tree.class(root);
        let values = params.iter().map(|&(key, value)| (key, written_as(value)));
        let classes = classes.ok_or("the policy has no class")?;
        let first = table(Some(&mut *classes))?.iter().next();
        let position = first.and_then(|(_, first)| first.as_table()).and_then(Table::position);
        let is_first = |key: &str| key != name;
        match (classes, position) {
            (Item::Table(classes), Some(position)) => {
                let mut table = Table::new();
                values.for_each(|(key, text)| drop(table.insert(key, value(text))));
                table.decor_mut().set_prefix(format!("\n{COMMENT}\n"));
                table.set_position(Some(position - 1));
                classes.insert(name, Item::Table(table));
            }
            (Item::Table(classes), None) => {
                let mut table = InlineTable::new();
                values.for_each(|(key, text)| drop(table.insert(key, text)));
                classes.insert(name, value(table));
                classes.sort_values_by(|one, _, other, _| is_first(one).cmp(&is_first(other)));
                if let Some(mut key) = classes.key_mut(name) {
                    key.leaf_decor_mut().set_prefix(format!("{COMMENT}\n"));
                }
            }
            (classes, _) => {
                let classes = classes.as_inline_table_mut().ok_or("`class` is not a table")?;
                let mut table = InlineTable::new();
                values.for_each(|(key, text)| drop(table.insert(key, text)));
                classes.insert(name, Text::InlineTable(table));
                classes.sort_values_by(|one, _, other, _| is_first(one).cmp(&is_first(other)));
                classes.fmt();
            }
        }
        Ok(())
    }
}

/// A class in the old plan and in the new one.
type Pair<'a> = (&'a ClassSpec, &'a ClassSpec);

fn by_name(tree: &Tree) -> BTreeMap<&str, &ClassSpec> {
    tree.classes().map(|(_, class)| (class.name.as_str(), class)).collect()
}

/// Returns the class that the text calls `name`: its own, or the first of its queues.
fn find<'t>(classes: &BTreeMap<&str, &'t ClassSpec>, name: &str) -> Option<&'t ClassSpec> {
    let own = classes.get(name).copied();
    own.or_else(|| classes.get(format!("{name}-0").as_str()).copied())
}

fn table(item: Option<&mut Item>) -> Result<&mut dyn TableLike, String> {
    let table = item.and_then(Item::as_table_like_mut);
    table.ok_or_else(|| "a part of the policy is not a table".to_owned())
}

/// Sets a value; the comment behind an old one stays.
fn put(table: &mut dyn TableLike, key: &str, new: Text) {
    match table.get_mut(key) {
        Some(Item::Value(old)) => {
            let decor = old.decor().clone();
            *old = new;
            *old.decor_mut() = decor;
        }
        _ => drop(table.insert(key, value(new))),
    }
}

/// Removes the promises at these places, given in order.
fn remove_promises(mut promises: Option<&mut Item>, lost: &[usize]) {
    for &place in lost.iter().rev() {
        match &mut promises {
            Some(Item::ArrayOfTables(all)) => drop(all.remove(place)),
            Some(Item::Value(Text::Array(all))) => drop(all.remove(place)),
            _ => {}
        }
    }
}

/// The value as a person writes it.
fn written_as(value: Value) -> Text {
    match value {
        Value::Quantity(Quantity::Number(number)) => match i64::try_from(number) {
            Ok(number) => Text::from(number),
            Err(_) => Text::from(number.to_string()),
        },
        Value::Quantity(Quantity::Bytes(bytes)) if bytes.get() < BYTES_PLAIN => {
            Text::from(format!("{} B", bytes.get()))
        }
        Value::Quantity(quantity) => Text::from(quantity.to_string()),
        Value::Flag(flag) => Text::from(flag),
        Value::Choice(word) => Text::from(word),
    }
}

const COMMENT: &str =
    "# Classes borrow from their parent: without a parent of all classes, none could borrow.";
/// Sizes below this are written in bytes, as packets' are.
const BYTES_PLAIN: u64 = 10_000;
