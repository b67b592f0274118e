//! The state of the screen: the last status, the course of each class, and the place of its reader.

use super::edit::Edit;
use super::reader::Update;
use super::rows::{self, Key, Row};
use crate::status::HOSTS_SEEN;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weir_control::protocol::{CLASSES_DEFAULT, Query, Request, Reservations, Sort};
use weir_link::status::Status;

/// The screen, as data.
pub struct View {
    /// The name of the link.
    pub name: String,
    /// Whether colours may be used.
    pub colour: bool,
    /// The last status; `None` before the first.
    pub status: Option<Status>,
    /// Its reservations, if it takes any.
    pub reservations: Option<Reservations>,
    pub shows_reservations: bool,
    /// Why the link does not answer, while it does not.
    pub lost: Option<String>,
    /// The rows that are not folded or filtered away.
    pub rows: Vec<Row>,
    /// The selected row, and the first that is drawn.
    pub selected: usize,
    pub first: usize,
    /// How many rows fit.
    pub height: usize,
    pub sort: Order,
    /// The most classes that are asked for, of all directions together.
    pub limit: Option<u32>,
    /// Whether the link had more at first.
    has_many: bool,
    /// Only classes whose names hold this, in any case.
    pub filter: String,
    pub mode: Mode,
    pub message: String,
    /// The change that is being made.
    pub edit: Option<Edit>,
    /// A request to the link that a key made.
    pub request: Option<Request>,
    /// Whether a key asks to begin a record, or to end it.
    pub wants_record: bool,
    /// How far the record is that is under way.
    pub recording: Option<String>,
    pub is_done: bool,
    folded: BTreeSet<Key>,
    courses: BTreeMap<Key, Course>,
    /// When the last windows that are in the courses ended, since the start of the link.
    windows_end_ns: u64,
}

/// The rates of the last seconds, in bit/s.
pub type Course = VecDeque<f64>;

/// The effect of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// They move and act.
    #[default]
    Tree,
    /// They write the filter.
    Filter,
    /// Any of them closes the help.
    Help,
    /// They write a change.
    Edit,
    /// They decide whether it is made.
    Decide,
}

/// The order of siblings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// That of the policy.
    #[default]
    Policy,
    /// The classes that sent most in the last second come first.
    Rate,
    /// The classes with the longest p99 come first.
    Delay,
    /// The classes that lose most come first.
    Losses,
    /// The classes in which most bytes wait come first.
    Backlog,
}

impl Order {
    /// All, with their words; a key takes the next one.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Policy, "policy"),
        (Self::Rate, "rate"),
        (Self::Delay, "delay"),
        (Self::Losses, "losses"),
        (Self::Backlog, "backlog"),
    ];

    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Returns the key by which the link chooses classes where not all are asked for. In the order
    /// of the policy those that send, too: the first of many may be idle.
    fn choice(self) -> Sort {
        match self {
            Self::Policy | Self::Rate => Sort::RecentRate,
            Self::Delay => Sort::RecentDelay,
            Self::Losses => Sort::RecentDrops,
            Self::Backlog => Sort::Backlog,
        }
    }

    fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()].0
    }
}

impl View {
    /// The view of a link whose status was not read yet.
    pub fn new(name: &str, colour: bool) -> Self {
        Self {
            name: name.to_owned(),
            colour,
            status: None,
            reservations: None,
            shows_reservations: true,
            lost: None,
            rows: Vec::new(),
            selected: 0,
            first: 0,
            height: 1,
            sort: Order::default(),
            limit: None,
            has_many: false,
            filter: String::new(),
            mode: Mode::default(),
            message: String::new(),
            edit: None,
            request: None,
            wants_record: false,
            recording: None,
            is_done: false,
            folded: BTreeSet::new(),
            courses: BTreeMap::new(),
            windows_end_ns: 0,
        }
    }

    /// Returns what to ask the link for: what the screen can show. Counts of the last second cost
    /// the link nothing.
    pub fn query(&self) -> Query {
        let directions = self.status.as_ref().map_or(1, |status| status.lanes.len().max(1));
        // A screen shows few of many, and is to be there at once.
        let limit = self.limit.unwrap_or(if self.has_many { MANY } else { CLASSES_DEFAULT });
        let share = (limit as usize).div_ceil(directions);
        Query {
            filter: Some(self.filter.clone()).filter(|filter| !filter.is_empty()),
            largest: Some(self.sort.choice()),
            limit: Some(limit),
            per_direction: Some(share as u32),
            latest: true,
            // To name the one that waits longest.
            hosts: Some(HOSTS_SEEN).filter(|_| !self.has_many),
            ..Query::default()
        }
    }

