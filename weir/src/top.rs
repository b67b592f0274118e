//! `weir top`: a running link on one screen, each second.
//!
//! A thread reads the status (`reader.rs`). What is shown of it, and where the user is, is a
//! [`View`]; `rows.rs` makes rows of the tree of classes, `sessions.rs` those of
//! reservations, and `draw.rs` draws them. Nothing here
//! does more to the link than to ask for its status, unless a key asks for more.

mod draw;
mod edit;
mod keys;
mod reader;
mod record;
mod rows;
mod sessions;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use crate::Run;
use crate::output::{Exit, Output};
use crate::status::{INTERVAL, interval};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use reader::Reader;
use record::Recording;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use terminal::Screen;
use view::View;
use weir_control::client;
use weir_control::places::Places;
use weir_control::protocol::{Answer, CLASSES_MAX, Query, Request};
use weir_host::signals::StopSignal;

/// Shows a running link on one screen, each second.
///
/// It has rates against shares and ceilings, borrowing, losses and delays of every class, and
/// reservations by RSVP where the link takes any.
///
/// Keys move in the tree of classes, fold, sort and filter it; `?` lists them. With NO_COLOR set it
/// draws without colours.
#[derive(clap::Args)]
#[command(override_usage = "weir top [OPTIONS] <NAME|--control <SOCKET>>")]
pub struct Top {
    /// The name of the deployment, not its file; needed unless there is a `--control`.
    #[arg(required_unless_present = "control")]
    name: Option<String>,
    /// The control socket, instead of the one found by the name.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// The time between two looks at the link [default: 1s].
    #[arg(long, value_name = "TIME", value_parser = interval)]
    interval: Option<Duration>,
    /// At most so many classes of all directions together, those that come first in the chosen
    /// order [default: 1000, or 200 of a link that has more].
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(CLASSES_MAX)))]
    limit: Option<u32>,
}

impl Run for Top {
    fn run(self, output: &Output) -> Exit {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return output.refuse(
                "this draws on a terminal, and here is none; use `weir status --watch` for a pipe",
            );
        }
        let name = self.name.clone().unwrap_or_default();
        let control = self.control.clone();
        let find = move || match &control {
            Some(socket) => Ok(socket.clone()),
            None => Places::of_process().find(&name),
        };
        let shown = self.name.or(self.control.map(|path| path.display().to_string()));
        let mut view = View::new(&shown.unwrap_or_default(), output.colour());
        view.limit = self.limit;
        // A name that is wrong is said before the screen is taken.
        match find().and_then(|socket| client::status(&socket, &view.query())) {
            Ok(status) => view.begin(status),
            Err(error) => return output.refuse(&error),
        }
        let interval = self.interval.unwrap_or(INTERVAL);
        let reader = Reader::start(find, asked(&view, interval), interval);
        match reader.and_then(|reader| show(view, &reader, interval)) {
            Ok(recorded) => {
                recorded.iter().for_each(|text| output.text(&format!("{text}\n")));
                Exit::Clean
            }
            Err(error) => output.refuse(&format!("cannot draw on this terminal: {error}")),
        }
    }
}

/// Returns what the reader asks for: who looks more often than each second wants newer counts.
fn asked(view: &View, interval: Duration) -> Query {
    Query { latest: interval >= INTERVAL, ..view.query() }
}

/// Draws until a key or a signal ends it. Returns what was recorded, if a record was under way.
fn show(mut view: View, reader: &Reader, interval: Duration) -> io::Result<Option<String>> {
    let stop = StopSignal::install().map_err(|error| io::Error::other(error.to_string()))?;
    let mut screen = Screen::enter()?;
    let mut changed = true;
    let mut recording = None;
    let mut wanted = (view.query(), Instant::now());
    while !stop.requested() && !view.is_done {
        for update in reader.updates() {
            view.update(update);
            changed = true;
        }
        changed |= follow(&mut recording, &mut view, reader);
        if changed {
            screen.draw(|frame| draw::draw(frame, &mut view))?;
        }
        let query = view.query();
        if query != wanted.0 {
            reader.ask(asked(&view, interval));
            wanted = (query, Instant::now());
        }
        changed = event::poll(if wanted.1.elapsed() < SOON { LOOK_SOON } else { LOOK })?;
        if changed {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => keys::press(&mut view, key),
                _ => {}
            }
        }
        if let Some(request) = view.request.take() {
            edit::answered(&mut view, ask(reader, &request));
            changed = true;
        }
    }
    drop(screen);
    Ok(recording.map(Recording::finish))
}

/// Begins or ends a record, if a key asked for it, and tells the view how far it is. Returns
/// whether there is news.
fn follow(recording: &mut Option<Recording>, view: &mut View, reader: &Reader) -> bool {
    let is_asked = std::mem::take(&mut view.wants_record);
    match recording.take() {
        Some(over) if over.is_over() => view.say(&over.finish()),
        Some(running) => {
            if is_asked {
                running.end();
            }
            *recording = Some(running);
        }
        None if is_asked => {
            match reader.find().and_then(|socket| Recording::begin(&socket, &view.name)) {
                Ok(begun) => *recording = Some(begun),
                Err(why) => view.say(&why),
            }
        }
        None => return false,
    }
    let before = std::mem::replace(&mut view.recording, recording.as_ref().map(Recording::shown));
    before != view.recording
}

/// Sends a request to the link.
fn ask(reader: &Reader, request: &Request) -> Result<Answer, String> {
    reader.find().and_then(|socket| client::call(&socket, request))
}

/// How often signals and new counts are looked for while no key is pressed.
const LOOK: Duration = Duration::from_millis(50);
/// How often, and for how long, behind a key that asks for other classes.
const LOOK_SOON: Duration = Duration::from_millis(5);
const SOON: Duration = Duration::from_millis(500);
