//! The numbers of a policy, each by itself: where each stands, what it is now, how far a change of
//! it is, and the policy's text with another one.
//!
//! A setting has a path in the text, such as `class.voice.rate` or `class.voice.queue.limit`. The
//! *size* of a change makes changes of different settings comparable: for most it is by how much
//! the larger of the two values exceeds the smaller one, so doubling and halving both have size 1.
//! Priorities are an order and not an amount: each step has size 1/4. The rate of the link counts
//! ten times, since another line costs more than another policy. Invariant: what
//! [`Setting::moved`] returns is a value that the parameter takes, and no farther than asked.

use crate::policy::Policy;
use toml_edit::{DocumentMut, Item, Key, TableLike, Value as Text, value};
use weir_core::ids::ClassId;
use weir_core::link::LinkPlan;
use weir_core::parameter::{Kind, Parameter, Params, Scope, Value};
use weir_core::police::METERS;
use weir_core::queue::DROPPERS;
use weir_core::sched;
use weir_core::units::{Bytes, Dimension, Duration, Quantity, Rate, Share};

/// A number of a policy.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    /// The keys that lead to it in the text.
    pub path: Vec<String>,
    /// The class that it belongs to; `None` for the link.
    pub class: Option<ClassId>,
    /// The value in force: as written, or the default.
    pub now: Quantity,
    /// The value is written; if not, its default is in force.
    pub written: bool,
    /// The values that it takes, in the unit of `now`, both included.
    range: (u64, u64),
    /// The value is an order, of which steps are counted.
    steps: bool,
    /// The size of a step, or of a doubling.
    cost: f64,
}

/// Which way a value is changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// To a larger value.
    Up,
    /// To a smaller one.
    Down,
}

/// Returns every setting of a policy that may be changed by itself: the rate of the link and what
/// its scheduler measures there, and of each class the scheduler's parameters, those of its dropper
/// and those of its meter. Classes that a template makes have no text of their own, and no setting.
///
/// # Errors
/// When the text cannot be edited.
pub fn all(text: &str, policy: &Policy) -> Result<Vec<Setting>, String> {
    let document = parse(text)?;
    let plan = &policy.link;
    let mut settings = Vec::new();
    link_settings(&document, plan, &mut settings);
    let classes = document.get("class").and_then(Item::as_table_like);
    for (name, class) in classes.iter().flat_map(|classes| classes.iter()) {
        // A class with `queues` has several classes in the plan, all with the same values.
        let id = policy.class(name).or_else(|| policy.class(&format!("{name}-0")));
        if let (Some(id), Some(class)) = (id, class.as_table_like()) {
            class_settings(class, (name, id), plan, &mut settings);
        }
    }
    Ok(settings)
}

fn link_settings(document: &DocumentMut, plan: &LinkPlan, settings: &mut Vec<Setting>) {
    let rate = Quantity::Rate(plan.tree.rate());
    let range = (1, u64::MAX);
    let path = ["link", "rate"].map(str::to_owned).to_vec();
    settings.push(Setting {
        path,
        class: None,
        now: rate,
        written: true,
        range,
        steps: false,
        cost: LINK_COST,
    });
    let Some(entry) = sched::find(plan.scheduler) else { return };
    let keyword = entry.descriptor.keyword;
    let link = document.get("link").and_then(Item::as_table_like);
    let text = link.and_then(|link| part(link, keyword));
    let path = ["link", keyword];
    let place = Place { path: &path, class: None, params: plan.tree.params(), text };
    let measured = |row: &&Parameter| {
        row.scope == Scope::Link && matches!(row.kind, Kind::Quantity(_) | Kind::Size(..))
    };
    place.settings(entry.descriptor.parameters.iter().filter(measured), plan, settings);
}

fn class_settings(
    class: &dyn TableLike,
    (name, id): (&str, ClassId),
    plan: &LinkPlan,
    settings: &mut Vec<Setting>,
) {
    let path = ["class", name];
    let leaf = plan.tree.leaf_of(id);
    let spec = plan.tree.class(id);
    if let Some(entry) = sched::find(plan.scheduler) {
        let here = |row: &&Parameter| {
            row.scope == Scope::Class || row.scope == Scope::Leaf && leaf.is_some()
        };
        let rows = entry.descriptor.parameters.iter().filter(here);
        let place = Place { path: &path, class: Some(id), params: &spec.params, text: Some(class) };
        place.settings(rows, plan, settings);
    }
    let Some(leaf) = leaf else { return };
    let queue = &plan.queues[leaf.index()];
    if let Some(dropper) = DROPPERS.iter().find(|row| row.keyword == queue.dropper) {
        let text = part(class, "queue");
        let path = ["class", name, "queue"];
        let place = Place { path: &path, class: Some(id), params: &queue.params, text };
        place.settings(dropper.parameters.iter(), plan, settings);
    }
    let meter = plan.leaf_meters.get(leaf.index()).copied().flatten();
    let meter = meter.and_then(|meter| plan.meters.get(meter.index()));
    if let Some(meter) = meter
        && let Some(text) = part(class, "police")
    {
        let rows = METERS.iter().find(|row| row.keyword == meter.meter);
        let path = ["class", name, "police"];
        let place = Place { path: &path, class: Some(id), params: &meter.params, text: Some(text) };
        place.settings(rows.iter().flat_map(|row| row.parameters), plan, settings);
    }
}

