//! `weir recv`: counts what `weir send` sends.

use crate::Run;
use crate::output::{Exit, Format, Output};
use crate::send::{TURN, spinner};
use std::thread;
use std::time::{Duration, Instant};
use weir_cli::time::{LEAST, YEAR, seconds};
use weir_host::signals::StopSignal;
use weir_traffic::{ReceivePlan, Receiver};

/// Receives what `weir send` sends: loss, order, goodput and one-way delay of each stream.
///
/// Ends when the streams have ended, after `--seconds`, or with SIGINT, and then prints what
/// arrived. Delays run from the sender's call to the stamp of the receiving kernel; for TCP, from
/// the start of a transfer to its last byte. They need one clock: sender and receiver on one
/// machine (in network namespaces, for example), or synchronised clocks and `weir send --clock
/// realtime`. Packets that the receiver itself has no room for are told apart from those that the
/// network lost.
#[derive(clap::Args)]
pub struct Recv {
    /// A port to receive on, over UDP and TCP; may be given several times.
    #[arg(long = "port", value_name = "PORT", default_values_t = [PORT_DEFAULT],
        value_parser = clap::value_parser!(u16).range(1..))]
    ports: Vec<u16>,
    /// Receive UDP only.
    #[arg(long, conflicts_with = "tcp")]
    udp: bool,
    /// Receive TCP only.
    #[arg(long)]
    tcp: bool,
    /// Receive frames of this interface, whoever they are for: UDP packets to the ports. Needs
    /// CAP_NET_RAW.
    #[arg(long, value_name = "INTERFACE", conflicts_with_all = ["udp", "tcp"])]
    raw: Option<String>,
    /// With --raw, count UDP packets to every port.
    #[arg(long, requires = "raw")]
    all_ports: bool,
    /// End after this time at the latest.
    #[arg(long, value_name = "N|TIME", value_parser = seconds(LEAST..=YEAR))]
    seconds: Option<Duration>,
    /// End when this many streams have ended, not after the first.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    streams: u16,
}

impl Run for Recv {
    fn run(self, output: &Output) -> Exit {
        self.receive(output).unwrap_or_else(|why| output.refuse(&why))
    }
}

impl Recv {
    fn receive(&self, output: &Output) -> Result<Exit, String> {
        let stop = StopSignal::install().map_err(|error| error.to_string())?;
        let plan = self.plan();
        let receiver = Receiver::start(&plan).map_err(|error| error.to_string())?;
        output.warn(&format!("receiving {}", self.place()));
        let start = Instant::now();
        let end = self.seconds;
        let bar = spinner();
        let over = || stop.requested() || end.is_some_and(|end| start.elapsed() >= end);
        while !over() {
            if receiver.have_ended(self.streams.into()) {
                // Late packets have a moment to come.
                receiver.wait_ended(Duration::ZERO);
                break;
            }
            let streams = receiver.report().streams;
            let packets: u64 = streams.iter().map(|stream| stream.packets).sum();
            bar.set_message(format!("{packets} packets of {} streams", streams.len()));
            thread::sleep(TURN);
        }
        bar.finish_and_clear();
        let report = receiver.finish();
        match output.format {
            Format::Json => output.json(&report),
            Format::Text if report.streams.is_empty() => output.text("nothing arrived\n"),
            Format::Text => output.text(&format!("{report}\n")),
        }
        Ok(Exit::Clean)
    }

    fn plan(&self) -> ReceivePlan {
        let mut plan = match &self.raw {
            Some(interface) if self.all_ports => ReceivePlan::raw(interface, &[]),
            Some(interface) => ReceivePlan::raw(interface, &self.ports),
            None => ReceivePlan::ports(&self.ports),
        };
        if self.udp {
            plan.tcp.clear();
        }
        if self.tcp {
            plan.udp.clear();
        }
        plan
    }

    /// Returns the place of reception in words.
    fn place(&self) -> String {
        let ports: Vec<_> = self.ports.iter().map(u16::to_string).collect();
        let noun = if ports.len() == 1 { "port" } else { "ports" };
        let ports = format!("{noun} {}", ports.join(", "));
        match &self.raw {
            Some(interface) if self.all_ports => format!("UDP in frames of {interface}"),
            Some(interface) => format!("UDP {ports} in frames of {interface}"),
            None if self.udp => format!("on UDP {ports}"),
            None if self.tcp => format!("on TCP {ports}"),
            None => format!("on UDP and TCP {ports}"),
        }
    }
}

/// The port to which sources send that name none.
const PORT_DEFAULT: u16 = 5001;
