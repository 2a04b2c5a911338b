"""Results for people: plots, slices and the HTML report."""
