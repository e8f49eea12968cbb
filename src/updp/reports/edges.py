"""What belongs to a span at its edges, so that nothing is left to mark the hole.

A name takes its titles, credentials, particles, initials and a surname of two letters with it ("Dr. Okafor",
"John Smith, MD, PhD", "Jan van der Berg", "Anita P."), a place the state behind it ("Austin TX", "Boise, ID 83702").
Whatever is also a word, a view or a modality ("PA", "CT", "do") is taken only where nothing goes on behind it.
"""

from __future__ import annotations

import re

from updp.reports.checks import NO_STATE, digits, typed_initials
from updp.reports.lexicon import blacklist, countries, names, vocabulary, whitelist, word_class
from updp.reports.words import Span

_TITLES = "|".join(sorted(word_class("span_titles"), key=len, reverse=True))
_CREDENTIALS = "|".join(sorted(map(re.escape, word_class("span_credentials")), key=len, reverse=True))
_ALL_CREDENTIALS = word_class("span_credentials")
#: What may stand behind a name and a comma without being where the person works.
_NO_HOUSE = (
    word_class("services")
    | word_class("name_fields")
    | word_class("never_names")
    | frozenset(t for terms in blacklist().values() for t in terms)
    | frozenset(t for terms in whitelist().values() for t in terms)
)
_PARTICLES = "|".join(sorted(word_class("span_particles"), key=len, reverse=True))
_STATES = "|".join(sorted(word_class("state_codes")))
#: Titles that are also a relative, an office or a word: only a capital makes one of them.
_CAPITAL_TITLES = "|".join(sorted((w.capitalize() for w in word_class("capital_titles")), key=len, reverse=True))
_BEFORE = re.compile(rf"(?<![\w-])(?:(?:(?i:{_TITLES})|{_CAPITAL_TITLES})(?:\.[ \t\n]{{0,2}}|[ \t\n]{{1,2}})){{1,3}}$")
_TITLED = re.compile(rf"(?:(?:(?i:{_TITLES})|{_CAPITAL_TITLES})(?:\.[ \t\n]{{0,2}}|[ \t\n]{{1,2}})){{1,3}}")
_KIN_TITLES = frozenset(["Sister", "Brother", "Father"])
_KIN_DOES = re.compile(r" (?:is|was|has|had|lives|lived|died|aged|works|worked|drives)\b")
_SPLIT_TITLE = re.compile(r"(?<![\w-])(?:D r|M r|M rs|M s)\.? $")
_BEHIND = re.compile(
    rf"(?:[ ]{{0,2}},[ \t\n]{{0,2}}|[ ]{{1,2}}|[ ]?(?=\())"
    rf"(?:\(?(?:{_CREDENTIALS})\)?(?:-[A-Z]{{1,3}}\b|\([A-Za-z]{{1,5}}\))?(?![\w'-])"
    r"|\(?(?:[A-Z]\.[ ]?){2,5}\)?(?![\w'-])"
    r"|\(?(?:Ph|Pharm|Psy|Ed)\.?[ ]?D\b\.?\)?|(?:Jr|Sr)\b\.?|(?:II|III|IV)\b)"
    r"|[ ]{0,2},?[ ]{1,2}(?:md|rn|phd|m\.d\.|r\.n\.)(?![\w'-])",
)
#: Credentials that are also a word or a view.
_DOUBTFUL = re.compile(r"[, ]{1,4}(?:PA|RT|NP|MA|MS|IV|OT|PT|DC|OD|BA)$")
_GOES_ON = re.compile(r"[ ]{1,2}[a-z/&]|[ ]?[/&-]")
#: "Ludwig" before "van der Berg", "van der Berg" behind "Ludwig".
_HEAD = re.compile(rf"(?<![\w.])([A-Z][a-z]{{1,20}})[ ](?:(?:{_PARTICLES})[ -]){{0,3}}$")
_PARTICLED = re.compile(rf"[ ](?:(?:{_PARTICLES})(?:[ ]|(?<=al)-|(?<=el)-)){{1,3}}[A-Z][\w'-]{{1,25}}")
#: A name that ends in a particle goes on.
_LEFT_OPEN = re.compile(rf"[ ](?:{_PARTICLES})$")
_SURNAME = re.compile(r"[ ][A-Z][\w'-]{1,25}")
_SHORT = re.compile(r"[ ]([A-Z][a-z])(?!\w|'(?!s\b))")
_INITIAL = re.compile(r"[ ](?:([A-HJ-Z])(?:\.|(?=[ ][a-z])|(?=[,;)\n]|$))|I(?:\.|(?=[,;)\n]|$)))(?!\w)")
#: What stands behind a name: "Yasukazu No in room 3" is one, "Yasukazu No effusion" is none.
_ENDS = re.compile(r"[.,;)\n]|$| (?:in|at|on|and|who|from|to|of|says|said|rang|called|reports)\b")
_ALNUM = re.compile(r"[^\W_]+")
_BROKEN = re.compile(r"-\n([a-z]{2,12})(?![\w-])")
_NO_SURNAME = word_class("two_letters") - frozenset(["pa", "be", "my", "us", "up", "am", "go", "so", "ap"])
_NO_GIVEN = word_class("services") | word_class("months") | word_class("weekdays")
#: What stands before a name and a comma inside a sentence and is no surname.
_NO_BEARER = _NO_GIVEN | word_class("roles") | word_class("kin") | word_class("name_fields") | word_class("never_names")
_NO_FIRM = (
    _NO_GIVEN
    | word_class("states")
    | word_class("name_fields")
    | word_class("titles")
    | word_class("kin")
    | frozenset(t for terms in blacklist().values() for t in terms) - word_class("institution_words")
)
_EPONYMS = frozenset(t for t in whitelist()["eponyms"] if " " not in t)
#: Words that are no half of a name although they have a capital.
_NO_HALF = (
    _NO_HOUSE
    | word_class("roles")
    | word_class("kin")
    | word_class("titles")
    | word_class("institution_words")
    | word_class("street_words")
    | word_class("months")
    | word_class("weekdays")
    | word_class("cues")
    | word_class("eponym_heads")
    | word_class("states")
)
_STATE = re.compile(rf"(?:,[ ]{{0,2}}|[ ]{{1,2}})(?:{_STATES})(?![\w-])(?:,?[ ]{{1,2}}\d{{5}}(?:-\d{{4}})?(?!\d))?")
_ZIP = re.compile(r"(?:,[ ]?|[ ]{1,2})\d{5}(?:-\d{4})?(?![\d-]|\.\d|[ ]?(?:mg|ml|mm|cm|units)\b)")
#: State codes that are also a view, a modality or a word, and what shows that one of these is meant.
_STATE_OR = re.compile(r"[, ]{1,3}(?:CT|PA|MS|MD|OR|ID)$")
_STATE_NAMES = word_class("states")
_STATE_CODES = word_class("state_codes")
#: The town before its state, and what may stand behind a town as a part of its name.
_TOWN = re.compile(r"(?<![\w.-])(?:(?!(?:In|From|At|Of|To|Near|Lives|Visiting|The)\b)[A-Z][a-z'.-]+(?: |,? $)){1,3}$")
_HEADS_OF_TOWN = "|".join(sorted(w.capitalize() for w in word_class("town_heads")))
_KINDS_OF_TOWN = frozenset(w.capitalize() for w in word_class("town_kinds"))
_HEAD_OF_TOWN = re.compile(rf"(?<![\w.-])(?:{_HEADS_OF_TOWN}) $")
_KIND_OF_TOWN = re.compile(rf"(?: (?:{'|'.join(sorted(_KINDS_OF_TOWN))})){{1,2}}\b")
_FAR = 26
#: An initial that closes a clause.
_DOTTED = re.compile(r" [A-Z]\.?(?=[;,)]|$|\n| (?:who|and|at|on|says|rang)\b)")
#: Words with capitals behind a town, where the sentence ends or goes on small, are what the town gives its name to;
#: two of them behind a name are a firm's or a house's.
_FIRM = re.compile(r"((?: [A-Z][a-z]{2,14}){1,3})(?=[.,;:)\n]|$| [a-z(&]| \d)")
_FIRM_OF = re.compile(r"((?: [A-Z][a-z]{2,14}){2,3})(?=[.,;:)\n]|$| [a-z(&])")
#: Letters before the town of a university hospital.
_LETTERS_OF = re.compile(r"(?<!\w)(?:CHU|CHR|CHRU|UZ|AZ|ZNA|UMC|AOU|ASST|EOC|LKH|GHU|UKE) $")
#: What stands behind a name of one word and before one, with a capital inside a sentence, is the other half of it.
_OTHER_HALF = re.compile(r" ([A-Z][a-z]{2,15}(?:-[A-Z][a-z]{2,15})?)(?=[.,;)\n]|$| [a-z(])")
_FIRST_LISTED = re.compile(r"(?:(?<=[a-z] )|(?<=[a-z\d]: ))([A-Z][a-z]{2,15}), $|(?:^|\n|[.;] )([A-Z][a-z]{2,15}), $")
_OPENING_HALF = re.compile(r"(?:^|[.\n] )([A-Z][a-z]{2,15})( [A-Z]\.)? $")
_FIRST_HALF = re.compile(
    r"(?:(?<=[a-z,;(\"] )|(?<=[^A-Z\W\d]: )|(?<!\w)(?:Dr|Prof|Mrs?|Ms|Miss)\.? )([A-Z][a-z]{2,15})(?: [A-Z]\.)? $"
)
_FIRST_CAPITALS = re.compile(r"(?:[a-z] |[:;] |^|\n)([A-Z]{3,15}), $")
#: The given name behind a surname and a comma.
_GIVEN_BEHIND = re.compile(r", ([A-Z][a-z]{1,14})(?=[.,;:)\n]|$| [a-z\d(+]|'s )")
_UP_TO_A_SPAN = re.compile(r" ([A-Z][a-z]{2,15})(?= $)")
_INITIALLED = re.compile(r" [A-Z]\. ([A-Z][a-z]{2,15})(?=[.,;)\n]|$| [a-z(])")
#: What stands before the number of a house.
_PLOT = re.compile(r"(?<![\w-])(?:Plot|Lot|Flat|Unit|Blk|Block|House|Apt|Room|Shop|Villa|Door|Suite)(?: No\.?)? #?$")
#: The number of a house before the name of a street, and somebody before where he is of.
_HOUSE_NUMBER = re.compile(r"(?:(?:on|at|of|in|to|from|near|lives|lived|address)[:,]? |^|\n)(\d{1,6}[A-Za-z]?) $")
_SOMEBODY_OF = re.compile(r"(?:[a-z]|[,;(]) ([A-Z][a-z]{2,15}(?: [A-Z][a-z]{2,15})?) of $")
#: What stands between two days of a list: "Kirrawee Secondary 05/28/75, Frankberg Secondary 06/01/75".
_ITEM = re.compile(r", ((?:[A-Z][a-z][\w'.&-]{0,20} ){1,4})$")
#: A saint or a house before its name, and a town's further words: "Hospital of St. Ives", "Frinton-on-Sea".
_SAINT = re.compile(r"(?<![\w.])(?:St|Saint|Ste|Mt|Ft)\.? $")
_HOUSE_OF = re.compile(
    r"(?<![\w-])(?:(?:The )?[A-Z][a-z]+ )?(?:Hospital|Infirmary|Hospice|Church|Clinic|Convent|Priory|Abbey|Sisters|"
    r"Brothers|School|College|University|Our Lady|Friends) of (?:the )?$"
)
_HYPHENED = re.compile(r"(?:-(?:[A-Z][a-z]{1,15}|on|upon|le|la|by|in|under|the|de|sur|en|am))+(?!\w)")
_SMALL_HALF = re.compile(r"-([a-z]{3,12})(?![\w-])")
_PLAIN_HOUSE = re.compile(r" (?:Central|General|Royal|Regional|Memorial|District)(?=[.,;:)\n]|$| [a-z(])")
#: The towns before a country or a state: "in Sandy Beach, Kenya".
_TOWN_BEFORE = re.compile(r"(?<![\w.-])((?:[A-Z][a-z'-]{1,15} ){0,2}[A-Z][a-z'-]{1,15}), $")
#: The house or firm somebody is of.
_OF_HOUSE = re.compile(
    r" of ((?:St\.? )?[A-Z][\w'-]{1,15}(?: (?:(?:of|and|&|de|la|on|upon|the) )?[A-Z][\w'-]{1,15}){0,3})"
    r"(?=[.,;:)\n]|$| [a-z(])"
)


