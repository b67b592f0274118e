//! The screens of `weir top`, on a terminal in memory.

use super::reader::Update;
use super::view::{Mode, View};
use super::{draw, edit, keys};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use weir_control::protocol::{
    Answer, Changed, Difference, Request, Reservations, Setting, Sort, Terms,
};
use weir_link::status::reservations::{ReservationStatus, SenderStatus, SessionStatus};
use weir_link::status::{
    Amount, ClassStatus, InnerStatus, LaneStatus, Loan, PolicyStatus, Rates, Recent, Status, Sums,
    Windows,
};

const MEGA: f64 = 1e6;

/// A class below `parent` with a share, and what it sends.
fn class(name: &str, parent: Option<u32>, share: f64, sent: f64) -> ClassStatus {
    let recent = Recent {
        second: Rates { sent_bps: sent * MEGA, ..Rates::default() },
        delay_packets: 100,
        ..Recent::default()
    };
    ClassStatus {
        name: name.to_owned(),
        parent,
        share_bps: Some(share * MEGA),
        recent: Some(recent),
        ..ClassStatus::default()
    }
}

fn inner(name: &str, parent: Option<u32>, share: f64) -> InnerStatus {
    let (name, share_bps) = (name.to_owned(), Some(share * MEGA));
    InnerStatus { name, parent, share_bps, ..InnerStatus::default() }
}

/// A link of 10 Mbit/s: `home` has `voice`, within its share, and `web`, which borrows from it;
/// `bulk` loses packets.
fn status() -> Status {
    let mut voice = class("voice", Some(0), 2.0, 1.0);
    let mut web = class("web", Some(0), 2.0, 4.0);
    let mut bulk = class("bulk", None, 6.0, 5.0);
    let recent = |class: &mut ClassStatus| class.recent.take().expect("a class has it");
    voice.recent = Some(Recent { jitter_us: 700.0, ..recent(&mut voice) });
    web.borrowed = vec![Loan { lender: Some(0), bytes: 7, recent_bps: 2.0 * MEGA }];
    let second = Rates { borrowed_bps: 2.0 * MEGA, sent_bps: 4.0 * MEGA, ..Rates::default() };
    web.recent = Some(Recent { second, delay_packets: 0, ..recent(&mut web) });
    let second = Rates { lost_pps: 33.0, sent_bps: 5.0 * MEGA, ..Rates::default() };
    bulk.recent = Some(Recent { second, overlimit: 0.5, ..recent(&mut bulk) });
    bulk.dropped = vec![("full".to_owned(), Amount { packets: 99, bytes: 0 })];
    bulk.parameters = vec![("rate".to_owned(), "6 Mbit/s".to_owned())];
    bulk.backlog = Amount { packets: 17, bytes: 17_000 };
    let policy = PolicyStatus {
        rate_bps: 10.0 * MEGA,
        scheduler: "htb".to_owned(),
        identity: "0123456789abcdef".to_owned(),
        age_ns: 5_000_000_000,
    };
    let home = Sums {
        leaves: 2,
        sent_bps: 5.0 * MEGA,
        lent_bps: 2.0 * MEGA,
        p99_us: Some(0.0),
        ..Sums::default()
    };
    let sums = Sums {
        leaves: 3,
        sent_bps: 10.0 * MEGA,
        lost_pps: 33.0,
        backlog: Amount { packets: 17, bytes: 17_000 },
        p99_us: Some(0.0),
        ..Sums::default()
    };
    let lane = LaneStatus {
        name: "up".to_owned(),
        from: "eth0".to_owned(),
        to: "eth1".to_owned(),
        inner: vec![InnerStatus { sums: home, ..inner("home", None, 4.0) }],
        sums,
        classes: vec![voice, web, bulk],
        policy,
        ..LaneStatus::default()
    };
    let windows = Windows { second_ns: 1_000_000_000, ..Windows::default() };
    Status { lanes: vec![lane], windows, uptime_ns: 60_000_000_000, ..Status::default() }
}

fn view(status: Status) -> View {
    let mut view = View::new("demo", false);
    view.update(Update::Status(Box::new(status)));
    view
}

fn press(view: &mut View, text: &str) {
    for letter in text.chars() {
        let code = match letter {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '<' => KeyCode::Backspace,
            '^' => KeyCode::Home,
            '$' => KeyCode::End,
            other => KeyCode::Char(other),
        };
        keys::press(view, KeyEvent::new(code, KeyModifiers::NONE));
    }
}

