"""The vlm's vocabulary: report language, plus the everyday words, names, places and dates a blacklist must block."""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from updp.domains.chest.words import phrases

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_PEOPLE = (
    "male female man woman boy girl gentleman lady he she his her patient mother father son daughter wife husband "
    "doctor dr mr mrs ms nurse attending physician resident technologist hospital clinic unit room floor bed ward "
    "street avenue road phone fax email address mrn ssn id accession born birth age aged year old years months "
    "january february march april may june july august september october november december black white asian "
    "hispanic caucasian african american xxxx"
)


def _names() -> Iterator[str]:
    """Names, places, jobs and common English words from faker's US provider lists."""
    from faker.providers.address.en_US import Provider as Address
    from faker.providers.job.en_US import Provider as Job
    from faker.providers.lorem.en_US import Provider as Lorem
    from faker.providers.person.en_US import Provider as Person

    yield from Person.first_names_female
    yield from Person.first_names_male
    yield from Person.last_names
    yield from Address.states
    yield from Address.city_suffixes
    yield from Address.street_suffixes
    yield from Lorem.word_list
    for job in Job.jobs:
        yield from job.replace(",", " ").split()
    yield from calendar.month_name[1:]
    yield from calendar.day_name
    yield from (str(n) for n in range(121))
    yield from (str(n) for n in range(1930, 2031))


def train_tokenizer(texts: Iterable[str], size: int = 8192, names: bool = True) -> Tokenizer:
    """A lower-case WordPiece tokenizer over report texts and, by default, general and name lists."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=2, special_tokens=list(SPECIAL), show_progress=False
    )

    def words() -> Iterator[str]:
        yield from texts
        said = phrases()
        for group in said.values():
            for choices in group.values():
                yield from choices * 5
        # Weight decides whether a name is one token or pieces: each should be one token.
        for word in [*_PEOPLE.split(), *(sorted(set(_names())) if names else ())]:
            yield from [word] * 8

    tokenizer.train_from_iterator(words(), trainer)
    opening, closing = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", opening), ("[SEP]", closing)]
    )
    return tokenizer
