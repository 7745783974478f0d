/** The sentences that `sentences.ts` says, in English: those of Python's `secvm.privacy.sentences`. */

export const ENGLISH: { readonly [key: string]: string } = {
  // The risk of taking part, in words that somebody can weigh (`risk`).
  "risk.two":
    "Somebody who knows everything else about you and bets on your answer would be right at most {times:.1f}" +
    " times in 10; 5 is a coin toss.",
  "risk.several":
    "Somebody who knows everything else about you and bets between your answer and another one would be right at" +
    " most {times:.1f} times in 10; 5 is a coin toss.",
  "risk.number":
    "Somebody who knows everything else about you and bets between your number and another one would be right at" +
    " most {times:.1f} times in 10; 5 is a coin toss.",
  "risk.unbounded":
    "Nothing limits the risk: somebody who bets on your answer could be right 10 times in 10; 5 is a coin toss.",
  "risk.together":
    "From all that your device has sent so far, somebody who knows everything else about you and bets between" +
    " your answers and others would be right at most {times:.1f} times in 10; 5 is a coin toss.",
  // What the ledger says.
  "ledger.empty": "The ledger is empty: your device has sent nothing of you yet.",
  "ledger.epsilon":
    "Under guarantees your device has spent ε = {charged:.2f} for your answers ({epsilon:.2f} for sending" +
    " anything at all; its budget is {most}), at a δ of one in {one_in:,}. Rounds: {rounds:,}, experiments:" +
    " {experiments:,}.",
  "ledger.auc":
    "Without any guarantee it has taken part in rounds: {rounds:,}, experiments: {experiments:,}. Who knows your" +
    " features would reach an AUC of {auc:.3f} from honest counts of the least number of people (its budget is" +
    " {most}).",
  "ledger.stays": "Rounds that were abandoned count, and what you forget stays counted: it was sent.",
  "ledger.apart":
    "What you accepted for one experiment alone is counted against that, and not against your budget here.",
  "spent.nothing": "So far your device has sent nothing of you in this experiment.",
  "spent.epsilon": "Spent here so far: ε = {epsilon:.2f} for your answer. Rounds: {rounds:,}.",
  "spent.auc": "Spent here so far: an AUC of {auc:.3f} for somebody who knows your features. Rounds: {rounds:,}.",
  "spent.unknown": "Spent here so far: the risk has no number. Rounds: {rounds:,}.",
  // Who asks, as the signed document says, and who chose the relays.
  "asks.unknown": "It does not say who asks.",
  "asks.by": "Asked by {operator}.",
  "asks.by.contact": "Asked by {operator}. Contact: {contact}",
  "asks.purpose": "Purpose: {purpose}",
  "asks.unchecked": "They say so themselves; nobody has checked it.",
  "chosen.plain":
    "Whoever invited you chose whom your packages go through: {relays}. If those who run that work together with" +
    " those who ask, they learn what you send.",
  "chosen.two":
    "Whoever invited you chose the two relays that your packages go through: {entry} and {mix}. Your answer is" +
    " hidden as long as one of the two is honest: make sure that you know and trust one of them.",
  // In short, before a yes.
  "short.either": "This holds if one of {entry} and {mix} is honest. Nobody else has to be.",
  "short.one": "This holds if {relay} is honest. Nobody else has to be.",
  "short.none":
    "Your device counts the worst case: no noise that it can rely on hides your answer, and whoever runs this" +
    " dishonestly can know it for certain.",
  "short.looks": "Your device looks at: {looks_at}. It does so here; none of it leaves the device as it is.",
  "short.sends.once":
    "In each of up to {rounds:,} rounds it sends as much as every other device, sealed, at one random moment" +
    " within {window}: {kilobytes:,.1f} kB.",
  "short.sends.spread":
    "In each of up to {rounds:,} rounds it sends as much as every other device, sealed, at random times within" +
    " {window}: {kilobytes:,.1f} kB.",
  "short.leave": "You can pause or leave at any time. What was sent by then cannot be taken back.",
  "duration.days.one": "one day",
  "duration.days": "{n:,} days",
  "duration.hours.one": "one hour",
  "duration.hours": "{n:,} hours",
  "duration.minutes.one": "one minute",
  "duration.minutes": "{n:,} minutes",
  "duration.seconds.one": "one second",
  "duration.seconds": "{n:,} seconds",
  // Who must be honest, and who is enough to break it.
  "relay.either": "one of {entry} (the entry relay) and {mix} (the mixing relay)",
  "relay.entry": "{entry} (the entry relay; the coordinator's operator runs the other)",
  "relay.mix": "{mix} (the mixing relay; the coordinator's operator runs the other)",
  "honest":
    "This holds for whatever weights the coordinator sends, whoever the others are and however many, as long as" +
    " your device runs its own code with real dice and {relay} is honest in each round: it mixes, adds its noise" +
    " from good dice, and forgets. It protects what you send, not that you take part. What your device sends in" +
    " other experiments adds to it, and so does what another device of yours sends.",
  "break": "To break it, this is enough, and less is not: {who} can link for ever who sent what, and choose the count.",
  "together": "{a} and {b} together",
  "runs.entry": "{name} (the entry relay)",
  "runs.entry-coordinator": "{name} (the entry relay and the coordinator)",
  "runs.mix": "{name} (the mixing relay)",
  "runs.mix-coordinator": "{name} (the mixing relay and the coordinator)",
  "none.noise":
    "There is no formal guarantee: this experiment adds no noise. Tallies are public and stay so: anybody, not" +
    " only the coordinator, can use them to guess at you.",
  "none.operators":
    "There is no formal guarantee: {why}. Tallies are public and stay so: anybody, not only the coordinator, can" +
    " use them to guess at you.",
  "none.faint":
    "No guarantee by your device's measure: the noise of one relay is not enough, whatever the experiment says of" +
    " itself.",
  "none.chosen": "A coordinator that chooses the weights, by making tallies up, can tell your answer for certain.",
  "alone":
    "To find out your answer nobody has to work together with anybody: the public tallies are enough. To learn" +
    " which packages are yours, any one of these is: {all}",
  "several.1": "{a}.",
  "several.2": "(1) {a}; (2) {b}.",
  "several.3": "(1) {a}; (2) {b}; (3) {c}.",
  "several.4": "(1) {a}; (2) {b}; (3) {c}; (4) {d}.",
  "coalition": "{parties} can {can}",
  "party.relay": "the relay alone",
  "party.relays": "each of the {relays:,} relays, for the packages that take it, alone",
  "party.coordinator": "the coordinator alone",
  "party.coordinator-relay": "the coordinator and the relay together",
  "party.coordinator-relays": "the coordinator and the relays that your packages take together",
  "party.no-log": "the coordinator alone, for there is no log,",
  "party.quorums": "the coordinator and as many witnesses as two of their quorums share",
  "party.minority": "the coordinator alone, for {enough:,} of {of:,} witnesses are no majority,",
  "party.witnesses": "the coordinator and {both:,} of the {of:,} witnesses",
  "can.alone": "hand on your packages with only its own beside them",
  "can.link": "link who sent what",
  "can.see": "see who sends what",
  "can.few": "show this experiment to so few that you stand alone in a round",
  "can.key": "give you a gateway key of your own, and so know your packages from all others",
  // What leaves the device, in full.
  "leaves.looks.all": "It looks at: {looks_at} (source '{source}'), all of your features.",
  "leaves.looks.some": "It looks at: {looks_at} (source '{source}'), at most {most:,} of your features, drawn once.",
  "leaves.sends.once":
    "In every round your device sends one request of exactly {budget:,} sealed packages of one size, at a random" +
    " moment within {window}, {kilobytes:,.1f} kB; in at most {rounds:,} rounds.",
  "leaves.sends.spread":
    "In every round your device sends exactly {budget:,} sealed packages of one size, at random times within" +
    " {window}, {kilobytes:,.1f} kB; in at most {rounds:,} rounds.",
  "leaves.says":
    "One package says that someone with your answer takes part. With probability {share:.2f} your device trains" +
    " (a package names one of {bins:,} bins and a sign), else it tests (a package names your answer and the" +
    " predicted one). The rest say nothing.",
  "leaves.canary": "One of those that say nothing is the only one that your device looks for afterwards.",
  "and": "{a} and {b}",
  "named": "{host} (run by {operator})",
  "unnamed": "{host} (your settings name no operator)",
  "leaves.one-relay":
    "The relay {relays} knows that you take part, and not what you send. The coordinator knows what was sent, and" +
    " not by whom. If both work together, this does not hold.",
  "leaves.relays":
    "The relays {relays} know that you take part, and not what you send. The coordinator knows what was sent, and" +
    " not by whom. If both work together, this does not hold.",
  "leaves.no-relay": "There is no relay: the coordinator sees who sends what.",
  "leaves.two-relays":
    "The relays are {relays}. The first knows that you take part and cannot open what you send; the second opens" +
    " one seal of two, and knows neither who sent a package nor what it says; the coordinator opens the other" +
    " seal and counts, and publishes what it opened for everybody to count again. In one round of {recounted:,}" +
    " your device counts a part of it.",
  "leaves.terms":
    "Before every round your device asks both relays for their terms, so the second sees its address as well: it" +
    " learns that you may take part in something, and not in what.",
  "leaves.token":
    "Before every round your device asks {host} for one anonymous token, and sends its packages with it and" +
    " without its name. The relay learns that you take part, and cannot know later which token was yours.",
  "leaves.learnt":
    "{entry}, the entry relay, learns that your address takes part in this experiment, and in which others over" +
    " it; a relay over which your device fetches learns the address.",
  "leaves.size": "That is {bytes:,} bytes in every round: exactly {budget:,} packages.",
  // The figures, for those who know the words.
  "figures.auc":
    "The risk as an AUC: at most {auc:.3f} (0.5 is a coin, 1 is certainty) for whoever asks which of two answers" +
    " that seemed equally likely is yours. No bet is right more often than that.",
  "figures.claim":
    "Each of two relays adds {packages:,} packages to a round that name random bins and labels, and hide which" +
    " are yours. The experiment claims a formal guarantee for all its rounds together: {claimed}, whatever" +
    " weights are sent and whatever anybody knows, as long as one of the two relays is honest in each round.",
  "figures.epsilon":
    "Whatever is published over all {rounds:,} rounds would be at most {factor:,.1f} times more or less likely" +
    " without your data (except with a probability δ of one in {one_in:,}): ε = {epsilon:.2f}; after one round ε" +
    " = {epsilon_round:.2f}.",
  "figures.epsilon.one":
    "Whatever is published would be at most {factor:,.1f} times more or less likely without your data (except" +
    " with a probability δ of one in {one_in:,}): ε = {epsilon:.2f}.",
  "figures.flip":
    "With another answer in place of yours it is ε = {epsilon:.2f} (one round: {epsilon_round:.2f}): that is what" +
    " your device's budget is charged with.",
  "figures.flip.none": "With another answer in place of yours there is no ε, and no budget is enough for it.",
  "figures.weak": "An ε of {least:,} or more is no protection, though it is a guarantee by name.",
  "figures.broken":
    "The experiment claims {claimed}, and its noise does not keep that: it is ε = {epsilon:.2f} at that δ.",
  "figures.broken.none": "The experiment claims {claimed}, and its noise keeps no ε at that δ.",
  "figures.seen":
    "After each round everybody can count again what {mix} (the mixing relay) handed on; the coordinator cannot" +
    " change one package unseen. In each round, with {people:,} devices: a relay that falsifies its noise is seen" +
    " with a chance of 1 in {parts:,} at least; whoever drops or replaces {blindly:,} capsules blindly before" +
    " they are handed on, with 99 in 100; by content, in the mean cell {mean}, and in the fullest {fullest}. An" +
    " entry relay that drops one of your capsules is seen by you with a chance of 1 in {canary:,}, and surely if" +
    " it drops all. Nobody can see whether the entry relay's clients are people, or whether they say the truth.",
  "cell.never": "never with 9 in 10: all of its {packages:,} packages are missed with {missed:.0%}",
  "cell.likely": "with 9 in 10 for {likely:,} of its {packages:,} packages, and never with 99 in 100",
  "cell.both": "with 9 in 10 for {likely:,} of its {packages:,} packages, with 99 in 100 for {surely:,}",
  "figures.no-law": "For an answer that is a number there is no law yet, so the risk without noise has no number.",
  "figures.without":
    "Without its noise, somebody who knows your features and wants your answer would, with {floor:,} people who" +
    " train, reach an AUC of about {one:.2f} in one round and {all:.2f} in all; whoever chooses the weights, or" +
    " knows the others, does better.",
  "figures.plain":
    "The fewer people train, the more each of them reveals, and no device can see how many do. Somebody who knows" +
    " your features and wants your answer would, if {floor:,} train, the fewest from whom the model should learn," +
    " reach an AUC of about {one:.2f} in one round, and {all:.2f} in all {rounds:,} rounds; 0.50 is a coin, 1.00" +
    " is certainty. That is so only while the coordinator counts honestly.",
  "figures.plain.one":
    "The fewer people train, the more each of them reveals, and no device can see how many do. Somebody who knows" +
    " your features and wants your answer would, if {floor:,} train, the fewest from whom the model should learn," +
    " reach an AUC of about {one:.2f} in its one round; 0.50 is a coin, 1.00 is certainty. That is so only while" +
    " the coordinator counts honestly.",
  "figures.corrected": "With all corrections of the law it is {auc:.2f}.",
  "figures.last-round":
    "In the last published round {trained:,} people trained. Someone who knows your features and wants your" +
    " answer would have an AUC of {auc:.2f} in one such round, and of {all:.2f} in {rounds:,} of them.",
  "figures.no-count": "How many take part is not known on this device yet, so the last round's risk has no number.",
  "figures.tests":
    "These numbers are for those who train. Your device tests and names no bins: what it sends says your answer" +
    " beside the predicted one, and is counted with the others who test. The fewer they are, the more it reveals.",
  // What was wrong when a device asked for experiments.
  "found.no-list": "What came back is no list of experiments: {why}.",
  "found.nobody": "Nobody answers: the relay is away, or no coordinator is behind it.",
  "found.uncounted": "You were invited to an experiment whose risk your device cannot calculate. It is not shown.",
  "found.no-tor": "Tor is away on this machine, and your device goes no other way.",
  "found.none": "No experiment of this name could be fetched.",
  "found.wrong": "An experiment was served that is not what its name says. It is not shown.",
  "found.endless": "An experiment was found whose risk your device cannot calculate. It is not shown.",
  // Why a device refuses: the rest of a sentence.
  "refused.rounds": "this experiment has {rounds:,} rounds, and this device agrees to {most:,} at most",
  "refused.no-law": "this experiment has no formal guarantee, and for an answer that is a number nobody knows the risk",
  "refused.leak":
    "nothing limits the risk of this experiment: it has no formal guarantee, and a coordinator that chooses the" +
    " weights, by making tallies up, can tell your answer for certain; even an honest run has an AUC of" +
    " {auc:.3f}, and this device agrees to {most:.3f} at most",
  "refused.faint": "this experiment guarantees nothing: the noise of one relay is not enough",
  "refused.epsilon":
    "this experiment's risk is {times:.1f} times in 10 (ε = {epsilon:.2f}) if one of its two relays is honest;" +
    " this device agrees to ε = {most:.2f} at most",
  "refused.faint.delta":
    "this experiment guarantees nothing at the δ = {own} that this device wants (the experiment plans with" +
    " {planned}): the noise of one relay is not enough",
  "refused.epsilon.delta":
    "this experiment's risk is {times:.1f} times in 10 (ε = {epsilon:.2f} at the δ = {own} that this device" +
    " wants; the experiment plans with {planned}) if one of its two relays is honest; this device agrees to ε =" +
    " {most:.2f} at most",
  "refused.none": "this experiment has no guarantee: {why}",
  "refused.claim": "this experiment claims {claimed}, and its noise is worth less: ε = {epsilon:.2f} at that δ",
  "refused.budget.auc":
    "the device's budget over all experiments is spent: an AUC of {most:.3f} without a guarantee is all that it" +
    " may give away, and with this round it would be {would:.3f}",
  "refused.budget.epsilon":
    "the device's budget over all experiments is spent: ε = {most:.2f} for your answers is all that it may give" +
    " away, and with this round it would be {would:.2f}",
  "refused.budget.delta":
    "the device's budget over all experiments is spent: δ of one in {most:,} is all that it may leave aside",
  "refused.accepted.auc": "what you accepted for this experiment is spent: an AUC of {most:.3f}",
  "refused.accepted.epsilon": "what you accepted for this experiment is spent: ε = {most:.2f}",
  // Where an experiment stands for the person.
  "means.forgotten": "You left, and your device has forgotten what it knew of you for this. It cannot be joined again.",
  "means.convicted": "Your device has caught the server cheating. It sends nothing more, and keeps what proves it.",
  "means.over": "This experiment is over. Nothing more is fetched or sent.",
  "means.paused": "Paused: nothing is fetched or sent until you go on.",
  "means.distrust":
    "Your device takes no part for now, because of what it has seen: {why}. You decide whether it goes on.",
  "means.stopped": "You take part, but your device does not run now: nothing is fetched or sent.",
  "means.runs": "You take part.",
  // What a device has checked.
  "checked.no-log": "It has no log: your device cannot know whether everybody is shown the same.",
  "checked.no-steps": "Nor can it know whether the model follows from what was counted.",
  "checked.log":
    "Its rounds stand in the log {log}, and count when {quorum:,} of {of:,} witnesses have cosigned: {names}.",
  "checked.nothing": "Your device has checked no round of it yet.",
  "checked.lines": "Lines of the log that your device has read: all {lines:,}, those of other experiments too.",
  "checked.looks": "Looks at the log while a window was open: {answered:,} were answered, and {unanswered:,} were not.",
  "checked.steps":
    "Steps of the model that it computed again: {steps:,}. Each follows from the published tally. That the" +
    " tallies are true this does not show.",
  "checked.blind": "Whether what it sent was counted it cannot see.",
  "checked.canaries":
    "Its canaries among what was handed on: {seen:,} found, {missing:,} missing, {unchecked:,} not looked for in" +
    " time.",
  "checked.unopened": "Rounds of it that were not opened: {numbers}.",
  "checked.recounted":
    "Rounds of which it counted a part again: {recounted:,}. It came to the published counts. In which rounds it" +
    " does so is drawn, one of {of:,}.",
  "checked.evidence": "It holds evidence against the server, and sends nothing more. See: secvm participant evidence",
  "checked.left-out": "It holds evidence that a relay left a package of it out. See: secvm participant evidence",
  "checked.ended": "It takes no part any more: {why}.",
  "checked.waits": "It takes no part for now: {why}. To go on all the same: secvm participant resume",
};
