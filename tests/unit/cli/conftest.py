# SPDX-License-Identifier: Apache-2.0
"""Documents that commands write in this process hold what reference/json.md tells."""

import json

import pytest
from support.documents.json_members import wrong_in

from tilewright.cli.common.json_output import JsonTarget
from tilewright.host.common.result_document import result_document, to_json


@pytest.fixture
def told_members(monkeypatch):
    """Compare every document with `docs/site/json_members.yaml`."""
    write = JsonTarget.write

    def compared(self, rows, conditions, **more):
        text = to_json(result_document(self.command, rows, conditions, **more))
        assert not (wrong := wrong_in(json.loads(text))), "\n".join(wrong)
        write(self, rows, conditions, **more)

    monkeypatch.setattr(JsonTarget, "write", compared)
