//! `weir view`: shows a running link, a record or a simulation's report in the browser.

use crate::Run;
use crate::output::{Exit, Format, Output};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use weir_control::protocol::Query;
use weir_control::{access, client, gateway};
use weir_gateway::api::Api;
use weir_gateway::http::guard::Site;
use weir_gateway::http::serve::{self, Endpoint, Server};
use weir_gateway::http::talk::Patience;
use weir_gateway::live::Live;
use weir_gateway::live::contact::ByPath;
use weir_gateway::page::{self, Page as Shown};
use weir_gateway::runs::{self, Runs};
use weir_gateway::site::Web;
use weir_gateway::source::Source;
use weir_host::signals::StopSignal;

/// Shows a running link, a record of one, or a report of a simulation in the browser.
///
/// The page has the classes, their delays and losses over time, and what can be tuned.
///
/// Prints the address of the page with its token, and serves it until Ctrl-C. If the link itself
/// serves a page (`web` in its deployment), the address of that one is printed instead.
/// docs/view.md describes the page, and how to open it from another machine.
#[derive(clap::Args)]
#[command(override_usage = "weir view [OPTIONS] <NAME|RECORD|REPORT|--control <SOCKET>>")]
pub struct View {
    /// The name of the deployment; or a file of `weir record`, or of
    /// `weir sim --bins 1s --json FILE`. Needed unless there is a `--control`.
    #[arg(required_unless_present = "control", value_name = "NAME|RECORD|REPORT")]
    shown: Option<String>,
    /// The control socket, instead of the one found by the name.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// The address of a page of this command's own, of this machine only; port 0 is any that is
    /// free [default: 127.0.0.1:0].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Opens the page in the browser of this desktop.
    #[arg(long)]
    open: bool,
}

impl Run for View {
    fn run(self, output: &Output) -> Exit {
        output.json_by_line();
        match self.show(output) {
            Ok(exit) => exit,
            Err(why) => output.refuse(&why),
        }
    }
}

impl View {
    fn show(self, output: &Output) -> Result<Exit, String> {
        let file = self.shown.as_ref().map(Path::new).filter(|path| path.is_file());
        if let Some(file) = file.filter(|_| self.control.is_none()) {
            return self.serve(What::Source(weir_gateway::of_file(file)?, None), output);
        }
        let contact = ByPath::new(self.shown.clone(), self.control.clone());
        let socket = contact.find()?;
        // A link that does not answer is told before a page is made.
        client::status(&socket, &Query { limit: Some(1), ..Query::default() })?;
        let own = fs::read_to_string(access::token_file(&socket)).ok();
        if let Some(url) = own.filter(|_| self.listen.is_none()) {
            let url = url.trim();
            tell(url, "the link itself serves it", output);
            return Ok(if self.open { open_at(url)?.wait() } else { Exit::Clean });
        }
        let name = match &self.shown {
            Some(name) => name.clone(),
            None => socket.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        };
        let contact = Arc::new(contact);
        let api = Api::new(&name, Arc::clone(&contact) as _, Site::Local);
        let live = Live::start(&name, contact).map_err(|error| error.to_string())?;
        self.serve(What::Source(Arc::new(live), Some(api)), output)
    }

    /// Serves the page of a source until a signal comes.
    fn serve(&self, shown: What, output: &Output) -> Result<Exit, String> {
        let stop = StopSignal::install().map_err(|error| error.to_string())?;
        let page = Page::bind(self.listen)?;
        let url = page.url()?;
        let mut opened = None;
        let exit = page.serve(shown, (&stop, output), || {
            opened = self.open.then(|| open_at(&url)).transpose()?;
            Ok(())
        });
        drop(opened);
        exit
    }
}

/// The content of a page.
pub enum What {
    /// A source, and the API of the link behind it if there is one.
    Source(Arc<dyn Source>, Option<Arc<Api>>),
    /// The table of many runs, and each of them.
    Runs(Arc<dyn Runs>),
}

/// The address of a page, which is not served yet.
pub struct Page {
    api: gateway::Api,
    listener: TcpListener,
    /// Stands behind the token in the address.
    more: &'static str,
}

impl Page {
    /// Takes an address of this machine only.
    ///
    /// # Errors
    /// When others can reach it, or it cannot be had.
    pub fn bind(listen: Option<SocketAddr>) -> Result<Self, String> {
        let listen = listen.unwrap_or(LISTEN);
        if !listen.ip().is_loopback() {
            return Err(format!(
                "{listen} can be reached by others, and the token would be readable; listen on \
                 127.0.0.1 and reach it through `ssh -L`, or set `web` in the deployment with a \
                 certificate"
            ));
        }
        let api = access::of_token(listen, access::fresh()?);
        let listener = gateway::bind(api.listen)
            .map_err(|error| format!("cannot listen on {listen}: {error}; set another port"))?;
        Ok(Self { api, listener, more: "" })
    }

    /// Returns its address, with the token.
    ///
    /// # Errors
    /// When the system does not say which it is.
    pub fn url(&self) -> Result<String, String> {
        let address = self.listener.local_addr().map_err(|error| error.to_string())?;
        Ok(access::url(address, false, &self.api.token) + self.more)
    }

