//! Inlay hints: what a share is in Mbit/s, what a rule matches, and the bounds of a class.

use crate::document::Document;
use crate::position::Encoding;
use crate::syntax::{Part, Slot, Step};
use lsp_types::{InlayHint, InlayHintKind, InlayHintLabel};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use weir_core::classify::MatchOrder;
use weir_core::ids::ClassId;
use weir_policy::diff::Region;
use weir_policy::policy::Policy;
use weir_policy::table::shown;

/// Returns the hints in these bytes of a policy without errors.
pub fn hints(document: &Document, bytes: Range<usize>, encoding: Encoding) -> Vec<InlayHint> {
    let Some(policy) = document.checked.as_ref().and_then(|checked| checked.policy.as_ref()) else {
        return Vec::new();
    };
    let slots = document.slots();
    let first = slots.partition_point(|slot| slot.span.end < bytes.start);
    let seen = slots[first..].iter().take_while(|slot| slot.span.start <= bytes.end);
    let seen: Vec<&Slot> = seen.filter(|slot| in_class(&slot.path).is_some()).collect();
    let names: BTreeSet<&str> = seen.iter().filter_map(|slot| in_class(&slot.path)).collect();
    let ids: BTreeMap<&str, ClassId> = policy
        .link
        .tree
        .classes()
        .filter_map(|(id, class)| Some((*names.get(class.name.as_str())?, id)))
        .collect();
    let rules = Rules::new(document, policy);
    let mut hints = Vec::new();
    for slot in seen {
        let Some(&id) = in_class(&slot.path).and_then(|name| ids.get(name)) else { continue };
        let text = match slot.part {
            Part::Value => share(document, slot, policy, id),
            _ => bounds(document, slot).or_else(|| rules.text(slot, policy, id)),
        };
        let Some(text) = text else { continue };
        hints.push(InlayHint {
            position: document.lines().position(slot.span.end, encoding),
            label: InlayHintLabel::String(text),
            kind: Some(InlayHintKind::TYPE),
            text_edits: None,
            tooltip: None,
            padding_left: Some(true),
            padding_right: None,
            data: None,
        });
    }
    hints
}

/// Returns the class in which a key or value stands.
fn in_class(path: &[Step]) -> Option<&str> {
    match path {
        [class, name, ..] if class.is("class") => name.key(),
        _ => None,
    }
}

/// Returns the rate that a percentage is.
fn share(document: &Document, slot: &Slot, policy: &Policy, id: ClassId) -> Option<String> {
    let key = slot.path.get(2)?.key().filter(|_| slot.path.len() == 3)?;
    let is_part = document.value(&slot.path)?.as_str()?.trim_end().ends_with('%');
    let name = if key == "share" { "rate" } else { key };
    let rate = policy.link.tree.class(id).params.rate(name).filter(|_| is_part)?;
    Some(format!("= {} Mbit/s", shown(Some(rate.bits_per_second() as f64 / 1e6))))
}

/// Returns the longest delay and the least rate of a class, behind the name in its header.
fn bounds(document: &Document, slot: &Slot) -> Option<String> {
    let name = in_class(&slot.path).filter(|_| slot.path.len() == 2)?;
    let standing = document.checked.as_ref()?.standing(name)?;
    let delay =
        standing.bound.delay.map(|delay| format!("delay ≤ {} ms", shown(Some(delay * 1e3))));
    let rate = standing.at_least.rate;
    let rate = rate.map(|rate| format!("at least {} Mbit/s", shown(Some(rate / 1e6))));
    let words: Vec<_> = delay.into_iter().chain(rate).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// The rules of a policy whose order is that of the file.
struct Rules<'a> {
    document: &'a Document,
    ordered: bool,
}

impl<'a> Rules<'a> {
    fn new(document: &'a Document, policy: &Policy) -> Self {
        Self { document, ordered: policy.search.order == MatchOrder::First }
    }

    /// Returns what the rules of a class match, behind its key `match`.
    fn text(&self, slot: &Slot, policy: &Policy, id: ClassId) -> Option<String> {
        let is_match = slot.path.len() == 3 && slot.path[2].is("match") && slot.part == Part::Key;
        let leaf = policy.link.tree.leaf_of(id).filter(|_| is_match && self.ordered)?;
        self.document.value(&slot.path)?;
        let rules: Vec<_> = policy.rules.iter().filter(|rule| rule.leaf == leaf).collect();
        let mut regions = rules.iter().flat_map(|rule| {
            let interface = rule.matches.interface.map(|interface| interface.0);
            Region::of(&rule.matches, interface)
        });
        let first = regions.next()?.describe(&policy.interfaces);
        let more = regions.take(REGIONS_MAX).count();
        Some(match more {
            0 => format!("({first})"),
            REGIONS_MAX => format!("({first}, and many more)"),
            more => format!("({first}, and {more} more)"),
        })
    }
}

/// Bound: regions of a rule that are counted for a hint; beyond, it says `many more`.
const REGIONS_MAX: usize = 1000;
