//! Measures the rates of two classes of ALTQ's CBQ, alone, together and borrowing `[altqtest]`.
//!
//! A row is one run of a scenario of the experiment: the rates of both classes, which of them
//! borrow, and the traffic of each. Historic runs have ALTQ's CBQ, sound ones this program's.
//! Where the page shows a trace, the rates of both classes in each half of a second are compared.

use super::Experiment;
use crate::claims::{Kind, Measured, Plot, Run, Setup};
use serde::Deserialize;
use weir_core::units::Duration;
use weir_sim::{Report, Scenario, Watch};

/// The entry of this experiment in the registry.
pub const EXPERIMENT: Experiment = Experiment {
    name: "altqtest",
    summary: "two classes of CBQ: alone, together, borrowing; UDP and TCP",
    measure: Some(measure),
    own: None,
};

/// One run of a scenario.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// The number of the row in the page's tables; figures begin with it.
    name: String,
    /// The scenario, without era and ending: `flat` or `nested`.
    tree: String,
    /// Rates of the classes a and b, in kbit/s.
    rates: [u32; 2],
    /// Whether each class borrows.
    #[serde(default)]
    borrow: [bool; 2],
    /// The traffic of each: `udp`, `tcp` or `nothing`.
    traffic: [String; 2],
    /// The state of ALTQ.
    #[serde(default = "altq1")]
    preset: String,
    /// Replaces `$filter`, the filter for the packets of class a.
    #[serde(default = "port")]
    filter: String,
    /// Payload of a UDP packet in bytes; replaces `$payload`.
    #[serde(default = "buffer")]
    payload: u32,
    /// Length of the run and of its warm-up, in seconds; they replace `$duration` and `$warmup`.
    #[serde(default = "minutes")]
    seconds: [u32; 2],
    /// When the traffic of each begins, in seconds; replaces `$late`.
    #[serde(default)]
    late: [u32; 2],
    /// Whether the rates of both are compared over time.
    #[serde(default)]
    course: bool,
    /// Whether the rate of each is that of a whole transfer of `ttcp`.
    #[serde(default)]
    transfer: bool,
    /// The page's value, in kbit/s of payload; 0 where it has none.
    paper: [f64; 2],
}

fn altq1() -> String {
    "altq1".to_owned()
}

fn port() -> String {
    format!("dport = \"{}\"", PORTS[0])
}

fn buffer() -> u32 {
    8192
}

fn minutes() -> [u32; 2] {
    [320, 20]
}

fn measure(run: &Run<'_>) -> Result<Measured, String> {
    let rows: Vec<Row> = run.setting("row")?;
    let mut measured = Measured::default();
    let (mut payloads, mut table) = (Vec::new(), Vec::new());
    for row in &rows {
        let scenario = row.scenario(run)?;
        let watch = Watch { bins: row.has_course().then_some(BIN), ..Watch::default() };
        let report = weir_sim::run_watched(&scenario, watch, &mut |_| {});
        let report = report.map_err(|error| error.to_string())?;
        let payload = row.figures(&report, &mut measured)?;
        row.courses(&report, &mut measured);
        let pair = |pair: [f64; 2]| format!("{:.1} / {:.1}", pair[0], pair[1]);
        let paper = if row.paper == [0.0; 2] { "-".to_owned() } else { pair(row.paper) };
        table.push(vec![row.name.clone(), paper, pair(payload)]);
        payloads.push(payload);
        measured.setup = Some(setup(&scenario));
    }
    let title = format!("{}: {}", run.sheet.id, run.sheet.title);
    let names = rows.iter().map(|row| row.name.as_str());
    let mut plot = Plot::new(Kind::Bars, &title, "run", "payload in kbit/s").named(names);
    let papers: Vec<[f64; 2]> = rows.iter().map(|row| row.paper).collect();
    for (index, class) in CLASSES.into_iter().enumerate() {
        for (whose, values) in [("paper: ", &papers), ("", &payloads)] {
            if values.iter().all(|pair| pair[index] == 0.0) {
                continue;
            }
            let points = values.iter().enumerate().map(|(x, pair)| (x as f64, pair[index]));
            plot = plot.with(format!("{whose}{class}"), points.collect());
        }
    }
    let columns = ["row", "the page, kbit/s", "measured, kbit/s"];
    measured.plot(plot).table(&title, &columns, table);
    Ok(measured)
}

