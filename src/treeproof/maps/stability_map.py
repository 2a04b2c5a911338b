"""The stability map: every point of the space proved stable, proved unstable, or still open; for any data.

A map is a tree of cuts with disjoint boxes as leaves. It is made once for a model and an attacker, and answers for a
point in as many steps as the tree is deep. See docs/stability_map.md.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof._kernels.maps.tables import NODE
from treeproof.errors import InvalidInput
from treeproof.importers import as_ensemble
from treeproof.maps.fine_grid import FineGrid
from treeproof.maps.map_file import read_map, write_map
from treeproof.maps.partition import Partition, cut_table, list_leaves
from treeproof.maps.problem import Int32Array, Problem, Records
from treeproof.model.agreement import SpotCheck, check_agreement, check_on_probes
from treeproof.model.columns import Category, in_own_values
from treeproof.model.ensemble import Ensemble, labels_for
from treeproof.model.fields_only import FieldsOnly
from treeproof.model.one_row import one_row
from treeproof.model.per_feature import PerFeature, as_pair
from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import Bounds, Outcome, Status
from treeproof.run import clock
from treeproof.run.checkpoints import Checkpoint
from treeproof.run.limits import Limits, as_count, check_jobs
from treeproof.run.progress import progress_line
from treeproof.threat.attacker import Attacker, check_attacker
from treeproof.threat.epsilon import bind_epsilon
from treeproof.threat.threat import Threat
from treeproof.verification.local_search import Local

MAX_BYTES = 4 * 2**30


@dataclass(frozen=True)
class Condition:
    """One feature's range `low < x <= high` in a box; an end at which the space ends is infinite."""

    feature: int | str
    low: float
    high: float
    values: tuple[Any, ...] = ()
    """Those in the range, of a category whose numbers are codes."""

    def __str__(self) -> str:
        if self.values:
            return f"{self.feature} is {' or '.join(map(str, self.values))}"
        if math.isinf(self.low):
            return f"{self.feature} <= {self.high!r}"
        if math.isinf(self.high):
            return f"{self.feature} > {self.low!r}"
        return f"{self.low!r} < {self.feature} <= {self.high!r}"


@dataclass(frozen=True)
class Explanation:
    """The box that holds a point, and for an unstable one what breaks that point."""

    status: Status
    label: Any
    conditions: tuple[Condition, ...]
    breaking: tuple[int | str, ...]
    """Features each of which alone breaks the point; if none does, those that a counterexample moves together."""
    attacked: npt.NDArray[Any] | None
    """A row within the attacker's reach that has another label, with the user's own values of categories."""
    attacked_label: Any

    def __str__(self) -> str:
        box = " and ".join(map(str, self.conditions)) or "everywhere"
        text = f"{self.status}, label {self.label!r}: {box}"
        if self.attacked is not None:
            text += f"; moving {', '.join(map(str, self.breaking))} makes it {self.attacked_label!r}"
        return text


@dataclass(frozen=True)
class Rule:
    """A stable box: whatever the attacker does there, the label stays. `share` is its part of the domain's volume."""

    conditions: tuple[Condition, ...]
    label: Any
    share: float

    def __str__(self) -> str:
        box = " and ".join(map(str, self.conditions)) or "everywhere"
        return f"{self.label!r} for good where {box} ({self.share:.2%} of the domain)"


