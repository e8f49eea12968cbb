"""The prompt searches of UPDP, one class per search: its options, how its prompts start, and how tokens are chosen.

``mode`` and ``search`` name the class. Mode ``resolved`` has six searches: ``align`` (UPDP, the default), ``report``
and ``random`` (no optimisation), ``pez``, ``mma`` and ``steps`` (baselines). Mode ``literal`` is Algorithm 1 as printed
and mode ``ldp`` is local differential privacy; each is a search of its own. An option that a search does not use is
refused by an error that names both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, ValidationError, model_validator

from updp.core.registry import unknown
from updp.methods.learned import OnPack
from updp.methods.options import BadOption, contradiction, describe_fault

if TYPE_CHECKING:
    import numpy as np
    from torch import Generator, Tensor

    from updp.methods.updp.alignment import Prompts, Start
    from updp.methods.updp.blacklist import Vocabulary
    from updp.methods.updp.projection import Projection, Projector
    from updp.methods.updp.tokens import Target

    #: Target, ids of the first prompt, iterations, random numbers, prompts scored per iteration.
    Algorithm = Callable[[Target, Tensor, int, Generator, int], Prompts]

Mode = Literal["resolved", "literal", "ldp"]
Init = Literal["report", "random"]


class Task(NamedTuple):
    """Prompts to find: where they start, the films they are to describe, and the tokens they may use."""

    vlm: Any
    vocabulary: Vocabulary
    start: Start
    targets: Tensor  # unit embeddings of the films
    projector: Projector
    rngs: Sequence[np.random.Generator]
    noise: Tensor | None  # uniform draws, where tokens are drawn by temperature


class PromptSearch(OnPack.Options):
    """The options every search has: prompt, generator, and the check of the generated film."""

    mode: str = Field("resolved", description="resolved, literal (Algorithm 1 as printed) or ldp.")
    search: str = Field("align", description="How the prompt is found: align, report, random, pez, mma or steps.")
    length: int = Field(40, ge=1, description="Most tokens of a prompt.")
    sampler_steps: int = Field(8, ge=1, description="Steps of the sampler.")
    guidance: float = Field(3.0, description="Weight of classifier-free guidance.")
    image_to_image: bool = Field(False, description="Start from the film's noised latent instead of pure noise.")
    check: bool = Field(True, description="Check the generated film: identity, copies of training films, findings.")
    rerolls: int = Field(4, ge=0, description="How often a film that fails its check is generated again.")
    block: Sequence[str] = Field((), description="Further words that no prompt uses.")
    allow: Sequence[str] = Field((), description="Further words that a prompt may use.")

    #: Whether tokens that are pieces of words may be used, and words that are blocked are projected to others.
    pieces: ClassVar[bool] = False
    #: Whether a token that the guard refuses is replaced by another one; else it is dropped.
    replaces: ClassVar[bool] = True
    #: Whether every prompt has the same number of tokens.
    fixed_length: ClassVar[bool] = False
    #: Options that must not be switched on, and why.
    refused: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Any:
        """The options of the search that ``mode`` and ``search`` name."""
        chosen = choose_search(given)
        mode, search = chosen.names_of()
        named = f"search = {search!r}" if mode == "resolved" else f"mode = {mode!r}"
        known = cls.names()
        for name, value in given.items():
            if name not in known:
                raise BadOption(unknown("option", name, known))
            if name not in chosen.model_fields:
                users = " and ".join(one.label() for one in SEARCHES if name in one.model_fields)
                raise BadOption(contradiction(named, name, f"only {users} use {name}"))
            if value and name in chosen.refused:
                raise BadOption(contradiction(named, name, chosen.refused[name]))
        try:
            return chosen(**given)
        except ValidationError as error:
            raise BadOption(describe_fault(error)) from None

    @classmethod
    def names(cls) -> list[str]:
        return list(dict.fromkeys(name for one in cls._all() for name in one.model_fields))

    @classmethod
    def _all(cls) -> tuple[type[PromptSearch], ...]:
        return (PromptSearch, *SEARCHES)

    @classmethod
    def names_of(cls) -> tuple[str, str]:
        """The values of ``mode`` and ``search`` that name this class."""
        return cls.model_fields["mode"].default, cls.model_fields["search"].default

    @classmethod
    def label(cls) -> str:
        mode, search = cls.names_of()
        return f"search {search!r}" if mode == "resolved" else f"mode {mode!r}"

    @model_validator(mode="after")
    def _check_rerolls(self) -> Self:
        if "rerolls" in self.model_fields_set and self.rerolls and not self.check:
            why = "a film is generated again only where its check fails"
            raise ValueError(contradiction("check = false", "rerolls", why))
        return self

    def start_init(self) -> Init:
        """What prompts start from."""
        return "report"

    def start_free(self, strength: float, room: int) -> int | None:
        """How many tokens follow the report's for the film to choose; None: every token may move."""
        return None

    def projection(self, strength: float) -> Projection:
        """How a row of embeddings becomes a token."""
        raise NotImplementedError

    def find(self, task: Task, strength: float) -> Prompts:
        """The prompts."""
        raise NotImplementedError


