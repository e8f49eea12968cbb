"""What a regular expression of the pattern table cannot say: a date that exists, a street that is no CT scan.

A pattern names its check in ``data/patterns.toml``; a check gets the match and the text that it stands in.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from updp.reports.lexicon import dicom_keywords, names, places, vocabulary, whitelist, word_class

DATE_SIGNS = re.compile(r"[/.-]")
_SHORT_MONTH = re.compile(r"(?:\d{1,2}\s?)?(?:mar|dec|sep|may)$")
_MAY_NUMBER = re.compile(r"may\s\d{1,2}$")
_MAY_BE = re.compile(r"\s?(?:mm|cm|mg|ml|to|or|more|hours|days|weeks)")
_RATIO = re.compile(
    r"(?:titer|titre|dilution|ratio|diluted|i:e|epinephrine|concentration)s?\W*(?:of|is|at|was)?\W*$", re.IGNORECASE
)


def _date(match: re.Match[str], text: str) -> bool:
    parts = DATE_SIGNS.split(match.group())
    numbers = [int(p) for p in parts]
    if len(parts[0]) == 4:
        return True
    if match.group("a") == "." and len(parts[2]) == 2:
        # 1.2.15 is rather a paragraph than a date unless it can be one.
        return 1 <= numbers[0] <= 31 and 1 <= numbers[1] <= 12 and numbers[0] + numbers[1] > 3
    # 13/13/2019 is a date somebody mistyped; 120-80-60 is not one.
    return numbers[0] <= 31 and numbers[1] <= 31 and numbers[0] > 0


def _month(match: re.Match[str], text: str) -> bool:
    found = match.group()
    if _MAY_NUMBER.match(found) and _MAY_BE.match(text, match.end()):
        return False
    # "dec 5", "mar 3" in running small letters are rather slips than dates unless something more follows.
    return not _SHORT_MONTH.match(found)


_FIELD_BEFORE = re.compile(r"(?:[A-Za-z]:[ \t]{0,3}|[A-Za-z]:[ \t]?[A-Z][a-z]+, )$")
_NAME_BEHIND = re.compile(r"(?:,? [A-Z][a-z]+)?[ \t]*(?:$|\n|[,;.(]|  )")


def _month_alone(match: re.Match[str], text: str) -> bool:
    word = match.group()
    if _FIELD_BEFORE.search(text, max(0, match.start() - 24), match.start()) and _NAME_BEHIND.match(text, match.end()):
        return False  # "Name: April Case"
    if word in ("may", "march") and re.search(
        r"\b(?:since|until|last|next)\s$", text[max(0, match.start() - 7) : match.start()]
    ):
        return True
    return not word.islower() or word in (
        "january",
        "february",
        "july",
        "september",
        "october",
        "november",
        "december",
        "april",
    )


_SCORE = re.compile(r"(?:grade|pain|rated?|score|strength|bp|power|stage)\W*(?:of|to|in|by|and)?\W*$")
_LINK = re.compile(r"\b(?:in|of|to|and|by)\s$")
_STUDY_OF = re.compile(r"\b(?:ct|cxr|mri|film|films|study|exam|scan|radiograph|x-?rays?|images?|echo|labs)\sof\s$")
#: A date of the same form before it.
_SECOND = re.compile(
    r"\b(?:ct|cxr|mri|films?|study|exam|scan|x-?rays?|imaged|echo|labs|on|of|from|dated|seen|since)\s\d{1,2}/\d{1,2},?\s(?:and|&)\s$"
)
_AT = re.compile(r"\s(?:at|@)\s")


def _slash_date(match: re.Match[str], text: str) -> bool:
    before = text[max(0, match.start() - 22) : match.start()].lower()
    first, second = match.group().split("/")[:2]
    if _SCORE.search(before):
        return False
    if _SECOND.search(before):
        return int(first) <= 12
    if _LINK.search(before) and int(second) <= 10 and len(second) < 2:
        # "3 of 3/5", "to 4/5" are none; "CT of 3/5", "moved to 4/5 at noon" are.
        return bool(_STUDY_OF.search(before) or _AT.match(text, match.end()))
    return int(first) <= 12


def _time(match: re.Match[str], text: str) -> bool:
    return not _RATIO.search(text[max(0, match.start() - 22) : match.start()])


def _url(match: re.Match[str], text: str) -> bool:
    found = match.group().lower()
    return "://" in found or found.startswith("www.") or not re.fullmatch(r"(?:e\.g|i\.e|p\.o|b\.i\.d|q\.d)\w*", found)


def _ip(match: re.Match[str], text: str) -> bool:
    found = match.group()
    if ":" in found and found.count(":") < 7 and "::" not in found and not re.search("[A-Fa-f]", found):
        return False  # a time with seconds, or a ratio
    return "." in found or found.count(":") >= 3 or "-" in found


_MEASURE = re.compile(r"\s?(?:mg|ml|mcg|units|mm|cm|cc)\b", re.IGNORECASE)


def digits(value: str) -> int:
    return sum(map(str.isdigit, value))


def _phone(match: re.Match[str], text: str) -> bool:
    return 7 <= digits(match.group()) <= 17 and not _MEASURE.match(text, match.end(), match.end() + 7)


def _username(match: re.Match[str], text: str) -> bool:
    value = match.group("v").lower()
    return value not in vocabulary() and not value.isdigit()


def _typist(match: re.Match[str], text: str) -> bool:
    head, tail = re.split(r"[/:]", match.group("v"))[:2]
    white = _white()
    if ":" in match.group("v") and not (tail.islower() and len(tail) <= 3):
        return False
    return (
        not (head.lower() in white and tail.lower() in white)
        and (tail.islower() or len(tail) <= 3)
        and head.lower() not in _NO_TYPIST
    )


_NO_TYPIST = word_class("no_typist")


_NO_CODE = re.compile(r"[TLCS]\d{1,2}-[TLCS]?\d{1,2}|\d+(?:mg|mm|cm|ml|g|kg|lb|u|mcg|iu|k)", re.IGNORECASE)


def _code(match: re.Match[str], text: str) -> bool:
    value = match.group()
    if _NO_CODE.fullmatch(value) or _CODE_SYSTEM.search(text, max(0, match.start() - 12), match.start()):
        return False
    return digits(value) >= 4 or "/" in value


_CODE_SYSTEM = re.compile(rf"\b(?:{'|'.join(sorted(word_class('code_systems')))})(?:-\d+)?[: ]{{1,2}}$", re.IGNORECASE)


_YEARS = re.compile(r"(?:19|20)\d\d-(?:19|20)\d\d")


def _groups(match: re.Match[str], text: str) -> bool:
    return digits(match.group()) >= 6 and not _YEARS.fullmatch(match.group())


_NAME_JUST_BEFORE = re.compile(
    r"(?:[A-Z][A-Za-z'-]+,? |[A-Za-z]: ?|[(#] ?|\b(?:up|into|under|pull|open|find|against|numbers?|numbers?,) )$"
)


def _pairs(match: re.Match[str], text: str) -> bool:
    """Three pairs of digits are a record number behind a name, a field or a bracket; elsewhere they are values."""
    return bool(_NAME_JUST_BEFORE.search(text, max(0, match.start() - 28), match.start()))


_NAME_BEFORE = re.compile(r"([A-Z][A-Za-z'-]+) \($")


def _bracketed(match: re.Match[str], text: str) -> bool:
    """Six digits or more in groups behind a word with a capital: "Jane Doe (12 34 56)"; ranges and dates are none."""
    before = _NAME_BEFORE.search(text, max(0, match.start() - 28), match.start())
    if digits(match.group()) < 6 or _YEARS.fullmatch(match.group()):
        return False
    if "/" in match.group() and digits(match.group()) > 7:
        return True
    if not before:
        return False
    word = before[1].lower()
    return word not in _white() and (vocabulary().get(word, "0") < "2" or max(names().get(word, "00U")[:2]) >= "2")


def _word_number(match: re.Match[str], text: str) -> bool:
    words = re.findall(r"[a-z]{2,}", match.group())
    return not all(w in vocabulary() or w in _white() for w in words)


_LOGIN = re.compile(r"(?:by|user|login|username|as|id|ist|typed)\W{0,3}$")


def _dotted(match: re.Match[str], text: str) -> bool:
    """Two words with a full stop and no space between are a slip; two names are a log-in name."""
    known, words = names(), vocabulary()
    one, two = match.group("one"), match.group("two")
    if one in words and two in words:
        return False
    before = text[max(0, match.start() - 14) : match.start()].lower()
    if _LOGIN.search(before):
        return True
    names_ = [max(known.get(part, "00U")[:2]) >= "2" for part in (one, two)]
    if all(names_) and (one not in words or two not in words):
        return True
    return names_[1] and two not in words and one not in words and len(one) > 2


_LETTERS = re.compile(r"[A-Za-z]+")


def _rare_street(match: re.Match[str], text: str) -> bool:
    words = _LETTERS.findall(match.group())[:-1]
    known, places_ = names(), vocabulary()
    return any(places_.get(w.lower(), "0") < "2" or max(known.get(w.lower(), "00U")[:2]) == "3" for w in words[:2])


_NO_ADDRESS = re.compile(r"\d{1,2}\s(?:am|pm|of|mg|ml|mm|cm|days?|weeks?|hours?|year|views?)\b|\D", re.IGNORECASE)


def _address(match: re.Match[str], text: str) -> bool:
    words = _LETTERS.findall(match.group())
    tail = text[match.end() : match.end() + 12]
    if any(w.lower() in _white_anatomy() for w in words):
        return False
    short = words[-1].lower() if words else ""
    if short in (
        "ct",
        "dr",
        "st",
        "pl",
        "way",
        "circle",
        "run",
        "park",
        "row",
        "walk",
        "close",
        "place",
        "drive",
        "square",
        "route",
    ):
        body = words[:-1]
        if not body or all(vocabulary().get(w.lower(), "0") == "3" for w in body):
            return False
        if short == "dr" and re.match(r"\.?\s[A-Z]", tail):
            return False  # "2 pm Dr. Jones"
    return not _NO_ADDRESS.match(match.group())


#: A field for initials: what stands in it is believed although it is also a word.
_FIELD_OF_INITIALS = re.compile(r"(?:\bby:?|[a-z]{3,}:|\boperator|\btypist)\s?$", re.IGNORECASE)
_CUE_OF_INITIALS = re.compile(r"[A-Za-z]{3,}[ :]")
#: Not even a field makes initials of these.
_SOMEBODY = frozenset(["dr", "mr", "ms", "me", "us", "an", "my", "it", "rn", "np", "the", "her", "him", "you"])
_VERB_GOES_ON = frozenset(["in", "on", "at", "up", "to", "by", "of", "as", "is", "or", "no", "ok", "off", "out"])
_CLOSES = re.compile(r"[,;.)]|[ \t]{0,2}(?:$|\n)|\s\d|\s[A-Z][a-z]{2,8}\s\d|\s{2}")
_DATED = re.compile(r"\s(?:\d|[A-Z][a-z]{2,8}\s\d)")


def _initials(match: re.Match[str], text: str) -> bool:
    start, end = match.span(match.lastgroup or 0)
    letters = text[start:end].lower()
    if typed_initials(letters):
        return True
    if len(letters) != 2 or letters in _SOMEBODY or not _CLOSES.match(text, end):
        return False
    if not _CUE_OF_INITIALS.match(text, match.start()):
        return False
    if _FIELD_OF_INITIALS.search(text, max(0, start - 12), start):
        return True
    return letters not in _VERB_GOES_ON or (letters == "as" and _DATED.match(text, end) is not None)


def typed_initials(letters: str) -> bool:
    """Two letters that are no word of every text, or three that are hardly one."""
    if letters in _white() or letters in _NO_TYPIST or letters in _NO_INITIALS:
        return False
    return len(letters) == 2 or vocabulary().get(letters, "0") < "2"


def _typed(match: re.Match[str], text: str) -> bool:
    return typed_initials(match["v"])


_NOBODY = word_class("nobody")
_NOBODY_ALONE = word_class("nobody_alone")


def _by_whom(match: re.Match[str], text: str) -> bool:
    """Whether two letters behind what was done are somebody: all are that stand for nothing it is done by."""
    letters = match["v"]
    if letters in _NOBODY:
        return False
    return letters not in _NOBODY_ALONE or text[match.end("v") : match.end("v") + 2].strip().isdigit()


def _signs_off(match: re.Match[str], text: str) -> bool:
    """Whether what ends a letter is somebody: one of its words is borne as a name, or is no word at all."""
    words, known = vocabulary(), names()
    parts = [w.lower() for w in _LETTERS.findall(match["v"]) if len(w) > 1]
    if any(w in _SERVICES for w in parts):
        return False
    return any(words.get(w, "0") == "0" or max(known.get(w, "00U")[:2]) > "0" for w in parts)


_SERVICES = word_class("services")


_LETTER_AND_DIGIT = re.compile(r"[A-Z]")


def _numbered(match: re.Match[str], text: str) -> bool:
    """Whether what stands behind "no." is a number that somebody has: long enough, or letters with it."""
    value = match["v"]
    return digits(value) >= (3 if _LETTER_AND_DIGIT.search(value) else 4)


def _sounded(match: re.Match[str], text: str) -> bool:
    """ "pronounced kwib-ulz" is a name, "pronounced left-sided" none."""
    return any(vocabulary().get(part, "0") < "2" for part in match["v"].lower().split("-"))


def _plot(match: re.Match[str], text: str) -> bool:
    """Whether words of a street stand behind the number: "Plot 7, Admiralty Way", not "Unit 4 Discharge"."""
    words = [w.lower() for w in _LETTERS.findall(match.group())[1:]]
    return any(vocabulary().get(w, "0") < "3" and w not in _white() and w not in _SERVICES for w in words if len(w) > 2)


def _falls(match: re.Match[str], text: str) -> bool:
    """ "855-784" is no range."""
    return int(match["a"]) > int(match["b"]) and text[match.start() - 1 : match.start()] not in "-/."


_NO_INITIALS = word_class("no_initials")


def _surnames(match: re.Match[str], text: str) -> bool:
    known, words = names(), vocabulary()
    three = [match[g].lower() for g in ("one", "two", "three")]
    if any(w in _white() for w in three) or text[match.end() : match.end() + 1] == "-":
        return False  # "Lynch, Cowden and Peutz-Jeghers"
    return sum(known.get(w, "00U")[1] > "1" and words.get(w, "0") < "3" for w in three) >= 2


def _firm(match: re.Match[str], text: str) -> bool:
    one = match["one"].lower()
    kin = match.group().endswith(_KIN_FIRMS)
    return vocabulary().get(one, "0") < "2" or names().get(one, "00U")[1] >= ("2" if kin else "3")


_KIN_FIRMS = ("Sons", "Son", "Daughters", "Daughter", "Brothers", "Bros")


def _state(match: re.Match[str], text: str) -> bool:
    letters = match.group()[:2]
    line = text[text.rfind("\n", 0, match.start()) + 1 : match.end()]
    return letters.isupper() or (letters.islower() and line.islower())


#: What goes on behind a view, a modality or a word and not behind the code of a state.
NO_STATE = re.compile(
    r"[ ](?!(?:in|on|and|since|where|who|to|by|at|as|last|this|until|for|with)\b(?! (?:lateral|contrast)))[a-z\d]|[/&-]"
)


def _street(match: re.Match[str], text: str) -> bool:
    words = match.group("v").split()
    plain_kind = words[-1] in (
        "Street",
        "Avenue",
        "Ave",
        "Road",
        "Rd",
        "Boulevard",
        "Blvd",
        "Lane",
        "Highway",
        "Hwy",
        "Parkway",
    )
    # Of other kinds of street only those named after somebody or with a word nobody knows: "on Left Port" is none.
    return plain_kind or any(
        vocabulary().get(w.lower(), "0") < "2" or max(names().get(w.lower(), "00U")[:2]) == "3" for w in words[:-1]
    )


_STATE_NAME = re.compile(r"([A-Za-z]+ )?([A-Za-z]+),?\s{1,2}$")


def _state_zip(match: re.Match[str], text: str) -> bool:
    before = _STATE_NAME.search(text, max(0, match.start() - 34), match.start())
    if not before:
        return False
    one, two = (before.group(1) or "").strip().lower(), before.group(2).lower()
    return (
        two in STATES
        or f"{one} {two}" in STATES
        or (not before.group(2).islower() and (two in places() or f"{one} {two}" in places()))
    )


_LETTERED_KINDS = word_class("lettered_places")
#: Words for a place that mean something else unless they open a line or a sentence, or stand behind a preposition.
_DOUBTFUL_KINDS = frozenset(("cell", "chair", "couch", "locker"))
_PLACED = re.compile(r"(?:^|[\n.;:,(]\s?|\b(?:in|to|from|at|his|her|the)\s)$")


def _unit(match: re.Match[str], text: str) -> bool:
    kind, value = match["kind"], match["v"]
    plain = kind.lower()
    if kind == "POD":
        return False  # a day after an operation
    if plain in _DOUBTFUL_KINDS and not _PLACED.search(text, max(0, match.start() - 6), match.start()):
        return False
    if value.isalpha():
        return plain in _LETTERED_KINDS and value.isupper() and (value != "A" or plain == "ward")
    return True


_STREET_NEXT = re.compile(r"\s[A-Z0-9][\w']*\s(?:St|Ave|Rd|Bl|Dr|Ln|La|Ro)|\s(?:St|Ave|Rd|Blvd|Street|Road)")


def _floor(match: re.Match[str], text: str) -> bool:
    tail = text[match.end() : match.end() + 14]
    # "123 West Street" is an address, and found as one.
    return not _STREET_NEXT.match(tail)


_DURATION = re.compile(
    r"\b(?:over|for|during|in|within|of|throughout) (?:the |this |his |her |their )?$", re.IGNORECASE
)


def _relative_date(match: re.Match[str], text: str) -> bool:
    """ "Over the last week", "in the past year" are lengths of time."""
    if match.group()[:4].lower() == "this":
        return "past" in match.group().lower() or "coming" in match.group().lower()
    return not _DURATION.search(text, max(0, match.start() - 16), match.start())


def _short_year(match: re.Match[str], text: str) -> bool:
    """ "In '09": an apostrophe before, and before that nothing a foot or an inch could belong to."""
    at = match.start()
    return at > 0 and text[at - 1] == "'" and (at == 1 or text[at - 2] in " \n(,/-")


_NO_AGE = re.compile(
    r"(?:rate|pressure|sats?|spo2|pulse|score|hr|bp|weight|sodium|glucose)\W*(?:of|is|was)?\s$", re.IGNORECASE
)


def _age_of(match: re.Match[str], text: str) -> bool:
    return not _NO_AGE.search(text, max(0, match.start() - 20), match.start())


_AGE_FIELD = re.compile(r"(?:age|sex|a/s|pt|patient)\W*$|^\W*$|\n\W*$", re.IGNORECASE)


def _age_slash(match: re.Match[str], text: str) -> bool:
    """ "91/F" is an age behind the word for it or at a line's beginning; "rotor 91/M" is none."""
    if text[match.end() : match.end() + 1] != "/":
        return True
    return bool(_AGE_FIELD.search(text[max(0, match.start() - 12) : match.start()]))


