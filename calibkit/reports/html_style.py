"""How pages look: light and dark, on a phone, on a wide screen and on paper."""

from __future__ import annotations

#: The only style sheet.  Colours have names; the dark ones stand beside the light ones.
STYLE = """
:root {
  color-scheme: light dark;
  --ground: #ffffff; --card: #f5f6f8; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de;
  --accent: #0b5cad; --second: #a33b00; --band: #cfe1f5; --series: #0072b2;
  --warn: #8a4b00; --warn-ground: #fff4e0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171b; --card: #1d2228; --ink: #e7eaee; --soft: #a0a9b4; --line: #3a424c;
    --accent: #6cb2ff; --second: #ff9d66; --band: #23415f; --series: #3d9be0;
    --warn: #ffc46b; --warn-ground: #33270f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
  overflow-wrap: anywhere;
}
main { max-width: 72rem; margin: 0 auto; padding: 1rem 1.25rem 3rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .6em 0 .2em; }
h2 { font-size: 1.25rem; margin: 2em 0 .5em; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.4em 0 .4em; }
p { margin: .4em 0; max-width: 46rem; }
p.soft, footer, figcaption, .interval, .cards dd.interval { color: var(--soft); }
footer { margin-top: 3em; font-size: .85rem; }
code { font-family: ui-monospace, "DejaVu Sans Mono", Consolas, monospace; font-size: .92em; }
code, td, th { unicode-bidi: isolate; }
.warnings { background: var(--warn-ground); border-left: 4px solid var(--warn); padding: .4em 1em; }
.warnings p { max-width: none; }
.cards { display: flex; flex-wrap: wrap; gap: .6rem; margin: .6rem 0; }
.cards div {
  background: var(--card); border: 1px solid var(--line); border-radius: .4rem;
  padding: .5rem .9rem; min-width: 8.5rem;
}
.cards dt { color: var(--soft); font-size: .85rem; }
.cards dd { margin: 0; font-size: 1.3rem; font-variant-numeric: tabular-nums; }
.cards dd.interval { font-size: .8rem; }
.terms { display: grid; grid-template-columns: minmax(8rem, max-content) 1fr; gap: .2em 1.2em; }
.terms dd { margin: 0; color: var(--soft); }
.wide { overflow-x: auto; margin: .8rem 0; max-width: 100%; }
.wide:focus-visible, summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table { border-collapse: collapse; font-size: .92rem; }
caption { text-align: left; color: var(--soft); font-size: .85rem; padding: .2em 0; }
th, td { text-align: left; padding: .3em .8em .3em 0; border-bottom: 1px solid var(--line); }
th, td { vertical-align: baseline; font-weight: normal; overflow-wrap: normal; }
thead th { font-weight: 600; vertical-align: bottom; }
tbody th, thead th:first-child { min-width: 5rem; max-width: 22rem; overflow-wrap: anywhere; }
tbody th:has(> code) { min-width: 9rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
.interval { font-size: .82em; }
.confusion td { text-align: right; font-size: 1.1rem; padding: .5em 1em; }
.confusion td, .confusion th { border: 1px solid var(--line); }
.confusion th, .confusion thead th:first-child { min-width: 0; }
.confusion th { padding: .3em 1em; }
.pictures { display: flex; flex-wrap: wrap; gap: 1.2rem; align-items: flex-start; }
figure { margin: .6rem 0; max-width: 100%; }
figure svg, figure img { max-width: 100%; height: auto; display: block; }
figcaption { font-size: .85rem; max-width: 26rem; }
summary { cursor: pointer; padding: .3em 0; color: var(--accent); }
svg text { font: 12px system-ui, "Liberation Sans", sans-serif; fill: var(--ink); }
svg .soft { fill: var(--soft); }
svg .axis { stroke: var(--line); fill: none; }
svg .ideal { stroke: var(--soft); stroke-dasharray: 4 4; fill: none; }
svg .bar { fill: var(--band); stroke: none; }
svg .mark { fill: var(--accent); stroke: none; }
svg .whisker { stroke: var(--accent); fill: none; stroke-width: 1.5; }
svg .curve { stroke: var(--second); fill: none; stroke-width: 1.5; }
@media (max-width: 40rem) {
  main { padding: .5rem .75rem 2rem; }
  table { font-size: .85rem; }
  .cards div { flex: 1 1 8.5rem; min-width: 0; }
  tbody th { max-width: 12rem; }
  td .interval { display: block; }
  .terms { grid-template-columns: 1fr; gap: 0; }
  .terms dd { margin: 0 0 .5em; }
}
@media print {
  :root {
    --ground: #ffffff; --card: #ffffff; --ink: #000000; --soft: #444444; --line: #999999;
    --accent: #0b5cad; --second: #a33b00; --band: #dddddd; --series: #0072b2;
    --warn: #000000; --warn-ground: #ffffff;
  }
  main { max-width: none; padding: 0; }
  .wide { overflow: visible; }
  table { font-size: 8pt; }
  td.number { white-space: normal; }
  body { font-size: 10pt; }
  .pictures { display: block; }
  .pictures figure { display: inline-block; width: 48%; vertical-align: top; }
  details:not([open]) { display: none; }
  tr, figure, .cards div { break-inside: avoid; }
  h2, h3, caption, thead { break-after: avoid; }
  tbody tr:first-child { break-before: avoid; }
}
"""
