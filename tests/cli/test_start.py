"""`updp init` on the command line."""

from tests.cli.test_cli import updp
from tests.sources.exports import CANARY, write_film
from tests.sources.test_mapping import table


def test_init_shows_columns_and_writes_what_deidentify_reads(tmp_path):
    export = tmp_path / "export"
    write_film(export / "films" / "a.png")
    table(export / "list.csv", "Patient;Nachname;Pfad;Befund", f"p1;{CANARY};films\\a.png;Lungs are clear.")
    assert updp("sources").returncode == 0
    made = updp("init", export)
    assert made.returncode == 0, made.stderr
    assert "patient_name" in made.stdout
    assert CANARY not in made.stdout
    again = updp("init", export)
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert updp("init", export, "--force").returncode == 0


def test_init_that_does_not_find_the_patients_says_so_and_exits_with_2(tmp_path):
    table(tmp_path / "list.csv", "a,b", "1,2")
    made = updp("init", tmp_path)
    assert made.returncode == 2
    assert "Not found: patient_id, image" in made.stdout
    assert "Traceback" not in made.stderr
