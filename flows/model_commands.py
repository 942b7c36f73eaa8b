"""Commands about a trained model: replay its score contract, serve it over HTTP."""

import json
from pathlib import Path
from typing import Annotated

import typer

from flows.console import EXIT_FAILED, AsJson, Root, errors_in_one_sentence
from flows.registry_options import TrackingUri, registry_of

models = typer.Typer()

Source = Annotated[
    str, typer.Argument(help="models:/name@alias, models:/name/version, or a directory.")
]
Host = Annotated[str, typer.Option(help="Address to bind; beyond this machine only with a token.")]
Port = Annotated[int, typer.Option(help="Port; 0 takes a free one, which the log names.")]
Device = Annotated[
    str | None, typer.Option(help="Device: cpu or cuda.", show_default="cuda if there is one")
]
Threads = Annotated[
    int | None,
    typer.Option(
        help="The model's threads on a CPU.", show_default="OMP_NUM_THREADS, else cores - 1"
    ),
]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(help="Host name that clients may use beside addresses and localhost; repeatable."),
]
QueryForm = Annotated[
    str,
    typer.Option(
        help="What bare strings are: rendered (by the chat template; after a final end token, the "
        "template's own ending is added), text (the end token is added), or auto (rendered if "
        "there is a template)."
    ),
]
TooLong = Annotated[
    str,
    typer.Option(help="Sequences over --max-tokens: error, or cut_start (their end is scored)."),
]
ScaleOfAnswers = Annotated[
    str,
    typer.Option("--scale", help="Scale of the rewards: raw, normalized, champion or reference."),
]
SpecialTokens = Annotated[
    str | None, typer.Option(help="Special tokens in a request's own text: quarantine or encode.")
]
MaxTokens = Annotated[
    int | None, typer.Option(help="Tokens in one sequence.", show_default="the model's positions")
]
MaxSequences = Annotated[int, typer.Option(help="Sequences in one request.")]
MaxWaiting = Annotated[
    int, typer.Option(help="Requests accepted at a time; others get status 503.")
]
WindowMs = Annotated[
    float, typer.Option(help="Milliseconds that the first request of a batch waits for others.")
]
BatchTokens = Annotated[
    int | None,
    typer.Option(help="Tokens in one batch.", show_default="16384, on a CPU 4096"),
]
Grace = Annotated[int, typer.Option(help="Seconds for requests in flight after SIGTERM.")]


@models.command("verify-model")
def verify_model(
    directory: Annotated[Path, typer.Argument(help="Directory of a reward model.")],
    device: Annotated[str, typer.Option(help="Device: cpu or cuda.")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Replay a model's score contract (text, ids, rewards). Exit code 1: something differs."""
    from flows.verification import check_asked, print_verdicts
    from tasks.training.handover.contract import replay

    with errors_in_one_sentence():
        check_asked(directory, device)
        verdicts = replay(directory, device)
    if as_json:
        print(json.dumps({verdict.probe: verdict.difference for verdict in verdicts}))
    else:
        print_verdicts(directory, verdicts)
    if any(verdict.difference for verdict in verdicts):
        raise typer.Exit(EXIT_FAILED)


@models.command()
def serve(
    source: Source,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    device: Device = None,
    threads: Threads = None,
    allowed_host: AllowedHosts = None,
    query_form: QueryForm = "auto",
    too_long: TooLong = "error",
    scale: ScaleOfAnswers = "raw",
    special_tokens_in_text: SpecialTokens = None,
    max_tokens: MaxTokens = None,
    max_sequences: MaxSequences = 1024,
    max_waiting_requests: MaxWaiting = 1024,
    window_ms: WindowMs = 0.0,
    batch_tokens: BatchTokens = None,
    grace_seconds: Grace = 30,
    tracking_uri: TrackingUri = None,
    root: Root = Path(),
) -> None:
    """Serve a reward model over HTTP until SIGTERM.

    With REWARD_PIPELINE_SERVE_TOKEN set, clients must show that token.
    """
    from tasks.registration.serving.server import serve as serve_model
    from tasks.registration.serving.settings import settings_from

    with errors_in_one_sentence():
        settings = settings_from(
            host=host,
            port=port,
            allowed_hosts=tuple(allowed_host or ()),
            query_form=query_form,
            too_long=too_long,
            scale=scale,
            max_tokens=max_tokens,
            max_sequences=max_sequences,
            special_tokens_in_text=special_tokens_in_text,
            max_waiting_requests=max_waiting_requests,
            threads=threads,
            window_ms=window_ms,
            batch_tokens=batch_tokens,
            grace_seconds=grace_seconds,
        )
        serve_model(source, settings, registry_of(tracking_uri), root=root, device=device)
