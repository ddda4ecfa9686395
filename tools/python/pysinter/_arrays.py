# SPDX-License-Identifier: Apache-2.0
"""What calls return."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


class Outputs(tuple[Any, ...]):
    """The outputs of a plan that has several, in its order: a tuple that takes names, too.

    outputs[0], outputs["y"]: an array; a name that no output has is a KeyError. names: of all, in order. `values` and `names`:
    of which a plan makes it.
    """

    names: tuple[str, ...]

    def __new__(cls, values: Iterable[Any], names: Iterable[str]) -> Outputs:
        self = super().__new__(cls, values)
        self.names = tuple(names)
        return self

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self.names:
                raise KeyError(f"no output '{key}': there are {', '.join(self.names)}")
            key = self.names.index(key)
        return super().__getitem__(key)

    def keys(self) -> tuple[str, ...]:
        """Names: with this, dict(outputs) has the outputs by name."""
        return self.names

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names with their arrays."""
        return zip(self.names, self)

    def __reduce__(self) -> Any:
        return Outputs, (tuple(self), self.names)

    def __repr__(self) -> str:
        return "Outputs(" + ", ".join(f"{name}={value!r}" for name, value in self.items()) + ")"


class Lent:
    """A DLPack capsule for consumers that ask an object for one."""

    def __init__(self, capsule, device):
        self._capsule, self._device = capsule, device

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return 2, self._device  # kDLCUDA
