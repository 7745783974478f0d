"""Metrics: sums under labels from a closed list."""

from hypothesis import given
from hypothesis import strategies as st

from secvm.runtime.metrics import Metrics


def lines(metrics: Metrics) -> list[str]:
    page, media_type = metrics.page()
    assert media_type.startswith("text/plain")
    return [line for line in page.decode().splitlines() if not line.startswith("#")]


def test_what_is_counted_stands_on_the_page() -> None:
    metrics = Metrics("relay")
    requests = metrics.counter("requests", "Requests.", {"reason": ("full", "late"), "kind": ("a",)})
    requests.add(reason="full", kind="a")
    requests.add(2, reason="full", kind="a")
    metrics.gauge("waiting", "Capsules that wait.").set(7)
    metrics.histogram("took_s", "How long.", buckets=(1, 2)).observe(1.5)
    assert lines(metrics) == [
        'secvm_relay_requests_total{kind="a",reason="full"} 3.0',
        'secvm_relay_requests_total{kind="a",reason="late"} 0.0',
        "secvm_relay_waiting 7.0",
        'secvm_relay_took_s_bucket{le="1.0"} 0.0',
        'secvm_relay_took_s_bucket{le="2.0"} 1.0',
        'secvm_relay_took_s_bucket{le="+Inf"} 1.0',
        "secvm_relay_took_s_count 1.0",
        "secvm_relay_took_s_sum 1.5",
    ]


@given(value=st.text(), name=st.text())
def test_no_label_is_made_from_what_comes_in(value: str, name: str) -> None:
    metrics = Metrics("relay")
    requests = metrics.counter("requests", "Requests.", {"reason": ("full",)})
    requests.add(reason=value)
    requests.add(reason="full", **({} if name in {"self", "reason"} else {name: value}))
    assert {line.rpartition(" ")[0] for line in lines(metrics)} <= {
        'secvm_relay_requests_total{reason="full"}',
        'secvm_relay_requests_total{reason="refused"}',
    }
    assert sum(float(line.rpartition(" ")[2]) for line in lines(metrics)) == 2
