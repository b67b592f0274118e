//! Target `autorate`: an estimator and its controllers get any frames at any times.

use crate::draw::Draw;
use weir_autorate::controller::CONTROLLERS;
use weir_autorate::{Autorate, Limits, Plan, Shaper, Way};
use weir_core::packet::Headers;
use weir_core::state::{Reader, State, Writer};
use weir_core::units::{Duration, Instant, Rate};

/// Reads the input as limits, frames, and ends of intervals.
///
/// # Panics
/// If a rate leaves its limits, or a saved state is loaded as another one.
pub fn autorate(input: &[u8]) {
    let mut draw = Draw::new(input);
    let limits = limits(&mut draw);
    let plan = Some(Plan { limits, controller: draw.index(CONTROLLERS.len()) });
    let new = || Autorate::new([plan, plan], [0; 2], Instant::ZERO);
    let mut autorate = new();
    let mut now = Instant::ZERO;
    let (mut tickets, mut last) = (Vec::new(), Vec::new());
    while !draw.is_done() {
        match draw.byte() % 8 {
            0 => now = now.after(Duration::from_nanos(draw.wide(1, 1 << 36))),
            1 => now = now.before(Duration::from_nanos(draw.wide(1, 1 << 32))),
            2 => {
                let shapers = [shaper(&mut draw), shaper(&mut draw)];
                let steps = autorate.end_interval(now, &shapers);
                assert!(steps.iter().flatten().all(|step| limits.holds(step.to)), "{steps:?}");
            }
            3 if draw.one_in(16) => autorate = reloaded(&autorate, new()),
            4 => {
                if let Some(ticket) = tickets.pop() {
                    autorate.leave(now, ticket);
                }
            }
            _ => {
                frame(&mut draw, &mut last);
                let headers = Headers::parse_ethernet(&last);
                let way = Way::ALL[draw.index(2)];
                tickets.extend(autorate.frame(now, way, &headers, &last));
                now = now.after(Duration::from_micros(u64::from(draw.byte())));
            }
        }
    }
}

fn limits(draw: &mut Draw<'_>) -> Limits {
    let mut rates = [0; 3].map(|_| draw.wide(1, 1 << 40));
    rates.sort_unstable();
    let [min, base, max] = rates.map(|rate| Rate::new(rate).expect("one at least"));
    let target = Duration::from_millis(draw.wide(1, 1000));
    Limits::new(min, base, max, target).expect("in order")
}

fn shaper(draw: &mut Draw<'_>) -> Shaper {
    let (sent, dropped) = (draw.wide(0, 1 << 40), draw.wide(0, 10));
    Shaper { sent, dropped, is_limited: draw.one_in(2) }
}

/// Makes an IPv4 packet of TCP, or changes the one before.
fn frame(draw: &mut Draw<'_>, last: &mut Vec<u8>) {
    if last.is_empty() || draw.one_in(4) {
        *last = vec![0; 12];
        last.extend([8, 0, 0x45, 0, 0, 52, 0, 0, 0x40, 0, 64, [6, 17][draw.index(2)], 0, 0]);
        last.extend([10, 0, 0, draw.byte() % 8, 192, 0, 2, draw.byte() % 8]);
        last.extend([0x9c, draw.byte() % 4, 1, 0xbb]);
        last.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x80, 0x10, 1, 0, 0, 0, 0, 0]);
        last.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1]);
    }
    for _ in 0..draw.index(6) {
        let at = 14 + draw.index(last.len() - 14);
        last[at] = draw.byte();
    }
    if draw.one_in(32) {
        last.truncate(14 + draw.index(last.len() - 14));
        last.resize(last.len().max(16), 0);
    }
}

/// Returns `empty` with the state of another one.
fn reloaded(autorate: &Autorate, mut empty: Autorate) -> Autorate {
    let (mut saved, mut again) = (Writer::new(), Writer::new());
    autorate.save(&mut saved);
    empty.load(&mut Reader::new(saved.bytes())).expect("it was saved");
    empty.save(&mut again);
    assert_eq!(saved.bytes(), again.bytes(), "what is loaded is what was saved");
    empty
}
