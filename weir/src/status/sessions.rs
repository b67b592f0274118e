//! `weir status --reservations`: what is reserved, by whom, and until when.

use crate::output::{Exit, Format, Output};
use std::fmt::Write;
use std::path::Path;
use weir_control::client;
use weir_control::protocol::{Answer, Request, Reservations};
use weir_link::status::reservations::{ReservationStatus, SessionStatus};
use weir_policy::table::Table;

/// Returns the sessions of the link at this socket, at most `limit` of them.
pub fn fetch(path: &Path, limit: Option<u32>) -> Result<Box<Reservations>, String> {
    match client::call(path, &Request::Reservations { limit }) {
        Ok(Answer::Reservations(reservations)) => Ok(reservations),
        Ok(Answer::Error(why)) | Err(why) => Err(why),
        Ok(_) => Err("the link gives another answer than its reservations".to_owned()),
    }
}

/// Prints the reservations.
pub fn show(reservations: &Reservations, output: &Output) -> Exit {
    match output.format {
        Format::Json => output.json(reservations),
        Format::Text => output.text(&text(reservations)),
    }
    Exit::Clean
}

/// Formats sessions for people.
pub fn text(reservations: &Reservations) -> String {
    let Reservations { sessions, admitted, reserved, room, shown, .. } = reservations;
    let mega = |bits: u64| bits as f64 / 1e6;
    let mut text = format!(
        "{sessions} sessions, {admitted} reservations with {:.3} of {:.3} Mbit/s; messages: {} in, \
         {} out, {} malformed, {} insecure; {} refused\n",
        mega(*reserved),
        mega(*room),
        reservations.received,
        reservations.sent,
        reservations.malformed,
        reservations.insecure,
        reservations.refused,
    );
    if shown.is_empty() {
        return text;
    }
    let heads =
        ["session", "senders", "reserved by", "style", "service", "kB/s", "class", "lives s"];
    let mut table = Table::new(heads);
    for session in shown {
        rows(session).into_iter().for_each(|row| table.row(row));
    }
    let _ = writeln!(text, "{table}");
    let more = sessions - (shown.len() as u64).min(*sessions);
    if more > 0 {
        let _ = writeln!(text, "{more} more are left out; --limit shows them");
    }
    text
}

/// Returns a row for each reservation, or one that says that there is none.
fn rows(session: &SessionStatus) -> Vec<Vec<String>> {
    let SessionStatus { destination, protocol, port, senders, reservations } = session;
    let name = format!("{destination} {protocol} {port}");
    let from = senders.iter().map(|one| one.sender.as_str()).collect::<Vec<_>>().join(", ");
    let lives = |ms: Option<u64>| ms.map_or("-".to_owned(), |ms| format!("{:.1}", ms as f64 / 1e3));
    if reservations.is_empty() {
        let expires = lives(senders.iter().filter_map(|one| one.expires_ms).max());
        let none = "-".to_owned();
        let [by, style, service, rate, class] = [(); 5].map(|()| none.clone());
        return vec![vec![name, from, by, style, service, rate, class, expires]];
    }
    let row = |one: &ReservationStatus| {
        let here = "this host".to_owned();
        let state = if one.admitted { "-" } else { "not admitted" };
        vec![
            name.clone(),
            from.clone(),
            one.by.clone().unwrap_or(here),
            one.style.clone(),
            one.service.clone(),
            format!("{:.1}", one.rate / 1e3),
            one.class.clone().unwrap_or(state.to_owned()),
            lives(one.expires_ms),
        ]
    };
    reservations.iter().map(row).collect()
}
