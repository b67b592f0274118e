//! A host at an end of the row: a node on real sockets, whose messages may get lost.

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use weir_core::random::Random;
use weir_host::rsvp::{
    Admission, AdmitAll, Changes, Descriptors, Driver, HostInterface, KernelNetwork, Network,
    Received, Role,
};
use weir_rsvp::Tspec;
use weir_rsvp::intserv::{Adspec, Flowspec, Terms};
use weir_rsvp::node::{Announcement, Claim, Event, InterfaceParams, Packet, Route, Routes};
use weir_rsvp::wire::{Descriptor, Filter, Reservation, Session, Style};
use weir_testbed::reserving::{self, Setting, address};

use super::text;

/// A host of a row, whose sockets may lose messages.
pub(super) struct Host {
    driver: Driver<Lossy>,
    address: IpAddr,
}

impl Host {
    /// Opens the first or the last node of a row, in this thread's network.
    pub fn open(node: usize, setting: Setting) -> Result<Self, String> {
        let descriptors = Descriptors::open(Role::Host).map_err(text)?;
        let (interface, cable) = if node == 0 { ("right", 0) } else { ("left", node - 1) };
        let kernel = KernelNetwork::new(descriptors, &[interface.to_owned()]).map_err(text)?;
        let params = reserving::params(&kernel, node, Setting { change: own_line, ..setting });
        let random = Random::new(params.seed, params.seed);
        let lossy = Lossy { kernel, random, loss: 0, lost: 0 };
        Ok(Self { driver: Driver::new(params, lossy), address: address(true, cable, node) })
    }

    /// Takes what came and sends what is due; returns what its applications learn.
    pub fn turn(&mut self) -> Vec<Event> {
        // Nothing leaves a host but what its applications send: there is nothing to admit.
        let admission: &mut dyn Admission = &mut AdmitAll;
        self.driver.turn(admission).events
    }

    /// Announces a flow from this host.
    pub fn announce(&mut self, session: Session, tspec: Tspec) -> Result<(), String> {
        let adspec = Some(Adspec::at_sender(BANDWIDTH, 1500));
        let sender = Filter::new(self.address, 0);
        let announcement = Announcement { session, sender, tspec, adspec, ttl: 64, police: true };
        self.driver.call(|node, call| node.announce(call, announcement)).map_err(text)
    }

    /// Reserves for all senders of a session that this host receives.
    pub fn reserve(&mut self, session: Session, flowspec: Flowspec) -> Result<(), String> {
        let descriptor = Descriptor { flowspec: Some(flowspec), filters: Vec::new() };
        let reservation = Reservation { style: Style::Wildcard, descriptors: vec![descriptor] };
        let claim = Claim { session, reservation, confirm: Some(self.address), priority: None };
        self.driver.call(|node, call| node.reserve(call, claim)).map_err(text)
    }

    /// Reserves for a session no more.
    pub fn release(&mut self, session: Session) {
        // Without a reservation nothing is to be released.
        let _none = self.driver.call(|node, call| node.release(call, session));
    }

    /// Loses so many of 1000 messages from now on, of those that come and of those that leave.
    pub fn lose(&mut self, per_mille: u32) {
        self.driver.network_mut().loss = per_mille;
    }

    /// Returns how many messages were lost.
    pub fn lost(&self) -> u64 {
        self.driver.network().lost
    }
}

/// A cable of this machine takes no time, and nothing waits in front of it.
fn own_line(params: &mut InterfaceParams) {
    params.offers.bandwidth = BANDWIDTH;
    params.offers.guaranteed = Some(Terms::default());
}

/// Sockets on which messages get lost, by a seeded draw for each.
struct Lossy {
    kernel: KernelNetwork,
    random: Random,
    /// Messages of 1000 that are lost.
    loss: u32,
    lost: u64,
}

impl Lossy {
    fn loses(&mut self) -> bool {
        let loses = self.loss > 0 && self.random.below(1000) < self.loss;
        self.lost += u64::from(loses);
        loses
    }
}

impl Network for Lossy {
    fn receive(&mut self, message: &mut Vec<u8>) -> Option<Received> {
        for _ in 0..LOST_IN_A_ROW_MAX {
            let received = self.kernel.receive(message)?;
            if !self.loses() {
                return Some(received);
            }
        }
        None
    }

    fn send(&mut self, packet: &Packet) -> io::Result<()> {
        if self.loses() { Ok(()) } else { self.kernel.send(packet) }
    }

    fn read_notices(&mut self) -> bool {
        self.kernel.read_notices()
    }

    fn refresh(&mut self) -> Changes {
        self.kernel.refresh()
    }

    fn interfaces(&self) -> &[HostInterface] {
        self.kernel.interfaces()
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.kernel.descriptors()
    }
}

impl Routes for Lossy {
    fn route(&self, destination: IpAddr, source: IpAddr) -> Route {
        self.kernel.route(destination, source)
    }
}

/// The bandwidth that a host announces of its own line, in bytes a second.
const BANDWIDTH: f32 = 1e8;
const LOST_IN_A_ROW_MAX: usize = 256;
