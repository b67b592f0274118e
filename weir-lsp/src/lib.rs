//! `weir lsp`: a language server for policies, scenarios, deployments and sweeps.
//!
//! One file has one ability, each a function of a [`document::Document`] and a place in it:
//! [`diagnostics`], [`actions`], [`completion`], [`hover`], [`symbols`], [`hints`], [`classes`].
//! [`server`] is the machine that calls them, [`wire`] and [`position`] are what meets the client's
//! bytes. The protocol is the Language Server Protocol, version 3.17.
#![forbid(unsafe_code)]

pub mod actions;
pub mod checked;
pub mod classes;
pub mod completion;
pub mod diagnostics;
pub mod document;
pub mod hints;
pub mod hover;
pub mod kind;
pub mod position;
pub mod schema;
pub mod server;
pub mod symbols;
pub mod syntax;
pub mod uri;
pub mod wire;
pub mod workspace;

use lsp_server::{Connection, Message};
use server::Server;
use std::io::{self, BufReader, Write};
use std::thread;
use weir_policy::file;

pub use schema::Schemas;

/// Serves a client on standard input and output until it ends the server or goes; returns whether
/// it ended it in order.
///
/// # Errors
/// When the client sends what is no message, or cannot be written to.
pub fn run(schemas: Schemas) -> io::Result<bool> {
    let (server_side, Connection { sender, receiver: _ }) = Connection::memory();
    // Reading blocks: only with a thread of its own is it known whether a message waits.
    let reader = thread::spawn(move || -> io::Result<()> {
        let mut stream = BufReader::new(io::stdin());
        while let Some(message) = wire::read(&mut stream)? {
            let is_exit = matches!(&message, Message::Notification(one) if one.method == "exit");
            if sender.send(message).is_err() || is_exit {
                break;
            }
        }
        Ok(())
    });
    let mut server = Server::new(schemas, Box::new(file::read_named));
    let mut output = io::stdout().lock();
    let send = &mut |message: Message| {
        wire::write(&mut output, &message)?;
        output.flush()
    };
    let in_order = serve(&server_side, &mut server, send)?;
    reader.join().unwrap_or_else(|_| Err(io::Error::other("the reader of messages died")))?;
    Ok(in_order)
}

/// Handles the messages of a connection until the client ends the server or goes; checks files that
/// changed while no message waits. Returns whether the client ended the server in order.
///
/// # Errors
/// As `send` says.
pub fn serve(
    connection: &Connection,
    server: &mut Server,
    send: &mut dyn FnMut(Message) -> io::Result<()>,
) -> io::Result<bool> {
    loop {
        let out = match connection.receiver.is_empty() && !server.is_settled() {
            true => server.settle(),
            false => match connection.receiver.recv() {
                Ok(message) => server.handle(message),
                Err(_) => return Ok(false),
            },
        };
        out.into_iter().try_for_each(&mut *send)?;
        if let Some(in_order) = server.ended() {
            return Ok(in_order);
        }
    }
}
