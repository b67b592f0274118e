//! Round trips and objects of connections whose truth is known.

use crate::common::{self, Source, capture, connections, inferred, inferred_from_both};
use weir_infer::{Inferred, Options};

/// Twenty sources of objects from 200 B to 200 kB over a round trip of 6 to 82 ms each.
fn sources() -> Vec<Source> {
    (0..20)
        .map(|place| {
            let bytes = [200, 1_000, 5_000, 20_000, 60_000, 200_000][place % 6];
            let stamps = place % 2 == 0;
            Source {
                delay: 2 + 2 * place as u64,
                keys: format!(
                    "kind = \"tcp\"\nbytes = \"{bytes} B\"\nthink = \"400 ms\"\n\
                     timestamps = {stamps}\nwindow = \"1 MB\"\nstart = \"{} ms\"",
                    50 * place
                ),
            }
        })
        .collect()
}

/// Returns the parts of connections whose round trip is right, and of objects whose size is.
fn score(found: &Inferred, part: f64, least: f64) -> (f64, f64) {
    let (mut right, mut all, mut whole, mut objects) = (0, 0, 0, 0);
    for (place, source) in sources().iter().enumerate() {
        let truth = 2.0 * (source.delay as f64 + 1.0);
        let bytes = [200, 1_000, 5_000, 20_000, 60_000, 200_000][place % 6];
        let connections = connections(found, place);
        assert!(!connections.is_empty(), "source {place}");
        // The last one may be under way at the end.
        for tcp in &connections[..connections.len() - 1] {
            let time = tcp.round_trip.total().map_or(0.0, |time| time.as_nanos() as f64 / 1e6);
            all += 1;
            let is_right = (time - truth).abs() <= f64::max(least, part * truth);
            right += usize::from(is_right);
            if !is_right {
                println!("source {place}: {time} ms of {truth}: {:?}", tcp.round_trip);
            }
            objects += 1;
            let is_whole =
                tcp.exchanges.len() == 1 && tcp.exchanges[0].up + tcp.exchanges[0].down == bytes;
            whole += usize::from(is_whole);
            if !is_whole {
                println!("source {place}: {:?} of {bytes}", tcp.exchanges);
            }
        }
    }
    assert!(all > 150, "{all} connections");
    (f64::from(right as u32) / f64::from(all), f64::from(whole as u32) / f64::from(objects))
}

#[test]
fn round_trips_and_sizes_are_found_before_and_behind_a_queue() {
    let captured = capture(&common::dumbbell("20 Mbit/s", "60 packets", 10, &sources()));
    let rows = [("before", &captured.before), ("behind", &captured.behind)];
    for (name, bytes) in rows {
        let found = inferred(bytes, &Options::default()).expect("there are frames");
        let (times, sizes) = score(&found, 0.10, 1.0);
        assert!(times >= 0.9, "{name}: {times} of the round trips are right");
        assert!(sizes >= 0.99, "{name}: {sizes} of the objects are whole");
    }
    let found = inferred_from_both(&captured);
    let (times, sizes) = score(&found, 0.02, 0.1);
    assert!(times >= 0.9, "both: {times} of the round trips are right");
    assert!(sizes >= 0.99, "both: {sizes} of the objects are whole");
}

#[test]
fn hosts_are_as_they_were() {
    let keys = [
        "window = \"1 MB\"\nack_delay = \"0 s\"\ninitial_window = \"4 packets\"",
        "window = \"1 MB\"\nsack = false\ninitial_window = \"20 packets\"",
        "window = \"20 KB\"\ntimestamps = true",
        "window = \"1 MB\"\necn = \"classic\"",
        "window = \"1 MB\"\necn = \"accurate\"",
    ];
    let sources: Vec<Source> = keys
        .iter()
        .map(|keys| Source {
            delay: 20,
            keys: format!("kind = \"tcp\"\nbytes = \"400 KB\"\n{keys}"),
        })
        .collect();
    let captured = capture(&common::dumbbell("100 Mbit/s", "1000 packets", 5, &sources));
    for bytes in [&captured.before, &captured.behind] {
        let found = inferred(bytes, &Options::default()).expect("there are frames");
        let all: Vec<_> = (0..keys.len()).map(|place| connections(&found, place)[0]).collect();
        let segments = |place: usize| all[place].initial_window.map(|bytes| bytes / 1460);
        assert_eq!((segments(0), segments(1)), (Some(4), Some(20)));
        assert_eq!(all[3].initial_window, Some(14_600));
        let acks = |place: usize| format!("{:?}", all[place].acks);
        assert_eq!(acks(0), "Each");
        assert!(acks(1).starts_with("Delayed"), "{}", acks(1));
        assert_eq!((all[0].sack, all[1].sack), (Some(true), Some(false)));
        assert_eq!((all[1].timestamps, all[2].timestamps), (false, true));
        let window = all[2].window.expect("the handshake was seen").1;
        assert!((18_000..=20_000).contains(&window), "{window}");
        assert_eq!(format!("{:?}", all[2].limit), "Receiver");
        let ecn = |place: usize| format!("{:?}", all[place].ecn);
        assert_eq!([ecn(0), ecn(3), ecn(4)], ["Off", "Classic", "Accurate"]);
    }
}

#[test]
fn a_player_that_fills_a_buffer_is_written_with_it() {
    let chunk = "{ every = \"1 s\", up = 400, down = 250000 }";
    let chunks = [chunk; 12].join(", ");
    let keys = format!(
        "kind = \"tcp\"\nclient = \"dst\"\nwindow = \"1 MB\"\nbuffer = \"4 s\"\n\
         conversation = [{chunks}]"
    );
    let captured =
        capture(&common::dumbbell("10 Mbit/s", "100 packets", 10, &[Source { delay: 10, keys }]));
    for bytes in [&captured.before, &captured.behind] {
        let found = inferred(bytes, &Options::default()).expect("there are frames");
        let held = connections(&found, 0)[0].buffer.as_nanos() as f64 / 1e9;
        assert!((held - 4.0).abs() < 0.1, "{held} s: {:?}", connections(&found, 0)[0].exchanges);
        let text = found.scenario();
        assert!(text.contains("\nbuffer = \"4") || text.contains("\nbuffer = \"3.9"), "{text}");
    }
}
