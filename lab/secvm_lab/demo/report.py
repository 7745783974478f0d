"""The demonstration's page: one file, nothing fetched from anywhere, made of a ``DemoResult`` and nothing else."""

from __future__ import annotations

import html
import math

from secvm_lab.demo.report_parts import (
    accuracy_figure,
    accuracy_levels,
    arrivals_figure,
    attack_levels,
    class_figures,
    participants_figure,
)
from secvm_lab.demo.result import DemoResult, Protected
from secvm_lab.reports import cards, number, percent, shell, table


def report_page(result: DemoResult) -> str:
    """The whole page."""
    return shell(
        "A federation in miniature",
        _opening(result)
        + "<h2>Privacy, in plain numbers</h2>"
        + _privacy(result)
        + "<h2>How good is the model?</h2>"
        + _accuracy_words(result)
        + accuracy_levels(result)
        + accuracy_figure(result)
        + "<h2>Recall and precision of each class</h2>"
        + "<p>Counted by the coordinator from one test package of each device that tests, in every round: the"
        " weights that a"
        " round begins with. Bands are 95 % intervals; with so few testers they are wide. The dotted line is what"
        " guessing by"
        " the classes’ shares would reach. (The paper’s Figure 2.)</p>"
        + class_figures(result)
        + "<h2>Who took part</h2>"
        + "<p>Train participants of each class, and devices that tested. Now and then a device misses a round; it"
        " joins the"
        " next one. (The paper’s Figure 3.)</p>"
        + participants_figure(result)
        + "<h2>Nothing lost, nothing twice</h2>"
        + _checks(result)
        + "<h2>Packages and traffic</h2>"
        + _traffic(result)
        + arrivals_figure(result)
        + "<h2>Who knew what</h2>"
        + _knowledge(result)
        + f"<footer>Made by <code>secvm demo</code> in {result.seconds:.0f} seconds, after {result.setup_seconds:.0f}"
        f" of set-up, seed {result.seed}. This page is one file and fetches nothing.</footer>",
    )


def _opening(result: DemoResult) -> str:
    found = result.protected
    shown = [
        (percent(result.accuracy), f"accuracy on {number(result.tested_on)} people who took no part"),
        (percent(result.central_accuracy), "scikit-learn’s LinearSVC with all the data in one place"),
        (number(result.checks.packages_sent), "packages of devices"),
        (str(result.checks.lost), "lost"),
        (str(result.checks.counted_twice), "counted twice"),
        (result.checks.audit, f"says an auditor; {result.checks.steps_in_words}"),
        (f"{result.seconds:.0f} s", f"for {result.rounds_in_words} on this machine"),
    ]
    if found is None:
        guarded = ("none", "formal guarantee: the paper’s own system")
        sent = (
            "single counts of plus or minus one, sealed one by one, at random times, through a relay that cannot open"
            " them, to a coordinator that cannot tell whose they are"
        )
    else:
        guarded = (f"ε = {found.guarantee.epsilon:g}", f"at δ = {found.guarantee.delta:g}, over all rounds together")
        sent = (
            "single counts of plus or minus one, sealed twice, among the cover of two relays, to a coordinator that"
            " can tell neither whose they are nor which of them are anybody’s"
        )
    relays = "a relay" if found is None else "two relays"
    return (
        "<h1>A federation in miniature</h1>"
        f'<p class="lead">{number(result.participants)} devices trained one classifier in {result.rounds_in_words}.'
        f" What each of them read stayed with it; what left were {sent}.</p>"
        + cards([guarded, *shown])
        + "<h2>What this was</h2>"
        f"<p>{html.escape(result.people)} A coordinator, {relays}, {result.witnesses} witnesses"
        f" and {result.hosts} host{'s' if result.hosts != 1 else ''} ran as processes of their own and spoke over"
        " sockets of this machine."
        f" Every device"
        " had its own vault, session and schedule; only the processor was shared. Time ran faster than on the wall,"
        " and a"
        " window closed when everything that was due in it had been acknowledged.</p>"
        + table(
            ["what", "how much"],
            [
                ["devices", number(result.participants)],
                ["rounds", str(result.rounds)],
                ["packages of a device in a round (B)", str(result.budget)],
                ["bins", number(result.bins)],
                ["descent", f"{result.descent}, thinning {result.thinning}"],
                ["classes", ", ".join(result.labels)],
            ],
        )
    )


