"""What a picture shows, as a table from which alone it is drawn; one style for all, and their bytes.

Colours are those of Okabe and Ito ("Color universal design", 2008), which colour-blind people can
tell apart; every line also has a marker and a dash pattern of its own, for print without colour.
The bytes of a picture depend on its points, its look and the version of matplotlib alone: no date,
no random ids, no settings of the user, and text as outlines of the font that matplotlib brings.
"""

from __future__ import annotations

import html
import io
import logging
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import ArrayLike

from calibkit.errors import UsageError
from calibkit.measures.result import Metrics, Number
from calibkit.options.plot import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Black stands last: the frame is black too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: Lengths of strokes and gaps, in widths of the line.
_STROKES = ((5, 1.5), (5, 1.5, 1, 1.5), (1, 1.2), (8, 2), (3, 1, 1, 1, 1, 1), (2, 2), (8, 2, 2, 2))
DASHES: tuple[Any, ...] = ("-", *((0, strokes) for strokes in _STROKES))

#: Dots an inch of a PNG.
DPI = 200

#: Characters of a name that a legend shows.
NAME_LENGTH = 40

#: How each format is written: without what matplotlib says of a file, the date among it.
_WRITTEN: Mapping[str, dict[str, Any]] = {
    "svg": {"metadata": dict.fromkeys(("Date", "Creator", "Format", "Type"))},
    "png": {"metadata": {"Software": None}, "dpi": DPI},
    "pdf": {"metadata": dict.fromkeys(("CreationDate", "Creator", "Producer"))},
}

_LIGHT, _DARK = "#FFFFFF", "#16181D"


def need_matplotlib() -> None:
    """Raise a `UsageError` that says how to install matplotlib where it is missing."""
    if find_spec("matplotlib") is None:
        raise UsageError("pictures need matplotlib; install it by: pip install 'calibkit[plot]'")


#: What a picture changes belongs to the process: one is drawn at a time.
ALONE: Final = RLock()


@contextmanager
def settings(look: Look, size: tuple[float, float]) -> Iterator[None]:
    """Draw with the settings of this style, whatever the user's are."""
    need_matplotlib()
    import matplotlib

    # Smaller pictures have smaller letters, down to what can be read in print.
    letters = min(10.0, max(6.5, 4.0 + 0.9 * min(size[0], 1.35 * size[1])))
    ink, ground = ("#E8E8E8", _DARK) if look.dark else ("#1A1A1A", _LIGHT)
    ground = "none" if look.transparent else ground
    faint = "#4A4D55" if look.dark else "#D9D9D9"
    own: dict[str, Any] = {
        "font.family": ["DejaVu Sans"],
        **dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize"), letters),
        "figure.titlesize": 1.15 * letters,
        **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 0.9 * letters),
        "legend.frameon": False,
        "legend.handlelength": 2.6,
        **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor"), ink),
        **dict.fromkeys(("xtick.color", "ytick.color"), ink),
        "text.parse_math": False,
        **dict.fromkeys(("axes.facecolor", "figure.facecolor"), ground),
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.formatter.useoffset": False,
        "axes.formatter.limits": (-3, 6),
        "grid.color": faint,
        "grid.linewidth": 0.6,
        "lines.linewidth": 1.5,
        "lines.markersize": 4.5,
        "svg.hashsalt": "calibkit",
    }
    logger = logging.getLogger("matplotlib")  # which tells of its font cache
    with ALONE, matplotlib.rc_context(), warnings.catch_warnings(), ExitStack() as undone:
        undone.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        matplotlib.rcdefaults()
        known: Any = matplotlib.rcParams
        known.update(own)
        yield


