//! The options of `weir reserve send` and `weir reserve receive`.

use super::flow::{self, Ending};
use crate::Run;
use crate::output::{Exit, Output};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use weir_cli::time::{YEAR, within};
use weir_core::units::{Bytes, Rate};
use weir_host::rsvp::host::{Asked, HostPlan, HostRequest, Receiving, Sending};
use weir_rsvp::intserv::Tspec;
use weir_rsvp::wire::{Priority, Session, Style};

/// A destination, as it is written.
#[derive(Clone, Copy, Debug)]
pub struct SessionText {
    /// Where the packets go.
    pub address: IpAddr,
    /// The port of the packets.
    pub port: u16,
}

/// The options of both sides.
#[derive(clap::Args)]
struct Common {
    /// The flow is TCP; it is UDP otherwise.
    #[arg(long)]
    tcp: bool,
    /// Speak RSVP on this interface only; else on all that are up and have an address.
    #[arg(long, value_name = "INTERFACE")]
    interface: Option<String>,
    /// Sign messages, and take only signed ones: a file with lines `NUMBER HASH SECRET`, the same
    /// as the router's `key_file`.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// How often to tell the network again. State without refreshes lives for 5.25 times as long.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = refresh)]
    refresh: Duration,
    /// End after this time.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    lasts: Option<Duration>,
}

#[derive(clap::Args)]
pub struct Send {
    /// The destination of the flow, as ADDRESS:PORT; an address of IPv6 stands in brackets.
    to: SessionText,
    /// The most that the flow sends in the long run: bytes of IP packets, headers included.
    #[arg(long)]
    rate: Rate,
    /// How much it sends at once beyond that; 100 ms at the rate, at least two packets, if not
    /// given.
    #[arg(long, value_name = "BYTES")]
    bucket: Option<Bytes>,
    /// The highest rate within a burst; any if not given.
    #[arg(long, value_name = "RATE")]
    peak: Option<Rate>,
    /// Its shortest packet: shorter ones count as this long. With headers.
    #[arg(long, value_name = "BYTES", default_value = "64 B")]
    packet_min: Bytes,
    /// Its longest packet; the MTU of the interface if not given. With headers.
    #[arg(long, value_name = "BYTES")]
    packet_max: Option<Bytes>,
    /// The address that it is sent from, as ADDRESS or ADDRESS:PORT; the kernel's choice and any
    /// port if not given.
    #[arg(long, value_name = "ADDRESS")]
    from: Option<PlaceText>,
    /// The IP TTL of its packets.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u8).range(1..))]
    ttl: u8,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
pub struct Receive {
    /// The destination of the flow, as ADDRESS:PORT: an address of this host, or a multicast group.
    at: SessionText,
    /// Reserve only for this sender, as ADDRESS or ADDRESS:PORT; may be given several times.
    #[arg(long = "from", value_name = "ADDRESS")]
    senders: Vec<PlaceText>,
    /// How senders share: ff reserves for each, se once for those that are there, wf once for all
    /// to come.
    #[arg(long, value_enum, default_value_t = StyleName::Ff)]
    style: StyleName,
    /// Ask for guaranteed service of this rate, at least that of the flow.
    #[arg(long, value_name = "RATE")]
    guaranteed: Option<Rate>,
    /// Ask for guaranteed service with the least rate by which no packet is later than this.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "guaranteed")]
    delay: Option<Duration>,
    /// Reserve for this rate of the flow, whatever senders announce.
    #[arg(long)]
    rate: Option<Rate>,
    /// Reserve for bursts of this size, whatever senders announce.
    #[arg(long, value_name = "BYTES")]
    bucket: Option<Bytes>,
    /// Take the place of reservations of less priority where a router has `preemption`, and give
    /// it up only to one of more.
    #[arg(long, value_name = "NUMBER")]
    priority: Option<u16>,
    /// Give up if no sender is there and no answer has come after this time.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    wait: Duration,
    /// End as soon as the answer is there: the reservation is only tried.
    #[arg(long)]
    test: bool,
    #[command(flatten)]
    common: Common,
}

/// A sender, as it is written.
#[derive(Clone, Copy, Debug)]
pub struct PlaceText(IpAddr, u16);

/// A style, as options name it.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum StyleName {
    Ff,
    Se,
    Wf,
}

impl Run for Send {
    fn run(self, output: &Output) -> Exit {
        let rate = bytes_per_second(self.rate);
        let most = self.packet_max.map_or(0.0, |bytes| bytes.get() as f32);
        let usual = (rate * BUCKET_SECONDS).max(2.0 * if most > 0.0 { most } else { MTU_USUAL });
        let tspec = Tspec {
            rate,
            bucket: self.bucket.map_or(usual, |bytes| bytes.get() as f32),
            peak: self.peak.map_or(f32::INFINITY, bytes_per_second),
            packet_min: size(self.packet_min),
            packet_max: self.packet_max.map_or(0, size),
        };
        let (from, port) = match self.from {
            Some(PlaceText(address, port)) => (Some(address), port),
            None => (None, 0),
        };
        if let Some(why) = fault(&tspec, self.bucket, self.packet_max) {
            return output.refuse(&why);
        }
        if from.is_some_and(|from| from.is_ipv4() != self.to.address.is_ipv4()) {
            return output
                .refuse("the flow goes from one IP version to the other; name addresses of one");
        }
        let request = HostRequest::Send(Sending { from, port, tspec, ttl: self.ttl });
        let ending = Ending { lasts: self.common.lasts, wait: None, test: false };
        self.common.run(self.to, request, ending, output)
    }
}

