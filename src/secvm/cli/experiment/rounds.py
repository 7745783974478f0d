"""Rounds of an experiment for a terminal: all of them, or one line each as they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from secvm.protocol.round_state import RoundEnd

#: Of a status: rounds that have ended, and those of them whose packages were counted.
_COUNTED = frozenset({"published", "opened"})
_ENDED = _COUNTED | {"abandoned", "unopened"}
OVER = frozenset({"finished", "stopped"})


def ended_rounds(
    ask: Callable[[], dict[str, Any]], pause: Callable[[], None], most_counted: int | None = None
) -> Iterator[dict[str, Any]]:
    """Each round of a status once it has ended, until the experiment is over or so many have brought a new model.
    ``ask`` fetches the status; ``pause`` waits until it is worth another look.
    """
    shown = counted = 0
    while True:
        status = ask()
        rounds = status["rounds"]
        for round_ in [ended for ended in rounds if ended["state"] in _ENDED][shown:]:
            shown, counted = shown + 1, counted + _brought_model(round_)
            yield round_
            if counted == most_counted:
                return
        if status["standing"] in OVER and shown == len(rounds):
            return
        pause()


def round_line(round_: dict[str, Any]) -> str:
    """One round that has ended."""
    line = f"round {round_['number']:>3}  {round_['state']:10}"
    if "people" in round_:
        share = _share(round_.get("accuracy")) if sum(round_["people"].values()) else ""
        line += f" {_trained(round_)} trained  {f'accuracy {share}' if share else 'not tested'}"
    return f"{line}  {why_ended(round_)}".rstrip()


def ending_line(status: dict[str, Any], export: str) -> str:
    """What is said when an experiment is over; ``export``: the command that takes its model home."""
    if not any(_brought_model(round_) for round_ in status["rounds"]):
        return f"The experiment is {status['standing']}. No round was counted, so there is no model."
    return f"The experiment is {status['standing']}. Take its model home: {export}"


def _brought_model(round_: dict[str, Any]) -> bool:
    # One that was opened with too few who trained brought no new model.
    return round_["state"] in _COUNTED and bool(round_.get("stepped", True))


class LostParties:
    """Whom a coordinator has lost, as its /health says, told when it begins and when it is over."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def news(self, health: dict[str, Any], coordinator: str) -> list[str]:
        """A sentence for each that is lost or back since the last look; ``coordinator``: the URL that was asked."""
        lost: dict[str, str] = {}
        for alarm in health.get("lost") or []:
            since = datetime.fromtimestamp(alarm["since"] / 1000, UTC).strftime("%H:%M UTC")
            names = ", ".join(alarm["parties"])
            if alarm["what"] == "quorum":
                lost[f"the witnesses {names}"] = (
                    f"lost since {since}: the log waits for a quorum, and these witnesses have not cosigned: {names}."
                    f" Look at each of them, and at {coordinator}/health"
                )
            else:
                lost[f"the relay {names}"] = (
                    f"lost since {since}: the relay {names} does not answer at {alarm.get('url', 'its URL')}, and no"
                    " round ends without it. Ask its operator whether it runs: on its machine, its log says why it"
                    " ended, and 'secvm relay serve' starts it again"
                )
        before, self._told = self._told, lost
        news = [sentence for who, sentence in lost.items() if who not in before]
        return news + [f"{who}: not lost any more" for who in before if who not in lost]


def why_ended(round_: dict[str, Any]) -> str:
    """Why a round was not counted, or not stepped, as far as the status says: the word that the documents explain
    (docs/how-to/run-for-real.md), what it means, and what exactly was missing or false.
    """
    word = str(round_.get("end", "")) if round_["state"] in _ENDED else ""
    more = [str(reason) for reason in round_.get("reasons") or [] if reason != word]
    if word == RoundEnd.TOO_FEW_SENT.word and "clients" in round_:
        more.append(f"{round_['clients']:,} did")
    if word == RoundEnd.COUNTED.word:
        word = ""
    known = [end.value for end in RoundEnd if end.word == word]
    said, exactly = f"{word}: {known[0]}" if known else word, ", ".join(more)
    return f"{said} ({exactly})" if said and exactly else said or exactly


