//! `weir whatif`: from a record of a simulated link to what another policy would have done.

use crate::common;

use common::{example, json, weir};

const WAS: &str = "[link]\nrate = \"8 Mbit/s\"\nscheduler = \"fifo\"\n[class.all]\ndefault = true\n\
                   queue = { limit = \"60 packets\" }\n";

#[test]
fn a_record_tells_its_policy_and_a_capture_is_asked_for_it() {
    let folder = tempfile::tempdir().expect("a folder for scratch files");
    let at = |name: &str| folder.path().join(name).to_str().expect("it is UTF-8").to_owned();
    let (record, capture) = (at("run.rec"), at("run.pcapng"));
    let scenario = example("sim/conversations.toml");
    let ran = weir(&["sim", &scenario, "--record", &record, "--trace", &capture]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let then = at("then.toml");
    let queue = WAS.replace("limit = \"60 packets\"", "dropper = \"fq-codel\"");
    std::fs::write(&then, queue).expect("it can be written");
    let found = json(&["whatif", &record, &then, "--replications", "2"]);
    assert_eq!(found["policies"].as_array().map(Vec::len), Some(1), "{found}");
    let groups = found["groups"].as_array().expect("a list");
    let class = groups.iter().find(|group| group["by"] == "class").expect("a class");
    let rows = class["rows"].as_array().expect("a list");
    let delay = rows.iter().find(|row| row["measure"] == "delay-p50").expect("a delay");
    assert_eq!(delay["forecasts"][0]["verdict"], "better", "{delay}");
    assert!(delay["captured"].as_f64().is_some_and(|delay| delay > 0.02), "{delay}");
    // Two runs are one run.
    assert_eq!(found, json(&["whatif", &record, &then, "--replications", "2", "--threads", "1"]));
    let refused = weir(&["whatif", &capture, &then]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("name the policy that was in force with --was"), "{said}");
    let was = at("was.toml");
    std::fs::write(&was, WAS).expect("it can be written");
    let told = weir(&["whatif", &capture, &then, "--was", &was]);
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(text.contains("cannot tell") && text.contains("one capture does not tell"), "{text}");
}

/// Returns the record of a simulated link, and what its link sent as a capture.
fn recorded(folder: &std::path::Path) -> (String, String) {
    let at = |name: &str| folder.join(name).to_str().expect("it is UTF-8").to_owned();
    let (record, capture) = (at("run.rec"), at("run.pcapng"));
    let scenario = example("sim/conversations.toml");
    let ran = weir(&["sim", &scenario, "--record", &record, "--trace", &capture]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    (record, capture)
}

#[test]
fn the_senders_of_a_fork_react_from_the_moment_on() {
    let folder = tempfile::tempdir().expect("a folder for scratch files");
    let (record, _) = recorded(folder.path());
    let ask = ["fork", &record, "--reacting", "--length", "4s", "--replications", "2", "--at"];
    let found = json(&[&ask[..], &["3s", "--set", "link.rate=4 Mbit/s"]].concat());
    assert_eq!(found["policies"][0], "link.rate=4 Mbit/s", "{found}");
    assert_eq!(found["seconds"], 4.0, "{found}");
    let groups = found["groups"].as_array().expect("a list");
    let class = groups.iter().find(|group| group["by"] == "class").expect("a class");
    let rate = &class["rows"][0];
    let value = |value: &serde_json::Value| value.as_f64().expect("it is known");
    // The line was full before, and is full with half of the rate.
    let (captured, known) = (value(&rate["captured"]), value(&rate["simulated"]));
    assert!((7.2e6..8.1e6).contains(&captured), "{rate}");
    assert!((known / captured - 1.0).abs() < 0.1, "{rate}");
    let forecast = &rate["forecasts"][0];
    assert!((3.6e6..4.1e6).contains(&value(&forecast["value"])), "{rate}");
    assert_eq!(forecast["verdict"], "worse", "{rate}");
    for (more, why) in [
        (&["3s"][..], "give one with --set KEY=VALUE"),
        (&["20s", "--set", "link.rate=8 Mbit/s"], "does not hold that moment"),
        (&["3s", "--set", "class.none.rate=8 Mbit/s"], "none"),
    ] {
        let refused = weir(&[&ask[..], more].concat());
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{more:?}: {said}");
        assert!(said.contains(why), "{more:?}: {said}");
    }
}

#[test]
fn a_promise_is_tested_under_a_capture_and_under_a_record() {
    let folder = tempfile::tempdir().expect("a folder for scratch files");
    recorded(folder.path());
    for (under, goal, code) in
        [("run.pcapng", "all.rate > 6 Mbit/s", 0), ("run.rec", "all.delay.p99 < 1 ms", 1)]
    {
        let policy = folder.path().join("promise.toml");
        let promise = format!("[[promise]]\nthat = \"{goal}\"\nunder = \"{under}\"\n");
        std::fs::write(&policy, format!("{WAS}{promise}")).expect("it can be written");
        let tested = weir(&["test", policy.to_str().expect("it is UTF-8"), "--runs", "3"]);
        let text = String::from_utf8_lossy(&tested.stdout).into_owned();
        assert_eq!(tested.status.code(), Some(code), "{tested:?}");
        assert!(text.contains(under), "{text}");
    }
}

/// A source that offers 8 Mbit/s of equal frames to a link of 5 Mbit/s.
const FLOOD: &str = "duration = \"4 s\"\n[policy.link]\nrate = \"5 Mbit/s\"\nscheduler = \"fifo\"\n\
                     [policy.class.all]\ndefault = true\nqueue = { limit = \"100 packets\" }\n\
                     [[source]]\nname = \"x\"\nkind = \"cbr\"\nproto = \"udp\"\nsrc = \"10.0.0.1\"\n\
                     dst = \"10.0.0.2\"\nsport = 1\ndport = 2\nsize = \"1000 B\"\nrate = \"8 Mbit/s\"\n";

#[test]
fn frames_that_are_alike_are_told_apart_in_a_record() {
    let folder = tempfile::tempdir().expect("a folder for scratch files");
    let at = |name: &str| folder.path().join(name).to_str().expect("it is UTF-8").to_owned();
    let (scenario, record, same) = (at("flood.toml"), at("flood.rec"), at("same.toml"));
    std::fs::write(&scenario, FLOOD).expect("it can be written");
    let policy = FLOOD.split_once("[policy.link]").and_then(|parts| parts.1.split_once("[[source"));
    let policy = policy.expect("it has one").0.replace("policy.", "");
    std::fs::write(&same, format!("[link]{policy}")).expect("it can be written");
    let ran = weir(&["sim", &scenario, "--record", &record]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let found = json(&["whatif", &record, &same]);
    let row = |measure: &str| {
        let groups = found["groups"].as_array().expect("a list");
        let rows = groups[0]["rows"].as_array().expect("a list");
        rows.iter().find(|row| row["measure"] == measure).expect("it is measured").clone()
    };
    // 100 packets of 1000 bytes wait 160 ms at most; 3 of 8 Mbit/s have no room.
    let captured = |measure: &str| row(measure)["captured"].as_f64().expect("it is known");
    assert!((0.15..0.165).contains(&captured("delay-p99")), "{}", row("delay-p99"));
    assert!((0.3..0.4).contains(&captured("loss")), "{}", row("loss"));
    assert_eq!(row("delay-p99")["forecasts"][0]["verdict"], "same", "one policy is itself");
}

#[test]
fn an_object_that_never_completes_is_worse() {
    let folder = tempfile::tempdir().expect("a folder for scratch files");
    let (record, _) = recorded(folder.path());
    let then = folder.path().join("then.toml");
    std::fs::write(&then, WAS.replace("8 Mbit/s", "1 bit/s")).expect("it can be written");
    let then = then.to_str().expect("it is UTF-8");
    let told = weir(&["whatif", &record, then]);
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    assert!(text.contains("none  worse"), "{text}");
}

#[test]
fn a_rate_of_a_record_is_its_policys_and_no_output_replaces_an_input() {
    let folder = tempfile::tempdir().expect("a folder for scratch files");
    let (record, capture) = recorded(folder.path());
    let found = json(&["infer", &record]);
    assert_eq!(found["rate_bps"], 8_000_000, "{}", found["notes"]);
    let at = |name: &str| folder.path().join(name).to_str().expect("it is UTF-8").to_owned();
    let (svg, was) = (at("capture.svg"), at("was.toml"));
    std::fs::copy(&capture, &svg).expect("it can be copied");
    std::fs::write(&was, WAS).expect("it can be written");
    let before = std::fs::read(&svg).expect("it is there");
    let refused = weir(&["whatif", &svg, &was, "--was", &was, "--plot", &svg]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("it is an input"), "{said}");
    assert!(std::fs::read(&svg).expect("it is there") == before);
}

#[test]
fn a_policy_is_named_from_the_folder_of_the_scenario() {
    let folder = tempfile::tempdir().expect("a folder for scratch files");
    let (record, _) = recorded(folder.path());
    std::fs::create_dir_all(folder.path().join("found/here")).expect("it can be made");
    std::fs::write(folder.path().join("was.toml"), WAS).expect("it can be written");
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
        let ran = command.args(words).current_dir(folder.path()).output();
        ran.expect("it starts")
    };
    let scenario = "found/here/run.toml";
    let inferred = run(&["infer", &record, "--policy", "was.toml", "-o", scenario]);
    assert_eq!(inferred.status.code(), Some(0), "{inferred:?}");
    let ran = run(&["sim", scenario]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
}

#[test]
fn a_search_that_alone_is_told_to_stop_ends_its_python() {
    let folder = tempfile::tempdir().expect("a folder for scratch files");
    let (policy, python) = (folder.path().join("was.toml"), folder.path().join("python"));
    std::fs::write(&policy, WAS).expect("it can be written");
    let script =
        format!("#!/bin/sh\necho >{}\nexec sleep 20\n", folder.path().join("on").display());
    std::fs::write(&python, script).expect("it can be written");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&python, executable).expect("it is there");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
    let words = ["tune", policy.to_str().expect("it is UTF-8"), "--goal", "min all.delay.p99"];
    let scenario = example("sim/conversations.toml");
    command.args(words).args(["--over", &scenario]).env("WEIR_PYTHON", &python);
    let mut child = command.spawn().expect("it starts");
    // The signal is taken from before the script runs on.
    weir_testbed::until("its Python runs", || folder.path().join("on").exists()).expect("it runs");
    weir_host::signals::end(child.id(), false).expect("it runs");
    let code = child.wait().expect("it ends").code();
    assert!(matches!(code, Some(130) | None), "{code:?}");
}
