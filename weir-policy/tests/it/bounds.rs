//! Bounds on the delay of classes that an operator may write, and what is said of long ones.

use weir_policy::diff::{Standing, standings};
use weir_policy::policy::parse;

const WF2Q: &str = "[link]\nrate = '20 Mbit/s'\nscheduler = 'wf2q+'\n\
                    [class.voice]\nmatch = { dscp = 'ef' }\nweight = 1\n@\n\
                    [class.rest]\ndefault = true\nweight = 19\nisolate = 'flows'\n";
/// [stoica97 §VI] A curve whose first slope sends a packet of voice early.
const HFSC: &str = "[link]\nrate = '10 Mbit/s'\nscheduler = 'hfsc'\n\
                    [class.voice]\nmatch = { dscp = 'ef' }\n\
                    rt_m1 = '400 kbit/s'\nrt_d = '4 ms'\nrt_m2 = '200 kbit/s'\n@\n\
                    [class.rest]\ndefault = true\nls_m2 = '9 Mbit/s'\nisolate = 'flows'\n";
const HTB: &str = "[link]\nrate = '10 Mbit/s'\nscheduler = 'htb'\n\
                   [class.voice]\nmatch = { dscp = 'ef' }\nrate = '2 Mbit/s'\n@\n\
                   [class.rest]\ndefault = true\nrate = '8 Mbit/s'\nisolate = 'flows'\n";
const CBQ: &str = "[link]\nrate = '10 Mbit/s'\nscheduler = 'cbq'\n\
                   [class.voice]\nmatch = { dscp = 'ef' }\nrate = '2 Mbit/s'\n\
                   queue = { limit = '240 packets' }\n@\n\
                   [class.a]\nmatch = { dport = 80 }\nrate = '4 Mbit/s'\nisolate = 'flows'\n\
                   [class.rest]\ndefault = true\nrate = '4 Mbit/s'\nisolate = 'flows'\n";

/// Returns what `voice` gets, with `line` in the place of `@`.
fn voice(policy: &str, line: &str) -> Standing {
    let outcome = parse(&policy.replace('@', line), "p");
    assert!(!outcome.failed(), "{line}: {:#?}", outcome.findings);
    let mut all = standings(&outcome.plan.expect("it has no errors")).into_iter();
    all.find(|row| row.0 == "voice").expect("it is there").1
}

/// Checks the delay in ms, to a tenth.
fn check(policy: &str, line: &str, wanted: f64) {
    let delay = voice(policy, line).bound.delay.expect("it has a bound") * 1e3;
    assert!((delay - wanted).abs() < 0.1, "{line}: {delay} ms, not {wanted}");
}

#[test]
fn a_declared_burst_below_the_largest_packet_makes_the_bound_small() {
    let arrival = |burst: u32| format!("arrival = {{ rate = '60 kbit/s', burst = '{burst} B' }}");
    // 300 B at 1 Mbit/s, and a longest packet of another class at 20.
    check(WF2Q, &arrival(300).replace("60", "300"), 3.0);
    check(WF2Q, &arrival(1514).replace("60", "300"), 12.7);
    // 160 B by the first slope, and a longest packet of another class at 10 Mbit/s.
    check(HFSC, &arrival(160), 4.4);
    check(HFSC, &arrival(1514), 57.8);
}

#[test]
fn a_bound_of_seconds_says_which_burst_makes_it_short() {
    let arrival = "arrival = { rate = '1 Mbit/s', burst = '3000 B' }\n";
    let long = voice(CBQ, &format!("{arrival}burst = '1514 B'"));
    let delay = long.bound.delay.expect("it has a bound");
    assert!(delay > 2.0, "{delay} s");
    let better = long.bound.better_burst.expect("a longer burst helps");
    let (burst, promised) = (better.bytes, better.delay);
    let [_, note, ..] = long.notes();
    let note = note.expect("it is long");
    assert!(note.contains("with `burst = \"") && note.contains(" KB\"` this is"), "{note}");
    let short = voice(CBQ, &format!("{arrival}burst = '{burst} B'"));
    let delay = short.bound.delay.expect("it has a bound");
    assert!((delay - promised).abs() < 1e-5 && delay < 0.15, "{delay} s, and {promised} promised");
}

#[test]
fn a_burst_is_told_with_that_of_the_ceiling_where_there_is_one() {
    let arrival = "arrival = { rate = '500 kbit/s', burst = '3 KB' }\n";
    let better = voice(HTB, arrival).bound.better_burst.expect("a longer burst helps");
    let keys = better.keys();
    assert!(keys.starts_with("`burst = ") && keys.contains(" and `cburst = "), "{keys}");
    let written = keys.replace("` and `", "\n").replace('`', "");
    let delay = voice(HTB, &format!("{arrival}{written}")).bound.delay.expect("it has a bound");
    assert!((delay - better.delay).abs() < 1e-4, "{delay} s, and {} promised", better.delay);
}

#[test]
fn nothing_is_known_beforehand_where_the_rate_follows_arrivals() {
    let follows = HTB.replace("[link]", "[link]\nfollows_arrivals = true");
    let voice = voice(&follows, "arrival = { rate = '500 kbit/s', burst = '3 KB' }");
    let known: Vec<_> = voice.figures().into_iter().filter(|row| row.1.is_some()).collect();
    assert!(matches!(known[..], [("backlog B", _)]), "{known:?}");
    for (number, note) in voice.notes().into_iter().enumerate().filter(|row| row.0 != 2) {
        let note = note.expect("it says why");
        assert!(note.contains("follows_arrivals"), "{number}: {note}");
    }
}

#[test]
fn the_delay_of_queues_that_overtake_each_other_is_unknown_for_their_own_reason() {
    let rows = [
        ("isolate = 'flows'", "its flows take turns", "one queue for all"),
        ("queue = { dropper = 'cake' }", "its flows take turns", "one queue for all"),
        ("queue = { dropper = 'dualpi2' }", "packets of its two queues overtake", "no bound"),
    ];
    for (queue, begin, part) in rows {
        let classes = |own: &str, other: &str| {
            format!(
                "[class.voice]\n{own}\n{queue}\nmatch = {{ dport = 7 }}\n\
                 [class.rest]\n{other}\ndefault = true\n"
            )
        };
        let link =
            |scheduler: &str| format!("[link]\nrate = '20 Mbit/s'\nscheduler = '{scheduler}'\n");
        let note = |policy: &str| {
            let standing = voice(policy, "");
            assert_eq!(standing.bound.delay, None, "{policy}");
            standing.notes()[1].clone().expect("there is no delay").into_owned()
        };
        let sure = link("htb") + &classes("rate = '1 Mbit/s'", "rate = '19 Mbit/s'");
        let found = note(&sure);
        assert!(found.starts_with(begin) && found.contains(part), "{queue}: {found}");
        // Nothing is sure: no turn takes so long.
        let found = note(&(link("priq") + &classes("priority = 1", "priority = 2")));
        assert!(!found.contains("inf"), "{queue}: {found}");
    }
}
