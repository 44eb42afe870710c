"""After the trees: the maps of the leaves, where they are not Platt's, round by round."""

from __future__ import annotations

from calibkit.hetcal.rounds.bins import cut_finer, first_cuts, rates_of
from calibkit.hetcal.rounds.curves import bent, curve_array, first_curves
from calibkit.hetcal.rounds.ends import mapped_end_of
from calibkit.hetcal.rounds.isotonic import blocks_of, cut_stretches, first_stretches
from calibkit.hetcal.rounds.known import BEND, FINISH, POOL, RATE, SEEK, Known
from calibkit.hetcal.rounds.tables import What, array_of
from calibkit.hetcal.states import HetcalProblem
from calibkit.rounds.protocol import Sums
from calibkit_kernels import rounds as kernels


def begin(known: Known, problem: HetcalProblem) -> None:
    """Go on to the maps of the leaves if they are not Platt's, else to the figures of the fit."""
    steps = {"beta": BEND, "histogram": SEEK, "isotonic": POOL}
    known.step = steps.get(problem.spec.map, FINISH)
    if known.step == BEND:
        known.curves = first_curves(mapped_end_of(known, problem), known.rows)
    elif known.step == SEEK:
        known.cuts = first_cuts(mapped_end_of(known, problem))
        _begin_rates(known)
    elif known.step == POOL:
        known.stretches = first_stretches(mapped_end_of(known, problem))
        _end_pools(known)


def _begin_rates(known: Known) -> None:
    """Go on to the rates of the bins, once all of these are known."""
    if not any(edges.buckets for edges in known.cuts):
        known.step = RATE


def _end_pools(known: Known) -> None:
    """Go on to the figures of the fit, once no stretch of scores can hold a corner."""
    if all(one.lows == one.highs for one in known.stretches):
        known.cuts, known.rates = blocks_of(known.stretches)
        known.stretches = []
        known.step = FINISH


def after_bending(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Take a Newton step in all searches for beta maps."""
    counts = mapped_end_of(known, problem).counts
    asked = curve_array(known.curves, counts)
    found = array_of(sums.table, What.LINE, asked.shape[0] * kernels.CURVE_SUMS)
    for place, own in enumerate(found.reshape(-1, kernels.CURVE_SUMS)):
        curve = known.curves[place]
        if not curve.done:
            known.curves[place] = bent(curve, counts[place][0], asked[place], own)
    if all(curve.done for curve in known.curves):
        known.step = FINISH


def after_seeking(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Learn where the bins of histogram maps are, as far as this round tells."""
    cut_finer(known.cuts, sums.table)
    _begin_rates(known)


def after_rating(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Learn the positive rates of the bins."""
    known.rates = rates_of(known.cuts, sums.table)
    known.step = FINISH


def after_pooling(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Learn where the blocks of isotonic maps begin, as far as this round tells."""
    mapped_end_of(known, problem).need(len(known.stretches))
    known.stretches = cut_stretches(known.stretches, sums.table)
    _end_pools(known)
