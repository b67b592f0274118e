//! The parts that tests of reservations share: a policy with a class for them, packets within a
//! reservation beside a flood, and the reservations that a link reports.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use weir_control::client;
use weir_control::protocol::{Answer, Query, Request, Reservations};
use weir_host::netns::NetNs;
use weir_testbed::rows::{Failed, Outcome};
use weir_testbed::{has_drops, until, until_ok};

/// 10 Mbit/s, of which reservations have almost `reserved` Mbit/s.
pub fn policy(reserved: u32) -> String {
    format!(
        "[link]\nrate = \"10 Mbit/s\"\nscheduler = \"hfsc\"\noverhead = \"ethernet\"\n\
         [class.reserved]\nrate = \"{reserved} Mbit/s\"\n\
         places = {{ count = 100, rate = \"1 kbit/s\" }}\n\
         [class.signals]\nparent = \"reserved\"\nrate = \"100 kbit/s\"\n\
         match = {{ proto = \"46\" }}\n\
         [class.rest]\nrate = \"1 Mbit/s\"\ndefault = true\n"
    )
}

/// Requests a link's reservations.
pub fn reservations(socket: &Path) -> Result<Reservations, String> {
    match client::call(socket, &Request::Reservations { limit: None })? {
        Answer::Reservations(reservations) => Ok(*reservations),
        other => Err(format!("{other:?}")),
    }
}

/// Returns the names of a link's classes of reservations.
pub fn classes(socket: &Path) -> Result<Vec<String>, String> {
    let status = client::status(socket, &Query::default())?;
    let names = status.lanes.into_iter().flat_map(|lane| lane.classes).map(|class| class.name);
    Ok(names.filter(|name| name.starts_with("rsvp-")).collect())
}

/// Returns for how long the first reservation lives without a refresh: longer than before only
/// after one.
pub fn expires_ms(told: &Reservations) -> Option<u64> {
    told.shown.first()?.reservations.first()?.expires_ms
}

/// The sockets of a reservation's packets and of a flood beside them.
pub struct Crossing {
    sender: UdpSocket,
    receiver: UdpSocket,
    target: SocketAddr,
    flood_from: UdpSocket,
    flood_to: UdpSocket,
}

impl Crossing {
    /// Opens them on the hosts of sender and receiver.
    pub fn open(
        (from, source): (&NetNs, SocketAddr),
        (to, target): (&NetNs, SocketAddr),
    ) -> Result<Self, Failed> {
        let receiver = to.run(|| UdpSocket::bind(target))??;
        receiver.set_nonblocking(true)?;
        Ok(Self {
            sender: from.run(|| UdpSocket::bind(source))??,
            receiver,
            target,
            flood_from: from.run(|| UdpSocket::bind((source.ip(), 0)))??,
            flood_to: to.run(|| UdpSocket::bind((target.ip(), 0)))??,
        })
    }

    /// Sends packets within a reservation, each once the one before it has arrived, while another
    /// flow keeps packets waiting before the link. All arrive, once and in order, and none of them
    /// is dropped. `turn` is called while something is awaited.
    pub fn check(&self, link: &Path, mut turn: impl FnMut()) -> Outcome {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| flood(&self.flood_from, &self.flood_to, &done));
            let waits = flood_waits(link, &mut turn);
            let crossed = waits
                .and_then(|()| (0..COUNT).try_for_each(|number| self.crosses(number, &mut turn)));
            done.store(true, Ordering::Relaxed);
            crossed
        })?;
        let status = client::status(link, &Query::default())?;
        let mut all = status.lanes.iter().flat_map(|lane| &lane.classes);
        let class = all.find(|class| class.name.starts_with("rsvp-"));
        let class = class.ok_or("the reservation is a class")?;
        assert!(class.sent.packets >= u64::from(COUNT) && !has_drops(class), "{class:?}");
        Ok(())
    }

    fn crosses(&self, number: u32, turn: &mut impl FnMut()) -> Outcome {
        let mut sent = [0; PAYLOAD];
        sent[..4].copy_from_slice(&number.to_be_bytes());
        self.sender.send_to(&sent, self.target)?;
        let mut bytes = [0; PAYLOAD];
        until_ok(&format!("packet {number} within the reservation arrives"), || {
            turn();
            self.receiver.recv(&mut bytes)
        })?;
        assert!(bytes == sent, "packet {number} arrives once and in order");
        Ok(())
    }
}

/// Keeps so many packets under way that the link always has one to send, and no queue overflows.
fn flood(from: &UdpSocket, to: &UdpSocket, done: &AtomicBool) {
    let target = to.local_addr().expect("it is bound");
    from.set_nonblocking(true).and_then(|()| to.set_nonblocking(true)).expect("it is a socket");
    let (mut sent, mut received, mut bytes) = (0u64, 0u64, [0; PAYLOAD]);
    while !done.load(Ordering::Relaxed) {
        while to.recv(&mut bytes).is_ok() {
            received += 1;
        }
        while sent - received < UNDER_WAY && from.send_to(&bytes, target).is_ok() {
            sent += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until packets of the flood wait before the link.
fn flood_waits(link: &Path, turn: &mut impl FnMut()) -> Outcome {
    let waits = || {
        turn();
        let status = client::status(link, &Query::default());
        let classes = status.map(|all| all.lanes.into_iter().flat_map(|lane| lane.classes));
        classes.is_ok_and(|mut all| all.any(|one| one.name == "rest" && one.backlog.packets > 0))
    };
    Ok(until("the flood waits before the link", waits)?)
}

/// Packets within a reservation.
const COUNT: u32 = 50;
/// Of each packet, in bytes.
const PAYLOAD: usize = 972;
/// Packets of the flood: more than a reader's pause empties the link of, fewer than a queue holds.
const UNDER_WAY: u64 = 48;
