"""Files of people to values: JSON lines and svmlight, plain or gzipped, read in a stream.

The doors are ``reader.read_people`` (a table of bins, quick), ``source.iter_people`` (one person at a time),
``reader.read_vocabulary`` and ``reader.read_split``. ``person.py`` says what a line means.
"""
