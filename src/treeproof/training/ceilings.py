"""How robust a classifier can be at all: rows of different classes that attacks can make alike.

Two such rows cannot both hold, whatever the classifier. So rows that hold share no such pair, and the largest number of
them is a question about a graph: with two classes all rows less a maximum matching (König), with more the lower of two
bounds: by linear programming, which is half a maximum matching of the graph doubled, and by cliques, which matchings of
one class after the other find.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets

from treeproof.errors import InvalidInput
from treeproof.model.builder import blank_ensemble
from treeproof.model.columns import Category
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import LARGEST_FLOAT32, FloatArray
from treeproof.results.asked import ColumnName
from treeproof.results.ceilings import Ceiling
from treeproof.threat.attacker import Attacker, check_attacker
from treeproof.threat.one_hot import bind_neighbours
from treeproof.threat.threat import Threat
from treeproof.training._columns import coded_frame
from treeproof.training._reaches import Bound, IntArray, Meeting, connected

MOST_PAIRS = 20_000_000
"""Of rows that meet, which are kept; once half of them are found, as many for each row that is left."""
LEAST_PER_ROW = 100
"""Of such pairs, however many rows there are."""
AT_ONCE = 50_000_000
"""Pairs that are compared before Python has a say."""
MOST_DOUBTFUL = 20_000
"""Pairs that are looked at in rational arithmetic."""


def ceiling(X: Any, y: npt.ArrayLike, attacker: Attacker, epsilon: Any = None) -> Ceiling:
    """The largest share of rows X with labels y at which any classifier can be robust, or with `epsilon` resilient.

    Where attacks can turn two rows of different classes into the same row, no classifier is right about both. With two
    classes, the largest set of rows without such a pair is found by a maximum matching, and some classifier has all of
    it; with more, the ceiling is a bound from above. `X` is an array or a data frame with categories; relations
    between columns are not known here.

    >>> from treeproof import Attacker
    >>> found = ceiling([[0.0], [1.0], [5.0]], ["no", "yes", "no"], Attacker((-0.5, 0.5)))
    >>> found.accuracy == 2 / 3, found.exact, found.pairs.tolist()
    (True, True, [[0, 1]])
    """
    rows, label, threat, blank = _bound(X, y, check_attacker(attacker))
    sizes = np.zeros(rows.shape[1])
    left_out: tuple[ColumnName, ...] = ()
    if epsilon is not None:
        threat, (around,) = bind_neighbours([epsilon], blank, threat)
        sizes = connected(threat, around.sizes, rows)
        names = blank.feature_names or range(len(sizes))
        left_out = tuple(names[f] for f in np.flatnonzero(sizes != around.sizes).tolist())
    bound = Bound(rows, label, threat, sizes)
    meeting = Meeting.of(bound, blank)
    pairs, found, sure = _meeting_pairs(meeting, bound)
    kept, matched, tight = _largest(pairs, bound)
    # A classifier that gives all rows the same label has all of a class.
    reached = kept == np.bincount(label).max()
    return Ceiling(
        accuracy=kept / len(rows),
        exact=bool(reached or (tight and sure and meeting.exact and not left_out)),
        n_rows=len(rows),
        n_classes=int(label.max()) + 1,
        conflicts=found,
        pairs=np.unique(np.sort(matched, axis=1), axis=0),
        reach="M(x)" if sizes.any() else "A(x)",
        left_out=left_out,
    )


def _bound(X: Any, y: npt.ArrayLike, attacker: Attacker) -> tuple[FloatArray, IntArray, Threat, Ensemble]:
    """The rows as doubles, class numbers, the attacker bound to the columns, and a model with these columns."""
    coded, categories = coded_frame(X)
    names = [str(name) for name in coded.columns] if hasattr(coded, "columns") else None
    if np.ndim(coded) != 2 or not all(np.shape(coded)):
        raise InvalidInput(f"X has shape {np.shape(coded)}; pass a table of at least one row and one column")
    labels = np.asarray(y)
    if labels.shape != np.shape(coded)[:1]:
        raise InvalidInput(f"X has {len(coded)} rows and y has shape {labels.shape}; give one label per row")
    try:
        with np.errstate(invalid="ignore"):
            check_classification_targets(labels)
        classes, numbers = np.unique(labels, return_inverse=True)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"y: {error}; give one label per row, all of them text or all of them numbers") from None
    # Every model takes at least its rows, and numbers of float32.
    blank = _blank(np.shape(coded)[1], classes, names, categories)
    rows = blank.check_rows(np.asarray(coded) if categories else coded, coded=True)
    most = float(np.nanmax(np.abs(rows), initial=LARGEST_FLOAT32))
    blank = _blank(rows.shape[1], classes, names, categories, value_limit=most)
    threat = attacker.bind(blank)
    threat.check_domain(rows, blank)
    return rows, numbers.reshape(-1).astype(np.int64), threat, blank


def _blank(width: int, classes: npt.NDArray[Any], names: Any, categories: dict[int, Category], **more: Any) -> Ensemble:
    return blank_ensemble(width, classes, names, categories=categories, handles_missing=True, **more)


def _meeting_pairs(meeting: Meeting, bound: Bound) -> tuple[IntArray, int, bool]:
    """Pairs of rows that attacks make alike, how many there are, and whether none is left out or in doubt."""
    from treeproof._kernels.training.meeting import Scratch, meeting_pairs

    reaches = meeting.reaches
    n = len(reaches.label)
    widest = max(int(np.diff(reaches.begin).max(initial=0)), 4)
    columns = len(reaches.columns)
    scratch = Scratch(
        np.zeros((columns, widest, 2), dtype=np.int64),
        np.zeros(columns, dtype=np.int64),
        np.zeros((4, reaches.budget + 1), dtype=np.int64),
    )
    room, counts = np.zeros((min(n * n, 10**6 + n), 2), dtype=np.int32), np.zeros(3, dtype=np.int64)
    parts, begin, kept, total, every = [], 0, 0, 0, 0
    while begin < n:
        most = n if 2 * kept < MOST_PAIRS else max(LEAST_PER_ROW, (MOST_PAIRS - kept) // (n - begin))
        begin = meeting_pairs(reaches, begin, most, AT_ONCE, scratch, np.zeros(3), room, counts)
        parts.append(room[: counts[0]].copy())
        kept, total, every = kept + int(counts[0]), total + int(counts[1]), every + int(counts[2])
    pairs = np.concatenate(parts)
    doubtful = pairs[:, 0] < 0
    unsure = meeting.order[np.stack((-1 - pairs[doubtful, 0], pairs[doubtful, 1]), axis=1)]
    certain, sure = _settled(unsure, bound)
    total += len(certain)
    pairs = np.concatenate((meeting.order[pairs[~doubtful]], certain)).astype(np.int32)
    return pairs, total, sure and kept == every


def _settled(pairs: IntArray, bound: Bound) -> tuple[IntArray, bool]:
    """Those of some pairs of rows that meet in the balls of an Lp attacker, and whether the others surely do not."""
    if not len(pairs):
        return pairs, True
    low, high = bound.threat.neighbourhood(bound.X, bound.sizes)
    still = bound.still
    meets = [
        _balls_meet(bound.threat, (low[i], high[i], bool(still[i])), (low[j], high[j], bool(still[j])))
        for i, j in pairs[:MOST_DOUBTFUL].tolist()
    ]
    known = len(pairs) <= MOST_DOUBTFUL and None not in meets
    return pairs[: len(meets)][np.array([met is True for met in meets], dtype=bool)], known


def _balls_meet(
    threat: Threat, one: tuple[FloatArray, FloatArray, bool], other: tuple[FloatArray, FloatArray, bool]
) -> bool | None:
    """Whether two rows meet, in rational arithmetic; None: it is not known. Each is the box of its neighbours."""
    power, limit = threat.power, threat.limit
    assert power is not None
    owed, gaps = [Fraction(0), Fraction(0)], []
    for f in np.flatnonzero((one[1] < other[0]) | (other[1] < one[0])).tolist():
        below = one[1][f] < other[0][f]
        start, end = (one[1][f], other[0][f]) if below else (one[0][f], other[1][f])
        goes = [bool(threat.high[f] > 0) and not one[2], bool(threat.low[f] < 0) and not other[2]]
        if not below:
            goes = [bool(threat.low[f] < 0) and not one[2], bool(threat.high[f] > 0) and not other[2]]
        if goes[0] and goes[1]:
            gaps.append((f, float(start), float(end)))
        elif goes[0] or goes[1]:
            owed[0 if goes[0] else 1] += threat.price(f, float(start), float(end))
        else:
            return False
    if max(owed) > limit:
        return False
    left = [float(limit - spent) ** (1 / power) for spent in owed]
    part = left[0] / sum(left) if sum(left) > 0 else 0.0
    for f, start, end in gaps:
        between = min(max(start + part * (end - start), min(start, end)), max(start, end))
        owed[0] += threat.price(f, start, between)
        owed[1] += threat.price(f, between, end)
    if max(owed) <= limit:
        return True
    # By Minkowski's inequality nobody can do better than half and half, where neither owes anything else.
    distance = sum((threat.price(f, start, end) for f, start, end in gaps), Fraction(0))
    return False if distance > 2**power * limit else None


def _largest(pairs: IntArray, bound: Bound) -> tuple[int, IntArray, bool]:
    """How many rows can be kept without any of these pairs at most, pairs that show it, and whether so many can be."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    n = len(bound.label)
    side = bound.still.astype(np.int64) if bound.threat.goal else bound.label
    if not (side[pairs] >= 2).any() and (side[pairs[:, 0]] != side[pairs[:, 1]]).all():
        # The search starts from rows without a mate, of which the smaller side leaves fewer.
        fewer = int(np.argmin(np.bincount(side, minlength=2)[:2]))
        ones = np.where(side[pairs[:, 0]] == fewer, pairs[:, 0], pairs[:, 1])
        graph = csr_matrix((np.ones(len(pairs), dtype=np.int8), (ones, pairs.sum(axis=1) - ones)), shape=(n, n))
        mate = maximum_bipartite_matching(graph, perm_type="column").astype(np.int64)
        matched = np.stack((np.flatnonzero(mate >= 0), mate[mate >= 0]), axis=1)
        return n - len(matched), matched, True
    both = np.concatenate((pairs, pairs[:, ::-1]))
    graph = csr_matrix((np.ones(len(both), dtype=np.int8), (both[:, 0], both[:, 1])), shape=(n, n))
    mate = maximum_bipartite_matching(graph, perm_type="column").astype(np.int64)
    kept = min((2 * n - int((mate >= 0).sum())) // 2, _cliques(graph, bound.label))
    return kept, _disjoint(mate), kept == _can_be_kept(graph, mate, bound.label)


def _cliques(graph: Any, label: IntArray) -> int:
    """A number of cliques, sets of rows of which any two are in conflict, that hold all rows: one of each can be kept.

    Class by class, as many rows as can be join a clique of the classes before, all of which they are in conflict with.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    n = len(label)
    adjacent = graph.astype(np.int32)
    clique, size = np.full(n, -1), np.zeros(n, dtype=np.int64)
    number = 0
    for each in np.argsort(-np.bincount(label), kind="stable").tolist():
        rows, earlier = np.flatnonzero(label == each), np.flatnonzero(clique >= 0)
        held = csr_matrix(
            (np.ones(len(earlier), dtype=np.int32), (clique[earlier], earlier)), shape=(max(number, 1), n)
        )
        common = (held @ adjacent)[:, rows].tocoo()
        fits = common.data == size[common.row]
        joins = csr_matrix((common.data[fits], (common.col[fits], common.row[fits])), shape=(len(rows), max(number, 1)))
        found = maximum_bipartite_matching(joins, perm_type="column").astype(np.int64)
        new = found < 0
        found[new] = number + np.arange(new.sum())
        number += int(new.sum())
        clique[rows] = found
        size[found] += 1
    return number


def _disjoint(mate: IntArray) -> IntArray:
    """Pairs in which no row is twice: every other step of the paths and circles that go from row to mate."""
    has_before = np.zeros(len(mate), dtype=bool)
    has_before[mate[mate >= 0]] = True
    free, pairs, after = np.ones(len(mate), dtype=bool), [], mate.tolist()
    for start in [*np.flatnonzero(~has_before).tolist(), *np.flatnonzero(has_before).tolist()]:
        row = start
        while after[row] >= 0 and free[row] and free[after[row]]:
            free[row] = free[after[row]] = False
            pairs.append((row, after[row]))
            row = after[after[row]]
            if row < 0:
                break
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _can_be_kept(graph: Any, mate: IntArray, label: IntArray) -> int:
    """A number of rows that can be kept for sure: those of the linear program, and of its halves one class.

    A cover of the doubled graph is found along paths from rows without a mate (König). A row of which neither copy is
    covered is kept, one with both is lost, and of one with a single copy the program takes half.
    """
    from scipy.sparse import bmat, csr_matrix
    from scipy.sparse.csgraph import breadth_first_order

    n = len(mate)
    some = np.flatnonzero(mate >= 0)
    back = csr_matrix((np.ones(len(some), dtype=np.int8), (mate[some], some)), shape=(n, n))
    begin = csr_matrix((mate < 0).astype(np.int8)[None])
    walk = bmat([[None, graph, None], [back, None, None], [begin, None, csr_matrix((1, 1))]], format="csr")
    seen = np.zeros(2 * n + 1, dtype=bool)
    seen[breadth_first_order(walk, 2 * n, return_predecessors=False)] = True
    covered = (~seen[:n]).astype(np.int64) + seen[n : 2 * n]
    halves = np.bincount(label[covered == 1], minlength=1)
    return int((covered == 0).sum() + halves.max())
