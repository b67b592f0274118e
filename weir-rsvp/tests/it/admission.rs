//! Admission against a plain recomputation of sums and bounds, and what single reservations become.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use weir_core::classify::InterfaceId;
use weir_core::random::Random;
use weir_core::units::{Duration, Rate};
use weir_policy::Policy;
use weir_policy::calculus;
use weir_policy::deployment::{Excess, NeighbourLimit};
use weir_rsvp::admission::{Admission, AdmissionParams, Admitted, Refusal};
use weir_rsvp::node::{FlowId, Police, Request};
use weir_rsvp::wire::{Cause, Filter, Priority, Select, Session, Style};
use weir_rsvp::{Flowspec, Rspec, Tspec};

/// A link of 20 Mbit/s, 10 of which are for reservations; 100 kbit/s of these for signals.
fn policy(scheduler: &str, places: &str) -> String {
    format!(
        "[link]\nrate = \"20 Mbit/s\"\nscheduler = \"{scheduler}\"\noverhead = \"ethernet\"\n\
         [class.reserved]\nrate = \"10 Mbit/s\"\nplaces = {{ count = 12{places} }}\n\
         [class.signals]\nparent = \"reserved\"\nrate = \"100 kbit/s\"\n\
         match = {{ proto = \"46\" }}\n\
         [class.voice]\nrate = \"2 Mbit/s\"\ndelay = \"60 ms\"\n\
         arrival = {{ rate = \"1 Mbit/s\", burst = \"3000 B\" }}\nmatch = {{ dscp = \"ef\" }}\n\
         [class.rest]\nrate = \"6 Mbit/s\"\ndefault = true\n"
    )
}

fn parsed(text: &str) -> Option<Policy> {
    let outcome = weir_policy::policy::parse(text, "policy");
    outcome.plan
}

fn params() -> AdmissionParams {
    AdmissionParams {
        class: "reserved".to_owned(),
        excess: Excess::BestEffort,
        delay: None,
        neighbour: NeighbourLimit::default(),
        preemption: false,
        mtu: 1500,
        header: 14,
    }
}

fn admission(text: &str, params: AdmissionParams) -> Admission {
    Admission::new(parsed(text).expect("it is sound"), params).expect("it has places")
}

fn hop(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 2, number).into()
}

/// A reservation of a flow to this port.
fn request(port: u16, flowspec: Flowspec) -> Request {
    Request {
        session: Session::udp(Ipv4Addr::new(10, 0, 3, 2).into(), port),
        interface: InterfaceId(1),
        style: Style::Fixed,
        flowspec,
        tspec: *flowspec.tspec(),
        filters: vec![Filter::new(Ipv4Addr::new(10, 0, 1, 2).into(), 4000)],
        police: Police::default(),
        hops: vec![hop(1)],
        priority: None,
    }
}

fn tspec(rate: f32, bucket: f32) -> Tspec {
    Tspec { rate, bucket, peak: f32::INFINITY, packet_min: 100, packet_max: 1000 }
}

fn load(rate: f32) -> Flowspec {
    Flowspec::ControlledLoad(tspec(rate, 5000.0))
}

/// Guaranteed service at this rate of a flow that sends far less.
fn guaranteed(rate: f32) -> Flowspec {
    Flowspec::Guaranteed(tspec(1e4, 5000.0), Rspec { rate, slack: 0 })
}

fn admitted(result: Result<Admitted, Refusal>) -> Admitted {
    result.unwrap_or_else(|why| panic!("refused: {why}"))
}

