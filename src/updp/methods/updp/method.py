"""UPDP (arXiv 2604.07128): each film becomes a generated one, from text optimised towards it on allowed words.

The report's allowed words start a prompt; semantic alignment moves it towards the film; constrained projection keeps it
on words that may leave; the generator makes a new film from the prompt alone. The prompt is checked as text, the film
is checked before it leaves, and the prompt never leaves at all: it was optimised towards the patient.

Modes: ``resolved`` (default), ``literal`` (Algorithm 1 as printed: favoured words only, drawn at temperature 1 from the
top K, projected once), ``ldp`` (a few words drawn from a fixed set by the exponential mechanism, nothing else touches
the film: local differential privacy, whose epsilon is printed). Baselines of the paper's tables are the same pipeline
with another search: ``report``, ``random``, ``pez``, ``mma``, ``steps``, ``raw``, ``similarity``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from updp.core.global_state import limited
from updp.core.reasons import Reason
from updp.core.record import Study
from updp.methods import method_info
from updp.methods.base import Deidentified, MethodInfo
from updp.methods.learned import OnPack
from updp.methods.strength import resolve_strength
from updp.methods.updp.searches import PromptSearch, Task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from updp.methods.updp.blacklist import Vocabulary
    from updp.methods.updp.guard import Guard
    from updp.methods.updp.projection import Projector
    from updp.models.pack import Pack

    #: One stream of random numbers per film.
    Streams = list[np.random.Generator]

#: Correlation with the mean film below which a film is taken for inverted.
_INVERTED = -0.2


@dataclass(frozen=True)
class Written:
    """Prompts of a batch, for inside the hospital: the ablations and the prompt-linkage attack read them."""

    texts: list[str]
    scores: list[float]  # cosine to the film, of the prompt as it is used
    trace: list[float]  # mean score after each step of the search
    cut: list[int] = field(default_factory=list)  # allowed words of the report that had no room in the prompt


class UPDP(OnPack):
    """Options are the settings of the paper; ``strength`` sets how little the film may change its prompt."""

    info: ClassVar[MethodInfo] = method_info("updp")

    Options = PromptSearch
    options: PromptSearch

    # -- models ------------------------------------------------------------------------------------------------------

    @cached_property
    def vocabulary(self) -> Vocabulary:
        from updp.methods.updp.blacklist import Vocabulary

        options = self.options
        return Vocabulary(
            self.pack.vlm, block=options.block, allow=options.allow, pieces=options.pieces, lists=options.lists
        )

    @cached_property
    def guard(self) -> Guard:
        from updp.methods.updp.guard import Guard
        from updp.reports import shared_detector

        return Guard(self.vocabulary, shared_detector(tuple(self.options.block), tuple(self.options.allow)).spans)

    @property
    def baseline_of_raw_reports(self) -> bool:
        """Whether this is a setting of the paper that starts from the unfiltered report. Benches hand it over; in a
        release the report is cleaned before any method sees it."""
        return self.options.start_init() == "raw"

    # -- the method --------------------------------------------------------------------------------------------------

    def reads_pixels(self, strength: float | None) -> bool:
        """False where the prompt comes from the record alone: then nothing of the film is read, not even to refuse it,
        and the new film is the same whatever the film was."""
        amount = resolve_strength(self.info, strength)
        return self.options.image_to_image or self.options.start_free(amount, self._room) != 0

    def deidentify(
        self, batch: list[Study], strength: float | None, rng: list[np.random.Generator]
    ) -> list[Deidentified]:
        amount = resolve_strength(self.info, strength)
        out: list[Deidentified] = []
        with limited(1):  # results must not depend on how many cores shared a convolution
            size = self.options.batch
            for start in range(0, len(batch), size):
                out += self._batch(batch[start : start + size], amount, rng[start : start + size])
        return out

    def _batch(self, studies: list[Study], strength: float, rngs: list[np.random.Generator]) -> list[Deidentified]:
        import numpy as np
        import torch

        films = torch.from_numpy(np.stack([_square(study, self.size) for study in studies]))[:, None]
        looks = self.reads_pixels(strength) and self.options.inspects
        refused = self._unfit(studies, films if looks else None)
        taken = [i for i, reason in enumerate(refused) if reason is None]
        out = [Deidentified(None, refused=reason) for reason in refused]
        if not taken:
            return out
        chosen = [studies[i] for i in taken]
        streams = [rngs[i] for i in taken]
        written = self.write(chosen, films[taken], strength, streams)
        for i, result in zip(taken, self._make(chosen, films[taken], written, strength, streams), strict=True):
            out[i] = result
        return out

    def _unfit(self, studies: list[Study], films: Tensor | None) -> list[Reason | None]:
        """Films the generator has no counterpart for: laterals, and negatives of a film (where films are read)."""
        import numpy as np

        out: list[Reason | None] = [Reason.FILM_NOT_FRONTAL if study.view == "LATERAL" else None for study in studies]
        mean = None if films is None else self._mean_film
        if films is not None and mean is not None:
            with np.errstate(all="ignore"):
                for i, film in enumerate(films):
                    if out[i] is None and float(np.corrcoef(_coarse(film), mean)[0, 1]) < _INVERTED:
                        out[i] = Reason.FILM_INVERTED
        return out

    @cached_property
    def _mean_film(self) -> NDArray[np.float32] | None:
        """What the autoencoder makes of zero: latents are normalised, so that is the average film."""
        import torch

        shape = getattr(self.pack.generator, "latent_shape", None)
        if shape is None:  # a model from elsewhere, whose zero means nothing
            return None
        with torch.no_grad():
            return _coarse(self.pack.autoencoder.decode(torch.zeros(1, *shape))[0])

    # -- text --------------------------------------------------------------------------------------------------------

    def write(
        self, studies: list[Study], films: Tensor, strength: float, rngs: Streams, targets: Tensor | None = None
    ) -> Written:
        """Prompts for films N×1×256×256 (or for their embeddings, where known). They stay inside the hospital."""
        import numpy as np
        import torch

        from updp.methods.updp.alignment import start
        from updp.methods.updp.projection import Projector

        vlm, vocabulary = self.pack.vlm, self.vocabulary
        targets = self._embed(films) if targets is None else targets
        search = self.options
        rule = search.projection(strength)
        projector = Projector(vlm.token_table.detach(), vocabulary, rule)
        begun = start(
            vlm,
            vocabulary,
            [
                words_of(study, stream, raw=search.start_init() == "raw")
                for study, stream in zip(studies, rngs, strict=True)
            ],
            self._room,
            rngs,
            init=search.start_init(),
            drop_blocked=not search.pieces,
            fixed_length=search.fixes_length(),
            least=search.least,
            free=search.start_free(strength, self._room),
        )
        noise = None
        if rule.temperature > 0:
            width = projector.width()
            shape = (getattr(search, "iterations", 1), begun.ids.shape[1], width)
            noise = torch.from_numpy(np.stack([rng.random(shape) for rng in rngs], 1)).float()
        found = search.find(Task(vlm, vocabulary, begun, targets, projector, rngs, noise), strength)
        return replace(self._checked(found, targets, projector), cut=begun.cut)

    def _embed(self, films: Tensor) -> Tensor:
        """What prompts are moved towards."""
        import torch

        with torch.no_grad():
            return self.pack.vlm.embed_images(films)

    @cached_property
    def _room(self) -> int:
        """Words of a prompt: as many as asked for, within the text tower's context and its frame."""
        return min(self.options.length, vlm_context(self.pack.vlm) - 2)

    def _checked(self, found: Any, targets: Tensor, projector: Projector) -> Written:
        """Every prompt as text past the guard, and its score as it will be used."""
        import torch

        place_of = {int(index): place for place, index in enumerate(projector.pool.tolist())}
        texts = []
        for ids, mask, rows in zip(found.ids, found.mask, found.rows, strict=True):
            kept = ids[mask].tolist()

            def again(place: int, tried: set[int], rows: Tensor = rows) -> int:
                banned = torch.zeros(1, len(projector.pool), dtype=torch.bool)
                banned[0, [place_of[index] for index in tried if index in place_of]] = True
                return int(projector.project(rows[place : place + 1], banned=banned)[0])

            # A baseline without lists is not checked either: its prompt may hold anything, and stays here.
            if self.options.lists:
                kept, _ = self.guard.clean(kept, again if self.options.replaces else None)
            texts.append(self.vocabulary.spell(kept)[0])
        with torch.no_grad():
            scores = (self.pack.vlm.embed_texts(texts) * targets).sum(1)
        return Written(texts, scores.tolist(), found.trace)

    # -- film --------------------------------------------------------------------------------------------------------

    def _make(
        self, studies: list[Study], films: Tensor, written: Written, strength: float, rngs: Streams
    ) -> list[Deidentified]:
        """One film per prompt; one too similar to the patient's own, a copy, or at odds with its findings is made
        again."""
        import numpy as np
        import torch

        out: list[Deidentified | None] = [None] * len(studies)
        waiting = [i for i, text in enumerate(written.texts) if text]
        reasons = dict.fromkeys(set(range(len(studies))) - set(waiting), Reason.NOTHING_TO_SHOW)
        checker = self._checker if self.options.check else None
        with torch.no_grad():
            own = checker.identities(films) if checker and self.reads_pixels(strength) else None
            for roll in range(self.options.rerolls + 1 if waiting else 0):
                seeds = [int(rngs[i].integers(2**62)) for i in waiting]
                made = self._generate([written.texts[i] for i in waiting], seeds, films[waiting], strength)
                failed = (
                    checker.faults([studies[i] for i in waiting], None if own is None else own[waiting], made)
                    if checker
                    else [None] * len(waiting)
                )
                again = []
                for i, film, fault in zip(waiting, made, failed, strict=True):
                    if fault is None:
                        decided = self._decided(roll, written, i, strength)
                        out[i] = Deidentified(film[0].numpy().astype(np.float32), decided)
                    else:
                        reasons[i] = fault
                        again.append(i)
                waiting = again
                if not waiting:
                    break
        return [made or Deidentified(None, refused=reasons[i]) for i, made in enumerate(out)]

    def _generate(self, texts: list[str], seeds: list[int], films: Tensor, strength: float) -> Tensor:
        generator, options = self.pack.generator, self.options
        if options.image_to_image:
            return generator.generate(
                texts, seeds, options.sampler_steps, options.guidance, init_images=films, strength=max(strength, 0.05)
            )
        return generator.generate(texts, seeds, options.sampler_steps, options.guidance)

    def _decided(self, roll: int, written: Written, i: int, strength: float) -> dict[str, Any]:
        """What the manifest may say of a film: nothing that depends on the patient but how often it was made again."""
        decided: dict[str, Any] = {"mode": self.options.mode, "rerolls": roll}
        if written.cut[i]:
            decided["words_cut"] = written.cut[i]  # the report leaves too: how long it is tells nothing more
        if self.options.image_to_image:
            decided["image_to_image"] = True
        return decided | self.options.spends(strength, self._room)

    @cached_property
    def _checker(self) -> FilmCheck:
        return FilmCheck(self.pack)


