# SPDX-License-Identifier: Apache-2.0
"""A study: settings, store, oracle and search brought together, resumable at any moment.

Resuming runs the same search again from its first proposal; `Session` answers from the store
whatever a former run measured. The search depends only on the settings and on those answers, so
it takes the same course, repeats no measurement and goes on where the former run ended.
"""

from __future__ import annotations

from tilewright.tuner.measurement import Oracle
from tilewright.tuner.per_layer import run_per_layer
from tilewright.tuner.rules import Rules
from tilewright.tuner.session import Listener, Session, StudyError
from tilewright.tuner.settings import Mode, StudySettings, software_versions
from tilewright.tuner.shared import run_shared
from tilewright.tuner.shortlist import shortlist
from tilewright.tuner.store import Store, StoredStudy

__all__ = ["StudyError", "run_study"]


def run_study(
    name: str,
    settings: StudySettings,
    *,
    store: Store,
    oracle: Oracle,
    rules: Rules,
    listener: Listener,
) -> StoredStudy:
    """Run a study to the end of its budget, or take it up where it was left.

    Args:
        name: unique in the store.
        settings: what to search; must equal the stored ones when the study exists.
        store: where every trial is committed as soon as it is known.
        oracle: who measures; the caller closes it.
        rules: the host's judgements.
        listener: who is told.

    Returns:
        The study's row after the run.

    Raises:
        StoreError: the study exists with other settings, or the store fails.
        StudyError: the base configuration does not fit the board, or stored trials do not
            follow from the settings.
        KeyboardInterrupt: after the study was marked as interrupted.
    """
    fit = rules.fits(settings.base, settings.board)
    if not fit.ok:
        raise StudyError(
            f"the base configuration must fit {settings.board.name} ({fit.text})",
            field="hw",
            value=settings.base.name,
            remedy="choose a smaller --hw or another --board",
        )
    identity = {**settings.to_mapping(), "oracle": oracle.identity, "fidelity": oracle.fidelity}
    study = store.open_study(name, identity, software_versions())
    session = Session(
        settings, store=store, study=study, oracle=oracle, rules=rules, listener=listener
    )
    if session.replayed:
        listener.note(f"resuming {name}: {session.replayed} trials are already in the store")
    try:
        session.prepare(settings.base)
        configs = shortlist(
            settings.board, settings.base, rules, session.network_bound, settings.configs
        )
        if settings.mode is Mode.SHARED:
            run_shared(session, configs)
        else:
            run_per_layer(session, configs)
    except BaseException:
        store.set_status(study.id, "interrupted")
        raise
    finally:
        session.close()
    if session.replaying:
        raise StudyError(
            "the stored trials do not follow from the settings (more are stored than the "
            "search makes)",
            field=name,
            remedy="the software has changed since: start another study with --name",
        )
    store.set_status(study.id, "complete")
    return store.study(name)
