//! The simulated half: the same policy and the same traffic in virtual time.

use super::Failure;
use super::mix::{
    Class, POLICY_PATH, UDP_HEADERS, VIDEO_PAYLOAD, VIDEO_RATE, VOICE_INTERVAL, VOICE_PAYLOAD,
    WARMUP, WEB_BYTES, WEB_INTERVAL,
};
use std::net::Ipv4Addr;
use weir_core::packet::{Addresses, Headers, Ports, Protocol};
use weir_core::units::{Bytes, Duration, Instant, Rate, Share};
use weir_policy::Policy;
use weir_sim::change::PlanChange;
use weir_sim::network::plan::OutletId;
use weir_sim::scenario::{Congestion, Jitter, Sizes, Source, Spacing, Tcp, Traffic, Transfer};
use weir_sim::timeline::{Timelines, Tracks};
use weir_sim::{Fate, Report, Scenario, Watch};

/// Simulates [`WARMUP`] and `measured`; calls `progress` with the simulated time.
pub(super) fn run(
    policy: &Policy,
    measured: std::time::Duration,
    progress: &mut dyn FnMut(Duration),
) -> Result<Report, Failure> {
    let scenario = scenario(policy, duration_of(WARMUP + measured));
    weir_sim::run(&scenario, progress).map_err(failed)
}

/// Simulates the whole run with the policy that was set at an instant from its start; returns what
/// each class did in each `step`.
pub(super) fn tracks(
    policies: [&Policy; 2],
    (changed, duration): (Duration, Duration),
    step: Duration,
) -> Result<Tracks, Failure> {
    let [first, then] = policies;
    let change = PlanChange {
        at: Instant::ZERO.after(changed),
        policy: POLICY_PATH.to_owned(),
        link: then.link.clone(),
        classifier: then.classifier(),
        heir: then.default.leaf,
        outlet: OutletId(0),
        interfaces: Vec::new(),
    };
    let scenario = Scenario { changes: vec![change], ..scenario(first, duration) };
    let mut timelines = Timelines::of(&scenario, Some(step));
    let mut tell = |fate: &Fate<'_>| timelines.add(fate);
    let watch = Watch { packets: Some(&mut tell), rest: true, ..Watch::default() };
    weir_sim::run_watched(&scenario, watch, &mut |_| {}).map_err(failed)?;
    Ok(timelines.finish().swap_remove(0))
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::System(format!("simulate the demo: {error}"))
}

fn scenario(policy: &Policy, duration: Duration) -> Scenario {
    let mut sources = vec![
        source("voice", Class::Voice, voice()),
        source("video", Class::Video, video()),
        source("bulk", Class::Bulk, Traffic::Tcp(bulk())),
    ];
    let interval = duration_of(WEB_INTERVAL).as_nanos();
    let transfers = duration.as_nanos().div_ceil(interval) as u16;
    sources.extend((0..transfers).map(web));
    Scenario {
        name: "demo".to_owned(),
        link: policy.link.clone(),
        classifier: policy.classifier(),
        delay: WIRE_DELAY,
        duration,
        warmup: duration_of(WARMUP),
        seed: 1,
        demands: policy.demands.clone(),
        sources,
        changes: Vec::new(),
        network: None,
        behind: None,
        jitter: Jitter::default(),
    }
}

fn voice() -> Traffic {
    let spacing = Spacing::interval(duration_of(VOICE_INTERVAL)).expect("an interval is not 0");
    cbr(VOICE_PAYLOAD, spacing)
}

fn video() -> Traffic {
    cbr(VIDEO_PAYLOAD, Spacing::rate(Rate::new(VIDEO_RATE).expect("the rate is not 0")))
}

fn cbr(payload: usize, spacing: Spacing) -> Traffic {
    let sizes = Sizes::fixed((payload + UDP_HEADERS) as u32).expect("a frame fits a frame");
    Traffic::Cbr { sizes, spacing, jitter: Share::default() }
}

fn bulk() -> Tcp {
    let tcp = Tcp { return_delay: WIRE_DELAY, ..Tcp::default() };
    tcp.with_congestion(Congestion::Cubic).with_window(Bytes::new(BULK_WINDOW))
}

/// One of the web transfers. Each is a source, so that it begins at its own time, as live.
fn web(number: u16) -> Source {
    let transfer = Transfer { bytes: Bytes::new(WEB_BYTES as u64), think: None };
    let tcp = Tcp { transfer: Some(transfer), return_delay: WIRE_DELAY, ..Tcp::default() };
    let headers = headers(Class::Web, FIRST_PORT + number);
    let start = Instant::ZERO.after(duration_of(WEB_INTERVAL * u32::from(number)));
    let name = format!("{WEB_PREFIX}{number}");
    Source { start, ..Source::new(name, headers, Traffic::Tcp(tcp)) }
}

fn source(name: &str, class: Class, traffic: Traffic) -> Source {
    Source::new(name, headers(class, FIRST_PORT - 1), traffic)
}

/// Returns the headers of the packets of a class.
pub(super) fn headers(class: Class, source: u16) -> Headers {
    let protocol = match class {
        Class::Voice | Class::Video => Protocol::UDP,
        Class::Web | Class::Bulk => Protocol::TCP,
    };
    let addresses = Addresses::V4 {
        source: Ipv4Addr::new(10, 77, 0, 1),
        destination: Ipv4Addr::new(10, 77, 0, 2),
    };
    Headers::of_flow(addresses, protocol, Ports { source, destination: class.port() })
}

fn duration_of(duration: std::time::Duration) -> Duration {
    Duration::from_nanos(duration.as_nanos() as u64)
}

/// The prefix of the names of web transfers.
pub(super) const WEB_PREFIX: &str = "web ";
/// The delay of a hop between two private networks and of waking the receiver.
const WIRE_DELAY: Duration = Duration::from_micros(50);
/// 90 segments, of the 100 that the queue of the class holds: always backlogged, and without a
/// loss.
const BULK_WINDOW: u64 = 128 << 10;
const FIRST_PORT: u16 = 40_000;
