"""Whether a photograph is a record of the domain face: exactly one face, large enough, frontal, its eyes to be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from updp.core.reasons import Reason, Refused
from updp.domains.face.finder import Face, find_faces
from updp.domains.face.landmarks import EYES, opening, turn

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

#: Least distance between the eyes in pixels.
LEAST = 24.0
#: Most that the tip of the nose may be off the middle, in distances between the eyes; a quarter turn gives about 0.4.
TURNED = 0.4
#: Opening of an eye below which it is closed. Open eyes of 180 photographs: 0.16 and more.
CLOSED = 0.12
#: Brightness between brow and lower lid over that of cheeks and nose below which glasses hide the eyes: five pairs of
#: dark glasses gave 0.22 to 0.26, of 160 other photographs one in a hundred less than 0.33.
DARK = 0.3
#: Diseases whose sign is on the open eye.
OPEN_EYES = frozenset({"Conjunctivitis", "Strabismus", "TAO", "Uveitis"})


def accepted(pixels: NDArray[np.float32], labels: Collection[str] | None) -> Face:
    """The one face of a photograph; refuses any other photograph with a reason."""
    photo = np.round(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
    faces = find_faces(photo)
    if not faces:
        raise Refused(Reason.FACE_NONE)
    if len(faces) > 1:
        raise Refused(Reason.FACE_SEVERAL)
    face = faces[0]
    if face.between_eyes < LEAST:
        raise Refused(Reason.FACE_TOO_SMALL)
    if abs(turn(face.points)) > TURNED:
        raise Refused(Reason.FACE_PROFILE)
    if hidden_eyes(photo, face):
        raise Refused(Reason.EYES_HIDDEN)
    if OPEN_EYES & set(labels or ()) and max(opening(face.points, eye) for eye in EYES.values()) < CLOSED:
        raise Refused(Reason.EYES_CLOSED)
    return face


def hidden_eyes(photo: NDArray[np.uint8], face: Face) -> bool:
    """Whether dark glasses cover the eyes: from brow to lower lid it is much darker than on cheeks and nose."""
    grey = photo.astype(np.float32).mean(2)

    def brightness(rows: tuple[int, ...]) -> float:
        low, high = face.points[list(rows)].min(0), face.points[list(rows)].max(0)
        left, top = np.clip(low, 0, None).astype(int)
        right, bottom = np.maximum(high.astype(int) + 1, (left + 1, top + 1))
        return float(np.median(grey[top:bottom, left:right])) if grey[top:bottom, left:right].size else 0.0

    points = face.points
    cheeks = [(points[a] + points[b]) / 2 for a, b in ((12, 77), (28, 83), (13, 77), (29, 83))]
    cheeks.append(points[73])
    places = [np.clip(place, 0, (grey.shape[1] - 1, grey.shape[0] - 1)).astype(int) for place in cheeks]
    skin = float(np.median([grey[y, x] for x, y in places]))
    return max(brightness((*eye.rim, *eye.brow)) for eye in EYES.values()) < DARK * skin
