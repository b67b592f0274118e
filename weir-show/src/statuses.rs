//! Tracks of the classes of a running link, from statuses that were read one after the other.

use std::collections::BTreeMap;
use std::time::Duration;
use weir_link::status::{ClassStatus, LaneStatus, Status};
use weir_sim::timeline::{Track, Tracks};
use weir_trace::series::ClassPoint;

/// Returns the tracks of each direction that a policy shapes; of all, if there is none.
pub fn tracks(seen: &[Status], interval: Duration) -> Vec<Tracks> {
    let Some(last) = seen.last() else { return Vec::new() };
    // The first look only says what was before.
    let points = &seen[seen.len().min(2) - 1..];
    let lane = |lane: &LaneStatus| {
        let mut rows: BTreeMap<&str, Track> = BTreeMap::new();
        let at = |status| classes(status, &lane.name);
        let names = lane.classes.iter().map(|class| class.name.as_str());
        for (place, status) in points.iter().enumerate() {
            for class in at(status) {
                let track = rows.entry(class.name.as_str()).or_default();
                add(track, class, place);
            }
        }
        let track = |name: &str| {
            let mut track = rows.remove(name)?;
            track.name = name.to_owned();
            track.history.resize(points.len(), ClassPoint::IDLE);
            let class = lane.classes.iter().find(|class| class.name == name)?;
            finish(&mut track, class, at(&seen[0]).find(|class| class.name == name));
            Some(track)
        };
        let LaneStatus { name, from, to, policy, .. } = lane;
        Tracks {
            title: name.clone(),
            about: format!("{name}: {from} to {to}, {}", policy.scheduler),
            step_s: interval.as_secs_f64(),
            rate_bps: [(0.0, policy.rate_bps)].into_iter().filter(is_line).collect(),
            classes: names.filter_map(track).collect(),
            notes: vec![NOTE.to_owned()],
        }
    };
    let shaped: Vec<_> = last.lanes.iter().filter(|lane| is_shaped(lane)).collect();
    let all = || last.lanes.iter().collect();
    let shown = if shaped.is_empty() { all() } else { shaped };
    shown.into_iter().map(lane).collect()
}

fn is_shaped(lane: &LaneStatus) -> bool {
    !lane.policy.identity.is_empty()
}

/// Returns whether a rate is one that traffic can fill.
fn is_line(rate: &(f64, f64)) -> bool {
    rate.1 > 0.0 && rate.1 < UNLIMITED_BPS
}

/// Returns the classes of a direction.
fn classes<'a>(status: &'a Status, lane: &str) -> impl Iterator<Item = &'a ClassStatus> {
    let own = status.lanes.iter().find(|other| other.name == lane);
    own.into_iter().flat_map(|lane| &lane.classes)
}

/// Adds what a class did at the point `place`; before it was there it was idle.
fn add(track: &mut Track, class: &ClassStatus, place: usize) {
    track.history.resize(place, ClassPoint::IDLE);
    let recent = class.recent.unwrap_or_default();
    let delay = |micros| (recent.delay_packets > 0).then_some(micros);
    track.history.push(ClassPoint {
        sent_bps: Some(recent.second.sent_bps),
        offered_bps: Some(recent.second.offered_bps),
        backlog_bytes: Some(class.backlog.bytes as f64),
        p50_us: delay(recent.delay.p50_us),
        p99_us: delay(recent.delay.p99_us),
        dropped_pps: Some(recent.second.lost_pps),
        borrowed_bps: Some(recent.second.borrowed_bps),
    });
}

/// Adds the delays since the start of the link, and what was dropped since the first look.
fn finish(track: &mut Track, class: &ClassStatus, first: Option<&ClassStatus>) {
    let delay = &class.delay;
    if class.sent.packets > 0 {
        let known = [(delay.p50_us, 0.5), (delay.p90_us, 0.9), (delay.p99_us, 0.99)];
        track.delays = known.into_iter().chain([(delay.max_us, 1.0)]).collect();
    }
    for (reason, packets) in losses(class) {
        let before = first.into_iter().flat_map(losses).find(|row| row.0 == reason);
        let packets = packets.saturating_sub(before.map_or(0, |row| row.1));
        if packets > 0 {
            track.drops.insert(reason.to_owned(), packets);
        }
    }
}

