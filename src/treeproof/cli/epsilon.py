"""`--epsilon`: neighbourhoods as the command line has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from treeproof.cli import screen
from treeproof.cli.options import as_number, beside_names, by_name, listed, ranges
from treeproof.errors import InvalidInput
from treeproof.visible import visible

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from treeproof import Ensemble
    from treeproof.model.columns import Category
    from treeproof.threat.relations import Relation


@dataclass(frozen=True)
class Neighbourhood:
    """One ε as it is called, and as `verify` accepts it."""

    text: str
    value: Any


def neighbourhoods(
    text: str | None,
    relative: bool,
    X: npt.NDArray[np.float64] | None,
    ensemble: Ensemble,
    relations: list[Relation],
) -> list[Neighbourhood]:
    """The ε of --epsilon: numbers, or one neighbourhood as name=number,…, called `name number, …`.

    Categories, and groups that relations declare, have `any` or values in place of the number.
    """
    if text is None:
        return []
    wide = ranges(X) if relative else None
    if "=" in text:
        return [_named(text, wide, ensemble, relations)]
    parts = listed(text)
    if not parts:
        raise InvalidInput(f"--epsilon must be a number, or several separated by commas; got {text!r}")
    if len(set(parts)) != len(parts):
        raise InvalidInput(f"--epsilon has a number twice: {text}")
    sizes = [_size(part, text) for part in parts]
    if wide is None:
        return [Neighbourhood(part, size) for part, size in zip(parts, sizes, strict=True)]
    return [
        Neighbourhood(f"{part} of the range", tuple((size * wide).tolist()))
        for part, size in zip(parts, sizes, strict=True)
    ]


def _named(
    text: str, wide: npt.NDArray[np.float64] | None, ensemble: Ensemble, relations: list[Relation]
) -> Neighbourhood:
    """`age=2,job=any,purpose=car,radio`: a number, any value that the model knows, or some."""
    import treeproof as tp
    from treeproof.threat.one_hot import with_groups
    from treeproof.threat.relations import bind_relations

    seen = with_groups(ensemble, bind_relations(relations, ensemble))
    names, categories = screen.feature_names(seen.feature_names, seen.n_features), dict(seen.categories)
    sizes: dict[int | str, Any] = {}
    numbers, sets = [], []
    for feature, values in by_name(text, "--epsilon", ensemble).items():
        f = seen.feature_index(feature)
        if f not in categories and len(values) > 1:
            raise beside_names(values[1], "--epsilon")
        if f not in categories and values != ["any"]:
            sizes[feature] = _size(values[0], text) * (1.0 if wide is None else float(wide[f]))
            numbers.append(f"{names[f]} {values[0]}")
        else:
            some = tp.ANY if values == ["any"] else tp.values(*(_value(one, categories[f]) for one in values))
            sizes[feature] = some
            sets.append(f"{names[f]} {'/'.join(map(visible, values))}")
    if numbers and wide is not None:
        numbers[-1] += " of the range"
    return Neighbourhood(", ".join([*numbers, *sets]), sizes)


def _value(text: str, category: Category) -> Any:
    """The value of a category that is written so; the text itself if there is none."""
    own = next((value for value in category.values if str(value) == text), text)
    try:
        return own if category.coded else float(own)
    except ValueError:
        return text


def _size(part: str, text: str) -> float:
    size = as_number(part, "--epsilon")
    if not size >= 0:
        raise InvalidInput(f"--epsilon must be at least 0, got {text}")
    return size
