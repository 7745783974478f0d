"""An auditor's own policy: which logs may be told of, and whose cosignatures are enough (c2sp.org/tlog-policy).

Its quorum comes on top of the experiment's own (``protocol.log_policy``). How old a cosignature may be is the
experiment's to say, and checked with its log; a policy says nothing of it.
"""

from __future__ import annotations

from secvm.auditor.files import MOST_LOG_BYTES, experiment_path
from secvm.auditor.subject import Subject
from secvm.errors import BadInputError, RemoteProtocolError
from secvm.protocol.log.checkpoints import check_enough, read_checkpoint
from secvm.protocol.log.policy import LogPolicy, quorum_of


def check_policy(subject: Subject, policy: LogPolicy) -> None:
    """That an experiment's log and the cosignatures under its newest checkpoint are enough for this policy."""
    terms, findings = subject.document.log, subject.findings
    if terms is None:
        findings.fault("log", "the policy cannot be met: the experiment names no log")
        return
    try:
        quorum = quorum_of(terms, policy)
    except BadInputError as fault:
        findings.fault("log", f"the policy cannot be met: {fault}")
        return
    path = experiment_path(subject.document.digest, "checkpoint")
    data = subject.read("log", path, None, most=MOST_LOG_BYTES)
    try:
        # One that is not there, or no checkpoint, is told of with the log.
        if data is not None:
            signed = read_checkpoint(data, log=terms.log_key)
            counting = [key for key in terms.witness_keys if key.key in quorum.keys]
            check_enough(signed.times(counting), quorum, now=subject.now, freshness_s=None)
    except RemoteProtocolError as fault:
        findings.fault("log", f"the policy is not met: {fault}")
