"""What people hold → features: data frames (``plan``), columns of numbers (``quantise``), words (``words``)."""
