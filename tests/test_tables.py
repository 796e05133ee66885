from mercer.tables import text_table


def test_columns_are_two_spaces_apart_under_a_rule():
    lines = text_table(["model", "log evidence", ""], [["SE", "-12.3", "note"], ["Matern 5/2", "-1.25", ""]])
    assert lines == [
        "model       log evidence",
        "------------------------",
        "SE          -12.3         note",
        "Matern 5/2  -1.25",
    ]
    assert text_table(["a", "b"], []) == ["a  b", "----"]
