"""Exported SQL on a PostgreSQL server of its own; passed over where none is installed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import msgspec
import polars as pl
import pytest

from calibkit.exports.export import (
    applied,
    compared,
    export_model,
    probes,
    program_of,
    with_classes,
)
from calibkit.files.sources import Source
from calibkit.models.kinds import Request
from calibkit.models.model import Column, Model, load
from tests import export_models
from tests.cli import test_segment_names
from tests.library.test_export import HOSTILE, MODEL, TABLE
from tests.postgres.server import Server, find_programs, running

#: One of each kind, method and shape; all of them are on DuckDB.
CHECKED = (
    *("levels", "float32", "block", "tie", "score-first", "by-year", "raw", "vad-by", "tandem"),
    *("tree", "tree-steps", "boosted", "alpha-features", "classes-list", "prior-shift-raw"),
    *("scaling-binning-falling", "venn-abers-by", "bundle-by"),
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    programs = find_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (no initdb)")
    with running(programs) as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exported")


def assert_agrees(server: Server, model: Model, request: Request, rows: pl.DataFrame) -> None:
    """Compare the model's columns on rows, and on rows made on its thresholds."""
    request = with_classes(model, request, Source.from_frame(rows))
    program = program_of(model, request)
    names = program.columns()
    rows = rows.select([pl.selectors.by_name(name) for name in names])
    frame = pl.concat([rows, probes(program, rows, request.key)[:20_000]], how="vertical_relaxed")
    expected = applied(model, request, frame)
    server.load('"scores"', frame.with_row_index("place"))
    found = server.query(export_model(model, "postgres", request)).sort("place")
    agreement = compared(found.select(expected.columns), expected, rows.height)
    assert agreement.holds, str(agreement)


@pytest.mark.few(11)
@pytest.mark.parametrize("name", CHECKED)
def test_every_kind_agrees_with_apply(name: str, server: Server, folder: Path) -> None:
    request = Request(key="id") if name in export_models.RANDOM else Request()
    model = load(str(export_models.fit(name, folder)))
    assert_agrees(server, model, request, export_models.rows(800))


@pytest.mark.parametrize("scale", ["probability", "logit"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_ends_of_the_scale_and_the_smallest_numbers(
    scale: str, dtype: str, server: Server
) -> None:
    columns = MODEL.columns | {"score": Column("score", dtype, scale)}
    thresholds = [5e-324 if dtype == "float64" else 2.0**-149, None, "-inf"]
    model = msgspec.structs.replace(MODEL, columns=columns, score_thresholds=thresholds)
    ends = [0.0, -0.0, 5e-324, 1e-50, 1e-46, 2.0**-149, 0.5, 1.0, 1 - 2**-53, None, math.nan]
    if scale == "logit":
        ends += [1e-300, -1e-300, 1e30, -1e30, math.inf, -math.inf]
    pairs = [(score, spread) for score in ends for spread in (0.1, 2.0, 9.0, None)]
    schema = {"score": pl.Float64, "uncertainty": pl.Float64}
    assert_agrees(server, model, Request(), pl.DataFrame(pairs, schema=schema, orient="row"))


@pytest.mark.parametrize("method", ["platt-logit", "temperature-logit", "beta-logit"])
def test_maps_of_very_large_and_very_small_logits(
    method: str, server: Server, folder: Path
) -> None:
    model = load(str(export_models.fit(method, folder)))
    sizes = [0.0, 5e-324, 1e-310, 1e-20, 1.0, 700.0, 746.0, 1e10, 1e300]
    scores = [sign * size for size in sizes for sign in (1, -1)]
    assert_agrees(server, model, Request(), pl.DataFrame({"logit": scores}))


def test_disagreements_of_certain_classes(server: Server, folder: Path) -> None:
    rows = [[1.0, 0.0, 0.0], [1 - 1e-200, 1e-200, 0.0], [0.0, 5e-324, 1.0], [1e-300, 1.0, 1e-160]]
    frame = pl.DataFrame(rows, schema=["prob_0", "prob_1", "prob_2"], orient="row")
    for name in ("alpha", "alpha-probs", "alpha-sorted"):
        model = load(str(export_models.fit(name, folder)))
        assert_agrees(server, model, Request(), frame)


@pytest.mark.parametrize("case", test_segment_names.CASES)
@pytest.mark.filterwarnings("ignore::calibkit.CalibkitWarning")
def test_segments_of_any_type(case: str, server: Server) -> None:
    frame = test_segment_names.rows(test_segment_names.CASES[case][0])
    assert_agrees(server, test_segment_names.fit(frame), Request(), frame)


def test_names_are_names_whatever_they_hold(server: Server) -> None:
    frame = pl.DataFrame({"score": TABLE["score"], "uncertainty": TABLE["uncertainty"]})
    expected = applied(MODEL, Request(), frame)
    for name in HOSTILE:
        columns = MODEL.columns | {"score": Column(name, "float64", "probability")}
        model = msgspec.structs.replace(MODEL, columns=columns)
        table = '"' + name.replace('"', '""') + '"'
        read = table if "." in name or name.startswith('"') else name
        server.load(table, frame.rename({"score": name}).with_row_index("place"))
        found = server.query(export_model(model, "postgres", table=read)).sort("place")
        agreement = compared(found.select(expected.columns), expected, frame.height)
        assert agreement.holds, f"{name!r}: {agreement}"


def test_texts_are_texts_whatever_they_hold(server: Server, folder: Path) -> None:
    model = load(str(export_models.fit("beta-by", folder)))
    assert isinstance(model.groups, dict)
    maps = dict(zip(HOSTILE, [*model.groups.values()] * len(HOSTILE), strict=False))
    model = msgspec.structs.replace(model, groups=maps)
    texts = [HOSTILE[place % len(HOSTILE)] for place in range(149)]
    frame = pl.DataFrame({"score": TABLE["score"], "region": [*texts, "unseen"]})
    for backslashes in ("on", "off"):
        setting = f"ALTER DATABASE postgres SET standard_conforming_strings = {backslashes};"
        server.psql(f"{setting} ALTER DATABASE postgres SET escape_string_warning = off;".encode())
        assert_agrees(server, model, Request(), frame)
    server.psql(b"ALTER DATABASE postgres RESET ALL;")


def test_a_name_that_postgres_would_cut_off_is_refused() -> None:
    from calibkit.errors import UsageError
    from calibkit.maps.model import CalibratorModel

    model = load_classes("c" * 60)
    assert isinstance(model, CalibratorModel)
    with pytest.raises(UsageError, match="63 bytes"):
        export_model(model, "postgres")


def load_classes(name: str) -> Model:
    from calibkit.maps.model import CalibratorModel, MapFit

    seen = dict.fromkeys(MapFit.__struct_fields__[:8], 0)
    return CalibratorModel(
        kind="calibrator",
        version=1,
        columns={"probs": Column("prob_*", "float64", "probability")},
        method="temperature",
        clip=0.0,
        classes=[name, "b"],
        temperature=1.5,
        fit=MapFit(**seen),
    )
