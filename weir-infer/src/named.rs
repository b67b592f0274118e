//! Files that others opened: a capture or a record by its first bytes, and the policies that a
//! record has.
//!
//! Invariant: each message begins with the name of the file that it is about.

use crate::Input;
use std::collections::BTreeMap;
use std::io::{BufReader, Cursor, Read};
use weir_core::units::Rate;
use weir_policy::Policy;
use weir_trace::capture::CaptureReader;
use weir_trace::load::{RecordHead, head};
use weir_trace::record::{RecordReader, is_record};

/// The bytes of a file with its name.
pub struct Named<'s> {
    /// Its name in messages.
    pub name: String,
    /// The content, from its beginning on. It need not be buffered.
    pub bytes: Box<dyn Read + 's>,
}

impl<'s> Named<'s> {
    /// Returns the bytes of a file with its name.
    pub fn new(name: impl Into<String>, bytes: impl Read + 's) -> Self {
        Self { name: name.into(), bytes: Box::new(bytes) }
    }

    /// Returns whether it is a record of `weir record`, and all of its bytes.
    fn kind(self) -> Result<(bool, Self), String> {
        let (start, rest) = self.begin()?;
        Ok((is_record(&start), rest))
    }

    /// Returns whether it is a capture or a record, and all of its bytes.
    pub(crate) fn traffic(self) -> Result<(bool, Self), String> {
        let (start, rest) = self.begin()?;
        Ok((is_record(&start) || CaptureReader::new(&*start).is_ok(), rest))
    }

    /// Returns the first bytes, and all.
    fn begin(mut self) -> Result<(Vec<u8>, Self), String> {
        let mut start = Vec::new();
        let read = self.bytes.by_ref().take(START).read_to_end(&mut start);
        read.map_err(|error| format!("{}: {error}", self.name))?;
        Ok((start.clone(), Self::new(self.name, Cursor::new(start).chain(self.bytes))))
    }

    fn capture(self) -> Result<CaptureReader<'s>, String> {
        CaptureReader::new(self.bytes).map_err(|error| format!("{}: {error}", self.name))
    }
}

impl<'s> Input<'s> {
    /// Returns a capture or a record, by its first bytes, with a capture of the other side of the
    /// link if there is one.
    ///
    /// # Errors
    /// When one cannot be read or is no capture, or a record has a capture beside it.
    pub fn of(file: Named<'s>, outside: Option<Named<'s>>) -> Result<Self, String> {
        let (is_record, file) = file.kind()?;
        match outside {
            Some(outside) if is_record => {
                let outside = outside.name;
                Err(format!("a record has both sides; take --outside {outside} out"))
            }
            Some(outside) => Ok(Self::Captures(file.capture()?, outside.capture()?)),
            None if is_record => {
                let reader = RecordReader::new(BufReader::with_capacity(PART, file.bytes));
                Ok(Self::Record(reader.map_err(|error| format!("{}: {error}", file.name))?))
            }
            None => Ok(Self::Capture(file.capture()?)),
        }
    }
}

/// Returns the policies with which a record begins; `None` for a capture, which has none.
///
/// # Errors
/// When the file cannot be read, or a policy of the record has errors.
pub fn policies(file: Named<'_>) -> Result<Option<Policies>, String> {
    let (is_record, file) = file.kind()?;
    if !is_record {
        return Ok(None);
    }
    let head = head(BufReader::with_capacity(PART, file.bytes));
    Ok(Some(Policies(head.map_err(|error| format!("{}: {error}", file.name))?)))
}

/// The policies with which a record begins, by direction.
#[derive(Clone, Debug)]
pub struct Policies(RecordHead);

impl Policies {
    /// Returns the rate of each direction.
    pub fn rates(&self) -> BTreeMap<String, Rate> {
        let rate = |policy: &Policy| policy.link.tree.rate();
        let ways = self.0.directions.iter();
        ways.map(|way| (way.name.clone(), rate(&way.stage.policy))).collect()
    }

    /// Returns that of a direction, with its name; the first one for a direction that is unknown.
    pub fn of(&self, direction: Option<&str>) -> Option<(String, Policy)> {
        let ways = &self.0.directions;
        let own = ways.iter().find(|way| Some(way.name.as_str()) == direction);
        let stage = &own.or(ways.first())?.stage;
        Some((stage.name.clone(), stage.policy.clone()))
    }
}

/// The bytes by which the kind of a file is known.
const START: u64 = 4096;
/// The bytes of a record that are read at once.
const PART: usize = 256 << 10;
