"""All targets, and the decoders that have none of their own, each with its reason.

``tests/contract/fuzz`` walks the source: a public function or method that is named like a decoder (``DECODER``) is
reached by the seeds or the kept corpus of a target, or has its reason here, or the test fails. So whoever writes a
decoder adds a target.
"""

from __future__ import annotations

from secvm_lab.fuzz.target import Target
from secvm_lab.fuzz.targets import (
    dashboard,
    databases,
    documents,
    files,
    log,
    nodes,
    parties,
    relay_doors,
    relays,
    sealing,
    stored_values,
)

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (
        sealing,
        documents,
        stored_values,
        log,
        relays,
        relay_doors,
        parties,
        files,
        databases,
        nodes,
        dashboard,
    )
    for target in module.TARGETS
}

#: How decoders are named.
DECODER = (
    r"from_(bytes|text|line|lines|path|payload|parts|fields|json|header|row)"
    r"|decode|decode_\w+|read|read_\w+|unpack|unpack_\w+|parse|parse_\w+|load|load_\w+|open|open_\w+"
    r"|\w+_from_(json|svmlight|bytes|text)|verify|verify_\w+|unlock"
)

#: Why a function of such a name is not fuzzed by itself.
EXEMPT: dict[str, str] = {
    "auditor.subject:Subject.read": "fetches a file; each kind of content has a target",
    "auditor.whole_log:WholeLog.read": "fetches files; each kind of content has a target",
    "cli.main:load": "imports a command",
    "cli.offline.people:read_for_model": "people.reader and people.columns, by what a model says",
    "cli.offline.people:read_to_train": "people.reader and people.columns",
    "cli.participant.state:open_state": "participant.storage.state:DeviceState, with messages for people",
    "cli.participant.vault:open_vault": "participant.storage.vault:Vault, with messages for people",
    "auditor.files:open_files": "makes a reader of a folder or a server",
    "coordinator.experiments.history:PlainHistories.read": "rows of the store, of which each part has a target",
    "coordinator.relayed.relayed_history:RelayedHistories.read": "rows of the store, of which each part has a target",
    "coordinator.frontend:Frontend.open": "begins to listen",
    "coordinator.log.logbook:FollowedLogbook.read_notes": "rows of the store, of which each part has a target",
    "coordinator.nodes.node_view:NodeView.read": "rows of the store, of which each part has a target",
    "coordinator.intake.running:CurrentRounds.open_fetch": "sealing.oblivious:GatewayKeys.open, by key id",
    "coordinator.store.postgres_migrations:read_migrations": "files of this package",
    "crypto.sealing.lanes:LaneKey.open": "machine code: the target capsule-lanes has it where it is built",
    "crypto.sealing.lanes:LaneKey.open_all": "machine code: the target layer-open has it where it is built",
    "estimator.base:SecVMBase.load": "estimator.model:ModelFile.from_bytes on a file",
    "estimator.model:ModelFile.read": "estimator.model:ModelFile.from_bytes on a file",
    "estimator.frames.edges:read_edges": "an argument in Python, not bytes",
    "files:read_beginning_with": "reads bytes and does not look into them",
    "participant.storage.device_lock:DeviceLock.unlock": "crypto.locking:KeptKey.unlock",
    "participant.storage.device_lock:open_lock": "runtime.disk.secret_files:read_secret",
    "participant.storage.vault:LockedVault.load": "crypto.locking:KeptKey.unlock; beneath, the device's own",
    "participant.consent.ledger:read_ledger": "rows of participant.storage.state:DeviceState",
    "participant.main:open_device": "participant.storage.state:DeviceState and settings",
    "participant.main:open_devices": "participant.storage.state:DeviceState and settings",
    "participant.sending.transport:open_transport": "makes a transport of settings",
    "participant.sources.port:Source.read": "a port",
    "protocol.documents.experiment:Windows.open_at_hour": "a question about the clock",
}
