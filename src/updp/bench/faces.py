"""`updp bench faces`: every face method by its knob, on people nobody trained on, beside the figures of MedSem-DeID.

People of the sources are shared out as for a pack of faces. Of a person who is reserved the first photograph is the ID
photo; on the others, visits to the clinic, one of the eight classes is rendered, each class on as many. Attackers and
judges that adapt to a release learn on released photographs of training people, and are scored on the reserved ones.
Everything is compared in the frame of the pack. Each setting lands in a file, so a bench that was cut off goes on
where it was. Intervals are over people.
"""

from __future__ import annotations

import copy
import io
import json
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from updp.core.cache import Cache, FolderCache, MemoryCache, kept_once, key_of
from updp.core.markdown import table_lines
from updp.core.reasons import Refused
from updp.core.record import Study
from updp.core.storage import write_bytes
from updp.domains.face import PACK, SPACE_PACK
from updp.domains.face.frame import GOAL, framed
from updp.domains.face.labels import DISEASES, GRADES
from updp.domains.face.landmarks import EYES, PARTS, between_eyes, named, points_of
from updp.evaluation.agreement import cohen_kappa
from updp.evaluation.cohort.load import private
from updp.evaluation.cohort.settings import MethodPlan, Setting, read_plan, settings
from updp.evaluation.evaluate import pack_facts
from updp.evaluation.intervals import bootstrap
from updp.evaluation.statistics import mean
from updp.models import recognisers
from updp.models.faces import STRIP

if TYPE_CHECKING:
    from updp.models.pack import Pack

Say = Callable[[str], None]
Films = NDArray[np.uint8]
CLASSES = ("Normal", *DISEASES)
#: The diseases whose lesion is segmented.
TUMOURS = ("BCC", "SCC")
#: Steps that a judge of the release learns, from what the judge of real photographs knows.
STEPS, BATCH, RATE = 60, 16, 5e-4
#: Recognisers that cost ten times what others do: they look at released photographs, and attack in no other way.
SLOW = frozenset({"dlib"})
#: Originals that are recovered, of one person each.
RECOVERED = 40
_EDITION = "bench faces 1"
_DRAWS = 1000


@dataclass(frozen=True)
class Visits:
    """Photographs of people with what was rendered on them, in the source's own size and in the frame."""

    studies: list[Study]
    people: NDArray[np.str_]
    films: Films  # N×S×S×3
    masks: NDArray[np.bool_]
    disease: NDArray[np.int64]  # row of CLASSES

    def __len__(self) -> int:
        return len(self.studies)


@dataclass(frozen=True)
class Clinic:
    """Reserved people with an ID photo each, and people who may train."""

    visits: Visits
    gallery: Films
    names: NDArray[np.str_]  # of the gallery
    taught: Visits

    @property
    def own(self) -> NDArray[np.intp]:
        """The row in the gallery of each visit's person."""
        return np.searchsorted(self.names, self.visits.people)


def take(
    sources: Sequence[Path], side: int, *, people: int, visits: int, taught: int, seed: int, cache: Path
) -> Clinic:
    """Photographs of the sources with rendered diseases; they are kept in ``cache``."""
    key = key_of(_EDITION, [str(path) for path in sources], side, people, visits, taught, seed)
    held = kept_once(FolderCache(cache), key, lambda: _rendered(sources, people, visits, taught, seed))
    parts: dict[str, tuple[list[Any], ...]] = {part: ([], [], [], [], []) for part in ("id", "visit", "taught")}
    for n in range(int(held["count"][0])):
        photo, points = held[f"photo {n}"], held[f"points {n}"]
        part, who, which = (str(held[name][n]) for name in ("part", "person", "disease"))
        study = Study(
            f"{part}-{n}", f"{part}-{n}", who, pixels=photo.astype(np.float32) / np.float32(255), view="FRONTAL",
            labels=(CLASSES[int(which)],) if int(which) else (), landmarks=named(points, photo.shape),
        )  # fmt: skip
        mask = np.repeat(held[f"mask {n}"][..., None] * np.uint8(255), 3, 2)
        row = (study, who, framed(photo, points, side)[0], framed(mask, points, side)[0][..., 0] > 127, int(which))
        for column, value in zip(parts[part], row, strict=True):
            column.append(value)
    made = {
        part: Visits(rows[0], np.array(rows[1]), np.stack(rows[2]), np.stack(rows[3]), np.array(rows[4]))
        for part, rows in parts.items()
    }
    order = np.argsort(made["id"].people, kind="stable")
    return Clinic(made["visit"], made["id"].films[order], made["id"].people[order], made["taught"])


