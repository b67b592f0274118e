//! The look that all pictures share: colours, font, and what changes on a dark screen.
//!
//! Pictures have a white background and black ink; a style sheet exchanges those, and lightens the
//! colours that a dark background swallows, where the reader prefers dark and on screens only, so
//! that a print is always dark on white.

use plotters::style::RGBColor;

/// Okabe and Ito's colours, which colour-blind people can distinguish; their yellow, too pale for
/// a line on white, is left out, and the last one is for what has no colour of its own.
pub const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
];

/// The colour of numbers and names along axes.
pub const GREY: RGBColor = RGBColor(85, 85, 85);
/// The font of every text.
pub const FONT: &str = "sans-serif";

/// Returns a colour as CSS and SVG write it.
pub fn css(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// The style sheet for dark screens: colours are exchanged where a picture names them.
pub const DARK: &str = "\
@media screen and (prefers-color-scheme: dark) {
svg.weir [fill='#FFFFFF'] { fill: #16191d; } svg.weir [stroke='#FFFFFF'] { stroke: #16191d; }
svg.weir [fill='#000000'] { fill: #e6e8ea; } svg.weir [stroke='#000000'] { stroke: #e6e8ea; }
svg.weir [fill='#555555'] { fill: #a8afb6; } svg.weir [stroke='#555555'] { stroke: #a8afb6; }
svg.weir [fill='#0072B2'] { fill: #3b9fdc; } svg.weir [stroke='#0072B2'] { stroke: #3b9fdc; }
svg.weir [fill='#D55E00'] { fill: #f07a24; } svg.weir [stroke='#D55E00'] { stroke: #f07a24; }
svg.weir [fill='#009E73'] { fill: #21bd91; } svg.weir [stroke='#009E73'] { stroke: #21bd91; }
svg.weir [fill='#787878'] { fill: #9aa0a6; } svg.weir [stroke='#787878'] { stroke: #9aa0a6; }
}
";
