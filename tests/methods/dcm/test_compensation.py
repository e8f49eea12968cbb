"""The code of DCM-DeID: whole numbers, counted in bits."""

import pytest
import torch

from updp.methods.dcm.compensation import NestedCode

pytestmark = pytest.mark.numeric


def test_a_code_of_whole_numbers_costs_more_bits_the_less_the_prior_expects_it():
    code = NestedCode(inputs=6, channels=2, hidden=4)
    with torch.no_grad():
        bits = code.bits(torch.stack([torch.full((2,), v) for v in (0.0, 3.0, 6.0)]))
        numbers = code(torch.randn(2, 6))
    assert bits[0] < bits[1] < bits[2]
    assert torch.equal(numbers, numbers.round())
    # Over all whole numbers the prior's shares sum to one.
    values = torch.arange(-60.0, 61.0)[:, None].expand(-1, 2)
    assert float((0.5 ** (code.bits(values).detach() / 2)).sum()) == pytest.approx(1, abs=1e-3)
