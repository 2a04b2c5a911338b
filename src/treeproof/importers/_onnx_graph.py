"""The ONNX graph around the trees: what its names mean, where the label comes from, and what the trees are given.

A name such as `Identity` means what ONNX says only in ONNX's own domain and in a model without functions of its own;
onnxruntime looks both up. Everything here that onnxruntime would take otherwise than it reads is refused.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.model.builder import MAX_FEATURES, check_text

# ONNX's numbers for element types (TensorProto.DataType).
_FLOAT, _INT32, _INT64, _STRING, _BOOL, _DOUBLE = 1, 6, 7, 8, 9, 11
_LABEL_TYPES: dict[int, Any] = {_INT32: np.int32, _INT64: np.int64, _STRING: np.str_, _BOOL: np.bool_}
_NUMBER_TYPES = {_FLOAT: "float32", _DOUBLE: "float64"}

# ONNX's numbers for the types of attributes (AttributeProto.AttributeType).
INT, STRING, TENSOR, FLOATS, INTS, STRINGS = 2, 3, 4, 6, 7, 8

_PLAIN = ("", "ai.onnx")
_MACHINE_LEARNING = ("ai.onnx.ml",)
_DOMAINS = {
    "TreeEnsembleClassifier": _MACHINE_LEARNING,
    "ArrayFeatureExtractor": _MACHINE_LEARNING,
    "Identity": _PLAIN,
    "Cast": _PLAIN,
    "Reshape": _PLAIN,
    "Constant": _PLAIN,
}
# The attributes of the nodes around the trees, with their types. The last two of Cast are about 8-bit numbers only.
_ATTRIBUTES = {
    "ArrayFeatureExtractor": {},
    "Identity": {},
    "Cast": {"to": INT, "saturate": INT, "round_mode": STRING},
    "Reshape": {"allowzero": INT},
    "Constant": {"value": TENSOR},
}
_DATA = ("raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")


class Input(NamedTuple):
    """The rows that the graph takes, and the dtype in which they reach the trees."""

    name: str
    n_features: int
    narrowed: bool
    """Whether values pass through float32 on their way to the trees."""
    dtype: str


def check_model(model: Any) -> None:
    """Refuses models in which a name could stand for something else than it seems."""
    for field in ("functions", "training_info"):
        if len(getattr(model, field)):
            raise UnsupportedModel(f"the model has {field}; treeproof reads graphs of ONNX's own operators only")
    if not any(entry.domain in _MACHINE_LEARNING for entry in model.opset_import):
        raise UnsupportedModel("the model does not import the operators of ai.onnx.ml, to which trees belong")
    graph = model.graph
    for field in ("sparse_initializer", "quantization_annotation"):
        if len(getattr(graph, field)):
            raise UnsupportedModel(f"the graph has a {field}, which no export of trees needs")
    made = [tensor.name for tensor in graph.initializer]
    made += [value.name for value in graph.input]
    made += [name for node in graph.node for name in node.output if name]
    _refuse_repeats(Counter(made), "value")
    _refuse_repeats(Counter(output.name for output in graph.output), "output")
    if len(graph.input) != 1:
        raise UnsupportedModel(f"the graph takes {len(graph.input)} inputs; treeproof verifies one table of numbers")


def _refuse_repeats(names: Counter[str], what: str) -> None:
    for name, count in names.items():
        if count > 1:
            raise InvalidInput(f"the graph has {count} definitions of the {what} {name!r}")


def check_node(node: Any) -> None:
    """Refuses a node that is not ONNX's own operator of that name."""
    if node.domain not in _DOMAINS[node.op_type]:
        raise UnsupportedModel(f"the graph has a {node.op_type} of {node.domain!r}, which is not ONNX's own")


def attributes_of(node: Any, types: dict[str, int]) -> dict[str, Any]:
    """The attributes of a node by name; refuses unknown ones, repeated ones and those of another type."""
    _refuse_repeats(Counter(attribute.name for attribute in node.attribute), "attribute")
    for attribute in node.attribute:
        if attribute.name not in types:
            raise UnsupportedModel(
                f"a {node.op_type} has the attribute {attribute.name!r}, which treeproof does not know"
            )
        if attribute.type != types[attribute.name] or attribute.ref_attr_name:
            raise InvalidInput(f"the attribute {attribute.name!r} of a {node.op_type} is not of its type")
    return {attribute.name: attribute for attribute in node.attribute}


def label_output(graph: Any) -> tuple[str, Any, list[Any]]:
    """(output name, the TreeEnsembleClassifier its label comes from, the nodes in between from tree to output)."""
    makers = {name: node for node in graph.node for name in node.output}
    found = [label for output in graph.output if (label := _traced(output.name, makers)) is not None]
    if len(found) > 1:
        raise UnsupportedModel(f"{len(found)} outputs are labels; export the model with one")
    if not found:
        kinds = ", ".join(sorted({node.op_type for node in graph.node})) or "no nodes"
        raise UnsupportedModel(f"no output is a label straight from a TreeEnsembleClassifier; the graph has {kinds}")
    for node in (found[0][1], *found[0][2]):
        check_node(node)
    return found[0]