def _rendered(sources: Sequence[Path], people: int, visits: int, taught: int, seed: int) -> dict[str, NDArray[Any]]:
    from updp.domains.face.manifestations import Sign, render
    from updp.sources import open_source
    from updp.training.faces import split_for

    out: dict[str, NDArray[Any]] = {}
    rows: dict[str, list[str]] = {"part": [], "person": [], "disease": []}
    rng = np.random.default_rng([seed, *b"bench faces"])

    def add(study: Study, part: str, person: str, which: int) -> None:
        points = points_of(study)
        assert study.pixels is not None
        assert points is not None
        sign = None
        if which:
            side, grade = ("left", "right")[int(rng.integers(2))], GRADES[int(rng.integers(3))]
            sign = Sign(CLASSES[which], grade, side, int(rng.integers(2**31)), bool(rng.random() < 0.5))
        made, n = render(study.pixels, points, sign), len(rows["part"])
        out[f"photo {n}"], out[f"points {n}"] = np.rint(made.pixels * 255).astype(np.uint8), made.points
        out[f"mask {n}"] = made.mask
        for name, value in (("part", part), ("person", person), ("disease", str(which))):
            rows[name].append(value)

    count = 0
    learners: list[tuple[Any, Study, str]] = []
    for number, path in enumerate(sources):
        source = open_source(path, domain="face")
        items = [item for item in source if isinstance(item, Study)]
        counts = Counter(item.patient_id for item in items)
        reserved: dict[str, list[Study]] = {}
        for item in items:
            split = split_for(item.patient_id, counts[item.patient_id])
            if split == "train":
                learners.append((source, item, f"{number}/{item.patient_id}"))
            elif split == "reserved":
                reserved.setdefault(item.patient_id, []).append(item)
        for person, own in reserved.items():
            if count == people:
                break
            found = list(islice(filter(None, (_examined(source, item) for item in own)), visits + 1))
            if len(found) < 2:
                continue
            add(found[0], "id", f"{number}/{person}", 0)
            for visit, study in enumerate(found[1:]):
                add(study, "visit", f"{number}/{person}", (count + 3 * visit) % len(CLASSES))
            count += 1
    given = 0
    for place in rng.permutation(len(learners)):
        source, item, person = learners[place]
        if given == taught:
            break
        if (seen := _examined(source, item)) is not None:
            add(seen, "taught", person, given % len(CLASSES))
            given += 1
    return {**out, **{name: np.array(own) for name, own in rows.items()}, "count": np.array([len(rows["part"])])}


def _examined(source: Any, item: Study) -> Study | None:
    try:
        found: Study = source.domain.examined(source.load(item))
    except Refused:
        return None
    return found


# -- what looks at the photographs -----------------------------------------------------------------------------------


class Judge:
    """The disease classifier of a pack as one answer of eight: a logit of 0 stands for normal."""

    def __init__(self, network: Any) -> None:
        self.network = network

    def named(self, films: Films) -> NDArray[np.int64]:
        import torch

        from updp.training.face_stages import as_tensor

        out = []
        with torch.no_grad():
            for start in range(0, len(films), 64):
                logits = self.network(as_tensor(films[start : start + 64]))
                out.append(torch.cat([torch.zeros(len(logits), 1), logits], 1).argmax(1).numpy())
        return np.concatenate(out)

    def taught(self, films: Films, disease: NDArray[np.int64], seed: int, steps: int) -> Judge:
        """A copy that went on learning on these photographs."""
        import torch
        from torch.nn import functional

        from updp.core.global_state import seeded
        from updp.training.face_stages import as_tensor, jittered

        network = copy.deepcopy(self.network).train().requires_grad_(True)
        optimiser = torch.optim.AdamW(network.parameters(), RATE)
        rng = np.random.default_rng([seed, *b"judge"])
        with seeded(seed), torch.enable_grad():
            for step in range(steps):
                for group in optimiser.param_groups:
                    group["lr"] = RATE * (1 - step / steps)
                rows = rng.integers(len(films), size=BATCH)
                logits = network(jittered(as_tensor(films[rows]), rng)[0])
                logits = torch.cat([torch.zeros(len(logits), 1), logits], 1)
                loss = functional.cross_entropy(logits, torch.from_numpy(disease[rows]))
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        return Judge(network.eval().requires_grad_(False))


