"""What `/metrics` tells, in Prometheus' text form: a registry of its own for every server."""

from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
TOKENS = tuple(2.0**k for k in range(5, 20))
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
PREFIX = "reward_server"


@dataclass(frozen=True)
class Meters:
    """Counters and histograms of one server."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        def made(kind: type, name: str, help_text: str, *labels: str, **options: object) -> None:
            meter = kind(f"{PREFIX}_{name}", help_text, labels, registry=self.registry, **options)
            object.__setattr__(self, name, meter)

        made(Counter, "requests", "Requests answered.", "path", "status")
        made(Histogram, "request_seconds", "From request to answer.", "path", buckets=SECONDS)
        made(Counter, "errors", "Requests refused or failed, by reason.", "reason")
        made(Counter, "sequences", "Sequences scored.")
        made(Counter, "tokens", "Tokens scored.")
        made(Counter, "cut", "Sequences scored without their start, being too long.")
        made(Histogram, "batch_sequences", "Sequences scored together.", buckets=SIZES)
        made(Histogram, "batch_tokens", "Tokens scored together.", buckets=TOKENS)
        made(Histogram, "model_seconds", "The model's time for a batch.", buckets=SECONDS)
        made(Gauge, "waiting_tokens", "Tokens that wait for the model.")

    requests: Counter = field(init=False)
    request_seconds: Histogram = field(init=False)
    errors: Counter = field(init=False)
    sequences: Counter = field(init=False)
    tokens: Counter = field(init=False)
    cut: Counter = field(init=False)
    batch_sequences: Histogram = field(init=False)
    batch_tokens: Histogram = field(init=False)
    model_seconds: Histogram = field(init=False)
    waiting_tokens: Gauge = field(init=False)

    def answered(self) -> int:
        """Requests that got an answer, of whatever status."""
        samples = (s for metric in self.requests.collect() for s in metric.samples)
        return int(sum(s.value for s in samples if s.name.endswith("_total")))

    def text(self) -> bytes:
        """The page."""
        return generate_latest(self.registry)
