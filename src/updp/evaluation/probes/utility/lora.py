"""Report generation with large vision-language models: LoRA fine-tuning (Hu et al. 2021, arXiv 2106.09685) on a GPU.

Qwen2.5-VL, Gemma-3 and Phi-3.5-vision from a folder on this machine, with the settings of the UPDP paper. The
language model and the vision tower get adapters; what joins the two, called the merged layer there, is trained whole.
`writer` gives the function that `report_generation.compare` wants in place of the embedded captioner.
Nothing is downloaded. How models are recognised is in ``data/report_models.toml``.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from updp.core.global_state import seeded
from updp.evaluation.probes.utility import require
from updp.models.errors import MissingRequirement

QUESTION = "Write the findings section of the radiology report for this chest X-ray."
IGNORED = -100  # labels that transformers leaves out of the loss


@dataclass(frozen=True)
class LoraSettings:
    """The UPDP paper's: rank 64, alpha 64, dropout 0.05, 3 epochs, batch 36, three learning rates."""

    rank: int = 64
    alpha: int = 64
    dropout: float = 0.05
    epochs: int = 3
    batch: int = 36
    at_once: int = 4  # films in memory at once; gradients are summed up to a batch
    rate: float = 1e-5
    merger_rate: float = 1e-5
    vision_rate: float = 1e-4
    warmup: float = 0.03  # share of the steps
    clip: float = 1.0
    length: int = 128  # most new tokens of a report
    question: str = QUESTION


class UnknownModel(ValueError):
    """The folder holds no model that can be fine-tuned here; the message says what it holds."""


@lru_cache(maxsize=1)
def families() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads((resources.files(__package__) / "data" / "report_models.toml").read_text(encoding="utf-8"))


def _transformers() -> Any:
    return require("transformers", "fine-tuning of report models", "updp[pretrained]")


def _peft() -> Any:
    return require("peft", "LoRA", "updp[pretrained]")


# What a model reads --------------------------------------------------------------------------------------------------


class Reader:
    """Turns films and texts into what the model takes, without its processor class, which would need torchvision."""

    def __init__(self, family: Mapping[str, Any], config: Any, tokenizer: Any, image_processor: Any) -> None:
        self.family, self.config, self.tokenizer, self.images = family, config, tokenizer, image_processor
        self.film = _token(tokenizer, family["film"])
        self.end = _token(tokenizer, family["end"])

    def prompt(self, question: str) -> str:
        content = [{"type": "image"}, {"type": "text", "text": question}]
        text: str = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        if text.count(self.family["template"]) != 1:
            raise UnknownModel(f"the chat template of this folder does not mark a film with {self.family['template']}")
        return text

    def examples(self, films: NDArray[np.uint8], question: str) -> tuple[list[list[int]], dict[str, Tensor]]:
        """Token ids of the prompt for each film, and what stands for the films."""
        from PIL import Image

        pictures = [Image.fromarray(film).convert("RGB") for film in films]
        seen = dict(self.images(images=pictures, return_tensors="pt"))
        seen.pop("num_crops", None)  # Gemma's count of further crops, of which there are none
        if self.family["tokens"] == "grid":
            merged = self.images.merge_size**2
            counts = [int(grid.prod()) // merged for grid in seen["image_grid_thw"]]
        else:
            counts = [int(getattr(self.config, self.family["tokens"]))] * len(films)
        text = self.prompt(question)
        rows = []
        for count in counts:
            film = self.family["expanded"].format(film=self.family["film"] * count)
            whole = text.replace(self.family["template"], film)
            rows.append(self.tokenizer(whole, add_special_tokens=False)["input_ids"])
        return rows, seen

    def kinds(self, ids: Tensor) -> dict[str, Tensor]:
        return {self.family["kinds"]: (ids == self.film).long()}

    def answer(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text.strip(), add_special_tokens=False)["input_ids"]
        return [*ids, self.end]

    @property
    def padding(self) -> int:
        pad = self.tokenizer.pad_token_id
        return int(self.end if pad is None else pad)

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True)
        return text.strip()


