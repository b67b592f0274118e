//! Draws a view: a heading, the tree of classes, what is known of the selected one, and the keys.
//!
//! Each thing that a colour says a sign says too: with NO_COLOR, or for who cannot tell colours
//! apart, nothing is missing. All texts of a status were made fit to print by the client.

use super::keys::HELP;
use super::rows::Row;
use super::sessions;
use super::view::{Course, Mode, View};
use crate::status::hosts;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use unicode_width::UnicodeWidthStr;
use weir_link::status::{ClassStatus, InnerStatus, LaneStatus, Status};

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, view: &mut View) {
    let area = frame.area();
    let (detail, foot) = match area.height {
        0..16 => (0, 1),
        16..20 => (DETAILS.0, 1),
        _ => (DETAILS.1, 2),
    };
    let sessions = reserved(view, area);
    let parts = [
        Constraint::Length(2),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(sessions.len() as u16),
        Constraint::Length(detail),
        Constraint::Length(foot),
    ];
    let [heading, titles, tree, reserved, details, footer] = Layout::vertical(parts).areas(area);
    view.height = tree.height.into();
    view.scroll();
    frame.render_widget(Paragraph::new(head(view)), heading);
    let columns = Columns::of(area.width);
    frame.render_widget(Paragraph::new(columns.titles().style(bold())), titles);
    let shown = view.rows.iter().enumerate().skip(view.first).take(view.height);
    let lines: Vec<_> = shown.map(|(place, row)| columns.line(view, place, row)).collect();
    frame.render_widget(Paragraph::new(lines), tree);
    frame.render_widget(Paragraph::new(sessions), reserved);
    if detail > 0 {
        let lines = tell(view).into_iter();
        let lines = lines.flat_map(|line| wrapped(&line, details.width.into(), 2));
        frame.render_widget(Paragraph::new(lines.map(Line::from).collect::<Vec<_>>()), details);
    }
    frame.render_widget(Paragraph::new(self::foot(view, footer.height)), footer);
    match (view.mode, &view.edit) {
        (Mode::Help, _) => help(frame, area),
        (Mode::Decide, Some(edit)) => decide(frame, area, &edit.difference),
        _ => {}
    }
}

/// Returns the lines about reservations: a quarter of a screen that is not small.
fn reserved(view: &View, area: Rect) -> Vec<Line<'static>> {
    let room = if area.height < RESERVED_MIN { 0 } else { area.height / 4 };
    let shown = view.reservations.as_ref().filter(|_| view.shows_reservations && room > 0);
    shown.map_or(Vec::new(), |all| sessions::lines(all, area.width, room))
}

pub(super) fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn head(view: &View) -> Vec<Line<'static>> {
    let Some(status) = &view.status else {
        return vec![Line::from(format!("weir top {}", view.name))];
    };
    let seconds = status.uptime_ns as f64 / 1e9;
    let part = status.busy_ns as f64 / (status.uptime_ns as f64).max(1.0) * 100.0;
    let title = format!(
        "weir top {}  up {}  {:.2} us a frame  {part:.1} % at work  {} of {} frames in use",
        view.name,
        time(seconds),
        status.frame_ns / 1e3,
        status.frames_max.saturating_sub(status.frames_free),
        status.frames_max,
    );
    let second = match &view.lost {
        Some(why) => {
            let text = format!("THE LINK DOES NOT ANSWER; below is what it did last. {why}");
            Line::from(text).style(Style::new().add_modifier(Modifier::REVERSED))
        }
        None => Line::from(ports(status)),
    };
    vec![Line::from(title).style(bold()), second]
}

