"""Algorithm 4 on several threads: the queue of candidates in lanes, and the work on them until a limit is reached.

The candidates are dealt round-robin to a fixed number of lanes, each a queue of its own, and threads take lanes as
they come. So the result depends on the number of lanes but not on the number of threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof._kernels.symbolic.records import LIST, SLOT, STATE
from treeproof.run.limits import Limits
from treeproof.symbolic.compiled import Boxes, CompiledAnalysis
from treeproof.symbolic.shifted_grid import as_cells, as_ranges

N_LANES = 20
"""As many as the paper's threads."""

CHUNK = 20_000
"""First candidates that a thread judges before it looks whether to stop."""

COPIES = 3
"""Attacks are counted so many times against the memory cap: in their queue, in the result, and in its index."""


class Memory:
    """Bytes that attacks may still take."""

    def __init__(self, n_bytes: int | None = None) -> None:
        self._left = 2**62 if n_bytes is None else n_bytes
        self._lock = threading.Lock()
        self.too_little = False
        """Whether some tree found no room: then there is no use in going on with others."""

    def take(self, n_bytes: int) -> bool:
        """Whether that much more may be used; negative numbers give it back."""
        with self._lock:
            if n_bytes > self._left:
                return False
            self._left -= n_bytes
            return True


class Workers:
    """Threads that do a list of tasks within limits, which somebody else watches."""

    def __init__(self, n_threads: int, limits: Limits, memory: Memory) -> None:
        self.limits, self.memory = limits, memory
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="treeproof")

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, problem: type[BaseException] | None, *_: object) -> None:
        if problem is not None:  # nobody waits for the other tasks any more
            self.limits.interrupt()
        self._pool.shutdown()

    def run(self, tasks: Iterable[Callable[[], Any]]) -> list[Any]:
        """The results of all tasks; when the limits are over, tasks end early."""
        futures: list[Future[Any]] = [self._pool.submit(task) for task in tasks]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
        return [future.result() for future in futures]


def first_candidates(compiled: CompiledAnalysis, workers: Workers) -> tuple[Boxes, npt.NDArray[np.int32]]:
    """The attacks on all trees (Alg. 4, lines 2-4) without duplicates, and per attack the tree it comes from.

    If there is no time or memory for them, the one attack that holds all others.
    """
    n_trees = compiled.ensemble.n_trees
    memory = workers.memory
    found = workers.run([partial(analyze_one, compiled, t, workers.limits, memory) for t in range(n_trees)])
    if any(part is None for part in found):
        memory.take(-COPIES * sum(part.nbytes for part in found if part is not None))
        return compiled.everything(), np.zeros(1, dtype=np.int32)
    boxes = np.concatenate(found)
    origin = np.repeat(np.arange(n_trees, dtype=np.int32), [len(part) for part in found])
    kept = unique_rows(boxes)
    memory.take(-COPIES * (len(boxes) - len(kept)) * boxes[:1].nbytes)
    return boxes[kept], origin[kept]


def annotate_one(
    compiled: CompiledAnalysis, tree: int, limits: Limits, memory: Memory
) -> tuple[npt.NDArray[np.int32], Boxes] | None:
    """Nodes and attacks of one tree (Alg. 1), or None if there is no time or memory."""
    from treeproof._kernels.symbolic.trees import annotate

    top = compiled.everything()

    def run(size: int) -> tuple[int, Any]:
        nodes = np.empty(size, dtype=np.int32)
        boxes = np.empty((size, *top.shape[1:]), dtype=top.dtype)
        root = compiled.ensemble.roots[tree]
        tests, rules = compiled.model.tests, compiled.rules
        return annotate(tests, root, rules, as_ranges(top[0]), nodes, as_ranges(boxes), limits.stop), (nodes, boxes)

    found: tuple[npt.NDArray[np.int32], Boxes] | None = _with_room(run, top.nbytes + 4, memory)
    return found