#: An age between a name and a comma or in brackets behind it; initials that end a line behind a date or a time.
_AGE = re.compile(
    r"(?:,? \(|, )(9\d|1[0-2]\d)(?=[,;)]|/[MF]\b|[ ](?:y|yrs?|years)\b)| is (9\d|1[0-2]\d)(?= and |,|\.| now)"
)
_HOUSE = re.compile(r"(?:, | \()([A-Z]{3,6}(?![\w'/-])|[A-Z][a-z]{3,15}(?:'s)?(?=[.;]?(?:\n|$)))")
_TYPED = re.compile(r"[ ]?[/:][ ]?([a-z]{2,3})(?=[.,;)]|[ \t]*(?:$|\n)|[ ]\d|[ ]{2}|/)")
#: Initials behind the number of a letter, and before a time or a day.
_REFERENCE = re.compile(r"/([a-z]{2,3})(?=[ \t]*(?:$|\n))")
_WRITTEN = re.compile(r"(?:^|[\n.;,:)a-z] ?)(?<![\w'-])([a-z]{2,3})[,]? $")
#: Initials between commas or at the beginning of a line before a date, or before what was done on it: whatever letters.
_SET_OFF = re.compile(r"(?:(?:^|\n)([a-z]{2}) |[,;] ([a-z]{2}), ?)$")
_DONE = re.compile(
    r"(?<![\w'-])([a-z]{2,3}), (?:circulated|typed|sent|dictated|printed|filed|checked|scanned|posted|faxed|issued|"
    r"entered|signed|logged|transcribed|keyed|emailed) (?:on )?$"
)
_FULL_DATE = re.compile(r"\D*\d{1,4}[ :,./-]")
#: Initials that end a note behind a full stop or what was done.
_LAST = re.compile(r"(?:[a-z]ed|[a-z)%][.;]) ([a-z]{2})\.?\s*$")
#: Letters behind a day that are nobody's initials even where somebody typed.
_NO_TYPIST = frozenset(
    ["am", "pm", "at", "in", "on", "by", "to", "is", "as", "or", "of", "no", "it", "we", "he", "an", "and", "for"]
)
_MODALITIES = frozenset(["ct", "mr", "xr", "cr", "us", "dx", "mri", "cxr", "kub"])
_TYPING = re.compile(
    r"(?:typed|transcribed|dictated|keyed|entered|coded|closed|opened|signed|checked|logged|filed)[ \w]{0,12}$",
    re.IGNORECASE,
)
#: A grouped number behind a name, and a town behind a street.
_RECORD = re.compile(r" \(?(\d{1,4}(?:[ /.-]\d{2,6}){1,3})(?![\d/.-]*\d|[ ]?(?:m[gl]|mm|cm|units|h\b))")
_CITY = re.compile(
    r", ((?:\d{3,6}(?: \d{2,3})?,? )?[A-Z][a-z'.-]{2,20}(?: [A-Z][a-z'.-]{1,20}){0,2})"
    r"(?=[,.;\n]|$| (?:on|with|in|since|and|by)\b| \d{5}| [A-Z]{2}\b)"
)
_BRACKETED = re.compile(r" \((?:(9\d|1[0-2]\d)|([a-z]{2,3}))(?=\))")
_SIGNED = re.compile(r"(?:[ ]{1,3}|[ ]?/[ ]?|, )([a-z]{2,3})(?=\.?[ \t]*(?:$|\n)|, [a-z]{3,9}ed\b)")


