"""Lies with the log of an experiment with two relays: not shown, too old, forked, cosigned by nobody who counts."""

from __future__ import annotations

from dataclasses import replace

from secvm.protocol.log.checkpoints import SignedCheckpoint
from secvm.protocol.log.entries import ending_entry, experiment_entry, manifest_entry, opening_entry
from secvm_lab.rigs.histories.witnessed_log import KnownLog
from secvm_lab.rigs.lies.heard.scene import HeardScene, LoggedHistory
from secvm_lab.rigs.lies.liar import lines_of, no_padding, one_too_few, one_witness_twice, unknown_witness


def forked_log(scene: HeardScene) -> str:
    """The log is forked: two trees of one size, both signed."""
    variant = scene.dice.choice(["seen in the window", "instead of a round", "grown"])
    honest, fork = scene.history.branch(), scene.history.branch()
    honest.announce()
    other = scene.dice.randbytes(32)
    if variant == "seen in the window":
        fork.announce(manifest=lambda told: replace(told, count_seed_hash=other))
        fork.fork()
        shown = honest.branch()
        shown.files |= fork.log_files()
        scene.hear_in_window(honest, shown)
        return variant
    fork.log = KnownLog([*scene.history.log.entries[:-1], experiment_entry(scene.dice.randbytes(32).hex()).to_bytes()])
    fork.announce()
    if variant == "grown":
        fork.play(2)
        fork.announce()
    # A newcomer has seen nothing that this one contradicts, and only its quorum is missing.
    fork.fork()
    scene.hear(fork)
    return variant


