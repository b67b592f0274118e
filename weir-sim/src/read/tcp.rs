//! The keys of a TCP source: the values of a profile, and what the scenario changes of them.

use super::source::{Distribution, bounded, mtu, read_or};
use super::{codes, keys};
use crate::conversation::{Client, Conversation, EXCHANGES_MAX, Exchange};
use crate::scenario::{
    Congestion, INITIAL_SEGMENTS_MAX, InitialWindow, Mtu, Profile, RTO_MIN_RFC6298, SlowStart, Tcp,
    Transfer, WINDOW_MAX,
};
use weir_core::units::{Bytes, Dimension, Duration, Quantity, Share};
use weir_policy::codes as common;
use weir_policy::finding::Report;
use weir_policy::reader::{Node, Table};
use weir_tcp::{Config, Cubic, EcnMode, Recovery};

/// Reads a source of `kind = "tcp"`.
pub(super) fn read(
    table: &mut Table<'_>,
    mtu_there: Option<Mtu>,
    report: &mut Report,
) -> Option<Tcp> {
    let connection = connection(table, mtu_there, report);
    let (transfer, conversation) = contents(table, report)?;
    Some(Tcp { transfer, conversation, ..connection? })
}

/// Reads a transfer or a conversation.
pub(super) fn contents(
    table: &mut Table<'_>,
    report: &mut Report,
) -> Option<(Option<Transfer>, Option<Conversation>)> {
    let conversation = conversation(table, report);
    let transfer = transfer(table, report);
    let (transfer, conversation) = (transfer?, conversation?);
    if transfer.is_some()
        && conversation.is_some()
        && let Some(node) = table.field("bytes")
    {
        let message = "is a transfer, and `conversation` says what is sent";
        let cure = "take it out, or `conversation`";
        report.push(node.draft(&codes::EXCLUSIVE, message).cure(cure));
        return None;
    }
    Some((transfer, conversation))
}

/// Reads `conversation`, `client` and `buffer`.
fn conversation(table: &mut Table<'_>, report: &mut Report) -> Option<Option<Conversation>> {
    let client = optional(table, "client", report, |node, report| node.one_of(&CLIENTS, report));
    let buffer = optional(table, "buffer", report, bounded);
    let Some(node) = table.field("conversation") else {
        let own = table.field("client").or_else(|| table.field("buffer"));
        let Some(node) = own else { return Some(None) };
        let cure = "write a `conversation`, or take it out";
        report.push(node.draft(&codes::NEEDLESS, "needs a `conversation`").cure(cure));
        return None;
    };
    let rows = node.elements(report)?;
    if !(1..=EXCHANGES_MAX).contains(&rows.len()) {
        let message = format!("has {} exchanges, not 1 to {EXCHANGES_MAX}", rows.len());
        let cure = "begin another source where so many have ended";
        report.push(node.draft(&common::TOO_MANY, message).cure(cure));
        return None;
    }
    let exchanges: Option<_> = rows.iter().map(|row| exchange(row, report)).collect();
    let (client, buffer) = (client?.unwrap_or_default(), buffer?.unwrap_or_default());
    Some(Some(Conversation { client, buffer, exchanges: exchanges? }))
}

/// Reads a row of `conversation`.
fn exchange(node: &Node<'_>, report: &mut Report) -> Option<Exchange> {
    let row = node.table(report)?;
    let mut row = row.named("a row of `conversation`").with_keys(keys::EXCHANGES);
    let amount = |row: &mut Table<'_>, key, report: &mut Report| row.value::<u64>(key, report);
    let (up, down) = (amount(&mut row, "up", report), amount(&mut row, "down", report));
    let [after, every, wait] =
        ["after", "every", "wait"].map(|key| row.value_by(key, report, bounded));
    let connect = row.value("connect", report);
    row.finish(report);
    let exchange = Exchange {
        after: after?,
        every: every?,
        connect: connect?,
        up: up?,
        wait: wait?,
        down: down?,
    };
    if exchange.up == 0 && exchange.down == 0 {
        let cure = "write how many bytes the client sends `up` or gets `down`";
        report.push(node.draft(&common::OUT_OF_RANGE, "exchanges nothing").cure(cure));
        return None;
    }
    Some(exchange)
}

