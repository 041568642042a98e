"""Preloaded into the server of forks, which ends after all other processes of a run.

The server removes their folder for temporary files, which stays if the run was killed.
"""

import atexit
import os
import shutil

from keras_policies.cli.many import FOLDER

_owner, _folder = os.getpid(), os.environ.get(FOLDER)


def _remove() -> None:
    if _folder and os.getpid() == _owner:  # not in a fork
        shutil.rmtree(_folder, ignore_errors=True)


atexit.register(_remove)
