"""Arguments and options that several commands share, and groups of them, whose fields become parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import partial
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import numpy as np
import typer

from cbq.cli.source import RECORD, ProblemSource, recorded_source
from cbq.common import Array, between_0_and_1
from cbq.estimators import registrations
from cbq.fit import Fit, load
from cbq.linalg import engine as use_engine
from cbq.problems.problem import Problem
from cbq.runs import (
    DEFAULT_BUDGET,
    Best,
    Estimand,
    ExpectedLoss,
    ExpectedShortfall,
    Goal,
    Probability,
    Quantile,
    ValueAtRisk,
)
from cbq.samples import FamilyNeeded, Samples

DEFAULT_T = 15
ESTIMATORS = ", ".join(f"{registration.name} ({registration.title})" for registration in registrations())

# Help of options that several groups have.
ENGINE = "Do the linear algebra with numpy, with torch, or on a GPU (cuda)."
SEED = "Use this random seed: the same seed gives the same numbers."
DESIGN = "Draw thetas and points as sobol (scrambled Sobol points, more accurate) or iid (independently)."
PROBLEM_OPTION = (
    "Set an option of the problem, such as dim=3. Repeat it for others. A value that is not JSON is a string."
)
LEVEL = "Give intervals of this level, between 0 and 1."
ON_CHANGE = "If f has changed since the stored values, stop (raise), or keep them without a check (reuse)."
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}  # of a duration, in seconds
OPTION = "option"  # the key of an option in the metadata of its field


def setting(help: str, *names: str, default: Any = None, shown: str | bool | None = None, **details: Any) -> Any:
    """A field that is an option. names: such as --theta (default: from the field). shown: the default in the help."""
    if isinstance(shown, str):  # which click would put in brackets of its own
        help, shown = f"{help}  [default: {shown}]", False
    show = default is not None if shown is None else shown
    return field(
        default=default, kw_only=True, metadata={OPTION: typer.Option(*names, help=help, show_default=show, **details)}
    )


def argument(help: str, default: Any = MISSING, **details: Any) -> Any:
    """A field that is an argument."""
    return field(
        default=default, kw_only=True, metadata={OPTION: typer.Argument(help=help, show_default=False, **details)}
    )


whole = partial(setting, metavar="INTEGER", min=1)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """The command for typer: its parameters are the fields of the parameters of a function, all groups, and --debug."""
    groups = {name: kind for name, kind in get_type_hints(function).items() if hasattr(kind, "__dataclass_fields__")}
    parameters = [_parameter(each, kind) for kind in [*groups.values(), Debugging] for each in fields(kind)]
    takes_context = "context" in signature(function).parameters

    def run(context: typer.Context, **values: Any) -> None:
        made = {name: kind(**{each.name: values[each.name] for each in fields(kind)}) for name, kind in groups.items()}
        function(**{"context": context} if takes_context else {}, **made)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    parameters.insert(0, Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context))
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameter(each: Field[Any], kind: type) -> Parameter:
    annotation: Any = Annotated[get_type_hints(kind)[each.name], each.metadata[OPTION]]
    default = Parameter.empty if each.default is MISSING else each.default
    return Parameter(each.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


@dataclass(frozen=True)
class Debugging:
    """The option of every command; `OneLineErrors` finds it among the arguments."""

    debug: bool = setting("Show where an error arose, with its traceback.", "--debug", default=False)


@dataclass(frozen=True)
class Named:
    """A problem that the user names."""

    problem: str = argument(
        "Name a problem that `cbq problems` lists, or path/to/file.py:attribute, where the attribute is a cbq.Problem "
        "or a function that returns one.",
        metavar="PROBLEM",
    )
    option: list[str] | None = setting(PROBLEM_OPTION, "--option", metavar="KEY=VALUE")
    command: str | None = setting(
        "Run this program as the integrand of the problem, such as './borehole {x.rw} {theta.depth}', for one point at "
        "a time in a new folder. Its last line must be f.",
        metavar="TEXT",
    )
    parse: str | None = setting(
        "Find f in the output of --command by this regular expression, as the groups of its last match.",
        metavar="REGEX",
    )

    @property
    def source(self) -> ProblemSource:
        """The source of the problem."""
        if self.parse is not None and self.command is None:
            raise ValueError("--parse is for the output of a program: pass --command as well.")
        return replace(ProblemSource.parse(self.problem, self.option), command=self.command, pattern=self.parse)


@dataclass(frozen=True)
class Running:
    """How f is run; None stands for the default of the library."""

    seed: int = setting(SEED, default=0, metavar="INTEGER", min=0)
    workers: int | None = whole("Evaluate f in this many worker processes.", shown="this process")
    checkpoint: Path | None = setting(
        "Keep finished evaluations in this file: after an interruption, the same command resumes from it.",
        metavar="FILE",
        dir_okay=False,
    )
    on_error: str | None = setting(
        "If f fails, stop (raise) or leave that point out (skip).", metavar="NAME", shown="raise"
    )
    on_change: str | None = setting(ON_CHANGE, metavar="NAME", shown="raise")
    timeout: float | None = setting(
        "Give up a point after this time; needs --workers.", metavar="SECONDS", shown="no limit"
    )

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `Problem.collect` and `Problem.solve`."""
        given = {"on_error": self.on_error, "on_change": self.on_change, "timeout": self.timeout}
        always = {"rng": self.seed, "executor": self.workers, "checkpoint": self.checkpoint}
        return always | {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Sampling:
    """The arguments of `Problem.collect`."""

    T: int | None = whole("Draw this many thetas from the prior.", "--T", shown=str(DEFAULT_T))
    N: int = whole("Evaluate f this many times at each theta.", "--N", default=40)
    design: str = setting(DESIGN, default="sobol", metavar="NAME")
    theta: list[str] | None = setting(
        "Evaluate f at this theta, instead of draws from the prior. Repeat it for others, and separate coordinates by "
        "commas: 1.0,2.0.",
        "--theta",
        metavar="THETA",
    )
    batch: int | None = whole("Evaluate and save this many points as a unit.", shown="100")

    def collect(self, problem: Problem, source: ProblemSource, running: Running) -> Samples:
        """Collect samples of the problem, and report errors in the user's file with their lines."""
        theta = thetas(self.theta, problem.p)
        T = DEFAULT_T if self.T is None and theta is None else self.T
        given = running.arguments | {"design": self.design} | ({} if self.batch is None else {"batch": self.batch})
        with resumable(running.checkpoint), source.locating_errors():
            return problem.collect(T, self.N, theta=theta, **given)


@dataclass(frozen=True)
class Accuracy:
    """What is wanted, its accuracy, and the budget; None stands for a remembered or a default value."""

    above: float | None = setting("Estimate the probability that f exceeds this value, instead of I.", metavar="VALUE")
    below: float | None = setting("Estimate the probability that f is at most this value.", metavar="VALUE")
    quantile: float | None = setting("Estimate this quantile of f, between 0 and 1, such as 0.95.", metavar="NUMBER")
    maximize: bool = setting("Find the theta with the largest I.", "--maximize", default=False)
    minimize: bool = setting("Find the theta with the smallest I.", "--minimize", default=False)
    limit: list[str] | None = setting(
        "With --maximize or --minimize, admit thetas only where this output is between two ends, such as cost=,100 or "
        "load=-1,1. Repeat it for other outputs.",
        "--limit",
        metavar="OUTPUT=LEAST,LARGEST",
    )
    value_at_risk: float | None = setting(
        "Estimate this quantile of I over the prior, a loss, such as 0.995.", metavar="NUMBER"
    )
    expected_shortfall: float | None = setting("Estimate the mean of I beyond this quantile.", metavar="NUMBER")
    expected_loss: float | None = setting(
        "Estimate the mean over the prior of how far I exceeds this value, such as 0.", metavar="VALUE"
    )
    output: str | None = setting("Apply the goal to this output of f, by its name or number.", metavar="OUTPUT")
    rtol: float | None = setting(
        "Stop at intervals of this half-width, in units of the spread of I: 0.01.", metavar="NUMBER"
    )
    relative: float | None = setting("Stop at intervals of this half-width, as a share of the value.", metavar="NUMBER")
    tolerance: str | None = setting(
        "Stop at intervals of this half-width, in units of I. Several outputs have one number for all, or one for "
        "each, separated by commas.",
        metavar="NUMBER",
    )
    criterion: str | None = setting(
        "Reach the goal by the root mean square of the half-width over the prior (rms), or by its largest value over "
        "95% of the prior (max). Several outputs may have one each, separated by commas.",
        metavar="NAME",
        shown="rms",
    )
    level: float | None = setting(LEVEL, metavar="NUMBER", shown="0.95")
    budget: int | None = whole("Make at most this many runs.", shown=str(DEFAULT_BUDGET))
    time: str | None = setting(
        "Make runs for at most this time of f in all, such as 90s, 30m or 2h.", "--time", metavar="TIME"
    )

    def goal(self, remembered: Mapping[str, Any]) -> Goal:
        """The goal; a new --rtol, --relative or --tolerance replaces all remembered ones; so does a new estimand."""
        criteria = None if self.criterion is None else self.criterion.split(",")
        criterion = criteria[0] if criteria is not None and len(criteria) == 1 else criteria
        others = {"criterion": criterion, "level": self.level, "budget": self._budget(remembered.get("budget"))}
        given: dict[str, Any] = {name: value for name, value in others.items() if value is not None}
        if not all(width is None for width in (self.tolerance, self.rtol, self.relative)):
            tolerance = None if self.tolerance is None else numbers(self.tolerance, "--tolerance")
            given |= {"tolerance": tolerance, "rtol": self.rtol, "relative": self.relative}
        if wanted := self._wanted():
            given["goal"] = wanted
        return Goal.of(**{**remembered, **given})

    def _budget(self, remembered: Any) -> Any:
        """The budget, with the limits that are remembered; None if nothing is given."""
        time = None if self.time is None else seconds(self.time, "--time")
        limits = {name: each for name, each in (("runs", self.budget), ("seconds", time)) if each is not None}
        known = remembered if isinstance(remembered, Mapping) else {} if remembered is None else {"runs": remembered}
        return {**known, **limits} if limits else None

    def _wanted(self) -> list[Estimand]:
        """What the options name instead of I."""
        output = int(self.output) if self.output is not None and self.output.isdecimal() else self.output
        found = list[Estimand]()
        if self.above is not None:
            found.append(Probability(above=self.above, output=output))
        if self.below is not None:
            found.append(Probability(below=self.below, output=output))
        if self.quantile is not None:
            found.append(Quantile(self.quantile, output=output))
        if self.maximize and self.minimize:
            raise ValueError("--maximize and --minimize contradict each other: pass one of them.")
        if self.limit and not (self.maximize or self.minimize):
            raise ValueError("--limit is about the best theta: pass --maximize or --minimize.")
        if self.maximize or self.minimize:
            limits = dict(map(_limit, self.limit)) if self.limit else None
            found.append(Best(maximize=self.maximize, output=output, subject_to=limits))
        if self.value_at_risk is not None:
            found.append(ValueAtRisk(self.value_at_risk, output=output))
        if self.expected_shortfall is not None:
            found.append(ExpectedShortfall(self.expected_shortfall, output=output))
        if self.expected_loss is not None:
            found.append(ExpectedLoss(threshold=self.expected_loss, output=output))
        if output is not None and not found:
            raise ValueError("--output names an output for a goal, such as --above: pass one of these.")
        return found


def _limit(text: str) -> tuple[str, tuple[float | None, float | None]]:
    """An output and its ends, from "cost=,100"."""
    name, _, ends = text.partition("=")
    least, comma, largest = ends.partition(",")
    if not name or not comma:
        raise ValueError(f"--limit must be an output with its ends, such as cost=,100, but it is {text!r}.")
    low, high = (numbers(end, "--limit")[0] if end.strip() else None for end in (least, largest))
    return name, (low, high)


@dataclass(frozen=True)
class SavedFit:
    """A saved fit, and the problem if the fit needs it."""

    fit: Path = argument("Name a file that `cbq run` or fit.save wrote.", metavar="FIT")
    problem: str | None = setting(
        "Name the problem of the fit, or path/to/file.py:attribute, for fits that need the measure of x.",
        "--problem",
        metavar="PROBLEM",
        shown="from run.json beside FIT",
    )
    option: list[str] | None = setting(PROBLEM_OPTION, "--option", metavar="KEY=VALUE")

    @contextmanager
    def loaded(self) -> Iterator[Fit]:
        """The fit, with the family of its problem if it needs one; errors in the user's file have their lines."""
        source = ProblemSource.optional(self.problem, self.option)
        try:
            fit = load(self.fit)
        except FamilyNeeded as error:
            source = source or recorded_source(self.fit)
            if source is None:
                raise ValueError(
                    f"{self.fit} needs the measure of x at any theta, which the file does not contain, and there is no "
                    f"{RECORD} beside it: pass --problem NAME or --problem path/to/file.py:attribute."
                ) from error
            family = source.load().family
            with source.locating_errors():
                yield load(self.fit, family=family)
        else:
            yield fit


@dataclass(frozen=True)
class Output:
    """The folder of results."""

    out: Path | None = setting(
        "Write the results to this folder, which is created if needed.", metavar="FOLDER", file_okay=False
    )


@dataclass(frozen=True)
class Showing(Output):
    """The thetas of the printed estimate, and the folder of results."""

    at: list[str] | None = setting(
        "Report the estimate at this theta, instead of on a grid. Repeat it for others.", "--at", metavar="THETA"
    )


@dataclass(frozen=True)
class Computing:
    """How the estimate is computed."""

    engine: str = setting(ENGINE, default="numpy", metavar="NAME")
    level: float = setting(LEVEL, default=0.95, metavar="NUMBER")


def check(level: float, out: Path | None, engine: str = "numpy") -> None:
    """Refuse bad options before an expensive run rather than after it, and create the folder of the results."""
    between_0_and_1(level, "level")
    with use_engine(engine):
        pass
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)


