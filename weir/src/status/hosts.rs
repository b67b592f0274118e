//! The hosts of a class, for people.

use std::fmt::Write;
use weir_link::status::{HostStatus, HostsStatus};
use weir_policy::table::{Table, millis};

/// Formats the hosts of the class of this name.
pub fn text(class: &str, hosts: &HostsStatus) -> String {
    let head = ["host", "packets", "bytes", "dropped", "waiting", "mean ms", "max ms"];
    let mut table = Table::new(head);
    let mut add = |name: &str, host: &HostStatus| {
        // Without packets there are no delays.
        let delay = |micros: f64| match host.sent.packets {
            0 => "-".to_owned(),
            _ => millis(micros),
        };
        table.row(vec![
            name.to_owned(),
            host.sent.packets.to_string(),
            host.sent.bytes.to_string(),
            host.dropped.packets.to_string(),
            host.backlog.packets.to_string(),
            delay(host.delay_mean_us),
            delay(host.delay_max_us),
        ]);
    };
    for host in &hosts.rows {
        add(if host.address.is_empty() { "no address" } else { &host.address }, host);
    }
    if hosts.others != HostStatus::default() {
        add("others", &hosts.others);
    }
    let mut text = format!("hosts of {class}, {} known\n{table}\n", hosts.known);
    if hosts.crowded > 0 {
        let _ = writeln!(
            text,
            "{} packets shared one queue: more hosts or flows were busy than the class has places",
            hosts.crowded
        );
    }
    text
}

/// Says in a line how the hosts of the class of this name differ: delays of the class are those of
/// all packets, so mostly of the host that sends most. Nothing of a class with a single host.
pub fn line(class: &str, hosts: &HostsStatus) -> String {
    let sent = hosts.rows.iter().filter(|host| host.sent.packets > 0);
    let mut means: Vec<f64> = sent.clone().map(|host| host.delay_mean_us).collect();
    means.sort_by(f64::total_cmp);
    let worst = sent.max_by(|one, other| one.delay_mean_us.total_cmp(&other.delay_mean_us));
    let Some(worst) = worst.filter(|_| means.len() > 1) else { return String::new() };
    let median = means[(means.len() - 1) / 2];
    let name = if worst.address.is_empty() { "what has no address" } else { &worst.address };
    format!(
        "hosts of {class}: the median of {} waits {} ms, {name} {} ms and at most {} ms (means in \
         the queue; `--hosts N` lists them)\n",
        means.len(),
        millis(median),
        millis(worst.delay_mean_us),
        millis(worst.delay_max_us)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_link::status::Amount;

    #[test]
    fn a_host_has_a_row_and_so_have_all_others_together() {
        let sent = |packets| Amount { packets, bytes: 100 * packets };
        let host = |address: &str, packets| HostStatus {
            address: address.to_owned(),
            sent: sent(packets),
            delay_mean_us: 700.0,
            ..HostStatus::default()
        };
        let rows = vec![host("192.168.1.2", 9), host("", 1)];
        let few = HostsStatus { rows, known: 2, ..HostsStatus::default() };
        let all = text("hosts", &few);
        for part in ["hosts of hosts, 2 known", "192.168.1.2", "900", "0.700", "no address"] {
            assert!(all.contains(part), "{part}: {all}");
        }
        assert!(!all.contains("others") && !all.contains("shared"), "{all}");
        let many = text("a", &HostsStatus { others: host("", 7), crowded: 3, ..few });
        assert!(many.contains("others") && many.contains("3 packets shared one queue"), "{many}");
    }

    #[test]
    fn a_flooder_is_told_apart_from_the_median_host() {
        let host = |address: &str, delay_mean_us: f64| HostStatus {
            address: address.to_owned(),
            sent: Amount { packets: 9, bytes: 900 },
            delay_mean_us,
            delay_max_us: delay_mean_us * 2.0,
            ..HostStatus::default()
        };
        let rows =
            vec![host("10.0.0.9", 45_000.0), host("10.0.0.1", 700.0), host("10.0.0.2", 900.0)];
        let three = HostsStatus { rows, known: 3, ..HostsStatus::default() };
        let said = line("home", &three);
        let wanted = "hosts of home: the median of 3 waits 0.900 ms, 10.0.0.9 45.000 ms and at most \
                      90.000 ms";
        assert!(said.starts_with(wanted), "{said}");
        let alone = HostsStatus { rows: vec![host("10.0.0.9", 45_000.0)], ..three };
        assert_eq!(line("home", &alone), "");
    }
}
