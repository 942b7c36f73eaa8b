"""A signed URL in a params file: used, and found in nothing that a run writes or prints."""

import json

import pytest
from typer.testing import CliRunner

from flows.__main__ import app
from flows.reward_pipeline import reward_pipeline
from tests.ingestion.places.servers import Files, serving

ROWS = [
    {"prompt": f"Question {n}?", "chosen": f"Yes, {n} is so.", "rejected": "No."} for n in range(30)
]
PARAMS = """
model: {{scratch: {{vocab_size: 320, hidden_size: 16, intermediate_size: 24}}}}
ingestion:
  sources:
    - {{name: signed, path: "{address}/download?id=7&X-Amz-Signature=hush", format: jsonl}}
conversion: {{eval_fraction: 0.1}}
"""


@pytest.fixture
def params(tmp_path):
    body = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    with serving(Files({"/download": body}).answer) as address:
        path = tmp_path / "params.yaml"
        path.write_text(PARAMS.format(address=address))
        yield path


@pytest.mark.parametrize(
    "given", [{"params": "https://u:hush@h/x.yaml"}, {"root": "s3://u:hush@b"}]
)
def test_a_url_with_a_password_in_place_of_a_path_is_told_without_it(params, tmp_path, given):
    state = reward_pipeline.fn(**{"params": str(params), "root": str(tmp_path), **given})
    assert "hush" not in state.message
    assert "holds a URL with a password" in state.message
    plain = {name: value.replace("u:hush@", "") for name, value in given.items()}
    told = reward_pipeline.fn(**{"params": str(params), "root": str(tmp_path), **plain}).message
    assert "is a URL; give a" in told


def test_the_signature_of_a_url_is_used_and_never_shown(params, tmp_path):
    root, told = tmp_path / "root", []
    for command in (
        ["run", str(params), "--until", "conversion"],
        ["run", str(params), "--until", "conversion", "--json"],
        ["plan", str(params)],
        ["plan", str(params), "conversion.eval_fraction=0.2", "--json"],
        ["explain", "ingestion", str(params), "ingestion.sources.0.limit=9"],
        ["explain", "conversion", str(params), "ingestion.sources.0.layout=trl"],
        ["show"],
        ["inspect", str(params)],
        ["inspect", str(params), "--json"],
        ["run", str(params), "ingestion.sources.0.limit=none"],
        ["run", str(params), "ingestion.sources.0.hub=a/b"],
        ["run", str(params), "ingestion.sources.0.format=null"],
        ["run", str(params), "ingestion.sources.0.format=parquet"],
    ):
        result = CliRunner().invoke(app, [*command, "--root", str(root)])
        told.append(result.output)
        assert result.exit_code in (0, 1, 2), result.output
        assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "hush" not in "".join(told)
    assert "ParamsError" in told[-4]
    assert "needs exactly one of path and hub" in told[-3]
    assert "has no known extension" in told[-2]
    assert "no Parquet file" in told[-1]
    written = [path for path in root.rglob("*") if path.is_file()]
    assert len(written) > 5
    assert not [path for path in written if b"hush" in path.read_bytes()]
