"""The paper's data-independent stability analysis: `analyze` a model once, then ask it about any data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof._kernels.symbolic.records import POST, PRE
from treeproof.errors import InvalidInput, warn_renamed
from treeproof.importers import as_ensemble
from treeproof.model.agreement import check_on_probes
from treeproof.model.ensemble import Ensemble, labels_for
from treeproof.numbers.doubles import FloatArray
from treeproof.results.tabled import frame_or_rows
from treeproof.run import clock
from treeproof.run.limits import Limits, as_count
from treeproof.run.progress import progress_line
from treeproof.run.watch import kept_after_ctrl_c
from treeproof.run.workers import n_workers
from treeproof.symbolic.attacks import SymbolicAttack, costs_of, ends_of, symbolic_attacks
from treeproof.symbolic.compiled import Boxes, CompiledAnalysis
from treeproof.symbolic.history import History, Tracker
from treeproof.symbolic.refinement import (
    Lane,
    Memory,
    Workers,
    analyze_one,
    annotate_one,
    deal,
    first_candidates,
    unique_rows,
)
from treeproof.symbolic.unstable_region import UnstableRegion
from treeproof.threat.attacker import Attacker, check_attacker
from treeproof.threat.epsilon import bind_epsilon, plain_epsilon

ROUND = 10
"""Iterations that every lane does before the next look at all of them."""

MAX_BYTES = 2 * 2**30
"""That attacks may take, unless told otherwise."""


@dataclass(frozen=True, eq=False)
class Analysis:
    """Where a model may be unstable under an attacker: outside the pre-images of `attacks` it is stable for sure.

    Once `complete`, the region is exact: every instance in it is unstable. (Only where an interval that excludes 0 is
    narrower than the step between doubles may it still be larger.)
    """

    ensemble: Ensemble
    attacker: Attacker
    iterations: int
    """How many iterations the lane that took longest has done."""
    stopped: str
    """Why it ended: "complete", "iterations", "time", "memory" or "interrupted"."""
    seconds: float
    splits: int
    """How many symbolic attacks were split."""
    history: History | None
    """Estimates after every iteration, of the data given as `track`."""
    n_jobs: int
    _compiled: CompiledAnalysis
    _boxes: Boxes
    _n_ended: int

    @property
    def complete(self) -> bool:
        """Whether nothing was left to split: the paper says that the analysis has converged."""
        return self.stopped == "complete"

    @property
    def converged(self) -> bool:
        """The old name of `complete`."""
        warn_renamed("Analysis.converged", "Analysis.complete")
        return self.complete

    def __len__(self) -> int:
        return len(self._boxes)

    def __getitem__(self, index: int) -> SymbolicAttack:
        """One symbolic attack, to print."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"attack {index} of {len(self)}")
        return symbolic_attacks(self._boxes[[index]], self._compiled)[0]

    @cached_property
    def attacks(self) -> Any:
        """All symbolic attacks as a table: a pandas frame if pandas is there, else a list of rows.

        Ends are real numbers: an image holds what is above its low and at most its high. `ended` says whether the
        attack has ended, or would have been split further.
        """
        columns: dict[str, Any] = {}
        for image, prefix in ((PRE, "pre"), (POST, "post")):
            for f in range(self.ensemble.n_features):
                name = f"x{f}" if self.ensemble.feature_names is None else self.ensemble.feature_names[f]
                ends = ends_of(self._compiled.grid, self._boxes[:, image, f, 0], self._boxes[:, image, f, 1], f)
                columns[f"{prefix} {name} low"], columns[f"{prefix} {name} high"] = ends
        columns["cost"] = costs_of(self._boxes, self._compiled)
        columns["ended"] = np.arange(len(self)) < self._n_ended
        return frame_or_rows(columns)

    @cached_property
    def _region(self) -> UnstableRegion:
        pre = self._boxes[:, PRE]
        return UnstableRegion(pre[unique_rows(pre)])

    def is_stable(self, X: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Per row whether the model is proved stable there; False says "not proved", or once complete "unstable"."""
        rows = self._rows(X)
        return self._free(rows, rows)

    def covers(self, X: npt.ArrayLike, epsilon: Any) -> npt.NDArray[np.bool_]:
        """Per row whether the model is proved stable on its whole neighbourhood N(x)."""
        return self._free(*self._compiled.threat.neighbourhood(self._rows(X), bind_epsilon(epsilon, self.ensemble)))

    def is_stable_around(self, X: npt.ArrayLike, epsilon: Any) -> npt.NDArray[np.bool_]:
        """The old name of `covers`."""
        warn_renamed("Analysis.is_stable_around", "Analysis.covers")
        return self.covers(X, epsilon)

    def _free(self, low: FloatArray, high: FloatArray) -> npt.NDArray[np.bool_]:
        """Per row whether no symbolic attack starts in the box [low, high]."""
        grid = self._compiled.grid
        met = self._region.meets(grid.cells(low), grid.cells(high), self.n_jobs)
        return ~(met | self._compiled.is_left_out(low))

    def robustness(self, X: npt.ArrayLike, y: npt.ArrayLike) -> float:
        """The paper's r̂, a lower bound of the robustness of the model: the share of rows proved correct and stable."""
        return _share(self._correct(X, y) & self.is_stable(X))

    def resilience(self, X: npt.ArrayLike, y: npt.ArrayLike, epsilon: Any = None, *, epsilons: Any = None) -> float:
        """The paper's R̂, a lower bound of resilience: the share of correct rows with a stable neighbourhood.

        `epsilon` is one number, one per feature, or by feature. (`epsilons` is the old spelling of `resilience_at`.)
        """
        if epsilons is not None:
            warn_renamed("Analysis.resilience(epsilons=…)", "Analysis.resilience_at")
            return self.resilience_at(X, y, epsilons)  # type: ignore[return-value]
        if epsilon is None:
            raise InvalidInput("epsilon is None; give the size of the neighbourhood", argument="epsilon")
        return _share(self._correct(X, y) & self.covers(X, epsilon))

    def resilience_at(self, X: npt.ArrayLike, y: npt.ArrayLike, epsilons: Iterable[Any]) -> dict[Any, float]:
        """R̂ per neighbourhood, for several of them."""
        correct = self._correct(X, y)
        return {plain_epsilon(one): _share(correct & self.covers(X, one)) for one in epsilons}

    def _rows(self, X: npt.ArrayLike) -> FloatArray:
        rows = self.ensemble.check_rows(X)
        self._compiled.threat.check_domain(rows, self.ensemble)
        return rows

    def _correct(self, X: npt.ArrayLike, y: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        predicted = self.ensemble.predict_index(X)
        return np.asarray(predicted == labels_for(self.ensemble, y, len(predicted)))

    def __repr__(self) -> str:
        return (
            f"Analysis({len(self)} symbolic attacks after {self.iterations} iterations and {self.seconds:.2f} s, "
            f"{'complete' if self.complete else f'stopped: {self.stopped}'})"
        )


def analyze(
    model: Any,
    attacker: Attacker,
    max_iterations: int | None = 400,
    n_jobs: int | None = None,
    max_seconds: float | None = None,
    *,
    max_bytes: int | None = MAX_BYTES,
    max_memory: int | None = None,
    missing: bool = False,
    track: Sequence[Any] | None = None,
    progress: bool = False,
    voting: Any = None,
) -> Analysis:
    """The paper's stability analysis of a model, once for all data: where is it stable whatever the attacker does?

    Symbolic attacks of all trees are split until each is proved harmless or harmful, in threads (`n_jobs`), for at
    most `max_iterations` (None: until convergence), `max_seconds` and about `max_bytes` of memory, or until Ctrl-C. The
    answer is sound whenever it stops. `track=(X, y)` or `(X, y, epsilons)` records how r̂ and R̂ grow with every
    iteration, in `Analysis.history`. Rows with missing values are analyzed with `missing=True` only, which takes a
    multiple of the time; else nothing is proved of them. The attacker has intervals, costs and a budget; an Lp
    attacker is refused. One parameter per choice that users have.

    >>> import treeproof as tp
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)
    >>> analysis = analyze(clf, tp.Attacker((-0.1, 0.1), budget=1))
    >>> analysis.complete, bool(analysis.resilience(X, y, 0.05) <= analysis.robustness(X, y))
    (True, True)
    """
    began = clock.now()
    if max_memory is not None:
        warn_renamed("max_memory", "max_bytes")
        max_bytes = max_memory
    ensemble, compiled = _prepared(model, attacker, voting, missing)
    until = as_count(max_iterations, "max_iterations", least=0)
    limits = Limits.of(max_seconds=max_seconds)
    memory = Memory(as_count(max_bytes, "max_bytes", least=0))
    n_threads = n_workers(n_jobs)

    def work() -> tuple[Boxes, list[Lane], Tracker | None]:
        with Workers(n_threads, limits, memory) as workers, progress_line(progress, "analyzing") as say:
            ended, lanes = deal(compiled, workers, *first_candidates(compiled, workers))
            tracker = None if track is None else Tracker(compiled, track, ended, lanes)
            _iterate(lanes, workers, 2**62 if until is None else until, tracker, say)
        return ended, lanes, tracker

    ended, lanes, tracker = kept_after_ctrl_c(work, limits)
    attacks = np.concatenate([ended, *(lane.ended_attacks() for lane in lanes)])
    attacks = attacks[unique_rows(attacks)]
    n_ended = len(attacks)
    left = [lane.open_attacks() for lane in lanes if lane.count("n_open")]
    if left:
        candidates = np.concatenate(left)
        attacks = np.concatenate((attacks, candidates[unique_rows(candidates)]))
    return Analysis(
        ensemble=ensemble.without_source(),
        attacker=attacker,
        iterations=max((lane.count("iteration") for lane in lanes), default=0),
        stopped=_reason(limits, lanes),
        seconds=clock.now() - began,
        splits=sum(lane.count("n_splits") for lane in lanes),
        history=None if tracker is None else tracker.history(),
        n_jobs=n_threads,
        _compiled=compiled,
        _boxes=attacks,
        _n_ended=n_ended,
    )


def annotate(
    model: Any, attacker: Attacker, tree: int = 0, *, missing: bool = False, voting: Any = None
) -> list[list[SymbolicAttack]]:
    """Algorithm 1 on one tree: per node, in the order of the tree's nodes (root first, level by level), its attacks."""
    ensemble, compiled = _prepared(model, attacker, voting, missing)
    tree = _tree_index(ensemble, tree)
    annotated = annotate_one(compiled, tree, Limits(), Memory())
    assert annotated is not None  # there are no limits
    nodes, boxes = annotated
    first = int(ensemble.roots[tree])
    end = int(ensemble.roots[tree + 1]) if tree + 1 < ensemble.n_trees else ensemble.n_nodes
    return [symbolic_attacks(boxes[nodes == node], compiled) for node in range(first, end)]


def analyze_tree(
    model: Any, attacker: Attacker, tree: int = 0, *, missing: bool = False, voting: Any = None
) -> list[SymbolicAttack]:
    """Algorithm 3 on one tree: the symbolic attacks under which its prediction may change."""
    ensemble, compiled = _prepared(model, attacker, voting, missing)
    found = analyze_one(compiled, _tree_index(ensemble, tree), Limits(), Memory())
    assert found is not None  # there are no limits
    return symbolic_attacks(found, compiled)


def _prepared(model: Any, attacker: Attacker, voting: Any, missing: bool) -> tuple[Ensemble, CompiledAnalysis]:
    ensemble = as_ensemble(model, voting=voting)
    check_attacker(attacker)
    check_on_probes(ensemble)
    if attacker.power is not None:
        raise InvalidInput(
            f"symbolic attacks are boxes, and {attacker!r} reaches a ball",
            argument="attacker",
            way_out="use treeproof.verify, which takes it, or an attacker with intervals",
        )
    threat = attacker.bind(ensemble)
    threat.require_plain("the symbolic analysis")
    return ensemble, CompiledAnalysis.build(ensemble, threat, missing)


def _iterate(
    lanes: list[Lane], workers: Workers, until: int, tracker: Tracker | None, say: Callable[[str], None]
) -> None:
    """Alg. 4, lines 6-15, in rounds: with a deadline no lane falls far behind the others."""
    limits = workers.limits
    step = ROUND if tracker is None else 1
    reached = 0
    while reached < until:
        left = [lane for lane in lanes if lane.count("n_open") and not lane.full]
        if not left or limits.is_over():
            return
        say(f"iteration {reached}, {sum(lane.count('n_open') for lane in left):,} symbolic attacks to split")
        reached = min(until, reached + step)
        workers.run([partial(lane.run, reached) for lane in left])
        if tracker is not None and not limits.stop[0]:
            workers.run(tracker.updates())
            tracker.note()


def _reason(limits: Limits, lanes: list[Lane]) -> str:
    if not any(lane.count("n_open") for lane in lanes):
        return "complete"
    if limits.interrupted:
        return "interrupted"
    if limits.late:
        return "time"
    return "memory" if any(lane.full for lane in lanes) else "iterations"


def _share(good: npt.NDArray[np.bool_]) -> float:
    return float(good.mean()) if len(good) else math.nan


def _tree_index(ensemble: Ensemble, tree: int) -> int:
    if isinstance(tree, bool) or not isinstance(tree, (int, np.integer)) or not 0 <= tree < ensemble.n_trees:
        raise InvalidInput(f"tree {tree!r} is out of range; the model has trees 0 to {ensemble.n_trees - 1}")
    return int(tree)
