//! Each finding of a lint whose cure is an edit has an action, and the action removes the finding.

use crate::client::{Client, edited, position, uri};
use serde_json::json;

const PATH: &str = "/p/policy.toml";

#[test]
fn each_action_of_a_lint_removes_its_finding() {
    let mut client = Client::start(&[]);
    for (code, trap) in weir_policy::traps() {
        let text = trap.policy;
        let found = client.open(PATH, text);
        assert_eq!(found[0]["code"], code.id, "{found}");
        // Which of them have none, and why, is in the tests of `weir-policy`.
        let fixes = weir_policy::parse(text, PATH).findings.remove(0).fixes;
        let params = json!({
            "textDocument": { "uri": uri(PATH) },
            "range": found[0]["range"],
            "context": { "diagnostics": found },
        });
        let actions = client.request("textDocument/codeAction", params);
        let actions = actions.as_array().expect("a list of actions");
        assert_eq!(actions.len(), fixes.len(), "{}: {actions:?}", code.id);
        for action in actions {
            assert_eq!(action["diagnostics"][0]["code"], code.id, "{action}");
            let cured = edited(text, &action["edit"]["changes"][uri(PATH)]);
            let left = client.open(PATH, &cured);
            let codes: Vec<_> =
                left.as_array().expect("a list").iter().map(|one| &one["code"]).collect();
            assert!(!codes.contains(&&json!(code.id)), "{action}: {left}");
            client.open(PATH, text);
        }
    }
}

#[test]
fn an_action_is_offered_only_at_its_finding() {
    let text = "[link]\nrate = \"9 Mbit/s\"\nscheduler = \"htb\"\n[class.a]\nrate = \"9 mbps\"\n\
                default = true\n";
    let mut client = Client::start(&[]);
    let found = client.open(PATH, text);
    let mut ask = |part: &str| {
        let place = position(text, part);
        client.request(
            "textDocument/codeAction",
            json!({
                "textDocument": { "uri": uri(PATH) },
                "range": { "start": place, "end": place },
                "context": { "diagnostics": found },
            }),
        )
    };
    let titles: Vec<String> = ask("9 mb")
        .as_array()
        .expect("a list")
        .iter()
        .map(|action| action["title"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(titles, ["W014: write `\"9 Mbit/s\"`", "W014: write `\"9 MB/s\"`"]);
    assert_eq!(ask("default"), json!([]));
}
