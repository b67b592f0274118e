//! Bounds of what other processes say, and what makes it fit to print.

use weir_host::printable::fit;

/// Makes a text fit to print, and cuts it to [`TEXT_MAX`] characters.
pub(super) fn sanitise_text(text: &mut String) {
    let cut = |text: &mut String| {
        if let Some((end, _)) = text.char_indices().nth(TEXT_MAX) {
            text.truncate(end);
        }
    };
    cut(text);
    // What is escaped is longer than before.
    fit(text);
    cut(text);
}

/// Bound: characters of a text of a forwarder's report; the rest is cut off.
pub const TEXT_MAX: usize = 4096;
/// Bound: warnings of a forwarder's report, and notes; further ones are left out.
pub const NOTES_MAX: usize = 1000;
