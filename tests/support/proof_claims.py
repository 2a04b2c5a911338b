"""Claims about rows with any bytes as their proofs, put to the checker as files of models and results say them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import treeproof as tp
from treeproof.check.rows import Checked, Question, check_rows
from treeproof.importers.native import as_text
from treeproof.model.ensemble import Ensemble
from treeproof.results.verification_file import epsilon_to_json
from treeproof.threat.attacker_file import content_of
from treeproof.verification.proofs import number

Point = Sequence[float]
NO_LIMIT = 2**24
PROVED, REFUTED = 0, 1


class InMemory:
    """Payloads of rows in place of a file of proofs."""

    def __init__(self, payloads: Mapping[int, bytes]) -> None:
        self.rows, self.without = payloads, dict[int, str]()

    def payload(self, row: int) -> bytes:
        """The steps of the proof of one row."""
        return self.rows[row]


def question_about(
    ensemble: Ensemble, attacker: Mapping[str, Any], rows: Sequence[Point], epsilons: Sequence[Any]
) -> Question:
    """A question whose result calls nothing proved; the attacker as in files."""
    predicted = ensemble.predict(rows).tolist()
    result = {
        "format": "treeproof-verification",
        "version": 4,
        "attacker": attacker,
        "n_features": ensemble.n_features,
        "feature_names": ensemble.feature_names,
        "epsilons": [epsilon_to_json(epsilon) for epsilon in epsilons],
        "X": [[None if math.isnan(value) else value for value in row] for row in rows],
        "predicted": predicted,
        "y": predicted,
        "stability": [REFUTED] * len(rows),
        "resilience": [[REFUTED] * len(rows) for _ in epsilons],
    }
    return Question(json.loads(as_text(ensemble)), result)


class Claims:
    """A model and an attacker, of whose rows anything may be claimed."""

    def __init__(
        self, ensemble: Ensemble, attacker: tp.Attacker, rows: Sequence[Point], epsilons: Sequence[Any]
    ) -> None:
        self.question = question_about(ensemble, content_of(attacker), rows, epsilons)

    def check(self, row: int, which: int, proof: bytes) -> Checked:
        """What becomes of the claim that a row (0), or its k-th neighbourhood, is proved by a proof."""
        result = self.question.result
        outcomes = [result["stability"], *result["resilience"]][which]
        outcomes[row] = PROVED
        payload = number(1) + number(which) + proof
        ((_, checked),) = check_rows(self.question, InMemory({row: payload}), [row])
        outcomes[row] = REFUTED
        return checked

    def accepts(self, row: int, which: int, proof: bytes) -> bool:
        """Whether the checker is content with it."""
        return self.check(row, which, proof).checked == [row]
