//! Laws of controlled rates in whole simulations: random lines with five seconds without capacity,
//! connections that stop, a host that forges, a clock that jumps. For each controller the rates
//! stay within their limits and are the base where nothing tells, and Weir loses no guaranteed
//! packet; in nineteen of twenty they return within two seconds.
//!
//! `WEIR_LAWS` is the number of lines, by default 25; `WEIR_SEED` is the first one. Each is run
//! with every controller.

use crate::common::{millis, written};
use std::ops::Range;
use weir_autorate::controller::CONTROLLERS;
use weir_core::random::Random;
use weir_core::units::{Duration, Instant};
use weir_sim::behind::BehindReport;
use weir_sim::network::{Control, Disturbance, Jump};
use weir_sim::scenario::Scenario;
use weir_sim::{Fate, Report, Watch, run_watched};
use weir_trace::capacity::{Capacity, End, Model};

/// Nothing passes the modem for these milliseconds; before them its capacity is random, and
/// [`AFTER`] behind them.
const GAP: Range<u64> = 4_000..9_000;
const AFTER: u64 = 6_000_000;
/// When the clock jumps, if it does.
const JUMP_MS: u64 = 13_000;
/// When all connections stop, and the end.
const STOP_MS: u64 = 17_000;
const END_MS: u64 = 23_000;
/// How long a rate may take to return.
const RETURN_MS: u64 = 2_000;
/// Lines by default.
const LINES: u64 = 25;
/// The limits of rates, in bit/s.
const MIN: u64 = 1_000_000;
const BASE: u64 = 2_000_000;
const MAX: u64 = 20_000_000;
/// The packets of calls that wait while others are sent, and those that the modem holds.
const BURST: u32 = 30;
const MODEM: u32 = 200;
/// Those who upload, download, or do both.
const HOSTS: u32 = 4;

