//! Overload: what a guaranteed class of 1000 packets/s keeps while 60-byte bulk is offered, from
//! half of what the bridge of `weir up` forwards to all that a generator on the other processor can
//! send, and ten times what a link lets through.
//!
//! Three claims. What is forwarded stays within 5 % of its maximum at every load. No guaranteed
//! packet is lost, counted at the receiving host, wherever it stands among the bulk. Their 99th
//! percentile of delay stays below 5 ms. The last two also hold with a busy process on each
//! processor, with a bulk class that may queue more than the pool holds, with the opposite
//! direction flooded, and behind super-packets. The kernel's bridge with HTB is measured beside, at
//! full load and over the slow link; what its queue holds is charged to the generator's socket, so
//! that the generator is held back there.

mod traffic;

use super::{Experiment, Own};
use crate::busy::Busy;
use crate::rows::{Row, Rows};
use std::thread;
use std::time::Duration;
use traffic::{Bulk, Counted, Traffic};
use weir_bench::rig::{self, Forwarder, Htb};
use weir_host::error::SystemError;
use weir_host::wait::monotonic_ns;
use weir_link::status::Status;
use weir_testbed::Testbed;

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "overload",
    summary: "loss and delay of a guaranteed class while bulk floods the bridge, case by case",
    measure: None,
    own: Some(Own::live(run)),
};

/// The least part of its maximum that is forwarded.
const OUTPUT_PART: f64 = 0.95;
/// The longest 99th percentile, in ms.
const P99_MS: f64 = 5.0;
/// Loads below the highest, as parts of what is forwarded.
const LOADS: [f64; 3] = [0.5, 0.75, 1.0];
/// The rate of the link that is slow on purpose, in kbit/s, and how much more is offered.
const SLOW_KBIT: u64 = 40_000;
const SLOW_TIMES: f64 = 10.0;

/// A load, and the link that carries it.
#[derive(Clone)]
struct Case {
    name: String,
    bulk: Bulk,
    link_kbit: u64,
    bulk_limit: u64,
    busy: bool,
    back: bool,
    kernel: bool,
}

/// The figures of one run.
struct Sample {
    counted: Counted,
    /// Packets of all classes that arrived per second.
    output: f64,
    status: Status,
}

impl Case {
    fn new(name: impl Into<String>, bulk: Bulk) -> Self {
        Self {
            name: name.into(),
            bulk,
            link_kbit: FAST_KBIT,
            bulk_limit: 1000,
            busy: false,
            back: false,
            kernel: false,
        }
    }

    /// A link that is slow on purpose.
    fn slow(name: &str, bulk: Bulk) -> Self {
        Self { link_kbit: SLOW_KBIT, ..Self::new(name, bulk) }
    }
}

fn run(rows: &mut Rows<'_>) -> Result<(), String> {
    let all = Case::new("all that the generator sends", Bulk::All);
    let duration = rows.options.duration;
    // The loads are parts of what is forwarded, and compared with the most of all of them.
    if rows.options.wants(LOAD) || rows.options.wants(&all.name) {
        let text = |error: SystemError| error.to_string();
        let full = all.measure(duration).map_err(text)?;
        rows.extend(all.judge(&full));
        let mut outputs = vec![(all.name, full.counted.bulk_per_second, full.output)];
        for part in LOADS {
            let name = format!("{LOAD} {part} of what is forwarded");
            let case = Case::new(name, Bulk::Rate((part * full.output) as u64));
            let sample = case.measure(duration).map_err(text)?;
            rows.extend(case.judge(&sample));
            outputs.push((case.name, sample.counted.bulk_per_second, sample.output));
        }
        rows.extend(judge_outputs(&outputs));
    }
    cases().iter().try_for_each(|case| {
        rows.measure(&case.name, |options| {
            let sample = case.measure(options.duration)?;
            let mut rows = case.judge(&sample);
            if let (Bulk::Rate(_), false) = (case.bulk, case.kernel) {
                rows.push(slow_output(case, &sample));
            }
            Ok::<_, SystemError>(rows)
        })
    })
}

