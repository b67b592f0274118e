//! The server as a state machine: messages in, messages out; it reads files by a function that it
//! is given, and has neither clock nor thread.
//!
//! A change only marks a file. It is checked when no message waits, so that of several changes only
//! the last costs a check.

use crate::actions::{self, actions};
use crate::checked::Checked;
use crate::classes::{self, Occurrence};
use crate::completion::completion;
use crate::diagnostics::diagnostics;
use crate::document::Document;
use crate::hints::hints;
use crate::hover::hover;
use crate::position::Encoding;
use crate::schema::Schemas;
use crate::symbols::symbols;
use crate::uri;
use crate::workspace::{Uses, Workspace, normal};
use lsp_server::{ErrorCode, Message, Notification, Request, RequestId, Response, ResponseError};
use lsp_types::notification::{self as notice, Notification as _};
use lsp_types::request::{self as ask, Request as _};
use lsp_types::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// Reads a file that is not open.
pub type ReadDisk = Box<dyn Fn(&Path) -> io::Result<Vec<u8>>>;

/// The server.
pub struct Server {
    schemas: Schemas,
    read_disk: ReadDisk,
    phase: Phase,
    encoding: Encoding,
    documents: BTreeMap<String, Document>,
    /// The URI that the client has for each open file.
    uris: BTreeMap<String, Uri>,
    /// Open files whose diagnostics are old.
    stale: BTreeSet<String>,
    /// The files that checking an open file read.
    reads: BTreeMap<String, BTreeSet<String>>,
    /// The diagnostics that the client has: of each file, by the open file whose check found them.
    shown: BTreeMap<String, BTreeMap<String, Vec<Diagnostic>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Fresh,
    Running,
    ShutDown,
    /// Ended, after `shutdown` or without it.
    Ended(bool),
}

/// The result of a request, or why there is none.
type Answer = Result<Value, (ErrorCode, String)>;

impl Server {
    /// A server that has not met its client.
    pub fn new(schemas: Schemas, read_disk: ReadDisk) -> Self {
        Self {
            schemas,
            read_disk,
            phase: Phase::Fresh,
            encoding: Encoding::default(),
            documents: BTreeMap::new(),
            uris: BTreeMap::new(),
            stale: BTreeSet::new(),
            reads: BTreeMap::new(),
            shown: BTreeMap::new(),
        }
    }

    /// Returns whether the client has ended the server, and if so whether in order.
    pub fn ended(&self) -> Option<bool> {
        match self.phase {
            Phase::Ended(in_order) => Some(in_order),
            _ => None,
        }
    }

    /// Returns whether all diagnostics are those of the present texts.
    pub fn is_settled(&self) -> bool {
        self.stale.is_empty()
    }

    /// Handles a message; returns what to send.
    pub fn handle(&mut self, message: Message) -> Vec<Message> {
        match message {
            Message::Request(request) => vec![self.request(request).into()],
            Message::Notification(notice) => self.notified(notice),
            Message::Response(_) => Vec::new(),
        }
    }

    /// Checks one of the files that changed; returns its diagnostics.
    pub fn settle(&mut self) -> Vec<Message> {
        let Some(name) = self.stale.pop_first() else { return Vec::new() };
        self.check(&name);
        let Some(document) = self.documents.get(&name) else { return Vec::new() };
        let found = diagnostics(document, self.encoding);
        self.publish(&name, found)
    }

    fn request(&mut self, request: Request) -> Response {
        let Request { id, method, params } = request;
        let answer = match (self.phase, method.as_str()) {
            (Phase::Fresh, ask::Initialize::METHOD) => {
                parsed(params).and_then(|p| self.initialize(&p))
            }
            (Phase::Fresh, _) => {
                Err((ErrorCode::ServerNotInitialized, "initialize comes first".to_owned()))
            }
            (Phase::Running, _) => self.answer(&method, params),
            _ => Err((ErrorCode::InvalidRequest, "the server has been shut down".to_owned())),
        };
        response(id, answer)
    }

