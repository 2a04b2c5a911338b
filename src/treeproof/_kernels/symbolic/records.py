"""The records that the symbolic kernels work on. An array of records is one argument, and an element a bare pointer.

Numba counts references to arrays, with atomic operations; records have none to count. This module does without numba,
so that whoever fills these arrays can import it at any time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

PRE, POST = 0, 1  # the images of an attack: axis 0 of a box (2, n_features) of ranges


def range_type(cell_type: Any) -> np.dtype[Any]:
    """The cells from `low` to `high` of one feature, both included, as whole numbers of this type."""
    return np.dtype([("low", cell_type), ("high", cell_type)], align=True)


# Per cell: moves out of it end in the cells reach_low to reach_high, moves into it begin in back_low to back_high. The
# first cell from it on that moves can end in at all is next_end, the last one up to it last_end.
MOVE = np.dtype(
    [
        ("reach_low", "i4"),
        ("reach_high", "i4"),
        ("back_low", "i4"),
        ("back_high", "i4"),
        ("next_end", "i4"),
        ("last_end", "i4"),
    ],
    align=True,
)

# Cell c has entry `start + c` in arrays over the cells of all features, and `last` is the highest cell. `gaps`: moves
# cannot end in some cells between others. `away`: so it is, or the interval excludes 0; a move may then lead over the
# place where one would like to end.
FEATURE = np.dtype([("start", "i8"), ("cost", "i8"), ("last", "i4"), ("away", "?"), ("gaps", "?")], align=True)

# A node: cells up to `cut` go left, and the side changes at each of its further cuts, as in a node of the model; a
# missing value goes left iff nan_left. `leaf` numbers the leaves, tree after tree; a leaf has feature LEAF.
TEST = np.dtype(
    [
        ("feature", "i4"),
        ("cut", "i4"),
        ("more", "i4"),
        ("end", "i4"),
        ("left", "i4"),
        ("right", "i4"),
        ("leaf", "i4"),
        ("nan_left", "?"),
    ],
    align=True,
)
LEAF = -1

# A tree: its root, and its leaves as bits, `n_leaves` from number first_leaf on, from bit `shift` of word `word` on.
TREE = np.dtype([("root", "i4"), ("word", "i4"), ("shift", "i4"), ("first_leaf", "i4"), ("n_leaves", "i4")], align=True)

# The largest and smallest lead of one class over another, in whole units.
SPAN = np.dtype([("largest", "i8"), ("smallest", "i8")], align=True)

# A vote for a split: the feature, and the cell, numbered over all features, behind which a test cuts.
VOTE = np.dtype([("cell", "i8"), ("feature", "i4")], align=True)

# An attack in a queue: the tree it comes from, n_c or how many splits led to it (-1: the slot is unused), the slot that
# follows it in its list (-1: none), and how it is to be split.
SLOT = np.dtype([("origin", "i4"), ("level", "i4"), ("following", "i4"), ("why", "i1")], align=True)

# The first and last slot of a list, -1 if it is empty.
LIST = np.dtype([("first", "i4"), ("last", "i4")], align=True)

# A queue as a whole. `free` is the first slot of the list of unused ones below n_slots, `first_level` the lowest level
# where an attack may wait.
STATE = np.dtype(
    [
        ("n_open", "i8"),
        ("n_ended", "i8"),
        ("n_slots", "i8"),
        ("free", "i8"),
        ("iteration", "i8"),
        ("first_level", "i8"),
        ("n_splits", "i8"),
    ],
    align=True,
)

# A node of the index over boxes: its children, -1 in a leaf, and its boxes from `first` up to `end`.
BRANCH = np.dtype([("left", "i4"), ("right", "i4"), ("first", "i4"), ("end", "i4")], align=True)
