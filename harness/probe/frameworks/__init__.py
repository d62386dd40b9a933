"""One module per framework under test; see `harness.probe.framework` for what each offers."""
