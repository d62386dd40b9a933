"""Where and how cells run: `contract` says what an executor is, `local` is this machine, `fake` is for tests."""
