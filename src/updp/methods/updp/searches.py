"""The prompt searches of UPDP, one class per search: its options, how its prompts start, and how tokens are chosen.

``mode`` and ``search`` name the class. Mode ``resolved`` has eight searches: ``align`` (UPDP, the default), ``report``
and ``random`` (no optimisation), ``pez``, ``mma`` and ``steps`` (baselines), ``raw`` and ``similarity`` (the paper's
tables without lists: unfiltered report, and report optimised over the whole vocabulary). Mode ``literal`` is
Algorithm 1 as printed and mode ``ldp`` is local differential privacy; each is a search of its own. An option that a
search does not use is refused by an error that names both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from updp.core.registry import unknown
from updp.methods.learned import OnPack
from updp.methods.options import BadOption, contradiction

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from updp.methods.updp.alignment import Prompts, Start
    from updp.methods.updp.blacklist import Vocabulary
    from updp.methods.updp.projection import Projection, Projector
    from updp.methods.updp.tokens import Search, Targets

    #: Films, where their prompts begin, iterations, prompts scored per iteration and film.
    Algorithm = Callable[[Targets, Search, int, int], Prompts]

Mode = Literal["resolved", "literal", "ldp"]
Init = Literal["report", "random"]
#: Where the paper's own readings may start too: the whole report, unfiltered.
RawInit = Literal["report", "raw", "random"]

# Options of several searches.
Steps = Annotated[int, Field(ge=0, description="Optimisation steps at strength 0.")]
Iterations = Annotated[
    int, Field(ge=1, description="Content iterations: how often the search starts anew from its result.")
]
Rate = Annotated[float, Field(gt=0, description="Learning rate.")]
TopK = Annotated[int, Field(ge=1, description="Candidates per token.")]
Temperature = Annotated[float | None, Field(ge=0, description="Of the choice of tokens; default: 0.1 × strength.")]
StraightThrough = Annotated[bool, Field(description="Project at every step; else once at the end, as the paper does.")]


class Task(NamedTuple):
    """Prompts to find: where they start, the films they are to describe, and the tokens they may use."""

    vlm: Any
    vocabulary: Vocabulary
    start: Start
    targets: Tensor  # unit embeddings of the films
    projector: Projector
    rngs: Sequence[np.random.Generator]
    noise: Tensor | None  # uniform draws of each iteration, where tokens are drawn by temperature


class PromptSearch(OnPack.Options):
    """The options every search has: prompt, generator, and the check of the generated film."""

    mode: str = Field("resolved", description="resolved, literal (Algorithm 1 as printed) or ldp.")
    search: str = Field(
        "align",
        description="How the prompt is found: align, report, random, pez, mma, steps, raw or similarity.",
    )
    length: int = Field(40, ge=1, description="Most tokens of a prompt.")
    sampler_steps: int | None = Field(None, ge=1, description="Steps of the sampler; default: the pack's.")
    guidance: float | None = Field(None, description="Weight of classifier-free guidance; default: the pack's.")
    image_to_image: bool = Field(False, description="Start from the film's noised latent instead of pure noise.")
    check: bool = Field(True, description="Check the generated film: identity, copies of training films, findings.")
    rerolls: int = Field(4, ge=0, description="How often a film that fails its check is generated again.")
    block: Sequence[str] = Field((), description="Further words that no prompt uses.")
    allow: Sequence[str] = Field((), description="Further words that a prompt may use.")

    #: Whether tokens that are pieces of words may be used, and words that are blocked are projected to others.
    pieces: ClassVar[bool] = False
    #: Whether a token that the guard refuses is replaced by another one; else it is dropped.
    replaces: ClassVar[bool] = True
    #: Whether words are filtered at all: blacklist, whitelist, and the check of the prompt as text.
    lists: ClassVar[bool] = True
    #: Whether a film may be refused for what it shows.
    inspects: ClassVar[bool] = True
    #: Fewest words of a prompt that may move; a shorter one is filled up with random words.
    least: ClassVar[int] = 4
    #: Options that must not be switched on, and why.
    refused: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def model_for(cls, given: Mapping[str, Any]) -> Any:
        """The search that ``mode`` and ``search`` name."""
        if cls is not PromptSearch:
            return cls
        chosen = choose_search(given)
        mode, search = chosen.names_of()
        named = f"search = {search!r}" if mode == "resolved" else f"mode = {mode!r}"
        for name, value in given.items():
            if name not in chosen.model_fields:
                users = " and ".join(one.label() for one in SEARCHES if name in one.model_fields)
                raise BadOption(contradiction(named, name, f"only {users} use {name}"))
            if value and name in chosen.refused:
                raise BadOption(contradiction(named, name, chosen.refused[name]))
        return chosen

    @classmethod
    def names(cls) -> list[str]:
        every: tuple[type[PromptSearch], ...] = (PromptSearch, *SEARCHES) if cls is PromptSearch else (cls,)
        return list(dict.fromkeys(name for one in every for name in one.model_fields))

    @classmethod
    def names_of(cls) -> tuple[str, str]:
        """The values of ``mode`` and ``search`` that name this class."""
        return cls.model_fields["mode"].default, cls.model_fields["search"].default

    @classmethod
    def label(cls) -> str:
        mode, search = cls.names_of()
        return f"search {search!r}" if mode == "resolved" else f"mode {mode!r}"

    @field_validator("free", "words", mode="before", check_fields=False)
    @classmethod
    def _read_all(cls, value: Any) -> Any:
        """ "all" stands for None, which TOML cannot write."""
        return None if value == "all" else value

    @model_validator(mode="after")
    def _check_rerolls(self) -> Self:
        if "rerolls" in self.model_fields_set and self.rerolls and not self.check:
            why = "a film is generated again only where its check fails"
            raise ValueError(contradiction("check = false", "rerolls", why))
        return self

    def start_init(self) -> RawInit:
        """What prompts start from."""
        return "report"

    def fixes_length(self) -> bool:
        """Whether every prompt has the same number of tokens."""
        return False

    def spends(self, strength: float, room: int) -> dict[str, Any]:
        """The privacy budget of a film, for the manifest; nothing where there is no guarantee."""
        return {}

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

    top_k: TopK = 10
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
    temperature: Temperature = None

    def start_init(self) -> Init:
        return "random"

    def find(self, task: Task, strength: float) -> Prompts:
        return _align(task, steps=0)


class _KeepsReport(_TopK):
    """The report's words stay, and ``free`` more are chosen by the film; from random words, or where all are free,
    every token may move."""

    init: Init = Field("report", description="Start from the report's words, or from random ones.")
    free: int | None = Field(8, ge=1, description='Tokens the film chooses at strength 0; "all": every token.')
    steps: Steps = 20

    @model_validator(mode="after")
    def _check_free(self) -> Self:
        if self.init == "random" and "free" in self.model_fields_set and self.free is not None:
            why = "random words are no report, so every token is free"
            raise ValueError(contradiction("init = 'random'", "free", why))
        return self

    def start_init(self) -> Init:
        return self.init

    def start_free(self, strength: float, room: int) -> int | None:
        return None if self._moves() else free_words(self.free, self.steps, strength, room)

    def _moves(self) -> bool:
        """Whether every token may move."""
        return self.free is None or self.init == "random"


class Align(_KeepsReport):
    """UPDP: the report's words stay, and ``free`` more are optimised towards the film, projected at every step."""

    search: Literal["align"] = "align"
    rate: Rate = 0.05
    temperature: Temperature = None
    straight_through: StraightThrough = True
    iterations: Iterations = Field(1, json_schema_extra={"newer": True})

    def find(self, task: Task, strength: float) -> Prompts:
        return _align(
            task,
            steps=round(self.steps * (1 - strength)),
            rate=self.rate,
            straight_through=self.straight_through,
            fixed=None if self._moves() else task.start.fixed,
            iterations=self.iterations,
        )