class FilmCheck:
    """The last check of a generated film: not the patient, not a copy of a training film, and showing what it
    should."""

    def __init__(self, pack: Pack) -> None:
        figures = pack.info.get("thresholds", {})
        self.pack = pack
        self.too_like = float(figures.get("identity_same", 0.99))
        self.copy = float(figures.get("identity_copy", 0.995))
        self.present: dict[str, float] = dict(figures.get("finding_present", {}))
        self.training = self._training_identities()

    def _training_identities(self) -> Tensor | None:
        """Identity embeddings of the generator's training films, where the pack brings them."""
        path = self.pack.path / "training_identities.safetensors"
        if not path.is_file():
            return None
        from safetensors.torch import load_file

        return load_file(path)["identities"].float()

    def identities(self, films: Tensor) -> Tensor:
        return self.pack.identity.embed(films)

    def faults(self, studies: list[Study], own: Tensor | None, made: Tensor) -> list[Reason | None]:
        """The first thing wrong with each film, if any. ``own`` are the identities of the patients' own films, where
        the method reads them."""
        new = self.identities(made)
        like_own = None if own is None else (new * own).sum(1)
        like_any = (new @ self.training.T).max(1).values if self.training is not None else None
        shown = self.pack.classifier.probabilities(made)
        labels = self.pack.classifier.labels
        out: list[Reason | None] = []
        for i, study in enumerate(studies):
            asserted = [name for name in study.labels or () if name in self.present and name in labels]
            missing = [n for n in asserted if float(shown[i, labels.index(n)]) < self.present[n]]
            if like_own is not None and float(like_own[i]) > self.too_like:
                out.append(Reason.FILM_TOO_SIMILAR)
            elif like_any is not None and float(like_any[i]) > self.copy:
                out.append(Reason.FILM_COPY)
            elif asserted and len(missing) * 2 > len(asserted):
                out.append(Reason.FINDINGS_DISAGREE)
            else:
                out.append(None)
        return out