#[test]
fn a_reservation_becomes_a_class_of_its_rate_and_filter() {
    let mut admission = admission(&policy("htb", ""), params());
    // 100 B of IP take 138 B on Ethernet: 1.38 for each byte at most.
    let made = admitted(admission.admit(FlowId(1), &request(5004, load(100_000.0))));
    assert_eq!(made.name, "rsvp-10_0_3_2-17-5004-10_0_1_2-4000");
    let lines: Vec<_> = made.table.lines().collect();
    let expected = [
        "[class.rsvp-10_0_3_2-17-5004-10_0_1_2-4000]",
        "parent = \"reserved\"",
        "rate = \"1104000 bit/s\"",
        "ceil = \"10000000 bit/s\"",
        "arrival = { rate = \"1104000 bit/s\", burst = \"6900 B\" }",
        "queue = { limit = \"153800 B\" }",
        "match = [{ src = \"10.0.1.2\", sport = \"4000\", dst = \"10.0.3.2\", proto = \"17\", \
         dport = \"5004\" }]",
    ];
    assert!(lines.len() >= 6, "{lines:#?}");
    for line in expected.iter().filter(|line| !line.starts_with("queue")) {
        assert!(lines.contains(line), "{line} in {lines:#?}");
    }
    assert_eq!(admission.load(), (1, 1_104_000, 9_900_000));
    let leaf = admission.policy().leaf(&made.name).expect("it joined");
    assert_eq!(admission.policy().joined[&leaf].rules().len(), 1);
    assert!(admission.remove(FlowId(1)).is_some());
    assert!(admission.policy().leaf(&made.name).is_none());
    assert_eq!(admission.load(), (0, 0, 9_900_000));
    assert!(admission.remove(FlowId(1)).is_none());
}

#[test]
fn a_policed_reservation_has_its_rate_and_a_queue_of_one_burst() {
    let params = AdmissionParams { excess: Excess::Police, ..params() };
    let mut admission = admission(&policy("htb", ""), params);
    let made = admitted(admission.admit(FlowId(1), &request(5004, load(100_000.0))));
    assert!(made.table.contains("ceil = \"1104000 bit/s\""), "{}", made.table);
    assert!(made.table.contains("queue = { limit ="), "{}", made.table);
}

#[test]
fn shared_and_wildcard_reservations_have_a_rule_for_each_sender_or_one_for_all() {
    let mut admission = admission(&policy("htb", ""), params());
    let filters = vec![
        Filter::new(Ipv4Addr::new(10, 0, 1, 2).into(), 4000),
        Filter::new(Ipv4Addr::new(10, 0, 1, 3).into(), 0),
    ];
    let shared = Request { style: Style::Shared, filters, ..request(5004, load(1e5)) };
    let made = admitted(admission.admit(FlowId(1), &shared));
    assert_eq!(made.name, "rsvp-10_0_3_2-17-5004");
    let rules = "match = [{ src = \"10.0.1.2\", sport = \"4000\", dst = \"10.0.3.2\", proto = \
                 \"17\", dport = \"5004\" }, { src = \"10.0.1.3\", dst = \"10.0.3.2\", proto = \
                 \"17\", dport = \"5004\" }]";
    assert!(made.table.contains(rules), "{}", made.table);
    let session = Session { port: 0, ..shared.session };
    let all = Request { style: Style::Wildcard, session, ..request(0, load(1e5)) };
    let made = admitted(admission.admit(FlowId(2), &all));
    assert!(made.table.contains("match = [{ dst = \"10.0.3.2\", proto = \"17\" }]"));
}

#[test]
fn names_of_long_addresses_are_short_and_differ() {
    let v6 =
        |last: u16| IpAddr::from([0x2001, 0xdb8, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, last]);
    let name = |from: u16| {
        let session = Session::udp(v6(0xfffe), 65_535);
        let filters = vec![Filter::new(v6(from), 65_535)];
        weir_rsvp::admission::name(&Request { session, filters, ..request(1, load(1e5)) })
    };
    let names = [name(0xfff0), name(0xfff1)];
    assert!(names.iter().all(|name| name.len() <= 64), "{names:?}");
    assert_ne!(names[0], names[1]);
}

