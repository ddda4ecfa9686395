# SPDX-License-Identifier: Apache-2.0
"""Plans that their maker has signed: `sinter sign`, load(require_signature=..), allow_custom_code."""
import subprocess
import sys

import pytest

import pysinter


def command(*words):
    done = subprocess.run([sys.executable, "-m", "pysinter", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def signed(plan, tmp_path):
    plan.save(tmp_path / "plain.plan")
    for key in ("own", "other"):
        command("sign", "--new-key", tmp_path / key)
    command("sign", tmp_path / "plain.plan", "--key", tmp_path / "own", "-o", tmp_path / "signed.plan")
    return tmp_path


def test_a_plan_is_loaded_by_its_makers_key_alone(signed, plan, x):
    own = pysinter.load(signed / "signed.plan", require_signature=signed / "own.pub")
    assert own(x).tobytes() == plan(x).tobytes()
    data, text = (signed / "signed.plan").read_bytes(), (signed / "own.pub").read_text()
    assert pysinter.load(data, require_signature=text)(x).tobytes() == plan(x).tobytes()
    assert pysinter.load(data)(x).tobytes() == plan(x).tobytes()  # who requires none
    with pytest.raises(pysinter.InvalidPlanError, match="has no signature"):
        pysinter.load(signed / "plain.plan", require_signature=signed / "own.pub")
    with pytest.raises(pysinter.InvalidPlanError, match="not by the key that is required"):
        pysinter.load(signed / "signed.plan", require_signature=signed / "other.pub")
    for at in (0, 40, len(data) // 2, len(data) - 104, len(data) - 1):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(pysinter.InvalidPlanError, match="signature"):
            pysinter.load(bytes(changed), require_signature=text)


def test_keys_that_are_none_are_named(signed):
    for wrong in ("", "nothing", signed / "own", signed):
        with pytest.raises(pysinter.UsageError):
            pysinter.load(signed / "signed.plan", require_signature=wrong)


def test_data_needs_nobody_to_vouch_for_it(signed, x):
    pysinter.load(signed / "plain.plan", allow_custom_code=False)(x)
