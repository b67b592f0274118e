//! The other files that a scenario names, such as captures.

use std::path::Path;
use weir_policy::codes;
use weir_policy::deployment::ReadFile;
use weir_policy::finding::Report;
use weir_policy::reader::Node;

/// Reads the other files that a scenario names.
pub(crate) struct Files<'a> {
    pub scenario: &'a str,
    pub read_file: ReadFile<'a>,
}

impl Files<'_> {
    /// The name of the file that `node` names, relative to the scenario, and its bytes.
    pub fn read(&self, node: &Node<'_>, report: &mut Report) -> Option<(String, Vec<u8>)> {
        let folder = Path::new(self.scenario).parent().unwrap_or(Path::new(""));
        let path = folder.join(node.name(report)?);
        let name = path.display().to_string();
        match (self.read_file)(&path) {
            Ok(bytes) => Some((name, bytes)),
            Err(error) => {
                let message = format!("cannot read {name}: {error}");
                let cure = "name a file, relative to this one";
                report.push(node.draft(&codes::UNREADABLE, message).cure(cure));
                None
            }
        }
    }
}
