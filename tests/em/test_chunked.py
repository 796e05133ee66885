"""EM on data in chunks equals EM on the whole array."""

import numpy as np
import pytest

import mercer as mc
from mercer import em
from mercer.inputs import InputError, chunks, parquet

CUTS = {1: [], 2: [13], 3: [13, 13], 7: [1, 5, 5, 60, 61, 130]}  # one of three, and of seven, is empty


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    X = np.concatenate([rng.normal(c, 0.7, size=(50, 2)) for c in (-3.0, 0.0, 4.0)])
    X[3, 1] = np.nan
    return rng.permutation(X)


def pieces(X, count):
    return [(part, None) for part in np.split(X, CUTS[count])]


@pytest.mark.parametrize("count", CUTS)
@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_a_mixture_in_chunks(table, count, kind):
    whole = mc.GaussianMixture(3, kind, restarts=0, tol=0.0, max_evaluations=12).fit(table)
    found = mc.GaussianMixture(3, kind, restarts=0, tol=0.0, max_evaluations=12).fit(
        chunks(pieces(table, count))
    )
    for name in ("weights_", "means_", "covariances_", "log_likelihood_", "history_"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("emission", ["gaussian", "categorical", "student-t"])
def test_one_sequence_a_chunk(table, emission):
    rows = np.nan_to_num(table[:, :1])
    rows = (rows[:, 0] > 0).astype(int) + (rows[:, 0] > 3) if emission == "categorical" else rows
    sequences = [s for s in np.split(rows, CUTS[7]) if len(s)]
    settings = dict(tol=0.0, max_evaluations=8, restarts=0)
    whole = mc.HMM(2, emission, **settings).fit(sequences)
    found = mc.HMM(2, emission, **settings).fit(chunks(pieces(rows, 7)))
    for name in ("initial_", "transition_", "log_likelihood_", "history_"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-10, atol=1e-10)
    together = chunks([(sequences[:2], None), (sequences[2:], None)])  # several sequences in a chunk
    again = mc.HMM(2, emission, **settings).fit(together)
    np.testing.assert_allclose(again.transition_, whole.transition_, rtol=1e-10, atol=1e-10)


def test_files_have_names_and_the_number_of_components_is_chosen(table, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for i, (part, _) in enumerate(pieces(table, 3)):
        columns = {"a": part[:, 0], "b": part[:, 1]}
        named = columns if i != 2 else dict(reversed(columns.items()))  # in another order
        pq.write_table(pa.table(named), tmp_path / f"{i}.parquet")
    found = mc.GaussianMixture([2, 3]).fit(parquet(tmp_path))
    whole = mc.GaussianMixture([2, 3]).fit(table)
    assert found.selection_ == pytest.approx(whole.selection_, rel=1e-9)
    assert list(found.feature_names_in_) == ["a", "b"]


def test_em_itself_takes_a_source(table):
    rows = np.nan_to_num(table)
    start = em.GaussianMixture.around(rows, 2, np.random.default_rng(0))
    whole = em.em(start, [rows], max_evaluations=5)
    found = em.em(start, chunks(pieces(rows, 7)), max_evaluations=5)
    np.testing.assert_allclose(found.model.means, whole.model.means, rtol=1e-10)


def test_what_is_wrong_is_named(table):
    bad = table.copy()
    bad[20, 1] = np.inf
    with pytest.raises(InputError, match=r"partition 1 of 2.*infinity in row 7, column 1"):
        mc.GaussianMixture(2).fit(chunks(pieces(bad, 2)))
    with pytest.raises(InputError, match=r"partition 1 of 2 has 1 columns, where partition 0 has 2 columns"):
        mc.GaussianMixture(2).fit(chunks([(table, None), (table[:, :1], None)]))
    with pytest.raises(InputError, match="all chunks are empty"):
        mc.GaussianMixture(2).fit(chunks([(table[:0], None)]))
    with pytest.raises(ValueError, match="labels go with data in one piece"):
        mc.GaussianMixture(2).fit(chunks(pieces(table, 2)), labels=[1, 2])
    with pytest.raises(ValueError, match=r"held-out.*use 'bic' or 'aic'"):
        mc.GaussianMixture([2, 3], criterion="held-out").fit(chunks(pieces(table, 2)))
