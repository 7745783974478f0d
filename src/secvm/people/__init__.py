"""Files of people to values: JSON lines and svmlight, read in a stream, and CSV and Parquet; plain or gzipped.

The doors are ``reader.read_people`` (a table of bins, quick), ``source.iter_people`` (one person at a time),
``columns.read_columns`` (CSV and Parquet), ``reader.read_vocabulary`` and ``reader.read_split``. ``person.py`` says
what a line means.
"""
