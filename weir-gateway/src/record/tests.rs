//! The routes of a record, and of a link's ring: real records, and hostile ones.

use super::{Record, snapshot::Snapshot};
use crate::beside::Both;
use crate::http::guard::Site;
use crate::http::memory;
use crate::page::Page;
use crate::source::{Contact, Source};
use axum::Router;
use policies::text;
use recording::{Recording, policy};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use weir_control::protocol::Right;
use weir_core::random::Random;
use weir_sim::timeline::{Track, Tracks};
use weir_trace::series::ClassPoint;

#[path = "../../../weir-trace/tests/it/common/policies.rs"]
mod policies;
#[path = "../../../weir-trace/tests/it/common/recording.rs"]
mod recording;

fn bytes(turns: u32) -> Vec<u8> {
    let mut random = Random::new(51, 0);
    let own = policy("htb", "codel", "linear", &mut random);
    let new = text("htb", &mut random);
    Recording::new(&own, 51).expect("a sound policy").later().run(turns, Some(&new))
}

/// Returns the page of a source.
fn page(source: Arc<dyn Source>) -> Router {
    Page::new(source, None, Site::Local).router()
}

fn record(bytes: Vec<u8>) -> Router {
    let source: Arc<dyn Source> = Arc::new(Record::of_bytes("r", bytes).expect("a record"));
    page(source)
}

/// Returns the status and the JSON of an answer.
fn ask(shared: &Router, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let body = body.map_or(String::new(), |body| body.to_string());
    let length = match method {
        "GET" => String::new(),
        _ => format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()),
    };
    let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n{body}");
    let answer =
        String::from_utf8(memory::answer(request.as_bytes(), shared).answer).expect("it is text");
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = answer.split_once("\r\n\r\n").expect("a head ends").1;
    (status.expect("a status"), serde_json::from_str(body).expect("it is JSON"))
}

