"""Dates as numbers and back, and series in whatever holds them."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from mercer.estimators.series.ahead import after
from mercer.estimators.series.clock import DAY, Clock
from mercer.estimators.series.recorded import read_series, table
from mercer.estimators.series.structure import multiplicative, preferred, seasons
from mercer.inputs import InputError


def micro(texts):
    return np.array(texts, "datetime64[us]")


@pytest.mark.parametrize(
    ("index", "unit", "step"),
    [
        (pd.date_range("2019-11-01", periods=9, freq="MS"), "month", 1.0),
        (pd.date_range("2019-11-30", periods=9, freq="ME"), "month", 1.0),
        (pd.date_range("2019-11-15", periods=9, freq="MS") + pd.Timedelta(days=14), "month", 1.0),
        (pd.date_range("2019-12-31", periods=9, freq="QE"), "month", 3.0),
        (pd.date_range("1700-01-01", periods=9, freq="YS"), "year", 1.0),
        (pd.date_range("2020-02-27", periods=9, freq="D"), "day", 1.0),
        (pd.date_range("2020-02-27", periods=9, freq="W"), "day", 7.0),
        (pd.date_range("2020-02-27 05:00", periods=9, freq="6h"), "hour", 6.0),
        (pd.date_range("2020-02-27", periods=9, freq="15min"), "minute", 15.0),
        (pd.date_range("2020-02-27", periods=9, freq="250ms"), "second", 0.25),
    ],
)
def test_dates_there_and_back(index, unit, step):
    """Unit and step are found, times are equally spaced, stamps come back,
    and the next ones are those of pandas.
    """
    known, later = index[:-3], index[-3:]
    clock = Clock.of(known.to_numpy().astype("datetime64[us]"))
    assert (clock.unit, clock.step) == (unit, pytest.approx(step, rel=1e-12))
    t = clock.read(index.to_numpy().astype("datetime64[us]"))
    np.testing.assert_allclose(np.diff(t), clock.step, rtol=1e-12)
    assert t[0] == 0.0
    np.testing.assert_array_equal(clock.stamps(t), index.to_numpy().astype("datetime64[us]"))
    np.testing.assert_array_equal(
        clock.stamps(clock.next(t[-4], 3)), later.to_numpy().astype("datetime64[us]")
    )


@pytest.mark.parametrize(
    ("last", "length", "expected"),
    [
        ("2020-02-29", "1y", "2021-02-28"),
        ("2020-01-31", "1mo", "2020-02-29"),
        ("2020-01-31", "2 weeks", "2020-02-14"),
        ("2020-01-31T22:00", "3h", "2020-02-01T01:00"),
        ("2020-03-01", "-1d", "2020-02-29"),
    ],
)
def test_lengths_of_time(last, length, expected):
    clock = Clock("day", 0.0)
    end = after(clock, clock.read(micro([last]))[0], length)
    np.testing.assert_array_equal(clock.stamps(np.array([end])), micro([expected]))


def test_lengths_by_the_calendar():
    """A year of months is twelve of them; a day of summer time is one on the wall, and 24 hours are not."""
    clock = Clock.of(micro(["2021-01-31", "2021-02-28", "2021-03-31"]))
    assert after(clock, 2.0, "2y") == 26.0
    berlin = Clock("hour", 0.0, zone="Europe/Berlin")
    start = berlin.read(micro(["2024-03-30T11:00"]))[0]
    assert after(berlin, start, "1d") - start == 23.0 and after(berlin, start, "23h") - start == 23.0


@pytest.mark.parametrize(
    ("distances", "unit", "words", "grid"),
    [
        (np.array([3.1, 9.0, 4.7, 2.2, 30.0]), "D", "irregular, about every 4.7 days", "every week"),
        (np.array([1, 3, 2, 2, 5]), "D", "irregular, about every 2 days", "every day"),
        (np.array([33, 28, 27, 36]), "D", "irregular, about every 30.5 days", "every month"),
        (np.array([599, 604, 601, 1190]), "s", "irregular, about every 10.04 minutes", "every 10 minutes"),
        (
            np.array([0.031, 0.044, 0.09, 0.02]),
            "s",
            "irregular, about every 0.0375 seconds",
            "every 0.05 seconds",
        ),
    ],
)
def test_natural_steps(distances, unit, words, grid):
    """Irregular distances: the grid is natural, its stamps stand where people would put them, all after the
    last and between the first and the last where nothing is near.
    """
    moved = np.append(0.0, np.cumsum(distances)) * {"D": DAY, "s": 1e6}[unit]
    stamps = micro(["2021-05-04T13:47"]) + moved.astype("m8[us]")
    clock = Clock.of(stamps)
    assert (clock.words(), clock.grid_words()) == (words, grid)
    t = clock.read(stamps)
    ahead, gaps = clock.next(t[-1], 5), clock.gaps(t)
    assert len(ahead) == 5 and (np.diff(ahead, prepend=t[-1]) > 0).all()
    np.testing.assert_allclose(np.diff(ahead), clock.grid_step, rtol=0.02)
    assert ((gaps > t[0]) & (gaps < t[-1])).all()
    assert (np.abs(gaps[:, None] - t) >= 0.75 * clock.grid_step).all()
    np.testing.assert_allclose(clock.read(clock.stamps(ahead)), ahead, atol=1e-6)
    if clock.every_unit != "second":
        assert all(pd.Timestamp(s).strftime("%H:%M:%S").endswith("0:00") for s in clock.stamps(ahead))


def test_rounded_numbers_do_not_drift():
    """Months as decimals of years, rounded or by their days, go on by a twelfth."""
    months = np.round(1958.0 + np.arange(120) / 12, 3)
    clock = Clock.of(np.delete(months, np.arange(40, 70)))
    assert clock.step == pytest.approx(1 / 12, rel=1e-4) and not clock.every
    np.testing.assert_allclose(
        clock.stamps(clock.gaps(clock.read(np.delete(months, np.arange(40, 70))))), months[40:70], atol=5e-3
    )


def test_weekdays():
    days = pd.date_range("2024-01-01", periods=15, freq="B")  # a Monday
    clock = Clock.of(days.to_numpy().astype("datetime64[us]"))
    t = clock.read(days.to_numpy().astype("datetime64[us]"))
    assert clock.weekdays and clock.gaps(t).size == 0
    ahead = pd.DatetimeIndex(clock.stamps(clock.next(t[-1], 6)))
    assert list(ahead) == list(pd.date_range("2024-01-22", periods=6, freq="B"))
    np.testing.assert_array_equal(clock.gaps(np.delete(t, 3)), t[3:4])


def test_months_between():
    """A stamp within a month lies where its day says."""
    clock = Clock.of(micro(["2021-01-01", "2021-02-01", "2021-03-01"]))
    np.testing.assert_allclose(clock.read(micro(["2021-02-15"])), [1.5], rtol=1e-12)
    np.testing.assert_array_equal(clock.stamps(np.array([1.5])), micro(["2021-02-15"]))


def test_summer_time():
    """Days are counted by the clock on the wall, hours by the sun."""
    days = pd.date_range("2024-03-28", periods=6, freq="D", tz="Europe/Berlin")
    seen = read_series(pd.Series(np.arange(6.0), days))
    clock = Clock.of(seen.stamps, seen.zone)
    assert clock.wall and seen.zone == "Europe/Berlin"
    np.testing.assert_allclose(clock.read(seen.stamps), np.arange(6.0), atol=1e-12)
    ahead = table(seen.kind, clock.stamps(clock.next(5.0, 2)), seen.zone, {"y": np.zeros(2)})
    assert list(ahead.index) == list(pd.date_range("2024-04-03", periods=2, freq="D", tz="Europe/Berlin"))
    hours = pd.date_range("2024-03-30 22:00", periods=6, freq="h", tz="Europe/Berlin")
    seen = read_series(pd.Series(np.arange(6.0), hours))
    clock = Clock.of(seen.stamps, seen.zone)
    assert not clock.wall and clock.unit == "hour"
    np.testing.assert_allclose(clock.read(seen.stamps), np.arange(6.0), atol=1e-12)


def test_numbers():
    clock = Clock.of(np.array([2.0, 2.5, 3.5, 4.0, 4.5]))
    assert (clock.unit, clock.step, clock.words()) == ("", 0.5, "every 0.5")
    t = clock.read(np.array([2.0, 2.5, 3.5, 4.0, 4.5]))
    np.testing.assert_allclose(clock.stamps(clock.gaps(t)), [3.0])
    assert Clock.of(np.array([7.0])).step == 1.0
    assert Clock.of(np.array([0.0, 1.0, 2.4])).gaps(np.array([0.0, 1.0, 2.4])).size == 0
    with pytest.raises(ValueError, match="dates only if it was fitted to dates"):
        clock.read(micro(["2020-01-01"]))


# ------------------------------------------------------------------------------------------------- what
# people have

DATES = ["2024-01-03", "2024-01-01", "2024-01-02"]
VALUES = [3.0, 1.0, np.nan]


@pytest.mark.parametrize(
    "arguments",
    [
        (pd.Series(VALUES, pd.to_datetime(DATES)),),
        (pd.Series(VALUES, DATES),),
        (pd.Series(VALUES, pd.PeriodIndex(DATES, freq="D")),),
        (pd.DataFrame({"y": VALUES}, pd.to_datetime(DATES)),),
        (pd.DataFrame({"when": pd.to_datetime(DATES), "y": VALUES}),),
        (pd.DataFrame({"when": DATES, "y": VALUES, "z": 0.0}), None, "when", "y"),
        (pl.DataFrame({"when": [datetime.date.fromisoformat(d) for d in DATES], "y": [3.0, 1.0, None]}),),
        ({"when": np.array(DATES, object), "y": np.array(VALUES)}, None, "when", "y"),
        (np.array(DATES, "datetime64[D]"), VALUES),
        ((DATES, VALUES),),
        ([datetime.datetime.fromisoformat(d) for d in DATES], [3.0, 1.0, None]),
        (pl.Series([datetime.date.fromisoformat(d) for d in DATES]), pl.Series(VALUES)),
    ],
)
def test_all_that_holds_a_series(arguments):
    """Whatever holds it, the same stamps and values come out, in order, with a note that they were not."""
    seen = read_series(*arguments)
    np.testing.assert_array_equal(seen.stamps, micro(sorted(DATES)))
    np.testing.assert_array_equal(seen.values, [1.0, np.nan, 3.0])
    assert seen.zone is None and seen.notes[-1] == "the rows were not in the order of time: they were sorted"


def test_values_alone_are_numbered():
    for values in ([1.0, 2.0], np.array([1, 2]), pl.Series([1.0, 2.0])):
        np.testing.assert_array_equal(read_series(values).stamps, [0.0, 1.0])


def test_tables_come_back_in_the_library_of_the_series():
    columns = {"mean": np.array([1.0])}
    stamps = micro(["2024-01-04"])
    periods = read_series(pd.Series([1.0, 2.0], pd.period_range("2024-01", periods=2, freq="M"))).kind
    assert table(periods, stamps, None, columns).index == pd.PeriodIndex(["2024-01"], freq="M")
    zoned = pl.DataFrame({"when": [datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)], "y": [1.0]})
    seen = read_series(zoned)
    back = table(seen.kind, stamps, seen.zone, columns)
    assert (
        isinstance(back, pl.DataFrame)
        and back.columns == ["when", "mean"]
        and back["when"].dtype.time_zone == "UTC"
    )


def test_zones():
    berlin, utc = "2024-01-01T01:00+01:00", "2024-01-01T01:00Z"
    seen = read_series([berlin, utc], [1.0, 2.0])
    np.testing.assert_array_equal(seen.stamps, micro(["2024-01-01T00:00", "2024-01-01T01:00"]))
    assert seen.zone == "UTC" and "2 time zones" in seen.notes[0]
    assert "put on UTC" in read_series([berlin, berlin], [1.0, 2.0]).notes[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (["2024-01-01T00:00Z", "2024-01-02"], [1.0, 2.0]),
            "row 0 has a time zone .* but that in row 1 has none",
        ),
        ((["2024-01-01", "yesterday"], [1.0, 2.0]), "row 1, 'yesterday', is not a date: write dates as"),
        ((["2024-01-01", None], [1.0, 2.0]), "time in row 1 is missing"),
        ((pd.to_datetime(["2024-01-01", None]), [1.0, 2.0]), r"row 1 is missing \(NaT\)"),
        (([0.0, np.nan], [1.0, 2.0]), "time in row 1 is missing or infinite"),
        (([0.0, 1.0], [1.0, "much"]), "value in row 1 is 'much', not a number"),
        (([0.0, 1.0], [1.0, np.inf]), "value in row 1 is infinite"),
        (([0.0, 1.0], [1.0]), "2 times but 1 values"),
        (([], []), "the series is empty"),
        ((np.zeros((2, 2)),), "values have shape"),
        ((pd.DataFrame({"a": [1.0], "b": [2.0]}),), "Give time=, one of a, b"),
        ((pd.DataFrame({"a": [1.0], "b": [2.0], "c": [3.0]}), None, "a"), "Give value=, one of b, c"),
        ((pd.DataFrame({"a": [1.0]}), None, "t"), "no column 't'; there are a"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(InputError, match=message):
        read_series(*arguments)


# ------------------------------------------------------------------------------------------------- seasons
# and transforms


def test_seasons():
    """Periods in the unit of the clock; "auto" takes those that the series can show."""
    day, week = Clock("day", step=1.0), Clock("day", step=7.0)
    assert seasons("auto", day, 400.0) == {"week": 7.0}
    assert seasons("auto", day, 800.0) == {"week": 7.0, "year": 365.2425}
    assert seasons("auto", week, 800.0) == {"year": 365.2425}
    assert seasons("auto", Clock("hour", step=1.0), 24.0 * 20) == {"day": 24.0, "week": 168.0}
    assert seasons("auto", Clock("month", step=1.0), 23.0) == {"year": pytest.approx(12.0)}
    for clock, span in ((Clock("month"), 20.0), (Clock("year"), 99.0), (Clock(), 99.0)):
        assert seasons("auto", clock, span) == {}
    assert seasons(None, day, 99.0) == {}
    assert seasons([12], Clock(), 99.0) == {"season 12": 12.0}
    assert seasons({"cycle": 11, "w": "week"}, day, 99.0) == {"cycle": 11.0, "w": 7.0}
    assert seasons("week", day, 9.0) == seasons(["week"], day, 9.0) == {"week": 7.0}
    for given, clock, message in (
        (["moon"], day, "known are day, week, year"),
        (["week"], Clock(), "plain numbers"),
        ([0.5], day, "longer than the step of 1"),
    ):
        with pytest.raises(ValueError, match=message):
            seasons(given, clock, 99.0)


def test_multiplicative(rng):
    """Swings that grow with the level ask for the logarithm; the same swings at every level do not,
    nor does one with zeros.
    """
    t = np.arange(60)
    season, trend = np.sin(2 * np.pi * t / 12), 100.0 + 5.0 * t
    noise = rng.standard_normal(60)
    assert multiplicative(trend * (1 + 0.2 * season) + noise, 12)
    assert not multiplicative(trend + 20 * season + noise, 12)
    assert not multiplicative(100.0 * (1 + 0.2 * season) + noise, 12)
    assert not multiplicative(trend * (1 + 0.2 * season) - 90.0, 12)
    assert not multiplicative(trend[:30], 12)


def test_the_line_is_kept_unless_the_evidence_is_against_it():
    assert preferred({"linear": -10.0, "level": -8.5}) == "linear"
    assert preferred({"linear": -10.0, "level": -7.5}) == "level"
    assert preferred({"level": 1.0}) == "level"


def test_whole_times_that_float64_cannot_tell_apart_are_refused():
    t = 2**60 + np.arange(10)
    with pytest.raises(InputError, match="datetime64"):
        read_series((t, np.arange(10.0)))
    read_series((t - 2**60, np.arange(10.0)))


def test_columns_beside_times_and_values_are_told():
    """What else is in a table is not used, and how it can be is said."""
    days = np.arange("2024-01-01", "2024-01-06", dtype="datetime64[D]")
    frame = {"day": days, "sales": np.arange(5.0), "price": np.ones(5), "shop": list("abcde")}
    seen = read_series(frame, time="day", value="sales")
    assert seen.notes[0].startswith(
        "columns that are not used: price, shop (a series is learned from its times; other columns join "
    )
    told = read_series(frame, time="day", value="sales", regressors=["price"])
    assert "not used: shop (" in told.notes[0] and list(told.others) == ["price"]
    assert read_series({"day": days, "sales": np.arange(5.0)}).notes == ()
    for given, message in (
        ((frame,), "Give value=, one of sales, price. The others are not used: .* GPRegressor"),
        ((np.ones((5, 2)), np.ones(5)), r"times must be one column, .* \(5, 2\): .* GPRegressor"),
        ((days, np.ones((5, 2))), r"one value for each time, .* \(5, 2\): .* GPRegressor"),
    ):
        with pytest.raises(InputError, match=message):
            read_series(*given)
