"""Data sets for classification: what the texts say about them, files of one's own, and drawn problems."""

import numpy as np
import pytest
from scipy.special import expit

from mercer import datasets


@pytest.mark.parametrize(
    ("name", "shape", "counts"),
    [
        ("usps_3v5", (767, 256), {3: 406, 5: 361}),
        ("ionosphere", (351, 34), {"good": 225, "bad": 126}),
        ("wisconsin", (683, 9), {"benign": 444, "malignant": 239}),
        ("pima", (768, 8), {"neg": 500, "pos": 268}),
        ("pima_ripley", (200, 7), {"No": 132, "Yes": 68}),
        ("sonar", (208, 60), {"M": 111, "R": 97}),
        ("crabs", (200, 7), {"M": 100, "F": 100}),
        ("ripley_synth", (250, 2), {0: 125, 1: 125}),
        ("neal_3class", (1400, 4), None),
        ("promoters", (106,), {"+": 53, "-": 53}),
        ("oil_flow", (1000, 12), None),
    ],
)
def test_sizes_and_classes_the_texts_state(data_dir, name, shape, counts):
    data = datasets.load(name)
    assert data.X.shape == shape
    labels, found = np.unique(data.y, return_counts=True)
    if counts is None:
        assert list(labels) == [0, 1, 2]
    else:
        assert dict(zip(labels, found, strict=True)) == counts


def test_usps_parts_fit_together(data_dir):
    """GPML §3.7.3: 4649 + 4649 digits in [-1, 1]; 767 + 773 threes and fives, 418/355 of them for testing."""
    parts = [datasets.load("usps", part) for part in ("train", "test", "all")]
    assert [len(p.y) for p in parts] == [4649, 4649, 9298]
    np.testing.assert_array_equal(parts[2].X, np.concatenate([parts[0].X, parts[1].X]))
    assert np.abs(parts[2].X).max() <= 1
    np.testing.assert_array_equal(np.bincount(parts[0].y), [767, 622, 475, 406, 409, 361, 420, 390, 377, 422])
    np.testing.assert_array_equal(np.bincount(parts[1].y), [786, 647, 454, 418, 443, 355, 414, 402, 331, 399])
    test = datasets.load("usps_3v5", "test")
    np.testing.assert_array_equal(test.X, parts[1].X[np.isin(parts[1].y, [3, 5])])
    assert len(datasets.load("usps_3v5", "all").y) == 1540


def test_other_names_of_a_set(data_dir):
    for other, name in (
        ("wisconsin", "breast_cancer"),
        ("ripley_synth", "ripley"),
        ("neal_3class", "neal_classes"),
    ):
        np.testing.assert_array_equal(datasets.load(other).X, datasets.load(name).X)
        assert other not in datasets.names()


ROWS = np.round(np.random.default_rng(0).uniform(size=(4, 60)), 4)


@pytest.mark.parametrize("header", [True, False])
def test_sonar_from_a_local_file(header, tmp_path, monkeypatch):
    monkeypatch.delenv("MERCER_DATA", raising=False)
    lines = [",".join([*map(str, row), label]) for row, label in zip(ROWS, "RMMR", strict=True)]
    if header:
        lines.insert(0, ",".join([*(f"V{i}" for i in range(1, 61)), "Class"]))
    file = tmp_path / "sonar.all-data"
    file.write_text("\n".join(lines) + "\n\n")
    for path in (file, str(file)):
        data = datasets.load("sonar", path=path)
        np.testing.assert_array_equal(data.X, ROWS)
        np.testing.assert_array_equal(data.y, list("RMMR"))


def test_a_path_to_something_else_is_explained(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"'sonar'.*nowhere.csv, which is not a file. It holds a CSV file.*V60, Class"
    ):
        datasets.load("sonar", path=tmp_path / "nowhere.csv")
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"other.csv lacks the column\(s\) V1, V2,.*Class"):
        datasets.load("sonar", path=other)
    other.write_text("")
    with pytest.raises(ValueError, match=r"lacks the column\(s\) V1"):
        datasets.load("sonar", path=other)
    with pytest.raises(ValueError, match="takes no path"):
        datasets.load("ebden", path=other)
    with pytest.raises(ValueError, match="'sarcos' is read from several files"):
        datasets.load("sarcos", path=other)


def test_one_dimensional_toy_is_three_groups():
    """GPML Fig. 3.6: 20, 30 and 10 points at -6, 0 and 2, standard deviation 0.8."""
    toy = datasets.toy_classification_1d(seed=1)
    assert toy.X.shape == (60, 1) and (toy.y == 1).sum() == 30 and (toy.y == -1).sum() == 30
    np.testing.assert_array_equal(toy.X, datasets.toy_classification_1d(1).X)
    assert not np.array_equal(toy.X, datasets.toy_classification_1d(2).X)
    many = np.array([datasets.toy_classification_1d(seed).X[:, 0] for seed in range(200)])
    for group, centre in ((slice(0, 20), -6), (slice(20, 50), 0), (slice(50, 60), 2)):
        assert many[:, group].mean() == pytest.approx(centre, abs=0.06)
        assert many[:, group].std() == pytest.approx(0.8, abs=0.04)
    np.testing.assert_array_equal(toy.y[[0, 19, 20, 49, 50, 59]], [1, 1, -1, -1, 1, 1])


def mode(X, y, lengthscale, variance=9.0):
    """Posterior mode of the latent function at the data, logistic likelihood (GPML algorithm 3.1)."""
    K = variance * np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2) / lengthscale**2)
    f = np.zeros(len(y))
    for _ in range(50):
        p = expit(f)
        s, b = np.sqrt(p * (1 - p)), p * (1 - p) * f + (y + 1) / 2 - p
        f = K @ (b - s * np.linalg.solve(np.eye(len(y)) + s[:, None] * K * s, s * (K @ b)))
    return f


def test_two_dimensional_toy_behaves_as_in_the_book():
    """GPML Fig. 3.5: length-scale 0.1 classifies every training point, 0.3 misclassifies the two outliers."""
    toy = datasets.toy_classification_2d()
    assert toy.X.shape == (40, 2) and np.all((toy.X >= 0) & (toy.X <= 1)) and set(toy.y) == {-1, 1}
    np.testing.assert_array_equal(np.sign(mode(toy.X, toy.y, 0.1)), toy.y)
    np.testing.assert_array_equal(np.flatnonzero(np.sign(mode(toy.X, toy.y, 0.3)) != toy.y), [38, 39])
    assert datasets.toy_classification_2d(3, n=100).X.shape == (100, 2)
    with pytest.raises(ValueError, match="at least 3"):
        datasets.toy_classification_2d(n=2)