class PEZ(PromptSearch):
    """PEZ (arXiv 2302.03668): random words, optimised and projected at every step; no word is favoured."""

    search: Literal["pez"] = "pez"
    steps: Steps = 20
    rate: Rate = 0.05
    top_k: TopK = 10
    temperature: Temperature = None

    def start_init(self) -> Init:
        return "random"

    def projection(self, strength: float) -> Projection:
        return _projection("top-k", self.top_k, 0.0, 0.1 * strength if self.temperature is None else self.temperature)

    def find(self, task: Task, strength: float) -> Prompts:
        return _align(task, steps=round(self.steps * (1 - strength)), rate=self.rate)


class _Published(_KeepsReport):
    """A published search over tokens, for all films of a batch together; the report's words stay, as UPDP's do."""

    trials: int

    algorithm: ClassVar[str]  # where it is

    def find(self, task: Task, strength: float) -> Prompts:
        import torch

        from updp.methods.updp.tokens import Search, Targets

        moving = task.start.mask if self._moves() else task.start.mask & ~task.start.fixed
        streams = [torch.Generator().manual_seed(int(rng.integers(2**62))) for rng in task.rngs]
        search = Search(task.start.ids, task.start.mask, moving, streams)
        targets = Targets(task.vlm, task.vocabulary, task.targets)
        algorithm: Algorithm = resolve_name(self.algorithm)
        return algorithm(targets, search, round(self.steps * (1 - strength)), self.trials)