/// The cases beside those of the loads.
fn cases() -> Vec<Case> {
    let slow_load = Bulk::Rate((SLOW_TIMES * slow_packets_per_second()) as u64);
    vec![
        Case::slow("10 x a slow link", slow_load),
        Case { kernel: true, ..Case::slow("10 x a slow link, the kernel's HTB", slow_load) },
        Case { kernel: true, ..Case::new("all, the kernel's HTB", Bulk::All) },
        Case { busy: true, ..Case::new("all, two busy processes", Bulk::All) },
        Case { busy: true, ..Case::slow("10 x a slow link, two busy processes", slow_load) },
        Case {
            bulk_limit: 20_000,
            ..Case::slow("10 x a slow link, bulk may queue 20000", slow_load)
        },
        Case { back: true, ..Case::new("all, the opposite direction flooded", Bulk::All) },
        Case::new("super-packets", Bulk::SuperPackets),
        Case::slow("super-packets, a slow link", Bulk::SuperPackets),
    ]
}

impl Case {
    fn measure(&self, duration: Duration) -> Result<Sample, SystemError> {
        // The kernel is there to compare with: less of its time says enough.
        let duration = if self.kernel { duration.div_f64(KERNEL_PART) } else { duration };
        let _busy = self.busy.then(|| Busy::start(2)).transpose()?;
        let lines = self.tc_lines();
        let forwarder = match self.kernel {
            true => Forwarder::Kernel(&lines),
            false => {
                let policy = rig::policy(&self.policy())?;
                let back = rig::policy(&Self::new("", Bulk::All).policy())?;
                Forwarder::weir(&policy, &back)?
            }
        };
        let (sample, status) = rig::between(forwarder, |testbed, _| self.drive(testbed, duration))?;
        Ok(Sample { status, ..sample })
    }

    fn drive(&self, testbed: &Testbed, duration: Duration) -> Result<Sample, SystemError> {
        let packets = (WARMUP + duration).as_millis() as u64;
        let traffic = Traffic::start(testbed, self.bulk, packets, self.back)?;
        let output = testbed.server.run(|| watch(duration)).and_then(|output| output);
        Ok(Sample { counted: traffic.finish(), output: output?, status: Status::default() })
    }

    /// Returns the rows that every case has.
    fn judge(&self, sample: &Sample) -> Vec<Row> {
        let Counted { sent, lost, delay, bulk_per_second } = sample.counted;
        let p99 = delay.p99_us / 1e3;
        let told = format!(
            "offered {:.0} kpps, forwarded {:.0}; p50 {:.0} us, p99 {p99:.2} ms; {lost} of {sent} \
             lost{}",
            bulk_per_second / 1e3,
            sample.output / 1e3,
            delay.p50_us,
            causes(&sample.status)
        );
        let mut rows = vec![Row::shown(self.name.clone(), told)];
        if !self.kernel {
            let subject = format!("{}: lost of {sent}", self.name);
            rows.push(Row::at_most(subject, lost as f64, 0.0, "packets"));
            rows.push(Row::at_most(format!("{}: p99", self.name), p99, P99_MS, "ms"));
        }
        rows
    }

    /// Voice has its rate whatever else comes, and bulk may use the whole line.
    fn policy(&self) -> String {
        let Self { link_kbit, bulk_limit, .. } = self;
        format!(
            "[link]\nrate = \"{link_kbit} kbit/s\"\nscheduler = \"htb\"\n\
             [class.line]\nrate = \"{link_kbit} kbit/s\"\n\
             [class.voice]\nparent = \"line\"\nrate = \"{VOICE_KBIT} kbit/s\"\nprio = 0\n\
             delay = \"5 ms\"\narrival = {{ rate = \"600 kbit/s\", burst = \"7400 B\" }}\n\
             queue = {{ limit = \"1000 packets\" }}\n\
             match = [{{ proto = \"udp\", dport = {VOICE_PORT} }}]\n\
             [class.bulk]\nparent = \"line\"\nrate = \"{} kbit/s\"\n\
             ceil = \"{link_kbit} kbit/s\"\nprio = 1\ndefault = true\n\
             queue = {{ limit = \"{bulk_limit} packets\" }}\n",
            link_kbit - VOICE_KBIT
        )
    }

