"""Report generation with tiny random models of the real classes, through the command line; what is refused and when."""

import json

import pytest
import torch

from tests.conftest import Hospital, sweep
from tests.evaluation.probes.utility.fake_radeval import install, radgraph_weights
from tests.evaluation.probes.utility.test_lora import gemma, phi, qwen
from updp.bench import reports
from updp.bench.methods import BadBench
from updp.bench.reports import bench_reports, lora_settings
from updp.cli import main
from updp.evaluation.probes.utility.lora import LoraSettings, TooLittleMemory, UnknownModel, look_at
from updp.models.errors import MissingRequirement

pytest.importorskip("peft")
SHORT = ["rank=2", "alpha=2", "epochs=1", "batch=6", "at_once=3", "length=6"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    hospital = Hospital(tmp_path_factory.mktemp("reports") / "export", films=60)
    for n, row in enumerate(hospital.rows):
        row["split"] = "train" if n < 24 else "test"
    return hospital.write()


@pytest.fixture
def model(request, tmp_path, monkeypatch):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = tmp_path / "model"
    folder.mkdir()
    request.param(folder)
    return folder


def arguments(source, model, out):
    given = ["bench", "reports", "--data", source, "--vlm", model, "--out", out, "--method", "keep", "--device", "cpu",
             "--precision", "float32", "--films", 120, "--scored", 20, "--trust-code"]  # fmt: skip
    return [*map(str, given), *(part for one in SHORT for part in ("--setting", one))]


@pytest.mark.parametrize("model", [qwen, gemma, phi], indirect=True, ids=["Qwen2.5-VL", "Gemma-3", "Phi-3.5-vision"])
def test_four_regimes_are_learned_written_and_resumed(source, model, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(reports, "text_measures", lambda *given, **options: [])  # METEOR needs Java; not tested here
    monkeypatch.setattr("updp.evaluation.probes.utility.report_generation.text_measures", lambda *given, **how: [])
    out = tmp_path / "out"
    install(monkeypatch)
    radgraph = ["--radgraph", str(radgraph_weights(tmp_path / "radgraph", str(tmp_path)))]
    monkeypatch.setattr("sys.argv", ["updp", *arguments(source, model, out), *radgraph])

    def run():
        with pytest.raises(SystemExit) as done:
            main()
        assert done.value.code == 0
        return capsys.readouterr().out

    told = run()
    assert "fine-tuning needs about" in told
    assert told.index("needs about") < told.index("fine-tuning on")
    assert told.count("fine-tuning on") == 4
    assert told.count("writing 20 reports") == 5  # and once as the model comes
    facts = json.loads((out / "reports.json").read_text())
    named = {m["regime"] for m in facts["measurements"]}
    assert {"transfer raw", "transfer de-identified", "local only, 100% of local"} <= named
    named = {m["regime"] for m in facts["measurements"] if m["metric"] == "RadGraph-F1 [radgraph-xl, partial, RG_ER]"}
    assert len(named) == 5
    table = (out / "reports.md").read_text()
    assert "47.01" in table
    assert "| 40.0 [40.0, 40.0] |" in table
    assert sweep(out, skip=(".cache",)) == []
    assert "fine-tuning on" not in run()


@pytest.mark.parametrize("model", [qwen], indirect=True)
def test_a_fine_tuning_that_was_cut_off_comes_to_the_same_end(model, tmp_path):
    from tests.evaluation.probes.utility.test_lora import REPORTS, films, opened

    settings = LoraSettings(rank=2, alpha=2, dropout=0.1, epochs=4, batch=2, at_once=2, rate=1e-2, length=4)
    whole = opened(model, settings)
    losses = whole.fit(films(), REPORTS, 0)

    class Cut(Exception):
        pass

    def stop(line):
        if line.startswith("step 5"):
            raise Cut

    first = opened(model, settings)
    with pytest.raises(Cut):
        first.fit(films(), REPORTS, 0, stop, checkpoint=tmp_path / "a.pt", every=2)
    again = opened(model, settings)
    resumed = again.fit(films(), REPORTS, 0, checkpoint=tmp_path / "a.pt", every=2)
    assert resumed == pytest.approx(losses, rel=1e-4)
    for (name, one), (_, other) in zip(whole.model.named_parameters(), again.model.named_parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-5), name


@pytest.mark.parametrize("model", [qwen], indirect=True)
def test_memory_is_counted_from_the_files_and_too_little_is_refused_before_any_film(
    model, source, tmp_path, monkeypatch
):
    from safetensors.torch import load_file

    from tests.evaluation.probes.utility.test_lora import opened

    settings = LoraSettings(rank=4)
    needs = look_at(model, settings, torch.float32)
    held = sum(tensor.numel() for path in model.glob("*.safetensors") for tensor in load_file(path).values())
    assert needs.parameters == held
    learning = sum(p.numel() for p in opened(model, settings).model.parameters() if p.requires_grad)
    assert needs.learning == pytest.approx(learning, rel=0.1)
    assert needs.bytes > 4 * held
    monkeypatch.setattr(reports, "memory_free", lambda device: 1000)
    with pytest.raises(TooLittleMemory, match=r"needs about .* GiB"):
        bench_reports(source, model, tmp_path / "out", device="cpu", precision="float32")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("model", [qwen], indirect=True)
@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("preprocessor_config.json", "processor files of Qwen2.5-VL"),
        ("tokenizer.json", "processor files of Qwen2.5-VL"),
        ("model.safetensors", "no weights"),
        ("config.json", "config.json"),
    ],
)
def test_a_folder_without_a_file_is_refused_before_any_film(model, source, tmp_path, gone, words):
    (model / gone).unlink()
    with pytest.raises(MissingRequirement, match=words):
        bench_reports(source, model, tmp_path / "out", device="cpu", precision="float32")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("model", [qwen], indirect=True)
def test_files_that_are_something_else_are_said_so(model):
    (model / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(MissingRequirement, match="is not a file of weights"):
        look_at(model, LoraSettings(), torch.float32)
    (model / "config.json").write_text("[]")
    with pytest.raises(UnknownModel, match="is not the configuration of a model"):
        look_at(model, LoraSettings(), torch.float32)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rnk": 3}, "no setting 'rnk'; did you mean 'rank'"),
        ({"rank": "many"}, "setting rank: 'many' is not a valid value"),
        ({"rank": -1}, "setting rank: -1"),
        ({"rank": 1.5}, "setting rank: 1.5"),
    ],
)
def test_settings_that_are_none_are_refused(given, words):
    with pytest.raises(BadBench, match=words):
        lora_settings(given)
    assert lora_settings({"rate": 1e-4, "rank": 8}).rank == 8


def test_a_machine_without_what_is_asked_for_is_said_so(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BadBench, match="--device cpu"):
        bench_reports(tmp_path, tmp_path, tmp_path / "out")
    with pytest.raises(BadBench, match="no precision half4"):
        bench_reports(tmp_path, tmp_path, tmp_path / "out", precision="half4")