class OwnReader(Reader):
    """For a model whose folder brings its own processor: one film and one text at a time."""

    def __init__(self, family: Mapping[str, Any], processor: Any) -> None:
        self.family, self.processor, self.tokenizer = family, processor, processor.tokenizer
        self.end = _token(self.tokenizer, family["end"])

    def prompt(self, question: str) -> str:
        prompt: str = self.family["prompt"].format(question=question)
        return prompt

    def examples(self, films: NDArray[np.uint8], question: str) -> tuple[list[list[int]], dict[str, Tensor]]:
        from PIL import Image

        read = [
            dict(self.processor(self.prompt(question), [Image.fromarray(film).convert("RGB")], return_tensors="pt"))
            for film in films
        ]
        rows = [one.pop("input_ids")[0].tolist() for one in read]
        for one in read:
            one.pop("attention_mask", None)
        return rows, {name: torch.cat([one[name] for one in read]) for name in read[0]}

    def kinds(self, ids: Tensor) -> dict[str, Tensor]:
        return {}


def _token(tokenizer: Any, token: str) -> int:
    found = tokenizer.convert_tokens_to_ids(token)
    if found is None or found == tokenizer.unk_token_id:
        raise UnknownModel(f"the tokenizer of this folder has no token {token}")
    return int(found)


def batch(rows: Sequence[Sequence[int]], answers: Sequence[Sequence[int]] | None, reader: Reader) -> dict[str, Tensor]:
    """Padded ids and mask; with answers to learn, labels that leave out the prompt and the padding.

    Answers are padded at their end. A prompt alone is padded at its beginning, since the model writes on from its end.
    """
    whole = [[*row, *answer] for row, answer in zip(rows, answers or [[]] * len(rows), strict=True)]
    length = max(map(len, whole))
    ids = torch.full((len(whole), length), reader.padding)
    mask = torch.zeros(len(whole), length, dtype=torch.long)
    labels = torch.full((len(whole), length), IGNORED)
    for i, row in enumerate(whole):
        place = slice(0, len(row)) if answers is not None else slice(length - len(row), length)
        ids[i, place], mask[i, place] = torch.tensor(row), 1
        if answers is not None:
            labels[i, len(rows[i]) : len(row)] = torch.tensor(row[len(rows[i]) :])
    out = {"input_ids": ids, "attention_mask": mask, **reader.kinds(ids)}
    return {**out, "labels": labels} if answers is not None else out


# The model -----------------------------------------------------------------------------------------------------------


