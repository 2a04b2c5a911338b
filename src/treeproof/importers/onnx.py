"""ONNX: graphs whose label comes from one TreeEnsembleClassifier, as skl2onnx, onnxmltools and CatBoost write them.

The ground truth is onnxruntime on a batch of rows with `intra_op_num_threads=1`. It compares in the dtype of the
input, adds weights in that dtype, tree after tree in the order of the file, and base values last; the label is
decided on these sums, whatever `post_transform` then does to the probabilities. With one thread the sums do not depend
on the batch. With more, onnxruntime (1.31) keeps this order for 2 to 50 rows at a time; for larger batches, and for a
single row with more than 80 trees, it splits the trees among threads and adds partial sums, so that a sum within
rounding of a tie can get another label. treeproof answers for the order that does not depend on the machine.

A float32 input means that rows of doubles are cast before they are passed; the cast is part of each threshold.
A NaN fails every comparison and follows `nodes_missing_value_tracks_true`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.importers._exact_thresholds import float32_at_most_threshold
from treeproof.importers._onnx_graph import (
    FLOATS,
    INTS,
    STRING,
    STRINGS,
    TENSOR,
    Input,
    after_lookup,
    array,
    as_labels,
    attributes_of,
    check_model,
    input_of,
    label_output,
)
from treeproof.importers._refusals import check_size, library, refuse_voting
from treeproof.model.builder import LEAF, EnsembleBuilder
from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision, ScoreRule
from treeproof.numbers.doubles import LARGEST, LARGEST_FLOAT32, FloatArray, next_down

# For each comparison: does the lower side go to the true child, and does the value itself belong to the lower side?
_MODES = {
    b"BRANCH_LEQ": (True, True),
    b"BRANCH_LT": (True, False),
    b"BRANCH_GT": (False, True),
    b"BRANCH_GTE": (False, False),
}


# The attributes of a TreeEnsembleClassifier, with their types; numbers can also be kept as a tensor.
_NUMBERS = ("base_values", "class_weights", "nodes_hitrates", "nodes_values")
_OF_NODES = ("falsenodeids", "featureids", "missing_value_tracks_true", "nodeids", "treeids", "truenodeids")
_ATTRIBUTES = {
    **dict.fromkeys(_NUMBERS, FLOATS),
    **{f"{name}_as_tensor": TENSOR for name in _NUMBERS},
    **{f"class_{name}": INTS for name in ("ids", "nodeids", "treeids")},
    **{f"nodes_{name}": INTS for name in _OF_NODES},
    "classlabels_int64s": INTS,
    "classlabels_strings": STRINGS,
    "nodes_modes": STRINGS,
    "post_transform": STRING,
}
_TRANSFORMS = (b"NONE", b"SOFTMAX", b"LOGISTIC", b"SOFTMAX_ZERO", b"PROBIT")


class _Nodes(NamedTuple):
    """All nodes of all trees in file order, (n_nodes,) each; children are node ids within the tree."""

    tree: npt.NDArray[np.int64]
    id: npt.NDArray[np.int64]
    feature: npt.NDArray[np.int64]
    value: FloatArray
    mode: list[bytes]
    true: npt.NDArray[np.int64]
    false: npt.NDArray[np.int64]
    missing_true: npt.NDArray[np.bool_]


class _Weights(NamedTuple):
    """What leaves add to classes, (n_weights,) each."""

    tree: npt.NDArray[np.int64]
    node: npt.NDArray[np.int64]
    klass: npt.NDArray[np.int64]
    value: FloatArray


def import_model(model: Any, *, voting: object) -> Ensemble:
    """The exact ensemble of an onnx ModelProto."""
    refuse_voting(voting, "an ONNX graph")
    onnx = library("onnx")
    if not isinstance(model, onnx.ModelProto):
        raise UnsupportedModel(f"an onnx {type(model).__qualname__} is not a whole model; pass the ModelProto")
    return _ensemble(model, OnnxSource.of(model))


def load_bytes(data: bytes, *, voting: object) -> Ensemble:
    """The exact ensemble of an `.onnx` file."""
    refuse_voting(voting, "an ONNX graph")
    onnx = library("onnx")
    from google.protobuf.message import DecodeError

    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise InvalidInput(f"the bytes are not an ONNX model: {error}") from None
    return _ensemble(model, None)


class OnnxSource:
    """Asks onnxruntime for labels, in the one way whose sums are reproducible; can be pickled."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._session: Any = None

    @classmethod
    def of(cls, model: Any) -> OnnxSource | None:
        """The source of a ModelProto, or None if onnxruntime is not installed."""
        try:
            import onnxruntime  # noqa: F401
        except ImportError:
            return None
        return cls(model.SerializeToString())

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The label that onnxruntime gives each row."""
        if self._session is None:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            self._session = onnxruntime.InferenceSession(self._data, options, providers=["CPUExecutionProvider"])
        taken = self._session.get_inputs()[0]
        rows = np.asarray(X, dtype=np.float64)
        # The scores of a single row may be summed in another order than those of a batch.
        batch = np.repeat(rows, 2, axis=0) if len(rows) == 1 else rows
        narrow = np.float32 if taken.type == "tensor(float)" else np.float64
        labels = self._session.run([self._label_name()], {taken.name: batch.astype(narrow)})[0]
        return np.asarray(labels).reshape(-1)[: len(rows)]

    def _label_name(self) -> str:
        from onnx import ModelProto

        return label_output(ModelProto.FromString(self._data).graph)[0]

    def __getstate__(self) -> dict[str, Any]:
        return {"_data": self._data, "_session": None}


def _ensemble(model: Any, source: OnnxSource | None) -> Ensemble:
    check_model(model)
    graph = model.graph
    _, tree_node, after = label_output(graph)
    attributes = attributes_of(tree_node, _ATTRIBUTES)
    if "post_transform" in attributes and attributes["post_transform"].s not in _TRANSFORMS:
        raise UnsupportedModel(f"post_transform {attributes['post_transform'].s!r} is unknown")
    taken = input_of(graph, tree_node)
    labels = _labels(attributes)
    classes = after_lookup(labels, after, graph)
    nodes, weights = _nodes(attributes, taken.dtype), _weights(attributes, taken.dtype)
    base = _floats(attributes, "base_values", taken.dtype)
    runs = _runs(nodes)
    rule, columns = _rule(labels, weights, base, taken.dtype)
    n_scores = 1 if columns is not None else len(labels)
    check_size(len(nodes.tree), n_scores)
    builder = EnsembleBuilder(
        n_features=taken.n_features,
        classes=classes,
        rule=rule,
        base=base[:n_scores] if len(base) else None,
        handles_missing=True,
        value_limit=LARGEST_FLOAT32 if taken.narrowed else LARGEST,
        origin="ONNX TreeEnsembleClassifier",
        source=source,
    )
    scored_everywhere = np.zeros(n_scores, dtype=bool)
    for run, (of_node, klass, value) in zip(runs, _weights_per_run(nodes, weights, runs), strict=True):
        tree = _tree(nodes, run, taken)
        scores, present = _scores(of_node, klass, value, tree["feature"] < 0, columns, n_scores)
        scored_everywhere |= present.all(axis=0)
        builder.add_tree(**tree, scores=scores)
    if not scored_everywhere.all() and (columns is not None or not len(base)):
        # onnxruntime leaves a class out of the comparison if its path gives it no weight; 0 would not be the same.
        raise UnsupportedModel(
            f"class {int(np.argmin(scored_everywhere))} gets no score on some paths, and onnxruntime then does not "
            "consider it; export the model with a weight for it in every leaf of one tree"
        )
    return builder.build()


# --- attributes of the TreeEnsembleClassifier ---


def _ints(attributes: dict[str, Any], name: str) -> npt.NDArray[np.int64]:
    return np.asarray(attributes[name].ints if name in attributes else [], dtype=np.int64)


def _strings(attributes: dict[str, Any], name: str) -> list[bytes]:
    return list(attributes[name].strings) if name in attributes else []


def _floats(attributes: dict[str, Any], name: str, dtype: str) -> FloatArray:
    """A list of numbers, kept as float32 or, in newer models, as a tensor of the input's own dtype."""
    plain = attributes[name].floats if name in attributes else []
    if f"{name}_as_tensor" not in attributes:
        with np.errstate(invalid="ignore"):  # a signalling NaN; the builder refuses it
            return np.asarray(plain, dtype=np.float64)
    tensor = array(attributes[f"{name}_as_tensor"].t)
    if len(plain) or tensor.ndim != 1 or tensor.dtype != dtype:
        raise InvalidInput(f"{name}_as_tensor must be a list of {dtype} numbers that replaces {name}")
    return tensor.astype(np.float64)


