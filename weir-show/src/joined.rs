//! An SVG in less room: neighbours that differ only in where they are become one path.
//!
//! The library that draws writes an element for each dot and for each dash. Invariant: what is seen
//! is the same: the elements joined follow each other, have one style and cover what is below them
//! wholly, or are lines that do not cross.

/// Returns the drawing with its dots and its lines joined; dots upon each other are one.
pub fn joined(svg: &str) -> String {
    let mut out = String::with_capacity(svg.len() / 2);
    let mut run: Option<(String, Vec<String>)> = None;
    for line in svg.split_inclusive('\n') {
        let part = dot(line.trim()).or_else(|| lines(line.trim()));
        match (part, &mut run) {
            (Some((style, place)), Some((of, places))) if style == *of => {
                let last = &places[places.len().saturating_sub(NEAR)..];
                if !last.contains(&place) {
                    places.push(place);
                }
            }
            (Some((style, place)), _) => {
                end(&mut out, run.replace((style, vec![place])));
            }
            (None, _) => {
                end(&mut out, run.take());
                out.push_str(line);
            }
        }
    }
    end(&mut out, run);
    // What every element has is said once.
    let out = out.replace(" opacity=\"1\"", "").replace(FONT_OF_TEXT, "");
    // Behind the size, by which others find the element.
    match out.split_once("<svg ").and_then(|(before, rest)| Some((before, rest.split_once('>')?))) {
        Some((before, (element, rest))) => format!("{before}<svg {element}{FONT_OF_TEXT}>{rest}"),
        None => out,
    }
}

fn end(out: &mut String, run: Option<(String, Vec<String>)>) {
    if let Some((style, places)) = run {
        out.push_str("<path d=\"");
        out.push_str(&places.concat());
        out.push_str(&format!("\" {style}/>\n"));
    }
}

/// Returns the style of a filled dot, and its place: a line of no length with a round end.
fn dot(element: &str) -> Option<(String, String)> {
    let rest = element.strip_prefix("<circle ")?;
    let of = |name: &str| attribute(rest, name);
    if of("opacity")? != "1" || of("stroke")? != "none" {
        return None;
    }
    let width = 2 * of("r")?.parse::<u32>().ok()?;
    let style = format!(
        "fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\" stroke-linecap=\"round\"",
        of("fill")?
    );
    Some((style, format!("M{} {}h0", of("cx")?, of("cy")?)))
}

/// Returns the style of a line through some points, and the line.
fn lines(element: &str) -> Option<(String, String)> {
    let rest = element.strip_prefix("<polyline ")?;
    let (style, points) = rest.split_once(" points=\"")?;
    let points = points.strip_suffix("\"/>")?.trim();
    Some((style.to_owned(), format!("M{}", points.replace(',', " "))))
}

/// Returns the value of an attribute.
fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    element.split(' ').find_map(|part| {
        let value = part.strip_prefix(name)?.strip_prefix("=\"")?;
        value.split('"').next()
    })
}

/// The font that every text has.
const FONT_OF_TEXT: &str = " font-family=\"sans-serif\"";
/// How far back a dot upon another one is looked for.
const NEAR: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const DOT: &str = "r=\"8\" opacity=\"1\" fill=\"#0072B2\" stroke=\"none\" stroke-width=\"1\"/>";

    #[test]
    fn neighbours_of_one_style_are_one_path() {
        let other = DOT.replace("0072B2", "000000");
        let dash =
            "<polyline fill=\"none\" opacity=\"1\" stroke=\"#111111\" stroke-width=\"4\" points=\"";
        let svg = format!(
            "<svg id=\"a\">\n<circle cx=\"1\" cy=\"2\" {DOT}\n<circle cx=\"3\" cy=\"4\" {DOT}\n\
             <circle cx=\"1\" cy=\"2\" {DOT}\n<circle cx=\"5\" cy=\"6\" {other}\n\
             {dash}1,1 2,2 \"/>\n{dash}3,3 4,4 5,5 \"/>\n<text font-family=\"sans-serif\">x</text>\n</svg>\n"
        );
        let round = "stroke-width=\"16\" stroke-linecap=\"round\"";
        let style = "fill=\"none\" stroke=\"#111111\" stroke-width=\"4\"";
        assert_eq!(
            joined(&svg),
            format!(
                "<svg id=\"a\" font-family=\"sans-serif\">\n\
                 <path d=\"M1 2h0M3 4h0\" fill=\"none\" stroke=\"#0072B2\" {round}/>\n\
                 <path d=\"M5 6h0\" fill=\"none\" stroke=\"#000000\" {round}/>\n\
                 <path d=\"M1 1 2 2M3 3 4 4 5 5\" {style}/>\n<text>x</text>\n</svg>\n"
            )
        );
    }

    #[test]
    fn what_is_seen_through_stays_apart() {
        let half = DOT.replace("opacity=\"1\"", "opacity=\"0.5\"");
        let svg = format!("<circle cx=\"1\" cy=\"2\" {half}\n<circle cx=\"1\" cy=\"2\" {half}\n");
        assert_eq!(joined(&svg), svg);
        let open = "<circle cx=\"1\" cy=\"2\" r=\"8\" fill=\"none\" stroke=\"#0\"/>\n";
        assert_eq!(joined(open), open);
    }
}
