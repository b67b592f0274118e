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