def beside(text: str, spans: list[Span]) -> list[Span]:
    """``spans``, which are in order, and what is an identifier only because it stands behind one of them."""
    out: list[Span] = []
    reach = len(text)
    last = _LAST.search(text, max(0, reach - 12))
    if last and typed_initials(last[1]) and not (spans and spans[-1].end > last.start(1)):
        out.append(Span(*last.span(1), "username", 0.8, "initials at the end"))
        reach = last.start(1)
    for span in reversed(spans):
        behind = span.end
        if behind < reach and text[behind] in " ,/:":
            if span.category == "name" or span.category == "staff":
                found, category, why = _AGE.match(text, behind, reach), "age", "age behind a name"
                if not found and (signed := _TYPED.match(text, behind, reach)) and typed_initials(signed[1]):
                    found, category, why = signed, "username", "initials behind a name"
                if not found and (found := _HOUSE.match(text, behind, reach)):
                    category, why = "institution", "letters behind a name"
                    word = found[1].lower().removesuffix("'s")
                    sure = span.category == "staff" or span.why != "tagger"
                    if (
                        not sure
                        or vocabulary().get(word, "0") > "1"
                        or word in _NO_HOUSE
                        or found[1] in _ALL_CREDENTIALS
                    ):
                        found = None
                if not found and (found := _OF_HOUSE.match(text, behind)):
                    category, why = "institution", "behind somebody of"
                    if found.end() > reach or not any(map(_is_half, found[1].split())):
                        found = None
                if not found and (found := _RECORD.match(text, behind, reach)) and digits(found[1]) > 5:
                    category, why = "mrn", "number behind a name"
                elif found and found.re is _RECORD:
                    found = None
            elif span.category == "address":
                found, category, why = _CITY.match(text, behind, reach), "location", "town behind a street"
                if found and all(w.lower() in _NO_HOUSE for w in found[1].split() if w.isalpha()):
                    found = None
            elif span.category == "mrn" or span.category == "id":
                found, category, why = _BRACKETED.match(text, behind, reach), "age", "age behind a number"
                if not found and (signed := _REFERENCE.match(text, behind)):
                    found, category, why = signed, "username", "initials behind a number"
                if found and found.re is _BRACKETED and found[2]:
                    category, why = "username", "initials behind a number"
                    found = found if typed_initials(found[2]) else None
            elif span.category == "date" or span.category == "time":
                found, category, why = _SIGNED.match(text, behind), "username", "initials behind a date"
                if found and not typed_initials(found[1]):
                    typed = _TYPING.search(text, max(0, span.start - 24), span.start)
                    slashed = "/" in text[behind : found.start(1)]
                    # It ends the note and is no modality.
                    alone = typed or (found.end(1) + 2 > len(text) and found[1] not in _MODALITIES)
                    found = found if slashed or (alone and found[1] not in _NO_TYPIST) else None
            else:
                found = None
            if found and found.end() <= reach:
                out.append(Span(*found.span(found.lastindex or 0), category, 0.85, why))
        out.append(span)
        reach = span.start
        if span.category == "institution" and text[reach - 4 : reach] == " of ":
            somebody = _SOMEBODY_OF.search(text, max(0, reach - 40), reach)
            if somebody and all(map(_is_half, somebody[1].split())):
                out.append(Span(*somebody.span(1), "name", 0.85, "somebody of a house"))
                reach = somebody.start(1)
        if reach > 2 and (span.category == "date" or span.category == "time") and text[reach - 1] == " ":
            written = _WRITTEN.search(text, max(0, reach - 8), reach)
            if not (written and typed_initials(written[1])):
                written = _SET_OFF.search(text, max(0, reach - 7), reach)
                if written and written[written.lastindex or 0] in _NO_TYPIST:
                    written = None
            if not written and (done := _DONE.search(text, max(0, reach - 26), reach)) and done[1] not in _NO_TYPIST:
                written = done
            if written and _FULL_DATE.match(text[span.start : span.end] + " "):
                at = written.span(written.lastindex or 0)
                out.append(Span(*at, "username", 0.85, "initials before a date"))
                reach = at[0]
            elif (item := _ITEM.search(text, max(0, reach - 60), reach)) and _is_item(text[item.start() - 1], item[1]):
                out.append(Span(item.start(1), item.end(1) - 1, "institution", 0.85, "between two days of a list"))
                reach = item.start(1)
    out.reverse()
    return out


