//! A value beyond its range is refused when the plan is made, and the finding names the range.

use weir_core::parameter::{Kind, Parameter, Scope};
use weir_core::queue::DROPPERS;
use weir_core::sched::SCHEDULERS;
use weir_policy::policy::parse;

#[test]
fn a_value_beyond_its_range_is_refused_and_the_range_named() {
    let mut checked = 0;
    for entry in SCHEDULERS {
        let keyword = entry.descriptor.keyword;
        for row in entry.descriptor.parameters {
            checked += check(row, &|value| text(keyword, row, value));
        }
    }
    for dropper in DROPPERS {
        for row in dropper.parameters {
            checked += check(row, &|value| {
                let (keyword, name) = (dropper.keyword, row.name);
                let queue = format!("queue = {{ dropper = '{keyword}', {name} = {value} }}\n");
                format!("{DRR}{CLASS}{queue}")
            });
        }
    }
    assert!(checked > 40, "most tables have ranges: {checked} values checked");
}

/// Makes a policy in which `row` of the scheduler has this value.
fn text(scheduler: &str, row: &Parameter, value: &str) -> String {
    let link = format!("[link]\nrate = '1 Mbit/s'\nscheduler = '{scheduler}'\n");
    match row.scope {
        Scope::Link => format!("{link}[link.'{scheduler}']\n{} = {value}\n{CLASS}", row.name),
        _ => format!("{link}{CLASS}{} = {value}\n", row.name),
    }
}

/// Tries the values just beyond both ends; returns how many.
fn check(row: &Parameter, policy: &dyn Fn(&str) -> String) -> usize {
    let (low, high) = match row.kind {
        Kind::Number(low, high) | Kind::Size(low, high) => (low, high),
        _ => return 0,
    };
    let below = low.checked_sub(1);
    let above = high.checked_add(1).filter(|&above| above <= i64::MAX as u64);
    let mut checked = 0;
    for value in below.into_iter().chain(above) {
        let (value, range) = match row.kind {
            Kind::Size(..) => (format!("'{value} B'"), "is not in".to_owned()),
            _ => (value.to_string(), format!("is not in {low}..={high}")),
        };
        let outcome = parse(&policy(&value), "p.toml");
        let mut findings = outcome.findings.iter();
        let found = findings.any(|row| row.code == "W015" && row.message.contains(&range));
        assert!(found, "{} = {value}: {:#?}", row.name, outcome.findings);
        assert!(outcome.plan.is_none(), "{} = {value} makes no plan", row.name);
        checked += 1;
    }
    checked
}

const DRR: &str = "[link]\nrate = '1 Mbit/s'\nscheduler = 'drr'\n";
const CLASS: &str = "[class.a]\ndefault = true\n";
