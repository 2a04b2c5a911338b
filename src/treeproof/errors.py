"""The three ways treeproof refuses to go on."""

from __future__ import annotations


class InvalidInput(ValueError):
    """What was passed in is malformed; the message names the value and the way out."""


class UnsupportedModel(TypeError):
    """The model is well formed, but treeproof cannot say exactly what it predicts."""


class SoundnessError(RuntimeError):
    """An engine produced evidence that does not hold. Always a bug in treeproof; please report it."""
