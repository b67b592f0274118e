//! Streams between two private networks: what is counted is what was sent. Needs root or user
//! namespaces.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use weir_host::netlink::{Mac, VethEnd};
use weir_host::netns::NetNs;
use weir_testbed::rows::{self, Failed, Need, Outcome};
use weir_testbed::{Netlink, PATIENCE, until, until_ok, wait_for_carrier};
use weir_traffic::arrivals::ReceivedStream;
use weir_traffic::count::{ClassCount, count};
use weir_traffic::flood::{Flood, FloodPlan, Guaranteed, Place};
use weir_traffic::mark::Clock;
use weir_traffic::{RawPort, ReceivePlan, ReceiveReport, Receiver, SendPlan, Sender, source};

type Test = (&'static str, fn() -> Outcome);

#[rustfmt::skip]
const TESTS: &[Test] = &[
    ("every_datagram_is_counted_over_ipv4", || datagrams(false, None)),
    ("every_datagram_is_counted_over_ipv6", || datagrams(true, None)),
    ("every_raw_frame_is_counted_over_ipv4", || datagrams(false, Some(RECEIVER))),
    ("every_raw_frame_is_counted_over_ipv6", || datagrams(true, Some(RECEIVER))),
    ("raw_frames_are_counted_on_the_interface", raw_to_raw),
    ("super_packets_count_as_their_datagrams", super_packets),
    ("frames_of_every_length_cross", odd_lengths),
    ("a_link_that_was_down_lost_what_is_missing", a_gap_is_lost),
    ("transfers_are_whole_over_ipv4", || transfers(false)),
    ("transfers_are_whole_over_ipv6", || transfers(true)),
    ("a_class_is_counted_in_one_call", one_call),
    ("guaranteed_frames_are_mixed_into_a_flood", mixed_flood),
    ("a_receiver_without_room_says_so", overruns),
    ("a_stream_marks_by_either_clock", clocks),
    ("a_stream_without_a_receiver_goes_on", nobody_listens),
];

/// Two networks with a cable between them.
struct Pair {
    client: NetNs,
    server: NetNs,
}

const SENDER: Mac = Mac([2, 0, 0, 0, 0, 1]);
const RECEIVER: Mac = Mac([2, 0, 0, 0, 0, 2]);

impl Pair {
    fn new() -> Result<Self, Failed> {
        let pair = Self { client: NetNs::new()?, server: NetNs::new()? };
        let mut netlink = Netlink::open_in(&pair.client)?;
        let end = |namespace, mac| VethEnd { name: "eth0", namespace, mac };
        netlink.add_veth(end(&pair.client, SENDER), end(&pair.server, RECEIVER), 1500)?;
        for (namespace, host, other, mac) in
            [(&pair.client, 1, 2, RECEIVER), (&pair.server, 2, 1, SENDER)]
        {
            let mut netlink = Netlink::open_in(namespace)?;
            netlink.set_up("lo", true)?;
            netlink.set_up("eth0", true)?;
            netlink.add_address("eth0", four(host), 24)?;
            netlink.add_address("eth0", six(host), 64)?;
            netlink.add_neighbour("eth0", four(other), mac)?;
            netlink.add_neighbour("eth0", six(other), mac)?;
        }
        for namespace in [&pair.client, &pair.server] {
            wait_for_carrier(&mut Netlink::open_in(namespace)?, "eth0")?;
        }
        Ok(pair)
    }

    /// Sends what the plan says to a receiver, and returns what this has counted.
    fn run(&self, plan: &SendPlan, listen: &ReceivePlan) -> Result<Ran, Failed> {
        let receiver = self.server.run(|| Receiver::start(listen))??;
        let sent = self.client.run(|| Sender::start(plan))??.finish();
        let ended = receiver.wait_ended(PATIENCE);
        let received = receiver.finish();
        println!("{sent}\n{received}");
        let overruns = received.overruns;
        let mut received = received.streams;
        received.sort_by_key(|stream| stream.stream);
        Ok(Ran { sent: sent.streams, received, overruns, ended })
    }
}

struct Ran {
    sent: Vec<weir_traffic::sender::SentStream>,
    received: Vec<ReceivedStream>,
    /// Packets that the receiver had no room for.
    overruns: u64,
    ended: bool,
}

fn four(host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 9, 0, host))
}

fn six(host: u8) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, host.into()))
}

fn raw(to: Mac) -> RawPort {
    RawPort { interface: "eth0".to_owned(), to, from: None }
}

