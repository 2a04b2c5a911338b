"""Results made visible: plots, slices and the HTML report."""