class Sheet:
    """A figure in the making; only within `settings`.

    It takes a `figure` that is empty and of this `size`, width and height in inches, or makes one.
    """

    #: The shares of width and height that the names of x and y may take.
    spread, tall = 0.8, 0.62

    def __init__(
        self, look: Look, size: tuple[float, float], title: str, figure: Figure | None = None
    ) -> None:
        from matplotlib.figure import Figure

        self._begin(figure or Figure(figsize=size), size, _DARK if look.dark else _LIGHT)
        self.figure.set_layout_engine("constrained")
        self.figure.set_label(title)
        shown = title if look.title is None else look.title
        if shown:
            self.figure.suptitle(textwrap.fill(shown, self.fitting(size[0] * 0.95, 1.15)))

    def _begin(self, figure: Any, size: tuple[float, float], ground: str) -> None:
        import matplotlib

        self.figure: Figure = figure
        self.size, self.ground = size, ground
        self.letters = float(matplotlib.rcParams["font.size"])
        self.ink = str(matplotlib.rcParams["text.color"])
        self._entries: list[tuple[Any, str]] = []

    def fitting(self, inches: float, scale: float = 1.0) -> int:
        """Return how many letters of an average text fit into a length."""
        return max(8, int(inches * 72 / (0.56 * self.letters * scale)))

    def panels(self, *heights: float) -> list[Axes]:
        """Return panels one below the other that share their x: one, or of these relative heights."""
        ratios = heights or (1.0,)
        grid = self.figure.subplots(len(ratios), squeeze=False, height_ratios=ratios, sharex=True)
        return [panel for (panel,) in grid]

    def line(self, place: int) -> dict[str, Any]:
        """Return what tells line `place` (from 0) from the others: colour, dashes, marker."""
        place %= len(COLOURS)
        colour = self.ink if COLOURS[place] == "#000000" else COLOURS[place]
        return {"color": colour, "ls": DASHES[place], "marker": MARKERS[place]}

    @property
    def rim(self) -> dict[str, Any]:
        """The rim of markers, which keeps those apart that overlap."""
        return {"mec": self.ground, "mew": 0.4}

    @property
    def guide(self) -> dict[str, Any]:
        """The look of a line that shows what would be ideal, or nothing."""
        return {"color": self.ink, "lw": 0.8, "ls": (0, (4, 3))}

    def series(self, panel: Axes, place: int, x: ArrayLike, y: ArrayLike, **look: Any) -> None:
        """Draw line `place` with its markers, `look` over its own look."""
        look = {**self.line(place), **self.rim, **look}
        panel.plot(np.asarray(x), np.asarray(y), **look)

    def curve(
        self, panel: Axes, place: int, name: str, x: ArrayLike, y: ArrayLike, steps: str = "default"
    ) -> None:
        """Draw line `place` without markers, and name it in the legend."""
        look = {**self.line(place), "marker": ""}
        panel.plot(np.asarray(x), np.asarray(y), drawstyle=steps, **look)
        self.entry(name, **look)

    def mark(self, place: int) -> dict[str, Any]:
        """Return the look of a point that stands for what was chosen."""
        look = {"marker": self.line(place)["marker"], "ls": "none", "ms": 7.0}
        return look | {"mfc": self.ground, "mec": self.ink, "mew": 1.3}

    def cross(self, panel: Axes, row: Mapping[str, Any], x: str, y: str, **look: Any) -> None:
        """Draw the intervals of a point's x and y, columns of its row, those that are known."""
        for name, other, draw in ((x, y, panel.hlines), (y, x, panel.vlines)):
            low, high = (row[end] for end in ends_of([name]))
            if low is not None and high is not None:
                draw(row[other], low, high, lw=1.0, **look)

    def whiskers(
        self, panel: Axes, place: int, x: ArrayLike, of: pl.DataFrame, name: str = "", **look: Any
    ) -> None:
        """Draw the known intervals of line `place` (see `ends_of`), `look` over its own look."""
        look = {"color": self.line(place)["color"], "lw": 1.0} | look
        panel.vlines(*_known(x, of, name), **look)

    def band(
        self, panel: Axes, place: int, x: ArrayLike, of: pl.DataFrame, name: str = "", **look: Any
    ) -> None:
        """Shade the known intervals along line `place` (see `ends_of`)."""
        look = {"color": self.line(place)["color"], "alpha": 0.15, "lw": 0} | look
        panel.fill_between(*_known(x, of, name), **look)

    def label(self, panel: Axes, x: str = "", y: str = "", share: float = 1.0) -> None:
        """Name the axes of a panel that takes `share` of the height, in as many lines as needed."""
        if x:
            panel.set_xlabel(textwrap.fill(x, self.fitting(self.spread * self.size[0])))
        if y:
            long = max(10, self.fitting(self.tall * share * self.size[1]))
            panel.set_ylabel(textwrap.fill(y, long))

    def entry(self, name: str, *under: dict[str, Any], **look: Any) -> None:
        """Add an entry to the legend, which stands under the panels; `under`: lines below it."""
        from matplotlib.lines import Line2D

        handles = tuple(Line2D([], [], **one) for one in (*under, look))
        self._entries.append((handles if under else handles[0], shown_name(name)))

    def finish(self) -> Figure:
        """Thin out ticks, place the legend in as many columns as fit, and return the figure."""
        self.thin_out(self.figure.axes)
        if not self._entries:
            return self.figure
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        handles, names = zip(*self._entries, strict=True)
        shown_on = self.figure.canvas
        canvas: Any = FigureCanvasAgg(self.figure)
        for columns in range(min(len(names), 6), 0, -1):
            legend = self.figure.legend(
                handles, names, loc="outside lower center", ncols=columns, columnspacing=1.4
            )
            box = legend.get_window_extent(canvas.get_renderer())
            if columns == 1 or box.width <= 0.98 * self.figure.bbox.width:
                break
            legend.remove()
        self.figure.set_canvas(shown_on)  # a window, where the figure has one
        return self.figure

    def thin_out(self, panels: Sequence[Axes]) -> None:
        """Leave as many ticks on the axis of x as have room."""
        from matplotlib.ticker import MaxNLocator

        ticks = max(3, min(9, int(self.size[0] * 72 / (4.5 * self.letters))))
        for panel in panels:
            if isinstance(panel.xaxis.get_major_locator(), MaxNLocator):
                panel.locator_params(axis="x", nbins=ticks)