fn get(shared: &Router, path: &str) -> Value {
    let (status, answer) = ask(shared, "GET", path, None);
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

fn sum(row: &Value) -> f64 {
    row.as_array().expect("a row").iter().filter_map(Value::as_f64).sum()
}

#[test]
fn a_record_has_its_tree_its_history_and_its_changes() {
    let shared = record(bytes(200));
    let about = get(&shared, "/view/about");
    assert_eq!((&about["kind"], &about["abilities"]["fork"]), (&json!("record"), &json!(true)));
    let direction = &about["directions"][0];
    assert_eq!((&direction["name"], &direction["scheduler"]), (&json!("up"), &json!("htb")));
    let classes = direction["classes"].as_array().expect("a list");
    for (place, class) in classes.iter().enumerate() {
        assert!(class["parent"].as_u64().is_none_or(|parent| parent < place as u64), "{class}");
    }
    let history = get(&shared, "/view/history");
    let bins = history["t"].as_array().expect("a list").len();
    assert!(bins > 50, "{bins} bins");
    let all: f64 = history["classes"]
        .as_object()
        .expect("classes")
        .values()
        .map(|class| {
            assert_eq!(class["p99_us"].as_array().map(Vec::len), Some(bins));
            sum(&class["sent_bps"])
        })
        .sum();
    assert!(all > 0.0);
    // A part of it is that part of the whole.
    let (from, to) = (history["t"][10].as_f64(), history["t"][20].as_f64());
    let (from, to) = (from.expect("a time"), to.expect("a time"));
    let part = get(&shared, &format!("/view/history?from={from}&to={to}"));
    let ends = part["t"].as_array().expect("a list");
    assert!((9..=11).contains(&ends.len()), "{ends:?}");
    let finer = get(&shared, &format!("/view/history?from={from}&to={to}&step=1"));
    assert!(finer["t"].as_array().expect("a list").len() >= ends.len());
    let marks = get(&shared, "/view/events");
    let kinds: Vec<_> = marks.as_array().expect("a list").iter().map(|it| &it["kind"]).collect();
    assert!(kinds.contains(&&json!("policy-changed")) && kinds.contains(&&json!("stall")));
    let knobs = get(&shared, "/view/knobs");
    assert!(knobs.as_array().expect("a list").len() > 4, "{knobs}");
}

#[test]
fn a_simulation_beside_a_record_has_its_intervals_from_the_first_packet_on() {
    let record = Record::of_bytes("r", bytes(200)).expect("a record");
    let direction = "up".to_owned();
    let class = record.tape().directions()[0].classes.iter().find(|class| class.leaf).cloned();
    let name = class.expect("a policy has leaves").name;
    let track = |row: Vec<f64>| {
        let mut track = Track { name: name.clone(), ..Track::default() };
        for value in row.into_iter().map(Some) {
            let (sent_bps, offered_bps, p99_us) = (value, value, value);
            track.history.push(ClassPoint { sent_bps, offered_bps, p99_us, ..ClassPoint::IDLE });
        }
        track
    };
    let both = |row: Vec<f64>| {
        let simulated = Tracks { step_s: 0.001, classes: vec![track(row)], ..Tracks::default() };
        let record = Record::of_bytes("r", bytes(200)).expect("a record");
        page(Arc::new(Both { record, direction: direction.clone(), simulated }))
    };
    let shared = both(vec![1.0, 2.0, 3.0]);
    assert_eq!(get(&shared, "/view/about")["abilities"]["beside"], json!(true));
    let beside = get(&shared, "/view/beside?direction=up");
    assert_eq!(beside["simulated"][&name]["sent_bps"], json!([1.0, 2.0, 3.0]));
    assert_eq!(beside["simulated"][&name]["p50_us"], json!([null, null, null]));
    assert_eq!(beside["live"][&name]["sent_bps"].as_array().map(Vec::len), Some(3));
    let [first, second] = [0, 1].map(|bin| beside["t"][bin].as_f64().expect("a time"));
    assert!((second - first - 1.0).abs() < 1e-3, "{}", beside["t"]);
    // A simulation that is longer than the record is cut, and nothing of the record is lost.
    let long = get(&both(vec![1.0; 100_000]), "/view/beside");
    let bins = long["t"].as_array().map(Vec::len);
    assert!(bins > Some(50) && bins < Some(100_000), "{bins:?}");
    assert_eq!(long["simulated"][&name]["sent_bps"].as_array().map(Vec::len), bins);
    let offered = sum(&long["live"][&name]["offered_bps"]) / 8e3;
    let (from, to) = record.tape().span();
    let whole = get(&shared, &format!("/view/history?from={from}&to={to}&step=1"));
    let all = sum(&whole["classes"][&name]["offered_bps"]) / 8e3;
    assert!(all > 0.0 && (offered / all - 1.0).abs() < 0.05, "{offered} of {all} bytes");
    assert_eq!(ask(&shared, "GET", "/view/beside?direction=down", None).0, 404);
    let (status, refused) = ask(&self::record(bytes(20)), "GET", "/view/beside", None);
    assert_eq!(status, 404);
    assert!(refused["error"].as_str().is_some_and(|text| text.contains("demo --view")));
}

#[test]
fn a_cell_of_the_heat_map_leads_to_its_packets_and_their_delays_are_the_sum_of_parts() {
    let shared = record(bytes(200));
    let about = get(&shared, "/view/about");
    let leaf = |class: &&Value| class["leaf"] == true;
    let classes = about["directions"][0]["classes"].as_array().expect("a list");
    let names = classes.iter().filter(leaf).filter_map(|class| class["name"].as_str());
    let (mut cells, mut sentences) = (0, 0);
    for name in names {
        let heat = get(&shared, &format!("/view/heat?class={name}"));
        let (ends, edges) = (&heat["t"], heat["edges_us"].as_array().expect("a list"));
        let counts = heat["counts"].as_array().expect("a list");
        for bin in (30..counts.len()).step_by(7) {
            let row = counts[bin].as_array().expect("a row");
            let Some(cell) = row.iter().rposition(|count| count.as_u64() > Some(0)) else {
                continue;
            };
            let path = format!(
                "/view/packets?class={name}&from={}&to={}&delay_min_us={}&delay_max_us={}",
                ends[bin - 1],
                ends[bin],
                edges[cell],
                edges[cell + 1]
            );
            let found = get(&shared, &path);
            let packets = found["packets"].as_array().expect("a list");
            let sent = packets.iter().filter(|packet| packet["dropped"].is_null()).count();
            assert_eq!(Some(sent as u64), row[cell].as_u64(), "{path}");
            for packet in packets {
                let late = ["host", "port"];
                let parts = packet["parts_us"].as_object().expect("parts").iter();
                let parts = parts.filter(|part| !late.contains(&part.0.as_str()));
                let whole: f64 = parts.filter_map(|part| part.1.as_f64()).sum();
                assert!((whole - packet["total_us"].as_f64().expect("a time")).abs() < 1e-3);
                let sentence = packet["sentence"].as_str().expect("a text");
                sentences += usize::from(sentence.contains("waited") && sentence.contains(name));
            }
            cells += 1;
        }
    }
    assert!(cells > 10 && sentences > 10, "{cells} cells, {sentences} sentences");
    let few = get(&shared, "/view/packets?limit=3");
    assert_eq!(few["packets"].as_array().map(Vec::len), Some(3));
    assert!(few["left_out"].as_u64() > Some(100), "{}", few["left_out"]);
}

#[test]
fn a_fork_by_its_route_is_identical_without_a_change_and_differs_with_one() {
    let shared = record(bytes(200));
    let about = get(&shared, "/view/about");
    let (from, to) = (about["from"].as_f64(), about["to"].as_f64());
    let (from, to) = (from.expect("a time"), to.expect("a time"));
    let fork = |at: f64, settings: Value| {
        let body = json!({ "at": at, "seconds": 5.0, "settings": settings });
        ask(&shared, "POST", "/view/fork", Some(body))
    };
    for at in [from, (from + to) / 2.0] {
        let (status, same) = fork(at, json!([]));
        assert_eq!((status, &same["identical"]), (200, &json!(true)), "{same}");
        assert_eq!(same["recorded"], same["forked"]);
        assert!(same["packets"].as_u64() > Some(100) && same["open_loop"] == true);
    }
    let faster = json!([{ "key": "link.rate", "value": "12 Mbit/s" }]);
    let (status, other) = fork((from + to) / 2.0, faster);
    assert_eq!((status, &other["identical"]), (200, &json!(false)), "{other}");
    assert!(other["first_difference"].as_str().is_some_and(|it| it.contains("recorded:")));
    assert_ne!(other["recorded"], other["forked"]);
    for card in ["chain", "packet"] {
        let body = json!({ "at": from, "seconds": 5.0, "card": card });
        let (status, other) = ask(&shared, "POST", "/view/fork", Some(body));
        assert_eq!((status, &other["identical"]), (200, &json!(false)), "{other}");
        let runs = |name: &str| other["runs"][name].as_u64().expect("a card asks");
        assert!(runs("all") > 100 && runs("contended") <= runs("all"), "{}", other["runs"]);
        let total = |of: &str, what: &str| -> u64 {
            let rows = other[of].as_object().expect("classes").values();
            rows.map(|row| row[what].as_u64().expect("a number")).sum()
        };
        let sent =
            [total("recorded_totals", "sent_packets"), total("forked_totals", "sent_packets")];
        assert!(sent.iter().all(|&sent| sent > 100), "{sent:?}");
    }
    let unknown = json!({ "at": from, "seconds": 5.0, "card": "wax" });
    let (status, refused) = ask(&shared, "POST", "/view/fork", Some(unknown));
    assert!(status == 400 && refused.to_string().contains("`chain` or `packet`"), "{refused}");
    let rows = [
        (to + 5000.0, json!([]), "after its beginning"),
        (0.0, json!([]), "before the record begins"),
        (from, json!([{ "key": "class.nobody.x", "value": "1" }]), "nobody"),
        (from, json!([{ "key": "link.rate", "value": "1", "direction": "down" }]), "fork that one"),
    ];
    for (at, settings, said) in rows {
        let (status, refused) = fork(at, settings);
        let text = refused["error"].as_str().unwrap_or_default();
        assert!((400..500).contains(&status) && text.contains(said), "{status}: {refused}");
    }
}

#[test]
fn senders_react_to_a_change_by_their_route() {
    let shared = record(bytes(200));
    let about = get(&shared, "/view/about");
    let at = about["from"].as_f64().expect("a time");
    let react = |more: Value| {
        let mut body = json!({ "at": at, "seconds": 5.0 });
        body.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("one"));
        ask(&shared, "POST", "/view/reacting", Some(body))
    };
    let faster = json!([{ "key": "link.rate", "value": "12 Mbit/s" }]);
    let (status, told) = react(json!({ "settings": faster }));
    assert_eq!((status, &told["policies"]), (200, &json!(["link.rate=12 Mbit/s"])), "{told}");
    let groups = told["groups"].as_array().expect("a list");
    let rates = groups.iter().filter(|group| group["by"] == "class").map(|group| &group["rows"][0]);
    let known = |row: &Value| row["captured"].is_number() && row["forecasts"][0]["bar"].is_number();
    assert!(rates.clone().count() > 1 && rates.clone().all(known), "{told}");
    for (more, said) in [
        (json!({}), "name one in `settings`"),
        (json!({ "settings": faster, "card": "chain" }), "no `card`"),
        (json!({ "settings": [{ "key": "class.nobody.x", "value": "1" }] }), "nobody"),
        (json!({ "settings": faster, "at": at + 1e6 }), "after its beginning"),
    ] {
        let (status, refused) = react(more);
        let text = refused["error"].as_str().unwrap_or_default();
        assert!((400..500).contains(&status) && text.contains(said), "{status}: {refused}");
    }
}

