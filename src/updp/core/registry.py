"""Registries: methods, probes, sources, domains, roles and engines, by name.

A member of this package is added by one file and one line in the registry of its kind. A member of another package is
added by an entry point in the registry's group. Members are imported when they are first asked for. A plug-in that
cannot be imported is reported with its name and does not stop the others.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib import import_module, metadata
from typing import Generic, TypeVar

T = TypeVar("T")

log = logging.getLogger("updp")


class UnknownName(ValueError):
    """No member of that name, or one that cannot be imported; the message lists what there is."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """What to say of a name that is not known: the nearest name there is, and all of them."""
    there = list(known)
    nearest = difflib.get_close_matches(name, there, 1)
    meant = f"; did you mean {nearest[0]!r}?" if nearest else ";"
    return f"no {kind} {name!r}{meant} there are: {', '.join(there) or 'none'}"


class Registry(Collection[str], Generic[T]):
    """The members of one kind by name, in the order they were added; plug-ins come last, sorted by name.

    ``places`` gives each name a "module:attribute" or the member itself. ``group`` is the entry point group in which
    other packages add theirs. Errors are raised as ``error``.
    """

    def __init__(
        self, kind: str, group: str, places: Mapping[str, str | T], error: type[ValueError] = UnknownName
    ) -> None:
        self.kind, self.group, self.error = kind, group, error
        self._places: dict[str, str | T] = dict(places)
        self._plugins: dict[str, metadata.EntryPoint] | None = None
        self._reported: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        yield from self._places
        yield from self._found()

    def __len__(self) -> int:
        return len(self._places) + len(self._found())

    def __contains__(self, name: object) -> bool:
        return name in self._places or name in self._found()

    def __getitem__(self, name: str) -> T:
        """The member of this name, imported if need be."""
        if name in self._places:
            place = self._places[name]
            if isinstance(place, str):
                module, _, attribute = place.partition(":")
                member: T = getattr(import_module(module), attribute)
                return member
            return place
        plugin = self._found().get(name)
        if plugin is None:
            raise self.error(unknown(self.kind, name, self))
        try:
            found: T = plugin.load()
        except Exception as error:  # whatever the other package does when it is imported
            raise self.error(
                f"{self.kind} {name!r} of package {_package(plugin)} cannot be imported "
                f"({type(error).__name__}: {error})"
            ) from error
        return found

    def members(self) -> Iterator[tuple[str, T]]:
        """Every member with its name; a plug-in that cannot be imported is reported once and left out."""
        for name in self:
            if name in self._places:
                yield name, self[name]
                continue
            try:
                found = self[name]
            except self.error as error:
                self._report(name, str(error))
                continue
            yield name, found

    def module_of(self, name: str) -> str:
        """The module a member is in, without importing it; "" for a member that was added as an object."""
        if name not in self:
            raise self.error(unknown(self.kind, name, self))
        place = self._places.get(name)
        if place is None:
            return self._found()[name].module
        return place.partition(":")[0] if isinstance(place, str) else ""

    def add(self, name: str, member: str | T) -> None:
        """Add a member in this process. Worker processes do not see it: a plug-in for them is an entry point."""
        if name in self:
            raise self.error(f"there is a {self.kind} {name!r} already")
        self._places[name] = member

    def remove(self, name: str) -> None:
        """Take out a member that ``add`` put in."""
        del self._places[name]

    def _found(self) -> Mapping[str, metadata.EntryPoint]:
        if self._plugins is None:
            self._plugins = {}
            for point in sorted(metadata.entry_points(group=self.group), key=lambda point: point.name):
                if point.name in self._places or point.name in self._plugins:
                    # A package must not replace a method or probe that a policy names.
                    self._report(
                        point.value, f"{self.kind} {point.name!r} of package {_package(point)} has a name in use"
                    )
                else:
                    self._plugins[point.name] = point
        return self._plugins

    def _report(self, name: str, what: str) -> None:
        if name not in self._reported:
            self._reported.add(name)
            log.warning("%s; it is left out", what)


def _package(point: metadata.EntryPoint) -> str:
    return point.dist.name if point.dist else point.module.partition(".")[0]
