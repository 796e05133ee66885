"""Time series with dates."""
