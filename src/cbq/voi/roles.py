"""All that is guessed from names and values of columns: net benefits, effects, costs, inputs, numbers of rows.

A guess is shown to the user with the argument or the option that would state it.

A name is a stem with a label, in either order: nb_A, qaly2, costNew, soc.cost. The label names a decision.
Outputs of one table have the same order: beside qaly_drug and qaly_none, stroke_qaly is an input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from cbq.common import listed, real


class Role(Enum):
    """What an output of a decision model is."""

    NET_BENEFIT = "a net benefit"
    EFFECT = "an effect"
    COST = "a cost"


STEMS = {
    Role.NET_BENEFIT: r"n[mh]?b|net[\W_]*(?:monetary|health)?[\W_]*benefits?",
    Role.EFFECT: r"effects?|effectiveness|eff|qalys?|lyg?s?|life[\W_]*years?",
    Role.COST: r"(?:total|tot)[\W_]*costs?|costs?",
}
REFERENCE = "reference"  # of a decision whose outputs are 0
LETTERS = {Role.EFFECT: "e", Role.COST: "c"}  # stems that need a number or a mark after them: e1, c_A
MAX_INTEGER = 2.0**53  # beyond, all numbers are integers
INCREMENTAL = r"(?:inc|incr|incremental|delta)[\W_]*|i(?=n[mh]?b)"
LABEL = r"(?P<label>|\d+|[\W_].*|(?-i:(?<=[a-z])[A-Z].*))"
ROW_NUMBERS = re.compile(
    r"(?:.*[\W_])?(?:id|ids|idx|index|row|rows|rownames?|iter|iterations?|draws?|sim|sims|simulations?|samples?|runs?|"
    r"reps?|replicates?|replications?|obs|chains?|psa|unnamed\W*\d*|no|nr)(?:[\W_]*(?:id|no|nr|num|number|\d+))?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class OutputName:
    """A name of an output: its role, its stem, the label of its decision, if it is a difference, and the order.

    written : the label as it is written in the name.
    """

    role: Role
    stem: str
    label: str
    incremental: bool
    stem_first: bool
    written: str


Key = tuple[Role, str, bool, bool]  # role, stem, whether it is a difference, and whether the stem comes first
Family = dict[str, str]  # columns of the same key, by label


def output_name(name: str) -> OutputName | None:
    """The parts of the name of an output; None for other names."""
    for role, stem in STEMS.items():
        letter = rf"|(?:{LETTERS[role]})(?=\d|[\W_])" if role in LETTERS else ""
        first = re.fullmatch(rf"(?P<inc>{INCREMENTAL})?(?P<stem>{stem}{letter}){LABEL}", name, re.IGNORECASE)
        last = re.fullmatch(rf"(?P<label>.+?)[\W_]+(?P<inc>{INCREMENTAL})?(?P<stem>{stem})", name, re.IGNORECASE)
        if found := first or last:
            stem, label = _plain(found["stem"]).rstrip("s"), found["label"]
            return OutputName(role, stem, _plain(label), bool(found["inc"]), first is not None, _written(label))
    return None


def decision_names(columns: Sequence[str], otherwise: Sequence[str]) -> tuple[str, ...]:
    """The names of decisions that their columns suggest, A for nb_A or qaly_A, if all differ, or else `otherwise`."""
    names = [_decision_name(column) for column in columns]
    return tuple(names if len(set(names)) == len(names) else otherwise)


def guess_net_benefits(names: Sequence[str]) -> list[str]:
    """The columns of net benefits, of which there are at least two, or one that is a difference; empty if unclear."""
    several = [f for key, f in _families(names).items() if key[0] is Role.NET_BENEFIT and not key[2] and len(f) > 1]
    single = [f for key, f in _families(names).items() if key[0] is Role.NET_BENEFIT and key[2] and len(f) == 1]
    found = several or single
    return list(found[0].values()) if len(found) == 1 else []


def guess_effects_and_costs(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The columns of effects, and the columns of costs for the same decisions; both empty if this is unclear."""
    families = _families(names)
    found = []
    for (role, _, incremental, _), effects in families.items():
        fewest = 1 if incremental else 2
        if role is Role.EFFECT and len(effects) >= fewest:
            matching = [f for (r, _, i, _), f in families.items() if r is Role.COST and i is incremental]
            found += [(effects, costs) for costs in matching if effects.keys() <= costs.keys()]
    if len(found) != 1:
        return [], []
    effects, costs = found[0]
    return list(effects.values()), [costs[label] for label in effects]