    /// Shows the first status: where the link has more classes than are asked for, the largest come
    /// first.
    pub fn begin(&mut self, status: Status) {
        if status.lanes.iter().any(|lane| lane.left_out > 0) {
            (self.sort, self.has_many) = (Order::Rate, true);
        }
        self.update(Update::Status(Box::new(status)));
    }

    /// Takes over what was read.
    pub fn update(&mut self, update: Update) {
        match update {
            Update::Lost(why) => self.lost = Some(why),
            Update::Reservations(found) => self.reservations = found.map(|found| *found),
            Update::Status(status) => {
                let before = self.status.as_ref().map_or(0, |status| status.uptime_ns);
                if status.uptime_ns < before {
                    self.say("the link has restarted: its counts begin anew");
                    self.windows_end_ns = 0;
                } else if self.lost.is_some() {
                    self.say("the link answers again");
                }
                self.lost = None;
                self.status = Some(*status);
                self.follow();
                self.arrange();
            }
        }
    }

    /// Shows a message until the next one.
    pub fn say(&mut self, message: &str) {
        message.clone_into(&mut self.message);
    }

    /// Adds the last second to the courses, once.
    fn follow(&mut self) {
        let Some(status) = &self.status else { return };
        if status.windows.second_ns == 0 {
            return;
        }
        let now = status.uptime_ns + status.age_ns;
        let end = now.saturating_sub(status.windows.age_ns);
        if self.windows_end_ns > 0 && end < self.windows_end_ns + SAME_NS {
            return;
        }
        self.windows_end_ns = end;
        let everything = rows::arrange(status, Order::Policy, "", &BTreeSet::new());
        let mut courses = std::mem::take(&mut self.courses);
        for row in everything {
            let mut course = courses.remove(&row.key).unwrap_or_default();
            course.push_back(row.rate_bps);
            if course.len() > COURSE_MAX {
                course.pop_front();
            }
            // What is no class any more is forgotten.
            self.courses.insert(row.key, course);
        }
    }

    /// Returns the course of a row.
    pub fn course(&self, key: &Key) -> Option<&Course> {
        self.courses.get(key)
    }

    /// Makes the rows anew; the selected one stays selected if it is still there.
    fn arrange(&mut self) {
        let Some(status) = &self.status else { return };
        let key = self.rows.get(self.selected).map(|row| row.key.clone());
        self.rows = rows::arrange(status, self.sort, &self.filter, &self.folded);
        let place = self.rows.iter().position(|row| Some(&row.key) == key.as_ref());
        self.select(place.unwrap_or(self.selected));
    }

    /// Selects a row, or the last one.
    pub fn select(&mut self, row: usize) {
        self.selected = row.min(self.rows.len().saturating_sub(1));
        self.scroll();
    }

    /// Lets the selected row be among those that are drawn.
    pub fn scroll(&mut self) {
        let last = self.first + self.height.max(1) - 1;
        if self.selected < self.first {
            self.first = self.selected;
        } else if self.selected > last {
            self.first += self.selected - last;
        }
        let most = self.rows.len().saturating_sub(self.height.max(1));
        self.first = self.first.min(most);
    }

    /// Shows reservations, or hides them.
    pub fn turn_reservations(&mut self) {
        self.shows_reservations = !self.shows_reservations;
        if self.reservations.is_none() {
            self.say("the link takes no reservations");
        }
    }

    /// Takes the next order.
    pub fn sort_next(&mut self) {
        self.sort = self.sort.next();
        self.say(&format!("order: {}", self.sort.word()));
        self.arrange();
    }

    /// Writes the filter anew.
    pub fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.arrange();
    }

    /// Folds or unfolds the selected row; `folds` is `None` for the other way round.
    pub fn fold(&mut self, folds: Option<bool>) {
        let Some(row) = self.rows.get(self.selected) else { return };
        if row.children == 0 {
            return;
        }
        let key = row.key.clone();
        let folds = folds.unwrap_or_else(|| !self.folded.contains(&key));
        if folds {
            self.folded.insert(key);
        } else {
            self.folded.remove(&key);
        }
        self.arrange();
    }

    /// Folds all classes with children, or unfolds all if one is folded.
    pub fn fold_all(&mut self) {
        if self.folded.is_empty() {
            let inner = self.rows.iter().filter(|row| row.children > 0 && row.depth > 0);
            self.folded = inner.map(|row| row.key.clone()).collect();
        } else {
            self.folded.clear();
        }
        self.arrange();
    }

    /// Returns whether a row is folded.
    pub fn is_folded(&self, key: &Key) -> bool {
        self.folded.contains(key)
    }
}

/// The classes that are asked for where the link has more than [`CLASSES_DEFAULT`].
const MANY: u32 = 200;
/// The seconds of a course.
pub const COURSE_MAX: usize = 60;
/// Windows that end closer to each other are the same.
const SAME_NS: u64 = 300_000_000;