#[test]
fn what_a_change_of_a_record_would_lead_to_is_predicted_and_its_promises_are_told() {
    let shared = record(bytes(60));
    let predict = |key: &str, value: &str| {
        let body = json!({ "settings": [{ "key": key, "value": value }] });
        ask(&shared, "POST", "/view/predict", Some(body))
    };
    let (status, other) = predict("link.rate", "12 Mbit/s");
    assert_eq!((status, &other["errors"]), (200, &json!(0)), "{other}");
    assert!(other["difference"].as_str().is_some_and(|text| text.contains("rate")), "{other}");
    assert!(other["classes"].as_array().is_some_and(|rows| rows.len() > 2), "{other}");
    // Without a change every finding is one that the policy has anyway.
    let about = get(&shared, "/view/about");
    let rate = about["directions"][0]["rate_bps"].as_f64().expect("a rate");
    let (status, same) = predict("link.rate", &format!("{rate} bit/s"));
    assert_eq!((status, &same["findings"]), (200, &json!([])), "{same}");
    let (status, wrong) = predict("link.rate", "none");
    assert!(status == 200 && wrong["errors"].as_u64() > Some(0), "{status}: {wrong}");
    let body = json!({ "settings": [{ "key": "link.rate", "value": "1", "direction": "down" }] });
    assert_eq!(ask(&shared, "POST", "/view/predict", Some(body)).0, 400);
    let told = get(&shared, "/view/promises");
    assert!(told["promises"].is_array() && told["offers"].is_array(), "{told}");
}

