"""Pictures on matplotlib axes: the user's, as they look, or those of a new figure."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from calibkit.reports.style import Sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Inches between panels that share the room of one.
_GAP = 0.12


class AxesSheet(Sheet):
    """A picture on axes that stand already; further panels take a part of their room, below.

    Parameters
    ----------
    ax
        The axes.
    title
        Their title, if they shall have one.
    """

    spread, tall = 1.0, 0.9

    def __init__(self, ax: Axes, title: str | None) -> None:
        import matplotlib
        from matplotlib.colors import to_hex

        figure: Any = ax.figure
        box = ax.get_window_extent()
        self.size = (box.width / figure.dpi, box.height / figure.dpi)
        self.figure, self.main = figure, ax
        self.letters = float(matplotlib.rcParams["font.size"])
        self.ink = str(matplotlib.rcParams["text.color"])
        self.ground = to_hex(ax.get_facecolor(), keep_alpha=True)
        self._panels = [ax]
        self._entries = []
        if title:
            ax.set_title(title)

    def panels(
        self,
        rows: int = 1,
        columns: int = 1,
        *,
        heights: Sequence[float] | None = None,
        **more: Any,
    ) -> list[Axes]:
        """Return the axes, and below them as many as asked for, which share their x."""
        if rows > 1:
            grid: Any = import_module("mpl_toolkits.axes_grid1")  # a part of matplotlib
            divider = grid.make_axes_locatable(self.main)
            for height in (heights or [1.0] * rows)[1:]:
                share = f"{100 * height / (heights or [1.0])[0]:g}%"
                below = divider.append_axes("bottom", share, pad=_GAP, sharex=self.main)
                self._panels.append(below)
            for panel in self._panels[:-1]:
                panel.tick_params(labelbottom=False)
        return list(self._panels)

    def finish(self) -> Any:
        """Thin out ticks, place the legend where it hides least, and return the figure."""
        self.thin_out(self._panels)
        if self._entries:
            handles, names = zip(*self._entries, strict=True)
            self.main.legend(handles, names, fontsize="small")
        return self.figure
