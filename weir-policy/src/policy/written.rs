//! Writes tables of classes that join a link.

use toml_edit::{DocumentMut, Item, Table};

/// Returns the text of a table `[class.NAME]`.
pub(super) fn text_of_class(name: &str, mut own: Table) -> String {
    own.set_position(None);
    // However it was written, it has a header of its own, so that texts of tables can follow each
    // other.
    own.set_dotted(false);
    own.set_implicit(false);
    let mut all = Table::new();
    all.set_implicit(true);
    all.insert(name, Item::Table(own));
    let mut document = DocumentMut::new();
    document.insert("class", Item::Table(all));
    document.to_string()
}
