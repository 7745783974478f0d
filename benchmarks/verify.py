"""What believing a round costs a device: CPU besides playing the step again, and bytes besides state and tally.

One round of an experiment of ``--bins`` bins with three witnesses, after ``--rounds`` earlier ones, checked as
``TrustedRounds.check`` does: the log's signature, the quorum, the tree, the chain, the step. The step alone (reading
state and tally, computing, hashing what comes out) is measured beside it and taken off. ``besides_over_signatures`` is
what is left over the bare Ed25519 verifications that nobody can do without: the nearer to 1 the better. CPU time of one
thread, all contestants in turns, the fastest of several turns each.

    ./secvm bench verify [--bins 10000] [--rounds 30]
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from fractions import Fraction

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks._measuring import fastest, memory_mb
from secvm.learning.aggregate.descent import Swift
from secvm.learning.experiment import Experiment
from secvm.learning.thinning import Thinning
from secvm.protocol.documents.blobs import decode_state, decode_tally
from secvm.protocol.documents.recomputation import next_model, what_differs
from secvm.protocol.trust.trusted_rounds import TrustedRounds
from secvm_lab.rigs.histories.public_history import PublicHistory

WITNESSES = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this benchmark."""
    parser.add_argument("--bins", type=int, default=10_000, help="bins of the experiment")
    parser.add_argument("--rounds", type=int, default=29, help="rounds before the one that is checked, at most 399")
    parser.add_argument("--turns", type=int, default=15, help="turns of each contestant")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Play the rounds before, then check one more again and again."""
    dice = random.Random(0)
    experiment = Experiment(
        n_bins=arguments.bins,
        labels=("a", "b"),
        rule=Swift(),
        thinning=Thinning(rho=Fraction(3)),
        budget=40,
    )
    history = PublicHistory.drawn(dice, witnesses=WITNESSES, experiment=experiment, beacons=0, rounds=400)
    history.play(arguments.rounds, abandoned=0.0)
    trusted = TrustedRounds(history.document, history.envelope)
    if arguments.rounds:
        trusted.believe(trusted.check(history.served(trusted), now=history.now))
        history.announce()
        trusted.believe(trusted.check(history.served(trusted), now=history.now))
        history.conclude(history.draw_tally())
    history.announce()
    served, now = history.served(trusted), history.now
    (envelope,) = served.manifests
    manifest = history.manifests[-1]
    before = trusted.last

    def replay() -> None:
        if before is not None and manifest.last is not None and manifest.last.tally is not None:
            name = manifest.last.tally
            state = decode_state(trusted.trusted.state, digest=before.manifest.state, experiment=experiment)
            tally = decode_tally(served.tallies[name], digest=name, experiment=experiment)
            model = next_model(history.document, state, tally)
            assert what_differs(manifest, model) is None
            model.state.to_bytes()

    signatures = _signatures(1 + WITNESSES + 2)
    contestants: dict[str, Callable[[], object]] = {
        "check": lambda: trusted.check(served, now=now),
        "replay": replay,
        "signatures": signatures,
    }
    best = fastest(contestants, arguments.turns)
    besides = best["check"] - best["replay"]
    return {
        "besides_replay_ms": round(1000 * besides, 3),
        "besides_over_signatures": round(besides / best["signatures"], 2),
        "checkpoint_bytes": len(served.checkpoint),
        "lines_bytes": sum(map(len, served.lines)),
        "manifest_bytes": len(envelope),
        "log_and_manifest_bytes": len(served.checkpoint) + sum(map(len, served.lines)) + len(envelope),
        "check_ms": round(1000 * best["check"], 3),
        "replay_ms": round(1000 * best["replay"], 3),
        "signatures_ms": round(1000 * best["signatures"], 3),
        "state_bytes": len(trusted.trusted.state),
        "tally_bytes": sum(map(len, served.tallies.values())),
        "log_entries": history.log.tree.size,
        "peak_mb": round(memory_mb(), 1),
    }


def _signatures(count: int) -> Callable[[], None]:
    """So many bare verifications: manifest, relay's count, the log, and the witnesses."""
    key = Ed25519PrivateKey.generate()
    message = bytes(200)
    signature, public = key.sign(message), key.public_key()

    def verify() -> None:
        for _ in range(count):
            public.verify(signature, message)

    return verify
