"""What comes back: outcomes, evidence, measures as bounds, and their files."""