#[test]
fn what_does_not_fit_is_refused_with_its_cause_and_leaves_no_trace() {
    let neighbour = NeighbourLimit { rate: Rate::new(3_000_000), count: Some(2) };
    let mut admission = admission(&policy("htb", ""), AdmissionParams { neighbour, ..params() });
    admitted(admission.admit(FlowId(1), &request(5004, load(100_000.0))));
    let before = (admission.load(), admission.policy().clone());
    let large = Tspec { packet_max: 1501, bucket: 5000.0, ..tspec(1e4, 5000.0) };
    let labelled = Filter { select: Select::FlowLabel(7), ..request(1, load(1e4)).filters[0] };
    let rows = [
        (request(5005, load(1_000_000.0)), Cause::BANDWIDTH, "class `reserved`"),
        (request(5005, load(200_000.0)), Cause::BANDWIDTH, "would have reserved"),
        (request(5005, load(1e38)), Cause::BANDWIDTH, "1e38 B/s would be more than the whole link"),
        (
            Request { tspec: tspec(1e4, 5000.0), ..request(5005, load(f32::MAX)) },
            Cause::BANDWIDTH,
            "more than the whole link",
        ),
        (
            request(5005, guaranteed(1e38)),
            Cause::BANDWIDTH,
            "1e38 B/s would be more than the whole link",
        ),
        (request(5005, Flowspec::ControlledLoad(large)), Cause::MTU, "MTU of 1500 B"),
        (
            request(5005, Flowspec::ControlledLoad(tspec(1e4, 999.0))),
            Cause::BAD_FLOWSPEC,
            "largest packet above the bucket",
        ),
        (
            Request { filters: vec![labelled], ..request(5005, load(1e4)) },
            Cause::SERVICE_UNSUPPORTED,
            "flow label",
        ),
        (request(5004, load(1e4)), Cause::SYSTEM, "another reservation has the class"),
    ];
    for (request, cause, why) in rows {
        let refusal = admission.admit(FlowId(2), &request).expect_err("it does not fit");
        assert_eq!(refusal.cause, cause, "{refusal}");
        assert!(refusal.why.contains(why), "{refusal}");
        assert_eq!(&before, &(admission.load(), admission.policy().clone()));
    }
    admitted(admission.admit(FlowId(2), &request(5005, load(1e4))));
    let third = admission.admit(FlowId(3), &request(5006, load(1e4))).expect_err("two are enough");
    assert!(third.why.contains("3 reservations"), "{third}");
    let other = Request { hops: vec![hop(9)], ..request(5006, load(1e4)) };
    admitted(admission.admit(FlowId(3), &other));
    // A changed one counts once.
    admitted(admission.admit(FlowId(2), &request(5005, load(2e4))));
    assert!(admission.admit(FlowId(2), &request(5005, load(5e6))).is_err());
    assert_eq!(admission.load(), (3, 1_104_000 + 220_800 + 110_400, 9_900_000));
}

#[test]
fn a_higher_priority_takes_the_place_of_the_weakest() {
    let mut admission = admission(
        &policy("htb", "").replace("delay = \"60 ms\"\n", ""),
        AdmissionParams { preemption: true, ..params() },
    );
    let of = |port: u16, preempting: u16, defending: u16| Request {
        priority: Some(Priority { preempting, defending }),
        ..request(port, load(400_000.0))
    };
    admitted(admission.admit(FlowId(1), &of(1, 5, 5)));
    admitted(admission.admit(FlowId(2), &of(2, 5, 3)));
    assert!(admission.admit(FlowId(3), &of(3, 3, 3)).is_err(), "not above the weakest");
    let made = admitted(admission.admit(FlowId(3), &of(3, 4, 9)));
    assert_eq!(made.preempted, [FlowId(2)]);
    assert_eq!(made.seatings.len(), 2, "one leaves, one joins");
    assert_eq!(admission.class_of(FlowId(2)), None);
    assert_eq!(admission.load().0, 2);
    let mut plain =
        self::admission(&policy("htb", "").replace("delay = \"60 ms\"\n", ""), params());
    admitted(plain.admit(FlowId(1), &of(1, 1, 1)));
    admitted(plain.admit(FlowId(2), &of(2, 1, 1)));
    assert!(plain.admit(FlowId(3), &of(3, 9, 9)).is_err(), "preemption is off");
}

