//! `weir sim` and `weir compare` on networks, and Ctrl-C during long runs.

use crate::common;

use common::{example, interrupted, json, weir};
use std::path::Path;

/// Checks that a command refuses with these texts.
fn check_refused(arguments: &[&str], says: &[&str]) {
    let output = weir(arguments);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "nothing ran: {output:?}");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    for words in says {
        assert!(message.contains(words), "{words}: {message}");
    }
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder for scratch files"))
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("the path is UTF-8").to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.at(name);
        std::fs::write(&path, text).expect("it can be written");
        path
    }
}

/// Two hosts and a router; the wide link and the narrow one both have a policy of two classes.
fn two_policies(folder: &Folder) -> String {
    let policy = |rate: u32| {
        format!(
            "[link.policy.link]\nrate = \"{rate} Mbit/s\"\nscheduler = \"cbq\"\n\
             [link.policy.class.a]\nrate = \"{} Mbit/s\"\nmatch = [{{ dport = 1 }}]\n\
             [link.policy.class.b]\nrate = \"{} Mbit/s\"\ndefault = true\n",
            rate / 4,
            rate / 4 * 3
        )
    };
    let source = |name: &str, port: u32| {
        format!(
            "[[source]]\nname = \"{name}\"\nkind = \"poisson\"\nfrom = \"host\"\nto = \"sink\"\n\
             dport = {port}\nsize = \"1000 B\"\nrate = \"6 Mbit/s\"\n"
        )
    };
    let text = format!(
        "duration = \"3 s\"\nwarmup = \"1 s\"\n\
         [[node]]\nname = \"host\"\n[[node]]\nname = \"sink\"\n\
         [[node]]\nname = \"router\"\nrouter = true\n\
         [[link]]\nname = \"wide\"\nends = [\"host\", \"router\"]\n{}\
         [[link]]\nname = \"narrow\"\nends = [\"router\", \"sink\"]\n{}{}{}",
        policy(100),
        policy(8),
        source("x", 1),
        source("y", 2),
    );
    folder.write("two.toml", &text)
}

#[test]
fn bins_rows_and_frames_of_a_network_cover_each_link() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    let folder = Folder::new();
    let path = two_policies(&folder);
    let [csv, rows, trace] = ["b.csv", "p.parquet", "p.pcapng"].map(|name| folder.at(name));
    let report =
        json(&["sim", &path, "--bins", "1s", "--csv", &csv, "--parquet", &rows, "--trace", &trace]);
    let text = std::fs::read_to_string(&csv).expect("it was written");
    assert!(text.starts_with("start_s,link,from,class,bytes\n0,wide,host,a,"), "{text}");
    let bins = &report["network"]["outlets"][2]["bins"]["classes"][1]["bytes"];
    assert!(text.contains(&format!("\n2,narrow,router,b,{}\n", bins[2])), "{text}");
    let file = std::fs::File::open(Path::new(&rows)).expect("it was written");
    let reader = SerializedFileReader::new(file).expect("it is Parquet");
    let mut sent = std::collections::BTreeMap::<String, u64>::new();
    for row in reader.get_row_iter(None).expect("it has rows") {
        let row = row.expect("it can be read");
        let text = |column: usize| row.get_string(column).expect("a text").clone();
        if text(5) == "sent" {
            *sent.entry(format!("{} from {}", text(6), text(7))).or_default() += 1;
        }
    }
    // Nothing is lost on the wide link, a third on the narrow one.
    let (wide, narrow) = (sent["wide from host"], sent["narrow from router"]);
    assert!(wide > 4000 && narrow > 2900 && narrow < 3100, "{sent:?}");
    let mut capture = weir_trace::capture::CaptureReader::open(&trace).expect("it is a capture");
    let mut frames = [0u64; 4];
    while let Some(frame) = capture.next_frame() {
        frames[frame.expect("it is whole").interface as usize] += 1;
    }
    assert_eq!(frames, [wide, 0, narrow, 0]);
    let names: Vec<_> = capture.interfaces().iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names[2], "narrow from router");
    let table = String::from_utf8(weir(&["sim", &path, "--bins", "1s"]).stdout).expect("text");
    assert_eq!(table.matches("bytes sent in bins of 1 s").count(), 2, "{table}");
}

#[test]
fn replications_of_a_network_are_the_same_on_any_number_of_threads() {
    let folder = Folder::new();
    let path = two_policies(&folder);
    let file = folder.at("runs.json");
    let run = |threads: &str| {
        json(&["sim", &path, "--replications", "4", "--threads", threads, "--json", &file])
    };
    let summary = run("1");
    let first = std::fs::read(&file).expect("it was written");
    assert_eq!(summary, run("3"));
    assert_eq!(first, std::fs::read(&file).expect("it was written"));
    let narrow = &summary["outlets"][2];
    assert_eq!((&narrow["link"], &narrow["from"]), (&"narrow".into(), &"router".into()));
    let sent = narrow["classes"][0]["sent_bps"]["mean"].as_f64().expect("a number");
    assert!((sent / 2e6 - 1.0).abs() < 0.01, "{narrow}");
    assert!(narrow["utilisation"]["within"].is_number(), "{narrow}");
}

