//! The answers to what a script asks of `ip` and its kin.
//!
//! The sandbox has a network of its own, which is empty. So a fourth process, started before the
//! sandbox and outside it, runs the real program, with arguments that change nothing ([`call`]) and
//! as `nobody` where the operator is root. A program in the sandbox writes its question to a file
//! of the sandbox's own and opens the file of the answer; the kernel puts that call to the
//! supervisor, which writes the answer before it lets the call happen.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::inside::{PATH, leave_root};
use super::questions::{Call, call};
use crate::error::{Result, SystemError};
use crate::watch::readable;

/// The output of a program, as it was.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Answer {
    /// The exit code; none if there is no such program.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// The process that answers, as the supervisor has it. It ends when this is dropped: the sandbox
/// lets the supervisor signal no process outside it.
pub(super) struct Answers {
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    /// Whether it did not answer in time.
    is_late: bool,
}

impl Answers {
    /// Starts it; call this before the sandbox is built.
    pub(super) fn start(own: &OsStr) -> Result<Self> {
        let failed = |cause| SystemError::new("start the process that answers a script", cause);
        let mut command = Command::new(own);
        command.arg0(ANSWERS).stdin(Stdio::piped()).stdout(Stdio::piped()).env_clear();
        let mut child = command.env("PATH", PATH).spawn().map_err(failed)?;
        let to = child.stdin.take().expect("it is a pipe");
        let from = BufReader::new(child.stdout.take().expect("it is a pipe"));
        Ok(Self { to, from, is_late: false })
    }

    /// Answers the question beside the path of an answer, if the path is one.
    pub(super) fn write(&mut self, answer: &Path) {
        let Some(question) = question_of(answer) else { return };
        let text = self.ask(&question).unwrap_or_default();
        // Without the file, the program that asked has no answer and says so.
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(answer);
        let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
    }

    fn ask(&mut self, question: &Path) -> Option<String> {
        if self.is_late {
            return None;
        }
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(question).ok()?;
        let mut text = String::new();
        file.take(QUESTION_MAX).read_to_string(&mut text).ok()?;
        writeln!(self.to, "{}", text.replace('\n', " ")).ok()?;
        if !readable(&[self.from.get_ref().as_fd()], PATIENCE).is_ok_and(|ready| ready[0]) {
            self.is_late = true;
            return None;
        }
        let mut line = String::new();
        self.from.read_line(&mut line).ok()?;
        Some(line)
    }
}

/// Returns the path of the question whose answer has this path.
fn question_of(answer: &Path) -> Option<PathBuf> {
    let name = answer.file_name()?.to_str()?;
    let number = name.strip_prefix(NAME)?.strip_suffix(".answer")?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| answer.with_file_name(format!("{NAME}{number}")))
}

/// Asks, from inside the sandbox.
pub(super) fn ask(base: &Path, words: &[String]) -> Option<Answer> {
    let question = base.join("tmp").join(format!("{NAME}{}", std::process::id()));
    let answer = question.with_extension("answer");
    fs::write(&question, serde_json::to_vec(words).ok()?).ok()?;
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&answer);
    let mut text = String::new();
    let read = file.and_then(|file| file.take(ANSWER_MAX * 8).read_to_string(&mut text));
    let _removed = (fs::remove_file(&question), fs::remove_file(&answer));
    read.ok()?;
    serde_json::from_str::<Answer>(&text).ok().filter(|answer| answer.code.is_some())
}

/// The process that answers: reads a question a line, and writes an answer a line.
pub(super) fn serve() -> ExitCode {
    if leave_root().is_err() {
        return ExitCode::FAILURE;
    }
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let answer = serde_json::from_str(&line).map(|words: Vec<String>| answer(&words));
        let Ok(text) = serde_json::to_string(&answer.unwrap_or_default()) else { break };
        if writeln!(std::io::stdout(), "{text}").is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

/// Runs the real program, if that changes nothing.
fn answer(words: &[String]) -> Answer {
    let [name, rest @ ..] = words else { return Answer::default() };
    // The script wrote the question, so it is judged here, too.
    if name == "sudo" || call(words) != Call::Answerable {
        return Answer::default();
    }
    let mut command = Command::new(name);
    command.args(rest).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else { return Answer::default() };
    let out = child.stdout.take().map(bounded).unwrap_or_default();
    let err = child.stderr.take().map(bounded).unwrap_or_default();
    let code = child.wait().ok().and_then(|status| status.code());
    Answer { code, out, err }
}

fn bounded(from: impl Read) -> String {
    let mut bytes = Vec::new();
    // What was read before an error counts.
    let _ = from.take(ANSWER_MAX).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The name of this program where it answers.
pub(super) const ANSWERS: &str = "weir-script-answers";
/// How the files of questions begin, in the sandbox's folder for files.
const NAME: &str = "weir-question-";
/// Bound: bytes of a question; a longer one is not answered.
const QUESTION_MAX: u64 = 16 << 10;
/// Bound: bytes of an answer; what is behind them is left out.
const ANSWER_MAX: u64 = 256 << 10;
/// How long the real program may need.
const PATIENCE: Duration = Duration::from_secs(3);