    fn answer(&mut self, method: &str, params: Value) -> Answer {
        match method {
            ask::Shutdown::METHOD => {
                self.phase = Phase::ShutDown;
                Ok(Value::Null)
            }
            ask::Completion::METHOD => parsed(params).and_then(|p| self.completion(&p)),
            ask::HoverRequest::METHOD => parsed(params).and_then(|p| self.hover(&p)),
            ask::GotoDefinition::METHOD => parsed(params).and_then(|p| self.definition(&p)),
            ask::References::METHOD => parsed(params).and_then(|p| self.references(&p)),
            ask::PrepareRenameRequest::METHOD => {
                parsed(params).and_then(|p| self.prepare_rename(&p))
            }
            ask::Rename::METHOD => parsed(params).and_then(|p| self.rename(&p)),
            ask::DocumentSymbolRequest::METHOD => parsed(params).and_then(|p| self.symbols(&p)),
            ask::InlayHintRequest::METHOD => parsed(params).and_then(|p| self.hints(&p)),
            ask::CodeActionRequest::METHOD => parsed(params).and_then(|p| self.actions(&p)),
            other => Err((ErrorCode::MethodNotFound, format!("no method {other}"))),
        }
    }

    fn initialize(&mut self, params: &InitializeParams) -> Answer {
        self.phase = Phase::Running;
        let general = params.capabilities.general.as_ref();
        let offered = general.and_then(|general| general.position_encodings.as_deref());
        self.encoding = Encoding::negotiate(offered.unwrap_or_default());
        value(InitializeResult {
            capabilities: capabilities(self.encoding),
            server_info: Some(ServerInfo {
                name: "weir".to_owned(),
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            }),
        })
    }

    fn notified(&mut self, Notification { method, params }: Notification) -> Vec<Message> {
        if method == notice::Exit::METHOD {
            self.phase = Phase::Ended(self.phase == Phase::ShutDown);
        }
        if self.phase != Phase::Running {
            return Vec::new();
        }
        match method.as_str() {
            notice::DidOpenTextDocument::METHOD => {
                if let Ok(DidOpenTextDocumentParams { text_document }) = parsed(params) {
                    self.open(text_document);
                }
            }
            notice::DidChangeTextDocument::METHOD => {
                if let Ok(params) = parsed(params) {
                    self.change(params);
                }
            }
            notice::DidCloseTextDocument::METHOD => {
                if let Ok(DidCloseTextDocumentParams { text_document }) = parsed(params) {
                    return self.close(&text_document.uri);
                }
            }
            // An open file may name one that is only on disk.
            notice::DidSaveTextDocument::METHOD => {
                self.stale.extend(self.documents.keys().cloned());
                self.documents.values_mut().for_each(|document| document.checked = None);
            }
            _ => {}
        }
        Vec::new()
    }

    fn open(&mut self, item: TextDocumentItem) {
        let name = name(&item.uri);
        if self.documents.len() >= OPEN_MAX && !self.documents.contains_key(&name) {
            return;
        }
        self.uris.insert(name.clone(), item.uri);
        self.documents.insert(name.clone(), Document::new(name.clone(), item.text));
        self.touch(&name);
    }

    fn change(&mut self, params: DidChangeTextDocumentParams) {
        let name = name(&params.text_document.uri);
        let Some(document) = self.documents.remove(&name) else { return };
        let document = document.changed(params.content_changes, self.encoding);
        self.documents.insert(name.clone(), document);
        self.touch(&name);
    }

    fn close(&mut self, uri: &Uri) -> Vec<Message> {
        let name = name(uri);
        self.documents.remove(&name);
        self.stale.remove(&name);
        self.reads.remove(&name);
        let messages = self.publish(&name, BTreeMap::new());
        self.uris.remove(&name);
        self.touch(&name);
        messages
    }

    /// Marks a file whose text changed, and those that read it.
    fn touch(&mut self, name: &str) {
        let reads = |other: &String| self.reads.get(other).is_some_and(|read| read.contains(name));
        let old = self.documents.iter_mut().filter(|(other, _)| *other == name || reads(other));
        for (other, document) in old {
            document.checked = None;
            self.stale.insert(other.clone());
        }
    }

    /// Checks an open file, unless its text is the one that was checked last.
    fn check(&mut self, name: &str) {
        let Some(document) = self.documents.get(name) else { return };
        let (None, Some(kind)) = (&document.checked, document.kind()) else { return };
        let read = RefCell::new(BTreeSet::new());
        let checked = {
            let read_file = |path: &Path| {
                read.borrow_mut().insert(normal(path));
                self.read(path)
            };
            Checked::of(kind, (name, document.text()), &read_file)
        };
        self.reads.insert(name.to_owned(), read.into_inner());
        if let Some(document) = self.documents.get_mut(name) {
            document.checked = Some(checked);
        }
    }

