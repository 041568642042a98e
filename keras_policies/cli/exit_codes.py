"""The exit codes of the command; `main` says what they mean."""

OK, FAILED, WRONG, PARTLY = 0, 1, 2, 3  # exit codes
SIGNALLED = 128  # plus the number of a signal, by the convention of shells
