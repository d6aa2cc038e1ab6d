"""Where f is to be evaluated: thetas and points, iid or scrambled Sobol, from a seed."""

from cbq.design.draws import Plan, Scramble, draw_points, draw_thetas
from cbq.design.seeds import entropy_of

__all__ = ["Plan", "Scramble", "draw_points", "draw_thetas", "entropy_of"]