class ReportModel:
    """A vision-language model with adapters: learns films and reports, writes reports."""

    def __init__(self, model: nn.Module, reader: Reader, settings: LoraSettings = LoraSettings()) -> None:  # noqa: B008
        self.family, self.reader, self.settings = reader.family, reader, settings
        peft = _peft()
        adapted, whole = self._parts(model)
        config = peft.LoraConfig(
            r=settings.rank,
            lora_alpha=settings.alpha,
            lora_dropout=settings.dropout,
            target_modules=adapted,
            modules_to_save=[whole],
            task_type="CAUSAL_LM",
        )
        with seeded(0):  # adapters start at random numbers, the same for every model
            self.model: Any = peft.get_peft_model(model, config)

    def _parts(self, model: nn.Module) -> tuple[list[str], str]:
        """Linear layers that get an adapter, and the merged layer, which is trained whole."""
        merger: str = self.family["merger"]
        names = dict(model.named_modules())
        if merger not in names:
            raise UnknownModel(f"{self.family['name']}: the model has no part {merger}")
        linear = [name for name, part in names.items() if isinstance(part, nn.Linear)]
        # The head over the vocabulary stays: it would be the largest adapter and belongs to no block.
        outside = tuple(name for name in linear if "." not in name)
        return [n for n in linear if not n.startswith(merger) and n not in outside], merger

    def groups(self) -> list[dict[str, Any]]:
        """The parameters that learn, in three groups with a rate each."""
        settings = self.settings
        rates = {"language": settings.rate, "merger": settings.merger_rate, "vision": settings.vision_rate}
        parts: dict[str, list[nn.Parameter]] = {name: [] for name in rates}
        for name, parameter in self.model.named_parameters():
            if not parameter.requires_grad:
                continue
            own = name.removeprefix("base_model.model.")
            if own.startswith(self.family["merger"]):
                parts["merger"].append(parameter)
            elif own.startswith(self.family["vision"]):
                parts["vision"].append(parameter)
            else:
                parts["language"].append(parameter)
        return [{"name": n, "params": p, "lr": rates[n], "peak": rates[n]} for n, p in parts.items() if p]

    @property
    def device(self) -> torch.device:
        device: torch.device = next(self.model.parameters()).device
        return device

    def _placed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        kind = next(self.model.parameters()).dtype
        return {
            name: value.to(self.device, kind) if value.is_floating_point() else value.to(self.device)
            for name, value in inputs.items()
        }

    def fit(
        self,
        films: NDArray[np.uint8],
        reports: Sequence[str],
        seed: int,
        say: Callable[[str], None] = lambda line: None,
        *,
        checkpoint: Path | None = None,
        every: int = 20,
    ) -> list[float]:
        """Learn these reports; gives the mean loss of each step.

        With ``checkpoint`` what was learned is kept in that file every so many steps; the same call goes on from there
        and comes to the same end.
        """
        if len(films) != len(reports) or not len(films):
            raise ValueError(f"{len(films)} films for {len(reports)} reports: as many of both, and at least one")
        settings, rng = self.settings, np.random.default_rng(seed)
        optimizer = torch.optim.AdamW(self.groups(), weight_decay=0.0)
        steps = settings.epochs * math.ceil(len(films) / settings.batch)
        losses: list[float] = []
        self.model.train()
        with seeded(seed):
            if checkpoint is not None:
                losses = self._resumed(checkpoint, optimizer)
            done = len(losses)
            starts = range(0, len(films), settings.batch)
            for epoch in range(settings.epochs):
                order = rng.permutation(len(films))
                for number, start in enumerate(starts, epoch * len(starts)):
                    if number < done:
                        continue
                    warm = (len(losses) + 1) / max(1.0, settings.warmup * steps)
                    for group in optimizer.param_groups:
                        group["lr"] = group["peak"] * min(warm, _cosine(len(losses) / steps))
                    losses.append(self._step(films, reports, order[start : start + settings.batch], optimizer))
                    say(f"step {len(losses)} of {steps}: loss {losses[-1]:.3f}")
                    if checkpoint is not None and (len(losses) % every == 0 or len(losses) == steps):
                        self._keep(checkpoint, optimizer, losses)
        self.model.eval()
        return losses

    def _keep(self, path: Path, optimizer: torch.optim.Optimizer, losses: list[float]) -> None:
        learned = {name: p.detach().cpu() for name, p in self.model.named_parameters() if p.requires_grad}
        state = {
            "learned": learned,
            "optimizer": optimizer.state_dict(),
            "losses": losses,
            "rng": torch.get_rng_state(),
        }
        if torch.cuda.is_available():
            state["cuda"] = torch.cuda.get_rng_state_all()
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        torch.save(state, part)
        part.replace(path)

    def _resumed(self, path: Path, optimizer: torch.optim.Optimizer) -> list[float]:
        """The losses of the steps that a checkpoint holds, its state taken over; none where there is no checkpoint."""
        if not path.is_file():
            return []
        state = torch.load(path, map_location="cpu", weights_only=True)
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if parameter.requires_grad:
                    parameter.copy_(state["learned"][name])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])
        if "cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["cuda"])
        losses: list[float] = state["losses"]
        return losses

    def _step(
        self, films: NDArray[np.uint8], reports: Sequence[str], rows: NDArray[Any], optimizer: torch.optim.Optimizer
    ) -> float:
        answers = [self.reader.answer(reports[i]) for i in rows]
        words = sum(map(len, answers))
        total = 0.0
        optimizer.zero_grad(set_to_none=True)
        for start in range(0, len(rows), self.settings.at_once):
            part = rows[start : start + self.settings.at_once]
            prompts, seen = self.reader.examples(films[part], self.settings.question)
            replies = answers[start : start + len(part)]
            inputs = self._placed({**batch(prompts, replies, self.reader), **seen})
            # Weighted by its words, so that a batch in parts learns what a whole one does.
            loss = self.model(**inputs).loss * (sum(map(len, replies)) / words)
            loss.backward()
            total += float(loss.detach())
        if not math.isfinite(total):
            raise FloatingPointError(f"the loss is {total}: a smaller rate or another precision is needed")
        nn.utils.clip_grad_norm_([p for g in optimizer.param_groups for p in g["params"]], self.settings.clip)
        optimizer.step()
        return total

    @torch.no_grad()
    def write(self, films: NDArray[np.uint8]) -> list[str]:
        """One report per film, by the likeliest next token."""
        self.model.eval()
        out = []
        for start in range(0, len(films), self.settings.at_once):
            prompts, seen = self.reader.examples(films[start : start + self.settings.at_once], self.settings.question)
            inputs = self._placed({**batch(prompts, None, self.reader), **seen})
            ids = self.model.generate(
                **inputs,
                max_new_tokens=self.settings.length,
                do_sample=False,
                eos_token_id=self.reader.end,
                pad_token_id=self.reader.padding,
            )
            for row in ids[:, inputs["input_ids"].shape[1] :].tolist():
                stop = row.index(self.reader.end) if self.reader.end in row else len(row)
                out.append(self.reader.decode(row[:stop]))
        return out

    def save(self, folder: Path) -> None:
        """The adapters and the merged layer; the model they belong to stays where it is."""
        self.model.save_pretrained(str(folder))


