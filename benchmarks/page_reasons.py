"""Why an aim was missed: what of the time is start-up and reading, measured in the same rounds."""

from __future__ import annotations

from collections.abc import Iterable

from harness import Pair, wall_of
from page_text import median
from pages import bullets


def reasons(pairs: Iterable[Pair]) -> list[str]:
    """Return why each aim that was missed was, as items of a list."""
    return [bullets(reason(pair)) for pair in pairs if is_missed(pair)]


def is_missed(pair: Pair) -> bool:
    """Return whether the median of the wall time misses the aim."""
    return pair.limit is not None and pair.ratio(wall_of).median > pair.limit


def reason(pair: Pair) -> str:
    """Return why an aim was missed."""
    assert pair.limit is not None
    ours, peer = (median(pair, side, wall_of) for side in ("ours", "peer"))
    aim = pair.limit * peer
    text = f"Why {pair.name} misses: the aim comes to {aim:.2f} s, and calibkit takes {ours:.2f} s."
    ground = []
    if pair.start_ours:
        ground.append(start := median(pair, "start_ours", wall_of))
        text += (
            f" Its start-up, the same command on next to no rows, takes {start:.2f} s (the "
            f"other's {median(pair, 'start_peer', wall_of):.2f} s)."
        )
    if pair.floor:
        ground.append(floor := median(pair, "floor", wall_of))
        text += (
            f" To import polars and read the columns, and no more, takes {floor:.2f} s, "
            f"{floor / peer:.2f} of the other's whole time"
        )
        text += ": more than the aim." if floor > aim else "."
    if ground:
        text += f" What is left for the work is {max(ours - max(ground), 0.0):.2f} s."
    if "why" in pair.facts:
        text += f" {pair.facts['why'][0].upper()}{pair.facts['why'][1:]}."
    return text
