"""Cutting the space into stable and unstable boxes: the queue of boxes, the workers, and when to stop.

Each task takes one box, restricts the model to it and cuts it with compiled code (`_kernels/partition.py`) until its
share of boxes is used up; what it leaves open goes back into the queue. Whenever the work ends, all that was decided is
decided for good, and the rest is OPEN.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.maps.fine_grid import FineGrid
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.run.watch import Door, run_watched, watched
from treeproof.run.workers import GRACE, Crew
from treeproof.threat.threat import Threat
from treeproof.verification.local_search import Local

Int32Array = npt.NDArray[np.int32]

STABLE, UNSTABLE, OPEN, PENDING = 0, 1, 2, 3
MOST_ATTACKS = 128
"""Sets of features that are looked at one by one; more are covered by fewer, larger ones."""
MOST_STEPS = 20_000
SOME_POINTS = 200
"""Points that tell which boxes without any are close to data."""
TASK_BOXES = 100_000
FIRST_TASK_BOXES = 20_000
SMALL_TASK_BOXES = 1_000
"""Boxes that one task visits at most: all at once where the end is in sight, few where order matters."""
TASKS_PER_WORKER = 8
MOST_NODES = 2**31 - 2**20


class Task(NamedTuple):
    """A box (2 * n_features,) of fine cells to cut."""

    node: int
    box: Int32Array
    points: Int32Array
    """The points inside, as fine cells."""
    limit: int
    """How many parts may be visited."""
    limits: Limits


class _Fine(NamedTuple):
    """The fine grid as the kernel wants it; see `_kernels/partition.py`."""

    start: Any
    own: Any
    hull_low: Any
    hull_high: Any
    must_low: Any
    must_high: Any
    irregular: Any
    away: Any
    cut_of: Any
    coarse_start: Any
    most_cells: Any


@dataclass(frozen=True, eq=False)
class Problem:
    """A model, an attacker and the space to cut; travels to workers."""

    ensemble: Ensemble
    threat: Threat
    grid: FineGrid

    @cached_property
    def movable(self) -> npt.NDArray[np.bool_]:
        """Features that an attack can bring into another coarse cell."""
        grid = self.grid
        leaves = (grid.reach_low < grid.own) | (grid.reach_high > grid.own)
        leaves &= grid.reach_low <= grid.reach_high
        return np.logical_or.reduceat(leaves, grid.start[:-1])

    @cached_property
    def attacks(self) -> npt.NDArray[np.bool_]:
        """Sets of features, one per line, such that every set the attacker can pay for lies in one of them."""
        features = np.flatnonzero(self.movable)
        costs = {int(f): int(self.threat.cost[f]) for f in features}
        sets = attacked_sets(costs, int(self.threat.budget))
        table = np.zeros((len(sets), self.grid.n_features), dtype=bool)
        for i, one in enumerate(sets):
            table[i, one] = True
        return table

    @cached_property
    def attack_lists(self) -> tuple[Int32Array, Int32Array]:
        """The features of each attack, and how many they are."""
        members = np.zeros(self.attacks.shape, dtype=np.int32)
        for i, attack in enumerate(self.attacks):
            features = np.flatnonzero(attack)
            members[i, : len(features)] = features
        return members, self.attacks.sum(axis=1).astype(np.int32)

    @cached_property
    def leaf_groups(self) -> Int32Array:
        """Per leaf a number that it shares with the leaves that nothing tells apart."""
        model, _ = self.ensemble.compiled
        if model.slack == 0 and self.ensemble.n_classes == 2:
            lead = model.value[:, 1] - model.value[:, 0]
            return np.unique(lead, return_inverse=True)[1].reshape(-1).astype(np.int32)
        return np.asarray(model.kind)

    @cached_property
    def fine(self) -> _Fine:
        """The arrays of the fine grid, with reach made monotone: a larger reach proves less, never more."""
        grid, coarse = self.grid, self.ensemble.grid
        some = grid.reach_low <= grid.reach_high
        hull_low = np.where(some, np.minimum(grid.own, grid.reach_low), grid.own).astype(np.int32)
        hull_high = np.where(some, np.maximum(grid.own, grid.reach_high), grid.own).astype(np.int32)
        irregular = np.zeros(grid.n_features, dtype=bool)
        cut_of = np.zeros(len(coarse.cuts), dtype=np.int32)
        for f in range(grid.n_features):
            mine = slice(grid.start[f], grid.start[f + 1])
            low, high = grid.reach_low[mine], grid.reach_high[mine]
            irregular[f] = (
                not grid.sure[mine].all()
                or (some[mine].any() and not some[mine].all())
                or bool((np.diff(low) < 0).any() or (np.diff(high) < 0).any())
            )
            hull_low[mine] = np.minimum.accumulate(hull_low[mine][::-1])[::-1]
            hull_high[mine] = np.maximum.accumulate(hull_high[mine])
            cut_of[coarse.offsets[f] : coarse.offsets[f + 1]] = np.searchsorted(
                grid.bounds.cuts_of(f), coarse.cuts_of(f)
            )
        known = some & grid.sure
        return _Fine(
            grid.start,
            grid.own,
            hull_low,
            hull_high,
            np.where(known, grid.reach_low, 2**30).astype(np.int32),
            np.where(known, grid.reach_high, -1).astype(np.int32),
            irregular,
            grid.away,
            cut_of,
            coarse.offsets.astype(np.int64),
            int(coarse.n_cells.max()),
        )

    @cached_property
    def ends(self) -> list[FloatArray]:
        """Per feature the ends of fine cells, outer ones cut off a little beyond the outermost cuts."""
        edges = []
        for f in range(self.grid.n_features):
            cuts = self.grid.bounds.cuts_of(f)
            first, last = (float(cuts[0]), float(cuts[-1])) if len(cuts) else (0.0, 0.0)
            margin = max(0.1 * (last / 2 - first / 2) * 2, 1e-3 * max(abs(first), abs(last)), 1e-300)
            low = max(float(self.grid.low[f]), first - margin)
            high = min(float(self.grid.high[f]), last + margin)
            edges.append(np.concatenate(([low], cuts, [high])))
        return edges

    def log_volumes(self, boxes: Int32Array) -> FloatArray:
        """How large boxes (n, 2 * n_features) of fine cells are, for the order of work."""
        n = self.grid.n_features
        total = np.zeros(len(boxes))
        with np.errstate(over="ignore", divide="ignore"):
            for f, edges in enumerate(self.ends):
                total += np.log(np.maximum(edges[boxes[:, n + f] + 1] - edges[boxes[:, f]], 1e-300))
        return total


def attacked_sets(costs: dict[int, int], budget: int) -> list[list[int]]:
    """Few sets of features that hold every affordable set; the largest affordable ones, if there are not too many."""
    features = sorted(costs, key=lambda f: costs[f])
    if sum(costs.values()) <= budget:
        return [features] if features else []
    found: list[list[int]] = []
    rest = [sum(costs[f] for f in features[at:]) for at in range(len(features) + 1)]
    waiting: list[tuple[list[int], float, int, int]] = [([], math.inf, 0, budget)]
    for _ in range(MOST_STEPS):
        if not waiting or len(found) > MOST_ATTACKS:
            break
        chosen, skipped, at, left = waiting.pop()
        # A set is as large as can be if not even the cheapest feature left out can be paid for.
        if left - rest[at] >= skipped:
            continue
        if at == len(features) or costs[features[at]] > left:
            if skipped > left:
                found.append(chosen)
            continue
        f = features[at]
        if costs[f] > 0:
            waiting.append((chosen, min(skipped, costs[f]), at + 1, left))
        waiting.append(([*chosen, f], skipped, at + 1, left - costs[f]))
    if not waiting and len(found) <= MOST_ATTACKS:
        return found
    at_most, left = 0, budget
    for f in features:
        left -= costs[f]
        at_most += left >= 0
    n_groups = len(features)
    while n_groups > at_most and math.comb(n_groups, at_most) > MOST_ATTACKS:
        n_groups -= 1
    if n_groups <= at_most:
        return [features]
    groups = [features[i::n_groups] for i in range(n_groups)]
    return [list(itertools.chain(*some)) for some in itertools.combinations(groups, at_most)]


class Piece(NamedTuple):
    """What a task made of its box: a tree of cuts, and the boxes it left open with their number of points."""

    nodes: Int32Array
    rest: npt.NDArray[np.int64]
    rest_box: Int32Array
    visited: int


def cut_up(problem: Problem, task: Task) -> Piece:
    """Cuts one box of fine cells; runs wherever joblib put it."""
    from treeproof._kernels.maps.boxed import boxed_model, scan_trees
    from treeproof._kernels.maps.partition import cut_box

    ensemble, fine, n = problem.ensemble, problem.fine, problem.grid.n_features
    _, box, points, limit, limits = task
    model, _ = ensemble.compiled
    first, last = np.ascontiguousarray(box[:n]), np.ascontiguousarray(box[n:])
    low = fine.hull_low[fine.start[:-1] + first]
    high = fine.hull_high[fine.start[:-1] + last]
    group, row = np.empty(ensemble.n_nodes, dtype=np.int32), np.empty(ensemble.n_nodes, dtype=np.int32)
    scan_trees(
        model.feature, model.cut, model.left, model.right, model.leaf, model.roots, problem.leaf_groups, model.depth,
        low, high, group, row,
    )  # fmt: skip
    constant = np.zeros(ensemble.n_classes, dtype=np.int64)
    attacks = problem.attacks
    fits, boxed = boxed_model(
        model.feature, model.cut, model.left, model.right, model.roots, model.value, model.depth, low, high, group, row,
        attacks, problem.movable, constant,
    )  # fmt: skip
    if fits:
        members, sizes = problem.attack_lists
        nodes, rest, rest_box, visited = watched(
            lambda: cut_box(
                boxed, fine, first, last, constant, model.offset, np.int64(model.slack), members, sizes, points, limit,
                limits.stop,
            ),
            limits,
        )  # fmt: skip
    else:
        nodes, rest, rest_box = _cut_wide(problem, box, points, group)
        visited = 1
    pending = np.flatnonzero(nodes[rest[:, 0], 1] == -1 - PENDING)
    if len(pending):
        status = settle_alike(problem, rest_box[pending], limits)
        nodes[rest[pending, 0], 1] = -1 - status
        keep = np.ones(len(rest), dtype=bool)
        keep[pending] = False
        rest, rest_box = rest[keep], rest_box[keep]
    return Piece(nodes, rest, rest_box, visited)


def _cut_wide(
    problem: Problem, box: Int32Array, points: Int32Array, group: Int32Array
) -> tuple[Int32Array, npt.NDArray[np.int64], Int32Array]:
    """One cut of a box in which some tree has too many leaves for a word: where most trees are first undecided."""
    fine, n = problem.fine, problem.grid.n_features
    model, _ = problem.ensemble.compiled
    votes: dict[tuple[int, int], int] = {}
    for root in model.roots.tolist():
        node = root
        while group[node] == -1:  # its leaves differ
            left, right = int(model.left[node]), int(model.right[node])
            if group[left] == -2 or group[right] == -2:
                node = right if group[left] == -2 else left
                continue
            f, c = int(model.feature[node]), int(model.cut[node])
            if box[f] < box[n + f]:
                inside = fine.own[fine.start[f] + box[f]] <= c < fine.own[fine.start[f] + box[n + f]]
                k = int(fine.cut_of[fine.coarse_start[f] + c]) if inside else int(box[f] + box[n + f]) // 2
                votes[f, k] = votes.get((f, k), 0) + 1
                break
            node = left if group[left] == -1 else right
    if votes:
        f, k = max(votes, key=lambda cut: votes[cut])
    else:
        tested = np.unique(model.feature[model.feature >= 0])
        wide = [int(f) for f in tested if box[f] < box[n + f]]
        if not wide:
            nodes = np.array([[-1, -1 - PENDING]], dtype=np.int32)
            return nodes, np.array([[0, len(points)]], dtype=np.int64), box[None].copy()
        f = max(wide, key=lambda f: box[n + f] - box[f])
        k = int(box[f] + box[n + f]) // 2
    left_box, right_box = box.copy(), box.copy()
    left_box[n + f], right_box[f] = k, k + 1
    on_left = int((points[:, f] <= k).sum())
    nodes = np.array([[fine.start[f] - f + k, 1], [-1, -1 - OPEN], [-1, -1 - OPEN]], dtype=np.int32)
    rest = np.array([[1, on_left], [2, len(points) - on_left]], dtype=np.int64)
    return nodes, rest, np.stack((left_box, right_box))


def settle_alike(problem: Problem, boxes: Int32Array, limits: Limits) -> npt.NDArray[np.int64]:
    """The status of boxes whose points all have the same reach, by the local search from one of their points."""
    grid, threat, ensemble = problem.grid, problem.threat, problem.ensemble
    n = grid.n_features
    first = boxes[:, :n]
    at = grid.start[:-1] + first
    rows = np.empty(first.shape)
    for f in range(n):
        rows[:, f] = np.append(grid.bounds.cuts_of(f), grid.high[f])[first[:, f]]
    lowest, highest = ensemble.grid.cell_ends
    coarse = ensemble.grid.start[:-1]
    some = grid.reach_low[at] <= grid.reach_high[at]
    low = np.maximum(lowest[coarse + np.minimum(grid.reach_low[at], ensemble.grid.n_cells - 1)], threat.domain_low)
    high = np.minimum(highest[coarse + np.maximum(grid.reach_high[at], 0)], threat.domain_high)
    low, high = np.where(some, low, np.inf), np.where(some, high, -np.inf)
    local = Local(ensemble, threat, limits)
    outcome, _ = local.search_within(rows, (low, high))
    status = np.where(outcome == Outcome.PROVED, STABLE, np.where(outcome == Outcome.REFUTED, UNSTABLE, OPEN))
    blurred = _blurred(grid, boxes)
    doubtful = np.flatnonzero((status == UNSTABLE) & blurred.any(axis=1))
    if len(doubtful):
        # Broken for certain only if it is without the moves that only some of the points have.
        low, high = (np.where(blurred[doubtful], end, ends[doubtful]) for end, ends in ((np.inf, low), (-np.inf, high)))
        outcome, _ = local.search_within(rows[doubtful], (low, high))
        status[doubtful] = np.where(outcome == Outcome.REFUTED, UNSTABLE, OPEN)
    return status


def _blurred(grid: FineGrid, boxes: Int32Array) -> npt.NDArray[np.bool_]:
    """Per box and feature whether some of its cells have doubles that can be moved and others that cannot."""
    n = grid.n_features
    unsure = np.concatenate(([0], np.cumsum(~grid.sure)))
    return np.asarray(unsure[grid.start[:-1] + boxes[:, n:] + 1] > unsure[grid.start[:-1] + boxes[:, :n]])


@dataclass(eq=False)
class Partition:
    """The tree of cuts under construction, and the boxes that wait to be cut."""

    problem: Problem
    nodes: Int32Array
    n_nodes: int
    points: Int32Array
    visited: int = 0
    waiting: list[tuple[int, float, int, int, Int32Array]] = field(default_factory=list)

    @classmethod
    def begin(cls, problem: Problem, points: Int32Array) -> Partition:
        """The whole space as one open box."""
        n = problem.grid.n_features
        nodes = np.empty((1024, 2), dtype=np.int32)
        nodes[0] = -1, -1 - OPEN
        partition = cls(problem, nodes, 1, points)
        box = np.zeros(2 * n, dtype=np.int32)
        box[n:] = problem.grid.n_cells - 1
        partition.push(np.array([0]), np.array([len(points)]), box[None])
        return partition

    @classmethod
    def resume(cls, problem: Problem, nodes: Int32Array, points: Int32Array) -> Partition:
        """Goes on from a tree of cuts; its open leaves wait."""
        partition = cls(problem, np.array(nodes, dtype=np.int32), len(nodes), points)
        at, boxes = list_leaves(problem.grid, partition.nodes, OPEN)
        counts = np.zeros(len(at), dtype=np.int64)
        if len(points):
            counts = np.array([len(_inside(points, box)) for box in boxes], dtype=np.int64)
        partition.push(at, counts, boxes)
        return partition

    @property
    def n_boxes(self) -> int:
        """How many parts there are."""
        return (self.n_nodes + 1) // 2

    @property
    def n_bytes(self) -> int:
        """About how much memory the tree and the queue take, with room to grow."""
        return 24 * self.n_nodes + len(self.waiting) * (8 * self.problem.grid.n_features + 300)

    def push(self, nodes: npt.NDArray[Any], counts: npt.NDArray[Any], boxes: Int32Array) -> None:
        """Puts open boxes into the queue: those with most points first, then those next to many, or the largest."""
        size = self._closeness(boxes) if len(self.points) else self.problem.log_volumes(boxes)
        for node, count, its_size, box in zip(nodes.tolist(), counts.tolist(), size.tolist(), boxes, strict=True):
            heapq.heappush(self.waiting, (-count, -its_size, node, count, box))

    def _closeness(self, boxes: Int32Array) -> FloatArray:
        """How many points lie next to each box: one that is outside in k features counts for 4**-k."""
        n = self.problem.grid.n_features
        close = np.zeros(len(boxes))
        for point in self.points[:: -(-len(self.points) // SOME_POINTS)]:
            outside = ((boxes[:, :n] > point) | (boxes[:, n:] < point)).sum(axis=1)
            close += 0.25**outside
        return close

    def take(self, node: int, piece: Piece) -> None:
        """Puts what a task made of the box of `node` into its place."""
        n = len(piece.nodes)
        while self.n_nodes + n > len(self.nodes):
            self.nodes = np.concatenate((self.nodes, np.empty_like(self.nodes)))
        shift = self.n_nodes - 1
        moved = piece.nodes.copy()
        moved[:, 1] += np.where(moved[:, 0] >= 0, shift, 0).astype(np.int32)
        self.nodes[node] = moved[0]
        self.nodes[self.n_nodes : self.n_nodes + n - 1] = moved[1:]
        self.n_nodes += n - 1
        self.visited += piece.visited
        if len(piece.rest):
            self.push(np.where(piece.rest[:, 0] == 0, node, piece.rest[:, 0] + shift), piece.rest[:, 1], piece.rest_box)

    def run(
        self,
        n_jobs: int | None,
        limits: Limits,
        max_boxes: int | None,
        max_bytes: int,
        advance: Callable[[Partition], None],
    ) -> bool:
        """Works until nothing waits or a limit is met; returns whether Ctrl-C ended it.

        After Ctrl-C the tasks under way stop early and still deliver what they cut.
        """
        in_order = max_boxes is not None or len(self.points) > 0
        crew = Crew(self.problem, n_jobs)

        def work(door: Door) -> None:
            with crew:
                while self.waiting and not limits.is_over() and self.n_bytes < max_bytes and self.n_nodes < MOST_NODES:
                    tasks = self._next(crew.size, in_order, limits, max_boxes)
                    # One box is cut here: nothing is gained by asking a worker.
                    one = len(tasks) == 1
                    pieces = [cut_up(self.problem, tasks[0])] if one else list(crew.answers(cut_up, tasks))
                    if not tasks or not door.let_in(partial(self._take_all, tasks, pieces)):
                        break
                    advance(self)

        return run_watched(work, limits, grace=GRACE)

    def _take_all(self, tasks: list[Task], pieces: list[Piece]) -> None:
        for task, piece in zip(tasks, pieces, strict=True):
            self.take(task.node, piece)

    def _next(self, workers: int, in_order: bool, limits: Limits, max_boxes: int | None) -> list[Task]:
        """The next boxes to cut."""
        n = min(len(self.waiting), workers * TASKS_PER_WORKER)
        if in_order:
            limit = SMALL_TASK_BOXES
        elif (
            limits.deadline is not None
        ):  # small enough at first for the largest boxes to come first, if there is little time
            limit = int(np.clip(self.visited // n, SMALL_TASK_BOXES, TASK_BOXES))
        elif self.visited == 0:  # what is done before workers could be asked needs none
            limit = min(FIRST_TASK_BOXES, TASK_BOXES)
        else:
            limit = int(np.clip(self.visited // workers, SMALL_TASK_BOXES, TASK_BOXES))
        if max_boxes is not None:
            left = max_boxes - self.n_boxes  # a visit adds one box at most
            n = min(n, left)
            limit = min(limit, left // n) if n > 0 else 0
        tasks = []
        for _ in range(n):
            _, _, node, count, box = heapq.heappop(self.waiting)
            points = _inside(self.points, box) if count else self.points[:0]
            tasks.append(Task(node, box, points, limit, limits))
        return tasks


def _inside(points: Int32Array, box: Int32Array) -> Int32Array:
    """The points (n, n_features), as fine cells, that lie in the box."""
    n = points.shape[1]
    return points[((points >= box[:n]) & (points <= box[n:])).all(axis=1)]


def list_leaves(grid: FineGrid, nodes: Int32Array, status: int) -> tuple[npt.NDArray[np.int64], Int32Array]:
    """The leaves of one status (-1: all), and their boxes (n, 2 * n_features) of fine cells."""
    from treeproof._kernels.maps.locate import list_parts

    feature, place = cut_tables(grid)
    cells = grid.n_cells.astype(np.int64)
    count = list_parts(
        nodes, feature, place, cells, status, np.empty(0, dtype=np.int64), np.empty((0, 2 * len(cells)), dtype=np.int32)
    )
    at, boxes = np.empty(count, dtype=np.int64), np.empty((count, 2 * len(cells)), dtype=np.int32)
    list_parts(nodes, feature, place, cells, status, at, boxes)
    return at, boxes


def cut_tables(grid: FineGrid) -> tuple[Int32Array, Int32Array]:
    """Per cut, numbered over all features, its feature and its number within that feature."""
    counts = np.diff(grid.bounds.offsets)
    feature = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    place = np.arange(len(feature), dtype=np.int64) - grid.bounds.offsets[feature]
    return feature, place.astype(np.int32)