def widen(text: str, spans: list[Span]) -> list[Span]:
    """``spans``, each with what belongs to it at its edges."""
    out: list[Span] = []
    reach = 0
    for i, span in enumerate(spans):
        start, end, category = span.start, span.end, span.category
        limit = spans[i + 1].start if i + 1 < len(spans) else len(text)
        if span.why.startswith("initials"):
            pass  # letters and nothing else
        elif category == "staff" or category == "name":
            if text[end : end + 1].isdigit():  # "Sm1th": the whole word is the name
                end = min(_ALNUM.match(text, end).end(), limit)  # type: ignore[union-attr]
            end = _name_end(text, start, end, limit)
            start, end = _halves(text, start, end, reach, limit)
            first = (
                _FIRST_LISTED.search(text, max(reach, start - 20), start) if text[start - 2 : start] == ", " else None
            )
            if first and _is_listed_before(first, text[start:end]):
                start = first.start(1) if first[1] else first.start(2)  # "the statements of Game, Eve"
            end = _like_a_town(text, start, end, limit)
            if text[start - 4 : start] == " of " and (house := _HOUSE_OF.search(text, max(reach, start - 40), start)):
                start = house.start()  # "College of West Jimchester"
            if start > reach:
                start = _name_start(text, start, end, reach)
        elif category == "location" or category == "institution":
            end = _place_end(text, end, limit)
            single = " " not in text[start:end]
            if end == span.end and single and (initial := _DOTTED.match(text, end, limit)):
                end = initial.end()  # "handed to Parukeri S."
            elif end == span.end and single and (initial := _INITIAL.match(text, end, limit)):
                end = initial.end() if _is_given(text[start:end]) else end  # "bloods from Sibyl T twice"
            elif end == span.end and single and (given := _GIVEN_BEHIND.match(text, end)) and _is_listed(given[1]):
                end = min(given.end(), limit)  # "handed to Cope, Holly"
            if category == "location" and start > reach:
                start = _place_start(text, start, text[start : span.end], reach)
            if start > reach and text[start - 1] == " ":
                if house := _SAINT.search(text, max(reach, start - 7), start):
                    start = house.start()  # "St. Joseph County Shipyard"
                if house := _LETTERS_OF.search(text, max(reach, start - 5), start):
                    start = house.start()  # "CHU Brest"
                if house := _HOUSE_OF.search(text, max(reach, start - 40), start):
                    start = house.start()  # "Hospital of St. Brannoc"
                elif text[reach:start] == " of " and out and out[-1].category == "institution":
                    start = reach  # "Our Lady of Castello Hospital"
            if start > reach and (titled := _BEFORE.search(text, max(reach, start - _FAR), start)):
                start = titled.start()  # "Dr Kitchen Thistledown Surgery", "Constable Montenegro"
            if text[end : end + 1] in " ," and (behind := _BEHIND.match(text, end, limit)):
                end = behind.end()  # "handed to Gjeki Shilumbu DO"
            if text[end - 4 : end] == ", MD" and (behind := _BEHIND.match(text, end, limit)):
                end = behind.end()  # "Doe, MD, PhD" is no town in Maryland
            if end == span.end and (particled := _PARTICLED.match(text, end, limit)):
                end = particled.end()  # "from Nazar bin Ilus"
        elif category == "address":
            if start > reach and (plot := _PLOT.search(text, max(reach, start - 14), start)):
                start = plot.start()
        elif category == "date":
            start, end = _date_edges(text, start, end, reach, limit)
        numbered = category in _STREETED and text[start - 1 : start] == " " and text[start - 2 : start - 1].isalnum()
        if (
            numbered
            and " " in text[start:end]
            and (number := _HOUSE_NUMBER.search(text, max(reach, start - 18), start))
        ):
            start, category = number.start(1), "address"  # "found on 047 Melody Orchard"
        if start != span.start or end != span.end:
            span = Span(start, end, category, span.score, span.why)
        reach = end
        out.append(span)
    return out