def _accuracy_words(result: DemoResult) -> str:
    away = 100 * (result.accuracy - result.central_accuracy)
    low, high = result.final.accuracy.interval
    compared = "as good as" if abs(away) < 0.05 else f"{abs(away):.1f} points {'above' if away > 0 else 'below'}"
    rows = [
        [
            name,
            percent(result.final.recall[i].value),
            percent(result.final.precision[i].value),
            percent(result.final.baseline[i].value),
        ]
        for i, name in enumerate(result.labels)
    ]
    return (
        f"<p>The model of the last round is right about <strong>{percent(result.accuracy)}</strong> of"
        f" {number(result.tested_on)} people who took no part (95 % interval {percent(low)} to {percent(high)})."
        f" That is"
        f" {compared} a LinearSVC that saw the same features of the same training people in clear"
        f" ({percent(result.central_accuracy)}). LinearSVC is taken as it comes.</p>"
        + table(["class", "recall", "precision", "share of people (baseline)"], rows)
    )


def _checks(result: DemoResult) -> str:
    checks = result.checks
    complete = (
        f"{number(checks.packages_sent)} packages were acknowledged to devices, {number(checks.packages_counted)} were"
        f" counted: {number(checks.lost)} lost."
    )
    once = (
        f"{number(checks.counted_twice)} counted twice: every tally was compared, bin by bin, with that of the same"
        " people, dice and attendance, computed offline."
    )
    same = "equal" if checks.bit_exact else "differ from"
    exact = f"The bytes of the last state {same} those of the offline estimator."
    if result.protected is None:
        true = (
            f", in a log that {result.witnesses} witnesses cosigned. Whether the tallies are true nobody can see from"
            " outside."
        )
    else:
        true = (
            f", and these from the {number(checks.recounted)} packages that the relays handed on, each of which it"
            " opened and counted again. Whether devices tell the truth nobody can see from outside."
        )
    audited = (
        f"An auditor read what is public and found no fault: {checks.steps_in_words} from the published tallies{true}"
        if not checks.faults
        else f"An auditor found: {'; '.join(checks.faults)}."
    )
    items = [
        (checks.lost == 0, complete),
        (checks.counted_twice == 0, once),
        (checks.bit_exact, exact),
        (not checks.faults, audited),
    ]
    shown = "".join(f'<li class="{"yes" if good else "no"}">{html.escape(text)}</li>' for good, text in items)
    return f'<ul class="checks">{shown}</ul>'


def _traffic(result: DemoResult) -> str:
    per_device = result.budget * result.rounds
    rows = [
        ["packages of one device in a round", str(result.budget)],
        ["packages of one device in all rounds", number(per_device)],
        ["packages of everybody", number(result.checks.packages_sent)],
        [
            "packages a second, all the time included",
            number(round(result.checks.packages_sent / max(0.001, result.seconds))),
        ],
    ]
    if result.capsule_bytes:
        rows += [
            ["a sealed package", f"{result.capsule_bytes} bytes"],
            ["sealed packages of one device, all rounds", f"{per_device * result.capsule_bytes / 1000:,.0f} kB"],
        ]
    rows += [[name, number(value)] for name, value in result.traffic.items()]
    one_by_one = result.protected is None
    leaves = "Each leaves at a time" if one_by_one else "All of them leave in one request, at a time"
    return (
        "<p>A device sends exactly as many packages in every round, whether it trains or tests and whatever it has"
        f" to say; what is missing is filled with packages that say nothing. {leaves} drawn uniformly from the whole"
        " window.</p>" + table(["what", "how much"], rows)
    )


def _knowledge(result: DemoResult) -> str:
    plain = result.protected is None
    rows = [
        [
            "the device",
            "its own pages, words and label; all that is public",
            "anything of another device",
        ],
        [
            "the relay" if plain else "the entry relay",
            f"which devices took part in a round, and that each sent {result.budget} packages",
            "what is in a package: label, bin, sign, train or test, or nothing at all",
        ],
        *([] if plain else [["the mixing relay", "how many sealed packages came", "who sent one, and what is in it"]]),
        [
            "the coordinator",
            "all packages of a round, sorted, in one batch; the count of devices",
            "from which device a package came, which belong together, and when it was sent",
        ],
        [
            "everybody",
            "tallies: how many +1 and −1 in each bin, participants per class, test results; the model",
            "single packages",
        ],
    ]
    return table(["who", "knew", "did not know"], rows) + (
        f"<p>This holds as long as {'relay and coordinator' if plain else 'the two relays'} do not put their knowledge"
        " together. Here one person ran both: it is a demonstration, with made-up devices and dice that can be thrown"
        " again.</p>"
    )


