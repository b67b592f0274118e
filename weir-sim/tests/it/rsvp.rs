//! Networks whose nodes reserve by RSVP: classes join and leave as the protocol wants it, messages
//! are packets beside others, lost ones delay, and guaranteed service keeps its bound.

use crate::common;

use common::{run, written};
use weir_core::random::Random;
use weir_sim::Report;
use weir_sim::network::signalling::{ReservationReport, SignallingReport};

/// Two hosts with two routers between them; the links of the routers queue by this policy.
fn chain(policy: &str, duration: u64) -> String {
    let nodes = ["one", "r1", "r2", "other"].map(|name| {
        let router = name.starts_with('r');
        format!("[[node]]\nname = \"{name}\"\nrouter = {router}\n")
    });
    format!(
        "duration = \"{duration} s\"\n{}\n\
         [[link]]\nname = \"near\"\nends = [\"one\", \"r1\"]\nrate = \"100 Mbit/s\"\n\
         [[link]]\nname = \"middle\"\nends = [\"r1\", \"r2\"]\ndelay = \"2 ms\"\n{policy}\n\
         [[link]]\nname = \"far\"\nends = [\"r2\", \"other\"]\n{policy}\n",
        nodes.concat()
    )
}

/// 10 Mbit/s, of which reservations may have 4.
const HTB: &str = "[link.policy.link]\nrate = \"10 Mbit/s\"\nscheduler = \"htb\"\n\
    [link.policy.class.reserved]\nrate = \"4 Mbit/s\"\nceil = \"10 Mbit/s\"\nplaces = 20\n\
    [link.policy.class.standing]\nparent = \"reserved\"\nrate = \"8 kbit/s\"\n\
    match = [{ dport = 9 }]\n\
    [link.policy.class.control]\nrate = \"100 kbit/s\"\nceil = \"10 Mbit/s\"\n\
    match = [{ proto = 46 }]\n\
    [link.policy.class.rest]\nrate = \"5.9 Mbit/s\"\nceil = \"10 Mbit/s\"\ndefault = true\n";

fn flow(name: &str, port: u16, more: &str) -> String {
    format!(
        "[[source]]\nname = \"{name}\"\nfrom = \"one\"\nto = \"other\"\ndport = {port}\n{more}\n"
    )
}

fn reservation(flow: &str, more: &str) -> String {
    format!("[[reservation]]\nflow = \"{flow}\"\n{more}\n")
}

const CBR: &str = "kind = \"cbr\"\nsize = \"1014 B\"\nrate = \"1 Mbit/s\"";
const FLOOD: &str = "kind = \"cbr\"\nsize = \"1014 B\"\nrate = \"20 Mbit/s\"";

fn simulate(text: &str) -> (Report, SignallingReport) {
    let report = run(&written(text));
    let signalling = report.network.as_ref().and_then(|network| network.signalling.clone());
    (report, signalling.expect("the scenario reserves"))
}

fn only(signalling: &SignallingReport) -> &ReservationReport {
    assert_eq!(signalling.reservations.len(), 1);
    &signalling.reservations[0]
}

