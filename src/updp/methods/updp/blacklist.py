"""Which words of a vision-language model's vocabulary a prompt may use.

The lists are the report filter's own (``updp.reports.lexicon``): what may never leave is blocked, what must survive is
favoured, and a word that is in neither list and in no English or radiology word list is blocked too. Pieces of words
are blocked as a rule: two harmless pieces can spell a name, and a list of tokens cannot see that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from updp.reports import lexicon

if TYPE_CHECKING:
    from torch import Tensor


#: Opening and closing tokens of the text towers updp knows: BERT's, and CLIP's under both spellings.
_FRAMES = (("[CLS]", "[SEP]"), ("<|startoftext|>", "<|endoftext|>"), ("<start_of_text>", "<end_of_text>"))


#: What parts two sentences of a prompt.
STOP = "."


class VocabularyError(ValueError):
    """The vocabulary cannot serve: nothing is allowed, or the lists do not fit it."""


@dataclass(frozen=True)
class Piece:
    """A token as text: ``opens`` a word, ``closes`` it, or both (a whole word)."""

    text: str
    opens: bool
    closes: bool

    @property
    def whole(self) -> bool:
        return self.opens and self.closes


def piece_of(token: str, style: str) -> Piece:
    """A token of a WordPiece (``##``), CLIP (``</w>``) or byte-level (``Ġ``) vocabulary as text."""
    if style == "clip":
        return Piece(token.removesuffix("</w>"), True, token.endswith("</w>"))
    if style == "byte":
        return Piece(token.removeprefix("Ġ"), token.startswith("Ġ"), False)
    return Piece(token.removeprefix("##"), not token.startswith("##"), True)


class Vocabulary:
    """The tokens of a vlm, what each may do, and the way from text to ids and back."""

    def __init__(
        self,
        vlm: Any,
        *,
        block: Iterable[str] = (),
        allow: Iterable[str] = (),
        pieces: bool = False,
        lists: bool = True,
    ) -> None:
        """Without ``lists`` every token but the frame's is allowed and none is favoured: the setting of the paper's
        tables without semantic lists, for a baseline."""
        import torch

        self.tokenizer = vlm.tokenizer
        table = _token_ids(self.tokenizer)
        size = len(vlm.token_table)
        style = _style(table)
        self.tokens = [""] * size
        for token, index in table.items():
            if index < size:
                self.tokens[index] = token
        self.pieces = [piece_of(token, style) for token in self.tokens]
        self.style = style
        self.words = Words(block, allow)
        special = {index for token, index in table.items() if _is_special(token)}
        blocked, favoured = [], []
        for index, piece in enumerate(self.pieces):
            word = piece.text.lower()
            closed = piece.whole if style != "byte" else piece.opens
            usable = index not in special and (closed or pieces) and word.isascii() and word.isalpha() and len(word) > 1
            favoured.append(usable and word in self.words.favoured)
            blocked.append(not usable or not (self.words.allowed(word) if closed else self.words.harmless(word)))
        if not lists:
            blocked = [index in special or not token for index, token in enumerate(self.tokens)]
            favoured = [False] * size
        self.blocked: Tensor = torch.tensor(blocked)
        self.favoured: Tensor = torch.tensor(favoured) & ~self.blocked
        if bool(self.blocked.all()):
            raise VocabularyError("the lists block every token of the vocabulary; nothing is left to write with")
        if lists and not bool(self.favoured.any()):
            raise VocabularyError("no whitelist term is in the vocabulary of this vlm; the lists do not fit it")
        self.opening, self.closing = _frame_ids(self.tokenizer)
        #: The full stop: it parts sentences of the record, and no search may choose it. None where there is none.
        self.stop = next((i for i, piece in enumerate(self.pieces) if piece.text == STOP and piece.whole), None)

    @cached_property
    def allowed(self) -> Tensor:
        """Ids of the tokens that may be used, ascending."""
        return (~self.blocked).nonzero()[:, 0]

    @cached_property
    def stable(self) -> Tensor:
        """Which tokens come back as themselves when they are written out and read again (whole words do)."""
        import torch

        same = torch.zeros(len(self.tokens), dtype=torch.bool)
        for index in self.allowed.tolist():
            same[index] = self.encode(self.pieces[index].text) == [index]
        return same

    def favoured_among(self, words: Iterable[str]) -> Tensor:
        """Ids of the favoured tokens that are one of these words, ascending."""
        import torch

        wanted = frozenset(words)
        found = [index for index in self.favoured.nonzero()[:, 0].tolist() if self.pieces[index].text.lower() in wanted]
        return torch.tensor(found, dtype=torch.long)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without the frame."""
        found = self.tokenizer.encode(text)
        ids = list(found.ids if hasattr(found, "ids") else found)
        frame = {self.opening, self.closing}
        return [index for index in ids if index not in frame]

    def spell(self, ids: Sequence[int]) -> tuple[str, list[tuple[int, int]]]:
        """The text of ids, and where in it each token stands."""
        text, spans, glued = "", [], True
        for index in ids:
            piece = self.pieces[index]
            if not glued and piece.opens and text:
                text += " "
            start = len(text)
            text += piece.text
            spans.append((start, len(text)))
            glued = not piece.closes if self.style == "clip" else False
        return text, spans


class Words:
    """Decides about single words by the shipped lists and the user's own."""

    def __init__(self, block: Iterable[str] = (), allow: Iterable[str] = ()) -> None:
        private = [*lexicon.blacklist().values(), *lexicon.prompt_blacklist().values()]
        self.blocked = _words(private, phrases=False) | _words([block], phrases=True)
        terms = dict(lexicon.whitelist())
        eponyms = terms.pop("eponyms", frozenset())  # the name in "Smith fracture" is a name by itself
        favoured = _words([*terms.values(), allow], phrases=True) | _words([eponyms], phrases=False)
        self.favoured = favoured - self.blocked

    def allowed(self, word: str) -> bool:
        """Whether a whole word may stand in a prompt: known, and neither private nor a name or place."""
        word = word.lower()
        if word in self.blocked:
            return False
        if word in self.favoured:
            return True
        use = lexicon.vocabulary().get(word)
        if use is None:
            return False  # what no list knows may be anything
        named = lexicon.names().get(word)
        is_name = named is not None and named[:2] != "00"
        return use == "3" or not (is_name or word in lexicon.places())

    def harmless(self, piece: str) -> bool:
        """Whether a piece of a word may stand in a prompt that is checked again as text."""
        return piece.lower() not in self.blocked and lexicon.names().get(piece.lower()) is None


def _words(groups: Iterable[Iterable[str]], *, phrases: bool) -> frozenset[str]:
    """The words of lists whose entries may be phrases. Of the blacklist's they do not count: "date of birth" must not
    block "of"."""
    words: set[str] = set()
    for group in groups:
        for term in group:
            parts = term.lower().replace("-", " ").replace("/", " ").split()
            if len(parts) == 1 or phrases:
                words.update(parts)
    return frozenset(words)


def _token_ids(tokenizer: Any) -> dict[str, int]:
    if hasattr(tokenizer, "get_vocab"):
        return dict(tokenizer.get_vocab())
    if hasattr(tokenizer, "encoder"):  # open_clip's own tokenizer
        return dict(tokenizer.encoder)
    inner = getattr(tokenizer, "tokenizer", None)  # open_clip's wrapper around a transformers tokenizer
    if inner is not None:
        return dict(inner.get_vocab())
    raise VocabularyError("the vlm's tokenizer does not give its vocabulary")


def _style(table: dict[str, int]) -> str:
    if any(token.startswith("##") for token in table):
        return "wordpiece"
    if any(token.endswith("</w>") for token in table):
        return "clip"
    return "byte" if any(token.startswith("Ġ") for token in table) else "wordpiece"


def _is_special(token: str) -> bool:
    return (token.startswith("[") and token.endswith("]")) or (token.startswith("<") and token.endswith(">"))


def _frame_ids(tokenizer: Any) -> tuple[int, int]:
    table = _token_ids(tokenizer)
    for opening, closing in _FRAMES:
        if opening in table and closing in table:
            return table[opening], table[closing]
    raise VocabularyError("the vlm's tokenizer has no opening and closing token that updp knows")