def _handle(match: re.Match[str], text: str) -> bool:
    value = match["v"].lower()
    return vocabulary().get(value, "0") < "2" and value not in _white()


def _camel(match: re.Match[str], text: str) -> bool:
    """Two names without a space, or a name with an initial behind it: no part is a word, and it is no keyword."""
    one, two = match["one"].lower(), match["two"].lower()
    words, known = vocabulary(), names()
    if match["v"].lower() in dicom_keywords() or words.get(one + two, "0") > "0" or one in _white():
        return False
    if len(two) < 3:
        return len(two) == 1 and one.islower() and match["one"].islower() and len(one) > 4 and one not in words
    if two in _white():
        return False
    if one in words or two in words:
        return max(known.get(one, "00U")[0], "0") >= "2" and max(known.get(two, "00U")[:2]) >= "2"
    return len(one) > 3 and len(two) > 3


def _spelled(match: re.Match[str], text: str) -> bool:
    """Letters between hyphens that make no word and no term."""
    word = match["v"].replace("-", "").lower()
    return word not in _white() and vocabulary().get(word, "0") < "2"


def _nickname(match: re.Match[str], text: str) -> bool:
    """ "Tree ("bud") Pattern" is none: the first can be a given name or is no word, and none is a term."""
    known, words = names(), vocabulary()
    one, nick, two = (match[g].lower() for g in ("one", "nick", "two"))
    if all(words.get(w, "0") == "0" for w in (one, two)):
        return True  # two names that are no words, whatever stands between
    if any(w in _white() for w in (nick, two)) or (one in _white() and known.get(one, "00U")[0] < "2"):
        return False
    return (known.get(one, "00U")[0] >= "1" or words.get(one, "0") < "1") and (
        words.get(two, "0") < "2" or known.get(two, "00U")[1] >= "1"
    )


