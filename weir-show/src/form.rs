//! The forms of picture files, by the ending of their names.

use crate::page;
use crate::picture::Picture;
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

    /// Returns the form of a file by its name, if this build can draw it.
    ///
    /// # Errors
    /// As [`Form::of`], and for PNG in a build without it, with the cure.
    pub fn drawn(path: &Path) -> Result<Self, String> {
        let form = Self::of(path)?;
        #[cfg(not(feature = "png"))]
        if form == Self::Png {
            return Err(format!("{}: {WITHOUT_PNG}", path.display()));
        }
        Ok(form)
    }

    /// Draws a picture and returns its file.
    ///
    /// # Errors
    /// As the libraries say.
    pub fn file(self, picture: &Picture) -> Result<Vec<u8>, String> {
        let drawn = picture.draw()?;
        match self {
            Self::Svg => Ok(drawn.svg.into_bytes()),
            #[cfg(feature = "png")]
            Self::Png => crate::png::png(&drawn.svg),
            #[cfg(not(feature = "png"))]
            Self::Png => Err(WITHOUT_PNG.to_owned()),
            Self::Html => Ok(page::page(picture, &drawn).into_bytes()),
        }
    }
}

/// Why there is no PNG, and the cure.
#[cfg(not(feature = "png"))]
const WITHOUT_PNG: &str = "this build draws no PNG; name a file that ends in .svg or .html, or \
                           install Weir with PNG: `cargo install --locked --path weir --features \
                           full`";

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
