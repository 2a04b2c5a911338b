"""The tables that the loops of the stability map work on: arrays of records, and tuples of such arrays.

A record is a bare pointer in numba. Handing one over costs nothing, and what is read together lies together. But it
does not keep its array alive: a record of an array that grew is fetched again, and the array must be used afterwards.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

MAX_LEAVES = 64
"""Leaves of a tree that fit a word."""
MIXED, UNREACHED = -1, -2
"""Instead of a group: leaves that something tells apart, and a node that no point leads to."""

# --- the space and the attacker --------------------------------------------------------------------------------------

RANGE = np.dtype([("low", "i4"), ("high", "i4")], align=True)
"""Cells of one feature, both ends included; a box is a row of them."""

FEATURE = np.dtype(
    [("start", "i8"), ("coarse_start", "i8"), ("movable", "?"), ("irregular", "?"), ("away", "?")], align=True
)
"""Where the fine cells and the coarse cuts of a feature begin; whether an attack can bring it into another coarse cell;
whether what all of a box can reach does not follow from its first and last cell; whether its interval excludes 0."""

CELL = np.dtype(
    [("own", "i4"), ("hull_low", "i4"), ("hull_high", "i4"), ("must_low", "i4"), ("must_high", "i4")], align=True
)
"""A fine cell: the coarse cell that holds it, those that moves may reach (it among them, and monotone over the fine
cells of a feature), and those that moves reach for certain, none if `must_low > must_high`."""

ATTACK = np.dtype([("first", "i4"), ("end", "i4")], align=True)
"""A set of features that an attack moves: its place in `Space.attacked`."""


class Space(NamedTuple):
    """What stays the same for all boxes: fine grid, attacks, and how scores are compared."""

    features: Any
    """(n_features,) FEATURE"""
    cells: Any
    """(n_cells,) CELL, feature after feature"""
    fine_cuts: Any
    """(n_cuts,): per coarse cut, feature after feature, the fine cell that ends there"""
    nodes: Any
    more: Any
    """The nodes of the model, and their further cuts"""
    attacks: Any
    """(n_attacks,) ATTACK"""
    attacked: Any
    """The features of each attack, one attack after the other"""
    offset: Any
    """(n_classes,): what is added to the scores"""
    slack: Any
    """Scores that differ by no more may be ordered either way"""
    max_cells: Any
    """The number of coarse cells of the feature that has most"""


# --- the part of a model that a box leaves open ----------------------------------------------------------------------

MARK = np.dtype([("group", "i4"), ("row", "i4")], align=True)
"""What a box leaves of a node: the common group of its leaves (or MIXED, UNREACHED), and the row of one of them."""

TREE = np.dtype(
    [("leaf", "i4"), ("test", "i4"), ("pair", "i4"), ("pair_end", "i4"), ("set", "i4"), ("set_end", "i4"),
     ("use", "i4"), ("use_end", "i4")],
    align=True,
)  # fmt: skip
"""Where an open tree's leaves, tests, features, attacked sets and uses begin and end. Its first set is empty; the
second one has every feature that can be moved."""

LEAF = np.dtype([("lead", "i8"), ("group", "i4")], align=True)
"""The lead of class 1 over class 0, from high to low within a tree; nothing tells the leaves of a group apart."""

PAIR = np.dtype([("table", "i8"), ("feature", "i4"), ("ragged", "i4")], align=True)
"""A feature that a tree tests; `table + c` is the MASK of its coarse cell c. `ragged` is 0 where the cells of each leaf
are one range, else the number of cells: that many masks make up each level of unions."""

MASK = np.dtype([("at_least", "u8"), ("at_most", "u8")], align=True)
"""The leaves of a tree that some cell at or above this one, or at or below it, leads to; see `masks.py`."""

USE = np.dtype([("attack", "i4"), ("set", "i4")], align=True)
"""An attack that moves features of a tree, and the set of those that it moves."""

TEST = np.dtype(
    [("left", "u8"), ("right", "u8"), ("feature", "i4"), ("cut", "i4"), ("fine_cut", "i4"), ("right_test", "i4")],
    align=True,
)
"""A test of a tree: the leaves on its sides, the last coarse and fine cell on the left, and the test that the right
side begins with. Tests stand in preorder, so the left side begins with the next one. One with several cuts has none of
them here, and as `fine_cut` -1 - its node in the model."""


class Boxed(NamedTuple):
    """The trees that a box and all attacks on it leave open; made by `boxed_model`."""

    trees: Any
    """(n,) TREE"""
    leaves: Any
    """LEAF, tree after tree"""
    value: Any
    """(leaves, n_classes): scores in whole units"""
    pairs: Any
    """PAIR, tree after tree"""
    masks: Any
    """MASK"""
    place: Any
    """(n, n_features): a feature's number among those of the tree, -1 where the tree does not test it"""
    members: Any
    """Per attacked set, tree after tree, a bit per feature of the tree that is moved"""
    uses: Any
    """USE, tree after tree"""
    tests: Any
    """TEST, tree after tree"""
    settled: Any
    """(n_classes,): what all other trees contribute"""


