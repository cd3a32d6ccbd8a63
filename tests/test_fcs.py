"""FCS files: the numbers are flowio's, the declared options are arithmetic, and what is damaged is refused with its place."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
from pathlib import Path
from typing import Any

import flowio
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import proportio as pp
from fcs_files import fcs
from proportio.models import from_bytes
from proportio.sources.fcs import read_layout
from proportio.sources.scales import Arcsinh, Logicle

RNG = np.random.default_rng(5)
EVENTS = RNG.normal(300, 200, size=(500, 4)).astype(np.float32)
NAMES = ["FSC-A", "FL1-A", "FL2-A", "Time"]
MARKERS = ["", "CD3", "CD/4", ""]
SPILL = "2,FL1-A,FL2-A,1,0.1,0.25,1"
S = np.array([[1, 0.1], [0.25, 1]])


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def values(source: pp.Source, columns: list[str] | None = None) -> np.ndarray[Any, Any]:
    return np.vstack([np.column_stack(batch.columns) for batch in source.batches(columns)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "a.fcs", fcs(EVENTS, NAMES, markers=MARKERS, SPILLOVER=SPILL, P2G="2.0", TIMESTEP="0.01"))


# -- what is read --------------------------------------------------------------------------------------------------


def test_channels_go_by_their_marker_and_else_by_their_detector(file: Path) -> None:
    source = pp.scan(file)
    assert source.columns == ("FSC-A", "CD3", "CD/4", "Time") and source.n_rows == 500


def test_a_marker_that_two_detectors_share_goes_with_its_detector(tmp_path: Path) -> None:
    file = write(tmp_path / "a.fcs", fcs(EVENTS, ["A", "H", "W", "T"], markers=["CD3", "CD3", "CD4", ""]))
    assert pp.scan(file).columns == ("CD3 A", "CD3 H", "CD4", "T")


KINDS: dict[str, dict[str, Any]] = {
    "floats": {},
    "doubles": {"types": ["f8"] * 4},
    "big-endian floats": {"order": ">"},
    "16-bit integers": {"types": ["u2"] * 4},
    "32-bit integers, masked": {"types": ["u4"] * 4, "P2R": "256", "P3R": "1000"},
    "big-endian mixed integers": {"types": ["u2", "u4", "u1", "u4"], "order": ">", "P3R": "256"},
    "logarithmic integers": {
        "types": ["u2"] * 4,
        "P1R": "65536",
        "P4R": "65536",
        "P2E": "4,1",
        "P2R": "1024",
        "P3E": "4,0",
        "P3R": "1024",
    },
    "gain and time step": {"P2G": "4.0", "TIMESTEP": "0.01"},
    "FCS 3.0": {"version": "FCS3.0"},
    "FCS 2.0": {"version": "FCS2.0", "BEGINDATA": None, "ENDDATA": None},
    "another separator": {"separator": "|"},
    "a form feed as separator": {"separator": "\x0c"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_are_those_of_flowio(kind: str, tmp_path: Path) -> None:
    events = np.abs(EVENTS) if "integers" in kind else EVENTS
    file = write(tmp_path / "a.fcs", fcs(events, NAMES, **KINDS[kind]))
    expected = flowio.FlowData(str(file)).as_array()
    np.testing.assert_allclose(values(pp.scan(file)), expected, rtol=1e-12)


def test_a_file_that_flowio_writes_is_read(tmp_path: Path) -> None:
    with (tmp_path / "a.fcs").open("wb") as f:
        flowio.create_fcs(f, EVENTS.ravel().tolist(), NAMES, MARKERS, {"spillover": SPILL})
    source = pp.scan(tmp_path / "a.fcs")
    assert source.columns == ("FSC-A", "CD3", "CD/4", "Time")
    assert np.array_equal(values(source), EVENTS)


def test_several_files_are_read_one_after_the_other_by_the_channels_they_share(tmp_path: Path) -> None:
    write(tmp_path / "a.fcs", fcs(EVENTS, NAMES, markers=MARKERS))
    write(tmp_path / "b.fcs", fcs(EVENTS[:, ::-1] + 1, NAMES[::-1], markers=["", "CD/4", "CD3", "x"]))
    source = pp.scan(tmp_path)
    assert source.columns == ("CD3", "CD/4", "Time") and source.n_rows == 1000
    assert np.array_equal(values(source, ["CD/4", "CD3"]), np.vstack([EVENTS[:, [2, 1]], EVENTS[:, [2, 1]] + 1]))
    parts = list(source.parts())
    assert [start for _, start in parts] == [0, 500]
    assert np.array_equal(np.vstack([values(p) for p, _ in parts]), values(source))
    assert np.array_equal(
        values(pickle.loads(pickle.dumps(parts[1][0]))), values(source)[500:]
    )  # as a cluster sends it


def test_an_end_of_data_one_byte_too_far_is_forgiven(tmp_path: Path) -> None:
    data = fcs(EVENTS, NAMES)
    begin = int(data[26:34])
    late = data.replace(f"{begin + 7999:<12}".encode(), f"{begin + 8000:<12}".encode())
    assert np.array_equal(values(pp.scan(write(tmp_path / "a.fcs", late))), EVENTS)


def test_offsets_in_the_header_do_where_those_of_the_text_do_not_fit(tmp_path: Path) -> None:
    file = write(tmp_path / "a.fcs", fcs(EVENTS, NAMES, BEGINDATA="0", ENDDATA="0"))
    assert np.array_equal(values(pp.scan(file)), EVENTS)


# -- compensation and transforms -----------------------------------------------------------------------------------


def test_compensation_by_the_file_undoes_its_spillover(file: Path) -> None:
    raw, out = values(pp.scan(file)), values(pp.scan(file, compensation="file"))
    np.testing.assert_allclose(out[:, 1:3] @ S, raw[:, 1:3], rtol=1e-12)
    assert np.array_equal(out[:, [0, 3]], raw[:, [0, 3]])
    one = values(pp.scan(file, compensation="file"), ["CD/4"])
    assert np.array_equal(one[:, 0], out[:, 2])


@pytest.mark.parametrize(
    "lines", [["CD/4,CD3", "1,0.25", "0.1,1"], ["detector,FL1-A,FL2-A", "FL1-A,1,0.1", "FL2-A,0.25,1"]]
)
def test_a_matrix_in_a_csv_file_does_the_same(file: Path, lines: list[str], tmp_path: Path) -> None:
    (tmp_path / "matrix.csv").write_text("\n".join(lines) + "\n")
    given = values(pp.scan(file, compensation=tmp_path / "matrix.csv"))
    np.testing.assert_allclose(given, values(pp.scan(file, compensation="file")), rtol=1e-12)


@pytest.mark.parametrize(("spec", "s"), [("arcsinh:5", Arcsinh(5.0)), ("logicle", Logicle())])
def test_transforms_leave_scatter_and_time_alone(file: Path, spec: str, s: Any) -> None:
    raw, out = values(pp.scan(file)), values(pp.scan(file, transform=spec))
    assert np.array_equal(out[:, [0, 3]], raw[:, [0, 3]])
    np.testing.assert_allclose(out[:, 1:3], s(raw[:, 1:3]), rtol=1e-12)


def labelled(path: Path, n: int, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = np.column_stack([rng.normal(100 + 900 * y, 80), rng.normal(1000 - 900 * y, 80), y])
    return write(
        path,
        fcs(X.astype(np.float32), ["FL1-A", "FL2-A", "gate"], markers=["CD3", "CD4", "population"], SPILLOVER=SPILL),
    )


def test_a_model_keeps_how_its_reference_was_read(tmp_path: Path) -> None:
    reference = pp.scan(
        labelled(tmp_path / "r.fcs", 600, 0), compensation="file", transform="arcsinh:20", along="population"
    )
    model = pp.RFFM(n_features=40, bandwidth=1.0).fit(reference, y="population")
    again = from_bytes(model.to_bytes())
    assert again.reading_ == model.reading_ == reference.reading
    assert again.reading_["transform"] == "arcsinh:20.0"
    batch = labelled(tmp_path / "b.fcs", 400, 1)
    options = {k: v for k, v in again.reading_.items() if k != "format"}
    est = again.estimate(pp.scan(batch, **options))
    assert est.proportions == pytest.approx([0.5, 0.5], abs=0.1) and est.classes.tolist() == [0, 1]


def test_a_given_matrix_travels_with_the_model(tmp_path: Path) -> None:
    (tmp_path / "matrix.csv").write_text("FL1-A,FL2-A\n1,0.1\n0.25,1\n")
    file = labelled(tmp_path / "r.fcs", 200, 0)
    reading = json.loads(json.dumps(pp.scan(file, compensation=tmp_path / "matrix.csv").reading))
    (tmp_path / "matrix.csv").unlink()
    again = pp.scan(file, compensation=reading["compensation"])
    np.testing.assert_allclose(values(again), values(pp.scan(file, compensation="file")), rtol=1e-12)


# -- what is refused -----------------------------------------------------------------------------------------------

GOOD = fcs(EVENTS, NAMES)
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not an FCS file"),
    "text": (b"a,b,c\n1,2,3\n" * 10, "not an FCS file"),
    "newer": (b"FCS3.2" + GOOD[6:], "FCS3.2 is not read"),
    "cut in the header": (GOOD[:40], "ends within the header, after 40 of 58"),
    "cut in the text": (GOOD[:300], "lies outside the file of 300 bytes"),
    "cut in the data": (GOOD[:-100], "truncated: 500 events of 16 bytes end at byte .*, 493 whole events"),
    "offsets of letters": (GOOD[:10] + b"  abc   " + GOOD[18:], "bytes 10 to 17 of the header"),
    "a keyword lost": (fcs(EVENTS, NAMES, PAR=None), r"lacks the keyword \$PAR"),
    "a channel lost": (fcs(EVENTS, NAMES, P3N=None), r"lacks the keyword \$P3N"),
    "no channels": (fcs(EVENTS, NAMES, PAR="0"), r"\$PAR=0"),
    "too many channels": (fcs(EVENTS, NAMES, PAR="9999999999999"), r"lacks the keyword \$P5N"),
    "a number of 5,000 digits": (fcs(EVENTS, NAMES, TOT="9" * 5000), r"\$TOT is"),
    "more events than bytes": (fcs(EVENTS, NAMES, TOT="501"), r"\$TOT=501 events of 16 bytes do not fit"),
    "text events": (fcs(EVENTS, NAMES, DATATYPE="A"), r"\$DATATYPE=A is not read"),
    "histograms": (fcs(EVENTS, NAMES, MODE="U"), "holds histograms"),
    "a middle-endian machine": (fcs(EVENTS, NAMES, BYTEORD="3,4,1,2"), r"\$BYTEORD=3,4,1,2 is not read"),
    "10 bits": (fcs(EVENTS, NAMES, P2B="10"), r"\$P2B=10 bits"),
    "a scale of words": (fcs(EVENTS, NAMES, P2E="log"), r"\$P2E='log' is not two numbers"),
    "a scale below zero": (fcs(EVENTS, NAMES, P2E="-4,1"), "the scale of channel 2 makes no sense"),
    "two data sets": (fcs(EVENTS, NAMES, NEXTDATA="9000"), "more than one data set"),
    "one name twice": (fcs(EVENTS, ["A", "B", "A", "C"]), "2 channels are called 'A'"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_damaged_file_is_refused_with_its_place(what: str, tmp_path: Path) -> None:
    data, says = BAD[what]
    file = write(tmp_path / "bad.fcs", data)
    with pytest.raises(pp.FileError, match=says) as caught:
        pp.scan(file)
    assert str(file) in str(caught.value)


def test_a_file_that_shrinks_while_it_is_read_is_refused(file: Path) -> None:
    source = pp.scan(file)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(pp.FileError, match="ends within event 493 of 500"):
        values(source)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"compensation": "file"}, "has no spillover matrix"),
        ({"compensation": "nowhere.csv"}, "cannot be read"),
        ({"compensation": {"detectors": ["FL9"], "matrix": [[1.0]]}}, "names 'FL9', which .* does not have"),
        ({"compensation": {"detectors": ["FL1-A", "FL2-A"], "matrix": [[1, 1], [1, 1]]}}, "cannot be inverted"),
        ({"compensation": {"detectors": ["FL1-A"], "matrix": [[1, 2]]}}, "a matrix of shape"),
        ({"transform": "sqrt"}, "no scale"),
        ({"cofactor": 5}, "take no option 'cofactor'"),
    ],
)
def test_options_that_cannot_be_kept_are_refused(options: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(pp.ProportioError, match=says):
        pp.scan(write(tmp_path / "a.fcs", GOOD), **options)


def test_a_channel_that_is_not_there_is_named_with_those_that_are(file: Path) -> None:
    with pytest.raises(pp.MismatchError, match=r"has no channel 'CD8'; it has 'FSC-A', 'CD3'"):
        list(pp.scan(file).batches(["CD8"]))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutated_files_raise_nothing_but_our_errors(data: st.DataObject) -> None:
    changed = bytearray(fcs(EVENTS[:5], NAMES, markers=MARKERS, SPILLOVER=SPILL))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at] = data.draw(st.integers(0, 255) | st.sampled_from(b"0123456789/,$-"))
    file = io.BytesIO(bytes(changed[: data.draw(st.integers(len(changed) // 2, len(changed)))]))
    with contextlib.suppress(pp.ProportioError):
        layout = read_layout(file, "mutated")
        raw = layout.read(file, 0, layout.n_rows)
        for i in range(len(layout.channels)):
            assert len(layout.column(raw, i)) == layout.n_rows
        layout.spillover()
