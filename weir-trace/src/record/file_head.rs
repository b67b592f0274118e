//! The head of a record: the link that was recorded.

use super::fields::{TakeFields, put_count, put_counted};
use weir_core::units::Duration;

/// The link that was recorded, and what is needed to build it once more.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Head {
    /// The version of Weir that recorded.
    pub weir: String,
    /// The name of the deployment.
    pub name: String,
    /// The wall clock at instant 0, in nanoseconds since 1970.
    pub epoch_ns: u64,
    /// The names of the deployment's ports: rules and [`super::Arrival::port`] name them by their
    /// places here.
    pub ports: Vec<String>,
    /// The directions, in the order of their numbers.
    pub lanes: Vec<LaneHead>,
    /// The policies, and every file that they name.
    pub files: Vec<File>,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LaneHead {
    /// The name of the direction.
    pub name: String,
    /// The run loop that serves it. Steps of two loops are in no order.
    pub bridge: u16,
    /// The ports whose frames it takes.
    pub from: Vec<u16>,
    /// The port where they leave.
    pub to: u16,
    /// The name of its policy among [`Head::files`].
    pub policy: String,
    /// For each leaf, the age from which its frames are dropped instead of sent; empty if they
    /// never are.
    pub sojourn_max: Vec<Duration>,
}

/// A file as text.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct File {
    /// The name by which others call it.
    pub name: String,
    /// The whole text.
    pub text: String,
}

impl Head {
    /// Returns the text of a file.
    pub fn file(&self, name: &str) -> Option<&str> {
        let file = self.files.iter().find(|file| file.name == name)?;
        Some(&file.text)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        put_counted(out, self.weir.as_bytes());
        put_counted(out, self.name.as_bytes());
        out.extend_from_slice(&self.epoch_ns.to_le_bytes());
        put_count(out, self.ports.len());
        self.ports.iter().for_each(|port| put_counted(out, port.as_bytes()));
        put_count(out, self.lanes.len());
        self.lanes.iter().for_each(|lane| lane.write(out));
        put_files(out, &self.files);
    }

    pub(crate) fn read(fields: &mut &[u8]) -> Option<Self> {
        Some(Self {
            weir: fields.text()?,
            name: fields.text()?,
            epoch_ns: fields.u64()?,
            ports: fields.list(TakeFields::text)?,
            lanes: fields.list(LaneHead::read)?,
            files: take_files(fields)?,
        })
    }
}

impl LaneHead {
    fn write(&self, out: &mut Vec<u8>) {
        put_counted(out, self.name.as_bytes());
        out.extend_from_slice(&self.bridge.to_le_bytes());
        put_count(out, self.from.len());
        self.from.iter().for_each(|port| out.extend_from_slice(&port.to_le_bytes()));
        out.extend_from_slice(&self.to.to_le_bytes());
        put_counted(out, self.policy.as_bytes());
        put_durations(out, &self.sojourn_max);
    }

    fn read(fields: &mut &[u8]) -> Option<Self> {
        Some(Self {
            name: fields.text()?,
            bridge: fields.u16()?,
            from: fields.list(TakeFields::u16)?,
            to: fields.u16()?,
            policy: fields.text()?,
            sojourn_max: take_durations(fields)?,
        })
    }
}

/// Appends a list of times.
pub(crate) fn put_durations(out: &mut Vec<u8>, times: &[Duration]) {
    put_count(out, times.len());
    times.iter().for_each(|time| out.extend_from_slice(&time.as_nanos().to_le_bytes()));
}

/// Takes a list of times.
pub(crate) fn take_durations(fields: &mut &[u8]) -> Option<Vec<Duration>> {
    fields.list(|fields| fields.u64().map(Duration::from_nanos))
}

/// Appends a list of files.
pub(crate) fn put_files(out: &mut Vec<u8>, files: &[File]) {
    put_count(out, files.len());
    for file in files {
        put_counted(out, file.name.as_bytes());
        put_counted(out, file.text.as_bytes());
    }
}

/// Takes a list of files.
pub(crate) fn take_files(fields: &mut &[u8]) -> Option<Vec<File>> {
    fields.list(|fields| Some(File { name: fields.text()?, text: fields.text()? }))
}