/// A line of the law: what its hosts send, and what goes wrong.
struct Line {
    scenario: Scenario,
    seed: u64,
    jumps: bool,
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Returns the policy of a way at its least rate: calls have 6 tenths of it for certain, and so many
/// packets of them may come at once.
fn policy(table: &str, burst: u32, random: &mut Random) -> String {
    let rows = [
        ("drr", "quantum = \"3000 B\"", "quantum = \"2000 B\""),
        ("wf2q+", "weight = 3", "weight = 2"),
        ("htb", "rate = \"600 kbit/s\"", "rate = \"400 kbit/s\"\nceil = \"1 Mbit/s\""),
        ("priq", "priority = 1", "priority = 0"),
    ];
    let (scheduler, calls, rest) = rows[random.below(rows.len() as u32) as usize];
    format!(
        "[{table}.policy.link]\nrate = \"1 Mbit/s\"\nscheduler = \"{scheduler}\"\n\
         [{table}.policy.class.calls]\nmatch = [{{ dport = 5004 }}]\n{calls}\n\
         queue = {{ limit = \"{burst} packets\" }}\n\
         [{table}.policy.class.rest]\ndefault = true\n{rest}\n\
         queue = {{ limit = \"40 packets\" }}\n"
    )
}

/// Returns a source between a host and a server, in a random way.
fn source(place: u32, random: &mut Random) -> String {
    let kind = match (place, random.below(6)) {
        // In each way there is one that tells.
        (0 | 1, _) | (_, 0..3) => "kind = \"tcp\"\nwindow = \"1 MB\"\ntimestamps = true\n",
        (_, 3) => "kind = \"tcp\"\nwindow = \"64 KB\"\ncongestion = \"reno\"\n",
        (_, 4) => "kind = \"quic\"\nwindow = \"256 KB\"\n",
        _ => "kind = \"poisson\"\nsize = \"1000 B\"\nrate = \"3 Mbit/s\"\n",
    };
    let (host, server) = (format!("h{}", place % HOSTS), format!("s{}", random.below(2)));
    let is_up = if place < 2 { place == 0 } else { random.below(2) == 0 };
    let (from, to) = if is_up { (host, server) } else { (server, host) };
    let dport = 80 + place;
    format!(
        "[[source]]\nname = \"bulk{place}\"\n{kind}dport = {dport}\nfrom = \"{from}\"\n\
         to = \"{to}\"\nstart = \"{} ms\"\nstop = \"{STOP_MS} ms\"\n",
        random.below(1_500)
    )
}

fn text(seed: u64, random: &mut Random) -> String {
    let mut text =
        format!("duration = \"{END_MS} ms\"\nseed = {seed}\n[[node]]\nname = \"weir\"\n");
    text += "router = true\n";
    for router in ["lan", "net"] {
        text += &format!("[[node]]\nname = \"{router}\"\nrouter = true\n");
    }
    let hosts = (0..HOSTS).map(|host| (format!("h{host}"), "lan"));
    for (name, router) in hosts.chain((0..2).map(|server| (format!("s{server}"), "net"))) {
        let delay = 1 + random.below(30);
        text += &format!(
            "[[node]]\nname = \"{name}\"\n[[link]]\nname = \"to-{name}\"\n\
             ends = [\"{name}\", \"{router}\"]\nrate = \"1 Gbit/s\"\ndelay = \"{delay} ms\"\n"
        );
    }
    let keys = "autorate = { min = \"1 Mbit/s\", base = \"2 Mbit/s\", max = \"20 Mbit/s\" }";
    let modem = "{ model = \"gilbert\", good = \"6 Mbit/s\", bad = \"6 Mbit/s\" }";
    text += &format!(
        "[[link]]\nname = \"inside\"\nends = [\"lan\", \"weir\"]\nrate = \"1 Gbit/s\"\n\
         [link.back]\n{keys}\n{}",
        // All that a modem holds comes at once behind a gap.
        policy("link.back", BURST + MODEM, random)
    );
    text += &format!(
        "[[link]]\nname = \"wan\"\nends = [\"weir\", \"net\"]\ndelay = \"5 ms\"\n\
         behind = {{ rate = {modem}, buffer = \"400 ms\" }}\n{keys}\n{}\
         [link.back]\nrate = {modem}\nqueue = \"{MODEM} packets\"\ndelay = \"5 ms\"\n",
        policy("link", BURST, random)
    );
    for (name, from, to) in [("up", "h0", "s0"), ("down", "s1", "h1")] {
        text += &format!(
            "[[source]]\nname = \"call-{name}\"\nkind = \"cbr\"\ndport = 5004\nsize = \"400 B\"\n\
             rate = \"500 kbit/s\"\nfrom = \"{from}\"\nto = \"{to}\"\n"
        );
    }
    let bulks = 3 + random.below(4);
    (0..bulks).for_each(|place| text += &source(place, random));
    text
}

/// Returns a capacity of a random model or of random steps, then none, then a steady one.
fn capacity(random: &mut Random) -> Capacity {
    let rate = |random: &mut Random| 300_000 + u64::from(random.below(12_000_000));
    let time = |random: &mut Random| Duration::from_millis(100 + u64::from(random.below(900)));
    let length = Duration::from_millis(GAP.start);
    let (first, second) = (rate(random), rate(random));
    let model = match random.below(4) {
        0 => Some(Model::Gilbert { good: (first, time(random)), bad: (second, time(random)) }),
        1 => Some(Model::Markov { rates: vec![first, second, rate(random)], stay: time(random) }),
        2 => Some(Model::Diurnal {
            most: first.max(second),
            least: first.min(second),
            period: length,
            noise: Default::default(),
        }),
        _ => None,
    };
    let drawn = match model {
        Some(model) => model.capacity(random.bits(), length),
        None => Capacity::new((0..40).map(|_| (time(random), rate(random))), End::Stop),
    };
    let before = drawn.and_then(|drawn| drawn.window(length, End::Stop)).expect("it lasts");
    let gap = (Duration::from_millis(GAP.end - GAP.start), 0);
    let after = (Duration::from_millis(END_MS - GAP.end), AFTER);
    Capacity::new(before.steps().chain([gap, after]), End::Loop).expect("sound steps")
}

fn jump(random: &mut Random) -> Vec<Jump> {
    const HOUR: u64 = 3_600_000;
    let (started, shown) = match random.below(3) {
        0 => return Vec::new(),
        1 => (0, JUMP_MS + HOUR),
        _ => (HOUR, HOUR / 2),
    };
    let jump = |at, to| Jump { at: millis(at), to: millis(to) };
    vec![jump(0, started), jump(JUMP_MS, shown)]
}

fn line(seed: u64, controller: usize) -> Line {
    let random = &mut Random::new(seed, 7);
    let mut scenario = written(&text(seed, random));
    let network = scenario.network.as_mut().expect("it is a network");
    for outlet in network.links.iter_mut().flat_map(|link| &mut link.outlets) {
        if let Some(behind) = &mut outlet.behind {
            behind.capacity = capacity(random);
        }
        if let Some(Control::Controller(plan)) = outlet.control.as_deref_mut() {
            plan.controller = controller;
        }
    }
    // The last one, of those who are not needed to tell.
    let last = scenario.sources.len() as u32 - 1;
    let forgers = if random.below(2) == 0 { vec![last] } else { Vec::new() };
    network.disturbance = Disturbance { forgers, jumps: jump(random) };
    let jumps = !network.disturbance.jumps.is_empty();
    Line { scenario, seed, jumps }
}

/// Runs a line; also returns when the last packet of a connection that tells left an outlet.
fn run(line: &Line) -> (Report, Instant) {
    let mut last = Instant::ZERO;
    let mut tell = |fate: &Fate<'_>| {
        if matches!(fate.content, weir_sim::Content::Segment(_)) {
            last = last.max(fate.at);
        }
    };
    let watch = Watch { packets: Some(&mut tell), ..Watch::default() };
    let report = run_watched(&line.scenario, watch, &mut |_| {}).expect("it runs");
    assert!(report.conservation.holds, "seed {}", line.seed);
    (report, last)
}