#[test]
fn what_is_not_there_is_refused() {
    let shared = record(bytes(60));
    let rows = [
        ("/view/heat?class=nobody", 404, "no class `nobody`"),
        ("/view/packets?class=nobody", 404, "no class `nobody`"),
        ("/view/history?direction=side", 404, "it has up"),
        ("/view/packets?delay_min_us=-1", 400, "below 0"),
        ("/view/history?from=-1e300", 400, "below 0"),
        ("/view/history?step=0.5", 400, "docs/view.md"),
    ];
    for (path, status, said) in rows {
        let (got, answer) = ask(&shared, "GET", path, None);
        let text = answer["error"].as_str().unwrap_or_default();
        assert!(got == status && text.contains(said), "{path}: {got}: {text}");
    }
}

#[test]
fn hostile_records_give_errors_and_the_server_goes_on() {
    let whole = bytes(30);
    let mut random = Random::new(52, 0);
    let mut opened = 0;
    for _ in 0..30 {
        let mut hostile = whole.clone();
        for _ in 0..1 + random.below(4) {
            let place = random.below(hostile.len() as u32) as usize;
            hostile[place] = random.bits() as u8;
        }
        hostile.truncate(hostile.len() - random.below(2000) as usize);
        let Ok(record) = Record::of_bytes("r", hostile) else { continue };
        let shared = page(Arc::new(record));
        opened += 1;
        let (status, about) = ask(&shared, "GET", "/view/about", None);
        assert_eq!(status, 200, "{about}");
        let body = json!({ "at": about["from"], "seconds": 1.0, "settings": [] });
        let asked = [
            ask(&shared, "GET", "/view/history", None),
            ask(&shared, "GET", "/view/packets?limit=2", None),
            ask(&shared, "GET", "/view/events", None),
            ask(&shared, "POST", "/view/fork", Some(body)),
        ];
        for (status, answer) in asked {
            assert!(status == 200 || answer["error"].is_string(), "{status}: {answer}");
        }
    }
    assert!(opened > 10, "{opened} of 30");
}