/// Fails with what was found unless `good`.
fn expect(good: bool, what: &str, found: &dyn std::fmt::Debug) -> Outcome {
    if good { Ok(()) } else { Err(format!("{what}: {found:?}").into()) }
}

fn datagrams(ipv6: bool, station: Option<Mac>) -> Outcome {
    let pair = Pair::new()?;
    let (from, to) = if ipv6 { (six(1), six(2)) } else { (four(1), four(2)) };
    let from = from.to_string();
    let even = [("interval", "1 ms"), ("payload", "160 B"), ("src", &from)];
    let random = [("rate", "2 Mbit/s"), ("size", "400 B"), ("src", &from), ("dscp", "ef")];
    let sources =
        vec![source("even", "cbr", to, &even)?, source("random", "poisson", to, &random)?];
    let plan = SendPlan {
        duration: Duration::from_millis(500),
        raw: station.map(raw),
        ..SendPlan::new(sources)
    };
    let ran = pair.run(&plan, &ReceivePlan::ports(&[5001]))?;
    expect(ran.ended && ran.received.len() == 2, "two streams ended", &ran.received)?;
    // One that came due while the machine made the sender pause at the end was not sent.
    let even = &ran.sent[0];
    expect(even.packets + even.unsent == 500 && even.packets > 0, "500 at 1000/s", even)?;
    for (sent, received) in ran.sent.iter().zip(&ran.received) {
        let lost = received.lost.ok_or("its loss is not known")?;
        expect(lost <= ran.overruns, "only the receiver lost some, for want of room", received)?;
        let counted = (received.packets + lost, received.duplicated, received.reordered);
        expect(counted == (sent.packets, 0, 0), &sent.name, received)?;
        expect(received.sent == Some(sent.packets), "the end mark", received)?;
        expect(received.delay.count == received.packets, "every delay is known", received)?;
        expect(received.bytes < sent.bytes, "payload, not frames", received)?;
    }
    Ok(())
}

fn raw_to_raw() -> Outcome {
    let pair = Pair::new()?;
    let from = four(1).to_string();
    // The station does not exist: only the interface sees them.
    let keys = [("interval", "1 ms"), ("size", "200 B"), ("src", &from), ("vlan", "7")];
    let plan = SendPlan {
        packets_max: Some(300),
        raw: Some(raw(Mac([2, 0, 0, 0, 0, 9]))),
        ..SendPlan::new(vec![source("tagged", "cbr", four(2), &keys)?])
    };
    let ran = pair.run(&plan, &ReceivePlan::raw("eth0", &[5001]))?;
    let stream = ran.received.first().ok_or("nothing arrived")?;
    expect((stream.packets, stream.lost) == (300, Some(0)), "all frames", stream)
}

fn super_packets() -> Outcome {
    const LENGTH: u32 = 1042;
    let pair = Pair::new()?;
    for listen in [ReceivePlan::ports(&[9]), ReceivePlan::raw("eth0", &[9])] {
        let receiver = pair.server.run(|| Receiver::start(&listen))??;
        let plan = FloodPlan {
            duration: Some(Duration::from_millis(500)),
            rate: Some(10_000),
            ..FloodPlan::udp(four(2), 9, (LENGTH, 20))
        };
        let sent = pair.client.run(|| Flood::start(&plan))??.wait();
        let sum = |report: &ReceiveReport| -> (u64, u64) {
            let streams = report.streams.iter();
            streams.fold((0, 0), |sum, one| (sum.0 + one.packets, sum.1 + one.bytes))
        };
        until_ok("every segment arrives, or finds no room", || {
            let report = receiver.report();
            let is_all = sum(&report).0 + report.overruns >= sent.sent;
            if is_all { Ok(()) } else { Err(format!("{sent:?}, {report:?}")) }
        })?;
        let received = receiver.finish();
        let found = (&sent, &received);
        expect(received.overruns == 0, "the receiver had room for all", &found)?;
        expect(sent.sent > 0 && sent.sent % 20 == 0, "whole super-packets", &found)?;
        expect(sum(&received) == (sent.sent, sent.sent * 1000), "every segment", &found)?;
    }
    Ok(())
}

