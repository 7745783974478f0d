"""Lies with checkpoints: not shown, too old, from another time, cosigned by nobody who counts."""

from __future__ import annotations

from secvm.crypto.signing import sign
from secvm.protocol.canonical import digest_of, encode_document
from secvm.protocol.log.checkpoints import SignedCheckpoint
from secvm.protocol.log.entries import experiment_entry, manifest_entry
from secvm.protocol.log.tiles import TILE_WIDTH, Tile, read_bundle, write_bundle
from secvm.protocol.version import EXPERIMENT_TYPE
from secvm_lab.rigs.histories.public_history import PublicHistory
from secvm_lab.rigs.lies.liar import Liar, Scene, Told, lines_of, no_padding, one_witness_twice, unknown_witness


def withheld_checkpoint(scene: Scene) -> Told:
    """The round is shown, and no checkpoint that holds it and that a quorum has cosigned."""
    liar = _announced(scene)
    variant = scene.dice.choice(["none", "no cosignatures", "too few", "half a checkpoint", "before the round"])
    path, signed = _checkpoint_path(liar), liar.log.checkpoint()
    files = dict(liar.files)
    match variant:
        case "none":
            del files[path]
        case "no cosignatures":
            files[path] = signed.data
        case "too few":
            files[path] = _short(liar, signed).data
        case "half a checkpoint":
            files[path] = files[path][: scene.dice.randrange(len(files[path]))]
        case _:
            # Cosigned by all, and one entry too old.
            old = liar.log.checkpoint(signed.checkpoint.size - 1)
            files |= _cosigned_by_all(liar, old)
    return Told(files=files, now=liar.now, public=dict(liar.files), variant=variant)


