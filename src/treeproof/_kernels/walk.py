"""Batch prediction: every row through every tree, then scores to a class index."""

from __future__ import annotations

import math

import numpy as np

from treeproof._kernels.jit import entry, inner

BLOCK = 128

ARGMAX = 0
CUT = 1
SOFTMAX = 2
SIGMOID = 3


@inner
def decide(scores, decision, cut, steepness):
    """scores (n_scores,) in the library's own precision: the class index it predicts.

    `scores` is overwritten where the library compares transformed scores: two scores that differ can
    round to the same probability, and then the lower class wins.
    """
    n = scores.shape[0]
    if decision == CUT:
        return 1 if scores[0] > cut else 0
    if decision == SOFTMAX:
        largest = scores[0]
        for k in range(1, n):
            largest = max(largest, scores[k])
        total = 0.0
        for k in range(n):
            scores[k] = math.exp(scores[k] - largest)
            total += scores[k]
        first = scores[0]
        scores[0] = total  # the libraries sum in double and divide by that sum in their own precision
        divisor = scores[0]
        scores[0] = first
        for k in range(n):
            scores[k] = scores[k] / divisor
    elif decision == SIGMOID:
        for k in range(n):
            scores[k] = 1.0 / (1.0 + math.exp(-steepness * scores[k]))
    best = 0
    for k in range(1, n):
        if scores[k] > scores[best]:
            best = k
    return best


@inner
def _goes_right(threshold, nan_left, more_start, more, i, x):
    """Whether a test, perhaps one with more cuts than its threshold, sends a value to the right."""
    if x != x:
        return not nan_left[i]
    right = x > threshold[i]
    if right:
        for j in range(more_start[i], more_start[i + 1]):
            if not x > more[j]:
                break
            right = not right
    return right


@inner
def _walk_block(rows, feature, threshold, left, nan_left, more_start, more, root, depth, has_nan, node):
    """rows (n, n_features): fills node[:n] with the leaf each row reaches in the tree at `root`.

    A right child stands behind its left sibling, and a leaf is its own left child with threshold +inf,
    so that a step is `left + (x > threshold)` with no branch. Node numbers are unsigned: numba then leaves
    out the wrap-around of negative indices, which halves the time.
    """
    n = rows.shape[0]
    for r in range(n):
        node[r] = root
    if more_start.shape[0] > 0:
        for _ in range(depth):
            for r in range(n):
                i = node[r]
                right = _goes_right(threshold, nan_left, more_start, more, i, rows[r, feature[i]])
                node[r] = left[i] + np.uint32(right)
    elif has_nan:
        for _ in range(depth):
            for r in range(n):
                i = node[r]
                x = rows[r, feature[i]]
                right = x > threshold[i] or (x != x and not nan_left[i])
                node[r] = left[i] + np.uint32(right)
    else:
        for _ in range(depth):
            for r in range(n):
                i = node[r]
                node[r] = left[i] + np.uint32(rows[r, feature[i]] > threshold[i])


@entry
def score_rows(X, walk, leaf_scores, base, base_last, divisor, has_nan, out):
    """X (n, n_features): fills out (n, n_scores), summing tree after tree in the dtype of `out`.

    `walk` are an ensemble's node arrays, a plain tuple: to call a kernel with one that has names takes much longer.
    """
    feature, threshold, left, nan_left, leaf, roots, depths, more_start, more = walk
    n_rows = X.shape[0]
    n_scores = leaf_scores.shape[1]
    node = np.empty(BLOCK, dtype=np.uint32)
    for start in range(0, n_rows, BLOCK):
        stop = min(start + BLOCK, n_rows)
        rows = X[start:stop]
        for r in range(start, stop):
            for k in range(n_scores):
                out[r, k] = 0 if base_last else base[k]
        for t in range(roots.shape[0]):
            _walk_block(rows, feature, threshold, left, nan_left, more_start, more, roots[t], depths[t], has_nan, node)
            for r in range(stop - start):
                row = leaf[node[r]]
                for k in range(n_scores):
                    out[start + r, k] += leaf_scores[row, k]
        for r in range(start, stop):
            for k in range(n_scores):
                out[r, k] = out[r, k] / divisor
                if base_last:
                    out[r, k] += base[k]


@entry
def decide_rows(scores, decision, cut, steepness, out):
    """scores (n, n_scores), overwritten: fills out (n,) with class indices."""
    for r in range(scores.shape[0]):
        out[r] = decide(scores[r], decision, cut, steepness)
