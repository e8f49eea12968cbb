from updp.core.markdown import table_lines


def test_a_table_has_a_head_a_rule_a_line_per_row_and_an_empty_line():
    assert table_lines(["a", "b"], [("1", "2"), ("3", "4")]) == [
        "| a | b |",
        "| --- | --- |",
        "| 1 | 2 |",
        "| 3 | 4 |",
        "",
    ]
    assert table_lines(["a"], []) == ["| a |", "| --- |", ""]
