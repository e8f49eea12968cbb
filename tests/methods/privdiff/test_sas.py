"""Selective Attribute Suppression: the algebra as printed and corrected, in updp's attention and in diffusers'."""

import pytest
import torch

from updp.methods.privdiff.sas import (
    Groups,
    Suppression,
    clean_channels,
    clean_maps,
    directions,
    plain_attention,
    projection,
    suppressed,
)

pytestmark = pytest.mark.numeric


def maps(n, length, seed=0, rows=()):
    logits = torch.randn(*rows, n, length, generator=torch.Generator().manual_seed(seed))
    return (2 * logits).softmax(-1)


@pytest.mark.parametrize(("n", "length"), [(16, 6), (16, 40), (64, 12)])
@pytest.mark.parametrize("ridge", [1e-3, 1e-2, 1.0])
def test_the_printed_projection_is_symmetric_with_eigenvalues_between_nothing_and_one(n, length, ridge):
    p = projection(maps(n, length), ridge)
    assert torch.allclose(p, p.mT, atol=1e-9)
    values = torch.linalg.eigvalsh(p)
    assert values.min() > -1e-9
    assert values.max() < 1 + 1e-9


def test_the_printed_projection_annihilates_the_sensitive_maps_as_the_ridge_vanishes():
    f = maps(32, 8).double()
    left = [float((projection(f, ridge) @ f).norm()) for ridge in (1.0, 1e-2, 1e-4, 1e-8)]
    assert left == sorted(left, reverse=True)
    assert left[-1] < 1e-6


@pytest.mark.parametrize(("n", "length"), [(24, 10), (24, 40)])
def test_both_algebraic_sides_give_one_projection(n, length):
    f, ridge = maps(n, length).double(), 1e-2
    inner = torch.eye(n) - f @ torch.linalg.inv(f.mT @ f + ridge * torch.eye(length).double()) @ f.mT
    outer = ridge * torch.linalg.inv(f @ f.mT + ridge * torch.eye(n).double())
    assert torch.allclose(inner, outer, atol=1e-5)
    assert torch.allclose(projection(f, ridge), outer, atol=1e-5)


def test_as_printed_the_rows_of_the_cleaned_map_sum_to_nothing():
    cleaned = projection(maps(64, 12), 1e-6).float() @ maps(64, 5, seed=1)
    assert cleaned.sum(-1).abs().max() < 1e-4


def test_as_printed_more_identities_than_places_erase_the_diagnosis():
    own = maps(16, 5, seed=1)
    few, many = (projection(maps(16, length), 1e-6).float() @ own for length in (4, 1000))
    assert many.norm() < 1e-3 * own.norm()
    assert few.norm() > 0.1 * own.norm()


def test_corrected_rows_still_sum_to_one_and_are_orthogonal_to_what_was_removed():
    own, sensitive = maps(64, 5, seed=1, rows=(2, 3)), maps(64, 12, rows=(2, 3))
    cleaned = clean_maps(own, sensitive, rank=4)
    assert torch.allclose(cleaned.sum(-1), torch.ones(2, 3, 64), atol=1e-5)
    basis = directions(sensitive - sensitive.mean(-2, keepdim=True), 4).float()
    assert torch.allclose(basis.mT @ basis, torch.eye(4).expand(2, 3, 4, 4), atol=1e-4)
    assert (basis.mT @ (cleaned - cleaned.mean(-2, keepdim=True))).abs().max() < 1e-4


def test_corrected_a_thousand_identities_leave_most_of_the_diagnosis():
    own = maps(64, 5, seed=1)
    cleaned = clean_maps(own, maps(64, 1000), rank=4)
    centred = own - own.mean(-2, keepdim=True)
    kept = (cleaned - cleaned.mean(-2, keepdim=True)).square().sum() / centred.square().sum()
    assert kept > 0.8


def test_in_channel_space_nothing_is_written_along_what_the_sensitive_tokens_write():
    generator = torch.Generator().manual_seed(0)
    sensitive = torch.randn(48, 1, generator=generator) @ torch.randn(1, 16, generator=generator)  # one direction
    own = torch.randn(24, 16, generator=generator)
    cleaned = clean_channels(own, sensitive, rank=3)
    along = torch.nn.functional.normalize((sensitive - sensitive.mean(0))[0], dim=0)
    assert ((cleaned - cleaned.mean(0)) @ along).abs().max() < 1e-4
    assert ((own - own.mean(0)) @ along).abs().max() > 0.5


def test_a_map_without_any_direction_removes_nothing():
    own = maps(16, 5)
    assert torch.allclose(clean_maps(own, torch.full((16, 4), 0.25), rank=4), own, atol=1e-6)


