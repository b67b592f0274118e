//! The client: it opens files that exist only here, and waits for answers.

use lsp_server::{Connection, Message, Notification, Request, RequestId};
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use std::thread::{self, JoinHandle};
use weir_lsp::Schemas;
use weir_lsp::server::Server;

/// A client with its server.
pub struct Client {
    connection: Option<Connection>,
    server: Option<JoinHandle<bool>>,
    asked: i32,
}

/// Returns a server that finds these files on disk.
pub fn server(files: &'static [(&'static str, &'static str)]) -> Server {
    let read = |path: &Path| {
        let found = files.iter().find(|file| Path::new(file.0) == path);
        let bytes = found.map(|file| file.1.as_bytes().to_vec());
        bytes.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    };
    Server::new(schemas(), Box::new(read))
}

/// Schemas of a few keys. What `weir schema` prints is tested with the command.
pub fn schemas() -> Schemas {
    let link = |scheduler: &str, key: &str| {
        json!({ "properties": {
            "link": { "properties": {
                "scheduler": { "const": scheduler },
                "rate": { "description": "The rate of the line.", "examples": ["10 Mbit/s"] },
            }, "required": ["rate"] },
            "class": { "additionalProperties": { "type": "object", "properties": {
                key: { "description": "Of its own.", "examples": ["3"], "default": "1" },
                "parent": { "type": "string", "description": "The class above it." },
                "default": { "type": "boolean", "description": "Takes the rest." },
                "queue": { "$ref": "#/$defs/queue" },
            } } },
        } })
    };
    let dropper = |word: &str, key: &str, required: &[&str]| {
        json!({ "type": "object", "required": required, "properties": {
            "dropper": { "const": word }, key: { "description": "A size.", "examples": ["18 KB"] },
        } })
    };
    let policy = json!({
        "type": "object",
        "properties": { "link": true, "class": { "type": "object" } },
        "allOf": [{ "properties": { "link": { "properties": {
            "scheduler": { "enum": ["htb", "drr"], "description": "Which class sends next." },
        } } } }],
        "oneOf": [link("htb", "ceil"), link("drr", "quantum")],
        "$defs": { "queue": { "type": "object", "anyOf": [
            dropper("tail", "limit", &[]), dropper("red", "min", &["dropper"]),
        ] } },
    });
    let scenario = json!({ "type": "object", "properties": {
        "policy": { "anyOf": [{ "type": "string" }, { "type": "object" }] },
        "source": { "type": "array", "items": { "oneOf": [
            { "properties": { "kind": { "const": "cbr" }, "size": { "description": "Its size." } } },
            { "properties": { "kind": { "const": "tcp" }, "mss": { "description": "Its mss." } } },
        ] } },
    } });
    Schemas { policy, scenario, deployment: json!({}), words: |_| String::new() }
}

impl Client {
    /// Connects to a server that finds these files on disk.
    pub fn start(files: &'static [(&'static str, &'static str)]) -> Self {
        Self::with(files, json!({}))
    }

    /// As [`Client::start`], with these capabilities.
    pub fn with(files: &'static [(&'static str, &'static str)], capabilities: Value) -> Self {
        let (own, theirs) = Connection::memory();
        let server = thread::spawn(move || {
            let send = &mut |message| theirs.sender.send(message).map_err(io::Error::other);
            weir_lsp::serve(&theirs, &mut server(files), send).expect("the client listens")
        });
        let mut client = Self { connection: Some(own), server: Some(server), asked: 0 };
        client.request("initialize", json!({ "capabilities": capabilities }));
        client.notify("initialized", json!({}));
        client
    }

    fn connection(&self) -> &Connection {
        self.connection.as_ref().expect("it is there until the end")
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Value) {
        let notice = Notification { method: method.to_owned(), params };
        self.connection().sender.send(notice.into()).expect("the server is there");
    }

    /// Sends a request; returns its result, or the error as `{ "error": … }`.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let id = RequestId::from(self.asked);
        let request = Request { id: id.clone(), method: method.to_owned(), params };
        self.connection().sender.send(request.into()).expect("the server is there");
        loop {
            match self.connection().receiver.recv().expect("the server answers") {
                Message::Response(response) if response.id == id => {
                    let error = response.error.map(|error| json!({ "error": error.message }));
                    return error.or(response.result).expect("one of both is there");
                }
                _ => {}
            }
        }
    }

    /// Opens a file; returns its diagnostics.
    pub fn open(&self, path: &str, text: &str) -> Value {
        let item = json!({ "uri": uri(path), "languageId": "toml", "version": 1, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": item }));
        self.diagnostics(path)
    }

    /// Changes a file by `changes`.
    pub fn change(&self, path: &str, changes: Value) {
        let document = json!({ "uri": uri(path), "version": 2 });
        let params = json!({ "textDocument": document, "contentChanges": changes });
        self.notify("textDocument/didChange", params);
    }

    /// Waits for the diagnostics of a file.
    pub fn diagnostics(&self, path: &str) -> Value {
        loop {
            match self.connection().receiver.recv().expect("the server goes on") {
                Message::Notification(notice) if notice.params["uri"] == uri(path) => {
                    return notice.params["diagnostics"].clone();
                }
                _ => {}
            }
        }
    }

    /// Asks about the place of `part` in `text`.
    pub fn at(
        &mut self,
        method: &str,
        path: &str,
        (text, part): (&str, &str),
        more: Value,
    ) -> Value {
        let mut params = json!({
            "textDocument": { "uri": uri(path) }, "position": position(text, part),
        });
        let all = params.as_object_mut().expect("it is an object");
        all.extend(more.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())));
        self.request(method, params)
    }

    /// Ends the server; returns whether it ended in order.
    pub fn stop(mut self) -> bool {
        self.request("shutdown", Value::Null);
        self.notify("exit", Value::Null);
        self.server.take().expect("it runs").join().expect("it does not panic")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.take();
        if let Some(server) = self.server.take() {
            assert!(server.join().is_ok() || thread::panicking(), "the server panicked");
        }
    }
}

/// Returns the URI of a path.
pub fn uri(path: &str) -> String {
    format!("file://{path}")
}

/// Returns the position of the byte behind `part`, whose first `|` marks another place in it.
pub fn position(text: &str, part: &str) -> Value {
    let plain = part.replacen('|', "", 1);
    let start = text.find(&plain).unwrap_or_else(|| panic!("{plain:?} is in {text}"));
    let at = start + part.find('|').unwrap_or(plain.len());
    let line = text[..at].matches('\n').count();
    let begin = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    json!({ "line": line, "character": text[begin..at].encode_utf16().count() })
}

/// Returns the text after the edits of a list of `TextEdit`, all of whose characters are ASCII.
pub fn edited(text: &str, edits: &Value) -> String {
    let starts: Vec<usize> =
        std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let offset = |place: &Value| {
        let number = |key: &str| place[key].as_u64().expect("a number") as usize;
        starts[number("line")] + number("character")
    };
    let mut edits: Vec<_> = edits.as_array().expect("a list of edits").iter().collect();
    edits.sort_by_key(|edit| std::cmp::Reverse(offset(&edit["range"]["start"])));
    let mut text = text.to_owned();
    for edit in edits {
        let range = offset(&edit["range"]["start"])..offset(&edit["range"]["end"]);
        text.replace_range(range, edit["newText"].as_str().expect("a text"));
    }
    text
}
