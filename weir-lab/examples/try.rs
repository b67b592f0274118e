//! scratch
use weir_core::classify::Classifier;
use weir_core::ids::LeafId;
use weir_core::link::LinkPlan;
use weir_core::parameter::Params;
use weir_core::sched::{ClassSpec, Tree};
use weir_core::units::{Bytes, Rate};
use weir_lab::rig::*;
fn main() {
    prepare().unwrap();
    let secs: u64 = std::env::args().nth(1).map_or(3, |s| s.parse().unwrap());
    for rate in [5_000_000u64, 30_000_000, 100_000_000] {
        for ip in [64usize, 512, 1500] {
            let tree = Tree::new(
                Rate::new(rate).unwrap(),
                Bytes::new(1514),
                Params::new(),
                vec![ClassSpec { name: "a".into(), parent: None, params: Params::new() }],
            )
            .unwrap();
            let mut plan = LinkPlan::new("fifo", tree);
            plan.queues[0].params.set(
                "limit",
                weir_core::parameter::Value::Quantity(weir_core::units::Quantity::Packets(2000)),
            );
            let m = run(Setup {
                plan: &plan,
                classifier: Classifier::new(vec![], LeafId(0), Default::default()),
                leaf_names: vec!["a".into()],
                flows: &[Flow { port: 9000, rate: Rate::new(rate * 6 / 5).unwrap() }],
                frame_length: ip + 14,
                warmup: std::time::Duration::from_millis(500),
                duration: std::time::Duration::from_secs(secs),
            })
            .unwrap();
            let r = m.total_rate(ip as u32 + 14);
            println!(
                "{rate} {ip}: {r:.0} err {:+.4} % lost {} offered {:.0}/s stalls {} in {:?}",
                (r / rate as f64 - 1.0) * 100.0,
                m.receiver_lost,
                m.offered_per_second,
                m.status.stalls,
                m.status
                    .lanes
                    .first()
                    .map(|l| (l.classes[0].delay.p50_us, l.classes[0].delay.p99_us))
            );
            for p in &m.status.ports {
                println!(
                    "    {} rx {} tx {} lost in {} out {}",
                    p.interface, p.received, p.sent, p.lost_in, p.lost_out
                );
            }
        }
    }
}
