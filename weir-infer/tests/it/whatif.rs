//! Forecasts against the truth: the same sources simulated under the other policy.

use crate::common;
use std::sync::atomic::AtomicBool;
use weir_infer::whatif::{Trial, ask};
use weir_infer::{Grouping, Input, Options, infer};
use weir_policy::Policy;
use weir_sim::whatif::{Measure, WhatIf};
use weir_trace::capture::CaptureReader;

fn policy(queue: &str) -> Policy {
    let text = format!(
        "[link]\nrate = \"8 Mbit/s\"\nscheduler = \"{}\"\n[class.all]\ndefault = true\n{queue}\n",
        if queue.is_empty() { "fq-codel" } else { "fifo" }
    );
    let outcome = weir_policy::parse(&text, "test.toml");
    outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.findings))
}

fn forecast(was: &str, then: &str) -> WhatIf {
    let sources: Vec<_> = (0..6)
        .map(|place| common::Source {
            delay: 5 + 5 * place,
            keys: match place {
                0 => "kind = \"tcp\"\nprofile = \"linux\"".to_owned(),
                5 => "kind = \"cbr\"\nproto = \"udp\"\nsize = \"214 B\"\ninterval = \"20 ms\""
                    .to_owned(),
                _ => "kind = \"tcp\"\nprofile = \"linux\"\nbytes = \"60 KB\"\nthink = \"700 ms\""
                    .to_owned(),
            },
        })
        .collect();
    let captured = common::capture(&common::dumbbell("8 Mbit/s", was, 12, &sources));
    let open = |bytes| CaptureReader::new(bytes).expect("it is a capture");
    let input = || Input::Captures(open(&captured.before[..]), open(&captured.behind[..]));
    let options = Options { grouping: Grouping::Exact, ..Options::default() };
    let inferred = infer(input(), &options, &mut |_| {}).expect("there are frames");
    let queue = format!("queue = {{ limit = \"{was}\" }}");
    let then =
        if then.is_empty() { String::new() } else { format!("queue = {{ limit = \"{then}\" }}") };
    let policies = [("was".to_owned(), policy(&queue)), ("then".to_owned(), policy(&then))];
    let trial = Trial { policies: &policies, replications: 3, threads: 2 };
    let stop = AtomicBool::new(false);
    ask((&inferred, input()), &trial, &stop, &|_| {}).expect("it runs").whatif
}

#[test]
fn the_known_case_is_near_and_a_short_queue_shortens_delays() {
    let found = forecast("100 packets", "15 packets");
    println!("{found}");
    let all = found.class("all").expect("there is one class");
    let row = |measure| all.rows.iter().find(|row| row.measure == measure).expect("it is measured");
    for (measure, most) in [(Measure::Throughput, 0.1), (Measure::DelayP99, 0.25)] {
        let row = row(measure);
        assert!(row.error.is_some_and(|error| error < most), "{row:?}");
    }
    let delay = &row(Measure::DelayP99).forecasts[0];
    assert!(delay.value < Some(0.03) && delay.bar.is_some(), "{delay:?}");
    assert_eq!(delay.verdict.words(), "better");
    let truth = forecast("15 packets", "100 packets");
    let captured = |measure: Measure| {
        let all = truth.class("all").expect("there is one class");
        all.rows.iter().find(|row| row.measure == measure).and_then(|row| row.captured)
    };
    let (wanted, told) =
        (captured(Measure::Throughput), row(Measure::Throughput).forecasts[0].value);
    let part = told.zip(wanted).map(|(told, wanted)| told / wanted);
    assert!(part.is_some_and(|part| (part - 1.0).abs() < 0.1), "{told:?}, {wanted:?}");
}
