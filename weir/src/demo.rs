//! `weir demo`: live traffic through a shaped link, and the simulation of it, side by side; then
//! rates changed while it runs, a delay explained, a record replayed.

use crate::Run;
use crate::output::{Exit, Format, Output};
use crate::view::{Opener, Page, What};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weir_bench::demo::{self, Failure, Phase, Whole};
use weir_cli::time::seconds;
use weir_gateway::api::Api;
use weir_gateway::beside::Both;
use weir_gateway::http::guard::Site;
use weir_gateway::live::Live;
use weir_gateway::live::contact::ByPath;
use weir_gateway::record::Record;
use weir_host::signals::StopSignal;

/// Shows Weir at work: live traffic through a shaped link, and the simulation of it, side by side.
///
/// The link is `weir up`. After the measurement its rates are changed while the traffic runs on;
/// the slowest voice packet is explained, and a record of all that is replayed and compared. Makes
/// private networks, so it needs root, or an ordinary user's right to user namespaces; it
/// changes nothing outside and leaves nothing behind. Exits 0 if every promise held, 1 if one did
/// not, 130 if interrupted.
#[derive(clap::Args)]
pub struct Demo {
    /// Measure for so long, after 2 seconds of warm-up and before 5 of changed rates.
    #[arg(long, value_name = "N|TIME", default_value = "10", value_parser = seconds(demo::TIMES))]
    seconds: Duration,
    /// Print the policy of the demo and exit.
    #[arg(long)]
    policy: bool,
    /// Afterwards shows the run in the browser, live and simulated over each other: prints the
    /// address of the page and serves it until Ctrl-C.
    #[arg(long, conflicts_with = "policy")]
    view: bool,
    /// Instead runs a link with traffic that goes on, and shows it in the browser, where you can
    /// change it: prints the address of the page, and opens it if there is a display. Until Ctrl-C.
    #[arg(long, conflicts_with_all = ["policy", "view", "seconds"])]
    play: bool,
}

impl Run for Demo {
    fn run(self, output: &Output) -> Exit {
        if self.policy {
            output.text(demo::POLICY);
            return Exit::Clean;
        }
        let stop = match StopSignal::install() {
            Ok(stop) => stop,
            Err(error) => return output.refuse(&error.to_string()),
        };
        if self.play {
            return play(&stop, output);
        }
        // Here, since the demo may go into a network of its own.
        let page = match self.view.then(|| Page::bind(None)).transpose() {
            Ok(page) => page,
            Err(error) => return output.refuse(&error),
        };
        if page.is_some() {
            output.json_by_line();
        }
        let bar = Bar::new();
        let asked = (self.seconds, self.view);
        let outcome = demo::run(asked, &stop, &mut |phase, part| bar.tell(phase, part));
        bar.bar.finish_and_clear();
        match outcome {
            Ok((outcome, whole)) => {
                match output.format {
                    Format::Json => output.json(&outcome),
                    Format::Text => output.text(&outcome.to_string()),
                }
                let exit = if outcome.held() { Exit::Clean } else { Exit::Faults };
                let Some((page, whole)) = page.zip(whole) else {
                    offer(output);
                    return exit;
                };
                let shown =
                    both(whole).and_then(|both| page.serve(both, (&stop, output), || Ok(())));
                shown.map_or_else(|error| output.refuse(&error), |_| exit)
            }
            Err(failure) => refused(failure, output),
        }
    }
}

fn refused(failure: Failure, output: &Output) -> Exit {
    match failure {
        Failure::Interrupted => {
            output.warn("demo: interrupted; traffic, link and private networks are gone");
            Exit::Interrupted
        }
        Failure::Privilege(why) | Failure::System(why) => output.refuse(&format!("demo: {why}")),
    }
}

/// Runs a link to play with, and its page.
fn play(stop: &StopSignal, output: &Output) -> Exit {
    output.json_by_line();
    let prepared = Page::bind(None).map(Page::with_tour).and_then(|page| {
        let opener = Opener::prepare(&page.url()?)?;
        Ok((page, opener))
    });
    let (page, mut opener) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => return output.refuse(&why),
    };
    let mut page = Some(page);
    let played = demo::play(stop, &mut |socket| {
        let page = page.take().ok_or("the page is served once")?;
        page.serve(of_link(socket)?, (stop, output), || {
            opener.iter_mut().for_each(Opener::open);
            Ok(())
        })?;
        Ok(())
    });
    match played {
        Ok(()) => Exit::Clean,
        Err(failure) => refused(failure, output),
    }
}

/// Returns the link behind a control socket as the page shows it.
fn of_link(socket: &Path) -> Result<What, String> {
    let contact = Arc::new(ByPath::new(None, Some(socket.to_owned())));
    let api = Api::new(NAME, Arc::clone(&contact) as _, Site::Local);
    let live = Live::start(NAME, contact).map_err(|error| error.to_string())?;
    Ok(What::Source(Arc::new(live), Some(api)))
}

/// Returns the run as the page shows it.
fn both(whole: Whole) -> Result<What, String> {
    let Whole { record, direction, simulated } = whole;
    let record = Record::of_bytes("demo", record)?;
    let both = Both { record, direction: direction.to_owned(), simulated };
    Ok(What::Source(Arc::new(both), None))
}

/// Says how to see the same in the browser.
fn offer(output: &Output) {
    if output.format == Format::Text {
        let program = std::env::args().next().unwrap_or_else(|| "weir".to_owned());
        output.text(&format!(
            "\nSee it in the browser, live and simulated over each other: {program} demo --view\n\
             Play with such a link in the browser, with real packets: {program} demo --play\n"
        ));
    }
}

/// A progress bar on standard error; hidden without a terminal.
struct Bar {
    bar: ProgressBar,
}

impl Bar {
    fn new() -> Self {
        let style = ProgressStyle::with_template("{msg:24} [{bar:40}] {percent:>3} %")
            .expect("the template is sound")
            .progress_chars("=> ");
        Self { bar: ProgressBar::new(STEPS).with_style(style) }
    }

    fn tell(&self, phase: Phase, part: f64) {
        self.bar.set_message(match phase {
            Phase::Live => "live: kernel TCP and UDP",
            Phase::Simulation => "simulation of it",
        });
        self.bar.set_position((part.clamp(0.0, 1.0) * STEPS as f64) as u64);
    }
}

const STEPS: u64 = 1000;
/// The name of a link to play with.
const NAME: &str = "demo";
