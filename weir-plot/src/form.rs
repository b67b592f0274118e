//! The forms of picture files, by the ending of their names.

use crate::page;
use crate::picture::Picture;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};
use std::path::Path;

/// The form of a picture's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A drawing of lines, for papers and pages.
    Svg,
    /// Pixels, twice as many each way as the drawing measures.
    Png,
    /// A page that needs no other file, and names values under the pointer.
    Html,
}

impl Form {
    /// Returns the form of a file by its name.
    ///
    /// # Errors
    /// When the name ends otherwise; names the endings that exist.
    pub fn of(path: &Path) -> Result<Self, String> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        match ending.as_deref() {
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            Some("html") => Ok(Self::Html),
            _ => {
                let name = path.display();
                Err(format!("{name}: a picture's name ends in .svg, .png or .html"))
            }
        }
    }

    /// Draws a picture and returns its file.
    ///
    /// # Errors
    /// As the libraries say.
    pub fn file(self, picture: &Picture) -> Result<Vec<u8>, String> {
        let drawn = picture.draw()?;
        match self {
            Self::Svg => Ok(drawn.svg.into_bytes()),
            Self::Png => png(&drawn.svg),
            Self::Html => Ok(page::page(picture, &drawn).into_bytes()),
        }
    }
}

/// Turns an SVG into pixels.
fn png(svg: &str) -> Result<Vec<u8>, String> {
    let mut options = Options::default();
    options.fontdb_mut().load_font_data(dejavu::sans::regular().to_vec());
    options.fontdb_mut().set_sans_serif_family("DejaVu Sans");
    let tree = Tree::from_str(svg, &options).map_err(|error| format!("cannot draw: {error}"))?;
    let size = tree.size().to_int_size();
    let (width, height) = (size.width() * SCALE, size.height() * SCALE);
    let mut pixels = Pixmap::new(width, height).ok_or("cannot draw: it has no size")?;
    let scale = Transform::from_scale(SCALE as f32, SCALE as f32);
    resvg::render(&tree, scale, &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| format!("cannot draw: {error}"))
}

/// Pixels each way for one of the drawing, so that it is sharp on dense screens and in print.
const SCALE: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_tells_the_form() {
        let of = |name: &str| Form::of(Path::new(name));
        assert_eq!(of("a/b.svg"), Ok(Form::Svg));
        assert_eq!(of("b.PNG"), Ok(Form::Png));
        assert_eq!(of("b.c.html"), Ok(Form::Html));
        for name in ["b.pdf", "svg", "", "b."] {
            let error = of(name).expect_err("no form");
            assert_eq!(error, format!("{name}: a picture's name ends in .svg, .png or .html"));
        }
    }
}
