//! `weir view` of files: a record, also that of a simulation, and a report are served, other files
//! refused.

use crate::common;

use common::{command, example, weir};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

/// A page that is served until this is dropped.
struct Page {
    process: Child,
    address: String,
    token: String,
}

impl Page {
    fn of(file: &str) -> Self {
        let mut process = command(&["view", file]).stdout(Stdio::piped()).spawn().expect("starts");
        let mut line = String::new();
        let mut printed = BufReader::new(process.stdout.take().expect("it is a pipe"));
        printed.read_line(&mut line).expect("it prints an address");
        let url = line.trim().strip_prefix("http://").expect("an address");
        let (address, token) = url.split_once("/#token=").expect("a token");
        Self { address: address.to_owned(), token: token.to_owned(), process }
    }

    fn get(&self, path: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let Self { address, token, .. } = self;
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Authorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body = answer.split_once("\r\n\r\n").expect("a head ends").1;
        (status.expect("a status"), serde_json::from_str(body).expect("it is JSON"))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // One that has ended needs no signal.
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
    }
}

#[test]
fn a_report_of_a_simulation_is_shown_over_time() {
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let file = folder.path().join("report.json");
    let file = file.to_str().expect("a path in UTF-8");
    let written = common::json(&["sim", &example("sim/md1.toml"), "--bins", "100ms"]);
    fs::write(file, written.to_string()).expect("it is written");
    let page = Page::of(file);
    let (status, about) = page.get("/view/about");
    assert_eq!((status, &about["kind"], &about["step_ms"]), (200, &json!("report"), &json!(100)));
    let (status, history) = page.get("/view/history");
    assert_eq!(status, 200, "{history}");
    let class = &written["bins"]["classes"][0];
    let name = class["name"].as_str().expect("a name");
    let bytes = class["bytes"][3].as_f64().expect("a number");
    assert_eq!(history["classes"][name]["sent_bps"][3].as_f64(), Some(bytes * 8.0 / 0.1));
    assert_eq!(page.get("/view/heat?class=x").0, 404);
}

#[test]
fn a_record_is_shown_and_other_files_are_refused() {
    let folder = format!("{}/../fuzz/corpus/record", env!("CARGO_MANIFEST_DIR"));
    let page = Page::of(&format!("{folder}/change.seed"));
    let (status, about) = page.get("/view/about");
    assert_eq!((status, &about["kind"]), (200, &json!("record")), "{about}");
    assert_eq!(about["abilities"]["fork"], true, "{about}");
    assert_eq!(page.get("/view/history").0, 200);
    drop(page);
    let refused = weir(&["view", &example("sim/md1.toml")]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("no record and no report"), "{said}");
}

/// A simulation writes what a live link writes: the page has its packets, their causes and forks,
/// and what the record says is the report.
#[test]
fn a_simulation_is_recorded_and_shown_with_all_of_it() {
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let file = folder.path().join("run.pcapng");
    let file = file.to_str().expect("a path in UTF-8");
    let scenario = example("sim/access-link.toml");
    let report = common::json(&["sim", &scenario, "--record", file]);
    let again = common::json(&["replay", "--record", file]);
    assert_eq!((&again["difference"], &again["is_whole"]), (&Value::Null, &json!(true)));
    let page = Page::of(file);
    let (_, about) = page.get("/view/about");
    assert_eq!((&about["kind"], &about["abilities"]["fork"]), (&json!("record"), &json!(true)));
    let direction = &about["directions"][0];
    let names: Vec<&str> = direction["classes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|class| class["name"].as_str())
        .collect();
    assert_eq!(names, ["line", "voice", "video", "web", "bulk", "rest"], "{direction}");
    let (status, packets) = page.get("/view/packets?direction=link&class=rest&from=6000&to=7000");
    let packet = &packets["packets"][0];
    assert_eq!(status, 200, "{packets}");
    assert!(packet["sentence"].as_str().is_some_and(|said| !said.is_empty()), "{packets}");
    assert_eq!(page.get("/view/heat?direction=link&class=voice").0, 200);
    // What left in the simulation after the warm-up left in the record, too.
    let (_, history) = page.get("/view/history?direction=link&from=5000&to=30000");
    for class in report["classes"].as_array().into_iter().flatten() {
        let Some(name) = class["name"].as_str().filter(|name| *name != "line") else { continue };
        let bins = history["classes"][name]["sent_bps"].as_array().expect("bins");
        let sent: f64 = bins.iter().filter_map(Value::as_f64).sum::<f64>() / bins.len() as f64;
        let said = class["sent"]["bps"].as_f64().expect("a rate");
        assert!((sent - said).abs() <= 0.02 * said + 1e3, "{name}: {sent} of {said}");
    }
}

#[test]
fn a_link_with_a_driver_is_not_recorded_without_it() {
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let file = folder.path().join("run.pcapng");
    let file = file.to_str().expect("a path in UTF-8");
    let refused = weir(&["sim", &example("sim/two-pvcs.toml"), "--record", file]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("has a `driver`"), "{said}");
    assert!(!std::path::Path::new(file).exists());
}