fn ports(status: &Status) -> String {
    let port = |port: &weir_link::status::PortStatus| {
        let (lost_in, lost_out) = (port.lost_in, port.lost_out);
        format!("{} {} lost {lost_in} in, {lost_out} out", port.interface, port.state)
    };
    // A foreign link may say any number.
    let sum = |of: fn(&LaneStatus) -> u64| status.lanes.iter().map(of).fold(0, u64::saturating_add);
    let (left_out, all) = (sum(|lane| lane.left_out), sum(|lane| lane.sums.leaves));
    let more =
        (left_out > 0).then(|| format!("{left_out} of {all} classes not shown, / finds any"));
    more.into_iter().chain(status.ports.iter().map(port)).collect::<Vec<_>>().join(" | ")
}

/// The columns that fit.
struct Columns {
    name: usize,
    bar: usize,
    course: usize,
    has_median: bool,
}

impl Columns {
    fn of(width: u16) -> Self {
        let width = usize::from(width);
        let has_median = width >= 100;
        let median = if has_median { DELAY + 1 } else { 0 };
        let fixed = RATE + LOAN + DELAY + LOST + WAIT + 6 + median;
        let rest = width.saturating_sub(fixed);
        let (bar, course) = if rest >= 50 { (rest / 4, 16) } else { (10, 8) };
        Self { name: rest.saturating_sub(bar + course + 1).max(8), bar, course, has_median }
    }

    fn titles(&self) -> Line<'static> {
        let Self { name, bar, course, .. } = *self;
        let median = if self.has_median { format!(" {:>DELAY$}", "p50 ms") } else { String::new() };
        Line::from(format!(
            "{:name$} {:>RATE$} {:bar$} {:course$} {:LOAN$}{median} {:>DELAY$} {:>LOST$} {:>WAIT$}",
            "class", "bit/s", "of ceiling", "course", "borrows", "p99 ms", "lost/s", "waits"
        ))
    }

    fn line(&self, view: &View, place: usize, row: &Row) -> Line<'static> {
        let sign = match (row.children, view.is_folded(&row.key)) {
            (0, _) => ' ',
            (_, true) => '+',
            (_, false) => '-',
        };
        let text = format!("{}{sign}{}", "  ".repeat(row.depth.min(8)), row.name);
        let selected = place == view.selected;
        let name_style = if selected {
            Style::new().add_modifier(Modifier::REVERSED)
        } else if row.children > 0 {
            bold()
        } else {
            Style::new()
        };
        let mut spans = vec![
            Span::styled(fit(&text, self.name), name_style),
            Span::raw(format!(" {:>RATE$} ", short(row.rate_bps))),
        ];
        spans.extend(bar(row, self.bar, view.colour));
        spans.push(Span::raw(format!(" {}", sparkline(view.course(&row.key), self.course))));
        spans.push(Span::raw(format!(" {}", fit(&loan(row), LOAN))));
        if self.has_median {
            spans.push(Span::raw(format!(" {:>DELAY$}", millis(row.p50_us))));
        }
        spans.push(Span::raw(format!(" {:>DELAY$}", millis(row.p99_us))));
        let lost = format!(" {:>LOST$}", count(row.lost_pps));
        let alarm = if row.lost_pps > 0.0 { bold() } else { Style::new() };
        spans.push(Span::styled(lost, alarm));
        spans.push(Span::raw(format!(" {:>WAIT$}", count(row.waiting as f64))));
        Line::from(spans)
    }
}

/// Returns the bar of a rate: up to the share, above it, and where the share ends.
fn bar(row: &Row, width: usize, colour: bool) -> Vec<Span<'static>> {
    let cells = |bps: f64| {
        let part = if row.full_bps > 0.0 { (bps / row.full_bps).clamp(0.0, 1.0) } else { 0.0 };
        (part * width as f64).round() as usize
    };
    let used = cells(row.rate_bps).max(usize::from(row.rate_bps > 0.0));
    let share = row.share_bps.map_or(width, cells);
    let sign = |cell: usize| match cell {
        _ if cell < used && cell < share => '█',
        _ if cell < used => '▒',
        // Where the share is the whole, its end says nothing.
        _ if cell == share => '│',
        _ => '·',
    };
    let (own, above) = (used.min(share), used.max(share).min(width));
    // Blue and yellow are told apart by nearly everybody.
    let style = |paint: Color| if colour { Style::new().fg(paint) } else { Style::new() };
    let span = |range: std::ops::Range<usize>, style: Style| {
        Span::styled(range.map(sign).collect::<String>(), style)
    };
    vec![
        span(0..own, style(Color::Blue)),
        span(own..above, if used > share { style(Color::Yellow) } else { Style::new() }),
        span(above..width, Style::new()),
    ]
}

