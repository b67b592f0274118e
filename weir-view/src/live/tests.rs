//! Tests of the live source with a link that counts what it is asked.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_control::protocol::Events;
use weir_live::status::{Amount, ClassStatus, LaneStatus, Loan};

/// A link whose class sends 1000 packets of 125 bytes a second, half of them on the account of the
/// link, each after a millisecond.
struct Link {
    start: Instant,
    asked: Arc<AtomicU64>,
    /// Whether it answers.
    is_there: Arc<AtomicU64>,
}

impl Link {
    fn new() -> Self {
        let (asked, is_there) = (Arc::default(), Arc::new(AtomicU64::new(1)));
        Self { start: Instant::now(), asked, is_there }
    }
}

impl Contact for Link {
    fn connect(&self) -> Result<UnixStream, String> {
        if self.is_there.load(Ordering::Relaxed) == 0 {
            return Err("no forwarder runs".to_owned());
        }
        let (own, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
        let (start, asked, is_there) =
            (self.start, Arc::clone(&self.asked), Arc::clone(&self.is_there));
        std::thread::spawn(move || {
            let mut out = &own;
            for line in BufReader::new(&own).lines().map_while(Result::ok) {
                if is_there.load(Ordering::Relaxed) == 0 {
                    return;
                }
                let answer = match serde_json::from_str(&line) {
                    Ok(Request::Status(query)) => {
                        asked.fetch_add(1, Ordering::Relaxed);
                        Answer::Status(Box::new(status(start.elapsed(), query.bins)))
                    }
                    _ => Answer::Events(Events::default()),
                };
                let mut text = serde_json::to_string(&answer).expect("an answer is JSON");
                text.push('\n');
                if out.write_all(text.as_bytes()).is_err() {
                    return;
                }
            }
        });
        Ok(theirs)
    }

    fn may_change(&self) -> bool {
        false
    }
}

fn status(uptime: Duration, bins: bool) -> Status {
    let packets = uptime.as_millis() as u64;
    let sent = Amount { packets, bytes: 125 * packets };
    let class = ClassStatus {
        name: "voice".to_owned(),
        offered: sent,
        sent,
        backlog: Amount { packets: 1, bytes: 125 },
        borrowed: vec![Loan { lender: None, bytes: sent.bytes / 2, recent_bps: 0.0 }],
        bins: bins.then(|| vec![(1_015_807, packets)]),
        ..ClassStatus::default()
    };
    let lane = LaneStatus { name: "up".to_owned(), classes: vec![class], ..LaneStatus::default() };
    let uptime_ns = uptime.as_nanos() as u64;
    Status { uptime_ns, lanes: vec![lane], ..Status::default() }
}

#[test]
fn ten_viewers_cost_the_link_what_one_does_and_see_its_rates() {
    let link = Link::new();
    let (asked, is_there) = (Arc::clone(&link.asked), Arc::clone(&link.is_there));
    let live = Live::start("home", Arc::new(link)).expect("a thread");
    let feed = live.feed().expect("it lives");
    let mut readers: Vec<_> = (0..10).map(|_| feed.read(Some("up".to_owned()))).collect();
    let begin = Instant::now();
    let mut samples = 0;
    let mut last = String::new();
    while samples < 9 && begin.elapsed() < PATIENCE {
        // The other nine are stalled.
        for (name, data) in readers[0].next(Duration::from_millis(100)).parts {
            if name == "sample" {
                samples += 1;
                last = data.to_string();
            }
        }
    }
    let (count, seconds) = (asked.load(Ordering::Relaxed), begin.elapsed().as_secs_f64());
    let told = format!("{count} asked and {samples} samples in {seconds} s");
    // Four times a second; ten viewers would be ten times that.
    assert!(samples >= 9 && (count as f64) < seconds * 4.0 + 3.0, "{told}");
    let news = readers[9].next(Duration::ZERO);
    assert!(news.parts.len() <= 3 && news.lost >= 5, "{news:?}");
    let sample: crate::json::Sample = serde_json::from_str(&last).expect("a sample");
    let (sent, offered, backlog, p50, _, dropped, borrowed) =
        sample.classes[0].expect("the class is told of");
    let near = |value: f64, wanted: f64| {
        assert!((value - wanted).abs() <= wanted * 0.01, "{value} {wanted} of {last}");
    };
    near(sent, 1e6);
    near(offered, 1e6);
    near(borrowed, 5e5);
    let p50 = p50.expect("packets left");
    assert!((985.0..=1016.0).contains(&p50), "it is inside of its bin: {p50}");
    assert_eq!((backlog, dropped), (125.0, 0.0));
    assert_eq!((sample.loans.len(), sample.loans[0].1), (1, -1));
    let about = live.about(Right::Change).expect("it is known");
    assert!(!about.abilities.change && about.directions[0].classes[0].leaf);
    assert!(about.to > about.from && about.now - about.to < 1500.0, "{about:?}");
    drop(readers);
    // A link that is gone is told once, and what it did is kept.
    let mut reader = feed.read(None);
    is_there.store(0, Ordering::Relaxed);
    let begin = Instant::now();
    let mut told = Vec::new();
    let is_over = |told: &[Instant]| told.first().is_some_and(|first| first.elapsed() > AFTERWARDS);
    while !is_over(&told) && begin.elapsed() < PATIENCE {
        let news = reader.next(Duration::from_millis(100));
        let gone = news.parts.iter().filter(|(name, _)| name == "gone");
        told.extend(gone.map(|_| Instant::now()));
    }
    assert_eq!(told.len(), 1, "{told:?}");
    let history = live.history(&HistoryQuery::default()).expect("it is kept");
    assert!(history.classes["voice"].sent_bps.len() >= 2, "{history:?}");
}

/// For what must come.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a second word of the same would have to come.
const AFTERWARDS: Duration = Duration::from_millis(900);