@dataclass(frozen=True, eq=False, repr=False)
class StabilityMap(FieldsOnly):
    """A partition of the space into boxes that are stable, unstable or open; made by `build` or `load`.

    >>> import treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0], [1.0]], ["no", "yes"])
    >>> smap = StabilityMap.build(clf, tp.Attacker.linf(0.2), progress=False)
    >>> smap
    StabilityMap(4 boxes, complete)
    >>> smap.status([[0.1], [0.4], [0.9]]).tolist() == [Status.STABLE, Status.UNSTABLE, Status.STABLE]
    True
    >>> smap.explain([0.4]).breaking
    (0,)
    """

    ensemble: Ensemble
    attacker: Attacker
    grid: FineGrid
    nodes: Int32Array
    """The tree of cuts (n, 2): a cut and its left part's node, the right one's right behind it; -1, -1 - status."""
    seconds: float = 0.0
    visited: int = 0
    interrupted: bool = False
    _threat: Threat = field(init=False)
    _spot_check: SpotCheck = field(init=False, default_factory=SpotCheck)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_threat", self.attacker.bind(self.ensemble))

    @classmethod
    def build(
        cls,
        model: Any,
        attacker: Attacker,
        *,
        max_seconds: float | None = None,
        max_boxes: int | None = None,
        max_bytes: int = MAX_BYTES,
        order: Any = "volume",
        resume: StabilityMap | None = None,
        domain: Any = None,
        n_jobs: int | None = None,
        progress: bool = False,
        voting: Any = None,
        checkpoint: Callable[[StabilityMap], object] | None = None,
    ) -> StabilityMap:
        """Map the space, or the rows inside `domain`: a range for all features, one per feature, or by feature.

        Stops early, with what is left OPEN, after `max_seconds`, at `max_boxes`, when tree and queue take `max_bytes`,
        or on Ctrl-C. `order="volume"` cuts the largest boxes first; a set of rows, those that hold most of them: that
        decides what a stopped map covers, never a verdict. Where the library's own model is at hand, it must give those
        rows the same labels (SoundnessError), as well as a few of the rows that the map is asked about. `resume` goes
        on from another map of the same model and attacker. `n_jobs` goes to joblib: threads by default, or whatever
        `joblib.parallel_config` says. `checkpoint` is called with the map as it is, to be resumed from, about every 10
        seconds if it has grown.

        One parameter per choice that users have.
        """
        began = clock.now()
        ensemble = as_ensemble(model, voting=voting)
        check_attacker(attacker)
        check_jobs(n_jobs)
        threat = attacker.bind(ensemble)
        threat.require_plain("a map")
        check_on_probes(ensemble)
        low, high = _space(ensemble, threat, domain)
        if resume is not None:
            low, high = _resumed_space(resume, ensemble, attacker, domain, low, high)
        limits = Limits.of(max_seconds=max_seconds)
        boxes, memory = as_count(max_boxes, "max_boxes"), as_count(max_bytes, "max_bytes")
        grid = FineGrid.of(ensemble, threat, low, high)
        problem = Problem(ensemble.without_source(), threat, grid)
        points = _order_points(order, ensemble, grid)
        if resume is None:
            partition = Partition.begin(problem, points)
        else:
            partition = Partition.resume(problem, resume._tree, points)
        before = (0.0, 0) if resume is None else (resume.seconds, resume.visited)

        def known(nodes: Records, visited: int, interrupted: bool) -> StabilityMap:
            seconds = clock.now() - began + before[0]
            return cls(ensemble, attacker, grid, _compacted(nodes), seconds, visited + before[1], interrupted)

        saving = None
        if checkpoint is not None:
            saving = Checkpoint(partition.copy, lambda now: checkpoint(known(*now, True)))
        with progress_line(progress, "mapping") as show:

            def advance(partition: Partition) -> None:
                show(f"{partition.n_boxes:,} boxes, {len(partition.waiting):,} waiting")

            interrupted = partition.run(n_jobs, limits, boxes, 2**62 if memory is None else memory, advance, saving)
        nodes = partition.nodes[: partition.n_nodes]
        try:
            return known(nodes, partition.visited, interrupted)
        except KeyboardInterrupt:  # too late to save any work, and early enough to lose all of it
            return known(nodes, partition.visited, True)

    # --- what it is ------------------------------------------------------------------------------------------------

    @property
    def n_boxes(self) -> int:
        """How many disjoint boxes the space is cut into."""
        return (len(self.nodes) + 1) // 2

    @cached_property
    def counts(self) -> dict[Status, int]:
        """How many boxes have each status."""
        return {status: int((self.nodes[:, 1] == -1 - status).sum()) for status in Status}

    @property
    def complete(self) -> bool:
        """Whether every point is decided."""
        return self.counts[Status.OPEN] == 0

    def check_made_for(self, ensemble: Ensemble, attacker: Attacker, name: str = "the map") -> None:
        """Refuses a model or an attacker that the map says nothing about; names of features may differ."""
        if attacker != self.attacker:
            raise InvalidInput(f"{name} was made for another attacker: {self.attacker!r}, not {attacker!r}")
        if ensemble.fingerprint != self.ensemble.fingerprint:
            mine = self.ensemble
            raise InvalidInput(
                f"{name} was made for another model, {mine.origin} of {mine.n_trees} trees; build a new map"
            )
        # An attacker that names features follows the names, whatever the trees are.
        if not self._threat.equals(attacker.bind(ensemble)):
            raise InvalidInput(f"{name} was made for features of other names: the attacker means others there")

    def __sklearn_clone__(self) -> StabilityMap:
        return self  # never changes, and may be large

    def __repr__(self) -> str:
        state = "complete" if self.complete else f"{self.counts[Status.OPEN]} open"
        return f"StabilityMap({self.n_boxes} boxes, {state})"

    # --- points and neighbourhoods -----------------------------------------------------------------------------------

    def status(self, X: npt.ArrayLike) -> npt.NDArray[np.int8]:
        """Per row its Status. Rows outside the map's domain, and rows with missing values, are OPEN."""
        rows = self._rows(X)
        found = self._status(rows)
        found[~((rows >= self.grid.low) & (rows <= self.grid.high)).all(axis=1)] = Status.OPEN
        return found

    def is_stable(self, X: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Per row whether it is proved stable."""
        return np.asarray(self.status(X) == Status.STABLE)

    def covers(self, X: npt.ArrayLike, epsilon: Any) -> npt.NDArray[np.bool_]:
        """Per row whether every row of its neighbourhood is proved stable."""
        return np.asarray(self._meet(self._rows(X), epsilon) == Status.STABLE)

    def resilience_outcomes(self, X: npt.ArrayLike, y: npt.ArrayLike, epsilon: Any) -> npt.NDArray[np.int8]:
        """Per row the Outcome of resilience: proved if right and covered, refuted if wrong or near an unstable row."""
        rows = self._rows(X)
        labels = labels_for(self.ensemble, y, len(rows))
        met = self._meet(rows, epsilon)
        outcome = np.array([Outcome.PROVED, Outcome.REFUTED, Outcome.UNKNOWN], dtype=np.int8)[met]
        outcome[self.ensemble.predict_index(rows) != labels] = Outcome.REFUTED
        return outcome

    def resilience(self, X: npt.ArrayLike, y: npt.ArrayLike, epsilon: Any) -> Bounds:
        """The share of rows that are resilient."""
        return Bounds.of(self.resilience_outcomes(X, y, epsilon))

    def robustness(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Bounds:
        """The share of rows that are robust."""
        return self.resilience(X, y, 0.0)

    def shares(self, X: npt.ArrayLike) -> dict[Status, float]:
        """The share of rows of a sample that have each status."""
        status = self.status(X)
        return {one: float((status == one).mean()) if len(status) else math.nan for one in Status}

    def volume(self, domain: Any = None) -> dict[Status, float]:
        """The share of a domain's volume that has each status; by default the domain the map was made for.

        `domain` is a finite range for all features, one per feature, or by feature.
        """
        low, high = self._finite_domain(domain)
        share = np.zeros(len(Status))
        for status in Status:
            _, boxes = list_leaves(self.grid, self._tree, status)
            share[status] = self._box_shares(boxes, low, high).sum()
        return {status: float(share[status]) for status in Status}

    # --- for people --------------------------------------------------------------------------------------------------

    def explain(self, x: npt.ArrayLike) -> Explanation:
        """The box that holds a row as conditions on features, and for an unstable row the moves that break it."""
        rows = self._rows(one_row(x, self.ensemble))
        status = Status(int(self.status(rows)[0]))
        label = self._label(rows[0])
        if np.isnan(rows).any() or not ((rows >= self.grid.low) & (rows <= self.grid.high)).all():
            return Explanation(status, label, (), (), None, None)
        first, last = np.zeros(self.grid.n_features, dtype=np.int64), self.grid.n_cells - 1
        node = self._tree[0]
        while node["cut"] >= 0:
            cut = self._cuts[node["cut"]]
            f = cut["feature"]
            right = bool(rows[0, f] > cut["value"])
            if right:
                first[f] = cut["place"] + 1
            else:
                last[f] = cut["place"]
            node = self._tree[node["child"] + right]
        conditions = self._conditions(first, last)
        if status != Status.UNSTABLE:
            return Explanation(status, label, conditions, (), None, None)
        decided = Local(self.ensemble, self._threat).decide(rows, np.zeros(self.grid.n_features))
        attacked = decided.attacked[0]
        own = in_own_values(attacked, self.ensemble.categories)
        return Explanation(status, label, conditions, self._breaking(rows, attacked), own, self._label(attacked))

    def rules(self, top: int = 10, domain: Any = None) -> list[Rule]:
        """The largest stable boxes, by their share of a domain's volume, as conditions under which a label is safe."""
        if isinstance(top, bool) or not isinstance(top, (int, np.integer)) or top < 0:
            raise InvalidInput(f"top must be a number of rules, got {top!r}")
        low, high = self._finite_domain(domain)
        _, boxes = list_leaves(self.grid, self._tree, Status.STABLE)
        share = self._box_shares(boxes, low, high)
        rules = []
        for i in np.argsort(-share, kind="stable")[:top]:
            if share[i] <= 0:
                break
            first, last = boxes["low"][i], boxes["high"][i]
            ends = [np.append(self.grid.bounds.cuts_of(f), self.grid.high[f]) for f in range(self.grid.n_features)]
            inside = np.array([its[k] for its, k in zip(ends, first, strict=True)])
            conditions = self._conditions(first, last)
            rules.append(Rule(conditions, self._label(inside), float(share[i])))
        return rules

    # --- files -------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the map, with its model and attacker, whole or not at all; docs/map_format.md describes the file."""
        write_map(path, self)

    def prove(self, path: str | os.PathLike[str], *, proof_limit: int | None = None) -> None:
        """Write what proves every box that is not open, for `check.check_map`: a file of proofs (.tpp).

        Boxes whose proof takes more than `proof_limit` bytes have none.
        """
        from treeproof.maps.proofs import write_proofs
        from treeproof.verification.proofs import check_limit

        write_proofs(self, path, check_limit(path, proof_limit))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        model: Any = None,
        attacker: Attacker | None = None,
        *,
        max_bytes: int = MAX_BYTES,
    ) -> StabilityMap:
        """Read a map into memory, all of it: it stays as it is whatever becomes of the file. 16 bytes per box.

        With `model` or `attacker`, a map that was made for another one is refused; so is a file of more than
        `max_bytes`.
        """
        memory = as_count(max_bytes, "max_bytes")
        content = read_map(path, 2**62 if memory is None else memory)
        ensemble = content.ensemble
        grid = FineGrid.of(ensemble, content.attacker.bind(ensemble), content.low, content.high)
        same = np.array_equal(grid.bounds.cuts, content.bounds.cuts)
        if not same or not np.array_equal(grid.bounds.offsets, content.bounds.offsets):
            raise InvalidInput(f"{path} is damaged: its cuts are not those of its model and attacker")
        smap = cls(ensemble, content.attacker, grid, content.nodes, content.seconds, content.visited)
        given = ensemble if model is None else as_ensemble(model)
        smap.check_made_for(given, content.attacker if attacker is None else attacker, str(path))
        return dataclasses.replace(smap, ensemble=given)

    # --- inside ------------------------------------------------------------------------------------------------------

    @cached_property
    def _cuts(self) -> Records:
        return cut_table(self.grid)

    @cached_property
    def _tree(self) -> Records:
        """The nodes as kernels want them."""
        return np.ascontiguousarray(self.nodes).view(NODE).reshape(-1)

    def _rows(self, X: npt.ArrayLike) -> FloatArray:
        rows = self.ensemble.check_rows(X)
        self._threat.check_domain(rows, self.ensemble)
        self._spot_check.check(self.ensemble, rows)
        return rows

    def _status(self, rows: FloatArray) -> npt.NDArray[np.int8]:
        from treeproof._kernels.maps.locate import locate

        leaf = np.empty(len(rows), dtype=np.int64)
        locate(rows, self._tree, self._cuts, leaf)
        return np.asarray(-1 - self._tree["child"][leaf], dtype=np.int8)

    def _meet(self, rows: FloatArray, epsilon: Any) -> npt.NDArray[np.int8]:
        """Per row UNSTABLE if its neighbourhood holds an unstable row, else OPEN if it may, else STABLE."""
        from treeproof._kernels.maps.locate import meet

        reach = bind_epsilon(epsilon, self.ensemble)
        low, high = self._threat.neighbourhood(rows, reach)
        missing = np.isnan(rows).any(axis=1)
        beyond = missing | (low < self.grid.low).any(axis=1) | (high > self.grid.high).any(axis=1)
        low, high = np.maximum(low, self.grid.low), np.minimum(high, self.grid.high)
        found = np.full(len(rows), Status.OPEN, dtype=np.int8)
        inside = np.flatnonzero((low <= high).all(axis=1) & ~missing)
        part = np.empty(len(inside), dtype=np.int8)
        meet(low[inside], high[inside], self._tree, self._cuts, part)
        found[inside] = part
        found[beyond & (found == Status.STABLE)] = Status.OPEN
        return found

    def _conditions(self, first: npt.NDArray[Any], last: npt.NDArray[Any]) -> tuple[Condition, ...]:
        conditions, categories = [], dict(self.ensemble.categories)
        for f in range(self.grid.n_features):
            cuts = self.grid.bounds.cuts_of(f)
            low = -math.inf if first[f] == 0 else float(cuts[first[f] - 1])
            high = math.inf if last[f] == len(cuts) else float(cuts[last[f]])
            if not (math.isinf(low) and math.isinf(high)):
                conditions.append(Condition(self._name(f), low, high, _values(categories.get(f), low, high)))
        return tuple(conditions)

    def _label(self, row: FloatArray) -> Any:
        return self.ensemble.classes[self.ensemble.predict_index(row[None])].tolist()[0]

    def _name(self, f: int) -> int | str:
        names = self.ensemble.feature_names
        return f if names is None else names[f]

    def _breaking(self, rows: FloatArray, attacked: FloatArray) -> tuple[int | str, ...]:
        """Features that alone break the row; if none does, all that the counterexample moves."""
        alone = []
        intervals = list(zip(self._threat.low.tolist(), self._threat.high.tolist(), strict=True))
        for f in np.flatnonzero((self._threat.cost <= self._threat.budget) & (self._threat.low < self._threat.high)):
            one = Attacker({int(f): intervals[f]}, domain=self.attacker.domain)
            decided = Local(self.ensemble, one.bind(self.ensemble)).decide(rows, np.zeros(rows.shape[1]))
            if decided.outcome[0] == Outcome.REFUTED:
                alone.append(self._name(int(f)))
        return tuple(alone) or tuple(self._name(int(f)) for f in np.flatnonzero(attacked != rows[0]))

    def _finite_domain(self, domain: Any) -> tuple[FloatArray, FloatArray]:
        low, high = self.grid.low, self.grid.high
        if domain is not None:
            low, high = _space(self.ensemble, self._threat, domain)
            low, high = np.maximum(low, self.grid.low), np.minimum(high, self.grid.high)
        with np.errstate(over="ignore"):
            size = high - low
        if not (np.isfinite(size).all() and (size < 1e30).all() and (size > 0).all()):
            raise InvalidInput("a volume needs a domain with finite ranges that are not empty, such as domain=(0, 1)")
        return low, high

    def _box_shares(self, boxes: Records, low: FloatArray, high: FloatArray) -> FloatArray:
        """The share of the domain's volume that each box takes."""
        share = np.ones(len(boxes))
        for f in range(self.grid.n_features):
            cuts = self.grid.bounds.cuts_of(f)
            edges = np.clip(np.concatenate(([low[f]], cuts, [high[f]])), low[f], high[f])
            share *= (edges[boxes["high"][:, f] + 1] - edges[boxes["low"][:, f]]) / (high[f] - low[f])
        return share


