"""A number is read as it was meant, or not at all: a part of a date, a range or another notation is no number."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared.scoring.reading import read

NO_BREAK, NARROW, THIN = "\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}", "\N{THIN SPACE}"
SPACES = (" ", NO_BREAK, NARROW, THIN)
MINUSES = ("-", "\N{MINUS SIGN}", "\N{EN DASH}", "\N{FIGURE DASH}", "\N{NON-BREAKING HYPHEN}")


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("1,234.50 EUR of 2,000", "2000"),
        ("1,234.50", "1234.50"),
        ("1'234.5", "1234.5"),
        ("1 000 000", "1000000"),
        (f"1{NO_BREAK}000{NARROW}000", "1000000"),
        ("from 1, 2, 3", "3"),
        ("100, 200, 300", "300"),
        ("1 2 3", "3"),
        ("minus \N{MINUS SIGN}5kg", "-5"),
        ("\N{MINUS SIGN} 5", "-5"),
        ("+7, then", "7"),
        ("-$5", "-5"),
        ("$-5", "-5"),
        ("-EUR 5", "-5"),
        ("US$ 12.50", "12.50"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("5.", "5"),
        ("approx.5", "5"),
        ("1e-3", "1e-3"),
        ("1e\N{MINUS SIGN}3", "1e-3"),
        ("1e300", "1e300"),
        ("2 + 3 = 5", "5"),
        ("**5**", "5"),
        ("5-year", "5"),
        ("5 m\N{SUPERSCRIPT TWO}", "5"),
        ("- 5 apples", "5"),
        ("Total - 5", "5"),
        ("**Total** - 5", "5"),
        ("Room 5 **6**", "6"),
        ("\N{FULLWIDTH DIGIT FIVE}\N{FULLWIDTH DIGIT ONE}", "51"),
        ("5 billionaires", "5"),
        ("7 of GPT-4", "7"),
        ("5m", "5"),
        ("(5)", "5"),
        ("[5]", "5"),
        ("{5}", "5"),
        ("$42$", "42"),
        (r"\(42\)", "42"),
        (r"\boxed{42}", "42"),
        (r"\boxed{\text{42}}", "42"),
        ("**42**", "42"),
        ("Total: _42_", "42"),
        ("Total: 42.", "42"),
        ("• 5 apples", "5"),
        ("•5 apples", "5"),
        ("1 • 5", "5"),
        ("5， 6", "6"),
        ("5、6", "6"),
        ("数量：5", "5"),
        (r"\$5.00", "5.00"),
        (r"50\%", "50"),
        (r"90^\circ", "90"),
        ("the 5^{th}", "5"),
        (r"5 \\ 6", "6"),
        (r"1,\,2,\,3", "3"),
        (r"3 \times 4 = 12", "12"),
        ("24 m^2", "24"),
        ("24 m^{-2}", "24"),
        ("24 m<sup>2</sup>", "24"),
        ("x^2.5 = 9", "9"),
        ("x_{1} = 9", "9"),
    ],
)
def test_a_plain_number_is_read_with_its_digits_as_they_stand(answer: str, number: str) -> None:
    assert read("number", answer) == number


@pytest.mark.parametrize(
    "answer",
    [
        "1.234,5",
        "12,5",
        "3,14",
        "0,123",
        "1,2,3",
        "1,23,456",
        "1,234 567",
        "1.234.567",
        "1, 000",
        "1\t000",
        "13.02.2017",
        "2017-02-13T10:00",
        "10.0.0.1",
        "12:30",
        "3-5",
        "3 \N{EN DASH} 5",
        "1..5",
        "$5-$10",
        "5%-10%",
        "5kg-10kg",
        "$5-",
        "7/10",
        "2 1/2",
        "2\N{VULGAR FRACTION ONE HALF}",
        "5 apples and \N{VULGAR FRACTION ONE HALF}",
        "10\N{SUPERSCRIPT TWO}",
        "10^6",
        "1.5 \N{MULTIPLICATION SIGN} 10^6",
        "3 x 4",
        "1920x1080",
        "0x1F",
        "5 \N{PLUS-MINUS SIGN} 0.5",
        "\N{PLUS-MINUS SIGN}5",
        "--5",
        "$--5",
        "\N{EM DASH}5",
        "x = - 5",
        "(5)-3",
        "2017 500",
        "5 12 345",
        "5 million",
        "5k",
        "$5m",
        "5 and a half",
        "5\u4e07",
        "minus 5",
        "1e3000",
        "1e\N{EM DASH}5",
        "9" * 310,
        "9" * 1000,
        "\N{ARABIC-INDIC DIGIT THREE}\N{ARABIC DECIMAL SEPARATOR}\N{ARABIC-INDIC DIGIT ONE}",
    ],
)
def test_what_is_not_plainly_one_number_is_not_read(answer: str) -> None:
    read_as = read("number", f"Of 1: {answer}")
    assert read_as is not None
    assert read_as.startswith("<no_plain_number: ")


@pytest.mark.parametrize("which", ["first", "last"])
@pytest.mark.parametrize(
    "answer",
    [
        r"\frac{7}{10}",
        r"\frac{7} {10}",
        r"\frac{x}{10}",
        r"\frac{10}{x}",
        r"\dfrac{-7}{10}",
        r"3\frac{1}{2}",
        r"\frac12",
        r"{7 \over 10}",
        r"\sqrt{2}",
        r"\sqrt2",
        "\N{SQUARE ROOT}2",
        "10^{3}",
        "10^-3",
        "10^{-3}",
        "10^(-3)",
        "10 ^ 3",
        "10**-3",
        "10^n",
        "10<sup>3</sup>",
        "5x^2",
        r"1.5 \times 10^{6}",
        r"3 \cdot 4",
        r"5 \pm 0.5",
        r"\pm 5",
        "5_{2}",
        r"12\;345",
        r"12,\!345",
        r"12\.345",
        r"2017\-02\-13",
        "3{,}14",
        "1，234.50",
        "０．５",
        "合計：１，２３４円",
        "5，6",
        "12：30",
        "７／１０",
        "5～10",
        "5\N{WAVE DASH}10",
        "3\N{DIVISION SLASH}5",
        "2 1\N{DIVISION SLASH}2",
        "1\N{BULLET}5",
        "1\N{DOT OPERATOR}5",
        "5\N{KATAKANA MIDDLE DOT}6",
        "5\N{PRIME}10",
    ],
)
def test_latex_and_full_width_marks_cut_no_number_apart(answer: str, which: str) -> None:
    read_as = read("number", answer, which=which)
    assert read_as is not None
    assert read_as.startswith("<no_plain_number: ")


@pytest.mark.parametrize("which", ["first", "last"])
@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("$12{,}345$", "12345"),
        (r"\boxed{12{,}345}", "12345"),
        ("The total is $12{,}345.67$", "12345.67"),
        ("1{,}234{,}567", "1234567"),
        (r"\$12{,}345", "12345"),
        (r"12\,345", "12345"),
        (r"1\,234\,567.5", "1234567.5"),
    ],
)
def test_latex_parts_thousands_by_a_comma_in_braces_or_a_thin_space(answer: str, number: str, which: str) -> None:
    assert read("number", answer, which=which) == number


@pytest.mark.parametrize("power", ["^{2}", "^2", "_{2}", "<sup>2</sup>"])
def test_what_is_raised_on_a_word_belongs_to_it(power: str) -> None:
    assert read("number", f"m{power}") == "<no_number>"


def test_the_reason_shows_what_is_no_number() -> None:
    assert read("number", "It is 12,5.") == "<no_plain_number: is 12,5.>"
    assert read("number", "about\n5 million people") == "<no_plain_number: out 5 million>"


@pytest.mark.parametrize("answer", ["", "none", "v2 is out", "v2.5", "COVID-19", "H\N{SUBSCRIPT TWO}O"])
def test_an_answer_without_a_number_has_none(answer: str) -> None:
    assert read("number", answer) == "<no_number>"


def test_the_first_number_where_it_is_asked_for_and_no_other_in_its_place() -> None:
    assert read("number", "1,234 of 5", which="first") == "1234"
    assert read("number", "none", which="first") == "<no_number>"
    assert read("number", "3-5, or 7", which="first") == "<no_plain_number: 3-5, or 7>"
    assert read("number", "3-5, or 7") == "7"
    assert read("number", "100 200 5", which="first") == "<no_plain_number: 100 200 5>"


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("1.234,5", "1234.5"),
        ("12,50 EUR", "12.50"),
        ("1.000", "1000"),
        ("1 000,5", "1000.5"),
        (",5", "0.5"),
        ("3{,}14", "3.14"),
        ("12{.}345{,}6", "12345.6"),
        (r"12\,345,6", "12345.6"),
        (r"x =\,5", "5"),
        ("5", "5"),
        ("12.5", "<no_plain_number: 12.5>"),
        ("13.02.2017", "<no_plain_number: 13.02.2017>"),
        (".5", "<no_plain_number: .5>"),
    ],
)
def test_a_comma_is_the_decimal_mark_where_that_is_declared(answer: str, number: str) -> None:
    assert read("number", answer, decimal=",") == number


@given(
    whole=st.integers(0, 10**12),
    part=st.none() | st.text("0123456789", min_size=1, max_size=6),
    decimal=st.sampled_from(".,"),
    thousands=st.sampled_from(["", "mark", "'", *SPACES]),
    minus=st.sampled_from(["", *MINUSES]),
    money=st.sampled_from(["", "$", "\N{EURO SIGN}"]),
    around=st.sampled_from(["{}", "Total: {}", "It is {} kg.", "({})", "**{}**", "7, then {}, he said", "= {}%"]),
)
def test_a_number_that_is_written_in_one_way_is_read_back(
    whole: int, part: str | None, decimal: str, thousands: str, minus: str, money: str, around: str
) -> None:
    mark = {".": ",", ",": "."}[decimal] if thousands == "mark" else thousands
    shown = f"{whole:,}".replace(",", mark) + (f"{decimal}{part}" if part else "")
    found = read("number", around.format(f"{minus}{money}{shown}"), decimal=decimal)
    assert found == ("-" if minus else "") + str(whole) + (f".{part}" if part else "")


@given(st.decimals(-(10**9), 10**9, allow_nan=False, places=3), st.integers(-20, 20))
def test_a_power_of_ten_is_read_back(number: Decimal, power: int) -> None:
    assert read("number", f"x = {number}e{power}") == f"{number}e{power}"


@given(
    st.lists(st.integers(0, 10**5), min_size=2, max_size=5),
    st.sampled_from(["-", "/", ":", "..", "^", "_", "x", "\N{EN DASH}", " - ", " / ", " + ", "*"]),
)
def test_numbers_that_something_joins_are_never_one_of_them(numbers: list[int], joint: str) -> None:
    read_as = read("number", joint.join(map(str, numbers)))
    assert read_as is not None
    assert read_as.startswith("<no_plain_number")


@given(
    st.text(
        st.characters(categories=["Nd", "No", "Pd", "Sm", "Sc", "Zs"]) | st.sampled_from("0123456789.,eEx '"),
        max_size=12,
    )
)
def test_what_is_read_is_a_number_of_python_too(answer: str) -> None:
    for decimal in ".,":
        read_as = read("number", answer, decimal=decimal)
        assert read_as is not None
        assert read_as.startswith("<no_") or math.isfinite(float(read_as))


@pytest.mark.parametrize(
    "piece",
    [
        "7",
        ",",
        " ",
        "-",
        "- ",
        "1 ",
        "1 000 ",
        "1,000,",
        "-5",
        ".",
        ".5",
        "a-",
        "A-1",
        "$",
        "1e5",
        "1/",
        "5e",
        "5k ",
        "{,}",
        "1{,}",
        "1^{",
        "x^{",
        r"\frac",
        r"1\,",
    ],
)
@pytest.mark.parametrize("which", ["first", "last"])
def test_a_hostile_megabyte_of_number_characters_ends(piece: str, which: str) -> None:
    assert read("number", piece * (1_000_000 // len(piece)) + "x", which=which) is not None  # what is quadratic: hours
