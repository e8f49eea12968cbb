import shutil
import subprocess
import sys

import pytest
import torch

from updp.domains.chest import PACK
from updp.models import PackError, list_packs, load_pack
from updp.models.identity import Identity
from updp.models.pack import embedded_packs, restate_pack, role_entry, write_pack_toml
from updp.models.weights import save_weights


@pytest.fixture
def folder(tmp_path):
    """A pack with one role."""
    torch.manual_seed(0)
    folder = tmp_path / "one"
    folder.mkdir()
    module = Identity(size=64, space=8)
    save_weights(module, folder / "identity.safetensors")
    roles = {"identity": {"kind": "updp", "file": "identity.safetensors", "config": module.config}}
    write_pack_toml(folder, {"name": "one", "size": 64, "roles": roles})
    return folder


def test_a_pack_gives_back_the_weights_it_was_written_with(folder):
    torch.manual_seed(0)
    module = Identity(size=64, space=8).eval()
    films = torch.rand(2, 1, 64, 64)
    loaded = load_pack(folder).identity.embed(films)
    assert loaded.dtype == torch.float32
    assert torch.allclose(loaded, module.embed(films), atol=2e-2)


def test_the_digest_follows_what_decides_on_films_and_nothing_else(folder):
    def describe_pack(folder, **changes):
        restate_pack(folder, lambda info: "card", **changes)

    digest = load_pack(folder).digest
    (folder / "virtual").mkdir()
    (folder / "virtual" / "0-0.jpg").write_bytes(b"a film")
    describe_pack(folder, licence="mine", figures={"identity": {"auc": 0.9}}, limits=["small"])
    assert load_pack(folder).digest == digest
    describe_pack(folder, thresholds={"identity_copy": 0.8})
    assert load_pack(folder).digest != digest
    describe_pack(folder, thresholds={})
    save_weights(Identity(size=64, space=8), folder / "identity.safetensors")
    write_pack_toml(folder, {"name": "one", "size": 64, "roles": load_pack(folder, verify=False).info["roles"]})
    assert load_pack(folder).digest != digest


def test_weights_are_half_precision_on_disk(folder):
    from safetensors.torch import load_file

    kinds = {v.dtype for v in load_file(folder / "identity.safetensors").values() if v.is_floating_point()}
    assert kinds == {torch.float16}


def test_weights_too_large_for_half_precision_are_refused(tmp_path):
    module = torch.nn.Linear(1, 1)
    torch.nn.init.constant_(module.weight, 1e6)
    with pytest.raises(PackError, match="weight has values that half precision cannot hold"):
        save_weights(module, tmp_path / "x.safetensors")


def test_a_changed_file_is_refused(folder):
    file = folder / "identity.safetensors"
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    with pytest.raises(PackError, match=r"identity.safetensors is not the file .* \(wrong SHA-256\)"):
        load_pack(folder)


def test_a_missing_file_is_refused(folder):
    (folder / "identity.safetensors").unlink()
    with pytest.raises(PackError, match=r"pack one lacks identity\.safetensors"):
        load_pack(folder)


def test_a_pack_of_another_format_is_refused(folder):
    toml = folder / "pack.toml"
    toml.write_text(toml.read_text().replace("format = 1", "format = 2"))
    with pytest.raises(PackError, match="one is a pack of format 2; this updp reads 1"):
        load_pack(folder)


def test_weights_of_another_shape_are_refused(folder):
    toml = folder / "pack.toml"
    toml.write_text(toml.read_text().replace("space = 8", "space = 16"))
    with pytest.raises(PackError, match="identity of pack one does not fit this version of updp"):
        _ = load_pack(folder).identity