#[test]
fn a_hop_offers_what_its_class_has_and_the_terms_of_its_scheduler() {
    let offers = admission(&policy("hfsc", CURVE), params()).offers(Some(10));
    let terms = offers.guaranteed.expect("curves bound delays");
    // A largest packet of 1538 B on a line of 20 Mbit/s takes 615.2 us.
    assert!((600..700).contains(&terms.d), "{terms:?}");
    assert_eq!((offers.mtu, offers.latency, offers.controlled_load), (1500, Some(10), true));
    // 9.9 Mbit/s carry 1500 of 1538 B.
    assert!((offers.bandwidth - 9.9e6 / 8.0 * 1500.0 / 1538.0).abs() < 1.0, "{offers:?}");
    let delay = Some(Duration::from_millis(7));
    let given = admission(&policy("hfsc", CURVE), AdmissionParams { delay, ..params() });
    assert_eq!(given.offers(None).guaranteed.expect("as before").d, 7000);
}

/// The oracle's record of an admitted reservation.
struct Known {
    request: Request,
    table: String,
    rate: u64,
    promise: Option<f64>,
}

/// Decides anew from the text of a whole policy.
struct Oracle {
    base: String,
    room: u64,
    params: AdmissionParams,
    terms: (f64, f64),
    known: BTreeMap<FlowId, Known>,
    kept: Vec<String>,
}

impl Oracle {
    fn entry(&self, request: &Request) -> Known {
        let packets = request.flowspec.tspec();
        // On Ethernet, the shortest packet has the most overhead.
        let dear = f64::from((packets.packet_min.max(20) + 38).max(84))
            / f64::from(packets.packet_min.max(20));
        let reserved = match request.flowspec {
            Flowspec::ControlledLoad(tspec) => tspec.rate,
            Flowspec::Guaranteed(_, rspec) => rspec.rate,
        };
        let rate = (f64::from(reserved) * 8.0 * dear).ceil() as u64;
        let token = (f64::from(packets.rate) * 8.0 * dear).ceil() as u64;
        let burst = (f64::from(packets.bucket) * dear).ceil() as u64;
        let Session { destination, port, .. } = request.session;
        let filter = request.filters[0];
        let table = format!(
            "[class.f{port}]\nparent = \"reserved\"\nrate = \"{rate} bit/s\"\narrival = {{ rate = \
             \"{token} bit/s\", burst = \"{burst} B\" }}\nmatch = {{ src = \"{}\", dst = \
             \"{destination}\", dport = \"{port}\", proto = \"udp\" }}\n",
            filter.source
        );
        let bytes = rate as f64 / 8.0;
        let delay = (burst as f64 + self.terms.0) / bytes + self.terms.1 / 1e6;
        let is_guaranteed = matches!(request.flowspec, Flowspec::Guaranteed(..));
        Known { request: request.clone(), table, rate, promise: is_guaranteed.then_some(delay) }
    }

    /// Returns whether the link can have exactly these.
    fn fits(&self, flows: &BTreeMap<FlowId, &Known>) -> bool {
        if flows.values().map(|flow| flow.rate).sum::<u64>() > self.room {
            return false;
        }
        let neighbours = (0..=4).map(hop);
        for neighbour in neighbours {
            let own = flows.values().filter(|flow| flow.request.hops.contains(&neighbour));
            let (count, rate) = own.fold((0, 0), |sum, flow| (sum.0 + 1, sum.1 + flow.rate));
            let NeighbourLimit { rate: most, count: many } = self.params.neighbour;
            let over = most.is_some_and(|most| rate > most.bits_per_second());
            if over || many.is_some_and(|many| count > many) {
                return false;
            }
        }
        let mut text = self.base.clone();
        for (place, flow) in flows.values().enumerate() {
            text += &flow.table.replacen('\n', &format!("\nplace = {place}\n"), 1);
        }
        let Some(policy) = parsed(&text) else { return false };
        let bounds = calculus::bounds(&policy.link, &policy.demands);
        let keeps = |name: &str, wanted: f64| {
            let leaf = policy.leaf(name).expect("it was written");
            bounds[leaf.index()].delay.is_some_and(|bound| bound <= wanted * (1.0 + 2e-6))
        };
        self.kept.iter().all(|name| keeps(name, 0.06))
            && flows.values().all(|flow| {
                let name = format!("f{}", flow.request.session.port);
                flow.promise.is_none_or(|wanted| keeps(&name, wanted))
            })
    }
}

