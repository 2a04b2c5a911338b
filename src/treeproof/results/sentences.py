"""What is claimed of rows, a template for each claim; `tests/results/test_sentences.py` tries to break every one.

An attack is what the attacker's own words say: with a goal, only a change to a wanted label.
"""

from __future__ import annotations

# ---- measures ---------------------------------------------------------------------------------------------

RIGHT = "the model is right"
ROBUST = "… and no attack changes that"
RESILIENT = "… and none changes the label of a neighbour"
SHARE_RIGHT = "rows get the right label if nobody interferes."
SHARE_ROBUST = "rows get the right label, and no attack changes it."
SHARE_RESILIENT = "rows are robust, and no attack changes the label of a neighbour, which may be another or wrong."
ALL_DECIDED = "Exact: every row was decided."
SOME_OPEN = "Bounds: {share} of the rows were not decided."

# ---- kinds of rows ----------------------------------------------------------------------------------------

ROW_BROKEN = "correct, but an attack flips it"
ROW_FRAGILE = "robust, but an attack flips a neighbour of it"
ROW_WRONG = "labelled wrongly before any attack"
ROW_OPEN = "neither proved nor refuted"
ROW_ROBUST = "correct, and no attack flips it"
ROW_RESILIENT = "robust, and no attack flips a neighbour of it"

# ---- a report's first lines -------------------------------------------------------------------------------

N_RIGHT = "The model labels {right:,} of {rows:,} rows correctly."
N_BROKEN = "The attacker can flip {least}{broken:,} of these to a wrong label; {shown}."
ALL_SHOWN = "the report shows how, for each of them"
SOME_SHOWN = "the report shows how for {shown:,} of them"
NONE_BROKEN = "The attacker can flip none of these: that is proved."
N_FRAGILE = "{fragile:,} more cannot be flipped, but a neighbour of each, within {near}, can."
N_OPEN = "Of {open:,} it is not decided whether they can be flipped."
PROVED = "for all of the attacker’s moves: every double within reach was covered, in the model’s own arithmetic"
REFUTED = "a counterexample was found, {witnesses:,} in all: replayed on the model, and without a move to spare"
UNDECIDED = "neither a proof nor a counterexample was found: time ran out, or relations were too hard to decide"
BROKEN_IN_SHORT = "Attacks break {broken:,} rows"
FRAGILE_IN_SHORT = ", and neighbours of {fragile:,} more"

# ---- explanations -----------------------------------------------------------------------------------------

ENOUGH = "this is enough, and no part of it can be left out"
ENOUGH_FEWEST = "this is enough, and no fewer columns are"
NO_PART = "no part of this can be left out"
NO_FEWER = "no fewer columns are enough"
MAYBE_FEWER = "enough, maybe fewer columns are"
MAYBE_PART = "enough, maybe without some of it, too"
NO_CHANGE = "no change that is allowed gives a wanted label"
NO_OTHERS = "every other change that works changes all columns of one of these, too"

REASON_MEANS = "A reason is a set of columns that is enough, whatever the others become, and not without any one."
SMALLEST_MEANS = "A smallest reason is a set of columns that is enough, whatever the others become, and no fewer are."
CONTRASTIVE_MEANS = "A contrastive set is one of the fewest columns whose change can flip the label, as a row shows."
CHANGES_MEAN = "Beside it stands the cheapest change to a wanted label, which was replayed on the model."
UNLESS = "All this is proved, unless it says otherwise."

# ---- training ---------------------------------------------------------------------------------------------

NOT_HARDENED = "Nothing helped: of the leaf scores that were tried, none raises {what} on {held} by more than chance"
NO_CLASSIFIER = "No classifier is {holds} at more than {most}"
PROVED_BY_TRAINING = "{share} of them at least, proved by training"
