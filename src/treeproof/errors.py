"""The three errors that treeproof raises, and its warning about a renamed public name."""

from __future__ import annotations

import warnings


class InvalidInput(ValueError):
    """What was passed in is malformed; the message names the value and the way out.

    `argument` names the argument at fault, if there is one; a message about it begins with that name. `way_out` says
    what to do instead in Python. The command line can put its own words in place of both.

    >>> error = InvalidInput("timeout must be at least 0, got -1", argument="timeout", way_out="None means no limit")
    >>> str(error), error.of("--timeout", "")
    ('timeout must be at least 0, got -1; None means no limit', '--timeout must be at least 0, got -1')
    """

    def __init__(self, message: str, *, argument: str = "", way_out: str = "") -> None:
        super().__init__(f"{message}; {way_out}" if way_out else message)
        self.message, self.argument, self.way_out = message, argument, way_out

    def of(self, name: str, way_out: str) -> str:
        """The same message with another name for the argument and another way out."""
        begins = self.argument and self.message.startswith(self.argument)
        message = name + self.message[len(self.argument) :] if begins else self.message
        return f"{message}; {way_out}" if way_out else message


class UnsupportedModel(TypeError):
    """The model is well formed, but treeproof cannot say exactly what it predicts."""


class SoundnessError(RuntimeError):
    """Evidence of an engine does not hold, or the model's own library predicts something else; no verdict is given.

    A bug in treeproof, unless the message says otherwise; please report it.
    """


def warn_renamed(old: str, new: str) -> None:
    """Warns, at the line that used it, that a public name has changed and that the old one is about to go."""
    warnings.warn(f"{old} is now {new}; the next version removes the old spelling", FutureWarning, stacklevel=3)