def _cosine(done: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


#: Files of which a folder needs one each: how films and words become what the model takes.
PROCESSORS = (
    ("preprocessor_config.json", "processor_config.json"),
    ("tokenizer.json", "tokenizer.model", "vocab.json"),
)
#: Bytes per parameter that learns: its gradient, and two moments of AdamW, each in single precision, and a spare copy.
_LEARNING = 16
#: Activations of a film in one layer, as kept for gradients, in units of its tokens times the width.
_ACTIVATIONS = 34
#: Tokens of a film with its question and report.
_TOKENS = 1024


@dataclass(frozen=True)
class Needs:
    """A model in a folder: what it is and what memory it takes to fine-tune, read from its files alone."""

    name: str
    kind: str
    key: str  # digest of its configuration and of what its weight files say they hold
    parameters: int
    learning: int
    bytes: int

    def describe(self) -> str:
        return (
            f"{self.name}: {self.parameters / 1e9:.2f} billion parameters, {self.learning / 1e6:.1f} million of them "
            f"learn; fine-tuning needs about {self.bytes / 2**30:.1f} GiB"
        )


class TooLittleMemory(MissingRequirement):
    """The model does not fit; the message says how much it needs."""


def look_at(folder: Path, settings: LoraSettings, precision: torch.dtype, *, trust_code: bool = False) -> Needs:
    """What a folder holds, or an error about what is missing; the model is not loaded."""
    import hashlib
    import json

    family, kind = family_of(folder, trust_code=trust_code)
    for some in PROCESSORS:
        if not any((folder / name).is_file() for name in some):
            raise MissingRequirement(
                f"{folder} has none of {', '.join(some)}: copy the processor files of {family['name']} into the folder"
            )
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise MissingRequirement(f"no weights in {folder}: files named *.safetensors are needed")
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    shapes: dict[str, list[int]] = {}
    for path in files:
        try:
            with path.open("rb") as file:
                size = int.from_bytes(file.read(8), "little")
                if size > 2**27:
                    raise ValueError
                held = file.read(size)
            digest.update(held + str(path.stat().st_size).encode())
            shapes |= {name: entry["shape"] for name, entry in json.loads(held).items() if name != "__metadata__"}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise MissingRequirement(f"{path} is not a file of weights (safetensors)") from None
    parameters = sum(math.prod(shape) for shape in shapes.values())
    merger = str(family["merger"]).split(".")[-1]
    whole = sum(math.prod(shape) for name, shape in shapes.items() if f".{merger}." in name)
    # Every linear layer inside a block gets two factors of the rank; embeddings and the head over words do not.
    linear = [
        shape
        for name, shape in shapes.items()
        if len(shape) == 2 and name.endswith(".weight") and f".{merger}." not in name and "embed" not in name
        and "lm_head" not in name
    ]  # fmt: skip
    learning = whole + settings.rank * sum(sum(shape) for shape in linear)
    width = max((min(shape) for shape in linear), default=1)
    kept = settings.at_once * _TOKENS * width * _ACTIVATIONS * max(1, len(linear) // 7) * precision.itemsize // 2
    total = parameters * precision.itemsize + learning * _LEARNING + kept
    return Needs(family["name"], kind, digest.hexdigest(), parameters, learning, total)


def memory_free(device: str) -> int:
    """Bytes that are free on a device."""
    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info(torch.device(device))[0])
    import os

    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def enough_memory(needs: Needs, free: int) -> None:
    """Refuse a model that does not fit."""
    if needs.bytes > free:
        raise TooLittleMemory(
            f"{needs.name} needs about {needs.bytes / 2**30:.1f} GiB to be fine-tuned and {free / 2**30:.1f} GiB are "
            "free; use a larger device, a smaller model or a smaller at_once"
        )


def family_of(folder: Path, *, trust_code: bool = False) -> tuple[Mapping[str, Any], str]:
    """Which known model a folder holds, and its type."""
    import json

    if not (folder / "config.json").is_file():
        raise MissingRequirement(f"no model in {folder}: a folder with config.json, weights and tokenizer is needed")
    try:
        kind = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model_type")
    except (ValueError, AttributeError):
        raise UnknownModel(f"config.json in {folder} is not the configuration of a model") from None
    if kind not in families():
        known = ", ".join(f"{f['name']} ({k})" for k, f in families().items())
        raise UnknownModel(f"a model of type {kind} cannot be fine-tuned here; known are {known}")
    family = families()[kind]
    if family.get("own_code") and not trust_code:
        raise UnknownModel(
            f"{family['name']} is not a class of transformers but code in its own folder; "
            "read it, and give trust_code=True (--trust-code) to run it"
        )
    return family, str(kind)


def load(
    folder: Path,
    settings: LoraSettings = LoraSettings(),  # noqa: B008
    *,
    device: str = "cuda",
    precision: torch.dtype = torch.bfloat16,
    trust_code: bool = False,
) -> ReportModel:
    """A model in a local folder, ready to be fine-tuned. ``trust_code`` runs Python that the folder brings."""
    family, _ = family_of(folder, trust_code=trust_code)
    transformers = _transformers()
    _peft()
    options: dict[str, Any] = {"local_files_only": True}
    if family.get("own_code"):
        options["trust_remote_code"] = True
        model = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=precision, **options)
        reader: Reader = OwnReader(family, transformers.AutoProcessor.from_pretrained(str(folder), **options))
    else:
        model = transformers.AutoModelForImageTextToText.from_pretrained(str(folder), dtype=precision, **options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **options)
        images = transformers.AutoImageProcessor.from_pretrained(str(folder), backend="pil", **options)
        reader = Reader(family, model.config, tokenizer, images)
    return ReportModel(model.to(device), reader, settings)


def writer(
    build: Callable[[], ReportModel],
    films: Mapping[str, NDArray[np.uint8]],
    say: Callable[[str], None] = lambda s: None,
) -> Callable[[Sequence[Any], NDArray[Any], int], list[str]]:
    """What `report_generation.compare` calls: fine-tune a fresh model on pairs, then write for real films.

    ``films`` are the two sides of the exhibit, "real" and "released"; ``build`` gives the untouched model each time.
    """

    def write(pairs: Sequence[Any], scored: NDArray[Any], seed: int) -> list[str]:
        model = build()
        learned = np.concatenate([films[p.side][p.rows] for p in pairs])
        model.fit(learned, [report for p in pairs for report in p.reports], seed, say)
        return model.write(films["real"][scored])

    return write