/// A table of the text, and the values that it has in the plan.
struct Place<'a> {
    path: &'a [&'a str],
    class: Option<ClassId>,
    params: &'a Params,
    text: Option<&'a dyn TableLike>,
}

impl Place<'_> {
    fn settings<'p>(
        &self,
        rows: impl Iterator<Item = &'p Parameter>,
        plan: &LinkPlan,
        settings: &mut Vec<Setting>,
    ) {
        settings.extend(rows.filter_map(|row| self.setting(row, plan)));
    }

    fn setting(&self, row: &Parameter, plan: &LinkPlan) -> Option<Setting> {
        let text = |key: &str| self.text.and_then(|table| table.get(key));
        // A rate that is written as a share stays one.
        let share = text("share").and_then(Item::as_str).filter(|_| row.name == "rate");
        if let Some(share) = share {
            let now = share.parse::<Quantity>().ok()?;
            return self.of("share", now, (Kind::Quantity(Dimension::Share), true));
        }
        let written = text(row.name).is_some();
        let value = match self.params.value(row.name) {
            Some(Value::Quantity(quantity)) => quantity,
            Some(_) => return None,
            None => default(row, self.params, plan)?,
        };
        self.of(row.name, value, (row.kind, written))
    }

    fn of(&self, key: &str, now: Quantity, (kind, written): (Kind, bool)) -> Option<Setting> {
        let (range, steps) = match kind {
            Kind::Quantity(Dimension::Share) => ((1, PPB_MAX), false),
            Kind::Quantity(_) | Kind::Limit => ((1, u64::MAX), false),
            Kind::Number(min, max) => ((min, max), min == 0 && max < ORDER_MAX),
            Kind::Size(min, max) => ((min, max), false),
            Kind::Flag | Kind::Choice(_) => return None,
        };
        let path = self.path.iter().chain([&key]).map(|&key| key.to_owned()).collect();
        let amount = amount(now);
        let has_size = steps || amount > 0;
        let cost = if steps { STEP_COST } else { 1.0 };
        let class = self.class;
        has_size.then_some(Setting { path, class, now, written, range, steps, cost })
    }
}

/// Returns the value of a parameter that is not written, as far as its table says it: a value, the
/// name of another parameter, the rate of the link, or a sum of times of the rate and of largest
/// packets. `None` for what is no value; such a parameter is changed only where it is written.
pub(crate) fn default(row: &Parameter, params: &Params, plan: &LinkPlan) -> Option<Quantity> {
    let text = row.default?;
    let fits = |quantity: &Quantity| match row.kind {
        Kind::Quantity(dimension) => quantity.dimension() == dimension,
        Kind::Number(..) => quantity.dimension() == Dimension::Number,
        Kind::Size(..) => quantity.dimension() == Dimension::Bytes,
        Kind::Limit => matches!(quantity, Quantity::Packets(_) | Quantity::Bytes(_)),
        Kind::Flag | Kind::Choice(_) => false,
    };
    let name = text.trim_start_matches("as ").trim_matches('`');
    let known = text.parse::<Quantity>().ok().or_else(|| params.quantity(name));
    let value = known.or_else(|| match row.kind {
        Kind::Size(..) => bytes(text, params, plan).map(Quantity::Bytes),
        _ if LINK_RATES.contains(&text) => Some(Quantity::Rate(plan.tree.rate())),
        _ => None,
    });
    value.filter(fits)
}