#[test]
fn schedulers_are_compared_at_the_named_link() {
    let folder = Folder::new();
    let path = two_policies(&folder);
    let plot = folder.at("plot.svg");
    let schedulers = "cbq,htb,hfsc,drr,fifo";
    let arguments = ["compare", &path, "--link", "narrow", "--schedulers", schedulers];
    let compared = json(&[&arguments[..], &["--threads", "1", "--plot", &plot]].concat());
    assert_eq!(compared, json(&[&arguments[..], &["--threads", "3"]].concat()));
    assert_eq!(compared["outlet"], serde_json::json!(["narrow", "router"]));
    for row in compared["rows"].as_array().expect("a list") {
        let result = &row["result"];
        let number = |name: &str| result[name].as_f64().expect("a number");
        // All floods: a quarter against three quarters, except for a scheduler without rates.
        let error = if row["scheduler"] == "fifo" { 0.25 } else { 0.0 };
        assert!((number("share_error") - error).abs() < 0.015, "{row}");
        assert!(number("utilisation") > 0.99 && number("dropped") > 900.0, "{row}");
        let (first, ideal) = (&result["leaves"][0], [2e6, 6e6]);
        assert!((first["ideal_bps"].as_f64().expect("a number") - ideal[0]).abs() < 1.0, "{row}");
        assert!(first["delay_p99_us"].as_f64() >= first["delay_p50_us"].as_f64(), "{row}");
        assert!(number("cost") >= 0.5, "{row}");
    }
    let svg = std::fs::read_to_string(&plot).expect("it was written");
    assert!(svg.contains("hfsc") && svg.contains("</svg>"), "{svg}");
    // On the wide link nothing needs to be divided, so each class gets all it wants.
    let wide = json(&["compare", &path, "--link", "wide", "--schedulers", "drr"]);
    assert_eq!(wide["outlet"][0], "wide");
    assert!(wide["rows"][0]["result"]["share_error"].as_f64() < Some(0.001), "{wide}");
}

#[test]
fn an_ambiguous_comparison_lists_the_links() {
    let folder = Folder::new();
    let path = two_policies(&folder);
    let compare =
        |more: &[&'static str]| [&["compare", &path, "--schedulers", "drr"], more].concat();
    let both = ["at `wide` from `host`", "at `narrow` from `router`", "--link"];
    check_refused(&compare(&[]), &both);
    check_refused(&compare(&["--link", "narow"]), &["no link is called", "did you mean `narrow`?"]);
    check_refused(&compare(&["--link", "wide", "--from", "router"]), &["no policy stands there"]);
    let one = example("sim/access-link.toml");
    let arguments = ["compare", &one, "--schedulers", "drr", "--link", "x"];
    check_refused(&arguments, &["one link", "--link"]);
    // With only one link that has a policy, --link is optional.
    let compared =
        json(&["compare", &example("sim/two-pvcs.toml"), "--schedulers", "cbq-altq,drr"]);
    assert_eq!(compared["outlet"][0], "pvc3");
}

#[test]
fn a_network_that_does_not_fit_is_refused_before_it_starts() {
    let folder = Folder::new();
    let path = two_policies(&folder);
    let text = std::fs::read_to_string(&path).expect("it can be read");
    let tap =
        folder.write("tap.toml", &format!("{text}[[tap]]\nlink = \"wide\"\nrows = 4000000\n"));
    let limit = ["--memory", "100 MB"];
    let part = |what: &'static str, cure: &'static str| [what, cure, "more than the"];
    check_refused(&[&["sim", &tap], &limit[..]].concat(), &part("(taps", "lower `rows`"));
    let bins = ["sim", &path, "--bins", "10us", "--memory", "5 MB"];
    check_refused(&bins, &part("(bins", "widen the bins"));
    let rows = folder.at("p.parquet");
    let parquet = ["sim", &path, "--parquet", &rows, "--memory", "5 MB"];
    check_refused(&parquet, &["rows of packets", "--memory", "more than the"]);
    let many = ["sim", &path, "--replications", "10000", "--threads", "1", "--memory", "5 MB"];
    check_refused(&many, &part("10000 reports", "use fewer runs"));
}

#[test]
fn a_stop_reports_the_replications_of_a_network_that_ended() {
    let folder = Folder::new();
    let path = two_policies(&folder);
    let arguments = ["sim", &path, "--replications", "10000", "--threads", "2"];
    let ended = interrupted(&arguments);
    assert!(ended.stderr.contains("stopped: "), "{ended:?}");
    let text = ended.stdout;
    assert!(
        text.contains("of 10000 replications") && text.contains("narrow from router"),
        "{text}"
    );
}
