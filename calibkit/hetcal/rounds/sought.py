"""What rounds cut finer until it is found: parts that follow each other in time, isotonic blocks."""

from __future__ import annotations

from dataclasses import dataclass, field

#: A time as an integer, or a text, in its order.
Key = int | str


@dataclass
class Gap:
    """Times in which parts of the rows end, `after` one and `before` another (None: of all).

    `below` are the rows before them, `rows` those of them; `drawn` are some of them, which are to be
    counted, none where some are to be drawn.
    """

    after: Key | None
    before: Key | None
    below: int
    rows: int
    drawn: list[Key] = field(default_factory=list)


@dataclass
class Times:
    """The parts of rows that follow each other in time, or how far they are known.

    Attributes
    ----------
    kind
        What stands for a time: the integer of a `number` or of a `whole` one such as a date, a
        `text`, or as a text the digits of a `wide` integer.
    ends
        The last time of each part but the last; None as long as it is sought.
    gaps
        Where they are sought, in order.
    """

    kind: str
    ends: list[Key | None] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)


@dataclass
class Stretches:
    """The scores of a leaf by stretches that its isotonic map is made of, from the lowest.

    Attributes
    ----------
    lows, highs
        The keys (integers in the order of the scores) of the least and the greatest score of each;
        the same one where no block of the map can begin inside.
    rows, hits
        Of each, in units of weight.
    """

    lows: list[int] = field(default_factory=list)
    highs: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    hits: list[int] = field(default_factory=list)
