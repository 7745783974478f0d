"""What a device sends in a plain round, made of public files alone."""

import os
from collections.abc import Callable

from secvm.crypto.sealing.oblivious import decode_key_configurations, seal_request
from secvm.learning.individual.contribution import Individual, contribute
from secvm.learning.individual.dice import Dice
from secvm.protocol.codec import AddressedPackage, encode
from secvm.protocol.documents.blobs import decode_weights
from secvm.protocol.documents.experiment import ExperimentDocument
from secvm.protocol.documents.manifest import RoundManifest
from secvm.protocol.plain.sealed_requests import package_request


def contributed(
    of: ExperimentDocument, manifest: RoundManifest, person: Individual, dice: Dice, *, blob: Callable[[str], bytes]
) -> list[bytes]:
    """A person's capsules; ``blob``: what is public under a digest."""
    training, evaluation = (
        decode_weights(blob(digest), digest=digest, experiment=of.experiment)
        for digest in (manifest.training_weights, manifest.evaluation_weights)
    )
    packages = contribute(
        person,
        experiment=of.experiment,
        training=training,
        evaluation=evaluation,
        dice=dice,
        round_number=manifest.round_number,
    )
    key = decode_key_configurations(manifest.gateway_keys)[0]
    contents = (encode(AddressedPackage(of.experiment_id, manifest.round_number, package)) for package in packages)
    return [seal_request(key, package_request(content), os.urandom).capsule for content in contents]