def stale_checkpoint(scene: Scene) -> Told:
    """A checkpoint that a quorum cosigned too long ago, or will have cosigned some time."""
    liar, dice = _announced(scene), scene.dice
    variant = dice.choice(["long ago", "from the future", "half of each", "seen in the window"])
    if variant == "seen in the window":
        # A fresh look shows an older log than the victim was shown: somebody is kept behind.
        scene.follow(liar)
        old = liar.log.checkpoint(dice.randint(1, liar.log.tree.size - 1))
        old = old.cosigned(*lines_of(old, list(liar.parties.witnesses), time_s=liar.now // 1000))
        return Told(files=liar.files, now=liar.now, public=liar.files, variant=variant, refetched=old.data)
    fresh = dice.sample(liar.parties.witnesses, liar.terms.quorum - 1)
    rest = [one for one in liar.parties.witnesses if one not in fresh]
    now_s, freshness_s = liar.now // 1000, liar.terms.freshness_s
    old_s = now_s - freshness_s - dice.randint(1, 10**6)
    ahead_s = now_s + 600 + dice.randint(0, 10**6)
    signed = liar.log.checkpoint()
    lines = lines_of(signed, fresh, time_s=now_s)
    for one in rest:
        times = {"long ago": [old_s], "from the future": [ahead_s], "half of each": [old_s, ahead_s]}[variant]
        lines += [line for time_s in times for line in lines_of(signed, [one], time_s=time_s)]
    files = dict(liar.files)
    files[_checkpoint_path(liar)] = signed.cosigned(*lines).data
    return Told(files=files, now=liar.now, public=files, variant=variant, visible=True)


def replayed_log(scene: Scene) -> Told:
    """Genuine bytes of the log, of another time or another place."""
    past, dice = scene.history, scene.dice
    liar = _announced(scene)
    variant = dice.choice(
        ["an older checkpoint", "an older one, cosigned anew", "another order of lines", "a line less"]
    )
    files = dict(liar.files)
    if variant == "an older checkpoint":
        files[_checkpoint_path(liar)] = past.files[_checkpoint_path(past)]
    elif variant == "an older one, cosigned anew":
        # Any beginning of the log that is without the round.
        size = dice.randint(1, liar.log.index_of(liar.manifests[-1].log_entry))
        files |= _cosigned_by_all(liar, liar.log.checkpoint(size))
    else:
        # The checkpoint is the newest; what leads to it is not served.
        path = next(path for path in files if path.startswith(f"{liar.log_place}/tile/entries/{_tail(liar)}"))
        lines = read_bundle(files[path], width=liar.log.tree.size % TILE_WIDTH)
        lines = lines[::-1] if variant == "another order of lines" else lines[:-1]
        files[path] = write_bundle(lines)
    return Told(files=files, now=liar.now, public=dict(liar.files), variant=variant)


def logged_twice(scene: Scene) -> Told:
    """The log has a second entry of the experiment that cannot be there, cosigned by all."""
    liar, dice = _announced(scene), scene.dice
    manifest = liar.manifests[-1]
    other = dice.randbytes(32).hex()
    digest, number = liar.document.digest, manifest.round_number
    variant = dice.choice(["another manifest", "the same one", "an earlier round", "the experiment", "in the window"])
    if variant == "in the window":
        scene.follow(liar)
    before = dict(liar.files)
    liar.let_others_append()
    liar.log.append(
        {
            "the same one": manifest.log_entry,
            "an earlier round": manifest_entry(digest, max(1, number - 1), other),
            "the experiment": experiment_entry(digest),
        }.get(variant, manifest_entry(digest, number, other))
    )
    signed = liar.cosign()
    if variant != "in the window":
        return Told(files=liar.files, now=liar.now, public=liar.files, variant=variant)
    # Who has believed the round is shown it when it looks again.
    files = {**liar.files, **before}
    return Told(files=files, now=liar.now, public=liar.files, variant=variant, refetched=signed.data)


def cosigned_by_strangers(scene: Scene) -> Told:
    """A quorum only with witnesses that the experiment does not name."""
    liar = _announced(scene)
    signed = liar.log.checkpoint()
    had = scene.dice.sample(liar.parties.witnesses, liar.terms.quorum - 1)
    lines = lines_of(signed, had, time_s=liar.now // 1000)
    for _ in range(scene.dice.randint(1, 3)):
        lines += unknown_witness(liar, signed, had)
    return _with_lines(liar, signed.cosigned(*lines), f"{len(had)} known")


def one_counted_twice(scene: Scene) -> Told:
    """A quorum only where one witness counts twice: by two lines, by two names, or as the experiment lists it."""
    dice = scene.dice
    if scene.newcomer and dice.random() < 0.3:
        return _listed_twice(scene)
    liar = _announced(scene)
    signed = liar.log.checkpoint()
    had = dice.sample(liar.parties.witnesses, max(1, liar.terms.quorum - 1))
    if liar.terms.quorum == 1:
        # With a quorum of one nobody needs to be counted twice; then the one is a stranger.
        return cosigned_by_strangers(scene)
    lines = lines_of(signed, had, time_s=liar.now // 1000)
    for _ in range(dice.randint(1, 3)):
        lines += one_witness_twice(liar, signed, had)
    return _with_lines(liar, signed.cosigned(*lines), "lines")


def _listed_twice(scene: Scene) -> Told:
    """An experiment that names one key as two witnesses, so that one line each fills the quorum."""
    liar, dice = Liar.after(scene.pasts[0] if scene.pasts else scene.history), scene.dice
    content = liar.document._content()  # noqa: SLF001  (what no document can be made to say, a liar writes itself)
    first = content["log"]["witnesses"][0]
    name = dice.choice([first["name"], "second.example"])
    content["log"]["witnesses"] = [first, {"key": first["key"], "name": name}]
    content["log"]["quorum"] = 2
    data = encode_document(content)
    joined = digest_of(data)
    envelope = sign(data, purpose=EXPERIMENT_TYPE, keys=(liar.parties.coordinator,))
    files = {**liar.files, f"/v1/experiment/{joined}": envelope}
    return Told(files=files, now=liar.now, public=files, variant="listed", joined=joined)


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _announced(scene: Scene) -> Liar:
    liar = Liar.after(scene.history)
    liar.announce()
    return liar


def _checkpoint_path(history: PublicHistory) -> str:
    return f"{history.place}/checkpoint"


def _tail(history: PublicHistory) -> str:
    """The name of the log's last tile of entries, which is not full."""
    return Tile(None, 0, history.log.tree.size).path.removeprefix("tile/entries/")


def _cosigned_by_all(history: PublicHistory, signed: SignedCheckpoint) -> dict[str, bytes]:
    """The files of the log at this checkpoint, with every witness's line under it."""
    signed = signed.cosigned(*lines_of(signed, list(history.parties.witnesses), time_s=history.now // 1000))
    files = {f"{history.log_place}/{path}": data for path, data in history.log.files(signed).items()}
    return {**files, _checkpoint_path(history): signed.data}


def _short(history: PublicHistory, signed: SignedCheckpoint) -> SignedCheckpoint:
    had = history.dice.sample(history.parties.witnesses, history.terms.quorum - 1)
    lines = lines_of(signed, had, time_s=history.now // 1000)
    return signed.cosigned(*lines, *no_padding(history, signed, had))


def _with_lines(liar: Liar, signed: SignedCheckpoint, variant: str) -> Told:
    """Show the victim this checkpoint and no other."""
    files = dict(liar.files)
    files |= {_checkpoint_path(liar): signed.data, f"{liar.log_place}/checkpoint": signed.data}
    return Told(files=files, now=liar.now, public=files, variant=variant)
