//! The life of a server: what it says of itself, what it refuses, what it does not do twice.

use crate::client::{Client, server, uri};
use lsp_server::{Message, Notification, Request};
use serde_json::{Value, json};

const RIGHT: &str = "[link]\nrate = \"9 Mbit/s\"\nscheduler = \"htb\"\n[class.a]\nrate = \"9 Mbit/s\"\n\
                     default = true\n";

fn notice(method: &str, params: Value) -> Message {
    Notification { method: method.to_owned(), params }.into()
}

fn request(method: &str, params: Value) -> Message {
    Request { id: 1.into(), method: method.to_owned(), params }.into()
}

fn error(out: &[Message]) -> i32 {
    match out {
        [Message::Response(response)] => response.error.as_ref().map_or(0, |error| error.code),
        other => panic!("one response: {other:?}"),
    }
}

#[test]
fn requests_come_between_initialize_and_shutdown() {
    let mut server = server(&[]);
    let hover = || request("textDocument/hover", json!({}));
    assert_eq!(error(&server.handle(hover())), -32002);
    assert_eq!(error(&server.handle(request("initialize", json!({ "capabilities": {} })))), 0);
    assert_eq!(error(&server.handle(hover())), -32602);
    assert_eq!(error(&server.handle(request("no/such", json!({})))), -32601);
    assert_eq!(error(&server.handle(request("shutdown", Value::Null))), 0);
    assert_eq!(error(&server.handle(hover())), -32600);
    assert_eq!(server.ended(), None);
    assert!(server.handle(notice("exit", Value::Null)).is_empty());
    assert_eq!(server.ended(), Some(true));
}

#[test]
fn a_client_that_goes_without_a_word_ends_the_server_out_of_order() {
    let mut server = server(&[]);
    server.handle(notice("exit", Value::Null));
    assert_eq!(server.ended(), Some(false));
    assert!(Client::start(&[]).stop());
}

#[test]
fn of_many_changes_only_the_last_is_checked() {
    let mut server = server(&[]);
    server.handle(request("initialize", json!({ "capabilities": {} })));
    let item = json!({ "uri": uri("/p"), "languageId": "toml", "version": 1, "text": RIGHT });
    server.handle(notice("textDocument/didOpen", json!({ "textDocument": item })));
    for version in 0..50 {
        let change = json!({ "text": format!("{RIGHT}x{version} = 1\n") });
        let params = json!({
            "textDocument": { "uri": uri("/p"), "version": version }, "contentChanges": [change],
        });
        assert!(server.handle(notice("textDocument/didChange", params)).is_empty());
    }
    let out = server.settle();
    assert!(server.is_settled());
    let [Message::Notification(told)] = &out[..] else { panic!("one notification: {out:?}") };
    let text = told.params["diagnostics"][0]["message"].as_str().unwrap_or_default();
    assert!(text.contains("`x49`"), "{text}");
}

#[test]
fn positions_are_utf_16_unless_the_client_offers_utf_8() {
    let rows = [
        (json!({}), "utf-16", 10),
        (json!(["utf-16"]), "utf-16", 10),
        (json!(["utf-8"]), "utf-8", 13),
    ];
    for (offered, chosen, character) in rows {
        let capabilities = match offered.is_array() {
            true => json!({ "general": { "positionEncodings": offered } }),
            false => json!({}),
        };
        let mut server = server(&[]);
        let answer = server.handle(request("initialize", json!({ "capabilities": capabilities })));
        let [Message::Response(answer)] = &answer[..] else { panic!("one response") };
        let result = answer.result.clone().unwrap_or_default();
        assert_eq!(result["capabilities"]["positionEncoding"], chosen);
        let client = Client::with(&[], capabilities);
        let found = client.open("/p", "[class.a]\nx = '😀µ' y\n");
        assert_eq!(
            found[0]["range"]["start"],
            json!({ "line": 1, "character": character }),
            "{found}"
        );
    }
}

#[test]
fn a_change_in_parts_gives_the_diagnostics_of_the_whole() {
    let client = Client::start(&[]);
    assert_eq!(client.open("/p", RIGHT), json!([]));
    let place = |line: u32, character: u32| json!({ "line": line, "character": character });
    let range = json!({ "start": place(1, 8), "end": place(1, 9) });
    client.change("/p", json!([{ "range": range, "text": "1" }]));
    assert_eq!(client.diagnostics("/p")[0]["code"], "W113");
    client.change("/p", json!([{ "range": range, "text": "9" }]));
    assert_eq!(client.diagnostics("/p"), json!([]));
    // Behind the end, backwards, and in no file: nothing breaks.
    let wrong = json!({ "start": place(99, 99), "end": place(0, 0) });
    client.change("/p", json!([{ "range": wrong, "text": "# end" }]));
    assert_eq!(client.diagnostics("/p"), json!([]));
    client.change("/other", json!([{ "text": "" }]));
    assert!(client.stop());
}

const FILES: &[(&str, &str)] = &[("/d/p.toml", RIGHT)];
const SCENARIO: &str = "policy = \"p.toml\"\nduration = \"1 s\"\n[[source]]\nname = \"s\"\nkind = \"cbr\"\n\
                        rate = \"1 Mbit/s\"\nsize = \"100 B\"\nclass = \"a\"\n";

#[test]
fn an_open_buffer_goes_before_the_file_on_disk() {
    let client = Client::start(FILES);
    assert_eq!(client.open("/d/s.toml", SCENARIO), json!([]));
    // The scenario is checked again when the policy that it names changes.
    let broken = RIGHT.replace("class.a", "class.b");
    assert_eq!(client.open("/d/p.toml", &broken), json!([]));
    let found = client.diagnostics("/d/s.toml");
    assert!(found[0]["message"].as_str().is_some_and(|text| text.contains("`a`")), "{found}");
    client.notify("textDocument/didClose", json!({ "textDocument": { "uri": uri("/d/p.toml") } }));
    assert_eq!(client.diagnostics("/d/s.toml"), json!([]));
}

#[test]
fn other_files_than_weirs_have_no_diagnostics() {
    let client = Client::start(&[]);
    assert_eq!(client.open("/Cargo.toml", "[package]\nname = 3\n[broken\n"), json!([]));
}