def features(name: str, films: Films) -> NDArray[np.float32]:
    """Unit features of framed photographs."""
    return recognisers.embed(name, films, np.repeat(GOAL[None] * films.shape[1], len(films), 0))


def released(
    method: Any, visits: Visits, strength: float | None, seed: int, side: int
) -> tuple[Films, list[Any], list[bytes], NDArray[np.bool_], float]:
    """Photographs as a receiver frames them, the files, their passwords, which were released, seconds of each."""
    from updp.imaging.square import square
    from updp.methods.base import Reversible
    from updp.methods.face_space.base import InSpace
    from updp.methods.invented_face.method import Framed

    streams = [np.random.default_rng([seed, n]) for n in range(len(visits))]
    words = [np.random.default_rng([seed, n, 1]).bytes(32) for n in range(len(visits))]
    begun = time.process_time()
    if isinstance(method, Reversible):
        made = method.encrypt(visits.studies, strength, streams, words)
    else:
        made = method.deidentify(visits.studies, strength, streams)
    seconds = (time.process_time() - begun) / len(visits)
    files, films = [], np.full((len(visits), side, side, 3), 128, np.uint8)
    for n, (one, study) in enumerate(zip(made, visits.studies, strict=True)):
        file = None if one.pixels is None else np.rint(np.clip(one.pixels, 0, 1) * 255).astype(np.uint8)
        files.append(file)
        if file is None:
            continue
        if isinstance(method, Framed | InSpace):
            films[n] = np.rint(square(file / np.float32(255), side, "stretch") * 255).astype(np.uint8)
        else:
            points = points_of(study)
            assert points is not None
            films[n] = framed(file, points, side)[0]
    return films, files, words, np.array([file is not None for file in files]), seconds


# -- figures ---------------------------------------------------------------------------------------------------------


