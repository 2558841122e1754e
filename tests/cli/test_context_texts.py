"""examples/context/texts.py from published forms to texts and tables."""

import csv
import importlib
import json
import sys
from collections import Counter

import pytest
from cli_helpers import ROOT

TEXTS = ROOT / "examples" / "context" / "texts.py"


@pytest.fixture
def made(monkeypatch, capsys, tmp_path):
    """Return a function that runs the program and returns the lines and rows of each split, and what was printed."""
    monkeypatch.syspath_prepend(TEXTS.parent)
    monkeypatch.delitem(sys.modules, "texts", raising=False)  # examples/adaptation has one of that name
    program = importlib.import_module("texts")

    def run(name, *arguments, to="out"):
        folder = tmp_path / to
        monkeypatch.setattr("sys.argv", ["texts.py", name, str(folder), *map(str, arguments)])
        program.main()
        found = {}
        for path in folder.glob("*.txt"):
            columns, *rows = [tuple(line.split("\t")) for line in path.with_suffix(".tsv").read_text().splitlines()]
            found[path.stem] = columns, list(zip(rows, path.read_text().splitlines(), strict=True))
        return found, capsys.readouterr().out

    yield run
    sys.modules.pop("texts")


def write_csv(path, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    return path


def only(splits, split="train"):
    return splits[split][1]


def of_one(made, tmp_path, name, row, *options):
    """Return the values and the text of a row that is given three times, once a split."""
    found, _ = made(name, write_csv(tmp_path / "one.csv", row), "--items", "1,1,1", *options)
    assert only(found, "train") == only(found, "valid") == only(found, "test")
    return found["train"][0], only(found)[0]


def test_ag_news_is_lower_cased_without_punctuation_and_repaired(made, tmp_path):
    title, text = (
        "It #39;s  #36;7.5 million, ",
        'the result;  quot;AT amp;T\\\\News quot; &lt;A HREF="http://x"&gt;Grauman\'s 1,000&lt;/A&gt; -- U.S.',
    )
    columns, (values, words) = of_one(made, tmp_path, "agnews", [["4", title, text]] * 3)
    assert columns == ("topic",) and values == ("sci/tech",)
    assert words == "it's 7.5 million the result at t news grauman's 1,000 u s"


def test_classes_have_their_published_names(made, tmp_path):
    rows = [[str(number), "Title", "text"] for number in range(1, 15)]
    found, _ = made("dbpedia", write_csv(tmp_path / "train.csv", rows), "--items", "12,1,1")
    values = {row[0] for split in found.values() for row, _ in split[1]}
    assert len(values) == 14 and {"Company", "OfficeHolder", "WrittenWork"} < values
    assert found["train"][0] == ("category",)
    columns, (values, words) = of_one(made, tmp_path, "yelp", [["5", r"Good \"food\".\nCheap"]] * 3)
    assert (columns, values, words) == (("stars",), ("5",), "good food cheap")


def test_lines_of_class_and_text(made, tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text('Village\twooster <separator> "wooster" is a village\n' * 3)
    found, _ = made("dbpedia", path, "--items", "1,1,1", "--max-words", "3")
    assert only(found) == [(("Village",), "wooster wooster is")]


def test_reviews_of_hotels(made, tmp_path):
    reviews = [{"offering_id": 93338, "ratings": {"overall": 4.0}, "title": "Nice!", "text": "A\nroom", "author": {}}]
    reviews += [{"offering_id": 12, "ratings": {"service": 5.0}, "text": "No stars"}] * 9
    path = tmp_path / "review.json"
    path.write_text("".join(f"{json.dumps(review)}\n" for review in reviews))
    found, _ = made("tripadvisor", path)
    assert found["train"][0] == ("hotel", "stars")
    assert {len(split[1]) for split in found.values()} == {8, 1}
    rows = Counter(row for split in found.values() for row in split[1])
    assert rows == {(("93338", "4"), "nice a room"): 1, (("12", ""), "no stars"): 9}


def test_tweets_are_characters_as_they_are(made, tmp_path):
    header = ["text", "id", "lon", "lat"]
    columns, (values, tokens) = of_one(made, tmp_path, "geotwitter", [header, *[["Hi, a_b!\n Ñ", "7", "-3.70", "40.4"]] * 3])
    assert columns == ("lat", "lon") and values == ("40.4", "-3.70")
    assert tokens == "H i , _ a ‗ b ! _ Ñ"
    columns, row = of_one(made, tmp_path, "eurotwitter", [["language", "text"], *[["gl", "Bo día"]] * 3], "--max-words", "4")
    assert columns == ("language",) and row == (("gl",), "B o _ d")


def test_words_may_be_written_as_characters(made, tmp_path):
    row = ["1", "A b", "C-d."]
    assert of_one(made, tmp_path, "agnews", [row] * 3, "--characters")[1] == (("world",), "a _ b _ c _ d")


def test_splits_are_drawn_with_the_seed_and_files_are_kept_apart(made, tmp_path):
    rows = [[str(number % 4 + 1), "item", f"word{number}"] for number in range(100)]
    source = write_csv(tmp_path / "train.csv", rows)
    test = write_csv(tmp_path / "test.csv", [["1", "other", f"test{number}"] for number in range(7)])
    found, printed = made("agnews", source, "--test", test)
    sizes = {split: len(lines) for split, (_, lines) in found.items()}
    assert sizes == {"train": 90, "valid": 10, "test": 7}
    assert {text for _, text in only(found, "test")} == {f"other test{number}" for number in range(7)}
    drawn = only(found) + only(found, "valid")
    assert sorted(drawn) == sorted(((("world", "sports", "business", "sci/tech")[n % 4],), f"item word{n}") for n in range(100))
    assert drawn != sorted(drawn) and made("agnews", source, "--test", test, to="again")[0] == found
    assert made("agnews", source, "--test", test, "--seed", "2", to="other")[0]["valid"] != found["valid"]
    assert printed.splitlines()[1].split() == ["train", "90", "270", "91", "4"]
    some, _ = made("agnews", source, "--test", test, "--items", "20,30,5", to="some")
    assert [len(only(some, split)) for split in ("train", "valid", "test")] == [20, 30, 5]
    assert not set(only(some)) & set(only(some, "valid")) and set(only(some, "test")) < set(only(found, "test"))


def test_items_without_words_are_left_out_with_their_rows(made, tmp_path):
    rows = [["1", "...", "--"]] * 5 + [["2", "good", ""]] * 3
    found, _ = made("agnews", write_csv(tmp_path / "train.csv", rows), "--items", "1,1,1")
    assert {row for _, lines in found.values() for row in lines} == {(("sports",), "good")}


def test_years_are_held_out_of_speeches(made, tmp_path):
    folder = tmp_path / "speeches"
    folder.mkdir()
    for year in range(1950, 1962):
        remark = "[Applause] (Laughter.)"
        body = [f"This is paragraph {number} of {year}. {remark}" for number in range(5)]
        lines = ["ANNUAL MESSAGE", "", f"January 5, {year}", *body, "Thank you."]
        (folder / f"{year}-{'Truman' if year < 1953 else 'Eisenhower'}-2.txt").write_text("\n".join(lines) + "\n")
    found, _ = made("speeches", folder)
    assert found["train"][0] == ("year", "president")
    held = [1952, 1957]
    assert [(int(year), text.split()[-1]) for (year, _), text in only(found, "test1")] == [
        (y, str(y)) for y in held for _ in range(5)
    ]
    rest = [row for split in ("train", "valid", "test") for row in only(found, split)]
    assert sorted(int(year) for (year, _), _ in rest) == [y for y in range(1950, 1962) if y not in held for _ in range(5)]
    assert {values[1] for values, _ in rest} == {"Truman", "Eisenhower"}
    assert {len(text.split()) for _, text in rest} == {6}


def test_domains_are_mixed_and_of_one_size(made, tmp_path):
    (tmp_path / "near.txt").write_text("".join(f"near {number}\n" for number in range(100)))
    far = tmp_path / "far"
    far.mkdir()
    for part in range(4):
        (far / f"{part}.txt").write_text("".join(f"Far, far {part}x{number}!\n" for number in range(100)))
    found, _ = made("domains", f"near={tmp_path / 'near.txt'}", f"far={far}", "--tokens", "240")
    counts = {split: Counter(row[0] for row, _ in lines) for split, (_, lines) in found.items()}
    assert counts["train"] == {"near": 64, "far": 48}
    assert counts["valid"] == counts["test"] == {"near": 8, "far": 6}
    lines = [text for split in found for _, text in only(found, split)]
    assert len(set(lines)) == len(lines) and all(text.startswith(row[0]) for row, text in only(found))
    order = [row[0] for row, _ in only(found)]
    assert order != sorted(order) and order != sorted(order, reverse=True)


@pytest.mark.parametrize(
    "name, content, options, message",
    [
        ("agnews", '"5","a","b"\n', [], "in:1: expected 3 fields, the first one of 1 to 4; found"),
        ("agnews", '"5","' + "a" * 132_000 + "\n", [], "in:1: field larger than field limit (131072): expected a quote at both"),
        ("yelp", '"1","a"\n"2","b","c"\n', [], "in:2: expected 2 fields"),
        ("dbpedia", "Village text\n", [], "in:1: expected class<TAB>text, found 1 fields"),
        ("tripadvisor", '{"text": "a"}\n', [], 'in:1: expected {"offering_id"'),
        ("eurotwitter", "lang,text\n", [], "in:1: the header has no 'language': expected language,text"),
        ("geotwitter", "lat,lon,text\n1,2\n", [], "in:2: 2 fields, and the header has 3"),
        ("agnews", '"1","a","b"\n' * 9, ["--items", "8,1,1"], "9 items are too few: train, valid, test need 10"),
        ("agnews", '"1","a","b"\n' * 2, [], "2 items are too few: valid, test, train need 3"),
    ],
)
def test_bad_files(made, tmp_path, name, content, options, message):
    (tmp_path / "in").write_text(content)
    with pytest.raises(SystemExit) as ended:
        made(name, tmp_path / "in", *options)
    assert str(ended.value).startswith("error: ") and message in str(ended.value)
    assert not (tmp_path / "out").exists()


def test_bad_domains_and_speeches(made, tmp_path):
    (tmp_path / "a.txt").write_text("a b\n")
    for arguments, message in (
        ([f"a={tmp_path / 'a.txt'}"], "expected two or more NAME=PATH"),
        ([f"a={tmp_path / 'a.txt'}", str(tmp_path)], "expected two or more NAME=PATH"),
        ([f"a={tmp_path / 'a.txt'}", f"b={tmp_path / 'a.txt'}"], "domain a has 3 tokens: expected --tokens 40,000"),
    ):
        with pytest.raises(SystemExit) as ended:
            made("domains", *arguments)
        assert message in str(ended.value)
    with pytest.raises(SystemExit) as ended:
        made("speeches", tmp_path)
    assert "a.txt: expected a name like 1961-Kennedy.txt" in str(ended.value)
    (tmp_path / "a.txt").unlink()
    with pytest.raises(SystemExit) as ended:
        made("speeches", tmp_path)
    assert "speeches of 0 years are too few" in str(ended.value)


def test_the_program_runs(commands, tmp_path):
    source = write_csv(tmp_path / "train.csv", [["1", "a", "b"]] * 30)
    printed = commands.ok("python", TEXTS, "agnews", tmp_path / "out", source)
    assert [line.split() for line in printed.splitlines()[1:]] == [
        ["train", "24", "72", "2", "1"],
        ["valid", "3", "9", "2", "1"],
        ["test", "3", "9", "2", "1"],
    ]
