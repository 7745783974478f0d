"""The paper's offline evaluation (Section 5) made again: ``secvm reproduce offline``.

crowd (whose words) and splits (who trains, who tests) are given; every figure names the models it needs (models);
run trains those that no folder has yet (stored), sixteen in a pass; results, statements and report say what came out.
"""