# -- attention -------------------------------------------------------------------------------------------------------

GROUPS = Groups(slice(4, 9), (slice(0, 2), slice(2, 4)))


def qkv(rows=3, heads=2, places=16, tokens=9, width=8):
    generator = torch.Generator().manual_seed(5)
    return (
        torch.randn(rows, heads, places, width, generator=generator),
        torch.randn(rows, heads, tokens, width, generator=generator),
        torch.randn(rows, heads, tokens, width, generator=generator),
    )


@pytest.mark.parametrize("form", ["literal", "feature", "channels"])
def test_rows_that_hear_no_diagnosis_attend_as_usual(form):
    q, k, v = qkv()
    mask = torch.zeros(3, 1, 1, 9, dtype=torch.bool)
    mask[0, ..., 4:] = True
    mask[1:, ..., :2] = True
    out, plain = Suppression(GROUPS, form)(q, k, v, mask), plain_attention(q, k, v, mask)
    assert torch.equal(out[1:], plain[1:])
    assert (out[0] - plain[0]).abs().max() > 1e-3
    assert out.isfinite().all()


def test_a_diagnosis_of_a_single_token_has_no_map_to_clean():
    q, k, v = qkv()
    mask = torch.zeros(3, 1, 1, 9, dtype=torch.bool)
    mask[..., 5] = True
    assert torch.allclose(Suppression(GROUPS)(q, k, v, mask), v[:, :, 5:6].expand_as(q), atol=1e-5)


def test_the_share_of_energy_that_is_kept_can_be_read():
    q, k, v = qkv()
    strict, mild = (Suppression(GROUPS, "feature", rank=rank, watch=True) for rank in (4, 1))
    strict(q, k, v, None)
    mild(q, k, v, None)
    assert 0 < strict.kept[0] < mild.kept[0] < 1


def test_a_condition_with_too_few_tokens_is_an_error():
    q, k, v = qkv(tokens=7)
    with pytest.raises(ValueError, match="expects 9 tokens"):
        Suppression(GROUPS)(q, k, v, None)


def test_gradients_pass_through_suppression():
    q, k, v = (x.requires_grad_() for x in qkv())
    Suppression(GROUPS)(q, k, v, None).square().sum().backward()
    assert all(x.grad.isfinite().all() for x in (q, k, v))


@pytest.fixture(scope="module")
def unet():
    diffusers = pytest.importorskip("diffusers")
    torch.manual_seed(0)
    return diffusers.UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(16, 32),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=16, attention_head_dim=8, norm_num_groups=8,
    ).eval()  # fmt: skip


def run(unet, mask=None):
    generator = torch.Generator().manual_seed(1)
    latents = torch.randn(2, 4, 8, 8, generator=generator)
    tokens = torch.randn(2, 9, 16, generator=generator)
    with torch.no_grad():
        return unet(latents, 10, tokens, encoder_attention_mask=mask).sample


@pytest.mark.parametrize("form", ["literal", "feature", "channels"])
def test_a_diffusers_unet_runs_with_suppression_in_its_cross_attentions(unet, form):
    own = dict(unet.attn_processors)
    plain = run(unet)
    suppression = Suppression(GROUPS, form, watch=True)
    unet.set_attn_processor(suppressed(unet, suppression))
    cleaned = run(unet)
    crossed = sum(".attn2." in name for name in own)
    unet.set_attn_processor(own)
    assert len(suppression.kept) == crossed > 0
    assert cleaned.isfinite().all()
    assert (cleaned - plain).abs().max() > 1e-4
    assert torch.equal(run(unet), plain)


def test_in_diffusers_rows_that_hear_no_diagnosis_are_as_they_were(unet):
    own = dict(unet.attn_processors)
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[1, GROUPS.diagnosis] = False
    plain = run(unet, mask)
    unet.set_attn_processor(suppressed(unet, Suppression(GROUPS)))
    cleaned = run(unet, mask)
    unet.set_attn_processor(own)
    assert torch.allclose(cleaned[1], plain[1], atol=1e-5)
    assert (cleaned[0] - plain[0]).abs().max() > 1e-4


def test_in_diffusers_suppression_refuses_self_attention(unet):
    own = dict(unet.attn_processors)
    cross = suppressed(unet, Suppression(GROUPS))
    some = next(name for name in own if ".attn2." in name)
    unet.set_attn_processor(dict.fromkeys(own, cross[some]))
    with pytest.raises(ValueError, match="attends to itself"):
        run(unet)
    unet.set_attn_processor(own)
