"""What stands with a capital inside a sentence behind a word that leads to a place, a firm or a feast.

The tagger knows such words by their neighbours; this rule goes by the writing alone, where a capital says that a name
is meant: "drives for Massy Stores", "referred to the Brompton", "lives off Mill Lane Cottages", "the night of the Mod".
Words of medicine, of services, of roles and of headings are written so too and stay.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache

from updp.reports.lexeme import is_medical
from updp.reports.lexicon import blacklist, names, places, vocabulary, whitelist, word_class
from updp.reports.words import Span

_CAPITAL = r"(?:[A-ZÞØÐÆ][\w'&.-]{0,24}[\w'&]|[A-Z])"
_SMALL = r"(?:of|and|&|de|del|della|di|do|da|dos|du|des|la|le|les|el|al|y|na|the|on|upon|il|tal|van|der|den|ten)"
_PHRASE = rf"(?P<phrase>{_CAPITAL}(?:(?: {_SMALL}){{0,2}} {_CAPITAL}){{0,4}})"
_FEAST = rf"(?P<phrase>{_CAPITAL}(?: (?:of |the |de |del )?{_CAPITAL}){{0,2}})"
#: A word, small words behind it, and a phrase: what it is depends on the word.
_LED = re.compile(
    r"(?<![\w-])(?P<word>[A-Za-z][\w/]{1,15})(?P<small>(?: (?:for|with|by|at|from|to|through|via|aboard|on|of|in|off|"
    rf"as|out|near|is|was|behind|outside)){{0,2}})(?:[:=] ?| )(?P<the>[Tt]he )?{_PHRASE}"
    r"(?:(?P<number> \d{1,4}(?:[ -]?[A-Z])?(?![\w.%/:-]))|(?P<given>, [A-Z][a-z]{1,14}(?=[.;)\n]|$| [a-z]))"
    r"|(?P<kind> (?:clinic|hospital|hospice|choir|surgery|practice)(?!\w)))?"
)
_BUSINESS = word_class("leads_to_business")
_LIVES = word_class("leads_to_home")
_HOME = word_class("kinds_of_home")
#: Behind a plain preposition two words with capitals are somewhere, behind some of them one that is rare.
_WHERE = frozenset(["at", "from", "in", "near", "to", "via"])
_PLAIN = _WHERE | {"by", "for", "of", "with"}
_OPENS = re.compile(r"(?:^|\n|[.;:!?] )$")
_GOES_ON = re.compile(r" (?:with|at|for|of|by|from|to|in|on)\b")
#: A town or a house that also gave its name to something: "to the Brompton.", "in Framingham;"
_EPONYM = re.compile(
    r"(?<![\w-])(?:(?:at|to|from|by) (?P<the>the )|at |in |from |near )(?P<phrase>[A-Z][a-z]{3,15})"
    r"(?=[.,;)\n]|$| (?:on|last|and|who|by|today|tomorrow)\b)"
)
_WEEKDAY = r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_EVENTS = (
    r"(?:muster|derby|marathon|match|wedding|funeral|races|fair|fete|festival|parade|election|elections|final|storm|"
    r"flood|floods|strike|carnival|fiesta|feast|census|coronation|earthquake|referendum|bank holiday|eclipse|regatta|"
    r"game|gala|rodeo|pilgrimage|riots|fireworks|jubilee|inauguration|cup final|school play|clocks changing)"
)
#: A day by what went on: "the Sunday of the muster", "the night after Mardi Gras".
_WENT_ON = "day|week|weekend|game|match|meeting|races|fair|festival|marathon|season|parade|cup|final|feast"
_DAY_OF = re.compile(
    rf"(?<![\w-])(?:[Tt]he )?(?:{_WEEKDAY}|weekend|week|fortnight|day|eve|night|morning|evening|afternoon|month|term)"
    rf"(?: (?:morning|night|evening))? (?:of|after|before|following) (?:the )?"
    rf"(?:{_FEAST}(?: (?:{_WENT_ON}))?|{_EVENTS})(?![\w-])"
)
_TURN = re.compile(
    rf"(?<![\w-])(?:[Ll]ast|[Tt]his past|[Nn]ext) {_FEAST}(?: (?:day|week|weekend|season|races|fair|festival))?"
    r"(?=[.,;:)\n]|$| (?:he|she|they|we|I|and|with|when|but|was|had|at|in|by|for|the|her|his|both|there)\b)"
)
#: Days that end in the word for one: "Melbourne Cup Day", "Labour weekend".
_NAMED_DAY = re.compile(
    rf"(?<![\w-])(?P<phrase>{_CAPITAL}(?: {_CAPITAL}){{0,2}}) "
    rf"(?:[Dd]ay|Eve|Week|[Ww]eekend|Festival|[Hh]olidays?|Games)(?![\w-]|'s [a-z])"
    r"(?! (?:\d|Hospital|Surgery|Cent|Case|Unit|Nurse))"
)
_PART = re.compile(r"\S+")
#: Roles, months and weekdays, titles, headings, services: with or without a capital they are nobody's name.
_STAYS = (
    word_class("services")
    | word_class("roles")
    | word_class("kin")
    | word_class("months")
    | word_class("weekdays")
    | word_class("titles")
    | word_class("span_titles")
    | word_class("never_names")
    | word_class("name_fields")
    | word_class("institution_generic")
    | word_class("never_places")
    | frozenset(w for group, t in blacklist().items() if group != "dates" for term in t for w in term.split())
)
_DATED = word_class("months") | word_class("weekdays")
_PEOPLE = (word_class("roles") | word_class("kin")) - {"named", "called", "alias", "aka", "monitor", "assistant"}
#: Kinds of span that a phrase may hold.
_PLACED = ("name", "staff", "institution", "location", "address", "unit")


@lru_cache(maxsize=1)
def _terms() -> frozenset[str]:
    return frozenset(w for terms in whitelist().values() for t in terms for w in re.split(r"[ -]", t))


@lru_cache(maxsize=1)
def _towns() -> frozenset[str]:
    return frozenset(w for place in places() for w in place.split() if len(w) > 3)


@lru_cache(maxsize=100_000)
def _sort(word: str) -> int:
    """What a word with a capital is: 0 one that stays, 1 a common word, 2 one that is rare, borne or a town's."""
    lower = word.lower().rstrip(".").removesuffix("'s")
    parts = [p for p in re.split(r"[-&']", lower) if len(p) > 1]
    if not parts or lower.startswith("xx"):
        return 0  # a letter alone, a hole
    borne = max(names().get(lower, "00U")[:2])
    if lower in _STAYS or all(p in _terms() for p in parts):
        return 0
    if word.isupper() and len(word) < 7:
        return 0  # letters may stand for anything; other rules and the tagger know more
    rank = vocabulary().get(lower, "0")
    if rank == "3" and borne < "2":
        return 0
    if rank > "1" and borne < "3":
        return 1
    return 0 if is_medical(lower) and borne < "2" else 2


