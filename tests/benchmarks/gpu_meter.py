"""What the GPU benchmark measures a contestant by: seconds, tokens, the device's product rate.

step      1 2 3 | 4 5 6 ... last |       the device is waited for at both marks alone, so that
          warm-up       measured         the host may run ahead as it does in a real run
"""

import time
from typing import Any


class Meter:
    """Seconds and tokens of the steps behind the warm-up, without waiting for the device between.

    Tokens are those that the body is given: all of them are computed, those that no mask marks are
    padding and not the contestant's own.
    """

    def __init__(self, on_gpu: bool, warm_up: int) -> None:
        self.on_gpu, self.warm_up = on_gpu, warm_up
        self.computed, self.own = 0, list[Any]()
        self.start = self.seconds = 0.0

    def count(self, _module: Any, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        """Called before every forward pass of the body."""
        ids, mask = given.get("input_ids", *args[:1]), given.get("attention_mask")
        self.computed += ids.numel()
        self.own.append(ids.numel() if mask is None else mask.sum())

    def callback(self, steps: int) -> Any:
        """Begins behind the warm-up, and ends behind the last one."""
        from transformers import TrainerCallback

        meter = self

        class Steps(TrainerCallback):
            def on_step_end(self, _args: Any, state: Any, *_: Any, **__: Any) -> None:
                if state.global_step == meter.warm_up:
                    meter.start, meter.computed, meter.own = meter.now(), 0, []
                elif state.global_step == steps:
                    meter.seconds = meter.now() - meter.start

        return Steps()

    def now(self) -> float:
        """The time, once the device has done all it was asked to."""
        import torch

        if self.on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter()

    def told(self) -> dict[str, float]:
        """Seconds, tokens that were computed, and those among them that are no padding."""
        own = sum(map(int, self.own))
        return {"seconds": self.seconds, "computed": self.computed, "own": own}


def matmul_rate(size: int = 8192, times: int = 20) -> float:
    """Floating-point operations a second of a bfloat16 matrix product on this device."""
    import torch

    a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    for _ in range(3):
        a @ a
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        a @ a
    torch.cuda.synchronize()
    return times * 2 * size**3 / (time.perf_counter() - start)