/// Returns the packets that a class lost, by reason.
fn losses(class: &ClassStatus) -> impl Iterator<Item = (&str, u64)> {
    let dropped = class.dropped.iter().map(|(reason, amount)| (reason.as_str(), amount.packets));
    dropped.chain(class.lost.iter().map(|(cause, frames)| (cause.as_str(), *frames)))
}

/// The rate from which on a line counts as none.
const UNLIMITED_BPS: f64 = 100e9;
const NOTE: &str = "Rates are of the second before each point, delays of the ten seconds before; \
                    the distribution is since the link's start, by its p50, p90, p99 and maximum.";

#[cfg(test)]
mod tests {
    use super::*;
    use weir_link::status::{Amount, Delays, Rates, Recent};

    const INTERVAL: Duration = Duration::from_millis(250);

    fn status(sent_bps: f64, dropped: u64, names: &[&str]) -> Status {
        let class = |name: &&str| ClassStatus {
            name: (*name).to_owned(),
            sent: Amount { packets: 5, bytes: 500 },
            dropped: vec![("full".to_owned(), Amount { packets: dropped, bytes: 0 })],
            backlog: Amount { packets: 1, bytes: 100 },
            delay: Delays { p50_us: 1.0, p90_us: 2.0, p99_us: 3.0, max_us: 4.0, mean_us: 1.5 },
            recent: Some(Recent {
                second: Rates { sent_bps, ..Rates::default() },
                delay_packets: 1,
                ..Recent::default()
            }),
            ..ClassStatus::default()
        };
        let classes = names.iter().map(class).collect();
        let lane = LaneStatus { name: "up".to_owned(), classes, ..LaneStatus::default() };
        Status { lanes: vec![lane], ..Status::default() }
    }

    #[test]
    fn a_point_is_a_status_after_the_first() {
        let seen = [status(1.0, 7, &["a"]), status(2.0, 8, &["a"]), status(3.0, 10, &["a", "b"])];
        let tracks = tracks(&seen, Duration::from_millis(500));
        let [up] = &tracks[..] else { panic!("one direction") };
        let [a, b] = &up.classes[..] else { panic!("two classes") };
        assert_eq!((up.step_s, up.title.as_str()), (0.5, "up"));
        assert_eq!(a.history.sent_bps, [Some(2.0), Some(3.0)]);
        assert_eq!(b.history.sent_bps, [Some(0.0), Some(3.0)]);
        assert_eq!(b.history.p50_us[0], None);
        assert_eq!((a.drops["full"], b.drops["full"]), (3, 10));
        assert_eq!(a.delays, [(1.0, 0.5), (2.0, 0.9), (3.0, 0.99), (4.0, 1.0)]);
        assert_eq!(super::tracks(&seen[..1], INTERVAL)[0].classes[0].history.sent_bps, [Some(1.0)]);
    }

    #[test]
    fn what_no_policy_shapes_is_left_out_beside_what_one_does() {
        let mut seen = [status(1.0, 0, &["a"]), status(2.0, 0, &["a"])];
        let back = LaneStatus { name: "back".to_owned(), ..LaneStatus::default() };
        seen.iter_mut().for_each(|status| status.lanes.push(back.clone()));
        assert_eq!(tracks(&seen, INTERVAL).len(), 2);
        seen[1].lanes[0].policy.identity = "0123456789abcdef".to_owned();
        seen[1].lanes[0].policy.rate_bps = 5e6;
        let shown = tracks(&seen, INTERVAL);
        let [up] = &shown[..] else { panic!("one direction") };
        assert_eq!((up.title.as_str(), &up.rate_bps[..]), ("up", &[(0.0, 5e6)][..]));
    }
}
