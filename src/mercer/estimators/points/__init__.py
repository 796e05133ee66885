"""Where points are: intensities and densities."""
