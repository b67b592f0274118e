//! A change of one parameter of a class, from the screen: written, shown as a dry run, then put in
//! force or on trial.

use super::view::{Mode, View};
use ratatui::crossterm::event::KeyCode;
use weir_control::protocol::{Answer, Changed, Request, Setting, Terms};
use weir_policy::render;

/// The purpose of the request that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// To see what it would change.
    Dry,
    /// To make the change.
    Real,
}

/// A change that is being made.
#[derive(Clone, Debug, PartialEq)]
pub struct Edit {
    direction: String,
    class: String,
    /// As it is written: `rate=2 Mbit/s`.
    pub text: String,
    /// The differences that it would make, once the link has replied.
    pub difference: Vec<String>,
    stage: Stage,
}

/// Begins to change the selected class.
pub fn begin(view: &mut View) {
    let selected = view.status.as_ref().zip(view.rows.get(view.selected));
    let lane = selected.and_then(|(status, row)| Some((status.lanes.get(row.key.0)?, row)));
    let named = lane.and_then(|(lane, row)| Some((lane, row.key.1.as_ref()?)));
    let Some((lane, class)) = named.filter(|(lane, _)| !lane.policy.identity.is_empty()) else {
        return view.say("select a class of a policy first");
    };
    let leaf = lane.classes.iter().find(|leaf| leaf.name == *class);
    let leaf = leaf.map(|leaf| &leaf.parameters);
    let inner = lane.inner.iter().find(|inner| inner.name == *class);
    let parameters = leaf.or(inner.map(|inner| &inner.parameters));
    let known = parameters.and_then(|all| {
        let find = |wanted: &&str| all.iter().find(|(name, _)| name == *wanted);
        FIRST.iter().find_map(find).or(all.first())
    });
    let text = known.map_or("rate=".to_owned(), |(name, value)| format!("{name}={value}"));
    let (direction, class) = (lane.name.clone(), class.clone());
    view.edit = Some(Edit { direction, class, text, difference: Vec::new(), stage: Stage::Dry });
    view.mode = Mode::Edit;
}

/// Acts on a key while the change is written.
pub fn write(view: &mut View, key: KeyCode) {
    let Some(edit) = &mut view.edit else { return view.mode = Mode::Tree };
    match key {
        KeyCode::Esc => cancel(view),
        KeyCode::Backspace => _ = edit.text.pop(),
        KeyCode::Char(letter) if edit.text.len() < TEXT_MAX => edit.text.push(letter),
        KeyCode::Enter => match edit.request(Terms { dry_run: true, ..Terms::default() }) {
            Some(request) => view.request = Some(request),
            None => view.say("write it like `rate=2 Mbit/s`"),
        },
        _ => {}
    }
}

/// Acts on a key while the difference is shown.
pub fn decide(view: &mut View, key: KeyCode) {
    let trial = match key {
        KeyCode::Char('y') => None,
        KeyCode::Char('t') => Some(TRIAL_MS),
        _ => return cancel(view),
    };
    let Some(edit) = &mut view.edit else { return };
    edit.stage = Stage::Real;
    let reason = "from weir top".to_owned();
    view.request = edit.request(Terms { confirm_ms: trial, reason, ..Terms::default() });
}

fn cancel(view: &mut View) {
    (view.edit, view.mode) = (None, Mode::Tree);
    view.say("nothing was changed");
}

/// Takes what the link says to a request.
pub fn answered(view: &mut View, answer: Result<Answer, String>) {
    match (answer, &mut view.edit) {
        (Ok(Answer::Changed(changed)), Some(edit)) if edit.stage == Stage::Dry => {
            if changed.errors > 0 {
                // The first error says what is wrong; the text can be mended.
                return view.say(&headline(&changed.text));
            }
            edit.difference = difference(&changed);
            view.mode = Mode::Decide;
        }
        (Ok(Answer::Changed(changed)), _) => {
            (view.edit, view.mode) = (None, Mode::Tree);
            view.say(&made(&changed));
        }
        (Ok(Answer::Error(why)) | Err(why), _) => view.say(&headline(&why)),
        (Ok(_), _) => view.say("done"),
    }
}

impl Edit {
    fn request(&self, terms: Terms) -> Option<Request> {
        let (name, value) = self.text.split_once('=')?;
        let key = format!("class.{}.{}", quoted(&self.class), name.trim());
        let direction = Some(self.direction.clone());
        let setting = Setting { direction, key, value: value.trim().to_owned() };
        Some(Request::Set { settings: vec![setting], terms })
    }
}

/// Returns the name of a class as a part of a path.
fn quoted(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !name.is_empty() && name.bytes().all(is_bare) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

fn difference(changed: &Changed) -> Vec<String> {
    let of = changed.directions.iter().flat_map(|way| way.text.lines().map(str::to_owned));
    std::iter::once(changed.what.clone()).chain(of).take(LINES_MAX).collect()
}

fn made(changed: &Changed) -> String {
    match (changed.number, changed.trial_ms) {
        _ if changed.errors > 0 => headline(&changed.text),
        (None, _) => "nothing changes".to_owned(),
        (Some(number), None) => format!("change {number} is in force: {}", changed.what),
        (Some(number), Some(ms)) => {
            format!("change {number} is on trial for {} s: c keeps it", ms / 1000)
        }
    }
}

fn headline(text: &str) -> String {
    let line = render::headline(text);
    if line.is_empty() { "no reason was given".to_owned() } else { line }
}

/// The parameters that are offered first.
const FIRST: [&str; 4] = ["rate", "weight", "ls_m2", "quantum"];
const TEXT_MAX: usize = 128;
/// The lines of a difference that fit.
const LINES_MAX: usize = 12;
/// How long a change is on trial.
const TRIAL_MS: u64 = 60_000;