class MMA(_Published):
    """MMA-Diffusion's greedy coordinate search."""

    search: Literal["mma"] = "mma"
    steps: int = Field(500, ge=0, description="Iterations at strength 0.")
    trials: int = Field(512, ge=1, description="Prompts scored per iteration.")

    algorithm = "updp.methods.updp.mma:greedy_coordinate"


class STEPS(_Published):
    """STEPS' tensor-train search."""

    search: Literal["steps"] = "steps"
    steps: int = Field(100, ge=0, description="Iterations at strength 0.")
    trials: int = Field(1000, ge=1, description="Prompts scored per iteration.")

    algorithm = "updp.methods.updp.steps:tensor_train"


class _Unlisted(PromptSearch):
    """A baseline of the paper without lists: its prompts may hold anything."""

    lists: ClassVar[bool] = False
    replaces: ClassVar[bool] = False

    def projection(self, strength: float) -> Projection:
        return _projection("top-k", 1, 0.0, 0.0)


class Raw(_Unlisted):
    """The paper's baseline without de-identification: the whole report as it came, no list and no optimisation."""

    search: Literal["raw"] = "raw"

    def start_init(self) -> RawInit:
        return "raw"

    def start_free(self, strength: float, room: int) -> int | None:
        return 0

    def find(self, task: Task, strength: float) -> Prompts:
        return _align(task, steps=0, fixed=task.start.fixed)


class Similarity(_Unlisted):
    """The paper's ablation with target similarity and without lists: the whole report, every token of it optimised
    towards the film over all tokens of the vocabulary."""

    search: Literal["similarity"] = "similarity"
    init: RawInit = Field("raw", description="Start from the whole report, its allowed words, or random ones.")
    steps: Steps = 20
    rate: Rate = 0.05
    straight_through: StraightThrough = True
    iterations: Iterations = 1

    def start_init(self) -> RawInit:
        return self.init

    def find(self, task: Task, strength: float) -> Prompts:
        n = round(self.steps * (1 - strength))
        return _align(task, steps=n, rate=self.rate, straight_through=self.straight_through, iterations=self.iterations)


class Algorithm1(PromptSearch):
    """Algorithm 1 as printed: every token moves, at any strength, and is projected once at the end, drawn from the K
    nearest tokens of the whitelist alone. ``iterations`` are the content iterations of Figure 4."""

    mode: Literal["literal"] = "literal"
    search: Literal["align"] = "align"
    init: RawInit = Field("report", description="Start from the report's words, the whole report, or random words.")
    steps: int = Field(20, ge=0, description="Optimisation steps.")
    rate: Rate = 0.05
    iterations: Iterations = 1
    top_k: TopK = 10
    temperature: float = Field(1.0, ge=0, description="Of the choice of tokens.")

    pieces: ClassVar[bool] = True

    def start_init(self) -> RawInit:
        return self.init

    def projection(self, strength: float) -> Projection:
        return _projection("whitelist-top-k", self.top_k, 0.0, self.temperature)

    def find(self, task: Task, strength: float) -> Prompts:
        return _align(task, steps=self.steps, rate=self.rate, straight_through=False, iterations=self.iterations)


