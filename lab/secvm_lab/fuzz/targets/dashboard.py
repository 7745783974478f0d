"""What the operator's page reads: a coordinator's answers, which it does not trust, and the form of a visitor."""

from __future__ import annotations

import functools

from secvm.dashboard.main import read_listen
from secvm.dashboard.plan import read_request
from secvm.dashboard.public_status import ExperimentStatus, read_health, read_list, read_metrics
from secvm.dashboard.watched_log import WatchedLog
from secvm.errors import BadInputError, RemoteProtocolError
from secvm.protocol.log.policy import LogTerms
from secvm_lab.fuzz import world
from secvm_lab.fuzz.target import Target
from secvm_lab.rigs.histories.long_history import LongHistory

_FORM = (
    '{"part":"quick","logged":true,"specification":{"labels":["no","yes"],"people":1000,"binning":{"bins":64},'
    '"features":{"per_participant":9},"descent":{"rule":"swift"},"floor":100,"rounds":5,'
    '"relays":[{"role":"entry","operator":"a"},{"role":"mix","operator":"b"}],'
    '"privacy":{"epsilon":"1/2","delta":0.00001}}}'
)
_METRICS = (
    "# TYPE secvm_coordinator_packages_total counter\n"
    "secvm_coordinator_packages_total 12.0\nsecvm_coordinator_commits_total 3\n"
)
_HEALTH = (
    '{"status":"ok","node":{"role":"driver","name":"a","lag_ms":3},"logs":{"witnesses":3},'
    '"lost":[{"what":"relay","parties":["r"],"since":5}]}'
)


@functools.cache
def _long() -> LongHistory:
    return LongHistory(rounds=2, further=1)


def _status(data: bytes) -> ExperimentStatus:
    return ExperimentStatus.read(data, digest=_long().document.digest)


def _status_seeds() -> list[bytes]:
    served = _long().file(_long().status_path)
    assert served is not None
    return [served]


def _seen_log(data: bytes) -> WatchedLog:
    history = world.history()
    terms = history.document.log
    assert isinstance(terms, LogTerms)
    return WatchedLog.read(data, terms=terms)


TARGETS = (
    Target("page-status", _status, _status_seeds, allowed=(RemoteProtocolError,)),
    Target("page-list", read_list, lambda: world.files("/v1/experiments"), allowed=(RemoteProtocolError,)),
    Target("page-health", read_health, world.texts('{"status":"ok"}', _HEALTH), allowed=(RemoteProtocolError,)),
    Target("page-metrics", read_metrics, world.texts(_METRICS), allowed=()),
    Target(
        "page-log",
        _seen_log,
        lambda: world.files(f"{world.history().document.digest}/checkpoint"),
        allowed=(RemoteProtocolError,),
    ),
    Target("page-plan", read_request, world.texts(_FORM), allowed=(BadInputError,)),
    Target(
        "page-address",
        lambda data: read_listen(world.as_text(data)),
        world.texts("127.0.0.1:8760", "[::1]:80"),
        allowed=(BadInputError,),
    ),
)
