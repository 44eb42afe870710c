"""Gate expressions: what is typed is what is meant, and what is printed can be typed again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.errors import UsageError
from calibkit.gates.figures import (
    ANY,
    COMPARISONS,
    PARTS,
    Address,
    Expression,
    Segment,
    address_text,
    check,
    figures,
    judge,
    parse,
    quoted,
    side_by_side,
)

METRICS: dict[str, Any] = {
    "signature": {},
    "rows": 4,
    "metrics": {
        "new": {
            "all": {"auc": 0.8, "ece": None, "recall_at_precision:0.9": 0.4, "count": 10},
            "top:0.1": {"auc": 0.6, "precision": 0.5},
        },
        "old": {"all": {"auc": 0.7, "ece": 0.02}, "top:0.1": {"auc": 0.65}},
        "a/b": {"all": {"auc": 0.9}, "country:<x>": {"auc": 0.55}},
    },
    "intervals": {"new": {"all": {"auc": {"low": 0.75, "high": 0.85}}}},
    "differences": {"new-old": {"all": {"auc": {"value": 0.1, "low": 0.02, "high": 0.18}}}},
}

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
nasty = st.one_of(
    names, st.text('/<>"*.= alowhigdet', min_size=1, max_size=8), st.just("auc.low"), st.just("1")
)
segments = st.one_of(
    nasty.map(lambda name: Segment((name,))),
    st.just(ANY),
    st.builds(lambda a, b: Segment((a, b)), nasty, nasty),
)
addresses = st.builds(
    Address, st.lists(segments, min_size=1, max_size=4).map(tuple), st.sampled_from(["", *PARTS])
)
numbers = st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0)


@given(addresses, st.sampled_from(sorted(COMPARISONS)), st.one_of(numbers, addresses))
def test_what_is_printed_reads_back(left: Address, sign: str, right: float | Address) -> None:
    if isinstance(right, Address) and not right.part and len(right.segments) == 1:
        text = right.segments[0].texts[0]
        if text.lstrip("+-")[:1].isdigit() or text[:1] == "." or text in ("inf", "nan"):
            return  # a lone number is a number
    expression = Expression(left, sign, right)
    assert parse(str(expression)) == expression


@given(st.text(max_size=20))
def test_any_text_is_an_expression_or_a_usage_error(text: str) -> None:
    try:
        expression = parse(text)
    except UsageError as error:
        assert "--fail-if" in error.message
    else:
        assert parse(str(expression)) == expression


@given(st.lists(nasty, min_size=1, max_size=3), st.sampled_from(["", *PARTS]))
def test_a_place_is_typed_as_it_is_printed(place: list[str], part: str) -> None:
    expression = parse(f"{address_text(place, part)} < 1")
    assert expression.left == Address(tuple(Segment((name,)) for name in place), part)


@given(nasty, nasty)
def test_a_star_stands_for_any_text(before: str, after: str) -> None:
    segment = parse(f"{quoted(before)}*{quoted(after)}<0").left.segments[0]
    assert segment.matches(before + after)
    assert segment.matches(f"{before}anything\nat all/{after}")
    assert ANY.matches(before)


def test_blanks_and_signs() -> None:
    wanted = Expression(Address((Segment(("auc",)),)), "<=", 0.5)
    assert parse("auc<=0.5") == parse("  auc  <=  .5 ") == parse("auc <= 5e-1") == wanted
    assert parse("auc.delta<-0.01").right == -0.01
    assert parse("auc < auc.low").right == Address((Segment(("auc",)),), "low")
    assert parse('"auc.low" < 1').left == Address((Segment(("auc.low",)),))
    assert parse('"a/b"/all/auc<1').left.segments[0] == Segment(("a/b",))
    assert parse('auc < "0.5"').right == Address((Segment(("0.5",)),))
    assert parse("class_squared_loss[3] > 1").left == Address(
        (Segment(("class_squared_loss[3]",)),)
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("auc", "no comparison"),
        ("", "no comparison"),
        ("auc=0.5", "no comparison"),
        ("<0.5", "nothing is to the left"),
        ('""<1', "nothing is to the left"),
        ("auc<", "nothing is to the right"),
        ("0<auc<1", "more than one"),
        ("auc<<1", "more than one"),
        ("/auc<1", "a name is empty"),
        ("new//auc<1", "a name is empty"),
        (".low<1", "a name is empty"),
        ('"auc<1', "not closed"),
        ("auc<nan", "no number"),
        ("auc>-inf", "no number"),
        ("auc<1e999", "beyond the range"),
    ],
)
def test_bad_grammar(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse(text)


def found(text: str, content: dict[str, Any] | None = None) -> list[tuple[str, float | None]]:
    left = parse(f"{text} < 0").left
    means = figures(content or METRICS).find(left)
    return [(address_text(place, left.part), value) for place, value in means.items()]


def test_addresses_of_metrics() -> None:
    every = [("new/all/auc", 0.8), ("old/all/auc", 0.7), ('"a/b"/all/auc', 0.9)]
    assert found("auc") == found("all/auc") == found("*/all/auc") == every
    assert found("new/auc") == found("new/all/auc") == every[:1]
    assert found('"a/b"/auc') == every[2:]
    assert found("top:0.1/auc") == [("new/top:0.1/auc", 0.6), ("old/top:0.1/auc", 0.65)]
    assert len(found("*/auc")) == len(found("*/*/auc")) == 6
    assert (
        found('"country:<x>"/auc') == found("country:*/auc") == [('"a/b"/"country:<x>"/auc', 0.55)]
    )
    assert found("recall_at_precision:0.9") == [("new/all/recall_at_precision:0.9", 0.4)]
    assert found("old/top:0.1/*") == [("old/top:0.1/auc", 0.65)]
    assert found("nothing") == found("new/nothing/auc") == found("a/b/auc") == []


def test_intervals_and_differences() -> None:
    assert found("new/auc.low") == [("new/all/auc.low", 0.75)]
    assert found("auc.high")[1:] == [("old/all/auc.high", None), ('"a/b"/all/auc.high', None)]
    assert found("auc.delta") == [("new-old/all/auc.delta", 0.1)]
    assert found("new-old/auc") == [("new-old/all/auc", 0.1)]
    assert found("new-old/auc.low") == [("new-old/all/auc.low", 0.02)]
    assert found("new-old/auc.delta") == found("auc.delta")
    assert found("new/auc.delta") == found("new/all/auc.delta") == found("auc.delta")
    assert found("old/auc.delta") == found("new/top:*/auc.delta") == []
    assert found("ece.delta") == []


def outcomes(text: str, content: dict[str, Any] | None = None) -> list[tuple[str, bool]]:
    judged = check(content or METRICS, [parse(text)])
    return [(outcome.address, outcome.failed) for outcome in judged]


def test_what_is_not_defined_fails() -> None:
    undefined, defined = check(METRICS, [parse("ece>0.1")])
    assert undefined.text == "new/all/ece is not defined: failed"
    assert not defined.failed


def test_addresses_to_the_right() -> None:
    assert outcomes("new/auc < old/auc") == [("new/all/auc", False)]
    assert outcomes("old/auc < new/auc.low") == [("old/all/auc", True)]
    # Without a score: the score on the left, where it has the metric.
    assert outcomes("top:0.1/auc < auc") == [("new/top:0.1/auc", True), ("old/top:0.1/auc", True)]
    # A star: what the left has there.
    assert outcomes("new/*/auc < old/*/auc") == [("new/all/auc", False), ("new/top:0.1/auc", True)]
    (last,) = check(METRICS, [parse('"a/b"/country:*/auc < "a/b"/auc')])
    assert last.text == ('"a/b"/"country:<x>"/auc = 0.55 < "a/b"/all/auc = 0.9: failed')
    # All scores, where the left's does not have it.
    assert outcomes('"a/b"/auc < recall_at_precision:0.9') == [('"a/b"/all/auc', False)]
    # A right side that is there for some of the left only is not defined for the others.
    assert outcomes("*/*/auc < new/*/auc")[-1] == ('"a/b"/"country:<x>"/auc', True)


def test_what_is_nowhere_is_a_usage_error() -> None:
    for text, word in (
        ("auc < new/nothing", "nothing"),
        ("ece.delta<0", "ece.delta"),
        ("top:0.10/auc<0", r"top:0.10/auc \(did you mean old/top:0.1/auc, new/top:0.1/auc"),
    ):
        with pytest.raises(UsageError, match=f"there is no .*{word}"):
            check(METRICS, [parse("auc<1"), parse(text)])


def test_equal_looking_numbers_are_shown_in_full() -> None:
    content = {"metrics": {"s": {"all": {"auc": 0.7 - 1e-9}}}}
    assert check(content, [parse("auc<0.7")])[0].text == "s/all/auc = 0.699999999 < 0.7: failed"
    content = {"metrics": {"s": {"all": {"auc": 1 / 3, "rate": 1 / 3}}}}
    (equal,) = check(content, [parse("auc<rate")])
    assert equal.text == "s/all/auc = 0.333333, not < s/all/rate = 0.333333: passed"


MODEL = {
    "kind": "boundary",
    "version": 1,
    "score_thresholds": [0.5, None, "-inf"],
    "fit": {
        "rows": 10,
        "bound_met": True,
        "cross_validated": {"recall": 0.3},
        "auc": {"low": 0.1, "high": 0.2},
    },
    "method": "exact",
}


def test_addresses_of_models() -> None:
    assert found("fit/cross_validated/recall", MODEL) == [("fit/cross_validated/recall", 0.3)]
    assert found("fit/*/recall", MODEL) == found("*/*/recall", MODEL)
    assert [value for _, value in found("score_thresholds/*", MODEL)] == [0.5, None, -float("inf")]
    assert found("fit/bound_met", MODEL)[0][1] == 1
    assert found("fit/auc.low", MODEL) == [("fit/auc.low", 0.1)]
    assert found("fit/auc/high", MODEL) == [("fit/auc/high", 0.2)]
    for text in ("recall", "method", "fit", "fit/cross_validated"):
        assert found(text, MODEL) == []
    assert outcomes("fit/*/recall < fit/auc.high", MODEL) == [("fit/cross_validated/recall", False)]


def test_a_right_side_that_the_last_place_lacks() -> None:
    content = {"a": {"x": 1, "y": 2}, "b": {"x": 3}}
    assert outcomes("*/x > */y", content) == [("a/x", False), ("b/x", True)]
    # A longer address is taken as it is.
    deep = {"a": {"x": 1, "p": {"z": 2}}, "b": {"x": {"z": 3}}}
    assert outcomes("a/x > */*/z", deep) == [("a/x", False)] * 2


def test_differences_are_of_numbers_that_have_one() -> None:
    sides = side_by_side({"a": True, "b": 1e308, "c": 1}, {"a": False, "b": -1e308, "c": 3})
    assert {name: one["delta"] for name, one in sides.items()} == {"a": None, "b": None, "c": 2}


def test_sides_without_a_place_are_numbers_like_others() -> None:
    assert found("b", {"a": 1, "b": 2, "delta": 1}) == [("b", 2)]


@given(
    st.dictionaries(nasty, st.one_of(st.none(), st.floats(-5, 5)), max_size=4),
    st.sampled_from(sorted(COMPARISONS)),
    numbers,
)
def test_a_gate_fails_where_the_comparison_holds(
    drawn: dict[str, Any], sign: str, bound: float
) -> None:
    values = {**drawn, "same": bound}
    result = figures({"metrics": {"s": {"all": values}}})
    judged = judge(result, Expression(Address((ANY,)), sign, bound))
    below, equal = sign[0] == "<", sign.endswith("=")
    assert [one.failed for one in judged] == [
        value is None or (equal if value == bound else (value < bound) == below)
        for value in values.values()
    ]
    assert all(("failed" in one.text) == one.failed for one in judged)


def test_a_name_that_begins_with_an_equals_sign_is_no_part_of_the_comparison() -> None:
    for sign in COMPARISONS:
        expression = Expression(Address((Segment(("auc",)),)), sign, Address((Segment(("=auc",)),)))
        assert str(expression) == f'auc{sign}"=auc"'
        assert parse(str(expression)) == expression
