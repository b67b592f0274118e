//! Runs held to the bounds of their policy: what keeps its word is held, what breaks it is named,
//! and a bound that is too small is found.

use weir_core::units::Duration;
use weir_sim::keeping::{Holding, Keeping, hold};
use weir_sim::{Fate, Scenario, Watch, read, run_watched};

/// Voice of at most 1 Mbit/s beside a flood, under `scheduler` with `parameters` of each class.
fn scenario(policy: &str, voice: &str) -> Scenario {
    let text = format!(
        "duration = '4 s'\n{policy}\n[[source]]\nname = 'voice'\nkind = 'cbr'\ndport = 5004\n{voice}\n\
         [[source]]\nname = 'flood'\nkind = 'poisson'\nsize = '1000 B'\nrate = '30 Mbit/s'\n"
    );
    let outcome = read::parse(text.as_bytes(), "s", &|_| unreachable!("it names no file"));
    outcome.plan.unwrap_or_else(|| panic!("{:#?}\n{text}", outcome.findings))
}

fn policy(rate: &str) -> String {
    format!(
        "[policy.link]\nrate = '{rate}'\nscheduler = 'htb'\n\
         [policy.class.voice]\nrate = '1 Mbit/s'\nprio = 0\nmatch = {{ dport = 5004 }}\n\
         arrival = {{ rate = '800 kbit/s', burst = '3000 B' }}\n\
         [policy.class.rest]\nrate = '3 Mbit/s'\nprio = 1\ndefault = true\nqueue = {{ limit = '40 packets' }}"
    )
}

const KEEPS: &str = "payload = '160 B'\ninterval = '4 ms'";
const BREAKS: &str = "payload = '160 B'\ninterval = '1 ms'";

#[test]
fn a_run_within_its_arrival_curves_is_within_its_bounds() {
    let scenario = scenario(&policy("10 Mbit/s"), KEEPS);
    let holding = hold(&scenario).expect("it runs").expect("a class declares what it is offered");
    assert_eq!(holding.void, None);
    assert_eq!(holding.broken(), [""; 0]);
    let [voice, rest] = holding.leaves.as_slice() else { panic!("{holding:?}") };
    // Both wait, and the flood fills its queue: the figures are of the run.
    assert!(voice.delay > 0.0 && voice.delay_bound.is_some_and(|bound| voice.delay <= bound));
    assert!(rest.delay > 0.02 && rest.backlog > 30_000, "{rest:?}");
}

#[test]
fn who_offers_more_than_declared_voids_the_run() {
    let scenario = scenario(&policy("10 Mbit/s"), BREAKS);
    let holding = hold(&scenario).expect("it runs").expect("a class declares what it is offered");
    let void = holding.void.clone().expect("it was offered four times as much");
    assert!(void.contains("`voice`") && void.contains("arrival"), "{void}");
    assert_eq!(holding.broken(), [""; 0]);
}

/// Examines the run of `scenario` with the bounds of the policy of `believed`.
fn mistaken(scenario: &Scenario, believed: &Scenario) -> Holding {
    let mut keeping = Keeping::of(believed).expect("a class declares what it is offered");
    let mut tell = |fate: &Fate<'_>| keeping.add(fate);
    let watch = Watch { packets: Some(&mut tell), ..Watch::default() };
    run_watched(scenario, watch, &mut |_: Duration| {}).expect("it runs");
    keeping.holding()
}

#[test]
fn a_bound_that_is_too_small_is_found() {
    let ranked = |rate| {
        let policy = policy(rate).replace("htb", "priq").replace("prio =", "priority =");
        scenario(
            &policy.replace("rate = '1 Mbit/s'\n", "").replace("rate = '3 Mbit/s'\n", ""),
            KEEPS,
        )
    };
    let (slow, fast) = (ranked("4 Mbit/s"), ranked("400 Mbit/s"));
    let broken = mistaken(&slow, &fast).broken();
    assert!(broken.iter().any(|line| line.contains(" took ")), "{broken:?}");
    let shallow = policy("10 Mbit/s").replace("40 packets", "4 packets");
    let deep = scenario(&policy("10 Mbit/s"), KEEPS);
    let broken = mistaken(&deep, &scenario(&shallow, KEEPS)).broken();
    assert!(broken.iter().any(|line| line.contains("`rest`")), "{broken:?}");
}

#[test]
fn without_a_declared_arrival_no_bound_is_checked() {
    let silent = policy("10 Mbit/s").replace("arrival", "# arrival");
    assert!(Keeping::of(&scenario(&silent, KEEPS)).is_none());
}