def _labels(attributes: dict[str, Any]) -> npt.NDArray[Any]:
    strings, numbers = _strings(attributes, "classlabels_strings"), _ints(attributes, "classlabels_int64s")
    if strings and len(numbers):
        raise InvalidInput("the trees have class labels of two types")
    labels = as_labels(strings) if strings else numbers
    if len(labels) < 2:
        raise UnsupportedModel(f"the trees name {len(labels)} classes; at least 2 are needed")
    return labels


def _nodes(attributes: dict[str, Any], dtype: str) -> _Nodes:
    modes = _strings(attributes, "nodes_modes")
    n = len(modes)
    missing = _ints(attributes, "nodes_missing_value_tracks_true")
    nodes = _Nodes(
        _ints(attributes, "nodes_treeids"),
        _ints(attributes, "nodes_nodeids"),
        _ints(attributes, "nodes_featureids"),
        _floats(attributes, "nodes_values", dtype),
        modes,
        _ints(attributes, "nodes_truenodeids"),
        _ints(attributes, "nodes_falsenodeids"),
        missing == 1 if len(missing) else np.zeros(n, dtype=bool),
    )
    for name, values in nodes._asdict().items():
        if len(values) != n:
            raise InvalidInput(
                f"the trees have {n} modes and {len(values)} entries for {name!r}; each needs one per node"
            )
    if np.isnan(nodes.value[[mode != b"LEAF" for mode in modes]]).any():
        raise InvalidInput("a node compares with NaN, which is not a finite number")
    for ids in (nodes.tree, nodes.id):
        # onnxruntime keeps 32 bits of an id, and takes the negative ones for other things.
        if n and not 0 <= ids.min() <= ids.max() < 2**31:
            raise InvalidInput(f"tree and node ids must be from 0 to {2**31 - 1}, got {ids.min()} to {ids.max()}")
    unknown = sorted(set(modes) - set(_MODES) - {b"LEAF"})
    if unknown:
        raise UnsupportedModel(f"nodes of mode {unknown[0].decode(errors='replace')} are not threshold tests")
    return nodes


