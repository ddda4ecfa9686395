# SPDX-License-Identifier: Apache-2.0
"""`sinter run` over Parquet: results, order, errors of each stage, Ctrl-C."""
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import pysinter

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
NAMES = [f"f{i}" for i in range(8)]
ROWS = 1000


def run(*words, **options):
    return subprocess.run([sys.executable, "-m", "pysinter", "run", *map(str, words)], capture_output=True, text=True,
                          **options)


@pytest.fixture
def files(plan, tmp_path):
    rows = np.random.default_rng(6).standard_normal((ROWS, 8), np.float32)
    table = pa.table({"id": np.arange(ROWS)} | {name: rows[:, i] for i, name in enumerate(NAMES)})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=300)
    plan.save(tmp_path / "mlp.plan")
    return tmp_path, rows


def words(folder, *more):
    return (folder / "mlp.plan", "--inputs", folder / "in.parquet", "--outputs", folder / "out.parquet", "--columns",
            "x=" + ",".join(NAMES), *more)


def test_rows_come_in_order(files, reference):
    folder, rows = files
    done = run(*words(folder, "--keep", "id", "--json"))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["rows"] == ROWS and report["batch_rows"] == 64 and set(report["busy_seconds"]) == {"read", "fill",
                                                                                                     "compute"}
    table = pq.read_table(folder / "out.parquet")
    assert table.schema.names == ["y", "id"] and table["id"].to_pylist() == list(range(ROWS))
    found = table["y"].combine_chunks().flatten().to_numpy().reshape(-1, 4)
    np.testing.assert_allclose(found, reference(rows), rtol=1e-5, atol=1e-5)
    assert sorted(each.name for each in folder.iterdir()) == ["in.parquet", "mlp.plan", "out.parquet"]


def test_flags_of_all_verbs(files):
    folder, _ = files
    done = subprocess.run([sys.executable, "-m", "pysinter", "--json", "-q", "run", *map(str, words(folder))],
                          capture_output=True, text=True)
    assert done.returncode == 0 and json.loads(done.stdout)["rows"] == ROWS, done.stderr
    done = run("--help")
    assert done.returncode == 0 and "the Python package's command" in done.stdout  # of the verb in C++
    done = run("--inputs", "rows.parquet", "--help")
    assert done.returncode == 0 and "--columns" in done.stdout


def test_a_folder_of_files(files, reference):
    folder, rows = files
    (folder / "parts").mkdir()
    table = pq.read_table(folder / "in.parquet")
    for part in range(4):
        pq.write_table(table.slice(part * 250, 250), folder / "parts" / f"{part}.parquet")
    done = run(folder / "mlp.plan", "--inputs", folder / "parts", "--outputs", folder / "out.parquet",
               "--columns=x=" + ",".join(NAMES), "--batch-rows", 50)
    assert done.returncode == 0 and done.stdout.startswith("1000 rows in"), done.stderr
    found = pq.read_table(folder / "out.parquet")["y"].combine_chunks().flatten().to_numpy().reshape(-1, 4)
    np.testing.assert_allclose(found, reference(rows), rtol=1e-5, atol=1e-5)


def test_what_is_refused(files):
    folder, _ = files
    (folder / "junk.parquet").write_bytes(b"junk" * 9)
    empty = pa.table({name: pa.array([], pa.float32()) for name in NAMES})
    pq.write_table(empty, folder / "empty.parquet")
    plan, outputs, columns = folder / "mlp.plan", ("--outputs", folder / "out.parquet"), "--columns=x=*"
    for given, message in (
            ((plan, "--inputs", folder / "none.parquet", *outputs, columns), "none.parquet"),
            ((plan, "--inputs", folder / "junk.parquet", *outputs, columns), "is no Parquet file"),
            ((plan, "--inputs", folder / "empty.parquet", *outputs, columns), "has no rows"),
            ((plan, "--inputs", folder / "in.parquet", *outputs), "has no column 'x'; it has id, f0"),
            ((plan, "--inputs", folder / "in.parquet", *outputs, "--columns", "x"), "write INPUT=..."),
            ((plan, "--inputs", folder / "in.parquet", *outputs, "--columns", "z=f0"), "no input 'z'"),
            ((plan, "--inputs", folder / "in.parquet", *outputs, columns), "is i64, and the plan takes f32"),
            ((plan, "--inputs", folder / "in.parquet", "--outputs", folder / "out.npz", columns), "out.npz"),
            ((plan, "--inputs", folder / "in.parquet", "--outputs", folder / "in.parquet", columns), "is the input"),
            ((plan, "--inputs", folder / "in.parquet", "--outputs", folder / "no/out.parquet", columns), "no folder"),
            (words(folder, "--keep", "g"), "has no column 'g'"),
            (words(folder, "--batch-rows", "65"), "1 to 64 rows")):
        done = run(*given)
        assert done.returncode == 2 and message in done.stderr, done.stderr
        assert done.stderr.count("error:") == 1 and "Traceback" not in done.stderr
    assert run(folder / "in.parquet", *words(folder)[1:]).returncode == 5
    done = run(*words(folder, "--keep", "g", "--json"))
    assert json.loads(done.stdout)["error"]["code"] == "usage"
    assert not (folder / "out.parquet").exists() and not list(folder.glob("*.tmp"))


