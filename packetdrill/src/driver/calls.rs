//! The application's calls, as far as they concern the connection.
//!
//! Invariant: a call either has its effect on the endpoint or on the settings of the next one, or
//! is about sockets alone and has none.

use super::pending::{Pending, Wait};
use super::{Driver, Stop};
use crate::connection::Connection;
use crate::script::Call;

impl Driver {
    /// Makes a call; `end` is when it returns, if it blocks.
    pub(super) fn call(&mut self, call: &Call, end: Option<i64>) -> Result<(), Stop> {
        match call.name.as_str() {
            "setsockopt" => self.set_option(call),
            "listen" => self.listen(),
            "accept" => self.accept(call, end),
            "connect" => self.connect(call, end),
            "write" | "send" | "sendto" | "sendmsg" | "writev" => self.write(call),
            "read" | "recv" | "recvfrom" | "recvmsg" => self.read(call, end),
            "shutdown" => self.shutdown(call),
            "close" => self.close(),
            _ => Ok(()),
        }
    }

    fn listen(&mut self) -> Result<(), Stop> {
        self.is_listening = true;
        Ok(())
    }

    fn accept(&mut self, call: &Call, end: Option<i64>) -> Result<(), Stop> {
        if call.returned().is_some_and(|result| result < 0) {
            return Ok(());
        }
        let is_open = self.connection.as_ref().is_some_and(Connection::is_open);
        match end {
            Some(end) => self.pending.push(Pending { end, wait: Wait::Connection }),
            None if !is_open => return differs("accept: no connection is established"),
            None => {}
        }
        Ok(())
    }

    fn connect(&mut self, call: &Call, end: Option<i64>) -> Result<(), Stop> {
        if self.connection.is_some() && !self.is_closed {
            // A second call asks whether the first one has succeeded.
            return Ok(());
        }
        self.connection = Some(Connection::connect(&self.settings, self.now));
        self.is_closed = false;
        if let (Some(0), Some(end)) = (call.returned(), end) {
            self.pending.push(Pending { end, wait: Wait::Connection });
        }
        Ok(())
    }

    fn write(&mut self, call: &Call) -> Result<(), Stop> {
        let Some(returned) = call.returned() else { return Ok(()) };
        let asked = if call.name == "sendmsg" { None } else { call.number(2) };
        if returned < 0 {
            return Ok(());
        }
        if asked.is_some_and(|asked| asked > returned) {
            let reason = "a write cut short by the kernel's accounting of buffers";
            return Err(Stop::Elsewhere(reason.to_owned()));
        }
        let Some(connection) = &mut self.connection else {
            return differs("write: there is no connection");
        };
        let taken = connection.write(returned.unsigned_abs());
        if taken != returned.unsigned_abs() {
            return differs(&format!("write: expected {returned}, got {taken}"));
        }
        Ok(())
    }

    fn read(&mut self, call: &Call, end: Option<i64>) -> Result<(), Stop> {
        let Some(returned) = call.returned().and_then(|bytes| u64::try_from(bytes).ok()) else {
            return Ok(());
        };
        if let Some(end) = end {
            self.pending.push(Pending { end, wait: Wait::Data(returned) });
            return self.settle();
        }
        let Some(connection) = &mut self.connection else {
            return differs("read: there is no connection");
        };
        let asked = call.number(2).and_then(|bytes| u64::try_from(bytes).ok());
        let there = connection.readable().min(asked.unwrap_or(returned));
        if there != returned {
            return differs(&format!("read: expected {returned} bytes, got {there}"));
        }
        connection.read(returned);
        Ok(())
    }

    fn shutdown(&mut self, call: &Call) -> Result<(), Stop> {
        if let (true, Some(connection)) = (call.argument(1) != "SHUT_RD", &mut self.connection) {
            connection.shut();
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Stop> {
        if let Some(connection) = &mut self.connection {
            connection.close();
        }
        self.is_closed = true;
        Ok(())
    }

    fn set_option(&mut self, call: &Call) -> Result<(), Stop> {
        let number = call.number(3);
        let settings = &mut self.settings;
        match (call.argument(2), number) {
            ("TCP_NODELAY", Some(value)) => settings.is_nagle_off = value != 0,
            ("TCP_CORK", Some(value)) => settings.is_corked = value != 0,
            ("TCP_MAXSEG", Some(value)) => settings.mss = u16::try_from(value).ok(),
            ("SO_SNDBUF", Some(value)) => settings.send_buffer = u64::try_from(2 * value).ok(),
            ("SO_RCVBUF", Some(value)) => settings.receive_buffer = u64::try_from(2 * value).ok(),
            ("TCP_QUICKACK", Some(value)) => settings.is_quick = value != 0,
            ("TCP_SYNCNT", Some(value)) => settings.syn_retries = u8::try_from(value).ok(),
            ("TCP_CONGESTION", _) => {
                let name = call.argument(3).trim_matches(['"', '[', ']']);
                settings.congestion = Some(name.to_owned());
            }
            _ => return Ok(()),
        }
        if let Some(connection) = &mut self.connection {
            connection.change(&self.settings);
        }
        Ok(())
    }
}

fn differs(what: &str) -> Result<(), Stop> {
    Err(Stop::Differs(what.to_owned()))
}