/// Returns a size such as `4 ms of rate + the largest packet`.
fn bytes(text: &str, params: &Params, plan: &LinkPlan) -> Option<Bytes> {
    let packet = plan.tree.mtu().get();
    let term = |term: &str| -> Option<u64> {
        if term.starts_with("the largest packet") {
            return Some(packet);
        }
        if let Ok(Quantity::Bytes(bytes)) = term.parse() {
            return Some(bytes.get());
        }
        if let Some((time, name)) = term.split_once(" of ") {
            // A ceiling that is not written is the rate.
            let rate = params.rate(name).or_else(|| params.rate("rate"));
            return Some(rate.unwrap_or(plan.tree.rate()).bytes_in(time.parse().ok()?).get());
        }
        let count: u64 = term.strip_suffix(" largest packets")?.parse().ok()?;
        count.checked_mul(packet)
    };
    let sum = text.split(" + ").map(term).sum::<Option<u64>>()?;
    Some(Bytes::new(sum))
}

impl Setting {
    /// Returns the path as one text, as `weir set` takes it: `class.voice.rate`.
    pub fn name(&self) -> String {
        let key = |part: &String| Key::new(part.as_str()).display_repr().into_owned();
        self.path.iter().map(key).collect::<Vec<_>>().join(".")
    }

    /// Returns the size of a step, if changes are counted in steps.
    pub fn step(&self) -> Option<f64> {
        self.steps.then_some(self.cost)
    }

    /// Returns the size of a change to `value`.
    pub fn size(&self, value: Quantity) -> f64 {
        let (now, then) = (amount(self.now), amount(value));
        let (low, high) = (now.min(then), now.max(then));
        if self.steps {
            return (high - low) as f64 * self.cost;
        }
        (high as f64 / low.max(1) as f64 - 1.0) * self.cost
    }

    /// Returns the farthest value whose change has at most this size: of three digits, and one that
    /// the parameter takes. `None` if that is the value in force.
    pub fn moved(&self, way: Way, size: f64) -> Option<Quantity> {
        let (now, size) = (amount(self.now), size / self.cost);
        let wanted = match (self.steps, way) {
            (true, Way::Up) => now.saturating_add(size as u64),
            (true, Way::Down) => now.saturating_sub(size as u64),
            // `f64` to `u64` saturates.
            (false, Way::Up) => ((now as f64) * (1.0 + size)) as u64,
            (false, Way::Down) => ((now as f64) / (1.0 + size)).ceil() as u64,
        };
        let wanted = wanted.clamp(self.range.0, self.range.1);
        let rounded = match (self.steps, way) {
            (true, _) => wanted,
            (false, Way::Up) => three_digits(wanted),
            (false, Way::Down) => three_digits_up(wanted),
        };
        let farther = match way {
            Way::Up => rounded > now,
            Way::Down => rounded < now,
        };
        let fits = farther && (self.range.0..=self.range.1).contains(&rounded);
        fits.then(|| with_amount(self.now, rounded)).flatten()
    }

    /// Returns the text of the policy with this value.
    ///
    /// # Errors
    /// When the text cannot be edited.
    pub fn rewrite(&self, text: &str, new: Quantity) -> Result<String, String> {
        let mut document = parse(text)?;
        let (key, tables) = self.path.split_last().ok_or("a setting has a path")?;
        let mut at: &mut dyn TableLike = document.as_table_mut();
        for name in tables {
            if at.get(name).is_none() {
                at.insert(name, value(toml_edit::InlineTable::new()));
            }
            at = table(at.get_mut(name))?;
        }
        let new = match new {
            Quantity::Number(number) => Text::from(i64::try_from(number).unwrap_or(i64::MAX)),
            quantity => Text::from(quantity.to_string()),
        };
        match at.get_mut(key) {
            Some(Item::Value(old)) => {
                let decor = old.decor().clone();
                *old = new;
                *old.decor_mut() = decor;
            }
            _ => drop(at.insert(key, value(new))),
        }
        Ok(document.to_string())
    }
}

pub(crate) fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error| format!("the policy does not parse: {error}"))
}

fn table(item: Option<&mut Item>) -> Result<&mut dyn TableLike, String> {
    let table = item.and_then(Item::as_table_like_mut);
    table.ok_or_else(|| "a part of the policy is not a table".to_owned())
}

pub(crate) fn part<'a>(table: &'a dyn TableLike, key: &str) -> Option<&'a dyn TableLike> {
    table.get(key).and_then(Item::as_table_like)
}

/// Returns the number in a quantity's own unit: bit/s, ns, bytes, packets, billionths.
fn amount(quantity: Quantity) -> u64 {
    match quantity {
        Quantity::Rate(rate) => rate.bits_per_second(),
        Quantity::Duration(time) => time.as_nanos(),
        Quantity::Bytes(bytes) => bytes.get(),
        Quantity::Packets(packets) => packets.into(),
        Quantity::Share(share) => share.ppb().into(),
        Quantity::Number(number) => number,
    }
}