/// Frames from nothing but a UDP header up to the MTU arrive; marks begin where there is room.
fn odd_lengths() -> Outcome {
    let pair = Pair::new()?;
    let from = four(1).to_string();
    for (length, marked) in [("42 B", false), ("65 B", false), ("66 B", true), ("1514 B", true)] {
        let keys = [("interval", "1 ms"), ("size", length), ("src", &from)];
        let plan = SendPlan {
            packets_max: Some(20),
            raw: Some(raw(RECEIVER)),
            ..SendPlan::new(vec![source("odd", "cbr", four(2), &keys)?])
        };
        let ran = pair.run(&plan, &ReceivePlan::ports(&[5001]))?;
        let bare = ran.received.iter().find(|stream| stream.stream.is_none());
        let bare = bare.map_or(0, |stream| stream.packets);
        let numbered = ran.received.iter().find(|stream| stream.stream.is_some());
        let numbered = numbered.map_or(0, |stream| stream.packets);
        let expected = if marked { (0, 20) } else { (20, 0) };
        expect((bare, numbered) == expected, length, &ran.received)?;
    }
    Ok(())
}

fn a_gap_is_lost() -> Outcome {
    let pair = Pair::new()?;
    let keys = [("interval", "1 ms"), ("payload", "100 B")];
    let sources = vec![source("gap", "cbr", four(2), &keys)?];
    let plan = SendPlan { duration: Duration::MAX, ..SendPlan::new(sources) };
    let receiver = pair.server.run(|| Receiver::start(&ReceivePlan::ports(&[5001])))??;
    let sender = pair.client.run(|| Sender::start(&plan))??;
    let another_hundred = || {
        let wanted = sender.sent().0 + 100;
        until("a hundred more are sent", || sender.sent().0 >= wanted)
    };
    let mut netlink = Netlink::open_in(&pair.server)?;
    another_hundred()?;
    netlink.set_up("eth0", false)?;
    // One that was on its way to the interface is not counted yet.
    another_hundred()?;
    netlink.set_up("eth0", true)?;
    for host in [&pair.client, &pair.server] {
        wait_for_carrier(&mut Netlink::open_in(host)?, "eth0")?;
    }
    another_hundred()?;
    sender.stop();
    let sent = sender.finish().streams.remove(0);
    expect(receiver.wait_ended(PATIENCE), "the stream ends", &sent)?;
    let received = receiver.finish().streams;
    let stream = received.first().ok_or("nothing arrived")?;
    let lost = stream.lost.ok_or("nothing is known of its loss")?;
    let is_so = lost >= 99 && stream.packets + lost == sent.packets;
    expect(is_so, "what is missing is lost", &(&sent, stream))
}

fn transfers(ipv6: bool) -> Outcome {
    let pair = Pair::new()?;
    let to = if ipv6 { six(2) } else { four(2) };
    let files = [("file", "100 KB"), ("files", "5"), ("pause", "10 ms"), ("dport", "80")];
    let buffers = [("buffers", "100"), ("length", "8 KB"), ("dport", "81")];
    let sources = vec![source("files", "ftp", to, &files)?, source("one", "ttcp", to, &buffers)?];
    let plan = SendPlan { duration: PATIENCE, ..SendPlan::new(sources) };
    let ran = pair.run(&plan, &ReceivePlan::ports(&[80, 81]))?;
    expect(ran.ended && ran.received.len() == 2, "two streams ended", &ran.received)?;
    for (received, expected) in ran.received.iter().zip([(5, 500_000), (1, 800_000)]) {
        let counted = (received.packets, received.bytes, received.lost);
        expect(counted == (expected.0, expected.1, Some(0)), "whole transfers", received)?;
        expect(received.delay.count == expected.0, "their times are known", received)?;
    }
    expect(ran.sent[0].late.count == 5, "the sender knows them too", &ran.sent)
}

fn one_call() -> Outcome {
    let pair = Pair::new()?;
    let class = ClassCount { packets: 500, ..ClassCount::new(four(2), 5004) };
    let counted = count(&pair.client, &pair.server, &class)?;
    let found = (counted.sent, counted.received + counted.lost, counted.duplicated);
    expect(found == (500, 500, 0), "all are counted", &counted)?;
    let is_own = counted.lost <= counted.overruns;
    expect(is_own, "only the receiver lost some, for want of room", &counted)?;
    let delay = counted.delay;
    expect(delay.count == counted.received && delay.max_us > 0.0, "delays", &counted)
}

