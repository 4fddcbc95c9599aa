"""Operations on existing jobs: replay, erasure, rescaling, comparison, diagnosis and sizing."""