/// Returns the last seconds as a row of blocks, the highest of the row being full.
fn sparkline(course: Option<&Course>, width: usize) -> String {
    let Some(course) = course else { return " ".repeat(width) };
    let most = course.iter().copied().fold(0.0, f64::max);
    let last = course.iter().skip(course.len().saturating_sub(width));
    let block = |rate: &f64| {
        if *rate <= 0.0 || most <= 0.0 {
            return '_';
        }
        BLOCKS[((rate / most * 8.0).ceil() as usize).clamp(1, 8) - 1]
    };
    let text: String = last.map(block).collect();
    format!("{text:>width$}")
}

fn loan(row: &Row) -> String {
    match &row.borrowed {
        Some((bps, lender)) => format!("<{lender} {}", short(*bps)),
        None if row.lent_bps > 0.0 => format!(">{}", short(row.lent_bps)),
        None => String::new(),
    }
}

/// Returns what is known of the selected row.
fn tell(view: &View) -> Vec<String> {
    let found = view.status.as_ref().zip(view.rows.get(view.selected));
    let lane = found.and_then(|(status, row)| Some((status.lanes.get(row.key.0)?, row)));
    let Some((lane, row)) = lane else { return Vec::new() };
    let class = row.leaf.and_then(|leaf| lane.classes.get(leaf));
    let inner = lane.inner.iter().find(|inner| row.key.1.as_deref() == Some(&inner.name));
    match (class, inner) {
        (Some(class), _) => tell_class(lane, row, class),
        (None, Some(inner)) => tell_inner(lane, row, inner),
        (None, None) => tell_lane(lane),
    }
}

fn tell_class(lane: &LaneStatus, row: &Row, class: &ClassStatus) -> Vec<String> {
    let dropped = class.dropped.iter().map(|(cause, amount)| (cause, amount.packets));
    let lost = class.lost.iter().map(|(cause, frames)| (cause, *frames));
    let losses = dropped.chain(lost).filter(|(_, frames)| *frames > 0);
    let losses: Vec<_> = losses.map(|(cause, frames)| format!("{cause} {frames}")).collect();
    let losses = if losses.is_empty() { "nothing".to_owned() } else { losses.join(", ") };
    let recent = class.recent.unwrap_or_default();
    let delay = |micros: f64| millis((recent.delay_packets > 0).then_some(micros));
    let delays = &recent.delay;
    let loan = |loan: &weir_link::status::Loan| {
        let lender = loan.lender.and_then(|place| lane.inner.get(place as usize));
        let lender = lender.map_or("link", |lender| lender.name.as_str());
        format!("{lender} {}bit/s", short(loan.recent_bps))
    };
    let loans: Vec<_> = class.borrowed.iter().map(loan).collect();
    let loans = if loans.is_empty() { "nothing".to_owned() } else { loans.join(", ") };
    let mut lines = vec![
        format!(
            "{}: {} offered, {} sent, {} wait; 1 min: {}bit/s, {} lost/s",
            class.name,
            class.offered.packets,
            class.sent.packets,
            class.backlog.packets,
            short(recent.minute.sent_bps),
            count(recent.minute.lost_pps)
        ),
        format!("dropped and lost since the start: {losses}"),
        format!(
            "10 s: p50 {} p90 {} p99 {} max {} jitter {} ms",
            delay(delays.p50_us),
            delay(delays.p90_us),
            delay(delays.p99_us),
            delay(delays.max_us),
            delay(recent.jitter_us)
        ),
        format!(
            "1 s: over its limits {:.0} %, queue {:.1}, borrowed: {loans}",
            recent.overlimit * 100.0,
            recent.queue_packets.unwrap_or_default()
        ),
        format!("{}; {}", shares(lane, row), parameters(&class.parameters)),
    ];
    // On a small screen the line of parameters gives way.
    let hosts = class.hosts.as_ref().map(|hosts| hosts::line(&class.name, hosts));
    if let Some(line) = hosts.filter(|line| !line.is_empty()) {
        lines.insert(lines.len() - 2, line.trim_end().to_owned());
    }
    lines
}