def led(text: str, spans: list[Span]) -> list[Span]:
    """``spans``, which are in order, and phrases with capitals that are none of them yet; where both overlap, they are
    one. What somebody is, at the head of a sentence, is no name: "Stockman with a cough".
    """
    if text.islower() or text.isupper():
        return spans
    spans = [s for s in spans if not (s.why == "tagger" and s.category == "name" and _is_role(text, s))]
    ends = [s.end for s in spans]
    found: list[Span] = []
    for match in _DAY_OF.finditer(text):
        if not match["phrase"] or _feast(match["phrase"]):
            found.append(Span(*match.span(), "date", 0.8, "day by what went on"))
    for match in _NAMED_DAY.finditer(text):
        if any(_sort(w) > 1 or w.endswith(("'s", "s'")) for w in match["phrase"].split()):
            found.append(Span(*match.span(), "date", 0.8, "day by its name"))
    for match in _TURN.finditer(text):
        if _feast(match["phrase"]):
            found.append(Span(*match.span(), "date", 0.8, "feast of another year"))
    for match in _LED.finditer(text):
        if span := _led(match, spans, ends):
            found.append(span)
    for match in _EPONYM.finditer(text):
        word = match["phrase"].lower()
        if word in whitelist()["eponyms"] and (match["the"] or word in places()):
            found.append(Span(*match.span("phrase"), "institution", 0.7, "house behind an article"))
    return _united(text, spans, found) if found else spans


def _led(match: re.Match[str], spans: list[Span], ends: list[int]) -> Span | None:
    """What the phrase of a match is, by the word that leads to it; none if it is nothing or is found already."""
    word, small = match["word"].lower(), match["small"].split()
    if word in _PEOPLE and not small:
        if place := _named(match, 1 if match["given"] else 2, spans, ends):
            end = place[1]
            if match["given"] and end == match.end("phrase") and _sort(match["given"][2:]) > 0:
                end = match.end("given")
            return Span(place[0], end, "name", 0.8, "behind what somebody is")
        return None
    if word in _BUSINESS and (place := _named(match, 1, spans, ends)):
        return Span(*place, "institution", 0.8, "behind a word for business")
    if (word in _LIVES or word in _HOME) and (place := _named(match, 1 if word in _LIVES else 2, spans, ends)):
        end = match.end("number") if match["number"] else place[1]
        return Span(place[0], end, "location", 0.8, "behind a word for a home")
    lead = small[-1] if small else word
    if lead in _PLAIN:
        if match["the"] and match["kind"] and _firm(match["phrase"], 2):
            return Span(match.start("phrase"), match.end("kind"), "institution", 0.7, "house by its kind")
        if place := _named(match, 2 if lead in _WHERE else 3, spans, ends):
            return Span(*place, "institution", 0.7, "capital inside a sentence")
    return None


