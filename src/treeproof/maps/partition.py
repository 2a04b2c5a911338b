"""Cutting the space into stable and unstable boxes: the queue of boxes, the workers, and when to stop.

Each task takes one box, restricts the model to it and cuts it with compiled code (`_kernels/maps/`) until its share of
boxes is used up; what it leaves open goes back into the queue. Whenever the work ends, all that was decided is decided
for good, and the rest is OPEN.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof._kernels.maps.status import PENDING
from treeproof._kernels.maps.tables import CUT, MARK, MIXED, NODE, RANGE, REST, UNREACHED
from treeproof.maps.fine_grid import FineGrid
from treeproof.maps.problem import Int32Array, Problem, Records
from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import Outcome, Status
from treeproof.run.checkpoints import Checkpoint
from treeproof.run.limits import Limits
from treeproof.run.watch import Door, run_watched, watched
from treeproof.run.workers import GRACE, Crew
from treeproof.verification.local_search import Local

SOME_POINTS = 200
"""Points that tell which boxes without any are close to data."""
TASK_BOXES = 100_000
FIRST_TASK_BOXES = 20_000
SMALL_TASK_BOXES = 1_000
"""Boxes that one task visits at most: all at once where the end is in sight, few where order matters."""
TASK_TREES = 2_000_000
"""In how many trees one task looks at boxes, about: until it ends, nobody else knows what it has cut. What it cuts must
not depend on how fast the machine is, so that it is no time that ends it."""
TASKS_PER_WORKER = 8
MAX_NODES = 2**31 - 2**20


class Task(NamedTuple):
    """A box of fine cells to cut."""

    node: int
    box: Records
    points: Int32Array
    """The points inside, as fine cells."""
    limit: int
    """How many parts may be visited."""
    limits: Limits


class Piece(NamedTuple):
    """What a task made of its box: a tree of cuts, and the boxes it left open with their number of points."""

    nodes: Records
    rest: Records
    rest_box: Records
    visited: int


def cut_up(problem: Problem, task: Task) -> Piece:
    """Cuts one box of fine cells; runs in whichever worker joblib chose."""
    from treeproof._kernels.maps.boxed import boxed_model, scan_trees
    from treeproof._kernels.maps.partition import cut_box
    from treeproof._kernels.maps.tables import Boxed

    _, box, points, limit, limits = task
    model, _ = problem.ensemble.compiled
    reach, marks = problem.reach(box), np.empty(problem.ensemble.n_nodes, dtype=MARK)
    scan_trees(model, problem.leaf_groups, reach, marks)
    fits, tables = boxed_model(model, problem.space, reach, marks)
    if fits:
        stop = np.array([limits.is_over()], dtype=np.int64)

        def look() -> None:
            stop[0] = limits.is_over()

        (nodes, rest, rest_box), visited = watched(
            lambda: cut_box(problem.space, Boxed(*tables), box, points, limit, stop), limits, look
        )
    else:
        nodes, rest, rest_box = _cut_wide(problem, box, points, marks["group"])
        visited = 1
    pending = np.flatnonzero(nodes["child"][rest["node"]] == -1 - PENDING)
    if len(pending):
        status = settle_alike(problem, rest_box[pending], limits)
        nodes["child"][rest["node"][pending]] = -1 - status
        keep = np.ones(len(rest), dtype=bool)
        keep[pending] = False
        rest, rest_box = rest[keep], rest_box[keep]
    return Piece(nodes, rest, rest_box, visited)


def _cut_wide(
    problem: Problem, box: Records, points: Int32Array, group: Int32Array
) -> tuple[Records, Records, Records]:
    """One cut of a box in which some tree has too many leaves for a word: where most trees are first undecided."""
    space = problem.space
    model, _ = problem.ensemble.compiled
    low, high = box["low"].tolist(), box["high"].tolist()
    votes: dict[tuple[int, int], int] = {}
    for root in model.roots.tolist():
        node = root
        while group[node] == MIXED:
            left, right = int(model.left[node]), int(model.right[node])
            if group[left] == UNREACHED or group[right] == UNREACHED:
                node = right if group[left] == UNREACHED else left
                continue
            f = int(model.feature[node])
            if low[f] < high[f]:
                its, test = space.features[f], model.nodes[node]
                first, last = (space.cells["own"][its["start"] + end] for end in (low[f], high[f]))
                cuts = [test["cut"], *model.more[test["more"] : test["end"]]]
                inside = [c for c in cuts if first <= c < last]
                middle = inside[len(inside) // 2] if inside else None
                k = (low[f] + high[f]) // 2 if middle is None else int(space.fine_cuts[its["coarse_start"] + middle])
                votes[f, k] = votes.get((f, k), 0) + 1
                break
            node = left if group[left] == MIXED else right
    if votes:
        f, k = max(votes, key=lambda cut: votes[cut])
    else:
        tested = np.unique(model.feature[model.feature >= 0])
        wide = [int(f) for f in tested if low[f] < high[f]]
        if not wide:
            nodes = np.array([(-1, -1 - PENDING)], dtype=NODE)
            return nodes, np.array([(0, len(points))], dtype=REST), box[None].copy()
        f = max(wide, key=lambda f: high[f] - low[f])
        k = (low[f] + high[f]) // 2
    parts = np.stack((box, box))
    parts["high"][0, f], parts["low"][1, f] = k, k + 1
    on_left = int((points[:, f] <= k).sum())
    nodes = np.array(
        [(space.features[f]["start"] - f + k, 1), (-1, -1 - Status.OPEN), (-1, -1 - Status.OPEN)], dtype=NODE
    )
    return nodes, np.array([(1, on_left), (2, len(points) - on_left)], dtype=REST), parts


def settle_alike(problem: Problem, boxes: Records, limits: Limits) -> npt.NDArray[np.int64]:
    """The status of boxes whose points all have the same reach, by the local search from one of their points."""
    grid, threat, ensemble = problem.grid, problem.threat, problem.ensemble
    first = boxes["low"]
    at = grid.start[:-1] + first
    rows = np.empty(first.shape)
    for f in range(grid.n_features):
        rows[:, f] = np.append(grid.bounds.cuts_of(f), grid.high[f])[first[:, f]]
    lowest, highest = ensemble.grid.cell_ends
    coarse = ensemble.grid.start[:-1]
    some = grid.reach_low[at] <= grid.reach_high[at]
    low = np.maximum(lowest[coarse + np.minimum(grid.reach_low[at], ensemble.grid.n_cells - 1)], threat.domain_low)
    high = np.minimum(highest[coarse + np.maximum(grid.reach_high[at], 0)], threat.domain_high)
    low, high = np.where(some, low, np.inf), np.where(some, high, -np.inf)
    local = Local(ensemble, threat, limits)
    outcome, _ = local.search_within(rows, (low, high))
    status = np.full(len(boxes), Status.OPEN, dtype=np.int64)
    status[outcome == Outcome.PROVED] = Status.STABLE
    status[outcome == Outcome.REFUTED] = Status.UNSTABLE
    blurred = _blurred(grid, boxes)
    doubtful = np.flatnonzero((status == Status.UNSTABLE) & blurred.any(axis=1))
    if len(doubtful):
        # Broken for certain only if it is without the moves that only some of the points have.
        low, high = (np.where(blurred[doubtful], end, ends[doubtful]) for end, ends in ((np.inf, low), (-np.inf, high)))
        outcome, _ = local.search_within(rows[doubtful], (low, high))
        status[doubtful] = np.where(outcome == Outcome.REFUTED, Status.UNSTABLE, Status.OPEN)
    return status


def _blurred(grid: FineGrid, boxes: Records) -> npt.NDArray[np.bool_]:
    """Per box and feature whether some of its cells have doubles that can be moved and others that cannot."""
    unsure = np.concatenate(([0], np.cumsum(~grid.sure)))
    return np.asarray(unsure[grid.start[:-1] + boxes["high"] + 1] > unsure[grid.start[:-1] + boxes["low"]])


@dataclass(eq=False)
class Partition:
    """The tree of cuts under construction, and the boxes that wait to be cut."""

    problem: Problem
    nodes: Records
    n_nodes: int
    points: Int32Array
    visited: int = 0
    waiting: list[tuple[int, float, int, int, Records]] = field(default_factory=list)

    @classmethod
    def begin(cls, problem: Problem, points: Int32Array) -> Partition:
        """The whole space as one open box."""
        nodes = np.empty(1024, dtype=NODE)
        nodes[0] = -1, -1 - Status.OPEN
        partition = cls(problem, nodes, 1, points)
        partition.push(np.array([0]), np.array([len(points)]), problem.whole[None])
        return partition

    @classmethod
    def resume(cls, problem: Problem, nodes: Records, points: Int32Array) -> Partition:
        """Goes on from a tree of cuts; its open leaves wait."""
        partition = cls(problem, nodes.copy(), len(nodes), points)
        at, boxes = list_leaves(problem.grid, partition.nodes, Status.OPEN)
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

    def push(self, nodes: npt.NDArray[Any], counts: npt.NDArray[Any], boxes: Records) -> None:
        """Puts open boxes into the queue: those with most points first, then those next to many, or the largest."""
        size = self._closeness(boxes) if len(self.points) else self.problem.log_volumes(boxes)
        for node, count, its_size, box in zip(nodes.tolist(), counts.tolist(), size.tolist(), boxes, strict=True):
            heapq.heappush(self.waiting, (-count, -its_size, node, count, box))

    def _closeness(self, boxes: Records) -> FloatArray:
        """How many points lie next to each box: one that is outside in k features counts for 4**-k."""
        low, high = boxes["low"], boxes["high"]
        close = np.zeros(len(boxes))
        for point in self.points[:: -(-len(self.points) // SOME_POINTS)]:
            outside = ((low > point) | (high < point)).sum(axis=1)
            close += 0.25**outside
        return close

    def take(self, node: int, piece: Piece) -> None:
        """Puts what a task made of the box of `node` into its place."""
        n = len(piece.nodes)
        while self.n_nodes + n > len(self.nodes):
            self.nodes = np.concatenate((self.nodes, np.empty_like(self.nodes)))
        shift = self.n_nodes - 1
        moved = piece.nodes.copy()
        moved["child"][moved["cut"] >= 0] += shift
        self.nodes[node] = moved[0]
        self.nodes[self.n_nodes : self.n_nodes + n - 1] = moved[1:]
        self.n_nodes += n - 1
        self.visited += piece.visited
        if len(piece.rest):
            at = piece.rest["node"]
            self.push(np.where(at == 0, node, at + shift), piece.rest["points"], piece.rest_box)

    def copy(self) -> tuple[Records, int]:
        """The tree of cuts as it is now, and how many boxes were visited for it."""
        return self.nodes[: self.n_nodes].copy(), self.visited

    def run(
        self,
        n_jobs: int | None,
        limits: Limits,
        max_boxes: int | None,
        max_bytes: int,
        advance: Callable[[Partition], None],
        checkpoint: Checkpoint[Any] | None = None,
    ) -> bool:
        """Works until nothing waits or a limit is met; returns whether Ctrl-C ended it.

        After Ctrl-C the tasks under way stop early and still deliver what they cut.
        """
        in_order = max_boxes is not None or len(self.points) > 0
        crew = Crew(self.problem, n_jobs)

        def work(door: Door) -> None:
            with crew:
                while self.waiting and not limits.is_over() and self.n_bytes < max_bytes and self.n_nodes < MAX_NODES:
                    tasks = self._next(crew.size, in_order, limits, max_boxes)
                    if not tasks:
                        break
                    for task, piece in _pieces(crew, self.problem, tasks, limits):
                        if not door.let_in(partial(self.take, task.node, piece)):
                            return
                        if checkpoint is not None:
                            checkpoint.note()
                    advance(self)

        return run_watched(work, limits, None if checkpoint is None else partial(checkpoint.look, limits), GRACE)

    def _next(self, workers: int, in_order: bool, limits: Limits, max_boxes: int | None) -> list[Task]:
        """The next boxes to cut."""
        n = min(len(self.waiting), workers * TASKS_PER_WORKER)
        most = int(np.clip(TASK_TREES // self.problem.ensemble.n_trees, SMALL_TASK_BOXES, TASK_BOXES))
        if in_order:
            limit = SMALL_TASK_BOXES
        elif (
            limits.deadline is not None
        ):  # small enough at first for the largest boxes to come first, if there is little time
            limit = int(np.clip(self.visited // n, SMALL_TASK_BOXES, most))
        elif self.visited == 0:  # what is done before workers could be asked needs none
            limit = min(FIRST_TASK_BOXES, most)
        else:
            limit = int(np.clip(self.visited // workers, SMALL_TASK_BOXES, most))
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


def _pieces(crew: Crew[Problem], problem: Problem, tasks: list[Task], limits: Limits) -> Iterator[tuple[Task, Piece]]:
    """What becomes of the tasks, in their order: where they end up must not depend on which worker is faster."""
    if len(tasks) == 1:  # cut here: nothing is gained by asking a worker
        yield tasks[0], cut_up(problem, tasks[0])
        return
    arrived: dict[int, Piece] = {}
    following = 0
    for number, piece in crew.answers(cut_up, tasks, limits):
        arrived[number] = piece
        while following in arrived:
            yield tasks[following], arrived.pop(following)
            following += 1


def _inside(points: Int32Array, box: Records) -> Int32Array:
    """The points (n, n_features), as fine cells, that lie in the box."""
    return points[((points >= box["low"]) & (points <= box["high"])).all(axis=1)]


def list_leaves(grid: FineGrid, nodes: Records, status: int) -> tuple[npt.NDArray[np.int64], Records]:
    """The leaves of one status (-1: all), and their boxes (n, n_features) of fine cells."""
    from treeproof._kernels.maps.locate import list_parts

    cuts, space = cut_table(grid), np.zeros(grid.n_features, dtype=RANGE)
    space["high"] = grid.n_cells - 1
    none = np.empty(0, dtype=np.int64), np.empty((0, grid.n_features), dtype=RANGE)
    count = list_parts(nodes, cuts, space, status, *none)
    at, boxes = np.empty(count, dtype=np.int64), np.empty((count, grid.n_features), dtype=RANGE)
    list_parts(nodes, cuts, space, status, at, boxes)
    return at, boxes


def cut_table(grid: FineGrid) -> Records:
    """The cuts of all features in one row."""
    counts = np.diff(grid.bounds.offsets)
    cuts = np.empty(len(grid.bounds.cuts), dtype=CUT)
    cuts["value"] = grid.bounds.cuts
    cuts["feature"] = np.repeat(np.arange(len(counts)), counts)
    cuts["place"] = np.arange(len(cuts)) - grid.bounds.offsets[cuts["feature"]]
    return cuts
