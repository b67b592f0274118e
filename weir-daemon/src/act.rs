//! Runs the programs and sends the webhook messages of alarms, for a process that is allowed to.
//!
//! Each alarm has a thread of its own that does one thing after another, so that a program that
//! hangs delays nothing else. Nothing is given to a shell. Invariant: for each alarm at most one
//! program runs at a time, and none for longer than [`RUN_MAX`].

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use weir_policy::deployment::{Alarm, Webhook};

use weir_link::events::{About, Event, Kind, rfc3339};

/// The programs and webhooks of a deployment's alarms, each on a thread of its own.
#[derive(Debug)]
pub struct Actions {
    workers: Vec<(String, SyncSender<Event>)>,
    failures: Receiver<Event>,
    failed: Sender<Event>,
}

impl Actions {
    /// For alarms that start something; `deployment` is the name that programs are told.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn new(deployment: &str, alarms: &[Alarm]) -> io::Result<Self> {
        let (failed, failures) = channel();
        let acts = alarms.iter().filter(|alarm| !alarm.run.is_empty() || alarm.webhook.is_some());
        let workers: io::Result<Vec<_>> = acts
            .map(|alarm| {
                let (sender, events) = sync_channel(WAITING_MAX);
                let worker = Worker {
                    deployment: deployment.to_owned(),
                    run: alarm.run.clone(),
                    webhook: alarm.webhook.clone(),
                    failed: failed.clone(),
                };
                let name = format!("alarm {}", alarm.name);
                thread::Builder::new().name(name).spawn(move || worker.work(&events))?;
                Ok((alarm.name.clone(), sender))
            })
            .collect();
        Ok(Self { workers: workers?, failures, failed })
    }

    /// Starts what an alarm starts, if the event is its beginning or its end.
    pub fn follow(&self, event: &Event) {
        if !matches!(event.kind, Kind::AlarmBegan | Kind::AlarmEnded) {
            return;
        }
        let is_its = |worker: &&(String, _)| worker.0 == event.subject;
        let Some((name, worker)) = self.workers.iter().find(is_its) else { return };
        if let Err(TrySendError::Full(_)) = worker.try_send(event.clone()) {
            let why = format!("{WAITING_MAX} beginnings and ends wait already");
            let _end = self.failed.send(failure(name, &why));
        }
    }

    /// Returns what failed since the last call, as events.
    pub fn failures(&self) -> impl Iterator<Item = Event> + '_ {
        self.failures.try_iter()
    }
}

fn failure(alarm: &str, why: &str) -> Event {
    Event::now(Kind::AlarmFailed, About { subject: alarm, detail: why, ..About::default() })
}

struct Worker {
    deployment: String,
    run: Vec<String>,
    webhook: Option<Webhook>,
    failed: Sender<Event>,
}

impl Worker {
    fn work(self, events: &Receiver<Event>) {
        for event in events {
            let run = if self.run.is_empty() { Ok(()) } else { self.run(&event) };
            let notified =
                self.webhook.as_ref().map_or(Ok(()), |webhook| notify(webhook, &event.json()));
            for why in [run, notified].into_iter().filter_map(Result::err) {
                let _unread = self.failed.send(failure(&event.subject, &why));
            }
        }
    }

    /// Runs the program to its end, or for as long as it may.
    fn run(&self, event: &Event) -> Result<(), String> {
        let program = &self.run[0];
        let failed = |error: io::Error| format!("`{program}`: {error}");
        let mut child = self.command(event).spawn().map_err(failed)?;
        let start = Instant::now();
        while start.elapsed() < RUN_MAX {
            match child.try_wait().map_err(failed)? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("`{program}`: {status}")),
                None => thread::sleep(RUN_LOOK),
            }
        }
        end(&mut child).map_err(failed)?;
        Err(format!("`{program}` ran for {} s and was ended", RUN_MAX.as_secs()))
    }

    fn command(&self, event: &Event) -> Command {
        let measured = event.measured.as_ref();
        let value =
            |of: fn(&weir_link::events::Measured) -> &String| measured.map_or("", |it| of(it));
        let state = if event.kind == Kind::AlarmBegan { "began" } else { "ended" };
        let mut command = Command::new(&self.run[0]);
        command.args(&self.run[1..]).current_dir("/").env_clear();
        command.env("PATH", PATH).env("WEIR_DEPLOYMENT", &self.deployment);
        command.env("WEIR_ALARM", &event.subject).env("WEIR_CLASS", &event.class);
        command.env("WEIR_STATE", state).env("WEIR_TEXT", event.text());
        command.env("WEIR_VALUE", value(|it| &it.value)).env("WEIR_LIMIT", value(|it| &it.limit));
        command.env("WEIR_SINCE", rfc3339(event.since_ns.unwrap_or(event.at_ns)));
        // What it prints would be in the middle of events.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.process_group(0);
        command
    }
}