impl Run for Receive {
    fn run(self, output: &Output) -> Exit {
        let service = match (self.guaranteed, self.delay) {
            (Some(rate), _) => Asked::Rate(bytes_per_second(rate)),
            (None, Some(delay)) => Asked::Delay(delay.as_secs_f64() * 1e6),
            (None, None) => Asked::ControlledLoad,
        };
        let style = match self.style {
            StyleName::Ff => Style::Fixed,
            StyleName::Se => Style::Shared,
            StyleName::Wf => Style::Wildcard,
        };
        if style == Style::Wildcard && !self.senders.is_empty() {
            return output
                .refuse("`--style wf` reserves for all senders; leave `--from` out, or use se");
        }
        let request = HostRequest::Receive(Receiving {
            style,
            service,
            senders: self
                .senders
                .iter()
                .map(|PlaceText(address, port)| (*address, *port))
                .collect(),
            rate: self.rate.map(bytes_per_second),
            bucket: self.bucket.map(|bytes| bytes.get() as f32),
            priority: self
                .priority
                .map(|number| Priority { preempting: number, defending: number }),
        });
        let ending = Ending { lasts: self.common.lasts, wait: Some(self.wait), test: self.test };
        self.common.run(self.at, request, ending, output)
    }
}

impl Common {
    fn run(self, flow: SessionText, request: HostRequest, ending: Ending, output: &Output) -> Exit {
        let keys = match self.key_file.as_ref().map(|path| (path, fs::read_to_string(path))) {
            None => None,
            Some((_, Ok(text))) => Some(text),
            Some((path, Err(error))) => {
                return output.refuse(&format!("cannot read {}: {error}", path.display()));
            }
        };
        let session = flow.session(self.tcp);
        let refresh = weir_core::units::Duration::from_nanos(self.refresh.as_nanos() as u64);
        let plan = HostPlan { session, interface: self.interface, refresh, keys, request };
        flow::run(plan, &ending, output)
    }
}

impl SessionText {
    /// The session of UDP or TCP packets.
    pub fn session(self, tcp: bool) -> Session {
        let protocol = if tcp { TCP } else { UDP };
        Session { destination: self.address, protocol, port: self.port }
    }
}

impl FromStr for SessionText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<SocketAddr>() {
            Ok(place) if place.port() == 0 => Err("port 0 is no port".to_owned()),
            Ok(place) => Ok(Self { address: place.ip(), port: place.port() }),
            Err(_) => Err(format!(
                "`{text}` is no address with a port; write 10.0.3.2:5004 or [fd00::2]:5004"
            )),
        }
    }
}

impl FromStr for PlaceText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(address, 0));
        }
        let place = text.parse::<SocketAddr>().map_err(|_| {
            format!("`{text}` is no address; write 10.0.1.1, 10.0.1.1:4000 or [fd00::1]:4000")
        })?;
        Ok(Self(place.ip(), place.port()))
    }
}

/// Returns why a flow with these numbers is none.
fn fault(tspec: &Tspec, bucket: Option<Bytes>, packet_max: Option<Bytes>) -> Option<String> {
    let Tspec { packet_min, packet_max: most, .. } = *tspec;
    if packet_max.is_some() && packet_min > most {
        return Some(format!(
            "--packet-min {packet_min} B is more than --packet-max {most} B; lower it"
        ));
    }
    if let (Some(bucket), Some(longest)) = (bucket, packet_max)
        && bucket.get() < longest.get()
    {
        return Some(format!(
            "--bucket {bucket} holds no packet of --packet-max {longest}; raise it"
        ));
    }
    (tspec.peak < tspec.rate).then(|| "--peak is less than --rate; raise it".to_owned())
}

fn bytes_per_second(rate: Rate) -> f32 {
    (rate.bits_per_second() as f64 / 8.0) as f32
}

/// A packet's length; longer ones than IP has are cut to that.
fn size(bytes: Bytes) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX).min(PACKET_BYTES_MAX)
}

/// Reads a time such as `60s` or `5 min`.
fn time(text: &str) -> Result<Duration, String> {
    within(text, &(Duration::from_micros(1)..=YEAR))
}

fn refresh(text: &str) -> Result<Duration, String> {
    within(text, &(Duration::from_millis(100)..=Duration::from_secs(3600)))
}

/// The protocol of a flow without `--tcp`.
const UDP: u8 = 17;
/// The protocol of a flow with `--tcp`.
const TCP: u8 = 6;
/// The usual bucket holds what comes in this time.
const BUCKET_SECONDS: f32 = 0.1;
const MTU_USUAL: f32 = 1500.0;
const PACKET_BYTES_MAX: u32 = 65_535;