fn with_amount(like: Quantity, amount: u64) -> Option<Quantity> {
    Some(match like {
        Quantity::Rate(_) => Quantity::Rate(Rate::new(amount)?),
        Quantity::Duration(_) => Quantity::Duration(Duration::from_nanos(amount)),
        Quantity::Bytes(_) => Quantity::Bytes(Bytes::new(amount)),
        Quantity::Packets(_) => Quantity::Packets(u32::try_from(amount).ok()?),
        Quantity::Share(_) => Quantity::Share(Share::from_ppb(amount)?),
        Quantity::Number(_) => Quantity::Number(amount),
    })
}

/// Rounds down to three digits, so that a value reads as a person would write it.
fn three_digits(amount: u64) -> u64 {
    let unit = unit(amount);
    amount / unit * unit
}

fn three_digits_up(amount: u64) -> u64 {
    let unit = unit(amount);
    amount.div_ceil(unit).saturating_mul(unit)
}

fn unit(amount: u64) -> u64 {
    10u64.pow(amount.checked_ilog10().unwrap_or(0).saturating_sub(2))
}

/// A share of 100 %, in billionths.
const PPB_MAX: u64 = 1_000_000_000;
/// Defaults that are the rate of the link, or no lower limit than it is.
const LINK_RATES: [&str; 2] = ["the rate of the link", "no limit"];
/// How much more a change of the link's rate counts.
const LINK_COST: f64 = 10.0;
/// The size of a step of a priority.
const STEP_COST: f64 = 0.25;
/// Numbers from 0 to below this are an order: priorities.
const ORDER_MAX: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::parse as read;

    const POLICY: &str = "[link]\nrate = \"10 Mbit/s\"\nscheduler = \"htb\"\n\
        [class.voice] # calls\nrate = \"2 Mbit/s\" # as agreed\nprio = 1\n\
        queue = { limit = \"50 packets\" }\nmatch = [{ proto = \"udp\" }]\n\
        [class.rest]\nshare = \"60 %\"\nceil = \"10 Mbit/s\"\ndefault = true\n";

    /// Moves the setting `path` of the policy, and compares value, size and the line of the text.
    fn check(path: &str, (way, size): (Way, f64), expected: Option<(&str, f64, &str)>) {
        let policy = read(POLICY, "p.toml").plan.expect("the policy is right");
        let all = all(POLICY, &policy).expect("the text can be edited");
        let setting = all.iter().find(|row| row.name() == path).expect(path);
        let moved = setting.moved(way, size);
        let Some((value, wanted, line)) = expected else {
            assert_eq!(moved, None, "{path}");
            return;
        };
        let moved = moved.expect(path);
        assert_eq!(moved.to_string(), value, "{path}");
        let own = setting.size(moved);
        assert!((own - wanted).abs() < 1e-9, "{path}: {own} instead of {wanted}");
        let text = setting.rewrite(POLICY, moved).expect("the text can be edited");
        assert!(text.lines().any(|row| row == line), "{path}: {text}");
        assert!(read(&text, "p.toml").plan.is_some(), "{text}");
    }

    #[test]
    fn settings_move_and_are_written_back() {
        use Way::{Down, Up};
        let voice = "rate = \"3 Mbit/s\" # as agreed";
        check("class.voice.rate", (Up, 0.5), Some(("3 Mbit/s", 0.5, voice)));
        let voice = "rate = \"1 Mbit/s\" # as agreed";
        check("class.voice.rate", (Down, 1.0), Some(("1 Mbit/s", 1.0, voice)));
        check("class.rest.share", (Up, 0.1), Some(("66 %", 0.1, "share = \"66 %\"")));
        check("class.rest.share", (Up, 0.0001), None);
        check("class.voice.prio", (Down, 0.4), Some(("0", 0.25, "prio = 0")));
        check("class.voice.prio", (Down, 0.2), None);
        let queue = "queue = { limit = \"100 packets\" }";
        check("class.voice.queue.limit", (Up, 1.0), Some(("100 packets", 1.0, queue)));
        let rate = "rate = \"10.1 Mbit/s\"";
        check("link.rate", (Up, 0.12), Some(("10.1 Mbit/s", 0.1, rate)));
        // What is not written has its default.
        check("class.rest.queue.limit", (Down, 1.0), {
            Some(("50 packets", 1.0, "queue = { limit = \"50 packets\" }"))
        });
        check("class.voice.ceil", (Up, 0.5), Some(("3 Mbit/s", 0.5, "ceil = \"3 Mbit/s\"")));
    }
}
