//! Echoes of hosts behind a modem, where nothing that passes tells how long frames wait there.
//!
//! [`weir_autorate`] decides when one is sent. It takes the way of the machine's own packets, and
//! tells only where that leads through the link: by host egress, or by a port of the machine in the
//! network whose traffic is shaped. So it is timed like each frame, when it leaves towards the
//! modem and when its answer arrives from there, and what both wait in the link's own queues has no
//! part. The keeper opens the sockets, so what asks has no privilege. There may be no way to a host
//! for a while: it counts as dead until there is one.

use std::net::IpAddr;

use weir_autorate::{Autorate, Echo, Way};
use weir_core::packet::{Addresses, Headers, Protocol};
use weir_core::units::{Duration, Instant};

use crate::pool::FrameId;
use crate::port::PortConfig;
use weir_host::echo::{self, EchoSocket};
use weir_host::error::Result;

/// The reflectors of a bridge.
pub(super) struct Echoes {
    /// That of the modem's port.
    config: PortConfig,
    sockets: Vec<Option<EchoSocket>>,
    /// No socket is opened before.
    opens: Instant,
    /// Echoes that wait in the link, with their numbers.
    waiting: Vec<(FrameId, u16)>,
}

/// A frame that passes the link.
pub(super) struct Passing<'a> {
    /// When it arrived.
    pub at: Instant,
    pub way: Way,
    pub frame: FrameId,
    pub headers: &'a Headers,
    pub bytes: &'a [u8],
}

impl Echoes {
    /// Those of the modem's port among these ports, if it has any.
    pub fn of<'a>(mut ports: impl Iterator<Item = &'a PortConfig>) -> Option<Self> {
        let config = ports.find(|config| !config.reflectors.is_empty())?.clone();
        let sockets = config.reflectors.iter().map(|_| None).collect();
        Some(Self { config, sockets, opens: Instant::ZERO, waiting: Vec::new() })
    }

    /// Returns how many reflectors there are.
    pub fn count(&self) -> usize {
        self.sockets.len()
    }

    /// Asks a reflector.
    pub fn send(&mut self, now: Instant, echo: Echo) {
        let Some(place) = self.sockets.get_mut(echo.reflector) else { return };
        if place.is_none() && now >= self.opens {
            *place = open(&self.config, echo.reflector).ok();
        }
        let is_sent = place.as_ref().is_some_and(|socket| socket.send(echo.number).is_ok());
        if !is_sent && now >= self.opens {
            *place = None;
            self.opens = now.after(OPEN_PAUSE);
        }
    }

    /// Looks whether a frame that goes this way is an echo, or the answer to one.
    pub fn read(&mut self, passing: &Passing<'_>, autorate: &mut Autorate) {
        let Passing { at, way, frame, headers, .. } = *passing;
        let Some(icmp) = headers.icmp() else { return };
        let Some((host, number)) = self.number(passing) else { return };
        let (asks, answers) = (echo::request_type(host), echo::reply_type(host));
        match way {
            Way::Up if icmp.number == asks && self.waiting.len() < WAITING_MAX => {
                self.waiting.push((frame, number));
            }
            Way::Down if icmp.number == answers => autorate.echoed(at, number),
            _ => {}
        }
    }

    /// Notes that a frame left.
    #[inline]
    pub fn leave(&mut self, at: Instant, frame: FrameId, autorate: &mut Autorate) {
        if self.waiting.is_empty() {
            return;
        }
        if let Some(place) = self.waiting.iter().position(|(waiting, _)| *waiting == frame) {
            let (_, number) = self.waiting.swap_remove(place);
            autorate.echo_left(at, number);
        }
    }

    /// Forgets an echo that was dropped: another frame has its place now.
    #[inline]
    pub fn forget(&mut self, frame: FrameId) {
        self.waiting.retain(|(waiting, _)| *waiting != frame);
    }

    /// Returns a reflector and the number of a message between it and this machine.
    fn number(&self, passing: &Passing<'_>) -> Option<(IpAddr, u16)> {
        let Passing { way, headers, bytes, .. } = passing;
        let Headers { addresses, .. } = headers;
        let host = if *way == Way::Up { addresses.destination() } else { addresses.source() }?;
        let place = self.config.reflectors.iter().position(|known| *known == host)?;
        let packet = bytes.get(usize::from(headers.link_len)..)?;
        let message = match addresses {
            // Nothing lies between the headers of an echo under IPv6.
            Addresses::V6 { .. } if *packet.get(NEXT_HEADER)? != Protocol::ICMPV6.0 => return None,
            Addresses::V6 { .. } => packet.get(IPV6_HEADER..)?,
            _ => packet.get(usize::from(packet.first()? & 0xf) * 4..)?,
        };
        let number = echo::number(message)?;
        (usize::from(number) % self.count() == place).then_some((host, number))
    }
}

/// Opens the socket of a reflector, by the keeper if there is one.
fn open(config: &PortConfig, place: usize) -> Result<EchoSocket> {
    let host = config.reflectors[place];
    let socket = match &config.through {
        Some(client) => client.reflector(place)?,
        None => echo::open(host)?,
    };
    Ok(EchoSocket::new(socket, host))
}

/// The place of the next header's number in a header of IPv6, and the length of that [RFC 8200 §3].
const NEXT_HEADER: usize = 6;
/// See [`NEXT_HEADER`].
const IPV6_HEADER: usize = 40;
/// How long after one that failed a socket is opened again.
const OPEN_PAUSE: Duration = Duration::from_secs(5);
/// Bound: echoes that wait in the link; a further one is not timed.
const WAITING_MAX: usize = 64;