def _by_name(match: re.Match[str], text: str) -> bool:
    """ "Seen by Drew Walker", "by Bell, Norm and": both are borne as names, and neither is a term."""
    known = names()
    given, surname = (match["first"] or match["given"]).lower(), (match["second"] or match["last"]).lower()
    if given in _white() or surname in _white():
        return False
    return known.get(given, "00U")[0] >= "1" and known.get(surname, "00U")[1] >= "1"


def _called(match: re.Match[str], text: str) -> bool:
    value = match["v"].lower()
    return value not in _white()


_MISREAD = [str.maketrans("0134578", letters) for letters in ("oleastb", "oieastb")]


def _misread(match: re.Match[str], text: str) -> bool:
    """Whether a word with a digit for a letter ("Sm1th") is a name and no term when it is read right."""
    known, words = names(), vocabulary()
    readings = [match.group().lower().translate(table) for table in _MISREAD]
    if any(words.get(r, "0") > "1" or r in _white() for r in readings):
        return False
    if any(r in known for r in readings) or (digits(match.group()) > 1 and len(match.group()) > 7):
        return True
    return bool(_TITLE_BEFORE.search(text, max(0, match.start() - 14), match.start()))


_TITLE_BEFORE = re.compile(r"(?:dr|mrs?|ms|prof|doctor|name|patient)[.:]?\s$", re.IGNORECASE)
_NO_SAINT = re.compile(r"\s(?:valve|disease|louis encephalitis|elevation|depression|segment)", re.IGNORECASE)