def _is_role(text: str, span: Span) -> bool:
    word = text[span.start : span.end].lower()
    return (
        word in _PEOPLE
        and _GOES_ON.match(text, span.end) is not None
        and _OPENS.search(text, max(0, span.start - 2), span.start) is not None
    )


def _named(match: re.Match[str], least: int, spans: list[Span], ends: list[int]) -> tuple[int, int] | None:
    """Where the phrase of a match stands, without words at its edges that stay, if it names something that is in none
    of the ``spans``.
    """
    words = [w for w in _PART.finditer(match.string, *match.span("phrase")) if w.group()[0].isupper()]
    while words and _sort(words[0].group()) == 0:
        words.pop(0)
    while words and _sort(words[-1].group()) == 0:
        words.pop()
    if not words:
        return None
    start, end = words[0].start(), words[-1].end()
    named = _firm(match.string[start:end], least) and _adds(match.string, start, end, spans, ends)
    return (start, end) if named else None


def _feast(phrase: str) -> bool:
    """Whether a phrase is what a day may be called by; a month or a weekday begins a date of its own."""
    if phrase.split()[0].lower().rstrip(".") in _DATED:
        return False
    return _firm(phrase, 1) or not blacklist()["dates"].isdisjoint(phrase.lower().split())


def _firm(phrase: str, least: int) -> bool:
    """Whether a phrase with capitals names something: from one word that is no term (1) or rare (2), or only from two
    words (3).
    """
    sorts = [_sort(w) for w in phrase.split() if w[0].isupper()]
    if not sorts or max(sorts) == 0:
        return False
    if least == 1:
        return True
    plain = sum(s > 0 for s in sorts)
    return (max(sorts) > 1 and (least < 3 or len(sorts) > 1)) or (plain > 1 and plain == len(sorts))


def _united(text: str, spans: list[Span], found: list[Span]) -> list[Span]:
    """Both lists as one. A phrase takes in names and places that lie in it or over its edge, and stops before all else;
    a day takes in everything.
    """
    out: list[Span] = []
    at = 0
    for new in _apart(found):
        while at < len(spans) and spans[at].end <= new.start:
            out.append(spans[at])
            at += 1
        start, end, category, why = new.start, new.end, new.category, new.why
        if out and out[-1].end > start:
            start = out[-1].end
        whole = False
        while at < len(spans) and spans[at].start < end:
            other = spans[at]
            if other.category in _PLACED or (category == "date" and other.category in ("date", "time")):
                if (joint := _JOINT.match(text, other.end)) and end > other.end and other.start <= start:
                    out.append(other)  # "Ann Lee of Vera Smile", "Leeds and Mercy Hospital": two
                    start = joint.end()
                    at += 1
                    continue
                whole = whole or (other.start <= start and other.end >= end)
                start, end = min(start, other.start), max(end, other.end)
                if other.category in ("name", "staff") and category != "date":
                    category, why = other.category, other.why
            elif other.start <= start:
                out.append(other)
                start = max(start, other.end)
            else:
                end = other.start
                break
            if whole:
                category, why = other.category, other.why
            at += 1
        kept = (_EDGES if category != "date" else _SIGNS).fullmatch(text, start, end)
        if kept and kept["v"]:
            out.append(Span(*kept.span("v"), category, new.score, why))
    return out + spans[at:]


def _adds(text: str, start: int, end: int, spans: list[Span], ends: list[int]) -> bool:
    """Whether a word of a phrase that is no term stands in none of the spans, whose ``ends`` are given."""
    at = bisect_right(ends, start)
    for word in _PART.finditer(text, start, end):
        while at < len(spans) and spans[at].end <= word.start():
            at += 1
        if (
            word.group()[0].isupper()
            and _sort(word.group()) > 0
            and (at == len(spans) or spans[at].start > word.start())
        ):
            return True
    return False


_SIGNS = re.compile(r"[\W_]*(?P<v>.*?)[\W_]*", re.DOTALL)
_JOINT = re.compile(r" (?:of|and|&) ")
#: A phrase without signs and small words at its edges, once others have taken their part.
_EDGES = re.compile(rf"(?:[\W_]+|{_SMALL} )*(?P<v>.*?)(?: {_SMALL}|[\W_]+)*", re.DOTALL)


def _apart(found: list[Span]) -> list[Span]:
    """Spans in order; of two that overlap the day is kept, or both are one."""
    out: list[Span] = []
    for span in sorted(found):
        if not out or out[-1].end <= span.start:
            out.append(span)
        elif span.category == "date" and out[-1].category != "date":
            last = out.pop()
            if last.start < span.start and last.end <= span.end:
                out.append(last._replace(end=span.start))
            out.append(span)
        elif out[-1].category != "date" or span.category == "date":
            out[-1] = out[-1]._replace(end=max(out[-1].end, span.end))
    return out
