//! The keys, and their effects.

use super::edit;
use super::view::{Mode, View};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use weir_control::protocol::Request;

/// The keys, for the help.
pub const HELP: [(&str, &str); 14] = [
    ("up down PgUp PgDn Home End", "move (j and k, too)"),
    ("space, enter", "fold or unfold a class; left folds, right unfolds"),
    ("F", "fold all classes with children, or unfold all"),
    ("s", "next order: policy, rate, delay, losses, backlog"),
    ("/", "filter by a part of the name; enter keeps it, Esc clears it"),
    ("v", "hide reservations by RSVP, or show them"),
    ("m", "mark: the measurement of delays since the start restarts"),
    ("e", "change a rate or weight: a dry run first, then y, or t for 60 s on trial"),
    ("c", "keep the change that is on trial"),
    ("r", "record to a new file in this folder, 10 min or 1 GiB at most; again: end it"),
    ("?", "this help"),
    ("q, Ctrl-C", "leave; the link goes on"),
    ("of ceiling", "█ up to its share, ▒ above it, │ its end; all █ where no share is known"),
    ("<name 1.2M, >1.2M", "borrows from that class; lends, in the last second"),
];

/// Acts on a key.
pub fn press(view: &mut View, key: KeyEvent) {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    if control && matches!(key.code, KeyCode::Char('c' | 'd')) {
        view.is_done = true;
        return;
    }
    match view.mode {
        Mode::Help => view.mode = Mode::Tree,
        Mode::Filter => write(view, key.code),
        Mode::Edit => edit::write(view, key.code),
        Mode::Decide => edit::decide(view, key.code),
        Mode::Tree => act(view, key.code),
    }
}

fn write(view: &mut View, key: KeyCode) {
    let mut filter = view.filter.clone();
    match key {
        KeyCode::Enter => return view.mode = Mode::Tree,
        KeyCode::Esc => {
            view.mode = Mode::Tree;
            filter.clear();
        }
        KeyCode::Backspace => _ = filter.pop(),
        KeyCode::Char(letter) if filter.len() < FILTER_MAX => filter.push(letter),
        _ => return,
    }
    view.set_filter(filter);
}

fn act(view: &mut View, key: KeyCode) {
    let page = view.height.max(1);
    match key {
        KeyCode::Char('q') => view.is_done = true,
        KeyCode::Char('?' | 'h') => view.mode = Mode::Help,
        KeyCode::Char('/') => view.mode = Mode::Filter,
        KeyCode::Esc => view.set_filter(String::new()),
        KeyCode::Char('s') => view.sort_next(),
        KeyCode::Char('F') => view.fold_all(),
        KeyCode::Char('v') => view.turn_reservations(),
        KeyCode::Char(' ') | KeyCode::Enter => view.fold(None),
        KeyCode::Left => view.fold(Some(true)),
        KeyCode::Right => view.fold(Some(false)),
        KeyCode::Up | KeyCode::Char('k') => view.select(view.selected.saturating_sub(1)),
        KeyCode::Down | KeyCode::Char('j') => view.select(view.selected + 1),
        KeyCode::PageUp => view.select(view.selected.saturating_sub(page)),
        KeyCode::PageDown => view.select(view.selected + page),
        KeyCode::Home => view.select(0),
        KeyCode::End => view.select(usize::MAX),
        KeyCode::Char('m') => view.request = Some(Request::Mark {}),
        KeyCode::Char('e') => edit::begin(view),
        KeyCode::Char('c') => view.request = Some(Request::Confirm {}),
        KeyCode::Char('r') => view.wants_record = true,
        _ => {}
    }
}

/// The most bytes of a filter.
const FILTER_MAX: usize = 64;