fn terminal(view: &mut View, (width, height): (u16, u16)) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory");
    terminal.draw(|frame| draw::draw(frame, view)).expect("memory");
    terminal
}

/// Returns the lines of the screen.
fn lines(view: &mut View, size: (u16, u16)) -> Vec<String> {
    let terminal = terminal(view, size);
    let buffer = terminal.backend().buffer();
    let line = |y: u16| (0..size.0).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..size.1).map(|y| line(y).trim_end().to_owned()).collect()
}

/// Returns the names in the tree as drawn.
fn names(view: &mut View) -> Vec<String> {
    let rows = lines(view, (80, 24)).into_iter().skip(3).take(13).filter(|line| !line.is_empty());
    let name = |line: String| {
        let word = line.split_whitespace().next().unwrap_or_default().to_owned();
        word.trim_start_matches(['-', '+']).to_owned()
    };
    rows.map(name).collect()
}

#[test]
fn a_screen_of_80_columns_shows_everything() {
    let all = lines(&mut view(status()), (80, 24));
    let line = |part: &str| {
        all.iter().skip(3).find(|line| line.contains(part)).unwrap_or_else(|| panic!("{all:#?}"))
    };
    assert!(all[0].contains("weir top demo  up 60 s"), "{all:#?}");
    for title in ["class", "bit/s", "of ceiling", "course", "borrows", "p99 ms", "lost/s", "waits"]
    {
        assert!(all[2].contains(title), "{title}: {all:#?}");
    }
    let rows = [
        // Of ten cells a tenth; the share ends behind the second.
        ("voice", &["1.00M", "█·│·······", "0.000"][..]),
        ("web", &["4.00M", "██▒▒······", "<home 2.00M"]),
        ("bulk", &["5.00M", "█████·│···", "33", "17"]),
        ("-home", &["5.00M", "████▒·····", ">2.00M", "17"][..3]),
        ("-up: eth0", &["10.0M", "██████████"]),
    ];
    for (name, parts) in rows {
        let text = line(name);
        assert!(parts.iter().all(|part| text.contains(part)), "{parts:?}: {text}");
    }
    assert!(all[23].contains("q quit") && all[23].contains("sort: policy"), "{all:#?}");
    assert!(all.iter().all(|line| line.chars().count() <= 80));
}

#[test]
fn keys_sort_fold_and_filter() {
    let tree = ["up:", "home", "voice", "web", "bulk"];
    let rows: [(&str, &[&str]); 10] = [
        ("", &tree),
        ("s", &["up:", "home", "web", "voice", "bulk"]),
        ("sss", &["up:", "bulk", "home", "voice", "web"]),
        ("sssss", &tree),
        ("j ", &["up:", "home", "bulk"]),
        ("j  ", &tree),
        ("F", &["up:", "home", "bulk"]),
        ("/WE\n", &["up:", "home", "web"]),
        ("/web<<<bu", &["up:", "bulk"]),
        ("/web\u{1b}", &tree),
    ];
    for (pressed, wanted) in rows {
        let mut view = view(status());
        press(&mut view, pressed);
        assert_eq!(names(&mut view), wanted, "{pressed:?}");
    }
}

#[test]
fn the_selected_row_is_told_of_and_stays_selected() {
    let mut told = status();
    told.lanes[0].classes[1].share_bps = None;
    let mut view = view(told);
    let rows: [(&str, &[&str]); 5] = [
        ("^", &["up: htb of 10.0Mbit/s", "policy 0123456789abcdef, in force for 5 s"]),
        ("j", &["home: 2 leaves below it", "share 4.00Mbit/s", "lent 2.00Mbit/s"]),
        ("j", &["voice: 0 offered", "dropped and lost since the start: nothing", "jitter 0.700"]),
        ("j", &["web: 0 offered", "p50 – p90 – p99 – max – jitter – ms", "share not known: `htb`"]),
        ("$", &["rate 6 Mbit/s", "full 99", "over its limits 50 %", "borrowed: nothing"]),
    ];
    for (pressed, parts) in rows {
        press(&mut view, pressed);
        let text = lines(&mut view, (80, 24)).join("\n");
        assert!(parts.iter().all(|part| text.contains(part)), "{parts:?}: {text}");
    }
    press(&mut view, "s");
    view.update(Update::Status(Box::new(status())));
    assert!(lines(&mut view, (80, 24)).join("\n").contains("full 99"), "bulk is still selected");
}

