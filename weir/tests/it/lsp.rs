//! `weir lsp` as an editor runs it, with the keys of every registry.

use crate::common;

use common::{command, example};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use weir_core::parameter::{Parameter, Scope};
use weir_core::queue::DROPPERS;
use weir_core::sched::SCHEDULERS;

/// An editor: it asks, and waits for the answer.
struct Editor {
    server: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    asked: i32,
}

impl Editor {
    fn start() -> Self {
        let mut command = command(&["lsp"]);
        let mut server =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("weir starts");
        let input = server.stdin.take().expect("it is piped");
        let output = BufReader::new(server.stdout.take().expect("it is piped"));
        let mut editor = Self { server, input, output, asked: 0 };
        editor.ask("initialize", json!({ "capabilities": {} }));
        editor
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        let sent = write!(self.input, "Content-Length: {}\r\n\r\n{text}", text.len());
        sent.and_then(|()| self.input.flush()).expect("the server reads");
    }

    fn read(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).expect("the server writes") > 0, "it goes on");
            match line.trim_end().strip_prefix("Content-Length: ") {
                Some(number) => length = number.parse().expect("a number"),
                None if line == "\r\n" => break,
                None => {}
            }
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body).expect("the server writes all");
        serde_json::from_slice(&body).expect("it is JSON")
    }

    fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let answer = self.read();
            if answer["id"] == id {
                assert!(answer.get("error").is_none(), "{answer}");
                return answer["result"].clone();
            }
        }
    }

    fn open(&mut self, path: &str, text: &str) {
        let item = json!({
            "uri": format!("file://{path}"), "languageId": "toml", "version": 1, "text": text,
        });
        self.tell("textDocument/didOpen", json!({ "textDocument": item }));
    }

    /// Waits for the diagnostics of a file.
    fn diagnostics(&mut self, path: &str) -> Value {
        loop {
            let message = self.read();
            if message["params"]["uri"] == format!("file://{path}") {
                return message["params"]["diagnostics"].clone();
            }
        }
    }

    fn at(&mut self, method: &str, path: &str, (line, character): (usize, usize)) -> Value {
        self.ask(
            method,
            json!({
                "textDocument": { "uri": format!("file://{path}") },
                "position": { "line": line, "character": character },
            }),
        )
    }

    /// Ends the server; returns its exit code.
    fn stop(mut self) -> Option<i32> {
        self.ask("shutdown", Value::Null);
        self.tell("exit", Value::Null);
        self.server.wait().expect("it ends").code()
    }
}

/// Checks that where a policy ends all of `wanted` are offered, each with its meaning.
fn check_offers(editor: &mut Editor, text: &str, wanted: &[&str]) {
    let path = "/offers.toml";
    editor.open(path, text);
    let last = text.rsplit('\n').next().unwrap_or_default();
    let place = (text.matches('\n').count(), last.len());
    let found = editor.at("textDocument/completion", path, place);
    let found = found.as_array().expect("a list");
    for key in wanted {
        let row = found.iter().find(|row| row["label"] == *key);
        let row = row.unwrap_or_else(|| panic!("{key} is not offered: {text}"));
        let meaning = row["documentation"]["value"].as_str().unwrap_or_default();
        assert!(meaning.len() > 10, "{key} has no meaning: {row}");
    }
}

fn names(rows: &[Parameter], scopes: &[Scope]) -> Vec<&'static str> {
    rows.iter().filter(|row| scopes.contains(&row.scope)).map(|row| row.name).collect()
}

#[test]
fn every_parameter_of_the_registries_is_offered_with_its_meaning() {
    let mut editor = Editor::start();
    let keywords: Vec<_> = SCHEDULERS.iter().map(|entry| entry.descriptor.keyword).collect();
    check_offers(&mut editor, "[class.a]\n[link]\nscheduler = ", &keywords);
    for entry in SCHEDULERS {
        let row = entry.descriptor;
        let link = format!("[link]\nscheduler = \"{}\"\n", row.keyword);
        let own = names(row.parameters, &[Scope::Link]);
        check_offers(&mut editor, &format!("[class.a]\n{link}[link.\"{}\"]\n", row.keyword), &own);
        let own = names(row.parameters, &[Scope::Class, Scope::Leaf]);
        check_offers(&mut editor, &format!("{link}[class.a]\n"), &own);
        check_offers(&mut editor, &format!("{link}[class.a]\nmatch = [{{ "), &["dscp", "dport"]);
    }
    let link = "[link]\nscheduler = \"drr\"\n[class.a]\n";
    for row in DROPPERS {
        let own = names(row.parameters, &[Scope::Queue]);
        let text = format!("{link}queue.dropper = \"{}\"\nqueue.", row.keyword);
        check_offers(&mut editor, &text, &own);
    }
    assert_eq!(editor.stop(), Some(0));
}

/// Files of every kind.
const EXAMPLES: [&str; 6] = [
    "home-cbq.toml",
    "home-htb.toml",
    "home.toml",
    "router.toml",
    "sim/md1.toml",
    "walk/evening.toml",
];

#[test]
fn every_key_of_the_examples_is_explained() {
    let mut editor = Editor::start();
    for name in EXAMPLES {
        let path = fs::canonicalize(example(name)).expect("it is there").display().to_string();
        let text = fs::read_to_string(&path).expect("it can be read");
        editor.open(&path, &text);
        let found = editor.diagnostics(&path);
        assert_eq!(found.as_array().map(Vec::len), Some(0), "{name}: {found}");
        for (number, line) in text.lines().enumerate() {
            let key = line.split_once(" = ").map(|(key, _)| key).filter(|key| !key.contains('#'));
            let Some(key) = key else { continue };
            let found = editor.at("textDocument/hover", &path, (number, key.len()));
            let meaning = found["contents"]["value"].as_str().unwrap_or_default();
            assert!(meaning.len() > 12, "{name}:{}: {line}: {found}", number + 1);
        }
    }
    assert_eq!(editor.stop(), Some(0));
}

#[test]
fn a_wrong_policy_is_told_of_and_what_is_no_message_ends_the_server() {
    let mut editor = Editor::start();
    editor.open("/wrong.toml", "[link]\nrate = \"9 Mbps\"\n[class.a]\n");
    let found = editor.diagnostics("/wrong.toml");
    let codes: Vec<_> = found.as_array().expect("a list").iter().map(|row| &row["code"]).collect();
    assert!(codes.contains(&&json!("W014")), "{found}");
    editor.input.write_all(b"hello\r\n\r\n").expect("the server reads");
    editor.input.flush().expect("the server reads");
    assert_eq!(editor.server.wait().expect("it ends").code(), Some(2));
}

#[test]
fn check_fix_writes_what_leaves_nothing_to_choose() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("fix.toml");
    let right = fs::read_to_string(example("home-htb.toml")).expect("it is there");
    fs::write(&path, right.replace("scheduler", "schedular")).expect("the folder is there");
    let name = path.display().to_string();
    let fixed = common::weir(&["check", "--fix", &name]);
    assert_eq!(fixed.status.code(), Some(0), "{fixed:?}");
    assert_eq!(fs::read_to_string(&path).expect("it is there"), right);
    let refused = common::weir(&["check", "--fix", &example("home.toml")]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}
