//! Laws of each controller, whatever is fed. `WEIR_AUTORATE_TRACES` sets how many random
//! traces are tried.

use weir_autorate::controller::CONTROLLERS;
use weir_autorate::{
    Autorate, Director, FlowId, Frame, INTERVAL, Limits, Measure, Plan, Reason, Segment, Shaper,
    Stamp, TcpSegment, Way,
};
use weir_core::random::Random;
use weir_core::state::{Reader, State, Writer};
use weir_core::units::{Duration, Instant, Rate};

fn traces() -> u64 {
    std::env::var("WEIR_AUTORATE_TRACES").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

/// Two seconds.
const BLIND_INTERVALS: u64 = 2_000_000_000 / INTERVAL.as_nanos();

fn draw_limits(random: &mut Random) -> Limits {
    let mut rates = [0; 3].map(|_| 1 + random.bits() % 10u64.pow(4 + random.below(7)));
    rates.sort_unstable();
    let [min, base, max] = rates.map(|rate| Rate::new(rate).expect("one at least"));
    let target = Duration::from_millis(1 + u64::from(random.below(100)));
    Limits::new(min, base, max, target).expect("in order")
}

fn draw_measure(random: &mut Random, at: Instant) -> Measure {
    let wild = |random: &mut Random| random.bits() >> random.below(64);
    let maybe = |random: &mut Random| random.chance(3 << 30);
    Measure {
        at,
        delay: maybe(random).then(|| Duration::from_nanos(wild(random))),
        round_trip: maybe(random).then(|| Duration::from_nanos(wild(random))),
        flows: random.below(1000),
        is_asked: maybe(random),
        sent: wild(random),
        through: maybe(random).then(|| wild(random)),
        offered: maybe(random).then(|| wild(random)),
        under_way: maybe(random).then(|| wild(random)),
        is_limited: maybe(random),
        is_lossy: !maybe(random),
    }
}

#[test]
fn a_rate_stays_within_and_returns_to_the_base_when_blind() {
    for seed in 0..traces() {
        let random = &mut Random::new(seed, 1);
        let limits = draw_limits(random);
        for (controller, described) in CONTROLLERS.iter().enumerate() {
            let mut director = Director::new(Plan { limits, controller }, Instant::ZERO);
            let mut now = Instant::ZERO;
            for _ in 0..200 {
                // Clocks jump, to and fro.
                now = match random.below(50) {
                    0 => Instant::from_nanos(random.bits() >> random.below(64)),
                    _ => now.after(INTERVAL),
                };
                let (step, _) = director.step(Way::Up, &draw_measure(random, now));
                assert!(limits.holds(step.to), "seed {seed}, {}", described.name);
            }
            let blind = |at| Measure { at, ..Measure::default() };
            let mut last = None;
            for _ in 0..BLIND_INTERVALS {
                now = now.after(INTERVAL);
                last = Some(director.step(Way::Up, &blind(now)).0);
            }
            let last = last.expect("there were steps");
            let far = last.to.bits_per_second().abs_diff(limits.base().bits_per_second());
            // The largest step bounds how fast a rate returns: 20 steps of twice.
            let is_near = limits.base().bits_per_second() >> 15 < limits.min().bits_per_second();
            assert!(far == 0 || !is_near, "seed {seed}: {last:?} {limits:?}");
            assert_eq!(last.reason, Reason::Blind);
        }
    }
}

fn draw_frame(random: &mut Random, at: Instant) -> Frame {
    let flow = u64::from(random.below(60));
    let number = |random: &mut Random| match random.below(3) {
        0 => random.bits() as u32,
        1 => random.below(5000),
        _ => (at.as_nanos() / 1_000_000) as u32,
    };
    let segment = TcpSegment {
        seq: number(random),
        ack: random.chance(3 << 30).then(|| number(random)),
        stamp: random
            .chance(3 << 30)
            .then(|| Stamp { value: number(random), echo: number(random) }),
        payload: random.below(1500),
        is_reset: random.below(20) == 0,
    };
    let segment = match random.below(10) {
        0 => Segment::Other,
        1 => Segment::Quic(random.below(2) == 0),
        _ => Segment::Tcp(segment),
    };
    let id = FlowId { key: flow << 32 | 7, host: flow as u32 % 5, peer: flow as u32 % 9 };
    Frame { flow: id, len: 1500, segment }
}

fn autorate(limits: Limits) -> Autorate {
    let plan = Some(Plan { limits, controller: 0 });
    Autorate::new([plan, plan], [0; 2], Instant::ZERO)
}

#[test]
fn hostile_frames_keep_the_rate_within_and_a_saved_state_decides_the_same() {
    for seed in 0..traces().min(1_000) / 4 {
        let random = &mut Random::new(seed, 2);
        let limits = draw_limits(random);
        let mut one = autorate(limits);
        let mut other: Option<Autorate> = None;
        let mut now = Instant::ZERO;
        for turn in 0..60 {
            for _ in 0..random.below(60) {
                now = now.after(Duration::from_micros(u64::from(random.below(2_000))));
                let way = Way::ALL[random.below(2) as usize];
                let frame = draw_frame(random, now);
                let ticket = one.arrive(now, way, &frame);
                if let Some(other) = &mut other {
                    assert_eq!(other.arrive(now, way, &frame), ticket);
                }
                if let Some(ticket) = ticket.filter(|_| random.below(4) > 0) {
                    one.leave(now, ticket);
                    other.iter_mut().for_each(|other| other.leave(now, ticket));
                }
            }
            let shaper = Shaper {
                sent: u64::from(random.below(1_000_000)),
                dropped: u64::from(random.below(2)),
                is_limited: random.below(2) == 0,
            };
            now = now.max(one.due());
            let steps = one.end_interval(now, &[shaper; 2]);
            assert!(steps.iter().flatten().all(|step| limits.holds(step.to)), "seed {seed}");
            if let Some(other) = &mut other {
                assert_eq!(other.end_interval(now, &[shaper; 2]), steps, "seed {seed}");
            }
            if turn == 20 {
                let mut bytes = Writer::new();
                one.save(&mut bytes);
                let mut copy = autorate(limits);
                copy.load(&mut Reader::new(bytes.bytes())).expect("it was saved");
                let mut again = Writer::new();
                copy.save(&mut again);
                assert_eq!(again.bytes(), bytes.bytes(), "seed {seed}");
                other = Some(copy);
            }
        }
    }
}

/// Feeds a second of an honest upload of each of `hosts`, whose round trip is 40 ms and then 40 ms
/// and `queue` more, beside `hostile` flows of one host that claim 500 ms; returns the delay.
fn delay_found(hosts: u32, queue_ms: u64, hostile: u32) -> Option<Duration> {
    let limits = draw_limits(&mut Random::new(1, 1));
    let mut autorate = autorate(limits);
    let mut found = None;
    let flows = (0..hosts).map(|host| (host, host)).chain((0..hostile).map(|n| (999, 1000 + n)));
    let flows: Vec<_> = flows.collect();
    for round in 0..40u64 {
        let queue = if round < 20 { 0 } else { queue_ms };
        let now = Instant::ZERO.after(Duration::from_millis(round * 200));
        for (host, peer) in &flows {
            let late = if *host == 999 && round >= 5 { 500 } else { queue };
            exchange(&mut autorate, now, (*host, *peer), Duration::from_millis(40 + late % 150));
        }
        let now = now.after(Duration::from_millis(195));
        let shaper = Shaper { sent: 100_000, ..Shaper::default() };
        let [up, _] = autorate.end_interval(now, &[shaper; 2]);
        found = up.and_then(|step| step.measure.delay);
    }
    found
}

/// A frame up, and its acknowledgement after `trip`.
fn exchange(autorate: &mut Autorate, now: Instant, (host, peer): (u32, u32), trip: Duration) {
    let key = u64::from(peer + 1) << 32 | u64::from(host + 1);
    let seq = (now.as_nanos() / 1_000_000) as u32 * 10;
    let segment = |seq, ack, payload| {
        Segment::Tcp(TcpSegment { seq, ack: Some(ack), stamp: None, payload, is_reset: false })
    };
    let flow = FlowId { key, host, peer };
    let up = Frame { flow, len: 1500, segment: segment(seq, 1, 1000) };
    let down = Frame { flow, len: 66, segment: segment(1, seq.wrapping_add(1000), 0) };
    if let Some(ticket) = autorate.arrive(now, Way::Up, &up) {
        autorate.leave(now, ticket);
    }
    autorate.arrive(now.after(trip), Way::Down, &down);
}

#[test]
fn one_hostile_host_does_not_move_what_is_found() {
    for (hosts, queue) in [(2, 0), (3, 0), (3, 30), (10, 60)] {
        let honest = delay_found(hosts, queue, 0);
        assert_eq!(honest, Some(Duration::from_millis(queue)), "{hosts} hosts");
        for hostile in [1, 5, 200] {
            assert_eq!(delay_found(hosts, queue, hostile), honest, "{hosts} hosts, {hostile}");
        }
    }
}

#[test]
fn damaged_states_are_errors() {
    let limits = draw_limits(&mut Random::new(3, 1));
    let mut bytes = Writer::new();
    autorate(limits).save(&mut bytes);
    for cut in (0..bytes.bytes().len()).step_by(97) {
        let mut copy = autorate(limits);
        assert!(copy.load(&mut Reader::new(&bytes.bytes()[..cut])).is_err(), "{cut}");
    }
}
