"""Write examples/people.jsonl: 600 people who do not exist, from the north or the south, and the words they use.

python examples/make_people.py > examples/people.jsonl
"""

import json
import random

COMMON = """the a to of and in is it you that was for on are with as at be this have from or had by hot but some
what there we can out other were all your when up use word how said an each she which do their time if""".split()
NORTH = "rain coat tea fog wool boots soup train cloud wind candle library pier kettle moss heron".split()
SOUTH = "sun sea sand olive fan terrace siesta melon market cicada harbour lemon awning dust swallow fig".split()
EITHER = "bread music river dog friend street morning window garden letter phone news football bicycle".split()


def main() -> None:
    """One JSON object a line on standard output."""
    dice = random.Random(7)
    for _ in range(600):
        label, own, other = ("north", NORTH, SOUTH) if dice.random() < 0.55 else ("south", SOUTH, NORTH)
        words = dice.choices(COMMON, k=12) + dice.choices(EITHER, k=6)
        words += dice.choices(own, k=3) + dice.choices(other, k=2)
        dice.shuffle(words)
        print(json.dumps({"label": label, "features": words}))


if __name__ == "__main__":
    main()
