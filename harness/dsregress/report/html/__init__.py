"""The report as a static site: plain files that work from ``file://``, without a network and without scripts.

`dsregress.report.html.site.build_site` writes it.
"""