/// Returns the steps of these milliseconds.
fn within(steps: &[u64], times: Range<u64>) -> &[u64] {
    // 600 steps of a multiple of 10 ms.
    let step = (END_MS / 600 + 1).next_multiple_of(10);
    &steps[(times.start / step) as usize..(times.end / step) as usize]
}

/// Returns whether the rate is the base or more once in these milliseconds, or is no limit: what
/// the modem sent is less than four fifths of it.
fn returns(rates: &[u64], modem: &BehindReport, times: Range<u64>) -> bool {
    let own = within(rates, times.clone());
    let step = modem.over_time.step.as_nanos();
    let used: u64 = within(&modem.over_time.used_bytes, times).iter().sum();
    let possible: u128 = own.iter().map(|rate| u128::from(*rate) * u128::from(step)).sum();
    let is_limit = u128::from(used) * 8_000_000_000 > possible * 4 / 5;
    !is_limit || own.iter().any(|rate| *rate >= BASE)
}

/// Ways in which the rate should have returned, and in which it did not.
#[derive(Clone, Copy, Default, Debug)]
struct Returns {
    ways: u64,
    missed: u64,
    blind: u64,
}

fn check(seed: u64, controller: usize, counts: &mut Returns) {
    let line = line(seed, controller);
    let (report, last) = run(&line);
    let network = report.network.as_ref().expect("a network");
    let name = CONTROLLERS[controller].name;
    for (link, modem) in [("wan", "weir"), ("inside", "net")] {
        let what = format!("seed {seed}, {name}, {link}");
        let outlet = network.outlet(link, "weir").expect("it has this outlet");
        let own = outlet.autorate.as_ref().expect("its rate is controlled");
        assert_eq!(own.controller, name);
        let rates = &own.rate_bps;
        assert!(rates.iter().all(|rate| (MIN..=MAX).contains(rate)), "{what}: {rates:?}");
        let calls = outlet.class("calls").expect("it has this class");
        assert_eq!(calls.dropped.total.packets, 0, "{what}: calls were dropped");
        assert!(calls.sent.packets > 2_000, "{what}: {} packets of calls", calls.sent.packets);
        // Answers that are missed tell for three seconds.
        if last.after(Duration::from_millis(3_000 + RETURN_MS + 50)) < millis(END_MS) {
            assert_eq!(rates.last(), Some(&BASE), "{what}: nothing tells since {last:?}");
            counts.blind += 1;
        }
        let modem = network.outlet("wan", modem).and_then(|outlet| outlet.behind.as_ref());
        let after_gap = GAP.end + RETURN_MS..JUMP_MS;
        let after_jump = line.jumps.then_some(JUMP_MS + RETURN_MS..STOP_MS);
        for times in after_jump.into_iter().chain([after_gap]) {
            let is_back = returns(rates, modem.expect("a modem"), times.clone());
            counts.ways += 1;
            counts.missed += u64::from(!is_back);
            if !is_back {
                println!("{what}: below its base in {times:?} ms");
            }
        }
    }
}

#[test]
fn random_lines_keep_rates_within_and_lose_no_call() {
    let first = number("WEIR_SEED").unwrap_or(0);
    let lines = first..first + number("WEIR_LAWS").unwrap_or(LINES);
    for (controller, described) in CONTROLLERS.iter().enumerate() {
        let mut counts = Returns::default();
        lines.clone().for_each(|seed| check(seed, controller, &mut counts));
        let Returns { ways, missed, blind } = counts;
        println!("{}: {missed} of {ways} late, {blind} blind at the end", described.name);
        // Senders choose when they send again, so a few windows are later.
        assert!(missed * 20 <= ways.max(20), "{}: {missed} of {ways}", described.name);
        assert!(blind * 2 > lines.end - lines.start, "{}: {blind} are blind", described.name);
    }
}
