"""The benchmarks by the names that params use."""

from tasks.evaluation.benchmarks import judgebench, rewardbench, rewardbench2, rm_bench
from tasks.evaluation.benchmarks.results import Benchmark

BENCHMARKS = {
    "rewardbench": Benchmark(
        "RewardBench", rewardbench.item, rewardbench.judge, rewardbench.WEIGHTS, official=True
    ),
    "rewardbench2": Benchmark(
        "RewardBench 2",
        rewardbench2.item,
        rewardbench2.judge,
        rewardbench2.SUBSETS,
        official=True,
        check=rewardbench2.check,
    ),
    "rm_bench": Benchmark(
        "RM-Bench", rm_bench.item, rm_bench.judge, rm_bench.DOMAINS, official=False
    ),
    "judgebench": Benchmark(
        "JudgeBench", judgebench.item, judgebench.judge, judgebench.CATEGORIES, official=False
    ),
}