/// Reads the keys of every TCP source, whatever it transfers; `mtu_there` is the MTU of a network's
/// first link.
pub(crate) fn connection(
    table: &mut Table<'_>,
    mtu_there: Option<Mtu>,
    report: &mut Report,
) -> Option<Tcp> {
    let profiles = Profile::ALL.map(|profile| (profile.keyword(), profile));
    let profile = optional(table, "profile", report, |node, report| node.one_of(&profiles, report));
    let mut tcp = profile.flatten().map(Tcp::of_profile).unwrap_or_default();
    let read = [
        profile.map(|_| ()),
        congestion(&mut tcp.config, table, report),
        sender(&mut tcp.config, table, report),
        repair(&mut tcp.config, table, report),
        receiver(&mut tcp, table, report),
        path(&mut tcp, mtu_there, table, report),
    ];
    read.into_iter().collect::<Option<()>>()?;
    Some(tcp)
}

/// Reads `congestion`, `ecn` and `hystart`.
fn congestion(config: &mut Config, table: &mut Table<'_>, report: &mut Report) -> Option<()> {
    let controller =
        optional(table, "congestion", report, |node, report| node.one_of(&CONTROLLERS, report));
    let field = table.field("ecn");
    let ecn = optional(table, "ecn", report, |node, report| node.one_of(&ECN, report));
    let hystart_field = table.field("hystart");
    let hystart = table.written("hystart", report);
    config.congestion = controller?.unwrap_or(config.congestion);
    // What a controller needs at least.
    let needed = match config.congestion {
        Congestion::Prague => &[EcnMode::Accurate][..],
        Congestion::Dctcp => &[EcnMode::Accurate, EcnMode::Active],
        _ => &[],
    };
    config.ecn = ecn?.or(needed.first().copied()).unwrap_or(config.ecn);
    if let Some(node) = field.filter(|_| !needed.is_empty() && !needed.contains(&config.ecn)) {
        let word = CONTROLLERS.iter().find(|row| row.1 == config.congestion).map(|row| row.0);
        let word = word.unwrap_or_default();
        let modes = ECN.iter().filter(|row| needed.contains(&row.1));
        let modes: Vec<_> = modes.map(|row| format!("`ecn = \"{}\"`", row.0)).collect();
        let message = format!("does not bring `{word}` the marks that it lives by");
        let cure = format!("write {}, or another `congestion`", modes.join(" or "));
        report.push(node.draft(&codes::EXCLUSIVE, message).cure(cure));
        return None;
    }
    let is_cubic = config.congestion == Congestion::Cubic;
    if let Some(node) = hystart_field.filter(|_| !is_cubic) {
        let cure = "write `congestion = \"cubic\"`, or take it out";
        report.push(node.draft(&codes::NEEDLESS, "means nothing here").cure(cure));
        return None;
    }
    match hystart? {
        Some(true) if config.cubic.hystart.is_none() => {
            config.cubic.hystart = Cubic::linux().hystart;
        }
        Some(false) => config.cubic.hystart = None,
        _ => {}
    }
    Some(())
}

/// `initial_window`, `slow_start`, `pacing`, `nagle`, `idle_restart`.
fn sender(config: &mut Config, table: &mut Table<'_>, report: &mut Report) -> Option<()> {
    let initial = optional(table, "initial_window", report, initial_window);
    let growth = optional(table, "slow_start", report, |node, report| {
        node.one_of(&[("bytes", true), ("acks", false)], report)
    });
    let switch = |table: &mut Table<'_>, key, own: &mut bool, report: &mut Report| {
        *own = table.written(key, report)?.unwrap_or(*own);
        Some(())
    };
    let switches = [
        switch(table, "pacing", &mut config.limits.pacing, report),
        switch(table, "nagle", &mut config.nagle, report),
        switch(table, "idle_restart", &mut config.idle_restart, report),
    ];
    config.initial_window = initial?.unwrap_or(config.initial_window);
    config.slow_start = match (growth?, config.slow_start) {
        (Some(true), SlowStart::Acks) => SlowStart::Bytes { limit: None },
        (Some(false), _) => SlowStart::Acks,
        (_, own) => own,
    };
    switches.into_iter().collect()
}