_BEFORE_DATE = re.compile(r"(?<![\w-])(?:(?:the|in|on) )?(?:early|late|mid|the)[ -]$", re.IGNORECASE)
_BEFORE_FEAST = re.compile(
    r"(?<![\w-])(?:(?:the|early|late|this) )?(?:last|next|past|previous|coming|other|following) $", re.IGNORECASE
)
_DAY_OF = re.compile(r"(?<![\w.])\d{1,2} $")
_YEAR_OF = re.compile(r" \d{4}(?![\w.])")
_UNIT_OF_TIME = re.compile(r"(?:last|next|previous|past|coming|other|this) ", re.IGNORECASE)
#: Ends of a date that count from the last or the next one.
_TURNED = ("before last", "after next", "before yesterday", "after tomorrow")
_WEEK = re.compile(r" week(?![\w-])")
_BEHIND_DAY = re.compile(
    r" (?:before last|after next)(?![A-Za-z])"
    r"| (?:before|prior|last|after)(?=[.;,)\n]|$| (?:from|in|with|by|at|and|for)\b)"
)


def _date_edges(text: str, start: int, end: int, reach: int, limit: int) -> tuple[int, int]:
    """A date with its apostrophe ("'09"), a relative one with what opens and ends it ("late last month", "the Friday
    before")."""
    if end - start < 4 and text[start - 1 : start] == "'":
        return start - 1, end
    if text[end - 3 : end] == "day" and _WEEK.match(text, end):
        end += 5  # "last Tuesday week"
    if text[start : start + 1].isupper() and text[start - 1 : start] == " " and start > reach:
        day, year = _DAY_OF.search(text, max(reach, start - 4), start), _YEAR_OF.match(text, end, limit)
        if day and year:
            return day.start(), year.end()  # "14 Ramadan 1440"
        turn = _BEFORE_FEAST.search(text, max(reach, start - 18), start)
        if turn:
            return turn.start(), end  # "last Diwali"
    if text[start : start + 1].isalpha() and text[start - 1 : start] in " -" and start > reach:
        before = _BEFORE_DATE.search(text, max(reach, start - 10), start)
        if before:
            behind = _BEHIND_DAY.match(text, end, limit)
            if behind or _UNIT_OF_TIME.match(text, start) or text[:end].endswith(_TURNED):
                return before.start(), behind.end() if behind else end
    return start, end