#[test]
fn a_link_that_ends_or_restarts_is_said_to() {
    let mut view = view(status());
    view.update(Update::Lost("there is no socket".to_owned()));
    let text = lines(&mut view, (120, 24)).join("\n");
    assert!(text.contains("DOES NOT ANSWER") && text.contains("there is no socket"), "{text}");
    assert!(text.contains("voice"), "what it did last is still there");
    view.update(Update::Status(Box::new(status())));
    let text = lines(&mut view, (120, 24)).join("\n");
    assert!(text.contains("answers again") && !text.contains("DOES NOT"), "{text}");
    view.update(Update::Status(Box::new(Status { uptime_ns: 1, ..status() })));
    assert!(lines(&mut view, (120, 24)).join("\n").contains("has restarted"));
}

#[test]
fn a_course_grows_once_a_second_whatever_the_interval() {
    let mut view = view(status());
    for tenth in 1..=50_u64 {
        let uptime_ns = 60_000_000_000 + tenth * 100_000_000;
        // The windows end each second.
        let windows = Windows { age_ns: tenth % 10 * 100_000_000, ..status().windows };
        view.update(Update::Status(Box::new(Status { uptime_ns, windows, ..status() })));
    }
    let course = view.course(&(0, Some("web".to_owned()))).expect("it has one");
    assert_eq!((course.len(), course[0]), (6, 4.0 * MEGA));
    let line = lines(&mut view, (80, 24)).into_iter().find(|line| line.contains("web"));
    assert!(line.is_some_and(|line| line.contains("██████ ")), "six seconds of the same rate");
}

#[test]
fn colours_are_used_only_where_they_may_be() {
    for colour in [false, true] {
        let mut view = view(status());
        view.colour = colour;
        let terminal = terminal(&mut view, (80, 24));
        let cells = terminal.backend().buffer().content().iter();
        let painted: std::collections::BTreeSet<_> = cells
            .map(|cell| cell.fg)
            .filter(|fg| *fg != Color::Reset)
            .map(|fg| fg.to_string())
            .collect();
        let wanted: &[&str] = if colour { &["Blue", "Yellow"] } else { &[] };
        assert_eq!(painted.iter().collect::<Vec<_>>(), wanted, "{colour}");
    }
}

#[test]
fn nothing_is_cut_at_80_columns() {
    let mut view = view(status());
    press(&mut view, "?");
    let text = words(&lines(&mut view, (80, 24)));
    for (keys, what) in keys::HELP {
        assert!(text.contains(&words(&[what.to_owned()])), "{keys}: {text}");
    }
    press(&mut view, "x$");
    let long = "a parameter with a long value".to_owned();
    let class = &mut view.status.as_mut().expect("it was read").lanes[0].classes[2];
    class.parameters = vec![("rate".to_owned(), "6 Mbit/s".to_owned()), ("long".to_owned(), long)];
    let text = words(&lines(&mut view, (80, 24)));
    assert!(text.contains("ceiling 10.0Mbit/s; rate 6 Mbit/s, long a parameter with a long value"));
    let under_way = "recording to a-file-with-a-long-name-1.pcapng: 123456 frames";
    view.recording = Some(under_way.to_owned());
    view.say("a message");
    let all = lines(&mut view, (80, 24));
    let said = format!("{under_way}; a message");
    assert!(all[22] == said && all[23].contains("r record"), "{all:#?}");
}