def analyze_one(compiled: CompiledAnalysis, tree: int, limits: Limits, memory: Memory) -> Boxes | None:
    """The attacks under which one tree's prediction may change (Alg. 3), or None if there is no time or memory."""
    from treeproof._kernels.symbolic.trees import analyze_tree

    annotated = None if memory.too_little else annotate_one(compiled, tree, limits, memory)
    if annotated is None:
        return None
    nodes, boxes = annotated

    def run(size: int) -> tuple[int, Any]:
        attacks = np.empty((size, *boxes.shape[1:]), dtype=boxes.dtype)
        model, rules, found = compiled.model, compiled.rules, as_ranges(attacks)
        return analyze_tree(model.tests, model.kinds, rules, nodes, as_ranges(boxes), found, limits.stop), (attacks,)

    found = _with_room(run, boxes[:1].nbytes, memory)
    memory.take(-COPIES * (boxes.nbytes + nodes.nbytes))
    return None if found is None else found[0]


def _with_room(run: Callable[[int], tuple[int, Any]], n_bytes: int, memory: Memory) -> Any:
    """Runs with arrays of growing size until they suffice; what is filled of them, which stays counted, or None."""
    from treeproof._kernels.symbolic.trees import FULL

    size = 256
    while memory.take(COPIES * size * n_bytes):
        n, arrays = run(size)
        memory.take(-COPIES * (size - max(n, 0)) * n_bytes)
        if n >= 0:
            return tuple(array[:n].copy() for array in arrays)
        if n != FULL:
            return None
        size *= 4
    memory.too_little = True
    return None


