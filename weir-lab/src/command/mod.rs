//! The tasks of `weir-lab`, one file each.

mod archive;
mod own;
mod papers;
mod report;

use std::num::NonZeroUsize;
use std::time::Duration;
use weir_cli::lab::{Era, Request, Task, Which};
use weir_cli::output::{Exit, Output};
use weir_cli::picture::Files;
use weir_lab::claims::{Eras, PaperSet};
use weir_lab::experiments;
use weir_lab::rows::Options;

/// Runs a task; returns the exit code.
pub fn run(task: Task, output: &Output) -> Exit {
    let set = match PaperSet::open() {
        Ok(set) => set,
        Err(error) => return output.refuse(&error),
    };
    match task {
        Task::List => papers::list(&set, output),
        Task::Facts { paper } => papers::facts(&set, paper.as_deref(), output),
        Task::Run(request) => run_request(request, &set, output),
        Task::Report(report) => report::run(&report, &set, output),
        Task::Archive(archive) => archive::run(&archive, &set, output),
    }
}

fn run_request(request: Request, set: &PaperSet, output: &Output) -> Exit {
    let found = experiments::find(&request.which.name);
    let own = found.and_then(|found| Some((found, found.own?)));
    let sheets = set.select(&request.which.name);
    let draws = !sheets.is_empty() || own.is_some_and(|(_, own)| own.draws);
    if request.plot.is_some() && (request.live || !draws) {
        return output.refuse(
            "`--plot` draws simulated experiments of papers, `autorate`, `l4s`, `queues`, `score` \
             and `tcp-kernel`; `weir lab report` has all of the papers",
        );
    }
    if request.live {
        return run_live(request, set, output);
    }
    if request.file.is_some() && !own.is_some_and(|(_, own)| own.takes_file) {
        return output.refuse(&format!("`{}` runs no scenario from a file", request.which.name));
    }
    if request.file.is_none() && !sheets.is_empty() {
        return papers::run(set, &sheets, &request, output);
    }
    let is_kept = request.keep.is_some() || request.from.is_some();
    if is_kept && !own.is_some_and(|(_, own)| own.keeps_records) {
        return output.refuse(&format!("`{}` keeps no records", request.which.name));
    }
    let Some((found, own)) = own else {
        return unknown(&request.which, set, output);
    };
    let files = match Files::open(request.plot.as_deref(), None) {
        Ok(files) => files,
        Err(error) => return output.refuse(&error),
    };
    let duration = Duration::from_secs(request.seconds);
    let Request { only, file, keep, from, .. } = request;
    let options = Options { duration, only, file, keep, from };
    own::run(output, found, own, &options, files)
}

/// One after the other: each measures this machine.
fn run_live(request: Request, set: &PaperSet, output: &Output) -> Exit {
    let sheets = set.select_live(&request.which.name);
    if sheets.is_empty() {
        let mut known: Vec<_> = set.live.iter().map(|sheet| sheet.paper.as_str()).collect();
        known.dedup();
        let (name, known) = (&request.which.name, known.join(", "));
        return output.refuse(&format!("`{name}` does not run live; write all, {known}"));
    }
    let which = Which { threads: NonZeroUsize::new(1), ..request.which };
    papers::run_live(&sheets, &which, request.only.as_deref(), output)
}

fn eras(era: Era) -> Eras {
    match era {
        Era::Historic => Eras::Historic,
        Era::Sound => Eras::Sound,
        Era::Both => Eras::Both,
    }
}

fn threads(which: &Which) -> usize {
    let cores = std::thread::available_parallelism();
    which.threads.or(cores.ok()).map_or(1, NonZeroUsize::get)
}

fn unknown(which: &Which, set: &PaperSet, output: &Output) -> Exit {
    let papers = set.papers.iter().map(|paper| paper.key.as_str());
    let own = experiments::own().map(|(row, _)| row.name);
    let names = papers.chain(own).collect::<Vec<_>>().join(", ");
    let name = &which.name;
    let message =
        format!("no experiment is called `{name}`; write all, {names}, or one of `weir lab list`");
    output.refuse(&message)
}

/// Refuses what is no simulated experiment of a paper, where only these will do.
fn of_no_paper(which: &Which, set: &PaperSet, output: &Output) -> Exit {
    let known: Vec<_> = set.papers.iter().map(|paper| paper.key.as_str()).collect();
    let (name, known) = (&which.name, known.join(", "));
    output.refuse(&format!(
        "`{name}` is no simulated experiment of a paper, and this has no others; write all, \
         {known}, or one of theirs that `weir lab list` names; `weir lab run {name}` or \
         `weir lab run --live {name}` runs others"
    ))
}
