//! `weir send`: the simulator's sources on real sockets, or as frames on an interface.

use crate::kind::{self, Kind};
use crate::output::{Exit, Format, Output};
use crate::{Run, input};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use weir_cli::time::{LEAST, YEAR, seconds};
use weir_core::packet::{Addresses, MacAddress};
use weir_host::netlink::{Mac, Netlink};
use weir_host::signals::StopSignal;
use weir_host::wait::WaitPolicy;
use weir_policy::render;
use weir_sim::read;
use weir_sim::scenario::Source;
use weir_traffic::mark::Clock;
use weir_traffic::{RawPort, SendPlan, SendReport, Sender, source_text};

/// Sends the simulator's traffic to a host, at the instants and with the lengths of a simulation.
///
/// KIND and the keys are those of a `[[source]]` in a scenario (docs/reference/scenario.md):
/// `weir send 10.0.0.2 cbr rate='2 Mbit/s' size='200 B'`. cbr, poisson, on-off, voip, video, nttcp,
/// probe and capture send datagrams; tcp, ttcp, ftp and web open connections of the kernel's TCP,
/// whose window and segments are the kernel's. The same seed gives the same packets. A packet with
/// 24 bytes of payload or more says its stream, number and send time; `weir recv` counts what
/// arrived. Lengths are those of Ethernet frames, as in scenarios. A late packet delays no other
/// one; the report says how late packets were. Each stream of datagrams ends with 5 end marks,
/// which the report does not count, but a link on the way does.
#[derive(clap::Args)]
pub struct Send {
    /// The receiver's IP address; a link-local one with its interface, as in fe80::1%eth0.
    #[arg(value_parser = receiver)]
    to: Receiver,
    /// The kind of source, such as cbr, poisson, voip, video, ftp or web.
    #[arg(required_unless_present = "scenario")]
    kind: Option<String>,
    /// Its keys, as in a scenario.
    #[arg(value_name = "KEY=VALUE")]
    keys: Vec<String>,
    /// Send all sources of this scenario, each from its own port, to the receiver.
    #[arg(long, value_name = "SCENARIO.toml",
        conflicts_with_all = ["kind", "dscp", "sport", "dport"])]
    scenario: Option<PathBuf>,
    /// Send for this long; 10 s, or the scenario's duration, unless it is given.
    #[arg(long, value_name = "N|TIME", value_parser = seconds(LEAST..=YEAR))]
    seconds: Option<Duration>,
    /// Send at most this many packets (for TCP, transfers) of each source.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    packets: Option<u64>,
    /// Another seed is another run.
    #[arg(long)]
    seed: Option<u64>,
    /// The code point of its packets: a name such as ef, or a number.
    #[arg(long)]
    dscp: Option<String>,
    /// The sender's port; the system chooses one unless it is given.
    #[arg(long)]
    sport: Option<u16>,
    /// The receiver's port; 5001 unless it is given.
    #[arg(long)]
    dport: Option<u16>,
    /// Send packets as fast as possible, whatever their instants are.
    #[arg(long)]
    flood: bool,
    /// Send whole Ethernet frames on this interface, past its queues; the key `src` writes their
    /// sender. Needs CAP_NET_RAW.
    #[arg(long, value_name = "INTERFACE", requires = "to_mac")]
    raw: Option<String>,
    /// The station that raw frames are for.
    #[arg(long, value_name = "MAC", requires = "raw")]
    to_mac: Option<MacAddress>,
    /// The station that raw frames name as their sender; the interface's own unless it is given.
    #[arg(long, value_name = "MAC", requires = "raw")]
    from_mac: Option<MacAddress>,
    /// The clock of send times: realtime for a receiver on another machine with a synchronised
    /// clock.
    #[arg(long, value_enum, default_value_t = ClockName::Monotonic)]
    clock: ClockName,
    /// How to wait for an instant: block sleeps and is some 50 us late, spin uses a whole
    /// processor.
    #[arg(long, value_enum, default_value_t = WaitName::Block)]
    wait: WaitName,
    /// The number of the first stream.
    #[arg(long, default_value_t = 1)]
    stream: u32,
}

/// A receiver's address, and the interface to which a link-local one belongs.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub address: IpAddr,
    interface: Option<String>,
}

/// A clock, as options name it.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ClockName {
    Monotonic,
    Realtime,
}

/// A way to wait, as options name it.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum WaitName {
    Block,
    Hybrid,
    Spin,
}

