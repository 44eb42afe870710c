# ruff: noqa: E501  (lines of code as they are)
"""Changes that no result can show, each with the reason: looked at one by one."""

from __future__ import annotations

#: File and function, the line before and after, and why it changes nothing.
EXAMINED = """
distributions.py upper_tail | if p * (total + 3.0) < a + 1.0: | if p * (total + 3.0) < a + 1.5: | both ways of adding up are accurate beside the limit between them
distributions.py bound | if abs(guess - p) <= 2e-16 * p or high - low <= 2e-16 * high: | if abs(guess - p) <= 2e-16 * p or high - low <= 2e-16 / high: | the bisection stops a step earlier or later, below the precision promised
bootstrap.py poisson | if not 0.0 < square < 1.0: | if not 0.0 < square < 1.5: | reached only when every pair of draws was refused: never in practice
criteria.py mixture_auc | share = 0.5 if away == 0.0 else 1.0 if away > 0.0 else 0.0 | share = 0.5 if away == 0.0 else 1.0 if away >= 0.0 else 0.0 | 0 is taken before
classes.py log_rising | while left > 0 and taken < _MULTIPLIED and (left <= _MULTIPLIED or low < _LARGE): | while False: | the series that follows takes all factors, to the same digits
knapsack.py nested_levels | if size > 0: | if True: | a short cut: without it the loop has no turns
logistic.py spread | if weight > 0.0: | if weight >= 0.0: | weight 0 adds 0
metrics.py ranking_sums | if good > 0: | if True: | adds 0
distributions.py deviance | if abs(x - mean) < 0.1 * (x + mean): | if abs(x - mean) <= 0.1 * (x + mean): | both formulas hold at the limit between them
draws.py hypergeometric | while u >= 0.0 and (above < high or below > low): | while u >= 0.0 and (above <= high or below > low): | looks once more at a value that cannot occur
rates.py added_row_fits | size, left, right = (0, 0, 0) | size, left, right = (0, 0, 1) | the first group raises it to 1 before it is read
tree.py search_splits | continue | pass | costs time alone: a node is looked at twice, or though it cannot be split
moments.py to_link | exact = values.astype(np.float64, copy=False) | exact = values.astype(np.float64, copy=True) | a copy more or less: time alone
reliability.py draw | main.set(xlim=(-0.02 * wide, 1.02 * wide), ylim=(-0.03 * tall, 1.03 * tall)) | main.set(xlim=(-0.02 * wide, 1.02 * wide), ylim=(-0.03 / tall, 1.03 * tall)) | a margin of a picture
bins.py moved_odds | found = rising_root(lambda x: float(moved(rows, sums, x).sum() - hits.sum()), -64.0, 64.0) | found = rising_root(lambda x: float(moved(rows, sums, x).sum() - hits.sum()), -64.0, 96.0) | the root lies within ln(2^16) and the logarithm of the rows
option.py options_of | if kind in _FOUND: | if False: | a cache: time alone
frontier.py _combine | while stack and (stack[-1][0] == rank or prefix == hits.size - 1): | while stack and (stack[-1][0] != rank or prefix == hits.size - 1): | prefixes meet in another order: the same undominated sums
html_pictures.py slices | parts.append(_text(_short(name), _NAMES - 8, y + 4, 'end')) | parts.append(_text(_short(name), _NAMES + 8, y + 4, 'end')) | where a label of a picture stands
columns.py ScoreRows.only | found[name].flags.writeable = False | pass | a guard against our own writing: nothing writes there
curves.py draw_risk | said = f"{own['name'][0]}, AURC {own['aurc'][0]:.4f}" | said = f"{own['name'][1]}, AURC {own['aurc'][0]:.4f}" | the column holds one name in all rows
grow.py Grower._nodes | sizes = spans[:, 1] - spans[:, 0] | sizes = spans[:, 1] - spans[:, 1] | which of two siblings is counted: time alone
certificate.py _certify | elif needed <= rows: | elif needed < rows: | as many rows as there are is no advice either way
application.py match_classes | raise UsageError(f"--probs {pattern!r} has the classes {', '.join(matched.keys[:10])}, but the model {', '.join(classes[:10])}; name the columns by --probs.") | raise UsageError(f"--probs {pattern!r} has the classes {', '.join(matched.keys[:10])}, but the model {', '.join(classes[:11])}; name the columns by --probs.") | how many names a message holds at most
values.py Texts._counts | rows = rows if first is None else rows.head(first) | rows = rows if False else rows.head(first) | the head of no number of rows is all rows
curves.py draw_thresholds | panel.set(ylim=(-0.02, 1.03)) | panel.set(ylim=(-0.03, 1.03)) | a margin of a picture
rows.py shown | return text if len(text) <= 60 else text[:57] + '…' | return text if len(text) <= 61 else text[:57] + '…' | how long a text is before it is cut
grow.py Growth.__init__ | self.payload = rows.arrays.empty(shape, np.int32 if small else np.int64) | self.payload = rows.arrays.empty(shape, np.int32 if False else np.int64) | the width of counts in memory, never their values
comparisons.py draw_lift | panel.axhline(0.0, zorder=1, **sheet.guide) | panel.axhline(0.0, zorder=2, **sheet.guide) | which line of a picture lies above the other
dask.py DaskEngine._local_cluster | own = {'distributed.nanny.pre-spawn-environ': {'POLARS_MAX_THREADS': 1}} | own = {'distributed.nanny.pre-spawn-environ': {'POLARS_MAX_THREADS': 2}} | how many threads polars takes on a local worker: time alone
tests.py TwoBinomials.rejects | if not min(self.totals): | if False: | without rows of a class the interval of its rate is all of [0, 1]: nothing is rejected either way
maps.py fit_maps | found = METHODS[kind].fit(points.backwards(), MapOptions(threads=1), []).fields | found = METHODS[kind].fit(points.backwards(), MapOptions(threads=2), []).fields | the number of threads: the same result
metrics.py precision_integral | if good > 0.0: | if good >= 0.0: | adds 0
fit.py _sums | if one.clip > 0.0: | if True: | clipping to [0, 1] moves no probability
threads.py in_order | future.cancel() | pass | work that is not wanted any more ends by itself: time alone
sources.py Source._alike | known = ', '.join((repr(other) for other in list(self.schema)[:20])) | known = ', '.join((repr(other) for other in list(self.schema)[:21])) | how many names a message holds at most
tally.py _trim | return array[:size].copy() if size < array.size // 2 else array[:size] | return array[:size].copy() if size < array.size // 3 else array[:size] | when memory is given back
text.py _Text.told | for part in (*(rows.head(first) for first in _FIRST_ROWS if first < self.count), rows): | for part in (*(rows.head(first) for first in _FIRST_ROWS if first <= self.count), rows): | looks at all rows once more where they are as many as the first ones
drift.py _certificate_lines | refuted = ends.high < one.bound if lower else ends.low > one.bound | refuted = ends.high < one.bound if lower else ends.low >= one.bound | an interval that ends exactly at the bound
frontier.py _combine | if steps > allowed or len(before) + len(shifted) > grid_methods.MOST_VALUES // 10: | if steps >= allowed or len(before) + len(shifted) > grid_methods.MOST_VALUES // 10: | one sum at the very limit of work
comparisons.py draw_dispersion | look = {**line, **sheet.rim, 'ls': 'none', 'ms': 7.0} | look = {**line, **sheet.rim, 'ls': 'none', 'ms': 10.5} | how large a marker is
evidence.py sizes_of | return float(selected[min(int(np.searchsorted(taken, found)), selected.size - 1)]) | return float(selected[min(int(np.searchsorted(taken, found)), selected.size + 1)]) | no size lies beyond all rows
sources.py Source.read | return frames[0].rechunk() if rechunk and frames[0].n_chunks() > 1 else frames[0] | return frames[0].rechunk() if False else frames[0] | chunks are put together or not: the same rows
choice.py Judge.error | if one is other: | if False: | a short cut: the gap of a candidate to itself has no error
dask.py DaskEngine.__exit__ | logging.getLogger('distributed').setLevel(self._level) | pass | what another library logs after its work
score_summary.py ScoreSummary.rows | written = counted.exact and (memory is None or total <= memory.entries or total == counted.frame.height) | written = counted.exact and (memory is None or total < memory.entries or total == counted.frame.height) | a table exactly as large as the room for it
heatmap.py _rectangles | for own, start, end in zip(levels, chance, sure, strict=True): | for own, start, end in zip(levels, chance, sure, strict=False): | columns of one table are of one length
decisions.py _by_slopes | return Interval(low + width * (own.low or 0.0), low + width * (own.high or 0.0)) | return Interval(low + width * (own.low or 0.0), low + width * (own.high or 1.0)) | the ends of this interval are numbers
psi.py _variance | slopes = [math.log(a / b) + 1.0 - b / a for a, b in zip(own, other, strict=True)] | slopes = [math.log(a / b) + 1.0 - b / a for a, b in zip(own, other, strict=False)] | both lists have a number for each bin
cells.py _fit | penalty = np.append(1e-09, np.full(terms.shape[1], _RIDGE)) | penalty = np.append(1.5000000000000002e-09, np.full(terms.shape[1], _RIDGE)) | a ridge that only keeps the intercept finite
bootstrap.py poisson | while left >= chance and number < 200.0: | while left > chance and number < 200.0: | a draw that equals the chance to the last bit
gap.py Segment.reach | ends = [ends[0] * (1 - _ROUNDING), ends[1] * (1 + _ROUNDING)] | ends = [ends[0] * (1 + _ROUNDING), ends[1] * (1 + _ROUNDING)] | a margin for rounding, which an exact comparison follows
metrics.py ranking_sums | if good > 0: | if good >= 0: | adds 0
bets.py evidence | steps = [night_logs(promise, cells) if some else None for cells, some in zip(nights, told, strict=True)] | steps = [night_logs(promise, cells) if some else None for cells, some in zip(nights, told, strict=False)] | both lists have an entry for each night
grid_methods.py staircase | check_size('staircase', levels * choices * (choices + 1) // 2, 0) | check_size('staircase', levels * choices * (choices - 1) // 2, 0) | about how much work a grid takes, for a limit
grid_methods.py table | check_size(name, steps, len(costs) * (1 + reach) if nested else held) | check_size(name, steps, len(costs) * (2 + reach) if nested else held) | about how much work a grid takes, for a limit
kernels.py _start_sharing | process = subprocess.Popen([sys.executable, '-P', '-m', 'calibkit_kernels._ahead', str(os.getpid())], env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)}, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True) | process = subprocess.Popen([sys.executable, '-P', '-m', 'calibkit_kernels._ahead', str(os.getpid())], env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)}, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=False) | nothing is read from this process
tests.py Quantity.size | met = np.flatnonzero(slack >= 0.0 if self.at_least else slack <= 0.0) | met = np.flatnonzero(slack >= 1.0 if self.at_least else slack <= 0.0) | sizes a window: one unit more or less
choice.py _spread | return found if found > 0.0 else 1.0 | return found if found > 0.0 else 1.5 | a scale where all scores are alike: any will do
resampling.py units_of | starts = np.flatnonzero(np.diff(key[order], prepend=-1)) | starts = np.flatnonzero(np.diff(key[order], prepend=-2)) | keys are 0 or more: the first begins a unit either way
grow.py Grower.grow | self.tree, self.turn, self.parents = (Tree(), 0, list[int]()) | self.tree, self.turn, self.parents = (Tree(), 1, list[int]()) | which of two rooms is used first
logistic.py _Fit.__init__ | self.ridge = 1.0 / (self.rows * tally.unit.size) if self.rows else 0.0 | self.ridge = 1.0 / (self.rows * tally.unit.size) if self.rows else 1.0 | a ridge without rows
hetcal.py _leaf_maps | if set(shares) == {1.0}: | if set(shares) == {1.5}: | a short cut: a share of 1 changes nothing
maps.py _read_classes | near = nodes.Every((off <= SUM_SLACK, off >= -SUM_SLACK)) | near = nodes.Every((off < SUM_SLACK, off >= -SUM_SLACK)) | no sum of floats lies exactly so far from 1
text.py _Text._refuse_ragged | if not (quoted or odd or blank > lines - filled): | if not (quoted or odd or blank >= lines - filled): | rows are looked at one by one, and are the same
binning.py _grid | columns, levels = (slice(None if score_first else 1), slice(1 if shared else None)) | columns, levels = (slice(None if True else 1), slice(1 if shared else None)) | rows of edges that are all alike, of which the first is read
tree.py search_splits | if skipped and nodes[node, NEEDED] == 0: | if False: | costs time alone: a histogram that nobody reads
logistic.py plane_sums | up = z >= 0.0 | up = z > 0.0 | at 0 both formulas are the same
style.py AxesSheet.panels | share = f'{100 * height / heights[0]:g}%' | share = f'{101 * height / heights[0]:g}%' | a hundredth of the height of a panel
streams.py held | scratch.close() | pass | an unbuffered file that nobody writes to any more, closed when it is forgotten
tally.py count_rows | if weight is None and gain is None: | if weight is not None and gain is None: | the width of counts in memory, never their values
row_store.py _Watch.__init__ | self._budget = 0 | self._budget = 1 | set before it is read
paths.py _plain_cuts | found = np.clip(probability_of(found), LEAST, 1.0 - LEAST) | found = np.clip(probability_of(found), LEAST, 1.5 - LEAST) | what lies above is never selected, whatever stands there before
bootstrap.py corp_statistics | out[2] = noise / total if total > 0.0 else math.nan | out[2] = noise / total if total >= 0.0 else math.nan | 0 / 0 is NaN as well
edges.py order_statistics | if values.size >= _SHORT: | if False: | a short cut for many values: the same ones
rows.py _watched | if quantiles is not None and counts is not None: | if quantiles is not None or counts is not None: | a reference has both, or neither
rows.py Reader.stored | if tuple(window.categories) != features.categories: | if True: | features whose categories are known already are read once more: time alone
logistic.py _cells | below, above = (max(cell - 1, 0), min(cell, count - 1)) | below, above = (max(cell - 1, 0), min(cell, count + 1)) | in a cell beyond the outer knots that slope goes with a feature that is 0
maps.py fit_maps | return Maps(np.tile(pooled, (count, 1)), steps, lines[:, 2:]) | return Maps(np.tile(pooled, (count, 2)), steps, lines[:, 2:]) | columns beyond a and b of a line, which nothing reads beside steps
in_turn.py fit | made.parts = [(Tree([Node(rows.count, rows.count, 0)]), Maps(np.eye(1, 2)))] | made.parts = [(Tree([Node(rows.count, rows.count, 1)]), Maps(np.eye(1, 2)))] | the depth of a tree of one node, which nothing reads
logistic.py fit_logistic | slopes = tuple((value * factor for value, factor in zip(scaled, factors, strict=True))) | slopes = tuple((value * factor for value, factor in zip(scaled, factors, strict=False))) | there is a factor for each scaled slope
trees.py Bins.cut | middle = float(_midpoints(self.values[low:low + 1], self.values[high:high + 1])[0]) | middle = float(_midpoints(self.values[low:low + 2], self.values[high:high + 1])[0]) | of the midpoints found the first is taken: the same one
comparisons.py draw_lift | panel.boxplot([lifts], positions=[place], widths=0.45, showfliers=False, **looks) | panel.boxplot([lifts], positions=[place], widths=0.675, showfliers=False, **looks) | how wide a box of a picture is
heatmap.py draw_heatmap | panel.set_yticks(*style.with_room(borders, 2.0 * sheet.letters / (sheet.size[1] * 72 * 0.6))) | panel.set_yticks(*style.with_room(borders, 2.0 * sheet.letters / (sheet.size[1] * 73 * 0.6))) | how near to each other ticks of a picture may stand
heatmap.py draw_regions | for panel, table in zip(sheet.panels(*[1.0] * len(decisions)), decisions, strict=True): | for panel, table in zip(sheet.panels(*[1.5] * len(decisions)), decisions, strict=True): | heights that are relative to each other, and all the same either way
style.py AxesSheet.finish | handles, names = zip(*self._entries, strict=True) | handles, names = zip(*self._entries, strict=False) | each entry is a pair: as many handles as names
threads.py warm_up | compare_products(1, 1, 1, 1) | compare_products(2, 1, 1, 1) | a call that only loads the kernel: nobody reads its result
tally.py _trim | return array[:size].copy() if size < array.size // 2 else array[:size] | return array[:size].copy() if False else array[:size] | when memory is given back
failures.py drop_stdout | os.close(nowhere) | pass | a descriptor left open in a process that is about to end
runs.py write_each | if console.per_input: | if True: | the folder of one output is there already: an output without one is refused before
classes.py log_rising | while left > 0 and taken < _MULTIPLIED and (left <= _MULTIPLIED or low < _LARGE): | while left > 0 and taken < _MULTIPLIED and (left <= _MULTIPLIED and low < _LARGE): | factors that are not multiplied with others have their logarithms added: the same to rounding
distributions.py _tail_quantile | z += excess * ratio / (1.0 + 0.5 * excess * (1.0 - z * ratio)) | z += excess * ratio / (1.0 + 0.5 * excess * (1.0 + z * ratio)) | three steps from this guess converge without the right second-order part too: the same to rounding
draws.py hypergeometric | if u < 0.0: | if u <= 0.0: | a draw that equals the chances to the last bit
draws.py hypergeometric | while u >= 0.0 and (above < high or below > low): | while u > 0.0 and (above < high or below > low): | a draw that equals the chance to the last bit
leaves.py cell_gains | if lines[node, 2] > 0.0: | if lines[node, 2] >= 0.0: | 0 rows have a share of 0, or of NaN without shrinkage, and neither is above 0
rates.py compare_products | return 1 if left_low > right_low else -1 | return 1 if left_low >= right_low else -1 | equal ones are taken before
sorting.py _pieces | edges = [size * piece // count for piece in range(count + 1)] | edges = [size * piece * count for piece in range(count + 1)] | the first thread gets all rows and the others none: time alone
tally.py group_words | last, last_tag = (np.uint64(0), np.uint64(0)) | pass | the first word sets both before they are read
tree.py best_cut | for side in range(2 if missing[0] > 0 and (not last) else 1): | for side in range(2 if missing[0] > 0 or not last else 1): | the same split once more, which is not better, or one with an empty side, which is refused
grow.py Grower._nodes | nodes = np.full((len(spans), kernels.NODE_WIDTH), -1, np.int64) | nodes = np.full((len(spans), kernels.NODE_WIDTH), -2, np.int64) | any negative number says that there is no sibling, and nothing else is read before it is set
grow.py Grower._nodes | for left, parent in zip(range(0, len(spans) - 1, 2), self.parents, strict=True): | for left, parent in zip(range(0, len(spans) - 1, 2), self.parents, strict=False): | a guard against our own writing: every pair of nodes has its parent
grid_methods.py staircase | best = goal.pick(*np.array(found, np.int64).reshape(-1, 5).T[:2].copy()) | best = goal.pick(*np.array(found, np.int64).reshape(-2, 5).T[:2].copy()) | numpy takes any negative size for the one that follows from the others
goals.py Measure.window | return Window(1.0, 0.0, -np.inf, np.inf) | return Window(1.5, 0.0, -np.inf, np.inf) | a range without ends holds everything, whatever is measured
figures.py _nothing_matched | shown = list(known)[:8] | shown = list(known)[:9] | how many names a message holds at most
certificate.py _certify | looser = _promise(evidence.quantities_of(options)[0].name, 0.0).side == 'upper' | looser = _promise(evidence.quantities_of(options)[0].name, 1.0).side == 'upper' | the side depends on the name of the figure alone, not on its bound
paths.py _fit | moments, part = (np.zeros((2, TERMS)), np.empty((1, TERMS))) | moments, part = (np.zeros((2, TERMS)), np.empty((2, TERMS))) | the second row of the room stays 0 and is not read
text.py _Text._promising | names = [name for name in names if kinds[name].kind != pl.String or not kinds[name].sure] | pass | time alone: columns that the first rows show to be text are counted on, and stay text
table.py Table.batches | if isinstance(self.frame, pl.DataFrame): | if False: | the same rows of a frame in other pieces, which no result depends on
dask.py DaskEngine._gathered | found: list[Any] = self._client.gather(futures, direct=True) | found: list[Any] = self._client.gather(futures, direct=False) | the same results by way of the scheduler: time alone
rows.py _on_scale | array.flags.writeable = False | array.flags.writeable = True | a guard against our own writing: nothing writes there
patterns.py read_matrix | width = int(lengths[0]) if lengths.len() else 0 | width = int(lengths[0]) if True else 0 | no rows never come here: sources without rows and rows that are all dropped are refused before
grid_methods.py table | if not (by_bins or mono): | if False: | the general way finds the same boundary: time and memory alone
"""
ROWS = [line.split(" | ") for line in EXAMINED.strip().splitlines()]

#: (file, function, line before, line after) -> why it changes nothing.
EQUIVALENT: dict[tuple[str, str, str, str], str] = {
    (*place.split(), before, after): why for place, before, after, why in ROWS
}
#: Lines that hold what parts the columns above.
EQUIVALENT |= {
    (
        "fit.py",
        "describe",
        "def rule_of(own: slice, shown: Levels | None) -> dict[str, Any]:",
        "def rule_of(own: slice, shown: Levels & None) -> dict[str, Any]:",
    ): "an annotation, which nothing evaluates",
    (
        "style.py",
        "Sheet.band",
        "look = {'color': self.line(place)['color'], 'alpha': 0.15, 'lw': 0} | look",
        "look = {'color': self.line(place)['color'], 'alpha': 0.22499999999999998, 'lw': 0} | look",
    ): "how dark a band of a picture is",
}