class _TopK(PromptSearch):
    """Tokens are chosen among the K nearest allowed ones, favoured ones raised by ``bonus``."""

    top_k: int = Field(10, ge=1, description="Candidates per token.")
    bonus: float = Field(0.08, description="Added to the cosine of a token of the whitelist.")

    def projection(self, strength: float) -> Projection:
        return _projection("top-k", self.top_k, self.bonus, self._temperature(strength))

    def _temperature(self, strength: float) -> float:
        given: float | None = getattr(self, "temperature", None)
        return 0.1 * strength if given is None else given


class Report(_TopK):
    """The report's allowed words, as they are."""

    search: Literal["report"] = "report"

    def start_free(self, strength: float, room: int) -> int | None:
        return 0

    def find(self, task: Task, strength: float) -> Prompts:
        return _align(task, steps=0, fixed=task.start.fixed)


class Random(_TopK):
    """Random words of the whitelist."""

    search: Literal["random"] = "random"
    temperature: float | None = Field(None, ge=0, description="Of the choice of tokens; default: 0.1 × strength.")

    def start_init(self) -> Init:
        return "random"

    def find(self, task: Task, strength: float) -> Prompts:
        return _align(task, steps=0)


class Align(_TopK):
    """UPDP: the report's words stay, and ``free`` more are optimised towards the film, projected at every step."""

    search: Literal["align"] = "align"
    init: Init = Field("report", description="Start from the report's words, or from random ones.")
    free: int | None = Field(8, ge=1, description="Tokens the film chooses at strength 0; None: every token.")
    steps: int = Field(20, ge=0, description="Optimisation steps at strength 0.")
    rate: float = Field(0.05, gt=0, description="Learning rate.")
    temperature: float | None = Field(None, ge=0, description="Of the choice of tokens; default: 0.1 × strength.")
    straight_through: bool = Field(True, description="Project at every step; else once at the end, as the paper does.")

    @model_validator(mode="after")
    def _check_free(self) -> Self:
        if self.init == "random" and "free" in self.model_fields_set and self.free is not None:
            why = "random words are no report, so every token is free"
            raise ValueError(contradiction("init = 'random'", "free", why))
        return self

    def start_init(self) -> Init:
        return self.init

    def _moves(self) -> bool:
        """Whether every token may move."""
        return self.free is None or self.init == "random"

    def start_free(self, strength: float, room: int) -> int | None:
        if self._moves():
            return None
        steps = round(self.steps * (1 - strength))
        return min(round((self.free or 0) * (1 - strength)), room) if steps else 0

    def find(self, task: Task, strength: float) -> Prompts:
        return _align(
            task,
            steps=round(self.steps * (1 - strength)),
            rate=self.rate,
            straight_through=self.straight_through,
            fixed=None if self._moves() else task.start.fixed,
        )


class PEZ(PromptSearch):
    """PEZ (arXiv 2302.03668): random words, optimised and projected at every step; no word is favoured."""

    search: Literal["pez"] = "pez"
    steps: int = Field(20, ge=0, description="Optimisation steps at strength 0.")
    rate: float = Field(0.05, gt=0, description="Learning rate.")
    top_k: int = Field(10, ge=1, description="Candidates per token.")
    temperature: float | None = Field(None, ge=0, description="Of the choice of tokens; default: 0.1 × strength.")

    def start_init(self) -> Init:
        return "random"

    def projection(self, strength: float) -> Projection:
        return _projection("top-k", self.top_k, 0.0, 0.1 * strength if self.temperature is None else self.temperature)

    def find(self, task: Task, strength: float) -> Prompts:
        return _align(task, steps=round(self.steps * (1 - strength)), rate=self.rate)


class _OneByOne(_TopK):
    """A published search over tokens, which takes one study at a time."""

    init: Init = Field("report", description="Start from the report's words, or from random ones.")
    steps: int = Field(20, ge=0, description="Iterations at strength 0.")
    trials: int

    def start_init(self) -> Init:
        return self.init

    def find(self, task: Task, strength: float) -> Prompts:
        import numpy as np
        import torch
        from torch.nn.functional import pad

        from updp.methods.updp.alignment import Prompts
        from updp.methods.updp.tokens import Target

        steps = round(self.steps * (1 - strength))
        ids, mask = task.start.ids, task.start.mask
        found = []
        for i, rng in enumerate(task.rngs):
            generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
            target = Target(task.vlm, task.vocabulary, task.targets[i])
            found.append(self.algorithm()(target, ids[i, : int(mask[i].sum())], steps, generator, self.trials))
        width = ids.shape[1]
        return Prompts(
            torch.cat([pad(p.ids, (0, width - p.ids.shape[1])) for p in found]),
            torch.cat([pad(p.mask, (0, width - p.mask.shape[1])) for p in found]),
            torch.cat([pad(p.rows, (0, 0, 0, width - p.rows.shape[1])) for p in found]),
            torch.cat([p.scores for p in found]),
            np.mean([p.trace for p in found], axis=0).tolist() if steps else [],
        )

    def algorithm(self) -> Algorithm:
        """The search for one study."""
        raise NotImplementedError


