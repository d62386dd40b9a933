"""Locates the running line of code: the stack behind an operator, and the node of the autograd engine.

Only code and line numbers are read, never frames' local variables: that would keep tensors alive.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

from dsregress.probe.border.own_code import is_own_file

#: Number of callers that are recorded with each site.
CALLERS = 5

#: Functions that wrap others and carry no information about the site.
WRAPPERS = {"wrapped_fn", "wrapped_func", "decorate_context", "wrapper", "_use_grad", "maybe_fallback"}
#: Packages that run operators on behalf of others; ``torch.optim`` counts as a caller.
PLUMBING = {
    "",
    "torch",
    "dsregress",
    "vgpu",
    "skeletons",
    "pytest",
    "_pytest",
    "pluggy",
    "pytest_benchmark",
    *sys.stdlib_module_names,
}


class StackWalker:
    """Finds sites on the stack. ``package`` is the top module of the framework under test."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._lines: dict[tuple[CodeType, int], str] = {}
        self._tops: dict[str, str | None] = {}

    def walk(self, frame: FrameType | None) -> tuple[str, tuple[str, ...], bool, bool]:
        """Return (site, its callers, whether the site is in the framework, whether it is the autograd engine)."""
        found: list[str] = []
        own = engine = False
        outermost = ""
        while frame is not None and len(found) <= CALLERS:
            code = frame.f_code
            module = frame.f_globals.get("__name__", "")
            is_own = is_own_file(code.co_filename)  # the server's main module has the same name as a program's
            top = None if is_own else self._top(module)
            if top is not None:
                if code.co_name not in WRAPPERS:
                    if not found:
                        own = top == self._package
                    found.append(self._line(frame, module))
            elif not found and not engine and _is_engine(code.co_name, module):
                engine = True
                found.append(f"autograd engine: {_node_name()}")
            elif not outermost and not module.startswith(("torch", "vgpu.sim", "vgpu.meters.meter")):
                outermost = self._line(frame, module)
            frame = frame.f_back
        if not found:
            found = [outermost or "outside Python"]
        return found[0], tuple(found[1:]), own, engine

    def _top(self, module: str) -> str | None:
        """Return the package of a module; None for `PLUMBING`."""
        known = self._tops.get(module, "")
        if known == "":
            top = module.split(".")[0]
            own = module.startswith("torch.optim.") or top not in PLUMBING
            known = self._tops[module] = top if own else None
        return known

    def _line(self, frame: FrameType, module: str) -> str:
        where = (frame.f_code, frame.f_lineno)
        known = self._lines.get(where)
        if known is None:
            parts = frame.f_code.co_filename.replace("\\", "/").split("/")
            depth = len(module.split(".")) + (parts[-1] == "__init__.py")
            known = f"{'/'.join(parts[-depth:])}:{frame.f_lineno} in {frame.f_code.co_name}"
            self._lines[where] = known
        return known


def _is_engine(function: str, module: str) -> bool:
    """Return True if this is torch's frame that calls the autograd engine (by its name since 2.3, or before)."""
    return function == "_engine_run_backward" or (function == "backward" and module == "torch.autograd")


def _current_node() -> Any:
    torch = sys.modules.get("torch")
    current = getattr(torch._C, "_current_autograd_node", None) if torch is not None else None
    return current() if current is not None else None


def _node_name() -> str:
    node = _current_node()
    return "backward" if node is None else str(node.name())


def parameter_of_gradient() -> Any:
    """Return the parameter whose gradient the running autograd node computes, if only views are between them; else None."""
    node = _current_node()
    for following, _ in getattr(node, "next_functions", ()):
        for _ in range(3):
            if following is None:
                break
            variable = getattr(following, "variable", None)
            if variable is not None:
                return variable
            onwards = following.next_functions
            if len(onwards) != 1:
                break
            following = onwards[0][0]
    return None
