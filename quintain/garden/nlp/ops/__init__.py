"""Operations on segments of text."""
