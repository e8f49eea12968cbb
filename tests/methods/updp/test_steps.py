"""The tensor train of STEPS."""

import pytest
import torch

from updp.methods.updp.steps import TensorTrain

pytestmark = pytest.mark.numeric


def test_a_tensor_train_is_a_distribution_and_learns_what_it_is_shown():
    generator = torch.Generator().manual_seed(0)
    model = TensorTrain(3, 4, 5, [generator])
    every = torch.cartesian_prod(*[torch.arange(4)] * 3)
    assert float(model.log_likelihood(every[None]).detach().exp().sum()) == pytest.approx(1, abs=1e-5)
    assert torch.allclose(model.marginals().sum(2), torch.ones(1, 3), atol=1e-5)
    shown = torch.tensor([[0, 1, 2]]).expand(8, -1)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(60):
        optimiser.zero_grad()
        (-model.log_likelihood(shown[None]).mean()).backward()
        optimiser.step()
    assert (model.sample(50, [generator]) == shown[0]).all(2).float().mean() > 0.8
