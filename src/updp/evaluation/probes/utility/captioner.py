"""A captioner that learns in minutes on two cores: fixed maps of the pack's network, and a small transformer decoder.

It stands in for a large vision-language model in the report-generation experiment (`lora` is the real thing). The
decoder reads the places of a film as a sequence and writes tokens of the pack's tokenizer, of which it knows those
that its training reports use. It is Vaswani et al. 2017 with the norm before each part, and keeps keys and values
while it writes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from updp.core.global_state import seeded

#: Part of the key of what captioners wrote: raise it when one of the same settings would write something else.
EDITION = "captioner 3"
#: Tokens of the decoder itself, before those of the reports.
PAD, BEGIN, END, UNKNOWN = range(4)
#: How the length of reports is set: films written for, and the range of log odds halved so many times.
_LENGTH_FILMS, _MOST_ENDING, _HALVINGS = 64, 4.0, 6
_SENTENCE_START = re.compile(r"(?:^|(?<=[.!?] ))[a-z]")


@dataclass(frozen=True)
class CaptionerConfig:
    """How large a captioner is and how it learns; the same for every regime."""

    steps: int
    width: int = 96
    layers: int = 2
    heads: int = 4
    length: int = 64  # most tokens of a report, the end mark among them
    batch: int = 12
    rate: float = 4e-3
    decay: float = 0.02
    dropout: float = 0.1


class Vocabulary:
    """The tokens of the pack's tokenizer that training reports use; all others are unknown to the captioner."""

    def __init__(self, tokenizer: Any, reports: Sequence[str]) -> None:
        self.tokenizer = tokenizer
        special = {tokenizer.token_to_id(t) for t in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")}
        used = {i for report in reports for i in self._ids(report)} - special
        self.known = sorted(used)
        self.place = {token: i + UNKNOWN + 1 for i, token in enumerate(self.known)}

    def __len__(self) -> int:
        return len(self.known) + UNKNOWN + 1

    def _ids(self, report: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(report, add_special_tokens=False).ids
        return ids

    def encode(self, report: str, length: int) -> list[int]:
        """Begin mark, tokens and, where the report fits, end mark."""
        tokens = [self.place.get(i, UNKNOWN) for i in self._ids(report)]
        return [BEGIN, *tokens, END][: length + 1]

    def decode(self, tokens: Sequence[int]) -> str:
        text: str = self.tokenizer.decode([self.known[t - UNKNOWN - 1] for t in tokens if t > UNKNOWN])
        # The tokenizer knows small letters only; without capitals every first word would count as wrong in raw text.
        return _SENTENCE_START.sub(lambda m: m.group().upper(), text)


class _Layer(nn.Module):
    """Attention to what was written, attention to the film, and a perceptron."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.self_attn, self.self_attn_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.cross_attn_query, self.cross_attn_film, self.cross_attn_out = (
            nn.Linear(width, width),
            nn.Linear(width, 2 * width),
            nn.Linear(width, width),
        )
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)

    def _split(self, x: Tensor, parts: int) -> tuple[Tensor, ...]:
        n, length, _ = x.shape
        return x.reshape(n, length, parts, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)

    def places(self, film: Tensor) -> tuple[Tensor, ...]:
        """Keys and values of the film, which do not change while its report is written."""
        return self._split(self.cross_attn_film(film), 2)

    def forward(
        self, x: Tensor, places: tuple[Tensor, ...], past: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        def joined(heads: Tensor) -> Tensor:
            return heads.transpose(1, 2).flatten(2)

        q, k, v = self._split(self.self_attn(self.norms[0](x)), 3)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        causal = x.shape[1] > 1
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        x = x + self.drop(self.self_attn_out(joined(attended)))
        (q,) = self._split(self.cross_attn_query(self.norms[1](x)), 1)
        keys, values = places
        x = x + self.drop(self.cross_attn_out(joined(functional.scaled_dot_product_attention(q, keys, values))))
        x = x + self.drop(self.down(functional.gelu(self.up(self.norms[2](x)))))
        return x, (k, v)


class Film(NamedTuple):
    """A film as the decoder sees it."""

    whole: Tensor  # N x 1 x width, added to every word
    places: list[tuple[Tensor, ...]]  # keys and values, a layer each

    def repeated(self, times: int) -> Film:
        """Each film so many times over, for as many reports."""
        places = [tuple(t.repeat_interleave(times, 0) for t in kv) for kv in self.places]
        return Film(self.whole.repeat_interleave(times, 0), places)


class Decoder(nn.Module):
    """Maps of films, and the tokens written so far, to scores of the next token."""

    def __init__(self, channels: int, places: int, vocabulary: int, config: CaptionerConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.see = nn.Linear(channels, width)
        self.whole = nn.Linear(channels, width)
        self.where = nn.Parameter(torch.randn(places, width) * 0.02)
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(config.length, width) * 0.02)
        self.layers = nn.ModuleList(_Layer(width, config.heads, config.dropout) for _ in range(config.layers))
        self.norm = nn.LayerNorm(width)
        # The same table reads and writes. Entries of unit length and a bias that begins at how often each token comes
        # (`train_captioner`) spare a short training the hundred steps that learn nothing else.
        nn.init.normal_(self.tokens.weight, std=width**-0.5)
        self.often = nn.Parameter(torch.zeros(vocabulary))

    def film(self, maps: Tensor) -> Film:
        places = maps.flatten(2).transpose(1, 2)
        seen = self.see(places) + self.where
        # The mean film is part of every word: a short training finds it there long before it learns where to look.
        whole = self.whole(places.mean(1, keepdim=True))
        return Film(whole, [cast(_Layer, layer).places(seen) for layer in self.layers])

    def forward(
        self, tokens: Tensor, film: Film, past: list[tuple[Tensor, Tensor]] | None = None
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        start = 0 if past is None else past[0][0].shape[2]
        x = self.tokens(tokens) + self.positions[start : start + tokens.shape[1]] + film.whole
        kept = []
        for i, layer in enumerate(self.layers):
            x, own = layer(x, film.places[i], None if past is None else past[i])
            kept.append(own)
        return functional.linear(self.norm(x), self.tokens.weight, self.often), kept


def standardise(maps: NDArray[Any]) -> NDArray[np.float32]:
    """Maps of a set of films, every channel by how it varies over them.

    Channels differ by orders of magnitude, and what tells films apart is in the small ones. Sets are standardised each
    by itself, with no report: real and generated films differ as those of two scanners do, and a captioner that learned
    from one would otherwise take every film of the other for an extreme one.
    """
    values = np.asarray(maps, np.float32)
    spread = values.std((0, 2, 3), keepdims=True)
    out: NDArray[np.float32] = (values - values.mean((0, 2, 3), keepdims=True)) / np.maximum(spread, 1e-3)
    return out


class Captioner:
    """Writes reports for films, from their maps."""

    def __init__(self, decoder: Decoder, vocabulary: Vocabulary, ending: float = 0.0) -> None:
        self.decoder, self.vocabulary = decoder.eval(), vocabulary
        self.ending = ending  # added to the log probability that a report ends

    def of_length(self, maps: NDArray[Any], reports: Sequence[str], beams: int = 1) -> Captioner:
        """This captioner, writing for these films as much as its training reports say, on the mean.

        The likeliest report is a short one, the more so the better a captioner knows that most films are normal.
        Without this, its length and with it every overlap of words would depend on chance. The films are those it is to
        write for: one that learned from released films goes on for longer over real ones.
        """
        most = self.decoder.config.length
        wanted = np.mean([_words(self.vocabulary.decode(self.vocabulary.encode(report, most))) for report in reports])
        rows = np.linspace(0, len(maps) - 1, min(len(maps), _LENGTH_FILMS)).astype(int)
        low, high = -_MOST_ENDING, _MOST_ENDING
        for _ in range(_HALVINGS):
            tried = Captioner(self.decoder, self.vocabulary, (low + high) / 2)
            written = np.mean([_words(text) for text in tried.write(maps[rows], beams)])
            low, high = (tried.ending, high) if written > wanted else (low, tried.ending)
        return Captioner(self.decoder, self.vocabulary, (low + high) / 2)

    @torch.no_grad()
    def write(self, maps: NDArray[Any], beams: int = 1, batch: int = 64) -> list[str]:
        """One report per film, by the likeliest next token or the likeliest of ``beams`` sequences."""
        out: list[str] = []
        for start in range(0, len(maps), batch):
            part = torch.from_numpy(np.ascontiguousarray(maps[start : start + batch])).float()
            for tokens in self._write(part, beams):
                out.append(self.vocabulary.decode(tokens))
        return out

    def _write(self, maps: Tensor, beams: int) -> list[list[int]]:
        n, length = len(maps), self.decoder.config.length
        film = self.decoder.film(maps).repeated(beams)
        tokens = torch.full((n * beams, 1), BEGIN)
        total = torch.full((n, beams), -torch.inf)
        total[:, 0] = 0.0  # all beams begin alike: only one may branch
        done = torch.zeros(n * beams, dtype=torch.bool)
        past: list[tuple[Tensor, Tensor]] | None = None
        for _ in range(length):
            logits, past = self.decoder(tokens[:, -1:], film, past)
            chances = logits[:, -1].log_softmax(-1)
            chances[:, [PAD, BEGIN, UNKNOWN]] = -torch.inf
            chances[:, END] += self.ending
            # A finished report goes on with padding, at no cost.
            chances[done] = -torch.inf
            chances[done, PAD] = 0.0
            words = chances.shape[1]
            total, best = (total[:, :, None] + chances.reshape(n, beams, words)).flatten(1).topk(beams)
            source = (torch.arange(n)[:, None] * beams + best // words).flatten()
            chosen = (best % words).flatten()
            tokens = torch.cat([tokens[source], chosen[:, None]], 1)
            done = done[source] | (chosen == END)
            if beams > 1:
                past = [(k[source], v[source]) for k, v in past]
            if bool(done.all()):
                break
        rows = tokens.reshape(n, beams, -1)
        lengths = (rows > PAD).sum(-1)
        first = (total / lengths).argmax(1)  # a mean over tokens, or the shortest report would always win
        return [rows[i, int(first[i])].tolist() for i in range(n)]


def _words(text: str) -> int:
    return len(text.split())


def train_captioner(
    maps: NDArray[Any], reports: Sequence[str], vocabulary: Vocabulary, config: CaptionerConfig, seed: int
) -> Captioner:
    """A captioner of these films and reports, each used equally often."""
    if not len(maps):
        raise ValueError("a captioner needs films with reports")
    with seeded(seed):
        places = int(np.prod(maps.shape[2:]))
        decoder = Decoder(maps.shape[1], places, len(vocabulary), config)
        encoded = [vocabulary.encode(r, config.length) for r in reports]
        counts = np.bincount([t for text in encoded for t in text[1:]], minlength=len(vocabulary))
        with torch.no_grad():
            decoder.often.copy_(torch.from_numpy(np.log((counts + 0.1) / (counts.sum() + 0.1 * len(counts)))))
        optimizer = torch.optim.AdamW(
            decoder.parameters(), lr=config.rate, weight_decay=config.decay, betas=(0.9, 0.98)
        )
        rng = np.random.default_rng(seed)
        order: list[int] = []
        decoder.train()
        for step in range(config.steps):
            warm, done = max(1, config.steps // 10), step / config.steps
            for group in optimizer.param_groups:
                group["lr"] = config.rate * min((step + 1) / warm, 1.0) * (1 - 0.95 * done)
            while len(order) < config.batch:
                order += rng.permutation(len(maps)).tolist()
            drawn, order = order[: config.batch], order[config.batch :]
            texts = [encoded[row] for row in drawn]
            tokens = torch.full((len(texts), max(map(len, texts))), PAD)
            for row, text in zip(tokens, texts, strict=True):
                row[: len(text)] = torch.tensor(text)
            logits, _ = decoder(tokens[:, :-1], decoder.film(torch.from_numpy(maps[drawn]).float()))
            target = tokens[:, 1:].masked_fill(tokens[:, 1:] == UNKNOWN, PAD)
            loss = functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
            optimizer.step()
    return Captioner(decoder, vocabulary)