#: Strength runs over epsilon on a logarithmic scale between these two.
EPSILON_RANGE = (100.0, 1.0)


class LDP(PromptSearch):
    """Local differential privacy of the film: a few words drawn by the exponential mechanism from a fixed set follow
    the words of the record. Nothing else of the film is read, not even to refuse it."""

    mode: Literal["ldp"] = "ldp"
    search: Literal["align"] = "align"
    epsilon: float | None = Field(None, gt=0, description="Budget of a study; default: 100 (strength 0) to 1 (1).")
    delta: float = Field(1e-6, ge=0, lt=1, description="Delta that may be spent; 0 allows plain epsilon alone.")
    words: int | None = Field(
        4,
        ge=1,
        description='Words drawn after those of the record; "all": every token of the prompt.',
    )
    vocabulary: Literal["findings", "pathology", "whitelist"] = Field(
        "findings", description="What words are drawn from: a fixed set, smallest first."
    )
    utility: Literal["word", "row"] = Field(
        "word", description="Score of a word: its own cosine to the film, or to a token that was optimised towards it."
    )
    clip: float | None = Field(
        None, gt=0, le=1, description="Scores are clipped to plus or minus this; default: 0.1 (word), 1 (row)."
    )
    steps: int = Field(20, ge=0, description="utility 'row': optimisation steps.")
    rate: float = Field(0.05, gt=0, description="utility 'row': learning rate.")
    image_to_image: Literal[False] = False
    check: Literal[False] = False
    rerolls: Literal[0] = 0

    # Reading the film again would spend more of the privacy budget than is accounted for.
    replaces: ClassVar[bool] = False
    inspects: ClassVar[bool] = False
    least: ClassVar[int] = 0
    refused: ClassVar[Mapping[str, str]] = {
        "image_to_image": "the film's own latent is not covered by the privacy budget",
        "check": "a comparison with the film is not covered by the privacy budget",
        "rerolls": "a film is generated again only where its check fails, and this mode has no check",
    }

    def fixes_length(self) -> bool:
        return self.words is None  # the number of tokens would tell the report's length

    def start_free(self, strength: float, room: int) -> int | None:
        return None if self.words is None else min(self.words, room)

    def projection(self, strength: float) -> Projection:
        return _projection("whitelist-top-k", 1, 0.0, 0.0)

    def word_epsilon(self, strength: float, room: int) -> float:
        """Epsilon of one drawn word: the accountant's share of the study's budget."""
        from updp.methods.updp.accountant import share

        weakest, strongest = EPSILON_RANGE
        budget = self.epsilon or weakest * (strongest / weakest) ** strength
        return share(budget, self._drawn(room), self.delta)

    def _drawn(self, room: int) -> int:
        return room if self.words is None else self.words

    def spends(self, strength: float, room: int) -> dict[str, Any]:
        from updp.methods.updp.accountant import spent

        word = self.word_epsilon(strength, room)
        epsilon, delta = spent(word, self._drawn(room), self.delta)
        counted = {"words_drawn": self._drawn(room), "unit": "film"}
        return {"epsilon_word": word, "epsilon_study": epsilon, "delta": delta, **counted}

    def find(self, task: Task, strength: float) -> Prompts:
        import numpy as np
        import torch

        from updp.methods.updp.alignment import Prompts
        from updp.methods.updp.exponential import exponential

        ids, mask, fixed, _ = task.start
        moving = mask if self.words is None else mask & ~fixed
        most = ids.shape[1] if self.words is None else self.words
        if int(moving.sum(1).max()) > most:
            raise AssertionError("more words would be drawn than the budget is shared over")
        pool = self._pool(task.vocabulary)
        mechanism = exponential(self.word_epsilon(strength, most))
        clip = self.clip or (0.1 if self.utility == "word" else 1.0)
        table = task.vlm.token_table.detach()
        if self.utility == "row":
            free = _align(
                task,
                steps=self.steps,
                rate=self.rate,
                straight_through=False,
                fixed=None if self.words is None else fixed,
            )
            rows = torch.nn.functional.normalize(free.rows, dim=-1)
            utilities = rows @ torch.nn.functional.normalize(table[pool], dim=-1).T  # N×L×words
        else:
            with torch.no_grad():
                said = task.vlm.embed_texts([task.vocabulary.spell([index])[0] for index in pool.tolist()])
            utilities = (task.targets @ said.T)[:, None].expand(-1, ids.shape[1], -1)
        levels = mechanism.levels(0.5 + utilities.double().numpy() / (2 * clip))
        chosen = ids.clone()
        for i, rng in enumerate(task.rngs):
            left = np.ones(len(pool), bool)
            for place in moving[i].nonzero()[:, 0].tolist():
                # A word once drawn is not drawn again; what was drawn before is no secret.
                open_words = np.flatnonzero(left) if left.any() else np.arange(len(pool))
                drawn = int(open_words[mechanism.draw(levels[i, place, open_words].tolist(), rng)])
                chosen[i, place], left[drawn] = pool[drawn], False
        return Prompts(chosen, mask, table[chosen], torch.zeros(len(ids)))

    def _pool(self, vocabulary: Vocabulary) -> Tensor:
        """The fixed set of words: it depends on the lists and the vlm's vocabulary alone."""
        found = vocabulary.favoured_among(drawable(self.vocabulary)) if self.vocabulary != "whitelist" else None
        pool = vocabulary.favoured.nonzero()[:, 0] if found is None else found
        if len(pool) < 2:
            why = f"fewer than two words of {self.vocabulary!r} are in the vlm's vocabulary"
            raise BadOption(f"option 'vocabulary': {why}; use 'whitelist'")
        return pool


