"""The room proofs."""
