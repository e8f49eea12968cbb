"""Adapters over tiny random models of the real classes."""

import json

import pytest
import torch

from updp.models import PackError, load_pack
from updp.models.adapters import extra, load

pytestmark = pytest.mark.numeric


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    """A Stable Diffusion folder as diffusers saves it, a few thousand weights large."""
    diffusers = pytest.importorskip("diffusers")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("sd")
    words = ["w</w>", "<|startoftext|>", "<|endoftext|>", "l", "o", "w", "e", "r</w>", "lo", "low", "low</w>"]
    (folder / "vocab.json").write_text(json.dumps({w: i for i, w in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\nl o\nlo w</w>\n")
    tokenizer = transformers.CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=16)
    text = transformers.CLIPTextModel(
        transformers.CLIPTextConfig(
            vocab_size=len(tokenizer) + 10,
            hidden_size=32,
            intermediate_size=37,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=16,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=2,
        )
    )
    unet = diffusers.UNet2DConditionModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        block_out_channels=(32, 32),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
    )
    vae = diffusers.AutoencoderKL(
        block_out_channels=(32, 32),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        sample_size=32,
    )
    pipe = diffusers.StableDiffusionPipeline(
        vae=vae,
        text_encoder=text,
        tokenizer=tokenizer,
        unet=unet,
        scheduler=diffusers.DDIMScheduler(clip_sample=False, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipe.save_pretrained(folder / "pipe")
    return folder / "pipe"


def test_a_diffusers_folder_generates_grey_films_of_the_packs_size(pipeline):
    generator = load("diffusers", "generator", pipeline, {"size": 64})
    films = generator.generate(["low", "lower"], [1, 2], steps=2)
    assert films.shape == (2, 1, 64, 64)
    assert films.min() >= 0
    assert films.max() <= 1
    assert torch.allclose(films[1], generator.generate(["lower"], [2], steps=2)[0], atol=1e-3)


def test_a_diffusers_folder_starts_from_a_film_when_given_one(pipeline):
    generator = load("diffusers", "generator", pipeline, {"size": 32})
    films = generator.generate(["low"], [1], steps=4, init_images=torch.rand(1, 1, 32, 32), strength=0.5)
    assert films.shape == (1, 1, 32, 32)
    with pytest.raises(ValueError, match="belong together"):
        generator.generate(["low"], [1], strength=0.5)


def test_a_diffusers_unet_predicts_noise_for_methods_that_sample_themselves(pipeline):
    generator = load("diffusers", "generator", pipeline, {"size": 32})
    condition = generator.condition(["low"])
    noise = generator.noise(torch.randn(1, 4, 16, 16), torch.tensor([0.5]), condition)
    assert noise.shape == (1, 4, 16, 16)


def test_a_diffusers_vae_is_an_autoencoder(pipeline):
    autoencoder = load("diffusers", "autoencoder", pipeline, {"size": 32})
    films = torch.rand(2, 1, 32, 32)
    latents = autoencoder.encode(films)
    assert latents.shape == (2, 4, 16, 16)
    assert autoencoder.decode(latents).shape == films.shape


def test_a_pack_may_point_to_a_model_from_elsewhere(pipeline, tmp_path):
    (tmp_path / "pack.toml").write_text(
        f'format = 1\nname = "mine"\nsize = 32\n[roles.autoencoder]\nkind = "diffusers"\npath = "{pipeline}"\n'
        "config = {size = 32}\n"
    )
    assert load_pack(tmp_path).autoencoder.encode(torch.rand(1, 1, 32, 32)).shape == (1, 4, 16, 16)


def test_a_path_that_is_not_there_is_named(tmp_path):
    with pytest.raises(PackError, match="nothing is downloaded"):
        load("diffusers", "generator", tmp_path / "gone", {})


def test_a_role_nobody_adapts_is_refused(tmp_path):
    with pytest.raises(PackError, match=r"no adapter 'diffusers/identity'; .*there are: open_clip/vlm"):
        load("diffusers", "identity", tmp_path, {})


class Scripted(torch.nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean((2, 3))


def scripted_pack(folder, channels):
    torch.jit.script(Scripted()).save(str(folder / "net.pt"))
    for role in ("identity", "classifier"):
        labels = 'labels = ["a", "b", "c"]\n' if role == "classifier" else ""
        with (folder / "pack.toml").open("a") as out:
            if role == "identity":
                out.write('format = 1\nname = "scripted"\nsize = 32\n')
            out.write(f'[roles.{role}]\nkind = "torchscript"\npath = "net.pt"\n')
            out.write(f"[roles.{role}.config]\nsize = 16\nchannels = {channels}\n{labels}")
    return load_pack(folder)


def test_a_torchscript_file_is_an_identity_and_a_classifier_for_grey_and_colour(tmp_path):
    pack = scripted_pack(tmp_path, channels=3)
    for channels in (1, 3):
        images = torch.rand(20, channels, 32, 32)
        embedded = pack.identity.embed(images)
        assert embedded.shape == (20, 3)
        assert torch.allclose(embedded.norm(dim=1), torch.ones(20), atol=1e-5)
        assert pack.classifier.probabilities(images).shape == (20, 3)
    assert pack.classifier.labels == ("a", "b", "c")
    assert pack.role("identity") is pack.identity


def test_a_file_that_is_no_torchscript_is_refused_by_name(tmp_path):
    (tmp_path / "net.pt").write_bytes(b"not a network")
    with pytest.raises(PackError, match=r"net\.pt is not a TorchScript file"):
        load("torchscript", "identity", tmp_path / "net.pt", {"size": 16})


def test_another_package_adds_a_role_and_a_model_for_it(tmp_path):
    from updp.models.adapters import ADAPTERS
    from updp.models.pack import ROLES

    ROLES.add("landmarks", object)
    ADAPTERS.add("torchscript/landmarks", lambda path, **config: ("landmarks of", path.name))
    try:
        (tmp_path / "pack.toml").write_text(
            'format = 1\nname = "x"\n[roles.landmarks]\nkind = "torchscript"\npath = "pack.toml"\n'
        )
        assert load_pack(tmp_path).role("landmarks") == ("landmarks of", "pack.toml")
        with pytest.raises(PackError, match="has no identity"):
            load_pack(tmp_path).role("identity")
    finally:
        ROLES.remove("landmarks")
        ADAPTERS.remove("torchscript/landmarks")
    with pytest.raises(PackError, match="no role 'landmarks'"):
        load_pack(tmp_path)


def test_a_missing_package_names_the_extra():
    with pytest.raises(PackError, match=r"pip install 'updp\[pretrained\]'"):
        extra("no_such_package_of_ours")


def _importable(name: str) -> bool:
    try:
        extra(name)
    except PackError:
        return False
    return True


@pytest.mark.skipif(not _importable("open_clip"), reason="open_clip is not importable here")
def test_an_open_clip_model_is_a_vlm():
    import open_clip

    from updp.models.adapters.open_clip import OpenClipVlm

    torch.manual_seed(0)
    model = open_clip.CLIP(
        embed_dim=16,
        vision_cfg={"image_size": 32, "patch_size": 16, "width": 32, "layers": 1, "head_width": 16},
        text_cfg={"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
    )
    model.visual.preprocess_cfg = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
    tokenizer = open_clip.SimpleTokenizer()
    vlm = object.__new__(OpenClipVlm).wrap(model, tokenizer)
    texts = vlm.embed_texts(["clear lungs"])
    ids = tokenizer(["clear lungs"])
    length = int(ids[0].argmax()) + 1
    rows = vlm.token_table[ids[:, :length]]
    assert torch.allclose(vlm.embed_tokens(rows, torch.ones(1, length, dtype=torch.bool)), texts, atol=1e-5)
    assert vlm.embed_images(torch.rand(2, 1, 64, 64)).shape == (2, 16)


@pytest.mark.skipif(not _importable("torchxrayvision"), reason="torchxrayvision is not importable here")
def test_a_torchxrayvision_densenet_is_a_classifier():
    import torchxrayvision as xrv

    from updp.models.adapters.torchxrayvision import XrvClassifier

    torch.manual_seed(0)
    model = xrv.models.DenseNet(num_classes=3, growth_rate=4, block_config=(1, 1, 1, 1), num_init_features=8)
    classifier = object.__new__(XrvClassifier).wrap(model, ["a", "b", "c"])
    assert classifier.probabilities(torch.rand(2, 1, 64, 64)).shape == (2, 3)
