"""The baselines of the paper: Monte Carlo, importance sampling, and regressions of plain averages on theta."""