    /// Adds the tour to the address.
    pub fn with_tour(self) -> Self {
        Self { more: TOUR, ..self }
    }

    /// Serves the page of a source until a signal comes; calls `once_served` when it is served and
    /// its address is told.
    ///
    /// # Errors
    /// When it cannot be served, or what is called says so.
    pub fn serve(
        self,
        shown: What,
        (stop, output): (&StopSignal, &Output),
        once_served: impl FnOnce() -> Result<(), String>,
    ) -> Result<Exit, String> {
        let url = self.url()?;
        let Self { api, listener, .. } = self;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let web = Arc::new(Web::new(&api)?);
        let site = Site::Web(Arc::clone(&web));
        let router = match shown {
            What::Source(source, of_link) => Shown::new(source, of_link, site).router(),
            What::Runs(runs) => runs::router(runs, site),
        };
        let start = || {
            let (clients_max, patience) = (page::CLIENTS_MAX, Patience::default());
            let listener = serve::listener(listener.into())?;
            let endpoint = Endpoint { listener, web, router, clients_max, patience, refused: None };
            Server::start(serve::runtime()?, vec![endpoint])
        };
        let _server = start().map_err(|error| format!("cannot serve on {address}: {error}"))?;
        tell(&url, "stop with Ctrl-C", output);
        once_served()?;
        while !stop.requested() && !output.is_closed() {
            std::thread::sleep(LOOK);
        }
        Ok(Exit::Clean)
    }
}

fn tell(url: &str, what: &str, output: &Output) {
    match output.format {
        Format::Text => output.text(&format!("{url}\n({what}){}\n", way_to(url))),
        Format::Json => output.json(&json!({ "url": url, "text": what })),
    }
}

/// Says how to open an address that only this machine reaches.
fn way_to(url: &str) -> String {
    let port = url.split_once("://127.0.0.1:").and_then(|(_, rest)| rest.split('/').next());
    let ssh = |port: &str| {
        format!(
            "\nOpen this address in a browser; from another machine, first run there: \
             ssh -L {port}:127.0.0.1:{port} THIS-MACHINE"
        )
    };
    port.map(ssh).unwrap_or_default()
}

/// A file that leads a browser to the page. The token is in no argument of a program, where other
/// users of this machine could read it.
struct Opened(tempfile::NamedTempFile);

/// Opens the page in the browser of the desktop.
fn open_at(url: &str) -> Result<Opened, String> {
    let file = leading_to(url).map_err(unopened)?;
    start(file.path()).map_err(unopened)?;
    Ok(Opened(file))
}

fn unopened(error: std::io::Error) -> String {
    format!("cannot open a browser: {error}; open the address that is printed above")
}

/// Returns a file that leads a browser to this address.
fn leading_to(url: &str) -> std::io::Result<tempfile::NamedTempFile> {
    // It is for this user only, by its permissions.
    let file = tempfile::Builder::new().prefix("weir-view").suffix(".html").tempfile();
    let mut file = file?;
    writeln!(file, "<meta http-equiv=\"refresh\" content=\"0;url={url}\">")?;
    Ok(file)
}

/// A way to open a page in the browser of the desktop, for a process that leaves the namespaces of
/// the desktop before the page is served: a child that stays in them, and waits for a line.
pub struct Opener {
    child: std::process::Child,
    /// It leads to the page.
    _file: tempfile::NamedTempFile,
}

impl Opener {
    /// Starts the child if there is a display.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn prepare(url: &str) -> Result<Option<Self>, String> {
        if !["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some()) {
            return Ok(None);
        }
        let file = leading_to(url).map_err(unopened)?;
        let mut shell = Command::new("sh");
        // Without the line, whose writer is gone, it opens nothing.
        shell.args(["-c", "read -r _line && exec xdg-open \"$0\""]).arg(file.path());
        // Ctrl-C is for the demo, not for the browser.
        shell.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = shell.spawn().map_err(unopened)?;
        Ok(Some(Self { child, _file: file }))
    }

    /// Opens the page. A desktop without a browser is no failure: the address was told.
    pub fn open(&mut self) {
        let line = self.child.stdin.take().map(|mut stdin| stdin.write_all(b"\n"));
        drop(line);
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // One that has ended needs no signal; a browser that it became is the user's.
        let _ended = self.child.try_wait();
    }
}

fn start(file: &Path) -> std::io::Result<()> {
    let mut program = Command::new("xdg-open");
    program.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = program.status()?;
    if status.success() {
        return Ok(());
    }
    Err(std::io::Error::other(format!("`xdg-open` says {status}")))
}

impl Opened {
    /// Leaves the browser time to read it.
    fn wait(self) -> Exit {
        std::thread::sleep(READ_TIME);
        drop(self.0);
        Exit::Clean
    }
}

const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
/// The page takes this as the wish for a tour.
const TOUR: &str = "&tour";
/// How often a signal is looked for.
const LOOK: Duration = Duration::from_millis(50);
const READ_TIME: Duration = Duration::from_secs(5);
