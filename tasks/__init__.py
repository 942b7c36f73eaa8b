"""The stages of the pipeline, in the order in which data passes through them.

| stage        | what comes in            | what goes out                       | shelf          |
|--------------|--------------------------|-------------------------------------|----------------|
| ingestion    | files of every source    | raw rows, each with its origin      | 1_ingestion    |
| conversion   | raw rows                 | canonical preference pairs, splits  | 2_conversion   |
| templating   | messages or text         | the exact text that the model reads | 3_templating   |
| tokenization | text                     | token ids in Arrow, length-filtered | 4_tokenization |
| training     | token ids, base model    | reward model directory              | 5_training     |
| evaluation   | model, held-out pairs    | per-pair scores, metrics, plots     | 6_evaluation   |
| registration | reward model, evaluation | verified MLflow model version       | 7_registration |

Beside them stand `model` (the base model and tokenizer, resolved once), `artifact` (how a stage's
output is keyed, built, committed and believed) and `errors`.
"""
