"""What ``calibkit hetcal`` does with its options: read, fit, deliver."""

from __future__ import annotations

from dataclasses import dataclass

from calibkit.columns import ColumnOptions, resolve
from calibkit.errors import UsageError
from calibkit.hetcal.features import Features, find_features
from calibkit.hetcal.fit import fit_hetcal
from calibkit.hetcal.rows import HetcalRows, read_hetcal_rows
from calibkit.hetcal.spec import DEPTHS, LEAF_SIZES, SHRINKAGES, HetcalSpec
from calibkit.outputs import spare_inputs
from calibkit.sources import STDIN, Source, open_source
from calibkit.threads import later, warm_up

from .console import Console
from .dry_run import show_plan, used_columns
from .views.hetcal import hetcal_lines, view


@dataclass(frozen=True, kw_only=True)
class HetcalRun:
    """One run of the command, its options read.

    Attributes
    ----------
    console
        Where everything is said.
    spec, columns, features
        What to fit, on which columns.
    train
        The inputs to grow the partition on; none: the calibration rows.
    input_format, dtype
        How inputs are read.
    provenance, tags
        What the model says of its origin.
    """

    console: Console
    spec: HetcalSpec
    columns: ColumnOptions
    features: list[str]
    train: list[str]
    input_format: str | None
    dtype: str
    provenance: str
    tags: dict[str, str]

    def show_plan(self, source: Source) -> None:
        """Print what the run would do."""
        spec = self.spec
        resolved = resolve(source, self.columns, label=True, uncertainty=False)
        columns = used_columns(resolved, label=True)
        for place, name in enumerate(self._feature_names(source), 1):
            columns[f"feature {place}"] = name
        chosen = [
            f"{name} from {', '.join(f'{value:g}' for value in values)}"
            for name, value, values in (
                ("depth", spec.max_depth, DEPTHS),
                ("leaf size", spec.min_leaf, LEAF_SIZES),
                ("shrinkage", spec.shrinkage, SHRINKAGES),
            )
            if value is None and spec.partition == "tree"
        ]
        grown = ", ".join(self.train) or "the same rows"
        steps = [
            f"grow a {spec.partition} partition on {grown}, and fit a {spec.map} map to each leaf"
        ]
        if chosen:
            steps.append(f"choose by cross-validation {'; '.join(chosen)}")
        show_plan(self.console, source, columns, steps)

    def fit(self, source: Source) -> None:
        """Fit one model on all inputs."""
        console = self.console
        stdin = any(part.path == STDIN for part in source.parts)
        if stdin and STDIN in self.train:
            raise UsageError("standard input can be read once only; give --train a file.")
        train = None
        if self.train:
            train = open_source(self.train, input_format=self.input_format, dtype=self.dtype)
        for one in (source, train):
            if console.output not in (None, "-") and one is not None:
                spare_inputs(console.output, one.parts)
        later(self.spec.threads, warm_up)
        names = self._feature_names(source)
        grown = None
        if train is not None and self.spec.partition != "boosted":
            grown = self._read(train, names, None, "--train: ")
        rows = self._read(source, names, grown.features if grown else None, "")
        fitted = fit_hetcal(
            rows,
            self.spec,
            train=grown,
            provenance=self.provenance,
            tags=self.tags,
        )
        if train is not None and grown is None:
            console.warn(
                "--train takes no part: --partition boosted learns what the scores miss, which only "
                "rows that the base model has not seen can tell"
            )
        for remark in fitted.warnings:
            console.warn(remark)
        if console.output is not None or not console.on_terminal:
            console.summary(*hetcal_lines(fitted.model))
        console.model(fitted.model.to_json(), lambda: view(fitted.model, console))
        console.wrote("Model")

    def _feature_names(self, source: Source) -> list[str]:
        columns = self.columns
        taken = {columns.score: "--score", columns.label: "--label"}
        if columns.weight is not None:
            taken[columns.weight] = "--weight"
        if self.spec.groups is not None:
            source.require([self.spec.groups], "--groups")
            taken[self.spec.groups] = "--groups"
        return find_features(source, self.features, taken)

    def _read(
        self, source: Source, names: list[str], known: Features | None, prefix: str
    ) -> HetcalRows:
        source.require(names, f"{prefix}--features")
        rows = read_hetcal_rows(
            source,
            self.columns,
            names,
            known=known,
            groups=None if prefix else self.spec.groups,
            folds=self.spec.folds,
            seed=self.spec.seed,
        )
        for remark in rows.data.warnings:
            self.console.warn(f"{prefix}{remark}")
        self.console.detail(f"{prefix}{rows.count:,} rows used of {rows.data.rows_read:,} read")
        return rows
