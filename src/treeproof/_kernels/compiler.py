"""A compiler of kernels that only other kernels call.

numba optimises every function and makes machine code of it, and does so again wherever it becomes part of another one.
Code of an inner kernel is only kept for those: it is optimised, and turned into machine code, as part of the entry that
calls it. That reaches into numba; versions that nobody has tried this with compile in their own way, and longer.
"""

from __future__ import annotations

from typing import Any

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder

LAST_TRIED = (0, 68)
"""The last version of numba that `Part` is known to work with."""


class _PartOfOthers(JITCodeLibrary):  # type: ignore[misc]
    """Code that is linked into other code, and not executable itself."""

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, env: Any) -> None:
        """Only exceptions with computed arguments need an environment, and inner kernels raise none."""

    def _optimize_final_module(self) -> None:
        """Nothing."""

    def _finalize_final_module(self) -> None:
        # Addresses of this process stand only where kernels are named, and go when code is optimised. numba looks for
        # those that are left in an entry, and would warn that it cannot keep it.
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self) -> Any:
        return self.serialize_using_bitcode()


class Part(CompilerBase):  # type: ignore[misc]
    """numba's own compiler, but for where the code goes."""

    def define_pipelines(self) -> list[Any]:
        self.state.library = _PartOfOthers(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]


options_of_parts: dict[str, Any] = {"pipeline_class": Part} if numba.version_info.short <= LAST_TRIED else {}
"""How an inner kernel is compiled."""