def test_a_role_says_which_model_it_is(tmp_path):
    from updp.models.lapped import LappedAutoencoder

    made = LappedAutoencoder(channels=2, widths=(8, 8, 8, 8, 8))
    entry = role_entry("autoencoder", made, tmp_path)
    assert entry["model"] == "lapped"
    write_pack_toml(tmp_path, {"name": "two", "size": 64, "roles": {"autoencoder": entry}})
    assert isinstance(load_pack(tmp_path).autoencoder, LappedAutoencoder)
    toml = tmp_path / "pack.toml"
    toml.write_text(toml.read_text().replace('"lapped"', '"wavelet"'))
    with pytest.raises(PackError, match="no model 'wavelet'; there are: patches, lapped"):
        _ = load_pack(tmp_path).autoencoder
    with pytest.raises(PackError, match="LappedAutoencoder is not a model of the role identity"):
        role_entry("identity", made, tmp_path)


def test_unreadable_toml_and_unknown_roles_are_refused(folder):
    toml = folder / "pack.toml"
    toml.write_text(toml.read_text().replace("[roles.identity]", "[roles.oracle]"))
    with pytest.raises(PackError, match="no role 'oracle'; there are: autoencoder, vlm"):
        load_pack(folder)
    toml.write_text("format = = 1")
    with pytest.raises(PackError, match="not readable as TOML"):
        load_pack(folder)


def test_a_role_the_pack_does_not_fill_is_named(folder):
    with pytest.raises(PackError, match="pack one has no generator; it has identity"):
        _ = load_pack(folder).generator


def test_an_unknown_pack_lists_the_known_ones(tmp_path):
    with pytest.raises(PackError, match="no installed pack 'nowhere'; there are: cxr256"):
        load_pack("nowhere")
    with pytest.raises(PackError, match=r"no installed pack 'cxr256-3'; did you mean 'cxr256(-2)?'\?"):
        load_pack("cxr256-3")
    with pytest.raises(PackError, match="no installed pack"):
        load_pack(tmp_path)


def test_packs_in_a_folder_are_listed_by_name(folder):
    assert [pack.name for pack in list_packs(folder.parent)] == ["one"]


def test_what_is_written_of_a_pack_is_read_back(tmp_path):
    table = {
        "name": "n",
        "roles": {},
        "b": 'x"y',
        "c": [1.5, 2.0],
        "d": True,
        "e": {"f g": {"h": "ü"}, "i": ["p", "q"]},
    }
    write_pack_toml(tmp_path, table)
    info = load_pack(tmp_path).info
    assert {name: info[name] for name in table} == table


def test_looking_at_packs_does_not_import_torch():
    code = "import sys, updp.models as m, updp.training; m.list_packs(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(not (embedded_packs() / PACK).is_dir(), reason="no embedded pack in this build")
class TestEmbedded:
    def test_it_is_whole_small_and_fills_every_role(self):
        pack = load_pack(PACK)
        assert set(pack.info["roles"]) == {"autoencoder", "vlm", "generator", "identity", "classifier"}
        assert sum(f.stat().st_size for f in pack.path.rglob("*") if f.is_file()) <= 90 * 2**20

    def test_its_generator_makes_films_and_its_networks_look_at_them(self):
        pack = load_pack(PACK)
        made = pack.generator.generate(["The heart is enlarged."], [7], steps=3)
        assert made.shape == (1, 1, 256, 256)
        assert made.std() > 0.05
        assert pack.classifier.probabilities(made).shape == (1, 14)
        assert pack.autoencoder.decode(pack.autoencoder.encode(made)).sub(made).abs().mean() < 0.05

    def test_its_vocabulary_holds_names_to_block(self):
        words = load_pack(PACK).vlm.tokenizer.get_vocab()
        assert {"smith", "january", "male", "cardiomegaly"} <= set(words)


def test_packs_of_the_second_distribution_are_found_where_it_is_installed(folder, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path / "site" / "updp_packs" / "further")
    with pytest.raises(PackError, match="updp-packs"):
        load_pack("further")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert "further" in [pack.path.name for pack in list_packs()]
    assert load_pack("further").path == tmp_path / "site" / "updp_packs" / "further"