def _name_start(text: str, start: int, end: int, reach: int) -> int:
    low = max(reach, start - _FAR)
    head = _HEAD.search(text, low, start)
    if head and (head.end(1) + 1 < start or text[start:end].lower().startswith(_LED)) and _is_given(head[1]):
        start = head.start()
        low = max(reach, start - _FAR)
    before = _BEFORE.search(text, low, start) or _SPLIT_TITLE.search(text, low, start)
    if not before:
        return start
    titles = before.group().split()
    # "the doctor Dr. Okafor": what somebody is stands before the title
    if len(titles) > 1 and titles[0].islower():
        return before.start() + before.group().index(titles[1])
    kind = titles[-1].rstrip(".")
    if kind in ("doctor", "professor") and text[start].isupper():
        return start  # what somebody is, not how he is called: "the club doctor Ann Lee"
    if kind in _KIN_TITLES and _KIN_DOES.match(text, end):
        return start  # "Father Ion is 93": kin
    return before.start()


_LED = tuple(f"{p}{sign}" for p in sorted(word_class("span_particles")) for sign in " -")


#: Whose son, daughter or wife somebody is, as a part of the name.
_WHOSE = re.compile(r" (?:[swdcSWD]/[oO]|bin|binti?e?) [A-Z][a-z]{1,20}(?: [A-Z][a-z]{1,20}){0,2}")