def aside(place: int, count: int) -> float:
    """Return how far one of several points with the same x stands aside, as a share of the axis."""
    return (place - (count - 1) / 2) * 0.012


def _known(x: ArrayLike, of: pl.DataFrame, name: str) -> tuple[Any, Any, Any]:
    """Return the places and ends of the intervals that are known."""
    low, high = (of[end] for end in ends_of([name]))
    known = (low.is_not_null() & high.is_not_null()).to_numpy()
    return np.asarray(x)[known], low.to_numpy()[known], high.to_numpy()[known]


def with_room(ticks: Iterable[tuple[float, str]], gap: float) -> tuple[list[float], list[str]]:
    """Return the places and names of ticks, without those too near to an earlier one."""
    kept: dict[float, str] = {}
    for place, name in ticks:
        if all(abs(place - other) >= gap for other in kept):
            kept[place] = name
    return [*kept], [*kept.values()]


def shown_name(name: str) -> str:
    """Return a name as a legend shows it: shortened, and not taken for a hidden one."""
    short, room = name, NAME_LENGTH - 1
    if len(name) > NAME_LENGTH:  # the end of a path says most
        short = f"…{name[-room:]}" if "/" in name else f"{name[:room]}…"
    return f" {short}" if short.startswith("_") else short


def to_bytes(figure: Figure, kind: str = "svg") -> bytes:
    """Return a figure as ``svg``, ``png`` or ``pdf``, the same bytes each time."""
    width, height = figure.get_size_inches()
    out = io.BytesIO()
    with settings(Look(), (float(width), float(height))):
        figure.savefig(out, format=kind, **_WRITTEN[kind])
    if kind != "svg":
        return out.getvalue()
    return _lean(out.getvalue().decode(), figure.get_suptitle() or str(figure.get_label())).encode()


#: What XML has no way to write, and blanks but one.
_NOT_XML = re.compile("[^ -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _lean(svg: str, title: str) -> str:
    """Return an SVG without what nobody sees, with a title for people who hear it.

    Comments (the text behind outlines) go, digits beyond a hundredth of a point, and of level and
    upright lines the number that stays.
    """
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"\s*\n\s*", "\n", svg).replace("\n<", "<").replace("?><", "?>\n<")
    svg = re.sub(
        r"(?<![\w.])-?[1-9]\d*\.\d{3,}(?!\w)",
        lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."),
        svg,
    )
    svg = re.sub(r'(?<= d=")[^"]*', lambda path: _stairs(path[0]), svg)
    label = html.escape(_NOT_XML.sub("", " ".join(title.split())))
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1) + "\n"


def _stairs(path: str) -> str:
    """Return a path with its level and upright lines as ``H`` and ``V``, without spare blanks."""
    parts, x, y = [], "", ""
    for command, text in re.findall(r"([A-Za-z])\s*([^A-Za-z]*)", path):
        ends = text.split()
        short = ""
        if command == "L" and len(ends) == 2:
            short = f"H{ends[0]}" if ends[1] == y else f"V{ends[1]}" if ends[0] == x else ""
        parts.append(short or f"{command}{' '.join(ends)}")
        x, y = ends[-2:] if len(ends) >= 2 else ("", "")
    return "".join(parts)


#: Inches between panels that share the room of one.
_GAP = 0.12


