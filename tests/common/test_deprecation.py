"""Names that were replaced go on working and say what to use instead."""

from __future__ import annotations

import pickle

import pytest

import cbq.measures
from cbq.common.deprecation import DeprecatedAttribute
from cbq.measures import Gamma, LogMeasure


class Renamed:
    old_method = DeprecatedAttribute("method")
    old_property = DeprecatedAttribute("value")

    def method(self, n):
        """Return n + 1."""
        return n + 1

    @property
    def value(self):
        """The value."""
        return 7


def test_an_old_name_of_a_module_gives_the_new_object():
    with pytest.warns(DeprecationWarning, match=r"^cbq\.measures\.LogLaw is deprecated .*: use LogMeasure instead\.$"):
        assert cbq.measures.LogLaw is LogMeasure
    with pytest.warns(DeprecationWarning, match="use LogMeasure"):
        from cbq.measures import LogLaw
    assert LogLaw is LogMeasure


def test_an_old_attribute_of_a_measure_gives_the_new_one():
    measure = LogMeasure(Gamma(2.0, 1.0))
    with pytest.warns(DeprecationWarning, match=r"^LogMeasure\.law is deprecated .*: use measure instead\.$"):
        assert measure.law is measure.measure


def test_the_warning_points_at_the_caller():
    with pytest.warns(DeprecationWarning, match="is deprecated") as caught:
        _ = cbq.measures.LogLaw, Renamed().old_property
    assert [warning.filename for warning in caught] == [__file__, __file__]


def test_old_methods_and_properties_give_the_new_ones():
    with pytest.warns(DeprecationWarning, match=r"Renamed\.old_method .* use method"):
        assert Renamed().old_method(1) == 2
    with pytest.warns(DeprecationWarning, match=r"Renamed\.old_property .* use value"):
        assert Renamed().old_property == 7


def test_old_names_are_documented_and_not_public():
    assert Renamed.old_method.__doc__ == "Deprecated: use `method`."  # on the class, without a warning
    assert "LogLaw" not in cbq.measures.__all__


def test_other_missing_names_are_errors_as_usual():
    with pytest.raises(AttributeError, match=r"module 'cbq\.measures' has no attribute 'Laplace'"):
        _ = cbq.measures.Laplace
    with pytest.raises(ImportError, match="cannot import name 'Laplace'"):
        from cbq.measures import Laplace  # noqa: F401


def test_a_measure_with_an_old_attribute_can_be_pickled():
    measure = LogMeasure(Gamma(2.0, 1.0))
    assert pickle.loads(pickle.dumps(measure)).equals(measure)