/// Returns the words of lines, with a space between each two, without the frame of a window.
fn words(lines: &[String]) -> String {
    let words = lines.iter().flat_map(|line| line.trim_matches('│').split_whitespace());
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn any_size_and_any_status_is_drawn() {
    let many = |number: usize| {
        let lane = LaneStatus {
            classes: (0..number)
                .map(|n| class(&format!("c{n}"), Some(n as u32), 1.0, 1.0))
                .collect(),
            ..status().lanes.remove(0)
        };
        Status { lanes: vec![lane], ..status() }
    };
    // A foreign link may say anything: loops, places beyond the list, chains, numbers of any size.
    let chain = (0..5000_u32).map(|n| inner(&format!("i{n}"), Some(n.saturating_sub(1)), 1.0));
    let looped = vec![inner("a", Some(1), 1.0), inner("b", Some(0), f64::NAN)];
    let odd = |inner: Vec<InnerStatus>| {
        let mut status = many(20);
        status.lanes[0].inner = inner;
        status.lanes[0].policy.rate_bps = f64::INFINITY;
        status.frames_free = u64::MAX;
        status
    };
    for status in [Status::default(), many(1000), odd(chain.collect()), odd(looped)] {
        let mut view = view(status);
        for size in [(80, 24), (1, 1), (20, 5), (300, 100), (80, 15)] {
            for pressed in ["", "$", "^", "?", "?", "F", "F", "s"] {
                press(&mut view, pressed);
                let _drawn = lines(&mut view, size);
            }
            assert_eq!(view.mode, Mode::Tree);
        }
    }
    let mut large = view(many(1000));
    press(&mut large, "$");
    let text = lines(&mut large, (80, 24)).join("\n");
    assert!(text.contains("c999") && !text.contains("c900"), "{text}");
    press(&mut large, "/c77\n");
    assert_eq!(names(&mut large).len(), 12, "the direction, and c77, c770 to c779");
}

#[test]
fn the_link_is_asked_for_what_the_screen_can_show() {
    let two =
        Status { lanes: vec![status().lanes.remove(0), status().lanes.remove(0)], ..status() };
    let mut view = view(two);
    let query = view.query();
    assert_eq!((query.limit, query.per_direction, query.sort), (Some(1000), Some(500), None));
    assert!(query.latest, "it costs the loop nothing");
    let rows = [
        ("", Sort::RecentRate, None),
        ("s", Sort::RecentRate, None),
        ("s", Sort::RecentDelay, None),
        ("s", Sort::RecentDrops, None),
        ("s/C77\n", Sort::Backlog, Some("C77")),
        ("\u{1b}", Sort::Backlog, None),
    ];
    for (pressed, largest, filter) in rows {
        press(&mut view, pressed);
        let query = view.query();
        assert_eq!(
            (query.largest, query.filter.as_deref()),
            (Some(largest), filter),
            "{pressed:?}"
        );
    }
}

#[test]
fn sums_are_those_of_the_link_and_many_classes_begin_with_the_largest() {
    let sums = Sums { leaves: 5000, sent_bps: 41.0 * MEGA, ..Sums::default() };
    let mut many = status();
    many.lanes = vec![LaneStatus { left_out: 4997, sums, ..many.lanes.remove(0) }];
    let mut view = View::new("isp", false);
    view.begin(many);
    let all = lines(&mut view, (100, 24)).join("\n");
    for part in ["41.0M", "4997 of 5000 classes not shown, / finds any", "sort: rate"] {
        assert!(all.contains(part), "{part}: {all}");
    }
    assert_eq!(names(&mut view), ["up:", "home", "web", "voice", "bulk"]);
    assert_eq!(view.query().limit, Some(200), "few of many are asked for");
    let mut idle = status();
    let (classes, sums) = (Vec::new(), Sums::default());
    idle.lanes = vec![LaneStatus { classes, sums, ..idle.lanes.remove(0) }];
    let mut few = View::new("home", false);
    few.begin(idle);
    let text = lines(&mut few, (100, 24)).join("\n");
    assert!(text.contains("sort: policy") && !text.contains("-0"), "{text}");
}

#[test]
fn keys_ask_the_link_for_marks_and_records_or_say_that_they_cannot() {
    let mut view = view(status());
    for (pressed, wanted) in [("m", Request::Mark {}), ("c", Request::Confirm {})] {
        press(&mut view, pressed);
        assert_eq!(view.request.take(), Some(wanted));
    }
    press(&mut view, "^e");
    assert!(view.message.contains("select a class"), "{}", view.message);
    press(&mut view, "r");
    assert!(view.request.is_none() && view.wants_record);
    press(&mut view, "q");
    assert!(view.is_done);
}

#[test]
fn a_change_is_shown_as_a_dry_run_before_it_is_made() {
    let set = |terms: Terms| {
        let (direction, key) = (Some("up".to_owned()), "class.bulk.rate".to_owned());
        let setting = Setting { direction, key, value: "7 Mbit/s".to_owned() };
        Request::Set { settings: vec![setting], terms }
    };
    let answer = |errors, number: Option<u64>, text: &str| {
        let text_of_way = "bulk: rate 6 to 7 Mbit/s".to_owned();
        let way = Difference { text: text_of_way, ..Difference::default() };
        let (text, directions) = (text.to_owned(), vec![way]);
        let changed = Changed { errors, number, text, directions, ..Changed::default() };
        Ok(Answer::Changed(Box::new(changed)))
    };
    let dry = Terms { dry_run: true, ..Terms::default() };
    let made = Terms { reason: "from weir top".to_owned(), ..Terms::default() };
    let trial = Terms { confirm_ms: Some(60_000), ..made.clone() };
    // The key that decides, and what is asked of the link then.
    for (key, asked) in [("y", Some(made)), ("t", Some(trial)), ("n", None), ("\u{1b}", None)] {
        let mut view = view(status());
        press(&mut view, "$e");
        assert!(lines(&mut view, (80, 24))[23].contains("set: rate=6 Mbit/s_"));
        press(&mut view, &"<".repeat(8));
        press(&mut view, "7 Mbit/s\n");
        assert_eq!(view.request.take(), Some(set(dry.clone())), "first a dry run");
        edit::answered(&mut view, answer(1, None, "\nerror: too much\n  more"));
        assert_eq!((view.mode, view.message.as_str()), (Mode::Edit, "error: too much"));
        press(&mut view, "\n");
        assert_eq!(view.request.take(), Some(set(dry.clone())));
        edit::answered(&mut view, answer(0, None, ""));
        let text = lines(&mut view, (80, 24)).join("\n");
        assert!(text.contains("bulk: rate 6 to 7") && text.contains("y: put it"), "{text}");
        press(&mut view, key);
        assert_eq!(view.request.take(), asked.clone().map(set), "{key}");
        if asked.is_some() {
            edit::answered(&mut view, answer(0, Some(3), ""));
            assert!(view.message.contains("change 3"), "{}", view.message);
        }
        assert_eq!((view.mode, view.edit), (Mode::Tree, None));
    }
}

/// `number` sessions, all reserved but the last.
fn reservations(number: u16) -> Reservations {
    let session = |at: u16| {
        let one = ReservationStatus {
            by: Some("10.2.0.3".to_owned()),
            style: "FF".to_owned(),
            rate: 125_000.0,
            admitted: true,
            class: Some(format!("rsvp-{at}")),
            expires_ms: Some(12_340),
            ..ReservationStatus::default()
        };
        let sender = SenderStatus { sender: "10.1.0.1 port 4000".to_owned(), ..Default::default() };
        SessionStatus {
            destination: "10.3.0.4".to_owned(),
            protocol: 17,
            port: 5000 + at,
            senders: vec![sender],
            reservations: if at + 1 == number { Vec::new() } else { vec![one] },
        }
    };
    let (sessions, admitted) = (number.into(), number.saturating_sub(1).into());
    let shown = (0..number).map(session).collect();
    Reservations { sessions, admitted, room: 8_000_000, shown, ..Reservations::default() }
}

#[test]
fn reservations_have_a_part_of_the_screen_and_what_finds_none_is_counted() {
    // Sessions, lines of the screen, how many sessions have a line, and how many are only counted.
    let rows = [(0, 24, 0, 0), (2, 24, 2, 0), (4, 24, 4, 0), (5, 24, 3, 2), (90, 40, 7, 83)];
    for (sessions, height, lines_of, more) in rows {
        let mut view = view(status());
        view.update(Update::Reservations(Some(Box::new(reservations(sessions)))));
        let all = lines(&mut view, (100, height));
        let text = all.join("\n");
        assert!(text.contains(&format!("reservations: {sessions} sessions")), "{text}");
        let drawn = all.iter().filter(|line| line.starts_with("10.3.0.4 udp 5")).count();
        assert_eq!(drawn, lines_of, "{text}");
        let counted = text.contains(&format!("and {more} more sessions"));
        assert_eq!(counted, more > 0, "{text}");
        assert!(text.contains("voice"), "the classes stay: {text}");
    }
    let mut view = view(status());
    view.update(Update::Reservations(Some(Box::new(reservations(2)))));
    let all = lines(&mut view, (100, 24));
    let one = all.iter().find(|line| line.contains("udp 5000")).expect("it was drawn");
    let words: Vec<_> = one.split_whitespace().collect();
    assert_eq!(words[3..], ["FF", "10.2.0.3", "1.00M", "rsvp-0", "12.3"], "{one}");
    assert!(all.iter().any(|line| line.contains("from 10.1.0.1") && line.contains("not reserved")));
    press(&mut view, "v");
    assert!(!lines(&mut view, (100, 24)).join("\n").contains("udp 5000"), "hidden");
    press(&mut view, "v");
    view.update(Update::Reservations(None));
    assert!(!lines(&mut view, (100, 24)).join("\n").contains("reservations:"), "there are none");
    for size in [(1, 1), (20, 16), (8, 200)] {
        view.update(Update::Reservations(Some(Box::new(reservations(90)))));
        let _drawn = lines(&mut view, size);
    }
}