def words_of(study: Study, rng: np.random.Generator, *, raw: bool = False) -> str:
    """What a prompt starts from: the view, the labels in standard sentences, and the cleaned report, of which sentences
    that state a finding come first: a prompt is short, and reports begin with what is normal. ``raw`` takes the whole
    report: in a release that is cleaned text, in a bench the text of the source."""
    from updp.domains.chest.words import compose, phrases
    from updp.training.prompts import SECTIONS, clean_sentences, findings_first

    if study.report and raw:
        return study.report.text(SECTIONS) or study.report.text()
    sentences = findings_first(clean_sentences(study.report)) if study.report else []
    if not sentences and study.labels is None:
        return ""
    view = study.view or "PA"
    if study.labels or not sentences:
        stated = compose(study.labels or (), view, rng, name_view=1.0)
    else:
        stated = " ".join(phrases()["views"].get(view, [])[:1])
    return " ".join([stated, *sentences]).strip()


def vlm_context(vlm: Any) -> int:
    """How many tokens the text tower takes, its frame included."""
    return int(getattr(vlm, "context", 77))


def _square(study: Study, size: int) -> NDArray[np.float32]:
    from updp.imaging.square import square

    assert study.pixels is not None
    return square(study.pixels, size, "crop")


def _coarse(film: Tensor) -> NDArray[np.float32]:
    import torch

    small: NDArray[np.float32] = torch.nn.functional.adaptive_avg_pool2d(film, 16).flatten().numpy()
    return small
