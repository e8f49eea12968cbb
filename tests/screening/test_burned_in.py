"""The text screen: what it keeps, paints and refuses; a few films go through the real OCR."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from performance import marks
from updp.core.policy import BurnedInPolicy
from updp.core.reasons import Reason, Refused
from updp.screening import burned_in
from updp.screening.burned_in import Line, TextScreen, flatten, kept_words

FILM = np.full((200, 300), 0.3, dtype=np.float32)


class Told:
    """A reader that reads what it is told, once for each look at the film."""

    def __init__(self, *looks: list[Line]) -> None:
        self.looks = list(looks)
        self.thorough: list[bool] = []

    def read(self, pixels, *, thorough):
        self.thorough.append(thorough)
        return self.looks.pop(0) if self.looks else []


def line(text: str, score: float = 0.95, rect=(20, 20, 120, 16), upright: int = 0) -> Line:
    return Line(rect, text, score, upright)


def screen(*looks, known=(), flag=None, film=FILM, **policy):
    return TextScreen(BurnedInPolicy(**policy), Told(*looks)).screen(film, known=known, burned_in_flag=flag)


# -- photographs ----------------------------------------------------------------------------------------------------


def test_a_photograph_is_looked_at_in_brightness_and_in_colour_and_painted_in_every_channel():
    photo = np.dstack([FILM, FILM + 0.1, FILM + 0.3])
    photo[20:36, 20:140] = (0.9, 0.1, 0.1)
    tinted = Line((20, 20, 120, 16), "QUIBBLESWORTH", 0.95, found=0.9)
    told = Told([], [tinted])
    result = TextScreen(BurnedInPolicy(), told).screen(photo)
    assert [box.why for box in result.boxes] == ["ocr"]
    assert told.thorough == [False, False, False, True, False, False]
    assert np.abs(result.pixels[28, 80] - (0.3, 0.4, 0.6)).max() < 0.1
    assert np.array_equal(result.pixels[100:], photo[100:])


def test_planes_show_letters_that_are_as_bright_as_what_is_behind_them():
    photo = np.full((20, 20, 3), 0.5, np.float32)
    photo[5:10, 5:10] = (0.5 + 0.3, 0.5 - 0.3 * 0.299 / 0.587, 0.5)
    grey, red_green, _ = burned_in.planes(photo)
    assert np.ptp(grey) < 1e-5
    assert np.ptp(red_green) > 0.2


@pytest.mark.parametrize(
    ("found", "painted"),
    [
        (line("QUIBBLESWORTH", rect=(100, 90, 90, 10)), 1),  # letters across a face
        (line("UOOU", rect=(100, 60, 90, 60)), 0),  # an eye is higher than that
        (Line((110, 80, 60, 14), "", 0.1, strokes=5), 0),  # lashes
        (Line((5, 5, 60, 14), "", 0.1, strokes=5), 1),  # strokes nobody can read, beside the face
        (line("Zanthora", 0.4, rect=(100, 60, 90, 60)), 1),  # the patient's name, wherever it is
    ],
)
def test_parts_of_a_face_are_no_text(found, painted):
    photo = np.dstack([FILM] * 3)
    screener = TextScreen(BurnedInPolicy(), Told([found]))
    result = screener.screen(photo, known=["Zanthora"], subject=(80, 30, 140, 150))
    assert sum(box.painted for box in result.boxes) == painted


# -- policy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", [None, "", "YES", "maybe"])
def test_header_mode_believes_no_flag_but_no(flag):
    with pytest.raises(Refused) as caught:
        screen(mode="header", flag=flag)
    assert caught.value.reason is Reason.BURNED_IN_UNCHECKED
    assert screen(mode="header", flag="NO").boxes == ()


def test_off_lets_every_film_pass_unread():
    told = Told([line("QUIBBLESWORTH")])
    result = TextScreen(BurnedInPolicy(mode="off"), told).screen(FILM)
    assert result.pixels is FILM
    assert told.thorough == []


@pytest.mark.parametrize("missing", ["rapidocr", "onnxruntime", "cv2", "zxingcpp"])
def test_without_ocr_a_film_leaves_only_if_its_header_rules_text_out(monkeypatch, missing):
    found = burned_in.importlib.util.find_spec
    monkeypatch.setattr(burned_in.importlib.util, "find_spec", lambda name: None if name == missing else found(name))
    burned_in._rapidocr.cache_clear()
    try:
        text_screen = TextScreen(BurnedInPolicy())
        with pytest.raises(Refused) as caught:
            text_screen.screen(FILM, burned_in_flag="YES")
        assert caught.value.reason is Reason.BURNED_IN_UNCHECKED
        assert text_screen.screen(FILM, burned_in_flag="NO").pixels is FILM
    finally:
        burned_in._rapidocr.cache_clear()


def test_films_of_two_channels_and_films_that_are_no_numbers_are_refused():
    with pytest.raises(Refused) as caught:
        screen(film=np.zeros((8, 8, 2), dtype=np.float32))
    assert caught.value.reason is Reason.IMAGE_NOT_COLOUR
    with pytest.raises(Refused) as caught:
        screen(film=np.full((8, 8), np.nan, dtype=np.float32))
    assert caught.value.reason is Reason.IMAGE_UNREADABLE


# -- what stays and what goes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["L", "R", "PA", "AP", "PORTABLE", "ERECT", "SUPINE", "AP PORTABLE", "L.", "AP/PA", "semi-erect"]
)
def test_markers_and_acquisition_words_stay(text):
    result = screen([line(text)])
    assert result.pixels is FILM
    assert [(box.why, box.painted) for box in result.boxes] == [("rule", False)]


@pytest.mark.parametrize("text", ["L", "R", "PA", "AP PORTABLE", "L 14:32"])
def test_markers_go_where_even_they_would_tell_a_film(text):
    film = FILM.copy()
    film[20:36, 20:140] = 1.0
    told = TextScreen(BurnedInPolicy(), Told([line(text)]))
    told.paint_kept = True
    result = told.screen(film)
    assert all(box.painted for box in result.boxes)
    assert result.pixels[20:36, 20:140].max() < 1


@pytest.mark.parametrize(
    "text",
    ["QUIBBLESWORTH", "MRN 77419", "14:32", "10:32:07", "2019-03-14", "St Quibble", "JQ 3", "山田太郎様", "12345"],
)
def test_everything_else_is_painted(text):
    result = screen([line(text)])
    assert [(box.why, box.painted) for box in result.boxes] == [("ocr", True)]
    assert not np.array_equal(result.pixels, FILM)


def test_a_marker_beside_a_time_keeps_its_place():
    result = screen([line("L 14:32")])
    kept, painted = sorted(result.boxes, key=lambda box: box.painted)
    assert (kept.painted, painted.painted) == (False, True)
    assert kept.x == 20
    assert painted.x > kept.x + kept.w - 6
    assert painted.x + painted.w >= 140


@pytest.mark.parametrize(("upright", "first"), [(0, "left"), (1, "top"), (2, "right"), (3, "bottom")])
def test_parts_of_a_turned_line_are_found_in_its_own_direction(upright, first):
    tall = upright in (1, 3)
    rect = (20, 20, 16, 120) if tall else (20, 20, 120, 16)
    result = screen([line("L 14:32:07", rect=rect, upright=upright)])
    kept = next(box for box in result.boxes if not box.painted)
    near = {
        "left": kept.x == 20,
        "right": kept.x + kept.w == 140,
        "top": kept.y == 20,
        "bottom": kept.y + kept.h == 140,
    }
    assert near[first]


def test_words_of_the_policy_stay_too():
    assert screen([line("TROLLEY")], keep=("Trolley",)).boxes[0].painted is False
    assert "trolley" not in kept_words(BurnedInPolicy())


def test_a_faint_reading_counts_if_the_header_names_it():
    blurred = line("QUIBBLESW0RTH", score=0.3)
    assert screen([blurred]).boxes == ()
    assert screen([blurred], known=["Quibblesworth"]).boxes[0].why == "header-seed"


def test_a_short_name_is_known_from_the_header():
    marker = line("LEE", score=0.6, rect=(20, 20, 30, 24))
    assert screen([marker]).boxes == ()
    assert screen([marker], known=["Lee"]).boxes[0].painted


@pytest.mark.parametrize(
    "misread",
    [
        line("7", 0.95, (912, 0, 111, 190), 3),  # a lead marker on its side
        line("CEE", 0.76, (494, 160, 102, 214), 3),  # vertebrae
        line("Q", 0.58, (0, 0, 214, 222), 1),  # a prosthesis
        line("DLUL", 0.47, (939, 0, 84, 137), 3),
        line("?!", 0.99),
    ],
)
def test_what_is_no_typed_word_is_left_alone(misread):
    film = np.full((1024, 1024), 0.3, dtype=np.float32)
    assert screen([misread], film=film).boxes == ()


# -- marks nobody can read ------------------------------------------------------------------------------------------


UNREADABLE = [
    Line((20, 20, 60, 16), "", 0.0, strokes=5, found=0.4),  # letters of no script the reader knows
    Line((20, 20, 30, 24), "8", 0.4, strokes=3, found=0.6),  # initials on a lead marker
    Line((20, 20, 60, 16), "y", 0.6, strokes=1, found=0.7),  # letters joined by a line
    Line((20, 20, 30, 26), "R", 0.99, strokes=3, found=0.7),  # a side marker read without the initials beside it
]


@pytest.mark.parametrize("mark", UNREADABLE)
def test_a_text_like_mark_nobody_can_read_is_painted(mark):
    result = screen([mark])
    assert [(box.why, box.painted) for box in result.boxes] == [("doubt", True)]


@pytest.mark.parametrize("mark", UNREADABLE)
def test_or_the_film_is_kept_back_if_the_policy_says_so(mark):
    with pytest.raises(Refused) as caught:
        screen([mark], doubt="quarantine")
    assert caught.value.reason is Reason.BURNED_IN_DOUBT


@pytest.mark.parametrize(
    "shape",
    [
        Line((20, 20, 24, 26), "", 0.0, strokes=1, found=0.9),  # an arrow
        Line((20, 20, 60, 16), "", 0.0, strokes=0, found=0.9),  # an edge of bone
        Line((20, 20, 60, 16), "I", 0.4, strokes=1, found=0.3),  # a wire
        Line((0, 0, 140, 150), "O", 0.4, strokes=2, found=0.9, area=20000),  # a pair of lungs
    ],
)
def test_what_does_not_look_like_text_is_left_alone(shape):
    assert screen([shape]).boxes == ()
    assert screen([shape], doubt="quarantine").boxes == ()


def test_a_side_marker_of_one_stroke_stays():
    assert screen([Line((20, 20, 20, 26), "R", 0.99, strokes=1, found=0.7)]).boxes[0].painted is False


@pytest.mark.parametrize(
    ("found", "rect", "painted"),
    [
        (0.6, (20, 20, 34, 46), 1),  # initials below the marker that no reading explains
        (0.6, (20, 20, 18, 20), 0),  # the marker once more
        (0.3, (20, 20, 34, 46), 0),  # the detector is not sure of it
        (0.6, (120, 20, 34, 46), 0),  # elsewhere
    ],
)
def test_a_sure_place_around_a_marker_that_nobody_can_read_holds_more_than_the_marker(found, rect, painted):
    marker = Line((30, 21, 12, 14), "L", 0.99, strokes=1, found=0.4)
    around = Line(rect, "", 0.2, strokes=0, found=found)
    assert sum(box.painted for box in screen([marker, around]).boxes) == painted


class Halves:
    """An OCR that reads a side marker in the whole of a place and what it is told in each half."""

    def __init__(self, *halves: str) -> None:
        self.halves = halves

    def recognize_txt(self, views):
        texts = [self.halves[i % len(self.halves)] for i in range(len(views))]
        return type("Read", (), {"txts": texts, "scores": [0.9] * len(texts)})


@pytest.mark.parametrize(("halves", "strokes"), [(("L", "VS"), 2), (("L", "I"), 1)])
def test_initials_joined_to_a_marker_are_told_by_the_halves_of_its_place(halves, strokes):
    reader = burned_in.RapidReader.__new__(burned_in.RapidReader)
    reader._ocr = Halves(*halves)
    marker = Line((0, 0, 33, 40), "L", 0.95, strokes=1, found=0.7)
    [line] = reader._with_halves([(marker, np.zeros((40, 33), np.uint8))])
    assert line.strokes == strokes


def test_a_place_in_doubt_is_painted_once():
    mark = UNREADABLE[0]
    result = screen([mark], [mark], [mark], [mark], [mark])
    assert sum(box.painted for box in result.boxes) == 1


@pytest.mark.parametrize(("upright", "mirrored", "first"), [(0, True, "right"), (2, True, "left"), (1, True, "top")])
def test_parts_of_a_mirrored_line_are_found_in_its_own_direction(upright, mirrored, first):
    rect = (20, 20, 16, 120) if upright == 1 else (20, 20, 120, 16)
    result = screen([Line(rect, "L 14:32:07", 0.95, upright, mirrored)])
    kept = next(box for box in result.boxes if not box.painted)
    assert {"left": kept.x == 20, "right": kept.x + kept.w == 140, "top": kept.y == 20}[first]


def test_a_code_is_painted_without_being_read_as_text():
    film = np.full((300, 300), 0.3, dtype=np.float32)
    mark = marks.label(film, marks.code("MRN 48213377", "QRCode", 3), (60, 60), 0.6, "QRCode", "MRN 48213377")
    result = screen([], film=film)
    assert {(box.why, box.painted) for box in result.boxes} == {("code", True)}
    assert marks.decoded(mark, film)
    assert not marks.decoded(mark, result.pixels)


@pytest.mark.parametrize(("text", "least", "most"), [("L", 1, 1), ("JQK", 3, 3), ("MEYER", 5, 5), ("ШУКИН", 5, 5)])
def test_strokes_are_counted_letter_by_letter_whatever_the_script(text, least, most):
    ink = np.pad(marks.letters(text, marks.DEJAVU, 40), 12)
    for crop in (ink, 1 - ink, np.fliplr(ink)):
        assert least <= burned_in.count_strokes((255 * (0.2 + 0.6 * crop)).astype(np.uint8)) <= most


def test_an_edge_across_a_place_is_no_stroke():
    y, x = np.mgrid[0:40, 0:90]
    assert burned_in.count_strokes((40 + 160 * (x + y > 70)).astype(np.uint8)) == 0


def test_boxes_never_hold_the_text():
    result = screen([line("QUIBBLESWORTH")])
    assert "QUIBBLESWORTH" not in repr(result.boxes)


# -- reading again --------------------------------------------------------------------------------------------------


def test_the_rim_of_a_box_does_not_nibble_at_a_marker_beside_it():
    film = FILM.copy()
    film[18:40, 145:160] = 1.0
    lines = [line("QUIBBLESWORTH"), line("L", rect=(142, 16, 20, 26))]
    result = screen(lines, film=film)
    assert np.array_equal(result.pixels[16:42, 142:162], film[16:42, 142:162])
    assert sum(box.painted for box in result.boxes) == 1


def test_a_painted_film_is_read_again_more_thoroughly():
    told = Told([line("QUIBBLESWORTH")], [line("SMALLPRINT", rect=(20, 80, 90, 12))])
    result = TextScreen(BurnedInPolicy(), told).screen(FILM)
    assert told.thorough == [False, True, True]
    assert sum(box.painted for box in result.boxes) == 2


def test_vertebrae_the_thorough_look_takes_for_figures_are_left_alone():
    figures = Line((123, 24, 26, 55), "33", 0.99, upright=1, strokes=2, found=0.46)
    result = screen([line("QUIBBLESWORTH")], [figures])
    assert sum(box.painted for box in result.boxes) == 1


def test_text_that_will_not_go_keeps_the_film_back():
    stubborn = [line("QUIBBLESWORTH")]
    with pytest.raises(Refused) as caught:
        screen(*[stubborn] * 10)
    assert caught.value.reason is Reason.BURNED_IN_RESIDUAL
    assert "QUIBBLES" not in str(caught.value)


def test_a_film_without_text_is_read_once_and_not_copied():
    told = Told([])
    assert TextScreen(BurnedInPolicy(), told).screen(FILM).pixels is FILM
    assert told.thorough == [False]


# -- with the OCR itself --------------------------------------------------------------------------------------------


def lungs(side: int = 512) -> np.ndarray:
    y, x = np.mgrid[0:side, 0:side].astype(np.float32) / side
    film = 0.75 - 0.5 * sum(np.exp(-(((x - c) / 0.16) ** 2 + ((y - 0.5) / 0.3) ** 2)) for c in (0.3, 0.7))
    return np.clip(film + np.random.default_rng(5).normal(0, 0.008, film.shape), 0, 1).astype(np.float32)


def write(film: np.ndarray, text: str, at: tuple[int, int], size: int, contrast: float = 0.6, turn: int = 0) -> None:
    import matplotlib

    face = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size)
    left, top, right, bottom = (int(v) for v in face.getbbox(text))
    sheet = Image.new("L", (right - left + 4, bottom - top + 4))
    ImageDraw.Draw(sheet).text((2 - left, 2 - top), text, fill=255, font=face)
    ink = np.rot90(np.asarray(sheet, dtype=np.float32) / 255, turn)
    x, y = at
    under = film[y : y + ink.shape[0], x : x + ink.shape[1]]
    sign = 1 if under.mean() < 0.6 else -1
    under += sign * contrast * ink
    np.clip(film, 0, 1, out=film)


@pytest.fixture(scope="module")
def reader():
    pytest.importorskip("rapidocr")
    return burned_in.RapidReader()


@pytest.mark.parametrize(("size", "contrast", "turn"), [(14, 0.5, 0), (24, 0.12, 0), (22, 0.5, 1)])
def test_a_name_is_gone_and_the_marker_stays(reader, size, contrast, turn):
    film = lungs()
    write(film, "L", (470, 20), 34)
    write(film, "QUIBBLESWORTH Z", (100, 240) if not turn else (240, 100), size, contrast, turn)
    result = TextScreen(BurnedInPolicy(), reader).screen(film, known=["Quibblesworth"])
    assert any(box.painted and box.why == "header-seed" for box in result.boxes)
    left = "".join(found.text for found in reader.read(result.pixels, thorough=True)).upper()
    assert "QUIBBLE" not in left
    assert np.array_equal(result.pixels[15:60, 465:505], film[15:60, 465:505])


@pytest.mark.parametrize("turn", range(4))
@pytest.mark.parametrize("kind", ["mirrored", "turned", "alphabet", "script", "initials"])
def test_marks_an_ocr_cannot_read_are_gone(reader, kind, turn):
    film = lungs(256 if turn % 2 else 512)
    mark = marks.mark(film, kind, np.random.default_rng(turn), turn)[0]
    result = TextScreen(BurnedInPolicy(), reader).screen(film)
    assert marks.left(mark, film, result.pixels) < marks.LEGIBLE


def test_a_film_without_text_comes_back_as_it_was(reader):
    film = lungs()
    result = TextScreen(BurnedInPolicy(), reader).screen(film)
    assert result.pixels is film
    assert not result.boxes


def test_flattening_makes_white_on_white_as_clear_as_white_on_black():
    film = np.full((400, 400), 0.05, dtype=np.float32)
    film[:, 200:] = 0.9
    film[100:104, 40:80] += 0.4
    film[100:104, 300:340] += 0.08
    flat = flatten(film)
    dark, bright = flat[101, 60] - flat[150, 60], flat[101, 320] - flat[150, 320]
    assert bright > 0.4 * dark > 0.1


@pytest.mark.parametrize(("side", "sizes"), [(256, [640]), (1024, [640]), (3000, [1536, 640])])
def test_a_large_film_is_also_searched_at_a_small_size(reader, monkeypatch, side, sizes):
    looked = []
    monkeypatch.setattr(reader, "_find", lambda film, longest, flat: looked.append(longest) or [])
    assert reader.read(np.zeros((side, side), np.float32), thorough=False) == []
    assert looked == sizes
