"""Consent: policies are values, the default protects, and a refusal is one sentence that knows the next step."""

import math
from fractions import Fraction

import pytest

from secvm.errors import BadInputError, ConsentRefusedError
from secvm.learning.aggregate.descent import Pegasos
from secvm.learning.experiment import Experiment
from secvm.learning.losses import Loss
from secvm.participant.consent.policies import Consent, needed_for
from secvm.participant.settings import ConsentSettings
from secvm.participant.storage.books import Accepted
from secvm.protocol.documents.experiment import ExperimentDocument
from tests.there import there
from tests.unit.participant.world import World, real_document

#: 20 bins, 2 rounds, half a million people: nobody's label is told with an AUC above .55.
HARMLESS = {"rounds": 2, "floor": 500_000}


def refusal(document: ExperimentDocument, consent: Consent, accepted: Accepted | None = None) -> str:
    with pytest.raises(ConsentRefusedError) as found:
        consent.weigh(Consent().statement(document), accepted or Accepted())
    assert found.value.next_step
    assert "\n" not in str(found.value)
    return str(found.value)


def test_default_refuses_a_plain_experiment_that_leaks_and_says_how_to_go_on() -> None:
    document = real_document(floor=1000, rounds=10)
    assert "no formal guarantee" in refusal(document, Consent())
    statement = Consent().statement(document)
    assert statement.leak is not None
    assert statement.leak.auc > 0.55
    with pytest.raises(ConsentRefusedError) as found:
        Consent().check(document)
    step = str(found.value.next_step)
    needed = float(step.split("--accept-leakage ")[1].split(maxsplit=1)[0])
    assert "total_auc" in step
    # What the next step names is enough.
    Consent().check(document, Accepted(auc=needed))
    Consent(most_auc=needed).check(document)


def test_repro_a_plain_experiment_was_joined_by_the_law_of_honest_weights() -> None:
    document = real_document(**HARMLESS)
    statement = Consent().statement(document)
    assert statement.leak is not None
    assert statement.leak.auc < 0.55
    said = refusal(document, Consent())
    assert "chooses the weights" in said
    assert "can tell your answer for certain" in said
    # The person's own word, for this experiment or for all of them.
    needed = there(needed_for(statement))
    Consent().check(document, needed)
    Consent(most_auc=0.55).check(document)


def test_an_accepted_auc_below_the_laws_is_not_enough() -> None:
    assert "agrees to 0.600 at most" in refusal(real_document(rounds=10), Consent(), Accepted(auc=0.6))


def test_rounds_have_a_limit_of_their_own() -> None:
    document = real_document(**HARMLESS)
    assert "2 rounds" in refusal(document, Consent(most_rounds=1))


def test_accepting_leakage_does_not_accept_other_things() -> None:
    document = real_document(floor=3, rounds=10)
    assert "10 rounds" in refusal(document, Consent(most_rounds=9), Accepted(auc=1.0))


@pytest.mark.parametrize("made", [lambda: Accepted(auc=0.4), lambda: Accepted(auc=1.1), lambda: Accepted(epsilon=0.0)])
def test_nonsense_cannot_be_accepted(made: object) -> None:
    assert callable(made)
    with pytest.raises(BadInputError):
        made()


def test_label_that_is_a_number_is_refused_unless_anything_is_accepted() -> None:
    numbers = Experiment(
        n_bins=20, labels=("age",), rule=Pegasos(), loss=Loss("epsilon-insensitive", Fraction(1, 10)), budget=8
    )
    document = real_document(experiment=numbers, **HARMLESS)
    assert "nobody knows the risk" in refusal(document, Consent())
    Consent().check(document, Accepted(auc=1.0))


def test_settings_make_the_consent_and_the_default_is_the_safe_one() -> None:
    assert ConsentSettings().consent() == Consent()
    loud = ConsentSettings(policy="unsafe-accept-anything").consent()
    assert loud.unsafe
    assert math.isinf(loud.budget.epsilon)
    own = ConsentSettings(most_auc=0.6, most_epsilon=2, delta=1e-7, total_epsilon=3).consent(coordinator="us")
    assert (own.delta, own.coordinator) == (1e-7, "us")
    assert (own.most_auc, own.most_epsilon, own.budget.epsilon) == (0.6, 2, 3)


def test_device_joins_only_what_it_agrees_to_and_draws_nothing_before(world: World) -> None:
    world.fill()
    device = world.start(consent=Consent())
    with pytest.raises(ConsentRefusedError):
        world.join(device)
    assert device.state.records() == []
