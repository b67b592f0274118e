//! Measures how many 64-byte frames a second two ports forward: a generator floods the left one,
//! the bridge forwards first in first out, and the server's interface counts.
//!
//! `cargo run --release -p weir-live --example forward_rate -- [SECONDS] [FRAME_BYTES] [KPPS]`

#[path = "../tests/support/bridge.rs"]
mod bridge;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bridge::Bridge;
use weir_live::error::Result;
use weir_live::netns;
use weir_live::pool::{FrameId, FramePool};
use weir_live::port::{BATCH, Port, PortConfig};
use weir_live::testbed::{END, Host, Testbed, TestbedConfig};
use weir_live::wait::{self, WaitPolicy};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut next = |default| arguments.next().and_then(|value| value.ok()).unwrap_or(default);
    let (seconds, frame_len, kpps) = (next(3), next(64) as usize, next(0));
    if let Err(why) = netns::prepare_private_networks() {
        eprintln!("{why}");
        std::process::exit(2);
    }
    let testbed = Testbed::new(TestbedConfig::default())?;
    // The bridge inherits CPU 1, and the generator moves to CPU 0.
    wait::pin_to_cpu(1)?;
    let bridge = Bridge::start(&testbed, WaitPolicy::Hybrid)?;
    let stop = AtomicBool::new(false);
    let (offered, elapsed) = thread::scope(|scope| {
        let generator = scope.spawn(|| generate(&testbed, frame_len, kpps, &stop));
        let start = Instant::now();
        thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
        let elapsed = start.elapsed();
        (generator.join().expect("the generator does not panic"), elapsed)
    });
    let report = bridge.stop();
    let [left, right] = report.counters;
    let rate = |frames: u64| frames as f64 / elapsed.as_secs_f64() / 1e3;
    println!("offered    {:8.1} kpps of {frame_len} bytes", rate(offered?));
    println!(
        "received   {:8.1} kpps (ring overruns {:.1})",
        rate(left.received),
        rate(left.ring_overruns)
    );
    println!("forwarded  {:8.1} kpps (refused {:.1})", rate(right.sent), rate(right.send_refused));
    let cpu_us = report.cpu_ns as f64 / 1e3 / right.sent.max(1) as f64;
    println!(
        "bridge     {cpu_us:8.2} us of CPU a frame, the receiver's softirq and spinning included"
    );
    Ok(())
}

fn generate(testbed: &Testbed, len: usize, kpps: u64, stop: &AtomicBool) -> Result<u64> {
    testbed.client.run(|| {
        wait::pin_to_cpu(0)?;
        let mut port = Port::open(PortConfig { ring_slots: 64, ..PortConfig::new(END) })?;
        let mut pool = FramePool::new(BATCH as u32, len.max(64));
        let frame = frame(len);
        let frames: Vec<FrameId> =
            (0..BATCH).map(|_| pool.insert(&frame).expect("one chunk each")).collect();
        let start_ns = wait::monotonic_ns();
        while !stop.load(Ordering::Relaxed) {
            let due = (wait::monotonic_ns() - start_ns) * kpps / 1_000_000;
            if kpps == 0 || port.counters().sent < due {
                port.send(&pool, &frames);
            }
        }
        Ok(port.counters().sent)
    })?
}

/// Returns an Ethernet frame to the server, of an ethertype for local experiments.
fn frame(len: usize) -> Vec<u8> {
    let mut frame = vec![0; len.max(14)];
    frame[..6].copy_from_slice(&Host::Server.mac().0);
    frame[6..12].copy_from_slice(&Host::Client.mac().0);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}