def unique_rows(rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The indices, in order, of the first of each set of equal rows."""
    if not len(rows):
        return np.empty(0, dtype=np.int64)
    flat = rows.reshape(len(rows), -1)
    weights = np.random.default_rng(0).integers(1, 2**62, size=flat.shape[1], dtype=np.int64) | 1
    keys = np.zeros(len(flat), dtype=np.int64)
    for column, weight in zip(flat.T, weights, strict=True):
        keys += column * weight  # wraps around
    order = np.argsort(keys, kind="stable")
    same = keys[order[1:]] == keys[order[:-1]]
    # Equal keys only say where to look; some at once, since rows are copied.
    for pairs in np.array_split(np.flatnonzero(same), len(same) // CHUNK + 1):
        same[pairs] = (flat[order[pairs + 1]] == flat[order[pairs]]).all(axis=1)
    return np.sort(order[np.concatenate(([True], ~same))])


class Lane:
    """One queue of candidates with the attacks that ended in it."""

    def __init__(
        self,
        compiled: CompiledAnalysis,
        workers: Workers,
        boxes: Boxes,
        origin: npt.NDArray[np.int32],
        what: npt.NDArray[np.int64],
        undecided: npt.NDArray[np.int64],
    ) -> None:
        from treeproof._kernels.symbolic.refinement import Queue, push_all

        self._compiled, self._scratch = compiled, compiled.scratch()
        self._limits, self._memory = workers.limits, workers.memory
        n, n_trees = len(boxes), compiled.ensemble.n_trees
        size = max(64, 2 * n)
        self.full = not self._memory.take(COPIES * 2 * size * (boxes[:1].nbytes + 16))
        if self.full:
            size = n
        slots, state = np.zeros(size, dtype=SLOT), np.zeros(1, dtype=STATE)
        slots["origin"][:n], slots["why"][:n] = origin, what
        state["n_slots"], state["free"] = n, -1
        self.queue = Queue(
            boxes=_longer(as_ranges(boxes), size),
            slots=slots,
            lists=np.full((64, n_trees + 1), -1, dtype=LIST),
            ended=as_ranges(np.empty((size, *boxes.shape[1:]), dtype=boxes.dtype)),
            picked=np.empty(size, dtype=np.int32),
            state=state,
        )
        push_all(undecided, self.queue)

    def count(self, what: str) -> int:
        """A count of the queue: iterations done, candidates left (n_open), attacks ended or split, slots ever used."""
        return int(self.queue.state[what][0])

    def open_attacks(self) -> Boxes:
        """The candidates that are left."""
        used = slice(self.count("n_slots"))
        return np.asarray(as_cells(self.queue.boxes[used])[self.queue.slots["level"][used] >= 0])

    def ended_attacks(self) -> Boxes:
        """The attacks that have ended."""
        return as_cells(self.queue.ended[: self.count("n_ended")])

    def run(self, until: int) -> None:
        """Works until this iteration, or nothing is left, or a limit is reached."""
        from treeproof._kernels.symbolic.refinement import GROW, refine

        while not self.full and not self._limits.stop[0]:
            status = refine(
                self._compiled.model, self._compiled.rules, self._scratch, self.queue, until, self._limits.stop
            )
            if status != GROW:
                return
            self.full = not self._grow()

    def _grow(self) -> bool:
        """Makes room for one more iteration; false if that is too much memory."""
        from treeproof._kernels.symbolic.refinement import MAX_PARTS, MIN_SPLITS, SHARE

        queue = self.queue
        picked = max(MIN_SPLITS, self.count("n_open") // SHARE)
        slots = _enough(len(queue.boxes), self.count("n_slots") + MAX_PARTS * picked)
        ended = _enough(len(queue.ended), self.count("n_ended") + MAX_PARTS * picked)
        levels = _enough(len(queue.lists), self.count("iteration") + 2)
        more = (slots - len(queue.boxes) + ended - len(queue.ended)) * (queue.boxes[:1].nbytes + 16)
        if not self._memory.take(COPIES * more):
            return False
        lists = _longer(queue.lists, levels)
        lists[len(queue.lists) :] = -1
        self.queue = queue._replace(
            boxes=_longer(queue.boxes, slots),
            slots=_longer(queue.slots, slots),
            lists=lists,
            ended=_longer(queue.ended, ended),
            picked=_longer(queue.picked, max(len(queue.picked), picked)),
        )
        return True


def _enough(size: int, needed: int) -> int:
    return size if needed <= size else max(2 * size, needed)


def _longer(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """The array with entries of zeros added at its end."""
    if size == len(array):
        return array
    longer = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    # Fields would be copied one by one, bytes are copied at once.
    whole = f"V{array.itemsize}"
    longer.view(whole)[: len(array)] = array.view(whole)
    return longer


def deal(
    compiled: CompiledAnalysis, workers: Workers, boxes: Boxes, origin: npt.NDArray[np.int32]
) -> tuple[Boxes, list[Lane]]:
    """Judges the first candidates: those that have ended already, and lanes for those to be split."""
    from treeproof._kernels.symbolic.refinement import ENDED, SPLIT_PRE, judge_all

    # What there is no time to judge counts as undecided.
    what, undecided = np.full(len(boxes), SPLIT_PRE), np.zeros(len(boxes), dtype=np.int64)

    def judge(first: int) -> None:
        part = slice(first, first + CHUNK)
        if not workers.limits.stop[0]:
            judge_all(
                as_ranges(boxes[part]),
                origin[part],
                compiled.model,
                compiled.rules,
                compiled.scratch(),
                what[part],
                undecided[part],
            )

    workers.run(partial(judge, first) for first in range(0, len(boxes), CHUNK))
    candidates = np.flatnonzero(what >= SPLIT_PRE)
    candidates = candidates[np.argsort(undecided[candidates], kind="stable")]
    ended = boxes[what == ENDED]
    workers.memory.take(-COPIES * (len(boxes) - len(ended)) * boxes[:1].nbytes)
    hands = (candidates[lane::N_LANES] for lane in range(N_LANES))
    lanes = [
        Lane(compiled, workers, boxes[hand], origin[hand], what[hand], undecided[hand]) for hand in hands if len(hand)
    ]
    return ended, lanes
