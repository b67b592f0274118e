//! A deployment as it was read, with every file that it names: the forwarder opens none.

use crate::keeper::messages::Plan;
use std::cell::{Cell, RefCell};
use std::io;
use std::path::Path;
use weir_host::process;
use weir_link::change::history::{File, History, Texts};
use weir_link::deploy;
use weir_link::port::PortConfig;
use weir_policy::deployment::{self, Deployment};
use weir_policy::file;
use weir_policy::finding::Outcome;
use weir_policy::render;

/// A deployment file and what is wrong with it.
pub struct Reading {
    /// Its name in findings.
    pub name: String,
    /// What it contains.
    pub bytes: Vec<u8>,
    /// The deployment, or why there is none.
    pub outcome: Outcome<Deployment>,
    files: Vec<File>,
    /// Why a file that it names could not be read.
    unread: Option<String>,
}

impl Reading {
    /// Reads and checks a deployment.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn of(path: &Path) -> io::Result<Self> {
        Self::from(path, file::read(path)?)
    }

    /// As [`Reading::of`], for a keeper whose link runs: it would wait for a pipe for ever.
    ///
    /// # Errors
    /// When it is no regular file, or cannot be read.
    pub fn anew(path: &Path) -> io::Result<Self> {
        Self::from(path, file::read_named(path)?)
    }

    fn from(path: &Path, bytes: Vec<u8>) -> io::Result<Self> {
        let name = path.display().to_string();
        let files = RefCell::new(Vec::new());
        let unread = Cell::new(None);
        let read = |path: &Path| {
            let bytes = file::read_named(path).inspect_err(|error| {
                unread.set(Some(format!("it names {}: {error}", path.display())));
            })?;
            if let Ok(text) = String::from_utf8(bytes.clone()) {
                files.borrow_mut().push(File { name: path.display().to_string(), text });
            }
            Ok(bytes)
        };
        let outcome = deployment::parse(&bytes, &name, &read);
        Ok(Self { name, bytes, outcome, files: files.into_inner(), unread: unread.into_inner() })
    }

    /// Returns what is wrong with it, as text.
    pub fn describe(&self) -> String {
        let Outcome { findings, sources, .. } = &self.outcome;
        let text = render::render(findings, sources, false);
        format!("{text}{}: {}", self.name, render::summary(findings))
    }

    /// Returns what the keeper keeps: the deployment without its policies, which may be large and
    /// which only the forwarder needs; all that the forwarder needs; and its ports.
    ///
    /// # Panics
    /// If the deployment has errors.
    pub fn split(self) -> (Deployment, Plan, Vec<PortConfig>) {
        let mut deployment = self.outcome.plan.expect("without errors there is a plan");
        let ports = deploy::port_configs(&deployment);
        deployment.directions = Vec::new();
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        let plan = Plan {
            texts: Texts {
                deployment: File { name: self.name, text },
                files: self.files,
                ..Texts::default()
            },
            keeper: std::process::id(),
            owner: process::user(),
            history: History::default(),
            api: None,
        };
        (deployment, plan, ports)
    }

    /// Returns what was read, which may have errors.
    ///
    /// # Errors
    /// When the deployment is no text, or a file that it names cannot be read.
    pub fn into_texts(self) -> Result<Texts, String> {
        if let Some(why) = self.unread {
            return Err(why);
        }
        let text = String::from_utf8(self.bytes).map_err(|error| error.to_string())?;
        let deployment = File { name: self.name, text };
        Ok(Texts { deployment, files: self.files, ..Texts::default() })
    }
}