fn mixed_flood() -> Outcome {
    let pair = Pair::new()?;
    for place in [Place::First, Place::Middle, Place::Last, Place::Any] {
        let guaranteed = Guaranteed { packets: 200, place, ..Guaranteed::new(5004) };
        let receiver = pair.server.run(|| Receiver::start(&ReceivePlan::raw("eth0", &[])))??;
        let plan = FloodPlan {
            flows: 7,
            rate: Some(20_000),
            guaranteed: Some(guaranteed),
            from: four(1),
            ..FloodPlan::raw("eth0", four(2), 9)
        };
        let flood = pair.client.run(|| Flood::start(&plan))??.wait();
        receiver.wait_ended(PATIENCE);
        let received = receiver.finish();
        let found = (&flood, &received);
        let class = received.streams.iter().find(|stream| stream.stream.is_some());
        let class = class.ok_or("no guaranteed frame arrived")?;
        expect((class.packets, class.lost) == (200, Some(0)), "guaranteed frames", &found)?;
        let bare = received.streams.iter().filter(|stream| stream.stream.is_none());
        let (flows, frames) = bare.fold((0, 0), |sum, one| (sum.0 + 1, sum.1 + one.packets));
        expect((flows, frames) == (7, flood.sent), "every frame of seven flows", &found)?;
    }
    Ok(())
}

fn overruns() -> Outcome {
    let pair = Pair::new()?;
    let listen = ReceivePlan { buffer: 4096, tcp: Vec::new(), ..ReceivePlan::ports(&[5001]) };
    let keys = [("interval", "1 ms"), ("payload", "1000 B")];
    let plan = SendPlan {
        packets_max: Some(20_000),
        flood: true,
        ..SendPlan::new(vec![source("flood", "cbr", four(2), &keys)?])
    };
    let receiver = pair.server.run(|| Receiver::start(&listen))??;
    let sent = pair.client.run(|| Sender::start(&plan))??.finish();
    receiver.wait_ended(PATIENCE);
    let received = receiver.finish();
    let found = (&sent, &received);
    let stream = received.streams.first().ok_or("nothing arrived")?;
    let lost = stream.lost.ok_or("its loss is not known")?;
    let missing = 20_000_u64.checked_sub(stream.packets).ok_or("more came than were sent")?;
    // All end marks may be among the overruns, so that the number of the last packets is not known.
    let is_told = if stream.sent.is_some() { lost == missing } else { lost <= missing };
    expect(is_told, "every packet is accounted for", &found)?;
    // The kernel may lose some before the socket.
    let own = received.overruns;
    expect(own > 0 && own <= missing + 5, "losses of the receiver", &found)
}

fn clocks() -> Outcome {
    let pair = Pair::new()?;
    for clock in [Clock::Monotonic, Clock::Realtime] {
        let keys = [("interval", "1 ms"), ("payload", "100 B")];
        let plan = SendPlan {
            packets_max: Some(50),
            clock,
            ..SendPlan::new(vec![source("one", "cbr", four(2), &keys)?])
        };
        let ran = pair.run(&plan, &ReceivePlan::ports(&[5001]))?;
        let stream = ran.received.first().ok_or("nothing arrived")?;
        // The clocks are years apart, so that one taken for the other is longer than any pause.
        let good = stream.delay.count > 0 && stream.delay.p50_us < PATIENCE.as_micros() as f64;
        expect(good, "a delay by the clock of its mark", stream)?;
    }
    Ok(())
}

fn nobody_listens() -> Outcome {
    let pair = Pair::new()?;
    // The kernel limits ICMP messages for the whole machine, so other programs could use up the limit.
    pair.server.run(|| std::fs::write("/proc/sys/net/ipv4/icmp_ratemask", "0"))??;
    let keys = [("interval", "1 ms"), ("payload", "100 B")];
    let transfer = [("bytes", "1 KB")];
    let sources = vec![
        source("packets", "cbr", four(2), &keys)?,
        source("connection", "tcp", four(2), &transfer)?,
    ];
    let plan = SendPlan { duration: Duration::from_secs(1), ..SendPlan::new(sources) };
    let sent = pair.client.run(|| Sender::start(&plan))??.finish().streams;
    let all = sent[0].packets + sent[0].refused + sent[0].unsent;
    let good = all == 1000 && sent[0].error.is_some();
    expect(good, "datagrams, some of which came back", &sent)?;
    expect((sent[1].packets, sent[1].refused) == (0, 1), "a refused connection", &sent)?;
    expect(sent[1].error.is_some(), "and why", &sent)
}

/// Returns the rows of this module.
pub fn rows() -> impl Iterator<Item = rows::Row> {
    rows::table("traffic", TESTS, &[Need::PrivateNetworks])
}
