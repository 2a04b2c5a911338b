"""Threat files: an attacker and the relations of its rows in one JSON file that people can edit."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from treeproof.errors import InvalidInput
from treeproof.files import as_path, check_fields, parse_own_json, read_text, write_whole
from treeproof.threat.attacker import Attacker
from treeproof.threat.relations.constructors import as_relations
from treeproof.threat.relations.expressions import Relation

FORMAT = "treeproof-threat"
VERSION = 1
WIDTH = 100
"""What takes no more characters stands on one line."""
DEPTH = 4
"""And so does what is nested so deep."""


class ThreatFile(NamedTuple):
    """What a threat file holds."""

    attacker: Attacker
    relations: list[Relation]


def write_threat(
    path: str | os.PathLike[str],
    attacker: Attacker,
    relations: Iterable[str | Relation] = (),
    remarks: Iterable[str] = (),
) -> None:
    """Writes a threat file; remarks are for people, and no reader looks at them."""
    content: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    if remarks := list(remarks):
        content["remarks"] = remarks
    content |= {"attacker": json.loads(attacker.to_json()), "relations": list(map(str, as_relations(relations)))}
    write_whole(as_path(path), _readable(content) + "\n")


def read_threat(path: str | os.PathLike[str]) -> ThreatFile:
    """The attacker and the relations of a threat file, or InvalidInput."""
    file = as_path(path)
    content = parse_own_json(read_text(file), str(file), "is not a threat file", FORMAT, VERSION)
    fields = {"format", "version", "attacker", "relations"}
    check_fields(content, fields, {"remarks"}, str(file))
    relations = content["relations"]
    if not isinstance(relations, list) or not all(isinstance(one, str) for one in relations):
        raise InvalidInput(f"{file}: relations must be a list of texts, got {relations!r}")
    try:
        stated = [one.with_origin(str(file)) for one in as_relations(relations)]
        return ThreatFile(Attacker.from_json(json.dumps(content["attacker"])), stated)
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}") from None


def _readable(content: Any, indent: str = "") -> str:
    """JSON with an entry per line of long lists and objects, down to the columns of the attacker: a line for each."""
    plain = json.dumps(content, ensure_ascii=False, allow_nan=False)
    if len(plain) <= WIDTH or len(indent) >= DEPTH or not isinstance(content, (list, dict)):
        return plain
    inner = indent + " "
    if isinstance(content, list):
        return "[\n" + ",\n".join(f"{inner}{_readable(each, inner)}" for each in content) + f"\n{indent}]"
    entries = (f"{inner}{json.dumps(key)}: {_readable(value, inner)}" for key, value in content.items())
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"
