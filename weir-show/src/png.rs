//! A drawing as pixels, with a font of its own, so that they are the same on every machine.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

/// Turns an SVG into pixels.
pub fn png(svg: &str) -> Result<Vec<u8>, String> {
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
