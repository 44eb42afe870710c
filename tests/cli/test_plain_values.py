"""Values that need no validator, and that typer finds the same for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from typer.models import OptionInfo

from calibkit_cli.declare import NOT_PLAIN, plain
from tests.test_architecture import loaded_by

CALIB = str(Path(__file__).parents[2] / "sample_data" / "calib.parquet")
CHOICE = Literal["one", "two"]
BOUNDED = OptionInfo(min=0, max=9)


@pytest.mark.parametrize(
    ("value", "annotation", "found"),
    [
        ("text", str, "text"),
        ("", str, ""),
        ("one", CHOICE, "one"),
        (("a", "b"), list[str], ["a", "b"]),
        (5, int, 5),
        ("-12", int, -12),
        ("0.5", float, 0.5),
        (0.5, float, 0.5),
    ],
)
def test_values_of_their_type_are_taken_as_typer_takes_them(
    value: Any, annotation: Any, found: Any
) -> None:
    from typer._adapters import build_adapter

    taken = plain(value, annotation, OptionInfo())
    assert (taken, type(taken)) == (found, type(found))
    assert taken == build_adapter(annotation, OptionInfo()).validate_python(value)


@pytest.mark.parametrize(
    ("value", "annotation"),
    [("three", CHOICE), ("1e3", float), ("5.0", int), (" 5", int), ("٥", int), (5, float)],
)
def test_other_values_are_left_to_typer(value: Any, annotation: Any) -> None:
    assert plain(value, annotation, OptionInfo()) is NOT_PLAIN


@pytest.mark.parametrize(("value", "inside"), [("9", True), ("10", False), ("-1", False)])
def test_numbers_are_taken_within_their_bounds(value: str, inside: bool) -> None:
    assert (plain(value, int, BOUNDED) is not NOT_PLAIN) == inside


def test_a_value_with_a_parser_is_left_to_it() -> None:
    assert plain("text", str, OptionInfo(parser=str.upper)) is NOT_PLAIN


def test_a_small_run_loads_no_validator() -> None:
    command = ("boundary", CALIB, "--precision", "0.7", "--folds", "0", "--dry-run", "-q")
    assert "pydantic" not in loaded_by(*command)