/// Returns the share and the ceiling of a row; where no share is known, why.
fn shares(lane: &LaneStatus, row: &Row) -> String {
    let share = match row.share_bps {
        Some(share) => format!("share {}bit/s", short(share)),
        None => format!("share not known: `{}` tells none here", lane.policy.scheduler),
    };
    format!("{share}, ceiling {}bit/s", short(row.full_bps))
}

fn tell_inner(lane: &LaneStatus, row: &Row, inner: &InnerStatus) -> Vec<String> {
    vec![
        format!("{}: {} leaves below it; {}", row.name, row.leaves, parameters(&inner.parameters)),
        shares(lane, row),
        format!("1 s: sent {}bit/s, lent {}bit/s", short(row.rate_bps), short(row.lent_bps)),
    ]
}

fn tell_lane(lane: &LaneStatus) -> Vec<String> {
    let policy = &lane.policy;
    let found = lane.found;
    vec![
        match &lane.autorate {
            None => {
                format!("{}: {} of {}bit/s", lane.name, policy.scheduler, short(policy.rate_bps))
            }
            Some(varies) => format!(
                "{}: {} of {}bit/s, {}",
                lane.name,
                policy.scheduler,
                short(varies.rate_bps as f64),
                varies.text()
            ),
        },
        match policy.identity.as_str() {
            "" => "no policy".to_owned(),
            identity => {
                format!("policy {identity}, in force for {}", time(policy.age_ns as f64 / 1e9))
            }
        },
        format!(
            "left while several classes had packets: {}, only theirs: {}; came when none had: {}",
            found.more, found.one, found.none
        ),
    ]
}

fn parameters(all: &[(String, String)]) -> String {
    let written: Vec<_> = all.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if written.is_empty() { "no parameters".to_owned() } else { written.join(", ") }
}

/// Returns the last lines: what is said, and below it the keys or what is typed.
fn foot(view: &View, height: u16) -> Vec<Line<'static>> {
    let said = view.recording.iter().chain(Some(&view.message)).filter(|text| !text.is_empty());
    let said = said.cloned().collect::<Vec<_>>().join("; ");
    let typed = match (view.mode, &view.edit) {
        (Mode::Filter, _) => Some(format!("filter: {}_", view.filter)),
        (Mode::Edit, Some(edit)) => Some(format!("set: {}_", edit.text)),
        _ => None,
    };
    let filter =
        if view.filter.is_empty() { String::new() } else { format!("  [filter: {}]", view.filter) };
    let keys = format!("q quit  ? help  s sort: {}  / filter  r record", view.sort.word());
    let style = if typed.is_some() { bold() } else { Style::new() };
    let last = typed.unwrap_or(keys + &filter);
    if height < 2 {
        return vec![Line::from(format!("{last}  {said}")).style(style)];
    }
    vec![Line::from(said), Line::from(last).style(style)]
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let wide = HELP.iter().map(|(keys, _)| keys.width()).max().unwrap_or_default();
    let width = usize::from(area.width).saturating_sub(2);
    let lines = HELP.iter().flat_map(|(keys, what)| {
        wrapped(&format!(" {keys:wide$}  {what}"), width, wide + 3).into_iter().map(Line::from)
    });
    window(frame, area, "keys and signs (any key goes back)", lines.collect());
}

