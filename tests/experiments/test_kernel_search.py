"""The experiment on kernels that are looked for: its data, its measure, and its page."""

from pathlib import Path

import numpy as np
import pytest

from experiments import kernel_search as ks

PAGES = Path(__file__).parents[2] / "docs" / "results"


def test_what_counts_as_found():
    assert (
        ks.plain("rough(0) + linear(0)") == ks.plain("linear(0) + very-smooth(0)") == "linear(0) + smooth(0)"
    )
    row = {"name": "line + season", "sentence": "linear(0) + periodic(0)"}
    assert ks.right(row) and not ks.right(row | {"sentence": "linear(0) + periodic(0)*smooth(0)"})
    for make, said in ks.GENERATED.values():
        X, y = make(0)
        assert X.shape[0] == ks.ROWS and np.std(y) > 0.3 and all(map(ks.plain, said))
    train, test = ks.divided(*ks.changed(), "random")
    assert len({*train, *test}) == ks.ROWS and len(test) == ks.ROWS // 5


def test_the_page_is_that_of_the_searches_kept():
    assert ks.run(PAGES, compute=False) + "\n" == (PAGES / "kernel_search.md").read_text()


@pytest.mark.experiment
def test_one_search_as_on_the_page():
    made = ks.searched(*ks.GENERATED["line"][0](0), ks.MODELS)
    assert ks.plain(made["sentence"]) == "linear(0)"
