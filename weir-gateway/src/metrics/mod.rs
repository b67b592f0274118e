//! The status of a link as OpenMetrics 1.0 (key `openmetrics`), for Prometheus.
//!
//! A metric is one line of a table: `table` has those of the link, its ports, directions and
//! classes, each made from the status. Invariant: all samples of a family stand together, in the
//! order of the policy.

mod samples;
mod table;
mod times;

#[cfg(test)]
mod tests;

pub use samples::Kind;
use samples::{Family, Labels, Samples};
use std::io::{self, Write};
pub(crate) use times::{Times, Took};
use weir_link::status::{ClassStatus, LaneStatus, PortStatus, Status};

/// The type of the text.
pub const CONTENT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Bound: classes of a scrape; a request for more is refused. Each scrape holds their status at
/// once.
pub const CLASSES_MAX: u32 = 10_000;

/// Writes all metrics of a link whose deployment has this name.
pub(crate) fn write(
    out: &mut dyn Write,
    deployment: &str,
    (status, times): (&Status, &Times),
) -> io::Result<()> {
    let link = Labels::new().with("deployment", deployment);
    each(out, table::LINK, &[(&link, status)])?;
    let port = |port: &PortStatus| link.with("port", &port.interface).with("kind", &port.kind);
    let ports = labelled(&status.ports, port);
    each(out, table::PORTS, &refer(&ports))?;
    let lane = |lane: &LaneStatus| link.with("direction", &lane.name);
    let lanes = labelled(&status.lanes, lane);
    each(out, table::LANES, &refer(&lanes))?;
    let mut classes: Vec<(Labels, &ClassStatus)> = Vec::new();
    for (lane, status) in &lanes {
        classes.extend(labelled(&status.classes, |class| lane.with("class", &class.name)));
    }
    each(out, table::CLASSES, &refer(&classes))?;
    times.write(out, &link)?;
    out.write_all(b"# EOF\n")
}

/// Returns each with the labels of its samples.
fn labelled<T>(all: &[T], labels: impl Fn(&T) -> Labels) -> Vec<(Labels, &T)> {
    all.iter().map(|one| (labels(one), one)).collect()
}

fn refer<'a, T>(all: &'a [(Labels, &'a T)]) -> Vec<(&'a Labels, &'a T)> {
    all.iter().map(|(labels, one)| (labels, *one)).collect()
}

/// Writes the families of a table, each with the samples of all.
fn each<T>(out: &mut dyn Write, families: &[Family<T>], all: &[(&Labels, &T)]) -> io::Result<()> {
    for family in families {
        let mut samples = Samples::begin(out, family)?;
        for (labels, one) in all {
            samples.of(labels);
            (family.read)(one, &mut samples);
        }
        samples.end()?;
    }
    Ok(())
}

/// Returns the names of all metrics, as queries name their samples.
pub fn names() -> Vec<String> {
    fn of<T>(families: &[Family<T>]) -> Vec<String> {
        families.iter().map(Family::sample).collect()
    }
    let mut names = of(table::LINK);
    names.extend(of(table::PORTS));
    names.extend(of(table::LANES));
    names.extend(of(table::CLASSES));
    names.extend(Times::names());
    names
}