#[test]
fn a_reservation_gives_its_flow_a_class_at_every_router() {
    let base = chain(HTB, 10) + &flow("a", 5000, CBR) + &flow("b", 5001, FLOOD);
    let asked = "[rsvp]\nclass = \"reserved\"\n".to_owned()
        + &reservation("a", "rate = \"1.2 Mbit/s\"\nstart = \"2 s\"\nstop = \"8 s\"");
    let (report, signalling) = simulate(&(base + &asked));
    println!("{report}");
    let row = only(&signalling);
    assert!(!row.stands, "it ended");
    assert!(row.in_place > 0.99, "{row:?}");
    // Path and Resv pass three links each, of which one has a delay of 2 ms.
    let setup = row.setup_us.expect("it was set up");
    assert!((4000.0..20_000.0).contains(&setup), "{setup}");
    assert!(row.confirmed_us.expect("the receiver is told") >= setup);
    for outlet in &signalling.outlets {
        let counts = (
            outlet.counts.added,
            outlet.counts.removed,
            outlet.counts.refused,
            outlet.counts.most,
            outlet.counts.lost,
        );
        let forward = (outlet.from == "r1" && outlet.link == "middle") || outlet.link == "far";
        let forward = forward && outlet.from != "other";
        assert_eq!(counts, if forward { (1, 1, 0, 1, 0) } else { (0, 0, 0, 0, 0) }, "{outlet:?}");
        assert_eq!(outlet.reserved_bps, 0);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_fits_when_another_has_gone() {
    let base = chain(HTB, 100) + &flow("a", 5000, CBR) + &flow("b", 5001, CBR);
    let asked = "[rsvp]\nclass = \"reserved\"\nrefresh = \"5 s\"\n".to_owned()
        + &reservation("a", "rate = \"3 Mbit/s\"\npacket_min = \"1000 B\"\nstop = \"30 s\"")
        + &reservation("b", "rate = \"2 Mbit/s\"\npacket_min = \"1000 B\"\nstart = \"1 s\"");
    let (_, signalling) = simulate(&(base + &asked));
    let [a, b] = &signalling.reservations[..] else { panic!("two reservations") };
    assert_eq!((a.errors, a.in_place > 0.999), (0, true));
    assert!(b.errors > 0);
    let error = b.last_error.as_deref().expect("an error came back");
    assert!(error.contains("bandwidth is not available"), "{error}");
    assert!(b.stands, "{b:?}");
    let setup = b.setup_us.expect("it fits at last") / 1e6;
    assert!((29.0..60.0).contains(&setup), "within blockade and refresh: {setup}");
}

#[test]
fn a_changed_tspec_retunes_the_class() {
    let base = chain(HTB, 20) + &flow("a", 5000, FLOOD) + &flow("b", 5001, FLOOD);
    let asked = "[rsvp]\nclass = \"reserved\"\n".to_owned()
        + &reservation(
            "a",
            "rate = \"1 Mbit/s\"\nretune = [{ at = \"10 s\", rate = \"3 Mbit/s\" }]",
        );
    let (report, signalling) = simulate(&(base + &asked));
    let counts = |outlet: &weir_sim::network::signalling::ReservingReport| {
        (outlet.counts.added, outlet.counts.retuned, outlet.counts.removed, outlet.counts.lost)
    };
    let used: Vec<_> = signalling.outlets.iter().filter(|outlet| outlet.counts.added > 0).collect();
    assert_eq!(used.len(), 2);
    used.iter().for_each(|outlet| assert_eq!(counts(outlet), (1, 1, 0, 0), "{outlet:?}"));
    assert!(used[0].reserved_bps > 3_000_000, "{:?}", used[0]);
    println!("{report}");
}

#[test]
fn flows_that_share_have_one_class_and_flows_with_ff_one_each() {
    for (style, leaves) in [("FF", 2), ("SE", 1), ("WF", 1)] {
        let twin = "kind = \"cbr\"\nsize = \"514 B\"\nrate = \"0.5 Mbit/s\"";
        let base = chain(HTB, 10) + &flow("a", 5000, twin) + &flow("b", 5000, twin);
        let asked = format!(
            "[rsvp]\nclass = \"reserved\"\n[[reservation]]\nname = \"both\"\n\
             flow = [\"a\", \"b\"]\nrate = \"0.5 Mbit/s\"\nstyle = \"{style}\"\n"
        );
        let (_, signalling) = simulate(&(base + &asked));
        let row = only(&signalling);
        assert!(row.stands && row.in_place > 0.99, "{style}: {row:?}");
        let most: Vec<_> = signalling.outlets.iter().map(|outlet| outlet.counts.most).collect();
        assert_eq!(most, [leaves, leaves], "{style}");
    }
}

#[test]
fn messages_are_packets_that_a_full_queue_drops() {
    // Without a class of their own they wait behind the flood, of which most is dropped.
    let crowded = HTB.replace("match = [{ proto = 46 }]", "match = [{ proto = 47 }]");
    let flood = FLOOD.replace("20 Mbit/s", "60 Mbit/s");
    let base = chain(&crowded, 60) + &flow("a", 5000, CBR) + &flow("b", 5001, &flood);
    let asked = "[rsvp]\nclass = \"reserved\"\nrefresh = \"1 s\"\n".to_owned()
        + &reservation("a", "rate = \"1 Mbit/s\"");
    let (_, signalling) = simulate(&(base + &asked));
    assert!(signalling.dropped.packets > 10, "{signalling:?}");
    let quiet = chain(HTB, 60) + &flow("a", 5000, CBR) + &flow("b", 5001, &flood);
    let (_, signalling) = simulate(&(quiet + &asked));
    assert_eq!(signalling.dropped.packets, 0);
    assert!(only(&signalling).in_place > 0.999);
}

/// A flow that hardly sends, so that long runs are short.
const RARE: &str = "kind = \"cbr\"\nsize = \"100 B\"\ninterval = \"100 s\"";

/// [rfc2205 §3.7] A message goes at least every 1.5 R, and state lives (K + 0.5) 1.5 R.
#[test]
fn half_of_all_messages_lost_delay_a_reservation_and_do_not_prevent_it() {
    let mut setups = Vec::new();
    for seed in 0..30 {
        for reduction in [false, true] {
            let base = chain(HTB, 3600) + &flow("a", 5000, RARE);
            let asked = format!(
                "seed = {seed}\n{base}[rsvp]\nclass = \"reserved\"\nreduction = {reduction}\n\
                 loss = \"50 %\"\nloss_until = \"3000 s\"\n{}",
                reservation("a", "rate = \"1 Mbit/s\"")
            );
            let (_, signalling) = simulate(&asked);
            let row = only(&signalling);
            let setup = row.setup_us.expect("it was set up") / 1e6;
            // Six hops of Path and Resv, each lost five times: one in 10^4 runs is slower.
            assert!(setup < 1500.0, "seed {seed}: {setup}");
            assert!(row.stands, "seed {seed}: what is lost no more is in place after 3 x 1.5 R");
            assert!(signalling.lost > 50, "seed {seed}: {}", signalling.lost);
            setups.push(setup);
        }
    }
    setups.sort_by(f64::total_cmp);
    let median = setups[setups.len() / 2];
    println!("set up after {median:.0} s in the median, {:.0} s at most", setups[setups.len() - 1]);
    assert!((1.0..400.0).contains(&median), "{median}");
}

/// 10 Mbit/s with exact bounds, of which reservations may have 6.
fn rounds(scheduler: &str) -> String {
    format!(
        "[link.policy.link]\nrate = \"10 Mbit/s\"\nscheduler = \"{scheduler}\"\n\
         [link.policy.class.reserved]\nrate = \"6 Mbit/s\"\n\
         places = {{ count = 20, rate = \"10 kbit/s\" }}\n\
         [link.policy.class.standing]\nparent = \"reserved\"\nrate = \"8 kbit/s\"\n\
         match = [{{ dport = 9 }}]\n\
         [link.policy.class.control]\nrate = \"200 kbit/s\"\nmatch = [{{ proto = 46 }}]\n\
         [link.policy.class.rest]\nrate = \"3.7 Mbit/s\"\ndefault = true\n"
    )
}

/// Flows that send a burst and pause, each within its Tspec, beside floods and each other: none of
/// their packets takes longer than the receiver computed.
#[test]
fn guaranteed_service_never_exceeds_the_bound_that_the_receiver_computed() {
    let (mut stood, mut closest) = (0, 0.0f64);
    for seed in 0..SCENARIOS {
        let mut random = Random::new(seed, 7);
        let between = |random: &mut Random, low: u32, high: u32| {
            low + random.below(u64::from(high - low + 1) as u32)
        };
        let scheduler = ["hfsc", "htb", "cbq"][random.below(3) as usize];
        let network = chain(&rounds(scheduler), 12).replace("100 Mbit/s", "1 Gbit/s");
        // The flood has a host of its own, so that it delays nothing before the first router.
        let mut text = format!(
            "seed = {seed}\n{network}[[node]]\nname = \"noise\"\n[[link]]\nname = \"side\"\n\
             ends = [\"noise\", \"r1\"]\nrate = \"1 Gbit/s\"\n"
        );
        text += &flow("flood", 7000, FLOOD).replace("\"one\"", "\"noise\"");
        let mut asked = "[rsvp]\nclass = \"reserved\"\n".to_owned();
        for number in 0..between(&mut random, 1, 4) {
            let (rate, frames) = (between(&mut random, 100, 1200), between(&mut random, 1, 12));
            let packet = between(&mut random, 100, 1500);
            // So many packets in a row, then as long a pause as the token rate wants.
            let gap = 10u32;
            let on = frames * gap;
            let cycle = (u64::from(frames * packet) * 8 * 1000).div_ceil(u64::from(rate)) as u32;
            let off = cycle.saturating_sub(on).max(1);
            let size = packet + 14;
            text += &flow(
                &format!("g{number}"),
                6000 + number as u16,
                &format!(
                    "kind = \"on-off\"\nsize = \"{size} B\"\ninterval = \"{gap} us\"\n\
                     on = \"{on} us\"\noff = \"{off} us\"\n\
                     distribution = \"constant\"\nstart = \"1 s\""
                ),
            );
            let burst = frames * packet;
            let least = packet.min(200);
            asked += &reservation(
                &format!("g{number}"),
                &format!(
                    "service = \"guaranteed\"\nrate = \"{rate} kbit/s\"\nburst = \"{burst} B\"\n\
                     packet_min = \"{least} B\"\npacket_max = \"{packet} B\"\n\
                     service_rate = \"{} kbit/s\"",
                    rate + between(&mut random, 0, 300)
                ),
            );
        }
        let (report, signalling) = simulate(&(text + &asked));
        for row in &signalling.reservations {
            let Some(bound) = row.bound_us.filter(|_| row.in_place > 0.99) else { continue };
            let source = report.source(&row.name).expect("it is declared");
            let worst = source.delay.max.as_nanos() as f64 / 1e3;
            assert!(worst <= bound, "seed {seed}, {scheduler}: {worst} us, bound {bound} us");
            assert_eq!(source.lost.packets, 0, "seed {seed}, {scheduler}: {row:?}");
            stood += 1;
            closest = closest.max(worst / bound);
        }
    }
    println!("{stood} flows, the closest at {:.1} % of its bound", closest * 100.0);
    assert!(stood > 2 * SCENARIOS / 3, "{stood}");
    assert!(closest > 0.3, "bounds that no flow comes near say little: {closest}");
}

/// Random networks of the test of bounds.
const SCENARIOS: u64 = 60;

const BULK: &str = "[link.policy.class.bulk]\nrate = \"4.9 Mbit/s\"\nceil = \"10 Mbit/s\"\n\
    match = [{ dport = 7000 }]\n[link.policy.class.rest]\nrate = \"1";

#[test]
fn a_thousand_reservations_come_and_go_without_a_lost_packet() {
    let mut random = Random::new(3, 3);
    let policy = HTB.replace("places = 20", "places = 400");
    // The flood has a class of its own: what waits in a leaf that goes finds room in `rest`.
    let policy = policy.replace("[link.policy.class.rest]\nrate = \"5.9", BULK);
    let mut text = chain(&policy, 60) + &flow("bulk", 7000, FLOOD);
    let mut asked = "[rsvp]\nclass = \"reserved\"\nrefresh = \"5 s\"\n".to_owned();
    for number in 0..1000u16 {
        let (name, start) = (format!("f{number}"), 40 + random.below(50_000));
        let stop = start + 1000 + random.below(8000);
        let span = format!("start = \"{start} ms\"\nstop = \"{stop} ms\"");
        let kind = "kind = \"cbr\"\nsize = \"214 B\"\nrate = \"12 kbit/s\"";
        text += &flow(&name, 10_000 + number, &format!("{kind}\n{span}"));
        let tspec = "rate = \"16 kbit/s\"\nburst = \"1500 B\"\npacket_min = \"200 B\"";
        asked += &reservation(&name, &format!("{tspec}\n{span}"));
    }
    let (_, signalling) = simulate(&(text + &asked));
    let used: Vec<_> = signalling.outlets.iter().filter(|outlet| outlet.counts.added > 0).collect();
    assert_eq!(used.len(), 2);
    for outlet in used {
        assert_eq!((outlet.counts.lost, outlet.reserved_bps), (0, 0), "{outlet:?}");
        assert_eq!(
            (outlet.counts.added, outlet.counts.removed, outlet.counts.refused),
            (1000, 1000, 0),
            "{outlet:?}"
        );
        assert!(outlet.counts.most > 50, "{outlet:?}");
    }
}