    fn tc_lines(&self) -> Vec<String> {
        let Self { link_kbit, bulk_limit, .. } = self;
        let bulk_kbit = link_kbit - VOICE_KBIT;
        let whole = format!("rate {link_kbit}kbit quantum 1514");
        let voice = format!("rate {VOICE_KBIT}kbit prio 0 quantum 1514");
        let bulk = format!("rate {bulk_kbit}kbit ceil {link_kbit}kbit prio 1 quantum 1514");
        let htb = Htb::new(3).class(0, 1, &whole).class(1, 2, &voice).class(1, 3, &bulk);
        htb.queue(2, 1000).queue(3, *bulk_limit).flow(VOICE_PORT, 2).lines()
    }
}

/// The packets that arrive per second at the server's interface, once the load is there.
fn watch(duration: Duration) -> Result<f64, SystemError> {
    thread::sleep(WARMUP);
    let (from, before) = (monotonic_ns(), rig::received_frames()?);
    thread::sleep(duration);
    let (until, after) = (monotonic_ns(), rig::received_frames()?);
    Ok((after - before) as f64 * 1e9 / (until - from) as f64)
}

/// Every load forwards what is offered, or nearly the most that any load does.
fn judge_outputs(outputs: &[(String, f64, f64)]) -> impl Iterator<Item = Row> {
    let most = outputs.iter().map(|(_, _, output)| *output).fold(0.0, f64::max);
    outputs.iter().map(move |(name, offered, output)| {
        let subject = format!("{name}: output to its maximum");
        Row::ratio(subject, output / offered.min(most), OUTPUT_PART)
    })
}

fn slow_output(case: &Case, sample: &Sample) -> Row {
    let subject = format!("{}: output to the link's rate", case.name);
    Row::ratio(subject, sample.output / slow_packets_per_second(), OUTPUT_PART)
}

fn slow_packets_per_second() -> f64 {
    SLOW_KBIT as f64 * 1e3 / f64::from((IP_LENGTH + 14) * 8)
}

/// Where the bridge lost packets of the guaranteed class, or packets of unknown class.
fn causes(status: &Status) -> String {
    let lost = |(cause, count): &(String, u64)| (*count > 0).then(|| format!("{cause} {count}"));
    let ports = status.ports.iter().flat_map(|port| port.lost_in_by_cause.iter().filter_map(lost));
    let lanes = status.lanes.iter().flat_map(|lane| &lane.classes);
    let voice = lanes.filter(|class| class.name == "voice");
    let voice = voice.flat_map(|class| class.lost.iter().filter_map(lost));
    let all: Vec<String> = ports.chain(voice.map(|text| format!("voice: {text}"))).collect();
    if all.is_empty() { String::new() } else { format!(" ({})", all.join(", ")) }
}

const LOAD: &str = "a load of";
/// The kernel is measured for one part in so many of the duration.
const KERNEL_PART: f64 = 3.0;
const IP_LENGTH: u32 = 60;
const FAST_KBIT: u64 = 40_000_000;
const VOICE_KBIT: u64 = 20_000;
const VOICE_PORT: u16 = rig::FIRST_PORT;
const BULK_PORT: u16 = rig::FIRST_PORT + 1;
const WARMUP: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_reads_and_has_both_classes() {
        for case in cases() {
            let policy = rig::policy(&case.policy()).unwrap_or_else(|error| panic!("{error}"));
            let names: Vec<_> =
                policy.link.tree.leaves().map(|(_, class)| class.name.as_str()).collect();
            assert_eq!(names, ["voice", "bulk"], "{}", case.name);
        }
    }

    #[test]
    fn output_is_compared_with_what_was_possible() {
        let output = |offered, output| (String::new(), offered, output);
        let rows = [
            output(500.0, 495.0),
            output(900.0, 900.0),
            output(1200.0, 1000.0),
            output(2000.0, 940.0),
        ];
        let holds: Vec<bool> = judge_outputs(&rows).map(|row| row.holds).collect();
        assert_eq!(holds, [true, true, true, false]);
    }
}