def status_lines(status: dict[str, Any]) -> list[str]:
    """An experiment and all its rounds, with the newest test results by label."""
    lines = [f"{status['title']}", f"{status['experiment']}  {status['standing']}", _privacy(status["privacy"]), ""]
    lines.append(f"{'round':>5}  {'state':10}{'opens at (UTC)':18}{'trained':22}accuracy")
    for round_ in status["rounds"]:
        opens = datetime.fromtimestamp(round_["opens_at"] / 1000, UTC).strftime("%Y-%m-%d %H:%M")
        trained = _trained(round_) if "people" in round_ else ""
        line = f"{round_['number']:>5}  {round_['state']:10}{opens:18}{trained:22}{_share(round_.get('accuracy'))}"
        lines.append(line.rstrip())
    lines += _reasons(status["rounds"], status["floor"])
    tested = [round_ for round_ in status["rounds"] if "recall" in round_]
    if tested:
        head = f"round {tested[-1]['number']}, by label"
        lines += ["", f"{head:20}{'recall':21}{'precision':21}baseline"]
        lines += [
            f"  {label:18}{_share(tested[-1]['recall'][label]):21}{_share(tested[-1]['precision'][label]):21}"
            f"{_share(tested[-1]['baseline'][label], interval=False)}"
            for label in status["labels"]
        ]
    lines += _leakage(status.get("leakage"))
    return lines + [""] * bool(status["notes"]) + list(status["notes"])


def _privacy(privacy: dict[str, Any]) -> str:
    if privacy["kind"] == "plain":
        return f"plain: {privacy['note']}"
    return f"private: ε = {privacy['epsilon']:g} at δ = {privacy['delta']:g} over all rounds; {privacy['note']}"


def _reasons(rounds: list[dict[str, Any]], floor: int) -> list[str]:
    """Why rounds were not counted, or opened and not stepped."""
    lines = [f"round {round_['number']} {_ended(round_)}: {why}" for round_ in rounds if (why := why_ended(round_))]
    if any(round_["state"] == "abandoned" and not why_ended(round_) for round_ in rounds):
        lines.append(f"abandoned: fewer than {floor} trained, so nothing is told of them")
    return [""] * bool(lines) + lines


def _ended(round_: dict[str, Any]) -> str:
    return f"is {round_['state']}" if round_["state"] != "opened" else "was opened, and no step was taken"


def _leakage(leakage: dict[str, Any] | None) -> list[str]:
    """What tallies of a plain experiment have given away; of one with two relays there is none to tell."""
    if leakage is None or leakage["auc"] is None:
        return []
    so_far = f"{leakage['rounds_told']} round{'s' * (leakage['rounds_told'] != 1)}"
    sentence = f"leakage: whoever knows a person's features tells the label with AUC {leakage['auc']:.3f} by {so_far}"
    return ["", f"{sentence} (planned for all: {leakage['planned_auc']:.3f})"]


def _trained(round_: dict[str, Any]) -> str:
    """How many trained: a count, or with cover about how many, and the 95 % interval of its noise."""
    trained = round_.get("trained")
    if trained is None:
        # An older coordinator says nothing else.
        return f"{sum(round_['people'].values()):,}"
    if trained["low"] == trained["high"]:
        return f"{trained['value']:,}"
    return f"about {trained['value']:,} ({trained['low']:,}-{trained['high']:,})"


def _share(share: dict[str, Any] | None, *, interval: bool = True) -> str:
    if share is None or share["value"] is None:
        return ""
    return f"{share['value']:.3f}" + (f" ({share['low']:.3f}-{share['high']:.3f})" if interval else "")