def test_an_error_in_the_middle_ends_all_stages(files):
    """A null in the last row group, and a file that is damaged behind its first."""
    folder, _ = files
    table = pq.read_table(folder / "in.parquet")
    values = table["f3"].to_pylist()
    values[950] = None
    table = table.set_column(4, "f3", pa.array(values, pa.float32()))
    pq.write_table(table, folder / "in.parquet", row_group_size=300)
    done = run(*words(folder))
    assert done.returncode == 2 and "column 'f3' has 1 nulls" in done.stderr and done.stderr.count("error:") == 1
    assert not (folder / "out.parquet").exists() and not list(folder.glob("*.tmp"))
    assert run(*words(folder, "--nulls", "nan")).returncode == 0
    found = pq.read_table(folder / "out.parquet")["y"].to_pylist()
    assert np.isnan(found[950]).all() and not np.isnan(found[949]).any()
    (folder / "out.parquet").unlink()
    damaged = bytearray((folder / "in.parquet").read_bytes())
    begin = pq.ParquetFile(folder / "in.parquet").metadata.row_group(2).column(3).data_page_offset
    damaged[begin:begin + 40] = b"\xff" * 40
    (folder / "in.parquet").write_bytes(damaged)
    done = run(*words(folder))
    assert done.returncode == 2 and "row group 2" in done.stderr and done.stderr.count("error:") == 1
    assert not (folder / "out.parquet").exists() and not list(folder.glob("*.tmp"))


def test_interrupt(files):
    folder, rows = files
    table = pa.table({name: np.tile(rows[:, i], 2000) for i, name in enumerate(NAMES)})
    pq.write_table(table, folder / "in.parquet", row_group_size=1000)
    process = subprocess.Popen([sys.executable, "-m", "pysinter", "run", *map(str, words(folder, "--batch-rows=10"))],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(folder.glob("*.tmp")) and time.monotonic() < deadline:  # it writes
        time.sleep(0.02)
    assert list(folder.glob("*.tmp"))
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and said.strip() == "interrupted", said
    assert not (folder / "out.parquet").exists() and not list(folder.glob("*.tmp"))


def test_the_pipeline_gives_up_when_nobody_listens(plan):
    from pysinter._pipeline import Pipeline
    from pysinter._tables import batches_of, inputs_of
    (batch,) = batches_of({name: np.zeros(64, np.float32) for name in NAMES}, NAMES)
    inputs = inputs_of(plan, None, {"x": NAMES})
    endless = ((number, batch, 0, 64) for number in iter(int, 1))
    with Pipeline(plan, endless, inputs) as pipeline:
        for _, (tag, result) in zip(range(5), pipeline):
            assert tag == 0 and result.rows == 64
    assert not any(thread.is_alive() for thread in pipeline._threads)

    def failing():
        yield 0, batch, 0, 64
        raise ValueError("the reader's own")

    with pytest.raises(ValueError, match="the reader's own"):
        list(Pipeline(plan, failing(), inputs))
    with pytest.raises(pysinter.UsageError, match="has 64 rows; 65 are wanted"):
        list(Pipeline(plan, [(0, batch, 0, 65)], inputs))
