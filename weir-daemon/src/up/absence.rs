//! The answers to clients of the control socket while no forwarder runs.
//!
//! The keeper answers then, and reads nothing of what they send: each gets the same line.

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixListener;
use std::time::Duration;
use weir_control::protocol::{ABSENT, Answer};

/// Tells all clients that wait on the socket. With `awaits_ports` the link goes on by itself.
pub fn answer(listener: &UnixListener, awaits_ports: bool) {
    let rest = match awaits_ports {
        true => {
            "an interface of the link is missing, and another forwarder starts as soon as it is \
             back; there is nothing to do here"
        }
        false => {
            "it died too often, or may not be started again, and the kernel passes frames, \
             unshaped; for a new one, `weir stop` the link and start it again with `weir up`"
        }
    };
    let text = format!("{ABSENT}: {rest}");
    let answer = Answer::<()>::Error(text);
    let mut line = serde_json::to_vec(&answer).expect("an answer is JSON");
    line.push(b'\n');
    for _ in 0..CLIENTS_MAX {
        // A client that disconnects at once must not let this process wait for the next.
        let accepted = listener.set_nonblocking(true).and_then(|()| listener.accept());
        match accepted {
            // The line fits the buffer of a new socket, and a client that has gone needs none.
            Ok((mut client, _)) => {
                let _gone = client.set_nonblocking(true).and_then(|()| client.write_all(&line));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            // Without a free descriptor the next try would fail as well.
            Err(_) => return std::thread::sleep(ACCEPT_PAUSE),
        }
    }
}

/// Clients that are told before the keeper looks at something else.
const CLIENTS_MAX: usize = 16;
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use weir_control::client;
    use weir_control::protocol::{Query, Request};

    #[test]
    fn every_client_gets_the_answer_that_no_forwarder_runs() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("x.sock");
        let listener = UnixListener::bind(&path).expect("it can be bound");
        answer(&listener, false);
        let ask = |request: Request| {
            let path = path.clone();
            std::thread::spawn(move || client::call(&path, &request))
        };
        let asked = [ask(Request::Status(Query::default())), ask(Request::Restart {})];
        while asked.iter().any(|client| !client.is_finished()) {
            answer(&listener, true);
        }
        for client in asked {
            let said = client.join().expect("it ends");
            assert!(
                matches!(&said, Ok(Answer::Error(text)) if text.starts_with(ABSENT)),
                "{said:?}"
            );
        }
    }
}
