"""The paper's own numbers and figures, made again."""