def _weights(attributes: dict[str, Any], dtype: str) -> _Weights:
    weights = _Weights(
        _ints(attributes, "class_treeids"),
        _ints(attributes, "class_nodeids"),
        _ints(attributes, "class_ids"),
        _floats(attributes, "class_weights", dtype),
    )
    if len({len(values) for values in weights}) != 1:
        lengths = [len(values) for values in weights]
        raise InvalidInput(f"the lists of class weights have {lengths} entries; they must be equally long")
    return weights


# --- decisions ---


def _rule(labels: npt.NDArray[Any], weights: _Weights, base: FloatArray, dtype: str) -> tuple[ScoreRule, int | None]:
    """The score rule, and the one class whose weights decide (None: each class has a score)."""
    precision: Any = dtype
    classes = np.unique(weights.klass)
    if len(classes) and not 0 <= classes[0] <= classes[-1] < len(labels):
        raise InvalidInput(f"weights are for classes {classes[0]} to {classes[-1]}, but the trees name {len(labels)}")
    if len(labels) > 2:
        if len(base) not in (0, len(labels)):
            raise InvalidInput(f"the trees have {len(base)} base values for {len(labels)} classes")
        return ScoreRule(Decision.ARGMAX, precision, base_last=True), None
    if len(base) > 2:
        raise InvalidInput(f"the trees have {len(base)} base values for 2 classes")
    if len(classes) == 2:
        # onnxruntime gives label 1 or 0, whatever the labels are, by the sign of the second class's sum alone.
        if len(base) or (labels.dtype.kind != "U" and labels.tolist() != [0, 1]):
            raise UnsupportedModel(
                "two classes with weights for both, and base values or labels other than 0 and 1: onnxruntime's labels "
                "then do not follow the scores; export with weights for one class"
            )
        return ScoreRule(Decision.CUT, precision, base_last=True, cut=0.0), 1
    column = int(classes[0]) if len(classes) else 0
    if column == 1 and len(base):
        raise UnsupportedModel("base values with weights for the second class only: onnxruntime does not add them up")
    # A forest's votes add up to a probability, a boosted margin does not; onnxruntime goes by the signs.
    cut = 0.0 if (weights.value < 0).any() else 0.5
    return ScoreRule(Decision.CUT, precision, base_last=True, cut=cut), column


# --- trees ---