class MMA(_OneByOne):
    """MMA-Diffusion's greedy coordinate search."""

    search: Literal["mma"] = "mma"
    trials: int = Field(512, ge=1, description="Prompts scored per iteration.")

    def algorithm(self) -> Algorithm:
        from updp.methods.updp.mma import greedy_coordinate

        return greedy_coordinate


class STEPS(_OneByOne):
    """STEPS' tensor-train search."""

    search: Literal["steps"] = "steps"
    trials: int = Field(1000, ge=1, description="Prompts scored per iteration.")

    def algorithm(self) -> Algorithm:
        from updp.methods.updp.steps import tensor_train

        return tensor_train


class _ProjectedOnce(PromptSearch):
    """The paper's own readings: every token moves, at any strength, and is projected once at the end."""

    init: Init = Field("report", description="Start from the report's words, or from random ones.")
    steps: int = Field(20, ge=0, description="Optimisation steps.")
    rate: float = Field(0.05, gt=0, description="Learning rate.")

    def start_init(self) -> Init:
        return self.init

    def find(self, task: Task, strength: float) -> Prompts:
        return _align(task, steps=self.steps, rate=self.rate, straight_through=False)


class Algorithm1(_ProjectedOnce):
    """Algorithm 1 as printed: tokens of the whitelist alone, drawn from the K nearest."""

    mode: Literal["literal"] = "literal"
    search: Literal["align"] = "align"
    top_k: int = Field(10, ge=1, description="Candidates per token.")
    temperature: float = Field(1.0, ge=0, description="Of the choice of tokens.")

    pieces: ClassVar[bool] = True

    def projection(self, strength: float) -> Projection:
        return _projection("whitelist-top-k", self.top_k, 0.0, self.temperature)


class LDP(_ProjectedOnce):
    """Local differential privacy: tokens drawn from the whole whitelist, a fixed number of them, and no check against
    the film."""

    mode: Literal["ldp"] = "ldp"
    search: Literal["align"] = "align"
    temperature: float = Field(0.1, gt=0, description="Of the choice of tokens; epsilon is 4 / temperature per token.")
    image_to_image: Literal[False] = False
    check: Literal[False] = False
    rerolls: Literal[0] = 0

    fixed_length: ClassVar[bool] = True
    # Reading the film again would spend more of the privacy budget than is accounted for.
    replaces: ClassVar[bool] = False
    refused: ClassVar[Mapping[str, str]] = {
        "image_to_image": "the film's own latent is not covered by the privacy budget",
        "check": "a comparison with the film is not covered by the privacy budget",
        "rerolls": "a film is generated again only where its check fails, and this mode has no check",
    }

    def projection(self, strength: float) -> Projection:
        return _projection("whitelist", 1, 0.0, self.temperature)


#: Every search, in the order of the documentation.
SEARCHES: tuple[type[PromptSearch], ...] = (Align, Report, Random, PEZ, MMA, STEPS, Algorithm1, LDP)


def choose_search(given: Mapping[str, Any]) -> type[PromptSearch]:
    """The class that ``mode`` and ``search`` name."""
    searches = {one.names_of(): one for one in SEARCHES}
    mode, search = given.get("mode", "resolved"), given.get("search", "align")
    for kind, value, known in (
        ("mode", mode, dict.fromkeys(m for m, _ in searches)),
        ("search", search, dict.fromkeys(s for _, s in searches)),
    ):
        if value not in known:
            raise BadOption(unknown(kind, str(value), known))
    if (mode, search) not in searches:
        why = f"mode {mode!r} has a search of its own"
        raise BadOption(contradiction(f"mode = {mode!r}", f"search = {search!r}", why))
    return searches[mode, search]


def _projection(candidates: Any, top_k: int, bonus: float, temperature: float) -> Projection:
    from updp.methods.updp.projection import Projection

    return Projection(candidates, top_k, bonus, temperature)


def _align(
    task: Task, *, steps: int, rate: float = 0.05, straight_through: bool = True, fixed: Tensor | None = None
) -> Prompts:
    from updp.methods.updp.alignment import align

    return align(
        task.vlm, task.vocabulary, task.start.ids, task.start.mask, task.targets, task.projector,
        steps=steps, rate=rate, straight_through=straight_through, noise=task.noise, fixed=fixed,
    )  # fmt: skip
