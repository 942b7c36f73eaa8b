"""Public benchmarks of reward models, from local files, with their official aggregation.

    params: evaluation.benchmarks [{name, path}]  ->  `files` rows -> `items`
                                                   ->  `passes` rewards -> figures

One module per benchmark reads its rows and gives its figures: `rewardbench`, `rewardbench2`,
`rm_bench`, `judgebench`. Both are pure: rows -> items to score; items with rewards -> figures.
Left in the artifact:

    benchmarks.json            every benchmark's figures, see `results.py`
    benchmarks/<label>.parquet a row per item: its rewards, lengths, and its own score
    benchmarks/<label>.json    in the official output form, where there is one
"""
