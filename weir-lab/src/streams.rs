//! Numbered datagrams of several sources from one network to another, counted at both ends.

use std::time::Duration;
use weir_host::error::Result;
use weir_host::netns::NetNs;
use weir_sim::scenario::Source;
use weir_traffic::{ReceivePlan, ReceiveReport, Receiver, SendPlan, SendReport, Sender};

/// The traffic while it runs.
pub struct Streams {
    sender: Sender,
    receiver: Receiver,
}

/// The numbers of packets by their fate.
pub struct Counts {
    /// Packets that the system took.
    pub sent: u64,
    /// Different ones that arrived.
    pub arrived: u64,
    /// Packets that neither arrived nor were lost by the receiver itself.
    pub lost: u64,
    /// Arrivals of one that had arrived before.
    pub duplicated: u64,
    /// Arrivals after one with a higher number.
    pub reordered: u64,
}

impl Streams {
    /// Lets `to` listen on the UDP ports, and `from` send for a time.
    ///
    /// # Errors
    /// As the system says.
    pub fn start(
        [from, to]: [&NetNs; 2],
        ports: &[u16],
        sources: Vec<Source>,
        duration: Duration,
    ) -> Result<Self> {
        let plan = ReceivePlan { tcp: Vec::new(), buffer: BUFFER, ..ReceivePlan::ports(ports) };
        let receiver = to.run(|| Receiver::start(&plan))??;
        let plan = SendPlan { duration, ..SendPlan::new(sources) };
        Ok(Self { sender: from.run(|| Sender::start(&plan))??, receiver })
    }

    /// Waits until all is sent.
    pub fn sent(self) -> (SendReport, Receiver) {
        (self.sender.finish(), self.receiver)
    }

    /// Returns what arrived so far.
    pub fn report(&self) -> ReceiveReport {
        self.receiver.report()
    }
}

impl Counts {
    /// Compares what was sent with what arrived; `others` were sent beside the report.
    pub fn of(sent: &SendReport, received: &ReceiveReport, others: u64) -> Self {
        let sent = others + sent.streams.iter().map(|one| one.packets).sum::<u64>();
        let sum = |of: fn(&weir_traffic::arrivals::ReceivedStream) -> u64| -> u64 {
            received.streams.iter().map(of).sum()
        };
        let (duplicated, reordered) = (sum(|one| one.duplicated), sum(|one| one.reordered));
        let arrived = sum(|one| one.packets) - duplicated;
        let lost = sent.saturating_sub(arrived + received.overruns);
        Self { sent, arrived, lost, duplicated, reordered }
    }
}

/// Returns what arrives until the marks at the ends of all streams have, or a moment has passed.
pub fn received(receiver: Receiver) -> ReceiveReport {
    receiver.wait_ended(LAST);
    receiver.finish()
}

/// Returns the longest delay of this stream, in ms; without a number, of all.
pub fn delay_max_ms(report: &ReceiveReport, stream: Option<u32>) -> f64 {
    let of = report.streams.iter().filter(|one| stream.is_none() || one.stream == stream);
    of.map(|one| one.delay.max_us / 1e3).fold(0.0, f64::max)
}

/// Room for what comes while the machine lets the receiver wait.
const BUFFER: u32 = 32 << 20;
const LAST: Duration = Duration::from_secs(2);
