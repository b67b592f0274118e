//! The reservations of a link, as some lines below its classes.
//!
//! Invariant: never more lines than there is room for; what finds none is counted.

use super::draw::{bold, fit, short};
use ratatui::text::Line;
use weir_link::status::reservations::{ReservationStatus, Reservations, SessionStatus};

/// The most sessions that a screen asks for.
pub const SESSIONS_ASKED: u32 = 100;

/// Returns the lines: sums, titles, a line for each reservation, and how many are left out.
pub fn lines(reservations: &Reservations, width: u16, room: u16) -> Vec<Line<'static>> {
    let (width, room) = (usize::from(width), usize::from(room));
    let mut lines = vec![Line::from(sums(reservations)).style(bold())];
    let rows: Vec<_> = reservations.shown.iter().flat_map(rows).collect();
    if room >= ROOM_MIN && !rows.is_empty() {
        let columns = Columns::of(width);
        let left = room - 2;
        let is_cut = rows.len() > left || reservations.sessions > reservations.shown.len() as u64;
        let fitting = if is_cut { left - 1 } else { left };
        lines.push(Line::from(columns.line(&TITLES.map(str::to_owned))).style(bold()));
        lines.extend(rows.iter().take(fitting).map(|row| Line::from(columns.line(&row.cells))));
        if is_cut {
            lines.push(Line::from(more(reservations, &rows, fitting)));
        }
    }
    lines.truncate(room);
    lines
}

/// The columns that fit.
struct Columns {
    session: usize,
    by: usize,
    class: usize,
}

/// A line of the table.
struct Row {
    /// The row is the first of its session.
    is_first: bool,
    cells: [String; 6],
}

impl Columns {
    fn of(width: usize) -> Self {
        let rest = width.saturating_sub(STYLE + RATE + LEFT + 5);
        let session = (rest * 2 / 5).max(8);
        let by = (rest / 4).max(7);
        Self { session, by, class: rest.saturating_sub(session + by).max(5) }
    }

    fn line(&self, cells: &[String; 6]) -> String {
        let Self { session, by, class } = *self;
        let [name, style, who, rate, of, left] = cells;
        let (name, who, of) = (fit(name, session), fit(who, by), fit(of, class));
        format!("{name} {style:STYLE$} {who} {rate:>RATE$} {of} {left:>LEFT$}")
    }
}

fn sums(reservations: &Reservations) -> String {
    let Reservations { sessions, admitted, reserved, room, refused, .. } = reservations;
    format!(
        "reservations: {sessions} sessions, {admitted} admitted with {} of {}bit/s, \
         {refused} refused",
        short(*reserved as f64),
        short(*room as f64)
    )
}

/// Returns a row for each reservation of a session, or one that names its sender.
fn rows(session: &SessionStatus) -> Vec<Row> {
    let SessionStatus { destination, protocol, port, senders, reservations } = session;
    let protocol = match protocol {
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        other => other.to_string(),
    };
    let name = format!("{destination} {protocol} {port}");
    if reservations.is_empty() {
        let from = senders.first().map_or("-", |one| one.sender.as_str());
        let left = left(senders.iter().filter_map(|one| one.expires_ms).max());
        let none = "-".to_owned();
        let cells = [name, none.clone(), format!("from {from}"), none, "not reserved".into(), left];
        return vec![Row { is_first: true, cells }];
    }
    let row = |(number, one): (usize, &ReservationStatus)| Row {
        is_first: number == 0,
        cells: [
            name.clone(),
            one.style.clone(),
            one.by.clone().unwrap_or("this host".to_owned()),
            short(one.rate * 8.0),
            one.class.clone().unwrap_or(if one.admitted { "-" } else { "not admitted" }.to_owned()),
            left(one.expires_ms),
        ],
    };
    reservations.iter().enumerate().map(row).collect()
}

/// Returns for how many seconds state lives without a refresh.
fn left(ms: Option<u64>) -> String {
    ms.map_or("-".to_owned(), |ms| format!("{:.1}", ms as f64 / 1e3))
}

fn more(reservations: &Reservations, rows: &[Row], fitting: usize) -> String {
    let begun = rows.iter().take(fitting).filter(|row| row.is_first).count() as u64;
    match reservations.sessions.saturating_sub(begun) {
        0 => {
            "and more reservations of the last session: see `weir status --reservations`".to_owned()
        }
        more => format!("and {more} more sessions: see `weir status --reservations`"),
    }
}

const TITLES: [&str; 6] = ["session", "", "reserved by", "bit/s", "class", "left s"];
/// Sums, titles, a row, and what is left out.
const ROOM_MIN: usize = 4;
/// The widths of columns.
const STYLE: usize = 2;
const RATE: usize = 6;
const LEFT: usize = 7;
