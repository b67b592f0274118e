//! Rules that test what differs between packets of a flow: in both engines each packet goes where
//! its own length, flags and type lead it.

use crate::common;

use common::{run, written};
use weir_core::classify::InterfaceId;
use weir_core::ids::{Handle, LeafId};
use weir_core::packet::Packet;
use weir_core::units::Instant;
use weir_sim::Report;
use weir_trace::record::{
    Arrival, End, Fate, File, Head, LaneHead, RecordReader, RecordWriter, Step,
};

/// Classes by details, of a policy at `table`.
fn policy(table: &str) -> String {
    let class = |(name, rule): (&str, &str)| format!("[{table}.class.{name}]\nmatch = {rule}\n");
    let classes = [
        ("ping", "{ proto = \"icmp\", icmp_type = \"echo-request\" }"),
        ("tagged", "{ pcp = 5 }"),
        ("syn", "{ tcp_flags = \"syn,!ack\" }"),
        ("small", "{ length = \"0-100 B\" }"),
    ];
    format!(
        "[{table}.link]\nrate = \"10 Mbit/s\"\nscheduler = \"drr\"\n{}\
         [{table}.class.rest]\ndefault = true\n",
        classes.map(class).concat()
    )
}

/// Sources of ten packets each, and one of TCP that opens one connection; all have these keys.
fn sources(keys: &str) -> String {
    let cbr = |(name, more): (&str, &str)| {
        format!(
            "[[source]]\nname = \"{name}\"\nkind = \"cbr\"\ninterval = \"10 ms\"\n\
             stop = \"95 ms\"\n{more}\n{keys}"
        )
    };
    let rows = [
        ("ping", "size = \"64 B\"\nproto = \"icmp\"\nicmp_type = 8"),
        ("pong", "size = \"200 B\"\nproto = \"icmp\"\nicmp_type = \"echo-reply\""),
        ("tagged", "size = \"64 B\"\npcp = 5"),
        ("other-tag", "size = \"200 B\"\nvlan = 7\npcp = 4"),
        ("small", "size = \"114 B\""),
        ("large", "size = \"115 B\""),
    ];
    let tcp = format!("[[source]]\nname = \"tcp\"\nkind = \"tcp\"\nbytes = \"20 KB\"\n{keys}");
    rows.map(cbr).concat() + &tcp
}

fn check(report: &Report, sent: impl Fn(&str) -> u64) {
    assert_eq!(["ping", "tagged", "syn"].map(&sent), [10, 10, 1], "{report}");
    // Of TCP the segments with data are long, and what acknowledges the SYN of the answer is short.
    assert!((11..20).contains(&sent("small")), "{report}");
    assert!(sent("rest") >= 30 + 14, "{report}");
}

#[test]
fn packets_of_one_source_go_to_several_classes() {
    let report = run(&written(&format!("duration = \"1 s\"\n{}{}", policy("policy"), sources(""))));
    check(&report, |class| report.class(class).expect("it is declared").sent.packets);
}

#[test]
fn packets_of_a_network_do_so_at_each_link() {
    let text = format!(
        "duration = \"1 s\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n\
         [[link]]\nname = \"out\"\nends = [\"a\", \"b\"]\n{}{}",
        policy("link.policy"),
        sources("from = \"a\"\nto = \"b\"\n")
    );
    let report = run(&written(&text));
    let network = report.network.as_ref().expect("it was a network");
    let outlet = network.outlet("out", "a").expect("an outlet");
    check(&report, |class| outlet.class(class).expect("a class").sent.packets);
}

/// A record of segments with these flags, one every millisecond, of one connection.
fn record(policy: &str, flags: &[u8]) -> Vec<u8> {
    let file = File { name: "p.toml".to_owned(), text: policy.to_owned() };
    let lane = LaneHead { name: "up".into(), policy: "p.toml".into(), ..LaneHead::default() };
    let head = Head { files: vec![file], lanes: vec![lane], ..Head::default() };
    let mut writer = RecordWriter::new(Vec::new(), &head).expect("a Vec takes all");
    for (number, flags) in flags.iter().enumerate() {
        let at = Instant::from_nanos(number as u64 * 1_000_000);
        let mut frame = vec![0; 60];
        (frame[12], frame[14], frame[17], frame[23]) = (8, 0x45, 46, 6);
        (frame[35], frame[37], frame[46], frame[47]) = (7, 80, 0x50, *flags);
        let packet = Packet::new(Handle(number as u32), 60);
        let (port, leaf, fate) = (InterfaceId(0), LeafId(0), Fate::Offered);
        let arrival = Arrival { at, port, leaf, packet, fate, headers: &frame };
        writer.step(0, &Step::Arrival(arrival)).expect("a Vec takes all");
        writer.step(0, &Step::Serve { until: at }).expect("a Vec takes all");
    }
    writer.finish(End::Asked).expect("a Vec takes all")
}

#[test]
fn what_is_simulated_from_a_record_keeps_the_flags_that_rules_test() {
    let policy = "[link]\nrate = \"1 Mbit/s\"\nscheduler = \"drr\"\n[class.open]\n\
                  match = { tcp_flags = \"syn,!ack\" }\n[class.reset]\n\
                  match = { tcp_flags = \"rst\" }\n[class.rest]\ndefault = true\n";
    let bytes = record(policy, &[0x02, 0x12, 0x10, 0x18, 0x10, 0x04, 0x14, 0x02]);
    let reader = RecordReader::new(bytes.as_slice()).expect("a record");
    let scenario = weir_sim::recorded::scenario(reader, None).expect("it holds frames");
    let report = run(&scenario);
    let offered = |name| report.class(name).expect("it is declared").offered.packets;
    assert_eq!(["open", "reset", "rest"].map(offered), [2, 2, 4], "{report}");
}
