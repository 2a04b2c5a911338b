"""One self-contained HTML file about a verification, or about explanations, or both."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treeproof.errors import InvalidInput, warn_renamed
from treeproof.files import as_path, write_whole
from treeproof.importers import as_ensemble
from treeproof.present.report.content import gather, record_of_explanations
from treeproof.present.report.explained import Explained, explained_page
from treeproof.present.report.page import page
from treeproof.results.counterfactuals import Counterfactuals
from treeproof.results.explanations import Explanations
from treeproof.results.verification import Verification
from treeproof.run.limits import as_seconds

__all__ = ["report_html", "write_report"]


def write_report(
    path: str | os.PathLike[str], model: Any, result: Verification | Explanations, *old: Any, **options: Any
) -> Path:
    """Writes the report on a result of `verify(model, …)` or `explain(model, …)` as one HTML file; returns its path.

    The options are those of `report_html`.

    >>> import tempfile, treeproof as tp
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = DecisionTreeClassifier(max_depth=3).fit(X, y)
    >>> result = tp.verify(clf, X, y, tp.Attacker.linf(0.1), epsilon=0.05)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(f"{folder}/report.html", clf, result, max_seconds=5).name
    'report.html'
    """
    if old:
        result = _result_of((result, *old))
        warn_renamed("write_report(path, model, X, y, attacker, result)", "write_report(path, model, result)")
    file = as_path(path)
    write_whole(file, report_html(model, result, **options))
    return file


def report_html(
    model: Any,
    result: Verification | Explanations,
    *old: Any,
    explanations: Explanations | None = None,
    counterfactuals: Counterfactuals | None = None,
    title: str | None = None,
    features: Sequence[int | str] | None = None,
    feature_names: Sequence[str] | None = None,
    max_seconds: float = 30.0,
    n_jobs: int | None = None,
    voting: Any = None,
) -> str:
    """The report as the text of an HTML file, which needs no network and opens from disk in any browser.

    `features` are those that slices show (up to five; by default those that counterexamples move most), and
    `feature_names` names the columns if the model does not. Curves and slices take at most about `max_seconds`;
    whatever there was no time for is left out, and the page says so. `explanations` and `counterfactuals` of the same
    model add why some rows have their labels, and what would change them; they need not be rows of the test set. If
    the result is what `explain` returned, the page is about nothing else. One parameter per choice that users have.
    """
    if old:
        result = _result_of((result, *old))
        warn_renamed("report_html(model, X, y, attacker, result)", "report_html(model, result)")
    if isinstance(result, Explanations):
        if explanations is not None:
            raise InvalidInput("explanations are given twice; give them once, after the model")
        ensemble = as_ensemble(model, voting=voting).named(result.about.feature_names)
        record = record_of_explanations(ensemble, result)
        return explained_page(Explained.of(ensemble, result, counterfactuals), title or "Explanations", record)
    if counterfactuals is not None and explanations is None:
        raise InvalidInput("counterfactuals stand beside explanations; give explanations= of the same rows, too")
    content = gather(
        model,
        result,
        title=title,
        features=features,
        feature_names=feature_names,
        max_seconds=as_seconds(max_seconds, "max_seconds") or 0.0,
        n_jobs=n_jobs,
        voting=voting,
        explanations=explanations,
        counterfactuals=counterfactuals,
    )
    return page(content)


def _result_of(old: tuple[Any, ...]) -> Any:
    """The result among X, y, attacker and result: it contains the other three."""
    if len(old) != 4:
        raise InvalidInput(f"a report is made from a model and a result; got {len(old)} arguments after the model")
    return old[3]
