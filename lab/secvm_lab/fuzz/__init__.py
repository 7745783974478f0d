"""Every decoder of the code base under a fuzzer: targets (``registry.TARGETS``), a corpus, and who runs them.

A target names what it covers, takes bytes, and says which errors are documented for them. Whatever else comes out is an
escape. ``secvm dev fuzz`` runs all of them under atheris; the tests replay the kept corpus and mutate it at random.
"""