def _protected(result: DemoResult, found: Protected) -> str:
    told, attack = found.guarantee, found.attack
    flip = "none" if math.isinf(told.label_flip) else f"{told.label_flip:.2f}"
    return (
        f"<p><strong>(ε, δ) = ({told.epsilon:g}, {told.delta:g}) holds for everybody who takes part as long as one of"
        " two relays is honest; nothing is assumed of the coordinator, the witnesses or other devices.</strong> Each"
        " relay added cover packages that look exactly like others and name no one’s data. Whatever all others do and"
        " know, what they see would have looked much the same if this person had sent nothing of their own.</p>"
        + table(
            ["what", "here"],
            [
                ["ε asked for, over all rounds together", f"{told.epsilon:g}"],
                ["δ", f"{told.delta:g}"],
                ["ε that the cover reaches", f"{told.achieved:.2f}"],
                ["ε if only the label is flipped", flip],
                ["packages of a device in a round (B)", str(result.budget)],
                ["packages that each relay added to a round (D)", number(told.cover_packages)],
                ["parts of these, of which one was opened (S)", str(told.parts)],
                ["noise in each count of a bin and a sign (standard deviation)", f"{told.noise:.1f}"],
            ],
        )
        + "<h3>The label attack</h3>"
        f"<p>The coordinator and one relay put together all that they saw in {result.rounds_in_words}, and take that"
        " relay’s cover off. Of a victim they know all bins, of everybody else all that was sent; they ask for the"
        f" victim’s label by the exact likelihood ratio. Played on {number(attack.victims)} made-up victims, put"
        " into these rounds one at a time with either label, the honest relay’s cover drawn anew, the chance to rank"
        " the two right (AUC, with its 95 % interval; .5 is a coin) was:</p>"
        + attack_levels(attack)
        + "<p><strong>It assumes</strong> that in each round one of the two relays is honest: it mixes, adds its cover"
        " from good dice, and forgets. <strong>It does not say</strong> that nobody sees who takes part, that devices"
        " tell the truth, or anything about both relays together: they can link everything. Here one person ran both"
        " of them, with dice that can be thrown again, so this run shows the system and protects nobody.</p>"
    )


def _privacy(result: DemoResult) -> str:
    if result.protected is not None:
        return _protected(result, result.protected)
    assert result.leakage is not None
    leak = result.leakage
    return (
        "<p><strong>No formal guarantee.</strong> Nothing was added to the counts in this mode (the paper’s)."
        " Hashing hides"
        " which word stands behind a bin; it does not hide labels.</p>"
        "<p>Somebody who already knows a person’s words can test the public tallies for that person’s label. How"
        " well that"
        " goes follows from d′² = q · bins · (1/V₊ + 1/V₋) in each round, summed over the rounds in which the"
        " device sent an"
        " update; V₊ and V₋ are the devices that sent one for either side.</p>"
        + table(
            ["what", "here"],
            [
                ["bins", number(result.bins)],
                ["share of an update’s units that is sent (q)", percent(leak.q)],
                ["d′² of round 1", f"{leak.summed[0] if leak.summed else 0:.2f}"],
                ["chance to tell the label from round 1 alone (AUC)", f"{leak.first_auc:.2f}"],
                [
                    f"d′² of all {result.rounds} rounds, for a device active in each",
                    f"{leak.summed[-1] if leak.summed else 0:.1f}",
                ],
                ["chance from all rounds (AUC; .50 is a coin)", f"{leak.auc:.2f}"],
            ],
        )
        + "<p>So with a few hundred devices the label of somebody whose words are known is <em>not</em> hidden. An"
        " AUC of at most"
        " .55 would need bins · rounds · (1/V₊ + 1/V₋) ≤ 0.03: many more devices, fewer bins, fewer rounds, or"
        " noise.</p>"
    )
