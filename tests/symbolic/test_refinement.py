"""What the first candidates of Algorithm 4 take of the memory that there may be."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier

import treeproof as tp
from treeproof.run.limits import Limits
from treeproof.symbolic.compiled import Boxes, CompiledAnalysis
from treeproof.symbolic.refinement import COPIES, Memory, Workers, analyze_one, deal, first_candidates


def analysis() -> tuple[CompiledAnalysis, list[Boxes]]:
    X, y = load_digits(return_X_y=True)
    model = tp.from_model(ExtraTreesClassifier(8, max_depth=5, random_state=0).fit(X, y))
    compiled = CompiledAnalysis.build(model, tp.Attacker((-3, 3), budget=2).bind(model), False)
    found = [analyze_one(compiled, tree, Limits(), Memory()) for tree in range(model.n_trees)]
    return compiled, [part for part in found if part is not None]


def test_they_are_counted_while_they_are_kept() -> None:
    compiled, parts = analysis()
    assert len(parts) == 8
    most = 20 * COPIES * sum(part.nbytes for part in parts)
    memory = Memory(most)
    with Workers(1, Limits(), memory) as workers:
        boxes, origin = first_candidates(compiled, workers)
        kept = COPIES * boxes.nbytes
        assert len(boxes) > 1 and not memory.take(most - kept + 1) and memory.take(most - kept)
        memory.take(kept - most)
        ended, lanes = deal(compiled, workers, boxes, origin)
        held = COPIES * ended.nbytes + sum(lane.queue.boxes.nbytes + lane.queue.ended.nbytes for lane in lanes)
        assert not memory.take(most - held)


def test_no_tree_is_begun_after_one_that_found_no_room() -> None:
    compiled, parts = analysis()
    for share in np.linspace(0.0, 1.0, 6):
        memory = Memory(int(share * COPIES * sum(part.nbytes for part in parts)))
        with Workers(1, Limits(), memory) as workers:
            boxes, _ = first_candidates(compiled, workers)
        assert memory.too_little and len(boxes) == 1
        assert memory.take(int(share * COPIES * sum(part.nbytes for part in parts))), "all of it is given back"
        assert analyze_one(compiled, 0, Limits(), memory) is None