/// Ends a program and what it started.
fn end(child: &mut Child) -> io::Result<()> {
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        kill_process_group(group, Signal::KILL)?;
    }
    child.wait().map(drop)
}

/// Sends the event to a webhook, a few times if it does not accept it.
fn notify(webhook: &Webhook, body: &str) -> Result<(), String> {
    let mut why = String::new();
    for pause in PAUSES {
        thread::sleep(pause);
        match post(webhook, body) {
            Ok(200..=299) => return Ok(()),
            Ok(status) => why = format!("it answers {status}"),
            Err(error) => why = reason(&error),
        }
    }
    let Webhook { host, port, .. } = webhook;
    Err(format!("the webhook at {host}, port {port}, does not accept it: {why}"))
}

/// Returns why a message was not accepted.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        // A socket that waits for too long says only that it would wait.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("it did not answer within {} s", HTTP_PATIENCE.as_secs())
        }
        _ => error.to_string(),
    }
}

/// Posts a text of JSON; returns the status code [rfc9112 §4].
fn post(webhook: &Webhook, body: &str) -> io::Result<u16> {
    let Webhook { host, port, path } = webhook;
    let mut stream = connect(host, *port)?;
    stream.set_write_timeout(Some(HTTP_PATIENCE))?;
    stream.set_read_timeout(Some(HTTP_PATIENCE))?;
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: weir\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes())?;
    let mut line = Vec::new();
    let start = Instant::now();
    while !line.contains(&b'\n') && line.len() < STATUS_MAX && start.elapsed() < HTTP_PATIENCE {
        let mut bytes = [0; 64];
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => line.extend_from_slice(&bytes[..count]),
            // By a signal to the keeper.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    status(&line).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no answer of HTTP"))
}

fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()?.take(ADDRESSES_MAX) {
        match TcpStream::connect_timeout(&address, HTTP_PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Reads the status of the first line of an answer: `HTTP/1.1 204 ...`.
fn status(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let digits = rest.get(1..5)?.strip_prefix(b" ")?;
    let is_whole = rest.get(5).is_none_or(|byte| b" \r\n".contains(byte));
    let text = std::str::from_utf8(digits).ok()?;
    let status = text.parse().ok().filter(|status| (100..600).contains(status));
    status.filter(|_| is_whole && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Bound: the time that the program of an alarm runs; then it is ended, and that is an event.
pub const RUN_MAX: Duration = Duration::from_secs(10);
const RUN_LOOK: Duration = Duration::from_millis(20);
/// Where programs find others.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Bound: beginnings and ends of one alarm that wait for its program; further ones are told as
/// failed.
const WAITING_MAX: usize = 8;
/// How long a webhook is waited for: to connect, to take the message and to answer, each.
const HTTP_PATIENCE: Duration = Duration::from_secs(3);
/// The pauses before each try.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(3)];
/// The longest first line of an answer.
const STATUS_MAX: usize = 1024;
/// Bound: addresses of a webhook's name that are tried; further ones are not.
const ADDRESSES_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_an_answer_is_read_and_nothing_else_is_believed() {
        let rows: &[(&[u8], Option<u16>)] = &[
            (b"HTTP/1.1 204 No Content\r\n", Some(204)),
            (b"HTTP/1.0 500\r\n", Some(500)),
            (b"HTTP/1.1 200", Some(200)),
            (b"HTTP/1.1 2000 x\r\n", None),
            (b"HTTP/1.1 +20 x\r\n", None),
            (b"HTTP/1.1 999 x\r\n", None),
            (b"HTTP/2 200\r\n", None),
            (b"HTTP/1.1", None),
            (b"\xff\xff", None),
            (b"", None),
        ];
        for (line, wanted) in rows {
            assert_eq!(status(line), *wanted, "{}", String::from_utf8_lossy(line));
        }
    }
}