def withheld_checkpoint(scene: HeardScene) -> str:
    """The round is shown, and no checkpoint that holds it and that a quorum has cosigned."""
    liar, dice = _announced(scene), scene.dice
    variant = dice.choice(["none", "no cosignatures", "too few", "half a checkpoint", "before the round"])
    path, signed = liar.checkpoint_path, liar.log.checkpoint()
    match variant:
        case "none":
            del liar.files[path]
        case "no cosignatures":
            liar.show(signed)
        case "too few":
            had = dice.sample(liar.parties.witnesses, liar.terms.quorum - 1)
            lines = lines_of(signed, had, time_s=liar.now // 1000)
            liar.show(signed.cosigned(*lines, *no_padding(liar, signed, had)))
        case "half a checkpoint":
            liar.files[path] = liar.files[path][: dice.randrange(len(liar.files[path]))]
        case _:
            _show_cosigned(liar, liar.log.checkpoint(signed.checkpoint.size - 1))
    scene.hear(liar)
    return variant


def stale_checkpoint(scene: HeardScene) -> str:
    """A checkpoint that a quorum cosigned too long ago, or will have cosigned some time."""
    dice = scene.dice
    variant = dice.choice(["long ago", "from the future", "half of each", "seen in the window"])
    liar = _announced(scene)
    if variant == "seen in the window":
        # A fresh look shows an older log than the device was shown: somebody is kept behind.
        shown = liar.branch()
        _show_cosigned(shown, shown.log.checkpoint(dice.randint(1, liar.log.tree.size - 1)))
        scene.hear_in_window(liar, shown)
        return variant
    fresh = dice.sample(liar.parties.witnesses, liar.terms.quorum - 1)
    rest = [one for one in liar.parties.witnesses if one not in fresh]
    now_s, signed = liar.now // 1000, liar.log.checkpoint()
    old_s = now_s - liar.terms.freshness_s - dice.randint(1, 10**6)
    # Longer than the round is looked for.
    ahead_s = now_s + 86_400 + dice.randint(0, 10**6)
    lines = lines_of(signed, fresh, time_s=now_s)
    for one in rest:
        times = {"long ago": [old_s], "from the future": [ahead_s], "half of each": [old_s, ahead_s]}[variant]
        lines += [line for time_s in times for line in lines_of(signed, [one], time_s=time_s)]
    liar.show(signed.cosigned(*lines))
    scene.hear(liar)
    return variant


def replayed_log(scene: HeardScene) -> str:
    """Genuine bytes of the log, of another time or another place."""
    past, dice = scene.history, scene.dice
    liar = _announced(scene)
    variant = dice.choice(
        ["an older checkpoint", "an older one, cosigned anew", "another order of lines", "a line less"]
    )
    if variant == "an older checkpoint":
        liar.files[liar.checkpoint_path] = past.files[past.checkpoint_path]
    elif variant == "an older one, cosigned anew":
        _show_cosigned(liar, liar.log.checkpoint(dice.randint(1, liar.log.tree.size - 1)))
    else:
        # The checkpoint is the newest; what leads to it is not served.
        entries = liar.log.entries
        lines = entries[::-1] if variant == "another order of lines" else entries[:-1]
        other, files = KnownLog(lines), liar.files
        note = files[liar.checkpoint_path]
        size = liar.log.tree.size
        liar.files = {path: data for path, data in files.items() if "/tile/entries/" not in path}
        told = {path.replace(f"{len(lines)}", f"{size}"): data for path, data in other.files(other.note()).items()}
        liar.files |= {f"/{_origin(liar)}/{path}": data for path, data in told.items() if "tile/entries/" in path}
        liar.files[liar.checkpoint_path] = note
    scene.hear(liar)
    return variant


def logged_twice(scene: HeardScene) -> str:
    """The log has an entry of the experiment that cannot be there, cosigned by all."""
    dice = scene.dice
    honest = _announced(scene)
    manifest, other = honest.running.manifest, dice.randbytes(32).hex()
    digest, number = honest.document.digest, manifest.round_number
    entries = {
        "another manifest": manifest_entry(digest, number, other),
        "the same one": manifest.log_entry,
        "an earlier round": manifest_entry(digest, max(1, number - 1), other),
        "the experiment": experiment_entry(digest),
        "an opening of nothing": opening_entry(digest, number + 1, other),
        "an ending": ending_entry(digest, other),
    }
    variant = dice.choice(sorted(entries))
    liar = honest.branch()
    liar.log.append(experiment_entry(dice.randbytes(32).hex()))
    liar.enter(entries[variant])
    if dice.random() < 0.4:
        scene.hear_in_window(honest, liar)
        return f"{variant}, in the window"
    scene.hear(liar)
    return variant


def not_logged(scene: HeardScene) -> str:
    """The round is not in the log, or another is in its place."""
    liar = _announced(scene)
    variant = scene.dice.choice(["nothing", "another experiment's", "another digest"])
    entry = liar.running.manifest.log_entry
    instead = {
        "nothing": [],
        "another experiment's": [replace(entry, experiment="2" * 64).to_bytes()],
        "another digest": [replace(entry, digest="2" * 64).to_bytes()],
    }[variant]
    liar.log = KnownLog([*liar.log.entries[:-1], *instead])
    liar.cosign()
    scene.hear(liar)
    return variant


def cosigned_by_strangers(scene: HeardScene) -> str:
    """A quorum only with witnesses that the experiment does not name."""
    liar = _announced(scene)
    signed = liar.log.checkpoint()
    had = scene.dice.sample(liar.parties.witnesses, liar.terms.quorum - 1)
    lines = lines_of(signed, had, time_s=liar.now // 1000)
    for _ in range(scene.dice.randint(1, 3)):
        lines += unknown_witness(liar, signed, had)
    liar.show(signed.cosigned(*lines))
    scene.hear(liar)
    return f"{len(had)} known"


def one_counted_twice(scene: HeardScene) -> str:
    """A quorum only where one witness counts twice: by two lines, or by two names."""
    liar = _announced(scene)
    signed = liar.log.checkpoint()
    had = scene.dice.sample(liar.parties.witnesses, liar.terms.quorum - 1)
    lines = lines_of(signed, had, time_s=liar.now // 1000)
    for _ in range(scene.dice.randint(1, 3)):
        lines += one_witness_twice(liar, signed, had)
    liar.show(signed.cosigned(*lines))
    scene.hear(liar)
    return "lines"


def one_witness_too_few(scene: HeardScene) -> str:
    """A quorum less one, and something in the place of the last."""
    liar = _announced(scene)
    liar.show(one_too_few(liar, liar.log.checkpoint()))
    scene.hear(liar)
    return ""


def no_look_answered(scene: HeardScene) -> str:
    """Rounds are shown, and whoever looks again in their windows is not answered."""
    liar = scene.history.branch()
    for _ in range(3):
        instants = liar.announce().instants
        scene.serve(liar)
        scene.live(instants.opens_at)
        note = scene.net.files.pop(liar.checkpoint_path)
        scene.live(instants.mix_by)
        scene.net.files[liar.checkpoint_path] = note
        liar.play(2)
        scene.serve(liar)
        scene.live(instants.open_by - 10_000)
    liar.announce()
    scene.hear(liar)
    return ""


def _announced(scene: HeardScene) -> LoggedHistory:
    liar = scene.history.branch()
    liar.announce()
    return liar


def _origin(history: LoggedHistory) -> str:
    path = next(path for path in history.files if "/tile/" in path)
    return path[1 : path.index("/tile/")]


def _show_cosigned(history: LoggedHistory, signed: SignedCheckpoint) -> None:
    """The log at this checkpoint, with every witness's line under it."""
    lines = lines_of(signed, list(history.parties.witnesses), time_s=history.now // 1000)
    history.show(signed.cosigned(*lines))