    /// Reads a file: an open buffer, or else what is on disk.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self.documents.get(&normal(path)) {
            Some(document) => Ok(document.text().as_bytes().to_vec()),
            None => (self.read_disk)(path),
        }
    }

    /// Replaces what the check of `owner` found, by file; returns what the client must learn.
    fn publish(&mut self, owner: &str, found: BTreeMap<String, Vec<Diagnostic>>) -> Vec<Message> {
        let mut changed = BTreeSet::new();
        for (file, owners) in &mut self.shown {
            if owners.remove(owner).is_some() {
                changed.insert(file.clone());
            }
        }
        for (file, rows) in found {
            let file = if file == owner { file } else { normal(Path::new(&file)) };
            changed.insert(file.clone());
            self.shown.entry(file).or_default().insert(owner.to_owned(), rows);
        }
        let messages = changed.iter().filter_map(|file| self.message(file)).collect();
        self.shown.retain(|_, owners| !owners.is_empty());
        messages
    }

    /// Returns the message with all diagnostics of a file.
    fn message(&self, file: &str) -> Option<Message> {
        let uri = self.uris.get(file).cloned().or_else(|| uri::of(file))?;
        let mut all: Vec<Diagnostic> = Vec::new();
        for row in self.shown.get(file)?.values().flatten() {
            if !all.contains(row) {
                all.push(row.clone());
            }
        }
        let params = PublishDiagnosticsParams::new(uri, all, None);
        let method = notice::PublishDiagnostics::METHOD.to_owned();
        let params = serde_json::to_value(params).ok()?;
        Some(Notification { method, params }.into())
    }

    /// Returns the open file that a request names, and the byte.
    fn place(
        &self,
        place: &TextDocumentPositionParams,
    ) -> Result<(&Document, usize), (ErrorCode, String)> {
        let document = self.document(&place.text_document.uri)?;
        Ok((document, document.lines().offset(place.position, self.encoding)))
    }

    fn document(&self, uri: &Uri) -> Result<&Document, (ErrorCode, String)> {
        let closed = || (ErrorCode::InvalidParams, format!("{} is not open", uri.as_str()));
        self.documents.get(&name(uri)).ok_or_else(closed)
    }

    fn completion(&self, params: &CompletionParams) -> Answer {
        let (document, offset) = self.place(&params.text_document_position)?;
        value(completion(document, offset, &self.schemas, self.encoding))
    }

    fn hover(&mut self, params: &HoverParams) -> Answer {
        let place = &params.text_document_position_params;
        self.check(&name(&place.text_document.uri));
        let (document, offset) = self.place(place)?;
        value(hover(document, offset, &self.schemas, self.encoding))
    }

    fn symbols(&self, params: &DocumentSymbolParams) -> Answer {
        let document = self.document(&params.text_document.uri)?;
        value(symbols(document, self.encoding))
    }

    fn hints(&mut self, params: &InlayHintParams) -> Answer {
        self.check(&name(&params.text_document.uri));
        let document = self.document(&params.text_document.uri)?;
        let bytes = document.lines().bytes(params.range, self.encoding);
        value(hints(document, bytes, self.encoding))
    }

    fn actions(&mut self, params: &CodeActionParams) -> Answer {
        self.check(&name(&params.text_document.uri));
        let document = self.document(&params.text_document.uri)?;
        let bytes = document.lines().bytes(params.range, self.encoding);
        let place = actions::Place {
            uri: &params.text_document.uri,
            encoding: self.encoding,
            diagnostics: &params.context.diagnostics,
        };
        value(actions(document, bytes, place, &|path| self.read(path)))
    }

    /// Returns the class at a place, and where it occurs; none if there is no class.
    fn class(
        &self,
        place: &TextDocumentPositionParams,
    ) -> Option<(Occurrence, Result<Uses, String>)> {
        let (document, offset) = self.place(place).ok()?;
        let class = classes::at(document, offset)?;
        let read_file = |path: &Path| self.read(path);
        let workspace = Workspace { open: &self.documents, read_file: &read_file };
        let uses = workspace.uses(document, &class.name);
        Some((class, uses))
    }

    fn definition(&self, params: &GotoDefinitionParams) -> Answer {
        let found = self.class(&params.text_document_position_params);
        let uses = found.and_then(|(_, uses)| uses.ok());
        let declared = uses.iter().flatten().flat_map(|(document, all)| {
            let first = all.iter().find(|one| one.declares);
            first.and_then(|one| self.location(document, one))
        });
        value(declared.collect::<Vec<_>>())
    }

    fn references(&self, params: &ReferenceParams) -> Answer {
        let found = self.class(&params.text_document_position);
        let uses = found.and_then(|(_, uses)| uses.ok());
        let with_declaration = params.context.include_declaration;
        let all = uses.iter().flatten().flat_map(|(document, all)| {
            let wanted = all.iter().filter(move |one| with_declaration || !one.declares);
            wanted.filter_map(move |one| self.location(document, one))
        });
        value(all.collect::<Vec<_>>())
    }

    fn prepare_rename(&self, params: &TextDocumentPositionParams) -> Answer {
        let (document, offset) = self.place(params)?;
        let class = classes::at(document, offset);
        value(class.map(|class| document.lines().range(class.span, self.encoding)))
    }

    fn rename(&self, params: &RenameParams) -> Answer {
        let refused = |why: &str| (ErrorCode::RequestFailed, why.to_owned());
        let new = params.new_name.as_str();
        let found = self.class(&params.text_document_position);
        let (class, uses) = found.ok_or_else(|| refused("only classes have names to change"))?;
        let uses = uses.map_err(|why| refused(&why))?;
        if !classes::is_name(new) {
            return Err(refused("a name has letters, digits, `-` and `_`, at most 64 bytes"));
        }
        let taken =
            |(document, _): &(Document, _)| classes::declared(document).any(|name| name == new);
        if new != class.name && uses.first().is_some_and(taken) {
            return Err(refused(&format!("there is a class `{new}` already")));
        }
        let changes = uses.iter().filter_map(|(document, all)| {
            let edit = |one: &Occurrence| TextEdit {
                range: document.lines().range(one.span.clone(), self.encoding),
                new_text: classes::written(document, one, new),
            };
            Some((self.uri(&document.name)?, all.iter().map(edit).collect()))
        });
        value(WorkspaceEdit::new(changes.collect()))
    }

    fn location(&self, document: &Document, one: &Occurrence) -> Option<Location> {
        let range = document.lines().range(one.span.clone(), self.encoding);
        Some(Location { uri: self.uri(&document.name)?, range })
    }

    /// Returns the URI of a file: the client's, if it is open.
    fn uri(&self, name: &str) -> Option<Uri> {
        self.uris.get(name).cloned().or_else(|| uri::of(name))
    }
}

