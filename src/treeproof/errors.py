"""The three ways treeproof refuses to go on, and how it says that a name has changed."""

from __future__ import annotations

import warnings


class InvalidInput(ValueError):
    """What was passed in is malformed; the message names the value and the way out.

    `argument` is the argument at fault, if there is one, and a message about it begins with its name; `way_out` is what
    to do instead in Python. So a command line can call both by other names.

    >>> error = InvalidInput("timeout must be at least 0, got -1", argument="timeout", way_out="None means no limit")
    >>> str(error), error.of("--timeout", "")
    ('timeout must be at least 0, got -1; None means no limit', '--timeout must be at least 0, got -1')
    """

    def __init__(self, message: str, *, argument: str = "", way_out: str = "") -> None:
        super().__init__(f"{message}; {way_out}" if way_out else message)
        self.message, self.argument, self.way_out = message, argument, way_out

    def of(self, name: str, way_out: str) -> str:
        """The same message with another name for the argument, and another way out."""
        begins = self.argument and self.message.startswith(self.argument)
        message = name + self.message[len(self.argument) :] if begins else self.message
        return f"{message}; {way_out}" if way_out else message


class UnsupportedModel(TypeError):
    """The model is well formed, but treeproof cannot say exactly what it predicts."""


class SoundnessError(RuntimeError):
    """An engine produced evidence that does not hold. Always a bug in treeproof; please report it."""


def warn_renamed(old: str, new: str) -> None:
    """Says, at the line that used it, that a public spelling has changed and goes with the next version."""
    warnings.warn(f"{old} is now {new}; the old spelling goes with the next version", FutureWarning, stacklevel=3)