def _values(category: Category | None, low: float, high: float) -> tuple[Any, ...]:
    """The values with codes above `low` and up to `high`, of a category that has codes."""
    if category is None or not category.coded:
        return ()
    return tuple(category.value_of(code) for code in range(category.n_codes) if low < code <= high)


def _compacted(nodes: Records) -> Int32Array:
    """The nodes as a map holds them; those given are used up."""
    from treeproof._kernels.maps.locate import compact

    compacted: Int32Array = compact(nodes).view(np.int32).reshape(-1, 2)
    compacted.flags.writeable = False
    return compacted


def _space(ensemble: Ensemble, threat: Threat, domain: Any) -> tuple[FloatArray, FloatArray]:
    """The lowest and the highest double of the rows to map."""
    low, high = threat.domain_low, threat.domain_high
    if domain is None:
        return low, high
    spec = PerFeature.of_pairs(domain, "domain", as_pair)
    if spec.n_features not in (None, ensemble.n_features):
        raise InvalidInput(f"domain has {spec.n_features} ranges, the model has {ensemble.n_features} features")
    given = np.array(spec.bind(ensemble, (-math.inf, math.inf)), dtype=np.float64)
    low, high = np.maximum(low, given[:, 0]), np.minimum(high, given[:, 1])
    if not (low <= high).all():
        f = int(np.argmin(low <= high))
        raise InvalidInput(f"the domain of feature {ensemble.feature_name(f)} holds no number that the attacker allows")
    return low, high


def _resumed_space(
    resume: Any, ensemble: Ensemble, attacker: Attacker, domain: Any, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    if not isinstance(resume, StabilityMap):
        raise InvalidInput(f"resume must be a StabilityMap, got {type(resume).__name__}")
    resume.check_made_for(ensemble, attacker, "resume")
    if domain is not None and not (np.array_equal(low, resume.grid.low) and np.array_equal(high, resume.grid.high)):
        raise InvalidInput("resume was made for another domain; leave domain out to go on with that one")
    return resume.grid.low, resume.grid.high


def _order_points(order: Any, ensemble: Ensemble, grid: FineGrid) -> Int32Array:
    """The rows that guide the work as fine cells; none for order="volume"."""
    if isinstance(order, str):
        if order != "volume":
            raise InvalidInput(f'order must be "volume" or rows of the model\'s features, got {order!r}')
        return np.empty((0, ensemble.n_features), dtype=np.int32)
    rows = ensemble.check_rows(order)
    check_agreement(ensemble, rows)
    inside = ((rows >= grid.low) & (rows <= grid.high)).all(axis=1)  # false where a value is missing
    return grid.bounds.cells(rows[inside])