impl Row {
    fn scenario(&self, run: &Run<'_>) -> Result<Scenario, String> {
        let mut sources = String::new();
        let udp = self.traffic.iter().filter(|kind| *kind == "udp").count();
        let (payload, mut turn) = (self.payload.to_string(), 0);
        for ((class, port), kind) in CLASSES.into_iter().zip(PORTS).zip(&self.traffic) {
            if kind == "nothing" {
                continue;
            }
            let [interval, start] =
                [ETHERNET_NANOS * udp.max(1), ETHERNET_NANOS * turn].map(|it| format!("{it} ns"));
            let late = format!("{} s", self.late[usize::from(class == CLASSES[1])]);
            turn += usize::from(kind == "udp");
            let values = [
                ("name", class),
                ("late", &late),
                ("port", port),
                ("payload", &payload),
                ("interval", &interval),
                ("start", &start),
            ];
            sources += &run.filled(&format!("{kind}.toml"), &values)?;
        }
        let rates = self.rates.map(|rate| format!("{rate} kbit/s"));
        let borrows = self.borrow.map(|borrows| borrows.to_string());
        let [duration, warmup] = self.seconds.map(|seconds| format!("{seconds} s"));
        let values = [
            ("duration", duration.as_str()),
            ("warmup", &warmup),
            ("filter", &self.filter),
            ("preset", self.preset.as_str()),
            ("rate_a", &rates[0]),
            ("rate_b", &rates[1]),
            ("borrow_a", &borrows[0]),
            ("borrow_b", &borrows[1]),
            ("sources", &sources),
        ];
        run.scenario(&format!("{}-{}.toml", run.era.name(), self.tree), &values)
    }

    fn has_course(&self) -> bool {
        self.course || self.transfer || self.late != [0; 2]
    }

    /// Adds `ROW.a` and `ROW.b` in kbit/s of payload, `ROW.total` of both; `ROW.part_a` as part of
    /// the class's rate; `ROW.ip_a` in kbit/s of IP packets; `ROW.a_other` of a second source.
    fn figures(&self, report: &Report, measured: &mut Measured) -> Result<[f64; 2], String> {
        let mut payload = [0.0; 2];
        for (index, class) in CLASSES.into_iter().enumerate() {
            let source = report.source(class);
            payload[index] = source.map_or(0.0, |source| source.goodput_bps as f64 / 1e3);
            let sent = report.class(class).ok_or_else(|| format!("no class `{class}`"))?.sent;
            let (row, rate) = (&self.name, f64::from(self.rates[index]));
            measured.figure(format!("{row}.{class}"), payload[index], "kbit/s");
            measured.figure(format!("{row}.part_{class}"), payload[index] / rate, "");
            let packets = sent.bits_per_second as f64 / 1e3;
            measured.figure(format!("{row}.ip_{class}"), packets, "kbit/s");
            if let Some(other) = report.source(&format!("{class}-other")) {
                let other = other.goodput_bps as f64 / 1e3;
                measured.figure(format!("{row}.{class}_other"), other, "kbit/s");
            }
        }
        measured.figure(format!("{}.total", self.name), payload.iter().sum(), "kbit/s");
        Ok(payload)
    }

    /// Adds `ROW.transfer_a` and `ROW.transfer_b` in kbit/s of payload: what `ttcp` reports of its
    /// 2048 buffers, from the begin of the run until the class has sent the last.
    fn transfers(&self, rates: &[Vec<f64>; 2], measured: &mut Measured) {
        let payload = f64::from(BUFFERS * self.payload) * 8.0 / 1e3;
        let packets = f64::from(BUFFERS * (self.payload + HEADERS)) * 8.0 / 1e3;
        for (class, rates) in CLASSES.into_iter().zip(rates) {
            if let Some(bins) = bins_for(rates, packets) {
                let seconds = bins * BIN.as_nanos() as f64 / 1e9;
                let name = format!("{}.transfer_{class}", self.name);
                measured.figure(name, payload / seconds, "kbit/s");
            }
        }
    }

    /// Adds `ROW.before_a` and `ROW.before_b` in kbit/s of IP packets, of the time until the later
    /// class begins, `ROW.mirror`, the correlation of the rates of both, and `ROW.varies_a` and
    /// `ROW.varies_b`, the standard deviation as a percentage of the mean.
    fn courses(&self, report: &Report, measured: &mut Measured) {
        let Some(bins) = &report.bins else { return };
        let warmup = (report.warmup.as_nanos() / BIN.as_nanos()) as usize;
        let rates = CLASSES.map(|name| {
            let class = bins.classes.iter().find(|class| class.name == name);
            let bytes = class.map_or(&[][..], |class| &class.bytes);
            let kilobits = |&bytes: &u64| bytes as f64 * 8e6 / BIN.as_nanos() as f64;
            bytes.iter().skip(warmup).map(kilobits).collect::<Vec<f64>>()
        });
        if self.transfer {
            self.transfers(&rates, measured);
        }
        let late = u64::from(self.late[0].max(self.late[1])) * 1_000_000_000;
        let before = ((late / BIN.as_nanos()) as usize).saturating_sub(warmup);
        for (class, rates) in CLASSES.into_iter().zip(&rates) {
            if let Some(early) = rates.get(..before).filter(|early| !early.is_empty()) {
                let mean = early.iter().sum::<f64>() / early.len() as f64;
                measured.figure(format!("{}.before_{class}", self.name), mean, "kbit/s");
            }
        }
        if self.course {
            let [a, b] = &rates;
            measured.figure(format!("{}.mirror", self.name), correlation(a, b), "");
            for (class, rates) in CLASSES.into_iter().zip(&rates) {
                measured.figure(format!("{}.varies_{class}", self.name), deviation(rates), "%");
            }
        }
    }
}