def outputs_beside(names: Sequence[str], used: Sequence[str]) -> dict[str, str]:
    """Columns that are outputs as well, by their names, of the decisions whose outputs are `used`; and why, in words.

    Costs and effects of all these decisions are outputs. A cost with another label may be an input, such as a price.
    """
    roles = {name: output_name(name) for name in used}
    decisions = {_plain(name) if role is None else role.label for name, role in roles.items()}
    found = {}
    for (role, _, incremental, _), family in _families([name for name in names if name not in used]).items():
        covers = len(decisions) > 1 and decisions <= family.keys()
        for label, name in family.items():
            if role is Role.NET_BENEFIT or incremental or (covers and label in decisions):
                found[name] = f"{role.value}, by its name"
    return found


def numbers_rows(name: str, values: Any) -> bool:
    """Whether a column (n,) numbers or labels the rows: by its name, or by values that no draws would have.

    Such values are integers that grow, or a range of integers in any order.
    """
    raw = np.asarray(values)
    if raw.ndim != 1 or raw.dtype.kind not in "buif" or raw.dtype.kind == "b":
        return raw.ndim == 1 and raw.dtype.kind in "OUS" and _is_row_number(name)
    raw = real(raw, name)  # narrower types, such as float16, do not hold row numbers
    if not len(raw) or not np.all(np.abs(raw) < MAX_INTEGER) or np.any(raw != np.round(raw)):
        return False
    ordered = np.sort(raw)
    is_range = bool(np.all(ordered == ordered[0] + np.arange(len(raw))))
    grows = bool(np.all(raw[1:] > raw[:-1]))
    return (len(raw) > 2 and (is_range or grows)) or _is_row_number(name)


def select_inputs(
    names: Sequence[str], read: Callable[[str], Any], used: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """The columns that may be inputs if the outputs are `used`, and why others are left out, in words.

    read : returns the values of a column, and raises ValueError or TypeError if they cannot be used.
    """
    outputs = outputs_beside(names, used)
    chosen, left = [], {}
    for name in names:
        if name in used or name in outputs:
            left[name] = outputs.get(name, "an output")
            continue
        try:
            values = read(name)
        except (ValueError, TypeError):
            left[name] = "has gaps, or words between numbers"
            continue
        if numbers_rows(name, values):
            left[name] = "numbers or labels the rows"
        elif is_one_word(values):
            left[name] = "the same word in each row"
        else:
            chosen.append(name)
    return chosen, left


def is_one_word(values: Any) -> bool:
    """Whether a column (n,) holds a single word, such as the name of a scenario."""
    return isinstance(next(iter(values), None), str) and len(set(values)) == 1


def left_out_note(left: Mapping[str, str], stated: str = "") -> str:
    """The columns that are no inputs, with the reasons, and the argument that would state the choice of the others."""
    reasons: dict[str, list[str]] = {}
    for name, why in left.items():
        reasons.setdefault(why, []).append(name)
    what = "; ".join(f"{listed(names)} ({why})" for why, names in reasons.items())
    same = f"; the same as {stated}" if stated else ""
    return f"Not taken for inputs: {what}; name a column in pars= to value it all the same{same}"


def _decision_name(column: str) -> str:
    if re.fullmatch(rf"{REFERENCE} \d+", column):
        return REFERENCE
    role = output_name(column)
    label = role.written if role is not None and role.written else column
    return f"decision {label}" if label.isdigit() else label


def _is_row_number(name: str) -> bool:
    return not name.strip() or ROW_NUMBERS.fullmatch(name.strip()) is not None


def _families(names: Sequence[str]) -> dict[Key, Family]:
    found: dict[Key, Family] = {}
    for name in names:
        if role := output_name(name):
            key = (role.role, role.stem, role.incremental, role.stem_first)
            found.setdefault(key, {}).setdefault(role.label, name)
    return found


def _written(label: str) -> str:
    """A label without separators at its ends, and without brackets around all of it."""
    bare = re.sub(r"^[\s_.,:;/|-]+|[\s_.,:;/|-]+$", "", label)
    inside = re.fullmatch(r"[(\[]([^()\[\]]*)[)\]]", bare)
    return inside[1] if inside else bare


def _plain(text: str) -> str:
    """Letters and digits alone, in lower case."""
    return re.sub(r"[\W_]+", "", text).lower()