def drawable(which: str) -> frozenset[str]:
    """The words of a set: of all pathology terms, or of those that the label table's phrases use."""
    import re

    from updp.domains.chest.words import phrases
    from updp.reports import lexicon

    pathology = {w for term in lexicon.whitelist()["pathology"] for w in re.findall("[a-z]+", term.lower())}
    if which == "pathology":
        return frozenset(pathology)
    said = {w for group in phrases()["findings"].values() for line in group for w in re.findall("[a-z]+", line.lower())}
    return frozenset(pathology & said)


def free_words(free: int | None, steps: int, strength: float, room: int) -> int | None:
    """How many words the film chooses at a strength; None: every token."""
    if free is None:
        return None
    return min(round(free * (1 - strength)), room) if round(steps * (1 - strength)) else 0


#: Every search, in the order of the documentation.
SEARCHES: tuple[type[PromptSearch], ...] = (
    Align, Report, Random, PEZ, MMA, STEPS, Raw, Similarity, Algorithm1, LDP,
)  # fmt: skip


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
    task: Task,
    *,
    steps: int,
    rate: float = 0.05,
    straight_through: bool = True,
    fixed: Tensor | None = None,
    iterations: int = 1,
) -> Prompts:
    """Alignment and projection, ``iterations`` times: each begins at the tokens the one before came to (the content
    iterations of the paper's Figure 4). The last result counts, and straight-through the best of all."""
    from updp.methods.updp.alignment import align

    ids, trace, best = task.start.ids, [], None
    for number in range(iterations):
        found = align(
            task.vlm, task.vocabulary, ids, task.start.mask, task.targets, task.projector,
            steps=steps, rate=rate, straight_through=straight_through, fixed=fixed,
            noise=None if task.noise is None else task.noise[number],
        )  # fmt: skip
        trace += found.trace
        ids = found.ids
        best = found if best is None or not straight_through else found.better_of(best)
    assert best is not None
    best.trace = trace
    return best
