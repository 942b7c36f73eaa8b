"""The guard ends a run at the step whose loss or gradient is not finite, and names its pairs."""

import pytest
import torch

from tasks.errors import TrainingError
from tasks.training.guard import FiniteGuard

CPU = torch.device("cpu")
INFINITE, NAN = torch.tensor(float("inf")), torch.tensor(float("nan"))


def test_a_gradient_that_is_not_finite_is_told_with_all_pairs_of_its_step():
    guard = FiniteGuard(CPU)
    guard.saw_batch(["before"], torch.tensor(2.0))
    guard.finish_step(2, 1.0)
    guard.saw_batch(["pair0"], INFINITE)
    guard.forget_batches()  # computed again, with less memory
    for pair, loss in (("pair0", 0.5), ("pair1", 0.25)):
        guard.saw_batch([pair], torch.tensor(loss))
    told = r"^step 3: loss 0\.75, gradient norm nan: .* of this step: pair0, pair1\. Look"
    with pytest.raises(TrainingError, match=told):
        guard.finish_step(3, NAN)


def test_under_a_scaler_that_skips_infinite_gradients_the_loss_alone_is_held():
    guard = FiniteGuard(CPU, norm_may_overflow=True)
    guard.saw_batch([], torch.tensor(0.5))
    guard.finish_step(1, INFINITE)
    guard.saw_batch([], NAN)
    with pytest.raises(TrainingError, match=r"^step 2: loss nan, .*\(pairs without ids\)"):
        guard.finish_step(2, 1.0)