/// Draws lines in a window over the middle of the screen.
fn window(frame: &mut Frame<'_>, area: Rect, title: &'static str, lines: Vec<Line<'static>>) {
    let height = (lines.len() as u16).saturating_add(2).min(area.height);
    let place = Rect { height, y: area.y + (area.height - height) / 2, ..area };
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(title)), place);
}

/// Shows what a change would do, and asks.
fn decide(frame: &mut Frame<'_>, area: Rect, difference: &[String]) {
    let question = "y: put it in force   t: for 60 s, unless c keeps it   any other key: do not";
    let width = usize::from(area.width).saturating_sub(2);
    let lines = difference.iter().flat_map(|line| wrapped(line, width, 4)).map(Line::from);
    // The question is never what finds no room.
    let room = usize::from(area.height).saturating_sub(3);
    let mut lines: Vec<_> = lines.take(room).collect();
    lines.push(Line::from(question).style(bold()));
    window(frame, area, "dry run", lines);
}

/// Breaks a text between words into lines of this width, all but the first indented. The spaces of
/// the first line stay; a longer word is cut at the end of its line.
fn wrapped(text: &str, width: usize, indent: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        let last = lines.last_mut().expect("there is a first line");
        let is_begun = !last.trim().is_empty();
        if is_begun && last.width() + word.trim_end().width() > width {
            lines.push(" ".repeat(indent) + word);
        } else {
            last.push_str(word);
        }
    }
    lines
}

/// Returns a text in exactly so many columns; what is cut ends with `~`.
pub(super) fn fit(text: &str, width: usize) -> String {
    let mut fitted = text.to_owned();
    if fitted.width() > width {
        while fitted.width() + 1 > width && fitted.pop().is_some() {}
        fitted.push('~');
    }
    let pad = width.saturating_sub(fitted.width());
    fitted + &" ".repeat(pad)
}

/// Returns a number of bits a second in at most six characters.
pub(super) fn short(bps: f64) -> String {
    let (value, unit) = match bps {
        _ if bps >= 1e9 => (bps / 1e9, "G"),
        _ if bps >= 1e6 => (bps / 1e6, "M"),
        _ if bps >= 1e3 => (bps / 1e3, "k"),
        // Never `-0`.
        _ => return format!("{:.0}", bps + 0.0),
    };
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$}{unit}")
}

fn count(number: f64) -> String {
    match number {
        _ if number > 0.0 && number < 1.0 => format!("{number:.1}"),
        _ if number < 1e5 => format!("{:.0}", number + 0.0),
        _ => short(number),
    }
}

fn millis(micros: Option<f64>) -> String {
    match micros.map(|micros| micros / 1e3) {
        None => "–".to_owned(),
        Some(millis) if millis < 10.0 => format!("{millis:.3}"),
        Some(millis) if millis < 1000.0 => format!("{millis:.1}"),
        Some(millis) => format!("{millis:.0}"),
    }
}

fn time(seconds: f64) -> String {
    match seconds as u64 {
        whole @ 0..120 => format!("{whole} s"),
        whole @ 120..7200 => format!("{} min", whole / 60),
        whole @ 7200..172_800 => format!("{} h", whole / 3600),
        whole => format!("{} days", whole / 86_400),
    }
}

/// The widths of columns.
const RATE: usize = 6;
const LOAN: usize = 13;
const DELAY: usize = 6;
const LOST: usize = 6;
const WAIT: usize = 5;
/// The lines of a screen that has room for reservations.
const RESERVED_MIN: u16 = 16;
/// The lines about the selected class, on a small terminal and on another one.
const DETAILS: (u16, u16) = (4, 6);
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