# --- a box and the work on it ----------------------------------------------------------------------------------------

FRAME = np.dtype(
    [("node", "i8"), ("stage", "i8"), ("feature", "i8"), ("cell", "i8"), ("right_first", "i8"), ("begin", "i8"),
     ("middle", "i8"), ("end", "i8"), ("n_trees", "i8")],
    align=True,
)  # fmt: skip
"""A box that is being cut: its node, how many of its sides are done, the cut behind a cell of a feature, whether its
right side comes first, where its points begin, where those of the right side do, where they end, and its open trees."""

NODE = np.dtype([("cut", "i4"), ("child", "i4")], align=True)
"""A node of the tree of cuts: the cut, numbered over all features, and the node of its left part, with that of the
right part behind it; for a leaf -1 and -1 - status."""

CUT = np.dtype([("value", "f8"), ("feature", "i4"), ("place", "i4")], align=True)
"""A cut: a point goes left iff it has at most this value there; `place` numbers the cuts of a feature."""

REST = np.dtype([("node", "i8"), ("points", "i8")], align=True)
"""A part that is left over, and the number of points in it."""


WORK = np.dtype(
    [("level", "i8"), ("n_nodes", "i8"), ("n_rest", "i8"), ("visited", "i8"), ("limit", "i8"), ("full", "?")],
    align=True,
)
"""How far the work is: the level it is at (-1: done), nodes and rest so far, boxes visited of those that may be, and
whether no more may be visited."""


class Found(NamedTuple):
    """What a box was cut into."""

    nodes: Any
    """NODE: the tree of cuts"""
    rest: Any
    """(m,) REST: parts left over, OPEN or PENDING"""
    rest_box: Any
    """(m, n_features) RANGE of fine cells"""


class Guide(NamedTuple):
    """Points that say which parts come first."""

    points: Any
    """(n, n_features) fine cells"""
    order: Any
    """(n,): the points of each box stand together"""


class Levels(NamedTuple):
    """The boxes from the whole to the part that is looked at, one per level."""

    frames: Any
    """(levels,) FRAME"""
    boxes: Any
    """(levels, n_features) RANGE of fine cells"""
    words: Any
    """(levels, n_sets): per tree and attacked set the live leaves"""
    trees: Any
    """(levels, n): the open trees, as many as the frame says"""
    settled: Any
    """(levels, n_classes): what the other trees contribute"""


class Part(NamedTuple):
    """One box of the levels."""

    box: Any
    words: Any
    trees: Any
    settled: Any


LEADS = np.dtype([("greatest", "i8"), ("least", "i8"), ("moved", "i8"), ("set", "i8")], align=True)
"""An open tree's largest and smallest lead without attack, the smallest after moves, and its set under an attack."""

CHANGE = np.dtype([("top", "i8"), ("bottom", "i8")], align=True)
"""By how much the largest and the smallest lead of all trees change when a feature is moved to a cell."""

VOTE = np.dtype([("stamp", "i8"), ("weight", "f8")], align=True)
"""How much trees ask for a cut; of another box if the stamp is."""

WAITING = np.dtype([("word", "u8"), ("weight", "f8"), ("test", "i8")], align=True)
"""Live leaves of a tree that still vote, beginning with a test."""


class Scratch(NamedTuple):
    """Room to work in."""

    leads: Any
    """(n,) LEADS"""
    attack_top: Any
    """(n_attacks,): the largest lead under each attack"""
    changes: Any
    """(max_cells,) CHANGE"""
    moved: Any
    """(n_features,) RANGE of coarse cells that moves have led to"""
    votes: Any
    """(fine cuts,) VOTE"""
    waiting: Any
    """(MAX_LEAVES,) WAITING"""


# How the lead is read: class 1 over class 0, the other way round, or any class over another.
ONE, ZERO, ANY = 0, 1, 2


class Race(NamedTuple):
    """Class `other` against `label`: it may win with a lead of `need`, and surely wins with one of `sure`."""

    other: Any
    label: Any
    mode: Any
    """ONE, ZERO or ANY"""
    constant: Any
    """The lead from what does not depend on the open trees"""
    need: Any
    sure: Any


class Bounds(NamedTuple):
    """The largest and the smallest lead."""

    top: Any
    bottom: Any


class Target(NamedTuple):
    """What a box is cut for: a race without attack (-1), or under one; feature `pin`, unless -1, is moved to `cell`."""

    race: Race
    attack: Any
    pin: Any
    cell: Any
    spread: Any
    """How far apart the bounds of the lead are"""