class Bench:
    """What all settings share: the clinic, the judges, and how the recognisers see the real photographs."""

    def __init__(self, clinic: Clinic, pack: Pack, seed: int, cache: Cache | None = None, steps: int = STEPS) -> None:
        from updp.evaluation.probes.photographs import find_all

        self.clinic, self.pack, self.seed, self.steps = clinic, pack, seed, steps
        self.side = int(pack.info["size"])
        self.judge = Judge(pack.classifier)
        visits = clinic.visits
        self.cache = MemoryCache()
        self.names = recognisers.available()
        self.quick = [name for name in self.names if name not in SLOW]
        self.found = find_all(visits.films, self.cache)
        real = self.looked(cache)
        self.real = {name: {part: real[f"{name} {part}"] for part in ("visits", "gallery")} for name in self.names}
        for name in self.quick:
            self.real[name]["taught"] = real[f"{name} taught"]
        self.before = self.judge.named(visits.films)
        rng = np.random.default_rng([seed, *b"pairs"])
        self.other = (clinic.own + rng.integers(1, len(clinic.names), len(visits))) % len(clinic.names)

    def looked(self, cache: Cache | None) -> dict[str, NDArray[Any]]:
        """How the recognisers see the real photographs."""
        sides = {"visits": self.clinic.visits.films, "gallery": self.clinic.gallery, "taught": self.clinic.taught.films}

        def asked() -> dict[str, NDArray[Any]]:
            return {
                f"{name} {part}": features(name, films)
                for name in self.names
                for part, films in sides.items()
                if name in self.quick or part != "taught"
            }

        return dict(kept_once(cache or self.cache, key_of(_EDITION, "features", self.names, *sides.values()), asked))

    def seen(self, name: str, films: Films) -> NDArray[np.float32]:
        """The features of these photographs, which several attacks look at."""
        key = key_of(name, films)
        held = self.cache.get(key)
        if held is None:
            held = {"features": features(name, films)}
            self.cache.put(key, held)
        return held["features"]

    def interval(self, values: Any, rows: NDArray[np.bool_] | None = None, statistic: Any = mean) -> list[float] | None:
        """A statistic and its interval over people; None with too few of them."""
        from updp.core.measurement import TooFewPatients

        people = self.clinic.visits.people
        columns = values if isinstance(values, tuple) else (values,)
        kept = np.ones(len(people), bool) if rows is None else rows
        if not kept.any():
            return None
        try:
            found = bootstrap(
                statistic, people[kept], *(np.asarray(own, np.float64)[kept] for own in columns),
                rng=np.random.default_rng(self.seed), draws=_DRAWS, fewest=5,
            )  # fmt: skip
        except TooFewPatients:
            return None
        return [round(float(value), 4) for value in found]

    def measured(self, setting: Setting) -> dict[str, Any]:
        """Every figure of one setting."""
        from updp.methods import make_method
        from updp.methods.base import Reversible

        method = make_method(setting.name, dict(setting.options), "face")
        visits, taught = self.clinic.visits, self.clinic.taught
        films, files, words, there, seconds = released(method, visits, setting.strength, self.seed, self.side)
        learned, *_, known, _ = released(method, taught, setting.strength, self.seed + 1, self.side)
        out: dict[str, Any] = {"seconds": seconds, "released": self.interval(there)}
        out |= self._identity(films, there, learned[known], known)
        out |= self._use(films, there, learned[known], known)
        out |= self._inverted(films, learned[known], known)
        out["membership"] = self._membership(films, learned, there, known)
        if isinstance(method, Reversible) and getattr(getattr(method, "options", None), "recovery", "") != "none":
            out["password bits"] = method.password_bits
            out["recovery"] = self._recovered(method, files, words)
        return out

    def _identity(self, films: Films, there: NDArray[np.bool_], learned: Films, known: Any) -> dict[str, Any]:
        from updp.evaluation.probes.attacks.faces import folded, mapped

        own, people = self.clinic.own, self.clinic.visits.people
        out: dict[str, Any] = {}
        for name, real in self.real.items():
            new, gallery = self.seen(name, films), real["gallery"]
            scores = np.concatenate([np.einsum("ij,ij->i", new, gallery[who]) for who in (own, self.other)])
            same = np.arange(2 * len(new)) < len(new)
            right_of = folded(scores, same, np.tile(people, 2), self.seed).reshape(2, -1).mean(0)
            apart = np.linalg.norm(real["visits"] - gallery[self.other], axis=1)
            out[name] = {
                "ID distance": self.interval(np.linalg.norm(new - real["visits"], axis=1), there),
                "of two people": self.interval(apart),
                "match": self.interval((new @ gallery.T).argmax(1) == own, there),
                "verification": self.interval(right_of, there),
            }
            if name in self.quick:
                # The attacker learns what a release does to features, on photographs of training people.
                left = np.concatenate([self.seen(name, learned), new])
                right = np.concatenate([real["taught"][known], gallery[own]])
                turned, targets = (side[len(learned) :] for side in mapped(left, right, np.arange(len(learned))))
                rows = np.zeros((len(gallery), targets.shape[1]), np.float32)
                rows[own] = targets
                out[name]["match, adapted"] = self.interval((turned @ rows.T).argmax(1) == own, there)
        return {"identity": out}

    def _use(self, films: Films, there: NDArray[np.bool_], learned: Films, known: Any) -> dict[str, Any]:
        visits, taught = self.clinic.visits, self.clinic.taught
        after = self.judge.named(films)
        adapted = self.judge.taught(learned, taught.disease[known], self.seed, self.steps).named(films)
        out: dict[str, Any] = {}
        for name, said in (("frozen", after), ("adapted", adapted)):
            right = said == visits.disease
            each = {one: self.interval(right, there & (visits.disease == k)) for k, one in enumerate(CLASSES)}
            out[name] = {"All": self.interval(right, there), **each}
        kappa = {
            one: self.interval((self.before == k, after == k), there, cohen_kappa)
            for k, one in enumerate(CLASSES)
            if min((self.before == k).sum(), (after == k).sum()) >= 5
        }
        tumours = np.isin(visits.disease, [CLASSES.index(one) for one in TUMOURS]) & visits.masks.any((1, 2))
        dice, jaccard = self.overlap(films)
        marks = self._landmarks(films)
        return {
            "diseases": out, "kappa": kappa, "dice": self.interval(dice, there & tumours),
            "jaccard": self.interval(jaccard, there & tumours), **marks,
        }  # fmt: skip

    def overlap(self, films: Films) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Dice and Jaccard of the frozen segmenter against the rendered masks."""
        from updp.training.face_stages import as_tensor

        segmenter: Any = self.pack.role("segmenter")
        found = np.concatenate(
            [(segmenter.masks(as_tensor(films[n : n + 64])) > 0.5).numpy()[:, 0] for n in range(0, len(films), 64)]
        )
        masks = self.clinic.visits.masks
        both, sizes = (found & masks).sum((1, 2)), (found.sum((1, 2)), masks.sum((1, 2)))
        return 2 * both / np.maximum(sum(sizes), 1), both / np.maximum(sum(sizes) - both, 1)

    def _landmarks(self, films: Films) -> dict[str, Any]:
        from updp.domains.face.signs import iris_offset
        from updp.evaluation.probes.photographs import find_all
        from updp.evaluation.probes.utility.face_signs import onto

        try:
            found = find_all(films, self.cache, self.found)
        except ValueError:
            return {"face found": [0.0, 0.0, 0.0]}
        both, real = self.found.there & found.there, self.clinic.visits.films
        errors = {part: np.zeros(len(films)) for part in (*PARTS, "gaze")}
        for n in np.flatnonzero(both):
            before, after = (side.points[n].astype(np.float64) for side in (self.found, found))
            moved = np.linalg.norm(before - onto(after, before), axis=1) / between_eyes(before)
            for part, rows in PARTS.items():
                errors[part][n] = moved[list(rows)].mean()
            looks = [(real[n] / np.float32(255), before), (films[n] / np.float32(255), after)]
            errors["gaze"][n] = np.mean(
                [abs(iris_offset(*looks[0], eye) - iris_offset(*looks[1], eye)) for eye in EYES.values()]
            )
        return {
            "face found": self.interval(found.there),
            "landmarks": {part: self.interval(own, both) for part, own in errors.items()},
        }

    def _inverted(self, films: Films, learned: Films, known: Any) -> dict[str, Any]:
        """Known plaintext: a linear map from released faces to their originals, learned on pairs of training people."""
        import torch

        from updp.evaluation.probes.attacks.faces import predicted
        from updp.models import load_pack
        from updp.models.face_space import FaceSpace

        space: FaceSpace = load_pack(SPACE_PACK).role("space")
        if space.side != self.side:
            return {}
        from updp.training.face_stages import latents_of

        own = self.clinic.taught.films[known], self.clinic.visits.films
        before, after = (latents_of(space, np.concatenate(side)) for side in (own, (learned, films)))
        taught = np.arange(len(learned))
        guess = predicted(after.numpy(), before.numpy(), taught) + before.numpy()[taught].mean(0)
        parts = torch.from_numpy(guess[len(learned) :].astype(np.float32))
        faces, eyes = parts[:, : space.components], parts[:, space.components :]
        with torch.no_grad():
            images = (space.decode(faces) + space.decode_eyes(eyes)).clamp(0, 1)
        made = (images * 255).round().byte().permute(0, 2, 3, 1).numpy()
        out = {}
        for name in self.quick:
            new, real = self.seen(name, made), self.real[name]
            out[name] = {
                "ID distance": self.interval(np.linalg.norm(new - real["visits"], axis=1)),
                "match": self.interval((new @ real["gallery"].T).argmax(1) == self.clinic.own),
            }
        return {"inverted": out}

    def _membership(self, films: Films, learned: Films, there: Any, known: Any) -> dict[str, Any]:
        """Whether people who may have trained the method are treated in another way, of the sources with patients."""
        from updp.evaluation.probes.attacks.face_membership import told_apart

        visits, taught = self.clinic.visits, self.clinic.taught
        sources = np.unique([person.partition("/")[0] for person in visits.people])
        like = known & np.isin([person.partition("/")[0] for person in taught.people], sources)
        new, own = (
            np.concatenate([films[there], learned[like]]),
            np.concatenate([visits.films[there], taught.films[like]]),
        )
        rows = slice(round(STRIP[0] * self.side), round(STRIP[1] * self.side))
        far = np.abs(new.astype(np.float64) - own).mean(-1) / 255
        apart = [far.mean((1, 2)), far[:, rows].mean((1, 2))]
        for name in self.quick:
            real = self.real[name]
            seen = np.concatenate([real["visits"][there], real["taught"][like]])
            after = np.concatenate([self.seen(name, films)[there], self.seen(name, learned[known])[like[known]]])
            apart.append(np.linalg.norm(after - seen, axis=1))
        people = np.concatenate([visits.people[there], taught.people[like]])
        members = np.arange(len(people)) >= int(there.sum())
        found = told_apart(apart, members, people, self.seed, _DRAWS)
        return {
            str(one.attacker): [round(float(x), 4) for x in (one.value, one.low, one.high)]
            for one in found
            if one.measured and one.metric == "membership AUC"
        }

    def _recovered(self, method: Any, files: list[Any], words: list[bytes]) -> dict[str, Any]:
        """What comes back of one visit of each person, up to a number."""
        visits = self.clinic.visits
        first = np.sort(np.unique(visits.people, return_index=True)[1])
        rows = [int(n) for n in first if files[n] is not None][:RECOVERED]
        side = len(files[rows[0]])
        own = []
        for n in rows:
            photo, points = visits.studies[n].pixels, points_of(visits.studies[n])
            assert photo is not None
            assert points is not None
            own.append(framed(np.rint(photo * 255).astype(np.uint8), points, side)[0])
        truth = np.stack(own)
        given = [words[n] for n in rows]
        trials: dict[str, tuple[list[bytes], Callable[[Films], Films]]] = {
            "right": (given, lambda film: film),
            "near": ([bytes([word[0] ^ 1, *word[1:]]) for word in given], lambda film: film),
            "wrong": (given[1:] + given[:1], lambda film: film),
            "right, JPEG 95": (given, _jpeg),
        }
        out: dict[str, Any] = {}
        for trial, (passwords, change) in trials.items():
            back = [_given_back(method, change(files[n]), word) for n, word in zip(rows, passwords, strict=True)]
            there = np.array([one is not None for one in back])
            every = np.zeros(len(visits), bool)
            every[np.array(rows)[there]] = True
            figures: dict[str, Any] = {"back": float(there.mean())}
            if there.sum() >= 5:
                new, real = np.stack([one for one in back if one is not None]), truth[there]
                error = ((new.astype(np.float64) - real) ** 2).mean((1, 2, 3)) / 255**2
                columns: dict[str, NDArray[Any] | None] = {
                    "PSNR": -10 * np.log10(np.maximum(error, 1e-9)),
                    "LPIPS": _perceptual(real, new),
                }
                for name in self.quick:
                    columns[f"ID distance {name}"] = np.linalg.norm(
                        self.seen(name, new) - self.seen(name, real), axis=1
                    )
                columns["disease accuracy"] = self.judge.named(_sized(new, self.side)) == visits.disease[every]
                for name, values in columns.items():
                    if values is not None:
                        whole = np.zeros(len(visits))
                        whole[every] = values
                        figures[name] = self.interval(whole, every)
            out[trial] = figures
        return out


def _sized(films: Films, side: int) -> Films:
    from updp.imaging.square import square

    return np.stack([np.rint(square(film / np.float32(255), side, "stretch") * 255).astype(np.uint8) for film in films])


def _given_back(method: Any, film: Films, password: bytes) -> Films | None:
    from updp.methods.base import BadPassword

    try:
        found: Films = method.recover([film], [password])[0]
    except BadPassword:
        return None
    return found


def _jpeg(film: Films) -> Films:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(film).save(out, "JPEG", quality=95, subsampling=0)
    with Image.open(out) as image:
        return np.asarray(image.convert("RGB"))


def _perceptual(truth: Films, found: Films) -> NDArray[np.float64] | None:
    """LPIPS with AlexNet; None if its weights are not installed."""
    import torch

    from updp.models.lpips import Lpips, has_trunk, installed_weights
    from updp.training.face_stages import as_tensor

    if not has_trunk():
        return None
    measure = Lpips(installed_weights())
    with torch.no_grad():
        pairs = ((as_tensor(truth[n : n + 16]), as_tensor(found[n : n + 16])) for n in range(0, len(truth), 16))
        return torch.cat([measure(a, b).reshape(-1) for a, b in pairs]).double().numpy()


def brute_force(method: Any, film: Films) -> dict[str, float]:
    """Seconds in which every password of sixteen bits is tried on one released photograph."""
    import torch

    from updp.methods.face_space.rotations import BITS
    from updp.training.face_stages import as_tensor

    begun, count = time.process_time(), 2**BITS
    with torch.no_grad():
        image = as_tensor(film[None])
        parts = method.space.encode(image)
        for start in range(0, count, 512):
            numbers = torch.arange(start, start + 512)
            bits = ((numbers[:, None] >> torch.arange(BITS)) & 1).float() * 2 - 1
            (image + method._change(parts.expand(len(bits), -1), -bits)).clamp_(0, 1)
    return {"passwords": count, "seconds": round(time.process_time() - begun, 1)}


# -- the bench -------------------------------------------------------------------------------------------------------


def every_method() -> list[MethodPlan]:
    """The plan of ``faces.toml``."""
    with resources.as_file(resources.files("updp.bench").joinpath("faces.toml")) as path:
        return read_plan(path)


def bench_faces(
    sources: Sequence[Path],
    out: Path,
    *,
    methods: Sequence[MethodPlan] = (),
    pack: str | None = None,
    people: int = 1000,
    visits: int = 2,
    taught: int = 240,
    seed: int = 0,
    part: tuple[int, int] | None = None,
    say: Say = print,
) -> dict[str, Any]:
    """Measure every setting; ``faces.json`` and ``faces.md`` go to ``out``. The same call resumes.

    With a ``part`` (which, of how many) a share of the settings is measured, and no table is written.
    """
    from updp.models import load_pack

    models = load_pack(pack or PACK)
    todo = settings(list(methods) or every_method(), None, None)
    if part is not None:
        todo = todo[part[0] - 1 :: part[1]]
    private(out)
    clinic = take(
        sources, int(models.info["size"]), people=people, visits=visits, taught=taught, seed=seed, cache=out / ".cache"
    )
    say(f"{len(clinic.visits)} visits of {len(clinic.names)} people; {len(clinic.taught)} photographs teach")
    bench: Bench | None = None
    facts: dict[str, Any] = {}  # by setting
    folder = out / "settings"
    private(folder)
    for setting in todo:
        path = folder / f"{setting.slug}.json"
        if not path.exists():
            bench = bench or Bench(clinic, models, seed, FolderCache(out / ".cache"))
            figures = bench.measured(setting)
            write_bytes(path, json.dumps({"label": setting.label, **figures}).encode())
        facts[setting.label] = json.loads(path.read_bytes())
        say(f"{setting.label}: {facts[setting.label]['diseases']['frozen']['All']}")
    if part is not None:
        return facts
    brute = folder / "brute-force.json"
    if not brute.exists() and any(setting.name == "fit" for setting in todo):
        from updp.methods import make_method

        write_bytes(brute, json.dumps(brute_force(make_method("fit", {}, "face"), clinic.visits.films[0])).encode())
    about = {
        "brute force": json.loads(brute.read_bytes()) if brute.exists() else None,
        "pack": pack_facts(models), "seed": seed, "films": len(clinic.visits), "patients": len(clinic.names),
        "taught": len(clinic.taught), "recognisers": list(recognisers.available()),
    }  # fmt: skip
    whole = {"about": about, "settings": facts}
    write_bytes(out / "faces.json", (json.dumps(whole, indent=1) + "\n").encode())
    write_bytes(out / "faces.md", markdown(whole).encode())
    return whole


# -- tables ----------------------------------------------------------------------------------------------------------


def published() -> dict[str, Any]:
    """The tables of MedSem-DeID as printed."""
    return tomllib.loads(resources.files("updp.bench").joinpath("faces_published.toml").read_text("utf-8"))


def markdown(facts: Mapping[str, Any]) -> str:
    """Tables 3 to 8 of the paper, by setting."""
    held, theirs = facts["settings"], published()
    seen = facts["about"]["recognisers"]
    people, quick = facts["about"]["patients"], [name for name in seen if name not in SLOW]

    def table(title: str, heads: Sequence[str], row: Callable[[str, Any], Sequence[str] | None]) -> list[str]:
        rows = [[label, *cells] for label, one in held.items() if (cells := row(label, one)) is not None]
        return [f"### {title}", "", *table_lines(["method, strength", *heads], rows)] if rows else []

    def paper(name: str, label: str, places: slice = slice(None)) -> list[str]:
        """What is printed of a method, beside its default strength."""
        method = label.split()[0]
        own = theirs[name].get(method, [])[places]
        width = len(next(iter(theirs[name].values()))[places])
        return own if own and label.split()[-1] in ("0.5" if method == "digital-mask" else "1",) else [""] * width

    def diseases(label: str, one: Any) -> list[str]:
        said = one["diseases"]
        named = [per_cent(said[judge]["All"]) for judge in ("frozen", "adapted")]
        return [*named, cell(one["dice"]), cell(one["jaccard"]), *paper("disease", label, slice(2))]

    def recovered(label: str, one: Any) -> list[str] | None:
        if "recovery" not in one:
            return None
        right, near, wrong = (one["recovery"][trial] for trial in ("right", "near", "wrong"))
        unseen = [name for name in quick if name != "arcface"] or quick
        return [
            *(cell(right.get(f"ID distance {name}")) for name in quick), cell(right.get("PSNR"), 1),
            cell(right.get("LPIPS"), 3), per_cent(right.get("disease accuracy")),
            *(cell(trial.get(f"ID distance {unseen[-1]}")) or "nothing comes back" for trial in (near, wrong)),
            cell(one["recovery"]["right, JPEG 95"].get("PSNR"), 1) or "nothing comes back",
            *paper("recovery", label),
        ]  # fmt: skip

    unseen = [name for name in quick if name != "arcface"] or quick
    lines = [
        *table(
            "Table 3: diseases and tumours",
            ["frozen judge, %", "judge of the release, %", "Dice", "Jaccard", "paper, %", "paper, Dice"],
            diseases,
        ),
        *table("Table 3: each class by the frozen judge, %", CLASSES,
               lambda label, one: [per_cent(one["diseases"]["frozen"][name]) for name in CLASSES]),
        *table("Table 3: each class by the judge of the release, %", CLASSES,
               lambda label, one: [per_cent(one["diseases"]["adapted"][name]) for name in CLASSES]),
        *table("Table 4: agreement with the original (kappa)", [*DISEASES, "paper, BCC", "paper, TAO", "paper, ptosis"],
               lambda label, one: [*(cell(one["kappa"].get(name)) for name in DISEASES), *paper("kappa", label)]),
        *table("Table 5: ID distance", [*seen, "paper, VGGFace2", "paper, CASIA", "paper, SphereFace"],
               lambda label, one: [*(cell(one["identity"][name]["ID distance"], 3) for name in seen),
                                   *paper("distance_of_faces", label)]),
        *table(f"Table 6: matched to one of {people} ID photos, %",
               [*seen, *(f"{name}, adapted" for name in quick), "paper, %"],
               lambda label, one: [*(per_cent(one["identity"][name]["match"]) for name in seen),
                                   *(per_cent(one["identity"][name]["match, adapted"]) for name in quick),
                                   *paper("match", label)]),
        *table("Verification accuracy, %", seen,
               lambda label, one: [per_cent(one["identity"][name]["verification"]) for name in seen]),
        *table("Table 7: landmarks over the distance of the eyes, gaze over the width of the eye",
               ["face found", "eyes", "mouth", "nose", "gaze", *(f"paper, {x}" for x in ("eyes", "mouth", "nose")),
                "paper, pitch", "paper, yaw"],
               lambda label, one: [cell(one["face found"]),
                                   *(cell(one.get("landmarks", {}).get(part), 3) for part in (*PARTS, "gaze")),
                                   *paper("landmarks", label)]),
        *table("Table 8: recovered originals",
               [*(f"ID distance, {name}" for name in quick), "PSNR, dB", "LPIPS", "disease accuracy, %",
                *(f"{trial} password, ID distance, {unseen[-1]}" for trial in ("near", "wrong")), "PSNR after JPEG 95",
                "paper, ID distance", "paper, PSNR", "paper, LPIPS", "paper, %"], recovered),
        *table("Inverted by an attacker with known pairs", [*(f"ID distance, {name}" for name in quick),
               *(f"match, {name}, %" for name in quick)],
               lambda label, one: [*(cell(one["inverted"][name]["ID distance"], 3) for name in quick),
                                   *(per_cent(one["inverted"][name]["match"]) for name in quick)]
               if one.get("inverted") else None),
        *table("Membership: people who trained told from others, AUC", ["loss threshold", "likelihood ratio"],
               lambda label, one: [cell(one["membership"].get(way)) for way in ("loss threshold", "likelihood ratio")]),
        *table("Cost", ["seconds a face"], lambda label, one: [f"{one['seconds']:.3f}"]),
    ]  # fmt: skip
    return "\n".join(lines)


def cell(found: Sequence[float] | None, digits: int = 2) -> str:
    """A figure with its interval."""
    return "" if found is None else "{:.{d}f} [{:.{d}f}, {:.{d}f}]".format(*found, d=digits)


def per_cent(found: Sequence[float] | None) -> str:
    return "" if found is None else cell([100 * value for value in found], 1)
