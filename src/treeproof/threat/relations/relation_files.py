"""Files of relations: text with one relation per line, or JSON."""

from __future__ import annotations

import os
from collections.abc import Iterable

from treeproof.errors import InvalidInput
from treeproof.files import as_json, as_path, parse_own_json, read_text
from treeproof.threat.relations.constructors import as_relations
from treeproof.threat.relations.expressions import Relation
from treeproof.threat.relations.grammar import is_blank, parse_relation

FORMAT = "treeproof-relations"
VERSION = 1


def read_relations(path: str | os.PathLike[str]) -> list[Relation]:
    """The relations of a file: one per line, where # begins a comment, or JSON as `relations_to_json` writes it."""
    file = as_path(path)
    text = read_text(file)
    if text.lstrip()[:1] == "{":
        return _from_json(text, str(file))
    return list(
        _parsed([(f"{file}, line {n}", line) for n, line in enumerate(text.splitlines(), 1) if not is_blank(line)])
    )


def relations_to_json(relations: Iterable[str | Relation], path: str | os.PathLike[str] | None = None) -> str:
    """Relations as JSON text, also written to `path` if given."""
    content = {"format": FORMAT, "version": VERSION, "relations": list(map(str, as_relations(relations)))}
    return as_json(content, path)


def relations_from_json(text: str) -> list[Relation]:
    """The relations of JSON text."""
    return _from_json(text, "the text")


def _from_json(text: str, where: str) -> list[Relation]:
    content = parse_own_json(text, where, "holds no relations", FORMAT, VERSION)
    listed = content.get("relations")
    if content.keys() != {"format", "version", "relations"} or not isinstance(listed, list):
        raise InvalidInput(f"{where} must have a list of relations, and nothing else")
    return _parsed([(f"{where}, relation {n}", each) for n, each in enumerate(listed, 1)])


def _parsed(texts: list[tuple[str, str]]) -> list[Relation]:
    found = []
    for where, text in texts:
        if not isinstance(text, str):
            raise InvalidInput(f"{where} must be a text, got {text!r}")
        try:
            found.append(parse_relation(text).with_origin(where))
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {error}") from None
    return found
