"""Who may change the input: the options that say so, and the attacker that they make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from treeproof.cli import screen
from treeproof.cli.options import (
    Source,
    as_number,
    listed,
    named_classes,
    number_or_by_name,
    one_or_by_name,
    option,
    place,
    ranges,
)
from treeproof.errors import InvalidInput
from treeproof.visible import shortened

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from treeproof import Attacker, Ensemble
    from treeproof.threat.relations import Relation, Relations

TOGETHER = ("--delta", "--any", "--blank", "--fill")
"""What attackers with costs and a budget may do: one of these, or several."""

GOES_WITH = {
    "--one-sided": ("--delta",),
    "--cost": TOGETHER,
    "--budget": (*TOGETHER, "--attacker"),
    "--domain": (*TOGETHER, "--l0", "--norm"),
    "--step": (*TOGETHER, "--l0", "--norm", "--attacker"),
    "--goal": (*TOGETHER, "--l0", "--norm"),
    "--only": ("--delta", "--l0", "--norm"),
    "--radius": ("--norm",),
    "--scale": ("--norm",),
}
"""What the other options need one of; a file says all of it itself, but those of others know no budget and no steps."""

FILES = ("--attacker", "--threat")
IN_FILES = {
    "--cost": '"costs": {"by_feature": [["income", 2]]}',
    "--budget": '"budget": 3',
    "--domain": '"domain": {"by_feature": [["income", [0, 5000]]]}',
    "--step": '"step": {"by_feature": [["income", 1]]}',
    "--goal": '"goal": ["good"]',
}
"""What files have in place of options."""


@dataclass(frozen=True)
class AttackerChoice:
    """Who may change the input, as options say it: --delta and its kin, --l0, --norm, or a file."""

    delta: str | None = option(
        metavar="D",
        help="Moves features by up to D either way, from LOW:HIGH, or to any value: D, LOW:HIGH or any for all, or "
        "name=D,name=LOW:HIGH,name=any,…",
    )
    one_sided: bool = option(is_flag=True, help="With --delta D: may only lower values, as in the paper.")
    any_value: str | None = option("--any", metavar="COL,…", help="May set these features to any value that is known.")
    blank: str | None = option(metavar="COL[=COST],…", help="May make values of these features missing.")
    fill: str | None = option(metavar="COL[=COST],…", help="May fill in missing values of these features.")
    cost: str | None = option(metavar="C", help="What changing a feature costs: one number (1), or name=C,name=C,…")
    budget: int | None = option(type=int, metavar="N", help="Spends at most N: without --cost, N features at a time.")
    domain: str | None = option(metavar="LOW:HIGH", help="Values stay inside: LOW:HIGH for all, or name=LOW:HIGH,…")
    step: str | None = option(metavar="S", help="Moves by whole numbers of steps: one for all, or name=S,name=S,…")
    goal: str | None = option(metavar="CLASS,…", help="Only a change to one of these classes is an attack.")
    attacker_file: str | None = option("--attacker", metavar="FILE", help="An attacker as JSON (Attacker.to_json).")
    threat_file: str | None = option("--threat", metavar="FILE", help="A threat file, such as suggest writes.")
    l0: int | None = option(type=int, metavar="K", help="Sets at most K features to any values.")
    norm: float | None = option(type=float, metavar="P", help="Moves within --radius in the Lp norm: 1, 2, … or inf.")
    radius: float | None = option(type=float, metavar="R", help="The radius of --norm.")
    scale: str | None = option(metavar="U", help="With --norm: divides distances by units: one, or name=U,name=U,…")
    only: str = option(default="", metavar="COL,…", help="The only features that the attacker can touch.")
    relative: bool = option(is_flag=True, help="D and ε are fractions of each feature's range in the data.")
    ranges: str | None = option(metavar="FILE", help="With --relative: the data to take ranges from, if not DATA.")

    @property
    def files(self) -> dict[str, str | None]:
        """The files that the options name."""
        return {"--attacker": self.attacker_file, "--threat": self.threat_file, "--ranges": self.ranges}

    @property
    def is_given(self) -> bool:
        """Whether any option but --domain and --goal describes an attacker."""
        return any(
            value not in (None, False, "") for name, value in vars(self).items() if name not in ("domain", "goal")
        )

    def domain_on(self, ensemble: Ensemble) -> Any:
        """The ranges of --domain; None where there is none."""
        return _by_name(self.domain, "--domain", ensemble, lambda text: _pair(text, "--domain"))

    @property
    def fraction(self) -> str:
        """What --relative applies to, as it was given."""
        return f"--delta {self.delta}" if self.delta is not None else str(self.attacker_file or self.threat_file)

    def reference(
        self, source: Source, ensemble: Ensemble, X: npt.NDArray[np.float64] | None
    ) -> npt.NDArray[np.float64] | None:
        """The rows whose ranges --relative refers to: those of --ranges, read like the data, else X."""
        if self.ranges is not None and not self.relative:
            raise InvalidInput("--ranges needs --relative")
        return X if self.ranges is None else replace(source, file=self.ranges).rows(ensemble).X

    def attacker(
        self, ensemble: Ensemble, X: npt.NDArray[np.float64] | None, relations: Sequence[Relation] = ()
    ) -> Attacker:
        """The attacker on this model; with --relative, scaled by the ranges of these rows.

        Relations declare groups of columns that options may name.
        """
        import treeproof as tp
        from treeproof.threat.relations import bind_relations

        way = self._way()
        if way in FILES:
            attacker = self._from_file(ensemble)
            return _scaled(attacker, ensemble, ranges(X)) if self.relative else attacker
        features = tuple(place(name, ensemble) for name in listed(self.only)) or None
        words: dict[str, Any] = {
            "domain": self.domain_on(ensemble),
            "step": _by_name(self.step, "--step", ensemble, str.strip),
            "goal": named_classes(self.goal, "--goal", ensemble),
        }
        if self.l0 is not None:
            return tp.Attacker.l0(self.l0, features=features, **words)
        if self.norm is not None and self.radius is not None:
            if self.relative:
                raise InvalidInput("--relative needs a reach per feature: use --delta, or a radius in the data's units")
            units = None if self.scale is None else number_or_by_name(self.scale, "--scale", ensemble)
            return tp.Attacker.lp(self.norm, self.radius, features=features, scale=units, **words)
        intervals = self._intervals(features, ensemble, bind_relations(relations, ensemble))
        if self.relative and intervals is not None:
            intervals = _stretched(tp.Attacker(intervals), ensemble, ranges(X))
        return tp.Attacker(
            intervals,
            costs=1 if self.cost is None else number_or_by_name(self.cost, "--cost", ensemble),
            budget=self.budget,
            blank=_prices(self.blank, ensemble),
            fill=_prices(self.fill, ensemble),
            **words,
        )

    def by_position(self, names: list[str], X: npt.NDArray[np.float64], labels: npt.NDArray[Any]) -> Attacker:
        """The attacker on columns with these names, before there is a model: features by position, not by name."""
        import numpy as np

        from treeproof.model.builder import blank_ensemble

        if self.goal is not None:
            raise InvalidInput("training on the command line knows no goal; leave --goal out, or train in Python")
        blank = blank_ensemble(len(names), np.unique(labels), names)
        attacker = self.attacker(blank, X)
        # What is more than intervals is said of columns by name, and here they have positions only.
        attacker.bind(blank).require_plain("training on the command line")
        return attacker if attacker.power is not None else _scaled(attacker, blank, np.ones(len(names)))

    def relations(self, file: str | None = None) -> list[Relation]:
        """The relations of the threat file and of --relations."""
        import treeproof as tp
        from treeproof.threat.threat_file import read_threat

        found = [] if self.threat_file is None else read_threat(self.threat_file).relations
        if file is None:
            return found
        stated = tp.read_relations(file)
        if not stated:
            raise InvalidInput(f"--relations {file} states no relations; write one per line, or leave it out")
        return [*found, *stated]

    def refuse_relations(self, command: str) -> None:
        """Refuses a threat file with relations, where nobody asks whether rows keep them."""
        if self.relations():
            raise InvalidInput(f"{self.threat_file} has relations, which {command} does not take; remove them there")

    def _way(self) -> str:
        """The option that says what the attacker does, the first if there are several that go together."""
        ways = {
            "--delta": self.delta,
            "--any": self.any_value,
            "--blank": self.blank,
            "--fill": self.fill,
            "--attacker": self.attacker_file,
            "--threat": self.threat_file,
            "--l0": self.l0,
            "--norm": self.norm,
        }
        given = [name for name, value in ways.items() if value is not None]
        if (self.norm is None) != (self.radius is None):
            raise InvalidInput("--norm and --radius go together, as in --norm 2 --radius 0.1")
        if not given or (len(given) > 1 and not set(given) <= set(TOGETHER)):
            others = [name for name in ways if name not in TOGETHER]
            raise InvalidInput(
                f"give {', '.join(TOGETHER)} (or several of these), or exactly one of {', '.join(others)} to say what "
                f"the attacker can do; got {' and '.join(given) or 'none'}"
            )
        more = {name: getattr(self, name.removeprefix("--").replace("-", "_")) for name in GOES_WITH}
        for name, value in more.items():
            if value not in (None, False, "") and not set(given) & set(GOES_WITH[name]):
                way_out = f"; put {IN_FILES[name]} into the file" if given[0] in FILES and name in IN_FILES else ""
                raise InvalidInput(f"{name} goes with {', '.join(GOES_WITH[name])}, not with {given[0]}{way_out}")
        return given[0]

    def _from_file(self, ensemble: Ensemble) -> Attacker:
        import treeproof as tp
        from treeproof.threat.threat_file import read_threat

        if self.attacker_file is not None:
            step = _by_name(self.step, "--step", ensemble, str.strip)
            return tp.Attacker.from_json(self.attacker_file, budget=self.budget, step=step)
        assert self.threat_file is not None
        return read_threat(self.threat_file).attacker

    def _intervals(self, features: tuple[int | str, ...] | None, own: Ensemble, relations: Relations) -> Any:
        """How far features move, for all of them or by name; None: no feature does."""
        import treeproof as tp
        from treeproof.threat.one_hot import with_groups

        ensemble = with_groups(own, relations)
        reach: Any = _by_name(self.delta, "--delta", ensemble, self._interval)
        if features is not None:
            if isinstance(reach, dict):
                raise InvalidInput("--delta by name already says which features can be touched; leave --only out")
            reach = dict.fromkeys(features, reach)
        elif isinstance(reach, dict):
            # There is no up and down between values of a category.
            for name, ends in reach.items():
                if ends[0] == -math.inf and self.one_sided and ensemble.columns[ensemble.feature_index(name)].category:
                    reach[name] = tp.ANY
        anything = [place(name, ensemble) for name in listed(self.any_value or "")]
        if not anything:
            return reach
        if reach is None:
            return dict.fromkeys(anything, tp.ANY)
        free = {ensemble.feature_index(name) for name in anything}
        for group, members in enumerate(relations.groups, start=own.n_features):
            free |= set(members.features) if group in free else set()
        if not isinstance(reach, dict):
            # What is given for all features leaves categories alone.
            reach = {f: reach for f in range(ensemble.n_features) if f not in free and not ensemble.columns[f].category}
        for name in reach:
            if ensemble.feature_index(name) in free:
                raise InvalidInput(f"--any and --delta both name {name}; name it once")
        return reach | dict.fromkeys(anything, tp.ANY)

    def _interval(self, text: str) -> tuple[float, float]:
        """How far a feature moves: `0.5`, `0:500` or `any`."""
        if ":" in text:
            if self.one_sided:
                raise InvalidInput(f"--one-sided goes with one size; --delta {text} says itself how far down and up")
            return _pair(text, "--delta")
        form = "a number, low:high or any, or name=… with these"
        size = math.inf if text.strip().lower() == "any" else as_number(text, "--delta", form)
        if not size >= 0:
            raise InvalidInput(f"--delta must be at least 0, got {size}")
        return (-size, 0.0 if self.one_sided else size)


def _by_name(text: str | None, option: str, ensemble: Ensemble, parse: Any) -> Any:
    return None if text is None else one_or_by_name(text, option, ensemble, parse)


def _pair(text: str, option: str) -> tuple[float, float]:
    """The ends of `low:high`."""
    low, colon, high = text.partition(":")
    form = "low:high, or name=low:high,…"
    if not colon:
        raise InvalidInput(f"{option} must be {form}; got {text!r}")
    ends = as_number(low, option, form), as_number(high, option, form)
    if not ends[0] <= ends[1]:
        raise InvalidInput(f"{option} {text} is empty: its low end is above its high end")
    return ends


def _prices(text: str | None, ensemble: Ensemble) -> dict[int | str, float] | None:
    """The columns of --blank or --fill, each with its cost."""
    if text is None:
        return None
    prices: dict[int | str, float] = {}
    for part in listed(text):
        name, is_pair, cost = part.rpartition("=")
        if not is_pair or part in (ensemble.feature_names or ()):  # a name may look like a pair
            name, cost = part, "1"
        prices[place(name.strip(), ensemble)] = as_number(
            cost, "--blank and --fill", "columns, as in income or income=2"
        )
    return prices


def _stretched(attacker: Attacker, ensemble: Ensemble, by: npt.NDArray[np.float64]) -> list[tuple[float, float]]:
    """The attacker's intervals by position, each multiplied by its feature's factor; what may be anything stays so."""
    threat = attacker.bind(ensemble)
    threat.require_plain("a reach in parts of the columns' ranges")
    ends = zip(threat.low.tolist(), threat.high.tolist(), by.tolist(), strict=True)
    return [(_times(low, r), _times(high, r)) for low, high, r in ends]


def _times(end: float, factor: float) -> float:
    return end if math.isinf(end) else end * factor


def _scaled(attacker: Attacker, ensemble: Ensemble, by: npt.NDArray[np.float64]) -> Attacker:
    """The attacker by position, with every interval multiplied by its feature's factor."""
    import treeproof as tp

    if attacker.power is not None:
        raise InvalidInput("--relative needs a reach per feature, but the attacker in the file has a radius")
    intervals, threat = _stretched(attacker, ensemble, by), attacker.bind(ensemble)
    domain = list(zip(threat.domain_low.tolist(), threat.domain_high.tolist(), strict=True))
    return tp.Attacker(
        intervals,
        costs=threat.cost.tolist() if len(set(threat.cost.tolist())) > 1 else int(threat.cost[0]),
        budget=attacker.budget,
        domain=None if attacker.domain is None else domain,
    )


def say_attacker(
    attacker: Attacker,
    ensemble: Ensemble,
    choice: AttackerChoice | None = None,
    relations: Sequence[Relation] = (),
) -> None:
    """Says what the attacker may do to the columns of the model, and which relations rows keep."""
    from treeproof.results.attacker_words import attacker_on_model
    from treeproof.results.relation_words import kept_in_words
    from treeproof.threat.relations import bind_relations

    names = screen.feature_names(ensemble.feature_names, ensemble.n_features)
    said = attacker_on_model(attacker, ensemble, bind_relations(relations, ensemble), names)
    said = said.removeprefix("The attacker ").removesuffix(".")
    what = "" if choice is None or not choice.relative else f" ({choice.fraction} of each feature's range)"
    screen.say(f"attacker   {shortened(said, screen.MAX_CHARACTERS)}{what}")
    if relations:
        screen.say(f"relations  {shortened(kept_in_words(relations).removesuffix('.'), screen.MAX_CHARACTERS)}")