def _traced(output: str, makers: dict[str, Any]) -> tuple[str, Any, list[Any]] | None:
    name = output
    between: list[Any] = []
    for _ in range(len(makers) + 1):  # a damaged graph can go in circles
        node = makers.get(name)
        if node is None:
            return None
        if node.op_type == "TreeEnsembleClassifier":
            return (output, node, between[::-1]) if node.output[0] == name else None
        if node.op_type not in ("Identity", "Cast", "Reshape", "ArrayFeatureExtractor") or not len(node.input):
            return None
        between.append(node)
        name = node.input[-1] if node.op_type == "ArrayFeatureExtractor" else node.input[0]
    return None


def input_of(graph: Any, trees: Any) -> Input:
    """Follows the trees' input back to the graph's own input, through Identity and at most one Cast."""
    makers = {output: node for node in graph.node for output in node.output}
    casts: list[int] = []
    (name,) = trees.input
    for _ in range(len(graph.node)):
        node = makers.get(name)
        if node is None:
            break
        if node.op_type != "Identity" and (node.op_type != "Cast" or casts):
            raise UnsupportedModel(
                f"the trees' input passes through {node.op_type}; treeproof verifies trees on the model's own input "
                "(export the classifier without the steps before it)"
            )
        check_node(node)
        attributes_of(node, _ATTRIBUTES[node.op_type])
        if node.op_type == "Cast":
            casts.append(_cast_target(node))
        (name,) = node.input
    taken = graph.input[0]
    if taken.name != name:
        raise InvalidInput(f"the trees read {name!r}, which is not an input of the graph")
    tensor = taken.type.tensor_type
    types = [tensor.elem_type, *casts[::-1]]
    for kind in types:
        if kind not in _NUMBER_TYPES:
            raise UnsupportedModel(f"the input has element type {kind}; treeproof verifies float and double inputs")
    dims = tensor.shape.dim
    n_features = dims[1].dim_value if len(dims) == 2 else 0
    if not 0 < n_features <= MAX_FEATURES:
        raise UnsupportedModel("the input does not say how many columns it has; export with shape [None, n_features]")
    return Input(name, n_features, _FLOAT in types, _NUMBER_TYPES[types[-1]])


def _cast_target(node: Any) -> int:
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == "to"), 0)


def after_lookup(labels: npt.NDArray[Any], after: list[Any], graph: Any) -> npt.NDArray[Any]:
    """The labels as they leave the graph, after the plain nodes that follow the trees."""
    for node in after:
        attributes_of(node, _ATTRIBUTES[node.op_type])
        if len(node.input) != (1 if node.op_type in ("Identity", "Cast") else 2):
            raise InvalidInput(f"a {node.op_type} behind the trees has {len(node.input)} inputs")
        if node.op_type == "Cast":
            labels = _cast(labels, _cast_target(node))
        elif node.op_type == "Reshape":
            shape = constant(graph, node.input[1])
            if shape.dtype != np.int64 or shape.tolist() not in ([-1], [-1, 1], [1, -1]):
                raise UnsupportedModel(f"the labels are reshaped to {shape.tolist()}; one per row is expected, [-1]")
        elif node.op_type == "ArrayFeatureExtractor":
            table = constant(graph, node.input[0])
            if table.ndim not in (1, 2) or table.size != table.shape[-1]:
                raise UnsupportedModel(f"the labels are looked up in a table of shape {table.shape}; expected one row")
            table = table.reshape(-1)
            if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= len(table):
                raise InvalidInput(
                    f"labels {labels.tolist()} do not index the {len(table)} labels they are looked up in"
                )
            labels = table[labels]
    return labels


def _cast(labels: npt.NDArray[Any], kind: int) -> npt.NDArray[Any]:
    target = _LABEL_TYPES.get(kind)
    if target is None:
        raise UnsupportedModel(f"labels are cast to element type {kind}; known: int32, int64, string, bool")
    # How other casts spell or parse a label is up to onnxruntime.
    if labels.dtype.kind not in "iu" and not (labels.dtype.kind == "U" and kind == _STRING):
        raise UnsupportedModel(f"labels of dtype {labels.dtype} are cast to element type {kind}")
    return labels.astype(target)


def constant(graph: Any, name: str) -> npt.NDArray[Any]:
    """The array that a name stands for, from an initializer or a Constant node."""
    for tensor in graph.initializer:
        if tensor.name == name:
            return array(tensor)
    for node in graph.node:
        if node.op_type == "Constant" and name in node.output:
            check_node(node)
            known = attributes_of(node, _ATTRIBUTES["Constant"])
            if "value" in known:
                return array(known["value"].t)
    raise UnsupportedModel(f"the labels pass {name!r}, which is not a constant")


def array(tensor: Any) -> npt.NDArray[Any]:
    """The numbers or strings of a tensor that is kept in the file, once."""
    from onnx import numpy_helper

    if tensor.data_location or tensor.external_data:
        raise UnsupportedModel("the model keeps numbers in a separate file; save it with all data in one file")
    if sum(len(getattr(tensor, field)) > 0 for field in _DATA) > 1 or tensor.HasField("segment"):
        raise InvalidInput(f"the tensor {tensor.name!r} states its numbers twice, or only some of them")
    values = np.asarray(numpy_helper.to_array(tensor))
    return as_labels(values.reshape(-1).tolist()).reshape(values.shape) if values.dtype == object else values


def as_labels(labels: list[Any]) -> npt.NDArray[Any]:
    """Strings as an array, which cannot hold a NUL at the end of a string."""
    texts = [label.decode() if isinstance(label, bytes) else str(label) for label in labels]
    for text in texts:
        check_text(text, "a label")
    return np.asarray(texts, dtype=np.str_)
