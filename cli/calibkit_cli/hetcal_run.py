"""What ``calibkit hetcal`` does with its options: read, fit, deliver."""

from __future__ import annotations

from dataclasses import dataclass

from calibkit.columns import ColumnOptions, resolve
from calibkit.errors import UsageError
from calibkit.hetcal.run import feature_columns, fit_source
from calibkit.hetcal.spec import DEPTHS, LEAF_SIZES, SHRINKAGES, HetcalSpec
from calibkit.makers import record_makers
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
        names = feature_columns(source, self.features, self.columns, spec)
        for place, name in enumerate(names, 1):
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
        run = fit_source(
            source,
            train,
            self.columns,
            self.features,
            self.spec,
            provenance=self.provenance,
            tags=self.tags,
        )
        fitted = run.fitted
        record_makers(fitted.model, source)
        for remark in run.warnings:
            console.warn(remark)
        for remark in run.details:
            console.detail(remark)
        if console.output is not None or not console.on_terminal:
            console.summary(*hetcal_lines(fitted.model))
        console.model(fitted.model.to_json(), lambda: view(fitted.model, console))
        console.wrote("Model")