/// Returns Pearson's coefficient of pairs of values; 0 if either never varies.
fn correlation(one: &[f64], other: &[f64]) -> f64 {
    let count = one.len().min(other.len()) as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
    let [a, b] = [mean(one), mean(other)];
    let pairs = || one.iter().zip(other).map(|(x, y)| (x - a, y - b));
    let both: f64 = pairs().map(|(x, y)| x * y).sum();
    let [square, other_square] =
        [pairs().map(|(x, _)| x * x).sum::<f64>(), pairs().map(|(_, y)| y * y).sum::<f64>()];
    let spread = (square * other_square).sqrt();
    if spread > 0.0 { both / spread } else { 0.0 }
}

/// Returns the standard deviation as a percentage of the mean; 0 if that is 0.
fn deviation(rates: &[f64]) -> f64 {
    let count = rates.len().max(1) as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count;
    if mean > 0.0 { 100.0 * variance.sqrt() / mean } else { 0.0 }
}

/// Returns after how many bins of kbit/s `kilobits` have been sent, a part of the last one
/// included.
fn bins_for(rates: &[f64], kilobits: f64) -> Option<f64> {
    let each = BIN.as_nanos() as f64 / 1e9;
    let mut left = kilobits;
    for (index, rate) in rates.iter().enumerate() {
        let sent = rate * each;
        if sent >= left {
            return Some(index as f64 + left / sent);
        }
        left -= sent;
    }
    None
}

fn setup(scenario: &Scenario) -> Setup {
    let label = format!("155 Mbit/s ATM, {} of 1 Mbit/s", scenario.link.scheduler);
    let edges = Setup::default().edge("sender", "router", "Ethernet");
    edges.edge("router", "sink", &label).tree(&scenario.link.tree)
}

/// The classes of the scenarios, and their sources.
const CLASSES: [&str; 2] = ["a", "b"];
/// The destination ports by which rules choose the class.
const PORTS: [&str; 2] = ["5001", "5002"];
/// The time of a datagram of 8192 bytes on an Ethernet of 10 Mbit/s, in six fragments with 20 bytes
/// of header and 38 of Ethernet each. UDP senders alternate there: `$interval` and `$start`.
const ETHERNET_NANOS: usize = (8_200 + 6 * (20 + 38)) * 800;
/// The buffers that `ttcp` sends [algorithms §12.1].
const BUFFERS: u32 = 2048;
/// Bytes of the headers of IP and UDP.
const HEADERS: u32 = 28;
/// The width of the bins in which rates are compared over time.
const BIN: Duration = Duration::from_micros(500_000);

#[cfg(test)]
mod tests {
    use super::{bins_for, correlation};

    #[test]
    fn a_transfer_ends_within_a_bin() {
        // Bins of half a second: 50, 100 and 0 kbit.
        let rates = [100.0, 200.0, 0.0];
        for (kilobits, expected) in
            [(25.0, Some(0.5)), (50.0, Some(1.0)), (100.0, Some(1.5)), (151.0, None)]
        {
            assert_eq!(bins_for(&rates, kilobits), expected, "{kilobits}");
        }
    }

    #[test]
    fn what_grows_as_the_other_falls_correlates_to_minus_one() {
        let rows = [
            (&[1.0, 2.0, 4.0][..], &[9.0, 8.0, 6.0][..], -1.0),
            (&[1.0, 2.0, 4.0], &[2.0, 4.0, 8.0], 1.0),
            (&[1.0, 2.0, 1.0, 2.0], &[1.0, 1.0, 2.0, 2.0], 0.0),
            (&[3.0, 3.0], &[1.0, 2.0], 0.0),
        ];
        for (one, other, expected) in rows {
            assert!((correlation(one, other) - expected).abs() < 1e-9, "{one:?} {other:?}");
        }
    }
}
