"""What one relay hands to the next: labelled capsules in pieces, the tree over them, and signed counts."""