#: A word in small letters that leads to a house: "from St Cross".
_INTO_A_HOUSE = re.compile(r"(?<![A-Za-z])(?:at|from|to|via|near|by|in|of|with|for|and) $")


def _saint(match: re.Match[str], text: str) -> bool:
    """A saint's name with a genitive, or one no list of words has; "St. Jude valve" is a device."""
    before = text[max(0, match.start() - 2) : match.start()]
    if _NO_SAINT.match(text, match.end()) or (before[-1:] == " " and before[:1].isupper()):
        return False
    if re.search(r"[A-Z][a-z]+ $", text[max(0, match.start() - 20) : match.start()]):
        return False  # "Main St Apt 4"
    if _INTO_A_HOUSE.search(text, max(0, match.start() - 6), match.start()):
        return True
    word = match.group().split()[1].lower()
    plain = word.removesuffix("'s").rstrip("'")
    return plain != word or vocabulary().get(plain, "0") < "2" or names().get(plain, "00U")[0] >= "2"


def _childrens(match: re.Match[str], text: str) -> bool:
    head = _LETTERS.findall(match.group())[0].lower()
    return head in ("children", "childrens") or head not in ("the", "our", "her", "his", "their", "my", "two", "three")


CHECKS: dict[str, Callable[[re.Match[str], str], bool]] = {
    "date": _date,
    "month": _month,
    "month_alone": _month_alone,
    "slash_date": _slash_date,
    "time": _time,
    "url": _url,
    "ip": _ip,
    "phone": _phone,
    "username": _username,
    "typist": _typist,
    "code": _code,
    "initials": _initials,
    "typed": _typed,
    "surnames": _surnames,
    "firm": _firm,
    "state": _state,
    "groups": _groups,
    "word_number": _word_number,
    "dotted": _dotted,
    "by_whom": _by_whom,
    "rare_street": _rare_street,
    "address": _address,
    "street": _street,
    "state_zip": _state_zip,
    "unit": _unit,
    "floor": _floor,
    "relative_date": _relative_date,
    "short_year": _short_year,
    "age_of": _age_of,
    "age_slash": _age_slash,
    "handle": _handle,
    "camel": _camel,
    "spelled": _spelled,
    "nickname": _nickname,
    "by_name": _by_name,
    "called": _called,
    "misread": _misread,
    "saint": _saint,
    "childrens": _childrens,
    "bracketed": _bracketed,
    "pairs": _pairs,
    "falls": _falls,
    "numbered": _numbered,
    "plot": _plot,
    "sounded": _sounded,
    "signs_off": _signs_off,
}

STATES = word_class("states")


@lru_cache(maxsize=1)
def _white() -> frozenset[str]:
    return frozenset(t for terms in whitelist().values() for t in terms)


@lru_cache(maxsize=1)
def _white_anatomy() -> frozenset[str]:
    groups = whitelist()
    return frozenset(
        t
        for g in ("anatomy", "modality", "view", "pathology", "laterality", "measurement")
        for t in groups[g]
        if t not in _AMBIGUOUS
    )


_AMBIGUOUS = word_class("ambiguous_terms")
