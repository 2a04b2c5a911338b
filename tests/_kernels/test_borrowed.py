"""Borrowed arrays: the same numbers, and no references counted."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from treeproof._kernels.borrowed import borrowed

PAIR = np.dtype([("low", "i2"), ("high", "i2")], align=True)


class Leaf(NamedTuple):
    """One array and a number."""

    values: Any
    step: Any


class Room(NamedTuple):
    """Arrays of numbers and records, and a tuple inside the tuple."""

    numbers: Any
    pairs: Any
    leaf: Any


def room() -> Room:
    return Room(np.arange(6.0).reshape(2, 3), np.array([(1, 2), (3, 4)], dtype=PAIR), Leaf(np.arange(5), 7))


@intrinsic
def has_owner(typing_context, array):
    """Whether references to the array would be counted."""

    def codegen(context, builder, signature, arguments):
        owner = context.make_array(signature.args[0])(context, builder, arguments[0]).meminfo
        return builder.icmp_unsigned("!=", owner, owner.type(None))

    return types.boolean(array), codegen


@njit
def owners(room):
    lent = borrowed(room)
    view, row = lent.numbers[1], borrowed(room.numbers)[0]
    return (
        (has_owner(room.numbers), has_owner(room.pairs), has_owner(room.leaf.values)),
        (has_owner(lent.numbers), has_owner(lent.pairs), has_owner(lent.leaf.values), has_owner(view), has_owner(row)),
    )


@njit
def change(room):
    """Reads and writes everything through borrowed arrays."""
    lent = borrowed(room)
    for i in range(lent.numbers.shape[0]):
        row = lent.numbers[i]
        for j in range(row.shape[0]):
            row[j] += lent.leaf.step
    for pair in lent.pairs:
        pair.low, pair.high = pair.high, pair.low
    lent.leaf.values[2] = -1
    return lent.leaf.values.sum() + lent.leaf.step


def test_arrays_and_their_views_have_no_owner() -> None:
    lender, lent = owners(room())
    assert all(lender) and not any(lent)


def test_what_is_written_to_a_borrowed_array_is_seen_by_its_owner() -> None:
    given = room()
    assert change(given) == 0 + 1 - 1 + 3 + 4 + 7
    assert given.numbers.tolist() == (np.arange(6.0).reshape(2, 3) + 7).tolist()
    assert given.pairs.tolist() == [(2, 1), (4, 3)]
    assert given.leaf.values.tolist() == [0, 1, -1, 3, 4]


def test_references_are_as_before() -> None:
    given = room()
    arrays = given.numbers, given.pairs, given.leaf.values
    before = [sys.getrefcount(array) for array in arrays]
    for _ in range(10):
        change(given)
    assert [sys.getrefcount(array) for array in arrays] == before
