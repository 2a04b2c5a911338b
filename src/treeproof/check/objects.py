"""The same checks for models, attackers and results in memory: what files would hold goes to the checker itself.

This is the only part of the checker that needs more than Python.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.check import evidence
from treeproof.check.columns import Column
from treeproof.check.maps import Map, MapQuestion, check_boxes
from treeproof.check.model_file import Model
from treeproof.check.proof_file import ProofFile
from treeproof.check.results import check_result, check_told
from treeproof.check.rows import Checked, Question, check_header
from treeproof.check.rules import Rejected
from treeproof.errors import InvalidInput, SoundnessError
from treeproof.files import as_path
from treeproof.importers import as_ensemble
from treeproof.importers.native import columns_content as columns_content_of_model
from treeproof.importers.native import content_of as content_of_model
from treeproof.model.columns import CodedRows
from treeproof.model.ensemble import Ensemble
from treeproof.model.kept import Kept
from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import Status, Witness
from treeproof.results.verification import Verification
from treeproof.results.verification_file import content_of as content_of_result
from treeproof.threat.attacker import Attacker
from treeproof.threat.attacker_file import content_of as content_of_attacker
from treeproof.threat.epsilon import as_epsilon, as_sets
from treeproof.threat.moves import ANY
from treeproof.threat.one_hot import bind_valid, bind_valid_epsilon
from treeproof.threat.relations import Relations

_MODELS: Kept[Model] = Kept()
_REACHES: Kept[evidence.Reach] = Kept()


# --- what files would hold -------------------------------------------------------------------------------------------


def model_of(ensemble: Ensemble) -> Model:
    """The model as the checker reads it; made once."""
    return _MODELS.get(ensemble, "model", lambda: Model.of(content_of_model(ensemble, _as_it_is)))


def _as_it_is(value: Any, _: int = 0) -> Any:
    """A category or label, also one that no file could hold."""
    return value.item() if isinstance(value, np.generic) else value


def attacker_content(attacker: Attacker) -> dict[str, Any]:
    """What the file of an attacker says."""
    return content_of_attacker(attacker, _as_it_is)


def columns_content(ensemble: Ensemble) -> dict[str, Any]:
    """What the file of a model says of its columns."""
    columns = columns_content_of_model(ensemble.columns, _as_it_is)
    return {"columns": columns, "blanks_underscored": ensemble.blanks_underscored}


def epsilon_content(epsilon: Any) -> Any:
    """What a result file says of a neighbourhood."""

    def size_content(size: Any) -> Any:
        if isinstance(size, float):
            return None if math.isinf(size) else size
        return "any" if size == ANY else {"values": [list(one.values) for one in as_sets(size)]}

    return as_epsilon(0.0 if epsilon is None else epsilon).to_json(size_content)


# --- counterexamples -------------------------------------------------------------------------------------------------


def predict_row(model: Any, x: npt.ArrayLike) -> Any:
    """The label of one row by a plain walk, adding scores in the library's order and precision."""
    ensemble = as_ensemble(model)
    return ensemble.classes.tolist()[model_of(ensemble).label(np.asarray(x, dtype=np.float64).tolist())]


def is_witness(
    model: Any, attacker: Attacker, epsilon: Any, witness: Witness, relations: Relations | None = None
) -> bool:
    """Whether the witness holds: the neighbour is in N(x), the attack is in A(neighbour), and the label changes.

    With relations, both are valid rows, but for a neighbour that is the row itself. If the attacker has a goal, the
    label must change from one outside of it to one inside.

    Membership is decided by the definitions, with rational numbers; labels by a plain walk of the trees.
    """
    ensemble = as_ensemble(model)
    if not is_within_reach(ensemble, attacker, epsilon, witness, relations):
        return False
    before, after = (predict_row(ensemble, _doubles(ensemble, row)) for row in (witness.neighbour, witness.attacked))
    return before not in attacker.goal and after in attacker.goal if attacker.goal else bool(before != after)


def is_within_reach(
    ensemble: Ensemble, attacker: Attacker, epsilon: Any, witness: Witness, relations: Relations | None = None
) -> bool:
    """Whether the neighbour is in N(x) and the attack in A(neighbour), whatever their labels.

    With relations, both must be valid rows, but for a neighbour that is the row itself.
    """
    # An attacker or ε that does not fit the model is refused.
    threat = bind_valid(attacker, ensemble, None if relations is None else relations.given)
    bind_valid_epsilon(0.0 if epsilon is None else epsilon, ensemble, threat.relations)
    return Reach(ensemble, attacker, relations).holds(epsilon, witness)


def _doubles(ensemble: Ensemble, row: npt.NDArray[Any]) -> FloatArray:
    """A row as the model sees it: doubles, with codes for categories."""
    given = np.asarray(row)
    return ensemble.check_rows(given[None].view(CodedRows))[0] if given.dtype == object else given.astype(np.float64)


def _reach(ensemble: Ensemble, attacker: Attacker, relations: Sequence[str]) -> evidence.Reach:
    return evidence.Reach(columns_content(ensemble), attacker_content(attacker), relations)


