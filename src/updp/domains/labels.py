"""A table of labels: the names of a domain, what other label sets call them, and the sentences that say them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Label:
    """One label of a domain."""

    name: str
    phrases: tuple[str, ...] = ()  # sentences that say it; without any, its name is said
    synonyms: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()  # label sets of data sources that have it
    classified: bool = True  # whether the classifier of the domain's pack knows it


class LabelTable:
    """The labels of a domain. Names are compared without case, and with underscores as spaces."""

    def __init__(self, labels: Iterable[Label], none: Iterable[str] = ()) -> None:
        self.labels = tuple(labels)
        self.names = tuple(label.name for label in self.labels)
        #: What is measured: the labels that the domain's classifier knows.
        self.classes = tuple(label.name for label in self.labels if label.classified)
        self._none = frozenset(map(_key, none))
        self._by_name: dict[str, Label] = {}
        for label in self.labels:
            for name in (label.name, *label.synonyms):
                if self._by_name.setdefault(_key(name), label) is not label or _key(name) in self._none:
                    raise ValueError(f"the label name {name!r} stands for two labels")

    def find(self, name: str) -> Label | None:
        """The label of this name or synonym, None if the table has none."""
        return self._by_name.get(_key(name))

    def canonical(self, names: Iterable[str]) -> tuple[str, ...]:
        """Labels by the names of this table, others by their own; the names of "nothing found" are left out."""
        out: dict[str, None] = {}
        for name in names:
            plain = name.strip()
            if plain and _key(plain) not in self._none:
                label = self.find(plain)
                out[plain if label is None else label.name] = None
        return tuple(out)

    def phrases(self, name: str) -> Sequence[str]:
        """Sentences that say a label. One that is not in the table, which a policy let through, is said by its name."""
        label = self.find(name)
        own = label.phrases if label else ()
        return own or (f"{name.replace('_', ' ').capitalize()}.",)


def _key(name: str) -> str:
    return name.strip().lower().replace("_", " ")
