"""The field study: every method on real data sets, under label shift and under contamination by a class never seen."""
