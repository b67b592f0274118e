//! The part of a deployment that a supervisor needs.

use std::time::Duration;
use weir_core::units;
use weir_policy::deployment::{Deployment, OnExit, Restart, Side};

/// The settings of a deployment that decide how its processes start, end and follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The fate of traffic while nothing forwards it.
    pub on_exit: OnExit,
    /// Whether a forwarder that died is started again.
    pub restart: Restart,
    /// The deployment has taps of an interface: those can exist only once, and only the keeper that
    /// made them can share them.
    pub has_taps: bool,
    /// How long a forwarder may take.
    pub limits: Limits,
}

/// For a forwarder to read its files: a policy of a million classes takes seconds.
pub const READING_MAX: Duration = Duration::from_secs(60);

/// How long a forwarder may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// To send what it holds.
    pub drain: Duration,
    /// Between two signs of life.
    pub watchdog: Option<Duration>,
}

impl Settings {
    /// Takes the settings of a deployment.
    pub fn of(deployment: &Deployment) -> Self {
        let nanos = |time: units::Duration| Duration::from_nanos(time.as_nanos());
        let service = &deployment.service;
        Self {
            on_exit: service.on_exit,
            restart: service.restart,
            has_taps: deployment.ports.iter().any(|port| port.side != Side::Interface),
            limits: Limits { drain: nanos(service.drain), watchdog: service.watchdog.map(nanos) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use weir_policy::deployment;

    /// Checks the settings of a deployment with these ports, and these lines beside them.
    fn check(ports: &str, lines: &str, expected: Settings) {
        let [from, to] = if ports.contains("host") { ["host", "wire"] } else { ["a", "b"] };
        let text = format!(
            "[deployment]\nports = {{ {ports} }}\n{lines}\n[direction.up]\nfrom = \"{from}\"\n\
             to = \"{to}\"\npolicy = \"up.toml\"\n"
        );
        let policy =
            "[link]\nrate = \"1 Mbit/s\"\nscheduler = \"drr\"\n[class.a]\ndefault = true\n";
        let read = |_: &Path| Ok(policy.as_bytes().to_vec());
        let outcome = deployment::parse(text.as_bytes(), "link.toml", &read);
        let plan = outcome.plan.unwrap_or_else(|| panic!("{text}: {:?}", outcome.findings));
        assert_eq!(Settings::of(&plan), expected, "{text}");
    }

    #[test]
    fn a_deployment_says_what_a_supervisor_knows() {
        let bridged = "a = \"left\", b = \"right\"";
        let seconds = Duration::from_secs;
        let lines =
            "on_exit = \"closed\"\nrestart = \"never\"\ndrain = \"3 s\"\nwatchdog = \"5 s\"";
        let limits = Limits { drain: seconds(3), watchdog: Some(seconds(5)) };
        let (on_exit, restart, has_taps) = (OnExit::Closed, Restart::Never, false);
        check(bridged, lines, Settings { on_exit, restart, has_taps, limits });
        let lines =
            "on_exit = \"open\"\nrestart = \"always\"\ndrain = \"20 ms\"\nwatchdog = \"none\"";
        let limits = Limits { drain: Duration::from_millis(20), watchdog: None };
        let (on_exit, restart) = (OnExit::Open, Restart::Always);
        check(bridged, lines, Settings { on_exit, restart, has_taps, limits });
        let has_taps = true;
        check("host = \"left\"", lines, Settings { on_exit, restart, has_taps, limits });
    }
}
