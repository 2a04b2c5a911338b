"""The oldest versions that treeproof promises to work with, as requirements for pip.

Every `name>=bound` of pyproject.toml becomes `name==bound`, for what treeproof needs and for its extras. They are read
from the metadata of the installed package: Python 3.10 has no parser for TOML.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata

REQUIREMENT = re.compile(r"(?P<name>[\w.-]+(\[[\w,]+\])?)(?P<bounds>[^;]*)(;.*\bextra == '(?P<extra>\w+)')?")

# What work on treeproof needs, in any version that will do; and data sets, whose package asks for a younger pandas.
LEFT_OUT = {"lint", "docs", "bench", "dist", "datasets"}

# The same package as xgboost by another name, younger than the oldest xgboost.
STAND_INS = {"xgboost-cpu"}


def pins(requirements: list[str]) -> list[str]:
    """One `name==bound` for every name, from requirements as the metadata of a package lists them.

    >>> pins(["numpy>=1.26", "dask[distributed]!=2024.9,>=2024.8; extra == 'dask'", "ruff>=0.6; extra == 'lint'"])
    ['dask[distributed]==2024.8', 'numpy==1.26']
    """
    oldest: dict[str, str] = {}
    for requirement in requirements:
        parts = REQUIREMENT.fullmatch(requirement)
        bound = parts and re.search(r">=([\w.]+)", parts["bounds"])
        if not parts or not bound:
            raise SystemExit(f"{requirement} has no lower bound: write it as name>=version in pyproject.toml")
        if parts["extra"] in LEFT_OUT or parts["name"] in STAND_INS:
            continue
        first = oldest.setdefault(parts["name"], bound[1])
        if first != bound[1]:
            raise SystemExit(f"{parts['name']} has two lower bounds in pyproject.toml: {first}, {bound[1]}")
    return sorted(f"{name}=={bound}" for name, bound in oldest.items())


if __name__ == "__main__":
    sys.stdout.write("\n".join(pins(metadata.requires("treeproof") or [])) + "\n")
