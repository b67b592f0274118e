//! A picture as a page that needs no other file: the drawing, and a script of a few lines that
//! names the values under the pointer.

use crate::chart::legend;
use crate::picture::{Drawn, Picture};
use crate::plot::{Kind, Style};
use maud::{DOCTYPE, PreEscaped, html};
use serde_json::{Value, json};

/// Returns the page of a picture.
pub(crate) fn page(picture: &Picture, drawn: &Drawn) -> String {
    let plots: Vec<Value> =
        drawn.plots.iter().map(|(plot, frame)| described(plot, frame)).collect();
    // A script ends at the first `</`, whatever it means there.
    let plots = Value::from(plots).to_string().replace("</", "<\\/");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (picture.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                figure { (PreEscaped(&drawn.svg)) div id="values" hidden {} }
                script id="plots" type="application/json" { (PreEscaped(plots)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// Returns what the script needs of a plot.
fn described(plot: &crate::Plot, frame: &crate::Frame) -> Value {
    let series: Vec<Value> = plot
        .series
        .iter()
        .enumerate()
        .filter(|(_, series)| series.style != Some(Style::Limit) && !series.points.is_empty())
        .map(|(index, series)| {
            let points: Vec<Value> = series.points.iter().map(|(x, y)| json!([x, y])).collect();
            json!({ "name": series.name, "colour": legend(plot, index).0, "points": points })
        })
        .collect();
    json!({
        "edges": frame.edges, "x": plot.x, "low": frame.x.low, "high": frame.x.high,
        "log": frame.x.log, "held": plot.kind == Kind::Stacked, "series": series,
    })
}

const STYLE: &str = "
:root { color-scheme: light dark; }
body { margin: 0; background: light-dark(#fff, #16191d); color: light-dark(#000, #e6e8ea);
  font: 13px/1.45 system-ui, sans-serif; }
figure { position: relative; max-width: 980px; margin: 0 auto; }
svg { display: block; width: 100%; height: auto; }
#values { position: absolute; pointer-events: none; padding: .35rem .6rem; border-radius: 4px;
  background: light-dark(#fffd, #22272de8); border: 1px solid #8886; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
#values i { display: inline-block; width: .7em; height: .7em; margin-right: .4em; }
#values td { padding: 0 .8em 0 0; } #values td + td { padding: 0; text-align: right; }
@media print { #values { display: none; } figure { max-width: none; } }
";

/// Finds the plot under the pointer and, in each series, the point nearest to it in x.
const SCRIPT: &str = "
const plots = JSON.parse(document.getElementById('plots').textContent);
const svg = document.querySelector('svg'), box = document.getElementById('values');
const line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
line.setAttribute('stroke', '#787878'); svg.append(line);
const view = svg.viewBox.baseVal, shown = svg.width.baseVal.value;
const width = +svg.getAttribute('width'), fine = view.width / width;
const text = value => value === null || value === undefined ? '-'
  : (Math.abs(value) >= 100 ? value.toFixed(1) : value.toPrecision(3)).replace(/\\.0+$/, '');
svg.addEventListener('pointermove', event => {
  const area = svg.getBoundingClientRect(), scale = width / area.width;
  const x = (event.clientX - area.left) * scale, y = (event.clientY - area.top) * scale;
  const plot = plots.find(({ edges: [l, t, r, b] }) => x >= l && x <= r && y >= t && y <= b);
  box.hidden = !plot; line.setAttribute('visibility', plot ? 'visible' : 'hidden');
  if (!plot) return;
  const [l, t, r, b] = plot.edges, part = (x - l) / (r - l);
  const place = plot.low + part * (plot.high - plot.low), at = plot.log ? 10 ** place : place;
  line.setAttribute('x1', x * fine); line.setAttribute('x2', x * fine);
  line.setAttribute('y1', t * fine); line.setAttribute('y2', b * fine);
  line.setAttribute('stroke-width', fine);
  const rows = plot.series.map(({ name, colour, points }) => {
    let low = 0, high = points.length - 1;
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      points[mid][0] <= at ? low = mid : high = mid - 1;
    }
    const next = points[low + 1];
    if (!plot.held && next && next[0] - at < at - points[low][0]) low += 1;
    const row = document.createElement('tr'), key = row.insertCell();
    const mark = document.createElement('i');
    mark.style.background = colour; key.append(mark, name);
    row.insertCell().textContent = text(points[low][1]);
    return row;
  });
  const head = document.createElement('div'), table = document.createElement('table');
  head.textContent = `${plot.x}: ${text(at)}`; table.append(...rows);
  box.replaceChildren(head, table);
  const right = x / width < .6;
  box.style.left = right ? `${x / scale + 14}px` : ''; box.style.top = `${y / scale + 14}px`;
  box.style.right = right ? '' : `${(width - x) / scale + 14}px`;
});
svg.addEventListener('pointerleave', () => {
  box.hidden = true; line.setAttribute('visibility', 'hidden');
});
";
