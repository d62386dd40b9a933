"""The probe's tests, in the folders of harness/dsregress/probe.

Those that need torch or a framework are skipped where there is none; tests/functional/test_probe.py runs all of them inside
environments of real releases, with those of programs, of the virtual GPU and of skeletons, as does
``PYTHON -m pytest tests/probe tests/programs tests/vgpu tests/skeletons`` with the interpreter of such an environment.
"""
