"""Metrics in the format of Prometheus, read back by its own parser."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from updp.core.metrics import Metric, Metrics, families, serve


@pytest.fixture
def metrics() -> Metrics:
    made = Metrics({"a_total": Metric("counter", "What a counts."), "b": Metric("gauge", "What b is.")})
    made.add("a_total", why="no-room")
    made.add("a_total", 2, why='odd "quoted" \\ label\n')
    made.set("b", 1.5)
    return made


def test_the_parser_of_prometheus_reads_what_was_counted(metrics):
    found = {family.name: family for family in text_string_to_metric_families(metrics.text())}
    assert found["a"].type == "counter"
    assert found["a"].documentation == "What a counts."
    values = {sample.labels["why"]: sample.value for sample in found["a"].samples}
    assert values == {"no-room": 1, 'odd "quoted" \\ label\n': 2}
    assert [sample.value for sample in found["b"].samples] == [1.5]


def test_a_family_that_nobody_declared_is_an_error(metrics):
    with pytest.raises(KeyError):
        metrics.add("c_total")


def test_a_server_answers_at_one_address_only(metrics):
    server = serve(metrics, "127.0.0.1", 0)
    base = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        with urllib.request.urlopen(f"{base}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert answer.read().decode() == metrics.text()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{base}/")
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("service", ["receive", "watch"])
def test_what_a_service_publishes_has_words_and_the_kind_that_its_name_says(service: str) -> None:
    found = families(service)
    assert {one.kind for one in found.values()} == {"counter", "gauge"}
    for name, one in found.items():
        assert name.startswith("updp_")
        assert (one.kind == "counter") == name.endswith("_total")
        assert one.help.endswith(".")