def _name_end(text: str, start: int, end: int, limit: int) -> int:
    if text[end : end + 1] == " " and (whose := _WHOSE.match(text, end)) is not None:
        return whose.end()
    if text.startswith("-\n", end) and (broken := _BROKEN.match(text, end, limit)):
        end = broken.end()
    if text[end : end + 1] == " ":
        single = " " not in text[start:end]
        if not single and (titled := _TITLED.match(text, start, end)):
            single = " " not in text[titled.end() : end]  # "Dr Milena Pa"
        if _LEFT_OPEN.search(text, max(start, end - 12), end) and (surname := _SURNAME.match(text, end, limit)):
            end = surname.end()  # "Clemmie van den Parry"
        elif particled := _PARTICLED.match(text, end):
            end = min(particled.end(), limit) if particled.end() > limit else particled.end()
        elif (
            single
            and (short := _SHORT.match(text, end, limit))
            and (short[1].lower() not in _NO_SURNAME or _ENDS.match(text, short.end()))
        ):
            if _is_given(text[start:end]):
                end = short.end()
        elif single and (initial := _INITIAL.match(text, end, limit)) and _is_given(text[start:end]):
            end = initial.end()
    while (behind := _BEHIND.match(text, end, limit)) is not None:
        last = text[end : behind.end()]
        if _DOUBTFUL.match(last) and "," not in last and _GOES_ON.match(text, behind.end()):
            break
        end = behind.end()
    return end


#: Kinds of span that the name of a street is taken for.
_STREETED = ("name", "location", "institution")


def _halves(text: str, start: int, end: int, reach: int, limit: int) -> tuple[int, int]:
    """A name of one word with the other half beside it, which is a word: "of Pule Papailiou", "mother Zoya Winters". A
    capital inside a sentence is meant.
    """
    piece = text[start:end]
    titled = _TITLED.match(piece) if " " in piece else None
    one = (piece[titled.end() :] if titled else piece).partition(",")[0]
    if one[-2:-1] == " " and one[-1].isupper() and one.count(" ") == 1 and text[end : end + 2] == ". ":
        half = _OTHER_HALF.match(text, end + 1)  # "Obaayaa D. Shipping"
        return start, half.end() if half and half.end() <= limit and _is_half(half[1]) else end
    if " " in one or not one[:1].isupper():
        return start, end
    if one.isupper():
        first = _FIRST_CAPITALS.search(text, max(reach, start - 20), start) if len(one) > 2 and not titled else None
        if first and first[1].lower() not in _NO_HALF:
            start = first.start(1)
        return start, end
    if text[end : end + 1] == " ":
        half = _OTHER_HALF.match(text, end) or _INITIALLED.match(text, end) or _UP_TO_A_SPAN.match(text, end, limit)
        if half and half.end() <= limit and _is_half(half[1]):
            return start, half.end()
    alone = not titled and not _BEFORE.search(text, max(reach, start - _FAR), start)
    given = _GIVEN_BEHIND.match(text, end) if text[end : end + 1] == "," and alone else None
    if given and given.end() <= limit and _is_listed(given[1]):
        return start, given.end()
    if not titled and start > reach and text[start - 1] == " ":
        first = _FIRST_HALF.search(text, max(reach, start - 24), start)
        if first and _is_half(first[1]):
            return first.start(1), end
        first = _OPENING_HALF.search(text, max(reach, start - 24), start)
        if first and _is_half(first[1]) and (first[2] or vocabulary().get(first[1].lower(), "0") < "2"):
            return first.start(1), end
    return start, end


