"""``[tool.dsregress.job]``: the training job that commands are about unless they name another."""

from __future__ import annotations

import msgspec


class JobSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[tool.dsregress.job]``. Paths are relative to the project's folder, but ``config`` and those of the launch line to
    ``folder``."""

    program: str = ""  #: its launch line
    folder: str = "."  #: where it is launched
    config: tuple[str, ...] = ()  #: files of DeepSpeed, accelerate, or a trainer that the line does not name
    packages: tuple[str, ...] = ()  #: locks and requirements files; or pins, ``deepspeed==0.19.8``
    added: tuple[str, ...] = msgspec.field(
        name="with", default=()
    )  #: packages besides the stack, as ``--with`` has them
    card: str = ""
    ranks: int | None = None
    synthetic_data: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """The files among ``packages``."""
        return tuple(one for one in self.packages if "==" not in one)

    @property
    def pins(self) -> tuple[str, ...]:
        """The pins among ``packages``."""
        return tuple(one for one in self.packages if "==" in one)