/// Reads `sack` and `rto_min`.
fn repair(config: &mut Config, table: &mut Table<'_>, report: &mut Report) -> Option<()> {
    let sack = table.written("sack", report);
    let rto_min = optional(table, "rto_min", report, rto_min);
    match sack? {
        Some(true) if !config.sack => {
            (config.sack, config.dsack, config.recovery) = (true, true, Recovery::linux());
        }
        Some(false) => {
            (config.sack, config.dsack) = (false, false);
            (config.rto.min, config.rto.min_bounds_deviation) = (RTO_MIN_RFC6298, false);
            if config.recovery.rack {
                config.recovery = Recovery::bsd();
            }
        }
        _ => {}
    }
    if let Some(least) = rto_min? {
        let rto = &mut config.rto;
        rto.min = least;
        (rto.initial, rto.max) = (rto.initial.max(rto.min), rto.max.max(rto.min));
    }
    Some(())
}

fn rto_min(node: &Node<'_>, report: &mut Report) -> Option<Duration> {
    let least = bounded(node, report)?;
    if least >= RTO_MIN_MIN {
        return Some(least);
    }
    let message = format!("{least} is less than {RTO_MIN_MIN}");
    let cure = "write a time such as `200 ms`";
    report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
    None
}

/// `window`, `window_max`, `ack_delay`, `quick_acks`, `timestamps`.
fn receiver(tcp: &mut Tcp, table: &mut Table<'_>, report: &mut Report) -> Option<()> {
    let size = optional(table, "window", report, window);
    let largest = table.field("window_max");
    let most = optional(table, "window_max", report, window);
    let ack_delay = optional(table, "ack_delay", report, |node, report| {
        bounded(node, report).map(|delay| (delay > Duration::ZERO).then_some(delay))
    });
    let quick_acks = table.written::<u64>("quick_acks", report);
    let timestamps = table.written("timestamps", report);
    if let Some(size) = size? {
        tcp.set_window(size);
    }
    if let (Some(most), Some(node)) = (most?, largest) {
        let least = tcp.config.buffers.receive;
        if most < least {
            let message = format!("{most} is less than the window of {least} that it begins with");
            let cure = "write a larger `window_max`, or a smaller `window`";
            report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
            return None;
        }
        (tcp.config.buffers.receive_max, tcp.config.buffers.autotuning) = (most, true);
        tcp.scale_windows();
    }
    if let Some(delay) = ack_delay? {
        tcp.set_ack_delay(delay);
    }
    if let Some(segments) = quick_acks? {
        tcp.set_quick_acks(segments as u32);
    }
    tcp.config.timestamps = timestamps?.unwrap_or(tcp.config.timestamps);
    Some(())
}

/// Reads `mtu`, `mss`, `return_delay` and `loss`.
fn path(
    tcp: &mut Tcp,
    mtu_there: Option<Mtu>,
    table: &mut Table<'_>,
    report: &mut Report,
) -> Option<()> {
    let mtu = read_or(table.field("mtu"), mtu_there.unwrap_or(tcp.mtu()), report, mtu);
    let rule = table.word("mss", report);
    // In a network acknowledgements travel as packets do.
    let (return_delay, loss) = match mtu_there {
        None => (table.value_by("return_delay", report, bounded), loss(table, report)),
        Some(_) => (Some(Duration::ZERO), Some(Share::default())),
    };
    let mtu = if rule? == "bsd" { mtu?.with_bsd_segments() } else { mtu? };
    tcp.config.mtu = mtu.get();
    (tcp.return_delay, tcp.loss) = (return_delay?, loss?);
    Some(())
}

