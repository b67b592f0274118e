//! Several rows that are one class, such as the devices of a subscriber.
//!
//! Their rules become the rules of the class, in the order of the rows. Every other key must have
//! the same value in all of them.

use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};

/// Adds the rules of the class `other` to those of `first`.
///
/// # Errors
/// The first key of `other` that has another value in `first`.
pub(super) fn join<'l>(first: &mut DeTable<'l>, other: DeTable<'l>) -> Result<(), String> {
    let differs = |(key, value): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| {
        let name: &str = key.get_ref();
        name != RULES && !first.get(name).is_some_and(|own| same(own.get_ref(), value.get_ref()))
    };
    if let Some((key, _)) = other.iter().find(|row| differs(*row)) {
        return Err(key.get_ref().to_string());
    }
    for (key, value) in other.into_iter().filter(|(key, _)| key.get_ref() == RULES) {
        match first.get_mut(RULES) {
            Some(rules) => add(rules, value),
            None => drop(first.insert(key, value)),
        }
    }
    Ok(())
}

/// Adds a rule or an array of rules.
fn add<'l>(rules: &mut Spanned<DeValue<'l>>, more: Spanned<DeValue<'l>>) {
    if !rules.get_ref().is_array() {
        let mut array = DeArray::new();
        array.push(rules.clone());
        *rules.get_mut() = DeValue::Array(array);
    }
    let DeValue::Array(array) = rules.get_mut() else { return };
    if more.get_ref().is_array() {
        let DeValue::Array(more) = more.into_inner() else { return };
        more.into_iter().for_each(|rule| array.push(rule));
    } else {
        array.push(more);
    }
}

/// Returns whether two values are the same, wherever they are written.
fn same(one: &DeValue<'_>, other: &DeValue<'_>) -> bool {
    match (one, other) {
        (DeValue::Array(one), DeValue::Array(other)) => {
            let mut pairs = one.iter().zip(other.iter());
            one.len() == other.len()
                && pairs.all(|(one, other)| same(one.get_ref(), other.get_ref()))
        }
        (DeValue::Table(one), DeValue::Table(other)) => {
            let equal = |(key, value): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| {
                let key: &str = key.get_ref();
                other.get(key).is_some_and(|other| same(value.get_ref(), other.get_ref()))
            };
            one.len() == other.len() && one.iter().all(equal)
        }
        _ => one.same_type(other) && super::list::scalar(one) == super::list::scalar(other),
    }
}

/// The key of a class that holds its rules.
const RULES: &str = "match";