def numbers(text: str, name: str) -> list[float]:
    """Comma-separated numbers."""
    try:
        return [float(number) for number in text.split(",")]
    except ValueError as error:
        raise ValueError(f"{name} must be a number, or several separated by commas, but it is {text!r}.") from error


def thetas(texts: Sequence[str] | None, p: int, option: str = "--theta") -> Array | None:
    """Thetas (M, p), each text being p numbers separated by commas; None if there is none."""
    rows = []
    for text in texts or ():
        row = numbers(text, option)
        if not np.all(np.isfinite(row)):
            raise ValueError(f"{option} must be finite, but it is {text!r}.")
        if len(row) != p:
            remedy = f"repeat {option} for each theta" if p == 1 else f"write {option} {','.join(['1.5'] * p)}"
            raise ValueError(
                f"{option} {text} has {len(row)} coordinate{'s' * (len(row) != 1)}, but theta has {p}: {remedy}."
            )
        rows.append(row)
    return np.array(rows) if rows else None


def seconds(text: str, name: str) -> float:
    """A duration such as 90s, 30m, 2h or 1d; a number without a unit has seconds."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([smhd]?)\s*", text)
    if found is None or not float(found[1]) > 0:
        raise ValueError(f"{name} must be a time such as 90s, 30m, 2h or 1d, but it is {text!r}.")
    return float(found[1]) * UNITS[found[2]]


def duration(seconds: float) -> str:
    """A duration in its largest whole unit."""
    unit = max((unit for unit in UNITS if unit and UNITS[unit] <= seconds), key=UNITS.__getitem__, default="s")
    return f"{seconds / UNITS[unit]:.3g}{unit}"


@contextmanager
def resumable(checkpoint: Path | None) -> Iterator[None]:
    """If the run is interrupted, print how to resume it."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is not None:
            typer.echo(f"stopped: the same command resumes from {checkpoint}.", err=True)
        raise