def _runs(nodes: _Nodes) -> list[slice]:
    """The nodes of each tree, which are contiguous; trees are added up in this order."""
    if not len(nodes.tree):
        raise InvalidInput("the model has no trees; train it with at least one")
    starts = np.flatnonzero(np.diff(nodes.tree, prepend=nodes.tree[0] - 1))
    if len(np.unique(nodes.tree[starts])) != len(starts):
        raise InvalidInput("the nodes of a tree are not contiguous")
    return [slice(int(a), int(b)) for a, b in zip(starts, [*starts[1:], len(nodes.tree)], strict=True)]


def _weights_per_run(
    nodes: _Nodes, weights: _Weights, runs: list[slice]
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], FloatArray]]:
    """For each tree, the node that each weight belongs to (position in the tree), its class and its value."""
    order = np.argsort(weights.tree, kind="stable")
    ids = weights.tree[order]
    known = np.isin(ids, nodes.tree[[run.start for run in runs]])
    if not known.all():
        raise InvalidInput(f"weights belong to tree {ids[~known][0]}, which has no nodes")
    for run in runs:
        tree = nodes.tree[run.start]
        mine = order[np.searchsorted(ids, tree, side="left") : np.searchsorted(ids, tree, side="right")]
        yield _positions(nodes.id[run], weights.node[mine], "a weight"), weights.klass[mine], weights.value[mine]


def _positions(ids: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64], what: str) -> npt.NDArray[np.int64]:
    """The position of each wanted node id among `ids`."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    if (ordered[1:] == ordered[:-1]).any():
        raise InvalidInput("a tree has two nodes with the same id")
    place = np.minimum(np.searchsorted(ordered, wanted), len(ids) - 1)
    lost = ordered[place] != wanted
    if lost.any():
        raise InvalidInput(f"{what} names node {wanted[lost][0]}, which its tree does not have")
    return order[place]


def _tree(nodes: _Nodes, run: slice, taken: Input) -> dict[str, Any]:
    """One tree in the builder's terms: left iff `x <= e`, whichever of the four comparisons the node makes."""
    modes = nodes.mode[run]
    inner = np.array([mode != b"LEAF" for mode in modes])
    below_is_true, value_is_below = np.array([_MODES.get(mode, (True, True)) for mode in modes]).T
    feature = nodes.feature[run]
    if (feature[inner] < 0).any():
        raise InvalidInput(f"a node tests feature {feature[inner].min()}")
    ids = nodes.id[run]
    children = {}
    for name, wanted in (("true", nodes.true[run]), ("false", nodes.false[run])):
        children[name] = np.full(len(ids), LEAF)
        children[name][inner] = _positions(ids, wanted[inner], "a node")
    return {
        "feature": np.where(inner, feature, LEAF),
        "threshold": _thresholds(np.where(inner, nodes.value[run], 0.0), value_is_below, taken),
        "left": np.where(below_is_true, children["true"], children["false"]),
        "right": np.where(below_is_true, children["false"], children["true"]),
        # A NaN passes no comparison: it goes to the true child only where the node says so.
        "nan_left": inner & (nodes.missing_true[run] == below_is_true),
    }


def _thresholds(value: FloatArray, value_is_below: npt.NDArray[np.bool_], taken: Input) -> FloatArray:
    # `x < t` on doubles is `x <= the double before t`; what a cast then does to it is the same for both tests.
    highest = np.where(value_is_below, value, next_down(value))
    # scikit-learn writes +inf where only NaN goes right; every number is at most the largest one.
    highest = np.minimum(highest, LARGEST)
    return float32_at_most_threshold(highest) if taken.narrowed else highest


def _scores(
    of_node: npt.NDArray[np.int64],
    klass: npt.NDArray[np.int64],
    value: FloatArray,
    is_leaf: npt.NDArray[np.bool_],
    column: int | None,
    n_scores: int,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """The scores of each node, and which scores the file gives for each leaf."""
    if not is_leaf[of_node].all():
        raise UnsupportedModel("the model gives weights to nodes that are not leaves")
    if len(np.unique(of_node)) != is_leaf.sum():
        raise InvalidInput("a leaf has no weight for any class")
    if column is not None:
        chosen = klass == column
        of_node, klass, value = of_node[chosen], np.zeros(int(chosen.sum()), dtype=np.int64), value[chosen]
    present = np.zeros((len(is_leaf), n_scores), dtype=bool)
    scores = np.zeros((len(is_leaf), n_scores))
    present[of_node, klass] = True
    if present.sum() != len(of_node):
        raise InvalidInput("a leaf has two weights for the same class")
    scores[of_node, klass] = value
    return scores, present[is_leaf]
