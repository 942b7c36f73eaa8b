"""The page itself: sections of tables and pictures, put into the template.

Every text is escaped by the template and made visible first (`wording.visible`). The page allows
no script and loads nothing: its policy lets in only its own style sheet, by hash, and pictures
that it carries.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.evaluation.report import tables
from tasks.evaluation.report.benchmark_tables import benchmarks
from tasks.evaluation.report.headline import headline
from tasks.evaluation.report.layout import Figures, Table
from tasks.evaluation.report.readiness_tables import readiness
from tasks.evaluation.report.registration_tables import bounds, champion, facts
from tasks.evaluation.report.wording import number, visible

if TYPE_CHECKING:
    from jinja2 import Template

HERE = Path(__file__).parent
KINDS = {
    "right": "Surest right verdicts",
    "wrong": "Surest wrong verdicts",
    "close": "Closest calls",
}
PICTURES = {
    "rewards": "Histogram of the rewards of chosen and of rejected answers",
    "margins": "Histogram of the margins",
    "calibration": "Reliability diagram",
    "length_ratio": "Accuracy by the ratio of lengths",
    "best_of_n": "Quality of the best of n answers",
}


@dataclass(frozen=True)
class Picture:
    """A PNG for light pages and one for dark ones, as data URIs."""

    name: str
    text: str
    light: str
    dark: str


@dataclass(frozen=True)
class Material:
    """What the page shows beside the figures."""

    pictures: Sequence[Picture] = ()
    samples: Sequence[Figures] = ()
    """Rows of `samples.py`."""
    suspects: Sequence[Figures] = ()
    """All rows of `suspects.py`, the first first."""


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    name: str
    title: str
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()


def render_report(
    metrics: Figures,
    material: Material | None = None,
    *,
    decision: Figures | None = None,
    against: Figures | None = None,
    links: Sequence[tuple[str, str]] = (),
    provenance: Figures | None = None,
) -> str:
    """The page as HTML.

    decision    `{outcome, reason, bounds}` of the gate; None before there is one
    against     what `against_champion` gives; None without a champion
    links       `(text, address)`; an address that is not http(s) stands there as text
    provenance  nested facts: keys, digests, versions, params
    """
    material = material or Material()
    outcome = decision["outcome"] if decision else None
    style = (HERE / "page.css").read_text("utf-8")
    digest = base64.b64encode(sha256(style.encode()).digest()).decode("ascii")
    return _template().render(
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        title=f"Reward model: {'decision and evaluation' if decision else 'evaluation'}",
        outcome=outcome,
        decision=decision,
        gate=bounds(decision) if decision else None,
        headline=headline(metrics),
        warnings=metrics["warnings"],
        sections=_sections(metrics, material, against, provenance),
        samples=[
            (title, [row for row in material.samples if row["kind"] == kind])
            for kind, title in KINDS.items()
        ],
        links=[(text, url, url.startswith(("https://", "http://"))) for text, url in links],
        number=number,
    )


def report_of(
    directory: Path,
    *,
    decision: Figures | None = None,
    against: Figures | None = None,
    links: Sequence[tuple[str, str]] = (),
    provenance: Figures | None = None,
) -> str:
    """The page of an evaluation artifact; the rest as for `render_report`."""
    metrics = json.loads((directory / "metrics.json").read_bytes())
    material = Material(
        pictures=_pictures(directory / "plots"),
        samples=_rows(directory / "samples.parquet"),
        suspects=_rows(directory / "suspects.parquet"),
    )
    return render_report(
        metrics,
        material,
        decision=decision,
        against=against,
        links=links,
        provenance=provenance,
    )


def _sections(
    metrics: Figures, material: Material, against: Figures | None, provenance: Figures | None
) -> list[Section]:
    pictures = {picture.name: picture for picture in material.pictures}

    def shown(*names: str) -> list[Picture]:
        return [pictures[name] for name in names if name in pictures]

    sections = [
        Section("accuracy", "Accuracy", tables.sources(metrics), shown("rewards", "margins")),
        Section("benchmarks", "Benchmarks", benchmarks(metrics)),
        Section("champion", "Champion", champion(against) if against else ()),
        Section("bias", "Bias", tables.bias(metrics), shown("length_ratio")),
        Section("readiness", "Readiness for RL", readiness(metrics), shown("best_of_n")),
        Section("calibration", "Calibration", tables.calibration(metrics), shown("calibration")),
        Section("labels", "Labels", tables.suspects(metrics, material.suspects)),
        Section(
            "provenance",
            "Provenance",
            [facts(name, found) for name, found in (provenance or {}).items()],
        ),
    ]
    return [section for section in sections if section.tables or section.pictures]


def _rows(path: Path) -> list[Mapping[str, Any]]:
    if not path.is_file():
        return []
    import pyarrow.parquet as pq

    return pq.read_table(path).to_pylist()


def _pictures(directory: Path) -> list[Picture]:
    """Those that were drawn."""
    return [
        Picture(name, text, _uri(light), _uri(directory / "dark" / light.name))
        for name, text in PICTURES.items()
        if (light := directory / f"{name}.png").is_file()
    ]


def _uri(path: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


@lru_cache(maxsize=1)
def _template() -> "Template":
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    def finalized(value: Any) -> Any:
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalized,
    )
    return environment.from_string((HERE / "page.html").read_text("utf-8"))