/// Returns the name of a file as everything here has it.
fn name(uri: &Uri) -> String {
    let name = uri::name(uri);
    if name.starts_with('/') { normal(Path::new(&name)) } else { name }
}

fn parsed<T: DeserializeOwned>(params: Value) -> Result<T, (ErrorCode, String)> {
    serde_json::from_value(params).map_err(|error| (ErrorCode::InvalidParams, error.to_string()))
}

fn value(result: impl Serialize) -> Answer {
    serde_json::to_value(result).map_err(|error| (ErrorCode::InternalError, error.to_string()))
}

fn response(id: RequestId, answer: Answer) -> Response {
    match answer {
        Ok(result) => Response { id, result: Some(result), error: None },
        Err((code, message)) => {
            let error = ResponseError { code: code as i32, message, data: None };
            Response { id, result: None, error: Some(error) }
        }
    }
}

fn capabilities(encoding: Encoding) -> ServerCapabilities {
    let sync = TextDocumentSyncOptions {
        open_close: Some(true),
        change: Some(TextDocumentSyncKind::INCREMENTAL),
        save: Some(TextDocumentSyncSaveOptions::Supported(true)),
        ..TextDocumentSyncOptions::default()
    };
    ServerCapabilities {
        position_encoding: Some(encoding.kind()),
        text_document_sync: Some(TextDocumentSyncCapability::Options(sync)),
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some(["\"", "[", ".", " "].map(str::to_owned).to_vec()),
            ..CompletionOptions::default()
        }),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        definition_provider: Some(OneOf::Left(true)),
        references_provider: Some(OneOf::Left(true)),
        rename_provider: Some(OneOf::Right(RenameOptions {
            prepare_provider: Some(true),
            work_done_progress_options: WorkDoneProgressOptions::default(),
        })),
        document_symbol_provider: Some(OneOf::Left(true)),
        inlay_hint_provider: Some(OneOf::Left(true)),
        code_action_provider: Some(CodeActionProviderCapability::Options(CodeActionOptions {
            code_action_kinds: Some(vec![CodeActionKind::QUICKFIX]),
            ..CodeActionOptions::default()
        })),
        ..ServerCapabilities::default()
    }
}

/// Bound: open files; a further one is not followed.
const OPEN_MAX: usize = 1024;