/// The sources to send, with the duration and the seed of their scenario.
struct Traffic {
    sources: Vec<Source>,
    duration: Duration,
    seed: u64,
}

impl Run for Send {
    fn run(self, output: &Output) -> Exit {
        let traffic = match &self.scenario {
            Some(path) => self.of_scenario(path, output),
            None => self.of_keys().map_err(|error| output.refuse(&error)),
        };
        match traffic {
            Ok(traffic) => self.send(traffic, output).unwrap_or_else(|why| output.refuse(&why)),
            Err(exit) => exit,
        }
    }
}

impl Send {
    /// The sources of a scenario, to this receiver.
    fn of_scenario(&self, path: &Path, output: &Output) -> Result<Traffic, Exit> {
        let name = path.display().to_string();
        let unread = |error| output.refuse(&format!("cannot read {name}: {error}"));
        let bytes = input::read(path).map_err(unread)?;
        let outcome = read::parse(&bytes, &name, &input::read_named);
        if outcome.failed() {
            return Err(kind::refuse(output, (&name, &bytes), Kind::Scenario, &outcome));
        }
        let scenario = outcome.plan.expect("without errors there is a plan");
        let mut sources = scenario.sources;
        for source in &mut sources {
            source.headers.addresses = towards(source.headers.addresses, self.to.address);
        }
        let duration = Duration::from_nanos(scenario.duration.as_nanos());
        Ok(Traffic { sources, duration, seed: scenario.seed })
    }

    /// The source that the arguments describe.
    fn of_keys(&self) -> Result<Traffic, String> {
        let kind = self.kind.as_deref().unwrap_or_default();
        let mut keys = Vec::new();
        for text in &self.keys {
            let (key, value) = text.split_once('=').ok_or_else(|| {
                format!("`{text}` is not KEY=VALUE; write rate='2 Mbit/s', for example")
            })?;
            if let Some(other) = elsewhere(key) {
                return Err(format!("`{key}` is not a key here; {other}"));
            }
            keys.push((key, value.to_owned()));
        }
        let options = [
            ("sport", self.sport.map(|port| port.to_string())),
            ("dport", self.dport.map(|port| port.to_string())),
            ("dscp", self.dscp.clone()),
        ];
        keys.extend(options.into_iter().filter_map(|(key, value)| Some((key, value?))));
        let pairs: Vec<_> = keys.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let text = source_text(kind, kind, self.to.address, &pairs);
        let name = "the arguments of `weir send`, as a source";
        let outcome = read::parse_sources(text.as_bytes(), name, &input::read_named);
        let shown = || render::render(&outcome.findings, &outcome.sources, false);
        if outcome.failed() {
            return Err(format!("these arguments make no source:\n{}", shown().trim_end()));
        }
        let seed = read::SEED_DEFAULT;
        let sources = outcome.plan.unwrap_or_default();
        Ok(Traffic { sources, duration: DURATION_DEFAULT, seed })
    }

    fn send(&self, traffic: Traffic, output: &Output) -> Result<Exit, String> {
        let seconds = self.seconds;
        let own = self.scenario.is_some() || self.sport.is_some();
        let plan = SendPlan {
            first_stream: self.stream,
            seed: self.seed.unwrap_or(traffic.seed),
            duration: seconds.unwrap_or(traffic.duration),
            packets_max: self.packets,
            flood: self.flood,
            raw: self.raw_port(),
            clock: match self.clock {
                ClockName::Monotonic => Clock::Monotonic,
                ClockName::Realtime => Clock::Realtime,
            },
            wait: match self.wait {
                WaitName::Block => WaitPolicy::Block,
                WaitName::Hybrid => WaitPolicy::Hybrid,
                WaitName::Spin => WaitPolicy::Spin,
            },
            zone: self.to.zone(self.raw.is_some())?,
            own_ports: own || self.keys.iter().any(|key| key.starts_with("sport=")),
            ..SendPlan::new(traffic.sources)
        };
        let stop = StopSignal::install().map_err(|error| error.to_string())?;
        let sender = Sender::start(&plan).map_err(|error| error.to_string())?;
        let bar = spinner();
        while !sender.is_done() {
            if stop.requested() {
                sender.stop();
            }
            let (packets, bytes) = sender.sent();
            bar.set_message(format!("sent {packets} packets, {bytes} bytes"));
            thread::sleep(TURN);
        }
        bar.finish_and_clear();
        let report = sender.finish();
        show(&report, output);
        let stopped = if stop.requested() { Exit::Interrupted } else { Exit::Clean };
        let nothing = report.streams.iter().all(|stream| stream.packets == 0);
        let refused = report.streams.iter().any(|stream| stream.refused > 0);
        let unanswered = report.streams.iter().all(|stream| stream.unanswered);
        Ok(if unanswered || nothing && refused { Exit::Usage } else { stopped })
    }