/// A link that answers a request for a snapshot with bytes.
struct Ring(Result<Vec<u8>, &'static str>);

impl Contact for Ring {
    fn connect(&self, _right: Right) -> Result<UnixStream, String> {
        let (mut own, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
        let reply = self.0.clone();
        std::thread::spawn(move || {
            let mut byte = [0];
            let _gone = own.write_all(b"\"done\"\n");
            while own.read(&mut byte).is_ok_and(|count| count > 0 && byte != *b"\n") {}
            let _gone = match reply {
                Ok(bytes) => {
                    let head = format!("\"done\"\n{:x}\n", bytes.len());
                    own.write_all(&[head.as_bytes(), &bytes, b"0\n"].concat())
                }
                Err(why) => own.write_all(format!("{{\"error\":\"{why}\"}}\n").as_bytes()),
            };
        });
        Ok(theirs)
    }

    fn may_change(&self) -> bool {
        false
    }
}

#[test]
fn the_ring_of_a_link_is_taken_once_for_all_who_ask_for_its_time_within_a_second() {
    let (snapshot, ring) = (Snapshot::default(), Ring(Ok(bytes(60))));
    let tape = snapshot.take(&ring, (Some(5e3), None)).unwrap_or_else(|fault| panic!("{fault:?}"));
    let twice = Ring(Err("asked twice"));
    let within = (Some(6e3), Some(7e3));
    let again = snapshot.take(&twice, within).unwrap_or_else(|it| panic!("{it:?}"));
    assert!(Arc::ptr_eq(&tape, &again));
    let (from, to) = tape.span();
    assert!(to > from);
    let none =
        Snapshot::default().take(&Ring(Err("the link keeps no ring; write `ring`")), (None, None));
    assert!(none.is_err_and(|fault| fault.status == 409 && fault.text.contains("write `ring`")));
    let cut = Snapshot::default().take(&Ring(Ok(b"half".to_vec())), (None, None));
    let before = snapshot.take(&twice, (Some(4e3), Some(7e3)));
    assert!(before.is_err_and(|fault| fault.text.contains("asked twice")), "another time");
    assert!(cut.is_err_and(|fault| fault.text.contains("no record")));
}
