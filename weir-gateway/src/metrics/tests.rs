//! Tests of the text: its rules, and what is in it.

use super::*;
use std::collections::BTreeSet;
use std::time::Duration;
use weir_link::status::{Amount, AutorateStatus, Delays};

/// A link with a class of this name.
fn text(class: &str) -> String {
    let class = ClassStatus {
        name: class.to_owned(),
        sent: Amount { packets: 7, bytes: 900 },
        dropped: vec![("queue full".to_owned(), Amount { packets: 2, bytes: 50 })],
        lost: vec![("ring overrun".to_owned(), 3)],
        delay: Delays { p99_us: 1500.0, ..Delays::default() },
        ..ClassStatus::default()
    };
    let lane = LaneStatus {
        name: "up".to_owned(),
        classes: vec![class.clone(), ClassStatus { name: "rest".to_owned(), ..class }],
        left_out: 5,
        autorate: Some(AutorateStatus {
            delay_us: Some(9e3),
            round_trip_us: Some(3e4),
            ..AutorateStatus::default()
        }),
        ..LaneStatus::default()
    };
    let port = PortStatus {
        interface: "eth0".to_owned(),
        state: "up".to_owned(),
        ..PortStatus::default()
    };
    let status = Status { lanes: vec![lane], ports: vec![port], ..Status::default() };
    let times = Times::default();
    times.count(Some("status"), Duration::from_millis(2));
    times.count(None, Duration::from_secs(999));
    let mut bytes = Vec::new();
    write(&mut bytes, "home", (&status, &times)).expect("a vector takes all");
    String::from_utf8(bytes).expect("it is text")
}

#[test]
fn a_value_is_found_by_the_names_of_the_policy() {
    let text = text("voice");
    let has = |line: &str| assert!(text.lines().any(|one| one == line), "{line}\n{text}");
    let class = "deployment=\"home\",direction=\"up\",class=\"voice\"";
    has(&format!("weir_class_sent_bytes_total{{{class}}} 900"));
    has(&format!("weir_class_dropped_packets_total{{{class},reason=\"queue full\"}} 2"));
    has(&format!("weir_class_lost_frames_total{{{class},cause=\"ring overrun\"}} 3"));
    has(&format!("weir_class_delay_seconds{{{class},quantile=\"0.99\"}} 0.0015"));
    has("weir_classes_left_out{deployment=\"home\",direction=\"up\"} 5");
    has("weir_port_up{deployment=\"home\",port=\"eth0\",kind=\"\"} 1");
    has("weir_api_request_seconds_bucket{deployment=\"home\",request=\"status\",le=\"0.01\"} 1");
    has("weir_api_request_seconds_bucket{deployment=\"home\",request=\"document\",le=\"60.0\"} 0");
    has("weir_api_request_seconds_count{deployment=\"home\",request=\"document\"} 1");
}

#[test]
fn the_text_follows_the_rules_of_openmetrics() {
    let text = text("a\"b\\c\nd");
    assert!(text.contains("class=\"a\\\"b\\\\c\\nd\""), "{text}");
    assert!(text.ends_with("\n# EOF\n"));
    let mut known = BTreeSet::new();
    let mut family = String::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        let words: Vec<_> = line.splitn(4, ' ').collect();
        match words.as_slice() {
            ["#", "TYPE", name, _] => {
                assert!(known.insert((*name).to_owned()), "{name} comes once");
                family = (*name).to_owned();
            }
            ["#", "UNIT", name, unit] => assert!(name.ends_with(&format!("_{unit}")), "{line}"),
            ["#", "HELP", name, _] => assert_eq!(*name, family, "{line}"),
            _ => {
                let name = line.split('{').next().expect("it has labels");
                assert!(name.starts_with(&family), "{line} is of {family}");
                let value = line.rsplit(' ').next().expect("it has a value");
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
    }
    let names = names();
    let rare = ["unread", "kept", "lost_in", "lost_out", "recent", "share", "ceiling"];
    let is_rare = |name: &str| rare.iter().any(|some| name.contains(some));
    let is_shown = |name: &str| text.contains(&format!("{name}{{"));
    let missing: Vec<_> = names.iter().filter(|name| !is_shown(name) && !is_rare(name)).collect();
    assert!(missing.is_empty(), "no sample of {missing:?}: give `text` a status that has them");
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}

/// Returns the names of metrics in a text.
fn mentioned(text: &str) -> impl Iterator<Item = &str> {
    let ends = |one: char| !one.is_ascii_alphanumeric() && one != '_';
    text.split(ends).filter(|word| word.starts_with("weir_"))
}

#[test]
fn the_dashboard_asks_for_metrics_that_exist() {
    let dashboard = include_str!("../../../dist/grafana/weir.json");
    let value: serde_json::Value = serde_json::from_str(dashboard).expect("it is JSON");
    assert!(value["panels"].as_array().is_some_and(|panels| panels.len() > 5));
    let names = names();
    let asked: BTreeSet<_> = mentioned(dashboard).collect();
    let unknown: Vec<_> =
        asked.iter().filter(|name| !names.contains(&(**name).to_owned())).collect();
    assert!(unknown.is_empty() && asked.len() > 10, "no metric is called {unknown:?}");
}
