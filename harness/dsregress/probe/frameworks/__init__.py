"""One module per framework under test; see `dsregress.probe.framework` for what each offers."""
