"""Counts of a running service, in the text format that Prometheus reads. No label holds a value of a patient."""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Literal, NamedTuple

Labels = tuple[tuple[str, str], ...]


class Metric(NamedTuple):
    """One family of values."""

    kind: Literal["counter", "gauge"]
    help: str


def families(service: str) -> dict[str, Metric]:
    """The families that a service publishes, from ``metrics.toml``."""
    rows = tomllib.loads(resources.files("updp.core").joinpath("metrics.toml").read_text("utf-8"))[service]
    return {name: Metric("counter" if name.endswith("_total") else "gauge", words) for name, words in rows.items()}


class Metrics:
    """The values of a service, by name and labels; threads may share it."""

    def __init__(self, families: Mapping[str, Metric]) -> None:
        self.families = dict(families)
        self._values: dict[str, dict[Labels, float]] = {name: {} for name in families}
        self._lock = threading.Lock()

    def add(self, name: str, by: float = 1, **labels: str) -> None:
        """Raise a counter."""
        with self._lock:
            values, place = self._values[name], tuple(sorted(labels.items()))
            values[place] = values.get(place, 0) + by

    def set(self, name: str, value: float, **labels: str) -> None:
        """Put a gauge to a value."""
        with self._lock:
            self._values[name][tuple(sorted(labels.items()))] = value

    def value(self, name: str, **labels: str) -> float:
        with self._lock:
            return self._values[name].get(tuple(sorted(labels.items())), 0)

    def text(self) -> str:
        """Every value in the exposition format, version 0.0.4."""
        lines = []
        with self._lock:
            for name, (kind, words) in self.families.items():
                lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
                for labels, value in sorted(self._values[name].items()):
                    inner = ",".join(f'{label}="{_escaped(said)}"' for label, said in labels)
                    lines.append(f"{name}{{{inner}}} {value:.17g}" if inner else f"{name} {value:.17g}")
        return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def serve(metrics: Metrics, host: str, port: int) -> ThreadingHTTPServer:
    """Answer ``GET /metrics`` from a thread of its own until ``shutdown``."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.partition("?")[0] == "/metrics"
            body = metrics.text().encode() if found else b"the metrics are at /metrics\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """No line per request: the log is for events."""

    server = ThreadingHTTPServer((host, port), Page)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
