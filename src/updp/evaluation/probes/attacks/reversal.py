"""Reversal: what comes back of a released face with the password, with a wrong one, and after the file was changed.

A method that can be turned back (``methods.base.Reversible``) is run on real photographs with passwords that the
attacker chose. Somebody with the right one shall get the person back; a wrong one, and one that differs by a single
bit, shall give nothing, or the face of somebody else. A receiver may store the file as JPEG or at another size: what
then still comes back is measured too. The key space is said in bits, since sixteen are tried out in minutes.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from updp.core.measurement import FEWEST_PATIENTS, Measurement
from updp.core.record import Study
from updp.domains.face.frame import GOAL, framed
from updp.domains.face.landmarks import named
from updp.evaluation.intervals import measure
from updp.evaluation.probes.base import Inquiry, Probe, absent, by_patient, too_few
from updp.evaluation.probes.photographs import find_all
from updp.evaluation.statistics import mean
from updp.models import recognisers

if TYPE_CHECKING:
    from updp.methods.base import Reversible

BACK, QUALITY, DISTANCE, BITS = "originals back", "recovery PSNR", "recovery ID distance", "password bits"
#: Photographs that are put through the method: one of each person, at most so many.
MOST = 60
_LENGTH = 32
Photo = NDArray[np.uint8]


def _bit(password: bytes) -> bytes:
    return bytes([password[0] ^ 1, *password[1:]])


def _jpeg(quality: int) -> Callable[[Photo], Photo]:
    def changed(film: Photo) -> Photo:
        from PIL import Image

        out = io.BytesIO()
        Image.fromarray(film).save(out, "JPEG", quality=quality, subsampling=0)
        with Image.open(out) as image:
            return np.asarray(image.convert("RGB"))

    return changed


def _rescaled(film: Photo) -> Photo:
    from PIL import Image

    height, width = film.shape[:2]
    small = Image.fromarray(film).resize((3 * width // 4, 3 * height // 4), Image.Resampling.BICUBIC)
    return np.asarray(small.resize((width, height), Image.Resampling.BICUBIC))


def _same(film: Photo) -> Photo:
    return film


#: What the attacker or receiver does: to the password, and to the released file.
TRIALS: Mapping[str, tuple[Callable[[bytes], bytes], Callable[[Photo], Photo]]] = {
    "right password": (lambda word: word, _same),
    "wrong password": (lambda word: word[::-1], _same),
    "password off by one bit": (_bit, _same),
    "right password, JPEG 95": (lambda word: word, _jpeg(95)),
    "right password, JPEG 80": (lambda word: word, _jpeg(80)),
    "right password, rescaled": (lambda word: word, _rescaled),
}


class Reversal(Probe):
    name = "reversal"
    question = "film"
    domains = ("face",)

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        from updp.methods import make_method
        from updp.methods.base import Reversible

        if inquiry.method is None:
            return []
        method = make_method(inquiry.method.name, inquiry.method.options)
        if not isinstance(method, Reversible):
            return []
        patient_rows = by_patient(inquiry.exhibit.patients, np.arange(len(inquiry.exhibit)))
        if len(patient_rows) < FEWEST_PATIENTS:
            return absent((BACK, QUALITY, DISTANCE), too_few(len(patient_rows), "patients"), n=len(patient_rows))
        rows = np.array([own[0] for own in patient_rows])[:MOST]
        return list(self._tried(inquiry, method, rows))

    def _tried(self, inquiry: Inquiry, method: Reversible, rows: NDArray[Any]) -> Iterator[Measurement]:
        exhibit = inquiry.exhibit
        assert inquiry.method is not None
        found = find_all(exhibit.real, inquiry.cache).at(rows)
        photos = [np.ascontiguousarray(exhibit.real[row]) for row in rows]
        streams = [np.random.default_rng([inquiry.seed, int(row)]) for row in rows]
        words = [stream.bytes(_LENGTH) for stream in streams]
        studies = [
            Study(
                f"candidate-{row}", f"candidate-{row}", str(exhibit.patients[row]),
                pixels=photo.astype(np.float32) / np.float32(255), landmarks=named(points, photo.shape),
            )
            for row, photo, points in zip(rows, photos, found.points, strict=True)
        ]  # fmt: skip
        made = method.encrypt(studies, inquiry.method.strength, streams, words)
        kept = [n for n, one in enumerate(made) if one.pixels is not None]
        released = [np.rint(np.clip(made[n].pixels, 0, 1) * 255).astype(np.uint8) for n in kept]  # type: ignore[arg-type]
        truth = [framed(photos[n], found.points[n], len(film))[0] for n, film in zip(kept, released, strict=True)]
        patients = exhibit.patients[rows[kept]]
        bits = float(method.password_bits)
        yield Measurement(BITS, bits, bits, bits, len(kept), None, "higher")
        options: dict[str, Any] = {"seed": inquiry.seed, "draws": inquiry.budget.draws}
        for trial, (word_of, change) in TRIALS.items():
            back = [_recovered(method, change(film), word_of(words[n])) for film, n in zip(released, kept, strict=True)]
            there = np.array([one is not None for one in back])
            wanted = trial.startswith("right")
            yield measure(
                BACK, mean, patients, there.astype(float), better="higher" if wanted else "lower", protocol=trial,
                **options,
            )  # fmt: skip
            if len(set(patients[there].tolist())) < FEWEST_PATIENTS:
                why = too_few(int(there.sum()), "originals that came back")
                yield from absent((QUALITY, DISTANCE), why, protocol=trial, better="higher")
                continue
            pairs = [(own, one) for own, one in zip(truth, back, strict=True) if one is not None]
            quality = [_psnr(own, one) for own, one in pairs]
            yield measure(
                QUALITY, mean, patients[there], quality, better="higher" if wanted else "lower", protocol=trial,
                **options,
            )  # fmt: skip
            for name in recognisers.available():
                moved = np.linalg.norm(
                    np.subtract(*(_embedded(name, side) for side in zip(*pairs, strict=True))), axis=1
                )
                yield measure(
                    DISTANCE, mean, patients[there], moved, better="lower" if wanted else "higher", protocol=trial,
                    attacker=name, **options,
                )  # fmt: skip


def _recovered(method: Reversible, film: Photo, password: bytes) -> Photo | None:
    from updp.methods.base import BadPassword

    try:
        return method.recover([film], [password])[0]
    except BadPassword:
        return None


def _psnr(a: Photo, b: Photo) -> float:
    error = float(np.mean((a.astype(np.float64) - b) ** 2)) / 255**2
    return float(-10 * np.log10(max(error, 1e-9)))


def _embedded(name: str, photos: tuple[Photo, ...]) -> NDArray[np.float32]:
    """Features of framed faces: where eyes, nose and mouth are is known."""
    return recognisers.embed(name, np.stack(photos), np.repeat(GOAL[None] * len(photos[0]), len(photos), 0))
