//! A deployment as a keeper reads it: without its policies, which only a process without privileges
//! reads. That is the forwarder to be: it is started first, and says what it found.

use super::running::Running;
use crate::keeper::found::Found;
use crate::keeper::messages::{Plan, Standing, Task};
use std::io;
use std::path::Path;
use std::process::Command as Program;
use weir_host::process;
use weir_host::sandbox;
use weir_link::authority::Files;
use weir_link::change::history::{File, Texts};
use weir_policy::deployment::{self, Deployment};
use weir_policy::file;
use weir_policy::finding::Outcome;

/// A deployment file, and what it says by itself.
pub struct Reading {
    /// Its name in findings.
    pub name: String,
    /// The contents of the file.
    pub bytes: Vec<u8>,
    /// The deployment without its policies, or why there is none.
    pub outline: Outcome<Deployment>,
}

/// A deployment that was read with its policies: by the forwarder that is to run it.
pub struct Checked {
    /// The deployment, as the keeper read it.
    pub reading: Reading,
    /// The forwarder's findings; with errors among them it has ended.
    pub found: Found,
    /// It waits for its ports, unless there are errors.
    pub(super) forwarder: Option<Running>,
}

impl Reading {
    /// Reads a deployment.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self::from(path, file::read(path)?))
    }

    /// As [`Reading::of`], for a keeper whose link runs: it would wait for a pipe for ever.
    ///
    /// # Errors
    /// When it is no regular file, or cannot be read.
    pub fn anew(path: &Path) -> io::Result<Self> {
        Ok(Self::from(path, file::read_named(path)?))
    }

    fn from(path: &Path, bytes: Vec<u8>) -> Self {
        let name = path.display().to_string();
        let outline = deployment::parse_outline(&bytes, &name);
        Self { name, bytes, outline }
    }

    /// Has a forwarder read the policies, and waits for what it found, described in `colour` if so.
    ///
    /// # Errors
    /// When the system refuses, or the forwarder ends without a word; the text says why.
    pub fn check(self, colour: bool) -> Result<Checked, String> {
        let Ok(texts) = self.texts() else {
            // Nothing of it is read, and it names nothing.
            let found = Found::of(&self.outline, colour);
            return Ok(Checked { reading: self, found, forwarder: None });
        };
        let task = Task { colour, ..self.task(texts) };
        let mut forwarder = self.start(process::same_program(), task)?;
        let mut found = forwarder.await_found()?;
        if found.errors == 0 && self.outline.failed() {
            // It does not say what is plain.
            found = Found::of(&self.outline, colour);
        }
        if found.errors > 0 {
            // It ends by itself, unless it was taken over.
            forwarder.process.kill();
            forwarder.process.wait();
            return Ok(Checked { reading: self, found, forwarder: None });
        }
        Ok(Checked { reading: self, found, forwarder: Some(forwarder) })
    }

    /// Starts a forwarder that reads the policies.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn start(&self, program: Program, task: Task) -> Result<Running, String> {
        let files = Files::beside(task.texts.clone());
        Running::read(program, task, files).map_err(|error| error.to_string())
    }

    /// Returns what is wrong with the deployment by itself, as text.
    pub(super) fn describe(&self) -> String {
        Found::of(&self.outline, false).describe(&self.name)
    }

    /// Returns the deployment.
    ///
    /// # Errors
    /// When there are errors in it; the text describes them.
    pub(super) fn sound(self) -> Result<Deployment, String> {
        if self.outline.failed() {
            return Err(self.describe());
        }
        Ok(self.outline.plan.expect("without errors there is a plan"))
    }

    /// Returns what such a forwarder is told. Where the deployment is wrong, or there is no user as
    /// it names, one with the link's own user says what is wrong.
    pub(super) fn task(&self, texts: Texts) -> Task {
        let is_there = |user: &mut String| sandbox::check_user(user).is_ok();
        let mut standing = self.outline.plan.as_ref().map(Standing::of).unwrap_or_default();
        standing.user = standing.user.take_if(is_there);
        let (keeper, owner) = (std::process::id(), process::user());
        Task { texts, keeper, owner, standing, colour: false }
    }

    /// Returns the deployment as text.
    ///
    /// # Errors
    /// When it is none.
    pub fn texts(&self) -> Result<Texts, String> {
        let text = std::str::from_utf8(&self.bytes).map_err(|error| error.to_string())?;
        let deployment = File { name: self.name.clone(), text: text.to_owned() };
        Ok(Texts { deployment, ..Texts::default() })
    }
}

/// Returns what a forwarder is told that runs what runs already.
pub(super) fn again(plan: &Plan, deployment: &Deployment) -> Task {
    let standing = Standing::of(deployment);
    let Plan { texts, keeper, owner, .. } = plan.clone();
    Task { texts, keeper, owner, standing, colour: false }
}
