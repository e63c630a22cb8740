"""Jobs that start at the same time take different cards, and a card is free again after its job."""

import subprocess
import sys

import pytest
import torch

from wordsens import devices
from wordsens.scripting import torch_device

JOB = """
import sys
from pathlib import Path
from wordsens.devices import claim
print(claim(["a", "b", "c"], Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def jobs(folder, count):
    return [
        subprocess.Popen(
            [sys.executable, "-c", JOB, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]


def test_jobs_share_a_card_only_when_all_are_taken(tmp_path):
    running = jobs(tmp_path / "locks", 5)
    taken = [job.stdout.readline().strip() for job in running]
    assert sorted(taken) == ["0", "1", "2", "None", "None"]
    killed = running[taken.index("1")]
    killed.kill()
    killed.wait()
    (late,) = jobs(tmp_path / "locks", 1)
    assert late.stdout.readline().strip() == "1"
    for job in [*running, late]:
        job.kill()
        job.communicate()


class Card:
    def __init__(self, uuid):
        self.uuid = uuid


@pytest.fixture
def three_cards(monkeypatch, tmp_path):
    cards = [Card("one"), Card("two"), Card("three")]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(cards))
    monkeypatch.setattr(torch.cuda, "get_device_properties", cards.__getitem__)
    monkeypatch.setattr(devices, "_folder", lambda: tmp_path)
    monkeypatch.setattr(devices, "_held", [])


def test_the_card_of_most_free_memory_is_taken_first(monkeypatch, three_cards):
    monkeypatch.setattr(devices, "_free_memory", lambda: {"one": 10, "two": 30, "three": 20})
    assert [devices.take_device() for _ in range(3)] == [1, 2, 0]
    assert devices.take_device() == 1  # all are taken: the one of most memory is shared


def test_without_nvidia_smi_cards_are_taken_in_order(monkeypatch, three_cards):
    monkeypatch.setattr(devices.shutil, "which", lambda name: None)
    assert [devices.take_device() for _ in range(3)] == [0, 1, 2]


def test_free_memory_is_read_from_nvidia_smi(monkeypatch, tmp_path):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nprintf 'GPU-one, 81000\\nGPU-two, [N/A]\\n'\n")
    tool.chmod(0o755)
    monkeypatch.setattr(devices.shutil, "which", lambda name: str(tool))
    assert devices._free_memory() == {"one": 81000}
    tool.write_text("#!/bin/sh\nexit 9\n")
    assert devices._free_memory() == {}


def test_auto_without_a_card_is_the_cpu():
    if not torch.cuda.is_available():
        assert torch_device("auto") == "cpu"
    assert torch_device("cpu") == "cpu"