class AxesSheet(Sheet):
    """A picture on axes that stand already; further panels take a part of their room, below.

    What was drawn there before stays: lines have the next colours, the legend its entries.
    """

    spread, tall = 1.0, 0.9

    def __init__(self, ax: Axes, title: str | None) -> None:
        from matplotlib.colors import to_hex

        figure: Any = ax.figure
        box = ax.get_window_extent()
        size = (box.width / figure.dpi, box.height / figure.dpi)
        self._begin(figure, size, to_hex(ax.get_facecolor(), keep_alpha=True))
        drawn = {to_hex(line.get_color()) for line in ax.lines} - {to_hex(self.ink)}
        self.main, self._taken = ax, len(drawn)
        self._limits = {"xlim": ax.get_xlim(), "ylim": ax.get_ylim()} if drawn else {}
        self._panels: list[Axes] = vars(ax).setdefault("_calibkit_panels", [ax])
        if title:
            ax.set_title(title)

    def line(self, place: int) -> dict[str, Any]:
        """Return what tells line `place` from the others, and from those that stood there before."""
        return super().line(place + self._taken)

    def panels(self, *heights: float) -> list[Axes]:
        """Return the axes, and below them as many as asked for, which share their x."""
        for below in self._panels[1:]:
            below.set_autoscaley_on(True)
        if len(heights) > len(self._panels):
            grid: Any = import_module("mpl_toolkits.axes_grid1")  # a part of matplotlib
            divider = grid.make_axes_locatable(self.main)
            for height in heights[len(self._panels) :]:
                share = f"{100 * height / heights[0]:g}%"
                below = divider.append_axes("bottom", share, pad=_GAP, sharex=self.main)
                self._panels.append(below)
            for panel in self._panels[:-1]:
                panel.tick_params(labelbottom=False)
        return self._panels[: max(1, len(heights))]

    def finish(self) -> Any:
        """Thin out ticks, place the legend where it hides least, and return the figure."""
        self.thin_out(self._panels)
        for axis, (low, high) in self._limits.items():  # as wide as both pictures
            own = getattr(self.main, f"get_{axis}")()
            self.main.set(**{axis: (min(low, own[0]), max(high, own[1]))})
        if self._entries:
            known = self.main.get_legend()
            before = zip(known.legend_handles, known.get_texts(), strict=True) if known else ()
            entries = [(handle, text.get_text()) for handle, text in before] + self._entries
            shown = {(name, _colour(handle)): (handle, name) for handle, name in entries}
            handles, names = zip(*shown.values(), strict=True)
            self.main.legend(handles, names, fontsize="small")
        return self.figure


def _colour(handle: Any) -> Any:
    """Return the colour of an entry of a legend: of its topmost line."""
    top = handle[-1] if isinstance(handle, tuple) else handle
    return getattr(top, "get_color", str)()


#: How many lines of one picture can be told apart.
MOST_LINES = 8


class Points(Struct, frozen=True, kw_only=True):
    """What a picture shows."""

    kind: str  # a key of `calibkit.options.plot.KINDS`
    table: pl.DataFrame  # every number that is drawn
    #: What titles, axes and legends say besides, such as the name of a score.
    words: Mapping[str, str] = {}
    warnings: tuple[str, ...] = ()  # what the user has to be told
    notes: tuple[str, ...] = ()  # what a summary should say

    @classmethod
    def of(cls, kind: str, table: pl.DataFrame, found: Any, **words: str | None) -> Points:
        """Return the points of what has `warnings` and `notes`; words that are None are left out."""
        kept = {name: word for name, word in words.items() if word is not None}
        return cls(kind=kind, table=table, words=kept, warnings=found.warnings, notes=found.notes)

    @property
    def interval(self) -> str:
        """What an axis says of the intervals drawn, with a space before it."""
        return f" ({self.words['interval']} interval)" if "interval" in self.words else ""


def schema(texts: str, *numbers: str) -> pl.Schema:
    """Return the columns of a table: texts, by names with blanks between, then numbers."""
    return pl.Schema(
        {**dict.fromkeys(texts.split(), pl.String), **dict.fromkeys(numbers, pl.Float64)}
    )


def ends_of(names: Sequence[str]) -> list[str]:
    """Return the columns of a table that hold the intervals of metrics; ``low, high`` of no name."""
    return [f"{name}_{end}".lstrip("_") for name in names for end in ("low", "high")]


def check_lines(names: Sequence[str], what: str, option: str) -> None:
    """Refuse (`UsageError`) more lines than can be told apart."""
    if len(names) > MOST_LINES:
        raise UsageError(
            f"{len(names)} {what} are too many to tell apart in one picture; expected at most "
            f"{MOST_LINES}: name fewer by {option}."
        )


def per_cent(share: float | None, shown: object = True) -> str | None:
    """Return a share as text, ``95%``; None where there is none to be `shown`."""
    return f"{100 * share:.10g}%" if share is not None and shown else None


def with_ends(
    metrics: Metrics, score: str, part: str, names: Sequence[str]
) -> dict[str, Number | None]:
    """Return the metrics of a score in a slice, and the intervals that `names` have there."""
    found = dict(metrics.metrics[score][part])
    for name in names:
        own = metrics.interval(score, part, name)
        found |= {f"{name}_low": own.low, f"{name}_high": own.high}
    return found


def in_per_cent(value: float, _: object) -> str:
    """Return what stands at a tick of an axis of shares."""
    return f"{100 * value:.6g}%"


def nice_end(*columns: pl.Series) -> float:
    """Return where an axis of probabilities ends: at 1, or lower where all of them are low."""
    ends = [column.max() for column in columns]
    most = max((float(end) for end in ends if isinstance(end, float)), default=1.0)
    return 1.0 if most > 0.6 else max(1.05 * most, 1e-6)
