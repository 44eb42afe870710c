"""The options that several commands share, in classes of those that go together.

A class of options is a `Weighted`, or declares ``weight: Annotated[str | None, Weighted] = None``, and
has flags, help and group from here.  It takes only what the command does something with.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from calibkit.errors import UsageError
from calibkit.files.formats import AS_TEXT, NULL_VALUES, Dialect, codec, separator
from calibkit.models.scales import measure
from calibkit.options.option import COLUMNS, Options, option, short, tagged

if TYPE_CHECKING:
    from calibkit.files.frames import Frame
    from calibkit.models.model import Model

    #: A model, or its file.
    ModelLike: TypeAlias = Model | str | os.PathLike[str]
    #: Rows, or their file.
    FrameLike: TypeAlias = Frame
else:  # at run time neither models nor frames are loaded for a name
    ModelLike = FrameLike = Any

INPUT, OUTPUT, RUN = "Input", "Output", "Run"

of_columns, of_input = partial(option, group=COLUMNS), partial(option, group=INPUT)
of_output, of_run = partial(option, group=OUTPUT), partial(option, group=RUN)
of_method = partial(option, group="Method")
#: The name of one column.
named_column = partial(of_columns, metavar="NAME")
#: Names and globs of several columns.
of_patterns = partial(of_columns, metavar="PATTERN", many="commas")
of_seed = partial(of_run, metavar="NUMBER", least=0, most=2**63 - 1)
#: Files, or what else is typed without a flag.
arguments = partial(option, argument=True, many="repetition")

#: Several names: one text with commas, or a list.
Names = str | tuple[str, ...] | list[str]


def model_of(value: Any, flag: str) -> Model:
    """Return a model that is given as one, as its file or as what a state holds of it."""
    from calibkit.models.model import Model, canonical_text, decode, load

    if isinstance(value, dict):
        return decode(canonical_text(value).encode(), flag)
    if not isinstance(value, Model | str | os.PathLike):
        raise UsageError(f"{flag} is {short(value)}; expected a model or its file.")
    return value if isinstance(value, Model) else load(value)


SCORE_HELP: Final = "Column with the score of the positive class."
UNCERTAINTY_HELP: Final = "Column with the uncertainty: larger = less certain, any real scale."
PROBS_HELP: Final = "Class probabilities: columns by a glob, or one column of lists."


class Threaded(Options):
    """How much of the machine a run takes."""

    threads: int | None = of_run(
        "Threads to use; the result does not depend on it.",
        "NUMBER",
        least=1,
        env="CALIBKIT_THREADS",
        shown="one a processor",
    )

    @property
    def workers(self) -> int:
        """How many threads to use."""
        from calibkit.runtime.threads import thread_count

        return thread_count(self.threads)

    @property
    def needed(self) -> Sequence[str] | None:
        """The columns that a state of rows has at least; None: states are of sums."""
        return None

    @property
    def of_rows(self) -> bool:
        """Whether a state holds the rows themselves."""
        return self.needed is not None


class Seeded(Threaded):
    """The same of a run that draws numbers."""

    seed: int = of_seed("Random seed: same seed, same result.", env="CALIBKIT_SEED", default=0)


class FitOptions(Threaded):
    """What every fit takes: what its model says of its origin, and how much of the machine it takes."""

    provenance: Literal["hash", "names", "none"] = of_output(
        "What the model records of its input: a hash of the rows, also the file names, or nothing.",
        default="hash",
    )
    tags: dict[str, str] | None = of_output(
        "Text copied into the model; may be repeated.",
        "KEY=VALUE",
        flags=("--tag",),
        many="repetition",
        read=tagged,
    )


class Rows(Options):
    """How rows are read, whatever they hold."""

    scale: Literal["probability", "percent", "logit", "raw"] = of_columns(
        "Scale of the scores; percent: 0 to 100; raw: any real number.", default="probability"
    )
    on_missing: Literal["error", "drop"] = of_input(
        "Rows without a value where one is needed: refuse the file, or leave them out "
        "and say how many.",
        default="error",
    )


class Weighted(Rows):
    """Rows that may count more than once."""

    weight: str | None = named_column(
        "Column with non-negative weights: a weight 2 is two rows.", shown="none"
    )


class Segmented(Weighted):
    """The same in segments."""

    by: str | None = named_column("Column of segments, each handled separately.", shown="none")


class Labelled(Options):
    """Which rows are positive."""

    label: str = named_column("Column with the label: 0/1, boolean or t/f.", default="label")
    positive: str | None = of_columns(
        "The value of the label column that is the positive class; all others are negative.",
        "VALUE",
        read=lambda value, _: str(value).lower() if "bool" in type(value).__name__ else str(value),
    )
    unlabelled: Literal["error", "drop"] = of_columns(
        "Rows without a label: refuse the file, or leave them out and say how many.",
        default="error",
    )


class LabelledColumns(Weighted, Labelled):
    """The columns of a fit on scores and labels."""

    score: str = named_column(SCORE_HELP, default="score")

    @property
    def columns(self) -> ColumnOptions:
        """What the columns are called, and how they are read."""
        return self.part(ColumnOptions)


class Folded(Options):
    """What the folds of cross-validation follow."""

    groups: str | None = named_column(
        "Column of rows that belong together (user, patient): they share a fold.", shown="none"
    )
    time: str | None = named_column(
        "Column of times: folds go forward, each judged by a fit on what came before.", shown="none"
    )

    @property
    def needs_each(self) -> str | None:
        """The option that needs every row as it is, if one does."""
        given = [name for name in ("groups", "time") if getattr(self, name) is not None]
        return f"--{given[0]}" if given else None

    def check_folds(self) -> None:
        """Refuse folds that would follow both."""
        if self.groups is not None and self.time is not None:
            raise UsageError("give --groups or --time: folds follow one of them.")


class ClassColumns(Options):
    """The class probabilities, and the votes that judge them."""

    probs: Names | None = of_patterns(PROBS_HELP)
    counts: str | None = of_columns(
        "Votes per class: columns by a glob that pair with --probs, or one column of lists.",
        "PATTERN",
        shown=False,
    )

    @property
    def pattern(self) -> str:
        """The pattern of the class probabilities, of one predictor; several are refused."""
        patterns = tuple(self.probs or ("prob_*",))
        if len(patterns) > 1:
            raise UsageError("a fit takes one predictor: give --probs one pattern.")
        return patterns[0]


class JudgedClasses(Labelled, Threaded, ClassColumns):
    """Class probabilities that a label judges, or votes; or else scores."""

    @property
    def of_classes(self) -> bool:
        """Whether the rows hold class probabilities."""
        return bool(self.probs or self.counts)

    @property
    def needed(self) -> Sequence[str] | None:
        """What judges class probabilities, of which all rows are needed; None: rows have scores."""
        return ([] if self.counts else [self.label]) if self.of_classes else None


class ColumnOptions(LabelledColumns):
    """The same with an uncertainty, and how weights are taken."""

    uncertainty: str | None = named_column(
        UNCERTAINTY_HELP, shown="uncertainty, if the file has it"
    )
    weight_kind: Literal["frequency", "sampling"] = of_columns(
        "What a weight 2 is: two rows, or one row that stands for two.", default="frequency"
    )

    @property
    def roles(self) -> dict[str, str]:
        """The column of each role that has one."""
        roles = ("score", "label", "uncertainty", "weight")
        return {role: getattr(self, role) for role in roles if getattr(self, role) is not None}

    @property
    def measure(self) -> str:
        """What scores are once they are read; see `calibkit.models.scales.measure`."""
        return measure(self.scale)

    @property
    def sampled(self) -> bool:
        """Whether a row stands for as many rows as its weight."""
        return self.weight is not None and self.weight_kind == "sampling"


def _listed_texts(value: Any, flag: str) -> tuple[str, ...]:
    """Return texts as a tuple, of one text those between its commas."""
    texts = value.split(",") if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(one, str) for one in texts):
        raise UsageError(f"{flag} is {value!r}; expected strings, such as NA,-999.")
    return tuple(one.strip() for one in texts)


def _date_format(value: Any, flag: str) -> str:
    text = str(value).strip()
    if text != AS_TEXT and "%" not in text:
        raise UsageError(
            f"{flag} {text!r} is no format of dates; give one such as '%d.%m.%Y', or text."
        )
    return text


class TextOptions(Options):
    """How text inputs are written."""

    delimiter: str | None = of_input(
        "The separator of CSV fields: a character, or tab.",
        "CHARACTER",
        read=lambda value, flag: separator(str(value)),
        shown="from the first lines: , ; tab or |",
    )
    decimal: Literal[".", ","] | None = of_input(
        "The decimal mark of numbers in CSV; the other mark separates thousands.",
        shown="told from all values",
    )
    null_values: tuple[str, ...] | None = of_input(
        "What stands for a missing value among the numbers of CSV, and in a label of 0 and 1, "
        "besides an empty field.",
        "TEXT,...",
        read=_listed_texts,
        shown=f"{' '.join(NULL_VALUES)}, in any case",
    )
    encoding: str | None = of_input(
        "The encoding of text, such as latin-1 or utf-16.",
        "NAME",
        read=lambda value, flag: codec(str(value)),
        shown="from the text: UTF-8, UTF-16, else Windows-1252",
    )

    date_format: str | None = of_input(
        "Format of dates in text, such as '%d.%m.%Y'; text: sort them as text.",
        "FORMAT|text",
        read=_date_format,
        shown="from all values: ISO 8601, else days and months where there is no doubt",
    )

    @property
    def dialect(self) -> Dialect:
        """How text is written."""
        return self.part(Dialect)
