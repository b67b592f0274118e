//! Congestion controls by their reactions.

use crate::common::{Source, capture, connections, dumbbell, inferred, inferred_from_both};
use weir_infer::Options;
use weir_infer::tcp::Family;

#[test]
fn families_of_connections_with_losses_are_right() {
    let words = [("reno", Family::Reno), ("cubic", Family::Cubic), ("bbr", Family::BbrLike)];
    let rows = [("10 Mbit/s", 40, 10), ("30 Mbit/s", 80, 20), ("5 Mbit/s", 25, 30)];
    let (mut right, mut all) = ([0; 3], [0; 3]);
    for (rate, queue, delay) in rows {
        for (word, family) in words {
            let sources: Vec<Source> = (0..2)
                .map(|place| Source {
                    delay: delay + 7 * place,
                    keys: format!(
                        "kind = \"tcp\"\ncongestion = \"{word}\"\nwindow = \"4 MB\"\n\
                         timestamps = true\nstart = \"{} ms\"",
                        150 * place
                    ),
                })
                .collect();
            let captured = capture(&dumbbell(rate, &format!("{queue} packets"), 40, &sources));
            let of = |bytes| inferred(bytes, &Options::default()).expect("there are frames");
            let found = [of(&captured.before), of(&captured.behind), inferred_from_both(&captured)];
            for (view, found) in found.iter().enumerate() {
                for place in 0..2 {
                    let tcp = connections(found, place)[0];
                    if tcp.repeats.recoveries < 3 {
                        continue;
                    }
                    all[view] += 1;
                    right[view] += u32::from(tcp.control.family == family);
                    if tcp.control.family != family {
                        println!("{view} {rate} {word}: {:?} {:?}", tcp.control, tcp.repeats);
                    }
                    assert!(tcp.control.family == Family::Unknown || tcp.control.confidence > 0.0);
                }
            }
        }
    }
    println!("{right:?} of {all:?}");
    for view in 0..3 {
        assert!(all[view] >= 10, "{all:?}");
        assert!(right[view] * 10 >= all[view] * 8, "{right:?} of {all:?}");
    }
}
