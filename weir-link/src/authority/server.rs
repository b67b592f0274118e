//! The keeper's server: the authorities of a deployment's ports, asked over a channel.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::{Answer, Authority, Files, PortReply, Refusal, Reply, Request, RequestBody};
use crate::port::{self, Kind, PortConfig};
use crate::sorter::Sorting;
use weir_host::channel::Channel;
use weir_host::error::{Result, SystemError};

/// Serves the ports of one forwarder, in the network namespace of the thread that serves. It
/// belongs to one forwarder, and is dropped when that has ended.
pub struct AuthorityServer {
    ports: Vec<Served>,
    /// The files that it reads for the forwarder.
    pub files: Files,
}

struct Served {
    config: PortConfig,
    /// By the keyword of their kind: `auto` may try several.
    authorities: Vec<(&'static str, Box<dyn Authority>)>,
}

impl AuthorityServer {
    /// A server for ports of these numbers: see [`crate::deploy::port_configs`].
    pub fn new(configs: Vec<PortConfig>) -> Self {
        let served = |config| Served { config, authorities: Vec::new() };
        let ports = configs.into_iter().map(served).collect();
        Self { ports, files: Files::default() }
    }

    /// A server that reads files, and serves no port.
    pub fn of_files(files: Files) -> Self {
        Self { ports: Vec::new(), files }
    }

    /// A server for a forwarder that works beside that of another server for a while: ports on the
    /// same interface share what can exist only once.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn beside(other: &Self, configs: Vec<PortConfig>) -> Result<Self> {
        let mut server = Self::new(configs);
        let same = |one: &PortConfig, other: &PortConfig| {
            (&one.interface, &one.kind) == (&other.interface, &other.kind)
        };
        for port in &mut server.ports {
            let twins = other.ports.iter().filter(|other| same(&port.config, &other.config));
            for (kind, authority) in twins.flat_map(|other| &other.authorities) {
                if let Some(shared) = authority.beside()? {
                    port.authorities.push((kind, shared));
                }
            }
        }
        Ok(server)
    }

    /// Serves one request; returns whether one waited.
    ///
    /// # Errors
    /// When the forwarder closed its end, or sends what is no request. A request that fails is no
    /// error here: the forwarder gets the reason.
    pub fn serve(&mut self, channel: &Channel) -> Result<bool> {
        let Some((request, descriptors)) = channel.receive::<Request>(Duration::ZERO)? else {
            return Ok(false);
        };
        let number = request.number;
        let outcome = match self.handle(request, descriptors) {
            Ok(reply) => {
                let borrowed: Vec<_> = reply.descriptors.iter().map(AsFd::as_fd).collect();
                channel.send(&Answer { number, outcome: None }, &borrowed)?;
                // The server's own copies are closed before the port can use what it got: what the
                // port closes then has an end at once, such as the link of a program.
                drop(reply.descriptors);
                Ok(reply.reply)
            }
            Err(error) => Err(Refusal::from(error)),
        };
        channel.send(&Answer { number, outcome: Some(outcome) }, &[])?;
        Ok(true)
    }

    fn handle(&mut self, request: Request, descriptors: Vec<OwnedFd>) -> Result<PortReply> {
        let refused = |why: String| {
            let action = format!("serve port {} as `{}`", request.port, request.kind);
            SystemError::refused(action, why, "")
        };
        if let RequestBody::Read(path) = &request.body {
            let failed = |cause| SystemError::new(format!("read {}", path.display()), cause);
            let contents = self.files.read(path).map_err(failed)?;
            return Ok(PortReply { reply: Reply::File(contents), descriptors: Vec::new() });
        }
        if let RequestBody::Reflector(place) = request.body {
            let port = self.ports.get(request.port);
            let host = port.and_then(|port| port.config.reflectors.get(place).copied());
            let host = host.ok_or_else(|| refused("it has no such reflector".into()))?;
            let descriptors = vec![weir_host::echo::open(host)?];
            return Ok(PortReply { reply: Reply::Done, descriptors });
        }
        let kind = port::KINDS.iter().find(|kind| kind.keyword == request.kind);
        let port = self.ports.get_mut(request.port);
        let (Some(kind), Some(port)) = (kind, port) else {
            return Err(refused("the deployment has none such".to_owned()));
        };
        if !port::may_be(&port.config, kind) {
            return Err(refused(format!("the deployment says `{}`", port.config.kind)));
        }
        match request.body {
            RequestBody::Suits => match kind.suits.map(|suits| suits(&port.config.interface)) {
                Some(Ok(())) => Ok(PortReply { reply: Reply::Done, descriptors: Vec::new() }),
                Some(Err(why)) => Err(refused(why)),
                None => Err(refused(port::NEVER_CHOSEN.to_owned())),
            },
            RequestBody::Port(request) => port.authority(kind)?.ask(request, descriptors),
            RequestBody::Sort(sorting) => {
                sorting.check().map_err(refused)?;
                port.sort_by(*sorting);
                Ok(PortReply::done())
            }
            RequestBody::Read(_) | RequestBody::Reflector(_) => {
                unreachable!("it is answered above")
            }
        }
    }
}

impl Served {
    /// Has the port sort frames so, also by what it shares with another one.
    fn sort_by(&mut self, sorting: Sorting) {
        self.authorities.iter_mut().for_each(|(_, one)| one.sort_by(sorting.clone()));
        self.config.sorting = Some(sorting);
    }

