"""One room for Cholesky factors, triangular solves and log-determinants."""
