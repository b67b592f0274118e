//! Writes tracks as a data file of Flent, the network tester, whose own plots then show them.
//!
//! The form is Flent's fourth: one JSON object with `version`, `metadata`, `x_values`, `results`
//! and `raw_values`, in gzip. Flent finds plots by the name of the test that made a file, so the
//! file says that of [`TEST`]: every class is a host there, its throughput an upload to it, and its
//! delay a ping. Invariant: equal tracks give equal bytes, so the time is that of a virtual start.

use flate2::{Compression, GzBuilder};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use weir_sim::timeline::{Track, Tracks};

/// Returns the file; `name` is what Flent shows it as.
///
/// # Errors
/// When compression fails.
pub fn file(tracks: &Tracks, name: &str) -> Result<Vec<u8>, String> {
    let text = object(tracks, name).to_string();
    // Without a time of writing.
    let mut packed = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    let written = packed.write_all(text.as_bytes()).and_then(|()| packed.finish());
    written.map_err(|error| format!("cannot compress {name}: {error}"))
}

/// Returns the object that the file holds.
pub fn object(tracks: &Tracks, name: &str) -> Value {
    let bins = tracks.classes.first().map_or(0, |track| track.history.sent_bps.len());
    let length = bins as f64 * tracks.step_s;
    let hosts: Vec<&str> = tracks.classes.iter().map(|track| track.name.as_str()).collect();
    let results = results(tracks, bins);
    let times: Vec<f64> = (0..bins).map(|bin| (bin as f64 + 0.5) * tracks.step_s).collect();
    json!({
        "version": VERSION,
        "metadata": {
            "NAME": TEST,
            "TITLE": tracks.title,
            "NOTE": format!("written by weir; {}", tracks.about),
            "DATA_FILENAME": name,
            "TIME": START,
            "T0": START,
            "LOCAL_HOST": "weir",
            "HOST": hosts.first().copied().unwrap_or("weir"),
            "HOSTS": hosts,
            "LENGTH": length,
            "TOTAL_LENGTH": length,
            "STEP_SIZE": tracks.step_s,
            "IP_VERSION": 4,
            "TEST_PARAMETERS": {},
            "SERIES_META": {},
        },
        "x_values": times,
        "results": results,
        "raw_values": raw(&results, &times),
    })
}

/// Returns each series as single values with their times: Flent draws no file without any.
fn raw(results: &Map<String, Value>, times: &[f64]) -> BTreeMap<String, Vec<Value>> {
    let points = |values: &Value| {
        let values = values.as_array().into_iter().flatten().zip(times);
        let known = values.filter(|(value, _)| !value.is_null());
        known.map(|(value, t)| json!({ "t": t, "val": value })).collect()
    };
    results.iter().map(|(name, values)| (name.clone(), points(values))).collect()
}

/// Returns each series by Flent's name for it, in Mbit/s and ms.
fn results(tracks: &Tracks, bins: usize) -> Map<String, Value> {
    let mut results = Map::new();
    let mega = |bps: f64| bps / 1e6;
    for Track { name, history, .. } in &tracks.classes {
        let rates: Vec<_> = history.sent_bps.iter().map(|bps| bps.map(mega)).collect();
        let delays: Vec<_> =
            history.p50_us.iter().map(|delay| delay.map(|micros| micros / 1e3)).collect();
        results.insert(format!("TCP upload BE {name}"), json!(rates));
        results.insert(format!("Ping (ms) ICMP {name}"), json!(delays));
    }
    let in_bin = |bin: usize| {
        let rates = tracks.classes.iter().filter_map(move |track| track.history.sent_bps[bin]);
        rates.map(mega)
    };
    let count = tracks.classes.len().max(1) as f64;
    let each = |of: &dyn Fn(usize) -> Option<f64>| json!((0..bins).map(of).collect::<Vec<_>>());
    let sum = |bin: usize| in_bin(bin).sum::<f64>();
    results.insert("TCP upload sum".to_owned(), each(&|bin| Some(sum(bin))));
    results.insert("TCP upload avg".to_owned(), each(&|bin| Some(sum(bin) / count)));
    let fairness = |bin: usize| {
        let squares: f64 = in_bin(bin).map(|rate| rate * rate).sum();
        (squares > 0.0).then(|| sum(bin) * sum(bin) / (squares * count))
    };
    results.insert("TCP upload fairness".to_owned(), each(&fairness));
    let delay = |bin: usize| {
        let delays: Vec<f64> =
            tracks.classes.iter().filter_map(|track| track.history.p50_us[bin]).collect();
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        (!delays.is_empty()).then_some(mean / 1e3)
    };
    results.insert("Ping (ms) avg".to_owned(), each(&delay));
    results
}

/// The version of the form.
const VERSION: u32 = 4;
/// Flent's test with any number of hosts, each with an upload and a ping.
pub const TEST: &str = "rtt_fair_var_up";
/// The virtual start: a run has no date.
const START: &str = "1970-01-01T00:00:00.000000Z";

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;
    use weir_trace::series::ClassHistory;

    fn tracks() -> Tracks {
        let track = |name: &str, mega: f64| Track {
            name: name.to_owned(),
            history: ClassHistory {
                sent_bps: vec![Some(mega * 1e6), Some(0.0)],
                p50_us: vec![Some(mega * 1500.0), None],
                ..ClassHistory::default()
            },
            ..Track::default()
        };
        let classes = vec![track("voice", 1.0), track("rest", 3.0)];
        Tracks { title: "evening".to_owned(), step_s: 0.5, classes, ..Tracks::default() }
    }

    #[test]
    fn the_object_has_what_flents_form_4_needs() {
        let object = object(&tracks(), "evening.flent.gz");
        assert_eq!(object["version"], 4);
        // What Flent refuses a file without, or its plots need.
        for key in ["NAME", "TIME", "DATA_FILENAME", "HOSTS", "LENGTH", "TOTAL_LENGTH", "STEP_SIZE"]
        {
            assert!(!object["metadata"][key].is_null(), "{key}");
        }
        assert_eq!(object["metadata"]["NAME"], TEST);
        assert_eq!(object["x_values"], json!([0.25, 0.75]));
        let results = object["results"].as_object().expect("an object of series");
        for (name, values) in results {
            assert_eq!(values.as_array().map(Vec::len), Some(2), "{name}: a value for each x");
        }
        assert_eq!(results["TCP upload BE voice"], json!([1.0, 0.0]));
        assert_eq!(results["Ping (ms) ICMP rest"], json!([4.5, null]));
        assert_eq!(results["TCP upload sum"], json!([4.0, 0.0]));
        assert_eq!(results["TCP upload avg"], json!([2.0, 0.0]));
        assert_eq!(results["TCP upload fairness"], json!([0.8, null]));
        assert_eq!(results["Ping (ms) avg"], json!([3.0, null]));
        let raw = &object["raw_values"]["Ping (ms) ICMP rest"];
        assert_eq!(raw, &json!([{ "t": 0.25, "val": 4.5 }]));
    }

    #[test]
    fn the_file_is_that_object_in_gzip_and_the_same_each_time() {
        let file = file(&tracks(), "a.flent.gz").expect("is written");
        let mut text = String::new();
        GzDecoder::new(&file[..]).read_to_string(&mut text).expect("is gzip");
        let read: Value = serde_json::from_str(&text).expect("is JSON");
        assert_eq!(read, object(&tracks(), "a.flent.gz"));
        assert_eq!(super::file(&tracks(), "a.flent.gz").expect("is written"), file);
    }
}