class Reach:
    """Which rows are neighbours and what an attacker that fits the model can make of them, by the definitions."""

    def __init__(self, ensemble: Ensemble, attacker: Attacker, relations: Relations | None = None) -> None:
        self._ensemble = ensemble
        texts = () if relations is None else tuple(map(str, relations.given))
        self.plain = _REACHES.get(ensemble, (attacker, texts), lambda: _reach(ensemble, attacker, texts))
        self.columns = self.plain.columns
        self._around: dict[Any, evidence.Around] = {}

    def holds(self, epsilon: Any, witness: Witness) -> bool:
        """Whether a witness is within reach, as `is_within_reach` says."""
        rows = [_doubles(self._ensemble, row) for row in (witness.x, witness.neighbour, witness.attacked)]
        if any(row.shape != (self._ensemble.n_features,) for row in rows):
            return False
        spec = as_epsilon(0.0 if epsilon is None else epsilon)
        if spec not in self._around:
            self._around[spec] = self.plain.around(epsilon_content(spec))
        x, near, attacked = (row.tolist() for row in rows)
        return self.plain.holds(self._around[spec], x, near, attacked)


def columns_of(ensemble: Ensemble, attacker: Attacker) -> list[Column]:
    """What the attacker can do to each column of a model."""
    return Reach(ensemble, attacker).columns


# --- maps ------------------------------------------------------------------------------------------------------------


def map_content(ensemble: Ensemble, attacker: Attacker, smap: Any) -> Map:
    """A stability map as the checker reads it."""
    grid, nodes = smap.grid, np.ascontiguousarray(smap.nodes, dtype="<i4")
    ends = np.concatenate((grid.low, grid.high, grid.bounds.cuts)).astype("<f8")
    content = model_of(ensemble).content, attacker_content(attacker)
    return Map.of(*content, grid.bounds.offsets.astype("<i8").tobytes(), ends.tobytes(), nodes.tobytes())


def check_map(
    model: Any,
    attacker: Attacker,
    smap: Any,
    sample: int | None = None,
    seed: int | None = None,
    proofs: str | os.PathLike[str] | None = None,
) -> int:
    """Checks what proves every box of a stability map (or a random `sample` of them), and that they tile the space.

    Proofs are those of the file that `StabilityMap.prove` wrote; without it, and where it has none, boxes are not
    checked. A sample is drawn as by `check_verification`. Raises SoundnessError with the first box that does not hold;
    returns how many boxes were checked. Nothing is claimed about OPEN boxes.
    """
    ensemble = as_ensemble(model)
    try:
        question = MapQuestion(map_content(ensemble, attacker, smap))
        file = None if proofs is None else ProofFile.open(as_path(proofs))
        if file is not None:
            check_header(question, file)
        decided = [node for node, _, status in question.map.boxes() if status != Status.OPEN]
        if sample is not None:
            decided = [decided[i] for i in drawn(len(decided), sample, seed).tolist()]
        checked = 0
        for node, found in check_boxes(question, file, frozenset(decided)):
            if found.rejected:
                raise SoundnessError(f"the map's box {node} has no proof that holds: {found.rejected[node]}")
            checked += len(found.checked)
    except Rejected as error:
        raise SoundnessError(str(error)) from None
    return checked


# --- results ---------------------------------------------------------------------------------------------------------


def check_verification(
    model: Any,
    result: Verification,
    sample: int | None = None,
    seed: int | None = None,
    proofs: str | os.PathLike[str] | None = None,
) -> dict[str, int]:
    """Checks every row of a result (or a random `sample` of them) again: labels, counterexamples and proofs.

    Proofs are those of a file that `verify` wrote with `proofs=`; without it, or for rows of which it has none, they
    are counted and not checked. The sample is drawn from the operating system's randomness, so that nobody can tell
    before which rows it will be, unless a `seed` repeats one. Raises SoundnessError with the first row that does not
    hold. Returns how many labels, counterexamples and proofs were checked, and how many proofs were not.
    Counterexamples keep the result's relations, and the rows that break them are those that the result names.
    """
    question, found, _ = checked_rows(model, result, sample, seed, proofs)
    lacking = sum(len(question.proved(row)) for row in found.unchecked if row not in found.checked)
    proved = sum(len(question.proved(row)) for row in found.outcomes)
    counts = {"labels": len(found.outcomes), "counterexamples": found.counterexamples}
    return {**counts, "proofs": proved - lacking, "proofs not checked": lacking}


def checked_rows(
    model: Any,
    result: Verification,
    sample: int | None = None,
    seed: int | None = None,
    proofs: str | os.PathLike[str] | None = None,
) -> tuple[Question, Checked, list[int]]:
    """The same, with what was asked, what was found, and the rows."""
    ensemble = as_ensemble(model)
    if result.attacker is None:
        raise InvalidInput("the result does not name its attacker")
    bind_valid(result.attacker, ensemble, result.relations)
    rows = list(range(len(result))) if sample is None else drawn(len(result), sample, seed).tolist()
    question, all_found = Question(model_of(ensemble).content, content_of_result(result)), Checked()
    try:
        file = None if proofs is None else ProofFile.open(as_path(proofs))
        if file is not None:
            check_header(question, file)
        for row, found in check_result(question, file, rows):
            if found.rejected:
                raise SoundnessError(f"row {row}: {found.rejected[row]}")
            all_found.add(found)
        check_told(question)
    except Rejected as error:
        raise SoundnessError(str(error)) from None
    return question, all_found, rows


def drawn(n: int, sample: int, seed: int | None) -> npt.NDArray[np.int64]:
    """The places, in order, of a random sample out of n; without a seed, the operating system's randomness decides."""
    for name, value, least in (("sample", sample, 1), ("seed", seed, 0)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least):
            raise InvalidInput(f"{name} must be a whole number of at least {least}, got {value!r}", argument=name)
    return np.sort(np.random.default_rng(seed).choice(n, size=min(n, sample), replace=False))
