"""How text was read, where other text could have been read otherwise: what states and models keep.

And what users are told of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from calibkit.errors import DataError
from calibkit.files.formats import NULL_VALUES, YEAR_FIRST, Mark


class Told(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How the text of some rows was read, as far as other rows may have been read otherwise.

    Attributes
    ----------
    marks
        The decimal marks that columns have for certain.
    taken
        The one that numbers were read with which leave it open, as ``1.234`` does.
    null_values
        What stood for missing values, if that was said.
    dates
        The format of dates, or that they were taken in the order of text.
    """

    marks: tuple[Mark, ...] = ()
    taken: Mark | None = None
    null_values: tuple[str, ...] | None = None
    dates: str | None = None

    def clash(self, other: Told) -> str | None:
        """Return what rows together would have been read otherwise, and the option that settles it."""
        both = self.besides(other)
        marks = {*both.marks, self.taken, other.taken} - {None}
        if both.taken is not None and len(marks) > 1:
            return (
                "numbers such as 1.234 or 1,234 leave open which mark is that of decimals, and others "
                "have both; make all parts with --decimal . or --decimal ,"
            )
        if self.null_values != other.null_values:
            said = [",".join(one.null_values or NULL_VALUES) for one in (self, other)]
            return (
                f"missing values are {' in some, '.join(said)} in others; make all parts with the "
                "same --null-values"
            )
        if None not in (self.dates, other.dates) and self.dates != other.dates:
            return (
                f"dates are {self.dates} in some, {other.dates} in others; make all parts with the "
                "same --date-format"
            )
        return None

    def besides(self, other: Told) -> Told:
        """Return how rows were read of which some were read so, and others as `other` says."""
        marks = tuple(sorted({*self.marks, *other.marks}))
        dates = self.dates or other.dates
        return Told(marks, self.taken or other.taken, self.null_values, dates)

    @property
    def unusual(self) -> Told | None:
        """What a model says of it: nothing of numbers and dates as calibkit writes them."""
        points = "," not in (*self.marks, self.taken)
        if points and self.null_values is None and self.dates in (None, *YEAR_FIRST):
            return None
        return Told(null_values=self.null_values, dates=self.dates) if points else self


def together(parts: Iterable[tuple[str, Told | None]]) -> Told | None:
    """Return how all rows were read, of files and how each was; None of no text.

    Raises `DataError` for files that would have been read otherwise together.
    """
    text: Told | None = None
    for path, own in parts:
        problem = None if own is None or text is None else text.clash(own)
        if problem is not None:
            raise DataError.of(path, f"not read as the other rows: {problem}")
        text = own if text is None else text if own is None else text.besides(own)
    return text


class Noted(Struct, frozen=True):
    """What users are told of how inputs were read.

    `unusual` has, of files that are not written as calibkit writes them, the name and what is unusual;
    `named` are columns that the inputs call otherwise, with what they call them.
    """

    unusual: tuple[tuple[str, tuple[str, ...]], ...] = ()
    named: tuple[tuple[str, str], ...] = ()

    def beside(self, *others: Noted) -> Noted:
        """Return the same of further inputs too."""
        parts = (self, *others)
        named = dict.fromkeys(one for part in parts for one in part.named)
        return Noted(tuple(one for part in parts for one in part.unusual), tuple(named))

    @property
    def lines(self) -> list[str]:
        """The sentences."""
        said = [f"Column {old!r} is read as {name!r}." for name, old in self.named]
        if self.unusual:
            found = dict.fromkeys(remark for _, remarks in self.unusual for remark in remarks)
            rest = len(self.unusual) - 1
            more = f" and {rest} more" if rest else ""
            said.insert(0, f"Read {self.unusual[0][0]}{more} with {'; '.join(found)}.")
        return said


#: Of inputs with nothing unusual.
NOTHING = Noted()
