//! Tests of the live source with a link that counts what it is asked.

use super::*;
use crate::page::feed::Reader;
use std::io::{BufRead, BufReader, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weir_control::protocol::Events;
use weir_link::status::{Amount, AutorateStatus, ClassStatus, LaneStatus, Loan};
use weir_testbed::until_ok;

/// A link whose class sends 1000 packets of 125 bytes a second, half of them on the account of the
/// link, each after a millisecond. By its clock it is asked every 250 ms.
struct Link {
    asked: Arc<AtomicU64>,
    /// How often it refused a connection.
    refused: Arc<AtomicU64>,
    /// 1 while the link replies.
    is_there: Arc<AtomicU64>,
}

impl Link {
    fn new() -> Self {
        let (asked, refused) = (Arc::default(), Arc::default());
        Self { asked, refused, is_there: Arc::new(AtomicU64::new(1)) }
    }
}

impl Contact for Link {
    fn connect(&self, _right: Right) -> Result<UnixStream, String> {
        if self.is_there.load(Ordering::Relaxed) == 0 {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err("no forwarder runs".to_owned());
        }
        let (own, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
        let (asked, is_there) = (Arc::clone(&self.asked), Arc::clone(&self.is_there));
        std::thread::spawn(move || {
            let mut out = &own;
            // It acts for whomever it is asked to.
            if out.write_all(b"\"done\"\n").is_err() {
                return;
            }
            for line in BufReader::new(&own).lines().map_while(Result::ok) {
                if is_there.load(Ordering::Relaxed) == 0 {
                    return;
                }
                let answer = match serde_json::from_str(&line) {
                    Ok(Request::Status(query)) => {
                        let before = asked.fetch_add(1, Ordering::Relaxed) as u32;
                        let uptime = Duration::from_millis(250) * (before + 1);
                        Answer::Status(Box::new(status(uptime, query.bins)))
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
    let autorate = Some(AutorateStatus {
        rate_bps: 2_000_000,
        delay_us: Some(12_000.0),
        target_us: 15_000.0,
        flows: 3,
        reason: "load".to_owned(),
        ..AutorateStatus::default()
    });
    let (name, classes) = ("up".to_owned(), vec![class]);
    let lane = LaneStatus { name, classes, autorate, ..LaneStatus::default() };
    let uptime_ns = uptime.as_nanos() as u64;
    Status { uptime_ns, lanes: vec![lane], ..Status::default() }
}

#[test]
fn ten_viewers_cost_the_link_what_one_does_and_see_its_rates() {
    let link = Link::new();
    let (asked, is_there) = (Arc::clone(&link.asked), Arc::clone(&link.is_there));
    let refused = Arc::clone(&link.refused);
    let live = Live::start("home", Arc::new(link)).expect("a thread");
    let feed = live.feed().expect("it lives");
    let mut readers: Vec<_> = (0..10).map(|_| feed.read(Some("up".to_owned()))).collect();
    let (mut samples, mut last) = (0, String::new());
    let mut read = |reader: &mut Reader<'_>, patience| {
        let news = reader.next(patience);
        samples += news.lost;
        for (_, data) in news.parts.iter().filter(|(name, _)| name == "sample") {
            samples += 1;
            last = data.to_string();
        }
        samples
    };
    // The other nine are stalled.
    until_ok("nine samples", || match read(&mut readers[0], LOOK) {
        9.. => Ok(()),
        fewer => Err(fewer),
    })
    .expect("they come");
    // One question more begins the first sample, and one may not be answered yet.
    let count = asked.load(Ordering::Relaxed);
    let samples = read(&mut readers[0], LOOK);
    assert!(count <= samples + 2, "{count} asked for {samples} samples");
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
    let varies = sample.varies.expect("the rate varies");
    assert_eq!((varies.rate_bps, varies.delay_us), (2e6, Some(12_000.0)));
    assert_eq!(varies.text, "12 ms behind of 15 (3 flows; changed for: load)");
    let about = live.about(Right::Change).expect("it is known");
    assert!(!about.abilities.change && about.directions[0].classes[0].leaf);
    assert!(about.to > about.from && about.now >= about.to, "{about:?}");
    drop(readers);
    // A link that is gone is told once, and what it did is kept.
    let mut reader = feed.read(None);
    is_there.store(0, Ordering::Relaxed);
    let mut reported = 0;
    until_ok("it was asked in vain for long", || {
        let news = reader.next(LOOK);
        reported += news.parts.iter().filter(|(name, _)| name == "gone").count();
        let attempts = refused.load(Ordering::Relaxed);
        if attempts >= 4 { Ok(()) } else { Err(attempts) }
    })
    .expect("the collector goes on");
    reported += reader.next(Duration::ZERO).parts.iter().filter(|(name, _)| name == "gone").count();
    assert_eq!(reported, 1);
    let history = live.history(&HistoryQuery::default()).expect("it is kept");
    assert!(history.classes["voice"].sent_bps.len() >= 2, "{history:?}");
}

/// How long one look at a feed waits.
const LOOK: Duration = Duration::from_millis(100);
