"""What a box leaves of a tree, and a copy of it to try cuts on."""

from __future__ import annotations

import numpy as np

from treeproof._kernels.bits import lowest_bit
from treeproof._kernels.jit import borrowing, tiny

FULL = np.uint64(0xFFFFFFFFFFFFFFFF)

# The lead of a tree without live leaves; leads stay below 2**58, and sums stop at the first such tree.
IMPOSSIBLE = np.int64(-(2**60))


@tiny
def start_trial(race, tree, now):
    """Makes the trial copy of a tree, once per stamp."""
    if tree.stamp != now:
        tree.stamp = now
        tree.trial, tree.trial_best = tree.live, tree.best
        for w in range(tree.words, tree.words + tree.extra):
            race.words[w].trial = race.words[w].live


@tiny
def keep_trial(race, tree):
    """Makes the trial copy of a tree what is left of it."""
    tree.live, tree.best = tree.trial, tree.trial_best
    for w in range(tree.words, tree.words + tree.extra):
        race.words[w].live = race.words[w].trial


@borrowing
def clear_bits(race, tree, test, right):
    """Clears the trial bits of a tree with many words that a test does not keep; whether any was set."""
    before = tree.trial
    tree.trial = before & (test.right if right else test.left)
    changed = tree.trial != before
    at = test.masks + (tree.extra if right else 0)
    for w in range(tree.extra):
        word = race.words[tree.words + w]
        before = word.trial
        word.trial = before & race.masks[at + w]
        changed |= word.trial != before
    return changed


@tiny
def _lead_of(race, tree, place):
    """The lead of a leaf, by its place in the tree."""
    # Unsigned: numba then leaves out the wrap-around of negative indices.
    return race.leaves[np.uint32(tree.leaf) + np.uint32(place)].lead


@borrowing
def best_lead(race, tree):
    """The lead that the best leaf of the trial copy gives."""
    if tree.trial != 0:
        return _lead_of(race, tree, lowest_bit(tree.trial))
    for w in range(tree.extra):
        bits = race.words[tree.words + w].trial
        if bits != 0:
            return _lead_of(race, tree, 64 * (w + 1) + lowest_bit(bits))
    return IMPOSSIBLE


@tiny
def try_side(race, tree, test, right):
    """Puts the trial copy of a tree on one side of a test; returns by how much its lead changes, or IMPOSSIBLE."""
    change = np.int64(0)
    if tree.extra == 0:
        before = tree.trial
        after = before & (test.right if right else test.left)
        if after == 0:
            change = IMPOSSIBLE
        elif after != before:
            tree.trial = after
            lead = _lead_of(race, tree, lowest_bit(after))
            change = lead - tree.trial_best
            tree.trial_best = lead
    elif clear_bits(race, tree, test, right):
        lead = best_lead(race, tree)
        change = IMPOSSIBLE if lead == IMPOSSIBLE else lead - tree.trial_best
        tree.trial_best = lead
    return change


@tiny
def _lowest_bits(n):
    return FULL if n >= 64 else (np.uint64(1) << np.uint64(n)) - np.uint64(1)


@borrowing
def revive(race):
    """Makes every leaf of a race live."""
    for t in range(race.trees.shape[0] - 1):
        tree = race.trees[t]
        n = race.trees[t + 1].leaf - tree.leaf
        tree.live = _lowest_bits(n)
        for w in range(tree.extra):
            race.words[tree.words + w].live = _lowest_bits(n - 64 * (w + 1))
