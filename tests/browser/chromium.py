"""Pages in a real browser: what they look like, what stands in them once laid out, what they load."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

#: Debian's name first; others call it otherwise.
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)

_SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
_SCHEMES = {"light": 1, "dark": 0}
_ANSWER = re.compile(r'<pre id="answer">(.*?)</pre>', re.DOTALL)

#: Measures the page in the frame: what is too wide, text that can hardly be read, what was loaded.
MEASURE = """
function channels(colour) { return colour.match(/[\\d.]+/g).map(Number); }
function light(colour) {
  const [r, g, b] = channels(colour).slice(0, 3).map(
    c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function ground(view, element) {
  for (; element; element = element.parentElement) {
    const colour = view.getComputedStyle(element).backgroundColor;
    if ((channels(colour)[3] ?? 1) > 0) return colour;
  }
  return 'rgb(255, 255, 255)';
}
function measure(frame) {
  const page = frame.contentDocument, view = frame.contentWindow, found = {};
  const width = page.documentElement.clientWidth;
  page.querySelectorAll('details').forEach(part => part.open = true);
  found.scroll = page.documentElement.scrollWidth - width;
  found.wide = [...page.body.querySelectorAll('*')]
    .filter(one => !one.closest('.wide *, svg *') && one.getBoundingClientRect().right > width + 1)
    .map(one => one.outerHTML.slice(0, 120));
  found.outside = [...page.querySelectorAll('svg text')].filter(one => {
    const own = one.getBoundingClientRect(), all = one.closest('svg').getBoundingClientRect();
    return own.left < all.left - 1 || own.right > all.right + 1 || own.bottom > all.bottom + 1;
  }).map(one => one.textContent);
  found.faint = [];
  const text = 'h1, h2, p, th, td, dt, dd, caption, figcaption, summary, footer';
  for (const one of page.querySelectorAll(text)) {
    if (!one.innerText?.trim()) continue;
    const [a, b] = [light(view.getComputedStyle(one).color), light(ground(view, one))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.faint.push(one.outerHTML.slice(0, 80) + ' ' + contrast);
  }
  found.ground = view.getComputedStyle(page.body).backgroundColor;
  found.loaded = view.performance.getEntriesByType('resource').map(one => one.name);
  found.scripts = page.querySelectorAll('script').length;
  found.headings = [...page.querySelectorAll('h1, h2, h3')].map(one => one.innerText);
  found.broken = [...page.images].filter(one => !one.naturalWidth).length;
  return found;
}
const frame = document.querySelector('iframe');
const answer = document.createElement('pre');
answer.id = 'answer';
answer.textContent = JSON.stringify(measure(frame));
frame.remove();
document.body.append(answer);
"""


def run(folder: Path, *arguments: str, scheme: str = "light") -> str:
    """Run the browser once and return what it prints."""
    assert BROWSER is not None
    own = (
        f"--user-data-dir={folder / 'profile'}",
        f"--blink-settings=preferredColorScheme={_SCHEMES[scheme]}",
    )
    done = subprocess.run(
        [BROWSER, *_SWITCHES, *own, *arguments], capture_output=True, timeout=60, check=True
    )
    return done.stdout.decode()


def measured(page: Path, folder: Path, *, width: int, scheme: str) -> dict[str, Any]:
    """Return what `MEASURE` finds on a page laid out in a frame of a width in pixels."""
    content = html.escape(page.read_text(encoding="utf-8"), quote=True)
    script = f"<script>addEventListener('load', () => {{ {MEASURE} }})</script>"
    frame = f'<iframe width="{width}" height="800" frameborder="0" srcdoc="{content}"></iframe>'
    wrapper = folder / "wrapper.html"
    wrapper.write_text(
        f"<!doctype html><meta charset=utf-8><body>{frame}{script}", encoding="utf-8"
    )
    printed = run(folder, "--dump-dom", wrapper.as_uri(), scheme=scheme)
    answer = _ANSWER.search(printed)
    assert answer is not None, printed[:2000]
    found: dict[str, Any] = json.loads(html.unescape(answer[1]))
    return found


def shot(page: Path, folder: Path, *, width: int, scheme: str) -> Path:
    """Return a picture (PNG) of the first screens of a page."""
    picture = folder / f"{page.stem}-{width}-{scheme}.png"
    run(
        folder,
        f"--window-size={width},2400",
        f"--screenshot={picture}",
        page.as_uri(),
        scheme=scheme,
    )
    return picture


def requests(page: Path, folder: Path) -> str:
    """Return the log of all that the browser asked the network for while it showed a page.

    The browser has errands of its own (the time, lists of its maker), so look for a host in it.
    """
    log = folder / f"{page.stem}-network.json"
    run(folder, f"--log-net-log={log}", "--dump-dom", page.as_uri())
    return log.read_text(encoding="utf-8")