    fn authority(&mut self, kind: &Kind) -> Result<&mut Box<dyn Authority>> {
        let at = match self.authorities.iter().position(|(keyword, _)| *keyword == kind.keyword) {
            Some(at) => at,
            None => {
                self.authorities.push((kind.keyword, (kind.authority)(&self.config)?));
                self.authorities.len() - 1
            }
        };
        Ok(&mut self.authorities[at].1)
    }
}

/// Sends the bytes of a message to a server whose interfaces do not exist, as a forwarder that was
/// taken over may. For a fuzz target.
///
/// # Panics
/// When the server grants anything, or says nothing to a request.
pub fn exercise(bytes: &[u8]) {
    let kinds = [port::AUTO, "afpacket", "afxdp"];
    let config = |kind: &str| PortConfig { kind: kind.to_owned(), ..PortConfig::new("weir-none9") };
    let mut server = AuthorityServer::new(kinds.into_iter().map(config).collect());
    let Ok((here, there)) = Channel::pair() else { return };
    if !here.send_raw(bytes) {
        return;
    }
    if server.serve(&there).is_ok_and(|served| served) {
        let answer = here.receive::<Answer>(Duration::ZERO).expect("the server answers");
        let (answer, descriptors) = answer.expect("the server answers at once");
        assert!(descriptors.is_empty(), "nothing is handed out: {answer:?}");
        // How a port sorts it says itself, and that gives it nothing.
        let says = bytes.windows(SORT.len()).any(|part| part == SORT);
        let is_said = says && matches!(answer.outcome, Some(Ok(Reply::Done)));
        let is_refused = matches!(answer.outcome, Some(Err(_)));
        assert!(is_refused || is_said, "nothing is met: {answer:?}");
    }
}

const SORT: &[u8] = b"\"sort\"";

#[cfg(test)]
mod tests {
    use super::super::PortRequest;
    use super::*;
    use crate::sorter::SortPlan;
    use weir_core::classify::InterfaceId;

    #[test]
    fn a_server_hands_out_nothing_of_what_its_deployment_does_not_have() {
        let asks =
            ["{\"open\":{\"intake\":true}}", "{\"set-up\":true}", "\"attach\"", "\"follow\""];
        for port in [0, 1, 2, 3, u64::MAX] {
            for kind in ["afpacket", "afxdp", "afxdp-generic", "host", "auto", "", "\\u0000"] {
                for ask in asks {
                    let wish = format!("{{\"ask\":{ask}}}");
                    let request = format!(
                        "\0{{\"number\":1,\"port\":{port},\"kind\":\"{kind}\",\"wish\":{wish}}}"
                    );
                    exercise(request.as_bytes());
                }
            }
        }
        for bytes in [&b""[..], b"\0", b"\x01", b"\0{}", b"\x02[]", &[b'['; 70_000]] {
            exercise(bytes);
        }
        for place in [0, 1, u64::MAX] {
            let wish = format!("{{\"reflector\":{place}}}");
            let request = format!("\0{{\"number\":1,\"port\":0,\"kind\":\"\",\"wish\":{wish}}}");
            exercise(request.as_bytes());
        }
        for path in ["/etc/passwd", "", "p.toml", "../d.toml"] {
            let wish = format!("{{\"read\":\"{path}\"}}");
            let request = format!("\0{{\"number\":1,\"port\":0,\"kind\":\"\",\"wish\":{wish}}}");
            exercise(request.as_bytes());
        }
    }

    /// Requests from a server without a deployment that it sorts the frames of port 0 so.
    fn sort(sorting: Sorting) -> Option<std::result::Result<Reply, Refusal>> {
        let mut server = AuthorityServer::new(vec![PortConfig::new("weir-none9")]);
        let (here, there) = Channel::pair().expect("there are descriptors");
        let (number, port, kind) = (1, 0, "afpacket".to_owned());
        let body = RequestBody::Sort(Box::new(sorting));
        here.send(&Request { number, port, kind, body }, &[]).expect("the server is there");
        assert!(server.serve(&there).expect("it is a request"));
        let mut outcome = None;
        while let Some((answer, _)) = here.receive::<Answer>(Duration::ZERO).expect("it is there") {
            outcome = answer.outcome;
        }
        let sorts = server.ports[0].config.sorting.is_some();
        assert_eq!(sorts, matches!(outcome, Some(Ok(_))), "{outcome:?}");
        outcome
    }

    #[test]
    fn a_server_takes_only_a_sound_way_to_sort() {
        let policy = "[link]\nrate = '1 Gbit/s'\nscheduler = 'fifo'\n\
                      [class.other]\nmatch = [{ ethertype = '0x88b6' }]\n\
                      [class.rest]\ndefault = true\n";
        let policy = weir_policy::parse(policy, "p.toml").plan.expect("a sound policy");
        let sound = Sorting::of(&SortPlan::of_policy(&policy), InterfaceId(0));
        assert!(matches!(sort(sound.clone()), Some(Ok(Reply::Done))));
        let mut value = serde_json::to_value(&sound).expect("it has a form in JSON");
        value["rings"] = 200.into();
        let wrong = serde_json::from_value(value).expect("it is read");
        assert!(matches!(sort(wrong), Some(Err(_))));
    }

    #[test]
    fn renamed_parts_of_a_request_keep_their_names_on_the_wire() {
        let (number, port, kind) = (1, 0, "afpacket".to_owned());
        let body = RequestBody::Port(PortRequest::Follow);
        let text =
            serde_json::to_string(&Request { number, port, kind, body }).expect("it is JSON");
        let expected =
            "{\"number\":1,\"port\":0,\"kind\":\"afpacket\",\"wish\":{\"ask\":\"follow\"}}";
        assert_eq!(text, expected);
    }
}
