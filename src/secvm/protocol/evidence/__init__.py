"""Files that convict whoever signed them: what they hold, and the examination that says what they show."""