def _like_a_town(text: str, start: int, end: int, limit: int) -> int:
    """Where a name ends that is the one of a town: "to Grafton County", "North Louisborough, NV"."""
    if text[end : end + 1] == " ":
        if kind := _KIND_OF_TOWN.match(text, end, limit):
            return kind.end()
        firm = _FIRM_OF.match(text, end, limit)
        if firm and _NO_FIRM.isdisjoint(firm[1].lower().split()):
            return firm.end()  # "by Tuomisto Clinical Trials"
    if text[end : end + 2] == ", " and (state := _STATE.match(text, end, limit)) and not _STATE_OR.match(state.group()):
        return state.end()
    return end


def _is_listed_before(first: re.Match[str], piece: str) -> bool:
    """Whether the word before a comma is the surname to the given name behind it. A sentence also opens with words."""
    given = re.split(r"[ ,']", piece, maxsplit=1)[0].lower()
    word = (first[1] or first[2]).lower()
    if (names().get(given, "00U")[0] < "2" and vocabulary().get(given, "0") > "0") or word in _NO_BEARER:
        return False
    return first[1] is not None or names().get(word, "00U")[1] > "0"


def _is_item(before: str, piece: str) -> bool:
    """Whether what stands between a day and the next is a house."""
    words = piece.split()
    return before.isdigit() and any(map(_is_half, words)) and not any(w.lower() in _NO_GIVEN for w in words)


def _is_half(word: str) -> bool:
    """Whether a word with a capital can be half of a name: it is borne, or it is no word of every report."""
    word = word.lower().removesuffix("'s")
    if word in _NO_HALF and not (word in _EPONYMS and max(names().get(word, "00U")[:2]) > "0"):
        return False
    return vocabulary().get(word, "0") < "3" or max(names().get(word, "00U")[:2]) > "0"


def _is_listed(word: str) -> bool:
    """Whether a word with a capital behind a surname and a comma is the given name."""
    if word.lower() in _EPONYMS and names().get(word.lower(), "00U")[0] < "2":
        return False
    return _is_half(word) or (names().get(word.lower(), "00U")[0] >= "2" and word.lower() not in _NO_GIVEN)


def _is_given(word: str) -> bool:
    """Whether a word can be a given name, or no list of words has it."""
    word = word.lower()
    return names().get(word, "00U")[0] >= "1" or vocabulary().get(word, "0") == "0"


def _place_start(text: str, start: int, place: str, reach: int) -> int:
    """Where a place begins: a state takes the town before it, a town what stands before its name."""
    low = max(reach, start - 2 * _FAR)
    state = place in _STATE_CODES or (text[start - 2 : start] == ", " and place.lower() in _STATE_NAMES)
    if not state and text[start - 2 : start] == ", " and place.lower() in countries():
        town = _TOWN_BEFORE.search(text, low, start)
        return town.start(1) if town else start
    before = (_TOWN if state or place in _KINDS_OF_TOWN else _HEAD_OF_TOWN).search(text, low, start)
    return before.start() if before else start


def _place_end(text: str, end: int, limit: int) -> int:
    if text[end : end + 1] == "-" and (further := _HYPHENED.match(text, end)) and further.end() <= limit:
        end = further.end()  # "Frinton-on-Sea"
    elif text[end : end + 1] == "-" and (half := _SMALL_HALF.match(text, end)) and half.end() <= limit:
        end = half.end() if names().get(half[1], "00U")[0] > "0" else end  # "from Hans-ludwig"
    if house := _PLAIN_HOUSE.match(text, end, limit):
        return house.end()  # "Cohenland Central"
    if kind := _KIND_OF_TOWN.match(text, end, limit):
        end = kind.end()
    elif (firm := _FIRM.match(text, end, limit)) and _NO_FIRM.isdisjoint(firm[1].lower().split()):
        return firm.end()  # "Chapadinha Buses"
    state = _STATE.match(text, end, limit)
    if state:
        piece = state.group()
        if _STATE_OR.match(piece) and NO_STATE.match(text, state.end()):
            return end
        return state.end()
    zipped = _ZIP.match(text, end, limit)
    return zipped.end() if zipped else end