fn loss(table: &mut Table<'_>, report: &mut Report) -> Option<Share> {
    table.field("loss").map_or(Some(Share::default()), |node| node.share(report))
}

pub(super) fn initial_window(node: &Node<'_>, report: &mut Report) -> Option<InitialWindow> {
    let written = node.quantity_of(&[Dimension::Packets, Dimension::Bytes], report)?;
    match written {
        Quantity::Packets(segments @ 1..=INITIAL_SEGMENTS_MAX) => {
            return Some(InitialWindow::Segments(segments));
        }
        Quantity::Bytes(bytes) if (1..=WINDOW_MAX.get()).contains(&bytes.get()) => {
            return Some(InitialWindow::Bytes(bytes));
        }
        _ => {}
    }
    let most = WINDOW_MAX.get() >> 20;
    let message =
        format!("{written} is not in 1 to {INITIAL_SEGMENTS_MAX} packets or 1 B to {most} MiB");
    let cure = "write how many segments a connection may send at once, such as `10 packets`";
    report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
    None
}

fn window(node: &Node<'_>, report: &mut Report) -> Option<Bytes> {
    window_from(Bytes::new(1), node, report)
}

/// A receiver's buffer of at least so many bytes.
pub(super) fn window_from(least: Bytes, node: &Node<'_>, report: &mut Report) -> Option<Bytes> {
    let bytes = node.bytes(report)?;
    if (least..=WINDOW_MAX).contains(&bytes) {
        return Some(bytes);
    }
    let message = format!("{bytes} is not in {least} to {} MiB", WINDOW_MAX.get() >> 20);
    let cure = "write what the receiver buffers, such as `64 KiB`";
    report.push(node.draft(&common::OUT_OF_RANGE, message).cure(cure));
    None
}

/// Reads `bytes` and `think`.
pub(super) fn transfer(table: &mut Table<'_>, report: &mut Report) -> Option<Option<Transfer>> {
    let (bytes, think) = (table.field("bytes"), table.field("think"));
    let distribution = match think {
        Some(_) => Distribution::read(table, report),
        None => Some(Distribution::Exponential),
    };
    let Some(bytes) = bytes else {
        let Some(node) = think else { return Some(None) };
        let cure = "write how many `bytes` a transfer has, or take `think` out";
        report.push(node.draft(&codes::NEEDLESS, "needs `bytes`").cure(cure));
        return None;
    };
    let amount = bytes.bytes(report)?;
    if amount == Bytes::ZERO {
        let cure = "take it out to send without end";
        report.push(bytes.draft(&common::OUT_OF_RANGE, "must be at least 1 B").cure(cure));
        return None;
    }
    let think = match think {
        Some(node) => Some(distribution?.period(&node, report)?),
        None => None,
    };
    Some(Some(Transfer { bytes: amount, think }))
}

/// The value of a key, `None` inside if it is not written, `None` if it is wrong.
pub(super) fn optional<'a, T>(
    table: &mut Table<'a>,
    key: &'static str,
    report: &mut Report,
    read: impl FnOnce(&Node<'a>, &mut Report) -> Option<T>,
) -> Option<Option<T>> {
    read_or(table.field(key), None, report, |node, report| read(node, report).map(Some))
}

pub(super) const CONTROLLERS: [(&str, Congestion); 6] = [
    ("cubic", Congestion::Cubic),
    ("reno", Congestion::Reno),
    ("bbr", Congestion::Bbr),
    ("dctcp", Congestion::Dctcp),
    ("prague", Congestion::Prague),
    ("none", Congestion::None),
];
const CLIENTS: [(&str, Client); 2] = [("src", Client::Source), ("dst", Client::Destination)];
pub(super) const ECN: [(&str, EcnMode); 3] =
    [("off", EcnMode::Off), ("classic", EcnMode::Active), ("accurate", EcnMode::Accurate)];
/// The granularity of a sender's timer.
const RTO_MIN_MIN: Duration = Duration::from_millis(1);