    fn raw_port(&self) -> Option<RawPort> {
        let (interface, to) = (self.raw.clone()?, self.to_mac?);
        let from = self.from_mac.map(|mac| Mac(mac.0));
        Some(RawPort { interface, to: Mac(to.0), from })
    }
}

impl Receiver {
    /// Returns the number of the interface, 0 where none is needed.
    pub fn zone(&self, is_raw: bool) -> Result<u32, String> {
        let (address, interface) = (self.address, self.interface.as_deref());
        let is_link_local = match address {
            IpAddr::V6(address) => address.is_unicast_link_local(),
            IpAddr::V4(_) => false,
        };
        match interface {
            Some(interface) => {
                let link = Netlink::open().and_then(|mut netlink| netlink.link(interface));
                Ok(link.map_err(|error| error.to_string())?.index)
            }
            None if is_link_local && !is_raw => {
                Err(format!("{address} is there on each link: say on which; write {address}%eth0"))
            }
            None => Ok(0),
        }
    }
}

/// Parses a receiver's address.
fn receiver(text: &str) -> Result<Receiver, String> {
    receiver_of(text, "--dport")
}

/// Parses the address of a receiver whose port is another option.
pub(crate) fn receiver_of(text: &str, port: &str) -> Result<Receiver, String> {
    let (address, interface) = match text.split_once('%') {
        Some((address, interface)) => (address, Some(interface.to_owned())),
        None => (text, None),
    };
    let address = address.parse().map_err(|_| {
        format!(
            "names are not looked up, and the port is `{port}`: write an address, such as \
             10.0.0.2, fd00::2 or fe80::1%eth0"
        )
    })?;
    match (address, &interface) {
        (IpAddr::V4(_), Some(_)) => Err("an IPv4 address has no `%`".to_owned()),
        _ => Ok(Receiver { address, interface }),
    }
}

fn show(report: &SendReport, output: &Output) {
    for stream in &report.streams {
        let (name, unsent) = (&stream.name, stream.unsent);
        if stream.unanswered {
            output.warn(&format!(
                "source {name}: no station answers for {} (ARP), so nothing was sent there",
                stream.to
            ));
        }
        if unsent > 0 {
            output.warn(&format!(
                "source {name}: {unsent} packets or more were not sent by the end: the sender or \
                 the interface is slower than that"
            ));
        }
        let Some(error) = stream.error.as_ref().filter(|_| stream.refused > 0) else { continue };
        let what =
            if stream.transport == "tcp" { "transfers failed" } else { "packets were refused" };
        output.warn(&format!("source {}: {} {what}: {error}", stream.name, stream.refused));
    }
    match output.format {
        Format::Json => output.json(report),
        Format::Text => output.text(&format!("{report}\n")),
    }
}

/// These addresses with another receiver; a sender of another IP version is left open.
fn towards(addresses: Addresses, to: IpAddr) -> Addresses {
    match (to, addresses.source()) {
        (IpAddr::V4(destination), Some(IpAddr::V4(source))) => {
            Addresses::V4 { source, destination }
        }
        (IpAddr::V6(destination), Some(IpAddr::V6(source))) => {
            Addresses::V6 { source, destination }
        }
        (IpAddr::V4(destination), _) => {
            Addresses::V4 { source: std::net::Ipv4Addr::UNSPECIFIED, destination }
        }
        (IpAddr::V6(destination), _) => {
            Addresses::V6 { source: std::net::Ipv6Addr::UNSPECIFIED, destination }
        }
    }
}

/// Where a key of sources is written that the arguments do not take.
fn elsewhere(key: &str) -> Option<&'static str> {
    match key {
        "kind" | "name" => Some("write the kind before the keys"),
        "dst" => Some("the receiver is the first argument"),
        "from" | "to" | "class" | "interface" => Some("it belongs to a simulated link"),
        _ => None,
    }
}

/// A counter on a terminal.
pub(crate) fn spinner() -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{elapsed:>4} {msg}");
    ProgressBar::new_spinner().with_style(style.expect("the template is well formed"))
}

/// How often the stop is looked for and the counter is shown.
pub(crate) const TURN: Duration = Duration::from_millis(50);
const DURATION_DEFAULT: Duration = Duration::from_secs(10);
