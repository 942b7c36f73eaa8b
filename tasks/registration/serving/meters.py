"""What `/metrics` tells, in Prometheus' text form: a registry of its own for every server."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
TOKENS = tuple(2.0**k for k in range(5, 20))
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
PREFIX = "reward_server"


class Meters:
    """Counters and histograms of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("requests", "Requests answered.", "path", "status")
        self.request_seconds = self._histogram(
            "request_seconds", "From request to answer.", SECONDS, "path"
        )
        self.errors = self._counter("errors", "Requests refused or failed, by reason.", "reason")
        self.sequences = self._counter("sequences", "Sequences scored.")
        self.tokens = self._counter("tokens", "Tokens scored.")
        self.cut = self._counter("cut", "Sequences scored without their start, being too long.")
        self.batch_sequences = self._histogram(
            "batch_sequences", "Sequences scored together.", SIZES
        )
        self.batch_tokens = self._histogram("batch_tokens", "Tokens scored together.", TOKENS)
        self.model_seconds = self._histogram(
            "model_seconds", "The model's time for a batch.", SECONDS
        )
        self.waiting_tokens = Gauge(
            f"{PREFIX}_waiting_tokens", "Tokens that wait for the model.", registry=self.registry
        )

    def answered(self) -> int:
        """Requests that got an answer, of whatever status."""
        samples = (s for metric in self.requests.collect() for s in metric.samples)
        return int(sum(s.value for s in samples if s.name.endswith("_total")))

    def text(self) -> bytes:
        """The page."""
        return generate_latest(self.registry)

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", help_text, labels, registry=self.registry)

    def _histogram(
        self, name: str, help_text: str, buckets: Sequence[float], *labels: str
    ) -> Histogram:
        return Histogram(
            f"{PREFIX}_{name}", help_text, labels, registry=self.registry, buckets=buckets
        )