#[test]
fn admission_is_never_wrong_against_sums_and_bounds_computed_anew() {
    let schedulers = [("htb", ""), ("hfsc", CURVE), ("htb", ", prio = 1")];
    let mut random = Random::new(2205, 0);
    let mut below = |bound: u32| random.below(bound);
    let (mut cases, mut causes) = (0, BTreeMap::<Option<Cause>, u32>::new());
    while cases < CASES {
        let (scheduler, places) = schedulers[below(3) as usize];
        let mut base = policy(scheduler, places);
        if below(2) == 0 {
            base = base.replace(
                "rate = \"6 Mbit/s\"\n",
                "rate = \"6 Mbit/s\"\nqueue = { limit = \"20 packets\" }\n",
            );
        }
        let neighbour = NeighbourLimit {
            rate: Some(Rate::new(u64::from(2 + below(8)) * 1_000_000).expect("it is positive")),
            count: (below(2) == 0).then(|| 2 + below(4)),
        };
        let delay = (below(2) == 0).then(|| Duration::from_micros(u64::from(500 + below(20_000))));
        let params = AdmissionParams { neighbour, delay, ..params() };
        let mut admission = admission(&base, params.clone());
        let Some(terms) = admission.offers(None).guaranteed else {
            panic!("{scheduler} has bounds")
        };
        // What the hop adds for the next one is no part of what it promises by itself.
        let own = terms.c - params.mtu;
        let policy = parsed(&base).expect("it is sound");
        let voice = calculus::bounds(&policy.link, &policy.demands)
            [policy.leaf("voice").expect("it is written").index()];
        let kept = voice.delay.is_some_and(|delay| delay <= 0.06).then(|| "voice".to_owned());
        let mut oracle = Oracle {
            base,
            room: 9_900_000,
            params,
            terms: (own.into(), terms.d.into()),
            known: BTreeMap::new(),
            kept: kept.into_iter().collect(),
        };
        for _ in 0..20 {
            let id = FlowId(below(10).into());
            if below(5) == 0 {
                assert_eq!(admission.remove(id).is_some(), oracle.known.remove(&id).is_some());
                continue;
            }
            let tspec = Tspec {
                rate: (1000 + below(200_000)) as f32,
                bucket: (1500 + below(20_000)) as f32,
                peak: f32::INFINITY,
                packet_min: below(400),
                packet_max: 400 + below(1100),
            };
            let rspec = Rspec { rate: tspec.rate * (1.0 + below(4) as f32 / 2.0), slack: 0 };
            let flowspec = match below(2) {
                0 => Flowspec::ControlledLoad(tspec),
                _ => Flowspec::Guaranteed(tspec, rspec),
            };
            let hops = (0..=below(2)).map(|_| hop(below(4) as u8));
            let mut hops: Vec<_> = hops.collect();
            hops.sort_unstable();
            hops.dedup();
            let request = Request { hops, ..request(5000 + id.0 as u16, flowspec) };
            let entry = oracle.entry(&request);
            let mut all: BTreeMap<_, _> =
                oracle.known.iter().map(|(id, flow)| (*id, flow)).collect();
            all.insert(id, &entry);
            let expected = oracle.fits(&all);
            let result = admission.admit(id, &request);
            assert_eq!(
                result.is_ok(),
                expected,
                "case {cases}, {scheduler}: {result:?}\n{request:?}"
            );
            *causes.entry(result.as_ref().err().map(|refusal| refusal.cause)).or_default() += 1;
            cases += 1;
            if expected {
                oracle.known.insert(id, entry);
            }
            let sum: u64 = oracle.known.values().map(|flow| flow.rate).sum();
            assert_eq!(admission.load(), (oracle.known.len(), sum, 9_900_000));
        }
    }
    // Each answer was given often, or the cases would prove nothing.
    for cause in [None, Some(Cause::BANDWIDTH), Some(Cause::DELAY)] {
        let count = causes.get(&cause).copied().unwrap_or(0);
        assert!(count > CASES / 100, "{cause:?}: {causes:?}");
    }
}

/// A place must have a curve.
const CURVE: &str = ", rate = \"1 kbit/s\"";
/// Cases of which each is computed twice.
const CASES: u32 = 3_000;
