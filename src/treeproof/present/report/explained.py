"""Explanations in the report: how often each column is in one, each row's own, and the cheapest change beside it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from string import Template

from treeproof.errors import InvalidInput
from treeproof.model.ensemble import Ensemble
from treeproof.results.counterfactuals import Counterfactual, Counterfactuals
from treeproof.results.explanation_words import (
    column_in_words,
    conditions_in_words,
    each_change,
    how_few,
    others_in_words,
    price_in_words,
)
from treeproof.results.explanations import NAMES, Explanation, Explanations
from treeproof.results.markup import definitions, escape, long_table, percent
from treeproof.results.sentences import CHANGES_MEAN, CONTRASTIVE_MEANS, REASON_MEANS, SMALLEST_MEANS, UNLESS
from treeproof.results.verdicts import Outcome

SHOWN_COLUMNS, SHOWN_ROWS, MAX_ROWS = 20, 25, 500

MEANING = {"reason": REASON_MEANS, "smallest": SMALLEST_MEANS, "contrastive": CONTRASTIVE_MEANS}


@dataclass(frozen=True, eq=False)
class Explained:
    """Explanations of a model's rows, and changes of the same rows, if any were looked for."""

    explanations: Explanations
    changes: Counterfactuals | None

    @classmethod
    def of(cls, ensemble: Ensemble, explanations: Explanations, changes: Counterfactuals | None) -> Explained:
        """Both, or InvalidInput if they are about another model, or not about the same rows."""
        for what, result in (("explanations", explanations), ("counterfactuals", changes)):
            if result is not None and result.about.fingerprint != ensemble.fingerprint.hex():
                raise InvalidInput(f"the {what} are for another model; pass the one that was explained")
        if changes is not None and list(changes.row_names) != [one.index for one in explanations]:
            raise InvalidInput(
                f"there are {len(explanations)} explanations and {len(changes)} counterfactuals of other rows; "
                "explain the rows that are changed"
            )
        return cls(explanations, changes)

    @property
    def section(self) -> str:
        """The part of the page about explanations."""
        found = self.explanations
        said = [*found.assumptions, *([] if self.changes is None else self.changes.assumptions)]
        meaning = " ".join([MEANING[found.kind], *[CHANGES_MEAN] * (self.changes is not None), UNLESS])
        return (
            '<section aria-labelledby="h-why" id="why"><h2 id="h-why">Why these labels</h2>'
            f"<p>{escape(meaning)}</p>"
            f'<p class="note">{escape(found.in_short)}.</p>'
            f'<ul class="assumed">{"".join(f"<li>{escape(one)}</li>" for one in said)}</ul>'
            f"{self._counts()}{self._rows()}</section>"
        )

    def _counts(self) -> str:
        """How often each column is in an explanation, with bars."""
        found, many = self.explanations, NAMES[self.explanations.kind][1]
        if not found.counts:
            return ""
        lines = [
            f'<tr><th scope="row">{escape(column_in_words(name))}</th><td><span class="stack" aria-hidden="true">'
            f'<i class="up" style="width:{100 * n / len(found):.2f}%"></i></span></td>'
            f'<td class="n">{n:,} of {len(found):,}</td><td class="n">{percent(n / len(found))}</td></tr>'
            for name, n in found.counts.items()
        ]
        rest = len(lines) - SHOWN_COLUMNS
        more = f"<p>… and {rest:,} more columns.</p>" if rest > 0 else ""
        never = len(found.about.units) - len(lines)
        are = "column is" if never == 1 else "columns are"
        none = f'<p class="note">{never:,} {are} in none of them.</p>' if never else ""
        return (
            f'<h3 id="h-counts">How often each column is in one of the {many}</h3>'
            '<div class="scroll" tabindex="0" role="region" aria-labelledby="h-counts">'
            '<table class="moved counts"><thead><tr>'
            f'<th scope="col">Column</th><th scope="col">{escape(many.capitalize())} with it</th>'
            '<th scope="col" class="n">Rows</th><th scope="col" class="n">Share</th></tr></thead>'
            f"<tbody>{''.join(lines[:SHOWN_COLUMNS])}</tbody></table></div>{more}{none}"
        )

    def _rows(self) -> str:
        """Each row with its label, why, and what would change it."""
        found, changes = self.explanations, self.changes
        names = ["Row", "Label", "Why", *([] if changes is None else ["Cheapest change"])]
        head = "".join(f'<th scope="col">{name}</th>' for name in names)
        lines = []
        for at, one in enumerate(found[:MAX_ROWS]):
            cells = f'<th scope="row">{escape(one.index)}</th><td>{escape(one.label)}</td><td>{_why(one)}</td>'
            cells += "" if changes is None else f"<td>{_change(changes[at])}</td>"
            lines.append(f"<tr>{cells}</tr>")
        said = long_table("reasons", head, lines, SHOWN_ROWS, "more rows")
        rest = len(found) - len(lines)
        more = (
            f"<p>… and {rest:,} rows that the page leaves out to stay small; the JSON file has them.</p>"
            if rest
            else ""
        )
        return (
            f'<h3 id="h-reasons">Each row’s {NAMES[found.kind][0]}</h3><div class="scroll" tabindex="0" role="region" '
            f'aria-labelledby="h-reasons">{said}</div>{more}'
        )


def _why(one: Explanation) -> str:
    """One row's explanation: its conditions one by one, or its sentence."""
    if one.outcome != Outcome.PROVED or not one.columns or one.about.kind == "contrastive":
        return f"<p>{escape(one)}</p>"
    return f"{_listed(conditions_in_words(one))}<p>{escape(how_few(one))}</p>"


def _change(one: Counterfactual) -> str:
    """One row's cheapest change, and the next ones."""
    if not one.found or not one.changes:
        return f"<p>{escape(one)}</p>"
    first = (
        f"<p>{escape(f'{one.label} with')}</p>{_listed(each_change(one.changes))}<p>{escape(price_in_words(one))}</p>"
    )
    return first + "".join(f"<p>{escape(other)}</p>" for other in others_in_words(one))


def _listed(parts: list[str]) -> str:
    return f'<ul class="parts">{"".join(f"<li>{escape(part)}</li>" for part in parts)}</ul>'


def explained_page(explained: Explained, title: str, record: list[tuple[str, str]]) -> str:
    """A whole page about explanations alone."""
    here = files("treeproof.present.report")
    warning = '<p class="warning">The work was stopped early; rows not explained by then say so.</p>'
    return Template(here.joinpath("explained.html").read_text(encoding="utf-8")).substitute(
        title=escape(title),
        style=here.joinpath("style.css").read_text(encoding="utf-8"),
        model=escape(explained.explanations.about.model),
        interrupted=warning if explained.explanations.interrupted else "",
        section=explained.section,
        record=definitions(record),
    )
